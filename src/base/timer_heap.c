#include "base/timer_heap.h"

#include "base/assert.h"
#include "base/mem.h"

enum { TIMER_HEAP_FIRST = 64 }; /* timers it has room for at first; doubles */

static void place(struct timer_heap *heap, size_t at, struct loop_timer *timer)
{
    heap->timers[at] = timer;
    timer->heap_slot = at + 1;
}

static void sift_up(struct timer_heap *heap, size_t at, struct loop_timer *timer)
{
    while (at > 0) {
        size_t parent = (at - 1) / 2;

        if (heap->timers[parent]->due_ns <= timer->due_ns)
            break;
        place(heap, at, heap->timers[parent]);
        at = parent;
    }
    place(heap, at, timer);
}

static void sift_down(struct timer_heap *heap, size_t at, struct loop_timer *timer)
{
    for (;;) {
        size_t child = 2 * at + 1;

        if (child >= heap->count)
            break;
        if (child + 1 < heap->count && heap->timers[child + 1]->due_ns < heap->timers[child]->due_ns)
            child++;
        if (timer->due_ns <= heap->timers[child]->due_ns)
            break;
        place(heap, at, heap->timers[child]);
        at = child;
    }
    place(heap, at, timer);
}

/* No timer is due before its parent, and each knows its slot. */
static bool is_heap(const struct timer_heap *heap)
{
    for (size_t i = 0; i < heap->count; i++)
        if (heap->timers[i]->heap_slot != i + 1 || heap->timers[(i - (i > 0)) / 2]->due_ns > heap->timers[i]->due_ns)
            return false;
    return true;
}

/* From half full on, so that a failure has time to pass. */
static void grow(struct timer_heap *heap)
{
    size_t capacity = heap->capacity * 2;
    struct loop_timer **timers = mem_realloc(heap->timers, capacity * sizeof(struct loop_timer *));

    if (timers == NULL)
        return;
    heap->timers = timers;
    heap->capacity = capacity;
}

MUST_CHECK enum err timer_heap_init(struct timer_heap *heap)
{
    *heap = (struct timer_heap){.timers = mem_alloc(TIMER_HEAP_FIRST * sizeof(struct loop_timer *)),
                                .capacity = TIMER_HEAP_FIRST};
    return heap->timers == NULL ? ERR_NOMEM : ERR_OK;
}

void timer_heap_deinit(struct timer_heap *heap)
{
    mem_free(heap->timers);
    *heap = (struct timer_heap){0};
}

void timer_heap_start(struct timer_heap *heap, struct loop_timer *timer, int64_t due_ns)
{
    bool later = timer->heap_slot != 0 && due_ns > timer->due_ns;

    timer->due_ns = due_ns;
    if (timer->heap_slot != 0) {
        assert(timer->heap_slot <= heap->count && heap->timers[timer->heap_slot - 1] == timer);
        if (later)
            sift_down(heap, timer->heap_slot - 1, timer);
        else
            sift_up(heap, timer->heap_slot - 1, timer);
        assert_slow(is_heap(heap));
        return;
    }
    if (heap->count >= heap->capacity / 2)
        grow(heap);
    assert(heap->count < heap->capacity);
    heap->count++;
    sift_up(heap, heap->count - 1, timer);
    assert_slow(is_heap(heap));
}

void timer_heap_stop(struct timer_heap *heap, struct loop_timer *timer)
{
    size_t at = timer->heap_slot - 1;
    struct loop_timer *last = NULL;

    if (timer->heap_slot == 0)
        return;
    assert(at < heap->count && heap->timers[at] == timer);
    timer->heap_slot = 0;
    heap->count--;
    last = heap->timers[heap->count];
    if (last == timer)
        return;
    if (at > 0 && heap->timers[(at - 1) / 2]->due_ns > last->due_ns)
        sift_up(heap, at, last);
    else
        sift_down(heap, at, last);
    assert_slow(is_heap(heap));
}

struct loop_timer *timer_heap_first(const struct timer_heap *heap)
{
    return heap->count == 0 ? NULL : heap->timers[0];
}
