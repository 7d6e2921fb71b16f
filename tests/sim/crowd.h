/*
 * crowd: many clients of one simulated node: an administrator who makes, grows and deletes topics, producers, consumers
 * with and without sessions, and one who asks for offsets. Each does what its draws say; what anyone was told is noted,
 * and whatever anyone sees later has to agree with it. A scenario says how they behave and what befalls the node.
 *
 * Holds  every request is answered or its connection broken, in time; an offset has one record, for ever and for all;
 *        what was acknowledged is where it was said to be as long as its topic lives; nothing is unknown that was told
 *        to be there; no end of a partition goes back; times are found where they are.
 */
#ifndef OTTLA_TESTS_SIM_CROWD_H
#define OTTLA_TESTS_SIM_CROWD_H

#include "sim/scenario.h"
#include "sim/sim_client.h"
#include "sim/sim_node.h"

enum { CROWD_TOPICS = 3, CROWD_PARTITIONS_MAX = 6, CROWD_ACTORS_MAX = 10, CROWD_SETTINGS_MAX = 4 };

struct crowd;

struct crowd_habits {
    uint32_t producers;
    uint32_t consumers;
    bool administrator;                       /* topics come and go; else they are there from the start and stay */
    bool synced_acks;                         /* topics have flush.messages=1: what anyone saw outlives power cuts */
    bool storage_may_fail;                    /* KAFKA_STORAGE_ERROR is an answer */
    bool may_have_no_leader;                  /* NOT_LEADER_OR_FOLLOWER and NOT_CONTROLLER too: a directory is away */
    uint32_t acks_0_percent;                  /* of produce requests */
    uint32_t leave_percent;                   /* of requests whose client breaks its connection while it waits */
    int64_t pause_ns_max;                     /* between an actor's requests */
    int64_t load_ns;                          /* virtual time that it all goes on */
    const char *settings[CROWD_SETTINGS_MAX]; /* of the node, key=value; NULL: no more */
    /* Topics and clients are there, the load begins. Optional. */
    void (*begin)(struct crowd *crowd);
    /* After each step, to the end. Optional. */
    void (*watch)(struct crowd *crowd);
    /* Now and then while the load goes on, and when the disk has died; on the test's own, between steps. Optional. */
    void (*befall)(struct crowd *crowd);
    /* Once the load is over, before all is read. Optional. */
    void (*relent)(struct crowd *crowd);
    /* Asked again and again while all is read: whether what the scenario does besides has come to its end. Optional. */
    bool (*is_settled)(struct crowd *crowd);
    /* All is read, the node still runs. Optional. */
    void (*end)(struct crowd *crowd);
    void *context; /* the scenario's own */
};

/* What is known of one partition. */
struct crowd_partition {
    uint64_t *ids; /* of the record at each offset; 0: not known */
    int64_t room;
    int64_t end; /* the greatest end that anyone was told of */
};

/* One life of a topic. */
struct crowd_topic {
    struct crowd_topic *older;
    struct uuid id;
    uint32_t slot;
    uint32_t partition_count;
    bool going; /* its deletion has been asked for */
    struct crowd_partition partitions[CROWD_PARTITIONS_MAX];
};

struct crowd_record {
    struct crowd_topic *topic;
    int32_t partition;
    int64_t timestamp;
    int64_t offset;    /* -1: not known */
    uint64_t acked_at; /* step; 0: not acknowledged */
};

enum crowd_role { CROWD_ADMINISTRATOR, CROWD_PRODUCER, CROWD_CONSUMER, CROWD_ASKER };

/* One client. */
struct crowd_actor {
    struct crowd *crowd;
    enum crowd_role role;
    struct sim_client client;
    struct sim_call call;
    struct sim_event next;  /* the end of a pause */
    struct sim_event leave; /* of its patience */
    bool busy;
    int64_t asked_ns;
    uint64_t asked_at; /* step */
    struct crowd_topic *topic;
    int32_t partition;
    /* administrator */
    int what;
    uint32_t slot;
    uint32_t count;
    /* producer */
    uint64_t first_id;
    uint32_t id_count;
    /* consumer: positions in the topics that it follows */
    int16_t version;
    bool sessions;
    int32_t session_id;
    int32_t session_epoch;
    struct crowd_topic *followed[CROWD_TOPICS];
    int64_t positions[CROWD_TOPICS][CROWD_PARTITIONS_MAX];
    bool told[CROWD_TOPICS][CROWD_PARTITIONS_MAX]; /* the session knows the position */
    /* asker */
    int64_t timestamp;
};

struct crowd {
    const struct crowd_habits *habits;
    struct sim sim;
    struct sim_fs disk;
    struct sim_network network;
    struct sim_node node;
    struct crowd_actor actors[CROWD_ACTORS_MAX];
    uint32_t actor_count;
    struct crowd_topic *topics[CROWD_TOPICS]; /* that exist, as far as the administrator was told */
    struct crowd_topic *all;                  /* of all times */
    struct crowd_record *records;             /* by id */
    uint64_t record_count;
    uint64_t record_room;
    int64_t load_until_ns;
    bool over;  /* actors write and ask nothing more */
    bool ended; /* nor do they read */
    uint64_t acked;
    uint64_t seen;
    struct sim_outcome *outcome;
};

void crowd_run(const struct crowd_habits *habits, uint64_t seed, bool chatty, struct sim_outcome *outcome);
/* The node dies and comes back. */
void crowd_kill(struct crowd *crowd, bool power_cut);
/* What topics of that slot are called. */
struct bytes crowd_topic_name(uint32_t slot);

#endif
