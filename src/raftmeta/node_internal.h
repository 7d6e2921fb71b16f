/*
 * node_internal: what the files of the metadata node share: its start and stop (metadata_node.c), what it decides and
 * who waits (node_decide.c), what the quorum tells it (node_lead.c), what it does when idle (node_idle.c).
 *
 * Threads  the controller loop, but for the jobs.
 */
#ifndef OTTLA_RAFTMETA_NODE_INTERNAL_H
#define OTTLA_RAFTMETA_NODE_INTERNAL_H

#include "base/assert.h"
#include "protocol/batch_build.h"
#include "raftmeta/metadata_load.h"
#include "raftmeta/metadata_node.h"
#include "raftmeta/publisher.h"
#include "raftmeta/quorum.h"

enum node_phase {
    NODE_NEW,
    NODE_LOADING,    /* the job reads the disk */
    NODE_ELECTING,   /* the quorum settles who leads */
    NODE_ACTIVATING, /* we do; the first records are on their way */
    NODE_ACTIVE,
    NODE_FAILED,
    NODE_STOPPING,
    NODE_STOPPED,
};

/* A change handed to the quorum and not yet committed. */
struct pending {
    struct pending *next;
    struct publication *publication;
    int64_t last_offset;
};

struct metadata_node {
    struct metadata_node_options options;
    struct partition_env env;
    struct partition_files files;
    enum node_phase phase;
    struct metadata_start *start, *stop;
    /* start */
    struct loop_job load_job;
    enum err load_err;
    struct metadata_loaded *loaded;     /* until this node is active */
    struct partition_log_close abandon; /* of the log, where the start fails */
    char dir[SNAPSHOT_PATH_CHARS_MAX];
    /* the quorum and the controller */
    struct quorum *quorum;
    bool quorum_open; /* it has the log */
    struct controller *controller;
    int32_t epoch;
    int16_t kraft_version;
    struct voter_set *voters; /* NULL with kraft.version 0 */
    struct batch_builder builder;
    struct arena scratch;
    /* what was proposed, and who waits */
    struct pending *pending_first, *pending_last;
    struct metadata_call *waiting_first, *waiting_last; /* in the order of what they wait for */
    int64_t waited_offset; /* of the last change that somebody can wait for: NoOps are not */
    struct image *committed;
    struct publisher publisher;
    /* requests of our own */
    struct metadata_call activation, registration;
    struct arena activation_arena, registration_arena;
    bool activating, registering; /* on their way */
    struct uuid incarnation;      /* of this process as a controller */
    /* NoOp records */
    struct loop_timer idle_timer;
    uint32_t idle_since_sync;
    /* snapshots */
    struct loop_job snapshot_job;
    bool snapshot_running;
    enum err snapshot_err;
    struct image *snapshot_image;
    struct snapshot_id snapshot_id;
    int64_t snapshot_at_ms; /* wall clock, of the last one */
    uint64_t bytes_since_snapshot;
    bool changed_since_snapshot;
};

/* The only place where the phase changes: always onwards. */
static inline void node_enter(struct metadata_node *node, enum node_phase phase)
{
    assert(phase > node->phase);
    node->phase = phase;
}

static inline int64_t node_now_ms(const struct metadata_node *node)
{
    return loop_now_ns(node->options.loop) / 1000000;
}

/* Answers the start or stop in *which, if it still waits. */
void node_finish_start(struct metadata_start **which, enum err err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Goes on with a stop as far as what is under way allows. */
void node_go_on_stopping(struct metadata_node *node);

/* Decides a request and hands on what it changes. waiter: who is answered when that is visible; NULL: nobody. lazy:
 * nobody waits for its sync. ERR_NOMEM: it never happened. ERR_DAMAGED: fatal. */
MUST_CHECK enum err node_decide(struct metadata_node *node, struct controller_request *request,
                                struct metadata_call *waiter, bool lazy);
/* The publisher's covered offset moved (context is the node). */
void node_applied(void *context);
/* A change on its way, told when everything up to its last offset is committed. */
void node_add_pending(struct metadata_node *node, struct pending *pending);
/* Changes, and requests that wait, from offset on come to nothing. */
void node_drop_pending(struct metadata_node *node, int64_t offset);
void node_refuse_waiting(struct metadata_node *node, int64_t offset, enum err err);
/* The log is lost. */
void node_fail(struct metadata_node *node, enum err err, const char *what);

/* What the quorum calls; context is the node. */
extern const struct quorum_events node_quorum_events;

/* The timer of NoOp records, armed again by itself. */
void node_idle(struct loop_timer *timer);
/* Begins a snapshot when one is due. */
void node_consider_snapshot(struct metadata_node *node);

#endif
