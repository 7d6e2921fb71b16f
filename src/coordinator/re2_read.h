/*
 * re2_read: the characters and classes of an expression in RE2's words, one after the other. For re2.c alone.
 *
 * Mistakes  the first one stays in why, in RE2's words; what is read after it means nothing, and ends.
 */
#ifndef OTTLA_COORDINATOR_RE2_READ_H
#define OTTLA_COORDINATOR_RE2_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/bytes.h"
#include "coordinator/char_set.h"

struct re2_reader {
    struct bytes from;
    size_t at;
    bool folds; /* case does not count from here on */
    const char *why;
};

static inline bool re2_is_one_of(const char *letters, int c)
{
    return c > 0 && strchr(letters, c) != NULL;
}

void re2_fail(struct re2_reader *reader, const char *why);
/* The byte that is so far ahead; -1 beyond the end. */
int re2_peek(const struct re2_reader *reader, size_t ahead);
/* at: not beyond the end. */
struct bytes re2_rest(const struct re2_reader *reader);
bool re2_looking_at(const struct re2_reader *reader, const char *text);
/* The UTF-8 character that is next, and over it. Not at the end. */
uint32_t re2_next_char(struct re2_reader *reader);
/* Behind a backslash: the one character that is meant, and over it. */
uint32_t re2_escaped_char(struct re2_reader *reader);
/* At a backslash: \d and its like, and properties, added to the set, and over it. False: nothing of the kind is next.
 */
bool re2_escaped_set(struct re2_reader *reader, struct char_set *set);
/* At a [: the class, added to the set, and over it. */
void re2_class(struct re2_reader *reader, struct char_set *set);

#endif
