/* Rule: what a client asks about costs what it asks about, not its square; each topic is answered once, as Apache Kafka
 * does; and a reply that nobody takes does not stay for nothing.
 *
 * Sources: broker/address.c */
#include <stdio.h>
#include <time.h>

#include "../partition/run_tests.h"
#include "node_world.h"
#include "protocol/gen/create_partitions.h"
#include "protocol/gen/describe_configs.h"
#include "protocol/gen/metadata.h"

enum {
    METADATA_VERSION = 12,
    CREATE_PARTITIONS_VERSION = 3,
    DESCRIBE_VERSION = 4,
    MANY = 60000,
    SECONDS_MAX = 20,
    TIMEOUT_MS = 1000
};

static struct node_world world;

static double seconds(void)
{
    struct timespec now;

    ck_assert_int_eq(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now), 0);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static char (*many_names(void))[8]
{
    static char names[MANY][8];

    for (int i = 0; i < MANY; i++)
        (void)snprintf(names[i], sizeof(names[i]), "n%d", i);
    return names;
}

START_TEST(each_topic_is_answered_once)
{
    struct metadata_request request;
    struct metadata_request_topic topics[5];
    struct metadata_response *response = NULL;
    struct node_call call;
    struct uuid id;

    node_world_begin(&world, 1, 2);
    id = node_create_topic(&world, "a", 1, NULL);
    metadata_request_init(&request);
    for (int i = 0; i < 5; i++) {
        metadata_request_topic_init(&topics[i]);
        topics[i].name = i % 2 == 0 ? BYTES_LITERAL("a") : BYTES_LITERAL("b");
    }
    request.topics = topics;
    request.topics_count = 5;
    request.allow_auto_topic_creation = false;
    response =
        node_ask(&world, 0, &metadata_request_message, &request, &metadata_response_message, METADATA_VERSION, &call);
    ck_assert_uint_eq(response->topics_count, 2);
    ck_assert(bytes_equal(response->topics[0].name, BYTES_LITERAL("a")));
    ck_assert_int_eq(response->topics[0].error_code, 0);
    ck_assert(bytes_equal(response->topics[1].name, BYTES_LITERAL("b")));
    ck_assert_int_eq(response->topics[1].error_code, err_wire(ERR_UNKNOWN_TOPIC_OR_PARTITION));
    node_call_end(&call);
    /* Where there are ids, by these alone. */
    for (int i = 0; i < 3; i++) {
        topics[i].name = (struct bytes){0};
        topics[i].topic_id = id;
    }
    response =
        node_ask(&world, 0, &metadata_request_message, &request, &metadata_response_message, METADATA_VERSION, &call);
    ck_assert_uint_eq(response->topics_count, 1);
    ck_assert(bytes_equal(response->topics[0].name, BYTES_LITERAL("a")));
    node_call_end(&call);
    node_world_end(&world);
}
END_TEST

START_TEST(many_unknown_topics_cost_little)
{
    static struct metadata_request_topic topics[MANY];
    struct metadata_request request;
    struct metadata_response *response = NULL;
    struct node_call call;
    char(*names)[8] = many_names();
    double began = 0;

    node_world_begin(&world, 2, 1);
    world.sim.habits.network_run_bytes_max = 1 << 16;
    metadata_request_init(&request);
    for (int i = 0; i < MANY; i++) {
        metadata_request_topic_init(&topics[i]);
        topics[i].name = bytes_of_text(names[i]);
    }
    request.topics = topics;
    request.topics_count = MANY;
    request.allow_auto_topic_creation = true;
    began = seconds();
    response =
        node_ask(&world, 0, &metadata_request_message, &request, &metadata_response_message, METADATA_VERSION, &call);
    ck_assert_ptr_nonnull(response);
    ck_assert_uint_eq(response->topics_count, MANY);
    ck_assert_int_eq(response->topics[MANY - 1].error_code, err_wire(ERR_POLICY_VIOLATION));
    ck_assert(seconds() - began < SECONDS_MAX);
    node_call_end(&call);
    node_world_end(&world);
}
END_TEST

START_TEST(many_topics_to_grow_cost_little)
{
    static struct create_partitions_topic topics[MANY];
    struct create_partitions_request request;
    struct create_partitions_response *response = NULL;
    struct node_call call;
    char(*names)[8] = many_names();
    double began = 0;

    node_world_begin(&world, 3, 1);
    world.sim.habits.network_run_bytes_max = 1 << 16;
    create_partitions_request_init(&request);
    request.timeout_ms = TIMEOUT_MS;
    for (int i = 0; i < MANY; i++) {
        create_partitions_topic_init(&topics[i]);
        topics[i].name = bytes_of_text(names[i]);
        topics[i].count = 2;
        topics[i].assignments = NULL;
    }
    topics[MANY - 1].name = topics[MANY - 2].name;
    request.topics = topics;
    request.topics_count = MANY;
    began = seconds();
    response = node_ask(&world, 0, &create_partitions_request_message, &request, &create_partitions_response_message,
                        CREATE_PARTITIONS_VERSION, &call);
    ck_assert_ptr_nonnull(response);
    ck_assert_uint_eq(response->results_count, MANY - 1);
    ck_assert_int_eq(response->results[0].error_code, err_wire(ERR_UNKNOWN_TOPIC_OR_PARTITION));
    ck_assert_int_eq(response->results[MANY - 2].error_code, err_wire(ERR_INVALID_REQUEST));
    ck_assert(seconds() - began < SECONDS_MAX);
    node_call_end(&call);
    node_world_end(&world);
}
END_TEST

/* Four bytes of question are thirty thousand of answer; the node has a bound for that, and goes on behind it. */
START_TEST(an_answer_may_not_be_larger_than_the_node)
{
    static struct describe_configs_resource resources[MANY];
    struct describe_configs_request request;
    struct metadata_request after;
    struct node_call call;

    node_world_begin(&world, 4, 1);
    world.sim.habits.network_run_bytes_max = 1 << 16;
    describe_configs_request_init(&request);
    for (int i = 0; i < MANY; i++) {
        describe_configs_resource_init(&resources[i]);
        resources[i].resource_type = 4;
        resources[i].resource_name = BYTES_LITERAL("1");
        resources[i].configuration_keys = NULL;
    }
    request.resources = resources;
    request.resources_count = MANY;
    ck_assert_ptr_null(node_ask(&world, 0, &describe_configs_request_message, &request,
                                &describe_configs_response_message, DESCRIBE_VERSION, &call));
    metadata_request_init(&after);
    after.topics = NULL;
    ck_assert_ptr_nonnull(
        node_ask(&world, 0, &metadata_request_message, &after, &metadata_response_message, METADATA_VERSION, &call));
    node_call_end(&call);
    node_world_end(&world);
}
END_TEST

RUN_TESTS("broker/metadata", each_topic_is_answered_once, many_unknown_topics_cost_little,
          many_topics_to_grow_cost_little, an_answer_may_not_be_larger_than_the_node)
