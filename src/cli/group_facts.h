/*
 * group_facts: what a cluster tells of one group: who is in it, what is committed, where the logs end.
 *
 * Owns     nothing: all of it lies in the client's arena.
 * Threads  one.
 */
#ifndef OTTLA_CLI_GROUP_FACTS_H
#define OTTLA_CLI_GROUP_FACTS_H

#include "cli/kafka_client.h"

struct group_fact_member {
    struct bytes id, instance_id, client_id, host; /* instance_id may be null */
    int32_t epoch;                                 /* -1: of a classic group, or unknown */
    uint32_t partitions;                           /* it owns */
};

struct group_fact_partition {
    struct bytes topic;
    int32_t index;
    int64_t committed; /* -1: nothing */
    int32_t leader_epoch;
    struct bytes metadata;
    int64_t start, end;                     /* of the log; -1: unknown */
    enum err err;                           /* why it is unknown */
    const struct group_fact_member *member; /* that owns it; NULL: nobody */
};

struct group_facts {
    struct bytes id;
    struct bytes type;     /* "Classic", "Consumer" */
    struct bytes state;    /* "Empty", "Stable" ... */
    struct bytes protocol; /* the assignor, or the protocol of a classic group; "" */
    int32_t coordinator;
    int32_t epoch; /* of a consumer group; -1 */
    struct group_fact_member *members;
    uint32_t member_count;
    struct group_fact_partition *partitions; /* committed or owned, by topic and index */
    uint32_t partition_count;
    uint32_t partition_room;
};

/* State and members, and the partitions that they own. ERR_GROUP_ID_NOT_FOUND; client->message. */
MUST_CHECK enum err group_facts_describe(struct kafka_client *client, struct bytes group_id, struct group_facts *facts);
/* Adds what is committed. */
MUST_CHECK enum err group_facts_offsets(struct kafka_client *client, struct group_facts *facts);
/* Adds where the logs begin and end. */
MUST_CHECK enum err group_facts_ends(struct kafka_client *client, struct group_facts *facts);
/* Adds a partition unless it is there. NULL without memory; what was found before may have moved. */
struct group_fact_partition *group_facts_add(struct kafka_client *client, struct group_facts *facts, struct bytes topic,
                                             int32_t index);
/* Records that are not read yet; -1: unknown. */
int64_t group_fact_lag(const struct group_fact_partition *partition);

/* One row of `ottla group list`. */
struct group_fact_row {
    struct bytes id, type, state, protocol;
    int32_t coordinator;
};

/* All groups of all brokers, by id. */
MUST_CHECK enum err group_facts_list(struct kafka_client *client, struct group_fact_row **rows, uint32_t *count);

#endif
