/*
 * consumer: groups of the consumer protocol (KIP-848): one heartbeat request; the coordinator assigns, and each member
 * is brought to its target by reconciliation, revoking before anybody else is given.
 *
 * Durable  records 3 (group epoch), 5 (member), 6 (target epoch), 7 (target of a member), 8 (current assignment of a
 *          member), 16 (resolved expression).
 * Source   groups.md 3; KIP-848.
 */
#ifndef OTTLA_COORDINATOR_CONSUMER_H
#define OTTLA_COORDINATOR_CONSUMER_H

#include "coordinator/group.h"

void consumer_heartbeat(struct groups *groups, struct step *step, struct group_op *op);
void consumer_describe(struct groups *groups, struct step *step, struct group_op *op);
/* A classic member in a group of this kind (online migration): called by classic_* where group->kind says so. */
void consumer_classic_join(struct group *group, struct step *step, struct group_op *op);
void consumer_classic_sync(struct group *group, struct step *step, struct group_op *op);
void consumer_classic_heartbeat(struct group *group, struct step *step, struct group_op *op);
void consumer_classic_leave(struct group *group, struct step *step, struct group_op *op);

/* kind: the key's type; 3 to 8 and 16. */
MUST_CHECK enum err consumer_replay(struct groups *groups, int16_t kind, struct bytes key, struct bytes value);
void consumer_loaded(struct group *group, struct step *step);
void consumer_unload(struct group *group);
/* Tombstones of all its records; replay takes them off. The group has no members. */
MUST_CHECK enum err consumer_write_tombstones(struct group *group, struct step *step);
size_t consumer_tombstones_bytes(const struct consumer_group *consumer); /* of the step's room, at most */
/* The timer of groups whose expressions are being resolved. */
void consumer_regex_fired(struct loop_timer *timer);

struct bytes consumer_state_name(const struct consumer_group *consumer);
uint32_t consumer_member_count(const struct consumer_group *consumer);
bool consumer_has_members(const struct consumer_group *consumer);
bool consumer_is_settled(const struct consumer_group *consumer); /* no record of it stands */
bool consumer_subscribes(const struct consumer_group *consumer, struct bytes topic);
/* Whether that member may commit (groups.md 4.1); version: of OffsetCommit. With an epoch below its own it may, but
 * only what it had then already: consumer_may_commit_partition says of each partition, and one that it may not is the
 * error of the whole request. */
MUST_CHECK enum err consumer_may_commit(const struct group *group, struct bytes member_id, struct bytes instance_id,
                                        int32_t epoch, int16_t version, bool transactional);
MUST_CHECK enum err consumer_may_commit_partition(const struct group *group, struct bytes member_id, int32_t epoch,
                                                  struct uuid topic, int32_t partition, bool transactional);
/* OffsetFetch v9+: member and epoch given. */
MUST_CHECK enum err consumer_may_fetch(const struct group *group, struct bytes member_id, int32_t epoch);

#endif
