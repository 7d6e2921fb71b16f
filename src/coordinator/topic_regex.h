/*
 * topic_regex: a member's regular expression over topic names. The syntax is RE2's, as Kafka has it (re2j): what RE2
 * refuses (look-around, back-references, possessive and atomic groups, nested repetition ...) is refused here too. What
 * is left is handed to PCRE2 in its own words.
 *
 * Matches   the whole name or not at all.
 * Bounded   RE2 takes linear time, PCRE2 may not: a match that takes more than TOPIC_REGEX_STEPS_MAX counts as none,
 * and so do all after TOPIC_REGEX_TIRED_MAX such. Threads   one owner at a time.
 */
#ifndef OTTLA_COORDINATOR_TOPIC_REGEX_H
#define OTTLA_COORDINATOR_TOPIC_REGEX_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/bytes.h"
#include "base/err.h"

enum {
    TOPIC_REGEX_BYTES_MAX = 32 * 1024, /* of an expression: more than a string of the protocol holds */
    TOPIC_REGEX_REPEAT_MAX = 1000,     /* RE2's */
    TOPIC_REGEX_STEPS_MAX = 5000,      /* of PCRE2's: some 100 us */
    TOPIC_REGEX_DEPTH_MAX = 1000,
    TOPIC_REGEX_TIRED_MAX = 16,
};

struct topic_regex;

/* ERR_INVALID_REGULAR_EXPRESSION with why (in words, in the arena); ERR_NOMEM. */
MUST_CHECK enum err topic_regex_check(struct bytes text, struct arena *arena, struct bytes *why);
MUST_CHECK enum err topic_regex_new(struct bytes text, struct topic_regex **regex);
/* NULL does nothing. */
void topic_regex_free(struct topic_regex *regex);
bool topic_regex_matches(struct topic_regex *regex, struct bytes name);

#endif
