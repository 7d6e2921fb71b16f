#include "partition/txn_file.h"

#include <stdlib.h>

#include "base/mem.h"
#include "partition/batch_scan.h"
#include "partition/log_path.h"
#include "partition/partition_limits.h"
#include "partition/producer_state.h"
#include "partition/segment.h"
#include "partition/text_file.h"

static enum err content_read(struct fs *fs, const char *dir, int64_t offset, const char *suffix, size_t bytes_max,
                             struct text *content)
{
    struct log_path path;

    log_path_segment(&path, dir, offset, suffix);
    return text_file_read(fs, dir, strrchr(path.text, '/') + 1, bytes_max, content);
}

enum err txn_file_read(struct fs *fs, const char *dir, int64_t base_offset, int64_t end_offset, struct txn_index *index)
{
    struct text content = {0};
    enum err err = content_read(fs, dir, base_offset, SEGMENT_TXN_INDEX, LOG_TXN_INDEX_BYTES_MAX, &content);

    if (err == ERR_OK)
        err = txn_index_parse(index, bytes_of(content.data, content.size), base_offset, end_offset);
    text_deinit(&content);
    return err == ERR_LIMIT ? ERR_DAMAGED : err;
}

/* --- from the batches --- */

struct numbers {
    int64_t *items;
    uint32_t count;
    uint32_t room;
};

struct rebuild {
    struct fs *fs;
    const char *dir;
    int64_t base_offset; /* of the segment whose transactions are wanted */
    int64_t end_offset;
    struct numbers logs;
    struct numbers snapshots;
    struct producer_state producers;
    int64_t producers_at;
    struct txn_index *index;
};

static enum err number_add(struct numbers *numbers, int64_t number)
{
    enum err err = mem_grow(&numbers->items, &numbers->room, numbers->count + 1, 8, sizeof(numbers->items[0]));

    if (err == ERR_OK)
        numbers->items[numbers->count++] = number;
    return err;
}

static int number_compare(const void *a, const void *b)
{
    int64_t left = *(const int64_t *)a;
    int64_t right = *(const int64_t *)b;

    return (left > right) - (left < right);
}

static void sort(struct numbers *numbers)
{
    if (numbers->count > 0)
        qsort(numbers->items, numbers->count, sizeof(numbers->items[0]), number_compare);
}

static enum err found_add(void *context, const char *name, bool is_directory)
{
    struct rebuild *rebuild = context;
    const char *suffix = NULL;
    int64_t offset = 0;

    if (is_directory || !log_path_parse_segment(name, &offset, &suffix) || offset > rebuild->base_offset)
        return ERR_OK;
    if (strcmp(suffix, SEGMENT_LOG) == 0)
        return number_add(&rebuild->logs, offset);
    return strcmp(suffix, SEGMENT_SNAPSHOT) == 0 ? number_add(&rebuild->snapshots, offset) : ERR_OK;
}

/* The newest whole snapshot at or below the segment; without any, the log's beginning. */
static enum err producers_read(struct rebuild *rebuild)
{
    for (uint32_t i = rebuild->snapshots.count; i > 0; i--) {
        struct text content = {0};
        enum err err = content_read(rebuild->fs, rebuild->dir, rebuild->snapshots.items[i - 1], SEGMENT_SNAPSHOT,
                                    LOG_SNAPSHOT_BYTES_MAX, &content);

        if (err == ERR_OK)
            err = producer_state_parse(&rebuild->producers, bytes_of(content.data, content.size));
        text_deinit(&content);
        if (err == ERR_OK) {
            rebuild->producers_at = rebuild->snapshots.items[i - 1];
            return ERR_OK;
        }
        if (err != ERR_DAMAGED && err != ERR_NOT_FOUND && err != ERR_LIMIT)
            return err;
    }
    return ERR_OK;
}

static enum err note_batch(struct rebuild *rebuild, const struct batch_header *head, struct bytes batch)
{
    struct producer_txn ended;
    enum err err = producer_state_reserve(&rebuild->producers, head);

    if (err == ERR_OK && batch_has(head, BATCH_CONTROL))
        err = producer_state_reserve_ended(&rebuild->producers, 1);
    if (err == ERR_OK && batch_has(head, BATCH_CONTROL))
        err = txn_index_reserve(rebuild->index, 1);
    if (err != ERR_OK)
        return err;
    if (producer_state_apply(&rebuild->producers, head, batch, &ended) && ended.aborted &&
        head->base_offset >= rebuild->base_offset)
        txn_index_add(rebuild->index, &(struct txn_index_entry){ended.producer_id, ended.first_offset,
                                                                ended.last_offset, ended.stable_offset});
    producer_state_replicated(&rebuild->producers, INT64_MAX);
    return ERR_OK;
}

/* Of one segment, whose offsets end before the next one begins. A batch that does not check is passed over: it is not
 * served either. */
static enum err replay_one(struct rebuild *rebuild, int64_t base_offset, int64_t end_offset)
{
    struct batch_scan scan;
    struct batch_header head;
    struct bytes batch;
    struct fs_file *file = NULL;
    struct log_path path;
    uint64_t size = 0;
    int64_t last = base_offset - 1;
    enum err err = ERR_OK;

    log_path_segment(&path, rebuild->dir, base_offset, SEGMENT_LOG);
    err = fs_open(rebuild->fs, path.text, FS_READ, &file);
    if (err == ERR_OK)
        err = fs_size(file, &size);
    batch_scan_init(&scan, file, 0, size, BATCH_SCAN_BODIES);
    while (err == ERR_OK) {
        err = batch_scan_next(&scan, &head, &batch);
        if (err != ERR_OK || head.base_offset >= end_offset)
            break;
        if (head.base_offset <= last || !batch_crc_is_valid(batch))
            continue;
        if (head.base_offset >= rebuild->producers_at)
            err = note_batch(rebuild, &head, batch);
        last = batch_last_offset(&head);
    }
    batch_scan_deinit(&scan);
    fs_file_drop(file);
    /* Nothing behind what cannot be walked is served; a file that is gone was deleted meanwhile. */
    return err == ERR_END || err == ERR_DAMAGED || err == ERR_NOT_FOUND ? ERR_OK : err;
}

static enum err replay(struct rebuild *rebuild)
{
    enum err err = fs_list(rebuild->fs, rebuild->dir, found_add, rebuild);

    if (err != ERR_OK)
        return err;
    sort(&rebuild->logs);
    sort(&rebuild->snapshots);
    err = producers_read(rebuild);
    for (uint32_t i = 0; i < rebuild->logs.count && err == ERR_OK; i++) {
        if (i + 1 < rebuild->logs.count && rebuild->logs.items[i + 1] <= rebuild->producers_at)
            continue;
        err = replay_one(rebuild, rebuild->logs.items[i],
                         i + 1 < rebuild->logs.count ? rebuild->logs.items[i + 1] : rebuild->end_offset);
    }
    return err;
}

enum err txn_file_load(struct fs *fs, const char *dir, int64_t base_offset, int64_t end_offset, struct txn_index *index,
                       bool *rebuilt)
{
    struct rebuild rebuild = {
        .fs = fs, .dir = dir, .base_offset = base_offset, .end_offset = end_offset, .index = index};
    enum err err = txn_file_read(fs, dir, base_offset, end_offset, index);

    *rebuilt = err == ERR_DAMAGED || err == ERR_NOT_FOUND;
    if (!*rebuilt)
        return err;
    producer_state_init(&rebuild.producers, (uint64_t)base_offset);
    err = replay(&rebuild);
    producer_state_deinit(&rebuild.producers);
    mem_free(rebuild.logs.items);
    mem_free(rebuild.snapshots.items);
    if (err != ERR_OK)
        txn_index_deinit(index);
    return err;
}

/* --- writing --- */

static enum err append(struct fs *fs, const char *path, uint64_t position, struct bytes entries)
{
    struct fs_file *file = NULL;
    uint64_t size = 0;
    size_t written = 0;
    enum err err = fs_open(fs, path, FS_WRITE, &file);

    if (err == ERR_OK)
        err = fs_size(file, &size);
    if (err == ERR_OK && size < position)
        err = ERR_IO; /* entries that were synced are gone */
    if (err == ERR_OK && size > position)
        err = fs_truncate(file, position);
    if (err == ERR_OK && entries.size > 0)
        err = fs_write(file, position, &entries, 1, &written);
    if (err == ERR_OK && written < entries.size)
        err = ERR_NO_SPACE;
    if (err == ERR_OK && fs_sync(file) != ERR_OK)
        err = ERR_IO;
    fs_file_drop(file);
    return err;
}

enum err txn_file_append(struct fs *fs, const char *dir, int64_t base_offset, uint64_t position, struct bytes entries)
{
    struct log_path path;

    log_path_segment(&path, dir, base_offset, SEGMENT_TXN_INDEX);
    return position == 0 ? text_file_replace(fs, dir, strrchr(path.text, '/') + 1, entries)
                         : append(fs, path.text, position, entries);
}

enum err txn_file_remove(struct fs *fs, const char *dir, int64_t base_offset)
{
    struct log_path path;
    enum err err = ERR_OK;

    log_path_segment(&path, dir, base_offset, SEGMENT_TXN_INDEX);
    err = fs_unlink(fs, path.text);
    return err == ERR_NOT_FOUND ? ERR_OK : err;
}

enum err txn_file_cut(struct fs *fs, const char *dir, int64_t base_offset, int64_t offset)
{
    struct txn_index index = {0};
    uint8_t *entries = NULL;
    bool rebuilt = false;
    enum err err = txn_file_read(fs, dir, base_offset, INT64_MAX, &index);

    if (err == ERR_NOT_FOUND)
        return ERR_OK;
    if (err == ERR_DAMAGED)
        err = txn_file_load(fs, dir, base_offset, offset, &index, &rebuilt);
    if (err != ERR_OK)
        goto out;
    txn_index_cut(&index, offset);
    if (index.count == 0) {
        err = txn_file_remove(fs, dir, base_offset);
        goto out;
    }
    entries = mem_alloc((size_t)index.count * TXN_INDEX_ENTRY_BYTES);
    if (entries == NULL) {
        err = ERR_NOMEM;
        goto out;
    }
    txn_index_format(&index, index.written, entries);
    err = txn_file_append(fs, dir, base_offset, (uint64_t)index.written * TXN_INDEX_ENTRY_BYTES,
                          bytes_of(entries, (size_t)(index.count - index.written) * TXN_INDEX_ENTRY_BYTES));
out:
    mem_free(entries);
    txn_index_deinit(&index);
    return err;
}
