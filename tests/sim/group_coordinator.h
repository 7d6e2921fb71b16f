/*
 * group_coordinator: a coordinator of groups in the simulated world: the real core, on a log that is a list of records
 * in batches, committed a while after they were written. It dies and comes back, from its records alone, which it may
 * find compacted; what was not committed may be gone then. A write may fail in the middle of a step.
 *
 * Holds  at every record: an offset that is committed is not below the one before it, but in an explicit reset; the
 *        number of a group's generation or epoch does not go back while it has members; what a member is given exists.
 *        After every step: a partition is one member's, be it still to be given back, and one member's to be; nobody is
 *        ahead of its group; what members have or are to have existed once, and, where group and member have seen the
 *        topics as they are, exists now.
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

struct group_record {
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
/* It goes, and is back after a while. crash: what is not committed may be lost. */
void group_coordinator_stop(struct group_coordinator *coordinator, bool crash);

#endif
