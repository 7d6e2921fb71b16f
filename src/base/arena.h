/*
 * arena: memory that lives and dies with one request. Allocations are never freed singly; the arena has a
 * limit, over which it says no, so that a decoder cannot be talked into more than its frame could honestly
 * hold.
 *
 * Threads  one owner at a time; may be handed on between threads through a mailbox.
 */
#ifndef OTTLA_BASE_ARENA_H
#define OTTLA_BASE_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"

struct arena_block;

struct arena {
    struct arena_block *blocks; /* newest first */
    size_t used_bytes;          /* handed out, with alignment */
    size_t held_bytes;          /* taken from the heap */
    size_t limit_bytes;         /* held_bytes never passes it */
    bool over_limit;            /* something was refused for the limit's sake, not for want of memory */
};

/* Nothing is taken from the heap before the first allocation. */
void arena_init(struct arena *arena, size_t limit_bytes);
/* Frees all; the arena can be used again. */
void arena_reset(struct arena *arena);
/* The same; afterwards only arena_init may be called. */
void arena_deinit(struct arena *arena);

/* Zeroed, aligned for any type; NULL over the limit or without memory. size may be 0 (a valid pointer then).
 */
void *arena_alloc(struct arena *arena, size_t size) MUST_CHECK;
/* Zeroed array of count elements; NULL also where count * size overflows. */
void *arena_array(struct arena *arena, size_t count, size_t size) MUST_CHECK;
/* A copy that lives in the arena; null stays null. ERR_NOMEM over the limit. */
MUST_CHECK enum err arena_copy(struct arena *arena, struct bytes from, struct bytes *copy);
/* printf into the arena; null without memory. */
struct bytes arena_printf(struct arena *arena, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
