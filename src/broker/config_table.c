#include "broker/config_table.h"
#include "broker/config_duration.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/assert.h"

enum { NUMBER_CHARS_MAX = 63, NAME_CHARS_MAX = 127 };

/* clang-format off */
/* What a row's status says. */
#define HONOURED           {CONFIG_HONOURED, ""}
#define INTERNAL           {CONFIG_INTERNAL, ""}
#define NO_BUFFERS         {CONFIG_WITHOUT_EFFECT, "coordinators keep no buffers"}
#define NO_SHARE           {CONFIG_WITHOUT_EFFECT, "there are no share groups yet"}
#define NO_STREAMS         {CONFIG_WITHOUT_EFFECT, "there are no streams groups yet"}
#define NO_TRANSACTIONS    {CONFIG_WITHOUT_EFFECT, "there are no transactions yet"}
#define NO_SECURITY        {CONFIG_WITHOUT_EFFECT, "there is no authentication or encryption yet"}
#define NO_QUOTAS          {CONFIG_WITHOUT_EFFECT, "there are no quotas yet"}
#define NO_TIERS           {CONFIG_WITHOUT_EFFECT, "there is no tiered storage"}
#define NO_REPLICAS        {CONFIG_WITHOUT_EFFECT, "a single node replicates nothing"}
#define NO_PEERS           {CONFIG_WITHOUT_EFFECT, "a single node connects to no other"}
#define ONE_VOTER          {CONFIG_WITHOUT_EFFECT, "a quorum of one holds no elections and sends no heartbeats"}
#define NO_REPORTERS       {CONFIG_WITHOUT_EFFECT, "there are no metric reporters"}
#define NO_PURGATORY       {CONFIG_WITHOUT_EFFECT, "what waits is kept in lists that need no purge"}
#define METADATA_KEPT      {CONFIG_WITHOUT_EFFECT, "nothing of the metadata log is deleted yet"}
#define NO_PREALLOCATION   {CONFIG_WITHOUT_EFFECT, "segments grow as they are written"}
#define NO_CORDONS         {CONFIG_WITHOUT_EFFECT, "log directories cannot be cordoned yet"}
#define NO_PAGED_TOPICS    {CONFIG_WITHOUT_EFFECT, "there is no DescribeTopicPartitions yet"}
#define CODEC_LEVELS       {CONFIG_WITHOUT_EFFECT, "codecs run at their own default levels"}
#define CHECKPOINTS        {CONFIG_WITHOUT_EFFECT, "checkpoint files follow every change within a second"}
#define BUDGET             {CONFIG_WITHOUT_EFFECT, "what waits is bounded by memory, not by number"}
#define JAVA_CLASS         {CONFIG_WITHOUT_EFFECT, "it names a Java class"}
#define REACTORS           {CONFIG_WITHOUT_EFFECT, "reactors and I/O threads do this work: ottla.reactors, ottla.io.threads"}
#define REFUSED_AUTHORIZER {CONFIG_REFUSED, "there is no authorizer yet, and ignoring it would open what it should guard"}

#define NO_DEFAULT         NULL
#define ANY                {NULL, INT64_MIN, INT64_MAX}
#define FROM(low)          {NULL, low, INT64_MAX}
#define BETWEEN(low, high) {NULL, low, high}
#define ONE_OF(list)       {list, INT64_MIN, INT64_MAX}
/* clang-format on */

static const struct config_key table[CONFIG_KEY_COUNT] = {
#define KEY(symbol, name, type, value, range, unit, scope, status)                                                     \
    [CONFIG_##symbol] = {name, value, range, status, CONFIG_TYPE_##type, CONFIG_UNIT_##unit, CONFIG_SCOPE_##scope},
#include "broker/config_keys.def"
};

static const struct {
    enum config_id id;
    enum config_id other;
} synonyms[] = {
#define SYNONYM(key, other) {CONFIG_##key, CONFIG_##other},
#include "broker/config_keys.def"
};

const struct config_key *config_key(enum config_id id)
{
    assert(id < CONFIG_KEY_COUNT);
    return &table[id];
}

static bool is_topic(const struct config_key *key)
{
    return key->scope == CONFIG_SCOPE_TOPIC;
}

static bool is_group(const struct config_key *key)
{
    return key->scope == CONFIG_SCOPE_GROUP;
}

static bool is_broker(const struct config_key *key)
{
    return !is_topic(key) && !is_group(key);
}

static enum config_id find(struct bytes name, bool (*belongs)(const struct config_key *key))
{
    for (enum config_id id = 0; id < CONFIG_KEY_COUNT; id++)
        if (belongs(&table[id]) && bytes_equal(bytes_of_text(table[id].name), name))
            return id;
    return CONFIG_NONE;
}

enum config_id config_find_broker_key(struct bytes name)
{
    return find(name, is_broker);
}

enum config_id config_find_topic_key(struct bytes name)
{
    return find(name, is_topic);
}

enum config_id config_find_group_key(struct bytes name)
{
    return find(name, is_group);
}

/* Levenshtein's distance; both no longer than NAME_CHARS_MAX. */
static uint32_t distance(struct bytes a, struct bytes b)
{
    uint32_t row[NAME_CHARS_MAX + 1];

    for (uint32_t j = 0; j <= b.size; j++)
        row[j] = j;
    for (uint32_t i = 1; i <= a.size; i++) {
        uint32_t diagonal = row[0];

        row[0] = i;
        for (uint32_t j = 1; j <= b.size; j++) {
            uint32_t change = diagonal + (a.data[i - 1] != b.data[j - 1]);
            uint32_t shift = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;

            diagonal = row[j];
            row[j] = change < shift ? change : shift;
        }
    }
    return row[b.size];
}

const char *config_nearest_broker_key(struct bytes name)
{
    const char *nearest = NULL;
    uint32_t best = (uint32_t)name.size / 4 + 1; /* farther than that is another word, not a slip */

    if (name.size > NAME_CHARS_MAX)
        return NULL;
    for (enum config_id id = 0; id < CONFIG_KEY_COUNT; id++) {
        struct bytes key = bytes_of_text(table[id].name);
        size_t longer = key.size > name.size ? key.size - name.size : name.size - key.size;
        uint32_t away = 0;

        if (!is_broker(&table[id]) || longer >= best) /* no nearer than that */
            continue;
        away = distance(name, key);
        if (away < best) {
            best = away;
            nearest = table[id].name;
        }
    }
    return nearest;
}

enum config_id config_synonym(enum config_id id, uint32_t n)
{
    for (size_t i = 0; i < sizeof(synonyms) / sizeof(synonyms[0]); i++)
        if (synonyms[i].id == id && n-- == 0)
            return synonyms[i].other;
    return CONFIG_NONE;
}

static int64_t type_min(const struct config_key *key)
{
    int64_t low = key->type == CONFIG_TYPE_INT ? INT32_MIN : key->type == CONFIG_TYPE_SHORT ? INT16_MIN : INT64_MIN;

    return key->range.min > low ? key->range.min : low;
}

static int64_t type_max(const struct config_key *key)
{
    int64_t high = key->type == CONFIG_TYPE_INT ? INT32_MAX : key->type == CONFIG_TYPE_SHORT ? INT16_MAX : INT64_MAX;

    return key->range.max < high ? key->range.max : high;
}

static const char *unit_phrase(enum config_unit unit)
{
    static const char *const phrases[] = {
        [CONFIG_UNIT_NONE] = "",
        [CONFIG_UNIT_US] = " of microseconds",
        [CONFIG_UNIT_MS] = " of milliseconds",
        [CONFIG_UNIT_SECONDS] = " of seconds",
        [CONFIG_UNIT_MINUTES] = " of minutes",
        [CONFIG_UNIT_HOURS] = " of hours",
        [CONFIG_UNIT_BYTES] = " of bytes",
        [CONFIG_UNIT_BYTES_PER_SECOND] = " of bytes per second",
    };

    return phrases[unit];
}

static bool is_gzip_level(const struct config_key *key)
{
    return strcmp(key->name, "compression.gzip.level") == 0;
}

static bool is_replica_list(const struct config_key *key)
{
    return key->type == CONFIG_TYPE_LIST && strstr(key->name, ".replication.throttled.replicas") != NULL;
}

void config_accepted(enum config_id id, struct config_why *accepted)
{
    const struct config_key *key = config_key(id);
    const char *unit = unit_phrase(key->unit);

    if (is_gzip_level(key)) {
        (void)snprintf(accepted->text, sizeof(accepted->text), "a whole number from 1 to 9, or -1");
        return;
    }
    if (is_replica_list(key)) {
        (void)snprintf(accepted->text, sizeof(accepted->text), "* or a list of partition:broker");
        return;
    }
    switch (key->type) {
    case CONFIG_TYPE_BOOLEAN:
        (void)snprintf(accepted->text, sizeof(accepted->text), "true or false");
        break;
    case CONFIG_TYPE_INT:
    case CONFIG_TYPE_SHORT:
    case CONFIG_TYPE_LONG:
        if (type_max(key) == INT64_MAX && type_min(key) == INT64_MIN)
            (void)snprintf(accepted->text, sizeof(accepted->text), "a whole number%s", unit);
        else if (type_max(key) == INT64_MAX)
            (void)snprintf(accepted->text, sizeof(accepted->text), "a whole number%s of at least %lld", unit,
                           (long long)type_min(key));
        else
            (void)snprintf(accepted->text, sizeof(accepted->text), "a whole number%s from %lld to %lld", unit,
                           (long long)type_min(key), (long long)type_max(key));
        break;
    case CONFIG_TYPE_DOUBLE:
        if (key->range.min == INT64_MIN)
            (void)snprintf(accepted->text, sizeof(accepted->text), "a number");
        else
            (void)snprintf(accepted->text, sizeof(accepted->text), "a number from %lld to %lld",
                           (long long)key->range.min, (long long)key->range.max);
        break;
    case CONFIG_TYPE_LIST:
        (void)snprintf(accepted->text, sizeof(accepted->text), key->range.choices == NULL ? "a list" : "a list of %s",
                       key->range.choices);
        break;
    case CONFIG_TYPE_STRING:
    case CONFIG_TYPE_CLASS:
    case CONFIG_TYPE_PASSWORD:
        (void)snprintf(accepted->text, sizeof(accepted->text), key->range.choices == NULL ? "a text" : "one of %s",
                       key->range.choices);
        break;
    }
}

bool config_list_next(struct bytes *rest, struct bytes *item)
{
    while (rest->size > 0) {
        const uint8_t *comma = memchr(rest->data, ',', rest->size);
        size_t size = comma == NULL ? rest->size : (size_t)(comma - rest->data);
        size_t step = comma == NULL ? size : size + 1;

        *item = bytes_trim(bytes_of(rest->data, size));
        rest->data += step;
        rest->size -= step;
        if (item->size > 0)
            return true;
    }
    return false;
}

bool config_list_has(struct bytes list, struct bytes word)
{
    struct bytes item;

    while (config_list_next(&list, &item))
        if (bytes_equal(item, word))
            return true;
    return false;
}

static bool same_word(struct bytes word, const char *text, bool any_case)
{
    if (word.size != strlen(text))
        return false;
    return any_case ? strncasecmp((const char *)word.data, text, word.size) == 0
                    : memcmp(word.data, text, word.size) == 0;
}

/* A choice with a colon is a form: what is behind it stands for a duration, "by_duration:P1D". */
static bool is_of(struct bytes choice, struct bytes word, bool any_case)
{
    const uint8_t *colon = memchr(choice.data, ':', choice.size);
    size_t size = colon == NULL ? 0 : (size_t)(colon - choice.data) + 1;

    if (colon == NULL)
        return any_case ? bytes_equal_any_case(choice, word) : bytes_equal(choice, word);
    return word.size > size && memcmp(word.data, choice.data, size) == 0 &&
           config_is_duration(bytes_of(word.data + size, word.size - size));
}

static bool is_choice(const char *choices, struct bytes word, bool any_case)
{
    struct bytes rest = bytes_of_text(choices);
    struct bytes choice;

    while (config_list_next(&rest, &choice))
        if (is_of(choice, word, any_case))
            return true;
    return false;
}

static bool read_number(const struct config_key *key, struct bytes text, struct config_value *value)
{
    char copy[NUMBER_CHARS_MAX + 1];
    char *end = NULL;

    if (text.size == 0 || text.size > NUMBER_CHARS_MAX || byte_is_space(text.data[0]))
        return false;
    memcpy(copy, text.data, text.size);
    copy[text.size] = '\0';
    errno = 0;
    if (key->type == CONFIG_TYPE_DOUBLE) {
        value->real = strtod(copy, &end);
        if (*end != '\0' || end == copy || isnan(value->real))
            return false;
        return key->range.min == INT64_MIN ||
               (value->real >= (double)key->range.min && value->real <= (double)key->range.max);
    }
    value->number = strtoll(copy, &end, 10);
    return *end == '\0' && end != copy && errno == 0 && value->number >= type_min(key) &&
           value->number <= type_max(key);
}

static bool is_number(struct bytes text)
{
    for (size_t i = 0; i < text.size; i++)
        if (text.data[i] < '0' || text.data[i] > '9')
            return false;
    return text.size > 0;
}

/* "*", or <partition>:<broker>, ... */
static bool read_replicas(struct bytes rest)
{
    struct bytes item;

    if (bytes_equal(rest, BYTES_LITERAL("*")))
        return true;
    while (config_list_next(&rest, &item)) {
        const uint8_t *colon = memchr(item.data, ':', item.size);

        if (colon == NULL || !is_number(bytes_of(item.data, (size_t)(colon - item.data))) ||
            !is_number(bytes_of(colon + 1, item.size - (size_t)(colon + 1 - item.data))))
            return false;
    }
    return true;
}

static bool has_empty_item(struct bytes list)
{
    bool item_is_empty = true;

    for (size_t i = 0; i < list.size; i++) {
        if (list.data[i] == ',' && item_is_empty)
            return true;
        item_is_empty = list.data[i] == ',' || (item_is_empty && byte_is_space(list.data[i]));
    }
    return list.size > 0 && item_is_empty;
}

static bool read_value(const struct config_key *key, struct bytes text, struct config_value *value)
{
    /* The choices that Kafka compares without regard to case are those it spells in capitals. */
    bool any_case = key->range.choices != NULL && strstr(key->range.choices, "DISABLED") != NULL;
    struct bytes rest = text;
    struct bytes item;

    switch (key->type) {
    case CONFIG_TYPE_BOOLEAN:
        value->number = same_word(text, "true", true);
        return value->number == 1 || same_word(text, "false", true);
    case CONFIG_TYPE_INT:
    case CONFIG_TYPE_SHORT:
    case CONFIG_TYPE_LONG:
    case CONFIG_TYPE_DOUBLE:
        return read_number(key, text, value) && !(is_gzip_level(key) && value->number == 0);
    case CONFIG_TYPE_LIST:
        if (is_replica_list(key))
            return read_replicas(text);
        if (key->range.choices != NULL && has_empty_item(text))
            return false;
        while (key->range.choices != NULL && config_list_next(&rest, &item))
            if (!is_choice(key->range.choices, item, false))
                return false;
        return true;
    case CONFIG_TYPE_STRING:
    case CONFIG_TYPE_CLASS:
    case CONFIG_TYPE_PASSWORD:
        return key->range.choices == NULL || is_choice(key->range.choices, text, any_case);
    }
    return false;
}

enum err config_check(enum config_id id, struct bytes text, struct config_value *value, struct config_why *why)
{
    *value = (struct config_value){0};
    if (text.size > 0 && memchr(text.data, '\0', text.size) != NULL) { /* values are kept as C strings */
        (void)snprintf(why->text, sizeof(why->text), "a value without NUL characters");
        return ERR_INVALID_CONFIG;
    }
    if (read_value(config_key(id), bytes_trim(text), value))
        return ERR_OK;
    config_accepted(id, why);
    return ERR_INVALID_CONFIG;
}
