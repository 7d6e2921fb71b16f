#include "base/arena.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"

enum {
    ALIGN_BYTES = 16,
    BLOCK_BYTES_FIRST = 1024,    /* most requests fit in one block */
    BLOCK_BYTES_MAX = 64 * 1024, /* blocks double up to here; larger wishes get a block of their own */
};

struct arena_block {
    struct arena_block *older;
    size_t size; /* of the room behind this header */
    size_t used;
    size_t padding;
};
_Static_assert(sizeof(struct arena_block) % ALIGN_BYTES == 0, "the room behind the header must be aligned");

static uint8_t *room_of(struct arena_block *block)
{
    return (uint8_t *)(block + 1);
}

static void *refuse(struct arena *arena)
{
    arena->over_limit = true;
    return NULL;
}

static struct arena_block *block_add(struct arena *arena, size_t want)
{
    size_t size = arena->blocks == NULL ? BLOCK_BYTES_FIRST : arena->blocks->size * 2;
    struct arena_block *block = NULL;

    if (size > BLOCK_BYTES_MAX)
        size = BLOCK_BYTES_MAX;
    if (size > arena->limit_bytes - arena->held_bytes)
        size = arena->limit_bytes - arena->held_bytes;
    if (size < want)
        size = want;
    if (size > arena->limit_bytes - arena->held_bytes)
        return refuse(arena);
    block = mem_alloc(sizeof(*block) + size);
    if (block == NULL)
        return NULL;
    block->older = arena->blocks;
    block->size = size;
    block->used = 0;
    arena->blocks = block;
    arena->held_bytes += size;
    return block;
}

void arena_init(struct arena *arena, size_t limit_bytes)
{
    *arena = (struct arena){.limit_bytes = limit_bytes};
}

void arena_reset(struct arena *arena)
{
    struct arena_block *older = NULL;

    for (struct arena_block *block = arena->blocks; block != NULL; block = older) {
        older = block->older;
        mem_free(block);
    }
    arena_init(arena, arena->limit_bytes);
}

void arena_deinit(struct arena *arena)
{
    arena_reset(arena);
    arena->limit_bytes = 0;
}

void *arena_alloc(struct arena *arena, size_t size)
{
    struct arena_block *block = arena->blocks;
    size_t aligned = 0;
    uint8_t *at = NULL;

    if (size > SIZE_MAX / 2)
        return refuse(arena);
    aligned = size == 0 ? ALIGN_BYTES : (size + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
    if (block == NULL || block->size - block->used < aligned)
        block = block_add(arena, aligned);
    if (block == NULL)
        return NULL;
    at = room_of(block) + block->used;
    block->used += aligned;
    arena->used_bytes += aligned;
    memset(at, 0, aligned);
    return at;
}

void *arena_array(struct arena *arena, size_t count, size_t size)
{
    assert(size > 0);
    if (count > SIZE_MAX / 2 / size)
        return refuse(arena);
    return arena_alloc(arena, count * size);
}

enum err arena_copy(struct arena *arena, struct bytes from, struct bytes *copy)
{
    uint8_t *at = NULL;

    if (from.data == NULL) {
        *copy = from;
        return ERR_OK;
    }
    at = arena_alloc(arena, from.size);
    if (at == NULL)
        return ERR_NOMEM;
    if (from.size > 0)
        memcpy(at, from.data, from.size);
    *copy = bytes_of(at, from.size);
    return ERR_OK;
}

struct bytes arena_printf(struct arena *arena, const char *format, ...)
{
    va_list args;
    va_list again;
    int size = 0;
    char *at = NULL;

    va_start(args, format);
    va_copy(again, args);
    size = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (size >= 0)
        at = arena_alloc(arena, (size_t)size + 1);
    if (at != NULL)
        vsnprintf(at, (size_t)size + 1, format, again);
    va_end(again);
    return at == NULL ? (struct bytes){0} : bytes_of(at, (size_t)size);
}
