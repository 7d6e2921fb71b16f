/* Rule: static members (KIP-345): one who comes back without an id takes the place of the one who had its name, who is
 * fenced from then on, in every state and after a restart; in a stable group without a rebalance (KIP-814). */
#include <check.h>

#include "coordinator/classic_client.h"
#include "partition/run_tests.h"
#include "protocol/gen/join_group.h"
#include "protocol/gen/leave_group.h"

static struct group_world world;
static struct classic_client leader;
static struct classic_client follower;

static const struct join_group_response *joined(const struct world_call *call)
{
    ck_assert_int_eq(client_error(call), 0);
    return call->response;
}

/* Two static members in generation 1; completed: synced, too. */
static void open_two(bool completed)
{
    struct world_call *first = NULL;
    struct world_call *second = NULL;

    leader = (struct classic_client){.label = "leader", .instance = "i1"};
    follower = (struct classic_client){.label = "follower", .instance = "i2"};
    world_open(&world);
    first = client_enter(&world, &leader);
    second = client_enter(&world, &follower);
    ck_assert(!first->answered && !second->answered); /* no round for an id: the name is enough */
    world_advance(&world, 6000);
    client_learn(&leader, first);
    client_learn(&follower, second);
    if (!completed)
        return;
    (void)client_sync(&world, &leader, (struct classic_share[]){{&leader, "one"}, {&follower, "two"}}, 2);
    ck_assert_str_eq(client_assignment(client_sync(&world, &follower, NULL, 0)), "two");
}

static struct classic_client reborn(const struct classic_client *before)
{
    return (struct classic_client){.label = before->label, .instance = before->instance};
}

static void expect_fenced(struct classic_client *before)
{
    struct world_call *call = NULL;

    ck_assert_int_eq(client_error(client_beat(&world, before)), 82);
    ck_assert_int_eq(client_error(client_sync(&world, before, NULL, 0)), 82);
    ck_assert_int_eq(client_error(client_join(&world, before)), 82);
    call = client_leave(&world, before, 0);
    ck_assert_int_eq(((const struct leave_group_response *)call->response)->members[0].error_code, 82);
}

/* B091, Stable: no rebalance; a leader of v9 is told to leave the assignment as it is, and has the members. */
START_TEST(stable_leader_v9)
{
    struct classic_client again;
    struct world_call *call = NULL;

    open_two(true);
    again = reborn(&leader);
    call = client_join(&world, &again);
    ck_assert(joined(call)->skip_assignment);
    ck_assert_uint_eq(joined(call)->members_count, 2);
    client_learn(&again, call);
    ck_assert_int_eq(again.generation, 1);
    ck_assert(bytes_equal(joined(call)->leader, bytes_of_text(again.id)));
    ck_assert_str_eq(client_assignment(client_sync(&world, &again, NULL, 0)), "one");
    ck_assert_int_eq(client_error(client_beat(&world, &follower)), 0);
    expect_fenced(&leader);
    transcript_expect(&world.said, "stable_leader_v9");
    world_close(&world);
}
END_TEST

/* Before v9 the leader cannot be told so: it is told that the id it had before leads, and assigns nothing. */
START_TEST(stable_leader_v8)
{
    struct classic_client again;
    struct world_call *call = NULL;

    open_two(true);
    again = reborn(&leader);
    again.version = 8;
    call = client_join(&world, &again);
    ck_assert_uint_eq(joined(call)->members_count, 0);
    ck_assert(bytes_equal(joined(call)->leader, bytes_of_text(leader.id)));
    client_learn(&again, call);
    ck_assert_str_eq(client_assignment(client_sync(&world, &again, NULL, 0)), "one");
    world_close(&world);
}
END_TEST

START_TEST(stable_follower)
{
    struct classic_client again;
    struct world_call *call = NULL;

    open_two(true);
    again = reborn(&follower);
    call = client_join(&world, &again);
    ck_assert(!joined(call)->skip_assignment);
    ck_assert_uint_eq(joined(call)->members_count, 0);
    client_learn(&again, call);
    ck_assert_str_eq(client_assignment(client_sync(&world, &again, NULL, 0)), "two");
    expect_fenced(&follower);
    world_close(&world);
}
END_TEST

/* B092: who has whose name is on record: after a restart the old id is still fenced. */
START_TEST(fenced_after_a_restart)
{
    struct classic_client again;

    open_two(true);
    again = reborn(&leader);
    client_learn(&again, client_join(&world, &again));
    world_restart(&world);
    ck_assert_int_eq(client_error(client_beat(&world, &again)), 0);
    expect_fenced(&leader);
    world_close(&world);
}
END_TEST

/* Another choice of protocols that changes the selected one is a rebalance. */
START_TEST(stable_another_protocol)
{
    struct classic_client again;
    struct world_call *first = NULL;
    struct world_call *second = NULL;
    struct world_call *call = NULL;

    leader = (struct classic_client){.label = "leader", .instance = "i1", .protocols = "range=1,sticky=1"};
    follower = (struct classic_client){.label = "follower", .instance = "i2", .protocols = "range=2,sticky=2"};
    world_open(&world);
    first = client_enter(&world, &leader);
    second = client_enter(&world, &follower);
    world_advance(&world, 6000);
    client_learn(&leader, first);
    client_learn(&follower, second);
    (void)client_sync(&world, &leader, NULL, 0);
    again = reborn(&leader);
    again.protocols = "sticky=1";
    call = client_join(&world, &again);
    ck_assert(!call->answered);
    ck_assert_int_eq(client_error(client_beat(&world, &follower)), 27);
    (void)client_join(&world, &follower);
    ck_assert_int_eq(joined(call)->generation_id, 2);
    ck_assert(bytes_equal(joined(call)->protocol_name, BYTES_LITERAL("sticky")));
    world_close(&world);
}
END_TEST

/* B091, CompletingRebalance: a new rebalance; whoever waits for the leader joins again, the one replaced is fenced. */
START_TEST(completing)
{
    struct classic_client again;
    struct world_call *waiting = NULL;
    struct world_call *call = NULL;

    open_two(false);
    waiting = client_sync(&world, &follower, NULL, 0);
    again = reborn(&follower);
    call = client_join(&world, &again);
    ck_assert_int_eq(client_error(waiting), 82);
    ck_assert(!call->answered);
    waiting = client_join(&world, &leader);
    ck_assert_int_eq(joined(call)->generation_id, 2);
    ck_assert_int_eq(joined(waiting)->generation_id, 2);
    expect_fenced(&follower);
    world_close(&world);
}
END_TEST

/* B091, PreparingRebalance: the one who waits is fenced, the new one waits in its place. */
START_TEST(preparing)
{
    struct classic_client again;
    struct classic_client third = {.label = "third", .instance = "i3"};
    struct world_call *waiting = NULL;
    struct world_call *call = NULL;

    open_two(true);
    (void)client_join(&world, &third);
    waiting = client_join(&world, &follower);
    ck_assert(!waiting->answered);
    again = reborn(&follower);
    call = client_join(&world, &again);
    ck_assert_int_eq(client_error(waiting), 82);
    ck_assert(!call->answered);
    waiting = client_join(&world, &leader);
    ck_assert_int_eq(joined(call)->generation_id, 2);
    ck_assert_uint_eq(joined(waiting)->members_count, 3);
    expect_fenced(&follower);
    world_close(&world);
}
END_TEST

/* They stay where they do not come back in time; their session alone, or an administrator, takes them out. */
START_TEST(absent_from_a_rebalance)
{
    struct classic_client third = {.label = "third", .instance = "i3"};
    struct world_call *call = NULL;
    struct world_call *waiting = NULL;

    open_two(true);
    follower.session_ms = 0;
    call = client_join(&world, &third);
    waiting = client_join(&world, &leader);
    for (int i = 0; i < 4; i++) { /* it beats, but does not come */
        world_advance(&world, 7000);
        ck_assert_int_eq(client_error(client_beat(&world, &follower)), 27);
    }
    ck_assert(!call->answered);
    world_advance(&world, 2000);
    ck_assert_uint_eq(joined(waiting)->members_count, 3);
    client_learn(&third, call);
    client_learn(&leader, waiting);
    (void)client_sync(&world, &leader, (struct classic_share[]){{&third, "three"}}, 1);
    ck_assert_str_eq(client_assignment(client_sync(&world, &third, NULL, 0)), "three");
    world_advance(&world, 9000);
    ck_assert_int_eq(client_error(client_beat(&world, &leader)), 0);
    world_say(&world, "it was silent for its session");
    world_advance(&world, 1000);
    ck_assert_int_eq(client_error(client_beat(&world, &leader)), 27);
    world_close(&world);
}
END_TEST

/* An administrator removes them by their names alone; names nobody has are unknown. */
START_TEST(removed_by_name)
{
    struct classic_client admin = {.label = "admin", .instance = "i2"};
    struct classic_client none = {.label = "admin", .instance = "i9"};
    struct world_call *call = NULL;

    open_two(true);
    call = client_leave(&world, &none, 0);
    ck_assert_int_eq(((const struct leave_group_response *)call->response)->members[0].error_code, 25);
    ck_assert_int_eq(client_error(client_beat(&world, &leader)), 0);
    call = client_leave(&world, &admin, 0);
    ck_assert_int_eq(((const struct leave_group_response *)call->response)->members[0].error_code, 0);
    ck_assert_int_eq(client_error(client_beat(&world, &leader)), 27);
    ck_assert_int_eq(client_error(client_beat(&world, &follower)), 25);
    world_close(&world);
}
END_TEST

/* Nobody is awaited for a time-out of nothing; a static member stays all the same, and the group looks for somebody who
 * joins until its session ends. Whoever joins meanwhile is served. */
static void no_time_to_join(int32_t rebalance_ms, bool restarted)
{
    struct classic_client dynamic = {.label = "dynamic"};
    struct world_call *first = NULL;
    struct world_call *second = NULL;

    leader = (struct classic_client){.label = "leader", .instance = "i1", .rebalance_ms = rebalance_ms};
    world_open(&world);
    first = client_enter(&world, &leader);
    second = client_enter(&world, &dynamic);
    world_advance(&world, 6000);
    client_learn(&leader, first);
    client_learn(&dynamic, second);
    (void)client_sync(&world, &leader, (struct classic_share[]){{&leader, "one"}, {&dynamic, "two"}}, 2);
    (void)client_sync(&world, &dynamic, NULL, 0);
    if (restarted)
        world_restart(&world);
    (void)client_leave(&world, &dynamic, 0);
    world_advance(&world, 3000);
    ck_assert_int_eq(client_error(client_beat(&world, &leader)), 27);
    client_learn(&leader, client_join(&world, &leader));
    ck_assert_int_eq(leader.generation, 2);
    world_advance(&world, 1000); /* nor did it sync in no time */
    ck_assert_int_eq(client_error(client_beat(&world, &leader)), 25);
    world_close(&world);
}

START_TEST(no_time)
{
    no_time_to_join(CLIENT_REBALANCE_0, false);
}
END_TEST

START_TEST(less_than_no_time)
{
    no_time_to_join(-1, false);
}
END_TEST

/* A record may say so, too. */
START_TEST(no_time_by_a_record)
{
    no_time_to_join(CLIENT_REBALANCE_0, true);
    no_time_to_join(-1, true);
}
END_TEST

RUN_TESTS("classic_static", stable_leader_v9, stable_leader_v8, stable_follower, fenced_after_a_restart,
          stable_another_protocol, completing, preparing, absent_from_a_rebalance, removed_by_name, no_time,
          less_than_no_time, no_time_by_a_record)
