/*
 * sync_group: the logs of one home reactor in one log directory that have something to sync. When one of them is due
 * and many have, one call for their file system (fs_sync_all) syncs all of them, in place of a sync for each.
 *
 * What that call may conclude: what a log had written, made and renamed when it was taken along is on the disk once the
 * call that began afterwards has succeeded; what comes later is the next one's. Files that take another's place do so
 * only when their content is on the disk: they are written beside it before the call, renamed behind it, and a second
 * call syncs the names. Logs that somebody waits for, or whose topics ask for syncs, are not taken along: they would
 * wait for all.
 * Failure  whatever the call reports, of whichever file: the directory has failed, as with any sync. The group's file
 *          is its own, opened before anything was written, since each open file is told an error once.
 * Threads  the home reactor's. One directory's groups take turns, so that they do not hold all I/O threads.
 */
#ifndef OTTLA_PARTITION_SYNC_GROUP_H
#define OTTLA_PARTITION_SYNC_GROUP_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/err.h"
#include "base/fs.h"
#include "partition/partition_env.h"

struct sync_group;

struct sync_group_options {
    struct fs_file *file; /* on the logs' file system; taken */
    atomic_bool *turn;    /* of the directory: set while one of its groups syncs; outlives the group */
    uint32_t logs_min;    /* with something to sync, from which on all are synced at once; 0: SYNC_GROUP_LOGS_MIN */
};

/* env is borrowed for life. ERR_NOMEM. */
MUST_CHECK enum err sync_group_new(const struct partition_env *env, const struct sync_group_options *options,
                                   struct sync_group **group);
/* Once all its logs are closed. NULL does nothing. */
void sync_group_free(struct sync_group *group);

#endif
