#include "base/slab.h"

#include <stdalign.h>
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"

enum { ALIGNMENT = alignof(max_align_t) };

/* A piece's block stands before it; of a free one also the next free one. */
struct piece {
    struct block *block;
    struct piece *next;
};

struct block {
    struct list_node node; /* in with_room */
    struct piece *free;
    uint32_t taken;
    uint32_t count;
    alignas(ALIGNMENT) unsigned char pieces[];
};

static size_t rounded(size_t size)
{
    return (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

void slab_init(struct slab *slab, size_t piece_bytes)
{
    assert(piece_bytes > 0 && piece_bytes <= SLAB_BLOCK_BYTES / 8);
    *slab = (struct slab){.piece_bytes = rounded(piece_bytes) + ALIGNMENT};
    list_init(&slab->with_room);
}

void slab_deinit(struct slab *slab)
{
    assert(slab->taken == 0);
    assert(list_is_empty(&slab->with_room));
}

static struct block *block_new(struct slab *slab)
{
    struct block *block = mem_alloc(SLAB_BLOCK_BYTES);
    unsigned char *at = NULL;

    if (block == NULL)
        return NULL;
    *block = (struct block){.count = (uint32_t)((SLAB_BLOCK_BYTES - sizeof(*block)) / slab->piece_bytes)};
    list_node_init(&block->node);
    at = block->pieces;
    for (uint32_t i = 0; i < block->count; i++) {
        struct piece *piece = (struct piece *)(void *)at;

        *piece = (struct piece){.block = block, .next = block->free};
        block->free = piece;
        at += slab->piece_bytes;
    }
    list_add_last(&slab->with_room, &block->node);
    return block;
}

void *slab_take(struct slab *slab)
{
    struct list_node *first = list_first(&slab->with_room);
    struct block *block = first == NULL ? block_new(slab) : LIST_ENTRY(first, struct block, node);
    struct piece *piece = NULL;
    void *taken = NULL;

    if (block == NULL)
        return NULL;
    piece = block->free;
    assert(piece != NULL && piece->block == block);
    block->free = piece->next;
    block->taken++;
    if (block->free == NULL)
        list_remove(&block->node);
    slab->taken++;
    taken = (unsigned char *)piece + ALIGNMENT;
    memset(taken, 0, slab->piece_bytes - ALIGNMENT);
    return taken;
}

void slab_give_back(struct slab *slab, void *taken)
{
    struct piece *piece = NULL;
    struct block *block = NULL;

    if (taken == NULL)
        return;
    piece = (struct piece *)(void *)((unsigned char *)taken - ALIGNMENT);
    block = piece->block;
    assert(block->taken > 0 && slab->taken > 0);
    slab->taken--;
    block->taken--;
    if (block->free == NULL)
        list_add_last(&slab->with_room, &block->node);
    piece->next = block->free;
    block->free = piece;
    if (block->taken == 0) {
        list_remove(&block->node);
        mem_free(block);
    }
}
