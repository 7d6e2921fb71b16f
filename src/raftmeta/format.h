/*
 * format: empty directories become a node's, in Apache Kafka's own files (kraft.md "meta.properties, formatting"):
 * meta.properties in every log directory; in the metadata directory first bootstrap.checkpoint (the levels an empty log
 * begins with) and __cluster_metadata-0/00000000000000000000-0000000000.checkpoint with the voters, as `kafka-storage
 * format --standalone` writes them. A crash in the middle leaves what the next start formats, or completes.
 *
 * Threads  any; blocks, so before the loops run, or in a job.
 */
#ifndef OTTLA_RAFTMETA_FORMAT_H
#define OTTLA_RAFTMETA_FORMAT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/rng.h"
#include "base/uuid.h"
#include "partition/log_dir.h"
#include "raftmeta/image.h"

enum { FORMAT_MESSAGE_BYTES_MAX = 1024 };

struct format_options {
    struct fs *fs;
    struct clock *clock;
    struct rng *rng;
    struct log_dir *const *dirs; /* log.dirs, opened and locked */
    uint32_t dir_count;
    uint32_t metadata_dir; /* which of them is metadata.log.dir */
    int32_t node_id;
    bool may_format;                      /* zero configuration, or the sole voter */
    const char *cluster_id;               /* that a new cluster gets; NULL: a random one */
    bool static_voters;                   /* controller.quorum.voters is set: kraft.version 0, no voters in the log */
    struct image_endpoint voter_endpoint; /* advertised controller listener of this node */
};

struct format_result {
    char cluster_id[LOG_DIR_CLUSTER_ID_BYTES_MAX + 1];
    struct uuid *directory_ids; /* the caller's room: one for each of dirs, filled in their order */
    bool formatted;             /* a new cluster was made now */
};

/*
 * Checks every directory, and formats where that is allowed: when none is formatted yet and may_format holds. A
 * directory added to a formatted node gets its meta.properties if may_format holds. On failure message names the
 * directory and what to do.
 *
 * ERR_NOT_FOUND  not formatted, and not ours to format
 * ERR_USAGE      formatted for another node or cluster, or the metadata directory is not the one that was formatted
 * ERR_DAMAGED    a meta.properties that cannot be read; two directories with one id
 * and the file system's errors
 */
MUST_CHECK enum err format_dirs(const struct format_options *options, struct format_result *result,
                                char message[FORMAT_MESSAGE_BYTES_MAX]);

#endif
