/*
 * broker_internal: struct broker, for the files of this room.
 *
 * Constant from broker_new on, but for what says otherwise; the start and stop sequences (broker.c) run on the
 * controller loop.
 */
#ifndef OTTLA_BROKER_BROKER_INTERNAL_H
#define OTTLA_BROKER_BROKER_INTERNAL_H

#include <stdatomic.h>

#include "base/list.h"
#include "base/map.h"
#include "broker/broker.h"
#include "broker/broker_limits.h"
#include "broker/broker_metrics.h"
#include "broker/request.h"
#include "broker/shard.h"
#include "net/budget.h"
#include "partition/journal_replay.h"
#include "partition/log_dir.h"
#include "raftmeta/format.h"
#include "raftmeta/metadata_node.h"

/* A partition found on disk at the start. */
struct stored {
    struct stored *next;             /* the same partition in another directory, or as a copy of a move */
    struct log_dir_partition *found; /* in its directory's list */
    uint32_t dir;
    _Atomic(bool) claimed;
    _Atomic(bool) kept; /* claimed by a partition that lies in a directory which is not here */
    char key[264];      /* "<topic>-<index>" */
};

/* Who looks at a directory's free space (space_watch.c); controller loop. */
struct space_watch {
    struct broker *broker;
    struct loop_timer timer;
    struct loop_job job;
    bool busy;
};

struct broker_dir {
    const char *path; /* in dirs_text */
    struct log_dir *dir;
    struct dir_space space;
    struct dir_dirty dirty;
    atomic_bool syncs_all; /* one of its sync groups does */
    struct space_watch watch;
    struct uuid id;
    struct log_dir_list list;
    _Atomic(bool) failed;         /* for good: a sync or another I/O error */
    _Atomic(bool) close_failed;   /* a partition there could not be closed cleanly: there is no clean mark */
    _Atomic(bool) unsynced;       /* partitions there were closed without syncing their files: that is to follow */
    _Atomic(uint32_t) partitions; /* that live there: a new one goes where the fewest do */
    bool clean;
    bool foreign;        /* another program has written there since we did */
    int64_t clean_epoch; /* of the broker at its last clean stop; -1 unknown */
    /* dir_recovery.c's */
    enum log_trust trust;
    struct journal_replay *journals; /* of the last run; NULL: there are none (any more) */
    atomic_bool history;             /* they lie there still */
    uint64_t generation;             /* the greatest of their files */
    uint32_t found;                  /* partitions in stored */
    atomic_uint unopened;            /* of them */
    atomic_uint unsettled;           /* of them: what they had is not all synced in the segments */
    bool marked;                     /* the mark says this boot */
    struct shard *failed_shard;      /* whose loop has the job */
    struct loop_job failed_job;
};

/* A listener's connections, and whose they are. */
struct broker_listener {
    struct connection_listener listener;
    struct broker *broker;
};

/* The checkpoint files' turn (checkpoints.c); controller loop. */
struct checkpoints {
    struct loop_timer timer;
    struct loop_task gathered;
    struct loop_job job;
    _Atomic(uint32_t) shards_left;
    _Atomic(bool) incomplete; /* notes of some are missing: nothing is written this time */
    struct partition_note *notes;
    uint64_t written; /* a sum of what was written last: the same again is not */
    bool busy;
    bool moved;                          /* there is something new to write */
    void (*idle)(struct broker *broker); /* asked for by the stop, told once nothing is under way */
    enum err err;
};

/* Log directories that have failed are told to the controller (shard_dirs.c); controller loop. */
struct dirs_offline {
    struct loop_task task; /* another one */
    struct metadata_call call;
    struct arena arena;
    struct uuid ids[BROKER_LOG_DIRS_MAX];
    uint32_t told;           /* how many it knows of */
    struct loop_timer again; /* after an error */
    struct log_rate lines;
    _Atomic(bool) posted;
    bool asking;
};

enum broker_state {
    BROKER_NEW,
    BROKER_STARTING,
    BROKER_SERVING,
    BROKER_STOPPING,
    BROKER_STOPPED,
};

enum { HTTP_PORT_UNTOLD = -1 };

struct broker {
    struct broker_env env;
    const struct config *config;
    struct log log;
    struct listeners listeners; /* ports as bound */
    int32_t node_id;
    char cluster_id[LOG_DIR_CLUSTER_ID_BYTES_MAX + 1];
    struct uuid incarnation;
    char *dirs_text;
    struct broker_dir dirs[BROKER_LOG_DIRS_MAX];
    uint32_t dir_count;
    const char *absent[BROKER_LOG_DIRS_MAX]; /* of log.dirs, that the start could not use: in dirs_text */
    uint32_t absent_count;
    bool sync_all_tells; /* of each of them: many logs may be synced by one call */
    uint32_t metadata_dir;
    struct partition_note *kept; /* what the checkpoint files go on to say of the partitions' directories that are kept,
                                    and not loaded; constant once the partitions are the metadata's */
    struct map stored; /* by "<topic>-<index>", of struct stored; constant until the node serves, empty from then on */

    struct broker_metrics *metrics;
    struct metadata_node *metadata;
    struct shard *shards; /* the reactors', the controller's, the one aside */
    uint32_t shard_count;
    struct budget budget;
    struct connections **connections; /* by shard */
    struct broker_listener connection_listeners[LISTENERS_MAX];
    struct connection_limits *connection_limits;
    struct net_listener *bound[LISTENERS_MAX];
    struct image_endpoint endpoints[LISTENERS_MAX];
    struct image_endpoint voter_endpoint;
    struct image_endpoint broker_endpoints[LISTENERS_MAX]; /* those for clients */
    struct uuid directory_ids[BROKER_LOG_DIRS_MAX];

    /* Asked for every topic, group and id that a handler touches; a test puts a denying double here. */
    bool (*access)(void *context, const struct request *request, enum operation operation, enum resource_type type,
                   struct bytes name);
    void *access_context;
    /* Milliseconds for which who asks is to be held back, having done so much of that kind; a test puts a double here.
     */
    int32_t (*quota)(void *context, const struct request *request, enum api_quota kind, uint64_t amount);
    void *quota_context;
    _Atomic(bool) coordinators_missing; /* their topic cannot be made, which the log was told */
    struct log_rate bad_requests;       /* lines that clients can cause */
    struct log_rate checkpoint_lines;
    int64_t recovery_began_ns; /* controller loop */
    int64_t recovery_told_ns;

    /* The start and stop sequences; controller loop. */
    _Atomic(enum broker_state) state;
    broker_done_fn *done;
    void *done_context;
    broker_done_fn *stop_done; /* from the call to the stop's first step */
    void *stop_context;
    struct metadata_start metadata_start;
    struct metadata_start metadata_stop;
    struct metadata_call metadata_call;
    struct arena sequence_arena;
    struct loop_task serve_task;
    struct loop_task sequence_task;
    struct loop_task stop_task;
    bool loaded;             /* the partitions are the metadata's */
    bool registered;         /* and unfenced: a stop is to end that */
    _Atomic(bool) undecided; /* a partition that was found is not opened: the start ends, and changes nothing more */
    char undecided_message[BROKER_MESSAGE_CHARS];
    struct checkpoints checkpoints;
    struct dirs_offline offline;
    void (*space_idle)(struct broker *broker); /* asked for by the stop, told once no space is being looked at */
    struct loop_timer heartbeat_timer;
    _Atomic(int64_t) broker_epoch;
    _Atomic(int32_t) http_port; /* broker_tell_http_port's; HTTP_PORT_UNTOLD */
    _Atomic(int32_t) moves;     /* of partitions between directories, under way */
    _Atomic(int32_t) cleanings; /* of logs, under way: at most log.cleaner.threads */
    _Atomic(uint32_t) shards_to_serve;
    _Atomic(uint32_t) shards_left; /* of those that a step of the stop waits for */
    enum err stop_err;
    struct loop_job stop_job;
    char message[BROKER_MESSAGE_CHARS];
};

/* What requests of many entries are worked on by. */
static inline struct shard *broker_aside(struct broker *broker)
{
    return &broker->shards[broker->env.reactor_count + 1];
}

extern const struct image_feature_range broker_features[];
extern const uint32_t broker_feature_count;

/* What the directory's list has becomes part of `stored`. */
MUST_CHECK enum err broker_note_stored(struct broker *broker, uint32_t dir);
/* Of what is kept but not loaded notes are taken (kept). ERR_NOMEM. */
MUST_CHECK enum err broker_keep_stored(struct broker *broker);
/* What the start found on disk is nobody's business any more; once no shard looks for it. */
void broker_forget_stored(struct broker *broker);

/* The node cannot go on. Any thread; message: for the call. */
void broker_fail(struct broker *broker, const char *message);

/* The controller is told of log directories that have failed and it does not know of, again and again until it does;
 * only while the node serves (shard_dirs.c). Controller loop. */
void shard_dirs_tell_offline(struct broker *broker);
/* Writes the checkpoint files every now and then, from the start of service on. */
void checkpoints_begin(struct broker *broker);
/* No more; idle is told when nothing is under way. */
void checkpoints_end(struct broker *broker, void (*idle)(struct broker *broker));
/* Looks at the free space of every directory now and then, from the start of service on. */
void space_watch_begin(struct broker *broker);
/* No more; idle is told when nothing is under way. */
void space_watch_end(struct broker *broker, void (*idle)(struct broker *broker));
/* Before anything of the directories is used. ERR_UNSUPPORTED_VERSION. */
MUST_CHECK enum err space_watch_open(struct broker *broker);
void space_watch_close(struct broker *broker);

/* What the shards noted, written now. Blocks. */
MUST_CHECK enum err checkpoints_write(struct broker *broker, const struct partition_note *notes);

/* log.dirs, opened and locked. A node that has run before goes on without those it cannot use (absent), but for the
 * metadata's. Errors are for the operator: message says which directory, and what to do. */
MUST_CHECK enum err broker_open_dirs(struct broker *broker, char message[BROKER_MESSAGE_CHARS]);
/* Each home's logs of each directory may be synced together, where the system says what it could not write. */
MUST_CHECK enum err broker_make_sync_groups(struct broker *broker, char message[BROKER_MESSAGE_CHARS]);
/* Gives err. */
enum err broker_dir_complain(char message[BROKER_MESSAGE_CHARS], enum err err, const char *path, const char *hint);
/* A log directory as clients are told it: absolute. ERR_NOMEM. */
MUST_CHECK enum err broker_dir_name(const struct broker *broker, const char *path, struct arena *arena,
                                    struct bytes *name);

/* The one answer to "where is this node for whoever asks on that connection": the advertised address of its listener,
 * or, where none is set and it is bound to every address, the local one of the connection. */
struct net_address broker_address_for(const struct broker *broker, const struct connection *connection);
/* The same for any broker of the image: its endpoint on the listener that the connection came in on.
 * ERR_LISTENER_NOT_FOUND when it has none of that name; ERR_BROKER_NOT_AVAILABLE when it is not there or fenced. */
MUST_CHECK enum err broker_address_of(struct request *request, int32_t node_id, struct bytes *host, int32_t *port);

#endif
