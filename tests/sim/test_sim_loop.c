/* Rule: the simulated loops keep a sender's order and no more, give time only forward, and replay exactly by seed. */
#include <check.h>
#include <string.h>

#include "sim/sim.h"

struct note {
    struct loop_task task;
    struct loop_job job;
    struct loop_timer timer;
    char letter;
};

static char heard[256];

static void hear(char letter)
{
    size_t size = strlen(heard);

    ck_assert_uint_lt(size + 1, sizeof(heard));
    heard[size] = letter;
    heard[size + 1] = '\0';
}

static void on_task(struct loop_task *task)
{
    hear(((struct note *)(void *)((char *)task - offsetof(struct note, task)))->letter);
}

static void on_job_run(struct loop_job *job)
{
    (void)job;
}

static void on_job_done(struct loop_job *job)
{
    hear(((struct note *)(void *)((char *)job - offsetof(struct note, job)))->letter);
}

static void on_timer(struct loop_timer *timer)
{
    hear(((struct note *)(void *)((char *)timer - offsetof(struct note, timer)))->letter);
}

static uint64_t play(uint64_t seed)
{
    struct sim sim;
    struct note notes[9];

    sim_init(&sim, seed);
    heard[0] = '\0';
    struct loop *a = sim_loop_new(&sim, "a", 0);
    struct loop *b = sim_loop_new(&sim, "b", 1);
    for (int i = 0; i < 9; i++)
        notes[i] = (struct note){.task = {.run = on_task},
                                 .job = {.run = on_job_run, .done = on_job_done},
                                 .timer = {.fired = on_timer},
                                 .letter = (char)('0' + i)};
    for (int i = 0; i < 3; i++)
        loop_post(a, &notes[i].task);
    for (int i = 3; i < 6; i++)
        loop_submit(b, &notes[i].job);
    loop_timer_start(b, &notes[7].timer, sim.mono_ns + 20000000);
    loop_timer_start(b, &notes[6].timer, sim.mono_ns + 10000000);
    loop_timer_start(b, &notes[8].timer, sim.mono_ns + 15000000);
    loop_timer_stop(b, &notes[8].timer);
    sim_run(&sim, INT64_MAX, NULL, NULL);
    sim_deinit(&sim);
    return sim.trace_hash;
}

START_TEST(a_senders_order_holds_and_completions_overtake)
{
    bool overtaken = false;

    for (uint64_t seed = 0; seed < 100; seed++) {
        play(seed);
        ck_assert_uint_eq(strlen(heard), 8);
        ck_assert(strchr(heard, '0') < strchr(heard, '1'));
        ck_assert(strchr(heard, '1') < strchr(heard, '2'));
        ck_assert(strchr(heard, '6') < strchr(heard, '7'));
        overtaken = overtaken || strchr(heard, '4') < strchr(heard, '3');
    }
    ck_assert(overtaken);
}
END_TEST

START_TEST(the_same_seed_is_the_same_run)
{
    char first[256];

    for (uint64_t seed = 0; seed < 20; seed++) {
        uint64_t hash = play(seed);

        memcpy(first, heard, sizeof(first));
        ck_assert_uint_eq(play(seed), hash);
        ck_assert_str_eq(heard, first);
        ck_assert_uint_ne(play(seed + 1), hash);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sim_loop");
    TCase *tcase = tcase_create("sim_loop");
    SRunner *runner = srunner_create(suite);
    int failed = 0;

    tcase_add_test(tcase, a_senders_order_holds_and_completions_overtake);
    tcase_add_test(tcase, the_same_seed_is_the_same_run);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
