/*
 * log_path: the names of Kafka's files and directories, built and parsed (on-disk.md 1, 3).
 *
 * Threads  any: no state.
 */
#ifndef OTTLA_PARTITION_LOG_PATH_H
#define OTTLA_PARTITION_LOG_PATH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"
#include "base/uuid.h"

enum {
    LOG_PATH_BYTES_MAX = 4096,      /* PATH_MAX, with its NUL */
    LOG_NAME_BYTES_MAX = 255,       /* of one name in a directory */
    LOG_FUTURE_CHARS = 1 + 32 + 7,  /* .<32 hex>-future */
    LOG_SEGMENT_NAME_BYTES_MAX = 64 /* 20 digits and the longest suffix */
};

struct log_path {
    char text[LOG_PATH_BYTES_MAX];
};

/* <dir>/<name>. ERR_LIMIT: longer than a path may be. */
MUST_CHECK enum err log_path_in(struct log_path *path, const char *dir, const char *name);
/* <dir>/<20 digits of base><suffix>; suffix begins with its dot. dir was checked to leave room. */
void log_path_segment(struct log_path *path, const char *dir, int64_t base_offset, const char *suffix);
/* A name of 20 digits and a suffix; *suffix points at the dot. False: another kind of file. */
bool log_path_parse_segment(const char *name, int64_t *base_offset, const char **suffix);

enum log_dir_kind {
    LOG_DIR_KIND_PARTITION, /* <topic>-<n> */
    LOG_DIR_KIND_DELETE,    /* <topic>-<n>.<32 hex>-delete */
    LOG_DIR_KIND_FUTURE,    /* <topic>-<n>.<32 hex>-future */
    LOG_DIR_KIND_STRAY,     /* <topic>-<n>.<32 hex>-stray */
    LOG_DIR_KIND_OTHER,
};

/* What a directory in a log directory is; topic points into name. */
enum log_dir_kind log_path_parse_dir(const char *name, struct bytes *topic, int32_t *partition);

struct log_dir_name {
    char text[LOG_NAME_BYTES_MAX + 1];
};

/* <topic>-<n>. ERR_LIMIT: too long for a name. */
MUST_CHECK enum err log_path_dir_name(struct log_dir_name *name, struct bytes topic, int32_t partition);
/* <topic, cut to fit>-<n>.<32 hex of unique><suffix>; suffix is "-delete" or "-stray". */
void log_path_aside_name(struct log_dir_name *name, struct bytes topic, int32_t partition, struct uuid unique,
                         const char *suffix);

#endif
