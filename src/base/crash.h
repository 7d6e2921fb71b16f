/*
 * crash: what a process leaves behind when it dies, and the same on request. Each thread that matters has a ring of
 * its last CRASH_EVENTS events; a fatal signal or a failed assertion writes node, build, thread, that ring and a
 * backtrace to the report's descriptor, then the process ends as it would have without us. SIGUSR1 makes every
 * entered thread write its report and go on.
 *
 * Ownership  a ring belongs to its thread (it hangs off the reactor), a struct crash to the process. Only the
 *            address of the installed one is kept in a variable of this module, since a signal handler is handed
 *            nothing: the one such variable there is.
 * Threads    crash_event on the ring's own thread; crash_enter and crash_leave by the thread itself.
 * Cost       an event is five stores; what it points to must be constant for the life of the process.
 */
#ifndef OTTLA_BASE_CRASH_H
#define OTTLA_BASE_CRASH_H

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

enum {
    CRASH_EVENTS = 256,            /* a ring; a power of two */
    CRASH_THREADS_MAX = 256,       /* entered at a time; more are refused and go without report */
    CRASH_NAME_BYTES_MAX = 16,     /* Linux's own limit on thread names, with the closing NUL */
    CRASH_STACK_BYTES = 64 * 1024, /* to report on a stack that overflowed */
    CRASH_BUILD_ID_BYTES_MAX = 20, /* SHA-1, what linkers make */
};
_Static_assert((CRASH_EVENTS & (CRASH_EVENTS - 1)) == 0, "the ring's index wraps by masking");

struct histogram;

struct crash_event {
    int64_t at_ns;    /* monotonic */
    const char *what; /* a literal: "request read" */
    int64_t a;        /* two figures that say which; 0 where there is none */
    int64_t b;
};

/* All-zero is an empty ring. */
struct crash_ring {
    _Atomic(uint32_t) next;        /* events so far */
    int32_t node_id;               /* -1: no node's own */
    int32_t thread_id;             /* Linux's */
    const struct histogram *turns; /* of the thread's loop, in ns; NULL: nobody times them. Borrowed */
    char name[CRASH_NAME_BYTES_MAX];
    void *stack;          /* for signal handlers */
    stack_t stack_before; /* the one it replaces: a sanitizer has its own */
    struct crash_event events[CRASH_EVENTS];
};

struct crash {
    int fd;                                                /* the report's */
    char build_id[2 * CRASH_BUILD_ID_BYTES_MAX + 1];       /* hexadecimal */
    _Atomic(struct crash_ring *) rings[CRASH_THREADS_MAX]; /* of the entered threads */
    atomic_bool dying;                                     /* a fatal report has begun */
    atomic_int reporting;                                  /* thread that writes, 0: none */
};

/* Takes the fatal signals and SIGUSR1 for the process; reports go to fd. One at a time; borrowed until
 * crash_uninstall, which gives the signals back. ERR_BUSY when another is installed. */
MUST_CHECK enum err crash_install(struct crash *crash, int fd);
void crash_uninstall(struct crash *crash);

/* Takes out of a set of signals to block those that a report needs: one that is raised while it is blocked ends the
 * process without a word. */
void crash_keep_unblocked(sigset_t *signals);

/* The calling thread, from now on called name (cut to Linux's 15 characters), reports with this ring. Without memory
 * or over CRASH_THREADS_MAX it is named and runs on without. crash may be NULL (nothing installed). */
void crash_enter(struct crash *crash, struct crash_ring *ring, int32_t node_id, const char *name);
/* Before the thread ends or the ring goes. */
void crash_leave(struct crash *crash, struct crash_ring *ring);

static inline void crash_event(struct crash_ring *ring, int64_t at_ns, const char *what, int64_t a, int64_t b)
{
    uint32_t next = atomic_load_explicit(&ring->next, memory_order_relaxed);

    ring->events[next & (CRASH_EVENTS - 1)] = (struct crash_event){at_ns, what, a, b};
    /* Release: a report on this thread, in a handler, sees whole events only. */
    atomic_store_explicit(&ring->next, next + 1, memory_order_release);
}

#endif
