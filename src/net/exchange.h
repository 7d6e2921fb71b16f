/*
 * exchange: the inside of struct exchange (net/connection.h), for connection.c and exchange.c alone: its memory, and
 * its reply on the way out.
 *
 * Threads  its connection's loop.
 */
#ifndef OTTLA_NET_EXCHANGE_H
#define OTTLA_NET_EXCHANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/slice.h"
#include "net/block_pool.h"
#include "net/budget.h"
#include "net/connection.h"
#include "net/net_limits.h"

/* Where frames live: blocks, charged by their capacity. */
struct frame_memory {
    struct budget_gate gate;
    struct block_pool pool;
};

enum exchange_phase {
    EXCHANGE_EXECUTING, /* the handler's */
    EXCHANGE_REPLIED,   /* its slices wait to leave */
    EXCHANGE_SILENT,    /* ended, nothing to send */
    EXCHANGE_CLOSES,    /* ended; when its turn to be answered comes the connection closes */
};

struct exchange_state {
    struct exchange exchange; /* the public part */
    struct list_node node;    /* in its connection, in request order */
    enum exchange_phase phase;
    bool overlaps;
    bool abandoned_told;
    struct block frame_block; /* what holds the frame; no data when it is inline or gone */
    size_t reserved;          /* bytes charged by exchange_reserve */
    exchange_released_fn *released;
    uint8_t size_field[4];
    struct slice *slices; /* the size field's first */
    uint32_t slices_count;
    uint32_t slice_at;   /* the first that has not left whole; it is cut as it leaves */
    size_t queued_bytes; /* of the reply, in memory */
    struct slice inline_slices[1 + EXCHANGE_INLINE_SLICES];
    uint8_t inline_frame[];
};

static inline struct exchange_state *exchange_at(struct list_node *node)
{
    return LIST_ENTRY(node, struct exchange_state, node);
}

/* A copy of a small or middling frame, charged whether there is room or not (it was when it was read). NULL: no memory.
 */
struct exchange_state *exchange_new(struct frame_memory *memory, const uint8_t *frame, size_t frame_size);
/* The same around a charged block that holds the frame already (at frame, inside it): the exchange's on success. */
struct exchange_state *exchange_new_take(struct block block, uint8_t *frame, size_t frame_size);
/* Gives all its memory back. */
void exchange_free(struct frame_memory *memory, struct exchange_state *state);
void exchange_drop_frame(struct frame_memory *memory, struct exchange_state *state);
/* Puts the reply together. False: no memory, nothing has changed. */
bool exchange_set_reply(struct exchange_state *state, const struct slice *slices, uint32_t count);
/* Adds what is left of the reply to a batch, up to bytes_max; the bytes added. */
size_t exchange_gather(const struct exchange_state *state, struct slice *batch, uint32_t *batch_count,
                       uint32_t batch_max, size_t bytes_max);
/* Bytes have left; returns those that were not this reply's. */
size_t exchange_advance(struct exchange_state *state, size_t bytes);
static inline bool exchange_has_left(const struct exchange_state *state)
{
    return state->slice_at == state->slices_count;
}

#endif
