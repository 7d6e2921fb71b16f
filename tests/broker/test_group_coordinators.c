/*
 * Rule: a coordinator is where its partition is led, and ends with that: who waits in one that goes is told so and asks
 * anew, and nothing of the groups is left behind when their topic is another one. Who is gone when the answer comes
 * leaves nothing either. Settings of the node are what the cores see, within what a timer holds.
 */
#include <inttypes.h>
#include <stdio.h>

#include "../partition/run_tests.h"
#include "broker/broker_internal.h"
#include "broker/broker_limits.h"
#include "node_world.h"
#include "protocol/gen/describe_groups.h"
#include "protocol/gen/heartbeat.h"
#include "protocol/gen/join_group.h"

enum { SETTING_CHARS = 80, GROUPS = 60, SESSION_MS = 10000, NEW_MEMBER_MS = 5 * 60 * 1000 };

static struct node_world world;

static const struct group_settings *settings(void)
{
    return &world.node.broker->shards[0].groups.settings;
}

/* ---- settings ---- */

START_TEST(a_policy_of_migration)
{
    static const struct {
        const char *text;
        enum group_migration migration;
    } policies[] = {{"disabled", MIGRATION_DISABLED},
                    {"UPGRADE", MIGRATION_UPGRADE},
                    {"Downgrade", MIGRATION_DOWNGRADE},
                    {"bidirectional", MIGRATION_BIDIRECTIONAL}};

    for (size_t i = 0; i < sizeof(policies) / sizeof(policies[0]); i++) {
        char setting[SETTING_CHARS];

        (void)snprintf(setting, sizeof(setting), "group.consumer.migration.policy=%s", policies[i].text);
        node_world_begin_with(&world, 1, 1, setting, NULL);
        ck_assert_int_eq(settings()->migration, policies[i].migration);
        node_world_end(&world);
    }
}
END_TEST

START_TEST(assignors_in_their_order)
{
    node_world_begin_with(&world, 2, 1, "group.consumer.assignors=range, uniform", NULL);
    ck_assert_uint_eq(settings()->consumer_assignor_count, 2);
    ck_assert_int_eq(settings()->consumer_assignors[0], ASSIGNOR_RANGE);
    ck_assert_int_eq(settings()->consumer_assignors[1], ASSIGNOR_UNIFORM);
    node_world_end(&world);
    node_world_begin_with(&world, 2, 1, "group.consumer.assignors=range", NULL);
    ck_assert_uint_eq(settings()->consumer_assignor_count, 1);
    node_world_end(&world);
}
END_TEST

/* GROUP_OFFSETS_CHECK_MS_MAX: what is longer is as long. */
START_TEST(an_interval_that_no_timer_holds)
{
    for (int64_t by = -1; by <= 1; by++) {
        char setting[SETTING_CHARS];
        int64_t ms = GROUP_OFFSETS_CHECK_MS_MAX + by;

        (void)snprintf(setting, sizeof(setting), "offsets.retention.check.interval.ms=%" PRId64, ms);
        node_world_begin_with(&world, 3, 1, setting, NULL);
        ck_assert_int_eq(settings()->offsets_check_ms, by > 0 ? GROUP_OFFSETS_CHECK_MS_MAX : ms);
        node_find_coordinator(&world, "g"); /* whose timer runs */
        node_world_end(&world);
    }
}
END_TEST

/* ---- members ---- */

struct joining {
    struct join_group_request request;
    struct join_group_request_protocol protocol;
    struct node_call call;
};

/* Version 3: it waits at once, without an id. */
static void send_join(uint32_t client, struct joining *joining)
{
    join_group_request_init(&joining->request);
    joining->request.group_id = BYTES_LITERAL("g");
    joining->request.session_timeout_ms = SESSION_MS;
    joining->request.rebalance_timeout_ms = SESSION_MS;
    joining->request.member_id = BYTES_LITERAL("");
    joining->request.protocol_type = BYTES_LITERAL("consumer");
    joining->request.protocols = &joining->protocol;
    joining->request.protocols_count = 1;
    join_group_request_protocol_init(&joining->protocol);
    joining->protocol.name = BYTES_LITERAL("range");
    joining->protocol.metadata = BYTES_LITERAL("");
    node_send(&world, client, &join_group_request_message, &joining->request, &join_group_response_message, 3,
              &joining->call);
    ck_assert(!node_answered(&world, &joining->call, 500));
}

static int16_t joined(struct joining *joining)
{
    int16_t code = 0;

    ck_assert(node_answered(&world, &joining->call, 60000));
    ck_assert_int_eq(joining->call.err, ERR_OK);
    code = ((const struct join_group_response *)joining->call.call.response)->error_code;
    node_call_end(&joining->call);
    return code;
}

static int16_t beat(void)
{
    struct heartbeat_request request;
    struct node_call call;
    int16_t code = 0;

    heartbeat_request_init(&request);
    request.group_id = BYTES_LITERAL("g");
    request.member_id = BYTES_LITERAL("somebody");
    code = ((struct heartbeat_response *)node_ask(&world, 0, &heartbeat_request_message, &request,
                                                  &heartbeat_response_message, 4, &call))
               ->error_code;
    node_call_end(&call);
    return code;
}

/* How many members it has, in that state. */
static uint32_t members(const char *state)
{
    struct describe_groups_request request;
    struct bytes name = BYTES_LITERAL("g");
    const struct describe_groups_response *response = NULL;
    struct node_call call;
    uint32_t count = 0;

    describe_groups_request_init(&request);
    request.groups = &name;
    request.groups_count = 1;
    response =
        node_ask(&world, 0, &describe_groups_request_message, &request, &describe_groups_response_message, 5, &call);
    ck_assert_int_eq(response->groups[0].error_code, 0);
    ck_assert_msg(bytes_equal(response->groups[0].group_state, bytes_of_text(state)), "%.*s",
                  BYTES_PRINTF(response->groups[0].group_state));
    count = response->groups[0].members_count;
    node_call_end(&call);
    return count;
}

START_TEST(with_its_topic)
{
    struct joining joining;

    node_world_begin(&world, 4, 3);
    ck_assert_int_eq(beat(), err_wire(ERR_NOT_COORDINATOR)); /* nobody has asked for one yet */
    node_find_coordinator(&world, "g");
    send_join(1, &joining);
    ck_assert_int_eq(node_delete_topic(&world, "__consumer_offsets"), ERR_OK);
    ck_assert_int_eq(joined(&joining), err_wire(ERR_NOT_COORDINATOR));
    ck_assert_int_eq(beat(), err_wire(ERR_NOT_COORDINATOR));
    node_find_coordinator(&world, "g"); /* makes the topic anew */
    ck_assert_int_eq(beat(), err_wire(ERR_UNKNOWN_MEMBER_ID));
    ck_assert_uint_eq(members("Dead"), 0);
    send_join(1, &joining);
    ck_assert_int_eq(joined(&joining), 0);
    node_world_end(&world);
}
END_TEST

/* Its answer goes nowhere; the member goes with its session, without holding up who comes after it. */
START_TEST(who_is_gone_when_the_answer_comes)
{
    struct joining gone;
    struct joining waits;

    node_world_begin(&world, 5, 2);
    node_find_coordinator(&world, "g");
    send_join(1, &gone);
    sim_client_break(&world.clients[1]);
    ck_assert(node_answered(&world, &gone.call, 1000));
    ck_assert_int_eq(gone.call.err, ERR_CLOSED);
    node_call_end(&gone.call);
    send_join(2, &waits);
    ck_assert_uint_eq(members("PreparingRebalance"), 2);
    ck_assert_int_eq(joined(&waits), 0);
    node_world_pass(&world, NEW_MEMBER_MS + SESSION_MS);
    ck_assert_uint_eq(members("Empty"), 0);
    node_world_end(&world);
}
END_TEST

/* Questions at all homes, and nobody who waits for their answers. */
START_TEST(who_is_gone_while_many_are_asked)
{
    struct describe_groups_request request;
    char names[GROUPS][8];
    struct bytes groups[GROUPS];

    node_world_begin(&world, 6, 4);
    node_find_coordinator(&world, "g");
    for (uint32_t i = 0; i < GROUPS; i++) {
        (void)snprintf(names[i], sizeof(names[i]), "g%u", i);
        groups[i] = bytes_of_text(names[i]);
    }
    describe_groups_request_init(&request);
    request.groups = groups;
    request.groups_count = GROUPS;
    for (int ms = 0; ms < 5; ms++) {
        struct node_call call;

        node_send(&world, 1, &describe_groups_request_message, &request, &describe_groups_response_message, 5, &call);
        node_world_pass(&world, ms);
        sim_client_break(&world.clients[1]);
        ck_assert(node_answered(&world, &call, 1000));
        node_call_end(&call);
    }
    node_world_end(&world); /* checks that nothing is left */
}
END_TEST

RUN_TESTS("broker/group_coordinators", a_policy_of_migration, assignors_in_their_order, an_interval_that_no_timer_holds,
          with_its_topic, who_is_gone_when_the_answer_comes, who_is_gone_while_many_are_asked)
