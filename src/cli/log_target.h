/*
 * log_target: what a path on the command line of `ottla log` is: a file of a log, a partition's directory or a log
 * directory; and what is found beside it: whose records they are, whether a broker has the directory, and how it was
 * stopped.
 *
 * Threads  one; blocks.
 */
#ifndef OTTLA_CLI_LOG_TARGET_H
#define OTTLA_CLI_LOG_TARGET_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/fs.h"
#include "partition/checkpoint.h"
#include "partition/log_path.h"

#define LOG_LOCK_FILE  ".lock"
#define LOG_CLEAN_FILE ".kafka_cleanshutdown"

enum log_file_kind {
    LOG_FILE_SEGMENT,
    LOG_FILE_OFFSET_INDEX,
    LOG_FILE_TIME_INDEX,
    LOG_FILE_TXN_INDEX,
    LOG_FILE_PRODUCERS,         /* <offset>.snapshot */
    LOG_FILE_METADATA_SNAPSHOT, /* <offset>-<epoch>.checkpoint, bootstrap.checkpoint */
    LOG_FILE_EPOCHS,
    LOG_FILE_TOPIC_ID, /* partition.metadata */
    LOG_FILE_OFFSETS,  /* the checkpoints of a log directory */
    LOG_FILE_TEXT,     /* meta.properties, quorum-state, .kafka_cleanshutdown */
    LOG_FILE_DAMAGE,
    LOG_FILE_JOURNAL,
    LOG_FILE_BOOT_MARK,
    LOG_FILE_OTHER,
};

enum log_target_kind { LOG_TARGET_FILE, LOG_TARGET_PARTITION, LOG_TARGET_DIR };

struct log_target {
    enum log_target_kind kind;
    struct log_path path;
    struct log_path partition_dir; /* of a file and a partition: the directory that holds its files */
    struct log_path log_dir;       /* the one that holds .lock and the checkpoints */
    const char *name;              /* of a file, in path */
    enum log_file_kind file;
    int64_t base_offset; /* of a file that is named by one; else -1 */
    struct bytes topic;  /* in partition_dir; null: its name is no partition's */
    int32_t partition;
};

/* Says on standard error what is wrong with a path that is none. ERR_USAGE; ERR_NOT_FOUND, ERR_IO ... */
MUST_CHECK enum err log_target_find(struct fs *fs, const char *path, struct log_target *target);
enum log_file_kind log_file_kind_of(const char *name, int64_t *base_offset);

/* A directory's entries by name. */
struct log_name {
    char *text;
    bool is_directory;
};
struct log_names {
    struct log_name *names;
    uint32_t count;
    uint32_t room;
};
MUST_CHECK enum err log_names_read(struct fs *fs, const char *dir, struct log_names *names);
void log_names_deinit(struct log_names *names);

/* The state of a log directory, as its own files tell it. */
struct log_dir_facts {
    bool in_use;       /* a broker, or another of these commands, has its lock */
    bool clean;        /* it was stopped cleanly */
    bool has_journals; /* which may hold what the segments lack */
    bool recovery_points_there;
    struct checkpoint_offsets recovery_points;
    bool starts_there;
    struct checkpoint_offsets starts;
    bool high_watermarks_there;
    struct checkpoint_offsets high_watermarks;
};
/* What cannot be read is left out. ERR_NOMEM. */
MUST_CHECK enum err log_dir_facts_read(struct fs *fs, const char *log_dir, struct log_dir_facts *facts);
void log_dir_facts_deinit(struct log_dir_facts *facts);
/* The entry of a partition; -1: there is none. */
int64_t log_facts_find(const struct checkpoint_offsets *offsets, struct bytes topic, int32_t partition);
/* Below which offset everything was synced: INT64_MAX after a clean stop, -1: not known. */
int64_t log_facts_synced(const struct log_dir_facts *facts, struct bytes topic, int32_t partition);

#endif
