/* Rule: ListGroups names the groups of a coordinator that pass its filters, and what it answers is its own: it is
 * written when the groups may have changed, on another thread. A step tells of so many groups and not of one more; what
 * comes and goes between two steps neither hides another group nor shows one twice, and is never touched again. */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "coordinator/group_list.h"

#include "coordinator/classic_client.h"
#include "coordinator/consumer_beats.h"
#include "coordinator/offset_asks.h"
#include "partition/run_tests.h"
#include "protocol/gen/delete_groups.h"

static struct group_world world;

static const struct world_call *list_call(const char *state, const char *type)
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
    return world_ask(&world, "l", ASK_LIST_GROUPS, 5, "", request);
}

static const struct group_list_reply *list(const char *state, const char *type)
{
    const struct world_call *call = list_call(state, type);

    ck_assert(call->answered);
    ck_assert_int_eq(call->op.op.err, ERR_OK);
    return call->response;
}

static bool is(struct bytes a, const char *text)
{
    return bytes_equal(a, bytes_of_text(text));
}

/* How often the list has that group. */
static uint32_t count_of(const struct group_list_reply *answer, const char *id)
{
    uint32_t found = 0;

    for (const struct group_list_piece *piece = answer->first; piece != NULL; piece = piece->next)
        for (uint32_t i = 0; i < piece->count; i++)
            found += is(piece->groups[i].group_id, id);
    return found;
}

static bool says(const struct group_list_reply *answer, const char *id, const char *state, const char *type)
{
    for (const struct group_list_piece *piece = answer->first; piece != NULL; piece = piece->next)
        for (uint32_t i = 0; i < piece->count; i++)
            if (is(piece->groups[i].group_id, id))
                return is(piece->groups[i].group_state, state) && is(piece->groups[i].group_type, type) &&
                       is(piece->groups[i].protocol_type, "consumer");
    return false;
}

/* A group of an offset alone. */
static void make(const char *group)
{
    ck_assert_int_eq(offset_commit(&world, group, "t", 0), 0);
}

static void delete (const char *group)
{
    const struct world_call *call = world_ask(&world, "d", ASK_DELETE_GROUP, 2, group, NULL);

    ck_assert(call->answered);
    ck_assert_int_eq(((const struct deletable_group_result *)call->response)->error_code, 0);
}

static const char *name(uint32_t number)
{
    static char text[16];

    (void)snprintf(text, sizeof(text), "g-%05u", number);
    return text;
}

/* So many groups, as a load finds them. */
static void begin(uint32_t count)
{
    world_open(&world);
    world.quiet = true;
    world_topic(&world, "t", 1);
    make(name(0));
    for (uint32_t i = 1; i < count; i++) { /* the same record, of another group */
        struct world_record copy = world.records[0];
        uint8_t *key = (uint8_t *)mem_copy_text(copy.key.data, copy.key.size);

        memcpy(key + 4, name(i), strlen(name(i))); /* behind the version and the length */
        copy.key = bytes_of(key, copy.key.size);
        copy.value = bytes_of(mem_copy_text(copy.value.data, copy.value.size), copy.value.size);
        world.records[world.record_count++] = copy;
    }
    world_restart(&world);
    ck_assert_uint_eq(groups_count(world.groups), count);
}

START_TEST(filters)
{
    struct classic_client member = {.label = "member"};

    world_open(&world);
    world_topic(&world, "t", 1);
    (void)client_enter(&world, &member);
    (void)beat(&world,
               &(struct beat_says){.member = "m", .rebalance_ms = 60000, .topics = "t", .owned = "", .group = "c"});
    ck_assert_uint_eq(list(NULL, NULL)->count, 2);
    ck_assert(says(list(NULL, NULL), "g", "PreparingRebalance", "classic"));
    ck_assert(says(list(NULL, "CONSUMER"), "c", "Stable", "consumer"));
    ck_assert_uint_eq(list(NULL, "consumer")->count, 1);
    ck_assert_uint_eq(list("stable", NULL)->count, 1);
    ck_assert_uint_eq(list("stable", "classic")->count, 0);
    ck_assert_uint_eq(list("Dead", NULL)->count, 0);
    world_close(&world);
}
END_TEST

/* The last member leaves, and with that the group's record takes the place of all that the group said of itself; then
 * the group is gone altogether. */
START_TEST(an_answer_outlives_its_group)
{
    struct classic_client member = {.label = "member"};
    const struct group_list_reply *before = NULL;
    const struct group_list_reply *after = NULL;
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
    ck_assert_uint_eq(list(NULL, NULL)->count, 0);
    ck_assert(says(before, "g", "Stable", "classic"));
    ck_assert(says(after, "g", "Empty", "classic"));
    world_close(&world);
}
END_TEST

/* As many as a step takes are told of at once; one more takes another. */
START_TEST(a_step_and_one_more)
{
    const struct world_call *call = NULL;

    begin(GROUP_LIST_STEP_LOOKS);
    ck_assert_uint_eq(list(NULL, NULL)->count, GROUP_LIST_STEP_LOOKS);
    make("one more");
    call = list_call(NULL, NULL);
    ck_assert(!call->answered);
    world_advance(&world, 0);
    ck_assert(call->answered);
    ck_assert_uint_eq(((const struct group_list_reply *)call->response)->count, GROUP_LIST_STEP_LOOKS + 1);
    world_close(&world);
}
END_TEST

/* One question at a time has its list made, so that no more than one is in the making. */
START_TEST(one_after_the_other)
{
    enum { ASKED = 3, STEPS = 3 };
    const struct world_call *calls[ASKED];

    begin(STEPS * GROUP_LIST_STEP_LOOKS);
    for (int i = 0; i < ASKED; i++)
        calls[i] = list_call(NULL, NULL);
    for (int i = 0; i < ASKED; i++) {
        for (int step = 0; !calls[i]->answered; step++) {
            ck_assert_int_lt(step, STEPS);
            for (int j = i + 1; j < ASKED; j++)
                ck_assert_ptr_null(((const struct group_list_reply *)calls[j]->response)->first);
            world.now_ns++;
            world_advance(&world, 0);
        }
        ck_assert_uint_eq(((const struct group_list_reply *)calls[i]->response)->count, STEPS * GROUP_LIST_STEP_LOOKS);
    }
    world_close(&world);
}
END_TEST

/* The next one to be told of goes, one that was told of goes and comes again, and a new one comes. */
START_TEST(what_comes_and_goes_meanwhile)
{
    const struct group_list_reply *reply = NULL;
    const struct world_call *call = NULL;

    begin(2 * GROUP_LIST_STEP_LOOKS);
    call = list_call(NULL, NULL);
    ck_assert(!call->answered);
    delete (name(GROUP_LIST_STEP_LOOKS)); /* the next */
    delete (name(0));
    make(name(0));
    make("new");
    while (!call->answered)
        world_advance(&world, 1);
    reply = call->response;
    ck_assert_uint_eq(count_of(reply, name(0)), 1);
    ck_assert_uint_eq(count_of(reply, "new"), 0);
    ck_assert_uint_eq(count_of(reply, name(GROUP_LIST_STEP_LOOKS)), 0);
    ck_assert_uint_eq(count_of(reply, name(GROUP_LIST_STEP_LOOKS + 1)), 1);
    ck_assert_uint_eq(count_of(reply, name(2 * GROUP_LIST_STEP_LOOKS - 1)), 1);
    ck_assert_uint_eq(reply->count, 2 * GROUP_LIST_STEP_LOOKS - 1);
    world_close(&world);
}
END_TEST

/* All that is left goes: the list ends there. */
START_TEST(the_rest_goes)
{
    const struct world_call *call = NULL;

    begin(GROUP_LIST_STEP_LOOKS + 2);
    call = list_call(NULL, NULL);
    delete (name(GROUP_LIST_STEP_LOOKS));
    delete (name(GROUP_LIST_STEP_LOOKS + 1));
    ck_assert(!call->answered);
    world_advance(&world, 0);
    ck_assert(call->answered);
    ck_assert_uint_eq(((const struct group_list_reply *)call->response)->count, GROUP_LIST_STEP_LOOKS);
    world_close(&world);
}
END_TEST

/* The state is thrown away: who waits for a list, or for his turn, is told why. */
START_TEST(the_state_goes)
{
    const struct world_call *first = NULL;
    const struct world_call *second = NULL;

    begin(2 * GROUP_LIST_STEP_LOOKS);
    first = list_call(NULL, NULL);
    second = list_call(NULL, NULL);
    world_restart(&world);
    ck_assert(first->answered && second->answered);
    ck_assert_int_eq(first->op.op.err, ERR_NOT_COORDINATOR);
    ck_assert_int_eq(second->op.op.err, ERR_NOT_COORDINATOR);
    world_advance(&world, 1);
    world_close(&world);
}
END_TEST

/* What the last step saw is committed before anybody is told. */
START_TEST(a_list_waits_for_the_commit)
{
    const struct world_call *call = NULL;

    begin(GROUP_LIST_STEP_LOOKS + 1);
    world.hold = true;
    call = list_call(NULL, NULL);
    ck_assert(!call->decided);
    world_advance(&world, 0);
    ck_assert(call->decided && !call->answered);
    world_commit(&world);
    ck_assert(call->answered);
    world_close(&world);
}
END_TEST

RUN_TESTS("group_list", filters, an_answer_outlives_its_group, a_step_and_one_more, one_after_the_other,
          what_comes_and_goes_meanwhile, the_rest_goes, the_state_goes, a_list_waits_for_the_commit)
