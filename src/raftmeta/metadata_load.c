#include "raftmeta/metadata_load.h"

#include <stdio.h>

#include "base/assert.h"
#include "base/mem.h"
#include "protocol/batch.h"
#include "raftmeta/metadata_limits.h"

static enum err explain(struct metadata_loaded *loaded, enum err err, const char *what)
{
    struct loader *loader = &loaded->loader;

    if (err != ERR_OK && loader->message[0] == 0)
        (void)snprintf(loader->message, sizeof(loader->message), "%.300s: %s: %s", loaded->dir, what, err_text(err));
    return err;
}

static enum err path_in(const struct metadata_loaded *loaded, const char *name, char path[SNAPSHOT_PATH_CHARS_MAX])
{
    size_t size =
        (size_t)snprintf(path, SNAPSHOT_PATH_CHARS_MAX, "%.*s/%s", SNAPSHOT_PATH_CHARS_MAX - 2, loaded->dir, name);

    return size < SNAPSHOT_PATH_CHARS_MAX ? ERR_OK : ERR_LIMIT;
}

/*
 * What a formatted but never started directory says: the voters in the bootstrap snapshot (0, 0), the first records in
 * bootstrap.checkpoint or, as newer Kafka formats it, in that same snapshot.
 */
static enum err load_bootstrap(const struct partition_env *env, struct metadata_loaded *loaded)
{
    struct image *nothing = image_new();
    struct loader loader;
    char path[SNAPSHOT_PATH_CHARS_MAX];
    char name[SNAPSHOT_NAME_CHARS_MAX];
    enum err err = ERR_OK;

    if (nothing == NULL)
        return ERR_NOMEM;
    loader_init(&loader, nothing);
    image_drop(nothing);
    snapshot_name((struct snapshot_id){0, 0}, name);
    err = path_in(loaded, name, path);
    if (err == ERR_OK)
        err = snapshot_load(env->fs, path, IMAGE_OFFSET_NONE, &loader);
    if (err == ERR_OK)
        loaded->loader.facts = loader.facts;
    if (err == ERR_OK || err == ERR_NOT_FOUND)
        err = (size_t)snprintf(path, sizeof(path), "%s/bootstrap.checkpoint", env->log_dir) < sizeof(path) ? ERR_OK
                                                                                                           : ERR_LIMIT;
    if (err == ERR_OK && image_metadata_version(loader.image) == 0)
        err = snapshot_load(env->fs, path, IMAGE_OFFSET_NONE, &loader);
    if (err == ERR_OK || err == ERR_NOT_FOUND) {
        loaded->bootstrap = image_keep(loader.image);
        err = ERR_OK;
    }
    if (err != ERR_OK)
        memcpy(loaded->loader.message, loader.message, sizeof(loader.message));
    loader_deinit(&loader);
    return err;
}

static enum err load_snapshot(const struct partition_env *env, struct metadata_loaded *loaded)
{
    char path[SNAPSHOT_PATH_CHARS_MAX];
    char name[SNAPSHOT_NAME_CHARS_MAX];
    enum err err = snapshot_find(env->fs, loaded->dir, &loaded->snapshot);

    if (err == ERR_NOT_FOUND || (err == ERR_OK && loaded->snapshot.end_offset == 0)) {
        loaded->snapshot = (struct snapshot_id){0, 0};
        return ERR_OK;
    }
    if (err != ERR_OK)
        return err;
    snapshot_name(loaded->snapshot, name);
    err = path_in(loaded, name, path);
    if (err == ERR_OK)
        err = snapshot_load(env->fs, path, loaded->snapshot.end_offset - 1, &loaded->loader);
    if (err == ERR_OK) {
        loaded->loader.facts.voters_in_log = loaded->loader.facts.has_voters;
        loaded->loader.last_epoch = loaded->snapshot.epoch;
    }
    return err;
}

static enum err read_batch(void *context, struct bytes batch)
{
    struct metadata_loaded *loaded = context;
    struct batch_header header;
    enum err err = batch_peek(batch, &header, NULL);

    if (err != ERR_OK)
        return ERR_DAMAGED;
    if (batch_last_offset(&header) < loaded->snapshot.end_offset)
        return ERR_OK; /* the snapshot has it */
    loaded->bytes_behind += header.size;
    err = loader_batch(&loaded->loader, batch, LOADER_OWN_OFFSETS);
    /* Records of a quorum's own in the log itself take the place of the bootstrap snapshot's. */
    if (err == ERR_OK && batch_has(&header, BATCH_CONTROL) && loaded->loader.facts.has_voters &&
        header.record_count > 1)
        loaded->loader.facts.voters_in_log = true;
    return err;
}

static enum err open_log(const struct partition_env *env, int64_t segment_bytes, struct metadata_loaded *loaded)
{
    struct partition_log_spec spec = {.topic = BYTES_LITERAL("__cluster_metadata"), .partition = 0};
    struct partition_log_recovery recovery = {0};
    enum err err = ERR_OK;

    spec.topic_id = (struct uuid){{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
    log_config_init(&spec.config);
    spec.config.segment_bytes = segment_bytes < METADATA_SEGMENT_BYTES_MAX ? segment_bytes : METADATA_SEGMENT_BYTES_MAX;
    spec.config.max_message_bytes = METADATA_BATCH_BYTES_MAX;
    spec.config.retention_ms = -1;
    spec.config.retention_bytes = -1;
    spec.config.cleanup_delete = false;
    spec.essential = true;
    /* Only what was synced goes into a snapshot, so nothing below it needs to be checked again; and a log that ends
     * before it is of no use any more: it begins anew there (kraft.md "Snapshots", start-up). */
    spec.recovery_point = loaded->snapshot.end_offset;
    spec.start_offset = loaded->snapshot.end_offset;
    err = partition_log_open(env, &spec, &loaded->log, &recovery);
    if (err == ERR_OK && recovery.bytes_cut > 0)
        log_warn(env->log, "metadata log: an unfinished write was cut off bytes=%llu end_offset=%lld",
                 (unsigned long long)recovery.bytes_cut, (long long)partition_log_end_offset(loaded->log));
    return err;
}

enum err metadata_load(const struct partition_env *env, int64_t segment_bytes, struct metadata_loaded *loaded)
{
    struct image *nothing = image_new();
    enum err err = ERR_OK;

    memset(loaded, 0, sizeof(*loaded));
    if (nothing == NULL)
        return ERR_NOMEM;
    loader_init(&loaded->loader, nothing);
    image_drop(nothing);
    (void)snprintf(loaded->dir, sizeof(loaded->dir), "%s/__cluster_metadata-0", env->log_dir);
    err = fs_mkdir(env->fs, loaded->dir);
    if (err == ERR_EXISTS)
        err = ERR_OK;
    if (err == ERR_OK)
        err = explain(loaded, snapshot_clean(env->fs, loaded->dir, SNAPSHOTS_KEPT), "old snapshots");
    if (err == ERR_OK)
        err = explain(loaded, load_bootstrap(env, loaded), "what it was formatted with");
    if (err == ERR_OK)
        err = explain(loaded, load_snapshot(env, loaded), "the newest snapshot");
    if (err == ERR_OK)
        err = explain(loaded, open_log(env, segment_bytes, loaded), "the log");
    if (err == ERR_OK && partition_log_end_offset(loaded->log) > loaded->snapshot.end_offset)
        err = explain(loaded, partition_log_scan(loaded->log, loaded->snapshot.end_offset, read_batch, loaded),
                      "reading the log");
    if (err == ERR_OK)
        err = explain(loaded, loader_flush(&loaded->loader), "reading the log");
    if (err == ERR_OK) {
        err = quorum_state_read(env->fs, loaded->dir, &loaded->state);
        err = explain(loaded, err == ERR_NOT_FOUND ? ERR_OK : err, "quorum-state");
    }
    return err;
}

void metadata_loaded_deinit(struct metadata_loaded *loaded)
{
    loader_deinit(&loaded->loader);
    image_drop(loaded->bootstrap);
}
