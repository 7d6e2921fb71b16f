#include "net/exchange.h"

#include <string.h>

#include "base/assert.h"
#include "base/mem.h"

static struct exchange_state *make(size_t inline_bytes)
{
    struct exchange_state *state = mem_alloc(sizeof(*state) + inline_bytes);

    if (state == NULL)
        return NULL;
    memset(state, 0, offsetof(struct exchange_state, inline_slices));
    list_node_init(&state->node);
    state->exchange.state = state;
    return state;
}

struct exchange_state *exchange_new(struct frame_memory *memory, const uint8_t *frame, size_t frame_size)
{
    bool is_small = frame_size <= EXCHANGE_INLINE_BYTES;
    struct exchange_state *state = make(is_small ? frame_size : 0);

    if (state == NULL)
        return NULL;
    state->exchange.frame = state->inline_frame;
    state->frame_block.capacity = frame_size;
    if (!is_small) {
        state->frame_block = block_pool_take(&memory->pool, frame_size);
        if (state->frame_block.data == NULL) {
            mem_free(state);
            return NULL;
        }
        state->exchange.frame = state->frame_block.data;
    }
    memcpy(state->exchange.frame, frame, frame_size);
    state->exchange.frame_size = frame_size;
    budget_take_over(&memory->gate, state->frame_block.capacity);
    return state;
}

struct exchange_state *exchange_new_take(struct block block, uint8_t *frame, size_t frame_size)
{
    struct exchange_state *state = make(0);

    if (state == NULL)
        return NULL;
    state->exchange.frame = frame;
    state->exchange.frame_size = frame_size;
    state->frame_block = block;
    return state;
}

void exchange_drop_frame(struct frame_memory *memory, struct exchange_state *state)
{
    if (state->exchange.frame == NULL)
        return;
    block_pool_give(&memory->pool, state->frame_block);
    budget_give(&memory->gate, state->frame_block.capacity);
    state->frame_block = (struct block){0};
    state->exchange.frame = NULL;
}

void exchange_free(struct frame_memory *memory, struct exchange_state *state)
{
    assert(!list_node_is_linked(&state->node));
    exchange_drop_frame(memory, state);
    if (state->reserved > 0)
        budget_give(&memory->gate, state->reserved);
    if (state->slices != state->inline_slices)
        mem_free(state->slices);
    mem_free(state);
}

bool exchange_set_reply(struct exchange_state *state, const struct slice *slices, uint32_t count)
{
    size_t size = 0;

    assert(count <= EXCHANGE_SLICES_MAX);
    state->slices = state->inline_slices;
    if (count > EXCHANGE_INLINE_SLICES) {
        state->slices = mem_alloc((1 + (size_t)count) * sizeof(struct slice));
        if (state->slices == NULL)
            return false;
    }
    state->slices_count = 1;
    for (uint32_t i = 0; i < count; i++) {
        if (slices[i].size == 0)
            continue;
        state->slices[state->slices_count++] = slices[i];
        size += slices[i].size;
        if (slices[i].file == NULL)
            state->queued_bytes += slices[i].size;
    }
    assert(size <= INT32_MAX);
    state->size_field[0] = (uint8_t)(size >> 24);
    state->size_field[1] = (uint8_t)(size >> 16);
    state->size_field[2] = (uint8_t)(size >> 8);
    state->size_field[3] = (uint8_t)size;
    state->slices[0] = slice_of(state->size_field, sizeof(state->size_field));
    return true;
}

size_t exchange_gather(const struct exchange_state *state, struct slice *batch, uint32_t *batch_count,
                       uint32_t batch_max, size_t bytes_max)
{
    size_t bytes = 0;

    for (uint32_t i = state->slice_at; i < state->slices_count && *batch_count < batch_max && bytes < bytes_max; i++) {
        struct slice *to = &batch[*batch_count];

        *to = state->slices[i];
        if (to->size > bytes_max - bytes)
            to->size = bytes_max - bytes;
        bytes += to->size;
        (*batch_count)++;
    }
    return bytes;
}

size_t exchange_advance(struct exchange_state *state, size_t bytes)
{
    while (state->slice_at < state->slices_count) {
        struct slice *slice = &state->slices[state->slice_at];

        if (bytes < slice->size) {
            if (slice->file == NULL)
                slice->data += bytes;
            slice->position += bytes;
            slice->size -= bytes;
            return 0;
        }
        bytes -= slice->size;
        state->slice_at++;
    }
    return bytes;
}
