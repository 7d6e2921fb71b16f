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
    uint32_t count = log->failed || log->closing != NULL || log_is_held(log) ? 0 : segments_below_start(log);

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
    if (log->segments_synced < offset) { /* nothing is kept below it that could be lost */
        log_journal_skipped(log, offset);
        if (log->unsynced_from < 0)
            log->unsynced_from = log->segments_synced;
        log->segments_synced = offset;
    }
    if (log->synced_offset < offset)
        log->synced_offset = offset;
    log_journal_started(log, offset);
    epoch_cache_truncate_start(&log->epochs, offset);
    log_remove_below_start(log);
    log_tell_change(log);
}

/* --- by size and by age --- */

/* What may be deleted without touching what readers cannot see yet: up to where the segment's records end. */
static bool is_below(const struct partition_log *log, uint32_t slot, int64_t limit)
{
    int64_t end = slot + 1 < log->segment_count ? log->segments[slot + 1]->base_offset : log->end_offset;

    return end <= limit && !log->segments[slot]->moving &&
           !(slot + 1 == log->segment_count && log->end_offset == log->segments[slot]->base_offset);
}

static uint32_t count_by_size(const struct partition_log *log, int64_t limit)
{
    uint64_t over = 0;
    uint32_t count = 0;

    if (log->config->retention_bytes < 0 || log->size < (uint64_t)log->config->retention_bytes)
        return 0;
    over = log->size - (uint64_t)log->config->retention_bytes;
    while (count < log->segment_count && is_below(log, count, limit) && log->segments[count]->size <= over) {
        over -= log->segments[count]->size;
        count++;
    }
    return count;
}

/* By the records' own times; a segment without any is as old as its file. One that has its newest record in the future
 * stays, and so does all behind it, until retention by size takes it (trap B122). */
static uint32_t count_by_age(const struct partition_log *log, uint32_t first, int64_t limit, int64_t now_ms)
{
    uint32_t count = first;

    if (log->config->retention_ms < 0)
        return 0;
    while (count < log->segment_count && is_below(log, count, limit)) {
        const struct segment *segment = log->segments[count];
        int64_t newest_ms = segment->max_timestamp >= 0 ? segment->max_timestamp : segment->modified_ms;

        if (newest_ms > now_ms || now_ms - newest_ms <= log->config->retention_ms)
            break;
        count++;
    }
    return count - first;
}

static void say(const struct partition_log *log, uint32_t by_size, uint32_t by_age)
{
    log_info(log->env->log,
             "old segments deleted topic=%s partition=%" PRId32 " by_size=%" PRIu32 " by_age=%" PRIu32
             " log_start_offset=%" PRId64 " size_bytes=%" PRIu64,
             log->topic, log->partition, by_size, by_age, log->start_offset, log->size);
}

/* Takes the first count away. Where that is all of them, an empty one is begun first: it remembers where the log is. */
static void delete_first(struct partition_log *log, uint32_t count, int64_t limit)
{
    if (count == log->segment_count) {
        log->retain_limit = limit;
        log_roll(log);
    } else if (count > 0) {
        partition_log_move_start(log, log->segments[count]->base_offset);
    }
}

void partition_log_retain(struct partition_log *log, int64_t limit)
{
    int64_t wall_ms = clock_wall_ms(log->env->clock);
    uint32_t by_size = 0;
    uint32_t by_age = 0;

    assert(limit <= log->end_offset);
    if (log->failed || log->closing != NULL || log_is_held(log))
        return;
    log->retain_limit = -1;
    log_remove_below_start(log);
    if (!log->config->cleanup_delete)
        return;
    by_size = count_by_size(log, limit);
    if (log_trusts_wall_clock(log))
        by_age = count_by_age(log, by_size, limit, wall_ms);
    delete_first(log, by_size + by_age, limit);
    if (log->retain_limit < 0 && by_size + by_age > 0)
        say(log, by_size, by_age);
}

void log_retain_go_on(struct partition_log *log)
{
    if (log->retain_limit >= 0)
        partition_log_retain(log, log->retain_limit);
}
