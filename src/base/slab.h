/*
 * slab: pieces of one size, cut from larger blocks that go back to the heap as soon as all their pieces are free: for
 * what thousands take for a moment, between which others take memory that stays. Taken from the heap one by one they
 * would leave it full of holes.
 *
 * Always holds  a block has a free piece, or is in no list.
 * Threads       one owner at a time.
 */
#ifndef OTTLA_BASE_SLAB_H
#define OTTLA_BASE_SLAB_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/list.h"

enum { SLAB_BLOCK_BYTES = 64 * 1024 };

struct slab {
    size_t piece_bytes; /* with the pointer before it */
    struct list with_room;
    uint64_t taken; /* pieces */
};

/* piece_bytes: above 0, at most an eighth of SLAB_BLOCK_BYTES. Takes no memory before the first piece. */
void slab_init(struct slab *slab, size_t piece_bytes);
/* All pieces were given back. */
void slab_deinit(struct slab *slab);

/* Zeroed, aligned for any type; NULL without memory. */
void *slab_take(struct slab *slab) MUST_CHECK;
/* NULL does nothing. */
void slab_give_back(struct slab *slab, void *taken);

#endif
