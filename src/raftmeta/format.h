/*
 * format: an empty directory becomes a node's, in Apache Kafka's own files (kraft.md "meta.properties, formatting"):
 * meta.properties in every log directory, written last; in the metadata directory also bootstrap.checkpoint and
 * __cluster_metadata-0/00000000000000000000-0000000000.checkpoint with the voters, as `kafka-storage format
 * --standalone` writes them.
 *
 * Threads  any; blocks, so on an I/O thread or before the loops run.
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
#include "raftmeta/image.h"

enum { CLUSTER_ID_CHARS_MAX = 63, FORMAT_MESSAGE_BYTES_MAX = 512 };

/* meta.properties of one directory. */
struct meta_properties {
    int32_t node_id;
    char cluster_id[CLUSTER_ID_CHARS_MAX + 1];
    struct uuid directory_id; /* zero: the file has none */
};

/* ERR_NOT_FOUND: not formatted. ERR_DAMAGED: a file that is none of ours; message says why. */
MUST_CHECK enum err meta_properties_read(struct fs *fs, const char *dir, struct meta_properties *properties,
                                         char message[FORMAT_MESSAGE_BYTES_MAX]);
/* Written beside and renamed; synced with its directory. */
MUST_CHECK enum err meta_properties_write(struct fs *fs, const char *dir, const struct meta_properties *properties,
                                          struct clock *clock);

struct format_options {
    struct fs *fs;
    struct clock *clock;
    struct rng *rng;
    const char *const *dirs; /* log.dirs */
    uint32_t dir_count;
    const char *metadata_dir; /* one of dirs */
    int32_t node_id;
    bool may_format;                      /* zero configuration, or the sole voter */
    const char *cluster_id;               /* for a new cluster; NULL: a random one */
    bool static_voters;                   /* controller.quorum.voters is set: kraft.version 0, no voters in the log */
    struct image_endpoint voter_endpoint; /* advertised controller listener of this node */
    int16_t metadata_version;             /* 0: the newest we know */
};

struct format_result {
    char cluster_id[CLUSTER_ID_CHARS_MAX + 1];
    struct uuid *directory_ids; /* the caller's array: one for each of dirs */
    bool formatted;             /* something was formatted now */
};

/*
 * Checks every directory and formats where that is allowed: all are empty of formats and may_format holds. A directory
 * added to a formatted node (its metadata directory has the cluster's id) gets its meta.properties. message names the
 * directory and what to do.
 *
 * ERR_NOT_FOUND  not formatted, and not allowed to
 * ERR_DAMAGED    directories that disagree on cluster, node or have one id; a meta.properties that cannot be read
 * ERR_USAGE      another node's directory
 */
MUST_CHECK enum err format_dirs(const struct format_options *options, struct format_result *result,
                                char message[FORMAT_MESSAGE_BYTES_MAX]);

#endif
