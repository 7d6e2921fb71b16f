/*
 * partition_log: the records of one partition on disk, in Kafka's files. Append at the end, read from any offset, sync,
 * roll, recover. It knows nothing of leaders, watermarks or waiting; partition.h adds those. The metadata log uses this
 * door directly.
 *
 * Always holds  start_offset <= synced_offset <= end_offset once records were synced; offsets never go back but by
 *               truncation. Bytes below end_offset are whole batches. Segment bytes are never overwritten.
 * Operations    structs owned by the caller from the call until their done function, which runs exactly once, on the
 *               home reactor, possibly before the call returns. Appends complete in the order in which they came;
 *               they queue while a file opens, a segment rolls or a failed write is cut back.
 * Failure       a short write or a full disk fails that append (ERR_NO_SPACE), where the log is essential only once the
 *               reserve is used up, and the log goes on; a failed sync or
 *               any other I/O error fails the log for good (ERR_KAFKA_STORAGE_ERROR) and reports its directory.
 * Threads       the home reactor owns it; partition_log_open and partition_log_scan may block and belong into a job
 *               or before the reactor's start, while nobody else has the log.
 */
#ifndef OTTLA_PARTITION_LOG_H
#define OTTLA_PARTITION_LOG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/bytes.h"
#include "base/err.h"
#include "base/list.h"
#include "base/slice.h"
#include "base/uuid.h"
#include "partition/log_config.h"
#include "partition/log_dir_trust.h"
#include "partition/partition_env.h"

struct journal_replay;
struct partition_log;

/* What is known of a log before it is opened. */
struct partition_log_spec {
    struct bytes topic;
    int32_t partition;
    struct uuid topic_id; /* zero: no partition.metadata is kept (the metadata log) */
    struct log_config config;
    int64_t recovery_point; /* from recovery-point-offset-checkpoint; below it everything was synced */
    int64_t start_offset;   /* from log-start-offset-checkpoint; 0 when there is none */
    int64_t cleaned_offset; /* from cleaner-offset-checkpoint; -1 or 0 when there is none */
    bool clean;             /* the directory was stopped cleanly: nothing needs recovery */
    bool rebuild;           /* all the same every batch is read, and every index made anew */
    bool essential;         /* where the disk is full it goes on from the directory's reserve */
    enum log_trust trust;   /* where it was not: what may be believed of the rest (all-zero: what was synced) */
    const struct journal_replay *journals; /* that were found in the directory, read; NULL: none */
    bool foreign;                          /* another program has written to the directory since we did */
    struct bytes from_copy;                /* partition_log_adopt_copy's: the name of the copy; null: none */
    atomic_uint *unsettled; /* is counted down once all that was found is synced in the segments; NULL: nobody asks */
};

struct partition_log_recovery {
    uint64_t bytes_scanned;
    uint64_t bytes_cut; /* behind the last good batch */
    int64_t batches_scanned;
    uint32_t segments_recovered;
    uint32_t segments_removed;
    uint32_t batches_replayed; /* from the journals */
    uint32_t entries_skipped;  /* that do not continue the log */
};

/*
 * Opens the log in <env->log_dir>/<topic>-<partition>, making the directory when it is not there, and recovers it when
 * spec->clean is false. Blocks. recovery may be NULL.
 *
 * ERR_BUSY      the directory's partition.metadata names another topic id: of a topic of that name that has been
 *               deleted, and whose directory is perhaps about to go; nothing is logged
 * ERR_NO_SPACE  nor is there any of the reserve; it may be tried again
 */
MUST_CHECK enum err partition_log_open(const struct partition_env *env, const struct partition_log_spec *spec,
                                       struct partition_log **log, struct partition_log_recovery *recovery);

/* A copy that a move left in env's directory, and which is all there is of the log, gets the log's name. Blocks. It
 * need not be there any more. */
MUST_CHECK enum err partition_log_adopt_copy(const struct partition_env *env, const struct partition_log_spec *spec);

/* Given whole batches, one call after the other, oldest first; return anything but ERR_OK to stop. */
typedef enum err partition_log_scan_fn(void *context, struct bytes batch);
/* Reads every batch from the one that holds offset to the end, checking each CRC. Blocks.
 * ERR_DAMAGED: a batch does not check; else what each returned. */
MUST_CHECK enum err partition_log_scan(struct partition_log *log, int64_t offset, partition_log_scan_fn *each,
                                       void *context);

/* From the first call on the home reactor owns the log; sets off its timers. */
void partition_log_adopt(struct partition_log *log);

struct partition_log_close {
    void (*done)(struct partition_log_close *op);
    bool sync_all_follows; /* in: the caller syncs the whole file system (fs_sync_all) before it calls the stop clean,
                              so that files need only be written where left_unsynced says so */
    bool left_unsynced;    /* out */
    enum err err;          /* out: of the last sync */
};
/* Whether a clean stop of it has anything to sync. */
bool partition_log_needs_final_sync(const struct partition_log *log);
/* A clean stop: waits for what is under way, trims indexes, writes the producer snapshot, syncs, closes and frees the
 * log. Appends and syncs that still queue are failed with ERR_CLOSED. */
void partition_log_close(struct partition_log *log, struct partition_log_close *op);
/* The same, but renames the directory to <topic>-<n>.<32 hex>-delete first; it is removed after file.delete.delay.ms.
 */
void partition_log_delete(struct partition_log *log, struct partition_log_close *op);
/* The directory of a log that could not be opened, likewise; left alone unless its partition.metadata says that it is
 * that topic's, or it is bare (bare_dir.h). unique: random. Blocks. */
MUST_CHECK enum err partition_log_discard(const struct partition_env *env, const struct partition_log_spec *spec,
                                          struct uuid unique);

/* --- append --- */

enum log_origin {
    LOG_ORIGIN_CLIENT,      /* offsets and epoch are assigned; sequences are checked */
    LOG_ORIGIN_COORDINATOR, /* offsets and epoch are assigned; producer and coordinator epochs are checked */
    LOG_ORIGIN_GIVEN,       /* offsets and epochs as they stand in the batches (Raft log, follower) */
};

struct log_append {
    /* in */
    uint8_t *batches; /* whole, already valid batches; base offset and leader epoch are written into them */
    size_t size;
    enum log_origin origin;
    int32_t leader_epoch;        /* written into each batch, but for LOG_ORIGIN_GIVEN */
    int16_t transaction_version; /* of a coordinator's marker, as producer_state_check_coordinator has it */
    void (*done)(struct log_append *op);
    /* out */
    enum err err;
    bool duplicate;      /* an idempotent producer's retry: nothing was appended, the offsets are the old ones */
    int64_t base_offset; /* of the first batch */
    int64_t last_offset;
    int64_t max_timestamp; /* of a duplicate: the old batch's */
    /* the log's */
    struct list_node node;
};

/*
 * Errors in op->err: ERR_OFFSET_OUT_OF_RANGE (given offsets do not continue the log), ERR_OUT_OF_ORDER_SEQUENCE_NUMBER,
 * ERR_INVALID_PRODUCER_EPOCH, ERR_INVALID_TXN_STATE, ERR_TRANSACTION_COORDINATOR_FENCED, ERR_RECORD_LIST_TOO_LARGE
 * (over segment.bytes), ERR_NO_SPACE, ERR_KAFKA_STORAGE_ERROR, ERR_CLOSED, ERR_NOMEM.
 */
void partition_log_append(struct partition_log *log, struct log_append *op);
/* Takes back an append that still queues: true, and done will not run. False when it has been written. */
bool partition_log_append_cancel(struct partition_log *log, struct log_append *op);

/* --- sync --- */

struct log_sync {
    int64_t offset; /* in: everything below it; at most the end offset */
    void (*done)(struct log_sync *op);
    enum err err;          /* out: ERR_KAFKA_STORAGE_ERROR, ERR_CLOSED */
    struct list_node node; /* the log's */
};
/* One sync serves all that wait for it. */
void partition_log_sync(struct partition_log *log, struct log_sync *op);

/* --- read --- */

enum { LOG_READ_SLICES_MAX = 4 };

struct log_read {
    /* in */
    int64_t offset;
    int64_t offset_limit; /* batches at or above it are not given; at most the end offset */
    uint32_t bytes_max;
    bool at_least_one;   /* the first batch is given whole even if it is larger than bytes_max */
    struct arena *arena; /* memory for what is copied, file ranges where it is used up; used on the home reactor and by
                            the job, one at a time */
    void (*done)(struct log_read *op);
    /* out */
    enum err err; /* ERR_OFFSET_OUT_OF_RANGE, ERR_CORRUPT_MESSAGE, ERR_KAFKA_STORAGE_ERROR, ERR_NOMEM, ERR_CLOSED */
    struct slice slices[LOG_READ_SLICES_MAX]; /* file ranges hold a reference to their file, now the caller's: give it
                                                 back with fs_file_drop */
    uint32_t slice_count;
    size_t size;         /* bytes over all slices: whole batches, from the one that holds offset on */
    int64_t next_offset; /* the end of what was read, where it is known; else -1 */
    int64_t end_bound;   /* where something was read: all of it lies below */
    /* the log's */
    const struct segment *waits_for; /* to be opened; NULL: for something else */
    struct list_node node;
};
void partition_log_read(struct partition_log *log, struct log_read *op);

/* How many bytes lie between two offsets: an upper bound, exact to the index interval while the segment is open. */
uint64_t partition_log_bytes_between(const struct partition_log *log, int64_t from, int64_t to);

/* --- aborted transactions --- */

struct log_aborted {
    int64_t producer_id;
    int64_t first_offset;
};

struct log_aborted_find {
    /* in */
    int64_t from; /* the range: [from, to) */
    int64_t to;
    struct arena *arena; /* for the answer */
    void (*done)(struct log_aborted_find *op);
    /* out */
    enum err err;                /* ERR_KAFKA_STORAGE_ERROR, ERR_NOMEM, ERR_CLOSED */
    struct log_aborted *aborted; /* whose markers lie at or behind from and that began before to, as the markers lie */
    uint32_t count;
    /* the log's */
    struct list_node node;
};
/* Every aborted transaction that overlaps the range, where no transaction that began before `to` is still open. Files
 * are read by jobs; what open segments hold is answered at once. */
void partition_log_find_aborted(struct partition_log *log, struct log_aborted_find *op);

/* --- find by time --- */

enum { LOG_FIND_MAX_TIMESTAMP = -1 };

struct log_find {
    int64_t timestamp;  /* in: the first record at or after it, ms; INT64_MIN: of any time; LOG_FIND_MAX_TIMESTAMP: the
                           first that has the greatest */
    int64_t offset_min; /* in: of those at or above it */
    void (*done)(struct log_find *op);
    /* out */
    enum err err;          /* ERR_CORRUPT_MESSAGE, ERR_KAFKA_STORAGE_ERROR, ERR_NOMEM, ERR_CLOSED */
    int64_t offset;        /* -1: no such record */
    int64_t out_timestamp; /* the record's */
    int32_t leader_epoch;  /* of its batch */
    /* the log's */
    int64_t wanted_timestamp;
    int64_t next_offset; /* the search goes on in the segment that holds it */
    struct list_node node;
};
/* Compressed batches are opened; all reading is done by jobs. Markers count, too. */
void partition_log_find(struct partition_log *log, struct log_find *op);

/* --- deletion from the beginning --- */

/* Records below offset (at most the end offset) are deleted: no read finds them from here on, and segments that lie
 * wholly below it are removed. Nothing happens where the log starts there or later already. */
void partition_log_move_start(struct partition_log *log, int64_t offset);
/*
 * Retention as the topic's configuration has it (replication.md 10): whole segments go, oldest first, by the time of
 * their newest record and by the log's size; none whose records reach beyond limit (the high watermark). Where all go,
 * an empty one is begun first. Nothing goes by its age while the wall clock is not to be believed.
 */
void partition_log_retain(struct partition_log *log, int64_t limit);

/* --- cutting --- */

struct log_truncate {
    int64_t offset; /* in: records at and above it go. out: where the log ends now: no batch is cut in two */
    bool whole;     /* in: all records go, wherever they are, and the log begins anew at offset */
    void (*done)(struct log_truncate *op);
    enum err err; /* out: ERR_NO_SPACE, ERR_NOMEM (nothing was done), ERR_KAFKA_STORAGE_ERROR, ERR_CLOSED */
};
/*
 * Cuts the log, one truncation at a time. What is under way ends first; what comes meanwhile waits, and sees the log as
 * it is then. Producers, epochs and indexes are as they were at that offset. Syncs of what is no more fail with
 * ERR_OFFSET_OUT_OF_RANGE. Cut bytes are never written over, but ranges of them that have been given out end early.
 */
void partition_log_truncate(struct partition_log *log, struct log_truncate *op);
/* A follower whose leader says that leader_epoch is the newest it shares with it, and ended at leader_end: where to cut
 * to, at most the end. ask_again: out, it has to be asked again from there (replication.md 3, KIP-279). */
int64_t partition_log_divergence(const struct partition_log *log, int32_t leader_epoch, int64_t leader_end,
                                 bool *ask_again);

/* --- compaction --- */

/* What a cleaning would find. */
struct log_cleanable {
    uint64_t dirty_bytes;
    uint64_t total_bytes;
    double ratio; /* of the two */
    bool is_due;  /* by min.cleanable.dirty.ratio or max.compaction.lag.ms */
};
/* stable_offset: the lesser of the high watermark and the last stable offset: nothing at or above it is touched.
 * Nothing is due while a cleaning runs, or soon after one failed. */
void partition_log_look_cleanable(const struct partition_log *log, int64_t stable_offset, int64_t now_ms,
                                  struct log_cleanable *cleanable);

struct log_clean {
    /* in */
    int64_t stable_offset;
    int64_t now_ms;          /* wall clock: what delete horizons are judged by */
    size_t map_bytes_max;    /* log.cleaner.dedupe.buffer.size */
    double map_load;         /* log.cleaner.io.buffer.load.factor */
    size_t buffer_bytes;     /* log.cleaner.io.buffer.size, for each of reading and writing; above 0 */
    double bytes_per_second; /* log.cleaner.io.max.bytes.per.second */
    void (*done)(struct log_clean *op);
    /* out */
    enum err err; /* ERR_CLOSED; ERR_NO_SPACE, ERR_NOMEM, and where the log has not failed ERR_KAFKA_STORAGE_ERROR (no
                     descriptors): another time */
    uint64_t bytes_mapped;
    uint64_t bytes_read; /* by the second pass */
    uint64_t bytes_written;
    int64_t elapsed_ns;
};
/*
 * Compacts what may be compacted: superseded records go, small segments become one (cleaner.h says what stays). Reads,
 * appends and syncs go on meanwhile. Jobs are short, with pauses where the rate asks for them; a close ends it at the
 * next. One at a time.
 */
void partition_log_clean(struct partition_log *log, struct log_clean *op);
/* Below it all is clean; what cleaner-offset-checkpoint is to say. -1: it was never cleaned. */
int64_t partition_log_cleaned_offset(const struct partition_log *log);

/* --- another directory --- */

struct log_moving;

struct log_move {
    /* in */
    const struct partition_env *to; /* of the same home reactor; not the one it is in */
    /* Bytes a second, as of now; 0: as fast as it goes. May be NULL. */
    double (*rate)(const struct log_move *op);
    /* Both directories have all of the log, which is held: the metadata is to say that it is in the new one. Once that
     * is known, or refused, partition_log_move_committed is to be called; ERR_KAFKA_STORAGE_ERROR: neither is
     * known. */
    void (*commit)(struct log_move *op);
    void (*moved_now)(struct log_move *op); /* the log is in the new directory from here on; its env is `to` */
    void (*done)(struct log_move *op);
    /* out */
    enum err err; /* ERR_NO_SPACE, ERR_NOMEM, ERR_NO_DESCRIPTORS, ERR_CLOSED (cancelled, or the log's end), ERR_IO ...:
                     it stays where it is */
    bool moved;
    uint64_t size;         /* of the copy's segments so far */
    int64_t copied_offset; /* below it the copy has everything, while it goes on */
    uint64_t bytes_copied;
    int64_t held_ns; /* for how long appends and reads had to wait at the end */
    /* the log's */
    const struct partition_env *from;
    struct log_moving *moving;
    bool cancelled;
};
/*
 * Moves the log to another log directory, one move at a time, while it serves: it is copied in <topic>-<n>.<32
 * hex>-future there, by jobs of bounded slices at the given rate, until little is left; then appends and reads wait for
 * as long as the rest takes. The old directory is renamed to -delete. No compaction goes on meanwhile. Wherever it
 * fails before the commit, the log goes on where it was, and one line says why it ended.
 */
void partition_log_move(struct partition_log *log, struct log_move *op);
void partition_log_move_committed(struct log_move *op, enum err err);
/* It ends at the next chance with ERR_CLOSED, and the copy goes; too late, and it goes on to its end. */
void partition_log_move_cancel(struct partition_log *log);

/* --- scrub --- */

/* A look at what lies on the disk, a piece at a time; all-zero begins at the log's beginning. */
struct log_scrub {
    uint64_t bytes_max; /* in: of one piece, to the end of its last batch */
    void (*done)(struct log_scrub *op);
    /* where the next piece begins */
    int64_t base_offset;
    uint64_t position;
    int64_t next_offset;
    /* out */
    enum err err; /* ERR_KAFKA_STORAGE_ERROR, ERR_CLOSED, ERR_NOMEM */
    uint64_t bytes;
    bool at_end; /* nothing was left to look at */
};
/* Reads the next piece and verifies it; damage is marked and reported. Pages that were not in memory do not stay. */
void partition_log_scrub(struct partition_log *log, struct log_scrub *op);

/* --- facts --- */

/* The segments, oldest first (ListOffsets v0). */
uint32_t partition_log_segment_count(const struct partition_log *log);
int64_t partition_log_segment_base(const struct partition_log *log, uint32_t slot);
int64_t partition_log_segment_max_timestamp(const struct partition_log *log, uint32_t slot); /* -1: none */

int64_t partition_log_start_offset(const struct partition_log *log);
int64_t partition_log_end_offset(const struct partition_log *log);
/* Everything below is on stable storage. */
int64_t partition_log_synced_offset(const struct partition_log *log);
/* What recovery-point-offset-checkpoint is to say: a crash makes the next start read from the segment that holds it. */
int64_t partition_log_recovery_point(const struct partition_log *log);
uint64_t partition_log_size(const struct partition_log *log); /* bytes of all .log files */
/* First offset of the earliest transaction that is open, or whose marker partition_log_replicated has not been told to
 * stay; INT64_MAX when there is none. */
int64_t partition_log_first_unstable_offset(const struct partition_log *log);
/* The high watermark: what lies below it stays. */
void partition_log_replicated(struct partition_log *log, int64_t high_watermark);
bool partition_log_failed(const struct partition_log *log);
const char *partition_log_topic(const struct partition_log *log);
struct uuid partition_log_topic_id(const struct partition_log *log);

/* The epoch of the last batch or assignment; -1 in a log without any. */
int32_t partition_log_last_epoch(const struct partition_log *log);
/* The epoch of the batch at offset; -1 when no entry covers it. */
int32_t partition_log_epoch_at(const struct partition_log *log, int64_t offset);
/* OffsetForLeaderEpoch: the largest epoch <= epoch and where it ends; (-1, -1) when undefined (replication.md 3). */
void partition_log_epoch_end(const struct partition_log *log, int32_t epoch, int32_t *found_epoch, int64_t *end_offset);
/* A leader of a new epoch begins to write here. ERR_NOMEM. */
MUST_CHECK enum err partition_log_assign_epoch(struct partition_log *log, int32_t epoch);

const struct log_config *partition_log_config(const struct partition_log *log);
/* All that share it have it from here on, but each is to be told. */
void partition_log_set_config(struct partition_log *log, const struct log_config *config);
/* In place of its own copy; takes the caller's part in it. Before the log is adopted. */
void partition_log_share_config(struct partition_log *log, struct log_config *shared);
/* The directory has failed: everything from here on is ERR_KAFKA_STORAGE_ERROR. */
void partition_log_fail(struct partition_log *log, enum err err);
/* Called when end or synced offset moved, or the log failed; on the home reactor, not from within partition_log_append.
 */
void partition_log_on_change(struct partition_log *log, void (*changed)(void *context), void *context);

#endif
