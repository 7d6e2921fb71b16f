#include "partition/cleaner.h"

#include <stdlib.h>

#include "base/assert.h"
#include "base/map.h"
#include "base/mem.h"
#include "partition/key_map.h"
#include "partition/txn_marker.h"
#include "protocol/batch_build.h"
#include "protocol/record.h"

/* An aborted transaction. */
struct range {
    struct cleaner_aborted txn;
    bool met; /* a batch of it, in the filter's walk */
};

struct found_key {
    struct key_hash key;
    int64_t offset;
};

struct cleaner {
    int64_t first_dirty_offset;
    int64_t limit_offset;
    int64_t end_offset; /* behind what is mapped */
    int64_t now_ms;
    int64_t delete_retention_ms;
    struct key_map keys;
    struct found_key *found; /* of the batch that is being mapped */
    uint32_t found_count;
    uint32_t found_room;
    struct cleaner_producer *producers; /* by id */
    uint32_t producer_count;
    struct range *ranges; /* by producer, then by first offset */
    uint32_t range_count;
    struct map_u64 committing; /* producers of whose committed, not yet ended transaction a batch was met */
    bool markers_stay;         /* a batch that was not opened, or not shown, may belong to any transaction */
    bool unopened;             /* the last batch */
    struct cleaner_aborted *aborted;
    uint32_t aborted_count;
    uint32_t aborted_room;
    uint32_t aborted_taken;
    struct batch_builder builder;
    uint8_t empty[BATCH_HEADER_BYTES];
    uint8_t *keep; /* of the records of the present batch */
    uint32_t keep_room;
    struct cleaner_stats stats;
};

/* What is found out about a batch. */
struct verdict {
    struct batch_header head;
    bool guarded;    /* its header stays, whatever becomes of its records */
    bool discard;    /* all its records go */
    bool marker_due; /* a marker whose transaction has no batch left */
    uint32_t records;
    uint32_t kept;
    bool tombstones; /* among the kept */
};

static int producer_compare(const void *a, const void *b)
{
    int64_t left = ((const struct cleaner_producer *)a)->id;
    int64_t right = ((const struct cleaner_producer *)b)->id;

    return (left > right) - (left < right);
}

static int range_compare(const void *a, const void *b)
{
    const struct cleaner_aborted *left = &((const struct range *)a)->txn;
    const struct cleaner_aborted *right = &((const struct range *)b)->txn;

    if (left->producer_id != right->producer_id)
        return left->producer_id > right->producer_id ? 1 : -1;
    return (left->first_offset > right->first_offset) - (left->first_offset < right->first_offset);
}

static enum err arrays_copy(struct cleaner *cleaner, const struct cleaner_spec *spec)
{
    if (spec->producer_count > 0) {
        cleaner->producers = mem_calloc(spec->producer_count, sizeof(cleaner->producers[0]));
        if (cleaner->producers == NULL)
            return ERR_NOMEM;
        memcpy(cleaner->producers, spec->producers, spec->producer_count * sizeof(cleaner->producers[0]));
        cleaner->producer_count = spec->producer_count;
        qsort(cleaner->producers, cleaner->producer_count, sizeof(cleaner->producers[0]), producer_compare);
    }
    if (spec->aborted_count > 0) {
        cleaner->ranges = mem_calloc(spec->aborted_count, sizeof(cleaner->ranges[0]));
        if (cleaner->ranges == NULL)
            return ERR_NOMEM;
        for (uint32_t i = 0; i < spec->aborted_count; i++)
            cleaner->ranges[i].txn = spec->aborted[i];
        cleaner->range_count = spec->aborted_count;
        qsort(cleaner->ranges, cleaner->range_count, sizeof(cleaner->ranges[0]), range_compare);
    }
    return ERR_OK;
}

enum err cleaner_new(const struct cleaner_spec *spec, struct cleaner **cleaner)
{
    struct cleaner *made = mem_calloc(1, sizeof(*made));
    struct batch_spec batch;
    enum err err = ERR_OK;

    if (made == NULL)
        return ERR_NOMEM;
    made->first_dirty_offset = spec->first_dirty_offset;
    made->limit_offset = spec->limit_offset;
    made->end_offset = spec->first_dirty_offset;
    made->now_ms = spec->now_ms;
    made->delete_retention_ms = spec->delete_retention_ms;
    made->stats.first_unopened_offset = -1;
    map_u64_init(&made->committing, spec->hash_seed, MAP_COUNT_MAX);
    batch_spec_init(&batch);
    batch_builder_init(&made->builder, &batch);
    err = arrays_copy(made, spec);
    if (err == ERR_OK)
        err = key_map_init(&made->keys, spec->map_bytes_max, spec->map_load, spec->keys_expected, spec->hash_seed);
    if (err != ERR_OK) {
        cleaner_free(made);
        return err;
    }
    *cleaner = made;
    return ERR_OK;
}

void cleaner_free(struct cleaner *cleaner)
{
    if (cleaner == NULL)
        return;
    key_map_deinit(&cleaner->keys);
    map_u64_deinit(&cleaner->committing);
    batch_builder_deinit(&cleaner->builder);
    mem_free(cleaner->producers);
    mem_free(cleaner->ranges);
    mem_free(cleaner->aborted);
    mem_free(cleaner->keep);
    mem_free(cleaner->found);
    mem_free(cleaner);
}

/* False: it is not to be believed, or of a codec that we do not know. */
static bool head_read(struct bytes batch, struct batch_header *head)
{
    return batch_peek(batch, head, NULL) == ERR_OK && head->size == batch.size && batch_crc_is_valid(batch);
}

/* The aborted transaction that a producer's batch at offset belongs to. */
static struct range *range_of(struct cleaner *cleaner, int64_t producer_id, int64_t offset)
{
    uint32_t low = 0;
    uint32_t high = cleaner->range_count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        const struct cleaner_aborted *txn = &cleaner->ranges[middle].txn;

        if (txn->producer_id < producer_id || (txn->producer_id == producer_id && txn->first_offset <= offset))
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0 || cleaner->ranges[low - 1].txn.producer_id != producer_id ||
        cleaner->ranges[low - 1].txn.last_offset < offset)
        return NULL;
    return &cleaner->ranges[low - 1];
}

/* --- the map --- */

static bool is_in_order(const struct batch_header *head, const struct record *record, int64_t before)
{
    return record->offset > before && record->offset <= batch_last_offset(head);
}

/* The batch's keys that count, on their way into the map: only a batch that opens to its end supersedes anything. Gives
 * ERR_END. */
static enum err keys_collect(struct cleaner *cleaner, struct bytes batch, const struct batch_header *head)
{
    struct record_iter iter;
    struct record record;
    int64_t before = head->base_offset - 1;
    enum err err = record_iter_init(&iter, batch, BATCH_OPENED_BYTES_MAX);

    cleaner->found_count = 0;
    if (err != ERR_OK)
        return err;
    while ((err = record_iter_next(&iter, &record)) == ERR_OK) {
        struct found_key *found = NULL;

        if (!is_in_order(head, &record, before)) {
            err = ERR_INVALID_RECORD;
            break;
        }
        before = record.offset;
        if (record.key.data == NULL || record.offset < cleaner->first_dirty_offset)
            continue;
        err = mem_grow(&cleaner->found, &cleaner->found_room, cleaner->found_count + 1, 64, sizeof(cleaner->found[0]));
        if (err != ERR_OK)
            break;
        found = &cleaner->found[cleaner->found_count++];
        *found = (struct found_key){key_map_hash(&cleaner->keys, record.key), record.offset};
        key_map_prefetch(&cleaner->keys, found->key);
    }
    record_iter_deinit(&iter);
    return err;
}

enum err cleaner_map_batch(struct cleaner *cleaner, struct bytes batch)
{
    struct batch_header head;
    enum err err = ERR_OK;

    if (!head_read(batch, &head) || batch_last_offset(&head) >= cleaner->limit_offset)
        return ERR_OK; /* its keys, if it has any, supersede nothing */
    if (batch_last_offset(&head) < cleaner->first_dirty_offset)
        return ERR_OK;
    if (!batch_has(&head, BATCH_CONTROL) && !(batch_has(&head, BATCH_TRANSACTIONAL) &&
                                              range_of(cleaner, head.producer_id, batch_last_offset(&head)) != NULL)) {
        err = keys_collect(cleaner, batch, &head);
        if (err == ERR_NOMEM)
            return err;
        for (uint32_t i = 0; err == ERR_END && i < cleaner->found_count; i++) {
            if (key_map_put(&cleaner->keys, cleaner->found[i].key, cleaner->found[i].offset) != ERR_OK)
                return ERR_LIMIT;
            cleaner_map_reached(cleaner, cleaner->found[i].offset + 1);
        }
    }
    cleaner_map_reached(cleaner, batch_last_offset(&head) + 1);
    return ERR_OK;
}

void cleaner_map_reached(struct cleaner *cleaner, int64_t offset)
{
    if (offset > cleaner->limit_offset)
        offset = cleaner->limit_offset;
    if (offset > cleaner->end_offset)
        cleaner->end_offset = offset;
}

int64_t cleaner_end_offset(const struct cleaner *cleaner)
{
    return cleaner->end_offset;
}

/* --- the filter --- */

static bool is_last_of_producer(const struct cleaner *cleaner, const struct batch_header *head)
{
    struct cleaner_producer key = {.id = head->producer_id};
    const struct cleaner_producer *producer = NULL;

    if (!batch_has_producer(head) || cleaner->producer_count == 0)
        return false;
    producer =
        bsearch(&key, cleaner->producers, cleaner->producer_count, sizeof(cleaner->producers[0]), producer_compare);
    if (producer == NULL)
        return false;
    if (producer->last_offset >= 0)
        return batch_last_offset(head) == producer->last_offset;
    return batch_has(head, BATCH_CONTROL) && head->producer_epoch == producer->epoch;
}

static enum err aborted_add(struct cleaner *cleaner, const struct cleaner_aborted *txn)
{
    enum err err =
        mem_grow(&cleaner->aborted, &cleaner->aborted_room, cleaner->aborted_count + 1, 8, sizeof(cleaner->aborted[0]));

    if (err == ERR_OK)
        cleaner->aborted[cleaner->aborted_count++] = *txn;
    return err;
}

/* Whether no batch of the marker's transaction is left. */
static enum err marker_judge(struct cleaner *cleaner, struct bytes batch, struct verdict *verdict)
{
    const struct batch_header *head = &verdict->head;
    struct txn_marker marker;
    enum err err = ERR_OK;

    if (head->record_count == 0) { /* emptied by an earlier cleaning */
        verdict->marker_due = true;
        return ERR_OK;
    }
    err = txn_marker_read(batch, &marker);
    if (err != ERR_OK)
        return err == ERR_NOMEM ? err : ERR_OK; /* another kind of control record stays */
    if (marker.commit) {
        verdict->marker_due =
            map_u64_remove(&cleaner->committing, (uint64_t)head->producer_id) == NULL && !cleaner->markers_stay;
    } else {
        const struct range *range = range_of(cleaner, head->producer_id, batch_last_offset(head));

        if (range == NULL || !(range->met || cleaner->markers_stay))
            verdict->marker_due = !cleaner->markers_stay;
        else if (range->txn.last_offset == batch_last_offset(head))
            err = aborted_add(cleaner, &range->txn);
    }
    return err;
}

/* Notes a batch of a transaction. */
static enum err batch_judge(struct cleaner *cleaner, struct verdict *verdict)
{
    const struct batch_header *head = &verdict->head;
    struct range *range = NULL;
    void *before = NULL;

    if (!batch_has(head, BATCH_TRANSACTIONAL))
        return ERR_OK;
    range = range_of(cleaner, head->producer_id, batch_last_offset(head));
    if (range != NULL) {
        range->met = true;
        verdict->discard = true;
        return ERR_OK;
    }
    return map_u64_put(&cleaner->committing, (uint64_t)head->producer_id, cleaner, &before);
}

static bool horizon_has_passed(const struct cleaner *cleaner, const struct batch_header *head)
{
    return batch_has(head, BATCH_DELETE_HORIZON) && head->base_timestamp <= cleaner->now_ms;
}

static bool record_stays(const struct cleaner *cleaner, const struct batch_header *head, const struct record *record)
{
    if (record->offset >= cleaner->end_offset)
        return true;
    if (record->key.data == NULL ||
        record->offset < key_map_get(&cleaner->keys, key_map_hash(&cleaner->keys, record->key)))
        return false;
    return record->value.data != NULL || !horizon_has_passed(cleaner, head);
}

/* Which records stay: cleaner->keep. Anything but ERR_OK and ERR_NOMEM: it cannot be opened. */
static enum err records_judge(struct cleaner *cleaner, struct bytes batch, struct verdict *verdict)
{
    struct record_iter iter;
    struct record record;
    int64_t before = verdict->head.base_offset - 1;
    enum err err = record_iter_init(&iter, batch, BATCH_OPENED_BYTES_MAX);

    if (err != ERR_OK)
        return err;
    while ((err = record_iter_next(&iter, &record)) == ERR_OK) {
        bool stays = false;

        if (!is_in_order(&verdict->head, &record, before)) {
            err = ERR_INVALID_RECORD;
            break;
        }
        before = record.offset;
        err = mem_grow(&cleaner->keep, &cleaner->keep_room, verdict->records + 1, 64, 1);
        if (err != ERR_OK)
            break;
        stays = batch_has(&verdict->head, BATCH_CONTROL) || record_stays(cleaner, &verdict->head, &record);
        cleaner->keep[verdict->records++] = stays;
        verdict->kept += stays;
        verdict->tombstones |= stays && record.value.data == NULL;
    }
    record_iter_deinit(&iter);
    return err == ERR_END ? ERR_OK : err;
}

static int64_t horizon_of(const struct cleaner *cleaner, const struct verdict *verdict, bool is_new)
{
    if (!is_new)
        return batch_has(&verdict->head, BATCH_DELETE_HORIZON) ? verdict->head.base_timestamp : -1;
    if (cleaner->delete_retention_ms > INT64_MAX - cleaner->now_ms)
        return INT64_MAX;
    return cleaner->now_ms + cleaner->delete_retention_ms;
}

/* The batch anew, with the records that stay. */
static enum err rebuild(struct cleaner *cleaner, struct bytes batch, const struct verdict *verdict, int64_t horizon_ms,
                        struct bytes *kept)
{
    const struct batch_header *head = &verdict->head;
    struct batch_spec spec;
    struct record_iter iter;
    struct record record;
    uint8_t *made = NULL;
    size_t size = 0;
    enum err err = ERR_OK;

    batch_spec_init(&spec);
    spec.base_offset = head->base_offset;
    spec.leader_epoch = head->leader_epoch;
    spec.codec = batch_codec(head);
    spec.transactional = batch_has(head, BATCH_TRANSACTIONAL);
    spec.control = batch_has(head, BATCH_CONTROL);
    spec.log_append_time = batch_has(head, BATCH_LOG_APPEND_TIME);
    spec.delete_horizon_ms = horizon_ms;
    spec.last_offset_delta_min = head->last_offset_delta;
    spec.producer_id = head->producer_id;
    spec.producer_epoch = head->producer_epoch;
    spec.base_sequence = head->base_sequence;
    batch_builder_reset(&cleaner->builder, &spec);
    err = record_iter_init(&iter, batch, BATCH_OPENED_BYTES_MAX);
    for (uint32_t i = 0; err == ERR_OK && i < verdict->records; i++) {
        err = record_iter_next(&iter, &record);
        if (err == ERR_OK && cleaner->keep[i])
            err = batch_builder_copy(&cleaner->builder, &record);
    }
    record_iter_deinit(&iter);
    if (err == ERR_OK)
        err = batch_builder_finish(&cleaner->builder, &made, &size);
    if (err == ERR_OK)
        *kept = bytes_of(made, size);
    return err;
}

static struct bytes emptied(struct cleaner *cleaner, struct bytes batch, const struct verdict *verdict)
{
    struct bytes empty = bytes_of(cleaner->empty, sizeof(cleaner->empty));

    batch_write_empty(&verdict->head, cleaner->empty);
    return bytes_equal(empty, batch) ? batch : empty;
}

static enum err filter(struct cleaner *cleaner, struct bytes batch, struct verdict *verdict, struct bytes *kept)
{
    bool needs_horizon = false;
    enum err err = ERR_OK;

    *kept = (struct bytes){0};
    if (!verdict->discard)
        err = records_judge(cleaner, batch, verdict);
    if (err != ERR_OK)
        return err;
    if (verdict->kept == 0) {
        if (verdict->guarded)
            *kept = emptied(cleaner, batch, verdict);
        return ERR_OK;
    }
    needs_horizon = (verdict->tombstones || verdict->marker_due) && !batch_has(&verdict->head, BATCH_DELETE_HORIZON);
    if (verdict->kept < verdict->records || needs_horizon)
        return rebuild(cleaner, batch, verdict, horizon_of(cleaner, verdict, needs_horizon), kept);
    *kept = batch;
    return ERR_OK;
}

static void keep_unopened(struct cleaner *cleaner, struct bytes batch, struct bytes *kept)
{
    struct batch_header head;

    batch_header_read(batch.data, &head);
    if (cleaner->stats.batches_unopened++ == 0)
        cleaner->stats.first_unopened_offset = head.base_offset;
    cleaner->markers_stay = true;
    cleaner->unopened = true;
    *kept = batch;
}

enum err cleaner_filter_batch(struct cleaner *cleaner, struct bytes batch, struct bytes *kept)
{
    struct verdict verdict = {0};
    enum err err = ERR_OK;

    assert(batch.size >= BATCH_HEADER_BYTES);
    cleaner->unopened = false;
    if (!head_read(batch, &verdict.head)) {
        keep_unopened(cleaner, batch, kept);
        return ERR_OK;
    }
    verdict.guarded =
        is_last_of_producer(cleaner, &verdict.head) || batch_last_offset(&verdict.head) + 1 == cleaner->limit_offset;
    if (batch_has(&verdict.head, BATCH_CONTROL)) {
        err = marker_judge(cleaner, batch, &verdict);
        verdict.discard = verdict.marker_due && horizon_has_passed(cleaner, &verdict.head);
    } else {
        err = batch_judge(cleaner, &verdict);
    }
    if (err == ERR_OK)
        err = filter(cleaner, batch, &verdict, kept);
    if (err == ERR_NOMEM)
        return err;
    if (err != ERR_OK) {
        keep_unopened(cleaner, batch, kept);
        return ERR_OK;
    }
    cleaner->stats.records_read += (uint64_t)verdict.head.record_count;
    cleaner->stats.records_kept += verdict.kept;
    return ERR_OK;
}

bool cleaner_was_unopened(const struct cleaner *cleaner)
{
    return cleaner->unopened;
}

void cleaner_skip(struct cleaner *cleaner)
{
    cleaner->markers_stay = true;
}

const struct cleaner_aborted *cleaner_take_aborted(struct cleaner *cleaner, uint32_t *count)
{
    uint32_t taken = cleaner->aborted_taken;

    *count = cleaner->aborted_count - taken;
    cleaner->aborted_taken = cleaner->aborted_count;
    return *count == 0 ? NULL : &cleaner->aborted[taken];
}

void cleaner_get_stats(const struct cleaner *cleaner, struct cleaner_stats *stats)
{
    *stats = cleaner->stats;
    stats->keys = cleaner->keys.count;
}
