/*
 * partition: one partition as its home reactor serves it: a log, the leader's watermarks, the produce requests that
 * wait for them, and the watches of the fetches that wait for records.
 *
 * Always holds  log start <= last stable offset <= high watermark <= log end; the high watermark never goes back while
 *               this node leads.
 * Single node   the high watermark is the log end, or what has been synced where flush.messages is 1.
 * Operations    structs owned by the caller from the call until their done function, which runs exactly once, on the
 *               home reactor, possibly before the call returns. While the partition loads, they queue.
 * Threads       the home reactor alone; no lock is taken; it never blocks.
 */
#ifndef OTTLA_PARTITION_PARTITION_H
#define OTTLA_PARTITION_PARTITION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/bytes.h"
#include "base/err.h"
#include "base/list.h"
#include "base/slice.h"
#include "base/uuid.h"
#include "partition/log.h"
#include "partition/log_config.h"
#include "partition/partition_env.h"
#include "protocol/batch_validate.h"

struct partition;
struct batch_builder;

struct partition_spec {
    struct bytes topic; /* copied */
    struct uuid topic_id;
    int32_t index;
    int32_t leader_epoch;
    struct log_config config;
    struct log_config *shared; /* in its place: what partitions of the topic share, kept; NULL: nothing */
    /* From the log directory's checkpoint files (log_dir.h); leave zero for a partition that is new. */
    int64_t recovery_point;
    int64_t start_offset;
    int64_t high_watermark;
    int64_t cleaned_offset;
    bool clean;           /* the directory was stopped cleanly, or the partition is new */
    enum log_trust trust; /* as the next two in struct partition_log_spec */
    const struct journal_replay *journals;
    atomic_uint *unsettled;
    bool foreign;           /* another program has written to the directory since we did */
    struct bytes from_copy; /* the name of a move's unfinished copy there, which it is to become; null: none */
    bool essential;         /* it goes on from the directory's reserve where the disk is full, and refuses nobody */
};

/* The partition is usable, or err says why it never will be (it then still has to be closed). With ERR_NO_SPACE it is
 * not usable now, and told again when there is room. */
typedef void partition_ready_fn(void *context, struct partition *partition, enum err err);

/*
 * The partition in <env->log_dir>/<topic>-<index>: made when it is not there, else loaded, and recovered unless
 * spec->clean. Returns at once; files are touched by a job, and ready (may be NULL) is called when it is through.
 * Operations may be given from now on; they wait for it. env is borrowed for life.
 */
MUST_CHECK enum err partition_new(const struct partition_env *env, const struct partition_spec *spec,
                                  partition_ready_fn *ready, void *context, struct partition **partition);

struct partition_close {
    void (*done)(struct partition_close *op); /* the partition is freed by then */
    bool sync_all_follows;                    /* in, of partition_close: as in struct partition_log_close */
    bool left_unsynced;                       /* out */
    enum err err;
    struct partition *partition; /* the partition's, as all below */
    struct partition_log_close log_close;
};
/* Whether a clean stop of it has anything to sync. */
bool partition_needs_final_sync(const struct partition *partition);
/* A clean stop: what waits is answered (ERR_NOT_LEADER_OR_FOLLOWER), watches are told, indexes trimmed, the producer
 * snapshot written, all synced. No new operation may be given. */
void partition_close(struct partition *partition, struct partition_close *op);
/* Renames the directory to <topic>-<n>.<32 hex>-delete; it is removed after file.delete.delay.ms. Otherwise as
 * partition_close, with ERR_UNKNOWN_TOPIC_OR_PARTITION. */
void partition_delete(struct partition *partition, struct partition_close *op);

/* --- produce --- */

enum partition_append_state {
    PARTITION_APPEND_NEW,
    PARTITION_APPEND_LOADING, /* waits for the partition to be usable */
    PARTITION_APPEND_LOGGING, /* in the log's queue */
    PARTITION_APPEND_ACKING,  /* waits for the high watermark */
    PARTITION_APPEND_COMPLETED,
};

struct partition_append {
    /* in */
    uint8_t *batch; /* the records field as it came: exactly one batch is legal; written into */
    size_t size;
    enum log_origin origin;
    int16_t acks;                 /* 0, 1 or -1; 0 and 1 complete once appended, -1 at the high watermark */
    int32_t current_leader_epoch; /* of the request; -1: not checked */
    bool zstd_allowed;            /* Produce v7 and later */
    struct arena *arena;          /* for record errors and for opening compressed batches */
    void (*done)(struct partition_append *op);
    /* out */
    enum err err;
    int64_t base_offset;        /* -1 with an error */
    int64_t log_append_time_ms; /* -1 unless the topic stamps */
    int64_t log_start_offset;   /* -1 with some errors, as in Kafka */
    int32_t record_count;
    struct batch_record_error *record_errors; /* in arena */
    uint32_t record_error_count;
    const char *message; /* NULL: the error's own text will do */
    /* the partition's */
    struct log_append log_append;
    struct partition *partition;
    int64_t wait_offset;           /* the high watermark that completes it */
    struct batch_builder *rebuilt; /* holds the batch where the topic wants another codec */
    struct list_node node;
    enum partition_append_state state;
};

/*
 * Errors: those of replication.md 5 (ERR_CORRUPT_MESSAGE, ERR_MESSAGE_TOO_LARGE, ERR_RECORD_LIST_TOO_LARGE,
 * ERR_INVALID_RECORD, ERR_INVALID_TIMESTAMP, ERR_UNSUPPORTED_COMPRESSION_TYPE, ERR_OUT_OF_ORDER_SEQUENCE_NUMBER,
 * ERR_INVALID_PRODUCER_EPOCH, ERR_INVALID_TXN_STATE), ERR_FENCED_LEADER_EPOCH, ERR_UNKNOWN_LEADER_EPOCH,
 * ERR_NOT_LEADER_OR_FOLLOWER, ERR_KAFKA_STORAGE_ERROR.
 */
void partition_append(struct partition *partition, struct partition_append *op);
/* At the caller's deadline: completes the op now with err (what was appended stays); done runs within the call. Only
 * for an op that has not completed. False when it cannot be taken back this instant (its done will still run soon). */
bool partition_append_cancel(struct partition_append *op, enum err err);
/* Whether producers may append here: false while its disk counts as full (dir_space.h). */
bool partition_has_room(const struct partition *partition);

/* --- fetch --- */

enum partition_isolation { PARTITION_READ_UNCOMMITTED = 0, PARTITION_READ_COMMITTED = 1, PARTITION_READ_LOG_END = 2 };

struct partition_read {
    /* in */
    int64_t offset;
    uint32_t bytes_max;
    bool at_least_one; /* the first batch whole, whatever bytes_max says */
    enum partition_isolation isolation;
    int32_t current_leader_epoch; /* -1: not checked */
    int32_t last_fetched_epoch;   /* -1: no divergence check */
    struct arena *arena;          /* for small reads; larger ones are file ranges */
    void (*done)(struct partition_read *op);
    /* out */
    enum err err;           /* ERR_OFFSET_OUT_OF_RANGE, ERR_FENCED_LEADER_EPOCH, ERR_UNKNOWN_LEADER_EPOCH,
                               ERR_NOT_LEADER_OR_FOLLOWER, ERR_CORRUPT_MESSAGE, ERR_KAFKA_STORAGE_ERROR, ERR_NOMEM,
                               ERR_UNKNOWN_TOPIC_OR_PARTITION */
    int64_t high_watermark; /* -1 with an error, as the next two */
    int64_t last_stable_offset;
    int64_t log_start_offset;
    bool diverging;
    int32_t diverging_epoch;
    int64_t diverging_end_offset;
    struct log_aborted *aborted; /* read committed only, in arena: all that overlap what was read, and perhaps more that
                                    began behind it */
    uint32_t aborted_count;
    struct slice slices[LOG_READ_SLICES_MAX]; /* file ranges hold a reference that is now the caller's */
    uint32_t slice_count;
    size_t size; /* bytes over all slices */
    /* the partition's */
    struct log_read log_read;
    struct log_aborted_find log_aborted_find;
    struct partition *partition;
    struct list_node node;
};
void partition_read(struct partition *partition, struct partition_read *op);

/* How many bytes a read at offset could give now, without reading: an upper bound, exact to the index interval. 0 when
 * there is nothing; for the min_bytes rule. */
uint64_t partition_readable_bytes(const struct partition *partition, int64_t offset,
                                  enum partition_isolation isolation);

/* --- waiting --- */

/*
 * Told once when the high watermark, the last stable offset or the log start moves, the leader changes or the partition
 * fails; then not again until re-armed. When the partition goes away it is told a last time, armed or not, with
 * partition NULL. Lives in its owner (a fetch session's entry, a waiting fetch).
 */
struct partition_watch {
    void (*told)(struct partition_watch *watch); /* may read, re-arm and remove */
    /* the partition's */
    struct partition *partition; /* NULL: not added, or the partition is gone */
    struct list_node node;
    bool armed;
};
/* Adds it, armed. */
void partition_watch_add(struct partition *partition, struct partition_watch *watch);
/* Nothing happens when it is armed already, or the partition is gone. */
void partition_watch_arm(struct partition_watch *watch);
/* Nothing happens when it was not added, or the partition is gone. */
void partition_watch_remove(struct partition_watch *watch);

/* --- offsets --- */

enum {
    PARTITION_OFFSET_LATEST = -1,
    PARTITION_OFFSET_EARLIEST = -2,
    PARTITION_OFFSET_MAX_TIMESTAMP = -3,
    PARTITION_OFFSET_EARLIEST_LOCAL = -4,
    PARTITION_OFFSET_LATEST_TIERED = -5,
    PARTITION_OFFSET_EARLIEST_PENDING_UPLOAD = -6,
    PARTITION_OFFSET_NEXT = -100, /* ours, not a client's: the first record at or above offset_min, with its time */
};

struct partition_offsets {
    /* in */
    int64_t timestamp;  /* ms, or one of the above */
    int64_t offset_min; /* PARTITION_OFFSET_NEXT */
    enum partition_isolation isolation;
    int32_t current_leader_epoch; /* -1: not checked */
    uint32_t max_num_offsets;     /* ListOffsets v0 only: 0 asks for one offset, else for a list */
    struct arena *arena;          /* for the list, and for opening compressed batches */
    void (*done)(struct partition_offsets *op);
    /* out */
    enum err err;          /* ERR_FENCED_LEADER_EPOCH, ERR_UNKNOWN_LEADER_EPOCH, ERR_NOT_LEADER_OR_FOLLOWER,
                              ERR_OFFSET_NOT_AVAILABLE, ERR_UNSUPPORTED_VERSION, ERR_KAFKA_STORAGE_ERROR, ERR_NOMEM */
    int64_t offset;        /* -1: none */
    int64_t out_timestamp; /* of the record; -1 for none and for the special ones */
    int32_t leader_epoch;  /* of the record at offset; of latest the current one; -1 when there is none */
    int64_t *offsets;      /* v0: segment bases at or before the time, newest first */
    uint32_t offset_count;
    /* the partition's */
    struct partition *partition;
    struct log_find find;
    struct list_node node;
};
void partition_offsets(struct partition *partition, struct partition_offsets *op);

/* --- deletion from the beginning --- */

/* Waits for the partition to be loaded, or for that to have failed. */
struct partition_wait {
    void (*done)(struct partition_wait *wait, struct partition *partition);
    struct list_node node; /* the partition's */
};
void partition_when_ready(struct partition *partition, struct partition_wait *wait);
/* Somebody waits for it elsewhere: it is loaded before those that nobody waits for. Nothing happens to one that is. */
void partition_hasten(struct partition *partition);

enum { PARTITION_DELETE_TO_HIGH_WATERMARK = -1 };
/*
 * DeleteRecords, on a partition that is loaded: records below offset go. low_watermark: out, where the log starts now;
 * -1 with an error.
 *
 * ERR_OFFSET_OUT_OF_RANGE (below 0, above the high watermark), ERR_POLICY_VIOLATION (a topic that only compacts),
 * ERR_NOT_LEADER_OR_FOLLOWER, ERR_UNKNOWN_TOPIC_OR_PARTITION, ERR_KAFKA_STORAGE_ERROR.
 */
MUST_CHECK enum err partition_delete_records(struct partition *partition, int64_t offset, int64_t *low_watermark);
/* Retention by age and size, now; nothing that lies above the high watermark goes. */
void partition_retain(struct partition *partition);

/* --- scrub --- */

/* Reads the next piece of what lies on the disk again (log.h). Of a partition that is ready. */
void partition_scrub(struct partition *partition, struct log_scrub *op);

/* --- facts and changes --- */

int64_t partition_start_offset(const struct partition *partition);
int64_t partition_end_offset(const struct partition *partition);
int64_t partition_synced_offset(const struct partition *partition);
int64_t partition_recovery_point(const struct partition *partition);
int64_t partition_high_watermark(const struct partition *partition);
int64_t partition_last_stable_offset(const struct partition *partition);
int64_t partition_cleaned_offset(const struct partition *partition); /* -1: it was never compacted */
/* What the directory's checkpoint files are to say: of one that is not loaded (yet), what they said at the start. Not
 * of one that is gone. */
struct partition_checkpoint {
    int64_t recovery_point; /* everything below was synced */
    int64_t start_offset;
    int64_t high_watermark;
    int64_t cleaned_offset; /* -1: it was never compacted */
};
struct partition_checkpoint partition_look_checkpoint(const struct partition *partition);
int32_t partition_leader_epoch(const struct partition *partition);
uint64_t partition_size(const struct partition *partition);  /* bytes of all .log files */
bool partition_is_ready(const struct partition *partition);  /* loaded */
bool partition_is_failed(const struct partition *partition); /* its directory failed */
bool partition_is_gone(const struct partition *partition);   /* closing or being deleted */
struct bytes partition_topic(const struct partition *partition);
struct uuid partition_topic_id(const struct partition *partition);
int32_t partition_index(const struct partition *partition);
const struct log_config *partition_config(const struct partition *partition);
/* OffsetForLeaderEpoch, on a partition that is loaded; (-1, -1) when undefined. ERR_FENCED_LEADER_EPOCH,
 * ERR_UNKNOWN_LEADER_EPOCH, ERR_NOT_LEADER_OR_FOLLOWER, ERR_UNKNOWN_TOPIC_OR_PARTITION, ERR_KAFKA_STORAGE_ERROR. */
MUST_CHECK enum err partition_epoch_end(const struct partition *partition, int32_t current_leader_epoch, int32_t epoch,
                                        int32_t *found_epoch, int64_t *end_offset);

/* Compaction, of what is committed and stable (log.h): what there is to do, and doing it. op->stable_offset is filled
 * in.
 */
void partition_look_cleanable(const struct partition *partition, int64_t now_ms, struct log_cleanable *cleanable);
void partition_clean(struct partition *partition, struct log_clean *op);

/* To another log directory of its home reactor (log.h): of a partition that is ready. Whoever moves it tells of its new
 * env when the log has it. */
void partition_move(struct partition *partition, struct log_move *op);
void partition_move_cancel(struct partition *partition);
void partition_moved(struct partition *partition, const struct partition_env *env);

void partition_set_config(struct partition *partition, const struct log_config *config);
/* This node leads from here on in that epoch (never below the present one; the same one changes nothing). ERR_NOMEM. */
MUST_CHECK enum err partition_set_leader_epoch(struct partition *partition, int32_t leader_epoch);
/* The log directory has failed: what waits and what comes gets ERR_KAFKA_STORAGE_ERROR. */
void partition_fail(struct partition *partition, enum err err);

#endif
