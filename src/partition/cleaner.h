/*
 * cleaner: what a compaction keeps of a log, batch by batch, without touching a file (replication.md 11, KIP-534).
 *
 *     cleaner_new(&spec, &cleaner);
 *     cleaner_map_batch(cleaner, batch);            every batch from first_dirty_offset up to limit_offset, in order,
 *     cleaner_map_reached(cleaner, offset);         and where a stretch of the log has been shown whole
 *     cleaner_filter_batch(cleaner, batch, &kept);  every batch from the log's start up to the mapped end, in order
 *     cleaner_free(cleaner);
 *
 * Kept      the last record of each key; a tombstone until its batch's delete horizon, which the first cleaning that
 *           meets it sets; everything behind the mapped end. A control record until no batch of its transaction is left
 *           and the horizon that is set then has passed. The header of the last batch of each producer and of the last
 *           batch of the range, without records where need be.
 * Dropped   records that a later one of their key supersedes, those of aborted transactions, those without a key.
 * Unopened  a batch that cannot be vouched for or opened (checksum, codec, structure) is kept as it is, and from there
 *           on every marker, as the batch may belong to its transaction.
 * As it was offsets, timestamps, and where batches begin and end; codec, producer, sequence, epochs and flags of a
 *           batch that is built anew.
 * Memory    the map of keys, one batch at a time, and the spec's arrays, copied.
 * Threads   one owner at a time; no I/O, no clock.
 */
#ifndef OTTLA_PARTITION_CLEANER_H
#define OTTLA_PARTITION_CLEANER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"

struct cleaner;

/* What the log remembers of a producer that is not forgotten. */
struct cleaner_producer {
    int64_t id;
    int64_t last_offset; /* of its last batch; -1: none is remembered, its last marker counts */
    int16_t epoch;
};

struct cleaner_aborted {
    int64_t producer_id;
    int64_t first_offset;
    int64_t last_offset; /* the marker's */
    int64_t last_stable_offset;
};

struct cleaner_spec {
    int64_t first_dirty_offset; /* keys are mapped from here on */
    int64_t limit_offset;       /* up to here; everything below it is decided, in the ISR and synced */
    int64_t now_ms;             /* wall clock */
    int64_t delete_retention_ms;
    size_t map_bytes_max;
    double map_load;
    uint64_t keys_expected; /* at most */
    uint64_t hash_seed;
    const struct cleaner_producer *producers;
    uint32_t producer_count;
    const struct cleaner_aborted *aborted; /* those that overlap the log up to limit_offset */
    uint32_t aborted_count;
};

struct cleaner_stats {
    uint64_t records_read;
    uint64_t records_kept;
    uint64_t batches_unopened;
    int64_t first_unopened_offset; /* -1: none */
    uint64_t keys;
};

/* ERR_NOMEM. */
MUST_CHECK enum err cleaner_new(const struct cleaner_spec *spec, struct cleaner **cleaner);
void cleaner_free(struct cleaner *cleaner);

/*
 * A whole batch by its length, nothing else of it is trusted.
 *
 * ERR_LIMIT  the map is full: what has been mapped is what will be cleaned
 * ERR_NOMEM
 */
MUST_CHECK enum err cleaner_map_batch(struct cleaner *cleaner, struct bytes batch);
/* Every batch below offset has been shown, or is left out on purpose. */
void cleaner_map_reached(struct cleaner *cleaner, int64_t offset);
/* First offset behind what is mapped; where the next cleaning begins. */
int64_t cleaner_end_offset(const struct cleaner *cleaner);

/*
 * What is kept of the batch: the batch itself (kept.data == batch.data), one in the cleaner's memory until the next
 * call, or nothing (kept.data NULL).
 *
 * ERR_NOMEM: the cleaner is of no use any more.
 */
MUST_CHECK enum err cleaner_filter_batch(struct cleaner *cleaner, struct bytes batch, struct bytes *kept);
/* The last batch given could not be vouched for or opened: its head may lie, too. */
bool cleaner_was_unopened(const struct cleaner *cleaner);
/* Batches are left out that may belong to any transaction: from there on every marker is kept. */
void cleaner_skip(struct cleaner *cleaner);
/* The aborted transactions of which batches were met since the last call, and whose markers were kept, by their last
 * offset: what a new segment's .txnindex holds. Valid until the next call; NULL when there are none. */
const struct cleaner_aborted *cleaner_take_aborted(struct cleaner *cleaner, uint32_t *count);

void cleaner_get_stats(const struct cleaner *cleaner, struct cleaner_stats *stats);

#endif
