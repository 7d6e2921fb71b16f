/* Rule: Heartbeat, LeaveGroup and the end of sessions (groups.md 2.5). */
#include <check.h>

#include "coordinator/classic_client.h"
#include "coordinator/group.h"
#include "partition/run_tests.h"
#include "protocol/gen/heartbeat.h"
#include "protocol/gen/join_group.h"
#include "protocol/gen/leave_group.h"

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
    (void)client_sync(&world, &leader, (struct classic_share[]){{&leader, "one"}, {&follower, "two"}}, 2);
    (void)client_sync(&world, &follower, NULL, 0);
}

static int beat(const char *group, const char *member, int32_t generation)
{
    struct heartbeat_request request;

    heartbeat_request_init(&request);
    request.member_id = bytes_of_text(member);
    request.generation_id = generation;
    return client_error(world_ask(&world, "s", ASK_HEARTBEAT, 4, group, &request));
}

START_TEST(heartbeats)
{
    open_two();
    ck_assert_int_eq(beat("", leader.id, 1), 24);
    ck_assert_int_eq(beat("none", leader.id, 1), 25);
    ck_assert_int_eq(beat("g", "who", 1), 25);
    ck_assert_int_eq(beat("g", leader.id, 0), 22);
    ck_assert_int_eq(beat("g", leader.id, 2), 22);
    ck_assert_int_eq(beat("g", leader.id, 1), 0);
    (void)client_join(&world, &leader);
    ck_assert_int_eq(beat("g", follower.id, 1), 27);
    (void)client_join(&world, &follower);
    ck_assert_int_eq(beat("g", follower.id, 1), 22);
    ck_assert_int_eq(beat("g", follower.id, 2), 0);
    (void)client_leave(&world, &leader, 0);
    (void)client_leave(&world, &follower, 0);
    ck_assert_int_eq(beat("g", follower.id, 2), 25);
    world_close(&world);
}
END_TEST

/* Silence for a session takes a member out, and the others begin anew; each sign of life starts its session anew. */
START_TEST(silence)
{
    open_two();
    world_advance(&world, 9999);
    ck_assert_int_eq(client_error(client_beat(&world, &leader)), 0);
    world_advance(&world, 1);
    ck_assert_int_eq(client_error(client_beat(&world, &leader)), 27);
    ck_assert_int_eq(client_error(client_beat(&world, &follower)), 25);
    world_close(&world);
}
END_TEST

/* Who waits for an answer is alive, however long it takes; the session begins with the answer. */
START_TEST(who_waits_is_alive)
{
    struct world_call *waiting = NULL;

    open_two();
    waiting = client_join(&world, &leader);
    for (int i = 0; i < 29; i++) {
        world_advance(&world, 1000);
        ck_assert_int_eq(client_error(client_beat(&world, &follower)), 27);
    }
    ck_assert(!waiting->answered);
    world_advance(&world, 1000);
    client_learn(&leader, waiting);
    world_advance(&world, 9999);
    ck_assert_int_eq(client_error(client_beat(&world, &leader)), 0);
    world_close(&world);
}
END_TEST

/* The last that a rebalance waits for falls silent: it goes on without. */
START_TEST(silence_in_a_rebalance)
{
    struct world_call *waiting = NULL;

    open_two();
    waiting = client_join(&world, &leader);
    world_advance(&world, 9999);
    ck_assert(!waiting->answered);
    world_advance(&world, 1);
    client_learn(&leader, waiting);
    ck_assert_int_eq(leader.generation, 2);
    world_close(&world);
}
END_TEST

/* All fall silent: the group is empty, on record, and a member that comes then has the initial delay again. */
START_TEST(silence_of_all)
{
    struct classic_client late = {.label = "late"};
    struct world_call *waiting = NULL;

    open_two();
    world_advance(&world, 40000);
    (void)client_describe(&world, "g", 5);
    waiting = client_enter(&world, &late);
    world_advance(&world, 2999);
    ck_assert(!waiting->answered);
    world_advance(&world, 1);
    client_learn(&late, waiting);
    ck_assert_int_eq(late.generation, 3);
    transcript_expect(&world.said, "silence_of_all");
    world_close(&world);
}
END_TEST

static int leave_one(int16_t version, const char *group, const char *member)
{
    struct leave_group_request request;

    leave_group_request_init(&request);
    request.member_id = bytes_of_text(member);
    return client_error(world_ask(&world, "s", ASK_LEAVE_GROUP, version, group, &request));
}

/* Before v3 a member leaves, and the answer has its error. */
START_TEST(leaving_before_v3)
{
    open_two();
    ck_assert_int_eq(leave_one(0, "", leader.id), 24);
    ck_assert_int_eq(leave_one(0, "none", leader.id), 25);
    ck_assert_int_eq(leave_one(1, "g", "who"), 25);
    ck_assert_int_eq(leave_one(2, "g", follower.id), 0);
    ck_assert_int_eq(beat("g", leader.id, 1), 27);
    ck_assert_int_eq(leave_one(0, "g", follower.id), 25);
    world_close(&world);
}
END_TEST

static const struct leave_group_response *leave_many(const char *group, struct member_identity *who, uint32_t count)
{
    struct leave_group_request request;
    struct world_call *call = NULL;

    leave_group_request_init(&request);
    request.members = who;
    request.members_count = count;
    call = world_ask(&world, "s", ASK_LEAVE_GROUP, 5, group, &request);
    ck_assert_int_eq(client_error(call), 0);
    return call->response;
}

/* From v3 on many at once, each with a result of its own; the group begins anew once. */
START_TEST(leaving_together)
{
    struct classic_client fixed = {.label = "fixed", .instance = "i"};
    struct classic_client other = {.label = "other"};
    struct world_call *call = NULL;
    struct world_call *first = NULL;
    struct member_identity who[7];
    const struct leave_group_response *out = NULL;
    static const int16_t expected[] = {0, 25, 25, 25, 82, 0, 25};

    open_two();
    call = client_enter(&world, &fixed);
    first = client_join(&world, &leader);
    (void)client_join(&world, &follower);
    client_learn(&leader, first);
    client_learn(&fixed, call);
    (void)client_sync(&world, &leader, NULL, 0);
    client_learn(&other, client_join(&world, &other));
    for (int i = 0; i < 7; i++)
        member_identity_init(&who[i]);
    who[0].member_id = bytes_of_text(follower.id);
    who[1].member_id = bytes_of_text(follower.id); /* twice */
    who[2].member_id = BYTES_LITERAL("who");
    who[3].group_instance_id = BYTES_LITERAL("nobody");
    who[4].member_id = BYTES_LITERAL("who");
    who[4].group_instance_id = BYTES_LITERAL("i");
    who[5].member_id = bytes_of_text(other.id); /* an id that was handed out */
    who[6].member_id = BYTES_LITERAL("");
    out = leave_many("g", who, 7);
    ck_assert_uint_eq(out->members_count, 7);
    for (int i = 0; i < 7; i++)
        ck_assert_int_eq(out->members[i].error_code, expected[i]);
    ck_assert_int_eq(beat("g", leader.id, leader.generation), 27);
    ck_assert_int_eq(client_error(client_join(&world, &other)), 25);
    out = leave_many("none", who, 2);
    ck_assert_int_eq(out->members[0].error_code, 25);
    ck_assert_int_eq(out->members[1].error_code, 25);
    world_close(&world);
}
END_TEST

/* Leaving while it waits: the wait is answered, the rest goes on. */
START_TEST(leaving_while_it_waits)
{
    struct world_call *waiting = NULL;

    open_two();
    (void)client_join(&world, &leader);
    (void)client_join(&world, &follower);
    leader.generation = follower.generation = 2;
    waiting = client_sync(&world, &follower, NULL, 0);
    (void)client_leave(&world, &follower, 0);
    ck_assert_int_eq(client_error(waiting), 25);
    waiting = client_join(&world, &leader);
    ck_assert_int_eq(((const struct join_group_response *)waiting->response)->generation_id, 3);
    world_close(&world);
}
END_TEST

/* The leader goes, the next one leads. */
START_TEST(the_leader_goes)
{
    struct world_call *call = NULL;

    open_two();
    (void)client_leave(&world, &leader, 0);
    call = client_join(&world, &follower);
    ck_assert(bytes_equal(((const struct join_group_response *)call->response)->leader, bytes_of_text(follower.id)));
    world_close(&world);
}
END_TEST

/* All leave in the initial delay: the group is empty when it ends. */
START_TEST(leaving_in_the_initial_delay)
{
    struct classic_client a = {.label = "a"};
    struct world_call *waiting = NULL;

    world_open(&world);
    waiting = client_enter(&world, &a);
    (void)leave_one(0, "g", "a-00010203-0405-4607-8809-0a0b0c0d0e0f");
    ck_assert_int_eq(client_error(waiting), 25);
    world_advance(&world, 3000);
    (void)client_describe(&world, "g", 5);
    transcript_expect(&world.said, "leaving_in_the_initial_delay");
    world_close(&world);
}
END_TEST

/* Whoever waits when the coordinator goes elsewhere is sent there (B097), not told that it is unknown. */
START_TEST(the_coordinator_goes)
{
    struct world_call *join = NULL;
    struct world_call *sync = NULL;

    open_two();
    (void)client_join(&world, &leader);
    (void)client_join(&world, &follower);
    leader.generation = follower.generation = 2;
    sync = client_sync(&world, &follower, NULL, 0);
    join = client_join(&world, &(struct classic_client){.label = "x", .instance = "i", .group = "h"});
    world_restart(&world);
    ck_assert(join->answered && sync->answered);
    ck_assert_int_eq(join->op.op.err, ERR_NOT_COORDINATOR);
    ck_assert_int_eq(sync->op.op.err, ERR_NOT_COORDINATOR);
    world_close(&world);
}
END_TEST

static uint32_t fired_count;

static void fired_again(struct loop_timer *timer)
{
    ck_assert_uint_lt(fired_count, 1000); /* else for ever */
    fired_count++;
    group_timer_start(world.groups, timer, world.now_ns - 1);
}

/* Whatever a timer arms, at whatever time, is of a later tick: no tick is endless. */
START_TEST(a_tick_ends)
{
    struct loop_timer timer = {.fired = fired_again};

    world_open(&world);
    fired_count = 0;
    group_timer_start(world.groups, &timer, world.now_ns);
    world_advance(&world, 0);
    ck_assert_uint_eq(fired_count, 1);
    group_timer_stop(world.groups, &timer);
    world_close(&world);
}
END_TEST

RUN_TESTS("classic_session", heartbeats, silence, who_waits_is_alive, silence_in_a_rebalance, silence_of_all,
          leaving_before_v3, leaving_together, leaving_while_it_waits, the_leader_goes, leaving_in_the_initial_delay,
          the_coordinator_goes, a_tick_ends)
