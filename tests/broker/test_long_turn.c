/* Rule: the line about a turn that took too long says what kind of work it was and what the loop noted first in that
 * turn: not before it, and nothing where it noted nothing. */
#include "broker/long_turn.h"

#include <stdio.h>
#include <string.h>

#include "../partition/run_tests.h"
#include "base/crash.h"
#include "base/limits.h"
#include "sim/sim.h"

static struct sim sim;
static char said[LOG_LINE_BYTES_MAX + 1];

static void keep_line(struct log_sink *sink, enum log_level level, const char *line, uint32_t size)
{
    (void)sink, (void)level;
    (void)snprintf(said, sizeof(said), "%.*s", (int)size, line);
}

static void tell(struct crash_ring *ring)
{
    struct log_sink sink = {.write = keep_line};
    struct log log = {.sink = &sink, .clock = &sim.clock, .node_id = 1, .room = "broker", .level = LOG_INFO};
    struct log_rate rate = {0};
    struct loop loop = {.name = "reactor-0", .ring = ring};
    struct reactor_turn turn = {.began_ns = 700,
                                .ns = 12345000,
                                .of_ns = {[REACTOR_TASKS] = 12000000},
                                .counts = {[REACTOR_TASKS] = 3},
                                .longest_ns = 11000000};

    sim_init(&sim, 1);
    long_turn_tell(&log, &rate, &loop, &turn);
    sim_deinit(&sim);
}

START_TEST(the_first_of_the_turn_is_named)
{
    static struct crash_ring ring = {
        .events = {{500, "before", 1, 2}, {700, "request read", 18, 4}, {700, "later", 5, 6}}};

    ring.next = 3;
    tell(&ring);
    ck_assert_ptr_nonnull(strstr(said, "thread=reactor-0 us=12345 "));
    ck_assert_ptr_nonnull(strstr(said, " tasks_us=12000 tasks=3 "));
    ck_assert_ptr_nonnull(strstr(said, " longest_us=11000 longest_at=0x0 "));
    ck_assert_ptr_nonnull(strstr(said, "events=2 first=\"request read\" a=18 b=4"));
}
END_TEST

/* The ring holds no more than it does, and may hold nothing of the turn; or there is none. */
START_TEST(what_is_not_known_is_left_open)
{
    static struct crash_ring ring;

    for (int i = 0; i < CRASH_EVENTS; i++)
        ring.events[i] = (struct crash_event){700, "one of many", i, 0};
    ring.next = 3 * CRASH_EVENTS + 1; /* the newest is at 0, the oldest behind it */
    tell(&ring);
    ck_assert_ptr_nonnull(strstr(said, "first=\"one of many\" a=1 b=0"));
    ring.events[0].at_ns = 650;
    tell(&ring);
    ck_assert_ptr_nonnull(strstr(said, "events=0 first=\"\" a=0 b=0"));
    tell(NULL);
    ck_assert_ptr_nonnull(strstr(said, "events=0 first=\"\" a=0 b=0"));
}
END_TEST

RUN_TESTS("long_turn", the_first_of_the_turn_is_named, what_is_not_known_is_left_open)
