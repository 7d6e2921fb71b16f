/* Rules of what is written for PCRE2: short for what is usual, and bounded for whatever is read. What it means
 * test_topic_regex.c and integration/expressions show. */
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

RUN_TESTS("re2", written, depth, room)
