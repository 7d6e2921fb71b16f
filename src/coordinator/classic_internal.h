/*
 * classic_internal: a classic group in memory, as classic*.c share it; and for consumer_migrate.c, which reads it to
 * take over its members (online migration). Nobody else looks in here.
 *
 * Durable  what the group's record holds: classic_replay sets it, and once the group is Stable or Empty memory and
 *          record say the same. In between, while the next generation is being agreed on, its number, leader, protocol
 *          and members are ahead of the record: a restart goes back to the last generation, and whoever joins again
 *          makes the next. All else is gone after a restart: who waits, timers, ids handed out, protocols beyond the
 *          selected one.
 * Always   joining_count members wait in JoinGroup; waiting in SyncGroup is possible in CompletingRebalance alone; each
 *          member supports at least one protocol that all others support.
 */
#ifndef OTTLA_COORDINATOR_CLASSIC_INTERNAL_H
#define OTTLA_COORDINATOR_CLASSIC_INTERNAL_H

#include "base/map.h"
#include "coordinator/classic.h"
#include "coordinator/group_history.h"
#include "coordinator/protocol_support.h"
#include "protocol/gen/consumer_group_member_metadata_record.h" /* struct classic_protocol */

enum {
    CLASSIC_NEW_MEMBER_MS = 5 * 60 * 1000, /* a member that never had an answer may wait so long: Kafka's, fixed */
    CLASSIC_PENDING_BYTES_MAX = 8 * 1024 * 1024, /* of ids handed out and not used yet, in one coordinator: 100,000
                                                    clients of a usual kind; over it the oldest are forgotten */
    CLASSIC_RECORD_VERSION = 3,                  /* of GroupMetadataValue: what Kafka 4.4 writes */
};

enum classic_state { CLASSIC_EMPTY, CLASSIC_PREPARING, CLASSIC_COMPLETING, CLASSIC_STABLE };

struct classic_member {
    struct classic_group *classic;
    struct bytes id;
    struct bytes instance_id; /* null: a dynamic member */
    struct bytes client_id, client_host;
    int32_t rebalance_timeout_ms, session_timeout_ms;
    struct classic_protocol *protocols; /* with what they point to in one block; as the member prefers them */
    uint32_t protocol_count;
    struct bytes assignment;  /* its own copy; data NULL: none yet */
    struct bytes given;       /* by the leader, while the record is being written; borrowed */
    struct group_op *joining; /* its JoinGroup that waits; NULL */
    struct group_op *syncing; /* its SyncGroup that waits */
    struct loop_timer session;
    bool is_new;       /* it has not been answered since it came: its wait does not count as a sign of life */
    bool sync_pending; /* it has not synced in this generation */
    bool recorded;     /* replay's: the record at hand has it */
};

/* An id that was handed out with MEMBER_ID_REQUIRED and that nobody has joined with yet (KIP-394). */
struct classic_pending {
    struct classic_group *classic;
    struct bytes id;
    struct list_node node; /* groups->pending, oldest first */
    struct loop_timer timer;
};

/* Whom a partition belonged to; both are hashes. */
struct classic_owned {
    uint64_t partition;
    uint64_t owner;
};

struct classic_group {
    struct group *group;
    enum classic_state state;
    bool initial;  /* preparing from Empty: it waits for more members, and never less than the delay */
    bool recorded; /* a record of it stands */
    bool member_added;
    int32_t generation;
    struct bytes protocol_type; /* data NULL: none */
    struct bytes protocol;      /* selected for this generation; data NULL: none */
    struct classic_member *leader;
    int64_t since_ms;     /* in this state; wall; -1: unknown */
    struct map members;   /* by id, in the order they came */
    struct map instances; /* static members by instance id */
    struct map pending;   /* ids handed out */
    struct protocol_support supported;
    uint32_t joining_count;
    uint32_t sync_pending_count;
    struct loop_timer join_timer;   /* the end of the join phase */
    struct loop_timer sync_timer;   /* whoever has not synced by then is removed */
    int32_t delay_ms, remaining_ms; /* of the initial delay */
    struct classic_owned *owned;    /* of the last settled generation, sorted; for the history */
    uint32_t owned_count;
    bool owned_unreadable;
    struct map topics; /* names that the last generation subscribes to, each its own value */
    bool topics_known; /* false: no generation yet, or its bytes are not to be read */
};

static inline uint32_t classic_member_count(const struct classic_group *classic)
{
    return map_count(&classic->members);
}

/* -- classic_member.c -- */
/* The group's classic half, made (Empty, soft) where there is none. ERR_NOMEM. */
MUST_CHECK enum err classic_of_group(struct group *group, struct classic_group **classic);
/* Frees it with all its members; nobody waits. */
void classic_free(struct classic_group *classic);
/* Of a member to be, all copied. */
struct classic_member_spec {
    struct bytes id, instance_id, client_id, client_host;
    int32_t rebalance_timeout_ms, session_timeout_ms;
    const struct classic_protocol *protocols; /* names that come again are left out */
    uint32_t protocol_count;
};
/* ERR_NOMEM. The first one leads, and gives the group its protocol type. */
MUST_CHECK enum err classic_member_add(struct classic_group *classic, const struct classic_member_spec *spec,
                                       struct classic_member **member);
/* ERR_NOMEM; the member is as it was. */
MUST_CHECK enum err classic_member_set_protocols(struct classic_member *member,
                                                 const struct classic_protocol *protocols, uint32_t count);
/* Static members come back under another id. ERR_NOMEM. */
MUST_CHECK enum err classic_member_rename(struct classic_member *member, struct bytes id);
MUST_CHECK enum err classic_member_set_assignment(struct classic_member *member, struct bytes assignment);
/* Takes it out and frees it; another one leads then, if it did. It waits for nothing. */
void classic_member_remove(struct classic_member *member);
struct classic_member *classic_member_find(const struct classic_group *classic, struct bytes id);
struct classic_member *classic_member_find_instance(const struct classic_group *classic, struct bytes instance_id);
/* ERR_UNKNOWN_MEMBER_ID, ERR_FENCED_INSTANCE_ID; instance_id null: not given. classic may be NULL. */
MUST_CHECK enum err classic_member_check(const struct classic_group *classic, struct bytes id, struct bytes instance_id,
                                         struct classic_member **member);
/* What it said about that protocol; empty where it does not support it. */
struct bytes classic_member_metadata(const struct classic_member *member, struct bytes protocol);
/* Same names with the same bytes, in the same order. */
bool classic_member_matches(const struct classic_member *member, const struct classic_protocol *protocols,
                            uint32_t count);
/* A protocol that all members support is among them. */
bool classic_supports(const struct classic_group *classic, const struct classic_protocol *protocols, uint32_t count);
/* By the votes of all members; there are some. Borrowed from a member. */
struct bytes classic_select_protocol(const struct classic_group *classic);
int32_t classic_rebalance_timeout_ms(const struct classic_group *classic);
/* A copy on the heap in place of *to, which is freed; null stays null. ERR_NOMEM: as it was. */
MUST_CHECK enum err classic_keep(struct bytes *to, struct bytes from);
void classic_drop(struct bytes *text); /* frees it; null afterwards */

/* -- classic_pending.c -- */
MUST_CHECK enum err classic_pending_add(struct classic_group *classic, struct step *step, struct bytes id,
                                        int32_t session_timeout_ms);
bool classic_pending_has(const struct classic_group *classic, struct bytes id);
/* Does nothing where there is no such id. */
void classic_pending_remove(struct classic_group *classic, struct bytes id);

/* -- classic_rebalance.c -- */
/* A rebalance is due: begins one (from Empty, Completing, Stable), or lets the one that prepares go on if all are there
 * (but in the initial delay). */
void classic_rebalance(struct classic_group *classic, struct step *step, const struct rebalance_cause *cause);
/* The same from any state but Preparing. */
void classic_prepare(struct classic_group *classic, struct step *step, const struct rebalance_cause *cause);
/* Somebody left who was waited for: completes the join phase if all others are there, in the initial delay too. */
void classic_after_removal(struct classic_group *classic, struct step *step, const struct rebalance_cause *cause);
bool classic_all_joined(const struct classic_group *classic);
void classic_complete_join(struct classic_group *classic, struct step *step);
void classic_set_state(struct classic_group *classic, struct step *step, enum classic_state state);

/* -- classic_join.c -- */
/* Answers its JoinGroup, if it waits in one: with the generation, or refused. */
void classic_answer_join(struct classic_member *member, struct step *step, bool skip_assignment);
void classic_refuse_join(struct classic_member *member, struct step *step, enum err err, struct bytes member_id);

/* -- classic_sync.c -- */
/* Answers its SyncGroup, if it waits in one; err ERR_OK: with its assignment. True: it waited. */
bool classic_answer_sync(struct classic_member *member, struct step *step, enum err err);
void classic_synced(struct classic_member *member); /* it need not be waited for any more */

/* -- classic_session.c -- */
void classic_session_start(struct classic_member *member, struct step *step, int32_t timeout_ms);
/* Answers what it waits in, and removes it. */
void classic_drop_member(struct classic_member *member, struct step *step);

/* -- classic_record.c -- */
/* Writes the group's record with what members are given (those without: nothing), or keep: with what they have; replay
 * makes it Stable, or Empty without members. ERR_MESSAGE_TOO_LARGE: it does not fit a batch, nothing was written and
 * the step goes on; all else: the step has failed. */
MUST_CHECK enum err classic_write(struct classic_group *classic, struct step *step, bool keep);
/* As classic_write with keep; whatever is wrong fails the step. */
enum err classic_write_or_fail(struct classic_group *classic, struct step *step);

/* -- classic_topics.c -- */
/* Notes what the members subscribe to with the protocol that is selected. */
void classic_topics_note(struct classic_group *classic);
void classic_topics_forget(struct classic_group *classic);

/* -- classic_owners.c -- */
/* Notes whom each partition belongs to now. Returns how many had another owner when it was noted last; -1: the members'
 * bytes are not to be read, or were not then. */
int32_t classic_note_owners(struct classic_group *classic);

#endif
