#include "partition/producer_state.h"

#include "base/assert.h"
#include "base/big_endian.h"
#include "base/crc32c.h"
#include "base/mem.h"
#include "partition/txn_marker.h"

enum { SNAPSHOT_VERSION = 1, NO_SEQUENCE = -1, ENDED_ROOM_FIRST = 8 };

/* Sequence numbers wrap from INT32_MAX to 0 (KIP-98). */
static int32_t sequence_next(int32_t last)
{
    return last == INT32_MAX ? 0 : last + 1;
}

static int32_t sequence_back(int32_t sequence, int32_t count)
{
    int64_t rest = (int64_t)sequence - count;

    return (int32_t)(rest < 0 ? rest + INT32_MAX + 1 : rest);
}

void producer_state_init(struct producer_state *state, uint64_t seed)
{
    *state = (struct producer_state){.seed = seed};
}

void producer_state_take(struct producer_state *state, struct producer_state *taken)
{
    producer_state_deinit(state);
    *state = *taken;
    producer_state_init(taken, taken->seed);
}

static enum err some_make(struct producer_state *state)
{
    struct producers *some = state->some;

    if (some != NULL)
        return ERR_OK;
    some = mem_calloc(1, sizeof(*some));
    if (some == NULL)
        return ERR_NOMEM;
    map_u64_init(&some->by_id, state->seed, PRODUCERS_MAX);
    list_init(&some->by_age);
    list_init(&some->by_open);
    state->some = some;
    return ERR_OK;
}

static void forget(struct producer_state *state, struct producer *producer)
{
    map_u64_remove(&state->some->by_id, (uint64_t)producer->id);
    list_remove(&producer->by_age);
    list_remove(&producer->by_open);
    mem_free(producer);
}

/* --- transactions whose markers may yet be lost --- */

static void ended_clear(struct producers *some)
{
    mem_free(some->ended);
    some->ended = NULL;
    some->ended_first = 0;
    some->ended_count = 0;
    some->ended_room = 0;
}

static struct producer_ended *ended_at(const struct producers *some, uint32_t place)
{
    return &some->ended[some->ended_first + place];
}

enum err producer_state_reserve_ended(struct producer_state *state, uint32_t count)
{
    struct producers *some = NULL;
    enum err err = some_make(state);

    if (err != ERR_OK)
        return err;
    some = state->some;
    if (some->ended_first > 0 && some->ended_first + some->ended_count + count > some->ended_room) {
        memmove(some->ended, ended_at(some, 0), some->ended_count * sizeof(some->ended[0]));
        some->ended_first = 0;
    }
    return mem_grow(&some->ended, &some->ended_room, some->ended_first + some->ended_count + count, ENDED_ROOM_FIRST,
                    sizeof(some->ended[0]));
}

static void ended_add(struct producers *some, int64_t first_offset, int64_t last_offset)
{
    while (some->ended_count > 0 && ended_at(some, some->ended_count - 1)->first_offset >= first_offset)
        some->ended_count--;
    assert(some->ended_first + some->ended_count < some->ended_room);
    *ended_at(some, some->ended_count++) = (struct producer_ended){first_offset, last_offset};
}

void producer_state_replicated(struct producer_state *state, int64_t high_watermark)
{
    struct producers *some = state->some;

    if (some == NULL)
        return;
    while (some->ended_count > 0 && ended_at(some, 0)->last_offset < high_watermark) {
        some->ended_first++;
        some->ended_count--;
    }
    if (some->ended_count == 0)
        ended_clear(some);
}

int64_t producer_state_first_unstable(const struct producer_state *state)
{
    const struct producers *some = state->some;
    int64_t first_open = producer_state_first_open(state);

    if (some == NULL)
        return INT64_MAX;
    return some->ended_count > 0 && ended_at(some, 0)->first_offset < first_open ? ended_at(some, 0)->first_offset
                                                                                 : first_open;
}

/* --- producers --- */

void producer_state_clear(struct producer_state *state)
{
    struct producers *some = state->some;

    if (some == NULL)
        return;
    list_each (&some->by_age, node)
        forget(state, LIST_ENTRY(node, struct producer, by_age));
    ended_clear(some);
    map_u64_deinit(&some->by_id);
    mem_free(some);
    state->some = NULL;
}

void producer_state_deinit(struct producer_state *state)
{
    producer_state_clear(state);
}

uint32_t producer_state_count(const struct producer_state *state)
{
    return state->some == NULL ? 0 : map_u64_count(&state->some->by_id);
}

static struct producer *find(const struct producer_state *state, int64_t id)
{
    return state->some == NULL ? NULL : map_u64_get(&state->some->by_id, (uint64_t)id);
}

const struct producer *producer_state_next(const struct producer_state *state, const struct producer *before)
{
    const struct list_node *node = NULL;

    if (state->some == NULL)
        return NULL;
    node = before == NULL ? list_first(&state->some->by_age) : list_next(&state->some->by_age, &before->by_age);
    return node == NULL ? NULL : LIST_ENTRY((struct list_node *)(uintptr_t)node, struct producer, by_age);
}

const struct producer *producer_state_get(const struct producer_state *state, int64_t id)
{
    return find(state, id);
}

/* Over the bound: the longest silent one without an open transaction makes room. */
static enum err room_make(struct producer_state *state)
{
    if (map_u64_count(&state->some->by_id) < PRODUCERS_MAX)
        return ERR_OK;
    list_each (&state->some->by_age, node) {
        struct producer *producer = LIST_ENTRY(node, struct producer, by_age);

        if (producer->txn_first_offset < 0) {
            forget(state, producer);
            return ERR_OK;
        }
    }
    return ERR_LIMIT;
}

static enum err find_or_make(struct producer_state *state, int64_t id, struct producer **found)
{
    struct producer *producer = find(state, id);
    enum err err = ERR_OK;

    *found = producer;
    if (producer != NULL)
        return ERR_OK;
    err = some_make(state);
    if (err == ERR_OK)
        err = room_make(state);
    if (err != ERR_OK)
        return err;
    producer = mem_calloc(1, sizeof(*producer));
    if (producer == NULL)
        return ERR_NOMEM;
    producer->id = id;
    producer->epoch = -1;
    producer->coordinator_epoch = -1;
    producer->txn_first_offset = -1;
    producer->last_timestamp = -1;
    list_node_init(&producer->by_age);
    list_node_init(&producer->by_open);
    err = map_u64_insert(&state->some->by_id, (uint64_t)id, producer);
    if (err != ERR_OK) {
        mem_free(producer);
        return err;
    }
    list_add_last(&state->some->by_age, &producer->by_age);
    *found = producer;
    return ERR_OK;
}

static const struct producer_batch *find_duplicate(const struct producer *producer, const struct batch_header *head)
{
    int32_t last_sequence = batch_last_sequence(head);

    if (producer->epoch != head->producer_epoch)
        return NULL;
    for (uint8_t i = 0; i < producer->batch_count; i++) {
        const struct producer_batch *batch = &producer->batches[i];

        if (batch->last_sequence == last_sequence &&
            sequence_back(batch->last_sequence, batch->offset_delta) == head->base_sequence)
            return batch;
    }
    return NULL;
}

/* Rules 2 to 4 of replication.md 8, for a producer of which something is known. */
static enum err check_sequence(const struct producer *producer, const struct batch_header *head)
{
    int32_t last =
        producer->batch_count == 0 ? NO_SEQUENCE : producer->batches[producer->batch_count - 1].last_sequence;

    if (head->producer_epoch < producer->epoch)
        return ERR_INVALID_PRODUCER_EPOCH;
    if (head->producer_epoch > producer->epoch)
        return head->base_sequence == 0 ? ERR_OK : ERR_OUT_OF_ORDER_SEQUENCE_NUMBER;
    if (last == NO_SEQUENCE)
        return head->base_sequence == 0 ? ERR_OK : ERR_OUT_OF_ORDER_SEQUENCE_NUMBER;
    return head->base_sequence == sequence_next(last) ? ERR_OK : ERR_OUT_OF_ORDER_SEQUENCE_NUMBER;
}

enum err producer_state_check(struct producer_state *state, const struct batch_header *head,
                              const struct producer_batch **duplicate)
{
    struct producer *producer = NULL;

    *duplicate = NULL;
    if (head->producer_id < 0)
        return ERR_OK;
    assert(head->base_sequence >= 0 && head->last_offset_delta >= 0);
    producer = find(state, head->producer_id);
    if (producer != NULL && producer->epoch >= 0) {
        enum err err = ERR_OK;

        *duplicate = find_duplicate(producer, head);
        if (*duplicate != NULL)
            return ERR_OK;
        err = check_sequence(producer, head);
        if (err != ERR_OK)
            return err;
        if (producer->txn_first_offset >= 0 && !batch_has(head, BATCH_TRANSACTIONAL))
            return ERR_INVALID_TXN_STATE;
    }
    return find_or_make(state, head->producer_id, &producer);
}

/* KIP-98; from transaction version 2 on each transaction has an epoch of its own, which its marker brings (KIP-890). A
 * repeat finds nothing open; the greatest epoch cannot be raised. */
static bool marker_epoch_is_old(const struct producer *producer, int16_t epoch, int16_t transaction_version)
{
    if (transaction_version < 2 || epoch != producer->epoch)
        return epoch < producer->epoch;
    return producer->txn_first_offset >= 0 && epoch != INT16_MAX;
}

static enum err check_marker(const struct producer *producer, const struct batch_header *head, struct bytes batch,
                             int16_t transaction_version)
{
    struct txn_marker marker;
    enum err err = txn_marker_read(batch, &marker);

    if (err != ERR_OK)
        return err == ERR_NOMEM ? err : ERR_INVALID_RECORD;
    if (producer == NULL)
        return ERR_OK;
    if (marker_epoch_is_old(producer, head->producer_epoch, transaction_version))
        return ERR_INVALID_PRODUCER_EPOCH;
    return marker.coordinator_epoch < producer->coordinator_epoch ? ERR_TRANSACTION_COORDINATOR_FENCED : ERR_OK;
}

enum err producer_state_check_coordinator(struct producer_state *state, const struct batch_header *head,
                                          struct bytes batch, int16_t transaction_version)
{
    const struct producer *producer = NULL;

    if (head->producer_id < 0)
        return ERR_OK;
    producer = find(state, head->producer_id);
    if (batch_has(head, BATCH_CONTROL)) {
        enum err err = check_marker(producer, head, batch, transaction_version);

        if (err != ERR_OK)
            return err;
    } else if (producer != NULL) {
        if (head->producer_epoch < producer->epoch)
            return ERR_INVALID_PRODUCER_EPOCH;
        if (producer->txn_first_offset >= 0 && !batch_has(head, BATCH_TRANSACTIONAL))
            return ERR_INVALID_TXN_STATE;
    }
    return producer_state_reserve(state, head);
}

enum err producer_state_reserve(struct producer_state *state, const struct batch_header *head)
{
    struct producer *producer = NULL;

    return head->producer_id < 0 ? ERR_OK : find_or_make(state, head->producer_id, &producer);
}

void producer_state_unreserve(struct producer_state *state, int64_t id)
{
    struct producer *producer = id < 0 ? NULL : find(state, id);

    if (producer != NULL && producer->epoch < 0)
        forget(state, producer);
}

static void take_epoch(struct producer *producer, int16_t epoch)
{
    if (producer->epoch == epoch)
        return;
    producer->epoch = epoch;
    producer->batch_count = 0;
}

static void note_data(struct producer_state *state, struct producer *producer, const struct batch_header *head)
{
    take_epoch(producer, head->producer_epoch);
    if (head->base_sequence >= 0) {
        if (producer->batch_count == PRODUCER_BATCHES_MAX) {
            producer->batch_count--;
            memmove(producer->batches, producer->batches + 1, producer->batch_count * sizeof(producer->batches[0]));
        }
        producer->batches[producer->batch_count++] = (struct producer_batch){
            .last_offset = batch_last_offset(head),
            .timestamp = head->max_timestamp,
            .last_sequence = batch_last_sequence(head),
            .offset_delta = head->last_offset_delta,
        };
    }
    if (batch_has(head, BATCH_TRANSACTIONAL) && producer->txn_first_offset < 0) {
        producer->txn_first_offset = head->base_offset;
        list_add_last(&state->some->by_open, &producer->by_open);
    }
}

/* True: it ended a transaction. */
static bool note_marker(struct producer_state *state, struct producer *producer, const struct batch_header *head,
                        struct bytes batch, struct producer_txn *ended)
{
    struct txn_marker marker;
    int64_t first_offset = producer->txn_first_offset;

    if (txn_marker_read(batch, &marker) != ERR_OK)
        return false;
    /* Only a higher epoch clears the batches: under TV0 and TV1 sequences run on across transactions. */
    if (head->producer_epoch > producer->epoch)
        take_epoch(producer, head->producer_epoch);
    producer->coordinator_epoch = marker.coordinator_epoch;
    if (first_offset < 0)
        return false;
    producer->txn_first_offset = -1;
    list_remove(&producer->by_open);
    ended_add(state->some, first_offset, head->base_offset);
    if (ended != NULL) {
        int64_t first_open = producer_state_first_open(state);

        *ended = (struct producer_txn){
            .producer_id = producer->id,
            .first_offset = first_offset,
            .last_offset = head->base_offset,
            .stable_offset = first_open < head->base_offset ? first_open : head->base_offset + 1,
            .aborted = !marker.commit,
        };
    }
    return true;
}

bool producer_state_apply(struct producer_state *state, const struct batch_header *head, struct bytes batch,
                          struct producer_txn *ended)
{
    struct producer *producer = head->producer_id < 0 ? NULL : find(state, head->producer_id);
    bool has_ended = false;

    if (producer == NULL)
        return false;
    if (batch_has(head, BATCH_CONTROL))
        has_ended = note_marker(state, producer, head, batch, ended);
    else
        note_data(state, producer, head);
    producer->last_timestamp = head->max_timestamp;
    list_remove(&producer->by_age);
    list_add_last(&state->some->by_age, &producer->by_age);
    return has_ended;
}

int64_t producer_state_first_open(const struct producer_state *state)
{
    const struct list_node *first = state->some == NULL ? NULL : list_first(&state->some->by_open);

    return first == NULL ? INT64_MAX
                         : LIST_ENTRY((struct list_node *)(uintptr_t)first, struct producer, by_open)->txn_first_offset;
}

void producer_state_expire(struct producer_state *state, int64_t before_ms)
{
    if (state->some == NULL)
        return;
    list_each (&state->some->by_age, node) {
        struct producer *producer = LIST_ENTRY(node, struct producer, by_age);

        if (producer->txn_first_offset < 0 && producer->last_timestamp <= before_ms)
            forget(state, producer);
    }
    if (producer_state_count(state) == 0 && state->some->ended_count == 0)
        producer_state_clear(state);
}

/* --- snapshots --- */

static void entry_format(const struct producer *producer, uint8_t *at)
{
    const struct producer_batch none = {.last_offset = -1, .timestamp = producer->last_timestamp, .last_sequence = -1};
    const struct producer_batch *last =
        producer->batch_count == 0 ? &none : &producer->batches[producer->batch_count - 1];

    big_endian_store_u64(at, (uint64_t)producer->id);
    big_endian_store_u16(at + 8, (uint16_t)producer->epoch);
    big_endian_store_u32(at + 10, (uint32_t)last->last_sequence);
    big_endian_store_u64(at + 14, (uint64_t)last->last_offset);
    big_endian_store_u32(at + 22, (uint32_t)last->offset_delta);
    big_endian_store_u64(at + 26, (uint64_t)producer->last_timestamp);
    big_endian_store_u32(at + 34, (uint32_t)producer->coordinator_epoch);
    big_endian_store_u64(at + 38, (uint64_t)producer->txn_first_offset);
}

enum err producer_state_format(const struct producer_state *state, uint8_t **data, size_t *size)
{
    uint32_t count = 0;
    uint8_t *at = NULL;

    *size = PRODUCER_SNAPSHOT_HEAD_BYTES + (size_t)producer_state_count(state) * PRODUCER_SNAPSHOT_ENTRY_BYTES;
    *data = mem_alloc(*size);
    if (*data == NULL)
        return ERR_NOMEM;
    at = *data + PRODUCER_SNAPSHOT_HEAD_BYTES;
    for (const struct producer *producer = producer_state_next(state, NULL); producer != NULL;
         producer = producer_state_next(state, producer)) {
        if (producer->epoch < 0)
            continue;
        entry_format(producer, at);
        at += PRODUCER_SNAPSHOT_ENTRY_BYTES;
        count++;
    }
    *size = (size_t)(at - *data);
    big_endian_store_u16(*data, SNAPSHOT_VERSION);
    big_endian_store_u32(*data + 6, count);
    big_endian_store_u32(*data + 2, crc32c(0, *data + 6, *size - 6));
    return ERR_OK;
}

static enum err entry_parse(struct producer_state *state, const uint8_t *at)
{
    struct producer *producer = NULL;
    int32_t last_sequence = (int32_t)big_endian_load_u32(at + 10);
    int64_t last_offset = (int64_t)big_endian_load_u64(at + 14);
    int32_t offset_delta = (int32_t)big_endian_load_u32(at + 22);
    enum err err = ERR_OK;

    if ((int64_t)big_endian_load_u64(at) < 0 || (int16_t)big_endian_load_u16(at + 8) < 0 ||
        find(state, (int64_t)big_endian_load_u64(at)) != NULL)
        return ERR_DAMAGED;
    err = find_or_make(state, (int64_t)big_endian_load_u64(at), &producer);
    if (err != ERR_OK)
        return err;
    producer->epoch = (int16_t)big_endian_load_u16(at + 8);
    producer->last_timestamp = (int64_t)big_endian_load_u64(at + 26);
    producer->coordinator_epoch = (int32_t)big_endian_load_u32(at + 34);
    producer->txn_first_offset = (int64_t)big_endian_load_u64(at + 38);
    if (last_offset >= 0 && last_sequence >= 0 && offset_delta >= 0)
        producer->batches[producer->batch_count++] = (struct producer_batch){
            .last_offset = last_offset,
            .timestamp = producer->last_timestamp,
            .last_sequence = last_sequence,
            .offset_delta = offset_delta,
        };
    if (producer->txn_first_offset >= 0) {
        struct list_node *before = list_first(&state->some->by_open); /* entries come in no order of offsets */

        while (before != NULL &&
               LIST_ENTRY(before, struct producer, by_open)->txn_first_offset < producer->txn_first_offset)
            before = list_next(&state->some->by_open, before);
        list_insert_before(before == NULL ? &state->some->by_open.head : before, &producer->by_open);
    }
    return ERR_OK;
}

enum err producer_state_parse(struct producer_state *state, struct bytes file)
{
    uint32_t count = 0;
    enum err err = ERR_OK;

    assert(producer_state_count(state) == 0);
    if (file.size < PRODUCER_SNAPSHOT_HEAD_BYTES || (int16_t)big_endian_load_u16(file.data) != SNAPSHOT_VERSION ||
        big_endian_load_u32(file.data + 2) != crc32c(0, file.data + 6, file.size - 6))
        return ERR_DAMAGED;
    count = big_endian_load_u32(file.data + 6);
    if (count != (file.size - PRODUCER_SNAPSHOT_HEAD_BYTES) / PRODUCER_SNAPSHOT_ENTRY_BYTES ||
        (file.size - PRODUCER_SNAPSHOT_HEAD_BYTES) % PRODUCER_SNAPSHOT_ENTRY_BYTES != 0)
        return ERR_DAMAGED;
    for (uint32_t i = 0; i < count && err == ERR_OK; i++)
        err = entry_parse(state, file.data + PRODUCER_SNAPSHOT_HEAD_BYTES + (size_t)i * PRODUCER_SNAPSHOT_ENTRY_BYTES);
    if (err != ERR_OK)
        producer_state_clear(state);
    return err;
}
