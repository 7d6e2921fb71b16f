#include "partition/log_dir.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/assert.h"
#include "base/map.h"
#include "base/mem.h"
#include "partition/bare_dir.h"
#include "partition/checkpoint.h"
#include "partition/text_file.h"

#define LOCK_FILE      ".lock"
#define META_FILE      "meta.properties"
#define CLEAN_FILE     ".kafka_cleanshutdown"
#define METADATA_TOPIC "__cluster_metadata"
#define TOPIC_ID_FILE  "partition.metadata"
#define REMOTE_CACHE   "remote-log-index-cache"

enum { SMALL_FILE_BYTES_MAX = 64 * 1024, DIR_PARTITIONS_MAX = 1 << 20 };

struct log_dir {
    struct fs *fs;
    struct log *log;
    char *path;
    struct fs_file *lock;
};

static const char *const checkpoint_names[LOG_DIR_CHECKPOINTS] = {
    [LOG_DIR_RECOVERY_POINT] = "recovery-point-offset-checkpoint",
    [LOG_DIR_START_OFFSET] = "log-start-offset-checkpoint",
    [LOG_DIR_HIGH_WATERMARK] = "replication-offset-checkpoint",
    [LOG_DIR_CLEANED_OFFSET] = "cleaner-offset-checkpoint",
};

/* --- the directory --- */

/* The name must outlive a power cut as what lies under it does; also that of a directory which a run that was killed
 * made. A parent that we may not open is none of our business. */
static enum err sync_name(struct fs *fs, const char *path)
{
    struct log_path parent;
    const char *slash = strrchr(path, '/');
    enum err err = ERR_OK;

    (void)snprintf(parent.text, sizeof(parent.text), "%.*s",
                   slash == NULL   ? 1
                   : slash == path ? 1
                                   : (int)(slash - path),
                   slash == NULL ? "." : path);
    err = fs_sync_dir(fs, parent.text);
    return err == ERR_PERMISSION ? ERR_OK : err;
}

static enum err make_with_parents(struct fs *fs, const char *path)
{
    struct log_path part;
    enum err err = ERR_OK;
    size_t size = strlen(path);

    while (size > 1 && path[size - 1] == '/')
        size--;
    if (size == 0 || size >= sizeof(part.text))
        return ERR_LIMIT;
    memcpy(part.text, path, size);
    part.text[size] = '\0';
    for (size_t i = 1; i <= size; i++) {
        if (part.text[i] != '/' && part.text[i] != '\0')
            continue;
        part.text[i] = '\0';
        err = fs_mkdir(fs, part.text);
        if (err != ERR_OK && err != ERR_EXISTS) {
            struct fs_info info;

            /* A parent that is there but may not be written to is none of our business. */
            if (fs_stat(fs, part.text, &info) != ERR_OK || !info.is_directory)
                return err;
        }
        if (err == ERR_OK || i == size) {
            err = sync_name(fs, part.text);
            if (err != ERR_OK)
                return err;
        }
        part.text[i] = path[i];
    }
    return ERR_OK;
}

enum err log_dir_open(struct fs *fs, struct log *log, const char *path, struct log_dir **dir)
{
    struct log_dir *made = mem_calloc(1, sizeof(*made));
    struct log_path lock;
    enum err err = ERR_OK;

    if (made == NULL)
        return ERR_NOMEM;
    made->fs = fs;
    made->log = log;
    made->path = mem_copy_text(path, strlen(path));
    if (made->path == NULL)
        err = ERR_NOMEM;
    if (err == ERR_OK)
        err = make_with_parents(fs, path);
    if (err == ERR_OK)
        err = log_path_in(&lock, path, LOCK_FILE);
    if (err == ERR_OK)
        err = fs_lock(fs, lock.text, &made->lock);
    if (err != ERR_OK) {
        log_dir_close(made);
        return err;
    }
    *dir = made;
    return ERR_OK;
}

void log_dir_close(struct log_dir *dir)
{
    if (dir == NULL)
        return;
    fs_file_drop(dir->lock);
    mem_free(dir->path);
    mem_free(dir);
}

const char *log_dir_path(const struct log_dir *dir)
{
    return dir->path;
}

bool log_dir_sync_all_tells(const struct log_dir *dir)
{
    return fs_sync_all_tells(dir->lock);
}

enum err log_dir_sync_all(struct log_dir *dir)
{
    return fs_sync_all(dir->lock) == ERR_OK ? ERR_OK : ERR_IO;
}

enum err log_dir_open_to_sync(struct log_dir *dir, struct fs_file **file)
{
    struct log_path path;
    enum err err = log_path_in(&path, dir->path, LOCK_FILE);

    return err == ERR_OK ? fs_open(dir->fs, path.text, FS_READ, file) : err;
}

/* --- meta.properties --- */

static bool property(struct bytes line, const char *key, struct bytes *value)
{
    struct bytes name;
    const uint8_t *equals = line.size == 0 ? NULL : memchr(line.data, '=', line.size);

    if (equals == NULL || line.data[0] == '#')
        return false;
    name = bytes_of(line.data, (size_t)(equals - line.data));
    if (!bytes_equal(name, bytes_of_text(key)))
        return false;
    *value = bytes_of(equals + 1, line.size - name.size - 1);
    return true;
}

static enum err meta_parse(struct bytes rest, struct log_dir_meta *meta)
{
    struct bytes line;
    struct bytes value;
    int64_t version = 0;
    int64_t node_id = -1;
    bool seen_cluster = false;

    *meta = (struct log_dir_meta){.node_id = -1};
    while (text_next_line(&rest, &line)) {
        if (property(line, "version", &value)) {
            if (!text_parse_i64(value, &version))
                return ERR_DAMAGED;
        } else if (property(line, "cluster.id", &value)) {
            if (value.size == 0 || value.size > LOG_DIR_CLUSTER_ID_BYTES_MAX)
                return ERR_DAMAGED;
            memcpy(meta->cluster_id, value.data, value.size);
            seen_cluster = true;
        } else if (property(line, "node.id", &value)) {
            if (!text_parse_i64(value, &node_id) || node_id < 0 || node_id > INT32_MAX)
                return ERR_DAMAGED;
        } else if (property(line, "directory.id", &value)) {
            if (uuid_parse(value, &meta->directory_id) != ERR_OK)
                return ERR_DAMAGED;
        }
    }
    meta->node_id = (int32_t)node_id;
    return version == 1 && seen_cluster && node_id >= 0 ? ERR_OK : ERR_DAMAGED;
}

enum err log_dir_read_meta_at(struct fs *fs, const char *path, struct log_dir_meta *meta)
{
    struct text text;
    enum err err = text_file_read(fs, path, META_FILE, SMALL_FILE_BYTES_MAX, &text);

    if (err != ERR_OK)
        return err == ERR_LIMIT ? ERR_DAMAGED : err;
    err = meta_parse(bytes_of(text.data, text.size), meta);
    text_deinit(&text);
    return err;
}

enum err log_dir_read_meta(struct log_dir *dir, struct log_dir_meta *meta)
{
    return log_dir_read_meta_at(dir->fs, dir->path, meta);
}

enum err log_dir_write_meta(struct log_dir *dir, const struct log_dir_meta *meta)
{
    struct text text = {0};
    enum err err = ERR_OK;

    text_add(&text, "#\ncluster.id=%s\ndirectory.id=%s\nnode.id=%" PRId32 "\nversion=1\n", meta->cluster_id,
             uuid_format(meta->directory_id).text, meta->node_id);
    err = text.failed ? ERR_NOMEM : text_file_replace(dir->fs, dir->path, META_FILE, bytes_of(text.data, text.size));
    text_deinit(&text);
    return err;
}

/* --- the mark of a clean stop --- */

/* The one number in {"version":0,"brokerEpoch":N}; -1 for anything else. Its being there is what counts. */
static int64_t clean_epoch(struct bytes content)
{
    static const struct bytes key = {(const uint8_t *)"\"brokerEpoch\"", sizeof("\"brokerEpoch\"") - 1};
    const uint8_t *at = content.size == 0 ? NULL : memmem(content.data, content.size, key.data, key.size);
    struct bytes rest;
    size_t digits = 0;
    int64_t epoch = -1;

    if (at == NULL)
        return -1;
    rest = bytes_of(at + key.size, content.size - (size_t)(at + key.size - content.data));
    while (rest.size > 0 && (rest.data[0] == ':' || rest.data[0] == ' '))
        rest = bytes_of(rest.data + 1, rest.size - 1);
    while (digits < rest.size && byte_is_digit(rest.data[digits]))
        digits++;
    return text_parse_i64(bytes_of(rest.data, digits), &epoch) ? epoch : -1;
}

enum err log_dir_take_clean_mark(struct log_dir *dir, bool *clean, int64_t *broker_epoch)
{
    struct text text;
    struct log_path path;
    enum err err = text_file_read(dir->fs, dir->path, CLEAN_FILE, SMALL_FILE_BYTES_MAX, &text);

    *clean = false;
    *broker_epoch = -1;
    if (err == ERR_NOT_FOUND)
        return ERR_OK;
    if (err != ERR_OK)
        return err;
    *broker_epoch = clean_epoch(bytes_of(text.data, text.size));
    text_deinit(&text);
    err = log_path_in(&path, dir->path, CLEAN_FILE);
    if (err == ERR_OK)
        err = fs_unlink(dir->fs, path.text);
    /* Certain to be gone before anything is written: a crash later must count as one. */
    if (err == ERR_OK)
        err = fs_sync_dir(dir->fs, dir->path);
    *clean = err == ERR_OK;
    return err;
}

enum err log_dir_has_clean_mark(struct log_dir *dir, bool *there)
{
    struct log_path path;
    struct fs_info info;
    enum err err = log_path_in(&path, dir->path, CLEAN_FILE);

    if (err == ERR_OK)
        err = fs_stat(dir->fs, path.text, &info);
    *there = err == ERR_OK;
    return err == ERR_NOT_FOUND ? ERR_OK : err;
}

enum err log_dir_put_clean_mark(struct log_dir *dir, int64_t broker_epoch)
{
    struct text text = {0};
    enum err err = ERR_OK;

    text_add(&text, "{\"version\":0,\"brokerEpoch\":%" PRId64 "}", broker_epoch);
    err = text.failed ? ERR_NOMEM : text_file_replace(dir->fs, dir->path, CLEAN_FILE, bytes_of(text.data, text.size));
    text_deinit(&text);
    return err;
}

/* --- the partitions --- */

struct listing {
    struct log_dir *dir;
    struct log_dir_list *list;
    uint32_t room;
};

/* INT64_MIN: not known. */
static int64_t written_ms(struct fs *fs, const char *dir, const char *name)
{
    struct log_path path;
    struct fs_info info = {0};

    return log_path_in(&path, dir, name) == ERR_OK && fs_stat(fs, path.text, &info) == ERR_OK ? info.mtime_ms
                                                                                              : INT64_MIN;
}

static enum err list_add(struct listing *listing, const char *name, struct bytes topic, int32_t index, bool is_copy)
{
    struct log_dir_list *list = listing->list;
    struct log_dir_partition *partition = NULL;
    struct log_path path;
    enum err err = ERR_OK;

    if (list->count == DIR_PARTITIONS_MAX)
        return ERR_LIMIT;
    err = mem_grow(&list->partitions, &listing->room, list->count + 1, 64, sizeof(*list->partitions));
    if (err != ERR_OK)
        return err;
    partition = &list->partitions[list->count];
    *partition = (struct log_dir_partition){.index = index};
    partition->topic = mem_copy_text(topic.data, topic.size);
    if (is_copy)
        partition->copy = mem_copy_text(name, strlen(name));
    list->count++;
    if (partition->topic == NULL || (is_copy && partition->copy == NULL))
        return ERR_NOMEM;
    err = log_path_in(&path, listing->dir->path, name);
    if (err == ERR_OK)
        partition->made_ms = written_ms(listing->dir->fs, path.text, TOPIC_ID_FILE);
    if (err == ERR_OK)
        err = checkpoint_read_topic_id(listing->dir->fs, path.text, &partition->topic_id);
    if (err == ERR_NOT_FOUND || err == ERR_DAMAGED) {
        partition->topic_id = (struct uuid){{0}};
        partition->is_bare = bare_dir_is(listing->dir->fs, path.text);
        err = ERR_OK;
    }
    return err;
}

static enum err remove_entry(void *context, const char *name, bool is_directory)
{
    struct log_path *dir = ((void **)context)[0];
    struct fs *fs = ((void **)context)[1];
    struct log_path path;
    enum err err = log_path_in(&path, dir->text, name);

    if (err != ERR_OK)
        return err;
    return is_directory ? fs_rmdir(fs, path.text) : fs_unlink(fs, path.text);
}

static enum err remove_dir(struct log_dir *dir, const char *name)
{
    struct log_path path;
    void *context[] = {&path, dir->fs};
    enum err err = log_path_in(&path, dir->path, name);

    if (err == ERR_OK)
        err = fs_list(dir->fs, path.text, remove_entry, context);
    return err == ERR_OK ? fs_rmdir(dir->fs, path.text) : err;
}

static enum err list_entry(void *context, const char *name, bool is_directory)
{
    struct listing *listing = context;
    struct bytes topic;
    int32_t index = 0;

    if (!is_directory || strcmp(name, REMOTE_CACHE) == 0)
        return ERR_OK;
    switch (log_path_parse_dir(name, &topic, &index)) {
    case LOG_DIR_KIND_PARTITION:
        if (bytes_equal(topic, BYTES_LITERAL(METADATA_TOPIC)))
            return ERR_OK;
        return list_add(listing, name, topic, index, false);
    case LOG_DIR_KIND_DELETE:
        return remove_dir(listing->dir, name);
    case LOG_DIR_KIND_FUTURE:
        return list_add(listing, name, topic, index, true);
    case LOG_DIR_KIND_STRAY:
        return ERR_OK;
    case LOG_DIR_KIND_OTHER:
        break;
    }
    log_error(listing->dir->log, "directory is no partition's: move it away dir=%s/%s", listing->dir->path, name);
    return ERR_DAMAGED;
}

/* Names a partition in one run of bytes: topic, a byte that no topic has, index. */
struct partition_key {
    uint8_t bytes[LOG_NAME_BYTES_MAX + 16];
    size_t size;
};

static struct bytes key_make(struct partition_key *key, struct bytes topic, int32_t index)
{
    int size = snprintf((char *)key->bytes, sizeof(key->bytes), "%.*s/%" PRId32, BYTES_PRINTF(topic), index);

    key->size = size < 0 || (size_t)size >= sizeof(key->bytes) ? 0 : (size_t)size;
    return bytes_of(key->bytes, key->size);
}

static int64_t *offset_of(struct log_dir_partition *partition, enum log_dir_checkpoint which)
{
    switch (which) {
    case LOG_DIR_RECOVERY_POINT:
        return &partition->recovery_point;
    case LOG_DIR_START_OFFSET:
        return &partition->start_offset;
    case LOG_DIR_HIGH_WATERMARK:
        return &partition->high_watermark;
    default:
        assert(which == LOG_DIR_CLEANED_OFFSET);
        return &partition->cleaned_offset;
    }
}

static enum err apply_checkpoint(struct log_dir *dir, const struct map *by_key, enum log_dir_checkpoint which)
{
    struct checkpoint_offsets offsets;
    /* A clean stop writes them for whatever is there. After another one a topic may have gone since they were written,
     * and one of the same name come: what they say is of the earlier one, and would cut the later one, or mark as
     * damaged what was merely never synced. */
    bool is_clean = written_ms(dir->fs, dir->path, CLEAN_FILE) != INT64_MIN;
    int64_t checkpoint_ms = written_ms(dir->fs, dir->path, checkpoint_names[which]);
    enum err err = checkpoint_read_offsets(dir->fs, dir->path, checkpoint_names[which], &offsets);

    if (err == ERR_NOT_FOUND)
        return ERR_OK;
    if (err == ERR_DAMAGED || err == ERR_LIMIT) {
        log_warn(dir->log, "checkpoint not readable, taken as empty dir=%s file=%s", dir->path,
                 checkpoint_names[which]);
        return ERR_OK;
    }
    if (err != ERR_OK)
        return err;
    for (uint32_t i = 0; i < offsets.count; i++) {
        struct partition_key key;
        struct log_dir_partition *partition =
            map_get(by_key, key_make(&key, offsets.entries[i].topic, offsets.entries[i].partition));

        if (partition != NULL && offsets.entries[i].offset >= 0 && (is_clean || partition->made_ms < checkpoint_ms))
            *offset_of(partition, which) = offsets.entries[i].offset;
    }
    checkpoint_offsets_deinit(&offsets);
    return ERR_OK;
}

static enum err apply_checkpoints(struct log_dir *dir, struct log_dir_list *list)
{
    struct map by_key;
    struct partition_key *keys = mem_calloc(list->count, sizeof(keys[0]));
    enum err err = keys == NULL ? ERR_NOMEM : ERR_OK;

    map_init(&by_key, 0, DIR_PARTITIONS_MAX); /* names of directories, which no client can choose by hash */
    for (uint32_t i = 0; i < list->count && err == ERR_OK; i++)
        if (list->partitions[i].copy == NULL)
            err = map_insert(&by_key,
                             key_make(&keys[i], bytes_of_text(list->partitions[i].topic), list->partitions[i].index),
                             &list->partitions[i]);
    for (enum log_dir_checkpoint which = LOG_DIR_RECOVERY_POINT; which < LOG_DIR_CHECKPOINTS && err == ERR_OK; which++)
        err = apply_checkpoint(dir, &by_key, which);
    map_deinit(&by_key);
    mem_free(keys);
    return err;
}

enum err log_dir_list(struct log_dir *dir, struct log_dir_list *list)
{
    struct listing listing = {.dir = dir, .list = list};
    enum err err = ERR_OK;

    *list = (struct log_dir_list){0};
    err = fs_list(dir->fs, dir->path, list_entry, &listing);
    if (err == ERR_OK)
        err = apply_checkpoints(dir, list);
    if (err != ERR_OK)
        log_dir_list_deinit(list);
    return err;
}

void log_dir_list_deinit(struct log_dir_list *list)
{
    for (uint32_t i = 0; i < list->count; i++) {
        mem_free(list->partitions[i].topic);
        mem_free(list->partitions[i].copy);
    }
    mem_free(list->partitions);
    *list = (struct log_dir_list){0};
}

enum err log_dir_discard_copy(struct log_dir *dir, const char *copy, struct log_path *aside)
{
    struct log_path from;
    enum err err = log_path_in(&from, dir->path, copy);

    if (err == ERR_OK)
        err = log_path_in(aside, dir->path, copy);
    if (err == ERR_OK)
        memcpy(strrchr(aside->text, '-'), "-delete", sizeof("-delete")); /* for -future: as long */
    if (err == ERR_OK)
        err = fs_rename(dir->fs, from.text, aside->text);
    return err == ERR_OK ? fs_sync_dir(dir->fs, dir->path) : err;
}

enum err log_dir_set_aside(struct log_dir *dir, struct bytes topic, int32_t index, const uint8_t random[16])
{
    struct log_dir_name name;
    struct log_dir_name aside;
    struct log_path from;
    struct log_path to;
    enum err err = log_path_dir_name(&name, topic, index);

    log_path_aside_name(&aside, topic, index, uuid_from_random(random), "-stray");
    if (err == ERR_OK)
        err = log_path_in(&from, dir->path, name.text);
    if (err == ERR_OK)
        err = log_path_in(&to, dir->path, aside.text);
    if (err == ERR_OK)
        err = fs_rename(dir->fs, from.text, to.text);
    if (err == ERR_OK)
        err = fs_sync_dir(dir->fs, dir->path);
    if (err == ERR_OK)
        log_warn(dir->log, "partition is not ours by metadata, set aside dir=%s", to.text);
    return err;
}

enum err log_dir_write_checkpoint(struct log_dir *dir, enum log_dir_checkpoint which,
                                  const struct checkpoint_offset *entries, uint32_t count)
{
    assert(which < LOG_DIR_CHECKPOINTS);
    return checkpoint_write_offsets(dir->fs, dir->path, checkpoint_names[which], entries, count);
}
