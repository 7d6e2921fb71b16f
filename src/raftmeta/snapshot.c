#include "raftmeta/snapshot.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/assert.h"
#include "base/mem.h"
#include "protocol/batch.h"
#include "raftmeta/image_records.h"
#include "raftmeta/metadata_limits.h"

static const char suffix[] = ".checkpoint";

void snapshot_name(struct snapshot_id id, char name[SNAPSHOT_NAME_CHARS_MAX])
{
    (void)snprintf(name, SNAPSHOT_NAME_CHARS_MAX, "%020" PRId64 "-%010" PRId32 "%s", id.end_offset, id.epoch, suffix);
}

/* Exactly count digits, then what must follow; false otherwise. */
static bool take_digits(const char **at, uint32_t count, char then, int64_t *value)
{
    *value = 0;
    for (uint32_t i = 0; i < count; i++, (*at)++) {
        if (**at < '0' || **at > '9' || *value > (INT64_MAX - 9) / 10)
            return false;
        *value = *value * 10 + (**at - '0');
    }
    return *(*at)++ == then;
}

bool snapshot_parse_name(const char *name, struct snapshot_id *id)
{
    int64_t epoch = 0;

    if (!take_digits(&name, 20, '-', &id->end_offset) || !take_digits(&name, 10, '.', &epoch) || epoch > INT32_MAX)
        return false;
    id->epoch = (int32_t)epoch;
    return strcmp(name - 1, suffix) == 0;
}

/* Snapshots of one directory, and what a crash left of unfinished ones. */
struct found {
    struct snapshot_id *ids;
    uint32_t count, room;
    char leftover[256]; /* one unfinished file; "" when there is none */
};

static enum err look(void *context, const char *name, bool is_directory)
{
    struct found *found = context;
    struct snapshot_id id;

    if (is_directory)
        return ERR_OK;
    if (strstr(name, ".checkpoint.part") != NULL || strstr(name, ".checkpoint.deleted") != NULL)
        (void)snprintf(found->leftover, sizeof(found->leftover), "%s", name);
    if (!snapshot_parse_name(name, &id))
        return ERR_OK;
    if (mem_grow(&found->ids, &found->room, found->count + 1, 8, sizeof(*found->ids)) != ERR_OK)
        return ERR_NOMEM;
    found->ids[found->count++] = id;
    return ERR_OK;
}

static int by_id(const void *a, const void *b)
{
    const struct snapshot_id *x = a;
    const struct snapshot_id *y = b;

    if (x->end_offset != y->end_offset)
        return x->end_offset < y->end_offset ? -1 : 1;
    return (x->epoch > y->epoch) - (x->epoch < y->epoch);
}

static enum err find_all(struct fs *fs, const char *dir, struct found *found)
{
    enum err err = ERR_OK;

    memset(found, 0, sizeof(*found));
    err = fs_list(fs, dir, look, found);
    if (err == ERR_OK && found->count > 0)
        qsort(found->ids, found->count, sizeof(*found->ids), by_id);
    return err;
}

enum err snapshot_find(struct fs *fs, const char *dir, struct snapshot_id *id)
{
    struct found found;
    enum err err = find_all(fs, dir, &found);

    if (err == ERR_OK && found.count == 0)
        err = ERR_NOT_FOUND;
    if (err == ERR_OK)
        *id = found.ids[found.count - 1];
    mem_free(found.ids);
    return err;
}

static enum err remove_named(struct fs *fs, const char *dir, const char *name)
{
    char path[SNAPSHOT_PATH_CHARS_MAX];

    if ((size_t)snprintf(path, sizeof(path), "%s/%s", dir, name) >= sizeof(path))
        return ERR_LIMIT;
    return fs_unlink(fs, path);
}

enum err snapshot_clean(struct fs *fs, const char *dir, uint32_t keep)
{
    struct found found;
    enum err err = ERR_OK;

    do { /* a directory is not changed while it is listed */
        err = find_all(fs, dir, &found);
        if (err == ERR_OK && found.leftover[0] != 0)
            err = remove_named(fs, dir, found.leftover);
        else if (err == ERR_OK)
            break;
        mem_free(found.ids);
    } while (err == ERR_OK);
    for (uint32_t i = 0; err == ERR_OK && i + keep < found.count; i++) {
        char name[SNAPSHOT_NAME_CHARS_MAX];

        if (found.ids[i].end_offset == 0)
            continue;
        snapshot_name(found.ids[i], name);
        err = remove_named(fs, dir, name);
    }
    mem_free(found.ids);
    return err;
}

/* --- reading --- */

static enum err read_file(struct fs *fs, const char *path, uint8_t **data, size_t *size)
{
    struct fs_file *file = NULL;
    uint64_t wanted = 0;
    enum err err = fs_open(fs, path, FS_READ, &file);

    *data = NULL;
    *size = 0;
    if (err != ERR_OK)
        return err;
    err = fs_size(file, &wanted);
    if (err == ERR_OK && wanted > SNAPSHOT_BYTES_MAX)
        err = ERR_LIMIT;
    if (err != ERR_OK)
        goto out;
    *data = mem_alloc((size_t)wanted + 1);
    err = *data == NULL ? ERR_NOMEM : fs_read(file, 0, *data, (size_t)wanted, size);
out:
    fs_file_drop(file);
    return err;
}

static enum err damaged(struct loader *loader, const char *path, size_t position, const char *what)
{
    (void)snprintf(loader->message, sizeof(loader->message), "%s at position %zu: %s", path, position, what);
    return ERR_DAMAGED;
}

enum err snapshot_load(struct fs *fs, const char *path, int64_t as_offset, struct loader *loader)
{
    uint8_t *data = NULL;
    size_t size = 0;
    size_t position = 0;
    enum err err = read_file(fs, path, &data, &size);

    while (err == ERR_OK && position < size) {
        struct batch_header header;
        struct bytes batch;

        if (batch_peek(bytes_of(data + position, size - position), &header, NULL) != ERR_OK) {
            err = damaged(loader, path, position, "no whole batch");
            break;
        }
        batch = bytes_of(data + position, header.size);
        if (!batch_crc_is_valid(batch)) {
            err = damaged(loader, path, position, "the checksum is wrong");
            break;
        }
        err = loader_batch(loader, batch, as_offset);
        position += header.size;
    }
    if (err == ERR_OK)
        err = loader_flush(loader);
    mem_free(data);
    return err;
}

/* --- writing --- */

struct writer {
    struct fs_file *file;
    uint64_t position;
    struct batch_builder builder;
    int64_t next_offset; /* counted from 0 within the file */
    const struct snapshot_source *source;
};

static void begin_batch(struct writer *writer, bool control)
{
    struct batch_spec spec;

    batch_spec_init(&spec);
    spec.base_offset = writer->next_offset;
    spec.leader_epoch = writer->source->epoch;
    spec.control = control;
    spec.size_max = METADATA_BATCH_BYTES_MAX;
    batch_builder_reset(&writer->builder, &spec);
}

static enum err end_batch(struct writer *writer)
{
    uint8_t *batch = NULL;
    size_t size = 0;
    size_t written = 0;
    struct bytes piece;
    enum err err = ERR_OK;

    if (writer->builder.record_count == 0)
        return ERR_OK;
    err = batch_builder_finish(&writer->builder, &batch, &size);
    if (err != ERR_OK)
        return err;
    piece = bytes_of(batch, size);
    err = fs_write(writer->file, writer->position, &piece, 1, &written);
    if (err == ERR_OK && written < size)
        err = ERR_NO_SPACE;
    writer->position += written;
    writer->next_offset += writer->builder.record_count;
    return err;
}

static enum err write_frame(void *context, struct bytes frame)
{
    struct writer *writer = context;
    struct bytes no_key = {NULL, 0};
    enum err err = ERR_OK;

    if (writer->builder.record_count >= SNAPSHOT_BATCH_RECORDS_MAX) {
        err = end_batch(writer);
        begin_batch(writer, false);
    }
    if (err == ERR_OK)
        err = batch_builder_append(&writer->builder, writer->source->now_ms, no_key, frame, NULL, 0);
    if (err != ERR_MESSAGE_TOO_LARGE)
        return err;
    err = end_batch(writer);
    begin_batch(writer, false);
    return err == ERR_OK ? batch_builder_append(&writer->builder, writer->source->now_ms, no_key, frame, NULL, 0) : err;
}

/* Levels only: all other kinds are left out. */
static enum err write_level(void *context, struct bytes frame)
{
    return frame.size > 1 && frame.data[1] == RECORD_FEATURE_LEVEL ? write_frame(context, frame) : ERR_OK;
}

static enum err write_all(struct writer *writer)
{
    const struct snapshot_source *source = writer->source;
    enum err err = ERR_OK;

    begin_batch(writer, true);
    err = control_add_snapshot_header(&writer->builder, source->now_ms, source->last_ms);
    if (err == ERR_OK && source->voters != NULL)
        err = control_add_kraft_version(&writer->builder, source->now_ms, source->kraft_version);
    if (err == ERR_OK && source->voters != NULL)
        err = control_add_voters(&writer->builder, source->now_ms, source->voters);
    if (err == ERR_OK)
        err = end_batch(writer);
    begin_batch(writer, false);
    if (err == ERR_OK && source->image != NULL)
        err = image_each_frame(source->image, source->features_only ? write_level : write_frame, writer);
    if (err == ERR_OK)
        err = end_batch(writer);
    begin_batch(writer, true);
    if (err == ERR_OK)
        err = control_add_snapshot_footer(&writer->builder, source->now_ms);
    return err == ERR_OK ? end_batch(writer) : err;
}

static enum err sync_parent(struct fs *fs, const char *path)
{
    char parent[SNAPSHOT_PATH_CHARS_MAX];
    char *slash = NULL;

    (void)snprintf(parent, sizeof(parent), "%s", path);
    slash = strrchr(parent, '/');
    if (slash == NULL)
        return fs_sync_dir(fs, ".");
    slash[slash == parent] = 0; /* of "/x": "/" */
    return fs_sync_dir(fs, parent);
}

enum err snapshot_write(struct fs *fs, const char *path, const struct snapshot_source *source)
{
    struct writer writer = {.source = source};
    struct batch_spec spec;
    char part[SNAPSHOT_PATH_CHARS_MAX];
    enum err err = ERR_OK;

    if ((size_t)snprintf(part, sizeof(part), "%s.part", path) >= sizeof(part))
        return ERR_LIMIT;
    err = fs_open(fs, part, FS_WRITE | FS_CREATE | FS_TRUNCATE, &writer.file);
    if (err != ERR_OK)
        return err;
    batch_spec_init(&spec);
    batch_builder_init(&writer.builder, &spec);
    err = write_all(&writer);
    if (err == ERR_OK)
        err = fs_sync(writer.file);
    fs_file_drop(writer.file);
    batch_builder_deinit(&writer.builder);
    if (err == ERR_OK)
        err = fs_rename(fs, part, path);
    if (err == ERR_OK && !source->unnamed)
        err = sync_parent(fs, path);
    if (err != ERR_OK)
        (void)!fs_unlink(fs, part); /* what stays is removed by the next clean-up */
    return err;
}
