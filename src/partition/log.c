#include "partition/log.h"

#include <inttypes.h>

#include "base/assert.h"
#include "base/mem.h"
#include "partition/log_internal.h"
#include "partition/partition_limits.h"
#include "partition/segment_checked.h"

void log_free(struct partition_log *log)
{
    if (log == NULL)
        return;
    assert(log->jobs == 0 && list_is_empty(&log->awake->appends) && list_is_empty(&log->awake->reads) &&
           list_is_empty(&log->awake->syncs));
    assert(list_is_empty(&log->awake->finds));
    assert(list_is_empty(&log->awake->lookups));
    assert(log->moving == NULL && log->cleaning == NULL);
    if (log->adopted)
        loop_timer_stop(log->env->loop, &log->timer);
    log_dirty_forget(log);
    for (uint32_t i = 0; i < log->segment_count; i++) {
        log_file_close(log, log->segments[i]);
        segment_deinit(log->segments[i]);
        mem_free(log->segments[i]);
    }
    log_removal_free(log);
    mem_free(log->segments);
    damage_deinit(&log->damage);
    log_journal_free(log);
    epoch_cache_deinit(&log->epochs);
    producer_state_deinit(&log->producers);
    log_awake_free(log);
    log_config_drop(log->config);
    mem_free(log->dir);
    mem_free(log);
}

/* --- segments --- */

struct segment *log_last_segment(const struct partition_log *log)
{
    return log->segment_count == 0 ? NULL : log->segments[log->segment_count - 1];
}

struct segment *log_segment_at(const struct partition_log *log, int64_t offset, uint32_t *slot)
{
    uint32_t low = 0;
    uint32_t high = log->segment_count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (log->segments[middle]->base_offset <= offset)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0)
        return NULL;
    if (slot != NULL)
        *slot = low - 1;
    return log->segments[low - 1];
}

bool log_is_segment_base(const struct partition_log *log, int64_t offset)
{
    const struct segment *segment = log_segment_at(log, offset, NULL);

    return segment != NULL && segment->base_offset == offset;
}

bool log_gaps_are_allowed(const struct partition_log *log, int64_t offset)
{
    return log->config->cleanup_compact || offset < log->cleaned_offset;
}

enum err log_segments_room_make(struct partition_log *log)
{
    return mem_grow(&log->segments, &log->segment_room, log->segment_count + 1, 1, sizeof(struct segment *));
}

void log_segment_add(struct partition_log *log, struct segment *segment)
{
    assert(log->segment_count < log->segment_room);
    assert(log->segment_count == 0 || log_last_segment(log)->base_offset < segment->base_offset);
    log->segments[log->segment_count++] = segment;
}

/* The segments ascend without overlap, and are together what the log says of itself. */
static bool segments_are_whole(const struct partition_log *log)
{
    uint64_t size = 0;

    for (uint32_t i = 0; i < log->segment_count; i++) {
        const struct segment *segment = log->segments[i];

        if (segment->base_offset > segment->end_offset ||
            (i > 0 && log->segments[i - 1]->end_offset > segment->base_offset))
            return false;
        size += segment->size;
    }
    return size == log->size && (log->segment_count == 0 || log_last_segment(log)->end_offset == log->end_offset);
}

/* What log.h says always holds. */
static void check(const struct partition_log *log)
{
    assert(0 <= log->start_offset && log->start_offset <= log->segments_synced);
    assert(log->segments_synced <= log->synced_offset && log->synced_offset <= log->end_offset);
    assert(partition_log_recovery_point(log) <= log->segments_synced);
    assert_slow(segments_are_whole(log));
}

/* --- time --- */

static int64_t sync_interval_ns(const struct partition_log *log)
{
    return log->env->limits.sync_interval_ns > 0 ? log->env->limits.sync_interval_ns : PARTITION_SYNC_INTERVAL_NS;
}

/* A flush that is overdue is looked at again after so long. */
#define FLUSH_AGAIN_NS INT64_C(1000000)

/* When what lies above synced_offset is to be synced, for flush.ms. */
static int64_t flush_due_ns(const struct partition_log *log)
{
    if (log->end_offset == log->synced_offset || log->config->flush_ms >= INT64_MAX / 1000000 ||
        log->awake->unpromised_since_ns > INT64_MAX - log->config->flush_ms * 1000000)
        return INT64_MAX;
    return log->awake->unpromised_since_ns + log->config->flush_ms * 1000000;
}

static int64_t idle_ns(const struct partition_log *log)
{
    return log->env->limits.idle_ns > 0 ? log->env->limits.idle_ns : PARTITION_IDLE_NS;
}

static int64_t expire_every_ns(const struct partition_log *log)
{
    return log->env->limits.producer_check_ns > 0 ? log->env->limits.producer_check_ns : PARTITION_EXPIRE_EVERY_NS;
}

void log_timer_set(struct partition_log *log)
{
    int64_t due = INT64_MAX;

    if (!log->adopted || log->closing != NULL || log->failed || log_is_held(log))
        return;
    if ((log->awake->unsynced_bytes > 0 || !list_is_empty(&log->awake->syncs)) && log->awake->sync_job == NULL &&
        !log->sync_waits)
        due = log->awake->unsynced_since_ns + sync_interval_ns(log);
    if (log->awake->sync_job == NULL && flush_due_ns(log) < due) {
        int64_t soon = loop_now_ns(log->env->loop) + FLUSH_AGAIN_NS;

        due = flush_due_ns(log) > soon ? flush_due_ns(log) : soon; /* one that is overdue has been asked for */
    }
    if (log_is_awake(log) && !log->giving_back && log->awake->last_use_ns + idle_ns(log) < due)
        due = log->awake->last_use_ns + idle_ns(log);
    if (producer_state_count(&log->producers) > 0 && log->expired_ns + expire_every_ns(log) < due)
        due = log->expired_ns + expire_every_ns(log);
    if (log_removal_due_ns(log) < due)
        due = log_removal_due_ns(log);
    if (due == INT64_MAX)
        loop_timer_stop(log->env->loop, &log->timer);
    else if (log->timer.heap_slot == 0 || log->timer.due_ns > due)
        loop_timer_start(log->env->loop, &log->timer, due);
}

static void timer_fired(struct loop_timer *timer)
{
    struct partition_log *log = LIST_ENTRY(timer, struct partition_log, timer);
    int64_t now = loop_now_ns(log->env->loop);

    if ((log->awake->unsynced_bytes > 0 || !list_is_empty(&log->awake->syncs)) && log->awake->sync_job == NULL &&
        !log->sync_waits && now >= log->awake->unsynced_since_ns + sync_interval_ns(log)) {
        if (!log_journal_sync_later(log))
            log_sync_background(log);
        else if (log->awake->sync_job == NULL)
            log->awake->unsynced_since_ns = now; /* the journal has it do so in its turn */
    }
    if (now >= flush_due_ns(log))
        log_sync_go_on(log);
    if (log_is_awake(log) && !log->giving_back && now >= log->awake->last_use_ns + idle_ns(log)) {
        if (log_is_at_rest(log) && log->awake->open_files > 0)
            log_files_give_back(log);
        if (log_is_at_rest(log) && !log->giving_back)
            log_sleep(log);
        if (log_is_awake(log) && !log->giving_back) /* something has need of it: asked again when it idles anew */
            log_use(log);
    }
    if (now >= log_removal_due_ns(log))
        log_removal_timer_fired(log);
    if (now >= log->expired_ns + expire_every_ns(log)) {
        log->expired_ns = now;
        log_producers_expire(log);
    }
    log_timer_set(log);
}

bool log_trusts_wall_clock(const struct partition_log *log)
{
    struct clock_guard *guard = log->env->clock_guard;

    return guard == NULL || !log->adopted ||
           clock_guard_trusts(guard, clock_wall_ms(log->env->clock), clock_boot_ns(log->env->clock));
}

void log_producers_expire(struct partition_log *log)
{
    int64_t expiry_ms =
        log->env->limits.producer_expiry_ms > 0 ? log->env->limits.producer_expiry_ms : PARTITION_PRODUCER_EXPIRY_MS;

    if (log_trusts_wall_clock(log))
        producer_state_expire(&log->producers, clock_wall_ms(log->env->clock) - expiry_ms);
}

void partition_log_adopt(struct partition_log *log)
{
    int64_t now = loop_now_ns(log->env->loop);

    assert(!log->adopted);
    check(log);
    for (uint32_t i = 0; i < log->segment_count; i++)
        segment_checked_forget(log->segments[i]);
    log->adopted = true;
    log_damage_adopt(log);
    log->timer.fired = timer_fired;
    log->expired_ns = now;
    if (log->segment_count > 0 && log->config->segment_jitter_ms > 0)
        log_last_segment(log)->jitter_ms = (int64_t)rng_below(log->env->rng, (uint64_t)log->config->segment_jitter_ms);
    if (log->awake->unsynced_bytes > 0) {
        /* What recovery found above the recovery point; at once where old journals wait for it. */
        log->awake->unsynced_since_ns = now - (log->unsettled == NULL ? 0 : sync_interval_ns(log));
        log->awake->unpromised_since_ns = now;
        log->awake->last_use_ns = now;
    }
    log->found_end = log->end_offset;
    log_dirty_count(log);
    if (log->segments_synced == log->end_offset)
        log_settled(log);
    log_timer_set(log);
}

/* --- failure, change, jobs --- */

static bool is_fatal(enum err err)
{
    return err == ERR_IO || err == ERR_PERMISSION || err == ERR_NOT_FOUND;
}

enum err log_storage_error(struct partition_log *log, enum err err, const char *what)
{
    if (err == ERR_NOMEM || err == ERR_CLOSED)
        return err;
    if (err == ERR_NO_SPACE) {
        log_line_rated(log->env->log, &log->env->files->full_disk, LOG_ERROR,
                       "%s topic=%s partition=%" PRId32 " dir=%s err=%s", what, log->topic, log->partition, log->dir,
                       err_name(err));
        return err;
    }
    if (!log->failed)
        log_error(log->env->log, "%s topic=%s partition=%" PRId32 " dir=%s err=%s", what, log->topic, log->partition,
                  log->dir, err_name(err));
    if (is_fatal(err) && !log->failed) {
        partition_log_fail(log, err);
        if (log->env->storage_failed != NULL)
            log->env->storage_failed(log->env->context, log->env->log_dir, err);
    }
    return ERR_KAFKA_STORAGE_ERROR;
}

void partition_log_fail(struct partition_log *log, enum err err)
{
    (void)err;
    if (log->failed)
        return;
    log->failed = true;
    log_dirty_forget(log);
    if (log->adopted)
        loop_timer_stop(log->env->loop, &log->timer);
    log_appends_fail(log, ERR_KAFKA_STORAGE_ERROR);
    log_reads_fail(log, ERR_KAFKA_STORAGE_ERROR);
    log_lookups_fail(log, ERR_KAFKA_STORAGE_ERROR);
    log_syncs_fail(log, ERR_KAFKA_STORAGE_ERROR);
    log_finds_fail(log, ERR_KAFKA_STORAGE_ERROR);
    log_removal_fail(log, ERR_KAFKA_STORAGE_ERROR);
    log_truncation_fail(log, ERR_KAFKA_STORAGE_ERROR);
    log_cleaning_end(log);
    log_move_end(log);
    log_tell_change(log);
}

void log_tell_change(struct partition_log *log)
{
    check(log);
    if (log->draining) {
        log->change_pending = true;
        return;
    }
    log->change_pending = false;
    if (log->changed != NULL && log->closing == NULL)
        log->changed(log->changed_context);
}

void log_job_started(struct partition_log *log)
{
    log->jobs++;
}

void log_job_ended(struct partition_log *log)
{
    assert(log->jobs > 0);
    log->jobs--;
    if (log->jobs == 0)
        log_truncation_go_on(log);
    if (log->jobs == 0)
        log_move_go_on(log);
    (void)log_close_continue(log);
}

/* --- facts --- */

int64_t partition_log_start_offset(const struct partition_log *log)
{
    return log->start_offset;
}

int64_t partition_log_end_offset(const struct partition_log *log)
{
    return log->end_offset;
}

int64_t partition_log_synced_offset(const struct partition_log *log)
{
    return log->synced_offset;
}

int64_t partition_log_recovery_point(const struct partition_log *log)
{
    int64_t point = log->segments_synced;

    /* The log may begin within a batch that can still be torn. */
    if (log->unsynced_from >= 0 && log->unsynced_from < point)
        point = log->unsynced_from;
    /* Indexes of a segment just rolled may not be synced while its records are. */
    for (uint32_t i = log->segment_count; i > 1 && !log->segments[i - 2]->settled; i--)
        if (log->segments[i - 2]->base_offset < point)
            point = log->segments[i - 2]->base_offset;
    /* What epochs began above it, the batches that are read tell. */
    if (log->epochs.changed && log->epochs.changed_from < point)
        point = log->epochs.changed_from;
    return point;
}

uint64_t partition_log_size(const struct partition_log *log)
{
    return log->size;
}

int64_t partition_log_first_unstable_offset(const struct partition_log *log)
{
    return producer_state_first_unstable(&log->producers);
}

void partition_log_replicated(struct partition_log *log, int64_t high_watermark)
{
    producer_state_replicated(&log->producers, high_watermark);
}

bool partition_log_failed(const struct partition_log *log)
{
    return log->failed;
}

const char *partition_log_topic(const struct partition_log *log)
{
    return log->topic;
}

struct uuid partition_log_topic_id(const struct partition_log *log)
{
    return log->topic_id;
}

int32_t partition_log_last_epoch(const struct partition_log *log)
{
    const struct epoch_entry *last = epoch_cache_last(&log->epochs);

    return last == NULL ? -1 : last->epoch;
}

int32_t partition_log_epoch_at(const struct partition_log *log, int64_t offset)
{
    return epoch_cache_at(&log->epochs, offset);
}

void partition_log_epoch_end(const struct partition_log *log, int32_t epoch, int32_t *found_epoch, int64_t *end_offset)
{
    epoch_cache_end(&log->epochs, epoch, log->end_offset, found_epoch, end_offset);
}

enum err partition_log_assign_epoch(struct partition_log *log, int32_t epoch)
{
    if (log_truncation_takes_epoch(log, epoch))
        return ERR_OK;
    return epoch_cache_assign(&log->epochs, epoch, log->end_offset);
}

const struct log_config *partition_log_config(const struct partition_log *log)
{
    return log->config;
}

void partition_log_set_config(struct partition_log *log, const struct log_config *config)
{
    *log->config = *config;
    if (log->adopted) {
        log_dirty_count(log); /* what is asked for is no group's */
        log_sync_go_on(log);
        log_timer_set(log);
    }
}

void partition_log_share_config(struct partition_log *log, struct log_config *shared)
{
    log_config_drop(log->config);
    log->config = shared;
}

void partition_log_on_change(struct partition_log *log, void (*changed)(void *context), void *context)
{
    log->changed = changed;
    log->changed_context = context;
}

uint32_t partition_log_segment_count(const struct partition_log *log)
{
    return log->segment_count;
}

int64_t partition_log_segment_base(const struct partition_log *log, uint32_t slot)
{
    assert(slot < log->segment_count);
    return log->segments[slot]->base_offset;
}

int64_t partition_log_segment_max_timestamp(const struct partition_log *log, uint32_t slot)
{
    assert(slot < log->segment_count);
    return log->segments[slot]->max_timestamp;
}

static uint64_t position_at_most(const struct segment *segment, int64_t offset)
{
    if (!segment->indexed || offset <= segment->base_offset)
        return 0;
    return offset_index_position(&segment->offsets, offset - segment->base_offset > UINT32_MAX
                                                        ? UINT32_MAX
                                                        : (uint32_t)(offset - segment->base_offset));
}

uint64_t partition_log_bytes_between(const struct partition_log *log, int64_t from, int64_t to)
{
    uint64_t bytes = 0;
    uint32_t slot = 0;

    if (from >= to || log->segment_count == 0)
        return 0;
    (void)log_segment_at(log, from, &slot);
    for (uint32_t i = slot; i < log->segment_count && log->segments[i]->base_offset < to; i++) {
        const struct segment *segment = log->segments[i];

        if (segment->end_offset <= from)
            continue;
        bytes += segment->size - position_at_most(segment, from);
    }
    return bytes;
}
