/*
 * Rule: a request about several groups is answered group by group, each where it was asked for: what one of them is
 * refused with is its own, be it unknown, nobody's to see, or of a coordinator that still loads. A list of all groups
 * has those that may be described, or says why it has none: half a list would look like a whole one.
 */
#include <stdio.h>

#include "../partition/run_tests.h"
#include "broker/broker_internal.h"
#include "node_world.h"
#include "protocol/gen/delete_groups.h"
#include "protocol/gen/describe_groups.h"
#include "protocol/gen/list_groups.h"

enum { LIST_VERSION = 5, DESCRIBE_VERSION = 6, DELETE_VERSION = 3, GROUPS = 12, NAME_CHARS = 8, TRIES = 100 };

static struct node_world world;

#define ASK(api, request, version, call)                                                                               \
    node_ask(&world, 0, &api##_request_message, request, &api##_response_message, version, call)

static char names[GROUPS][NAME_CHARS];

/* A node with groups g0, g1 ..., at several homes. */
static void begin(uint64_t seed)
{
    node_world_begin(&world, seed, 3);
    (void)node_create_topic(&world, "t", 1, NULL);
    node_find_coordinator(&world, "g");
    for (int i = 0; i < GROUPS; i++) {
        (void)snprintf(names[i], sizeof(names[i]), "g%d", i);
        for (int tries = 0; node_commit(&world, names[i], 0, 1) != 0; tries++) {
            ck_assert_int_lt(tries, TRIES);
            node_world_pass(&world, 10);
        }
    }
}

static const struct list_groups_response *list(int16_t version, struct node_call *call)
{
    struct list_groups_request request;

    list_groups_request_init(&request);
    return ASK(list_groups, &request, version, call);
}

static uint32_t count_listed(int16_t version)
{
    struct node_call call;
    const struct list_groups_response *response = list(version, &call);
    uint32_t count = response->groups_count;

    ck_assert_int_eq(response->error_code, 0);
    node_call_end(&call);
    return count;
}

START_TEST(all_of_every_home)
{
    begin(1);
    for (int16_t version = 0; version <= LIST_VERSION; version++) {
        struct node_call call;
        const struct list_groups_response *response = list(version, &call);
        bool seen[GROUPS] = {false};

        ck_assert_int_eq(response->error_code, 0);
        ck_assert_uint_eq(response->groups_count, GROUPS);
        for (uint32_t i = 0; i < GROUPS; i++)
            for (uint32_t j = 0; j < GROUPS; j++)
                if (bytes_equal(response->groups[i].group_id, bytes_of_text(names[j]))) {
                    ck_assert(!seen[j]);
                    seen[j] = true;
                }
        for (uint32_t i = 0; i < GROUPS; i++)
            ck_assert(seen[i]);
        node_call_end(&call);
    }
    node_world_end(&world);
}
END_TEST

/* Who may describe the cluster sees all, whatever of the groups; who may not, what it may describe. */
START_TEST(a_list_of_what_may_be_seen)
{
    begin(2);
    node_deny(&world, MAY_DESCRIBE, ON_CLUSTER);
    ck_assert_uint_eq(count_listed(LIST_VERSION), GROUPS);
    node_deny(&world, MAY_DESCRIBE, ON_GROUP);
    ck_assert_uint_eq(count_listed(LIST_VERSION), GROUPS);
    node_deny(&world, MAY_DESCRIBE, 0);
    ck_assert_uint_eq(count_listed(LIST_VERSION), 0);
    node_allow(&world);
    node_world_end(&world);
}
END_TEST

/* Neither half a list nor an empty one while coordinators load. */
START_TEST(a_list_while_coordinators_load)
{
    struct node_call call;
    int16_t code = err_wire(ERR_COORDINATOR_LOAD_IN_PROGRESS);
    bool was_loading = false;

    begin(3);
    sim_node_stop(&world.node);
    for (uint32_t i = 0; i < NODE_CLIENTS_MAX; i++)
        sim_client_break(&world.clients[i]);
    sim_node_start(&world.node);
    for (int tries = 0; code != 0; tries++) {
        const struct list_groups_response *response = list(LIST_VERSION, &call);

        ck_assert_int_lt(tries, TRIES);
        if (response == NULL) { /* it does not listen yet */
            node_call_end(&call);
            node_world_pass(&world, 10);
            continue;
        }
        code = response->error_code;
        ck_assert(code == 0 || code == err_wire(ERR_COORDINATOR_LOAD_IN_PROGRESS));
        ck_assert_uint_eq(response->groups_count, code == 0 ? GROUPS : 0);
        was_loading |= code != 0;
        node_call_end(&call);
    }
    ck_assert(was_loading);
    node_world_end(&world);
}
END_TEST

static const struct describe_groups_response *describe(struct bytes *groups, uint32_t count, int16_t version,
                                                       struct node_call *call)
{
    struct describe_groups_request request;
    const struct describe_groups_response *response = NULL;

    describe_groups_request_init(&request);
    request.groups = groups;
    request.groups_count = count;
    request.include_authorized_operations = version >= 3;
    response = ASK(describe_groups, &request, version, call);
    ck_assert_uint_eq(response->groups_count, count);
    for (uint32_t i = 0; i < count; i++)
        ck_assert(bytes_equal(response->groups[i].group_id, groups[i]));
    return response;
}

/* Known, unknown, and one twice. Before version 6 a group that is none is Dead, then it has an error. */
START_TEST(described_each_by_itself)
{
    struct bytes groups[] = {BYTES_LITERAL("g1"), BYTES_LITERAL("nobody"), BYTES_LITERAL("g2"), BYTES_LITERAL("g1"),
                             BYTES_LITERAL("")};
    struct node_call call;

    begin(4);
    for (int16_t version = 0; version <= DESCRIBE_VERSION; version++) {
        int16_t unknown = version >= 6 ? err_wire(ERR_GROUP_ID_NOT_FOUND) : 0;
        const struct describe_groups_response *response = describe(groups, 5, version, &call);

        ck_assert_int_eq(response->groups[0].error_code, 0);
        ck_assert(bytes_equal(response->groups[0].group_state, BYTES_LITERAL("Empty")));
        ck_assert(bytes_equal(response->groups[3].group_state, BYTES_LITERAL("Empty")));
        ck_assert_int_eq(response->groups[1].error_code, unknown);
        ck_assert(bytes_equal(response->groups[1].group_state, BYTES_LITERAL("Dead")));
        ck_assert_int_eq(response->groups[4].error_code, unknown);
        ck_assert((response->groups[0].authorized_operations != INT32_MIN) == (version >= 3));
        ck_assert((response->groups[1].authorized_operations != INT32_MIN) == (version >= 3 && version < 6));
        node_call_end(&call);
    }
    (void)describe(groups, 0, DESCRIBE_VERSION, &call);
    node_call_end(&call);
    node_world_end(&world);
}
END_TEST

/* What may not be described says nothing of itself, not even whether it is there. */
START_TEST(described_to_nobody)
{
    struct bytes groups[] = {BYTES_LITERAL("g1"), BYTES_LITERAL("nobody")};

    begin(5);
    node_deny(&world, MAY_DESCRIBE, ON_GROUP);
    for (int16_t version = 0; version <= DESCRIBE_VERSION; version++) {
        struct node_call call;
        const struct describe_groups_response *response = describe(groups, 2, version, &call);

        for (uint32_t i = 0; i < 2; i++) {
            ck_assert_int_eq(response->groups[i].error_code, err_wire(ERR_GROUP_AUTHORIZATION_FAILED));
            ck_assert_uint_eq(response->groups[i].group_state.size, 0);
            ck_assert_int_eq(response->groups[i].authorized_operations, INT32_MIN);
        }
        node_call_end(&call);
    }
    node_allow(&world);
    node_world_end(&world);
}
END_TEST

static void check_deleted(struct bytes *groups, uint32_t count, int16_t version, const int16_t *codes)
{
    struct delete_groups_request request;
    const struct delete_groups_response *response = NULL;
    struct node_call call;

    delete_groups_request_init(&request);
    request.groups_names = groups;
    request.groups_names_count = count;
    response = ASK(delete_groups, &request, version, &call);
    ck_assert_uint_eq(response->results_count, count);
    for (uint32_t i = 0; i < count; i++) {
        ck_assert(bytes_equal(response->results[i].group_id, groups[i]));
        ck_assert_int_eq(response->results[i].error_code, codes[i]);
    }
    node_call_end(&call);
}

START_TEST(deleted_each_by_itself)
{
    static struct bytes groups[] = {BYTES_LITERAL("nobody"), BYTES_LITERAL("g1"), BYTES_LITERAL("g2")};
    const int16_t unknown = err_wire(ERR_GROUP_ID_NOT_FOUND);
    const int16_t denied = err_wire(ERR_GROUP_AUTHORIZATION_FAILED);

    begin(6);
    node_deny(&world, MAY_DELETE, ON_GROUP);
    for (int16_t version = 0; version <= DELETE_VERSION; version++)
        check_deleted(groups, 3, version, (const int16_t[]){denied, denied, denied});
    node_allow(&world);
    ck_assert_uint_eq(count_listed(LIST_VERSION), GROUPS);
    check_deleted(groups, 3, DELETE_VERSION, (const int16_t[]){unknown, 0, 0});
    check_deleted(groups, 3, DELETE_VERSION, (const int16_t[]){unknown, unknown, unknown});
    check_deleted(groups, 0, DELETE_VERSION, NULL);
    ck_assert_uint_eq(count_listed(LIST_VERSION), GROUPS - 2);
    node_world_end(&world);
}
END_TEST

RUN_TESTS("broker/handle_group_admin", all_of_every_home, a_list_of_what_may_be_seen, a_list_while_coordinators_load,
          described_each_by_itself, described_to_nobody, deleted_each_by_itself)
