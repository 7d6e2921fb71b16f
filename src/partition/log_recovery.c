/* Recovery after a stop that was not clean: every batch above the recovery point is read and checked, and the log ends
 * behind the last good one (on-disk.md 5). */
#include "partition/log.h"

#include <inttypes.h>

#include "base/mem.h"
#include "partition/batch_walk.h"
#include "partition/log_opening.h"

static enum err note_batch(void *context, const struct batch_header *header, struct bytes batch)
{
    struct opening *opening = context;
    struct partition_log *log = opening->log;
    struct producer_txn ended;
    enum err err = ERR_OK;

    if (header->leader_epoch >= 0)
        err = epoch_cache_assign(&log->epochs, header->leader_epoch, header->base_offset);
    if (err != ERR_OK || header->base_offset < opening->producers_at)
        return err;
    err = producer_state_reserve(&log->producers, header);
    if (err == ERR_OK && batch_has(header, BATCH_CONTROL))
        err = producer_state_reserve_ended(&log->producers, 1);
    if (err == ERR_OK && batch_has(header, BATCH_CONTROL) && opening->recovering != NULL)
        err = segment_aborted_reserve(opening->recovering, 1);
    if (err == ERR_OK && producer_state_apply(&log->producers, header, batch, &ended) && opening->recovering != NULL)
        log_note_ended(opening->recovering, &ended);
    return err;
}

/* Below the recovery point: readers will be told. */
static enum err note_damage(struct opening *opening, const struct segment *segment, const struct batch_extent *extent)
{
    bool changed = false;

    if (extent->first_offset >= segment->end_offset)
        return ERR_OK;
    return damage_add(&opening->damage,
                      &(struct damage_range){
                          .first_offset = extent->first_offset,
                          .end_offset = extent->end_offset >= 0 ? extent->end_offset : segment->end_offset,
                          .segment_base = segment->base_offset,
                          .position = extent->position,
                          .size = extent->size,
                      },
                      &changed);
}

/* Notes every batch from `from` up to `to`, by reading them. */
enum err log_replay(struct opening *opening, int64_t from, int64_t to)
{
    struct partition_log *log = opening->log;

    for (uint32_t i = 0; i < log->segment_count; i++) {
        struct segment *segment = log->segments[i];
        struct batch_walk walk;
        struct batch_header header;
        struct bytes batch;
        struct fs_file *file = NULL;
        struct log_path path;
        enum err err = ERR_OK;

        if (segment->end_offset <= from || segment->base_offset >= to || segment->size == 0)
            continue;
        log_path_segment(&path, log->dir, segment->base_offset, SEGMENT_LOG);
        err = fs_open(log->env->fs, path.text, FS_READ, &file);
        if (err != ERR_OK)
            return err;
        batch_walk_init(&walk, file, 0, segment->size, segment->base_offset);
        walk.end_offset = segment->end_offset;
        walk.gaps_allowed = true;
        for (;;) {
            err = batch_walk_next(&walk, &header, &batch);
            if (err == ERR_DAMAGED) {
                err = note_damage(opening, segment, &walk.extent);
                if (err == ERR_OK)
                    continue;
            }
            if (err != ERR_OK || header.base_offset >= to)
                break;
            err = note_batch(opening, &header, batch);
            if (err != ERR_OK)
                break;
        }
        batch_walk_deinit(&walk);
        fs_file_drop(file);
        if (err != ERR_OK && err != ERR_END)
            return err;
    }
    return ERR_OK;
}

enum err log_segment_files_remove(const struct partition_log *log, int64_t base_offset)
{
    static const char *const suffixes[] = {SEGMENT_INDEX, SEGMENT_TIME_INDEX, SEGMENT_TXN_INDEX, SEGMENT_SNAPSHOT,
                                           SEGMENT_LOG};
    struct log_path path;

    for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
        enum err err = ERR_OK;

        log_path_segment(&path, log->dir, base_offset, suffixes[i]);
        err = fs_unlink(log->env->fs, path.text);
        if (err != ERR_OK && err != ERR_NOT_FOUND)
            return err;
    }
    return ERR_OK;
}

/* Below it what is bad is damaged, not torn: also what was marked when it had been synced, whatever the checkpoint
 * says. */
static int64_t synced_offset(const struct opening *opening)
{
    const struct damage *marked = &opening->log->damage;
    int64_t synced = opening->spec->clean ? INT64_MAX : opening->spec->recovery_point;

    if (marked->count > 0 && marked->ranges[marked->count - 1].end_offset > synced)
        return marked->ranges[marked->count - 1].end_offset;
    return synced;
}

/* A snapshot lies behind its beginning: a later recovery may resume there. */
static bool is_anchored(const struct opening *opening, int64_t base_offset, int64_t next_base)
{
    for (uint32_t i = 0; i < opening->found.snapshot_count; i++) {
        int64_t offset = opening->found.snapshots[i];

        if (offset > base_offset && (next_base < 0 || offset < next_base))
            return true;
    }
    return false;
}

/* next_base: of the segment that follows; -1: none does. */
static enum err recover_one(struct opening *opening, struct segment *segment, int64_t resume_offset, int64_t next_base,
                            bool *was_cut)
{
    struct partition_log *log = opening->log;
    const struct segment_recovery how = {
        .index_interval_bytes = log->config->index_interval_bytes,
        .gaps_allowed = log_gaps_are_allowed(log, segment->base_offset),
        .synced_offset = synced_offset(opening),
        .tail_offset = opening->spec->recovery_point,
        .end_offset = next_base,
        .now_ms = clock_wall_ms(log->env->clock),
        .damage = &opening->damage,
        .is_anchored = is_anchored(opening, segment->base_offset, next_base),
        .all_written = opening->spec->trust == LOG_TRUST_WRITTEN,
    };
    int32_t leader_epoch = -1;
    uint64_t scanned = 0;
    uint64_t cut = 0;
    enum err err = ERR_OK;

    /* Entries of batches that may be gone go; the batches that are there bring them back. */
    /* Epochs ascend: had one begun that the cache lacks, the batch there would have another than the cache says. */
    if (!segment_resume(segment, log->env->fs, log->dir, resume_offset, &leader_epoch) ||
        (how.all_written && epoch_cache_at(&log->epochs, segment->end_offset) != leader_epoch)) {
        (void)segment_resume(segment, log->env->fs, log->dir, -1, &leader_epoch); /* from its beginning */
        resume_offset = segment->base_offset;
        /* What was aborted in it is found by those who were producing when it began. */
        if (opening->producers_at > resume_offset)
            err = log_open_producers(opening, resume_offset);
        if (err != ERR_OK)
            return err;
    }
    epoch_cache_truncate_end(&log->epochs, resume_offset);
    opening->recovering = segment;
    err = segment_recover(segment, log->env->fs, log->dir, &how, note_batch, opening, &scanned, &cut);
    opening->recovering = NULL;
    opening->recovery.bytes_scanned += scanned;
    opening->recovery.bytes_cut += cut;
    opening->recovery.segments_recovered++;
    *was_cut = cut > 0;
    segment_drop_indexes(segment);
    log->names_changed = true;
    return err;
}

enum err log_recover_remove(struct opening *opening, uint32_t slot)
{
    struct partition_log *log = opening->log;
    struct found *found = &opening->found;
    enum err err = ERR_OK;

    for (uint32_t i = slot; i < found->segment_count && err == ERR_OK; i++) {
        struct log_path path;
        struct fs_info info = {0};

        log_path_segment(&path, log->dir, found->segments[i], SEGMENT_LOG);
        if (fs_stat(log->env->fs, path.text, &info) == ERR_OK)
            opening->recovery.bytes_cut += info.size;
        opening->recovery.segments_removed++;
        err = log_segment_files_remove(log, found->segments[i]);
        log->names_changed = true;
    }
    found->segment_count = slot;
    return err;
}

/* Whether the segment that begins at next continues what was just recovered. Where no compaction has been, a gap
 * means that what lay between was lost, and nothing behind it may be served. */
static bool continues(const struct partition_log *log, int64_t end_offset, int64_t next)
{
    return next == end_offset || (log_gaps_are_allowed(log, end_offset) && next > end_offset);
}

static enum err recover_from(struct opening *opening, uint32_t first)
{
    struct found *found = &opening->found;
    struct partition_log *log = opening->log;
    /* Up to the newest producer snapshot all was synced, epochs too: only what lies behind has to be read. */
    int64_t resume_offset = opening->epochs_known ? opening->producers_at : -1;
    enum err err = ERR_OK;

    for (uint32_t i = first; i < found->segment_count; i++) {
        struct segment *segment = NULL;
        bool was_cut = false;

        if (i > first && !continues(log, log_last_segment(log)->end_offset, found->segments[i]))
            return log_recover_remove(opening, i);
        err = log_open_segment(opening, found->segments[i], &segment);
        if (err == ERR_OK)
            err = recover_one(opening, segment, i == first ? resume_offset : -1,
                              i + 1 < found->segment_count ? found->segments[i + 1] : -1, &was_cut);
        if (err != ERR_OK)
            return err;
        if (was_cut)
            return log_recover_remove(opening, i + 1);
    }
    return ERR_OK;
}

static bool epochs_are(const struct epoch_cache *cache, const struct epoch_entry *entries, uint32_t count)
{
    if (cache->count != count)
        return false;
    for (uint32_t i = 0; i < count; i++)
        if (cache->entries[i].epoch != entries[i].epoch || cache->entries[i].start_offset != entries[i].start_offset)
            return false;
    return true;
}

enum err log_recover(struct opening *opening, uint32_t first)
{
    struct epoch_cache *epochs = &opening->log->epochs;
    bool was_changed = epochs->changed;
    uint32_t count = epochs->count;
    struct epoch_entry *before = mem_alloc((count + 1) * sizeof(*before));
    enum err err = ERR_OK;

    if (before == NULL)
        return ERR_NOMEM;
    if (count > 0)
        memcpy(before, epochs->entries, count * sizeof(*before));
    err = recover_from(opening, first);
    /* What was read brought back what the file says: or the recovery point would fall back to the first of them. */
    if (err == ERR_OK && !was_changed && epochs_are(epochs, before, count))
        epochs->changed = false;
    mem_free(before);
    return err;
}
