#include "raftmeta/loader.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/assert.h"
#include "protocol/batch.h"
#include "protocol/record.h"
#include "raftmeta/metadata_limits.h"
#include "raftmeta/metadata_record.h"

void loader_init(struct loader *loader, struct image *image)
{
    memset(loader, 0, sizeof(*loader));
    loader->image = image_keep(image);
    loader->last_offset = -1;
    loader->last_epoch = -1;
    loader->last_timestamp_ms = -1;
    quorum_facts_init(&loader->facts);
    arena_init(&loader->scratch, METADATA_RECORD_ARENA_BYTES_MAX);
}

void loader_deinit(struct loader *loader)
{
    image_edit_drop(loader->edit);
    image_drop(loader->image);
    arena_deinit(&loader->scratch);
}

static enum err fail(struct loader *loader, enum err err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static enum err fail(struct loader *loader, enum err err, const char *format, ...)
{
    va_list list;

    va_start(list, format);
    (void)vsnprintf(loader->message, sizeof(loader->message), format, list);
    va_end(list);
    return err;
}

/* The edit becomes an image that ends at offset. */
static enum err finish(struct loader *loader, int64_t offset)
{
    struct image *image = NULL;
    struct image_delta *delta = NULL;
    enum err err = ERR_OK;

    if (loader->edit == NULL)
        return ERR_OK;
    err = image_edit_finish(loader->edit, offset, loader->last_epoch, loader->last_timestamp_ms, &image, &delta);
    if (err != ERR_OK)
        return fail(loader, err, "metadata up to offset %lld: %s", (long long)offset, image_edit_message(loader->edit));
    loader->edit = NULL;
    image_drop(loader->image);
    loader->image = image;
    if (loader->made != NULL)
        loader->made(loader->context, image, delta);
    image_delta_drop(delta);
    return ERR_OK;
}

void loader_abort(struct loader *loader)
{
    if (!loader->transaction_open)
        return;
    image_edit_drop(loader->edit);
    loader->edit = NULL;
    loader->transaction_open = false;
}

enum err loader_flush(struct loader *loader)
{
    return loader->transaction_open ? ERR_OK : finish(loader, loader->last_offset);
}

static enum err begin_edit(struct loader *loader)
{
    if (loader->edit == NULL)
        loader->edit = image_edit_new(loader->image);
    return loader->edit == NULL ? fail(loader, ERR_NOMEM, "out of memory") : ERR_OK;
}

/* Records that bound a transaction; *done: it was one. A snapshot, whose records are all at one offset, has none. */
static enum err apply_bound(struct loader *loader, const struct metadata_record *record, int64_t offset, bool in_log,
                            bool *done)
{
    *done = record->kind == RECORD_BEGIN_TRANSACTION || record->kind == RECORD_END_TRANSACTION ||
            record->kind == RECORD_ABORT_TRANSACTION;
    if (*done && !in_log)
        return fail(loader, ERR_DAMAGED, "a transaction in a snapshot");
    switch (record->kind) {
    case RECORD_BEGIN_TRANSACTION:
        if (loader->transaction_open)
            return fail(loader, ERR_DAMAGED, "offset %lld: a transaction begins within another", (long long)offset);
        loader->transaction_open = true;
        return finish(loader, offset - 1);
    case RECORD_END_TRANSACTION:
    case RECORD_ABORT_TRANSACTION:
        if (!loader->transaction_open)
            return fail(loader, ERR_DAMAGED, "offset %lld: a transaction ends that did not begin", (long long)offset);
        if (record->kind == RECORD_ABORT_TRANSACTION)
            loader_abort(loader);
        loader->transaction_open = false;
        return ERR_OK;
    default:
        return ERR_OK;
    }
}

static enum err apply_data(struct loader *loader, struct bytes frame, int64_t offset, bool in_log)
{
    struct metadata_record record;
    const char *name = NULL;
    bool done = false;
    enum err err = ERR_OK;

    arena_reset(&loader->scratch);
    err = metadata_record_read(frame, &loader->scratch, &record);
    name = metadata_record_name((uint32_t)record.kind);
    if (err == ERR_UNSUPPORTED_VERSION)
        return fail(loader, err, "offset %lld: record type %d (%s) version %d is not one this build knows",
                    (long long)offset, (int)record.kind, name == NULL ? "unknown" : name, record.version);
    if (err != ERR_OK)
        return fail(loader, err, "offset %lld: record type %d (%s) version %d cannot be read: %s", (long long)offset,
                    (int)record.kind, name == NULL ? "unknown" : name, record.version, err_text(err));
    err = apply_bound(loader, &record, offset, in_log, &done);
    if (err != ERR_OK || done)
        return err;
    err = begin_edit(loader);
    if (err != ERR_OK)
        return err;
    err = image_edit_apply(loader->edit, &record, offset);
    if (err == ERR_NOMEM)
        return fail(loader, err, "offset %lld: out of memory", (long long)offset);
    if (err != ERR_OK)
        return fail(loader, err, "offset %lld: %s", (long long)offset, image_edit_message(loader->edit));
    return ERR_OK;
}

/* kraft.version is a level like any other to readers, though it comes in a record of the quorum's own. */
static enum err apply_control(struct loader *loader, struct bytes key, struct bytes value, int64_t offset)
{
    struct metadata_record record;
    const struct image *view = loader->edit == NULL ? loader->image : image_edit_view(loader->edit);
    enum err err = quorum_facts_read(&loader->facts, key, value);

    if (err != ERR_OK)
        return fail(loader, err, "offset %lld: a control record cannot be read: %s", (long long)offset, err_text(err));
    if (loader->facts.kraft_version == image_feature(view, BYTES_LITERAL("kraft.version")))
        return ERR_OK;
    metadata_record_init(&record, RECORD_FEATURE_LEVEL, 0);
    record.feature_level.name = BYTES_LITERAL("kraft.version");
    record.feature_level.feature_level = loader->facts.kraft_version;
    err = begin_edit(loader);
    return err == ERR_OK ? image_edit_apply(loader->edit, &record, offset) : err;
}

enum err loader_batch(struct loader *loader, struct bytes batch, int64_t as_offset)
{
    struct batch_header header;
    struct record_iter iter;
    struct record record;
    bool in_log = as_offset == LOADER_OWN_OFFSETS;
    bool control = false;
    enum err err = batch_peek(batch, &header, NULL);

    if (err != ERR_OK)
        return fail(loader, ERR_DAMAGED, "a batch behind offset %lld is not whole", (long long)loader->last_offset);
    control = batch_has(&header, BATCH_CONTROL);
    loader->last_epoch = header.leader_epoch;
    loader->last_timestamp_ms = header.max_timestamp;
    err = record_iter_init(&iter, batch, METADATA_BATCH_BYTES_MAX);
    if (err != ERR_OK)
        return fail(loader, err, "out of memory");
    while ((err = record_iter_next(&iter, &record)) == ERR_OK) {
        int64_t offset = in_log ? record.offset : as_offset;

        if (in_log && offset <= loader->last_offset) {
            err = fail(loader, ERR_DAMAGED, "a record at offset %lld comes after offset %lld", (long long)offset,
                       (long long)loader->last_offset);
            goto out;
        }
        err = control ? apply_control(loader, record.key, record.value, offset)
                      : apply_data(loader, record.value, offset, in_log);
        if (err != ERR_OK)
            goto out;
        loader->last_offset = offset;
    }
    if (err != ERR_END) {
        err = fail(loader, err == ERR_NOMEM ? err : ERR_DAMAGED, "batch at offset %lld: %s",
                   (long long)header.base_offset, err_text(err));
        goto out;
    }
    loader->last_offset = in_log ? batch_last_offset(&header) : as_offset;
    err = ERR_OK;
out:
    record_iter_deinit(&iter);
    return err;
}
