/*
 * metadata_load: what a metadata directory holds, read from disk at the start: the log, opened and recovered, and the
 * image of all that is in it: the newest snapshot, then the log behind it.
 *
 * Threads  blocks; a job, or before the loops run.
 */
#ifndef OTTLA_RAFTMETA_METADATA_LOAD_H
#define OTTLA_RAFTMETA_METADATA_LOAD_H

#include "partition/log.h"
#include "raftmeta/loader.h"
#include "raftmeta/quorum_state.h"
#include "raftmeta/snapshot.h"

struct metadata_loaded {
    struct partition_log *log;
    struct loader loader;              /* image and facts of the quorum, up to the log's end */
    struct image *bootstrap;           /* what an empty log begins with; empty: our defaults */
    struct quorum_state state;         /* as it was read */
    uint64_t bytes_behind;             /* of the log, behind that snapshot */
    struct snapshot_id snapshot;       /* the newest; end_offset 0: none but the bootstrap one */
    char dir[SNAPSHOT_PATH_CHARS_MAX]; /* of the log: <metadata dir>/__cluster_metadata-0 */
};

/*
 * env->log_dir is the metadata directory. loaded->loader.message says why it failed; metadata_loaded_deinit in any
 * case.
 *
 * ERR_DAMAGED, ERR_UNSUPPORTED_VERSION (a record or level by name), ERR_NOMEM, and the file system's errors.
 */
MUST_CHECK enum err metadata_load(const struct partition_env *env, int64_t segment_bytes,
                                  struct metadata_loaded *loaded);
/* All but the log, which is the quorum's by then. */
void metadata_loaded_deinit(struct metadata_loaded *loaded);

#endif
