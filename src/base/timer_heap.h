/*
 * timer_heap: the armed timers of one owner (a loop, a coordinator), the first due on top. A timer knows its slot, so
 * moving and stopping one needs no search.
 *
 * Memory   the heap grows well before it is full; what fails is tried again with the next timer, and only a heap that
 *          is full with no memory to be had is fatal.
 * Threads  the owner's.
 */
#ifndef OTTLA_BASE_TIMER_HEAP_H
#define OTTLA_BASE_TIMER_HEAP_H

#include <stddef.h>

#include "base/err.h"
#include "base/loop.h"

struct timer_heap {
    struct loop_timer **timers;
    size_t count;
    size_t capacity;
};

/* ERR_NOMEM. */
MUST_CHECK enum err timer_heap_init(struct timer_heap *heap);
/* All-zero is fine here. */
void timer_heap_deinit(struct timer_heap *heap);
/* Arms it, or moves an armed one. */
void timer_heap_start(struct timer_heap *heap, struct loop_timer *timer, int64_t due_ns);
void timer_heap_stop(struct timer_heap *heap, struct loop_timer *timer);
/* NULL when none is armed. */
struct loop_timer *timer_heap_first(const struct timer_heap *heap);

#endif
