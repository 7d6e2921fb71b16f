/*
 * clean_plan: how much of a log may be cleaned, whether it is worth it, and which segments become one (replication.md
 * 11, KIP-354). Pure: what it knows of the log is a list of its segments.
 *
 * Threads  any: no state.
 */
#ifndef OTTLA_PARTITION_CLEAN_PLAN_H
#define OTTLA_PARTITION_CLEAN_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "partition/log_config.h"

/* A segment that is not appended to any more. */
struct clean_source {
    int64_t base_offset;
    int64_t end_offset; /* base of the next one */
    uint64_t size;
    uint64_t index_bytes;
    uint64_t time_index_bytes;
    int64_t max_timestamp;   /* -1: none */
    int64_t first_timestamp; /* of its first batch; -1: none, or not known: max_timestamp stands for it */
    int64_t mtime_ms;
    bool settled;    /* synced as it will stay, and not about to go */
    bool left_alone; /* it holds what cannot be rewritten */
};

/* What may be cleaned. */
struct clean_range {
    uint32_t count;             /* of the sources, from the first on */
    int64_t first_dirty_offset; /* behind what was cleaned before */
    int64_t limit_offset;       /* behind the last of them */
    uint64_t dirty_bytes;
    uint64_t total_bytes;
    bool overdue; /* something dirty is older than max.compaction.lag.ms */
};

/*
 * sources          all but the active segment, ascending.
 * cleaned_offset   where the last cleaning ended; one that the log cannot have (-1, or outside of it) is the start.
 * stable_offset    nothing at or above it: the lesser of the high watermark and the last stable offset.
 */
void clean_range_find(const struct clean_source *sources, uint32_t count, const struct log_config *config,
                      int64_t start_offset, int64_t end_offset, int64_t cleaned_offset, int64_t stable_offset,
                      int64_t now_ms, struct clean_range *range);
/* Share of what is dirty, 0 to 1. */
double clean_range_ratio(const struct clean_range *range);
bool clean_range_is_due(const struct clean_range *range, const struct log_config *config);

/* Behind the last of the sources from `first` on that fit into one segment with it, by bytes, index entries and
 * offsets; at least first + 1. One that is left alone stays by itself. */
uint32_t clean_group_end(const struct clean_source *sources, uint32_t count, uint32_t first,
                         const struct log_config *config);

#endif
