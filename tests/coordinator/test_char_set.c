/* Rules of sets of characters: ranges, case, negation, and the names that re2j has for them. */
#include "coordinator/char_set.h"

#include <check.h>

#include "partition/run_tests.h"

/* The printable ASCII of the set, in order. */
static const char *shown(const struct char_set *set)
{
    static char text[CHAR_SET_BEYOND];
    size_t size = 0;

    for (uint32_t code = ' '; code < CHAR_SET_BEYOND; code++) {
        if (char_set_has(set, code))
            text[size++] = (char)code;
    }
    text[size] = '\0';
    return text;
}

/* Rule: a range has both its ends, and what is beyond ASCII is one character. */
START_TEST(ranges)
{
    struct char_set set = {0};

    char_set_add(&set, 'x', 0x10ffff, false);
    ck_assert_str_eq(shown(&set), "xyz{|}~\x7f");
    ck_assert(char_set_has(&set, CHAR_SET_BEYOND));
    char_set_negate(&set);
    ck_assert(!char_set_has(&set, CHAR_SET_BEYOND) && !char_set_has(&set, 'x') && char_set_has(&set, 'w'));
}
END_TEST

/* Rule: folding gives letters their other case, and no other character one; long s and the sign of kelvin are letters
 * of ASCII but for their case. */
START_TEST(folding)
{
    struct char_set set = {0};

    char_set_add(&set, '@', 'B', true);
    ck_assert_str_eq(shown(&set), "@ABab");
    ck_assert(char_set_is_folded(&set));
    char_set_add(&set, 'c', 'c', false);
    ck_assert(!char_set_is_folded(&set));
    set = (struct char_set){0};
    char_set_add(&set, 0x17f, 0x17f, true);
    ck_assert_str_eq(shown(&set), "Ss");
    char_set_add(&set, 0x2000, 0x3000, true);
    ck_assert_str_eq(shown(&set), "KSks");
    set = (struct char_set){0};
    char_set_add(&set, 0x180, 0x2129, true);
    ck_assert_str_eq(shown(&set), "");
}
END_TEST

/* Rule: a property has the ASCII that re2j gives it, whatever PCRE2 thinks; one that re2j has not there is none. */
START_TEST(properties)
{
    static const struct {
        const char *name, *ascii;
        bool fold;
    } cases[] = {
        {"Lu", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", false},
        {"Lu", "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", true},
        {"Ll", "KSabcdefghijklmnopqrstuvwxyz", true},
        {"P", "!\"#%&'()*,-./:;?@[\\]_{}", false},
        {"S", "$+<=>^`|~", false},
        {"Latin", "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", false},
        {"Common", " !\"#$%&'()*+,-./0123456789:;<=>?@[\\]^_`{|}~\x7f", false},
        {"Han", "", true},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct char_set set = {0};

        ck_assert(char_set_add_property(&set, bytes_of_text(cases[i].name), cases[i].fold));
        ck_assert_str_eq(shown(&set), cases[i].ascii);
    }
    for (size_t i = 0; i < 4; i++) {
        static const char *const none[] = {"", "lu", "Alphabetic", "Grek"};
        struct char_set set = {0};

        ck_assert(!char_set_add_property(&set, bytes_of_text(none[i]), false));
    }
}
END_TEST

/* Rule: names in brackets and letters behind a backslash are ASCII's. */
START_TEST(names)
{
    struct char_set set = {0};

    ck_assert(char_set_add_posix(&set, BYTES_LITERAL("upper"), true));
    ck_assert_uint_eq(strlen(shown(&set)), 52);
    ck_assert(!char_set_add_posix(&set, BYTES_LITERAL("Upper"), false));
    set = (struct char_set){0};
    char_set_add_perl(&set, 'd');
    char_set_add_perl(&set, 's');
    ck_assert_str_eq(shown(&set), " 0123456789");
    ck_assert(char_set_has(&set, '\n') && !char_set_has(&set, '\v'));
}
END_TEST

RUN_TESTS("char_set", ranges, folding, properties, names)
