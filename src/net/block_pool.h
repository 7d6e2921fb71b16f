/*
 * block_pool: large blocks that one loop keeps for its next large frames. What malloc gives back to the kernel comes
 * again as zeroed pages, one fault each: a fifth of a broker's CPU under 1 MB frames. A block is taken last in, first
 * out, while it is still in the cache.
 *
 * Limits   BLOCK_POOL_BLOCKS_MAX blocks and BLOCK_POOL_BYTES_MAX bytes are kept; the rest goes to the heap. What nobody
 *          took for BLOCK_POOL_IDLE_NS goes there too, so that an idle loop holds none. Blocks under
 *          CONNECTION_DIRECT_BYTES_MIN are never kept.
 * Threads  its loop's.
 */
#ifndef OTTLA_NET_BLOCK_POOL_H
#define OTTLA_NET_BLOCK_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/loop.h"
#include "net/net_limits.h"

struct block {
    uint8_t *data;
    size_t capacity; /* bytes */
};

struct block_pool {
    struct loop *loop;
    struct block blocks[BLOCK_POOL_BLOCKS_MAX];
    uint32_t count;
    size_t bytes; /* kept */
    bool taken;   /* one, since the timer was set */
    struct loop_timer idle;
};

void block_pool_init(struct block_pool *pool, struct loop *loop);
void block_pool_deinit(struct block_pool *pool);
/* Of at least size bytes; data NULL: no memory. Capacity is what the block has, up to a quarter more. */
struct block block_pool_take(struct block_pool *pool, size_t size);
/* data NULL does nothing. */
void block_pool_give(struct block_pool *pool, struct block block);

#endif
