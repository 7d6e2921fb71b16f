/* Rule: a setting that was changed is in force when the answer is there, on every loop; each resource has its own
 * answer; what a request names twice is left alone; and none of it costs more than it says.
 *
 * Sources: broker/dynamic_config.c, broker/handle_configs.c, broker/shard_configs.c */
#include <stdio.h>

#include "../partition/run_tests.h"
#include "broker/broker_internal.h"
#include "node_world.h"
#include "protocol/gen/alter_configs.h"
#include "protocol/gen/describe_configs.h"
#include "protocol/gen/incremental_alter_configs.h"

enum { ALTER_VERSION = 1, REPLACE_VERSION = 2, DESCRIBE_VERSION = 4, TOPIC = 2, BROKER = 4, MANY = 20001 };

static struct node_world world;

/* One change of one resource; value NULL removes. The error of its answer. */
static enum err alter(int8_t type, const char *resource, const char *name, const char *value)
{
    struct incremental_alter_configs_request request;
    struct incremental_alter_configs_request_alter_configs_resource entry;
    struct incremental_alter_configs_request_alterable_config change;
    struct incremental_alter_configs_response *response = NULL;
    struct node_call call;
    enum err err = ERR_OK;

    incremental_alter_configs_request_init(&request);
    incremental_alter_configs_request_alter_configs_resource_init(&entry);
    incremental_alter_configs_request_alterable_config_init(&change);
    change.name = bytes_of_text(name);
    change.value = bytes_of_text(value);
    change.config_operation = value == NULL ? 1 : 0;
    entry.resource_type = type;
    entry.resource_name = bytes_of_text(resource);
    entry.configs = &change;
    entry.configs_count = 1;
    request.resources = &entry;
    request.resources_count = 1;
    response = node_ask(&world, 0, &incremental_alter_configs_request_message, &request,
                        &incremental_alter_configs_response_message, ALTER_VERSION, &call);
    ck_assert_ptr_nonnull(response);
    ck_assert_uint_eq(response->responses_count, 1);
    ck_assert_int_eq(response->responses[0].resource_type, type);
    ck_assert(bytes_equal(response->responses[0].resource_name, bytes_of_text(resource)));
    err = err_from_wire(response->responses[0].error_code);
    ck_assert((err == ERR_OK) == (response->responses[0].error_message.data == NULL));
    node_call_end(&call);
    return err;
}

static enum err produce(struct uuid topic, int32_t partition, size_t bytes)
{
    enum err err = ERR_OK;

    (void)node_produce(&world, 0, topic, partition, bytes, &err);
    return err;
}

START_TEST(a_change_is_in_force_when_it_is_answered)
{
    struct uuid topic;

    for (uint64_t seed = 1; seed <= 5; seed++) {
        node_world_begin(&world, seed, 3);
        topic = node_create_topic(&world, "a", 6, NULL);
        ck_assert_int_eq(alter(TOPIC, "a", "max.message.bytes", "500"), ERR_OK);
        for (int32_t i = 0; i < 6; i++)
            ck_assert_int_eq(produce(topic, i, 1000), ERR_MESSAGE_TOO_LARGE);
        ck_assert_int_eq(alter(TOPIC, "a", "max.message.bytes", NULL), ERR_OK);
        for (int32_t i = 0; i < 6; i++)
            ck_assert_int_eq(produce(topic, i, 1000), ERR_OK);
        ck_assert_int_eq(alter(BROKER, "", "message.max.bytes", "500"), ERR_OK);
        ck_assert_int_eq(produce(topic, 0, 1000), ERR_MESSAGE_TOO_LARGE);
        ck_assert_int_eq(alter(BROKER, "1", "message.max.bytes", "5000"), ERR_OK);
        for (int32_t i = 0; i < 6; i++)
            ck_assert_int_eq(produce(topic, i, 1000), ERR_OK);
        ck_assert_int_eq(alter(TOPIC, "a", "max.message.bytes", "500"), ERR_OK);
        ck_assert_int_eq(produce(topic, 5, 1000), ERR_MESSAGE_TOO_LARGE);
        /* And so it is after a restart. */
        sim_node_stop(&world.node);
        sim_node_start(&world.node);
        ck_assert_int_eq(produce(topic, 5, 1000), ERR_MESSAGE_TOO_LARGE);
        node_world_end(&world);
    }
}
END_TEST

START_TEST(a_nodes_own_settings_change_on_every_loop)
{
    node_world_begin(&world, 6, 2);
    ck_assert_int_eq(alter(BROKER, "1", "producer.id.expiration.ms", "1234"), ERR_OK);
    for (uint32_t i = 0; i < 2; i++)
        ck_assert_int_eq(world.node.broker->shards[i].envs[0].limits.producer_expiry_ms, 1234);
    ck_assert_int_eq(alter(BROKER, "1", "producer.id.expiration.ms", NULL), ERR_OK);
    for (uint32_t i = 0; i < 2; i++)
        ck_assert_int_eq(world.node.broker->shards[i].envs[0].limits.producer_expiry_ms, 86400000);
    node_world_end(&world);
}
END_TEST

START_TEST(each_resource_has_its_own_answer)
{
    static const struct {
        int8_t type;
        const char *name;
        enum err err;
    } cases[] = {
        {TOPIC, "missing", ERR_UNKNOWN_TOPIC_OR_PARTITION},
        {BROKER, "7", ERR_INVALID_REQUEST},
        {TOPIC, "twice", ERR_INVALID_REQUEST},
        {TOPIC, "a", ERR_OK},
        {99, "x", ERR_INVALID_REQUEST},
        {8, "1", ERR_INVALID_REQUEST},
        {TOPIC, "twice", ERR_INVALID_REQUEST},
        {32, "", ERR_INVALID_REQUEST},
    };
    enum { CASES = sizeof(cases) / sizeof(cases[0]) };
    struct alter_configs_request request;
    struct alter_configs_request_alter_configs_resource entries[CASES];
    struct alter_configs_request_alterable_config change;
    struct alter_configs_response *response = NULL;
    struct node_call call;

    node_world_begin(&world, 7, 2);
    (void)node_create_topic(&world, "a", 1, NULL);
    (void)node_create_topic(&world, "twice", 1, NULL);
    alter_configs_request_alterable_config_init(&change);
    change.name = BYTES_LITERAL("retention.ms");
    change.value = BYTES_LITERAL("5");
    for (int i = 0; i < CASES; i++) {
        alter_configs_request_alter_configs_resource_init(&entries[i]);
        entries[i].resource_type = cases[i].type;
        entries[i].resource_name = bytes_of_text(cases[i].name);
        entries[i].configs = &change;
        entries[i].configs_count = 1;
    }
    alter_configs_request_init(&request);
    request.resources = entries;
    request.resources_count = CASES;
    response = node_ask(&world, 0, &alter_configs_request_message, &request, &alter_configs_response_message,
                        REPLACE_VERSION, &call);
    ck_assert_uint_eq(response->responses_count, CASES);
    for (int i = 0; i < CASES; i++)
        ck_assert_int_eq(response->responses[i].error_code, err_wire(cases[i].err));
    node_call_end(&call);
    node_world_end(&world);
}
END_TEST

/* As Apache Kafka does it: what is wrong with a key or a value is said before that there is no such topic. */
START_TEST(a_bad_change_is_told_before_an_absent_topic)
{
    node_world_begin(&world, 13, 1);
    ck_assert_int_eq(alter(TOPIC, "missing", "retention.ms", "x"), ERR_INVALID_CONFIG);
    ck_assert_int_eq(alter(TOPIC, "missing", "no.such.key", "5"), ERR_INVALID_CONFIG);
    ck_assert_int_eq(alter(TOPIC, "missing", "retention.ms", "5"), ERR_UNKNOWN_TOPIC_OR_PARTITION);
    ck_assert_int_eq(alter(TOPIC, "missing", "no.such.key", NULL), ERR_UNKNOWN_TOPIC_OR_PARTITION);
    node_world_end(&world);
}
END_TEST

static bool nothing_is_allowed(void *context, const struct request *request, enum operation operation,
                               enum resource_type type, struct bytes name)
{
    (void)context;
    (void)request;
    (void)operation;
    (void)type;
    (void)name;
    return false;
}

START_TEST(who_may_not_is_told_so)
{
    node_world_begin(&world, 8, 1);
    (void)node_create_topic(&world, "a", 1, NULL);
    world.node.broker->access = nothing_is_allowed;
    ck_assert_int_eq(alter(TOPIC, "a", "retention.ms", "5"), ERR_TOPIC_AUTHORIZATION_FAILED);
    ck_assert_int_eq(alter(TOPIC, "missing", "retention.ms", "5"), ERR_TOPIC_AUTHORIZATION_FAILED);
    ck_assert_int_eq(alter(BROKER, "1", "log.retention.ms", "5"), ERR_CLUSTER_AUTHORIZATION_FAILED);
    ck_assert_int_eq(alter(32, "g", "consumer.session.timeout.ms", "5"), ERR_GROUP_AUTHORIZATION_FAILED);
    world.node.broker->access = NULL;
    node_world_end(&world);
}
END_TEST

/* The edge of CONTROLLER_ALTERATIONS_MAX: more resources than one request may have are refused, each, and at once. */
START_TEST(a_request_has_a_size)
{
    static struct incremental_alter_configs_request_alter_configs_resource entries[MANY];
    static char names[MANY][8];
    struct incremental_alter_configs_request request;
    struct incremental_alter_configs_response *response = NULL;
    struct node_call call;

    node_world_begin(&world, 9, 1);
    world.sim.habits.network_run_bytes_max = 1 << 16;
    for (int i = 0; i < MANY; i++) {
        (void)snprintf(names[i], sizeof(names[i]), "%d", i);
        incremental_alter_configs_request_alter_configs_resource_init(&entries[i]);
        entries[i].resource_type = TOPIC;
        entries[i].resource_name = bytes_of_text(names[i]);
    }
    incremental_alter_configs_request_init(&request);
    request.resources = entries;
    for (uint32_t count = MANY - 1; count <= MANY; count++) {
        request.resources_count = count;
        response = node_ask(&world, 0, &incremental_alter_configs_request_message, &request,
                            &incremental_alter_configs_response_message, ALTER_VERSION, &call);
        ck_assert_uint_eq(response->responses_count, count);
        ck_assert_int_eq(response->responses[count - 1].error_code,
                         err_wire(count < MANY ? ERR_UNKNOWN_TOPIC_OR_PARTITION : ERR_POLICY_VIOLATION));
        node_call_end(&call);
    }
    node_world_end(&world);
}
END_TEST

/* More resources than one turn describes: each is answered, in the order of the request, and others are heard
 * meanwhile. */
START_TEST(many_are_described_in_turns)
{
    enum { RESOURCES = 3 * DESCRIBE_TURN_RESOURCES + 1 };
    struct describe_configs_request request;
    struct describe_configs_resource resources[RESOURCES];
    const struct describe_configs_response *response = NULL;
    struct node_call call;

    node_world_begin(&world, 6, 2);
    (void)node_create_topic(&world, "t", 1, NULL);
    describe_configs_request_init(&request);
    for (uint32_t i = 0; i < RESOURCES; i++) {
        describe_configs_resource_init(&resources[i]);
        resources[i].resource_type = TOPIC;
        resources[i].resource_name = i % 2 == 0 ? BYTES_LITERAL("t") : BYTES_LITERAL("nowhere");
    }
    request.resources = resources;
    request.resources_count = RESOURCES;
    response = node_ask(&world, 0, &describe_configs_request_message, &request, &describe_configs_response_message,
                        DESCRIBE_VERSION, &call);
    ck_assert_ptr_nonnull(response);
    ck_assert_uint_eq(response->results_count, RESOURCES);
    for (uint32_t i = 0; i < RESOURCES; i++) {
        ck_assert(bytes_equal(response->results[i].resource_name, resources[i].resource_name));
        ck_assert_int_eq(response->results[i].error_code, i % 2 == 0 ? 0 : err_wire(ERR_UNKNOWN_TOPIC_OR_PARTITION));
        ck_assert_uint_eq(response->results[i].configs_count > 10, i % 2 == 0);
    }
    node_call_end(&call);
    node_world_end(&world);
}
END_TEST

/* Whether the node describes its HTTP listener so. */
static bool http_is(const char *wanted)
{
    struct describe_configs_request request;
    struct describe_configs_resource resource;
    const struct describe_configs_response *response = NULL;
    struct bytes key = BYTES_LITERAL("ottla.http.listener");
    struct node_call call;
    bool same = false;

    describe_configs_request_init(&request);
    describe_configs_resource_init(&resource);
    resource.resource_type = BROKER;
    resource.resource_name = BYTES_LITERAL("1");
    resource.configuration_keys = &key;
    resource.configuration_keys_count = 1;
    request.resources = &resource;
    request.resources_count = 1;
    response = node_ask(&world, 0, &describe_configs_request_message, &request, &describe_configs_response_message,
                        DESCRIBE_VERSION, &call);
    ck_assert_ptr_nonnull(response);
    ck_assert_uint_eq(response->results_count, 1);
    ck_assert_uint_eq(response->results[0].configs_count, 1);
    same = bytes_equal(response->results[0].configs[0].value, bytes_of_text(wanted));
    node_call_end(&call);
    return same;
}

/* Clients are sent to where HTTP is, not to the port 0, and not to what another node may have. */
START_TEST(the_http_listener_is_described_as_it_is_bound)
{
    node_world_begin_with(&world, 14, 1, "ottla.http.listener=[::1]:0", NULL);
    ck_assert(http_is("[::1]:0"));
    broker_tell_http_port(world.node.broker, 54321);
    ck_assert(http_is("[::1]:54321"));
    broker_tell_http_port(world.node.broker, 0);
    ck_assert(http_is(""));
    node_world_end(&world);
}
END_TEST

RUN_TESTS("broker/alter_configs", a_change_is_in_force_when_it_is_answered, a_nodes_own_settings_change_on_every_loop,
          each_resource_has_its_own_answer, a_bad_change_is_told_before_an_absent_topic, who_may_not_is_told_so,
          a_request_has_a_size, many_are_described_in_turns, the_http_listener_is_described_as_it_is_bound)
