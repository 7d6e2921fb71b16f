/*
 * reactor: the real struct loop: one thread over one libevent loop.
 *
 * A turn: wait; callbacks of sockets; messages (tasks from other threads, finished jobs); timers that are due; deferred
 * tasks, until none is left. After a late wake-up (a timer overdue by more than REACTOR_LATE_NS: the machine slept, the
 * process was stopped) sockets are drained before any timer fires, so that nothing expires whose answer lies in a
 * socket.
 *
 * Limits   LOOP_MAILBOX_TASKS_MAX bounded posts wait at once (refused beyond); IO_JOBS_PER_LOOP_MAX jobs in the I/O
 *          pool (the rest wait here, in order).
 * Threads  reactor_new, _start, _join and _free from one owner; reactor_stop from any; loop_* as base/loop.h says.
 */
#ifndef OTTLA_NET_REACTOR_H
#define OTTLA_NET_REACTOR_H

#include <stdint.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/loop.h"

struct event_base;
struct io_pool;
struct reactor;

/* What a turn is made of, in the order of the turn. */
enum reactor_work { REACTOR_SOCKETS, REACTOR_TASKS, REACTOR_JOBS, REACTOR_TIMERS, REACTOR_DEFERRED, REACTOR_WORKS };

/* One turn, without the wait before it. What sockets' callbacks did before any of them asked for the time is missing;
 * ours ask at once. */
struct reactor_turn {
    int64_t began_ns;
    int64_t ns;
    int64_t of_ns[REACTOR_WORKS];
    uint32_t counts[REACTOR_WORKS]; /* how many tasks, jobs, timers; of sockets 0 or 1: there was something */
    int64_t longest_ns;             /* of one ended job, timer or deferred task */
    uintptr_t longest;              /* its function */
};

struct reactor_config {
    const char *name; /* copied; the thread's name, 15 characters of it */
    uint32_t index;   /* struct loop's */
    struct clock *clock;
    struct io_pool *io_pool; /* made with reactor_job_completed; NULL: no jobs are submitted */
    int64_t spin_ns; /* ottla.spin.us: look for work this long before sleeping, when woken just before; 0: never */
    /* Told after each turn how long it took, on the reactor's thread. May be NULL. */
    void (*turn_ended)(void *context, const struct reactor_turn *turn);
    void *turn_context;
};

/* ERR_NOMEM, ERR_NO_DESCRIPTORS. */
MUST_CHECK enum err reactor_new(const struct reactor_config *config, struct reactor **reactor);
/* Not while its thread runs, and not before its I/O pool is gone: a thread of that wakes it after it has mailed a job.
 * Messages that are left are dropped unseen. NULL does nothing. */
void reactor_free(struct reactor *reactor);
/* Starts its thread. ERR_LIMIT: no more threads. */
MUST_CHECK enum err reactor_start(struct reactor *reactor);
/* Runs it on the calling thread until it is stopped. */
void reactor_run(struct reactor *reactor);
/* It leaves after the turn in which it hears this: messages posted before are still seen. */
void reactor_stop(struct reactor *reactor);
void reactor_join(struct reactor *reactor);

struct loop *reactor_loop(struct reactor *reactor);
/* For the rooms that may use libevent (net, http). */
struct event_base *reactor_event_base(struct loop *loop);
/* The io_pool_completed_fn that mails a finished job to its reactor. */
void reactor_job_completed(struct loop_job *job);

#endif
