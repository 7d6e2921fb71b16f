/* Rule: a handler asks for every topic, group and id it touches, and who is denied gets the code that Apache Kafka
 * gives, at the place where it gives it; nothing is made, deleted, written or told meanwhile. The double that denies
 * stands where an authorizer will.
 *
 * Sources: broker/handle_api_versions.c, broker/handle_cluster.c, broker/handle_coordinator.c,
 * broker/handle_produce.c, broker/handle_producer_id.c */
#include "../partition/run_tests.h"
#include "broker/broker_internal.h"
#include "node_world.h"
#include "protocol/gen/api_keys.h"
#include "protocol/gen/api_versions.h"
#include "protocol/gen/create_partitions.h"
#include "protocol/gen/create_topics.h"
#include "protocol/gen/delete_topics.h"
#include "protocol/gen/describe_cluster.h"
#include "protocol/gen/describe_configs.h"
#include "protocol/gen/find_coordinator.h"
#include "protocol/gen/init_producer_id.h"
#include "protocol/gen/list_offsets.h"
#include "protocol/gen/metadata.h"

enum { TOPIC_DENIED = 29, GROUP_DENIED = 30, CLUSTER_DENIED = 31, TRANSACTION_DENIED = 53, TIMEOUT_MS = 1000 };

static struct node_world world;
static struct uuid topic;

static void begin(int operation, int type)
{
    node_world_begin(&world, 11, 2);
    topic = node_create_topic(&world, "t", 2, NULL);
    node_deny(&world, operation, type);
}

static void end(void)
{
    ck_assert_uint_gt(world.denied.asked, 0);
    node_allow(&world);
    node_world_end(&world);
}

#define ASK(name, request, version, call)                                                                              \
    node_ask(&world, 1, &name##_request_message, request, &name##_response_message, version, call)

START_TEST(produce)
{
    enum err err = ERR_OK;

    begin(MAY_WRITE, ON_TOPIC);
    ck_assert_int_eq(node_produce(&world, 1, topic, 0, 10, &err), -1);
    ck_assert_int_eq(err, ERR_TOPIC_AUTHORIZATION_FAILED);
    end();
}
END_TEST

START_TEST(fetch)
{
    struct node_fetch ask;
    struct node_call call;
    struct fetch_response *response = NULL;
    enum err err = ERR_OK;

    begin(MAY_READ, ON_TOPIC);
    ck_assert_int_eq(node_produce(&world, 1, topic, 0, 10, &err), 0);
    node_fetch_init(&ask, "t", topic, 2);
    for (int16_t version = 12; version <= 13; version++) {
        response = ASK(fetch, &ask.request, version, &call);
        ck_assert_int_eq(node_fetched(response, 0)->error_code, TOPIC_DENIED);
        ck_assert_uint_eq(node_fetched(response, 0)->records.size, 0);
        node_call_end(&call);
    }
    /* By name it is not told whether there is such a topic. */
    ask.topic.topic = BYTES_LITERAL("missing");
    response = ASK(fetch, &ask.request, 12, &call);
    ck_assert_int_eq(node_fetched(response, 0)->error_code, TOPIC_DENIED);
    node_call_end(&call);
    end();
}
END_TEST

START_TEST(list_offsets)
{
    struct list_offsets_request request;
    struct list_offsets_topic asked;
    struct list_offsets_partition partition;
    struct list_offsets_response *response = NULL;
    struct node_call call;

    begin(MAY_DESCRIBE, ON_TOPIC);
    list_offsets_request_init(&request);
    list_offsets_topic_init(&asked);
    list_offsets_partition_init(&partition);
    partition.timestamp = -1;
    asked.name = BYTES_LITERAL("t");
    asked.partitions = &partition;
    asked.partitions_count = 1;
    request.topics = &asked;
    request.topics_count = 1;
    response = ASK(list_offsets, &request, 7, &call);
    ck_assert_int_eq(response->topics[0].partitions[0].error_code, TOPIC_DENIED);
    ck_assert_int_eq(response->topics[0].partitions[0].offset, -1);
    node_call_end(&call);
    end();
}
END_TEST

static struct metadata_response *ask_metadata(struct bytes name, struct uuid id, struct node_call *call)
{
    struct metadata_request request;
    struct metadata_request_topic asked;

    metadata_request_init(&request);
    metadata_request_topic_init(&asked);
    asked.name = name;
    asked.topic_id = id;
    request.topics = &asked;
    request.topics_count = 1;
    return ASK(metadata, &request, 12, call);
}

START_TEST(metadata_of_what_may_not_be_seen)
{
    struct metadata_request request;
    struct metadata_response *response = NULL;
    struct node_call call;

    begin(MAY_DESCRIBE, ON_TOPIC);
    response = ask_metadata(BYTES_LITERAL("t"), (struct uuid){{0}}, &call);
    ck_assert_int_eq(response->topics[0].error_code, TOPIC_DENIED);
    ck_assert_uint_eq(response->topics[0].partitions_count, 0);
    node_call_end(&call);
    /* By id the name is not told. */
    response = ask_metadata((struct bytes){0}, topic, &call);
    ck_assert_int_eq(response->topics[0].error_code, TOPIC_DENIED);
    ck_assert_ptr_null(response->topics[0].name.data);
    node_call_end(&call);
    /* Of all, it is left out. */
    metadata_request_init(&request);
    request.topics = NULL;
    response = ASK(metadata, &request, 12, &call);
    ck_assert_uint_eq(response->topics_count, 0);
    node_call_end(&call);
    end();
}
END_TEST

START_TEST(metadata_that_may_not_create)
{
    struct metadata_response *response = NULL;
    struct node_call call;

    begin(MAY_CREATE, 0);
    response = ask_metadata(BYTES_LITERAL("new"), (struct uuid){{0}}, &call);
    ck_assert_int_eq(response->topics[0].error_code, TOPIC_DENIED);
    node_call_end(&call);
    end();
}
END_TEST

START_TEST(find_coordinator)
{
    struct find_coordinator_request request;
    struct find_coordinator_response *response = NULL;
    struct bytes key = BYTES_LITERAL("k");
    struct node_call call;

    begin(MAY_DESCRIBE, 0);
    find_coordinator_request_init(&request);
    request.key = key;
    request.coordinator_keys = &key;
    request.coordinator_keys_count = 1;
    response = ASK(find_coordinator, &request, 2, &call);
    ck_assert_int_eq(response->error_code, GROUP_DENIED);
    node_call_end(&call);
    request.key_type = 1;
    response = ASK(find_coordinator, &request, 4, &call);
    ck_assert_int_eq(response->coordinators[0].error_code, TRANSACTION_DENIED);
    node_call_end(&call);
    /* Trap B098: an unknown type is the request's fault, whoever asks. */
    request.key_type = 9;
    response = ASK(find_coordinator, &request, 4, &call);
    ck_assert_int_eq(response->coordinators[0].error_code, 42);
    node_call_end(&call);
    end();
}
END_TEST

START_TEST(topics_may_not_be_changed)
{
    struct create_topics_request create;
    struct creatable_topic new_topic;
    struct create_topics_response *created = NULL;
    struct delete_topics_request delete;
    struct delete_topic_state gone;
    struct delete_topics_response *deleted = NULL;
    struct create_partitions_request grow;
    struct create_partitions_topic grown;
    struct create_partitions_response *grew = NULL;
    struct node_call call;

    begin(0, 0);
    create_topics_request_init(&create);
    creatable_topic_init(&new_topic);
    new_topic.name = BYTES_LITERAL("new");
    new_topic.num_partitions = 1;
    new_topic.replication_factor = 1;
    create.topics = &new_topic;
    create.topics_count = 1;
    created = ASK(create_topics, &create, 7, &call);
    ck_assert_int_eq(created->topics[0].error_code, TOPIC_DENIED);
    node_call_end(&call);

    delete_topics_request_init(&delete);
    delete.timeout_ms = TIMEOUT_MS;
    delete_topic_state_init(&gone);
    gone.name = BYTES_LITERAL("t");
    delete.topics = &gone;
    delete.topics_count = 1;
    deleted = ASK(delete_topics, &delete, 6, &call);
    ck_assert_int_eq(deleted->responses[0].error_code, TOPIC_DENIED);
    node_call_end(&call);
    gone.name = (struct bytes){0};
    gone.topic_id = topic;
    deleted = ASK(delete_topics, &delete, 6, &call);
    ck_assert_int_eq(deleted->responses[0].error_code, 100); /* the id is not known to exist */
    node_call_end(&call);

    create_partitions_request_init(&grow);
    grow.timeout_ms = TIMEOUT_MS;
    create_partitions_topic_init(&grown);
    grown.name = BYTES_LITERAL("t");
    grown.count = 9;
    grow.topics = &grown;
    grow.topics_count = 1;
    grew = ASK(create_partitions, &grow, 3, &call);
    ck_assert_int_eq(grew->results[0].error_code, TOPIC_DENIED);
    node_call_end(&call);
    end();
}
END_TEST

START_TEST(init_producer_id)
{
    struct init_producer_id_request request;
    struct init_producer_id_response *response = NULL;
    struct node_call call;

    begin(0, 0);
    init_producer_id_request_init(&request);
    request.transactional_id = (struct bytes){0};
    response = ASK(init_producer_id, &request, 4, &call);
    ck_assert_int_eq(response->error_code, CLUSTER_DENIED);
    ck_assert_int_eq(response->producer_id, -1);
    node_call_end(&call);
    request.transactional_id = BYTES_LITERAL("tx");
    response = ASK(init_producer_id, &request, 4, &call);
    ck_assert_int_eq(response->error_code, TRANSACTION_DENIED);
    node_call_end(&call);
    end();
}
END_TEST

START_TEST(describe)
{
    struct describe_configs_request request;
    struct describe_configs_resource resources[2];
    struct describe_configs_response *response = NULL;
    struct describe_cluster_request cluster;
    struct describe_cluster_response *told = NULL;
    struct node_call call;

    begin(0, 0);
    describe_configs_request_init(&request);
    for (int i = 0; i < 2; i++) {
        describe_configs_resource_init(&resources[i]);
        resources[i].configuration_keys = NULL;
    }
    resources[0].resource_type = 2;
    resources[0].resource_name = BYTES_LITERAL("t");
    resources[1].resource_type = 4;
    resources[1].resource_name = BYTES_LITERAL("1");
    request.resources = resources;
    request.resources_count = 2;
    response = ASK(describe_configs, &request, 4, &call);
    ck_assert_int_eq(response->results[0].error_code, TOPIC_DENIED);
    ck_assert_uint_eq(response->results[0].configs_count, 0);
    ck_assert_int_eq(response->results[1].error_code, CLUSTER_DENIED);
    ck_assert_uint_eq(response->results[1].configs_count, 0);
    node_call_end(&call);

    describe_cluster_request_init(&cluster);
    cluster.include_cluster_authorized_operations = true;
    told = ASK(describe_cluster, &cluster, 1, &call);
    ck_assert_int_eq(told->error_code, 0);
    ck_assert_int_eq(told->cluster_authorized_operations, 0);
    node_call_end(&call);
    end();
}
END_TEST

static int32_t hold_back(void *context, const struct request *request, enum api_quota kind, uint64_t amount)
{
    (void)context;
    (void)amount;
    return request->api->key == API_DESCRIBE_CLUSTER && kind == QUOTA_REQUEST ? 700 : 0;
}

/* KIP-219 (trap B136): the reply goes first, with the time in it, and then the connection is held back for as long;
 * others are not. */
START_TEST(who_is_over_quota_is_told_and_then_held_back)
{
    struct describe_cluster_request request;
    struct describe_cluster_response *told = NULL;
    struct node_call call;
    int64_t began_ns = 0;

    node_world_begin(&world, 13, 2);
    world.node.broker->quota = hold_back;
    describe_cluster_request_init(&request);
    began_ns = world.sim.mono_ns;
    told = ASK(describe_cluster, &request, 1, &call);
    ck_assert_int_eq(told->throttle_time_ms, 700);
    ck_assert_int_lt(world.sim.mono_ns - began_ns, INT64_C(500000000));
    node_call_end(&call);
    world.node.broker->quota = NULL;
    told =
        node_ask(&world, 2, &describe_cluster_request_message, &request, &describe_cluster_response_message, 1, &call);
    ck_assert_int_eq(told->throttle_time_ms, 0);
    ck_assert_int_lt(world.sim.mono_ns - began_ns, INT64_C(500000000));
    node_call_end(&call);
    told = ASK(describe_cluster, &request, 1, &call);
    ck_assert_int_ge(world.sim.mono_ns - began_ns, INT64_C(700000000));
    node_call_end(&call);
    node_world_end(&world);
}
END_TEST

/* A client's software that has no proper name is told so, and the others go on (KIP-511). */
START_TEST(a_bad_software_name_is_refused_alone)
{
    struct api_versions_request versions;
    struct api_versions_response *response = NULL;
    struct describe_cluster_request cluster;
    struct describe_cluster_response *told = NULL;
    struct node_call call;

    node_world_begin(&world, 12, 2);
    api_versions_request_init(&versions);
    versions.client_software_name = BYTES_LITERAL("a b"); /* not a name: 42 and an empty list */
    response = ASK(api_versions, &versions, 3, &call);
    ck_assert_int_eq(response->error_code, 42);
    ck_assert_uint_eq(response->api_keys_count, 0);
    node_call_end(&call);
    describe_cluster_request_init(&cluster);
    told =
        node_ask(&world, 2, &describe_cluster_request_message, &cluster, &describe_cluster_response_message, 0, &call);
    ck_assert_ptr_nonnull(told);
    ck_assert_uint_eq(told->brokers_count, 1);
    ck_assert_int_eq(told->controller_id, 1);
    node_call_end(&call);
    node_world_end(&world);
}
END_TEST

RUN_TESTS("broker/request", produce, fetch, list_offsets, metadata_of_what_may_not_be_seen,
          metadata_that_may_not_create, find_coordinator, topics_may_not_be_changed, init_producer_id, describe,
          who_is_over_quota_is_told_and_then_held_back, a_bad_software_name_is_refused_alone)
