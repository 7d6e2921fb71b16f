/* Rule: clients never take beyond total - reserve, but for one elected at each gate while nothing is overdrawn; whoever
 * waits is called when room comes, from whatever thread it comes, and never for nothing. */
#include "net/budget.h"

#include <check.h>
#include <stdatomic.h>
#include <unistd.h>

#include "net/double.h"
#include "net/reactor.h"

enum { TOTAL = 100000, RESERVE = 20000 };

struct hope {
    struct budget_waiter waiter;
    uint32_t resumed;
    uint32_t evicted;
};

static void resumed(struct budget_waiter *waiter)
{
    LIST_ENTRY(waiter, struct hope, waiter)->resumed++;
}

static void evicted(struct budget_waiter *waiter)
{
    LIST_ENTRY(waiter, struct hope, waiter)->evicted++;
}

static uint32_t pressed_times;

static void pressed(struct budget_gate *gate)
{
    (void)gate;
    pressed_times++;
}

static struct double_loop loop;
static struct budget budget;
static struct budget_gate gate;
static struct hope hopes[3];

static void start(void)
{
    double_loop_init(&loop, 0);
    budget_init(&budget, TOTAL, RESERVE, TOTAL);
    budget.credit = 0; /* so that every byte shows */
    ck_assert_int_eq(budget_gate_init(&gate, &budget, &loop.loop), ERR_OK);
    gate.pressed = pressed;
    for (int i = 0; i < 3; i++) {
        hopes[i] = (struct hope){.waiter = {.resume = resumed, .evict = evicted}};
        list_node_init(&hopes[i].waiter.node);
    }
}

static void end(void)
{
    budget_gate_deinit(&gate);
    double_loop_deinit(&loop);
    ck_assert_uint_eq(budget.used, 0);
    ck_assert_uint_eq(budget.gates_waiting, 0);
}

START_TEST(the_reserve_is_kept_from_clients)
{
    ck_assert_uint_eq(budget.share, TOTAL - RESERVE);
    ck_assert(budget_take(&gate, NULL, TOTAL - RESERVE - 1, false));
    ck_assert(!budget_take(&gate, NULL, 2, false));
    ck_assert(budget_take(&gate, NULL, 1, false));
    ck_assert(!budget_take(&gate, NULL, 1, false));
    ck_assert(budget_take(&gate, NULL, RESERVE, true));
    ck_assert(!budget_take(&gate, NULL, 1, true));
    ck_assert(!budget_take(&gate, NULL, SIZE_MAX, true));
    budget_give(&gate, TOTAL);
}
END_TEST

START_TEST(credit_saves_shared_work_and_is_bounded)
{
    budget.credit = 1000;
    for (int i = 0; i < 100; i++)
        ck_assert(budget_take(&gate, NULL, 100, false));
    ck_assert_uint_le(budget.used, 100 * 100 + 1000);
    budget_give(&gate, 100 * 100);
    ck_assert_uint_le(budget.used, 2000);
}
END_TEST

/* Who waits and is next is let through over the budget; the next one only once that is paid back. */
START_TEST(one_at_a_time_overdraws)
{
    ck_assert(budget_take(&gate, NULL, TOTAL - RESERVE, false));
    for (int i = 0; i < 3; i++) {
        ck_assert(!budget_take(&gate, &hopes[i].waiter, 5000, false));
        budget_wait(&gate, &hopes[i].waiter, 5000);
    }
    double_turn(&loop);
    ck_assert_uint_eq(hopes[0].resumed, 1);
    ck_assert_uint_eq(hopes[1].resumed, 0);
    ck_assert(budget_take(&gate, &hopes[0].waiter, 5000, false));
    ck_assert(!budget_take(&gate, &hopes[1].waiter, 5000, false));
    budget_wait_over(&gate, &hopes[0].waiter);
    double_turn(&loop);
    ck_assert_uint_eq(hopes[1].resumed, 0);
    budget_give(&gate, 4999);
    double_turn(&loop);
    ck_assert_uint_eq(hopes[1].resumed, 0);
    budget_give(&gate, 1);
    double_turn(&loop);
    ck_assert_uint_eq(hopes[1].resumed, 1);
    ck_assert_uint_eq(hopes[2].resumed, 0);
    budget_wait_over(&gate, &hopes[1].waiter);
    budget_wait_over(&gate, &hopes[2].waiter);
    double_turn(&loop);
    budget_give(&gate, TOTAL - RESERVE);
}
END_TEST

START_TEST(all_are_called_when_there_is_room)
{
    ck_assert(budget_take(&gate, NULL, TOTAL - RESERVE, false));
    budget_wait(&gate, &hopes[0].waiter, 1);
    budget_wait(&gate, &hopes[1].waiter, 1);
    budget_wait(&gate, &hopes[2].waiter, 40000);
    double_turn(&loop);
    ck_assert_uint_eq(hopes[0].resumed, 1); /* elected */
    /* An eighth of what clients have: 10,000. */
    budget_give(&gate, 9999);
    double_turn(&loop);
    ck_assert_uint_eq(hopes[1].resumed, 0);
    budget_give(&gate, 1);
    double_turn(&loop);
    ck_assert_uint_eq(hopes[1].resumed, 1);
    ck_assert_uint_eq(hopes[2].resumed, 0);
    budget_give(&gate, 30000);
    double_turn(&loop);
    ck_assert_uint_eq(hopes[2].resumed, 1);
    ck_assert_uint_eq(hopes[0].resumed, 1);
    budget_wait_over(&gate, &hopes[0].waiter);
    budget_give(&gate, 40000);
    double_turn(&loop);
}
END_TEST

START_TEST(an_elected_one_that_does_not_move_makes_way)
{
    ck_assert(budget_take(&gate, NULL, TOTAL - RESERVE, false));
    budget_wait(&gate, &hopes[0].waiter, 5000);
    budget_wait(&gate, &hopes[1].waiter, 5000);
    double_turn(&loop);
    ck_assert_ptr_eq(gate.elected, &hopes[0].waiter);
    double_wait(&loop, 2000);
    double_turn(&loop);
    ck_assert_ptr_eq(gate.elected, &hopes[1].waiter);
    ck_assert_uint_eq(hopes[0].evicted, 0);
    ck_assert_uint_eq(pressed_times, 1);
    double_wait(&loop, 2000);
    double_turn(&loop);
    ck_assert_ptr_eq(gate.elected, &hopes[0].waiter);
    budget_wait_over(&gate, &hopes[0].waiter);
    budget_wait_over(&gate, &hopes[1].waiter);
    double_turn(&loop);
    budget_give(&gate, TOTAL - RESERVE);
}
END_TEST

START_TEST(an_elected_one_that_stalls_overdrawn_is_evicted)
{
    ck_assert(budget_take(&gate, NULL, TOTAL - RESERVE, false));
    budget_wait(&gate, &hopes[0].waiter, 5000);
    double_turn(&loop);
    ck_assert(budget_take(&gate, &hopes[0].waiter, 5000, false));
    double_wait(&loop, 2000);
    double_wait(&loop, 2000);
    ck_assert_uint_eq(hopes[0].evicted, 0); /* nobody else waits */
    budget_wait(&gate, &hopes[1].waiter, 5000);
    double_wait(&loop, 2000);
    ck_assert_uint_eq(hopes[0].evicted, 1);
    budget_give(&gate, 5000);
    double_turn(&loop);
    ck_assert_ptr_eq(gate.elected, &hopes[1].waiter);
    /* Moving a byte at a time does not help for ever. */
    budget_wait(&gate, &hopes[2].waiter, 5000);
    for (int64_t ms = 1000; ms < BUDGET_ELECTED_NS_MAX / 1000000; ms += 1000) {
        ck_assert(budget_take(&gate, &hopes[1].waiter, 1, false));
        double_wait(&loop, 1000);
        ck_assert_uint_eq(hopes[1].evicted, 0);
    }
    for (int i = 0; i < 3 && hopes[1].evicted == 0; i++) {
        ck_assert(budget_take(&gate, &hopes[1].waiter, 1, false));
        double_wait(&loop, 1000);
    }
    ck_assert_uint_eq(hopes[1].evicted, 1);
    budget_give(&gate, budget.used);
    double_turn(&loop);
    budget_wait_over(&gate, &hopes[2].waiter);
    double_turn(&loop);
}
END_TEST

/* The edges of BUDGET_GATES_MAX and BUDGET_CREDIT_BYTES_MAX. */
START_TEST(loops_and_their_credit_are_bounded)
{
    static struct budget_gate gates[BUDGET_GATES_MAX];
    struct budget other;

    budget_init(&other, (size_t)256 * BUDGET_CREDIT_BYTES_MAX - 256, 0, TOTAL);
    ck_assert_uint_eq(other.credit, BUDGET_CREDIT_BYTES_MAX - 1);
    budget_init(&other, (size_t)512 * BUDGET_CREDIT_BYTES_MAX, 0, TOTAL);
    ck_assert_uint_eq(other.credit, BUDGET_CREDIT_BYTES_MAX);
    for (int i = 1; i < BUDGET_GATES_MAX; i++) /* start made one */
        ck_assert_int_eq(budget_gate_init(&gates[i], &budget, &loop.loop), ERR_OK);
    ck_assert_int_eq(budget_gate_init(&gates[0], &budget, &loop.loop), ERR_LIMIT);
    for (int i = 1; i < BUDGET_GATES_MAX; i++)
        budget_gate_deinit(&gates[i]);
}
END_TEST

/* --- on several threads --- */

enum { LOOPS = 3, CLIENTS = 8, ROUNDS = 2000, BITE = 9000 };

struct eater {
    struct budget_waiter waiter;
    struct budget_gate *gate;
    struct loop *loop;
    struct loop_task task;
    uint32_t rounds;
    bool holds;
};

static atomic_uint finished;
static struct budget shared;

/* Takes a bite or waits for it; gives it back a turn later. */
static void eat(struct loop_task *task)
{
    struct eater *eater = LIST_ENTRY(task, struct eater, task);

    if (eater->holds) {
        budget_give(eater->gate, BITE);
        eater->holds = false;
        if (++eater->rounds == ROUNDS) {
            atomic_fetch_add(&finished, 1);
            return;
        }
    }
    if (!budget_take(eater->gate, &eater->waiter, BITE, false)) {
        budget_wait(eater->gate, &eater->waiter, BITE);
        return;
    }
    if (eater->gate->elected == &eater->waiter)
        budget_wait_over(eater->gate, &eater->waiter);
    eater->holds = true;
    loop_post(eater->loop, &eater->task);
}

static void eat_again(struct budget_waiter *waiter)
{
    struct eater *eater = LIST_ENTRY(waiter, struct eater, waiter);

    loop_post(eater->loop, &eater->task);
}

START_TEST(no_call_is_lost_between_threads)
{
    static struct eater eaters[LOOPS][CLIENTS];
    static struct budget_gate gates[LOOPS];
    struct reactor *reactors[LOOPS];
    struct clock clock;

    clock_init_real(&clock);
    budget_init(&shared, 50000, 10000, 50000);
    for (uint32_t i = 0; i < LOOPS; i++) {
        struct reactor_config config = {.name = "reactor", .index = i, .clock = &clock};

        ck_assert_int_eq(reactor_new(&config, &reactors[i]), ERR_OK);
        ck_assert_int_eq(budget_gate_init(&gates[i], &shared, reactor_loop(reactors[i])), ERR_OK);
        for (int k = 0; k < CLIENTS; k++) {
            struct eater *eater = &eaters[i][k];

            *eater = (struct eater){.waiter = {.resume = eat_again, .evict = eat_again},
                                    .gate = &gates[i],
                                    .loop = reactor_loop(reactors[i]),
                                    .task.run = eat};
            list_node_init(&eater->waiter.node);
            loop_post(eater->loop, &eater->task);
        }
    }
    for (int i = 0; i < LOOPS; i++)
        ck_assert_int_eq(reactor_start(reactors[i]), ERR_OK);
    while (atomic_load(&finished) < LOOPS * CLIENTS)
        usleep(1000);
    for (int i = 0; i < LOOPS; i++) {
        reactor_stop(reactors[i]);
        reactor_join(reactors[i]);
    }
    for (int i = 0; i < LOOPS; i++) {
        budget_gate_deinit(&gates[i]);
        reactor_free(reactors[i]);
    }
    ck_assert_uint_eq(atomic_load(&shared.used), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("budget");
    TCase *alone = tcase_create("alone");
    TCase *threads = tcase_create("threads");
    SRunner *runner = srunner_create(suite);
    int failed = 0;

    tcase_add_checked_fixture(alone, start, end);
    tcase_add_test(alone, the_reserve_is_kept_from_clients);
    tcase_add_test(alone, credit_saves_shared_work_and_is_bounded);
    tcase_add_test(alone, one_at_a_time_overdraws);
    tcase_add_test(alone, all_are_called_when_there_is_room);
    tcase_add_test(alone, an_elected_one_that_does_not_move_makes_way);
    tcase_add_test(alone, an_elected_one_that_stalls_overdrawn_is_evicted);
    tcase_add_test(alone, loops_and_their_credit_are_bounded);
    suite_add_tcase(suite, alone);
    tcase_set_timeout(threads, 60);
    tcase_add_test(threads, no_call_is_lost_between_threads);
    suite_add_tcase(suite, threads);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
