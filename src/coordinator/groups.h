/*
 * groups: the groups of one coordinator, which is one partition of __consumer_offsets: the front door of the group
 * cores. A pure state machine (step.h): it knows no log, no socket and no clock.
 *
 *   groups_new -> groups_replay ... -> groups_loaded -> groups_ask, groups_tick, groups_topics_changed ...
 *              -> groups_unload -> groups_free
 *
 * One name space  a group id is one kind at a time (classic or consumer), and what it has of offsets stays through all.
 * Always holds    one owner of a partition in each generation or epoch; what is durable follows from the records alone.
 * Threads         the home reactor of the partition.
 */
#ifndef OTTLA_COORDINATOR_GROUPS_H
#define OTTLA_COORDINATOR_GROUPS_H

#include <stdint.h>

#include "base/list.h"
#include "base/log.h"
#include "coordinator/group_op.h"
#include "coordinator/group_settings.h"
#include "coordinator/group_topics.h"
#include "coordinator/step.h"

struct groups;

/* What the histories of all groups of one loop hold together (group_history.h). */
struct group_histories {
    struct list entries; /* oldest first */
    size_t bytes;
};

struct groups_spec {
    const struct group_settings *settings; /* borrowed for life */
    struct group_histories *histories;     /* borrowed for life, list_init'ed; NULL: its own alone */
    struct log *log;                       /* for lines; NULL: none (tests) */
    uint64_t seed;                         /* of hash maps */
    int32_t partition;                     /* of __consumer_offsets: for lines */
};

/* ERR_NOMEM. */
MUST_CHECK enum err groups_new(const struct groups_spec *spec, struct groups **groups);
/* Nothing waits any more (groups_unload). NULL does nothing. */
void groups_free(struct groups *groups);

/* One record of the log, while loading and (by the sink) as it is written. value null: a tombstone. producer_id: of a
 * transactional batch; -1: none. Unknown kinds of records are skipped.
 *
 * ERR_UNSUPPORTED_VERSION  a value of a version that is unknown: the load fails
 * ERR_DAMAGED, ERR_NOMEM   likewise */
MUST_CHECK enum err groups_replay(struct groups *groups, int64_t producer_id, struct bytes key, struct bytes value);
/* The end of a producer's transaction: what it committed counts, or never was. */
MUST_CHECK enum err groups_replay_marker(struct groups *groups, int64_t producer_id, bool committed);
/* All is replayed: sessions and rebalances begin to run. */
void groups_loaded(struct groups *groups, struct step *step);
/* This node coordinates them no more: whoever waits is answered with why (ERR_NOT_COORDINATOR ...). */
void groups_unload(struct groups *groups, struct step *step, enum err why);

/* Decides the operation, at once or in a later step. ERR_COORDINATOR_LOAD_IN_PROGRESS (op->op.err) where its group is
 * being deleted: it may come again. */
void groups_ask(struct groups *groups, struct step *step, struct group_op *op);
/* When groups_tick has something to do; monotonic, INT64_MAX: never. */
int64_t groups_due_ns(const struct groups *groups);
void groups_tick(struct groups *groups, struct step *step);
/* The metadata is another (step->topics). deleted: topics that are gone since. */
void groups_topics_changed(struct groups *groups, struct step *step, const struct group_topic *deleted,
                           uint32_t deleted_count);

uint32_t groups_count(const struct groups *groups);

#endif
