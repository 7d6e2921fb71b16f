/*
 * group_topics: what group coordinators know of the cluster's metadata: topics, their partitions and racks, and the
 * settings of groups. The broker answers from its image; tests and the simulation from a table.
 *
 * Threads  the coordinator's home reactor. What it points to stays for the step.
 */
#ifndef OTTLA_COORDINATOR_GROUP_TOPICS_H
#define OTTLA_COORDINATOR_GROUP_TOPICS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/uuid.h"

enum {
    GROUP_TOPIC_NAME_BYTES_MAX = 249, /* as Kafka has it */
    GROUP_TOPIC_RACKS_MAX = 32,       /* of one partition that are looked at: more replicas than anybody has; further
                                         racks count as no one's */
};

struct group_topic {
    struct uuid id;
    struct bytes name;
    uint32_t partition_count;
};

struct group_topics {
    /* False: there is none. */
    bool (*by_name)(const struct group_topics *topics, struct bytes name, struct group_topic *topic);
    bool (*by_id)(const struct group_topics *topics, struct uuid id, struct group_topic *topic);
    /* All that are not below from (null: all), by name; stops where each says false. */
    void (*each)(const struct group_topics *topics, struct bytes from,
                 bool (*each)(void *context, const struct group_topic *topic), void *context);
    /* The racks of a partition's replicas, sorted, each once, at most max; how many. Replicas without one are left out.
     */
    uint32_t (*racks)(const struct group_topics *topics, struct uuid id, uint32_t partition, struct bytes *racks,
                      uint32_t max);
    /* A setting of that group alone (config resource GROUP); null: not set. */
    struct bytes (*group_config)(const struct group_topics *topics, struct bytes group_id, struct bytes name);
    int64_t version; /* of the metadata; grows */
};

#endif
