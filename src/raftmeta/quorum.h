/*
 * quorum: the seam between the metadata node and whatever makes the nodes of a cluster agree on one log: today a quorum
 * of one (quorum_single.h), later Raft. The leader proposes batches; they are told committed once a majority has them
 * on stable storage.
 *
 *   quorum_start -> leading -> { quorum_propose -> committed | refused }* -> quorum_stop -> stopped
 *
 * Always holds  offsets are committed in order and once; what was refused never commits.
 * Threads       the controller loop. committed, refused, failed and stopped may come from within a call.
 */
#ifndef OTTLA_RAFTMETA_QUORUM_H
#define OTTLA_RAFTMETA_QUORUM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"
#include "partition/log.h"

struct quorum;

struct quorum_events {
    /* This node leads. The log ends at next_offset, with the control records of the new epoch; committed tells when all
     * of that is. control_batch is borrowed for the call. */
    void (*leading)(void *context, int32_t epoch, struct bytes control_batch, int64_t next_offset);
    /* Everything below offset is committed. */
    void (*committed)(void *context, int64_t offset);
    /* Proposals from next_offset on are not in the log and never will be (a full disk); this node still leads, and the
     * next proposal begins there. */
    void (*refused)(void *context, int64_t next_offset, enum err err);
    /* The log is lost to this process (an I/O error): nothing commits any more. */
    void (*failed)(void *context, enum err err);
    /* The answer to quorum_stop. */
    void (*stopped)(void *context, enum err err);
};

/* Batches of one change; made with mem_alloc, together with their bytes. The quorum's from the call on. */
struct quorum_proposal {
    int64_t base_offset, last_offset;
    bool lazy; /* nobody waits for it: it may be synced with what comes later */
    uint8_t *batches;
    size_t size;
    /* the quorum's */
    struct quorum *quorum;
    struct log_append append;
    struct quorum_proposal *next;
};

struct quorum_ops {
    void (*start)(struct quorum *quorum);
    void (*propose)(struct quorum *quorum, struct quorum_proposal *proposal);
    void (*stop)(struct quorum *quorum);
    void (*free)(struct quorum *quorum);
};

struct quorum {
    const struct quorum_ops *ops;
    const struct quorum_events *events;
    void *context;
};

static inline void quorum_start(struct quorum *quorum)
{
    quorum->ops->start(quorum);
}

/* While leading. Takes the proposal, whatever becomes of it. */
static inline void quorum_propose(struct quorum *quorum, struct quorum_proposal *proposal)
{
    quorum->ops->propose(quorum, proposal);
}

/* What was proposed is synced and committed first; then the log is closed. */
static inline void quorum_stop(struct quorum *quorum)
{
    quorum->ops->stop(quorum);
}

/* After stopped, or before start; frees it. NULL does nothing. */
static inline void quorum_free(struct quorum *quorum)
{
    if (quorum != NULL)
        quorum->ops->free(quorum);
}

#endif
