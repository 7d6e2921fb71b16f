/* The beginning of the log moves: records are deleted from there (replication.md 10). */
#include <inttypes.h>

#include "base/assert.h"
#include "partition/log.h"
#include "partition/log_internal.h"

/* How many segments lie wholly below the start. The last one never does: appends go to it. */
static uint32_t segments_below_start(const struct partition_log *log)
{
    uint32_t count = 0;

    while (count + 1 < log->segment_count && log->segments[count + 1]->base_offset <= log->start_offset &&
           !log->segments[count]->moving)
        count++;
    return count;
}

void log_remove_below_start(struct partition_log *log)
{
    uint32_t count = log->failed || log->closing != NULL ? 0 : segments_below_start(log);

    if (count == 0)
        return;
    log_debug(log->env->log,
              "segments removed topic=%s partition=%" PRId32 " count=%" PRIu32 " log_start_offset=%" PRId64, log->topic,
              log->partition, count, log->start_offset);
    if (log_segments_remove(log, 0, count) != ERR_OK)
        return; /* no memory: the next that asks finds them again */
}

void partition_log_move_start(struct partition_log *log, int64_t offset)
{
    assert(offset <= log->end_offset);
    if (offset <= log->start_offset || log->failed || log->closing != NULL)
        return;
    log->start_offset = offset;
    if (log->synced_offset < offset) /* nothing is kept below it that could be lost */
        log->synced_offset = offset;
    epoch_cache_truncate_start(&log->epochs, offset);
    log_remove_below_start(log);
    log_tell_change(log);
}
