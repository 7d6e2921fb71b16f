/*
 * group_coordinator: a coordinator of groups in the simulated world: the real core, on a log that is a list of records
 * in batches, committed a while after they were written. It dies and comes back, from its records alone, which it may
 * find compacted; what was not committed may be gone then. A write may fail in the middle of a step. What transactions
 * commit stands in it under their producer ids, until their markers.
 *
 *   group_coordinator.c          steps, the log, life
 *   group_coordinator_check.c    what is looked at in records, and in the state after each step
 *   group_coordinator_offsets.c  what the records say of offsets, read by a simpler rule than the core's
 *
 * Holds  at every record: an offset that is committed is not below the one before it, but in an explicit reset or
 * behind an aborted one; the number of a group's generation or epoch does not go back while it has members; what a
 * member is given exists. After every step: a partition is one member's, be it still to be given back, and one member's
 * to be; nobody is ahead of its group; what members have or are to have existed once, and, where group and member have
 * seen the topics as they are, exists now.
 */
#ifndef OTTLA_TESTS_SIM_GROUP_COORDINATOR_H
#define OTTLA_TESTS_SIM_GROUP_COORDINATOR_H

#include "coordinator/groups.h"
#include "sim/sim.h"

enum {
    COORDINATOR_TOPICS = 4,
    COORDINATOR_PARTITIONS_MAX = 8,
    COORDINATOR_GROUPS = 3,
    COORDINATOR_LIVES_MAX = UINT8_MAX, /* of all topics */
};

enum transaction_end { TRANSACTION_OPEN, TRANSACTION_COMMITTED, TRANSACTION_ABORTED };

/* Each has a producer id of its own: its place in the coordinator's list, and 1. */
struct group_transaction {
    enum transaction_end decided; /* by whoever coordinates transactions */
    enum transaction_end marked;  /* in this log */
    bool written;                 /* something of it was, at some time */
};

/* What a record says of an offset. */
struct offset_record {
    bool is;
    bool stored; /* false: a tombstone */
    uint8_t topic;
    uint8_t life; /* of the topic that was meant */
    int32_t partition;
    int64_t offset;
    struct bytes group; /* within the record's key */
};

struct group_record {
    int64_t producer_id; /* -1: of no transaction */
    bool marker;         /* the end of one, as transactions[].marked says; nothing else is in it */
    struct offset_record about;
    uint32_t batch;
    bool reset;    /* written by somebody who meant to go back */
    bool confused; /* or who meant another topic of that name */
    struct bytes key, value;
};

/* What the records of a group have said. */
struct group_numbers {
    struct bytes id;   /* its own copy */
    uint32_t life;     /* its numbers began anew so many times */
    int32_t number;    /* the newest generation or epoch */
    bool was_consumer; /* of that kind after the last step */
    bool target_taken; /* its target is what a leader gave the members when it still was a classic group */
    int32_t target_epoch;
    bool had_members; /* after the last step */
};

struct group_coordinator {
    struct sim *sim;
    struct group_numbers numbers[COORDINATOR_GROUPS];
    void (*decided)(struct step_op *op); /* at the end of the step that answers it */
    struct group_settings settings;
    struct group_topics topics;
    struct group_topic table[COORDINATOR_TOPICS]; /* 0 partitions: not there */
    char names[COORDINATOR_TOPICS][8];
    uint8_t lives;                            /* of all topics, for their ids */
    uint32_t most[COORDINATOR_LIVES_MAX + 1]; /* by life: partitions that it has had */
    /* ... and those that a leader of the classic protocol gave away under its name, meaning another topic. */
    bool mistaken[COORDINATOR_LIVES_MAX + 1][COORDINATOR_PARTITIONS_MAX];
    struct groups *groups; /* NULL: down */
    struct step step;
    struct step_sink sink;
    struct group_record *records;
    uint32_t record_count;
    uint32_t record_room;
    struct group_transaction *transactions;
    uint32_t transaction_count;
    uint32_t transaction_room;
    /* By life: 1 + number of a topic that went while it was up: its offsets are being taken away; and have been. */
    uint8_t going[COORDINATOR_LIVES_MAX + 1];
    bool gone[COORDINATOR_LIVES_MAX + 1];
    uint32_t batches;       /* whole ones */
    uint32_t committed;     /* of them */
    size_t batch_bytes_max; /* of one step, by the seed */
    size_t batch_bytes;     /* of the one under way */
    bool resetting, confused;
    uint32_t fail_in;     /* records; 0: no failure */
    struct list answered; /* in this step */
    struct list held;     /* until what they saw is committed */
    struct sim_event tick, commit, start;
    uint64_t crashes, failures, written;
};

void group_coordinator_open(struct group_coordinator *coordinator, struct sim *sim);
void group_coordinator_close(struct group_coordinator *coordinator);
/* op->op.done runs later, or at once with ERR_NOT_COORDINATOR while it is down. */
void group_coordinator_ask(struct group_coordinator *coordinator, struct group_op *op);
/* 0 partitions: deletes it; it comes back as another. */
void group_coordinator_topic(struct group_coordinator *coordinator, uint32_t topic, uint32_t partitions);
uint8_t group_coordinator_life(const struct group_coordinator *coordinator, uint32_t topic); /* 0: it is not there */
struct uuid group_coordinator_topic_id(uint8_t life);
/* Whether who has what was decided by the coordinator. */
bool group_coordinator_assigned(const struct group_coordinator *coordinator, struct bytes id);
uint32_t group_coordinator_group_life(const struct group_coordinator *coordinator, struct bytes id);
/* How many members it counts in that group; 0 while it is down. */
uint32_t group_coordinator_member_count(const struct group_coordinator *coordinator, struct bytes id);
bool group_coordinator_is_consumer(const struct group_coordinator *coordinator,
                                   struct bytes id); /* that kind of group */
/* A new producer id. */
int64_t group_coordinator_begin_transaction(struct group_coordinator *coordinator);
/* It is decided; the marker is written as soon as the coordinator is up, and again after each crash that loses it. */
void group_coordinator_end_transaction(struct group_coordinator *coordinator, int64_t producer_id, bool committed);
bool group_coordinator_transaction_is_open(const struct group_coordinator *coordinator, int64_t producer_id);
/* It goes, and is back after a while. crash: what is not committed may be lost. */
void group_coordinator_stop(struct group_coordinator *coordinator, bool crash);

#endif
