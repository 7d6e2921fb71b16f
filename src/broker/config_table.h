/*
 * config_table: every configuration key, one row each (config_keys.def): what may be written, what it means when
 * nothing is, who may change it, and whether this build acts on it. The file parser, --set, DescribeConfigs, the
 * checks of the controller and the documentation read it and nothing else.
 *
 * Threads  any: constants only.
 */
#ifndef OTTLA_BROKER_CONFIG_TABLE_H
#define OTTLA_BROKER_CONFIG_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"

enum config_id {
#define KEY(symbol, name, type, value, range, unit, scope, status) CONFIG_##symbol,
#include "broker/config_keys.def"
    CONFIG_KEY_COUNT,
    CONFIG_NONE = CONFIG_KEY_COUNT,
};

/* Values as DescribeConfigs gives them (ConfigType in Apache Kafka). */
enum config_type {
    CONFIG_TYPE_BOOLEAN = 1,
    CONFIG_TYPE_STRING = 2,
    CONFIG_TYPE_INT = 3,
    CONFIG_TYPE_SHORT = 4,
    CONFIG_TYPE_LONG = 5,
    CONFIG_TYPE_DOUBLE = 6,
    CONFIG_TYPE_LIST = 7,
    CONFIG_TYPE_CLASS = 8,
    CONFIG_TYPE_PASSWORD = 9, /* sensitive: never logged, never described */
};

enum config_unit {
    CONFIG_UNIT_NONE,
    CONFIG_UNIT_US,
    CONFIG_UNIT_MS,
    CONFIG_UNIT_SECONDS,
    CONFIG_UNIT_MINUTES,
    CONFIG_UNIT_HOURS,
    CONFIG_UNIT_BYTES,
    CONFIG_UNIT_BYTES_PER_SECOND,
};

enum config_scope {
    CONFIG_SCOPE_STATIC,     /* server.properties alone */
    CONFIG_SCOPE_PER_BROKER, /* may be altered on line for one broker */
    CONFIG_SCOPE_CLUSTER,    /* may be altered on line for one or all */
    CONFIG_SCOPE_TOPIC,
    CONFIG_SCOPE_GROUP,
};

enum config_status {
    CONFIG_HONOURED,
    CONFIG_WITHOUT_EFFECT, /* accepted; a warning names the reason when it is set */
    CONFIG_REFUSED,        /* any value but the default stops the start */
    CONFIG_INTERNAL,       /* accepted, not described */
};

struct config_range {
    const char *choices; /* comma-separated; NULL: any */
    int64_t min;
    int64_t max;
};

struct config_standing {
    enum config_status status;
    const char *reason; /* why without effect or refused; "" otherwise */
};

struct config_key {
    const char *name;
    const char *value; /* default as text; NULL: unset, or must be given */
    struct config_range range;
    struct config_standing standing;
    enum config_type type;
    enum config_unit unit;
    enum config_scope scope;
};

/* A checked value. */
struct config_value {
    int64_t number; /* BOOLEAN (0, 1), SHORT, INT, LONG */
    double real;    /* DOUBLE */
};

enum { CONFIG_WHY_CHARS = 256 };

/* What was wrong with a value: what is accepted, as a phrase for people. */
struct config_why {
    char text[CONFIG_WHY_CHARS];
};

const struct config_key *config_key(enum config_id id);
/* By name among the keys of topics, of groups, or of brokers (any other scope); CONFIG_NONE when there is none. */
enum config_id config_find_broker_key(struct bytes name);
enum config_id config_find_topic_key(struct bytes name);
enum config_id config_find_group_key(struct bytes name);
/* The broker key spelt most like it; NULL when none is near. */
const char *config_nearest_broker_key(struct bytes name);
/* The n-th key that speaks for id where id itself is not set, most telling first; CONFIG_NONE behind the last. */
enum config_id config_synonym(enum config_id id, uint32_t n);
/* "a whole number of at least 1", "one of compact, delete". */
void config_accepted(enum config_id id, struct config_why *accepted);
/* Reads text (white space around it is left out) as a value of the key. ERR_INVALID_CONFIG, and why says what is
 * accepted. */
MUST_CHECK enum err config_check(enum config_id id, struct bytes text, struct config_value *value,
                                 struct config_why *why);
/* The next item of a comma-separated list, white space around it left out; false behind the last. rest: what is still
 * to come, at first the whole text. Empty items are skipped. */
bool config_list_next(struct bytes *rest, struct bytes *item);
/* Whether the word is one of the items, as it is written. */
bool config_list_has(struct bytes list, struct bytes word);

#endif
