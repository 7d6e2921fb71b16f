/*
 * short_heap: a heap that refuses the core one allocation. For programs linked with --wrap of the functions of
 * base/mem.h; what tests and worlds take themselves is always there, and not counted.
 */
#ifndef OTTLA_TESTS_COORDINATOR_SHORT_HEAP_H
#define OTTLA_TESTS_COORDINATOR_SHORT_HEAP_H

#include <stdbool.h>
#include <stdint.h>

/* Counts from here on, and refuses the call of that number; 0: none. */
void short_heap_begin(uint64_t refuse_at);
/* For group_world's core_runs. */
void short_heap_core_runs(bool runs);
/* Until it goes on, nothing is counted and nothing refused. */
void short_heap_pause(bool paused);
/* The core's calls since short_heap_begin. */
uint64_t short_heap_calls(void);
bool short_heap_has_refused(void);
/* Of everybody, that are not freed. */
int64_t short_heap_blocks(void);

#endif
