/* Rule: SyncGroup: who is refused why, who waits, who is given what, and what becomes of those that never ask
 * (groups.md 2.4). */
#include <check.h>
#include <string.h>

#include "coordinator/classic_client.h"
#include "coordinator/classic_internal.h"
#include "partition/run_tests.h"
#include "protocol/gen/join_group.h"
#include "protocol/gen/sync_group.h"

static struct group_world world;
static struct classic_client leader;
static struct classic_client follower;

static void open_two(void)
{
    struct world_call *first = NULL;
    struct world_call *second = NULL;

    leader = (struct classic_client){.label = "leader"};
    follower = (struct classic_client){.label = "follower"};
    world_open(&world);
    first = client_enter(&world, &leader);
    second = client_enter(&world, &follower);
    world_advance(&world, 6000);
    client_learn(&leader, first);
    client_learn(&follower, second);
}

static int ask(int16_t version, const char *group, const char *member, int32_t generation, const char *type,
               const char *name)
{
    struct sync_group_request request;

    sync_group_request_init(&request);
    request.group_id = bytes_of_text(group);
    request.member_id = bytes_of_text(member);
    request.generation_id = generation;
    request.protocol_type = bytes_of_text(type);
    request.protocol_name = bytes_of_text(name);
    return client_error(world_ask(&world, "s", ASK_SYNC_GROUP, version, group, &request));
}

START_TEST(refusals)
{
    open_two();
    ck_assert_int_eq(ask(4, "", leader.id, 1, NULL, NULL), 24);
    ck_assert_int_eq(ask(4, "none", leader.id, 1, NULL, NULL), 25);
    ck_assert_int_eq(ask(4, "g", "who", 1, NULL, NULL), 25);
    ck_assert_int_eq(ask(4, "g", follower.id, 0, NULL, NULL), 22);
    ck_assert_int_eq(ask(4, "g", follower.id, 2, NULL, NULL), 22);
    ck_assert_int_eq(ask(5, "g", follower.id, 1, "consumer", NULL), 23);
    ck_assert_int_eq(ask(5, "g", follower.id, 1, NULL, "range"), 23);
    ck_assert_int_eq(ask(5, "g", follower.id, 1, "connect", "range"), 23);
    ck_assert_int_eq(ask(5, "g", follower.id, 1, "consumer", "sticky"), 23);
    (void)client_sync(&world, &leader, NULL, 0);
    ck_assert_int_eq(ask(5, "g", follower.id, 1, "consumer", "range"), 0);
    (void)client_join(&world, &leader);
    ck_assert_int_eq(ask(4, "g", follower.id, 1, NULL, NULL), 27);
    world_close(&world);
}
END_TEST

/* v5 says type and name of the protocol (KIP-559); earlier versions leave them out in writing. */
START_TEST(an_answer)
{
    const struct sync_group_response *out = NULL;
    struct world_call *call = NULL;

    open_two();
    call = client_sync(&world, &leader, (struct classic_share[]){{&leader, "one"}, {&follower, "two"}}, 2);
    out = call->response;
    ck_assert(bytes_equal(out->protocol_type, BYTES_LITERAL("consumer")));
    ck_assert(bytes_equal(out->protocol_name, BYTES_LITERAL("range")));
    ck_assert_str_eq(client_assignment(call), "one");
    ck_assert_str_eq(client_assignment(client_sync(&world, &follower, NULL, 0)), "two");
    world_say(&world, "asked again, the same again");
    ck_assert_str_eq(client_assignment(client_sync(&world, &follower, NULL, 0)), "two");
    world_close(&world);
}
END_TEST

/* Members that the leader invents are nobody; of two mentions of one the last counts, as in Kafka's map. */
START_TEST(what_a_leader_may_say)
{
    struct classic_client nobody = {.label = "nobody", .id = "nobody"};
    struct world_call *call = NULL;

    open_two();
    call = client_sync(&world, &follower, NULL, 0);
    (void)client_sync(&world, &leader,
                      (struct classic_share[]){{&nobody, "mine"}, {&follower, "first"}, {&follower, "last"}}, 3);
    ck_assert_str_eq(client_assignment(call), "last");
    ck_assert_uint_eq(groups_count(world.groups), 1);
    (void)client_describe(&world, "g", 5);
    transcript_expect(&world.said, "what_a_leader_may_say");
    world_close(&world);
}
END_TEST

/* A follower's assignments are not the leader's. */
START_TEST(what_a_follower_may_say)
{
    struct world_call *call = NULL;

    open_two();
    call = client_sync(&world, &follower, (struct classic_share[]){{&follower, "all"}}, 1);
    ck_assert(!call->answered);
    ck_assert_uint_eq(world.record_count, 1);
    world_close(&world);
}
END_TEST

/* B095: whoever does not sync within the rebalance time-out is out; the rest begins anew, leader or not. */
START_TEST(never_synced)
{
    struct world_call *waiting = NULL;

    open_two();
    leader.session_ms = follower.session_ms = 0;
    waiting = client_sync(&world, &follower, NULL, 0);
    for (int i = 0; i < 29; i++) {
        world_advance(&world, 1000);
        ck_assert_int_eq(client_error(client_beat(&world, &leader)), 0);
    }
    ck_assert(!waiting->answered);
    world_advance(&world, 1000);
    ck_assert_int_eq(client_error(waiting), 27);
    ck_assert_int_eq(client_error(client_beat(&world, &leader)), 25);
    waiting = client_join(&world, &follower);
    client_learn(&follower, waiting);
    ck_assert_int_eq(follower.generation, 2);
    ck_assert_uint_eq(((const struct join_group_response *)waiting->response)->members_count, 1);
    world_close(&world);
}
END_TEST

/* The same in a group that is stable already: a follower that joined and never asked what it was given. */
START_TEST(never_synced_in_a_stable_group)
{
    open_two();
    (void)client_sync(&world, &leader, NULL, 0);
    for (int i = 0; i < 30; i++) {
        world_advance(&world, 999);
        ck_assert_int_eq(client_error(client_beat(&world, &leader)), 0);
        ck_assert_int_eq(client_error(client_beat(&world, &follower)), 0);
    }
    world_advance(&world, 30);
    ck_assert_int_eq(client_error(client_beat(&world, &leader)), 27);
    ck_assert_int_eq(client_error(client_beat(&world, &follower)), 25);
    world_close(&world);
}
END_TEST

/* All synced: nobody is late any more. */
START_TEST(all_synced)
{
    open_two();
    (void)client_sync(&world, &leader, NULL, 0);
    (void)client_sync(&world, &follower, NULL, 0);
    for (int i = 0; i < 40; i++) {
        world_advance(&world, 1000);
        ck_assert_int_eq(client_error(client_beat(&world, &leader)), 0);
        ck_assert_int_eq(client_error(client_beat(&world, &follower)), 0);
    }
    world_close(&world);
}
END_TEST

/* Asked twice: the first is answered, the second waits. */
START_TEST(asking_twice)
{
    struct world_call *first = NULL;
    struct world_call *second = NULL;

    open_two();
    first = client_sync(&world, &follower, NULL, 0);
    second = client_sync(&world, &follower, NULL, 0);
    ck_assert_int_eq(client_error(first), 27);
    ck_assert(!second->answered);
    (void)client_sync(&world, &leader, (struct classic_share[]){{&follower, "two"}}, 1);
    ck_assert_str_eq(client_assignment(second), "two");
    world_close(&world);
}
END_TEST

/* The record cannot be written: nobody is told anything but to look for the coordinator, and what was durable before is
 * what there is. */
START_TEST(the_log_refuses)
{
    struct world_call *waiting = NULL;
    struct world_call *call = NULL;

    open_two();
    waiting = client_sync(&world, &follower, NULL, 0);
    world.fail = ERR_IO;
    call = client_sync(&world, &leader, (struct classic_share[]){{&follower, "two"}}, 1);
    ck_assert(waiting->answered && call->answered);
    ck_assert_int_eq(waiting->op.op.err, ERR_NOT_COORDINATOR);
    ck_assert_int_eq(call->op.op.err, ERR_NOT_COORDINATOR);
    (void)client_describe(&world, "g", 5);
    transcript_expect(&world.said, "the_log_refuses");
    world_close(&world);
}
END_TEST

/* An assignment that no batch can hold fails this group alone: all are told, and a rebalance begins. */
START_TEST(too_large_an_assignment)
{
    static char large[1024 * 1024];
    struct sync_group_request_assignment assignment;
    struct sync_group_request request;
    struct world_call *waiting = NULL;
    struct world_call *call = NULL;

    open_two();
    memset(large, 'x', sizeof(large));
    waiting = client_sync(&world, &follower, NULL, 0);
    sync_group_request_init(&request);
    request.member_id = bytes_of_text(leader.id);
    request.generation_id = 1;
    sync_group_request_assignment_init(&assignment);
    assignment.member_id = bytes_of_text(follower.id);
    assignment.assignment = bytes_of(large, sizeof(large));
    request.assignments = &assignment;
    request.assignments_count = 1;
    call = world_ask(&world, "leader", ASK_SYNC_GROUP, 4, "g", &request);
    ck_assert_int_eq(client_error(call), -1);
    ck_assert_int_eq(client_error(waiting), -1);
    ck_assert_int_eq(client_error(client_beat(&world, &follower)), 27);
    call = client_join(&world, &leader);
    (void)client_join(&world, &follower);
    client_learn(&leader, call);
    client_learn(&follower, call);
    ck_assert_int_eq(leader.generation, 2);
    world_close(&world);
}
END_TEST

/* A rebalance before the leader has decided: what members had in the generation before is nobody's any more. */
START_TEST(a_void_generation)
{
    const struct classic_group *classic = NULL;
    struct world_call *first = NULL;
    struct world_call *second = NULL;

    open_two();
    (void)client_sync(&world, &leader, (struct classic_share[]){{&leader, "one"}, {&follower, "two"}}, 2);
    first = client_join(&world, &leader);
    second = client_join(&world, &follower);
    client_learn(&leader, first);
    client_learn(&follower, second);
    classic = group_find(world.groups, BYTES_LITERAL("g"))->classic;
    ck_assert_int_eq(classic->state, CLASSIC_COMPLETING);
    second = client_sync(&world, &follower, NULL, 0);
    leader.protocols = "range=other";
    (void)client_join(&world, &leader);
    ck_assert_int_eq(client_error(second), 27);
    ck_assert_int_eq(classic->state, CLASSIC_PREPARING);
    ck_assert_uint_eq(classic_member_find(classic, bytes_of_text(leader.id))->assignment.size, 0);
    ck_assert_uint_eq(classic_member_find(classic, bytes_of_text(follower.id))->assignment.size, 0);
    world_close(&world);
}
END_TEST

RUN_TESTS("classic_sync", a_void_generation, refusals, an_answer, what_a_leader_may_say, what_a_follower_may_say,
          never_synced, never_synced_in_a_stable_group, all_synced, asking_twice, the_log_refuses,
          too_large_an_assignment)
