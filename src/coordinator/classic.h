/*
 * classic: groups of the classic protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup at all versions; one generation
 * after another, agreed on in two phases, assignments computed by the member that leads.
 *
 *   Empty -> PreparingRebalance -> CompletingRebalance -> Stable -> PreparingRebalance ...; Empty from any of them when
 *   the last member goes. Dead is what a group is called that is not there.
 *
 * Durable  the group's record (generation, protocol, leader, members with subscription and assignment), written when a
 *          group is made, when the leader's assignment is in, when the last member went, and where a static member
 *          changes its id.
 * Source   groups.md 2; KIP-62, KIP-345, KIP-394, KIP-814.
 */
#ifndef OTTLA_COORDINATOR_CLASSIC_H
#define OTTLA_COORDINATOR_CLASSIC_H

#include "coordinator/group.h"
#include "coordinator/group_history.h"

enum {
    CLASSIC_PROTOCOLS_MAX = 1000, /* that a member offers: clients have a handful; each costs a look, and stays */
    CLASSIC_METADATA_BYTES_MAX = 8 << 20, /* of a member's protocols, kept while it is one: eight times what Apache
                                             Kafka's default lets a group's record hold of one of them */
    CLASSIC_NAMED_MAX = 1 << 17,          /* members that one LeaveGroup or SyncGroup names: each costs a look */
};

void classic_join(struct groups *groups, struct step *step, struct group_op *op);
/* What a JoinGroup says of its rebalance time-out, whatever its version. */
int32_t classic_join_rebalance_ms(const struct group_op *op);
void classic_sync(struct groups *groups, struct step *step, struct group_op *op);
void classic_heartbeat(struct groups *groups, struct step *step, struct group_op *op);
void classic_leave(struct groups *groups, struct step *step, struct group_op *op);
void classic_describe(struct groups *groups, struct step *step, struct group_op *op);

MUST_CHECK enum err classic_replay(struct groups *groups, struct bytes key, struct bytes value);
/* Timers of a group that was loaded begin. */
void classic_loaded(struct group *group, struct step *step);
/* Answers whoever waits, and frees it; group->classic is NULL then. step NULL: nobody waits. */
void classic_unload(struct group *group, struct step *step, enum err why);
/* Writes the tombstone of the group's record, whether that ever stood or not: as in Apache Kafka it is what tells
 * whoever replays that a group of offsets alone has gone (offsets' tombstones leave their group). Replay takes it off
 * the group. The group has no members. */
MUST_CHECK enum err classic_write_tombstone(struct group *group, struct step *step);
size_t classic_tombstone_bytes(const struct group *group); /* of the step's room */

struct bytes classic_state_name(const struct classic_group *classic);    /* NULL: Empty */
struct bytes classic_protocol_type(const struct classic_group *classic); /* "" where there is none */
bool classic_has_members(const struct classic_group *classic);
bool classic_is_settled(const struct classic_group *classic); /* nobody is in it or waits, and no record of it stands */
/* As its last generation does; known: out, false where there was none or its bytes are not to be read. */
bool classic_subscribes(const struct classic_group *classic, struct bytes topic, bool *known);
/* For the expiry: since when it has been Empty, ms since the epoch; -1 unknown. */
int64_t classic_state_since_ms(const struct classic_group *classic);
/* Whether that member may commit (groups.md 4.1). A commit counts as a heartbeat where Kafka has it so. */
MUST_CHECK enum err classic_may_commit(struct group *group, struct step *step, struct bytes member_id,
                                       struct bytes instance_id, int32_t generation, bool transactional);

/* ---- from one kind to the other (consumer_migrate.c; what it reads of members is in classic_internal.h) ---- */

/* To the consumer protocol: whoever waits is answered REBALANCE_IN_PROGRESS; the tombstone of the record is written,
 * and replay frees group->classic with its members: read them before. A failure has failed the step. */
MUST_CHECK enum err classic_convert(struct group *group, struct step *step);

/* A member that the group begins with. */
struct classic_protocol;
struct classic_seed {
    struct bytes id, instance_id; /* instance_id null: dynamic */
    struct bytes client_id, client_host;
    int32_t rebalance_timeout_ms, session_timeout_ms;
    const struct classic_protocol *protocols; /* classic_internal.h */
    uint32_t protocol_count;
    struct bytes assignment; /* a ConsumerProtocolAssignment behind its version */
};
/* Back to the classic protocol: a Stable group of that generation, whose first member leads; its record is written, its
 * sessions run. All is copied. The consumer half is off (group->consumer NULL, kind GROUP_CLASSIC), count > 0. A
 * failure has failed the step. */
MUST_CHECK enum err classic_from_members(struct group *group, struct step *step, int32_t generation,
                                         const struct classic_seed *seeds, uint32_t count);
/* A rebalance of a group with members, as that a downgrade is followed by. */
void classic_begin_rebalance(struct group *group, struct step *step, const struct rebalance_cause *cause);

#endif
