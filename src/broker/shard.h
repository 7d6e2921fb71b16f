/*
 * shard: what one loop holds of a broker: its connections, its share of the partitions (those whose home it is), its
 * fetch sessions, and the metadata as this loop knows it. Shards share nothing but what is constant; they speak by
 * messages. Two shards are home to no partition: the controller loop's, which serves the controller listeners, and the
 * one aside, which has no connections and works on what would hold up the others (request_aside.h).
 *
 * Home     (mix(topic id) + partition) mod reactors, fixed for the life of the process, so that a mailbox's order is
 *          the partition's order, and the partitions of one topic spread evenly.
 * Image    each shard follows the committed metadata by deltas. A message from another shard carries the version it
 *          was decided under; a shard that is behind parks it (shard_park).
 * Threads  the shard's loop; shard_home any.
 */
#ifndef OTTLA_BROKER_SHARD_H
#define OTTLA_BROKER_SHARD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/loop.h"
#include "base/map.h"
#include "base/metrics.h"
#include "base/uuid.h"
#include "broker/cleaner_turn.h"
#include "broker/dir_assign.h"
#include "broker/dir_moves.h"
#include "broker/fetch_session.h"
#include "broker/group_coordinators.h"
#include "broker/outbox.h"
#include "broker/scrub.h"
#include "net/connection.h"
#include "partition/journal.h"
#include "partition/partition.h"
#include "raftmeta/image.h"
#include "raftmeta/metadata_node.h"

struct broker;
struct shard;

/* A partition's key in maps. */
struct partition_key {
    struct uuid topic_id;
    int32_t index;
};
static inline struct bytes partition_key_bytes(const struct partition_key *key)
{
    _Static_assert(sizeof(*key) == UUID_BYTES + sizeof(key->index), "there is nothing between and behind them");
    return bytes_of(key, sizeof(*key));
}

/* A partition that lives here. */
struct hosted {
    struct shard *shard;
    struct partition_key key;
    uint32_t dir;                /* index of its log directory */
    struct partition *partition; /* NULL once it is being closed */
    struct partition_close close;
    struct group_coordinator *coordinator; /* NULL: none */
    bool loading;                          /* its files are still being opened */
    bool failed;                           /* it could not be opened */
    bool leads;                            /* this node leads it, as of the image */
    bool deleted;                          /* it goes because its topic went */
    bool found;                            /* its files were there at the start */
    struct partition_note *end_note; /* of the stop: its recovery point is the end once the close has synced all */
    struct list_node unassigned;     /* the metadata do not say yet where it lies */
    struct dir_move *move;           /* to another directory; NULL: none */
    int32_t resume_to;               /* a move that the last run began; -1: none */
};

/* A log directory as seen from one shard. */
struct shard_dir {
    struct shard *shard;
    uint32_t dir;
    bool failed;           /* its partitions here are failed; nothing new is put there */
    struct loop_task task; /* word that it failed, from the shard that found out */
    struct journal_close journal_close;
};

/* What the checkpoint files say of a partition. */
struct partition_note {
    struct partition_note *next;
    uint32_t dir;
    int32_t index;
    int64_t end_offset;
    struct partition_checkpoint checkpoint;
    char topic[];
};

/* A connection that came before the node serves. */
struct held_stream {
    struct net_stream *stream;
    struct connection_listener *listener;
};

/* Work that waits for this shard to know a later version of the metadata. */
struct shard_parked {
    struct list_node node;
    int64_t version;
    void (*run)(struct shard_parked *parked);
};

/* Producer ids for those who ask this shard: blocks of PRODUCER_ID_BLOCK. */
struct shard_producer_ids {
    int64_t next;
    int64_t left;
    struct list waiting; /* of struct producer_id_wait */
    struct metadata_call request;
    struct arena arena;
    bool asking;
};

struct shard {
    struct broker *broker;
    struct loop *loop;
    uint32_t index;
    struct connections *connections;
    struct metrics_block *metrics;
    struct image *image; /* held; NULL until the first is told */
    struct metadata_listener listener;
    struct map hosted; /* by struct partition_key, of struct hosted */
    struct partition_files files;
    struct deleted_dirs deleted_dirs;
    struct clock_guard clock_guard;
    struct shard_cleaner cleaner;
    struct loop_timer retention_timer;
    struct shard_scrub scrub;
    uint32_t retention_cursor;  /* where the present check goes on; 0: at the beginning */
    int64_t retention_due_ns;   /* of the check after it */
    struct partition_env *envs; /* one for each log directory */
    struct shard_dir *dirs;     /* likewise */
    struct outbox outbox;       /* work for other shards */
    struct list parked;
    struct fetch_sessions sessions;
    struct list fetches; /* those that wait */
    struct shard_producer_ids producer_ids;
    struct shard_groups groups;
    struct shard_assigner assigner;
    struct shard_moves moves;
    uint32_t loading;         /* partitions whose files are still being opened */
    uint32_t closing;         /* partitions on their way out */
    uint32_t sessions_ending; /* fetch sessions whose homes have not let go yet */
    bool serving;
    bool stopping;
    bool journals_closed;
    struct partition_note *notes; /* for the checkpoints */
    struct loop_task note_task;
    struct held_stream held[SHARD_HELD_STREAMS_MAX];
    uint32_t held_count;
    void (*settled)(struct shard *shard); /* told when closing and sessions_ending come to 0 after shard_close */
    struct loop_task start_task;
    struct loop_task stop_task;
    struct loop_task drained_task;
    struct loop_timer drain_timer;
};

MUST_CHECK enum err shard_init(struct shard *shard, struct broker *broker, struct loop *loop, uint32_t index);
/* While no loop runs. */
void shard_deinit(struct shard *shard);

/* The home of a partition. */
struct shard *shard_home(struct broker *broker, struct uuid topic_id, int32_t index);
/* NULL: it does not live here. */
struct hosted *shard_hosted(struct shard *shard, struct uuid topic_id, int32_t index);
/* Likewise, or it is being closed. */
struct partition *shard_find(struct shard *shard, struct uuid topic_id, int32_t index);
/*
 * The partition, or why it cannot be used: ERR_UNKNOWN_TOPIC_ID, ERR_UNKNOWN_TOPIC_OR_PARTITION (the topic has no such
 * partition), ERR_NOT_LEADER_OR_FOLLOWER (others have it, or nobody leads it), ERR_KAFKA_STORAGE_ERROR.
 */
MUST_CHECK enum err shard_lookup(struct shard *shard, struct uuid topic_id, int32_t index,
                                 struct partition **partition);
/* The log directory of a new partition: the one that has the fewest, past those that have failed; of several the first
 * in log.dirs. Counts it there. */
uint32_t shard_choose_dir(const struct shard *shard);
/* For partition_env: a failed sync is final for its directory, never tried again, never acknowledged. All shards hear
 * of it once. */
void shard_storage_failed(void *context, const char *log_dir, enum err err);
/* Whether this shard knows that version of the metadata. */
bool shard_knows(const struct shard *shard, int64_t version);
/* Runs parked->run once it does. */
void shard_park(struct shard *shard, struct shard_parked *parked);
/* A topic's settings as they stand in the shard's image, for its partitions that come to live here; NULL without
 * memory (shard_configs.c). */
struct log_config *shard_share_config(struct shard *shard, const struct image_topic *topic) MUST_CHECK;
/* Settings changed: topics that live here, and what the shard has of its own. is_home: it has partitions. is_first: it
 * had no image before. */
void shard_follow_configs(struct shard *shard, const struct image_delta *delta, bool is_home, bool is_first);
/* The node serves: connections that were held begin, new ones at once. */
void shard_serve(struct shard *shard);
/* A connection is there, perhaps before its time. Takes the stream. */
void shard_accepted(struct shard *shard, struct connection_listener *listener, struct net_stream *stream);
/* The node stops: nothing waits any more, what was asked is answered, connections close. drained_task is posted once
 * all are closed: those whose clients take no replies after SHARD_DRAIN_MS_MAX, too. */
void shard_drain(struct shard *shard);
/* Whether what a close of it syncs may be promised: it is loaded, and has not failed. */
bool shard_may_promise(const struct hosted *hosted);
/* Of any that is hosted, also where it is not loaded yet or could not be: its lines are to stay. note, may be NULL:
 * out, one of the shard's notes. ERR_NOMEM. */
MUST_CHECK enum err shard_note(struct shard *shard, const struct hosted *hosted, struct partition_note **note);
/* Notes all partitions. ERR_NOMEM: some are missing. */
MUST_CHECK enum err shard_note_partitions(struct shard *shard);
/* With nothing but the name; NULL: no memory. */
struct partition_note *partition_note_new(struct bytes topic);
void partition_notes_free(struct partition_note *notes);
/* Something that a stop waits for, and that was counted in closing, has ended. */
void shard_closing_ended(struct shard *shard);
/* Closes all fetch sessions and partitions; settled is told once, when all are gone. */
void shard_close(struct shard *shard, void (*settled)(struct shard *shard));

#endif
