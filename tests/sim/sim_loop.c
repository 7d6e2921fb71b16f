/* sim_loop: struct loop in the simulated world. A mailbox is one FIFO for each sender, as much order as the real loop
 * promises and no more; jobs start and report after delays that the seed draws, so that completions overtake. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/limits.h"
#include "sim/sim.h"
#include "sim/sim_internal.h"

enum {
    SENDERS_MAX = SIM_LOOPS_MAX + 1, /* each loop, and the test itself */
    TURN_TASKS_MAX = 8,              /* a turn drains up to this many messages of one sender */
};

struct queue {
    struct loop_task *head;
    struct loop_task **tail;
};

/* A job on its way: first to its run, then to its done. */
struct sim_job {
    struct sim_event event;
    struct loop_job *job;
    struct sim_loop *loop;
    struct sim_job *next;
    struct sim_job **previous;
    bool ran;
};

struct sim_loop {
    struct loop loop;
    struct sim *sim;
    uint32_t number; /* among all loops of the world */
    bool dead;
    bool of_node;
    int64_t frozen_until_ns;
    int64_t turn_ns;
    struct queue mail[SENDERS_MAX];
    size_t bounded_count; /* counts all mail: enough to show the bound */
    struct queue deferred;
    struct loop_timer **timers; /* unordered */
    size_t timer_count;
    size_t timer_room;
    struct sim_job *jobs;
};

static struct sim_loop *of(struct loop *loop)
{
    return (struct sim_loop *)(void *)((char *)loop - offsetof(struct sim_loop, loop));
}

static void push(struct queue *queue, struct loop_task *task)
{
    task->next = NULL;
    *queue->tail = task;
    queue->tail = &task->next;
}

static struct loop_task *pop(struct queue *queue)
{
    struct loop_task *task = queue->head;

    if (task == NULL)
        return NULL;
    queue->head = task->next;
    if (queue->head == NULL)
        queue->tail = &queue->head;
    task->next = NULL;
    return task;
}

static void post(struct loop *base, struct loop_task *task)
{
    struct sim_loop *loop = of(base);
    uint32_t sender = loop->sim->running == NULL ? SIM_LOOPS_MAX : loop->sim->running->number;

    if (loop->dead)
        return;
    push(&loop->mail[sender], task);
    loop->bounded_count++;
}

static bool post_bounded(struct loop *base, struct loop_task *task)
{
    if (of(base)->bounded_count >= LOOP_MAILBOX_TASKS_MAX)
        return false;
    post(base, task);
    return true;
}

static void defer(struct loop *base, struct loop_task *task)
{
    push(&of(base)->deferred, task);
}

/* Whose code runs from here on; gives what held before. */
static bool enter(struct sim_loop *loop, bool node)
{
    return loop->sim->entered != NULL && loop->sim->entered(node);
}

static void job_unlink(struct sim_job *job)
{
    *job->previous = job->next;
    if (job->next != NULL)
        job->next->previous = job->previous;
}

static void run_deferred(struct sim_loop *loop)
{
    struct loop_task *task = NULL;

    while ((task = pop(&loop->deferred)) != NULL)
        task->run(task);
}

static void job_event(struct sim_event *event)
{
    struct sim_job *job = (struct sim_job *)(void *)((char *)event - offsetof(struct sim_job, event));
    struct sim_loop *loop = job->loop;
    struct sim *sim = loop->sim;

    sim_trace(sim, 0x6a6f62, (uint64_t)loop->number << 1 | job->ran);
    if (!job->ran) {
        bool before = enter(loop, loop->of_node);

        job->ran = true;
        job->job->run(job->job);
        (void)enter(loop, before);
        sim_event_add(sim, &job->event, sim->mono_ns + (int64_t)sim_draw(sim, (uint64_t)sim->habits.job_delay_ns_max));
        return;
    }
    if (loop->frozen_until_ns > sim->mono_ns) {
        sim_event_add(sim, &job->event, loop->frozen_until_ns);
        return;
    }
    job_unlink(job);
    sim->running = loop;
    loop->turn_ns = sim->mono_ns;
    bool before = enter(loop, loop->of_node);
    job->job->done(job->job);
    run_deferred(loop);
    (void)enter(loop, before);
    sim->running = NULL;
    free(job);
}

static void submit(struct loop *base, struct loop_job *what)
{
    struct sim_loop *loop = of(base);
    struct sim *sim = loop->sim;
    struct sim_job *job = NULL;

    if (loop->dead)
        return;
    job = calloc(1, sizeof(*job));
    assert(job != NULL);
    what->home = base;
    job->job = what;
    job->loop = loop;
    job->event.run = job_event;
    job->next = loop->jobs;
    job->previous = &loop->jobs;
    if (loop->jobs != NULL)
        loop->jobs->previous = &job->next;
    loop->jobs = job;
    sim_event_add(sim, &job->event, sim->mono_ns + (int64_t)sim_draw(sim, (uint64_t)sim->habits.job_delay_ns_max));
}

static void timer_stop(struct loop *base, struct loop_timer *timer)
{
    struct sim_loop *loop = of(base);

    if (timer->heap_slot == 0)
        return;
    assert(loop->timers[timer->heap_slot - 1] == timer);
    loop->timers[timer->heap_slot - 1] = loop->timers[--loop->timer_count];
    loop->timers[timer->heap_slot - 1]->heap_slot = timer->heap_slot;
    timer->heap_slot = 0;
}

static void timer_start(struct loop *base, struct loop_timer *timer, int64_t due_ns)
{
    struct sim_loop *loop = of(base);

    timer_stop(base, timer);
    if (loop->timer_count == loop->timer_room) {
        size_t room = loop->timer_room == 0 ? 16 : loop->timer_room * 2;
        struct loop_timer **grown = realloc(loop->timers, room * sizeof(struct loop_timer *));

        assert(grown != NULL);
        loop->timers = grown;
        loop->timer_room = room;
    }
    timer->due_ns = due_ns;
    loop->timers[loop->timer_count++] = timer;
    timer->heap_slot = loop->timer_count;
}

static int64_t now_ns(struct loop *base)
{
    struct sim_loop *loop = of(base);

    return loop->sim->running == loop ? loop->turn_ns : loop->sim->mono_ns;
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

struct loop *sim_loop_new(struct sim *sim, const char *name, uint32_t index)
{
    struct sim_loop *loop = calloc(1, sizeof(*loop));

    assert(loop != NULL && sim->loop_count < SIM_LOOPS_MAX);
    loop->loop = (struct loop){.ops = &ops, .name = name, .index = index};
    loop->sim = sim;
    loop->number = sim->loop_count;
    for (uint32_t i = 0; i < SENDERS_MAX; i++)
        loop->mail[i].tail = &loop->mail[i].head;
    loop->deferred.tail = &loop->deferred.head;
    sim->loops[sim->loop_count++] = loop;
    return &loop->loop;
}

void sim_loop_set_node(struct loop *base)
{
    of(base)->of_node = true;
}

void sim_loop_kill(struct loop *base)
{
    struct sim_loop *loop = of(base);

    loop->dead = true;
    for (uint32_t i = 0; i < SENDERS_MAX; i++)
        loop->mail[i] = (struct queue){.tail = &loop->mail[i].head};
    loop->deferred = (struct queue){.tail = &loop->deferred.head};
    loop->bounded_count = 0;
    loop->timer_count = 0;
    while (loop->jobs != NULL) {
        struct sim_job *job = loop->jobs;

        job_unlink(job);
        sim_event_cancel(loop->sim, &job->event);
        free(job);
    }
}

void sim_loop_freeze(struct loop *base, int64_t until_ns)
{
    of(base)->frozen_until_ns = until_ns;
}

static bool due(const struct sim_loop *loop, const struct loop_timer *timer)
{
    return timer->due_ns <= loop->sim->mono_ns;
}

/* Timers fire oldest first, as the real loop's heap has it: only the earliest is a choice. */
static struct loop_timer *earliest(struct sim_loop *loop)
{
    struct loop_timer *first = NULL;

    for (size_t i = 0; i < loop->timer_count; i++)
        if (first == NULL || loop->timers[i]->due_ns < first->due_ns)
            first = loop->timers[i];
    return first;
}

uint32_t sim_loop_choices(struct sim_loop *loop)
{
    uint32_t count = 0;
    struct loop_timer *timer = NULL;

    if (loop->dead || loop->frozen_until_ns > loop->sim->mono_ns)
        return 0;
    for (uint32_t i = 0; i < SENDERS_MAX; i++)
        count += loop->mail[i].head != NULL;
    timer = earliest(loop);
    return count + (timer != NULL && due(loop, timer)) + (loop->deferred.head != NULL);
}

static void run_mail(struct sim_loop *loop, struct queue *queue)
{
    uint64_t limit = 1 + sim_draw(loop->sim, TURN_TASKS_MAX);

    for (uint64_t i = 0; i < limit; i++) {
        struct loop_task *task = pop(queue);

        if (task == NULL)
            break;
        loop->bounded_count--;
        task->run(task);
    }
}

void sim_loop_turn(struct sim_loop *loop, uint32_t choice)
{
    struct loop_timer *timer = earliest(loop);
    struct queue *queue = NULL;

    for (uint32_t i = 0; i < SENDERS_MAX && queue == NULL; i++)
        if (loop->mail[i].head != NULL && choice-- == 0)
            queue = &loop->mail[i];
    sim_trace(loop->sim, loop->number, queue == NULL ? 1 : 2);
    loop->sim->running = loop;
    loop->turn_ns = loop->sim->mono_ns;
    bool before = enter(loop, loop->of_node);
    if (queue != NULL) {
        run_mail(loop, queue);
    } else if (timer != NULL && due(loop, timer) && choice == 0) {
        timer_stop(&loop->loop, timer);
        timer->fired(timer);
    }
    run_deferred(loop);
    (void)enter(loop, before);
    loop->sim->running = NULL;
}

int64_t sim_loop_wake_ns(struct sim_loop *loop)
{
    struct loop_timer *timer = earliest(loop);
    bool mail = loop->deferred.head != NULL;
    int64_t wake = INT64_MAX;

    if (loop->dead)
        return INT64_MAX;
    for (uint32_t i = 0; i < SENDERS_MAX; i++)
        mail = mail || loop->mail[i].head != NULL;
    if (mail)
        wake = loop->sim->mono_ns;
    else if (timer != NULL)
        wake = timer->due_ns;
    return wake < loop->frozen_until_ns && wake != INT64_MAX ? loop->frozen_until_ns : wake;
}

void sim_loop_free(struct sim_loop *loop)
{
    sim_loop_kill(&loop->loop);
    free(loop->timers);
    free(loop);
}
