/* consumer_beats: heartbeats of the consumer protocol in a group_world, in few words. */
#ifndef OTTLA_TESTS_COORDINATOR_CONSUMER_BEATS_H
#define OTTLA_TESTS_COORDINATOR_CONSUMER_BEATS_H

#include "coordinator/group_world.h"

/* What a member says; NULL and 0: not said, but for the epoch. */
struct beat_says {
    const char *member;
    int32_t epoch;
    const char *instance;
    const char *rack;
    int32_t rebalance_ms;
    const char *topics; /* "a,b"; "": none */
    const char *regex;
    const char *assignor;
    const char *owned; /* "1:0,1;2:3": ids of topics, their partitions; "": none */
    int16_t version;   /* 0: 1; -1: 0 */
    const char *group; /* NULL: "g" */
};

/* label: the member, where it is NULL. */
struct world_call *beat(struct group_world *world, const struct beat_says *says);
#define BEAT(world, ...) beat(world, &(struct beat_says){__VA_ARGS__})
/* A join as clients send it: everything, and nothing owned. */
#define JOIN(world, who, to, ...)                                                                                      \
    beat(world, &(struct beat_says){.member = (who), .rebalance_ms = 60000, .topics = (to), .owned = "", __VA_ARGS__})
struct world_call *describe_group(struct group_world *world);
/* What was answered last. */
int32_t beat_epoch(const struct world_call *call);
int16_t beat_error(const struct world_call *call);

#endif
