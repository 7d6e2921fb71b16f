/* Index entries on their way to the files. */
#include "partition/segment.h"

#include "base/assert.h"
#include "base/mem.h"
#include "partition/log_path.h"
#include "partition/text_file.h"
#include "partition/txn_file.h"

static size_t times_at(const struct segment_index_tail *tail)
{
    return (size_t)tail->offsets_count * OFFSET_INDEX_ENTRY_BYTES;
}

static size_t aborted_at(const struct segment_index_tail *tail)
{
    return times_at(tail) + (size_t)tail->times_count * TIME_INDEX_ENTRY_BYTES;
}

enum err segment_index_tail_take(const struct segment *segment, struct segment_index_tail *tail)
{
    const struct txn_index *aborted = segment->aborted;

    *tail = (struct segment_index_tail){
        .base_offset = segment->base_offset,
        .offsets_first = segment->offsets.written,
        .offsets_count = segment->offsets.count - segment->offsets.written,
        .times_first = segment->times.written,
        .times_count = segment->times.count - segment->times.written,
    };
    if (aborted != NULL && !aborted->absent) {
        tail->aborted_first = aborted->written;
        tail->aborted_count = aborted->count - aborted->written;
    }
    tail->bytes = mem_alloc(aborted_at(tail) + (size_t)tail->aborted_count * TXN_INDEX_ENTRY_BYTES + 1);
    if (tail->bytes == NULL)
        return ERR_NOMEM;
    offset_index_format(&segment->offsets, tail->offsets_first, tail->bytes);
    time_index_format(&segment->times, tail->times_first, tail->bytes + times_at(tail));
    if (tail->aborted_count > 0)
        txn_index_format(aborted, tail->aborted_first, tail->bytes + aborted_at(tail));
    return ERR_OK;
}

/* Also cuts off what a failed write left behind the entries that the file has. */
static enum err aborted_append(struct fs *fs, const char *dir, const struct segment_index_tail *tail)
{
    return txn_file_append(
        fs, dir, tail->base_offset, (uint64_t)tail->aborted_first * TXN_INDEX_ENTRY_BYTES,
        bytes_of(tail->bytes + aborted_at(tail), (size_t)tail->aborted_count * TXN_INDEX_ENTRY_BYTES));
}

/* Appends at position; where the file does not end there (a failed write, an older life), it is cut first. */
static enum err append_at(struct fs *fs, const char *path, uint64_t position, struct bytes content, bool sync)
{
    struct fs_file *file = NULL;
    uint64_t size = 0;
    size_t written = 0;
    enum err err = fs_open(fs, path, FS_WRITE | FS_CREATE, &file);

    if (err != ERR_OK)
        return err;
    err = fs_size(file, &size);
    if (err == ERR_OK && size < position)
        err = ERR_DAMAGED; /* entries that we wrote are gone; it is rebuilt when it is opened next */
    if (err == ERR_OK && size > position)
        err = fs_truncate(file, position);
    if (err == ERR_OK && content.size > 0)
        err = fs_write(file, position, &content, 1, &written);
    if (err == ERR_OK && written < content.size)
        err = ERR_NO_SPACE;
    if (err == ERR_OK && sync && fs_sync(file) != ERR_OK)
        err = ERR_IO;
    fs_file_drop(file);
    return err;
}

enum err segment_index_tail_write(struct fs *fs, const char *dir, const struct segment_index_tail *tail, bool sync)
{
    struct log_path path;
    enum err err = tail->aborted_count > 0 || tail->aborted_trim ? aborted_append(fs, dir, tail) : ERR_OK;

    if (err != ERR_OK)
        return err;
    log_path_segment(&path, dir, tail->base_offset, SEGMENT_INDEX);
    err = append_at(fs, path.text, (uint64_t)tail->offsets_first * OFFSET_INDEX_ENTRY_BYTES,
                    bytes_of(tail->bytes, times_at(tail)), sync);
    if (err != ERR_OK)
        return err;
    log_path_segment(&path, dir, tail->base_offset, SEGMENT_TIME_INDEX);
    return append_at(fs, path.text, (uint64_t)tail->times_first * TIME_INDEX_ENTRY_BYTES,
                     bytes_of(tail->bytes + times_at(tail), (size_t)tail->times_count * TIME_INDEX_ENTRY_BYTES), sync);
}

static enum err replace(struct fs *fs, const char *dir, int64_t base_offset, const char *suffix, struct bytes content)
{
    struct log_path path;

    log_path_segment(&path, dir, base_offset, suffix);
    return text_file_replace_unnamed(fs, dir, strrchr(path.text, '/') + 1, content);
}

enum err segment_index_tail_replace(struct fs *fs, const char *dir, const struct segment_index_tail *tail)
{
    enum err err = tail->aborted_count > 0 || tail->aborted_trim ? aborted_append(fs, dir, tail) : ERR_OK;

    assert(tail->offsets_first == 0 && tail->times_first == 0);
    if (err == ERR_OK)
        err = replace(fs, dir, tail->base_offset, SEGMENT_INDEX, bytes_of(tail->bytes, times_at(tail)));
    if (err == ERR_OK)
        err = replace(fs, dir, tail->base_offset, SEGMENT_TIME_INDEX,
                      bytes_of(tail->bytes + times_at(tail), (size_t)tail->times_count * TIME_INDEX_ENTRY_BYTES));
    return err;
}

void segment_index_tail_done(struct segment *segment, const struct segment_index_tail *tail)
{
    assert(segment->base_offset == tail->base_offset);
    segment->offsets.written = tail->offsets_first + tail->offsets_count;
    segment->times.written = tail->times_first + tail->times_count;
    if (tail->aborted_count > 0)
        segment->aborted->written = tail->aborted_first + tail->aborted_count;
}

void segment_index_tail_deinit(struct segment_index_tail *tail)
{
    mem_free(tail->bytes);
    *tail = (struct segment_index_tail){0};
}
