/* Rule: ListGroups names the groups of a coordinator that pass its filters, and what it answers is its own: it is
 * written when the groups may have changed, on another thread. */
#include <check.h>

#include "coordinator/classic_client.h"
#include "coordinator/consumer_beats.h"
#include "partition/run_tests.h"
#include "protocol/gen/list_groups.h"

static struct group_world world;

static const struct list_groups_response *list(const char *state, const char *type)
{
    static struct list_groups_request requests[8]; /* borrowed until the world is closed */
    static struct bytes filters[8][2];
    static uint32_t next;
    uint32_t at = next++ % 8;
    struct list_groups_request *request = &requests[at];

    list_groups_request_init(request);
    filters[at][0] = bytes_of_text(state == NULL ? "" : state);
    filters[at][1] = bytes_of_text(type == NULL ? "" : type);
    request->states_filter = &filters[at][0];
    request->states_filter_count = state != NULL;
    request->types_filter = &filters[at][1];
    request->types_filter_count = type != NULL;
    return world_ask(&world, "l", ASK_LIST_GROUPS, 5, "", request)->response;
}

static bool is(struct bytes a, const char *text)
{
    return bytes_equal(a, bytes_of_text(text));
}

static bool says(const struct list_groups_response *answer, const char *id, const char *state, const char *type)
{
    for (uint32_t i = 0; i < answer->groups_count; i++)
        if (is(answer->groups[i].group_id, id))
            return is(answer->groups[i].group_state, state) && is(answer->groups[i].group_type, type) &&
                   is(answer->groups[i].protocol_type, "consumer");
    return false;
}

START_TEST(filters)
{
    struct classic_client member = {.label = "member"};

    world_open(&world);
    world_topic(&world, "t", 1);
    (void)client_enter(&world, &member);
    (void)beat(&world,
               &(struct beat_says){.member = "m", .rebalance_ms = 60000, .topics = "t", .owned = "", .group = "c"});
    ck_assert_uint_eq(list(NULL, NULL)->groups_count, 2);
    ck_assert(says(list(NULL, NULL), "g", "PreparingRebalance", "classic"));
    ck_assert(says(list(NULL, "CONSUMER"), "c", "Stable", "consumer"));
    ck_assert_uint_eq(list(NULL, "consumer")->groups_count, 1);
    ck_assert_uint_eq(list("stable", NULL)->groups_count, 1);
    ck_assert_uint_eq(list("stable", "classic")->groups_count, 0);
    ck_assert_uint_eq(list("Dead", NULL)->groups_count, 0);
    world_close(&world);
}
END_TEST

/* The last member leaves, and with that the group's record takes the place of all that the group said of itself; then
 * the group is gone altogether. */
START_TEST(an_answer_outlives_its_group)
{
    struct classic_client member = {.label = "member"};
    const struct list_groups_response *before = NULL;
    const struct list_groups_response *after = NULL;
    struct world_call *joined = NULL;

    world_open(&world);
    joined = client_enter(&world, &member);
    world_advance(&world, 6000);
    client_learn(&member, joined);
    (void)client_sync(&world, &member, (struct classic_share[]){{&member, "all"}}, 1);
    before = list(NULL, NULL);
    (void)client_leave(&world, &member, 0);
    after = list(NULL, NULL);
    ck_assert(says(before, "g", "Stable", "classic"));
    ck_assert_int_eq(((struct world_call *)world_ask(&world, "d", ASK_DELETE_GROUP, 2, "g", NULL))->op.op.err, ERR_OK);
    ck_assert_uint_eq(list(NULL, NULL)->groups_count, 0);
    ck_assert(says(before, "g", "Stable", "classic"));
    ck_assert(says(after, "g", "Empty", "classic"));
    world_close(&world);
}
END_TEST

RUN_TESTS("group_list", filters, an_answer_outlives_its_group)
