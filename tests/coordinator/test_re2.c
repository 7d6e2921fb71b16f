/* Rules of what is written for PCRE2: short for what is usual, and bounded for whatever is read. What it means
 * test_topic_regex.c and integration/expressions show.
 *
 * Sources: coordinator/re2_read.c */
#include "coordinator/re2.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

#include "partition/run_tests.h"

static char to[RE2_BYTES_MAX * RE2_GROWTH + RE2_GROWTH_EXTRA];

static void expect(const char *text, const char *written)
{
    size_t size = 0;
    const char *why = re2_translate(bytes_of_text(text), to, &size);

    ck_assert_msg(why == NULL, "%s: %s", text, why);
    ck_assert_msg(bytes_equal(bytes_of(to, size), bytes_of_text(written)), "%s: %.*s", text, (int)size, to);
}

static void refuse(struct bytes text, const char *why)
{
    size_t size = 0;

    ck_assert_pstr_eq(re2_translate(text, to, &size), why);
}

/* Rule: groups catch nothing, flags are told where something comes that they are for, a set is its ranges. */
START_TEST(written)
{
    expect("orders-(eu|us).*", "orders\\x2d(?:eu|us).*");
    expect("(?P<n>a)(?s)b", "(?:a)b");
    expect("(?i)(a)b", "(?:(?i)a)(?i)b");
    expect("(?i:a)b", "(?:(?i)a)b");
    expect("a(?i)*?", "a*");
    expect("a*(?U)+", "(?:a*)+");
    expect("^*", "(?:^)*");
    expect("[b-d\\d]", "[0-9b-d]");
    expect("(?i)\\p{Ll}", "(?i)(?-i:[KSa-z\\xff])");
    expect("\\xe9", "\\xff");
}
END_TEST

/* Rule: groups go as deep as PCRE2 takes them, and no deeper; each must end. */
START_TEST(depth)
{
    char text[2 * (RE2_DEPTH_MAX + 1)];
    size_t size = 0;

    memset(text, '(', RE2_DEPTH_MAX + 1);
    memset(text + RE2_DEPTH_MAX + 1, ')', RE2_DEPTH_MAX + 1);
    ck_assert_ptr_null(re2_translate(bytes_of(text + 1, sizeof(text) - 2), to, &size));
    refuse(bytes_of(text, sizeof(text)), "expression nests too deeply");
    refuse(bytes_of(text + 1, RE2_DEPTH_MAX), "missing closing )");
    refuse(BYTES_LITERAL("a)"), "unexpected )");
}
END_TEST

/* Rule: whatever the expression, what is written fits (re2.c asserts that it does): the longest of all are here. */
START_TEST(room)
{
    static const char *const longest[] = {"\\PP",   "(?i)\\PP(?-i)", "[^\\pP]",      "-",
                                          "a*(?)*", "\xc5\xbf",      "(?i:\xc5\xbf)"};

    for (size_t i = 0; i < sizeof(longest) / sizeof(longest[0]); i++) {
        char text[RE2_BYTES_MAX];
        size_t once = strlen(longest[i]);
        size_t size = 0;
        size_t used = 0;

        for (; used + once <= sizeof(text); used += once)
            memcpy(text + used, longest[i], once);
        ck_assert_ptr_null(re2_translate(bytes_of(text, used), to, &size));
        ck_assert_uint_le(size, used * RE2_GROWTH + RE2_GROWTH_EXTRA);
    }
}
END_TEST

/* Rule: an expression has as many named groups as its bytes make, ended or not (NAMES_MAX, which re2.c asserts); each
 * name once. */
START_TEST(named_groups)
{
    static const char word[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
    char text[RE2_BYTES_MAX + 8];
    size_t used = 0;
    size_t size = 0;

    for (size_t i = 0; used + 6 <= RE2_BYTES_MAX; i++) { /* those of one character first: they leave room for more */
        size_t high = i / (sizeof(word) - 1);

        used += high == 0 ? (size_t)snprintf(text + used, 6, "(?<%c>", word[i])
                          : (size_t)snprintf(text + used, 7, "(?<%c%c>", word[high - 1], word[i % (sizeof(word) - 1)]);
    }
    refuse(bytes_of(text, used), "missing closing )");
    used = (size_t)snprintf(text, sizeof(text), "(?<a>(?<b>(?<c>x)))");
    ck_assert_ptr_null(re2_translate(bytes_of(text, used), to, &size));
    refuse(BYTES_LITERAL("(?<a>(?<b>x))(?P<a>y)"), "duplicate capture group name");
}
END_TEST

/* Rule: a repeat counts to RE2_REPEAT_MAX, as in RE2. */
START_TEST(repeats)
{
    expect("a{1000}", "a{1000}");
    expect("a{0,1000}", "a{0,1000}");
    refuse(BYTES_LITERAL("a{1001}"), "invalid repeat count");
    refuse(BYTES_LITERAL("a{0,1001}"), "invalid repeat count");
    refuse(BYTES_LITERAL("a{99999999999999999999}"), "invalid repeat count");
}
END_TEST

/* Rule: a character is one of Unicode's, the last of which is CHAR_SET_CODE_MAX. */
START_TEST(characters)
{
    expect("\\x{10ffff}", "\\xff");
    refuse(BYTES_LITERAL("\\x{110000}"), "invalid escape sequence");
    expect("\xf4\x8f\xbf\xbf", "\\xff");
    refuse(BYTES_LITERAL("\xf4\x90\x80\x80"), "invalid UTF-8");
}
END_TEST

RUN_TESTS("re2", written, depth, room, named_groups, repeats, characters)
