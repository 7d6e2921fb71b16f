/* Rule: a member joins, syncs, beats, is described and leaves, in every version, over the wire; who may not is told
 * with Kafka's codes; a stop answers who waits; a restart fences nobody.
 *
 * Sources: broker/group_call.c, broker/scatter.c */
#include <stdio.h>

#include "../partition/run_tests.h"
#include "broker/broker_internal.h"
#include "coordinator/group_list.h"
#include "node_world.h"
#include "protocol/gen/delete_groups.h"
#include "protocol/gen/describe_groups.h"
#include "protocol/gen/heartbeat.h"
#include "protocol/gen/join_group.h"
#include "protocol/gen/leave_group.h"
#include "protocol/gen/list_groups.h"
#include "protocol/gen/sync_group.h"

enum { JOIN_VERSION = 9, MEMBER_ID_CHARS = 128 };

static struct node_world world;

#define ASK(api, request, version, call)                                                                               \
    node_ask(&world, 0, &api##_request_message, request, &api##_response_message, version, call)

static void begin(uint64_t seed)
{
    node_world_begin(&world, seed, 2);
    node_find_coordinator(&world, "g");
}

struct member {
    char id[MEMBER_ID_CHARS];
    int32_t generation;
};

static void join_init(struct join_group_request *request, struct join_group_request_protocol *protocol,
                      const char *member_id)
{
    join_group_request_init(request);
    request->group_id = BYTES_LITERAL("g");
    request->session_timeout_ms = 10000;
    request->rebalance_timeout_ms = 20000;
    request->member_id = bytes_of_text(member_id);
    request->protocol_type = BYTES_LITERAL("consumer");
    request->protocols = protocol;
    request->protocols_count = 1;
    join_group_request_protocol_init(protocol);
    protocol->name = BYTES_LITERAL("range");
    protocol->metadata = BYTES_LITERAL("metadata");
}

/* As clients do it; alone in the group. */
static void join(struct member *member, int16_t version)
{
    struct join_group_request request;
    struct join_group_request_protocol protocol;
    struct join_group_response *response = NULL;
    struct node_call call;
    int16_t code = 0;

    member->id[0] = '\0';
    do {
        join_init(&request, &protocol, member->id);
        response = ASK(join_group, &request, version, &call);
        code = response->error_code;
        (void)snprintf(member->id, sizeof(member->id), "%.*s", BYTES_PRINTF(response->member_id));
        member->generation = response->generation_id;
        if (code == 0) {
            ck_assert(bytes_equal(response->leader, response->member_id));
            ck_assert(bytes_equal(response->protocol_name, BYTES_LITERAL("range")));
            ck_assert_uint_eq(response->members_count, 1);
        }
        node_call_end(&call);
    } while (code == err_wire(ERR_MEMBER_ID_REQUIRED));
    ck_assert_int_eq(code, 0);
}

static int16_t sync_member(const struct member *member, int16_t version)
{
    struct sync_group_request request;
    struct sync_group_request_assignment assignment;
    struct sync_group_response *response = NULL;
    struct node_call call;
    int16_t code = 0;

    sync_group_request_init(&request);
    request.group_id = BYTES_LITERAL("g");
    request.generation_id = member->generation;
    request.member_id = bytes_of_text(member->id);
    request.protocol_type = BYTES_LITERAL("consumer");
    request.protocol_name = BYTES_LITERAL("range");
    request.assignments = &assignment;
    request.assignments_count = 1;
    sync_group_request_assignment_init(&assignment);
    assignment.member_id = request.member_id;
    assignment.assignment = BYTES_LITERAL("assigned");
    response = ASK(sync_group, &request, version, &call);
    code = response->error_code;
    if (code == 0)
        ck_assert(bytes_equal(response->assignment, BYTES_LITERAL("assigned")));
    node_call_end(&call);
    return code;
}

static int16_t beat(const struct member *member, int16_t version)
{
    struct heartbeat_request request;
    struct node_call call;
    int16_t code = 0;

    heartbeat_request_init(&request);
    request.group_id = BYTES_LITERAL("g");
    request.generation_id = member->generation;
    request.member_id = bytes_of_text(member->id);
    code = ((struct heartbeat_response *)ASK(heartbeat, &request, version, &call))->error_code;
    node_call_end(&call);
    return code;
}

static int16_t leave(const struct member *member, int16_t version)
{
    struct leave_group_request request;
    struct member_identity who;
    struct leave_group_response *response = NULL;
    struct node_call call;
    int16_t code = 0;

    leave_group_request_init(&request);
    request.group_id = BYTES_LITERAL("g");
    request.member_id = bytes_of_text(member->id);
    request.members = &who;
    request.members_count = 1;
    member_identity_init(&who);
    who.member_id = request.member_id;
    response = ASK(leave_group, &request, version, &call);
    code = response->error_code;
    if (version >= 3 && code == 0) {
        ck_assert_uint_eq(response->members_count, 1);
        code = response->members[0].error_code;
    }
    node_call_end(&call);
    return code;
}

/* The group's state is that; gives how many members it has. */
static uint32_t describe(const char *group, const char *state, int16_t version)
{
    struct describe_groups_request request;
    struct bytes name = bytes_of_text(group);
    const struct describe_groups_response *response = NULL;
    const struct describe_groups_response_described_group *of = NULL;
    struct node_call call;
    uint32_t members = 0;

    describe_groups_request_init(&request);
    request.groups = &name;
    request.groups_count = 1;
    request.include_authorized_operations = true;
    response = ASK(describe_groups, &request, version, &call);
    ck_assert_uint_eq(response->groups_count, 1);
    of = &response->groups[0];
    ck_assert(bytes_equal(of->group_id, name));
    ck_assert_msg(bytes_equal(of->group_state, bytes_of_text(state)), "%.*s", BYTES_PRINTF(of->group_state));
    members = of->members_count;
    if (members > 0) {
        ck_assert(bytes_equal(of->members[0].client_id, BYTES_LITERAL("client-0")));
        ck_assert_int_eq(of->members[0].client_host.data[0], '/');
    }
    if (version >= 3 && of->error_code == 0)
        ck_assert_int_gt(of->authorized_operations, 0);
    node_call_end(&call);
    return members;
}

START_TEST(a_member_from_join_to_leave)
{
    begin(1);
    for (int16_t version = 0; version <= JOIN_VERSION; version++) {
        struct member member;
        int16_t lower = version > 4 ? 4 : version;

        join(&member, version);
        ck_assert_int_eq(sync_member(&member, version > 5 ? 5 : version), 0);
        ck_assert_int_eq(beat(&member, lower), 0);
        ck_assert_uint_eq(describe("g", "Stable", version > 6 ? 6 : version), 1);
        member.generation++;
        ck_assert_int_eq(beat(&member, lower), err_wire(ERR_ILLEGAL_GENERATION));
        ck_assert_int_eq(leave(&member, version > 5 ? 5 : version), 0);
        ck_assert_int_eq(leave(&member, version > 5 ? 5 : version), err_wire(ERR_UNKNOWN_MEMBER_ID));
        ck_assert_uint_eq(describe("g", "Empty", version > 6 ? 6 : version), 0);
        ck_assert_uint_eq(describe("nobody", "Dead", version > 6 ? 6 : version), 0);
    }
    node_world_end(&world);
}
END_TEST

/* The member knows nothing of it: it beats, and is known. */
START_TEST(a_restart_fences_nobody)
{
    begin(2);
    for (int life = 0; life < 4; life++) {
        struct member member;

        join(&member, 9);
        ck_assert_int_eq(sync_member(&member, 5), 0);
        if (life % 2 == 0)
            sim_node_stop(&world.node);
        else
            sim_node_kill(&world.node, false);
        for (uint32_t i = 0; i < NODE_CLIENTS_MAX; i++)
            sim_client_break(&world.clients[i]);
        sim_node_start(&world.node);
        for (int i = 0; i < 10; i++) {
            ck_assert_int_eq(beat(&member, 4), 0);
            node_world_pass(&world, 3000);
        }
        ck_assert_uint_eq(describe("g", "Stable", 5), 1);
        node_world_pass(&world, 11000); /* silent for its session */
        ck_assert_uint_eq(describe("g", "Empty", 5), 0);
    }
    node_world_end(&world);
}
END_TEST

/* One that waits for the others is answered when the node stops; its client asks elsewhere. */
START_TEST(a_stop_answers_who_waits)
{
    struct join_group_request request;
    struct join_group_request_protocol protocol;
    struct node_call call;

    begin(3);
    join_init(&request, &protocol, "");
    node_send(&world, 1, &join_group_request_message, &request, &join_group_response_message, 3, &call);
    ck_assert(!node_answered(&world, &call, 1000));
    sim_node_stop(&world.node);
    ck_assert(node_answered(&world, &call, 1000));
    ck_assert_int_eq(((struct join_group_response *)call.call.response)->error_code,
                     err_wire(ERR_COORDINATOR_NOT_AVAILABLE));
    node_call_end(&call);
    for (uint32_t i = 0; i < NODE_CLIENTS_MAX; i++)
        sim_client_break(&world.clients[i]);
    sim_node_start(&world.node);
    node_world_end(&world);
}
END_TEST

START_TEST(who_may)
{
    struct member member = {.id = "m", .generation = 1};
    struct join_group_request request;
    struct join_group_request_protocol protocol;
    struct join_group_response *response = NULL;
    struct describe_groups_request describing;
    struct bytes name = BYTES_LITERAL("g");
    struct node_call call;

    begin(4);
    node_deny(&world, MAY_READ, ON_GROUP);
    for (int16_t version = 0; version <= JOIN_VERSION; version++) {
        join_init(&request, &protocol, "m");
        response = ASK(join_group, &request, version, &call);
        ck_assert_int_eq(response->error_code, err_wire(ERR_GROUP_AUTHORIZATION_FAILED));
        ck_assert_uint_eq(response->member_id.size, 0);
        node_call_end(&call);
    }
    ck_assert_int_eq(sync_member(&member, 5), err_wire(ERR_GROUP_AUTHORIZATION_FAILED));
    ck_assert_int_eq(beat(&member, 4), err_wire(ERR_GROUP_AUTHORIZATION_FAILED));
    for (int16_t version = 0; version <= 5; version++)
        ck_assert_int_eq(leave(&member, version), err_wire(ERR_GROUP_AUTHORIZATION_FAILED));
    node_deny(&world, MAY_DESCRIBE, ON_GROUP);
    describe_groups_request_init(&describing);
    describing.groups = &name;
    describing.groups_count = 1;
    ck_assert_int_eq(
        ((struct describe_groups_response *)ASK(describe_groups, &describing, 5, &call))->groups[0].error_code,
        err_wire(ERR_GROUP_AUTHORIZATION_FAILED));
    node_call_end(&call);
    node_allow(&world);
    node_world_end(&world);
}
END_TEST

/* --- many groups --- */

/* Rule: a list of more groups than one turn tells of names each once, whether its reply is put together on the loop or
 * on an I/O thread; of the connections of a shard one has its list made at a time, the others wait for it in order, and
 * who goes meanwhile holds nobody up; questions about many groups are asked in several turns and answered in the order
 * of the question. */
enum {
    GROUPS = 4 * GROUP_LIST_STEP_LOOKS, /* in two coordinators: over what a reply on the loop is made of */
    NAME_CHARS = 16,
    WAIT_MS = 20000,
    GROUP_ID_NOT_FOUND = 69,
};
_Static_assert(GROUPS * sizeof(struct listed_group) > (size_t)REPLY_TURN_BYTES, "it is put together on an I/O thread");
_Static_assert((int)GROUPS > (int)SCATTER_TURN_OPS, "they are asked in several turns");

static char names[GROUPS][NAME_CHARS];

static void begin_many(uint64_t seed, uint32_t reactors)
{
    node_world_begin_with(&world, seed, reactors, "offsets.topic.num.partitions=2", NULL);
    (void)node_create_topic(&world, "t", 1, NULL);
    node_find_coordinator(&world, "g");
    node_find_coordinator(&world, "h");
    for (int i = 0; i < GROUPS; i++) {
        (void)snprintf(names[i], sizeof(names[i]), "g-%d", i);
        ck_assert_int_eq(node_commit(&world, names[i], 0, 0), 0);
    }
}

static void send_list(uint32_t client, struct node_call *call)
{
    struct list_groups_request request;

    list_groups_request_init(&request);
    node_send(&world, client, &list_groups_request_message, &request, &list_groups_response_message, 5, call);
}

static void check_list(const struct list_groups_response *response)
{
    static bool seen[GROUPS];

    ck_assert_int_eq(response->error_code, 0);
    ck_assert_uint_eq(response->groups_count, GROUPS);
    memset(seen, 0, sizeof(seen));
    for (uint32_t i = 0; i < response->groups_count; i++) {
        struct bytes id = response->groups[i].group_id;
        int number = 0;

        for (size_t k = 2; k < id.size; k++) /* behind "g-" */
            number = 10 * number + id.data[k] - '0';
        ck_assert(number >= 0 && number < GROUPS && !seen[number]);
        seen[number] = true;
    }
}

START_TEST(long_lists)
{
    for (uint32_t reactors = 1; reactors <= 2; reactors++) {
        struct node_call calls[4];

        begin_many(reactors, reactors);
        for (uint32_t i = 0; i < 4; i++)
            send_list(i, &calls[i]);
        for (uint32_t i = 0; i < 4; i++) {
            ck_assert(node_answered(&world, &calls[i], WAIT_MS));
            ck_assert_int_eq(calls[i].err, ERR_OK);
            check_list(calls[i].call.response);
            node_call_end(&calls[i]);
        }
        node_world_end(&world);
    }
}
END_TEST

/* Of those that wait one goes, and so does the one whose list is being made. */
START_TEST(some_go)
{
    struct node_call calls[4];
    uint32_t waiting_max = 0;
    struct shard_groups *groups = NULL;

    begin_many(3, 1);
    groups = &world.node.broker->shards[0].groups;
    sim_loop_freeze(world.node.aside, INT64_MAX); /* where the first is put together */
    for (uint32_t i = 0; i < 4; i++)
        send_list(i, &calls[i]);
    for (int i = 0; waiting_max < 3; i++) {
        uint32_t waiting = 0;

        ck_assert_int_lt(i, 100000);
        ck_assert(sim_step(&world.sim, INT64_MAX));
        list_each (&groups->lists_waiting, node)
            waiting++;
        waiting_max = waiting > waiting_max ? waiting : waiting_max;
    }
    sim_client_break(&world.clients[0]);
    sim_client_break(&world.clients[2]);
    sim_loop_freeze(world.node.aside, 0);
    for (uint32_t i = 0; i < 4; i++) {
        ck_assert(node_answered(&world, &calls[i], WAIT_MS));
        if (calls[i].err == ERR_OK)
            check_list(calls[i].call.response);
        ck_assert_int_eq(calls[i].err, i == 1 || i == 3 ? ERR_OK : ERR_CLOSED);
        node_call_end(&calls[i]);
    }
    ck_assert(!groups->lists && list_is_empty(&groups->lists_waiting));
    node_world_end(&world);
}
END_TEST

START_TEST(many_named)
{
    struct describe_groups_request describe;
    struct delete_groups_request delete;
    struct node_call call;
    static struct bytes ids[GROUPS];

    begin_many(4, 2);
    for (int i = 0; i < GROUPS; i++)
        ids[i] = bytes_of_text(names[i]);
    ids[7] = BYTES_LITERAL("none");
    describe_groups_request_init(&describe);
    describe.groups = ids;
    describe.groups_count = GROUPS;
    {
        const struct describe_groups_response *response = node_ask(
            &world, 1, &describe_groups_request_message, &describe, &describe_groups_response_message, 6, &call);

        ck_assert_uint_eq(response->groups_count, GROUPS);
        for (int i = 0; i < GROUPS; i++) {
            ck_assert(bytes_equal(response->groups[i].group_id, ids[i]));
            ck_assert_int_eq(response->groups[i].error_code, i == 7 ? GROUP_ID_NOT_FOUND : 0);
        }
        node_call_end(&call);
    }
    delete_groups_request_init(&delete);
    delete.groups_names = ids;
    delete.groups_names_count = GROUPS;
    {
        const struct delete_groups_response *response =
            node_ask(&world, 1, &delete_groups_request_message, &delete, &delete_groups_response_message, 2, &call);

        ck_assert_uint_eq(response->results_count, GROUPS);
        for (int i = 0; i < GROUPS; i++) {
            ck_assert(bytes_equal(response->results[i].group_id, ids[i]));
            ck_assert_int_eq(response->results[i].error_code, i == 7 ? GROUP_ID_NOT_FOUND : 0);
        }
        node_call_end(&call);
    }
    node_world_end(&world);
}
END_TEST

RUN_TESTS("broker/handle_groups", a_member_from_join_to_leave, a_restart_fences_nobody, a_stop_answers_who_waits,
          who_may, long_lists, some_go, many_named)
