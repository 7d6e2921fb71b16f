/* Rule: work that is over in a moment shows nothing; on a terminal a bar with rate and time left follows from the first
 * second on, ten times a second at most, and leaves nothing behind; elsewhere a whole line every thirty seconds. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "cli/progress.h"
#include "partition/run_tests.h"

#define SECOND INT64_C(1000000000)

enum { SHOWN_CHARS = 4096 };

struct shown {
    struct clock clock; /* first */
    int64_t now_ns;
    struct progress progress;
    FILE *to;
    char text[SHOWN_CHARS];
};

static int64_t now_of(struct clock *clock)
{
    return ((struct shown *)clock)->now_ns;
}

static void begin(struct shown *shown, bool is_terminal, uint64_t total_bytes)
{
    memset(shown, 0, sizeof(*shown));
    shown->clock.mono_ns = now_of;
    shown->now_ns = 12345 * SECOND;
    shown->to = fmemopen(shown->text, sizeof(shown->text), "w");
    ck_assert_ptr_nonnull(shown->to);
    progress_begin(&shown->progress, &shown->clock, shown->to, is_terminal, "verify", total_bytes);
}

/* So much later so many more bytes: what was shown for it. */
static const char *add(struct shown *shown, int64_t ns, uint64_t bytes)
{
    rewind(shown->to);
    memset(shown->text, 0, sizeof(shown->text));
    shown->now_ns += ns;
    progress_add(&shown->progress, bytes);
    (void)fflush(shown->to);
    return shown->text;
}

static const char *hide(struct shown *shown)
{
    rewind(shown->to);
    memset(shown->text, 0, sizeof(shown->text));
    progress_hide(&shown->progress);
    (void)fflush(shown->to);
    return shown->text;
}

START_TEST(a_moment_shows_nothing)
{
    for (int is_terminal = 0; is_terminal <= 1; is_terminal++) {
        struct shown shown;

        begin(&shown, is_terminal == 1, 1000);
        ck_assert_str_eq(add(&shown, SECOND - 1, 1000), "");
        ck_assert_str_eq(hide(&shown), "");
        progress_end(&shown.progress);
        fclose(shown.to);
        ck_assert_str_eq(shown.text, "");
    }
}
END_TEST

START_TEST(a_bar_on_a_terminal)
{
    struct shown shown;

    begin(&shown, true, 100 * 1000 * 1000);
    ck_assert_str_eq(add(&shown, SECOND - 1, 1000000), "");
    ck_assert_str_eq(add(&shown, 1, 24000000),
                     "\rverify [######------------------]  25 %, 25.0 MB, 25.0 MB/s, 3 s left\033[K");
    ck_assert_str_eq(add(&shown, SECOND / 10 - 1, 100), "");
    ck_assert_str_ne(add(&shown, 1, 100), "");
    ck_assert_str_eq(hide(&shown), "\r\033[K");
    ck_assert_str_eq(hide(&shown), ""); /* it is gone already */
    ck_assert_str_ne(add(&shown, SECOND / 10, 0), "");
    ck_assert_str_eq(hide(&shown), "\r\033[K");
    /* More than was said: a file grew meanwhile. */
    ck_assert_str_eq(add(&shown, 3 * SECOND - SECOND / 5, 200 * 1000 * 1000 - 25000200),
                     "\rverify [########################] 100 %, 200.0 MB, 50.0 MB/s\033[K");
    progress_end(&shown.progress);
    fclose(shown.to);
}
END_TEST

START_TEST(lines_elsewhere)
{
    struct shown shown;

    begin(&shown, false, 4000);
    ck_assert_str_eq(add(&shown, 30 * SECOND - 1, 1000), "");
    ck_assert_str_eq(add(&shown, 1, 0), "ottla: verify  25 %, 1.0 kB, 33 B/s, 1 min 30 s left\n");
    ck_assert_str_eq(hide(&shown), ""); /* a line stays */
    ck_assert_str_eq(add(&shown, 30 * SECOND - 1, 0), "");
    ck_assert_str_eq(add(&shown, 1, 1000), "ottla: verify  50 %, 2.0 kB, 33 B/s, 1 min 00 s left\n");
    progress_end(&shown.progress);
    fclose(shown.to);
}
END_TEST

START_TEST(a_total_that_is_not_known)
{
    struct shown shown;

    begin(&shown, true, 0);
    ck_assert_str_eq(add(&shown, 2 * SECOND, 1400), "\rverify 1.4 kB, 700 B/s\033[K");
    fclose(shown.to);
    begin(&shown, false, 0);
    ck_assert_str_eq(add(&shown, 30 * SECOND, 0), "ottla: verify 0 B, 0 B/s\n");
    fclose(shown.to);
}
END_TEST

/* Nothing was done yet: there is no rate to tell the rest by. */
START_TEST(nothing_done_yet)
{
    struct shown shown;

    begin(&shown, true, 1000);
    ck_assert_str_eq(add(&shown, SECOND, 0), "\rverify [------------------------]   0 %, 0 B, 0 B/s\033[K");
    fclose(shown.to);
}
END_TEST

START_TEST(units_of_bytes_and_of_time)
{
    static const struct {
        uint64_t total;
        uint64_t bytes;
        int64_t seconds;
        const char *end;
    } cases[] = {
        {0, 999, 30, " 999 B, 33 B/s\n"},
        {0, 1000, 30, " 1.0 kB, 33 B/s\n"},
        {0, 999949, 1000, " 999.9 kB, 1.0 kB/s\n"},
        {0, 999950, 1000, " 1.0 MB, 1.0 kB/s\n"}, /* not 1000.0 kB, nor 1000 B/s */
        {0, 999949999, 1000, " 999.9 MB, 999.9 kB/s\n"},
        {0, 1000000000, 1000, " 1.0 GB, 1.0 MB/s\n"},
        {0, UINT64_C(2500000000000), 1000, " 2.5 TB, 2.5 GB/s\n"},
        {0, UINT64_C(2500000000000000), 1000, " 2500.0 TB, 2.5 TB/s\n"},
        {59 * 100 + 3000, 3000, 30, " 59 s left\n"},
        {60 * 100 + 3000, 3000, 30, " 1 min 00 s left\n"},
        {3599 * 100 + 3000, 3000, 30, " 59 min 59 s left\n"},
        {3600 * 100 + 3000, 3000, 30, " 1 h 00 min left\n"},
        {UINT64_C(90061) * 100 + 3000, 3000, 30, " 25 h 01 min left\n"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct shown shown;
        const char *line = NULL;

        begin(&shown, false, cases[i].total);
        line = add(&shown, cases[i].seconds * SECOND, cases[i].bytes);
        ck_assert_uint_gt(strlen(line), strlen(cases[i].end));
        ck_assert_str_eq(line + strlen(line) - strlen(cases[i].end), cases[i].end);
        fclose(shown.to);
    }
}
END_TEST

RUN_TESTS("progress", a_moment_shows_nothing, a_bar_on_a_terminal, lines_elsewhere, a_total_that_is_not_known,
          nothing_done_yet, units_of_bytes_and_of_time)
