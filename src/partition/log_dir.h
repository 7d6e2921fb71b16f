/*
 * log_dir: one directory of log.dirs: its lock, its identity (meta.properties), its clean-shutdown mark, its checkpoint
 * files and the partitions in it (on-disk.md 1, 2, 5).
 *
 * Threads  every call blocks: before the reactors start, or in a job, one at a time.
 */
#ifndef OTTLA_PARTITION_LOG_DIR_H
#define OTTLA_PARTITION_LOG_DIR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/uuid.h"
#include "partition/checkpoint.h"
#include "partition/log_path.h"

enum { LOG_DIR_CLUSTER_ID_BYTES_MAX = 255 };

struct log_dir;

struct log_dir_meta {
    char cluster_id[LOG_DIR_CLUSTER_ID_BYTES_MAX + 1]; /* as text: a uuid by custom, any word by right */
    int32_t node_id;
    struct uuid directory_id; /* zero: an older Kafka wrote none; one is to be written */
};

/* Makes the directory (and its parents) when it is not there and takes its lock.
 * ERR_LOCKED: another process has it; ERR_PERMISSION; ERR_IO. */
MUST_CHECK enum err log_dir_open(struct fs *fs, struct log *log, const char *path, struct log_dir **dir);
/* Gives the lock back. */
void log_dir_close(struct log_dir *dir);
const char *log_dir_path(const struct log_dir *dir);
/* Everything on its file system, as fs_sync_all; ERR_IO is final for the directory. */
MUST_CHECK enum err log_dir_sync_all(struct log_dir *dir);
/* That call is as good as a sync of each file: fs_sync_all_tells. */
bool log_dir_sync_all_tells(const struct log_dir *dir);
/* A file on it, opened for somebody else's fs_sync_all. */
MUST_CHECK enum err log_dir_open_to_sync(struct log_dir *dir, struct fs_file **file);

/* ERR_NOT_FOUND: not formatted; ERR_DAMAGED: not readable as meta.properties version 1. */
MUST_CHECK enum err log_dir_read_meta(struct log_dir *dir, struct log_dir_meta *meta);
/* The same of a directory that somebody else may have open. */
MUST_CHECK enum err log_dir_read_meta_at(struct fs *fs, const char *path, struct log_dir_meta *meta);
/* Formats: synced, with its directory. */
MUST_CHECK enum err log_dir_write_meta(struct log_dir *dir, const struct log_dir_meta *meta);

/* Whether the last stop was clean, and the broker epoch of then (-1 unknown). Removes the mark, so that a crash from
 * here on counts as one. */
MUST_CHECK enum err log_dir_take_clean_mark(struct log_dir *dir, bool *clean, int64_t *broker_epoch);
/* Whether it would be taken. */
MUST_CHECK enum err log_dir_has_clean_mark(struct log_dir *dir, bool *there);
/* After all logs are closed and checkpoints written. */
MUST_CHECK enum err log_dir_put_clean_mark(struct log_dir *dir, int64_t broker_epoch);

/* One partition's directory found here, with what the checkpoint files say of it. */
struct log_dir_partition {
    char *topic; /* owned by the list */
    int32_t index;
    char *copy;           /* the directory's name, where it is a move's unfinished copy; NULL: it is the partition's */
    struct uuid topic_id; /* of partition.metadata; zero when there is none or it cannot be read */
    bool is_bare;         /* without a topic id, and without a byte of records: it was about to be begun */
    int64_t made_ms;      /* when that was written; INT64_MIN when it is not known */
    int64_t recovery_point; /* 0 when unknown */
    int64_t start_offset;   /* 0 when unknown */
    int64_t high_watermark; /* 0 when unknown */
    int64_t cleaned_offset; /* 0 when it was never compacted */
};

struct log_dir_list {
    struct log_dir_partition *partitions;
    uint32_t count;
};

/* Finds the partitions and the copies that moves left unfinished; removes what a crash left of deletions (-delete). The
 * metadata log and -stray ones are left out. ERR_DAMAGED: a directory whose name is no partition's; log says which
 * (Kafka refuses to start then, too). */
MUST_CHECK enum err log_dir_list(struct log_dir *dir, struct log_dir_list *list);
void log_dir_list_deinit(struct log_dir_list *list);

/* Renames a move's unfinished copy away, to be removed; where nobody does, the next start will. aside: out, what it is
 * called then. */
MUST_CHECK enum err log_dir_discard_copy(struct log_dir *dir, const char *copy, struct log_path *aside);

/* Renames a partition's directory that is not ours by metadata to <topic>-<n>.<32 hex>-stray; kept, never loaded. */
MUST_CHECK enum err log_dir_set_aside(struct log_dir *dir, struct bytes topic, int32_t index, const uint8_t random[16]);

enum log_dir_checkpoint {
    LOG_DIR_RECOVERY_POINT,
    LOG_DIR_START_OFFSET,
    LOG_DIR_HIGH_WATERMARK,
    LOG_DIR_CLEANED_OFFSET,
    LOG_DIR_CHECKPOINTS
};

/* Replaces recovery-point-offset-checkpoint, log-start-offset-checkpoint, replication-offset-checkpoint or
 * cleaner-offset-checkpoint as a whole. */
MUST_CHECK enum err log_dir_write_checkpoint(struct log_dir *dir, enum log_dir_checkpoint which,
                                             const struct checkpoint_offset *entries, uint32_t count);

#endif
