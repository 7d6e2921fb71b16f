/*
 * snapshot: the metadata as of one offset in a file of its own, so that a start reads it and only the log behind it:
 * <end offset, 20 digits>-<epoch, 10 digits>.checkpoint (kraft.md "Snapshots"). A file is written as .part, synced and
 * renamed, so one that has its name is whole. bootstrap.checkpoint has the same form.
 *
 * Threads  any, one file one caller; blocks.
 */
#ifndef OTTLA_RAFTMETA_SNAPSHOT_H
#define OTTLA_RAFTMETA_SNAPSHOT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/fs.h"
#include "raftmeta/control_record.h"
#include "raftmeta/image.h"
#include "raftmeta/loader.h"

enum {
    SNAPSHOT_NAME_CHARS_MAX = 64,
    SNAPSHOT_PATH_CHARS_MAX = 4096,
};

/* end_offset: first offset not in it. epoch: of the last record in it. (0, 0) is the bootstrap snapshot. */
struct snapshot_id {
    int64_t end_offset;
    int32_t epoch;
};

/* "00000000000000000042-0000000003.checkpoint" */
void snapshot_name(struct snapshot_id id, char name[SNAPSHOT_NAME_CHARS_MAX]);
/* False when the name is no snapshot's. */
bool snapshot_parse_name(const char *name, struct snapshot_id *id);
/* The newest in dir, the bootstrap one included. ERR_NOT_FOUND: there is none. */
MUST_CHECK enum err snapshot_find(struct fs *fs, const char *dir, struct snapshot_id *id);
/* Removes snapshots older than the newest `keep`, never the bootstrap one, and unfinished ones. */
MUST_CHECK enum err snapshot_clean(struct fs *fs, const char *dir, uint32_t keep);

/*
 * Reads the file into the loader, every batch checked, and flushes it. Records count as at offset as_offset.
 *
 * ERR_NOT_FOUND; ERR_DAMAGED, ERR_UNSUPPORTED_VERSION, ERR_NOMEM as in loader_batch, with loader->message.
 */
MUST_CHECK enum err snapshot_load(struct fs *fs, const char *path, int64_t as_offset, struct loader *loader);

struct snapshot_source {
    const struct image *image;      /* NULL: control records alone */
    const struct voter_set *voters; /* NULL: neither voters nor kraft.version are written (kraft.version 0) */
    int16_t kraft_version;
    int64_t now_ms;     /* stamps the batches */
    int64_t last_ms;    /* append time of the last record it stands for */
    int32_t epoch;      /* of the batches */
    bool features_only; /* bootstrap.checkpoint: the image's levels and nothing else */
    bool unnamed;       /* the directory is the caller's to sync */
};
/* path is the final one; its directory is synced too, unless source says otherwise. */
MUST_CHECK enum err snapshot_write(struct fs *fs, const char *path, const struct snapshot_source *source);

#endif
