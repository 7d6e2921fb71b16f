/* Rule: what is posted runs on the loop, once, in each sender's order; timers never fire early, and after a late
 * wake-up only when the sockets have been heard; jobs run elsewhere and end at home; limits hold. */
#include "net/reactor.h"

#include <check.h>
#include <event2/event.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/list.h"
#include "base/mem.h"
#include "net/io_pool.h"
#include "net/net_limits.h"

static struct clock real_clock;

static struct reactor *make(struct clock *clock, struct io_pool *io_pool)
{
    struct reactor_config config = {.name = "reactor-0", .clock = clock, .io_pool = io_pool};
    struct reactor *reactor = NULL;

    clock_init_real(&real_clock);
    ck_assert_int_eq(reactor_new(&config, &reactor), ERR_OK);
    return reactor;
}

static void finish(struct reactor *reactor)
{
    reactor_stop(reactor);
    reactor_join(reactor);
    reactor_free(reactor);
}

/* --- messages --- */

enum { SENDERS = 4, MESSAGES = 20000 };

struct message {
    struct loop_task task;
    uint32_t sender;
    uint32_t number;
};

struct sender {
    pthread_t thread;
    struct loop *loop;
    struct message *messages;
};

static uint32_t next_number[SENDERS]; /* touched on the loop alone */
static atomic_uint received;

static void receive(struct loop_task *task)
{
    struct message *message = LIST_ENTRY(task, struct message, task);

    if (message->number != next_number[message->sender]++)
        ck_abort_msg("sender %u: number %u came out of order", message->sender, message->number);
    atomic_fetch_add(&received, 1);
}

static void *send_messages(void *argument)
{
    struct sender *sender = argument;

    for (uint32_t i = 0; i < MESSAGES; i++) {
        loop_post(sender->loop, &sender->messages[i].task);
        if (i % 1000 == 0)
            usleep(1); /* so that the loop gets to sleep in between */
    }
    return NULL;
}

START_TEST(messages_arrive_once_in_each_senders_order)
{
    struct reactor *reactor = make(&real_clock, NULL);
    struct sender senders[SENDERS];

    ck_assert_int_eq(reactor_start(reactor), ERR_OK);
    for (uint32_t i = 0; i < SENDERS; i++) {
        senders[i].loop = reactor_loop(reactor);
        senders[i].messages = mem_calloc(MESSAGES, sizeof(struct message));
        for (uint32_t k = 0; k < MESSAGES; k++)
            senders[i].messages[k] = (struct message){.task.run = receive, .sender = i, .number = k};
        ck_assert_int_eq(pthread_create(&senders[i].thread, NULL, send_messages, &senders[i]), 0);
    }
    for (uint32_t i = 0; i < SENDERS; i++)
        pthread_join(senders[i].thread, NULL);
    while (atomic_load(&received) < SENDERS * MESSAGES)
        usleep(100);
    finish(reactor);
    for (uint32_t i = 0; i < SENDERS; i++)
        mem_free(senders[i].messages);
}
END_TEST

static atomic_uint ran;

static void count(struct loop_task *task)
{
    (void)task;
    atomic_fetch_add(&ran, 1);
}

START_TEST(bounded_posts_are_refused_at_the_limit)
{
    struct reactor *reactor = make(&real_clock, NULL);
    struct loop *loop = reactor_loop(reactor);
    struct loop_task *tasks = mem_calloc(LOOP_MAILBOX_TASKS_MAX + 2, sizeof(struct loop_task));

    for (int i = 0; i < LOOP_MAILBOX_TASKS_MAX + 2; i++)
        tasks[i].run = count;
    /* Nobody takes anything yet. */
    for (int i = 0; i < LOOP_MAILBOX_TASKS_MAX; i++)
        ck_assert(loop_post_bounded(loop, &tasks[i]));
    ck_assert(!loop_post_bounded(loop, &tasks[LOOP_MAILBOX_TASKS_MAX]));
    loop_post(loop, &tasks[LOOP_MAILBOX_TASKS_MAX + 1]); /* an answer is never refused */
    ck_assert_int_eq(reactor_start(reactor), ERR_OK);
    while (atomic_load(&ran) < LOOP_MAILBOX_TASKS_MAX + 1)
        usleep(100);
    ck_assert(loop_post_bounded(loop, &tasks[LOOP_MAILBOX_TASKS_MAX]));
    while (atomic_load(&ran) < LOOP_MAILBOX_TASKS_MAX + 2)
        usleep(100);
    finish(reactor);
    mem_free(tasks);
}
END_TEST

/* --- within a turn --- */

struct turn {
    struct loop *loop;
    struct reactor *reactor;
    struct loop_task first, second, deferred, deferred_again;
    struct loop_timer timers[4];
    int64_t began_ns;
    char order[32];
    int size;
};

static struct turn turn;

static void note(char what)
{
    turn.order[turn.size++] = what;
}

/* The timers are started here, at the turn's end: however long the machine takes, none is due within this turn. */
static void on_deferred_again(struct loop_task *task)
{
    (void)task;
    note('D');
    turn.began_ns = clock_mono_ns(&real_clock);
    loop_timer_start(turn.loop, &turn.timers[3], turn.began_ns + 30000000);
    loop_timer_start(turn.loop, &turn.timers[1], turn.began_ns + 90000000);
    loop_timer_start(turn.loop, &turn.timers[1], turn.began_ns + 20000000);
    loop_timer_start(turn.loop, &turn.timers[0], turn.began_ns + 10000000);
    loop_timer_start(turn.loop, &turn.timers[2], turn.began_ns + 15000000);
    loop_timer_stop(turn.loop, &turn.timers[2]);
}

static void on_deferred(struct loop_task *task)
{
    (void)task;
    note('d');
    loop_defer(turn.loop, &turn.deferred_again);
}

static void on_first(struct loop_task *task)
{
    (void)task;
    note('1');
    loop_defer(turn.loop, &turn.deferred);
}

static void on_second(struct loop_task *task)
{
    (void)task;
    note('2');
}

static void on_timer(struct loop_timer *timer)
{
    note((char)('a' + (timer - turn.timers)));
    if (timer == &turn.timers[3])
        reactor_stop(turn.reactor);
}

START_TEST(deferred_tasks_end_a_turn_and_timers_fire_in_order)
{
    turn.reactor = make(&real_clock, NULL);
    turn.loop = reactor_loop(turn.reactor);
    turn.first.run = on_first;
    turn.second.run = on_second;
    turn.deferred.run = on_deferred;
    turn.deferred_again.run = on_deferred_again;
    for (int i = 0; i < 4; i++)
        turn.timers[i].fired = on_timer;
    loop_post(turn.loop, &turn.first);
    loop_post(turn.loop, &turn.second);
    reactor_run(turn.reactor);
    ck_assert_str_eq(turn.order, "12dDabd");
    ck_assert_int_ge(clock_mono_ns(&real_clock), turn.began_ns + 30000000);
    reactor_free(turn.reactor);
}
END_TEST

/* --- a late wake-up --- */

static _Atomic(int64_t) test_now_ns;

static int64_t test_mono_ns(struct clock *clock)
{
    (void)clock;
    return atomic_load(&test_now_ns);
}

static int sockets[2][2];

static void on_socket(evutil_socket_t fd, short what, void *argument)
{
    char byte = 0;

    (void)what;
    (void)argument;
    ck_assert_int_eq(read(fd, &byte, 1), 1);
    note(byte);
    /* What this one says leads to something on the other: it too is heard before a timer fires. */
    if (fd == sockets[0][0])
        ck_assert_int_eq(write(sockets[1][1], "y", 1), 1);
}

static void on_clock_jump(struct loop_task *task)
{
    (void)task;
    atomic_fetch_add(&test_now_ns, 1000000000);
    ck_assert_int_eq(write(sockets[0][1], "x", 1), 1);
}

START_TEST(sockets_are_heard_before_what_is_overdue_fires)
{
    struct clock clock = {.mono_ns = test_mono_ns};
    struct event *events[2];

    atomic_store(&test_now_ns, 1000000000);
    turn.reactor = make(&clock, NULL);
    turn.loop = reactor_loop(turn.reactor);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets[i]), 0);
        events[i] = event_new(reactor_event_base(turn.loop), sockets[i][0], EV_READ | EV_PERSIST, on_socket, NULL);
        ck_assert_int_eq(event_add(events[i], NULL), 0);
    }
    turn.timers[3].fired = on_timer;
    turn.first.run = on_clock_jump;
    loop_timer_start(turn.loop, &turn.timers[3], 1000000000 + 100000000);
    loop_post(turn.loop, &turn.first);
    reactor_run(turn.reactor);
    ck_assert_str_eq(turn.order, "xyd");
    for (int i = 0; i < 2; i++) {
        event_free(events[i]);
        close(sockets[i][0]);
        close(sockets[i][1]);
    }
    reactor_free(turn.reactor);
}
END_TEST

/* --- jobs --- */

enum { JOBS = 3 * IO_JOBS_PER_LOOP_MAX };

struct work {
    struct loop_job job;
    bool was_run;
};

static pthread_t loop_thread;
static atomic_uint jobs_done;
static struct work *works;
static struct loop_task submit_task;
static struct loop *jobs_loop;

static void job_run(struct loop_job *job)
{
    struct work *work = LIST_ENTRY(job, struct work, job);

    ck_assert(!pthread_equal(pthread_self(), loop_thread));
    work->was_run = true;
}

static void job_done(struct loop_job *job)
{
    struct work *work = LIST_ENTRY(job, struct work, job);

    ck_assert(pthread_equal(pthread_self(), loop_thread));
    ck_assert(work->was_run);
    atomic_fetch_add(&jobs_done, 1);
}

static void submit_all(struct loop_task *task)
{
    (void)task;
    loop_thread = pthread_self();
    for (int i = 0; i < JOBS; i++) {
        works[i].job.run = job_run;
        works[i].job.done = job_done;
        loop_submit(jobs_loop, &works[i].job);
    }
}

START_TEST(jobs_run_elsewhere_and_end_at_home)
{
    struct io_pool *pool = NULL;
    struct reactor *reactor = NULL;

    works = mem_calloc(JOBS, sizeof(struct work));
    ck_assert_int_eq(io_pool_new("io", 3, reactor_job_completed, &pool), ERR_OK);
    reactor = make(&real_clock, pool);
    jobs_loop = reactor_loop(reactor);
    submit_task.run = submit_all;
    ck_assert_int_eq(reactor_start(reactor), ERR_OK);
    loop_post(jobs_loop, &submit_task);
    while (atomic_load(&jobs_done) < JOBS)
        usleep(100);
    reactor_stop(reactor);
    reactor_join(reactor);
    io_pool_free(pool);
    reactor_free(reactor);
    mem_free(works);
}
END_TEST

/* --- timers that are overdue again --- */

static uint32_t overdue_fired;

static void fire_overdue(struct loop_timer *timer)
{
    if (++overdue_fired < 1000)
        loop_timer_start(turn.loop, timer, 0);
}

/* A timer that starts itself again for a time that has passed waits for the next turn: messages come through meanwhile.
 */
START_TEST(what_is_always_overdue_does_not_hold_the_loop)
{
    struct loop_timer timer = {.fired = fire_overdue};
    struct loop_task task = {.run = on_second};

    memset(&turn, 0, sizeof(turn));
    turn.reactor = make(&real_clock, NULL);
    turn.loop = reactor_loop(turn.reactor);
    loop_timer_start(turn.loop, &timer, 0);
    loop_post(turn.loop, &task);
    reactor_stop(turn.reactor);
    reactor_run(turn.reactor);
    ck_assert_uint_eq(overdue_fired, 1);
    reactor_free(turn.reactor);
}
END_TEST

/* --- the hook --- */

static atomic_uint turns;

enum { TASK_US = 3000, DEFERRED_US = 1000 };

static struct loop *turning;
static struct loop_task slow_end;

static void end_slowly(struct loop_task *task)
{
    (void)task;
    usleep(DEFERRED_US);
}

static void take_long(struct loop_task *task)
{
    (void)task;
    slow_end.run = end_slowly;
    loop_defer(turning, &slow_end);
    usleep(TASK_US);
}

/* What each kind of work took is told apart, and makes up the turn. */
static void turn_took(void *context, const struct reactor_turn *ended)
{
    int64_t sum = 0;

    ck_assert_ptr_eq(context, &turns);
    for (int i = 0; i < REACTOR_WORKS; i++) {
        ck_assert_int_ge(ended->of_ns[i], 0);
        sum += ended->of_ns[i];
    }
    ck_assert_int_eq(sum, ended->ns);
    if (ended->counts[REACTOR_TASKS] == 0)
        return;
    ck_assert_uint_eq(ended->counts[REACTOR_TASKS], 1);
    ck_assert_uint_eq(ended->counts[REACTOR_DEFERRED], 1);
    ck_assert_int_ge(ended->of_ns[REACTOR_TASKS], TASK_US * INT64_C(1000));
    ck_assert_int_ge(ended->of_ns[REACTOR_DEFERRED], DEFERRED_US * INT64_C(1000));
    ck_assert_int_ge(ended->longest_ns, DEFERRED_US * INT64_C(1000));
    ck_assert_uint_eq(ended->longest, (uintptr_t)end_slowly);
    atomic_fetch_add(&turns, 1);
}

START_TEST(each_turn_is_timed)
{
    struct reactor_config config = {.name = "a name far too long for a thread",
                                    .clock = &real_clock,
                                    .turn_ended = turn_took,
                                    .turn_context = &turns};
    struct reactor *reactor = NULL;
    struct loop_task task = {.run = take_long};

    clock_init_real(&real_clock);
    ck_assert_int_eq(reactor_new(&config, &reactor), ERR_OK);
    turning = reactor_loop(reactor);
    ck_assert_int_eq(reactor_start(reactor), ERR_OK);
    loop_post(reactor_loop(reactor), &task);
    while (atomic_load(&turns) == 0)
        usleep(100);
    finish(reactor);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("reactor");
    TCase *tcase = tcase_create("reactor");
    SRunner *runner = srunner_create(suite);
    int failed = 0;

    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, messages_arrive_once_in_each_senders_order);
    tcase_add_test(tcase, bounded_posts_are_refused_at_the_limit);
    tcase_add_test(tcase, deferred_tasks_end_a_turn_and_timers_fire_in_order);
    tcase_add_test(tcase, sockets_are_heard_before_what_is_overdue_fires);
    tcase_add_test(tcase, jobs_run_elsewhere_and_end_at_home);
    tcase_add_test(tcase, what_is_always_overdue_does_not_hold_the_loop);
    tcase_add_test(tcase, each_turn_is_timed);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
