/*
 * offsets: what groups have committed. Records 1 (and 0, read only); commits in transactions wait for their marker.
 *
 * Source  groups.md 4; KIP-211, KIP-447, KIP-496.
 */
#ifndef OTTLA_COORDINATOR_OFFSETS_H
#define OTTLA_COORDINATOR_OFFSETS_H

#include "coordinator/group.h"

/* Topics stand by name, or from version 10 (of TxnOffsetCommit 6) by id; what the metadata does not know is refused for
 * itself. All of one commit lands in one batch. */
void offsets_commit(struct groups *groups, struct step *step, struct group_op *op);
void offsets_txn_commit(struct groups *groups, struct step *step, struct group_op *op);
/* The form of versions 8 and above is filled in whatever the version, with names and (where the topic exists) ids. */
void offsets_fetch(struct groups *groups, struct step *step, struct group_op *op);
void offsets_delete(struct groups *groups, struct step *step, struct group_op *op);
/* DeleteGroups: tombstones of its offsets and of its own records. */
void offsets_delete_group(struct groups *groups, struct step *step, struct group_op *op);

/* kind: the key's type, 0 or 1. */
MUST_CHECK enum err offsets_replay(struct groups *groups, int64_t producer_id, int16_t kind, struct bytes key,
                                   struct bytes value);
MUST_CHECK enum err offsets_replay_marker(struct groups *groups, int64_t producer_id, bool committed);
/* Whoever waits for a deletion is answered with why. */
void offsets_stop(struct groups *groups, struct step *step, enum err why);
/* From now on what is too old goes, by the rule of each group's kind, every offsets.retention.check.interval.ms: a
 * piece in each step, as is what was committed for topics that are gone. */
void offsets_loaded(struct groups *groups, struct step *step);
void offsets_sweep_fired(struct loop_timer *timer);
void offsets_topics_deleted(struct groups *groups, struct step *step, const struct group_topic *topics, uint32_t count);
void offsets_free(struct group *group);
bool offsets_is_empty(const struct group *group);
/* All of it, and what transactions hold pending. */
void offsets_unload(struct groups *groups);

#endif
