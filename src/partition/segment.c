#include "partition/segment.h"

#include "base/assert.h"
#include "base/mem.h"
#include "partition/log_path.h"
#include "partition/segment_checked.h"
#include "partition/segment_damage.h"
#include "partition/text_file.h"
#include "partition/txn_file.h"

enum {
    INDEX_FILE_BYTES_MAX = 256 * 1024 * 1024,
    TAIL_CHECKED_BYTES = 256 * 1024, /* of the last writes before a kill: more than most appends have */
};

void segment_init(struct segment *segment, int64_t base_offset, int64_t now_ms)
{
    assert(base_offset >= 0);
    *segment = (struct segment){
        .base_offset = base_offset,
        .end_offset = base_offset,
        .max_timestamp = -1,
        .max_timestamp_offset = -1,
        .first_timestamp = -1,
        .created_ms = now_ms,
        .modified_ms = now_ms,
        .written_from = UINT64_MAX,
    };
    list_node_init(&segment->removed_node);
}

void segment_drop_indexes(struct segment *segment)
{
    offset_index_deinit(&segment->offsets);
    time_index_deinit(&segment->times);
    if (segment->aborted != NULL)
        txn_index_unload(segment->aborted);
    segment->indexed = false;
}

static void aborted_free(struct segment *segment)
{
    if (segment->aborted == NULL)
        return;
    txn_index_deinit(segment->aborted);
    mem_free(segment->aborted);
    segment->aborted = NULL;
}

void segment_deinit(struct segment *segment)
{
    assert(segment->opening == NULL && segment->uses == 0);
    segment_drop_indexes(segment);
    aborted_free(segment);
    segment_checked_forget(segment);
    fs_file_drop(segment->file);
    segment->file = NULL;
}

static uint32_t relative(const struct segment *segment, int64_t offset)
{
    assert(offset >= segment->base_offset && offset - segment->base_offset <= INT32_MAX);
    return (uint32_t)(offset - segment->base_offset);
}

void segment_book(struct segment *segment, const struct batch_header *head, uint64_t position,
                  int32_t index_interval_bytes)
{
    enum err err = ERR_OK;

    assert(position == segment->size);
    assert(head->base_offset >= segment->end_offset && head->last_offset_delta >= 0);
    if (segment->size == 0)
        segment->first_timestamp = head->max_timestamp;
    if (head->max_timestamp > segment->max_timestamp) {
        segment->max_timestamp = head->max_timestamp;
        segment->max_timestamp_offset = batch_last_offset(head);
    }
    if (segment->bytes_since_index > (uint32_t)index_interval_bytes) {
        err = offset_index_add(&segment->offsets, relative(segment, batch_last_offset(head)), (uint32_t)position);
        if (err == ERR_OK && segment->max_timestamp >= 0)
            err = time_index_add(&segment->times, segment->max_timestamp,
                                 relative(segment, segment->max_timestamp_offset));
        segment->bytes_since_index = 0;
    }
    (void)err; /* a missing entry makes a walk longer, no more */
    segment->bytes_since_index += (uint32_t)head->size;
    segment->size += head->size;
    segment->end_offset = batch_last_offset(head) + 1;
}

void segment_seal_times(struct segment *segment)
{
    if (segment->max_timestamp >= 0 && segment->size > 0 &&
        time_index_add(&segment->times, segment->max_timestamp, relative(segment, segment->max_timestamp_offset)) !=
            ERR_OK)
        return; /* the next load walks a little further */
}

enum err segment_aborted_reserve(struct segment *segment, uint32_t count)
{
    if (segment->aborted == NULL)
        segment->aborted = mem_calloc(1, sizeof(*segment->aborted));
    return segment->aborted == NULL ? ERR_NOMEM : txn_index_reserve(segment->aborted, count);
}

void segment_aborted_add(struct segment *segment, const struct txn_index_entry *entry)
{
    assert(entry->last_offset >= segment->base_offset);
    txn_index_add(segment->aborted, entry);
}

enum err segment_aborted_found(struct segment *segment)
{
    assert(segment->aborted == NULL);
    segment->aborted = mem_calloc(1, sizeof(*segment->aborted));
    if (segment->aborted == NULL)
        return ERR_NOMEM;
    segment->aborted->absent = true;
    return ERR_OK;
}

bool segment_aborted_unwritten(const struct segment *segment)
{
    const struct txn_index *index = segment->aborted;

    return index != NULL && !index->absent && index->written < index->count;
}

/* A segment that is appended to is not compacted, so it must not outlive the lag (KIP-354). */
static int64_t segment_ms(const struct log_config *config)
{
    return config->cleanup_compact && config->max_compaction_lag_ms < config->segment_ms ? config->max_compaction_lag_ms
                                                                                         : config->segment_ms;
}

static bool is_due(const struct segment *segment, const struct log_config *config, int64_t incoming_max_timestamp,
                   int64_t now_ms)
{
    int64_t limit = segment_ms(config) > segment->jitter_ms ? segment_ms(config) - segment->jitter_ms : 0;

    if (segment->first_timestamp >= 0)
        return incoming_max_timestamp > segment->first_timestamp &&
               incoming_max_timestamp - segment->first_timestamp > limit;
    return now_ms - segment->created_ms > limit;
}

bool segment_is_full(const struct segment *segment, const struct log_config *config, size_t incoming_bytes,
                     int64_t incoming_max_timestamp, int64_t incoming_last_offset, int64_t now_ms)
{
    uint32_t entries_max = (uint32_t)config->segment_index_bytes / OFFSET_INDEX_ENTRY_BYTES;
    uint32_t times_max = (uint32_t)config->segment_index_bytes / TIME_INDEX_ENTRY_BYTES;
    uint64_t bytes_max =
        config->segment_bytes < SEGMENT_BYTES_MAX ? (uint64_t)config->segment_bytes : SEGMENT_BYTES_MAX;

    if (incoming_last_offset - segment->base_offset > INT32_MAX)
        return true;
    if (segment->size == 0)
        return false;
    return segment->size + incoming_bytes > bytes_max || is_due(segment, config, incoming_max_timestamp, now_ms) ||
           segment->offsets.count >= entries_max || segment->times.count + 1 >= times_max;
}

enum err segment_find(struct fs_file *file, const struct offset_index *offsets, int64_t base_offset, int64_t offset,
                      uint64_t limit, bool cached_only, uint64_t *position, struct batch_header *head)
{
    struct batch_scan scan;
    struct bytes batch;
    int64_t wanted = offset < base_offset ? 0 : offset - base_offset;
    uint64_t start = offset_index_position(offsets, wanted > UINT32_MAX ? UINT32_MAX : (uint32_t)wanted);
    int64_t next_offset = base_offset;
    enum err err = ERR_OK;

    if (start >= limit)
        return ERR_END;
    batch_scan_init(&scan, file, start, limit, BATCH_SCAN_HEADS);
    scan.cached_only = cached_only;
    do {
        *position = scan.position;
        err = batch_scan_next(&scan, head, &batch);
        /* An entry at or below the offset points at a batch that begins there or before. */
        if (err == ERR_OK &&
            ((start > 0 && *position == start && head->base_offset > offset) || head->base_offset < next_offset))
            err = ERR_DAMAGED;
        if (err == ERR_OK)
            next_offset = batch_last_offset(head) + 1;
    } while (err == ERR_OK && next_offset <= offset);
    batch_scan_deinit(&scan);
    return err;
}

/* --- blocking --- */

static enum err index_file_read(struct fs *fs, const char *dir, int64_t base_offset, const char *suffix,
                                struct text *content)
{
    struct log_path path;
    const char *name = NULL;

    log_path_segment(&path, dir, base_offset, suffix);
    name = strrchr(path.text, '/') + 1;
    return text_file_read(fs, dir, name, INDEX_FILE_BYTES_MAX, content);
}

/*
 * Offsets lie outside the checksum, so a batch that leaves a gap is looked at twice. Compaction makes gaps, but a batch
 * whose successor stands before it was not moved by that; nor was the last of all in a log that is not compacted.
 */
static bool gap_is_damage(const struct batch_scan *behind, const struct batch_header *head, bool gaps_allowed)
{
    struct batch_scan scan;
    struct batch_header next;
    struct bytes batch;
    enum err err = ERR_OK;

    batch_scan_init(&scan, behind->file, behind->position, behind->limit, BATCH_SCAN_HEADS);
    err = batch_scan_next(&scan, &next, &batch);
    batch_scan_deinit(&scan);
    return err == ERR_OK ? next.base_offset <= batch_last_offset(head) : !gaps_allowed;
}

/* Books every batch from where the segment's books end up to size: by their heads, or with checksums and a close look
 * at where they stand. */
static enum err walk(struct segment *segment, struct fs_file *file, uint64_t size, int32_t index_interval_bytes,
                     enum batch_scan_depth depth, bool gaps_allowed)
{
    struct batch_scan scan;
    struct batch_header head;
    struct bytes batch;
    bool end_known = segment->size == 0;
    enum err err = ERR_OK;

    batch_scan_init(&scan, file, segment->size, size, depth);
    for (;;) {
        err = batch_scan_next(&scan, &head, &batch);
        if (err != ERR_OK)
            break;
        if (head.base_offset < segment->end_offset || batch_last_offset(&head) - segment->base_offset > INT32_MAX ||
            (depth == BATCH_SCAN_CHECKED && end_known && head.base_offset > segment->end_offset &&
             gap_is_damage(&scan, &head, gaps_allowed))) {
            err = ERR_DAMAGED;
            break;
        }
        segment_book(segment, &head, segment->size, index_interval_bytes);
        end_known = true;
    }
    batch_scan_deinit(&scan);
    return err == ERR_END ? ERR_OK : err;
}

static enum err rebuild_indexes(int64_t base_offset, struct fs_file *file, uint64_t size, int32_t index_interval_bytes,
                                struct offset_index *offsets, struct time_index *times)
{
    struct segment scratch;
    enum err err = ERR_OK;

    segment_init(&scratch, base_offset, 0);
    err = walk(&scratch, file, size, index_interval_bytes, BATCH_SCAN_HEADS, true);
    if (err == ERR_OK || err == ERR_DAMAGED) { /* up to damage, behind which readers find their way without */
        err = ERR_OK;
        *offsets = scratch.offsets;
        *times = scratch.times;
        scratch.offsets = (struct offset_index){0};
        scratch.times = (struct time_index){0};
    }
    segment_deinit(&scratch);
    return err;
}

static enum err parse_indexes(struct fs *fs, const char *dir, int64_t base_offset, uint64_t size,
                              struct offset_index *offsets, struct time_index *times)
{
    struct text content = {0};
    enum err err = index_file_read(fs, dir, base_offset, SEGMENT_INDEX, &content);

    if (err == ERR_OK)
        err = offset_index_parse(offsets, bytes_of(content.data, content.size), size);
    text_deinit(&content);
    if (err == ERR_OK)
        err = index_file_read(fs, dir, base_offset, SEGMENT_TIME_INDEX, &content);
    if (err == ERR_OK)
        err = time_index_parse(times, bytes_of(content.data, content.size));
    text_deinit(&content);
    if (err != ERR_OK) {
        offset_index_deinit(offsets);
        time_index_deinit(times);
    }
    return err;
}

enum err segment_read_indexes(struct fs *fs, const char *dir, int64_t base_offset, struct fs_file *file, uint64_t size,
                              int32_t index_interval_bytes, struct offset_index *offsets, struct time_index *times)
{
    enum err err = parse_indexes(fs, dir, base_offset, size, offsets, times);

    if (err == ERR_NOT_FOUND || err == ERR_DAMAGED || err == ERR_LIMIT)
        err = rebuild_indexes(base_offset, file, size, index_interval_bytes, offsets, times);
    return err;
}

static enum err open_log(struct fs *fs, const char *dir, int64_t base_offset, int flags, struct fs_file **file,
                         uint64_t *size)
{
    struct log_path path;
    enum err err = ERR_OK;

    log_path_segment(&path, dir, base_offset, SEGMENT_LOG);
    err = fs_open(fs, path.text, flags, file);
    if (err != ERR_OK)
        return err;
    err = fs_size(*file, size);
    if (err != ERR_OK) {
        fs_file_drop(*file);
        *file = NULL;
    }
    return err;
}

/* Takes the books as the indexes have them, up to the batch of the last entry. */
static void books_from_indexes(struct segment *segment)
{
    const struct time_index_entry *last_time = time_index_last(&segment->times);

    if (segment->offsets.count > 0) {
        /* The walk begins at the batch of the entry before the last, so that the last entry's own batch is booked, and
         * the end offset is known even when nothing lies behind it. */
        const struct offset_index_entry *entry = &segment->offsets.entries[segment->offsets.count - 1];

        segment->size = entry->position;
        segment->end_offset = segment->base_offset; /* not yet known; the walk says */
    }
    if (last_time != NULL) {
        segment->max_timestamp = last_time->timestamp;
        segment->max_timestamp_offset = segment->base_offset + last_time->relative_offset;
    }
}

static enum err first_timestamp_read(struct segment *segment, struct fs_file *file, uint64_t size)
{
    struct batch_scan scan;
    struct batch_header head;
    struct bytes batch;
    enum err err = ERR_OK;

    if (size == 0)
        return ERR_OK;
    batch_scan_init(&scan, file, 0, size, BATCH_SCAN_HEADS);
    err = batch_scan_next(&scan, &head, &batch);
    batch_scan_deinit(&scan);
    if (err == ERR_OK)
        segment->first_timestamp = head.max_timestamp;
    return err;
}

enum err segment_load_first_timestamp(struct segment *segment, struct fs *fs, const char *dir)
{
    struct fs_file *file = NULL;
    uint64_t size = 0;
    enum err err = open_log(fs, dir, segment->base_offset, FS_READ, &file, &size);

    if (err == ERR_OK)
        err = first_timestamp_read(segment, file, size);
    fs_file_drop(file);
    return err == ERR_DAMAGED || err == ERR_END || err == ERR_UNSUPPORTED_FOR_MESSAGE_FORMAT ? ERR_OK : err;
}

enum err segment_load(struct segment *segment, struct fs *fs, const char *dir, int32_t index_interval_bytes,
                      bool gaps_allowed)
{
    int64_t last_indexed = -1;
    struct fs_file *file = NULL;
    uint64_t size = 0;
    enum err err = open_log(fs, dir, segment->base_offset, FS_READ, &file, &size);

    if (err != ERR_OK)
        return err;
    if (size > SEGMENT_BYTES_MAX) {
        err = ERR_DAMAGED;
        goto out;
    }
    err = segment_read_indexes(fs, dir, segment->base_offset, file, size, index_interval_bytes, &segment->offsets,
                               &segment->times);
    if (err != ERR_OK)
        goto out;
    segment->indexed = true;
    if (segment->offsets.count > 0)
        last_indexed = segment->base_offset + segment->offsets.entries[segment->offsets.count - 1].relative_offset;
    books_from_indexes(segment);
    err = first_timestamp_read(segment, file, size);
    if (err == ERR_OK)
        err = walk(segment, file, size, index_interval_bytes, BATCH_SCAN_CHECKED, gaps_allowed);
    if (err == ERR_OK && last_indexed >= 0 && segment->end_offset <= last_indexed)
        err = ERR_DAMAGED; /* the last entry speaks of more */
out:
    fs_file_drop(file);
    return err;
}

/* An index that is not there is made from the batches when it is wanted. */
static enum err index_remove(struct fs *fs, const char *dir, int64_t base_offset, const char *suffix)
{
    struct log_path path;
    enum err err = ERR_OK;

    log_path_segment(&path, dir, base_offset, suffix);
    err = fs_unlink(fs, path.text);
    return err == ERR_NOT_FOUND ? ERR_OK : err;
}

/* What the index files say of batches behind the books goes: those of aborted transactions were believed as far as the
 * recovery resumed there, and must not be lost by a crash from here on. */
static enum err indexes_write(struct segment *segment, struct fs *fs, const char *dir, bool anew)
{
    struct segment_index_tail tail;
    enum err err = ERR_OK;

    if (anew)
        segment->offsets.written = segment->times.written = 0;
    if (segment->aborted != NULL) {
        txn_index_cut(segment->aborted, segment->end_offset);
        if (segment->aborted->count == 0) {
            err = txn_file_remove(fs, dir, segment->base_offset);
            if (err != ERR_OK)
                return err;
            aborted_free(segment);
        }
    }
    err = segment_index_tail_take(segment, &tail);
    if (err != ERR_OK)
        return err;
    tail.aborted_trim = segment->aborted != NULL;
    err = anew ? segment_index_tail_replace(fs, dir, &tail) : segment_index_tail_write(fs, dir, &tail, false);
    if (err == ERR_OK)
        segment_index_tail_done(segment, &tail);
    segment_index_tail_deinit(&tail);
    if (err == ERR_NO_SPACE) { /* a start goes on without; the aborted transactions stay in memory */
        err = index_remove(fs, dir, segment->base_offset, SEGMENT_INDEX);
        if (err == ERR_OK)
            err = index_remove(fs, dir, segment->base_offset, SEGMENT_TIME_INDEX);
    }
    return err;
}

enum err segment_rewrite_indexes(struct segment *segment, struct fs *fs, const char *dir)
{
    return indexes_write(segment, fs, dir, true);
}

static enum err check_and_book(struct segment *segment, struct batch_scan *scan, const struct segment_recovery *how,
                               segment_batch_fn *each, void *context)
{
    struct batch_header head;
    struct bytes batch;
    enum err err = ERR_OK;

    for (;;) {
        err = batch_scan_next(scan, &head, &batch);
        if (err != ERR_OK)
            return err;
        if (head.base_offset < segment->end_offset || batch_last_offset(&head) - segment->base_offset > INT32_MAX)
            return ERR_DAMAGED; /* it stands where its offsets cannot */
        if (head.base_offset > segment->end_offset && gap_is_damage(scan, &head, how->gaps_allowed))
            return ERR_DAMAGED;
        if (how->all_written && scan->limit - scan->position < TAIL_CHECKED_BYTES && !batch_crc_is_valid(batch))
            return ERR_DAMAGED;
        err = each(context, &head, batch);
        if (err != ERR_OK)
            return err;
        segment_book(segment, &head, segment->size, how->index_interval_bytes);
    }
}

/* Of a segment whose books begin anew: nothing is known but that there may be a file, which is to be written anew. */
static void books_clear(struct segment *segment)
{
    struct txn_index *aborted = segment->aborted;

    segment_drop_indexes(segment);
    segment_init(segment, segment->base_offset, segment->created_ms);
    segment->aborted = aborted;
    if (aborted != NULL)
        txn_index_deinit(aborted);
}

/* The batch that the last index entry points at, checked. */
static enum err anchor_read(const struct segment *segment, struct fs_file *file, uint64_t size,
                            struct batch_header *head)
{
    const struct offset_index_entry *last = &segment->offsets.entries[segment->offsets.count - 1];
    struct batch_scan scan;
    struct bytes batch;
    enum err err = ERR_OK;

    batch_scan_init(&scan, file, last->position, size, BATCH_SCAN_CHECKED);
    err = batch_scan_next(&scan, head, &batch);
    batch_scan_deinit(&scan);
    if (err == ERR_OK && batch_last_offset(head) != segment->base_offset + last->relative_offset)
        err = ERR_DAMAGED;
    return err;
}

static bool resume_at(struct segment *segment, struct fs *fs, const char *dir, struct fs_file *file, uint64_t size,
                      int64_t offset, int32_t *leader_epoch)
{
    struct batch_header head;
    int64_t before = offset - segment->base_offset;

    if (before <= 0 || size > SEGMENT_BYTES_MAX ||
        parse_indexes(fs, dir, segment->base_offset, size, &segment->offsets, &segment->times) != ERR_OK)
        return false;
    segment->indexed = true;
    offset_index_cut(&segment->offsets, before > UINT32_MAX ? UINT32_MAX : (uint32_t)before, size);
    if (segment->offsets.count == 0 || anchor_read(segment, file, size, &head) != ERR_OK)
        return false;
    if (segment->aborted != NULL) {
        if (txn_file_read(fs, dir, segment->base_offset, INT64_MAX, segment->aborted) != ERR_OK)
            return false;
        txn_index_cut(segment->aborted, offset);
    }
    time_index_cut(&segment->times, relative(segment, batch_last_offset(&head)) + 1);
    books_from_indexes(segment);
    segment->end_offset = head.base_offset;
    *leader_epoch = head.leader_epoch;
    return first_timestamp_read(segment, file, size) == ERR_OK;
}

bool segment_resume(struct segment *segment, struct fs *fs, const char *dir, int64_t offset, int32_t *leader_epoch)
{
    struct fs_file *file = NULL;
    uint64_t size = 0;
    bool resumed = false;

    books_clear(segment);
    if (open_log(fs, dir, segment->base_offset, FS_READ, &file, &size) == ERR_OK)
        resumed = resume_at(segment, fs, dir, file, size, offset, leader_epoch);
    fs_file_drop(file);
    if (!resumed)
        books_clear(segment);
    return resumed;
}

enum err segment_recover(struct segment *segment, struct fs *fs, const char *dir, const struct segment_recovery *how,
                         segment_batch_fn *each, void *context, uint64_t *scanned, uint64_t *cut)
{
    struct fs_file *file = NULL;
    struct batch_scan scan;
    uint64_t size = 0;
    enum err err = open_log(fs, dir, segment->base_offset, FS_READ | FS_WRITE, &file, &size);

    *scanned = 0;
    *cut = 0;
    if (err != ERR_OK)
        return err;
    *scanned = size - segment->size;
    batch_scan_init(&scan, file, segment->size, size < SEGMENT_BYTES_MAX ? size : SEGMENT_BYTES_MAX,
                    how->all_written ? BATCH_SCAN_WRITTEN : BATCH_SCAN_CHECKED);
    scan.bodies_from = scan.limit > TAIL_CHECKED_BYTES ? scan.limit - TAIL_CHECKED_BYTES : 0;
    for (;;) {
        err = check_and_book(segment, &scan, how, each, context);
        if (err != ERR_DAMAGED || segment->end_offset >= how->synced_offset)
            break;
        err = segment_damage_pass(segment, fs, dir, file, scan.limit, how);
        if (err != ERR_OK)
            break;
        scan.position = segment->size;
    }
    batch_scan_deinit(&scan);
    if (err != ERR_END && err != ERR_DAMAGED)
        goto out;
    err = ERR_OK;
    *cut = size - segment->size;
    if (*cut > 0) {
        /* Synced, so that what was cut cannot come back behind what is appended next. */
        err = fs_truncate(file, segment->size);
        if (err == ERR_OK && fs_sync(file) != ERR_OK)
            err = ERR_IO;
    }
    if (err == ERR_OK) {
        segment->indexed = true;
        segment_seal_times(segment);
        /* What it resumed by stays as it lies there: a power cut must not cost entries that an anchor vouches for. */
        err = indexes_write(segment, fs, dir, how->is_anchored && segment->offsets.written == 0);
    }
out:
    fs_file_drop(file);
    return err;
}
