/* Rule: a member of the consumer protocol joins, is given its partitions, is described and leaves over the wire; a new
 * cluster has agreed on it (group.version 1), and without that it is refused; who may not is told with Kafka's codes.
 *
 * Sources: broker/handle_features.c */
#include <stdio.h>

#include "../partition/run_tests.h"
#include "broker/broker_internal.h"
#include "node_world.h"
#include "protocol/gen/consumer_group_describe.h"
#include "protocol/gen/consumer_group_heartbeat.h"
#include "protocol/gen/update_features.h"

enum { TRIES = 100 };

static struct node_world world;

#define ASK(api, request, version, call)                                                                               \
    node_ask(&world, 0, &api##_request_message, request, &api##_response_message, version, call)

static void begin(uint64_t seed)
{
    node_world_begin(&world, seed, 2);
    node_find_coordinator(&world, "g");
}

struct beat {
    int16_t code;
    int32_t epoch;
    uint32_t partitions; /* that it was given */
};

/* epoch 0 joins, -1 leaves. */
static struct beat beat(const char *member, int32_t epoch, int16_t version)
{
    struct consumer_group_heartbeat_request request;
    struct bytes topic = BYTES_LITERAL("t");
    struct consumer_group_heartbeat_request_topic_partitions owned[1];
    const struct consumer_group_heartbeat_response *response = NULL;
    struct beat beat = {0};
    struct node_call call;

    consumer_group_heartbeat_request_init(&request);
    request.group_id = BYTES_LITERAL("g");
    request.member_id = bytes_of_text(member);
    request.member_epoch = epoch;
    if (epoch == 0) {
        request.rebalance_timeout_ms = 60000;
        request.subscribed_topic_names = &topic;
        request.subscribed_topic_names_count = 1;
        request.topic_partitions = owned;
    }
    response = ASK(consumer_group_heartbeat, &request, version, &call);
    beat.code = response->error_code;
    beat.epoch = response->member_epoch;
    if (response->assignment != NULL)
        for (uint32_t i = 0; i < response->assignment->topic_partitions_count; i++)
            beat.partitions += response->assignment->topic_partitions[i].partitions_count;
    node_call_end(&call);
    return beat;
}

static int16_t describe(uint32_t *members)
{
    struct consumer_group_describe_request request;
    struct bytes group = BYTES_LITERAL("g");
    const struct consumer_group_describe_response *response = NULL;
    struct node_call call;
    int16_t code = 0;

    consumer_group_describe_request_init(&request);
    request.group_ids = &group;
    request.group_ids_count = 1;
    request.include_authorized_operations = true;
    response = ASK(consumer_group_describe, &request, 1, &call);
    ck_assert_uint_eq(response->groups_count, 1);
    ck_assert(bytes_equal(response->groups[0].group_id, group));
    code = response->groups[0].error_code;
    *members = response->groups[0].members_count;
    if (code == 0)
        ck_assert_int_gt(response->groups[0].authorized_operations, 0);
    node_call_end(&call);
    return code;
}

START_TEST(a_member_from_join_to_leave)
{
    begin(1);
    (void)node_create_topic(&world, "t", 3, NULL);
    for (int16_t version = 0; version <= 1; version++) {
        struct beat first = beat("m", 0, version);
        uint32_t members = 0;

        for (int i = 0; i < TRIES && first.partitions == 0; i++) { /* the target is computed once an interval */
            ck_assert_int_eq(first.code, 0);
            node_world_pass(&world, 100);
            first = beat("m", first.epoch, version);
        }
        ck_assert_int_eq(first.code, 0);
        ck_assert_uint_eq(first.partitions, 3);
        ck_assert_int_gt(first.epoch, 0);
        ck_assert_int_eq(beat("m", first.epoch, version).code, 0);
        ck_assert_int_eq(describe(&members), 0);
        ck_assert_uint_eq(members, 1);
        ck_assert_int_eq(beat("m", first.epoch + 1, version).code, err_wire(ERR_FENCED_MEMBER_EPOCH));
        ck_assert_int_eq(beat("m", -1, version).code, 0);
        ck_assert_int_eq(beat("m", first.epoch, version).code, err_wire(ERR_UNKNOWN_MEMBER_ID));
        ck_assert_int_eq(describe(&members), 0);
        ck_assert_uint_eq(members, 0);
    }
    node_world_end(&world);
}
END_TEST

static int16_t set_level(int16_t level)
{
    struct update_features_request request;
    struct feature_update_key key;
    struct node_call call;
    int16_t code = 0;

    update_features_request_init(&request);
    request.feature_updates = &key;
    request.feature_updates_count = 1;
    feature_update_key_init(&key);
    key.feature = BYTES_LITERAL("group.version");
    key.max_version_level = level;
    key.upgrade_type = level == 0 ? FEATURE_DOWNGRADE_SAFE : FEATURE_UPGRADE;
    code = ((struct update_features_response *)ASK(update_features, &request, 2, &call))->error_code;
    node_call_end(&call);
    return code;
}

START_TEST(the_cluster_agrees_on_it)
{
    uint32_t members = 0;

    begin(2);
    (void)node_create_topic(&world, "t", 1, NULL);
    ck_assert_int_eq(set_level(0), 0);
    ck_assert_int_eq(beat("m", 0, 1).code, err_wire(ERR_UNSUPPORTED_VERSION));
    ck_assert_int_eq(describe(&members), err_wire(ERR_UNSUPPORTED_VERSION));
    ck_assert_int_eq(set_level(2), err_wire(ERR_INVALID_UPDATE_VERSION));
    ck_assert_int_eq(set_level(1), 0);
    ck_assert_int_eq(beat("m", 0, 1).code, 0);
    node_world_end(&world);
}
END_TEST

START_TEST(who_may)
{
    struct beat joined;
    uint32_t members = 0;

    begin(3);
    (void)node_create_topic(&world, "t", 1, NULL);
    joined = beat("m", 0, 1);
    for (int i = 0; i < TRIES && joined.partitions == 0; i++) {
        node_world_pass(&world, 100);
        joined = beat("m", joined.epoch, 1);
    }
    node_deny(&world, MAY_READ, ON_GROUP);
    ck_assert_int_eq(beat("n", 0, 1).code, err_wire(ERR_GROUP_AUTHORIZATION_FAILED));
    node_deny(&world, MAY_DESCRIBE, ON_GROUP);
    ck_assert_int_eq(describe(&members), err_wire(ERR_GROUP_AUTHORIZATION_FAILED));
    node_deny(&world, MAY_DESCRIBE, ON_TOPIC);
    ck_assert_int_eq(beat("n", 0, 1).code, err_wire(ERR_TOPIC_AUTHORIZATION_FAILED));
    ck_assert_int_eq(describe(&members), err_wire(ERR_TOPIC_AUTHORIZATION_FAILED));
    ck_assert_uint_eq(members, 0);
    node_allow(&world);
    node_world_end(&world);
}
END_TEST

RUN_TESTS("broker/handle_consumer_groups", a_member_from_join_to_leave, the_cluster_agrees_on_it, who_may)
