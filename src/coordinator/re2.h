/*
 * re2: an expression in RE2's words (re2j 1.8's, as Kafka has them), read by its grammar and written in PCRE2's. What
 * RE2 refuses (look-around, back-references, possessive and atomic groups, nested repetition ...) is refused; what it
 * takes PCRE2 takes, except groups within groups beyond PCRE2's own limit.
 *
 * Made for  matching whole topic names: they are ASCII without line ends, so all characters beyond are one that no name
 *           has (RE2_BEYOND), and flags other than i say nothing.
 * Threads   any.
 */
#ifndef OTTLA_COORDINATOR_RE2_H
#define OTTLA_COORDINATOR_RE2_H

#include <stddef.h>

#include "base/bytes.h"

enum {
    RE2_BYTES_MAX = 1024,  /* of an expression */
    RE2_REPEAT_MAX = 1000, /* RE2's */
    RE2_DEPTH_MAX = 250,   /* of groups in groups: PCRE2's, unless it is built with more */
    /* What is written, at most, of an expression of so many bytes: a property of 3 is up to 10 ranges. */
    RE2_GROWTH = 40,
    RE2_GROWTH_EXTRA = 16,
    RE2_BEYOND = 0xff, /* the byte of all characters beyond ASCII */
};

/* from: at most RE2_BYTES_MAX. to: RE2_GROWTH for each of its bytes and RE2_GROWTH_EXTRA; size: out. The first mistake
 * in RE2's words, static; NULL: there is none. */
const char *re2_translate(struct bytes from, char *to, size_t *size);

#endif
