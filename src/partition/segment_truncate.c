/* Cutting one segment, and what its indexes say of what goes. It blocks. */
#include "base/assert.h"
#include "partition/log_path.h"
#include "partition/segment.h"
#include "partition/txn_file.h"

static enum err file_sync(struct fs *fs, const char *dir, int64_t base_offset, const char *suffix)
{
    struct log_path path;
    struct fs_file *file = NULL;
    enum err err = ERR_OK;

    log_path_segment(&path, dir, base_offset, suffix);
    err = fs_open(fs, path.text, FS_READ | FS_WRITE, &file);
    if (err == ERR_OK && fs_sync(file) != ERR_OK)
        err = ERR_IO;
    fs_file_drop(file);
    return err == ERR_NOT_FOUND ? ERR_OK : err;
}

/* The index entries of what stays, and the final one of the time index. */
static enum err indexes_settle(struct segment *segment, struct fs *fs, const char *dir, int32_t index_interval_bytes)
{
    enum err err = segment_rewrite_indexes(segment, fs, dir);

    segment_drop_indexes(segment);
    segment_init(segment, segment->base_offset, segment->created_ms);
    if (err == ERR_OK)
        err = segment_load(segment, fs, dir, index_interval_bytes, true);
    if (err == ERR_OK) {
        segment_seal_times(segment);
        err = segment_rewrite_indexes(segment, fs, dir);
    } else if (err == ERR_DAMAGED) {
        err = ERR_OK; /* what was there before: reads will say so */
    }
    if (err == ERR_OK)
        err = file_sync(fs, dir, segment->base_offset, SEGMENT_INDEX);
    return err == ERR_OK ? file_sync(fs, dir, segment->base_offset, SEGMENT_TIME_INDEX) : err;
}

enum err segment_truncate(struct fs *fs, const char *dir, int64_t base_offset, uint64_t size, int64_t end_offset,
                          int32_t index_interval_bytes)
{
    struct segment segment;
    struct fs_file *file = NULL;
    uint64_t size_there = 0;
    struct log_path path;
    uint32_t relative = (uint32_t)(end_offset - base_offset);
    enum err err = ERR_OK;

    assert(end_offset > base_offset && end_offset - base_offset <= UINT32_MAX);
    log_path_segment(&path, dir, base_offset, SEGMENT_LOG);
    err = fs_open(fs, path.text, FS_READ | FS_WRITE, &file);
    if (err == ERR_OK)
        err = fs_size(file, &size_there);
    if (err != ERR_OK) {
        fs_file_drop(file);
        return err;
    }
    assert(size <= size_there);
    segment_init(&segment, base_offset, 0);
    err = segment_read_indexes(fs, dir, base_offset, file, size_there, index_interval_bytes, &segment.offsets,
                               &segment.times);
    if (err == ERR_DAMAGED)
        err = ERR_OK; /* they are made anew when they are wanted */
    if (err == ERR_OK)
        err = txn_file_cut(fs, dir, base_offset, end_offset);
    if (err == ERR_OK)
        err = fs_truncate(file, size);
    if (err == ERR_OK && fs_sync(file) != ERR_OK)
        err = ERR_IO;
    if (err == ERR_OK) {
        segment.indexed = true;
        offset_index_cut(&segment.offsets, relative, size);
        time_index_cut(&segment.times, relative);
        err = indexes_settle(&segment, fs, dir, index_interval_bytes);
    }
    segment_deinit(&segment);
    fs_file_drop(file);
    return err;
}
