/*
 * topic_regex: a member's regular expression over topic names. The syntax is RE2's, as Kafka has it; re2.h hands it to
 * PCRE2 in its own words.
 *
 * Matches   the whole name or not at all. Names are ASCII: a character beyond it in an expression is one that no name
 *           has, and all of them are alike.
 * Bounded   RE2 takes linear time. So does one matcher of PCRE2's, which goes over a name once, at all places of the
 *           expression where it may be; its usual one, the faster for what is usual, may take for ever. That is tried
 *           first, for few steps, then the other: the places that it is at are what it costs, by their square. What is
 *           large, as it is written or as PCRE2 has it, is refused; a match that is at more than
 *           TOPIC_REGEX_STATES_MAX places at once counts as none, and is tired. After TOPIC_REGEX_TIRED_MAX such, of
 *           all expressions that are resolved together, only a cost of 1 is spent on a match, and an expression that
 *           had a tired one matches nothing. Measured with the expressions of test_topic_regex.c, the worst that were
 *           found: 0.3 ms to compile one, 6 ms for one match, some 20 us for a cost of 1.
 * Threads   one owner at a time.
 */
#ifndef OTTLA_COORDINATOR_TOPIC_REGEX_H
#define OTTLA_COORDINATOR_TOPIC_REGEX_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/bytes.h"
#include "base/err.h"
#include "coordinator/re2.h"

enum {
    TOPIC_REGEX_BYTES_MAX = RE2_BYTES_MAX, /* of an expression: 40 names of 25 characters; who has more may list them as
                                              names */
    TOPIC_REGEX_CODE_MAX = 16 * 1024,      /* bytes of what PCRE2 makes of it: repeats write it out as often. Refused */
    TOPIC_REGEX_COST_WORK = 4 * 1024, /* that is a cost of 1: bytes gone over, of the name and an eighth of the code */
    TOPIC_REGEX_STATES_LEAST = 64,    /* places at once that are tried first */
    TOPIC_REGEX_GROWTH = 4,           /* then so many times as many */
    TOPIC_REGEX_STATES_MAX = 256,     /* a list of names of four characters begins at 205, words looked for anywhere
                                         in a name, by the hundred, are some 100 */
    TOPIC_REGEX_COST_STATES = 256,    /* places, squared: a cost of 1 */
    /* Of one match: all attempts together. */
    TOPIC_REGEX_MATCH_COST_MAX =
        1 + (TOPIC_REGEX_STATES_LEAST * TOPIC_REGEX_STATES_LEAST + TOPIC_REGEX_STATES_MAX * TOPIC_REGEX_STATES_MAX) /
                TOPIC_REGEX_COST_STATES,
    TOPIC_REGEX_TIRED_MAX = 256, /* 1.5 s of matches at worst, in pieces: the names that take too much work for one that
                                    is matched are not to hide those that would not */
};

struct topic_regex;

/* ERR_INVALID_REGULAR_EXPRESSION with why (in words, in the arena); ERR_NOMEM. */
MUST_CHECK enum err topic_regex_check(struct bytes text, struct arena *arena, struct bytes *why);
MUST_CHECK enum err topic_regex_new(struct bytes text, struct topic_regex **regex);
/* NULL does nothing. */
void topic_regex_free(struct topic_regex *regex);
/* name: of a topic, ASCII. Adds to cost, 1 to TOPIC_REGEX_MATCH_COST_MAX. tired: in and out, from 0, the tired matches
 * of all expressions that are resolved together. */
bool topic_regex_matches(struct topic_regex *regex, struct bytes name, uint32_t *cost, uint32_t *tired);

#endif
