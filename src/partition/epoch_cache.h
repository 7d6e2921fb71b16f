/*
 * epoch_cache: which leader epoch wrote from which offset on (replication.md 3). Strictly ascending in both.
 *
 * Threads  its owner's.
 */
#ifndef OTTLA_PARTITION_EPOCH_CACHE_H
#define OTTLA_PARTITION_EPOCH_CACHE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct epoch_entry {
    int32_t epoch;
    int64_t start_offset;
};

/* All-zero is empty. */
struct epoch_cache {
    struct epoch_entry *entries;
    uint32_t count;
    uint32_t room;
    bool changed;         /* since its owner last wrote the checkpoint and cleared this */
    int64_t changed_from; /* while changed: the lowest start offset that was added since */
};

void epoch_cache_deinit(struct epoch_cache *cache);

/* NULL when empty. */
const struct epoch_entry *epoch_cache_last(const struct epoch_cache *cache);

/* A batch or a leader of that epoch begins at start_offset. An epoch at or below the last one changes nothing unless
 * it conflicts: entries that begin at or above start_offset, or have a higher epoch, are dropped first. ERR_NOMEM. */
MUST_CHECK enum err epoch_cache_assign(struct epoch_cache *cache, int32_t epoch, int64_t start_offset);

/* Epoch of the batch at offset; -1 when it lies before the first entry. */
int32_t epoch_cache_at(const struct epoch_cache *cache, int64_t offset);

/* OffsetForLeaderEpoch: what epoch ended where; both -1 when undefined. */
void epoch_cache_end(const struct epoch_cache *cache, int32_t epoch, int64_t log_end_offset, int32_t *found_epoch,
                     int64_t *end_offset);

/* Entries that begin at or above end_offset go. */
void epoch_cache_truncate_end(struct epoch_cache *cache, int64_t end_offset);
/* Entries that begin at or below start_offset become one, (last such epoch, start_offset). */
void epoch_cache_truncate_start(struct epoch_cache *cache, int64_t start_offset);

#endif
