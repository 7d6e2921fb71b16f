/*
 * consumer_internal: one group of the consumer protocol, as its files share it (consumer*.c). For them alone.
 *
 *   consumer.c            what other cores ask of a group; its end
 *   consumer_heartbeat.c  the heartbeat: what is refused, and how it is answered
 *   consumer_request.c    what its request says by itself
 *   consumer_classic.c    the same for members of the classic protocol
 *   consumer_subscribe.c  a member on its way through a step, whichever protocol it speaks
 *   consumer_member.c     members and what they subscribe to
 *   consumer_epoch.c      group epoch and the hash of the subscribed topics' metadata
 *   consumer_target.c     the target assignment, by an assignor
 *   consumer_reconcile.c  each member's way to its target
 *   consumer_fence.c      leaving, time-outs
 *   consumer_regex.c      expressions, resolved beside the heartbeats
 *   consumer_embedded.c   the bytes that classic members carry inside their requests
 *   consumer_migrate.c    from classic to consumer and back
 *   consumer_size.c       what a step would write: known before it writes
 *   consumer_describe.c   what a group tells of itself
 *   consumer_history.c    its rebalances: when one begins and is over, and what moved
 *   consumer_state.c      the group in memory
 *   consumer_replay.c     records; all that is durable changes there and nowhere else
 *
 * Member's state  STABLE -> UNREVOKED (something must be given back) -> UNRELEASED (waits for what others hold) ->
 *                 STABLE; each step may be left out. A partition has one owner: whoever has it assigned or still has to
 *                 give it back, at the epoch that stands in `owners`.
 */
#ifndef OTTLA_COORDINATOR_CONSUMER_INTERNAL_H
#define OTTLA_COORDINATOR_CONSUMER_INTERNAL_H

#include "base/arena.h"
#include "base/map.h"
#include "coordinator/consumer.h"
#include "coordinator/group_history.h"
#include "coordinator/partition_set.h"
#include "coordinator/protocol_support.h"
#include "protocol/gen/consumer_group_heartbeat.h"
#include "protocol/gen/consumer_group_member_metadata_record.h"
#include "protocol/gen/consumer_group_regular_expression_record.h"
#include "protocol/gen/consumer_protocol_subscription.h"

enum {
    EPOCH_LEAVE = -1,
    EPOCH_LEAVE_STATIC = -2,
    CONSUMER_EPOCH_FIRST = 1, /* of a group that has no record of its epoch yet; its target is empty */
    PARTITION_FREE = -1,      /* in owners */
    /* Who would be beyond is refused; what stands in the log is taken, whoever wrote it. */
    CONSUMER_MEMBERS_MAX = 1 << 20,        /* of a group */
    CONSUMER_GROUP_NAMES_MAX = 1 << 19,    /* that its members subscribe to */
    CONSUMER_NAMES_MAX = 1 << 17,          /* of one of them: with seven letters each they fill a batch */
    CONSUMER_OWNED_MAX = 1 << 18,          /* partitions that one says it has: twice what its record holds in a batch */
    CONSUMER_PARTITIONS_MAX = 1 << 20,     /* of a topic: what a damaged record must not exceed */
    CONSUMER_RECORD_BYTES_MAX = INT32_MAX, /* while one is built of what is in memory: how large it gets is asked
                                              before it is begun, a batch holds no more, and this is the wire's */
    CONSUMER_REGEX_INTERVAL_MS = 10 * 1000, /* between two resolutions, at least: as Kafka */
};

/* Of a tick, over all groups: for compiling expressions, and for matching them (topic_regex.h). None is begun that
 * finds it spent, so the last comes on top: 127 x 20 us + 6 ms = 8.6 ms, less than a long turn of a reactor (10 ms). */
enum { CONSUMER_REGEX_TICK_COST = 128 };

enum member_state { MEMBER_STABLE = 0, MEMBER_UNREVOKED = 1, MEMBER_UNRELEASED = 2 };

struct consumer_member {
    struct consumer_group *consumer;
    struct bytes id; /* its own copy */
    /* Record 5. Topic names are sorted, each once. classic_member_metadata not NULL: it speaks the classic protocol. */
    struct consumer_group_member_metadata_value about;
    struct arena arena; /* of about */
    bool subscribed;    /* record 5 stands: only then it is a member */
    bool current;       /* record 8 stands */
    bool targeted;      /* record 7 stands */
    bool named;         /* by the LeaveGroup that is being read */
    int8_t state;       /* enum member_state, or what a newer version wrote */
    int32_t epoch;
    int32_t previous_epoch;
    struct partition_set assigned;
    struct partition_set revoking;
    struct partition_set target; /* epochs mean nothing in it */
    /* Not durable. */
    struct loop_timer session_timer;
    struct loop_timer rebalance_timer; /* runs while it has to give something back */
    int32_t rebalance_epoch;           /* that it was started at */
    struct loop_timer join_timer;      /* classic: it was told to join again */
    struct loop_timer sync_timer;      /* classic: it joined, and has not fetched its assignment */
};

/* How many subscribe to a topic's name, by name or by expression. */
struct consumer_name {
    struct bytes name; /* its own copy */
    uint32_t count;
    uint32_t index;       /* while a target is computed: of the topic among the others */
    int64_t hash_version; /* of the metadata that hash is of */
    uint64_t hash;
};

struct consumer_expression {
    struct bytes text;    /* its own copy */
    uint32_t subscribers; /* members */
    bool resolved;        /* record 16 stands; what follows is its */
    struct arena arena;
    struct bytes *topics; /* sorted */
    uint32_t topic_count;
    int64_t version; /* of the metadata */
    int64_t timestamp_ms;
};

/* Who owns the partitions of a topic. */
struct consumer_owners {
    struct uuid topic;
    int32_t *epochs; /* of each partition the epoch of its owner, or PARTITION_FREE */
    uint32_t epoch_room;
    uint32_t taken; /* of them: not free */
    uint64_t *had;  /* who had it when the last rebalance was over: hashes of members; 0 nobody */
    uint32_t had_room;
};

struct regex_task;

struct consumer_group {
    struct group *group;
    struct map members; /* by id; those that are only targeted or current too */
    uint32_t member_count;
    uint32_t classic_count; /* of them */
    size_t id_bytes;        /* of their ids */
    struct map instances;   /* static members by instance id */
    struct map names;
    struct map expressions;
    struct map owners;                 /* by topic id */
    struct protocol_support supported; /* by classic members */
    uint32_t votes[ASSIGNOR_COUNT];
    int32_t epoch;
    int64_t metadata_hash;
    bool has_epoch;       /* record 3 stands */
    int32_t target_epoch; /* CONSUMER_EPOCH_FIRST without a record: nobody subscribes in that one */
    int64_t target_ms;    /* when it was computed; 0: never, or the group was empty since */
    bool has_target;      /* record 6 stands */
    bool has_metadata;    /* record 4 stands: of brokers before 4.1 */
    /* Not durable. */
    uint64_t topics_seen;     /* groups.topics_changes when the hash was computed; 0: never */
    bool rebalancing;         /* the history has one open */
    uint32_t unsettled;       /* place in members where one was found last that is not reconciled */
    struct regex_task *regex; /* NULL: none is under way */
};

/* consumer_member.c */
struct consumer_member *consumer_find(const struct consumer_group *consumer, struct bytes id); /* a member, or NULL */
struct consumer_member *consumer_find_instance(const struct consumer_group *consumer, struct bytes instance_id);
bool consumer_member_is_classic(const struct consumer_member *member);
/* As a member begins: nothing subscribed. */
void consumer_about_init(struct consumer_group_member_metadata_value *about);
bool consumer_about_equal(const struct consumer_group_member_metadata_value *a,
                          const struct consumer_group_member_metadata_value *b);
bool consumer_names_equal(const struct consumer_group_member_metadata_value *a,
                          const struct consumer_group_member_metadata_value *b);
/* A copy that lives in the arena. */
MUST_CHECK enum err consumer_about_copy(const struct consumer_group_member_metadata_value *from, struct arena *arena,
                                        struct consumer_group_member_metadata_value *to);
/* Sorts the names, each once. */
void consumer_names_sort(struct consumer_group_member_metadata_value *about);
bool consumer_member_subscribes(const struct consumer_member *member, struct bytes topic);
MUST_CHECK enum err consumer_write_member(struct consumer_group *consumer, struct step *step, struct bytes member_id,
                                          const struct consumer_group_member_metadata_value *about);
/* Tombstones 8, 7, 5. */
MUST_CHECK enum err consumer_write_member_gone(struct consumer_group *consumer, struct step *step,
                                               struct bytes member_id);
/* A static member's place, with all it has, goes to another member id, at epoch 0. arena: for the way. */
MUST_CHECK enum err consumer_replace(struct consumer_member *old, struct step *step, struct arena *arena,
                                     struct bytes member_id);
/* A setting of the group, within the broker's bounds. */
int32_t consumer_setting(const struct group *group, const struct step *step, struct bytes name, int32_t value,
                         int32_t min, int32_t max);
int32_t consumer_heartbeat_ms(const struct group *group, const struct step *step);
void consumer_start_session(struct consumer_member *member, struct step *step);
void consumer_stop_timers(struct consumer_member *member);
/* Which assignor most members ask for. */
enum group_assignor consumer_assignor(const struct consumer_group *consumer);

/* consumer_subscribe.c */

/* A member on its way through a step. Who asks fills in who it is and what it says; what may be refused of that is
 * refused before consumer_subscribe, which writes. */
struct consumer_subscriber {
    struct groups *groups;
    struct step *step;
    struct group_op *op;
    struct arena arena; /* of what it becomes */
    /* Who it is. */
    struct consumer_group *consumer; /* NULL: made by the first record */
    struct bytes member_id;
    struct consumer_member *member;   /* NULL: new, or to take another's place; after consumer_subscribe the member */
    struct consumer_member *replaced; /* a static member that it takes the place of */
    /* What it says. Null, and -1: as it was. */
    struct bytes instance_id;
    struct bytes rack_id;
    struct bytes server_assignor;
    struct bytes expression;
    const struct bytes *names; /* of topics */
    uint32_t name_count;
    bool says_names;
    int32_t rebalance_timeout_ms;
    struct classic_member_metadata *classic; /* NULL: it speaks the consumer protocol */
    struct partition_set owned;              /* what it has */
    bool says_owned;
    struct bytes reason; /* in its words; for the history */
    /* What it does to the group. */
    bool upgraded;   /* that was a classic one until this step */
    bool downgrades; /* that will be one when this step is over: nothing is assigned that is not yet */
    /* What comes of it. */
    struct consumer_group_member_metadata_value about; /* what it becomes */
    struct bytes expression_before;
    bool changed; /* what is assigned to it is another */
};
void consumer_subscriber_init(struct consumer_subscriber *who, struct groups *groups, struct step *step,
                              struct group_op *op);
void consumer_subscriber_deinit(struct consumer_subscriber *who);
/* Gives it a member id, in the form of Kafka's ids, where it has none. ERR_NOMEM. */
MUST_CHECK enum err consumer_subscriber_name(struct consumer_subscriber *who);
/* Whether the group, which there is, has all members that it may, and not this one. */
bool consumer_subscriber_is_too_many(const struct consumer_subscriber *who);
/* about, and expression_before, of who it is and what it says. */
MUST_CHECK enum err consumer_subscriber_describe(struct consumer_subscriber *who);
/* Of all that consumer_subscribe may write, once it is described. */
size_t consumer_subscriber_bytes(const struct consumer_subscriber *who);
/* As described: its records, the group's epoch and target, and its own way there. Its session runs then. Where it
 * downgrades the group, that is left to who asks, with all that follows. */
MUST_CHECK enum err consumer_subscribe(struct consumer_subscriber *who);

/* consumer_request.c */
/* What is wrong with it, whatever the group is (groups.md 3.2); constant; NULL: nothing. */
const char *consumer_request_mistake(const struct consumer_group_heartbeat_request *request, int16_t version);
/* Partitions that the member says it has; beyond CONSUMER_OWNED_MAX not all are counted. */
uint32_t consumer_request_owned_count(const struct consumer_group_heartbeat_request *request);
bool consumer_request_owns_only(const struct consumer_group_heartbeat_request *request, const struct partition_set *of);
MUST_CHECK enum err consumer_request_owned(const struct consumer_group_heartbeat_request *request,
                                           struct partition_set *owned);

/* consumer_size.c: bytes of records, at most */
size_t consumer_about_bytes(const struct consumer_group *consumer, struct bytes member_id,
                            const struct consumer_group_member_metadata_value *about);
size_t consumer_set_bytes(const struct partition_set *set, bool epochs);
size_t consumer_current_bytes(const struct consumer_member *member);
/* What is left of the step's room for partitions that the member takes beside those; what one of them takes of it, of
 * whose topic it has so many: so much that the record fits even where half of each topic is to be given back some day.
 */
size_t consumer_current_room(const struct consumer_member *member, const struct step *step,
                             const struct partition_set *kept);
size_t consumer_taken_bytes(uint32_t of_topic);
/* Whether the record of the member that has what it has, and gives nothing back, fits in the step. */
bool consumer_current_fits(const struct consumer_member *member, const struct step *step);
/* Of the lists in the targets of so many members, of so many partitions of so many topics. */
size_t consumer_target_lists_bytes(size_t members, size_t topics, size_t partitions);
/* Of the targets of all members and one more, which subscribes to that; and what it then has. */
size_t consumer_target_bytes(const struct consumer_group *consumer, const struct step *step,
                             const struct consumer_group_member_metadata_value *about);
size_t consumer_gone_bytes(const struct consumer_group *consumer, struct consumer_member *const *members,
                           uint32_t count);
size_t consumer_epoch_bytes(const struct consumer_group *consumer);
/* Of all that may be written for a member which joins or says anew what it subscribes to. known: it as it is, or the
 * one that it replaces; NULL: none. */
size_t consumer_join_bytes(const struct consumer_group *consumer, const struct step *step, struct bytes member_id,
                           const struct consumer_group_member_metadata_value *about,
                           const struct consumer_member *known, bool replaced);
size_t consumer_downgrade_bytes(const struct consumer_group *consumer, const struct step *step);
size_t consumer_expression_bytes(const struct consumer_group_regular_expression_key *key,
                                 const struct consumer_group_regular_expression_value *value);

/* consumer_epoch.c */
/* The metadata may be another since the hash was computed. */
bool consumer_must_refresh(const struct consumer_group *consumer);
/* Of the topics subscribed to now. */
MUST_CHECK enum err consumer_hash(struct consumer_group *consumer, const struct step *step, int64_t *hash);
/* Epochs only rise. A record may hold the last there is, though nothing counts that far: there they stay, and the group
 * as it is, until it is deleted. */
int32_t consumer_next_epoch(const struct consumer_group *consumer);
MUST_CHECK enum err consumer_write_epoch(struct consumer_group *consumer, struct step *step, int32_t epoch,
                                         int64_t hash);
/* A new epoch if asked for, or if the metadata of what is subscribed to is another. */
MUST_CHECK enum err consumer_bump(struct consumer_group *consumer, struct step *step, bool asked);

/* consumer_target.c */
/* Computes the target of the group's epoch where it is behind, and may be computed already. */
MUST_CHECK enum err consumer_update_target(struct consumer_group *consumer, struct step *step);
MUST_CHECK enum err consumer_write_target_epoch(struct consumer_group *consumer, struct step *step, int32_t epoch,
                                                int64_t now_ms);
MUST_CHECK enum err consumer_write_target(struct consumer_group *consumer, struct step *step, struct bytes member_id,
                                          const struct partition_set *target);

/* consumer_reconcile.c */
/* owned: what the member says it has; NULL: it did not say. */
bool consumer_owns_any(const struct partition_set *owned, const struct partition_set *of);
bool consumer_is_reconciled(const struct consumer_member *member);
/* Takes the member a step towards the target. changed: out, what is assigned to it is another. */
MUST_CHECK enum err consumer_reconcile(struct consumer_member *member, struct step *step, bool subscription_changed,
                                       const struct partition_set *owned, bool *changed);
struct consumer_current {
    int32_t epoch;
    int32_t previous_epoch;
    int8_t state;
    const struct partition_set *assigned;
    const struct partition_set *revoking;
};
MUST_CHECK enum err consumer_write_current(struct consumer_group *consumer, struct step *step, struct bytes member_id,
                                           const struct consumer_current *current);
/* Whether something that it waits for is held by somebody. */
bool consumer_waits_for_others(const struct consumer_member *member);

/* consumer_fence.c */
void consumer_leave(struct groups *groups, struct step *step, struct group_op *op);
/* Takes the members out of the group; causes of the history. */
MUST_CHECK enum err consumer_fence(struct consumer_group *consumer, struct step *step,
                                   struct consumer_member *const *members, uint32_t count, enum group_cause cause,
                                   struct bytes reason);

void consumer_timers_init(struct consumer_member *member);

/* consumer_migrate.c */
/* Whether the group goes back to the classic protocol when those members are gone (or one of them replaced by a
 * classic one). */
bool consumer_may_downgrade(const struct consumer_group *consumer, const struct step *step,
                            struct consumer_member *const *members, uint32_t count, bool replaced);
/* It does when that member is gone, and what that writes fits a step, but not what is left of this one. */
bool consumer_downgrade_waits(const struct consumer_group *consumer, const struct step *step,
                              struct consumer_member *member);
/* Without those members. The group is of the classic kind then, of that generation: the epoch that members know of. */
MUST_CHECK enum err consumer_downgrade(struct consumer_group *consumer, struct step *step, int32_t generation,
                                       struct consumer_member *const *without, uint32_t without_count);
/* And a rebalance follows. */
MUST_CHECK enum err consumer_downgrade_without(struct consumer_group *consumer, struct step *step,
                                               struct consumer_member *const *members, uint32_t count,
                                               struct bytes reason);
/* Whether a classic group with members can become one of this kind, and why not (constant). ERR_NOMEM: nobody knows. */
MUST_CHECK enum err consumer_upgrade_refusal(const struct group *group, const struct step *step, const char **why);
/* Members that a group of this kind may have. */
static inline uint32_t consumer_size_max(const struct groups *groups)
{
    int32_t max = groups->settings->consumer_size_max;

    return (uint32_t)(max < CONSUMER_MEMBERS_MAX ? max : CONSUMER_MEMBERS_MAX);
}
/* Members that it would have; known: whether that member is one of them. */
uint32_t consumer_upgrade_count(const struct group *group, struct bytes member_id, struct bytes instance_id,
                                bool *known);
/* Makes it one. An Empty one goes without a trace: group->consumer stays NULL then. One whose last member left while
 * somebody else is about to join is not Empty yet: its epochs go on from its generations. */
MUST_CHECK enum err consumer_upgrade(struct group *group, struct step *step);

/* consumer_embedded.c: what classic consumers say inside JoinGroup and are told inside SyncGroup */
MUST_CHECK enum err consumer_read_owned(const struct consumer_protocol_subscription *subscription,
                                        const struct step *step, struct partition_set *owned);
/* Topics that do not exist are left out. */
MUST_CHECK enum err consumer_read_assignment(struct bytes text, const struct step *step, int32_t epoch,
                                             struct partition_set *set, bool *has_user_data);
/* For a classic member, in the version that it speaks. */
MUST_CHECK enum err consumer_encode_assignment(const struct consumer_member *member, const struct partition_set *set,
                                               const struct step *step, struct arena *arena, struct bytes *encoded);

/* consumer_regex.c */
/* Begins to resolve expressions where it is time. */
void consumer_regex_schedule(struct consumer_group *consumer, struct step *step, const struct group_op *op);
/* Takes over what was resolved and had to wait for somebody whose rights count: the member who speaks. *applied: out,
 * something of it is in this step, which is to write no target beside: how large that is nobody has asked yet. */
MUST_CHECK enum err consumer_regex_apply(struct consumer_group *consumer, struct step *step, const struct group_op *op,
                                         const struct consumer_member *member, bool *applied);
MUST_CHECK enum err consumer_write_expression_gone(struct consumer_group *consumer, struct step *step,
                                                   struct bytes expression);
void consumer_regex_stop(struct consumer_group *consumer);

/* consumer_state.c: for consumer_replay.c alone, but for the last four */
struct consumer_group *consumer_group_find(struct groups *groups, struct bytes id); /* NULL: none of this kind */
MUST_CHECK enum err consumer_group_get(struct groups *groups, struct bytes id, struct consumer_group **consumer);
/* After a tombstone, while loading: what has no record any more goes. */
void consumer_group_settle(struct groups *groups, struct consumer_group *consumer);
MUST_CHECK enum err consumer_names_add(struct consumer_group *consumer, const struct bytes *names, uint32_t count);
void consumer_names_remove(struct consumer_group *consumer, const struct bytes *names, uint32_t count);
MUST_CHECK enum err consumer_expression_get(struct consumer_group *consumer, struct bytes text,
                                            struct consumer_expression **expression);
void consumer_expression_settle(struct consumer_group *consumer, struct consumer_expression *expression);
MUST_CHECK enum err consumer_member_get(struct consumer_group *consumer, struct bytes id,
                                        struct consumer_member **member);
void consumer_member_settle(struct consumer_member *member);
/* What the group keeps of a member's description beside it. */
void consumer_about_forget(struct consumer_member *member);
MUST_CHECK enum err consumer_about_remember(struct consumer_member *member);
void consumer_current_forget(struct consumer_member *member);
/* They are the member's, at its epoch. */
MUST_CHECK enum err consumer_take(struct consumer_member *member, const struct partition_set *set);
/* Forgets topics of which nobody has anything, those that are gone among them. */
void consumer_owners_settle(struct consumer_group *consumer);
/* Whether the group may have those too: for who brings them. */
bool consumer_names_fit(const struct consumer_group *consumer, const struct bytes *names, uint32_t count);
int32_t consumer_owner_epoch(const struct consumer_group *consumer, struct uuid topic, int32_t partition);
void consumer_free(struct consumer_group *consumer);

/* consumer_history.c */
void consumer_rebalance_begin(struct consumer_group *consumer, const struct step *step, enum group_cause cause,
                              const struct consumer_member *member, struct bytes reason);
/* Ends the one under way if all is settled. */
void consumer_rebalance_settle(struct consumer_group *consumer, const struct step *step);
/* What they have now is what they had before. */
void consumer_rebalance_forget(struct consumer_group *consumer);

/* consumer_heartbeat.c */
/* The member of that instance id, if it has that member id too; NULL: refused (25, 82). */
struct consumer_member *consumer_static_member(struct consumer_group *consumer, struct step *step, struct group_op *op,
                                               struct bytes instance_id, struct bytes member_id);
/* Answers a heartbeat with an error and its text. */
void consumer_refuse(struct step *step, struct group_op *op, enum err err, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif
