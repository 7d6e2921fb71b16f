#include "broker/topic_config.h"

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "base/assert.h"

enum { NODE_ID_CHARS = 12 };

bool topic_is_internal(struct bytes name)
{
    return bytes_equal(name, BYTES_LITERAL("__consumer_offsets")) ||
           bytes_equal(name, BYTES_LITERAL("__transaction_state")) ||
           bytes_equal(name, BYTES_LITERAL("__share_group_state"));
}

bool topic_internal_settings(const struct config *config, struct create_topic *topic, struct arena *arena)
{
    static const struct {
        const char *name;
        enum config_id partitions;
        enum config_id factor;
        enum config_id segment_bytes;
        enum config_id min_isr; /* CONFIG_NONE: not set */
        const char *compression;
    } rows[] = {
        {"__consumer_offsets", CONFIG_OFFSETS_TOPIC_NUM_PARTITIONS, CONFIG_OFFSETS_TOPIC_REPLICATION_FACTOR,
         CONFIG_OFFSETS_TOPIC_SEGMENT_BYTES, CONFIG_NONE, "producer"},
        {"__transaction_state", CONFIG_TRANSACTION_STATE_LOG_NUM_PARTITIONS,
         CONFIG_TRANSACTION_STATE_LOG_REPLICATION_FACTOR, CONFIG_TRANSACTION_STATE_LOG_SEGMENT_BYTES,
         CONFIG_TRANSACTION_STATE_LOG_MIN_ISR, "uncompressed"},
        {"__share_group_state", CONFIG_SHARE_COORDINATOR_STATE_TOPIC_NUM_PARTITIONS,
         CONFIG_SHARE_COORDINATOR_STATE_TOPIC_REPLICATION_FACTOR, CONFIG_SHARE_COORDINATOR_STATE_TOPIC_SEGMENT_BYTES,
         CONFIG_SHARE_COORDINATOR_STATE_TOPIC_MIN_ISR, "uncompressed"},
    };
    struct image_config *configs = NULL;
    size_t i = 0;

    while (i < sizeof(rows) / sizeof(rows[0]) && !bytes_equal(topic->name, bytes_of_text(rows[i].name)))
        i++;
    if (i == sizeof(rows) / sizeof(rows[0]))
        return true;
    configs = arena_array(arena, 4, sizeof(*configs));
    if (configs == NULL)
        return false;
    topic->partition_count = config_int(config, rows[i].partitions);
    topic->replication_factor = (int16_t)config_int(config, rows[i].factor);
    topic->configs = configs;
    configs[topic->config_count++] = (struct image_config){BYTES_LITERAL("cleanup.policy"), BYTES_LITERAL("compact")};
    configs[topic->config_count++] =
        (struct image_config){BYTES_LITERAL("compression.type"), bytes_of_text(rows[i].compression)};
    configs[topic->config_count++] = (struct image_config){BYTES_LITERAL("segment.bytes"),
                                                           bytes_of_text(config_text(config, rows[i].segment_bytes))};
    if (rows[i].min_isr != CONFIG_NONE)
        configs[topic->config_count++] = (struct image_config){BYTES_LITERAL("min.insync.replicas"),
                                                               bytes_of_text(config_text(config, rows[i].min_isr))};
    return true;
}

bool topic_name_is_valid(struct bytes name)
{
    if (name.size == 0 || name.size > IMAGE_TOPIC_NAME_BYTES_MAX)
        return false;
    if (bytes_equal(name, BYTES_LITERAL(".")) || bytes_equal(name, BYTES_LITERAL("..")))
        return false;
    for (size_t i = 0; i < name.size; i++) {
        uint8_t c = name.data[i];

        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
              c == '-'))
            return false;
    }
    return true;
}

/* What a request says twice holds as it says it last, as in the image. */
static struct bytes find_entry(const struct image_configs *configs, const char *name)
{
    for (uint32_t i = configs == NULL ? 0 : configs->count; i > 0; i--)
        if (bytes_equal(configs->entries[i - 1].name, bytes_of_text(name)))
            return configs->entries[i - 1].value;
    return (struct bytes){0};
}

/* Collects standing values. */
struct collector {
    const struct config *config;
    const struct image_configs *node;
    const struct image_configs *cluster;
    enum config_id id;
    struct arena *arena;
    struct config_standing_value *values;
    uint32_t count;
    enum err err;
};

static void add(struct collector *to, enum config_id key, struct bytes value, enum config_origin origin)
{
    if (to->count < CONFIG_STANDING_MAX)
        to->values[to->count++] =
            (struct config_standing_value){.name = config_key(key)->name, .value = value, .origin = origin};
}

/* A broker key's text where it stands for the key asked for: hours as milliseconds. */
static struct bytes static_value(struct collector *to, enum config_id key)
{
    char text[CONFIG_NUMBER_CHARS];
    const char *value = config_text_in_unit_of(to->config, key, to->id, text);
    struct bytes copy;

    if (value != text)
        return bytes_of_text(value);
    to->err = arena_copy(to->arena, bytes_of_text(text), &copy);
    return to->err == ERR_OK ? copy : (struct bytes){0};
}

/* Of one broker key: dynamic for this node, for the cluster, in the file. */
static void add_set(struct collector *to, enum config_id key)
{
    struct bytes value = find_entry(to->node, config_key(key)->name);

    if (value.data != NULL)
        add(to, key, value, CONFIG_ORIGIN_DYNAMIC_BROKER);
    value = find_entry(to->cluster, config_key(key)->name);
    if (value.data != NULL)
        add(to, key, value, CONFIG_ORIGIN_DYNAMIC_DEFAULT_BROKER);
    if (config_is_set(to->config, key))
        add(to, key, static_value(to, key), CONFIG_ORIGIN_STATIC_BROKER);
}

enum err config_standing(const struct config *config, const struct image *image, int32_t node_id, enum config_id id,
                         const struct image_configs *own, struct arena *arena,
                         struct config_standing_value values[CONFIG_STANDING_MAX], uint32_t *count)
{
    char node[NODE_ID_CHARS];
    struct collector to = {.config = config, .id = id, .arena = arena, .values = values};
    struct bytes value = find_entry(own, config_key(id)->name);
    enum config_scope scope = config_key(id)->scope;
    enum config_id other = CONFIG_NONE;
    enum config_id first = id;

    (void)snprintf(node, sizeof(node), "%d", node_id);
    to.node = image_configs(image, CONFIG_BROKER, bytes_of_text(node));
    to.cluster = image_configs(image, CONFIG_BROKER, BYTES_LITERAL(""));
    if (value.data != NULL)
        add(&to, id, value, scope == CONFIG_SCOPE_GROUP ? CONFIG_ORIGIN_GROUP : CONFIG_ORIGIN_TOPIC);
    if (scope != CONFIG_SCOPE_TOPIC && scope != CONFIG_SCOPE_GROUP)
        add_set(&to, id);
    for (uint32_t n = 0; (other = config_synonym(id, n)) != CONFIG_NONE; n++) {
        if (n == 0 && scope == CONFIG_SCOPE_TOPIC)
            first = other;
        add_set(&to, other);
    }
    /* The default is told under the broker's name for it, as Kafka does. */
    if (config_key(id)->value != NULL)
        add(&to, first, bytes_of_text(config_key(id)->value), CONFIG_ORIGIN_DEFAULT);
    *count = to.count;
    return to.err;
}

/* The winning value of a topic key, checked; a value in the log that no longer passes counts as the default. */
static struct config_value resolve(const struct config *config, const struct image *image, int32_t node_id,
                                   const struct image_configs *own, enum config_id id, struct bytes *text)
{
    struct config_standing_value values[CONFIG_STANDING_MAX];
    struct config_value value;
    struct config_why why;
    struct arena arena;
    uint32_t count = 0;
    enum err err = ERR_OK;

    arena_init(&arena, 4096);
    err = config_standing(config, image, node_id, id, own, &arena, values, &count);
    if (err == ERR_OK && count > 0)
        err = config_check(id, values[0].value, &value, &why);
    *text = count > 0 ? values[0].value : (struct bytes){0};
    if (err != ERR_OK) {
        *text = bytes_of_text(config_key(id)->value);
        err = config_check(id, *text, &value, &why);
        assert(err == ERR_OK);
    }
    arena_deinit(&arena);
    return value;
}

static enum log_compression compression_of(struct bytes text)
{
    static const struct {
        const char *name;
        enum log_compression compression;
    } names[] = {
        {"uncompressed", LOG_COMPRESSION_NONE}, {"gzip", LOG_COMPRESSION_GZIP}, {"snappy", LOG_COMPRESSION_SNAPPY},
        {"lz4", LOG_COMPRESSION_LZ4},           {"zstd", LOG_COMPRESSION_ZSTD},
    };

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (bytes_equal(text, bytes_of_text(names[i].name)))
            return names[i].compression;
    return LOG_COMPRESSION_PRODUCER;
}

static bool list_has(struct bytes list, const char *word)
{
    struct bytes item;

    while (config_list_next(&list, &item))
        if (bytes_equal(item, bytes_of_text(word)))
            return true;
    return false;
}

void topic_config_resolve(const struct config *config, const struct image *image, int32_t node_id,
                          const struct image_configs *own, bool internal, struct log_config *log_config)
{
    struct bytes text;

#define NUMBER(id) resolve(config, image, node_id, own, id, &text).number
    log_config_init(log_config);
    log_config->segment_bytes = NUMBER(CONFIG_TOPIC_SEGMENT_BYTES);
    log_config->segment_ms = NUMBER(CONFIG_TOPIC_SEGMENT_MS);
    log_config->segment_jitter_ms = NUMBER(CONFIG_TOPIC_SEGMENT_JITTER_MS);
    log_config->segment_index_bytes = (int32_t)NUMBER(CONFIG_TOPIC_SEGMENT_INDEX_BYTES);
    log_config->index_interval_bytes = (int32_t)NUMBER(CONFIG_TOPIC_INDEX_INTERVAL_BYTES);
    log_config->max_message_bytes = (int32_t)NUMBER(CONFIG_TOPIC_MAX_MESSAGE_BYTES);
    log_config->max_decompressed_message_bytes = (int32_t)NUMBER(CONFIG_TOPIC_MAX_DECOMPRESSED_MESSAGE_BYTES);
    log_config->retention_ms = NUMBER(CONFIG_TOPIC_RETENTION_MS);
    log_config->retention_bytes = NUMBER(CONFIG_TOPIC_RETENTION_BYTES);
    log_config->flush_messages = NUMBER(CONFIG_TOPIC_FLUSH_MESSAGES);
    log_config->flush_ms = NUMBER(CONFIG_TOPIC_FLUSH_MS);
    log_config->file_delete_delay_ms = NUMBER(CONFIG_TOPIC_FILE_DELETE_DELAY_MS);
    log_config->timestamp_before_max_ms = NUMBER(CONFIG_TOPIC_MESSAGE_TIMESTAMP_BEFORE_MAX_MS);
    log_config->timestamp_after_max_ms = NUMBER(CONFIG_TOPIC_MESSAGE_TIMESTAMP_AFTER_MAX_MS);
    log_config->min_insync_replicas = (int32_t)NUMBER(CONFIG_TOPIC_MIN_INSYNC_REPLICAS);
#undef NUMBER
    (void)resolve(config, image, node_id, own, CONFIG_TOPIC_MESSAGE_TIMESTAMP_TYPE, &text);
    log_config->timestamp_type = bytes_equal(text, BYTES_LITERAL("LogAppendTime")) ? LOG_APPEND_TIME : LOG_CREATE_TIME;
    (void)resolve(config, image, node_id, own, CONFIG_TOPIC_COMPRESSION_TYPE, &text);
    log_config->compression = compression_of(text);
    (void)resolve(config, image, node_id, own, CONFIG_TOPIC_CLEANUP_POLICY, &text);
    log_config->cleanup_delete = list_has(text, "delete");
    log_config->cleanup_compact = list_has(text, "compact");
    log_config->validate_compressed = internal || config_bool(config, CONFIG_OTTLA_VALIDATE_COMPRESSED);
}

static enum config_id find_key(enum config_resource type, struct bytes name)
{
    switch (type) {
    case CONFIG_TOPIC:
        return config_find_topic_key(name);
    case CONFIG_GROUP:
        return config_find_group_key(name);
    case CONFIG_BROKER:
        return config_find_broker_key(name);
    case CONFIG_CLIENT_METRICS:
        break;
    }
    return CONFIG_NONE;
}

static enum err check_entry(enum config_resource type, const struct image_config *entry, struct arena *arena,
                            struct bytes *message)
{
    enum config_id id = find_key(type, entry->name);
    struct config_value value;
    struct config_why why;

    if (id == CONFIG_NONE) {
        *message = arena_printf(arena, "Unknown %s config name: %.*s", type == CONFIG_TOPIC ? "topic" : "resource",
                                BYTES_PRINTF(entry->name));
        return ERR_INVALID_CONFIG;
    }
    if (entry->value.data == NULL) {
        *message = arena_printf(arena, "Null value not supported for %s config: %.*s",
                                type == CONFIG_TOPIC ? "topic" : "resource", BYTES_PRINTF(entry->name));
        return ERR_INVALID_CONFIG;
    }
    if (config_check(id, entry->value, &value, &why) != ERR_OK) {
        *message = arena_printf(arena, "Invalid value %.*s for configuration %.*s: %s is accepted",
                                BYTES_PRINTF(entry->value), BYTES_PRINTF(entry->name), why.text);
        return ERR_INVALID_CONFIG;
    }
    return ERR_OK;
}

static int64_t entry_number(const struct image_config *entries, uint32_t count, enum config_id id)
{
    struct config_value value;
    struct config_why why;

    for (uint32_t i = 0; i < count; i++)
        if (bytes_equal(entries[i].name, bytes_of_text(config_key(id)->name)) &&
            config_check(id, entries[i].value, &value, &why) == ERR_OK)
            return value.number;
    if (config_key(id)->value == NULL || config_check(id, bytes_of_text(config_key(id)->value), &value, &why) != ERR_OK)
        return 0;
    return value.number;
}

static enum err check(void *context, enum config_resource type, struct bytes resource,
                      const struct image_config *entries, uint32_t count, struct arena *arena, struct bytes *message)
{
    (void)context;
    (void)resource;
    for (uint32_t i = 0; i < count; i++) {
        enum err err = check_entry(type, &entries[i], arena, message);

        if (err != ERR_OK)
            return err;
    }
    /* KIP-354: what may be compacted no earlier than min must not have to be no later than a smaller max. */
    if (type == CONFIG_TOPIC && entry_number(entries, count, CONFIG_TOPIC_MIN_COMPACTION_LAG_MS) >
                                    entry_number(entries, count, CONFIG_TOPIC_MAX_COMPACTION_LAG_MS)) {
        *message = arena_printf(arena, "min.compaction.lag.ms is above max.compaction.lag.ms");
        return ERR_INVALID_CONFIG;
    }
    return ERR_OK;
}

static enum err list_default(void *context, enum config_resource type, struct bytes name, bool *is_list,
                             struct bytes *value)
{
    enum config_id id = find_key(type, name);

    (void)context;
    if (id == CONFIG_NONE)
        return ERR_INVALID_CONFIG;
    *is_list = config_key(id)->type == CONFIG_TYPE_LIST;
    *value = bytes_of_text(config_key(id)->value);
    return ERR_OK;
}

void topic_config_rules(const struct config *config, struct config_rules *rules)
{
    *rules = (struct config_rules){.context = (void *)(uintptr_t)config, .check = check, .list_default = list_default};
}
