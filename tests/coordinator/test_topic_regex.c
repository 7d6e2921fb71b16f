/* Rules of regular expressions over topic names: RE2's syntax and no more, whole names, bounded matching. */
#include "coordinator/topic_regex.h"

#include <check.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "partition/run_tests.h"

static void expect(const char *text, const char *name, bool matches)
{
    struct topic_regex *regex = NULL;
    uint32_t cost = 0;
    uint32_t tired = 0;

    ck_assert_msg(topic_regex_new(bytes_of_text(text), &regex) == ERR_OK, "%s is refused", text);
    ck_assert_msg(topic_regex_matches(regex, bytes_of_text(name), &cost, &tired) == matches, "%s on %s: not %d", text,
                  name, matches);
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

/* Rule: without regard to case properties are, too, and the two characters beyond ASCII that are a letter of it but for
 * their case; a class that is negated is what is left. */
START_TEST(without_case)
{
    expect("(?i)\\p{Lu}+", "aA", true);
    expect("(?i)[\\p{Lu}_]+", "a_A", true);
    expect("(?i)[^\\p{Lu}]", "a", false);
    expect("(?i)\\P{Lu}", "a", false);
    expect("(?i)\xc5\xbf\xe2\x84\xaa", "Sk", true);
    expect("(?i)[\xc5\xbf-\xc6\x80]", "s", true);
    expect("(?i)[^a]", "A", false);
    expect("(?i:a(?-i)a|b)", "Aa", true);
    expect("(?i:a(?-i)a|b)", "AA", false);
    expect("(?i:a(?-i)a|b)", "B", false);
    expect("((?i)a)b", "Ab", true);
    expect("((?i)a)b", "AB", false);
}
END_TEST

/* Rule: what stands between an item and its quantifier, or is an item of no width, is repeated as in RE2. */
START_TEST(odd_repeats)
{
    expect("^*a$?", "a", true);
    expect("\\b+a\\z{2}", "a", true);
    expect("a(?i)*", "aaa", true);
    expect("a*(?i)*", "aaa", true);
    expect("a+\\Q\\E+", "aaa", true);
    expect("a{01}", "a{01}", true);
    expect("a{1,02}", "a{1,02}", true);
    refuse("a|(?i)*", "missing argument to repetition operator");
    refuse("{*", "invalid nested repetition operator");
}
END_TEST

/* Rule: a class is read as RE2 reads it: where a range cannot be, a - is one character; [: without its end is two. */
START_TEST(classes)
{
    expect("[\\d-a]+", "1-a", true);
    expect("[[:alpha:[a-c]+", "[:alphabc", true);
    expect("\\[[:alpha:]]", "[a]", true);
    expect("[[.a.]]", ".]", true);
    expect("[^\\x00-\\x{10FFFF}]|a", "a", true);
    expect("\\\xc3\xa9|a", "a", true);
    refuse("[a-\\d]", "invalid escape sequence");
    refuse("[[:foo:]]", "invalid character class range");
    refuse("[a-[:alpha:]]", "invalid character class range");
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
    refuse("\\p{ASCII}", "invalid character class range");
    refuse("\\p{lu}", NULL);
    refuse("\\ps", NULL);
    refuse("(?<n>a)(?<n>b)", "duplicate capture group name");
    refuse("\xff", NULL);
}
END_TEST

/* At more places at once than there may be. */
static const char FOR_EVER[] = "(a?){300}[bd]";
static const char MANY_AS[] = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaac";

/* Rule: an expression that takes too much work costs a bounded number of steps, and then no more than one that does
 * not. */
START_TEST(bounded)
{
    struct topic_regex *regex = NULL;
    uint32_t cost = 0;
    uint32_t tired = 0;

    ck_assert_int_eq(topic_regex_new(bytes_of_text(FOR_EVER), &regex), ERR_OK);
    for (int i = 0; i < 10000; i++)
        ck_assert(!topic_regex_matches(regex, bytes_of_text(MANY_AS), &cost, &tired));
    ck_assert_uint_eq(tired, TOPIC_REGEX_TIRED_MAX);
    ck_assert_uint_eq(cost, TOPIC_REGEX_TIRED_MAX * TOPIC_REGEX_MATCH_COST_MAX + 10000 - TOPIC_REGEX_TIRED_MAX);
    topic_regex_free(regex);
}
END_TEST

/* Rule: a hundred of them that are resolved together are as bounded as one; what takes little work goes on to match. */
START_TEST(bounded_together)
{
    enum { EXPRESSIONS = 100, NAMES = 20 };
    struct topic_regex *all[EXPRESSIONS];
    struct topic_regex *usual = NULL;
    uint32_t cost = 0;
    uint32_t tired = 0;

    for (int i = 0; i < EXPRESSIONS; i++)
        ck_assert_int_eq(topic_regex_new(bytes_of_text(FOR_EVER), &all[i]), ERR_OK);
    for (int i = 0; i < NAMES * EXPRESSIONS; i++)
        ck_assert(!topic_regex_matches(all[i % EXPRESSIONS], bytes_of_text(MANY_AS), &cost, &tired));
    ck_assert_uint_eq(cost, TOPIC_REGEX_TIRED_MAX * (TOPIC_REGEX_MATCH_COST_MAX - 1) + (uint32_t)NAMES * EXPRESSIONS);
    ck_assert_int_eq(topic_regex_new(BYTES_LITERAL("(payments|orders)\\..*-[0-9]+"), &usual), ERR_OK);
    ck_assert(topic_regex_matches(usual, BYTES_LITERAL("orders.eu-17"), &cost, &tired));
    ck_assert(!topic_regex_matches(usual, BYTES_LITERAL("orders.eu"), &cost, &tired));
    topic_regex_free(usual);
    for (int i = 0; i < EXPRESSIONS; i++)
        topic_regex_free(all[i]);
}
END_TEST

/* before, then again as often as fits, then after. */
static char *fill(char *to, size_t size, const char *before, const char *again, const char *after)
{
    size_t at = (size_t)snprintf(to, size + 1, "%s", before);

    while (at + strlen(again) + strlen(after) <= size)
        at += (size_t)snprintf(to + at, size + 1 - at, "%s", again);
    (void)snprintf(to + at, size + 1 - at, "%s", after);
    return to;
}

/* Rule: what is too large is refused, as it is written or as it is repeated (TOPIC_REGEX_CODE_MAX); a list of names
 * that is not, is matched to its end, at as many places at once as it begins with (TOPIC_REGEX_STATES_MAX). */
START_TEST(sizes)
{
    char text[TOPIC_REGEX_BYTES_MAX + 64];

    refuse(fill(text, TOPIC_REGEX_BYTES_MAX + 1, "", "a", ""), "expression too large");
    refuse("(abcdefghij{0,99}){0,999}", NULL);
    refuse("(abcdefghijklmnopqrstuvwxyz){0,500}", "expression too large");
    expect(fill(text, TOPIC_REGEX_BYTES_MAX, "", "a", ""), "a", false);
    expect(fill(text, TOPIC_REGEX_BYTES_MAX, "", "abcd|", "cdef"), "cdef", true);
    expect(fill(text, TOPIC_REGEX_BYTES_MAX, "(", "abcde|", "cd).*"), "cdx", true);
    expect(fill(text, TOPIC_REGEX_BYTES_MAX, "", "payments\\.orders-1|", "payments\\.orders-2"), "payments.orders-2",
           true);
    expect("([a-z0-9]+[._-]){1,20}[a-z0-9]{1,100}", "a-b-c-d.e.f_g", true);
}
END_TEST

/* Rule: words looked for anywhere in names, and words between dashes, are found, however many names have none of them
 * and however long these are: none is tired. (With backtracking alone each of these hid every topic.) */
START_TEST(words_anywhere)
{
    static const char *const cases[] = {".*-.*-.*-prod",
                                        ".*-.*-.*-.*-.*-.*-prod",
                                        "(\\w+-?)+prod",
                                        "[a-z0-9-]+-[a-z0-9-]+-[a-z0-9-]+-prod",
                                        ".*(tarantula|mantis).*|.*-b-prod",
                                        "(a|aa|[a-z0-9]+|-)*-b-prod"};
    char text[TOPIC_REGEX_BYTES_MAX + 64];

    fill(text, TOPIC_REGEX_BYTES_MAX, ".*(", "aardvarks|blackbirds|", "b-prod).*");
    for (size_t i = 0; i <= sizeof(cases) / sizeof(cases[0]); i++) {
        struct topic_regex *regex = NULL;
        uint32_t cost = 0;
        uint32_t tired = 0;
        char name[250];

        ck_assert_int_eq(
            topic_regex_new(bytes_of_text(i == sizeof(cases) / sizeof(cases[0]) ? text : cases[i]), &regex), ERR_OK);
        fill(name, sizeof(name) - 1, "", "team-service-orders-v2-eu-west-", "x-dev");
        for (int j = 0; j < 1000; j++)
            ck_assert(!topic_regex_matches(regex, bytes_of_text(name), &cost, &tired));
        fill(name, sizeof(name) - 1, "", "team-service-orders-v2-eu-west-", "a-b-prod");
        ck_assert(topic_regex_matches(regex, bytes_of_text(name), &cost, &tired));
        ck_assert_uint_eq(tired, 0);
        topic_regex_free(regex);
    }
    /* One of its alternatives matches the beginning. */
    fill(text, 200, "", "a", "-b-c");
    expect("|a+-b|(a|aa)*-(b|c)-d", text, false);
    expect("|a+-b|(a|aa)*-(b|c)-c", text, true);
}
END_TEST

/* Rule: all characters beyond ASCII are one, and that is a byte, which no name has: made out in Unicode, without regard
 * to case, wide classes of them take PCRE2 a quarter of a second. */
START_TEST(wide_classes)
{
    char text[TOPIC_REGEX_BYTES_MAX + 64];

    expect("\\x{100}\\x{10ffff}\xc3\xa9", "\xff\xff\xff", true);
    expect("[^\xc3\xa9]", "\xff", false);
    expect(fill(text, TOPIC_REGEX_BYTES_MAX, "(?i)[", "\\x{100}-\\x{10ffff}", "]"), "\xff", true);
    expect(fill(text, TOPIC_REGEX_BYTES_MAX, "(?i)(?:[", "\\x{100}-\\x{10ffff}", "]){0,20}x"), "\xff\xffX", true);
    expect(fill(text, TOPIC_REGEX_BYTES_MAX, "(?i)", "[^\\x{0}-\\x{10fffe}]*", "a"), "a", true);
}
END_TEST

/* Rule: no name has a character beyond ASCII; an expression may, and is checked all the same. */
START_TEST(beyond_ascii)
{
    expect("caf\xc3\xa9", "cafe", false);
    expect("caf\xc3\xa9?", "caf", true);
    expect("[\xc3\xa9-\xf0\x9f\x98\x80x]+", "xx", true);
    expect("[^\xc3\xa9]+", "abc", true);
    expect("[\\x{0}-\\x{10ffff}]+", "abc", true);
    expect("[!-\xc3\xa9]+", "abc", true);
    expect("(?i)[\\x{100}-\\x{10ffff}]*A", "a", true);
    expect("\\Q\xc3\xa9\\E|a", "a", true);
    expect("[a-]+", "a-", true);
    expect("[-a]+", "a-", true);
    refuse("[\\x{200}-\\x{100}]", "invalid character class range");
    refuse("[\xc3\xa9-a]", "invalid character class range");
    refuse("[\xff]", "invalid UTF-8");
    refuse("\xc0\x80", "invalid UTF-8");
    refuse("\xed\xa0\x80", "invalid UTF-8");
    refuse("\\Q\xe2\x82", "invalid UTF-8");
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
        uint32_t cost = 0;
        uint32_t tired = 0;

        seed = seed * 1664525 + 1013904223;
        size = seed % sizeof(text);
        for (size_t j = 0; j < size; j++) {
            seed = seed * 1664525 + 1013904223;
            text[j] = alphabet[(seed >> 8) % (sizeof(alphabet) - 1)];
        }
        if (topic_regex_new(bytes_of(text, size), &regex) == ERR_OK) {
            (void)topic_regex_matches(regex, BYTES_LITERAL("abab01"), &cost, &tired);
            topic_regex_free(regex);
        }
    }
}
END_TEST

/* Of a thousand names; *cost: out. */
static double names_us(const char *text, uint32_t *cost)
{
    struct topic_regex *regex = NULL;
    uint32_t tired = 0;
    struct timespec from;
    struct timespec to;

    ck_assert_int_eq(topic_regex_new(bytes_of_text(text), &regex), ERR_OK);
    *cost = 0;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
    for (int i = 0; i < 1000; i++) {
        char name[64];

        (void)snprintf(name, sizeof(name), "payments.eu-central.orders-%04d", i);
        (void)topic_regex_matches(regex, bytes_of_text(name), cost, &tired);
    }
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
    topic_regex_free(regex);
    return (double)(to.tv_sec - from.tv_sec) * 1e6 + (double)(to.tv_nsec - from.tv_nsec) / 1e3;
}

static double ms_since(const struct timespec *from)
{
    struct timespec to;

    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
    return (double)(to.tv_sec - from->tv_sec) * 1e3 + (double)(to.tv_nsec - from->tv_nsec) / 1e6;
}

/* Rule: whatever the expression, a match costs no more than it may, and all together no more than that for each tired
 * one; what would is refused, or matches nothing. Shows, too, what that is in time: the figures of topic_regex.h. */
START_TEST(hostile)
{
    static const struct {
        const char *before, *again, *after;
    } cases[] = {
        {"(?i)[", "\\x{100}-\\x{10ffff}", "]"},
        {"(?i)(?:[", "\\x{100}-\\x{10ffff}", "]){1,20}"},
        {"(?i)", "[\\x{0}-\\x{10ffff}]", ""},
        {"(?i)", "[^\\x{0}-\\x{10fffe}]*", ""},
        {"", "[^\\p{L}\\p{N}]", ""},
        {"[", "\\p{Greek}\\pS", "]*"},
        {"([", "\\p{Greek}\\pS", "\\pL]*)*x"},
        {"", "a?", ""},
        {"", "a?", "b"},
        {"(", "a?", ")*c"},
        {"(", "a|", "a)*c"},
        {"(", "aa|", "a)*c"},
        {"", "(a*)*|", "c"},
        {"", "a*", "c"},
        {"", ".*", "c"},
        {"", "(a|b)*", "c"},
        {"", "a*b*", "c"},
        {"", "[ab]*", "[cd]"},
        {"", "\\w*", "\\."},
        {"", "(?:a|b){0,99}", ""},
        {"", "(?:a?){0,99}", "c"},
        {"(?:", "a?", "){0,15}c"},
        {"(?:", "a", "){1000}"},
        {"(?:(?:", "a?", "){1000}){30}"},
        {"(?:(?:(?:", "a", "{0,5}){0,5}){0,5}){0,5}"},
        {"(?:(?:(?:a{0,10}){0,10}){0,10}){0,3}", "a", ""},
        {"", "(", ""},
        {"", "(?:a", ""},
        {"(?:a|b|c|d){0,1000}", "a*", "c"},
        {"(?i)", "s?", "c"},
        {"a{0,1000}", "a*", "c"},
        {"", "(a?){0,9}", "c"},
        {"", "a*?", "c"},
        {"(([", "\\p{Greek}", "\\p{Ll}]+)+)+c"},
        {"", "[\\p{Greek}\\p{Han}\\p{Thai}\\p{Ll}]*", "c"},
        {"", "(?:aa?)*", "c"},
        {"((", "[a-z]|", "\\w)+)+c"},
        {"(([", "\\P{Greek}", "]+)+)+c"},
        {"", "[\\p{Greek}\\PS]*", "c"},
        {"", "[\\pP\\pS\\pC\\pL\\pM]*?", "c"},
        {"", "\\b\\B?a?", "c"},
    };
    double worst_compile = 0;
    double worst_match = 0;
    double worst_cost = 0;
    uint32_t dearest = 0;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        for (size_t size = 128; size <= TOPIC_REGEX_BYTES_MAX; size += 128) {
            char text[TOPIC_REGEX_BYTES_MAX + 64];
            char name[250] = "";
            struct topic_regex *regex = NULL;
            struct timespec from;
            uint32_t cost = 0;
            uint32_t tired = 0;
            enum err err = ERR_OK;
            double ms = 0;
            double most = 0;

            (void)fill(text, size, cases[i].before, cases[i].again, cases[i].after);
            (void)fill(name, sizeof(name) - 1, "", "a",
                       "cd.x-Z9"); /* whatever it ends with is there, but not at its end */
            (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
            err = topic_regex_new(bytes_of_text(text), &regex);
            ms = ms_since(&from);
            worst_compile = ms > worst_compile ? ms : worst_compile;
            for (int j = 0; err == ERR_OK && j < 20; j++) {
                uint32_t before = cost;
                uint32_t tired_before = tired;
                bool matches = false;

                (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
                matches = topic_regex_matches(regex, bytes_of_text(name), &cost, &tired);
                ms = ms_since(&from);
                ck_assert_msg(cost > before && cost - before <= TOPIC_REGEX_MATCH_COST_MAX, "%s: %u", text,
                              cost - before);
                ck_assert(tired - tired_before <= (matches ? 0U : 1U));
                dearest = cost - before > dearest ? cost - before : dearest;
                most = ms > most ? ms : most;
                ms /= cost - before;
                worst_cost = ms > worst_cost ? ms : worst_cost;
            }
            worst_match = most > worst_match ? most : worst_match;
            topic_regex_free(regex);
        }
    }
    ck_assert_uint_eq(dearest, TOPIC_REGEX_MATCH_COST_MAX); /* else none was hostile */
    printf("at worst: compile %.3f ms, match %.3f ms, cost of 1 %.3f ms\n", worst_compile, worst_match, worst_cost);
}
END_TEST

/* Rule: a name costs a usual expression no more than the least, and what backtracking takes for ever for is matched at
 * a bounded cost. Shows, too, what that is in time. */
START_TEST(a_thousand_names)
{
    uint32_t cost = 0;
    double plain = names_us("payments\\..*", &cost);
    double usual = 0;
    double worst = 0;

    ck_assert_uint_eq(cost, 1000);
    usual = names_us("(payments|orders)\\.[a-z-]+\\.(orders|refunds)-[0-9]{4}", &cost);
    ck_assert_uint_eq(cost, 1000);
    worst = names_us("(([a-z.0-9-]+)+)+[_A]", &cost);
    ck_assert_uint_gt(cost, 1000);
    ck_assert_uint_le(cost, 1000 * TOPIC_REGEX_MATCH_COST_MAX);
    printf("1,000 names: %.0f us, %.0f us, at worst %.0f us\n", plain, usual, worst);
}
END_TEST

RUN_TESTS("topic_regex", whole_names, syntax, without_case, odd_repeats, classes, refused, bounded, bounded_together,
          sizes, words_anywhere, wide_classes, beyond_ascii, any_bytes, hostile, a_thousand_names)
