/* Rule: one event, one line, written whole: the time, the level, node and room, the fact. What a client can cause at
 * will is limited to LOG_RATE_LINES_MAX lines a second, and the next line says how many were left out. */
#include <check.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/log.h"

struct fake_clock {
    struct clock clock;
    int64_t mono_ns;
    int64_t wall_ms;
};

struct memory_sink {
    struct log_sink sink;
    uint32_t lines;
    char last[2 * LOG_LINE_BYTES_MAX];
};

static int64_t fake_mono_ns(struct clock *clock)
{
    return ((struct fake_clock *)clock)->mono_ns;
}

static int64_t fake_wall_ms(struct clock *clock)
{
    return ((struct fake_clock *)clock)->wall_ms;
}

static void memory_write(struct log_sink *sink, enum log_level level, const char *line, uint32_t size)
{
    struct memory_sink *memory = (struct memory_sink *)sink;

    (void)level;
    ck_assert_uint_le(size, LOG_LINE_BYTES_MAX);
    memory->lines++;
    memcpy(memory->last, line, size);
    memory->last[size] = '\0';
}

struct fixture {
    struct fake_clock clock;
    struct memory_sink sink;
    struct log log;
};

static void fixture_init(struct fixture *f)
{
    memset(f, 0, sizeof(*f));
    f->clock.clock = (struct clock){.mono_ns = fake_mono_ns, .wall_ms = fake_wall_ms};
    f->clock.mono_ns = 5000000000;
    f->clock.wall_ms = INT64_C(1769860800123); /* 2026-01-31T12:00:00.123Z */
    f->sink.sink.write = memory_write;
    f->log = (struct log){.sink = &f->sink.sink, .clock = &f->clock.clock, .node_id = 1, .room = "partition"};
    atomic_init(&f->log.level, LOG_INFO);
}

START_TEST(a_line_has_time_level_node_room_and_fact)
{
    struct fixture f;

    fixture_init(&f);
    log_info(&f.log, "segment rolled topic=%s partition=%d", "t", 0);
    ck_assert_str_eq(f.sink.last,
                     "2026-01-31T12:00:00.123Z INFO  node=1 room=partition segment rolled topic=t partition=0");
    f.log.node_id = -1;
    log_error(&f.log, "no directory");
    ck_assert_str_eq(f.sink.last, "2026-01-31T12:00:00.123Z ERROR room=partition no directory");
}
END_TEST

START_TEST(the_level_changes_at_run_time)
{
    struct fixture f;

    fixture_init(&f);
    log_debug(&f.log, "hidden");
    log_line(&f.log, LOG_DEBUG, "hidden");
    ck_assert_uint_eq(f.sink.lines, 0);
    atomic_store(&f.log.level, LOG_DEBUG);
    log_debug(&f.log, "shown");
    ck_assert_uint_eq(f.sink.lines, 1);
    atomic_store(&f.log.level, LOG_ERROR);
    log_warn(&f.log, "hidden");
    ck_assert_uint_eq(f.sink.lines, 1);
}
END_TEST

START_TEST(a_value_cannot_start_a_line_of_its_own)
{
    struct fixture f;

    fixture_init(&f);
    log_info(&f.log, "x client_id=%s", "a\nERROR\x1b[31m\tb");
    ck_assert_ptr_nonnull(strstr(f.sink.last, "client_id=a?ERROR?[31m?b"));
    ck_assert_ptr_null(strchr(f.sink.last, '\n'));
}
END_TEST

START_TEST(long_lines_are_cut_at_the_limit)
{
    struct fixture f;
    char text[2 * LOG_LINE_BYTES_MAX];
    size_t head = 0;

    fixture_init(&f);
    log_info(&f.log, "%s", "");
    head = strlen(f.sink.last);
    for (size_t size = LOG_LINE_BYTES_MAX - head - 1; size <= LOG_LINE_BYTES_MAX - head + 1; size++) {
        bool fits = head + size <= LOG_LINE_BYTES_MAX;

        memset(text, 'x', sizeof(text));
        text[size] = '\0';
        log_info(&f.log, "%s", text);
        ck_assert_uint_eq(strlen(f.sink.last), fits ? head + size : LOG_LINE_BYTES_MAX);
        ck_assert_int_eq(strcmp(f.sink.last + strlen(f.sink.last) - 3, "...") == 0, !fits);
    }
    /* never half a character: all of it is two-byte UTF-8 */
    for (size_t i = 0; i + 1 < sizeof(text); i += 2)
        memcpy(text + i, "\xc3\xa4", 2);
    text[sizeof(text) - 2] = '\0';
    log_info(&f.log, "%s", text);
    ck_assert_uint_ge(strlen(f.sink.last), LOG_LINE_BYTES_MAX - 1);
    ck_assert_int_eq((unsigned char)f.sink.last[strlen(f.sink.last) - 4], 0xa4);
}
END_TEST

START_TEST(a_rate_has_its_limit_and_tells_what_it_left_out)
{
    struct fixture f;
    struct log_rate rate = {0};

    fixture_init(&f);
    for (int i = 0; i < LOG_RATE_LINES_MAX + 10; i++)
        log_line_rated(&f.log, &rate, LOG_WARN, "garbage");
    ck_assert_uint_eq(f.sink.lines, LOG_RATE_LINES_MAX);
    f.clock.mono_ns += 999999999;
    log_line_rated(&f.log, &rate, LOG_WARN, "garbage");
    ck_assert_uint_eq(f.sink.lines, LOG_RATE_LINES_MAX);
    f.clock.mono_ns += 1;
    log_line_rated(&f.log, &rate, LOG_WARN, "garbage");
    ck_assert_uint_eq(f.sink.lines, LOG_RATE_LINES_MAX + 1);
    ck_assert_ptr_nonnull(strstr(f.sink.last, "garbage left_out=11"));
    log_line_rated(&f.log, &rate, LOG_WARN, "garbage");
    ck_assert_ptr_null(strstr(f.sink.last, "left_out"));
}
END_TEST

START_TEST(the_descriptor_gets_one_write_a_line)
{
    struct fixture f;
    struct log_sink_fd sink;
    char got[4096];
    int ends[2];

    fixture_init(&f);
    /* a packet pipe would be exact; a pipe shows at least that the newline comes along */
    ck_assert_int_eq(pipe(ends), 0);
    log_sink_fd_init(&sink, ends[1]);
    f.log.sink = &sink.sink;
    log_info(&f.log, "hello");
    ssize_t size = read(ends[0], got, sizeof(got));
    ck_assert_int_gt(size, 6);
    ck_assert_int_eq(memcmp(got + size - 6, "hello\n", 6), 0);
    close(ends[0]);
    close(ends[1]);
    log_sink_fd_init(&sink, -1);
    log_info(&f.log, "nobody listens: no harm");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("log");
    TCase *tcase = tcase_create("log");
    SRunner *runner = srunner_create(suite);
    int failed = 0;

    tcase_add_test(tcase, a_line_has_time_level_node_room_and_fact);
    tcase_add_test(tcase, the_level_changes_at_run_time);
    tcase_add_test(tcase, a_value_cannot_start_a_line_of_its_own);
    tcase_add_test(tcase, long_lines_are_cut_at_the_limit);
    tcase_add_test(tcase, a_rate_has_its_limit_and_tells_what_it_left_out);
    tcase_add_test(tcase, the_descriptor_gets_one_write_a_line);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
