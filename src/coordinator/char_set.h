/*
 * char_set: the characters that one place of an expression may stand for, by RE2's rules (re2j 1.8's, as Kafka has
 * them). Topic names are ASCII: all characters beyond it are one here, which no name has.
 *
 * Case      folding gives each letter its other case; and to the two characters beyond ASCII that fold into it, U+017F
 *           (long s) and U+212A (the sign of kelvin), theirs: s and k.
 */
#ifndef OTTLA_COORDINATOR_CHAR_SET_H
#define OTTLA_COORDINATOR_CHAR_SET_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"

enum {
    CHAR_SET_BEYOND = 0x80, /* the one that stands for all beyond ASCII */
    CHAR_SET_CODE_MAX = 0x10ffff,
};

/* All-zero: empty. */
struct char_set {
    uint64_t ascii[2];
    bool beyond;
};

/* From low to high, both in it; at most CHAR_SET_CODE_MAX. fold: and what they are in the other case. */
void char_set_add(struct char_set *set, uint32_t low, uint32_t high, bool fold);
void char_set_add_all(struct char_set *set, const struct char_set *more);
void char_set_negate(struct char_set *set);
/* code: up to CHAR_SET_BEYOND. */
bool char_set_has(const struct char_set *set, uint32_t code);
/* Whether each letter's other case is in it, too. */
bool char_set_is_folded(const struct char_set *set);

/* What d, s or w stands for behind a backslash. */
void char_set_add_perl(struct char_set *set, int letter);
/* name: as in [:name:], without the ^. False: there is none. */
bool char_set_add_posix(struct char_set *set, struct bytes name, bool fold);
/* name: as in \p{name}, without the ^. False: re2j has none. With fold a class is what re2j 1.8 makes of it, whose
 * table gives Ll only K and S. */
bool char_set_add_property(struct char_set *set, struct bytes name, bool fold);

#endif
