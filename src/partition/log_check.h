/*
 * log_check: reads the directory of one partition and tells what in it is not as it should be, without changing
 * anything: every checksum, the order of offsets, each index entry against the batch that it points at, time indexes,
 * transaction indexes, producer snapshots, epochs, marks of damage, what a crash left behind.
 *
 * Findings  a fault is something to act on: bytes that are lost, or a file that says what the log does not. A note is
 *           worth knowing: a torn tail that the next start cuts, a missing index that it rebuilds.
 * In use    with in_use set the directory may be a running broker's: a tail that grows, and segments that go, are no
 *           faults.
 * Threads   none of its own; blocks.
 */
#ifndef OTTLA_PARTITION_LOG_CHECK_H
#define OTTLA_PARTITION_LOG_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/fs.h"

enum log_weight { LOG_NOTE, LOG_FAULT };

struct log_finding {
    enum log_weight weight;
    const char *dir;
    const char *file;   /* in dir */
    int64_t position;   /* in the file, in bytes; -1: of no place in it */
    int64_t offset;     /* of the log; -1: of none */
    int64_t end_offset; /* of a damaged range; -1: of none, or not known */
    const char *text;   /* for people; valid during the call */
};

struct log_check {
    /* in */
    struct fs *fs;
    void (*found)(void *context, const struct log_finding *finding);
    void (*progress)(void *context, uint64_t bytes); /* read since the last call; may be NULL */
    void *context;
    bool opens_records; /* each batch is opened and its records are read */
    bool in_use;
    /* out, added up over all that was checked */
    uint64_t segments;
    uint64_t batches;
    uint64_t records; /* as the heads count them */
    uint64_t gaps;    /* where offsets are missing: compaction leaves them */
    uint64_t bytes;   /* of the logs */
    uint64_t faults;
    uint64_t notes;
};

struct log_checked {
    int64_t start_offset; /* base of the first segment; 0: there is none */
    int64_t end_offset;   /* behind the last whole batch */
    bool tail_torn;       /* bytes without a batch lie behind it */
};

/* recovery_point: below it everything was synced; INT64_MAX: after a clean stop; -1: not known.
 * ERR_NOT_FOUND, ERR_IO and the like: the directory cannot be read at all. */
MUST_CHECK enum err log_check_partition(struct log_check *check, const char *dir, int64_t recovery_point,
                                        struct log_checked *checked);

/* One segment of it and its indexes alone, as the last one of the log. */
MUST_CHECK enum err log_check_segment(struct log_check *check, const char *dir, int64_t base_offset,
                                      int64_t recovery_point, struct log_checked *checked);
/* One of its producer snapshots alone. */
MUST_CHECK enum err log_check_snapshot(struct log_check *check, const char *dir, int64_t offset);

/* A finding of somebody else's, counted with the rest. */
void log_check_say(struct log_check *check, enum log_weight weight, const char *dir, const char *file, int64_t position,
                   int64_t offset, const char *format, ...) __attribute__((format(printf, 7, 8)));

#endif
