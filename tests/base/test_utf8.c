/* Rule: each character comes back as it was written, and what is not UTF-8 is as many U+FFFD as Java makes of it (the
 * forms below as new String(bytes, UTF_8) of OpenJDK 17 has them). */
#include <check.h>
#include <stdlib.h>

#include "base/utf8.h"

static size_t write_character(uint32_t code, uint8_t *to)
{
    if (code < 0x80) {
        to[0] = (uint8_t)code;
        return 1;
    }
    if (code < 0x800) {
        to[0] = (uint8_t)(0xc0 | code >> 6);
        to[1] = (uint8_t)(0x80 | (code & 0x3f));
        return 2;
    }
    if (code < 0x10000) {
        to[0] = (uint8_t)(0xe0 | code >> 12);
        to[1] = (uint8_t)(0x80 | (code >> 6 & 0x3f));
        to[2] = (uint8_t)(0x80 | (code & 0x3f));
        return 3;
    }
    to[0] = (uint8_t)(0xf0 | code >> 18);
    to[1] = (uint8_t)(0x80 | (code >> 12 & 0x3f));
    to[2] = (uint8_t)(0x80 | (code >> 6 & 0x3f));
    to[3] = (uint8_t)(0x80 | (code & 0x3f));
    return 4;
}

START_TEST(every_character)
{
    uint8_t written[4];
    uint32_t wrong = 0; /* counted: a million assertions take Check ten seconds */

    for (uint32_t code = 0; code <= UTF8_CODE_MAX; code++) {
        struct bytes rest = bytes_of(written, write_character(code, written));
        bool surrogate = code >= 0xd800 && code < 0xe000;
        uint32_t read = 0;

        wrong += utf8_take(&rest, &read) == surrogate || read != (surrogate ? UTF8_REPLACEMENT : code) || rest.size > 0;
    }
    ck_assert_uint_eq(wrong, 0);
}
END_TEST

/* Nothing else is a character: a longer form of a shorter one, or what is beyond the last. */
START_TEST(only_the_shortest_form)
{
    uint32_t valid = 0;

    for (uint32_t i = 0; i < 1 << 24; i++) {
        uint8_t bytes[] = {(uint8_t)(i >> 16), (uint8_t)(i >> 8), (uint8_t)i};
        struct bytes rest = bytes_of(bytes, 3);
        uint32_t read = 0;

        valid += utf8_take(&rest, &read) && rest.size == 0;
    }
    ck_assert_uint_eq(valid, 0x10000 - 0x800 - 0x800); /* those of three bytes, without surrogates */
}
END_TEST

static void expect(struct bytes text, const uint32_t *codes, uint32_t count)
{
    struct bytes rest = text;

    for (uint32_t i = 0; i < count; i++) {
        uint32_t code = 0;

        ck_assert_uint_gt(rest.size, 0);
        ck_assert_int_eq(utf8_take(&rest, &code), codes[i] != UTF8_REPLACEMENT);
        ck_assert_uint_eq(code, codes[i]);
    }
    ck_assert_uint_eq(rest.size, 0);
}

#define EXPECT(text, ...)                                                                                              \
    expect(BYTES_LITERAL(text), (const uint32_t[]){__VA_ARGS__},                                                       \
           sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t))

START_TEST(what_is_none_as_java_has_it)
{
    const uint32_t bad = UTF8_REPLACEMENT;

    EXPECT("\xff", bad);
    EXPECT("\x80\xbf", bad, bad);
    EXPECT("\xc0\x80", bad, bad);                   /* a longer form of NUL */
    EXPECT("\xc3", bad);                            /* cut */
    EXPECT("\xc3(", bad, '(');                      /* broken */
    EXPECT("\xe2\x82", bad);                        /* cut behind two: one */
    EXPECT("\xe2\x82(", bad, '(');                  /* broken behind two: one */
    EXPECT("\xe0\x80\x80", bad, bad, bad);          /* what comes second cannot */
    EXPECT("\xed\xa0\x80", bad);                    /* a surrogate: one */
    EXPECT("\xed\xa0", bad);                        /* and cut */
    EXPECT("\xf0\x9f\x98", bad);                    /* three of four: one */
    EXPECT("\xf0\x9f\x98(", bad, '(');              /* and broken */
    EXPECT("\xf0\x80\x80\x80", bad, bad, bad, bad); /* too long a form */
    EXPECT("\xf4\x90\x80\x80", bad, bad, bad, bad); /* beyond the last */
    EXPECT("\xf5\x80\x80\x80", bad, bad, bad, bad); /* begins nothing */
    EXPECT("a\xf0\x9f\x98\x80z", 'a', 0x1f600, 'z');
}
END_TEST

START_TEST(units_of_utf_16)
{
    uint16_t units[2];

    ck_assert_uint_eq(utf8_units(0xffff, units), 1);
    ck_assert_uint_eq(units[0], 0xffff);
    ck_assert_uint_eq(utf8_units(0x10000, units), 2);
    ck_assert_uint_eq(units[0], 0xd800);
    ck_assert_uint_eq(units[1], 0xdc00);
    ck_assert_uint_eq(utf8_units(UTF8_CODE_MAX, units), 2);
    ck_assert_uint_eq(units[0], 0xdbff);
    ck_assert_uint_eq(units[1], 0xdfff);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("utf8");
    TCase *tcase = tcase_create("utf8");
    SRunner *runner = srunner_create(suite);
    int failed = 0;

    tcase_add_test(tcase, every_character);
    tcase_add_test(tcase, only_the_shortest_form);
    tcase_add_test(tcase, what_is_none_as_java_has_it);
    tcase_add_test(tcase, units_of_utf_16);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
