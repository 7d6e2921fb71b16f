/*
 * log_opening: what opening a log (log_open.c) and recovering it (log_recovery.c) share. Everything here blocks.
 */
#ifndef OTTLA_PARTITION_LOG_OPENING_H
#define OTTLA_PARTITION_LOG_OPENING_H

#include "partition/log_internal.h"

/* What lies in the directory. */
struct found {
    int64_t *segments; /* base offsets, ascending once sorted */
    uint32_t segment_count;
    uint32_t segment_room;
    int64_t *snapshots;
    uint32_t snapshot_count;
    uint32_t snapshot_room;
    int64_t *txn_indexes; /* of segments that have such a file; sorted too */
    uint32_t txn_index_count;
    uint32_t txn_index_room;
    struct partition_log *log;
    bool compaction; /* an interrupted one */
};

struct opening {
    struct partition_log *log;
    const struct partition_log_spec *spec;
    struct found found;
    struct partition_log_recovery recovery;
    struct damage damage;       /* met on the way */
    bool epochs_known;          /* the checkpoint was there and whole */
    int64_t producers_at;       /* the producer state holds what lies below this */
    struct segment *recovering; /* whose aborted transactions are noted; NULL: those of the files are believed */
};

/* A segment with its size and age, at the end of the log's list. */
MUST_CHECK enum err log_open_segment(struct opening *opening, int64_t base_offset, struct segment **made);
/* The producers as they were at limit: out of the newest snapshot at or below it, and the batches from there on. */
MUST_CHECK enum err log_open_producers(struct opening *opening, int64_t limit);
/* Notes epochs and producers of every batch from `from` up to `to`, by reading them. */
MUST_CHECK enum err log_replay(struct opening *opening, int64_t from, int64_t to);
/* Reads the found segments from the first-th on, cuts behind the last good batch, removes what follows a cut. */
MUST_CHECK enum err log_recover(struct opening *opening, uint32_t first);
/* The marks of earlier finders. ERR_UNSUPPORTED_VERSION stops the start. */
MUST_CHECK enum err log_damage_load(struct partition_log *log);
/* Start and end are known: marks of what is gone go, what was met on the way is marked. */
MUST_CHECK enum err log_damage_settle(struct opening *opening);
/* What marks beside the log say of what is to be believed. ERR_UNSUPPORTED_VERSION. */
MUST_CHECK enum err log_open_truncation_mark(struct partition_log *log, struct partition_log_spec *believed);
MUST_CHECK enum err log_open_moved_mark(struct partition_log *log, struct partition_log_spec *believed);
/* partition_log_open, but for the journals and for want of room. */
MUST_CHECK enum err log_open_once(const struct partition_env *env, const struct partition_log_spec *spec,
                                  struct partition_log **log, struct partition_log_recovery *recovery);
/* What came out of the journals. */
struct log_replayed {
    bool changed; /* the log's files: it is to be opened anew */
    int64_t start_offset;
    uint32_t batches;
    uint32_t skipped; /* entries that do not continue the log */
};
/* Appends to the files of a log that was just opened what the journals have and its segments lack (log_replay.c). */
MUST_CHECK enum err log_replay_journals(struct partition_log *log, const struct journal_replay *journals,
                                        struct log_replayed *replayed);
MUST_CHECK enum err log_segment_files_remove(const struct partition_log *log, int64_t base_offset);
/* Writes once more, and in place, what may be in the page cache alone after a sync that failed. */
MUST_CHECK enum err log_rewrite(struct opening *opening);
/* Removes the files of the found segments from that one on. */
MUST_CHECK enum err log_recover_remove(struct opening *opening, uint32_t slot);

#endif
