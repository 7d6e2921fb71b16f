/* Rule: the classic protocol in its ordinary course, as transcripts: who comes, waits, is given what, goes (groups.md
 * 2). */
#include <check.h>

#include "coordinator/classic_client.h"
#include "partition/run_tests.h"

static struct group_world world;

/* One member: an id first (KIP-394), the initial delay, the generation, its own assignment; it leaves, and the group is
 * empty, which is on record. */
START_TEST(one_member_from_start_to_end)
{
    struct classic_client a = {.label = "a"};
    struct world_call *call = NULL;

    world_open(&world);
    call = client_enter(&world, &a);
    (void)client_describe(&world, "g", 6);
    world_advance(&world, 3000);
    client_learn(&a, call);
    (void)client_beat(&world, &a);
    call = client_sync(&world, &a, &(struct classic_share){&a, "all of it"}, 1);
    ck_assert_str_eq(client_assignment(call), "all of it");
    (void)client_beat(&world, &a);
    (void)client_describe(&world, "g", 6);
    (void)client_leave(&world, &a, 0);
    (void)client_describe(&world, "g", 6);
    transcript_expect(&world.said, "one_member_from_start_to_end");
    world_close(&world);
}
END_TEST

/* B088, B089: a second member brings one new generation, heartbeats meanwhile say 27; followers wait for the leader,
 * before and after; whoever the leader forgets is given nothing. */
START_TEST(a_second_and_a_third_member)
{
    struct classic_client a = {.label = "a"};
    struct classic_client b = {.label = "b"};
    struct classic_client c = {.label = "c"};
    struct world_call *join_a = NULL;
    struct world_call *join_b = NULL;
    struct world_call *join_c = NULL;
    struct world_call *sync_b = NULL;

    world_open(&world);
    join_a = client_enter(&world, &a);
    world_advance(&world, 3000);
    client_learn(&a, join_a);
    (void)client_sync(&world, &a, &(struct classic_share){&a, "0-3"}, 1);
    world_say(&world, "b comes; c takes an id and is waited for");
    join_b = client_enter(&world, &b);
    join_c = client_join(&world, &c);
    client_learn(&c, join_c);
    ck_assert_int_eq(client_error(client_beat(&world, &a)), 27);
    join_a = client_join(&world, &a);
    ck_assert(!join_a->answered && !join_b->answered);
    join_c = client_join(&world, &c);
    client_learn(&a, join_a);
    client_learn(&b, join_b);
    client_learn(&c, join_c);
    ck_assert_int_eq(a.generation, 2);
    world_say(&world, "b syncs before the leader, c after it, and was forgotten");
    sync_b = client_sync(&world, &b, NULL, 0);
    ck_assert(!sync_b->answered);
    (void)client_sync(&world, &a, (struct classic_share[]){{&a, "0-1"}, {&b, "2-3"}}, 2);
    ck_assert_str_eq(client_assignment(sync_b), "2-3");
    ck_assert_str_eq(client_assignment(client_sync(&world, &c, NULL, 0)), "");
    transcript_expect(&world.said, "a_second_and_a_third_member");
    world_close(&world);
}
END_TEST

/* A restart from the records: the same group, with sessions that begin anew; whoever is silent then is removed. */
START_TEST(a_restart)
{
    struct classic_client a = {.label = "a"};
    struct world_call *call = NULL;

    world_open(&world);
    call = client_enter(&world, &a);
    world_advance(&world, 3000);
    client_learn(&a, call);
    (void)client_sync(&world, &a, &(struct classic_share){&a, "all of it"}, 1);
    world_advance(&world, 9000);
    world_restart(&world);
    world_advance(&world, 9000);
    ck_assert_int_eq(client_error(client_beat(&world, &a)), 0);
    ck_assert_str_eq(client_assignment(client_sync(&world, &a, NULL, 0)), "all of it");
    (void)client_describe(&world, "g", 5);
    world_advance(&world, 10000);
    ck_assert_int_eq(client_error(client_beat(&world, &a)), 25);
    world_restart(&world);
    (void)client_describe(&world, "g", 5);
    transcript_expect(&world.said, "a_restart");
    world_close(&world);
}
END_TEST

RUN_TESTS("classic", one_member_from_start_to_end, a_second_and_a_third_member, a_restart)
