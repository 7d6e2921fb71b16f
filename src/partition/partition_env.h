/*
 * partition_env: the world as a log sees it, one for each (broker, home reactor, log directory). Everything in it
 * outlives the logs that were given it.
 *
 * Threads  fs, clock, log and space from any; the rest belongs to the home reactor.
 */
#ifndef OTTLA_PARTITION_PARTITION_ENV_H
#define OTTLA_PARTITION_PARTITION_ENV_H

#include <stdint.h>

#include "base/clock.h"
#include "base/clock_guard.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/list.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/rng.h"
#include "base/slab.h"
#include "partition/deleted_dirs.h"
#include "partition/dir_dirty.h"
#include "partition/dir_space.h"

struct journal;
struct sync_group;

/* The logs of one home reactor that have files open, least recently used first. Over the bound the oldest that can
 * gives its files back. */
struct partition_files {
    struct list logs;
    uint32_t open_count; /* files */
    uint32_t open_max;
    struct list loads_waiting; /* of partitions that are to be loaded, in order; nobody waits for the later ones yet */
    uint32_t loads_running;
    struct slab loads;         /* what partitions take only until they are loaded; all-zero before the first */
    struct log_rate full_disk; /* of the lines that every refused append would write on a full disk */
};

enum { PARTITION_OPEN_FILES_DEFAULT = 4096 };

/* open_max 0: PARTITION_OPEN_FILES_DEFAULT. */
static inline void partition_files_init(struct partition_files *files, uint32_t open_max)
{
    *files = (struct partition_files){.open_max = open_max == 0 ? PARTITION_OPEN_FILES_DEFAULT : open_max};
    list_init(&files->logs);
    list_init(&files->loads_waiting);
}

struct partition_limits {
    int64_t sync_interval_ns;   /* what was written is synced at the latest after this; 0: PARTITION_SYNC_INTERVAL_NS */
    int64_t sync_bytes;         /* or when this much has been written since; 0: PARTITION_SYNC_BYTES */
    int64_t anchor_bytes;       /* a recovery reads about that much at most; 0: LOG_ANCHOR_BYTES */
    int64_t idle_ns;            /* a log that nobody touched for so long closes its files; 0: PARTITION_IDLE_NS */
    int64_t producer_expiry_ms; /* producer.id.expiration.ms; 0: PARTITION_PRODUCER_EXPIRY_MS */
    int64_t producer_check_ns;  /* between two looks for such; 0: PARTITION_EXPIRE_EVERY_NS */
};

struct partition_env {
    struct fs *fs;
    struct loop *loop; /* the home reactor's */
    struct clock *clock;
    struct clock_guard *clock_guard; /* the home reactor's; NULL: the wall clock is always believed */
    struct rng *rng;
    struct log *log;
    struct partition_files *files;
    struct deleted_dirs *deleted_dirs; /* the home reactor's; NULL: what is deleted goes at once */
    struct partition_limits limits;
    const char *log_dir;           /* the directory that holds the partitions' directories */
    struct dir_space *space;       /* what room it has; NULL: nobody looks, and there is no reserve */
    struct journal *journal;       /* of this reactor in that directory; NULL: logs sync their segments alone */
    struct dirty_home *dirty;      /* what of it is not on the disk yet; NULL: nobody counts */
    struct sync_group *sync_group; /* of this reactor in that directory; NULL: each log is synced for itself */
    /* The directory failed for good (a sync error, an I/O error): every log in it is to be failed with
     * partition_fail. Called on the home reactor, once for each log that saw it. May be NULL. */
    void (*storage_failed)(void *context, const char *log_dir, enum err err);
    /* So many more ranges of a log are known to be damaged. On the home reactor. May be NULL. */
    void (*damage_found)(void *context, uint32_t ranges);
    void *context;
};

#endif
