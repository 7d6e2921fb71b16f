#include "partition/clean_plan.h"

#include "base/assert.h"
#include "partition/segment.h"

/* The sources from the one that holds the first dirty offset on. */
static uint32_t first_dirty(const struct clean_source *sources, uint32_t count, int64_t first_dirty_offset)
{
    uint32_t slot = 0;

    while (slot < count && sources[slot].end_offset <= first_dirty_offset)
        slot++;
    return slot;
}

/* Somewhere in the future, where that lies too far for the clock. */
static int64_t earlier(int64_t now_ms, int64_t lag_ms)
{
    return lag_ms > now_ms ? 0 : now_ms - lag_ms;
}

void clean_range_find(const struct clean_source *sources, uint32_t count, const struct log_config *config,
                      int64_t start_offset, int64_t end_offset, int64_t cleaned_offset, int64_t stable_offset,
                      int64_t now_ms, struct clean_range *range)
{
    uint32_t dirty = 0;

    *range = (struct clean_range){.first_dirty_offset = cleaned_offset};
    if (cleaned_offset < start_offset || cleaned_offset > end_offset)
        range->first_dirty_offset = start_offset;
    dirty = first_dirty(sources, count, range->first_dirty_offset);
    while (range->count < count) {
        const struct clean_source *source = &sources[range->count];

        if (source->end_offset > stable_offset || !source->settled)
            break;
        if (range->count >= dirty && config->min_compaction_lag_ms > 0 &&
            source->max_timestamp > earlier(now_ms, config->min_compaction_lag_ms))
            break;
        range->limit_offset = source->end_offset;
        range->total_bytes += source->base_offset < range->first_dirty_offset ? source->size : 0;
        range->dirty_bytes += range->count >= dirty ? source->size : 0;
        range->count++;
    }
    range->total_bytes += range->dirty_bytes;
    if (range->limit_offset < range->first_dirty_offset)
        range->first_dirty_offset = range->limit_offset;
    for (uint32_t i = dirty; i < count; i++) {
        int64_t oldest = sources[i].first_timestamp > 0 ? sources[i].first_timestamp : sources[i].max_timestamp;

        range->overdue |= oldest > 0 && oldest < earlier(now_ms, config->max_compaction_lag_ms);
    }
}

double clean_range_ratio(const struct clean_range *range)
{
    return range->total_bytes == 0 ? 0 : (double)range->dirty_bytes / (double)range->total_bytes;
}

bool clean_range_is_due(const struct clean_range *range, const struct log_config *config)
{
    return range->dirty_bytes > 0 && (range->overdue || clean_range_ratio(range) > config->min_cleanable_dirty_ratio);
}

uint32_t clean_group_end(const struct clean_source *sources, uint32_t count, uint32_t first,
                         const struct log_config *config)
{
    uint64_t size_max = config->segment_bytes < SEGMENT_BYTES_MAX ? (uint64_t)config->segment_bytes : SEGMENT_BYTES_MAX;
    uint64_t index_max = (uint64_t)config->segment_index_bytes;
    uint64_t size = 0;
    uint64_t index_bytes = 0;
    uint64_t time_index_bytes = 0;
    uint32_t end = first;

    assert(first < count);
    do {
        size += sources[end].size;
        index_bytes += sources[end].index_bytes;
        time_index_bytes += sources[end].time_index_bytes;
        end++;
    } while (end < count && !sources[first].left_alone && !sources[end].left_alone &&
             size + sources[end].size <= size_max && index_bytes + sources[end].index_bytes <= index_max &&
             time_index_bytes + sources[end].time_index_bytes <= index_max &&
             (sources[end].size == 0 || sources[end].end_offset - 1 - sources[first].base_offset <= INT32_MAX));
    return end;
}
