/* Rule: OffsetForLeaderEpoch tells where an epoch ended, to who may describe the topic or acts for the cluster, with
 * Apache Kafka's codes (KIP-101, KIP-320). */
#include "../partition/run_tests.h"
#include "broker/broker_internal.h"
#include "node_world.h"
#include "protocol/gen/offset_for_leader_epoch.h"

enum { VERSION = 4, ASKED = 6 };

static struct node_world world;

struct ask {
    struct offset_for_leader_epoch_request request;
    struct offset_for_leader_topic topics[2];
    struct offset_for_leader_partition partitions[ASKED];
};

static void ask_init(struct ask *ask, const char *name)
{
    offset_for_leader_epoch_request_init(&ask->request);
    ask->request.topics = ask->topics;
    ask->request.topics_count = 2;
    for (int i = 0; i < 2; i++)
        offset_for_leader_topic_init(&ask->topics[i]);
    ask->topics[0].topic = bytes_of_text(name);
    ask->topics[0].partitions = ask->partitions;
    ask->topics[0].partitions_count = ASKED - 1;
    ask->topics[1].topic = BYTES_LITERAL("missing");
    ask->topics[1].partitions = &ask->partitions[ASKED - 1];
    ask->topics[1].partitions_count = 1;
    for (int i = 0; i < ASKED; i++)
        offset_for_leader_partition_init(&ask->partitions[i]);
}

static void expect(const struct offset_for_leader_epoch_response *response, uint32_t i, enum err err, int32_t epoch,
                   int64_t end)
{
    ck_assert_int_eq(response->topics[0].partitions[i].error_code, err_wire(err));
    ck_assert_int_eq(response->topics[0].partitions[i].leader_epoch, epoch);
    ck_assert_int_eq(response->topics[0].partitions[i].end_offset, end);
}

#define ASK(ask, version, call)                                                                                        \
    node_ask(&world, 0, &offset_for_leader_epoch_request_message, &(ask)->request,                                     \
             &offset_for_leader_epoch_response_message, version, call)

START_TEST(where_an_epoch_ended)
{
    struct uuid topic;
    struct ask ask;
    struct node_call call;
    struct offset_for_leader_epoch_response *response = NULL;
    enum err err = ERR_OK;

    node_world_begin(&world, 1, 2);
    topic = node_create_topic(&world, "t", 1, NULL);
    for (int k = 0; k < 5; k++)
        ck_assert_int_eq(node_produce(&world, 0, topic, 0, 100, &err), k);
    ask_init(&ask, "t");
    ask.partitions[0].leader_epoch = 0;
    ask.partitions[1].leader_epoch = 1; /* not yet */
    ask.partitions[2].leader_epoch = -1;
    ask.partitions[3].current_leader_epoch = 7;
    ask.partitions[4].partition = 1;
    for (int16_t version = 2; version <= VERSION; version++) {
        response = ASK(&ask, version, &call);
        ck_assert_uint_eq(response->topics_count, 2);
        expect(response, 0, ERR_OK, 0, 5);
        expect(response, 1, ERR_OK, -1, -1);
        expect(response, 2, ERR_OK, -1, -1);
        expect(response, 3, ERR_UNKNOWN_LEADER_EPOCH, -1, -1);
        expect(response, 4, ERR_UNKNOWN_TOPIC_OR_PARTITION, -1, -1);
        ck_assert_int_eq(response->topics[1].partitions[0].error_code, err_wire(ERR_UNKNOWN_TOPIC_OR_PARTITION));
        node_call_end(&call);
    }
    node_world_end(&world);
}
END_TEST

static enum operation denied;

static bool deny(void *context, const struct request *request, enum operation operation, enum resource_type type,
                 struct bytes name)
{
    (void)context;
    (void)request;
    (void)type;
    (void)name;
    return operation != denied && operation != MAY_CLUSTER_ACTION;
}

static bool deny_the_topic_alone(void *context, const struct request *request, enum operation operation,
                                 enum resource_type type, struct bytes name)
{
    (void)context;
    (void)request;
    (void)type;
    (void)name;
    return operation != MAY_DESCRIBE;
}

START_TEST(who_may_ask)
{
    struct ask ask;
    struct node_call call;
    struct offset_for_leader_epoch_response *response = NULL;

    node_world_begin(&world, 2, 2);
    (void)node_create_topic(&world, "t", 1, NULL);
    ask_init(&ask, "t");
    denied = MAY_DESCRIBE;
    world.node.broker->access = deny;
    response = ASK(&ask, VERSION, &call);
    for (uint32_t i = 0; i < ASKED - 1; i++)
        expect(response, i, ERR_TOPIC_AUTHORIZATION_FAILED, -1, -1);
    ck_assert_int_eq(response->topics[1].partitions[0].error_code, err_wire(ERR_TOPIC_AUTHORIZATION_FAILED));
    node_call_end(&call);
    world.node.broker->access = deny_the_topic_alone; /* a broker asks */
    response = ASK(&ask, VERSION, &call);
    expect(response, 0, ERR_OK, 0, 0);
    node_call_end(&call);
    world.node.broker->access = NULL;
    node_world_end(&world);
}
END_TEST

RUN_TESTS("broker/handle_leader_epochs", where_an_epoch_ended, who_may_ask)
