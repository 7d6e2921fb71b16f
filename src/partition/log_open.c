/* Opening a log, and recovering it after a stop that was not clean (on-disk.md 5). Everything here blocks. */
#include "partition/log.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/assert.h"
#include "base/mem.h"
#include "partition/checkpoint.h"
#include "partition/log_internal.h"
#include "partition/log_opening.h"
#include "partition/log_swap.h"
#include "partition/partition_limits.h"
#include "partition/txn_file.h"

/* --- the directory --- */

static enum err number_add(int64_t **numbers, uint32_t *count, uint32_t *room, int64_t number)
{
    enum err err = mem_grow(numbers, room, *count + 1, 8, sizeof(**numbers));

    if (err == ERR_OK)
        (*numbers)[(*count)++] = number;
    return err;
}

static bool ends_with(const char *name, const char *suffix)
{
    size_t size = strlen(name);
    size_t suffix_size = strlen(suffix);

    return size >= suffix_size && strcmp(name + size - suffix_size, suffix) == 0;
}

static enum err file_remove(struct partition_log *log, const char *name)
{
    struct log_path path;
    enum err err = log_path_in(&path, log->dir, name);

    return err == ERR_OK ? fs_unlink(log->env->fs, path.text) : err;
}

static enum err found_add(void *context, const char *name, bool is_directory)
{
    struct found *found = context;
    const char *suffix = NULL;
    int64_t base_offset = 0;

    if (is_directory)
        return ERR_OK;
    if (ends_with(name, ".deleted") || ends_with(name, ".tmp"))
        return file_remove(found->log, name);
    if (ends_with(name, ".cleaned") || ends_with(name, ".swap")) {
        found->compaction = true;
        return ERR_OK;
    }
    if (!log_path_parse_segment(name, &base_offset, &suffix))
        return ERR_OK;
    if (strcmp(suffix, SEGMENT_LOG) == 0)
        return number_add(&found->segments, &found->segment_count, &found->segment_room, base_offset);
    if (strcmp(suffix, SEGMENT_TXN_INDEX) == 0)
        return number_add(&found->txn_indexes, &found->txn_index_count, &found->txn_index_room, base_offset);
    if (strcmp(suffix, SEGMENT_SNAPSHOT) == 0)
        return number_add(&found->snapshots, &found->snapshot_count, &found->snapshot_room, base_offset);
    return ERR_OK;
}

static int number_compare(const void *a, const void *b)
{
    int64_t left = *(const int64_t *)a;
    int64_t right = *(const int64_t *)b;

    return (left > right) - (left < right);
}

static bool is_among(const int64_t *numbers, uint32_t count, int64_t number)
{
    return count > 0 && bsearch(&number, numbers, count, sizeof(numbers[0]), number_compare) != NULL;
}

/* One that was left behind when its segment went is not to be taken for that of a segment to come. */
static enum err txn_indexes_tidy(const struct found *found)
{
    const struct partition_log *log = found->log;
    enum err err = ERR_OK;

    for (uint32_t i = 0; i < found->txn_index_count && err == ERR_OK; i++)
        if (!is_among(found->segments, found->segment_count, found->txn_indexes[i]))
            err = txn_file_remove(log->env->fs, log->dir, found->txn_indexes[i]);
    return err;
}

static enum err directory_read(struct opening *opening)
{
    struct found *found = &opening->found;
    enum err err = ERR_OK;

    found->log = opening->log;
    err = fs_list(opening->log->env->fs, opening->log->dir, found_add, found);
    if (err != ERR_OK)
        return err;
    if (found->compaction) { /* an interrupted one: finished or undone, and all looked at anew */
        err = log_swap_finish(opening->log->env->fs, opening->log->env->log, opening->log->dir);
        found->segment_count = 0;
        found->snapshot_count = 0;
        if (err == ERR_OK)
            err = fs_list(opening->log->env->fs, opening->log->dir, found_add, found);
        if (err != ERR_OK)
            return err;
    }
    if (found->segment_count > 0)
        qsort(found->segments, found->segment_count, sizeof(found->segments[0]), number_compare);
    if (found->snapshot_count > 0)
        qsort(found->snapshots, found->snapshot_count, sizeof(found->snapshots[0]), number_compare);
    if (found->txn_index_count > 0)
        qsort(found->txn_indexes, found->txn_index_count, sizeof(found->txn_indexes[0]), number_compare);
    return txn_indexes_tidy(found);
}

static enum err topic_id_check(struct partition_log *log, const struct partition_log_spec *spec, bool is_new)
{
    struct uuid there;
    enum err err = ERR_NOT_FOUND;

    if (uuid_is_zero(spec->topic_id))
        return ERR_OK;
    if (!is_new)
        err = checkpoint_read_topic_id(log->env->fs, log->dir, &there);
    if (err == ERR_OK && !uuid_equal(there, spec->topic_id))
        return ERR_BUSY;
    if (err == ERR_NOT_FOUND || err == ERR_DAMAGED) { /* new, or lost with a power cut before the first record */
        err = checkpoint_write_topic_id(log->env->fs, log->dir, spec->topic_id);
        log->topic_id_unsynced = true;
    }
    return err == ERR_NOT_FOUND ? ERR_BUSY : err; /* it went just now: it was taken for an earlier topic's */
}

static enum err directory_make(struct partition_log *log, const struct partition_log_spec *spec)
{
    enum err err = fs_mkdir(log->env->fs, log->dir);

    if (err != ERR_OK && err != ERR_EXISTS)
        return err;
    log->dir_is_new = err == ERR_OK;
    /* A run that was killed may have made names that nobody has synced. */
    log->names_changed = log->dir_is_new || !spec->clean;
    log->parent_unsynced = log->names_changed;
    log->placed = !log->names_changed;
    return topic_id_check(log, spec, log->dir_is_new);
}

/* --- epochs and producers on the way --- */

static enum err epochs_read(struct opening *opening)
{
    struct partition_log *log = opening->log;
    enum err err = checkpoint_read_epochs(log->env->fs, log->dir, &log->epochs);

    /* One without a line is what a power cut makes of a file that was renamed into place before it was synced. */
    opening->epochs_known = err == ERR_OK && (log->epochs.count > 0 || opening->spec->clean);
    log->epochs.changed = false; /* the file says what the cache does */
    if (err == ERR_NOT_FOUND || err == ERR_DAMAGED || err == ERR_LIMIT) {
        epoch_cache_deinit(&log->epochs);
        err = ERR_OK;
    }
    return err;
}

static enum err snapshot_read(struct partition_log *log, int64_t offset)
{
    struct log_path path;
    struct text content;
    enum err err = ERR_OK;

    log_path_segment(&path, log->dir, offset, SEGMENT_SNAPSHOT);
    err = text_file_read(log->env->fs, log->dir, strrchr(path.text, '/') + 1, LOG_SNAPSHOT_BYTES_MAX, &content);
    if (err != ERR_OK)
        return err;
    err = producer_state_parse(&log->producers, bytes_of(content.data, content.size));
    text_deinit(&content);
    return err;
}

/* The newest whole snapshot at or below limit. */
static enum err producers_read(struct opening *opening, int64_t limit)
{
    struct partition_log *log = opening->log;

    opening->producers_at = 0;
    for (uint32_t i = opening->found.snapshot_count; i > 0; i--) {
        int64_t offset = opening->found.snapshots[i - 1];
        enum err err = ERR_OK;

        if (offset > limit)
            continue;
        err = snapshot_read(log, offset);
        if (err == ERR_OK) {
            opening->producers_at = offset;
            log->snapshot_offset = offset;
            return ERR_OK;
        }
        if (err != ERR_DAMAGED && err != ERR_NOT_FOUND && err != ERR_LIMIT)
            return err;
        log_warn(log->env->log, "producer snapshot not readable, the one before is taken dir=%s offset=%" PRId64,
                 log->dir, offset);
    }
    return ERR_OK;
}

/* --- segments --- */

enum err log_open_segment(struct opening *opening, int64_t base_offset, struct segment **made)
{
    struct partition_log *log = opening->log;
    struct segment *segment = mem_alloc(sizeof(*segment));
    struct log_path path;
    struct fs_info info = {0};
    enum err err = ERR_OK;

    if (segment == NULL)
        return ERR_NOMEM;
    log_path_segment(&path, log->dir, base_offset, SEGMENT_LOG);
    err = fs_stat(log->env->fs, path.text, &info);
    segment_init(segment, base_offset, info.mtime_ms);
    segment->size = info.size;
    if (err == ERR_OK)
        err = log_segments_room_make(log);
    if (err == ERR_OK && is_among(opening->found.txn_indexes, opening->found.txn_index_count, base_offset))
        err = segment_aborted_found(segment);
    if (err != ERR_OK) {
        mem_free(segment);
        return err;
    }
    log_segment_add(log, segment);
    *made = segment;
    return ERR_OK;
}

/* A sealed segment whose indexes are believed: no more than the last entries of its time index are read. */
static enum err sealed_load(struct partition_log *log, struct segment *segment, int64_t next_base)
{
    struct log_path path;
    struct fs_file *file = NULL;
    uint64_t size = 0;
    uint8_t entries[2 * TIME_INDEX_ENTRY_BYTES]; /* the last one, and one that it has to ascend from */
    size_t wanted = sizeof(entries);
    size_t got = 0;
    struct time_index times = {0};
    enum err err = ERR_OK;

    segment->settled = true;
    segment->end_offset = next_base;
    if (segment->size == 0)
        return ERR_OK;
    /* What has yet to be compacted is as old as its first batch; of the others nobody asks. */
    if (log->config->cleanup_compact && next_base > log->cleaned_offset)
        err = segment_load_first_timestamp(segment, log->env->fs, log->dir);
    log_path_segment(&path, log->dir, segment->base_offset, SEGMENT_TIME_INDEX);
    if (err == ERR_OK)
        err = fs_open(log->env->fs, path.text, FS_READ, &file);
    if (err == ERR_OK)
        err = fs_size(file, &size);
    if (err == ERR_OK && (size == 0 || size % TIME_INDEX_ENTRY_BYTES != 0))
        err = ERR_DAMAGED;
    if (wanted > size)
        wanted = (size_t)size;
    if (err == ERR_OK)
        err = fs_read(file, size - wanted, entries, wanted, &got);
    fs_file_drop(file);
    if (err == ERR_OK)
        err = time_index_parse(&times, bytes_of(entries, got));
    if (err == ERR_OK && times.count > 0) {
        segment->max_timestamp = time_index_last(&times)->timestamp;
        segment->max_timestamp_offset = segment->base_offset + time_index_last(&times)->relative_offset;
    }
    time_index_deinit(&times);
    if (err == ERR_DAMAGED || err == ERR_NOT_FOUND) {
        uint64_t size_there = segment->size;

        /* Walked instead. Where that fails too, reads of it will say what is wrong. */
        segment->size = 0;
        segment->end_offset = segment->base_offset;
        err = segment_load(segment, log->env->fs, log->dir, log->config->index_interval_bytes,
                           log->config->cleanup_compact);
        segment_drop_indexes(segment);
        segment->size = size_there;
        segment->end_offset = next_base;
        if (err == ERR_DAMAGED || err == ERR_UNSUPPORTED_FOR_MESSAGE_FORMAT)
            err = ERR_OK;
    }
    return err;
}

/* Slot of the first segment that is not believed. */
static uint32_t first_suspect(const struct opening *opening)
{
    uint32_t slot = opening->found.segment_count;

    if (opening->spec->rebuild)
        return 0;
    if (opening->spec->clean)
        return slot;
    while (slot > 0 && opening->found.segments[slot - 1] > opening->spec->recovery_point)
        slot--;
    return slot == 0 ? 0 : slot - 1;
}

/* Snapshots above it may speak of batches that are gone. */
static int64_t snapshot_limit(const struct opening *opening, int64_t suspect_base)
{
    const struct segment *last = log_last_segment(opening->log);

    /* Where nothing but the end can be torn, they do not; but for those before a roll whose own indexes may lack
     * entries still. */
    if (!opening->spec->clean && opening->spec->trust == LOG_TRUST_WRITTEN &&
        suspect_base == opening->found.segments[opening->found.segment_count - 1])
        return INT64_MAX;
    if (!opening->spec->clean && opening->spec->recovery_point > suspect_base)
        return opening->spec->recovery_point;
    return suspect_base == INT64_MAX && last != NULL ? last->end_offset : suspect_base;
}

static enum err segments_load(struct opening *opening)
{
    struct partition_log *log = opening->log;
    struct found *found = &opening->found;
    uint32_t suspect = first_suspect(opening);
    int64_t suspect_base = suspect < found->segment_count ? found->segments[suspect] : INT64_MAX;
    enum err err = ERR_OK;

    for (uint32_t i = 0; i < suspect; i++) {
        struct segment *segment = NULL;

        err = log_open_segment(opening, found->segments[i], &segment);
        if (err != ERR_OK)
            return err;
        if (i + 1 < found->segment_count) {
            err = sealed_load(log, segment, found->segments[i + 1]);
        } else {
            segment->size = 0;
            err = segment_load(segment, log->env->fs, log->dir, log->config->index_interval_bytes,
                               log->config->cleanup_compact);
            segment_drop_indexes(segment);
            segment->settled = true;
            if (err == ERR_DAMAGED) { /* the mark said clean, the bytes do not */
                log_warn(log->env->log, "last segment is not whole, recovering it dir=%s base_offset=%" PRId64,
                         log->dir, segment->base_offset);
                log->segment_count--;
                segment_deinit(segment);
                mem_free(segment);
                suspect = i;
                suspect_base = found->segments[i];
                err = ERR_OK;
            }
        }
        if (err != ERR_OK)
            return err;
    }
    err = producers_read(opening, snapshot_limit(opening, suspect_base));
    if (err == ERR_OK && (opening->producers_at < suspect_base || !opening->epochs_known))
        err = log_replay(opening, opening->epochs_known ? opening->producers_at : 0, suspect_base);
    if (err == ERR_OK)
        err = log_recover(opening, suspect);
    if (err == ERR_OK && log->segment_count > 0 && log_last_segment(log)->end_offset < opening->producers_at)
        /* The checkpoint promised more than there is. */
        err = log_open_producers(opening, log_last_segment(log)->end_offset);
    return err;
}

enum err log_open_producers(struct opening *opening, int64_t limit)
{
    enum err err = ERR_OK;

    producer_state_clear(&opening->log->producers);
    err = producers_read(opening, limit);
    return err == ERR_OK ? log_replay(opening, opening->producers_at, limit) : err;
}

/* --- after the segments --- */

static enum err snapshots_tidy(struct opening *opening)
{
    struct partition_log *log = opening->log;
    struct found *found = &opening->found;
    enum err err = ERR_OK;

    for (uint32_t i = 0; i < found->snapshot_count && err == ERR_OK; i++) {
        int64_t offset = found->snapshots[i];
        const struct segment *at = log_segment_at(log, offset, NULL);
        struct log_path path;

        if (offset == log->snapshot_offset || (at != NULL && at->base_offset == offset && offset <= log->end_offset))
            continue;
        log_path_segment(&path, log->dir, offset, SEGMENT_SNAPSHOT);
        err = fs_unlink(log->env->fs, path.text);
        if (err == ERR_NOT_FOUND)
            err = ERR_OK;
    }
    return err;
}

static enum err offsets_settle(struct opening *opening)
{
    struct partition_log *log = opening->log;
    const struct partition_log_spec *spec = opening->spec;
    enum err err = ERR_OK;

    if (log->segment_count > 0 && log_last_segment(log)->end_offset < spec->start_offset) {
        /* The log was cut below its start: what is left is of no use. */
        while (log->segment_count > 0) {
            segment_deinit(log->segments[--log->segment_count]);
            mem_free(log->segments[log->segment_count]);
        }
        err = log_recover_remove(opening, 0);
        if (err != ERR_OK)
            return err;
        epoch_cache_deinit(&log->epochs);
        producer_state_clear(&log->producers);
    }
    log->size = 0;
    for (uint32_t i = 0; i < log->segment_count; i++)
        log->size += log->segments[i]->size;
    log->start_offset = spec->start_offset;
    if (log->segment_count > 0 && log->segments[0]->base_offset > log->start_offset)
        log->start_offset = log->segments[0]->base_offset;
    log->end_offset = log->segment_count > 0 ? log_last_segment(log)->end_offset : log->start_offset;
    log->segments_synced =
        spec->clean && opening->recovery.segments_recovered == 0 ? log->end_offset : spec->recovery_point;
    if (log->segments_synced > log->end_offset)
        log->segments_synced = log->end_offset;
    if (log->segments_synced < log->start_offset) {
        log->unsynced_from = log->segments_synced;
        log->segments_synced = log->start_offset;
    }
    log->synced_offset = log->segments_synced;
    if (log->synced_offset < log->end_offset) {
        if (log_wake(log) != ERR_OK)
            return ERR_NOMEM;
        log->awake->unsynced_bytes = 1; /* not known; enough for the timer to sync it */
    }
    epoch_cache_truncate_end(&log->epochs, log->end_offset);
    epoch_cache_truncate_start(&log->epochs, log->start_offset);
    log_producers_expire(log);
    return ERR_OK;
}

static void recovery_report(const struct opening *opening, struct partition_log_recovery *recovery)
{
    const struct partition_log *log = opening->log;
    const struct partition_log_recovery *done = &opening->recovery;

    if (done->bytes_cut > 0)
        log_warn(log->env->log,
                 "log cut behind its last whole batch topic=%s partition=%" PRId32 " end_offset=%" PRId64
                 " bytes_cut=%" PRIu64 " segments_removed=%" PRIu32 " bytes_scanned=%" PRIu64,
                 log->topic, log->partition, log->end_offset, done->bytes_cut, done->segments_removed,
                 done->bytes_scanned);
    if (recovery != NULL)
        *recovery = *done;
}

static enum err log_new(const struct partition_env *env, const struct partition_log_spec *spec,
                        struct partition_log **made)
{
    struct partition_log *log = NULL;
    struct log_dir_name name;
    struct log_path path;
    enum err err = log_path_dir_name(&name, spec->topic, spec->partition);

    if (err == ERR_OK)
        err = log_path_in(&path, env->log_dir, name.text);
    if (err == ERR_OK && strlen(path.text) + LOG_SEGMENT_NAME_BYTES_MAX >= LOG_PATH_BYTES_MAX)
        err = ERR_LIMIT;
    if (err != ERR_OK)
        return err;
    log = mem_calloc(1, sizeof(*log) + spec->topic.size + 1);
    if (log == NULL)
        return ERR_NOMEM;
    log->env = env;
    log->partition = spec->partition;
    log->topic_id = spec->topic_id;
    log->essential = spec->essential;
    log->unsettled = spec->unsettled;
    log->snapshot_offset = -1;
    log->retain_limit = -1;
    log->unsynced_from = -1;
    log->truncated_until = -1;
    log->cleaned_offset = spec->cleaned_offset > 0 ? spec->cleaned_offset : -1;
    log->unopened_offset = -1;
    log->unwalked_offset = -1;
    log_awake_init(log);
    producer_state_init(&log->producers, rng_u64(env->rng));
    log->dir = mem_copy_text(path.text, strlen(path.text));
    memcpy(log->topic, spec->topic.data, spec->topic.size);
    log->config = log_config_share(&spec->config);
    if (log->dir == NULL || log->config == NULL) {
        log_free(log);
        return ERR_NOMEM;
    }
    *made = log;
    return ERR_OK;
}

/* Where acknowledged means synced, a recovered log is synced before it is served: what was seen as committed before the
 * crash is so again from the first answer on. After a sync that failed all are: what was written again has to hold. */
static enum err recovered_sync(const struct opening *opening)
{
    struct partition_log *log = opening->log;
    struct log_sync_plan plan;
    enum err err = ERR_OK;

    if (log->segments_synced == log->end_offset ||
        (log->config->flush_messages == INT64_MAX &&
         (opening->spec->clean || opening->spec->trust != LOG_TRUST_REWRITE)))
        return ERR_OK;
    err = log_sync_plan_make(log, LOG_SYNC_PLAIN, &plan);
    if (err != ERR_OK)
        return err;
    err = log_sync_plan_run(log->env, log->dir, &plan);
    if (err == ERR_OK) {
        log_sync_plan_succeeded(log, &plan);
        log->synced_offset = log->segments_synced;
        if (log->awake->unsynced_bytes > 0)
            log->awake->unsynced_bytes = 0;
    }
    log_sync_plan_deinit(log, &plan);
    return err;
}

enum err log_open_once(const struct partition_env *env, const struct partition_log_spec *spec,
                       struct partition_log **log, struct partition_log_recovery *recovery)
{
    struct partition_log_spec believed = *spec;
    struct opening opening = {.spec = &believed};
    enum err err = log_new(env, spec, &opening.log);

    if (err != ERR_OK)
        return err;
    err = directory_make(opening.log, spec);
    if (err == ERR_OK && !opening.log->dir_is_new)
        err = directory_read(&opening);
    if (err == ERR_OK && !opening.log->dir_is_new)
        err = log_damage_load(opening.log);
    if (err == ERR_OK && !opening.log->dir_is_new)
        err = log_open_moved_mark(opening.log, &believed);
    if (err == ERR_OK && !opening.log->dir_is_new)
        err = log_open_truncation_mark(opening.log, &believed);
    if (err == ERR_OK && !opening.log->dir_is_new)
        err = epochs_read(&opening);
    if (err == ERR_OK && opening.found.segment_count == 0)
        log_names_doubt(opening.log);
    if (err == ERR_OK && opening.found.segment_count > 0)
        err = segments_load(&opening);
    if (err == ERR_OK)
        err = offsets_settle(&opening);
    if (err == ERR_OK && !spec->clean && spec->trust == LOG_TRUST_REWRITE)
        err = log_rewrite(&opening);
    if (err == ERR_OK)
        err = log_damage_settle(&opening);
    if (err == ERR_OK)
        err = snapshots_tidy(&opening);
    for (uint32_t i = 0; err == ERR_OK && i < opening.log->segment_count; i++)
        opening.log->has_aborted = opening.log->has_aborted || opening.log->segments[i]->aborted != NULL;
    if (err == ERR_OK)
        err = recovered_sync(&opening);
    if (err == ERR_OK)
        recovery_report(&opening, recovery);
    else if (err == ERR_NO_SPACE)
        log_line_rated(env->log, &env->files->full_disk, LOG_ERROR, "no room to open log topic=%.*s partition=%" PRId32,
                       BYTES_PRINTF(spec->topic), spec->partition);
    else if (err != ERR_BUSY)
        log_error(env->log, "log not opened topic=%.*s partition=%" PRId32 " dir=%s err=%s", BYTES_PRINTF(spec->topic),
                  spec->partition, opening.log->dir, err_name(err));
    mem_free(opening.found.segments);
    mem_free(opening.found.snapshots);
    mem_free(opening.found.txn_indexes);
    damage_deinit(&opening.damage);
    if (err != ERR_OK) {
        log_free(opening.log);
        return err;
    }
    *log = opening.log;
    return ERR_OK;
}
