/*
 * group_crowd: clients of one simulated coordinator of groups, each a state machine as a consumer of the classic or of
 * the consumer protocol (KIP-848) is one: it joins, leads or follows, syncs, beats, gives back what it is to give back,
 * commits what it has read, be it in transactions, leaves; and it stalls, vanishes, comes back under its name, perhaps
 * with the other protocol, goes on as a second process under an id that is not its any more, says what is of a
 * generation that is over, and hears its answers late or never.
 *
 *   group_crowd.c              a member's life, and the classic protocol
 *   group_crowd_lead.c         a leader's assignment
 *   group_crowd_consumer.c     the consumer protocol
 *   group_crowd_offsets.c      commits and fetches, of both
 *   group_crowd_transaction.c  commits in transactions
 *   group_crowd_stale.c        requests of a generation that is over, and of a process that is
 *   group_crowd_admin.c        an administrator
 *   group_crowd_call.c         a request's way there, and its answer's way back
 *   group_crowd_check.c        what an answer must be, whoever hears it
 *
 * Holds  in a generation or epoch a partition has one owner; a member of a classic group is given what its leader gave
 *        it, once that is committed; who speaks for an id, a generation or an epoch that is over is refused; a fetch of
 *        offsets shows what the records say, and nothing of a transaction that has not its marker.
 */
#ifndef OTTLA_TESTS_SIM_GROUP_CROWD_H
#define OTTLA_TESTS_SIM_GROUP_CROWD_H

#include "sim/group_coordinator.h"
#include "sim/scenario.h"

enum { CROWD_GROUPS = 3, CROWD_MEMBERS = 12, MEMBER_ID_BYTES = 96 };

struct group_crowd;
struct crowd_call;

enum member_state {
    MEMBER_OUT,     /* it will join */
    MEMBER_JOINING, /* waits for an answer to JoinGroup, or to its first heartbeat */
    MEMBER_SYNCING,
    MEMBER_IN,   /* it has an assignment, possibly empty */
    MEMBER_GONE, /* left or dead; comes back while the load goes on */
};

/* What a member knows of one generation, or epoch. */
struct member_view {
    char id[MEMBER_ID_BYTES];
    int32_t generation;
    bool modern;                       /* it was of the consumer protocol */
    bool released;                     /* what is owned in it was given back, and the coordinator has said so */
    uint8_t lives[COORDINATOR_TOPICS]; /* which topic of that name it owns partitions of */
    bool owned[COORDINATOR_TOPICS][COORDINATOR_PARTITIONS_MAX];
    int64_t positions[COORDINATOR_TOPICS][COORDINATOR_PARTITIONS_MAX]; /* -1: not asked for yet */
};

struct crowd_member {
    struct group_crowd *crowd;
    uint32_t number;
    uint32_t group;
    char label[8];
    char instance[8]; /* "": dynamic */
    enum member_state state;
    bool modern;      /* it speaks the consumer protocol */
    uint32_t topics;  /* bits: what it subscribes to */
    uint32_t flavour; /* of its user data: another one is another subscription */
    int16_t join_version;
    int32_t session_ms, rebalance_ms;
    struct member_view now;
    struct member_view before; /* of a generation that is over; id "": none */
    /* The newest id, and its generation, of which a coordinator has said what is never lost. */
    char sure_id[MEMBER_ID_BYTES];
    int32_t sure_generation;
    bool dead;            /* for good */
    bool transactional;   /* it commits in transactions */
    int64_t producer;     /* of the transaction that is open; 0: none is */
    bool producer_failed; /* it must be aborted */
    bool fresh;           /* positions are to be asked for */
    int64_t beat_ns;      /* its last heartbeat */
    int64_t seen_version; /* of the metadata, when it led last */
    /* Of the consumer protocol. */
    bool wanted[COORDINATOR_TOPICS][COORDINATOR_PARTITIONS_MAX]; /* what it was told to own, and does soon */
    uint8_t wanted_lives[COORDINATOR_TOPICS];
    bool reconciled; /* it owns what it is to own */
    bool gives_back; /* ... which is not what is owned in `before` any more, and says so with its next heartbeat */
    bool stubborn;   /* it does not */
    bool says_all; /* an answer was lost, or the subscription is another: with the next heartbeat it says everything */
    bool says_owned; /* what it owns is another than what it said last */
    int16_t beat_version;
    uint32_t expression;       /* 1 + number of what it subscribes with; 0: names */
    uint32_t starts;           /* of its process: each has another id */
    struct crowd_call *call;   /* that it waits for */
    int64_t last_arrival_ns;   /* what it sends arrives in that order */
    struct sim_event act;      /* the next thing it does */
    struct sim_event patience; /* for call */
};

/* Who owns a partition in the newest generation that anybody was told of. */
struct crowd_owner {
    uint32_t life; /* of the group: its generations may begin anew when it was empty */
    int32_t generation;
    uint8_t topic_life;
    uint32_t member; /* 1 + number of a member: a static one is who its name says */
};

struct group_crowd {
    struct sim sim;
    struct group_coordinator coordinator;
    struct crowd_member members[CROWD_MEMBERS];
    struct crowd_owner owners[CROWD_GROUPS][COORDINATOR_TOPICS][COORDINATOR_PARTITIONS_MAX];
    int32_t omitted[CROWD_GROUPS]; /* the generation in which a leader forgot somebody */
    struct sim_event trouble;
    bool over; /* no more trouble */
    bool chatty;
    uint32_t calls;     /* under way */
    uint32_t abandoned; /* transactions */
    uint64_t commits, assignments, refusals;
    uint64_t fenced; /* stale requests that had to be refused, and were */
    uint64_t transactions;
};

void crowd_member_open(struct crowd_member *member, struct group_crowd *crowd, uint32_t number);
/* The next thing happens within that time. */
void crowd_member_soon(struct crowd_member *member, int64_t ms_max);
/* It is gone without a word, and stays so. */
void crowd_member_die(struct crowd_member *member);
/* An administrator looks at a group's offsets, sets them back, deletes them, or the group. */
void crowd_administer(struct group_crowd *crowd);
void crowd_look_at_offsets(struct group_crowd *crowd, uint32_t group);

#endif
