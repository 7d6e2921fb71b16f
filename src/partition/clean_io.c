/* The part of a cleaning that touches files: each call is one slice, in a job. */
#include "base/assert.h"
#include "base/mem.h"
#include "partition/log_cleaning.h"
#include "partition/partition_limits.h"
#include "partition/txn_file.h"

enum { GROUP_FILES = 4 };

/* The log last where a file is removed for good, first where it gets another name: see discard(). */
static const char *const suffixes[GROUP_FILES] = {SEGMENT_LOG, SEGMENT_INDEX, SEGMENT_TIME_INDEX, SEGMENT_TXN_INDEX};

static struct clean_source *source_of(struct log_cleaning *cleaning)
{
    return &cleaning->sources[cleaning->at];
}

static void path_of(const struct log_cleaning *cleaning, int64_t base_offset, const char *suffix, const char *more,
                    struct log_path *path)
{
    log_path_segment(path, cleaning->log->dir, base_offset, suffix);
    memcpy(path->text + strlen(path->text), more, strlen(more) + 1);
}

/* --- what is read beforehand --- */

static enum err size_of(const struct log_cleaning *cleaning, int64_t base_offset, const char *suffix,
                        struct fs_info *info)
{
    struct log_path path;
    enum err err = ERR_OK;

    *info = (struct fs_info){0};
    log_path_segment(&path, cleaning->log->dir, base_offset, suffix);
    err = fs_stat(cleaning->log->env->fs, path.text, info);
    return err == ERR_NOT_FOUND ? ERR_OK : err;
}

enum err clean_io_aborted_add(struct log_cleaning *cleaning, const struct txn_index *index)
{
    enum err err = mem_grow(&cleaning->aborted, &cleaning->aborted_room, cleaning->aborted_count + index->count, 8,
                            sizeof(cleaning->aborted[0]));

    for (uint32_t i = 0; i < index->count && err == ERR_OK; i++) {
        const struct txn_index_entry *entry = &index->entries[i];

        cleaning->aborted[cleaning->aborted_count++] =
            (struct cleaner_aborted){entry->producer_id, entry->first_offset, entry->last_offset, entry->stable_offset};
    }
    return err;
}

static enum err aborted_read(struct log_cleaning *cleaning, const struct clean_source *file)
{
    struct txn_index index = {0};
    bool rebuilt = false;
    enum err err = txn_file_load(cleaning->log->env->fs, cleaning->log->dir, file->base_offset, file->end_offset,
                                 &index, &rebuilt);

    if (err == ERR_OK)
        err = clean_io_aborted_add(cleaning, &index);
    txn_index_deinit(&index);
    return err;
}

static enum err prepare(struct log_cleaning *cleaning)
{
    enum err err = ERR_OK;

    for (uint32_t i = 0; i < cleaning->source_count && err == ERR_OK; i++) {
        struct clean_source *source = &cleaning->sources[i];
        struct fs_info info;

        err = size_of(cleaning, source->base_offset, SEGMENT_INDEX, &info);
        source->index_bytes = info.size;
        if (err == ERR_OK)
            err = size_of(cleaning, source->base_offset, SEGMENT_TIME_INDEX, &info);
        source->time_index_bytes = info.size;
        if (err == ERR_OK)
            err = size_of(cleaning, source->base_offset, SEGMENT_LOG, &info);
        source->mtime_ms = info.mtime_ms;
    }
    for (uint32_t i = 0; i < cleaning->aborted_file_count && err == ERR_OK; i++)
        err = aborted_read(cleaning, &cleaning->aborted_files[i]);
    cleaning->spec.aborted = cleaning->aborted;
    cleaning->spec.aborted_count = cleaning->aborted_count;
    return err == ERR_OK ? cleaner_new(&cleaning->spec, &cleaning->cleaner) : err;
}

/* --- reading --- */

static void source_close(struct log_cleaning *cleaning)
{
    if (cleaning->in == NULL)
        return;
    batch_scan_deinit(&cleaning->scan);
    fs_file_drop(cleaning->in);
    cleaning->in = NULL;
}

static enum err source_open(struct log_cleaning *cleaning)
{
    const struct clean_source *source = source_of(cleaning);
    struct log_path path;
    enum err err = ERR_OK;

    if (cleaning->in != NULL)
        return ERR_OK;
    log_path_segment(&path, cleaning->log->dir, source->base_offset, SEGMENT_LOG);
    err = fs_open(cleaning->log->env->fs, path.text, FS_READ, &cleaning->in);
    if (err != ERR_OK)
        return err;
    batch_scan_init(&cleaning->scan, cleaning->in, 0, source->size, BATCH_SCAN_BODIES);
    cleaning->scan.any_codec = true;
    cleaning->scan.buffer_bytes = cleaning->op->buffer_bytes;
    cleaning->next_offset = source->base_offset;
    return ERR_OK;
}

/* The next batch, in its place by offsets. ERR_END; ERR_DAMAGED: what lies there cannot be walked. */
static enum err batch_read(struct log_cleaning *cleaning, struct batch_header *head, struct bytes *batch)
{
    enum err err = batch_scan_next(&cleaning->scan, head, batch);

    if (err == ERR_UNSUPPORTED_FOR_MESSAGE_FORMAT)
        err = ERR_DAMAGED;
    if (err != ERR_OK)
        return err;
    if (head->base_offset < cleaning->next_offset || head->last_offset_delta < 0 ||
        batch_last_offset(head) >= source_of(cleaning)->end_offset)
        return ERR_DAMAGED;
    cleaning->next_offset = batch_last_offset(head) + 1;
    cleaning->slice_bytes += head->size;
    return ERR_OK;
}

/* The source is through; what cannot be walked is left as it is. */
static enum err source_end(struct log_cleaning *cleaning, enum err err)
{
    if (err != ERR_END && err != ERR_DAMAGED)
        return err;
    source_close(cleaning);
    cleaning->source_is_done = true;
    source_of(cleaning)->left_alone = err == ERR_DAMAGED;
    return ERR_OK;
}

static enum err map(struct log_cleaning *cleaning)
{
    enum err err = source_open(cleaning);

    while (err == ERR_OK && cleaning->slice_bytes < CLEAN_SLICE_BYTES) {
        struct batch_header head;
        struct bytes batch;

        err = batch_read(cleaning, &head, &batch);
        if (err == ERR_OK)
            err = cleaner_map_batch(cleaning->cleaner, batch);
    }
    if (err == ERR_OK)
        return ERR_OK;
    if (err == ERR_LIMIT) {
        cleaning->map_is_full = true;
        source_close(cleaning);
        cleaning->source_is_done = true;
        return ERR_OK;
    }
    err = source_end(cleaning, err);
    if (err == ERR_OK)
        cleaner_map_reached(cleaning->cleaner, source_of(cleaning)->end_offset);
    return err;
}

/* --- writing --- */

static enum err write_out(struct log_cleaning *cleaning, struct bytes bytes)
{
    size_t written = 0;
    enum err err = bytes.size == 0 ? ERR_OK : fs_write(cleaning->out, cleaning->written, &bytes, 1, &written);

    if (err == ERR_OK && written < bytes.size)
        err = ERR_NO_SPACE;
    if (err != ERR_OK)
        return err;
    cleaning->written += written;
    cleaning->slice_bytes += written;
    /* So that the sync in the end finds little to do; a hint, and its failure would be told by the sync. */
    if (cleaning->written - cleaning->pushed >= CLEAN_PUSH_BYTES) {
        err = fs_write_behind(cleaning->out, cleaning->pushed, cleaning->written - cleaning->pushed);
        cleaning->pushed = cleaning->written;
    }
    return err == ERR_IO ? err : ERR_OK;
}

static enum err buffer_flush(struct log_cleaning *cleaning)
{
    enum err err = write_out(cleaning, bytes_of(cleaning->buffer, cleaning->buffered));

    cleaning->buffered = 0;
    return err;
}

static enum err batch_write(struct log_cleaning *cleaning, struct bytes batch)
{
    size_t room = cleaning->op->buffer_bytes;
    enum err err = ERR_OK;

    if (batch.size > room - cleaning->buffered)
        err = buffer_flush(cleaning);
    if (err != ERR_OK)
        return err;
    if (batch.size > room)
        return write_out(cleaning, batch);
    memcpy(cleaning->buffer + cleaning->buffered, batch.data, batch.size);
    cleaning->buffered += batch.size;
    return ERR_OK;
}

static uint64_t group_bytes(const struct log_cleaning *cleaning)
{
    uint64_t bytes = 0;

    for (uint32_t i = cleaning->group_first; i < cleaning->group_end; i++)
        bytes += cleaning->sources[i].size + cleaning->sources[i].index_bytes + cleaning->sources[i].time_index_bytes;
    return bytes;
}

/* The old files stay until the new ones are whole: the group takes in no more than what there is room for once more. */
static enum err group_fit(struct log_cleaning *cleaning)
{
    struct fs_space space = {0};
    uint64_t room = 0;

    if (fs_space(cleaning->log->env->fs, cleaning->log->dir, &space) != ERR_OK)
        return ERR_OK; /* the writes will say */
    room = space.free_bytes < CLEAN_LEAVES_BYTES ? 0 : space.free_bytes - CLEAN_LEAVES_BYTES;
    while (group_bytes(cleaning) > room) {
        if (cleaning->group_end == cleaning->group_first + 1)
            return ERR_NO_SPACE;
        cleaning->group_end--;
    }
    return ERR_OK;
}

static enum err out_open(struct log_cleaning *cleaning)
{
    struct log_path path;
    int64_t base_offset = cleaning->sources[cleaning->group_first].base_offset;
    uint32_t stale = 0;
    enum err err = group_fit(cleaning);

    if (err != ERR_OK)
        return err;
    (void)cleaner_take_aborted(cleaning->cleaner, &stale); /* of a group that was begun anew */
    if (cleaning->buffer == NULL)
        cleaning->buffer = mem_alloc(cleaning->op->buffer_bytes);
    cleaning->made = mem_alloc(sizeof(*cleaning->made));
    if (cleaning->buffer == NULL || cleaning->made == NULL)
        return ERR_NOMEM;
    segment_init(cleaning->made, base_offset, cleaning->sources[cleaning->group_end - 1].mtime_ms);
    cleaning->buffered = 0;
    cleaning->written = 0;
    cleaning->pushed = 0;
    cleaning->changed = cleaning->group_end - cleaning->group_first > 1;
    path_of(cleaning, base_offset, SEGMENT_LOG, SUFFIX_CLEANED, &path);
    return fs_open(cleaning->log->env->fs, path.text, FS_READ | FS_WRITE | FS_CREATE | FS_TRUNCATE, &cleaning->out);
}

static enum err batch_keep(struct log_cleaning *cleaning, struct bytes kept)
{
    struct batch_header head;

    batch_header_read(kept.data, &head);
    if (cleaner_was_unopened(cleaning->cleaner))
        head.max_timestamp = -1;
    if (cleaning->made->size + kept.size > SEGMENT_BYTES_MAX)
        return ERR_DAMAGED; /* built anew it has grown over what a segment may be */
    segment_book(cleaning->made, &head, cleaning->made->size, cleaning->config.index_interval_bytes);
    return batch_write(cleaning, kept);
}

static enum err filter(struct log_cleaning *cleaning)
{
    enum err err = cleaning->out == NULL ? out_open(cleaning) : ERR_OK;

    if (err == ERR_OK)
        err = source_open(cleaning);
    while (err == ERR_OK && cleaning->slice_bytes < CLEAN_SLICE_BYTES) {
        struct batch_header head;
        struct bytes batch;
        struct bytes kept;

        err = batch_read(cleaning, &head, &batch);
        if (err == ERR_OK)
            err = cleaner_filter_batch(cleaning->cleaner, batch, &kept);
        if (err != ERR_OK)
            break;
        cleaning->op->bytes_read += batch.size;
        cleaning->changed |= kept.data != batch.data;
        if (kept.data != NULL)
            err = batch_keep(cleaning, kept);
    }
    return err == ERR_OK ? ERR_OK : source_end(cleaning, err);
}

/* --- the new files --- */

static enum err sync_out(struct fs_file *file)
{
    return fs_sync(file) == ERR_OK ? ERR_OK : ERR_IO;
}

static enum err index_write(struct log_cleaning *cleaning, const char *suffix, struct bytes content)
{
    struct log_path path;
    struct fs_file *file = NULL;
    size_t written = 0;
    enum err err = ERR_OK;

    path_of(cleaning, cleaning->made->base_offset, suffix, SUFFIX_CLEANED, &path);
    err = fs_open(cleaning->log->env->fs, path.text, FS_WRITE | FS_CREATE | FS_TRUNCATE, &file);
    if (err == ERR_OK && content.size > 0)
        err = fs_write(file, 0, &content, 1, &written);
    if (err == ERR_OK && written < content.size)
        err = ERR_NO_SPACE;
    if (err == ERR_OK)
        err = sync_out(file);
    fs_file_drop(file);
    return err;
}

static enum err indexes_write(struct log_cleaning *cleaning)
{
    const struct segment *made = cleaning->made;
    size_t offsets_bytes = (size_t)made->offsets.count * OFFSET_INDEX_ENTRY_BYTES;
    size_t times_bytes = (size_t)made->times.count * TIME_INDEX_ENTRY_BYTES;
    uint8_t *bytes = mem_alloc(offsets_bytes + times_bytes + 1);
    enum err err = ERR_OK;

    if (bytes == NULL)
        return ERR_NOMEM;
    offset_index_format(&made->offsets, 0, bytes);
    time_index_format(&made->times, 0, bytes + offsets_bytes);
    err = index_write(cleaning, SEGMENT_INDEX, bytes_of(bytes, offsets_bytes));
    if (err == ERR_OK)
        err = index_write(cleaning, SEGMENT_TIME_INDEX, bytes_of(bytes + offsets_bytes, times_bytes));
    mem_free(bytes);
    return err;
}

static enum err aborted_write(struct log_cleaning *cleaning)
{
    struct txn_index index = {0};
    uint32_t count = 0;
    const struct cleaner_aborted *aborted = cleaner_take_aborted(cleaning->cleaner, &count);
    uint8_t *bytes = NULL;
    enum err err = ERR_OK;

    if (count == 0)
        return ERR_OK;
    err = txn_index_reserve(&index, count);
    if (err == ERR_OK)
        err = segment_aborted_found(cleaning->made);
    bytes = mem_alloc((size_t)count * TXN_INDEX_ENTRY_BYTES);
    if (bytes == NULL)
        err = ERR_NOMEM;
    if (err == ERR_OK) {
        for (uint32_t i = 0; i < count; i++)
            txn_index_add(&index, &(struct txn_index_entry){aborted[i].producer_id, aborted[i].first_offset,
                                                            aborted[i].last_offset, aborted[i].last_stable_offset});
        txn_index_format(&index, 0, bytes);
        err = index_write(cleaning, SEGMENT_TXN_INDEX, bytes_of(bytes, (size_t)count * TXN_INDEX_ENTRY_BYTES));
    }
    mem_free(bytes);
    txn_index_deinit(&index);
    return err;
}

static enum err finish(struct log_cleaning *cleaning)
{
    enum err err = ERR_OK;

    if (!cleaning->changed)
        return ERR_OK;
    err = buffer_flush(cleaning);
    if (err != ERR_OK)
        return err;
    segment_seal_times(cleaning->made);
    err = indexes_write(cleaning);
    if (err == ERR_OK)
        err = aborted_write(cleaning);
    if (err == ERR_OK)
        err = fs_set_mtime(cleaning->out, cleaning->sources[cleaning->group_end - 1].mtime_ms);
    if (err == ERR_OK)
        err = sync_out(cleaning->out);
    fs_file_drop(cleaning->out);
    cleaning->out = NULL;
    segment_drop_indexes(cleaning->made);
    cleaning->made->settled = true;
    cleaning->op->bytes_written += cleaning->made->size;
    return err;
}

/* NOT_FOUND: there are no aborted transactions. */
static enum err file_rename(const struct log_cleaning *cleaning, const char *suffix, const char *from, const char *to)
{
    struct log_path old;
    struct log_path new;
    enum err err = ERR_OK;

    path_of(cleaning, cleaning->sources[cleaning->group_first].base_offset, suffix, from, &old);
    path_of(cleaning, cleaning->sources[cleaning->group_first].base_offset, suffix, to, &new);
    err = fs_rename(cleaning->log->env->fs, old.text, new.text);
    return err == ERR_NOT_FOUND ? ERR_OK : err;
}

static enum err swap(struct log_cleaning *cleaning)
{
    enum err err = ERR_OK;

    for (uint32_t i = 0; i < GROUP_FILES && err == ERR_OK; i++)
        err = file_rename(cleaning, suffixes[i], SUFFIX_CLEANED, SUFFIX_SWAP);
    if (err == ERR_OK && fs_sync_dir(cleaning->log->env->fs, cleaning->log->dir) != ERR_OK)
        err = ERR_IO;
    return err;
}

static enum err file_remove(const struct log_cleaning *cleaning, const char *suffix, const char *more)
{
    struct log_path path;
    enum err err = ERR_OK;

    path_of(cleaning, cleaning->sources[cleaning->group_first].base_offset, suffix, more, &path);
    err = fs_unlink(cleaning->log->env->fs, path.text);
    return err == ERR_NOT_FOUND ? ERR_OK : err;
}

/* A .log.cleaned says that no .swap from there on counts, so it is made first and goes last. */
static enum err discard(struct log_cleaning *cleaning)
{
    enum err err = ERR_OK;

    clean_io_close(cleaning);
    err = file_rename(cleaning, SEGMENT_LOG, SUFFIX_SWAP, SUFFIX_CLEANED);
    for (uint32_t i = GROUP_FILES; i > 1 && err == ERR_OK; i--) {
        err = file_remove(cleaning, suffixes[i - 1], SUFFIX_SWAP);
        if (err == ERR_OK)
            err = file_remove(cleaning, suffixes[i - 1], SUFFIX_CLEANED);
    }
    if (err == ERR_OK)
        err = file_remove(cleaning, SEGMENT_LOG, SUFFIX_CLEANED);
    return err;
}

/* --- one slice --- */

void clean_io_run(struct log_cleaning *cleaning)
{
    cleaning->slice_bytes = 0;
    cleaning->source_is_done = false;
    switch (cleaning->stage) {
    case CLEAN_PREPARE:
        cleaning->err = prepare(cleaning);
        return;
    case CLEAN_MAP:
        cleaning->err = map(cleaning);
        return;
    case CLEAN_FILTER:
        cleaning->err = filter(cleaning);
        return;
    case CLEAN_FINISH:
        cleaning->err = finish(cleaning);
        return;
    case CLEAN_SWAP:
        cleaning->err = swap(cleaning);
        return;
    case CLEAN_DISCARD:
        cleaning->err = discard(cleaning);
        return;
    case CLEAN_REPLACE:
        break;
    }
    assert_never("a stage without a job");
}

void clean_io_close(struct log_cleaning *cleaning)
{
    source_close(cleaning);
    fs_file_drop(cleaning->out);
    cleaning->out = NULL;
    if (cleaning->made != NULL) {
        segment_deinit(cleaning->made);
        mem_free(cleaning->made);
        cleaning->made = NULL;
    }
}
