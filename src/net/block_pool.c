#include "net/block_pool.h"

#include "base/assert.h"
#include "base/list.h"
#include "base/mem.h"

static void remove_at(struct block_pool *pool, uint32_t at)
{
    pool->bytes -= pool->blocks[at].capacity;
    pool->count--;
    for (uint32_t i = at; i < pool->count; i++)
        pool->blocks[i] = pool->blocks[i + 1];
}

static void free_all(struct block_pool *pool)
{
    while (pool->count > 0) {
        mem_free(pool->blocks[pool->count - 1].data);
        remove_at(pool, pool->count - 1);
    }
}

static void watch(struct block_pool *pool)
{
    pool->taken = false;
    loop_timer_start(pool->loop, &pool->idle, loop_now_ns(pool->loop) + BLOCK_POOL_IDLE_NS);
}

static void idle_checked(struct loop_timer *timer)
{
    struct block_pool *pool = LIST_ENTRY(timer, struct block_pool, idle);

    if (pool->taken)
        watch(pool);
    else
        free_all(pool);
}

void block_pool_init(struct block_pool *pool, struct loop *loop)
{
    *pool = (struct block_pool){.loop = loop, .idle.fired = idle_checked};
}

void block_pool_deinit(struct block_pool *pool)
{
    loop_timer_stop(pool->loop, &pool->idle);
    free_all(pool);
}

struct block block_pool_take(struct block_pool *pool, size_t size)
{
    size_t most = size + size / BLOCK_POOL_SLACK_DIVISOR;

    assert(size > 0);
    for (uint32_t i = pool->count; i > 0; i--) {
        struct block block = pool->blocks[i - 1];

        if (block.capacity < size || block.capacity > most)
            continue;
        remove_at(pool, i - 1);
        pool->taken = true;
        return block;
    }
    return (struct block){.data = mem_alloc(size), .capacity = size};
}

void block_pool_give(struct block_pool *pool, struct block block)
{
    if (block.data == NULL)
        return;
    if (block.capacity < CONNECTION_DIRECT_BYTES_MIN || block.capacity > BLOCK_POOL_BYTES_MAX / 2) {
        mem_free(block.data);
        return;
    }
    /* The one that has lain longest makes room: sizes change with the load. */
    while (pool->count == BLOCK_POOL_BLOCKS_MAX || pool->bytes + block.capacity > BLOCK_POOL_BYTES_MAX) {
        mem_free(pool->blocks[0].data);
        remove_at(pool, 0);
    }
    pool->blocks[pool->count++] = block;
    pool->bytes += block.capacity;
    if (pool->idle.heap_slot == 0)
        watch(pool);
}
