/* Rules of regular expressions over topic names: RE2's syntax and no more, whole names, bounded matching. */
#include "coordinator/topic_regex.h"

#include <check.h>
#include <stdio.h>
#include <time.h>

#include "partition/run_tests.h"

static void expect(const char *text, const char *name, bool matches)
{
    struct topic_regex *regex = NULL;

    ck_assert_msg(topic_regex_new(bytes_of_text(text), &regex) == ERR_OK, "%s is refused", text);
    ck_assert_msg(topic_regex_matches(regex, bytes_of_text(name)) == matches, "%s on %s: not %d", text, name, matches);
    topic_regex_free(regex);
}

static void refuse(const char *text, const char *why)
{
    struct arena arena;
    struct bytes said = {0};

    arena_init(&arena, 64 * 1024);
    ck_assert_msg(topic_regex_check(bytes_of_text(text), &arena, &said) == ERR_INVALID_REGULAR_EXPRESSION,
                  "%s is taken", text);
    ck_assert_msg(why == NULL || bytes_equal(said, bytes_of_text(why)), "%s: %.*s", text, BYTES_PRINTF(said));
    arena_deinit(&arena);
}

/* Rule: the whole name matches, or it does not. */
START_TEST(whole_names)
{
    expect("foo", "foo", true);
    expect("foo", "foobar", false);
    expect("foo", "afoo", false);
    expect("foo|foobar", "foobar", true);
    expect("foo.*", "foobar", true);
    expect("", "", true);
    expect("", "a", false);
    expect("^foo$", "foo", true);
}
END_TEST

/* Rule: what RE2 has, works as there. */
START_TEST(syntax)
{
    expect("[a-c]+_[^0-9]{2,3}", "abc_xy", true);
    expect("[a-c]+_[^0-9]{2,3}", "abc_xy1", false);
    expect("(?i)FOO", "foo", true);
    expect("(?i:F)oo", "foo", true);
    expect("(?P<name>a)(?<other>b)", "ab", true);
    expect("a{,2}", "a{,2}", true);
    expect("a{1}", "a", true);
    expect("\\Qa.b\\E", "a.b", true);
    expect("\\Qa.b\\E", "axb", false);
    expect("\\x61\\x{62}\\143", "abc", true);
    expect("\\pL+", "abc", true);
    expect("\\p{Lu}\\P{Lu}", "Ab", true);
    expect("[[:alpha:]]+[[:^alpha:]]", "abc1", true);
    expect("[]a]+", "]a", true);
    expect("[a\\]b]+", "]b", true);
    expect("\\Aa.?b\\z", "a.b", true);
    expect("a*?b+?c??", "abc", true);
    expect("\\d+\\w\\.\\-", "12x.-", true);
    expect("(a|b)*", "abba", true);
    expect("(?s).(?-s).", "ab", true);
}
END_TEST

/* Rule: what RE2 refuses is refused. */
START_TEST(refused)
{
    refuse("(?=a)", "invalid or unsupported Perl syntax");
    refuse("(?!a)", NULL);
    refuse("(?<=a)b", NULL);
    refuse("(?<!a)b", NULL);
    refuse("(a)\\1", "invalid escape sequence");
    refuse("(?P<n>a)\\k<n>", NULL);
    refuse("(?>a)", NULL);
    refuse("(?R)", NULL);
    refuse("(?(1)a)", NULL);
    refuse("(?#c)", NULL);
    refuse("(?|a|b)", NULL);
    refuse("(*UTF8)a", "missing argument to repetition operator");
    refuse("a*+", "invalid nested repetition operator");
    refuse("a**", NULL);
    refuse("a{1001}", "invalid repeat count");
    refuse("a{2,1}", NULL);
    refuse("*a", NULL);
    refuse("a|*", NULL);
    refuse("(", NULL);
    refuse(")", NULL);
    refuse("[a", "missing closing ]");
    refuse("[b-a]", NULL);
    refuse("\\", "trailing backslash at end of expression");
    refuse("\\Z", NULL);
    refuse("\\R", NULL);
    refuse("\\X", NULL);
    refuse("\\K", NULL);
    refuse("\\C", NULL);
    refuse("\\p{Nonsense}", NULL);
    refuse("\xff", NULL);
}
END_TEST

/* Rule: an expression that takes PCRE2 for ever costs a bounded number of steps, and then nothing. */
START_TEST(bounded)
{
    struct topic_regex *regex = NULL;

    ck_assert_int_eq(topic_regex_new(BYTES_LITERAL("(a+)+b"), &regex), ERR_OK);
    for (int i = 0; i < 10000; i++)
        ck_assert(!topic_regex_matches(regex, BYTES_LITERAL("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaac")));
    topic_regex_free(regex);
}
END_TEST

/* Rule: any bytes at all are either an expression or refused. */
START_TEST(any_bytes)
{
    uint32_t seed = 1;

    for (int i = 0; i < 20000; i++) {
        static const char alphabet[] = "ab()[]{}*+?|\\^$.-:=!<>P0123,QEpx&#";
        char text[24];
        size_t size = 0;
        struct topic_regex *regex = NULL;

        seed = seed * 1664525 + 1013904223;
        size = seed % sizeof(text);
        for (size_t j = 0; j < size; j++) {
            seed = seed * 1664525 + 1013904223;
            text[j] = alphabet[(seed >> 8) % (sizeof(alphabet) - 1)];
        }
        if (topic_regex_new(bytes_of(text, size), &regex) == ERR_OK) {
            (void)topic_regex_matches(regex, BYTES_LITERAL("abab01"));
            topic_regex_free(regex);
        }
    }
}
END_TEST

static double names_us(const char *text)
{
    struct topic_regex *regex = NULL;
    struct timespec from;
    struct timespec to;

    ck_assert_int_eq(topic_regex_new(bytes_of_text(text), &regex), ERR_OK);
    (void)clock_gettime(CLOCK_MONOTONIC, &from);
    for (int i = 0; i < 1000; i++) {
        char name[64];

        (void)snprintf(name, sizeof(name), "payments.eu-central.orders-%04d", i);
        (void)topic_regex_matches(regex, bytes_of_text(name));
    }
    (void)clock_gettime(CLOCK_MONOTONIC, &to);
    topic_regex_free(regex);
    return (double)(to.tv_sec - from.tv_sec) * 1e6 + (double)(to.tv_nsec - from.tv_nsec) / 1e3;
}

/* Shows: what a thousand names cost in one step, and what the worst expressions can make of it. */
START_TEST(a_thousand_names)
{
    double plain = names_us("payments\\..*");
    double usual = names_us("(payments|orders)\\.[a-z-]+\\.(orders|refunds)-[0-9]{4}");
    double worst = names_us("(([a-z.0-9-]+)+)+_");

    printf("1,000 names: %.0f us, %.0f us, at worst %.0f us\n", plain, usual, worst);
    ck_assert(plain < 1e6 && usual < 1e6 && worst < 1e6);
}
END_TEST

RUN_TESTS("topic_regex", whole_names, syntax, refused, bounded, any_bytes, a_thousand_names)
