/*
 * loop: the seam between a reactor and the world that wakes it. A reactor is one thread with one loop; what runs
 * on it runs to completion and never blocks. Work arrives as tasks from other reactors (mailbox, FIFO for each
 * sender), as timers, and as jobs that an I/O thread has finished. The real loop is src/net's, over libevent; the
 * simulated one runs the loops of all nodes from one queue and lets a seed pick what runs next.
 *
 * Ownership  tasks, jobs and timers are embedded in what they work on; the loop borrows them from the call that
 *            hands them over until their function runs (timers: or until they are stopped).
 * Threads    loop_post and loop_post_bounded from any thread; all else on the loop's own thread.
 */
#ifndef OTTLA_BASE_LOOP_H
#define OTTLA_BASE_LOOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/crash.h"

struct loop;

/* A message to a loop. */
struct loop_task {
    void (*run)(struct loop_task *task);
    struct loop_task *next; /* the loop's */
    bool bounded;           /* the loop's */
};

/* Work that may block: run is called on an I/O thread, done afterwards on the loop that submitted it. run touches
 * only what the job owns; two jobs of one loop may run at once and finish in any order. */
struct loop_job {
    void (*run)(struct loop_job *job);
    void (*done)(struct loop_job *job);
    struct loop *home;     /* the loop's */
    struct loop_job *next; /* the loop's */
};

/* One-shot. All-zero is a stopped timer. */
struct loop_timer {
    void (*fired)(struct loop_timer *timer);
    int64_t due_ns;   /* monotonic; valid while armed */
    size_t heap_slot; /* the loop's: 1 + position while armed, 0 when stopped */
};

struct loop_ops {
    void (*post)(struct loop *loop, struct loop_task *task);
    bool (*post_bounded)(struct loop *loop, struct loop_task *task);
    void (*defer)(struct loop *loop, struct loop_task *task);
    void (*submit)(struct loop *loop, struct loop_job *job);
    void (*timer_start)(struct loop *loop, struct loop_timer *timer, int64_t due_ns);
    void (*timer_stop)(struct loop *loop, struct loop_timer *timer);
    int64_t (*now_ns)(struct loop *loop);
};

struct loop {
    const struct loop_ops *ops;
    const char *name;        /* "reactor-0", "controller": thread name and log lines */
    uint32_t index;          /* among the reactors of its broker */
    struct crash_ring *ring; /* what this loop did last, for a crash report; NULL: nobody asks */
};

/* Run on that loop, after all this caller posted there before. For replies and completions, whose number is bounded
 * by what was asked: never refused. */
static inline void loop_post(struct loop *loop, struct loop_task *task)
{
    loop->ops->post(loop, task);
}

/* The same for new work: false, and nothing is taken, when LOOP_MAILBOX_TASKS_MAX such tasks wait there already. The
 * caller then stops reading its connection until the loop has caught up. */
static inline bool loop_post_bounded(struct loop *loop, struct loop_task *task)
{
    return loop->ops->post_bounded(loop, task);
}

/* Run at the end of the present turn, after everything that this turn brought. */
static inline void loop_defer(struct loop *loop, struct loop_task *task)
{
    loop->ops->defer(loop, task);
}

static inline void loop_submit(struct loop *loop, struct loop_job *job)
{
    loop->ops->submit(loop, job);
}

/* Arms, or moves an armed timer. A due time in the past fires on the next turn. */
static inline void loop_timer_start(struct loop *loop, struct loop_timer *timer, int64_t due_ns)
{
    loop->ops->timer_start(loop, timer, due_ns);
}

/* Nothing happens when it is not armed. */
static inline void loop_timer_stop(struct loop *loop, struct loop_timer *timer)
{
    loop->ops->timer_stop(loop, timer);
}

/* Monotonic time at which this turn began: cheap, and the same for all that the turn does. */
static inline int64_t loop_now_ns(struct loop *loop)
{
    return loop->ops->now_ns(loop);
}

/* What a crash report of this loop's thread shows: a literal and two figures that say which. */
static inline void loop_event(struct loop *loop, const char *what, int64_t a, int64_t b)
{
    if (loop->ring != NULL)
        crash_event(loop->ring, loop_now_ns(loop), what, a, b);
}

#endif
