/* Rule: of a filter's words each that names something is kept once, whatever its case; one that names nothing finds
 * nothing, and no filter finds everything. What groups call their states is known here. */
#include <check.h>

#include "base/mem.h"
#include "coordinator/classic_client.h"
#include "coordinator/consumer_beats.h"
#include "coordinator/group.h"
#include "coordinator/group_filters.h"
#include "coordinator/group_world.h"
#include "partition/run_tests.h"

enum { WORDS = 100 * 1000 };

static bool is(struct bytes a, const char *text)
{
    return bytes_equal(a, bytes_of_text(text));
}

START_TEST(each_word_once)
{
    static const char *const some[] = {"Emptz", "STABLE", "stable", "", "Empty", "Dead"};
    struct bytes *words = mem_calloc(WORDS, sizeof(*words));
    struct bytes kinds[] = {BYTES_LITERAL("share"), BYTES_LITERAL("streams")};
    struct list_groups_request request;

    ck_assert(words != NULL);
    for (uint32_t i = 0; i < WORDS; i++)
        words[i] = bytes_of_text(some[i % 6]);
    list_groups_request_init(&request);
    group_filters_reduce(&request);
    ck_assert_uint_eq(request.states_filter_count, 0);
    ck_assert_uint_eq(request.types_filter_count, 0);
    request.states_filter = words;
    request.states_filter_count = WORDS;
    request.types_filter = kinds;
    request.types_filter_count = 2;
    group_filters_reduce(&request);
    ck_assert_uint_eq(request.states_filter_count, 2);
    ck_assert(is(request.states_filter[0], "STABLE") && is(request.states_filter[1], "Empty"));
    ck_assert_uint_eq(request.types_filter_count, 1);
    ck_assert(is(request.types_filter[0], "share"));
    mem_free(words);
}
END_TEST

/* That name is kept though another word stands before it. */
static void is_known(struct bytes state)
{
    struct bytes words[] = {BYTES_LITERAL("none"), state};
    struct list_groups_request request;

    list_groups_request_init(&request);
    request.states_filter = words;
    request.states_filter_count = 2;
    group_filters_reduce(&request);
    ck_assert_uint_eq(request.states_filter_count, 1);
    ck_assert(bytes_equal(request.states_filter[0], state));
}

static void state_is(struct group_world *world, const char *id, const char *state)
{
    const struct group *group = group_find(world->groups, bytes_of_text(id));

    ck_assert(group != NULL && is(group_state_name(group), state));
    is_known(group_state_name(group));
}

/* Rule: each state that a group can be in is a word that is known. */
START_TEST(all_states)
{
    static struct group_world world;
    struct classic_client member = {.label = "member"};
    struct world_call *joined = NULL;

    world_open(&world);
    world_topic(&world, "t", 2);
    joined = client_enter(&world, &member);
    state_is(&world, "g", "PreparingRebalance");
    world_advance(&world, 6000);
    client_learn(&member, joined);
    state_is(&world, "g", "CompletingRebalance");
    (void)client_sync(&world, &member, (struct classic_share[]){{&member, "all"}}, 1);
    state_is(&world, "g", "Stable");
    (void)client_leave(&world, &member, 0);
    state_is(&world, "g", "Empty");
    JOIN(&world, "a", "t", .group = "c");
    JOIN(&world, "b", "t", .group = "c");
    state_is(&world, "c", "Assigning");
    world_advance(&world, 5000);
    BEAT(&world, "b", 2, .group = "c");
    state_is(&world, "c", "Reconciling");
    world_close(&world);
}
END_TEST

RUN_TESTS("group_filters", each_word_once, all_states)
