/*
 * line_out: what a command tells, one thing a line: for people and grep `kind key=value key="two words"`, for programs
 * a JSON object with "kind" and the same keys.
 *
 *     line_begin(&out, "batch");
 *     line_i64(&out, "base_offset", 12);
 *     line_end(&out);
 *
 * Threads  one.
 */
#ifndef OTTLA_CLI_LINE_OUT_H
#define OTTLA_CLI_LINE_OUT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/bytes.h"
#include "protocol/message.h"

struct line_out {
    FILE *to;
    bool json;
    json_t *object; /* of the line under way */
};

void line_begin(struct line_out *out, const char *kind);
void line_i64(struct line_out *out, const char *key, int64_t value);
struct line_number {
    const char *key;
    int64_t value;
};
void line_numbers(struct line_out *out, const struct line_number *numbers, uint32_t count);
void line_u64(struct line_out *out, const char *key, uint64_t value);
void line_text(struct line_out *out, const char *key, const char *value);
/* Any bytes: printable text as it is, quoted, other bytes as \xNN; null as such. In JSON bytes that are no UTF-8 stand
 * as {"base64": "..."}. */
void line_bytes(struct line_out *out, const char *key, struct bytes value);
/* The word alone, or nothing; in JSON true or false. */
void line_flag(struct line_out *out, const char *key, bool value);
/* A decoded message; in JSON an object by its fields' names. Secrets are left out. */
void line_message(struct line_out *out, const char *key, const struct message_type *type, int16_t version,
                  const void *message);
/* Names and values, in a group of their own. */
void line_pairs_begin(struct line_out *out, const char *key);
void line_pair(struct line_out *out, const char *key, struct bytes name, struct bytes value);
void line_end(struct line_out *out);
/* A line of its own: what was to be shown cannot be read. Sets *damaged. */
void line_unreadable(struct line_out *out, const char *because, bool *damaged);

#endif
