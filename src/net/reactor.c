#include "net/reactor.h"

#include <errno.h>
#include <event2/event.h>
#include <event2/event_struct.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/crash.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/timer_heap.h"
#include "net/io_pool.h"
#include "net/net_limits.h"

struct reactor {
    struct loop loop;
    char name[16];
    struct clock *clock;
    struct io_pool *io_pool;
    int64_t spin_ns;
    void (*turn_ended)(void *context, const struct reactor_turn *turn);
    void *turn_context;
    struct reactor_turn turn;
    enum reactor_work work; /* the present one, since work_began_ns */
    bool worked;            /* there was some in this turn */
    int64_t work_began_ns;
    struct event_base *base;
    struct event wake_event;
    struct event timer_event;
    int wake_fd;
    pthread_t thread;
    bool thread_runs;
    int64_t now_ns;    /* of this turn; 0 until someone asks */
    int64_t firing_ns; /* while timers fire: those due by then; else INT64_MIN */
    int64_t armed_ns;  /* due time for which timer_event is set; INT64_MAX when it is not */
    struct timer_heap timers;
    struct loop_task *deferred_first;
    struct loop_task **deferred_last;
    struct loop_job *jobs_first; /* submitted while IO_JOBS_PER_LOOP_MAX were out */
    struct loop_job **jobs_last;
    uint32_t jobs_out;
    bool woken; /* another thread woke us since the last sleep */
    /* Other threads' side, on lines of its own. Both are newest first and taken whole, which makes them FIFO again for
     * each sender. */
    char apart[64];
    _Atomic(struct loop_task *) tasks;
    _Atomic(struct loop_job *) jobs_done;
    atomic_uint bounded_tasks; /* in tasks */
    atomic_bool sleeping;      /* the next message has to write wake_fd */
    atomic_bool stopping;
};

static int64_t now_ns(struct loop *loop);

static struct reactor *of(struct loop *loop)
{
    return (struct reactor *)loop;
}

/* --- how long things take --- */

/* The clock is read where one kind of work ends and another begins: twice in a turn of one kind. */
static void work_begins(struct reactor *reactor, enum reactor_work work)
{
    int64_t at_ns = 0;

    if (reactor->turn_ended == NULL)
        return;
    if (reactor->worked) {
        at_ns = clock_mono_ns(reactor->clock);
        reactor->turn.of_ns[reactor->work] += at_ns - reactor->work_began_ns;
        reactor->work_began_ns = at_ns;
    }
    reactor->worked = true;
    reactor->work = work;
}

/* The same for one piece of work; gives when it ended, which is where the next begins. */
static int64_t piece_ended(struct reactor *reactor, enum reactor_work work, int64_t began_ns, uintptr_t function)
{
    struct reactor_turn *turn = &reactor->turn;
    int64_t at_ns = 0;

    turn->counts[work]++;
    if (reactor->turn_ended == NULL)
        return 0;
    at_ns = clock_mono_ns(reactor->clock);
    if (at_ns - began_ns > turn->longest_ns) {
        turn->longest_ns = at_ns - began_ns;
        turn->longest = function;
    }
    return at_ns;
}

static void turn_ends(struct reactor *reactor)
{
    struct reactor_turn *turn = &reactor->turn;
    int64_t at_ns = 0;

    if (reactor->turn_ended == NULL)
        return;
    at_ns = clock_mono_ns(reactor->clock);
    turn->began_ns = reactor->now_ns;
    turn->ns = at_ns - reactor->now_ns;
    turn->of_ns[reactor->work] += at_ns - reactor->work_began_ns;
    reactor->turn_ended(reactor->turn_context, turn);
    *turn = (struct reactor_turn){0};
}

/* --- messages --- */

/* After a message was put in place. The order (message, then sleeping) against the sleeper's (sleeping, then message),
 * all sequentially consistent, makes one of the two see the other. */
static void wake(struct reactor *reactor)
{
    uint64_t one = 1;

    if (!atomic_load(&reactor->sleeping) || !atomic_exchange(&reactor->sleeping, false))
        return;
    while (write(reactor->wake_fd, &one, sizeof(one)) < 0)
        assert(errno == EINTR);
}

static void push_task(struct reactor *reactor, struct loop_task *task)
{
    struct loop_task *newest = atomic_load_explicit(&reactor->tasks, memory_order_relaxed);

    do
        task->next = newest;
    while (!atomic_compare_exchange_weak(&reactor->tasks, &newest, task));
    wake(reactor);
}

static void post(struct loop *loop, struct loop_task *task)
{
    task->bounded = false;
    push_task(of(loop), task);
}

static bool post_bounded(struct loop *loop, struct loop_task *task)
{
    struct reactor *reactor = of(loop);

    if (atomic_fetch_add(&reactor->bounded_tasks, 1) >= LOOP_MAILBOX_TASKS_MAX) {
        atomic_fetch_sub(&reactor->bounded_tasks, 1);
        return false;
    }
    task->bounded = true;
    push_task(reactor, task);
    return true;
}

static void run_tasks(struct reactor *reactor)
{
    struct loop_task *newest = NULL;
    struct loop_task *oldest = NULL;
    uint32_t bounded = 0;

    if (atomic_load_explicit(&reactor->tasks, memory_order_relaxed) == NULL)
        return;
    work_begins(reactor, REACTOR_TASKS);
    newest = atomic_exchange(&reactor->tasks, NULL);
    while (newest != NULL) {
        struct loop_task *before = newest->next;

        bounded += newest->bounded;
        newest->next = oldest;
        oldest = newest;
        newest = before;
    }
    if (bounded > 0)
        atomic_fetch_sub(&reactor->bounded_tasks, bounded);
    while (oldest != NULL) {
        struct loop_task *task = oldest;

        oldest = task->next;
        reactor->turn.counts[REACTOR_TASKS]++;
        task->run(task);
    }
}

/* --- jobs --- */

static void submit(struct loop *loop, struct loop_job *job)
{
    struct reactor *reactor = of(loop);

    assert(reactor->io_pool != NULL);
    job->home = loop;
    if (reactor->jobs_out < IO_JOBS_PER_LOOP_MAX) {
        reactor->jobs_out++;
        io_pool_submit(reactor->io_pool, job);
        return;
    }
    job->next = NULL;
    *reactor->jobs_last = job;
    reactor->jobs_last = &job->next;
}

void reactor_job_completed(struct loop_job *job)
{
    struct reactor *reactor = of(job->home);
    struct loop_job *newest = atomic_load_explicit(&reactor->jobs_done, memory_order_relaxed);

    do
        job->next = newest;
    while (!atomic_compare_exchange_weak(&reactor->jobs_done, &newest, job));
    wake(reactor);
}

static void run_completions(struct reactor *reactor)
{
    struct loop_job *newest = NULL;
    struct loop_job *oldest = NULL;
    int64_t began_ns = 0;

    if (atomic_load_explicit(&reactor->jobs_done, memory_order_relaxed) == NULL)
        return;
    work_begins(reactor, REACTOR_JOBS);
    began_ns = reactor->work_began_ns;
    newest = atomic_exchange(&reactor->jobs_done, NULL);
    while (newest != NULL) {
        struct loop_job *before = newest->next;

        newest->next = oldest;
        oldest = newest;
        newest = before;
    }
    while (oldest != NULL) {
        struct loop_job *job = oldest;
        struct loop_job *held_back = reactor->jobs_first;
        uintptr_t function = (uintptr_t)job->done;

        oldest = job->next;
        reactor->jobs_out--;
        if (held_back != NULL) {
            reactor->jobs_first = held_back->next;
            if (reactor->jobs_first == NULL)
                reactor->jobs_last = &reactor->jobs_first;
            reactor->jobs_out++;
            io_pool_submit(reactor->io_pool, held_back);
        }
        job->done(job);
        began_ns = piece_ended(reactor, REACTOR_JOBS, began_ns, function);
    }
}

/* --- what stays on the thread --- */

static void defer(struct loop *loop, struct loop_task *task)
{
    struct reactor *reactor = of(loop);

    task->next = NULL;
    *reactor->deferred_last = task;
    reactor->deferred_last = &task->next;
}

static void run_deferred(struct reactor *reactor)
{
    int64_t began_ns = 0;

    if (reactor->deferred_first == NULL)
        return;
    work_begins(reactor, REACTOR_DEFERRED);
    began_ns = reactor->work_began_ns;
    while (reactor->deferred_first != NULL) {
        struct loop_task *task = reactor->deferred_first;
        uintptr_t function = (uintptr_t)task->run;

        reactor->deferred_first = task->next;
        if (reactor->deferred_first == NULL)
            reactor->deferred_last = &reactor->deferred_first;
        task->run(task);
        began_ns = piece_ended(reactor, REACTOR_DEFERRED, began_ns, function);
    }
}

/* What is started while timers fire is not of this turn, whatever it is due: or one that is always overdue would hold
 * the loop for ever. */
static void timer_start(struct loop *loop, struct loop_timer *timer, int64_t due_ns)
{
    struct reactor *reactor = of(loop);

    timer_heap_start(&reactor->timers, timer, due_ns > reactor->firing_ns ? due_ns : reactor->firing_ns + 1);
}

static void timer_stop(struct loop *loop, struct loop_timer *timer)
{
    timer_heap_stop(&of(loop)->timers, timer);
}

/* libevent waits and calls back in one go, so the time is taken when the turn first asks for it. */
static int64_t now_ns(struct loop *loop)
{
    struct reactor *reactor = of(loop);

    if (reactor->now_ns == 0)
        reactor->now_ns = clock_mono_ns(reactor->clock);
    return reactor->now_ns;
}

static const struct loop_ops ops = {
    .post = post,
    .post_bounded = post_bounded,
    .defer = defer,
    .submit = submit,
    .timer_start = timer_start,
    .timer_stop = timer_stop,
    .now_ns = now_ns,
};

/* --- the turn --- */

/* Edge-triggered: each write comes through once, and nothing need be read back. */
static void wake_fired(evutil_socket_t fd, short what, void *argument)
{
    struct reactor *reactor = argument;

    (void)fd;
    (void)what;
    reactor->woken = true;
}

static void timer_event_fired(evutil_socket_t fd, short what, void *argument)
{
    struct reactor *reactor = argument;

    (void)fd;
    (void)what;
    reactor->armed_ns = INT64_MAX;
}

static bool has_messages(struct reactor *reactor)
{
    return atomic_load(&reactor->tasks) != NULL || atomic_load(&reactor->jobs_done) != NULL ||
           atomic_load(&reactor->stopping);
}

/* Sets libevent's one timer to the first of ours. */
static void arm(struct reactor *reactor)
{
    struct loop_timer *first = timer_heap_first(&reactor->timers);
    int64_t due_ns = first == NULL ? INT64_MAX : first->due_ns;
    int64_t left_ns = 0;
    struct timeval left;

    if (due_ns == reactor->armed_ns)
        return;
    reactor->armed_ns = due_ns;
    if (due_ns == INT64_MAX) {
        evtimer_del(&reactor->timer_event);
        return;
    }
    left_ns = due_ns - clock_mono_ns(reactor->clock);
    if (left_ns < 0)
        left_ns = 0;
    left.tv_sec = (time_t)(left_ns / 1000000000);
    left.tv_usec = (suseconds_t)(left_ns % 1000000000 / 1000);
    evtimer_add(&reactor->timer_event, &left);
}

/* One pass without waiting. EVLOOP_NONBLOCK alone would go on as long as any socket is ready, and what makes it not
 * ready waits for the end of the turn. */
static void look_at_sockets(struct reactor *reactor)
{
    event_base_loop(reactor->base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
}

/* Looks for work for a moment before sleeping. True: there is some. */
static bool spin(struct reactor *reactor)
{
    int64_t until_ns = clock_mono_ns(reactor->clock) + reactor->spin_ns;

    while (!has_messages(reactor)) {
        int64_t spun_ns = 0;

        look_at_sockets(reactor);
        if (reactor->now_ns != 0 || reactor->deferred_first != NULL)
            return true;
        spun_ns = clock_mono_ns(reactor->clock);
        if (spun_ns >= until_ns)
            return false;
    }
    return true;
}

static void wait_and_call_back(struct reactor *reactor)
{
    bool was_woken = reactor->woken;

    reactor->now_ns = 0;
    reactor->woken = false;
    arm(reactor);
    if (was_woken && reactor->spin_ns > 0 && spin(reactor))
        return;
    atomic_store(&reactor->sleeping, true);
    if (has_messages(reactor)) {
        atomic_store(&reactor->sleeping, false);
        look_at_sockets(reactor);
        return;
    }
    event_base_loop(reactor->base, EVLOOP_ONCE);
    atomic_store_explicit(&reactor->sleeping, false, memory_order_relaxed);
}

static void fire_timers(struct reactor *reactor)
{
    struct loop_timer *first = timer_heap_first(&reactor->timers);
    int64_t at_ns = reactor->now_ns;
    int64_t began_ns = 0;

    if (first == NULL || first->due_ns > at_ns)
        return;
    work_begins(reactor, REACTOR_TIMERS);
    if (at_ns - first->due_ns > REACTOR_LATE_NS) {
        loop_event(&reactor->loop, "woke late by us=a", (at_ns - first->due_ns) / 1000, 0);
        for (int i = 0; i < REACTOR_LATE_PASSES; i++) {
            look_at_sockets(reactor);
            run_tasks(reactor);
            run_completions(reactor);
            run_deferred(reactor);
        }
    }
    reactor->firing_ns = at_ns;
    began_ns = reactor->work_began_ns;
    while ((first = timer_heap_first(&reactor->timers)) != NULL && first->due_ns <= at_ns) {
        uintptr_t function = (uintptr_t)first->fired;

        timer_heap_stop(&reactor->timers, first);
        first->fired(first);
        began_ns = piece_ended(reactor, REACTOR_TIMERS, began_ns, function);
    }
    reactor->firing_ns = INT64_MIN;
}

void reactor_run(struct reactor *reactor)
{
    bool stopping = false;

    while (!stopping) {
        wait_and_call_back(reactor);
        reactor->work = REACTOR_SOCKETS;
        reactor->worked = reactor->now_ns != 0;
        reactor->turn.counts[REACTOR_SOCKETS] = reactor->worked;
        reactor->work_began_ns = now_ns(&reactor->loop);
        stopping = atomic_load_explicit(&reactor->stopping, memory_order_acquire);
        run_tasks(reactor);
        run_completions(reactor);
        fire_timers(reactor);
        run_deferred(reactor);
        turn_ends(reactor);
    }
}

/* --- life --- */

MUST_CHECK enum err reactor_new(const struct reactor_config *config, struct reactor **reactor)
{
    struct reactor *made = NULL;
    struct event_config *event_config = event_config_new();
    enum err err = ERR_NOMEM;

    if (event_config == NULL)
        goto out;
    made = mem_calloc(1, sizeof(*made));
    if (made == NULL)
        goto out;
    made->wake_fd = -1;
    if (timer_heap_init(&made->timers) != ERR_OK)
        goto out;
    made->loop.ops = &ops;
    made->loop.name = made->name;
    made->loop.index = config->index;
    snprintf(made->name, sizeof(made->name), "%s", config->name);
    made->clock = config->clock;
    made->io_pool = config->io_pool;
    made->spin_ns = config->spin_ns;
    made->turn_ended = config->turn_ended;
    made->turn_context = config->turn_context;
    made->armed_ns = INT64_MAX;
    made->firing_ns = INT64_MIN;
    made->deferred_last = &made->deferred_first;
    made->jobs_last = &made->jobs_first;
    /* One thread alone touches the base: other threads come in through the mailbox. */
    event_config_set_flag(event_config, EVENT_BASE_FLAG_NOLOCK);
    event_config_set_flag(event_config, EVENT_BASE_FLAG_IGNORE_ENV);
    made->base = event_base_new_with_config(event_config);
    made->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (made->base == NULL || made->wake_fd < 0) {
        err = errno == EMFILE || errno == ENFILE ? ERR_NO_DESCRIPTORS : ERR_NOMEM;
        goto out;
    }
    if (event_assign(&made->wake_event, made->base, made->wake_fd, EV_READ | EV_PERSIST | EV_ET, wake_fired, made) !=
            0 ||
        evtimer_assign(&made->timer_event, made->base, timer_event_fired, made) != 0 ||
        event_add(&made->wake_event, NULL) != 0)
        goto out;
    *reactor = made;
    made = NULL;
    err = ERR_OK;
out:
    reactor_free(made);
    if (event_config != NULL)
        event_config_free(event_config);
    return err;
}

void reactor_free(struct reactor *reactor)
{
    if (reactor == NULL)
        return;
    assert(!reactor->thread_runs);
    if (reactor->base != NULL) {
        if (event_initialized(&reactor->wake_event))
            event_del(&reactor->wake_event);
        if (event_initialized(&reactor->timer_event))
            event_del(&reactor->timer_event);
        event_base_free(reactor->base);
    }
    if (reactor->wake_fd >= 0)
        close(reactor->wake_fd);
    timer_heap_deinit(&reactor->timers);
    mem_free(reactor);
}

static void *thread_main(void *argument)
{
    reactor_run(argument);
    return NULL;
}

MUST_CHECK enum err reactor_start(struct reactor *reactor)
{
    sigset_t all;
    sigset_t before;
    int failed = 0;

    assert(!reactor->thread_runs);
    /* Signals are the main thread's, but for the crash report's, and a blocked SIGPIPE lets sendfile report EPIPE
     * instead of killing us. */
    sigfillset(&all);
    crash_keep_unblocked(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    failed = pthread_create(&reactor->thread, NULL, thread_main, reactor);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed != 0)
        return ERR_LIMIT;
    reactor->thread_runs = true;
    pthread_setname_np(reactor->thread, reactor->name);
    return ERR_OK;
}

void reactor_stop(struct reactor *reactor)
{
    atomic_store(&reactor->stopping, true);
    wake(reactor);
}

void reactor_join(struct reactor *reactor)
{
    if (!reactor->thread_runs)
        return;
    pthread_join(reactor->thread, NULL);
    reactor->thread_runs = false;
}

struct loop *reactor_loop(struct reactor *reactor)
{
    return &reactor->loop;
}

struct event_base *reactor_event_base(struct loop *loop)
{
    assert(loop->ops == &ops);
    return of(loop)->base;
}
