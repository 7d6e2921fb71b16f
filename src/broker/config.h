/*
 * config: the values of one node's keys: defaults, then server.properties or the single-node profile, then --set.
 * Problems are told one by one, as lines for people, before the start is refused.
 *
 * Always holds  every value that is set passed config_check.
 * Threads       filled by one, then read by any: it does not change while the node runs.
 */
#ifndef OTTLA_BROKER_CONFIG_H
#define OTTLA_BROKER_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"
#include "broker/broker_limits.h"
#include "broker/config_table.h"

enum config_source {
    CONFIG_FROM_DEFAULT,
    CONFIG_FROM_PROFILE, /* the single node that needs no file */
    CONFIG_FROM_FILE,
    CONFIG_FROM_SET, /* --set */
};

struct config_slot {
    char *text; /* owned; NULL: the default */
    struct config_value value;
    enum config_source source;
    uint32_t line;
};

struct config {
    struct config_slot slots[CONFIG_KEY_COUNT];
};

/* A line about a problem; fatal ones end in a refused start. */
typedef void config_report_fn(void *context, bool fatal, const char *line);

struct config_report {
    config_report_fn *line;
    void *context;
};

/* All keys at their defaults. */
void config_init(struct config *config);
void config_deinit(struct config *config);
/* What `ottla serve` is without --config: a complete single node on 127.0.0.1:9092, data in ./ottla-data. */
MUST_CHECK enum err config_use_single_node(struct config *config);
/*
 * Reads the text of a Java properties file (comments, escapes, continued lines). Unknown keys are warnings with a
 * spelling hint, keys without effect warnings with the reason. ERR_USAGE when any line was refused; the others are in
 * force then all the same, so that one run tells of all problems.
 */
MUST_CHECK enum err config_read_properties(struct config *config, struct bytes text, const char *file,
                                           const struct config_report *report);
/* "key=value", as behind --set. ERR_USAGE. */
MUST_CHECK enum err config_read_assignment(struct config *config, struct bytes assignment,
                                           const struct config_report *report);
/* ERR_INVALID_CONFIG: the value is not accepted (why says what is); ERR_NOMEM. */
MUST_CHECK enum err config_set(struct config *config, enum config_id id, struct bytes text, enum config_source source,
                               uint32_t line, struct config_why *why);
/* What must hold between keys: roles, ids, required ones, settings of groups. ERR_USAGE. */
MUST_CHECK enum err config_check_whole(const struct config *config, const struct config_report *report);

/* Printf-like; the line is cut at CONFIG_LINE_CHARS. */
void config_report_line(const struct config_report *report, bool fatal, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Set by anything but the table's default. */
bool config_is_set(const struct config *config, enum config_id id);
enum config_source config_source_of(const struct config *config, enum config_id id);
/* As written, or the default's text; NULL where the key is unset and has no default. */
const char *config_text(const struct config *config, enum config_id id);
int64_t config_long(const struct config *config, enum config_id id);
int32_t config_int(const struct config *config, enum config_id id);
bool config_bool(const struct config *config, enum config_id id);
double config_double(const struct config *config, enum config_id id);

/*
 * The value that stands for id on this node, through its synonyms: `retention.ms` from log.retention.ms, .minutes or
 * .hours, whichever is set first, converted to id's unit; else id's default.
 *
 * text    at least CONFIG_NUMBER_CHARS; holds a converted value. Returns it or another text that lives as long as the
 *         configuration; NULL where nothing stands for it.
 * source  out: the key that decided; CONFIG_NONE when it was id's own default.
 */
enum { CONFIG_NUMBER_CHARS = 32 };
const char *config_resolve(const struct config *config, enum config_id id, char text[CONFIG_NUMBER_CHARS],
                           enum config_id *source);
/* The text of one key's value in the unit of another: hours and minutes become milliseconds. */
const char *config_text_in_unit_of(const struct config *config, enum config_id id, enum config_id unit_of,
                                   char text[CONFIG_NUMBER_CHARS]);

#endif
