/*
 * group_query: what is asked of groups from outside of any Kafka connection (src/http): read only, by the same
 * operations as the handlers', each at its coordinator's home, by message. Nothing is waited for on a reactor.
 *
 *   group_query_new -> group_query_run -> (the homes) -> done -> group_query_free
 *
 * Limits   GROUP_QUERY_BYTES_MAX of answers that one shard gives, else ERR_NOMEM: some 400,000 groups of it; of a
 *          group's partitions GROUP_QUERY_FINDS_MAX at once have their oldest unread record looked up in each shard,
 *          since each look-up is a job.
 * Threads  the loop that asks; done runs there. The node's loops run until it is done.
 */
#ifndef OTTLA_BROKER_GROUP_QUERY_H
#define OTTLA_BROKER_GROUP_QUERY_H

#include "base/arena.h"
#include "base/bytes.h"
#include "base/loop.h"
#include "coordinator/group_history.h"
#include "coordinator/group_list.h"
#include "protocol/gen/consumer_group_describe.h"
#include "protocol/gen/describe_groups.h"

struct broker;
struct group_query;

enum group_query_kind {
    GROUP_QUERY_LIST,     /* all groups that this node coordinates */
    GROUP_QUERY_DESCRIBE, /* state and members of one */
    GROUP_QUERY_LAG,      /* how far one is */
    GROUP_QUERY_HISTORY,  /* why it rebalanced */
};

struct group_query_partition {
    struct bytes topic;
    int32_t index;
    int64_t committed;
    int32_t leader_epoch;
    struct bytes metadata;
    enum err err;       /* why the rest is unknown */
    int64_t start, end; /* what consumers can read; -1 */
    int64_t next_ms;    /* the time of the first record at or above the committed offset; -1: there is none */
    int64_t lag;        /* records; -1 */
};

struct group_query {
    /* out. ERR_GROUP_ID_NOT_FOUND, ERR_NOT_COORDINATOR, ERR_COORDINATOR_LOAD_IN_PROGRESS,
     * ERR_COORDINATOR_NOT_AVAILABLE, ERR_BUSY (the node has more to do than it can), ERR_NOMEM */
    enum err err;
    const struct listed_group *groups; /* LIST */
    uint32_t group_count;
    const struct describe_groups_response_described_group *classic; /* DESCRIBE: one of the two */
    const struct consumer_group_describe_response_described_group *consumer;
    enum group_query_kind kind;
    struct bytes group_id;
    struct group_query_partition *partitions; /* LAG */
    uint32_t partition_count;
    const struct group_history_reply *history; /* HISTORY */
    /* the caller's */
    void (*done)(struct group_query *query);
    void *context;
};

/* group_id: copied. ERR_NOMEM. */
MUST_CHECK enum err group_query_new(struct broker *broker, struct loop *loop, enum group_query_kind kind,
                                    struct bytes group_id, struct group_query **query);
/* Ends in done, never within the call. */
void group_query_run(struct group_query *out);
/* Once it is done, or was never run. */
void group_query_free(struct group_query *out);

#endif
