#include "broker/config.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/assert.h"
#include "base/mem.h"
#include "broker/config_groups.h"

void config_report_line(const struct config_report *report, bool fatal, const char *format, ...)
{
    char line[CONFIG_LINE_CHARS];
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    report->line(report->context, fatal, line);
}

void config_init(struct config *config)
{
    struct config_why why;

    *config = (struct config){0};
    for (enum config_id id = 0; id < CONFIG_KEY_COUNT; id++) {
        const char *text = config_key(id)->value;
        enum err err = ERR_OK;

        if (text != NULL)
            err = config_check(id, bytes_of_text(text), &config->slots[id].value, &why);
        assert(err == ERR_OK); /* a default of ours that its own row refuses */
    }
}

void config_deinit(struct config *config)
{
    for (enum config_id id = 0; id < CONFIG_KEY_COUNT; id++) {
        mem_free(config->slots[id].text);
        config->slots[id].text = NULL;
    }
}

enum err config_set(struct config *config, enum config_id id, struct bytes text, enum config_source source,
                    uint32_t line, struct config_why *why)
{
    struct config_slot *slot = &config->slots[id];
    struct config_value value;
    char *copy = NULL;
    enum err err = config_check(id, text, &value, why);

    if (err != ERR_OK)
        return err;
    text = bytes_trim(text);
    copy = mem_copy_text(text.data, text.size);
    if (copy == NULL)
        return ERR_NOMEM;
    mem_free(slot->text);
    *slot = (struct config_slot){.text = copy, .value = value, .source = source, .line = line};
    return ERR_OK;
}

enum err config_use_single_node(struct config *config)
{
    static const struct {
        enum config_id id;
        const char *text;
    } profile[] = {
        {CONFIG_NODE_ID, "1"},
        {CONFIG_PROCESS_ROLES, "broker,controller"},
        {CONFIG_LISTENERS, "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093"},
        {CONFIG_CONTROLLER_LISTENER_NAMES, "CONTROLLER"},
        {CONFIG_LOG_DIRS, "ottla-data"},
        {CONFIG_OFFSETS_TOPIC_REPLICATION_FACTOR, "1"},
        {CONFIG_TRANSACTION_STATE_LOG_REPLICATION_FACTOR, "1"},
        {CONFIG_TRANSACTION_STATE_LOG_MIN_ISR, "1"},
        {CONFIG_SHARE_COORDINATOR_STATE_TOPIC_REPLICATION_FACTOR, "1"},
        {CONFIG_SHARE_COORDINATOR_STATE_TOPIC_MIN_ISR, "1"},
    };
    struct config_why why;

    for (size_t i = 0; i < sizeof(profile) / sizeof(profile[0]); i++) {
        enum err err = config_set(config, profile[i].id, bytes_of_text(profile[i].text), CONFIG_FROM_PROFILE, 0, &why);

        assert(err != ERR_INVALID_CONFIG);
        if (err != ERR_OK)
            return err;
    }
    return ERR_OK;
}

/* Where a value was read, for the problem lines. */
struct place {
    const char *file; /* NULL: --set */
    uint32_t line;
};

struct place_text {
    char text[CONFIG_LINE_CHARS / 2];
};

static struct place_text place_format(struct place place)
{
    struct place_text text;

    if (place.file == NULL)
        (void)snprintf(text.text, sizeof(text.text), "--set");
    else
        (void)snprintf(text.text, sizeof(text.text), "%s:%" PRIu32, place.file, place.line);
    return text;
}

static enum err take_value(struct config *config, struct bytes name, struct bytes text, struct place place,
                           const struct config_report *report)
{
    enum config_id id = config_find_broker_key(name);
    enum config_source source = place.file == NULL ? CONFIG_FROM_SET : CONFIG_FROM_FILE;
    struct place_text at = place_format(place);
    const struct config_key *key = NULL;
    struct config_why why = {{0}};
    enum err err = ERR_OK;

    if (id == CONFIG_NONE) {
        const char *nearest = config_nearest_broker_key(name);

        /* listener.name.<name>.<key> and plugin prefixes are legal in Kafka's files and mean nothing here yet. */
        config_report_line(report, false, "%s: unknown key %.*s is left out%s%s%s", at.text, BYTES_PRINTF(name),
                           nearest == NULL ? "" : "; did you mean ", nearest == NULL ? "" : nearest,
                           nearest == NULL ? "" : "?");
        return ERR_OK;
    }
    key = config_key(id);
    err = config_set(config, id, text, source, place.line, &why);
    if (err == ERR_INVALID_CONFIG) {
        bool secret = key->type == CONFIG_TYPE_PASSWORD;

        config_report_line(report, true, "%s: %s=%.*s is not accepted: %s is", at.text, key->name,
                           secret ? 8 : (int)bytes_trim(text).size,
                           secret ? "[hidden]" : (const char *)bytes_trim(text).data, why.text);
        return ERR_USAGE;
    }
    if (err != ERR_OK)
        return err;
    if (key->standing.status == CONFIG_REFUSED && strcmp(config_text(config, id), key->value) != 0) {
        config_report_line(report, true, "%s: %s=%s is not accepted: %s", at.text, key->name, config_text(config, id),
                           key->standing.reason);
        return ERR_USAGE;
    }
    if (key->standing.status == CONFIG_WITHOUT_EFFECT)
        config_report_line(report, false, "%s: %s has no effect: %s", at.text, key->name, key->standing.reason);
    return ERR_OK;
}

enum err config_read_assignment(struct config *config, struct bytes assignment, const struct config_report *report)
{
    const uint8_t *equals = assignment.size == 0 ? NULL : memchr(assignment.data, '=', assignment.size);
    size_t name_size = equals == NULL ? 0 : (size_t)(equals - assignment.data);
    struct bytes name = bytes_trim(bytes_of(assignment.data, name_size));

    if (equals == NULL || name.size == 0) {
        config_report_line(report, true, "--set: %.*s is not accepted: key=value is", BYTES_PRINTF(assignment));
        return ERR_USAGE;
    }
    if (config_find_broker_key(name) == CONFIG_NONE) { /* what is typed by hand is a slip, not another broker's file */
        const char *nearest = config_nearest_broker_key(name);

        config_report_line(report, true, "--set: unknown key %.*s%s%s%s", BYTES_PRINTF(name),
                           nearest == NULL ? "" : "; did you mean ", nearest == NULL ? "" : nearest,
                           nearest == NULL ? "" : "?");
        return ERR_USAGE;
    }
    return take_value(config, name, bytes_of(equals + 1, assignment.size - name_size - 1), (struct place){NULL, 0},
                      report);
}

/* One logical line of a properties file, as it is taken apart. */
struct reader {
    const uint8_t *at;
    const uint8_t *end;
    uint32_t line; /* of `at` */
};

static bool at_end_of_line(const struct reader *reader)
{
    return reader->at == reader->end || *reader->at == '\n' || *reader->at == '\r';
}

static void skip_end_of_line(struct reader *reader)
{
    if (reader->at == reader->end)
        return;
    if (*reader->at == '\r' && reader->end - reader->at > 1 && reader->at[1] == '\n')
        reader->at++;
    reader->at++;
    reader->line++;
}

static void skip_blanks(struct reader *reader)
{
    while (reader->at < reader->end && (*reader->at == ' ' || *reader->at == '\t' || *reader->at == '\f'))
        reader->at++;
}

static void skip_to_end_of_line(struct reader *reader)
{
    while (!at_end_of_line(reader))
        reader->at++;
}

/* \uXXXX as UTF-8; false when the digits are not there. */
static bool read_unicode(struct reader *reader, uint8_t **to)
{
    uint32_t code = 0;

    if (reader->end - reader->at < 4)
        return false;
    for (int i = 0; i < 4; i++) {
        int digit = byte_hex_digit(reader->at[i]);

        if (digit < 0)
            return false;
        code = code << 4 | (uint32_t)digit;
    }
    reader->at += 4;
    if (code < 0x80) {
        *(*to)++ = (uint8_t)code;
    } else if (code < 0x800) {
        *(*to)++ = (uint8_t)(0xc0 | code >> 6);
        *(*to)++ = (uint8_t)(0x80 | (code & 0x3f));
    } else {
        *(*to)++ = (uint8_t)(0xe0 | code >> 12);
        *(*to)++ = (uint8_t)(0x80 | (code >> 6 & 0x3f));
        *(*to)++ = (uint8_t)(0x80 | (code & 0x3f));
    }
    return true;
}

/* Behind a backslash. A line's end there is a continuation. */
static bool read_escape(struct reader *reader, uint8_t **to)
{
    uint8_t c = 0;

    if (at_end_of_line(reader)) {
        skip_end_of_line(reader);
        skip_blanks(reader);
        return true;
    }
    c = *reader->at++;
    switch (c) {
    case 'u':
        return read_unicode(reader, to);
    case 't':
        c = '\t';
        break;
    case 'n':
        c = '\n';
        break;
    case 'r':
        c = '\r';
        break;
    case 'f':
        c = '\f';
        break;
    default:
        break;
    }
    *(*to)++ = c;
    return true;
}

static bool ends_name(uint8_t c)
{
    return c == '=' || c == ':' || c == ' ' || c == '\t' || c == '\f';
}

/* Up to the separator (names) or the line's end (values), escapes undone. `to` has room for all that is left. */
static bool read_part(struct reader *reader, bool is_name, uint8_t *to, struct bytes *part)
{
    uint8_t *at = to;

    while (!at_end_of_line(reader) && !(is_name && ends_name(*reader->at))) {
        uint8_t c = *reader->at++;

        if (c != '\\')
            *at++ = c;
        else if (!read_escape(reader, &at))
            return false;
    }
    *part = bytes_of(to, (size_t)(at - to));
    return true;
}

static enum err read_line(struct config *config, struct reader *reader, uint8_t *scratch, const char *file,
                          const struct config_report *report)
{
    struct place place = {file, reader->line};
    struct bytes name;
    struct bytes text;

    if (!read_part(reader, true, scratch, &name))
        goto bad_escape;
    skip_blanks(reader);
    if (!at_end_of_line(reader) && (*reader->at == '=' || *reader->at == ':')) {
        reader->at++;
        skip_blanks(reader);
    }
    if (!read_part(reader, false, scratch + name.size, &text))
        goto bad_escape;
    return take_value(config, name, text, place, report);

bad_escape:
    config_report_line(report, true, "%s:%" PRIu32 ": \\u is not accepted without four hexadecimal digits behind it",
                       file, reader->line);
    skip_to_end_of_line(reader);
    return ERR_USAGE;
}

enum err config_read_properties(struct config *config, struct bytes text, const char *file,
                                const struct config_report *report)
{
    struct reader reader = {text.data, text.data + text.size, 1};
    uint8_t *scratch = NULL;
    enum err refused = ERR_OK;
    enum err err = ERR_OK;

    if (text.size > CONFIG_FILE_BYTES_MAX) {
        config_report_line(report, true, "%s: %zu bytes are not accepted: at most %d are", file, text.size,
                           CONFIG_FILE_BYTES_MAX);
        return ERR_USAGE;
    }
    scratch = mem_alloc(text.size + 1);
    if (scratch == NULL)
        return ERR_NOMEM;
    while (reader.at < reader.end && (err == ERR_OK || err == ERR_USAGE)) {
        skip_blanks(&reader);
        if (!at_end_of_line(&reader) && *reader.at != '#' && *reader.at != '!')
            err = read_line(config, &reader, scratch, file, report);
        else
            skip_to_end_of_line(&reader);
        if (err == ERR_USAGE)
            refused = err;
        skip_end_of_line(&reader);
    }
    mem_free(scratch);
    return err != ERR_OK && err != ERR_USAGE ? err : refused;
}

static bool has_role(const struct config *config, const char *role)
{
    return config_list_has(bytes_of_text(config_text(config, CONFIG_PROCESS_ROLES)), bytes_of_text(role));
}

enum err config_check_whole(const struct config *config, const struct config_report *report)
{
    enum err err = ERR_OK;

    if (config_text(config, CONFIG_PROCESS_ROLES) == NULL ||
        (!has_role(config, "broker") && !has_role(config, "controller"))) {
        config_report_line(report, true, "process.roles must be given: broker, controller or both");
        err = ERR_USAGE;
    }
    if (!config_is_set(config, CONFIG_NODE_ID) && config_int(config, CONFIG_BROKER_ID) < 0) {
        config_report_line(report, true, "node.id must be given: a whole number of at least 0");
        err = ERR_USAGE;
    }
    if (config_is_set(config, CONFIG_NODE_ID) && config_is_set(config, CONFIG_BROKER_ID) &&
        config_int(config, CONFIG_NODE_ID) != config_int(config, CONFIG_BROKER_ID)) {
        config_report_line(report, true, "node.id=%d and broker.id=%d are not accepted together: equal ones are",
                           config_int(config, CONFIG_NODE_ID), config_int(config, CONFIG_BROKER_ID));
        err = ERR_USAGE;
    }
    if (config_groups_check(config, report) != ERR_OK)
        err = ERR_USAGE;
    return err;
}

bool config_is_set(const struct config *config, enum config_id id)
{
    return config->slots[id].text != NULL;
}

enum config_source config_source_of(const struct config *config, enum config_id id)
{
    return config->slots[id].source;
}

const char *config_text(const struct config *config, enum config_id id)
{
    return config->slots[id].text != NULL ? config->slots[id].text : config_key(id)->value;
}

int64_t config_long(const struct config *config, enum config_id id)
{
    enum config_type type = config_key(id)->type;

    assert(type == CONFIG_TYPE_LONG || type == CONFIG_TYPE_INT || type == CONFIG_TYPE_SHORT);
    return config->slots[id].value.number;
}

int32_t config_int(const struct config *config, enum config_id id)
{
    assert(config_key(id)->type == CONFIG_TYPE_INT || config_key(id)->type == CONFIG_TYPE_SHORT);
    return (int32_t)config->slots[id].value.number;
}

bool config_bool(const struct config *config, enum config_id id)
{
    assert(config_key(id)->type == CONFIG_TYPE_BOOLEAN);
    return config->slots[id].value.number != 0;
}

double config_double(const struct config *config, enum config_id id)
{
    assert(config_key(id)->type == CONFIG_TYPE_DOUBLE);
    return config->slots[id].value.real;
}

static int64_t unit_ms(enum config_unit unit)
{
    switch (unit) {
    case CONFIG_UNIT_SECONDS:
        return 1000;
    case CONFIG_UNIT_MINUTES:
        return 60 * 1000;
    case CONFIG_UNIT_HOURS:
        return 60 * 60 * 1000;
    case CONFIG_UNIT_NONE:
    case CONFIG_UNIT_US:
    case CONFIG_UNIT_MS:
    case CONFIG_UNIT_BYTES:
    case CONFIG_UNIT_BYTES_PER_SECOND:
        break;
    }
    return 1;
}

const char *config_text_in_unit_of(const struct config *config, enum config_id id, enum config_id unit_of,
                                   char text[CONFIG_NUMBER_CHARS])
{
    int64_t factor = unit_ms(config_key(id)->unit);
    int64_t number = config->slots[id].value.number;

    if (factor == 1 || factor == unit_ms(config_key(unit_of)->unit) || config_text(config, id) == NULL)
        return config_text(config, id);
    if (number < 0) /* Kafka: negative hours and minutes of retention mean for ever */
        (void)snprintf(text, CONFIG_NUMBER_CHARS, "-1");
    else
        (void)snprintf(text, CONFIG_NUMBER_CHARS, "%" PRId64,
                       number > INT64_MAX / factor ? INT64_MAX : number * factor);
    return text;
}

const char *config_resolve(const struct config *config, enum config_id id, char text[CONFIG_NUMBER_CHARS],
                           enum config_id *source)
{
    enum config_id other = CONFIG_NONE;

    *source = CONFIG_NONE;
    if (config_is_set(config, id)) {
        *source = id;
        return config_text(config, id);
    }
    for (uint32_t n = 0; (other = config_synonym(id, n)) != CONFIG_NONE; n++)
        if (config_is_set(config, other)) {
            *source = other;
            return config_text_in_unit_of(config, other, id, text);
        }
    return config_text(config, id);
}
