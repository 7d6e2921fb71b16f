/* Rule: DeleteRecords answers each partition once, with Apache Kafka's codes, and what it deleted is gone for Fetch and
 * ListOffsets, over a restart, too. */
#include "../partition/run_tests.h"
#include "broker/broker_internal.h"
#include "node_world.h"
#include "protocol/gen/delete_records.h"
#include "protocol/gen/list_offsets.h"

enum { VERSION = 2, MENTIONS_MAX = 8 };

static struct node_world world;

struct ask {
    struct delete_records_request request;
    struct delete_records_topic topics[MENTIONS_MAX];
    struct delete_records_partition partitions[MENTIONS_MAX];
};

static void mention(struct ask *ask, const char *name, int32_t index, int64_t offset)
{
    uint32_t i = ask->request.topics_count++;

    delete_records_topic_init(&ask->topics[i]);
    delete_records_partition_init(&ask->partitions[i]);
    ask->topics[i].name = bytes_of_text(name);
    ask->topics[i].partitions = &ask->partitions[i];
    ask->topics[i].partitions_count = 1;
    ask->partitions[i].partition_index = index;
    ask->partitions[i].offset = offset;
    ask->request.topics = ask->topics;
}

static const struct delete_records_partition_result *found(const struct delete_records_response *response,
                                                           const char *name, int32_t index)
{
    const struct delete_records_partition_result *result = NULL;

    for (uint32_t i = 0; i < response->topics_count; i++)
        for (uint32_t j = 0; j < response->topics[i].partitions_count; j++)
            if (bytes_equal(response->topics[i].name, bytes_of_text(name)) &&
                response->topics[i].partitions[j].partition_index == index) {
                ck_assert_ptr_null(result); /* once */
                result = &response->topics[i].partitions[j];
            }
    ck_assert_ptr_nonnull(result);
    return result;
}

static void expect(const struct delete_records_response *response, const char *name, int32_t index, enum err err,
                   int64_t low_watermark)
{
    const struct delete_records_partition_result *result = found(response, name, index);

    ck_assert_int_eq(result->error_code, err_wire(err));
    ck_assert_int_eq(result->low_watermark, low_watermark);
}

static int64_t earliest(int32_t index)
{
    struct list_offsets_request request;
    struct list_offsets_topic topic;
    struct list_offsets_partition partition;
    struct list_offsets_response *response = NULL;
    struct node_call call;
    int64_t offset = 0;

    list_offsets_request_init(&request);
    list_offsets_topic_init(&topic);
    list_offsets_partition_init(&partition);
    topic.name = BYTES_LITERAL("t");
    topic.partitions = &partition;
    topic.partitions_count = 1;
    partition.partition_index = index;
    partition.timestamp = -2;
    request.topics = &topic;
    request.topics_count = 1;
    response = node_ask(&world, 0, &list_offsets_request_message, &request, &list_offsets_response_message, 7, &call);
    ck_assert_int_eq(response->topics[0].partitions[0].error_code, 0);
    offset = response->topics[0].partitions[0].offset;
    node_call_end(&call);
    return offset;
}

#define ASK(ask, version, call)                                                                                        \
    node_ask(&world, 0, &delete_records_request_message, &(ask)->request, &delete_records_response_message, version,   \
             call)

START_TEST(each_with_its_code)
{
    struct uuid topic;
    struct ask ask = {0};
    struct node_call call;
    struct delete_records_response *response = NULL;
    enum err err = ERR_OK;

    node_world_begin(&world, 1, 2);
    topic = node_create_topic(&world, "t", 4, NULL);
    (void)node_create_topic(&world, "c", 1, "cleanup.policy=compact", NULL);
    (void)node_create_topic(&world, "__consumer_offsets", 1, NULL);
    for (int32_t i = 0; i < 4; i++)
        for (int k = 0; k < 5; k++)
            ck_assert_int_eq(node_produce(&world, 0, topic, i, 100, &err), k);
    delete_records_request_init(&ask.request);
    mention(&ask, "t", 0, 3);
    mention(&ask, "t", 1, -1);
    mention(&ask, "t", 2, 6);
    mention(&ask, "t", 3, -2);
    mention(&ask, "t", 4, 0);
    mention(&ask, "missing", 0, 0);
    mention(&ask, "c", 0, 0);
    mention(&ask, "__consumer_offsets", 0, 0);
    for (int16_t version = 0; version <= VERSION; version++) {
        response = ASK(&ask, version, &call);
        ck_assert_uint_eq(response->topics_count, 4);
        expect(response, "t", 0, ERR_OK, 3);
        expect(response, "t", 1, ERR_OK, 5);
        expect(response, "t", 2, ERR_OFFSET_OUT_OF_RANGE, -1);
        expect(response, "t", 3, ERR_OFFSET_OUT_OF_RANGE, -1);
        expect(response, "t", 4, ERR_UNKNOWN_TOPIC_OR_PARTITION, -1);
        expect(response, "missing", 0, ERR_UNKNOWN_TOPIC_OR_PARTITION, -1);
        expect(response, "c", 0, ERR_POLICY_VIOLATION, -1);
        expect(response, "__consumer_offsets", 0, ERR_INVALID_TOPIC_EXCEPTION, -1);
        node_call_end(&call);
    }
    ck_assert_int_eq(earliest(0), 3);
    ck_assert_int_eq(earliest(1), 5);
    ck_assert_int_eq(earliest(2), 0);
    sim_node_stop(&world.node);
    sim_node_start(&world.node);
    ck_assert_int_eq(earliest(0), 3);
    ck_assert_int_eq(earliest(1), 5);
    node_world_end(&world);
}
END_TEST

/* Of two mentions of one partition the last holds, as in a map. */
START_TEST(said_twice)
{
    struct uuid topic;
    struct ask ask = {0};
    struct node_call call;
    struct delete_records_response *response = NULL;
    enum err err = ERR_OK;

    node_world_begin(&world, 2, 2);
    topic = node_create_topic(&world, "t", 2, NULL);
    for (int k = 0; k < 5; k++)
        ck_assert_int_eq(node_produce(&world, 0, topic, 0, 100, &err), k);
    delete_records_request_init(&ask.request);
    mention(&ask, "t", 0, 4);
    mention(&ask, "t", 1, 0);
    mention(&ask, "t", 0, 2);
    response = ASK(&ask, VERSION, &call);
    ck_assert_uint_eq(response->topics_count, 1);
    ck_assert_uint_eq(response->topics[0].partitions_count, 2);
    expect(response, "t", 0, ERR_OK, 2);
    expect(response, "t", 1, ERR_OK, 0);
    node_call_end(&call);
    ck_assert_int_eq(earliest(0), 2);
    delete_records_request_init(&ask.request); /* nothing at all */
    response = ASK(&ask, VERSION, &call);
    ck_assert_uint_eq(response->topics_count, 0);
    node_call_end(&call);
    node_world_end(&world);
}
END_TEST

static bool deny_deletion(void *context, const struct request *request, enum operation operation,
                          enum resource_type type, struct bytes name)
{
    (void)context;
    (void)request;
    return operation != MAY_DELETE || type != ON_TOPIC || !bytes_equal(name, BYTES_LITERAL("t"));
}

/* Whether it is there is not told to who may not delete it. */
START_TEST(who_may_not)
{
    struct uuid topic;
    struct ask ask = {0};
    struct node_call call;
    struct delete_records_response *response = NULL;
    enum err err = ERR_OK;

    node_world_begin(&world, 3, 2);
    topic = node_create_topic(&world, "t", 1, NULL);
    ck_assert_int_eq(node_produce(&world, 0, topic, 0, 100, &err), 0);
    world.node.broker->access = deny_deletion;
    delete_records_request_init(&ask.request);
    mention(&ask, "t", 0, 1);
    mention(&ask, "t", 7, 1);
    mention(&ask, "missing", 0, 1);
    response = ASK(&ask, VERSION, &call);
    expect(response, "t", 0, ERR_TOPIC_AUTHORIZATION_FAILED, -1);
    expect(response, "t", 7, ERR_TOPIC_AUTHORIZATION_FAILED, -1);
    expect(response, "missing", 0, ERR_UNKNOWN_TOPIC_OR_PARTITION, -1);
    node_call_end(&call);
    ck_assert_int_eq(earliest(0), 0);
    world.node.broker->access = NULL;
    node_world_end(&world);
}
END_TEST

RUN_TESTS("broker/handle_delete_records", each_with_its_code, said_twice, who_may_not)
