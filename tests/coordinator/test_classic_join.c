/* Rule: who may join a classic group, when a generation begins, and what each member is told (groups.md 2.2, 2.3).
 *
 * Sources: coordinator/classic_member.c, coordinator/classic_owners.c, coordinator/classic_pending.c,
 * coordinator/classic_rebalance.c */
#include <check.h>
#include <string.h>

#include "coordinator/classic_client.h"
#include "coordinator/classic_internal.h"
#include "partition/run_tests.h"
#include "protocol/gen/join_group.h"

static struct group_world world;

static const struct join_group_response *joined(const struct world_call *call)
{
    ck_assert_int_eq(client_error(call), 0);
    return call->response;
}

/* One member, settled in generation 1. */
static void settle_one(struct classic_client *client)
{
    struct world_call *call = client_enter(&world, client);

    world_advance(&world, world.settings.initial_rebalance_delay_ms);
    client_learn(client, call);
    (void)client_sync(&world, client, &(struct classic_share){client, "all"}, 1);
}

/* Two members, settled; the first leads. */
static void settle_two(struct classic_client *leader, struct classic_client *follower)
{
    struct world_call *first = client_enter(&world, leader);
    struct world_call *second = client_enter(&world, follower);

    world_advance(&world, 2 * world.settings.initial_rebalance_delay_ms);
    client_learn(leader, first);
    client_learn(follower, second);
    ck_assert_int_eq(leader->generation, follower->generation);
    (void)client_sync(&world, leader, (struct classic_share[]){{leader, "one"}, {follower, "two"}}, 2);
    ck_assert_str_eq(client_assignment(client_sync(&world, follower, NULL, 0)), "two");
}

static int refusal(struct classic_client *client)
{
    struct world_call *call = client_join(&world, client);
    const struct join_group_response *out = call->response;

    ck_assert_int_eq(client_error(call), out->error_code);
    ck_assert_int_eq(out->generation_id, -1);
    ck_assert_uint_eq(out->members_count, 0);
    return out->error_code;
}

/* What is refused before anything else: group id, session time-out (limits included), a member nobody knows. */
START_TEST(refusals)
{
    world_open(&world);
    ck_assert_int_eq(refusal(&(struct classic_client){.label = "a", .group = ""}), 24);
    ck_assert_int_eq(refusal(&(struct classic_client){.label = "a", .session_ms = 5999}), 26);
    ck_assert_int_eq(refusal(&(struct classic_client){.label = "a", .session_ms = 6000}), 79);
    ck_assert_int_eq(refusal(&(struct classic_client){.label = "a", .session_ms = 1800000}), 79);
    ck_assert_int_eq(refusal(&(struct classic_client){.label = "a", .session_ms = 1800001}), 26);
    ck_assert_int_eq(refusal(&(struct classic_client){.label = "a", .group = "none", .id = "who"}), 25);
    ck_assert_int_eq(refusal(&(struct classic_client){.label = "a", .id = "who"}), 25);
    ck_assert_int_eq(refusal(&(struct classic_client){.label = "a", .type = ""}), 23);
    ck_assert_int_eq(refusal(&(struct classic_client){.label = "a", .protocols = ""}), 23);
    ck_assert_int_eq(refusal(&(struct classic_client){.label = "a", .id = "who", .instance = "i"}), 25);
    world_close(&world);
}
END_TEST

/* A group that is new is on record, even where its first member is turned away: as with Kafka, it is there, Empty. */
START_TEST(a_new_group_is_on_record)
{
    world_open(&world);
    ck_assert_int_eq(refusal(&(struct classic_client){.label = "a", .type = ""}), 23);
    ck_assert_uint_eq(world.record_count, 1);
    world_restart(&world);
    ck_assert_uint_eq(groups_count(world.groups), 1);
    ck_assert_int_eq(refusal(&(struct classic_client){.label = "a", .group = "none", .id = "who"}), 25);
    ck_assert_uint_eq(groups_count(world.groups), 1);
    world_close(&world);
}
END_TEST

/* B086: members that come within the initial delay start it anew, up to the rebalance time-out; one generation; no
 * delay for those that come later. */
START_TEST(the_initial_delay)
{
    struct classic_client clients[5] = {{.label = "a"}, {.label = "b"}, {.label = "c"}, {.label = "d"}, {.label = "e"}};
    struct classic_client late = {.label = "late"};
    struct world_call *calls[5];

    world_open(&world);
    for (int i = 0; i < 5; i++) {
        calls[i] = client_enter(&world, &clients[i]);
        world_advance(&world, 500);
    }
    world_advance(&world, 500); /* 3000 since the first: members have come since */
    ck_assert(!calls[0]->answered);
    world_advance(&world, 2999);
    ck_assert(!calls[0]->answered);
    world_advance(&world, 1);
    for (int i = 0; i < 5; i++) {
        client_learn(&clients[i], calls[i]);
        ck_assert_int_eq(clients[i].generation, 1);
    }
    ck_assert_uint_eq(joined(calls[0])->members_count, 5);
    ck_assert_uint_eq(joined(calls[1])->members_count, 0);
    calls[0] = client_enter(&world, &late);
    for (int i = 0; i < 5; i++)
        (void)client_join(&world, &clients[i]);
    ck_assert_int_eq(joined(calls[0])->generation_id, 2);
    world_close(&world);
}
END_TEST

/* The delay never goes beyond the rebalance time-out, here 7 s: 3 + 3 + 1. */
START_TEST(the_initial_delay_ends_with_the_rebalance_time_out)
{
    struct classic_client clients[7];
    struct world_call *first = NULL;

    world_open(&world);
    for (int i = 0; i < 7; i++) {
        clients[i] = (struct classic_client){.label = "m", .rebalance_ms = 7000};
        if (i == 0)
            first = client_enter(&world, &clients[i]);
        else
            (void)client_enter(&world, &clients[i]);
        ck_assert(!first->answered);
        world_advance(&world, i == 6 ? 999 : 1000);
    }
    ck_assert(!first->answered);
    world_advance(&world, 1);
    ck_assert_uint_eq(joined(first)->members_count, 7);
    world_close(&world);
}
END_TEST

/* B085: v0 has no rebalance time-out: it is the session time-out, and nobody is thrown out at once. */
START_TEST(version_0)
{
    struct classic_client a = {.label = "a", .version = -1, .session_ms = 10000};
    struct classic_client b = {.label = "b", .version = -1, .session_ms = 10000};
    struct world_call *call = NULL;

    world_open(&world);
    settle_one(&a);
    call = client_join(&world, &b);
    ck_assert(!call->answered);
    world_advance(&world, 9999);
    ck_assert(!call->answered);
    world_say(&world, "a never came back");
    world_advance(&world, 1);
    client_learn(&b, call);
    ck_assert_int_eq(b.generation, 2);
    ck_assert_uint_eq(joined(call)->members_count, 1);
    transcript_expect(&world.said, "version_0");
    world_close(&world);
}
END_TEST

/* B095: the protocol is one that all support, by votes for the first of those; one that nobody else speaks is refused.
 */
START_TEST(votes)
{
    struct classic_client a = {.label = "a", .protocols = "range=1,sticky=1"};
    struct classic_client b = {.label = "b", .protocols = "sticky=2,range=2"};
    struct classic_client c = {.label = "c", .protocols = "sticky=3"};
    struct classic_client d = {.label = "d", .protocols = "other=4"};
    struct classic_client e = {.label = "e", .protocols = "sticky=5", .type = "connect"};
    struct world_call *call = NULL;

    world_open(&world);
    call = client_enter(&world, &a);
    (void)client_enter(&world, &b);
    (void)client_enter(&world, &c);
    ck_assert_int_eq(refusal(&d), 23);
    ck_assert_int_eq(refusal(&e), 23);
    world_advance(&world, 6000);
    ck_assert(bytes_equal(joined(call)->protocol_name, BYTES_LITERAL("sticky")));
    ck_assert_uint_eq(joined(call)->members_count, 3);
    for (uint32_t i = 0; i < 3; i++)
        ck_assert_uint_eq(joined(call)->members[i].metadata.data[0], (uint8_t)('1' + i));
    world_close(&world);
}
END_TEST

/* Of what all support, most members' first choice. */
START_TEST(the_most_wanted)
{
    struct classic_client a = {.label = "a", .protocols = "mine=1,range=1,sticky=1"};
    struct classic_client b = {.label = "b", .protocols = "sticky=2,range=2"};
    struct classic_client c = {.label = "c", .protocols = "sticky=3,range=3"};
    struct world_call *call = NULL;

    world_open(&world);
    call = client_enter(&world, &a);
    (void)client_enter(&world, &b);
    (void)client_enter(&world, &c);
    world_advance(&world, 6000);
    ck_assert(bytes_equal(joined(call)->protocol_name, BYTES_LITERAL("sticky")));
    world_close(&world);
}
END_TEST

/* What a member that joins again is answered, by state and by what changed (B088: unchanged is no new generation). */
START_TEST(joining_again)
{
    struct classic_client a = {.label = "a"};
    struct classic_client b = {.label = "b"};
    struct world_call *first = NULL;
    struct world_call *second = NULL;

    world_open(&world);
    first = client_enter(&world, &a);
    second = client_enter(&world, &b);
    world_advance(&world, 6000);
    client_learn(&a, first);
    client_learn(&b, second);
    world_say(&world, "completing: the same again, with the members for the one that leads");
    ck_assert_uint_eq(joined(client_join(&world, &a))->members_count, 2);
    ck_assert_int_eq(joined(client_join(&world, &b))->generation_id, 1);
    (void)client_sync(&world, &a, (struct classic_share[]){{&a, "one"}, {&b, "two"}}, 2);
    world_say(&world, "stable: a follower is told at once");
    ck_assert_int_eq(joined(client_join(&world, &b))->generation_id, 1);
    world_say(&world, "stable: the leader begins a rebalance");
    a.reason = "metadata changed";
    first = client_join(&world, &a);
    ck_assert(!first->answered);
    second = client_join(&world, &b);
    client_learn(&a, first);
    client_learn(&b, second);
    ck_assert_int_eq(b.generation, 2);
    world_say(&world, "completing: another subscription begins one, too; who synced already joins again");
    first = client_sync(&world, &b, NULL, 0);
    b.protocols = "range=u";
    second = client_join(&world, &b);
    ck_assert_int_eq(client_error(first), 27);
    ck_assert(!second->answered);
    first = client_join(&world, &a);
    client_learn(&a, first);
    client_learn(&b, second);
    (void)client_sync(&world, &a, (struct classic_share[]){{&a, "one"}, {&b, "two"}}, 2);
    world_say(&world, "stable: a follower with another subscription begins one");
    b.protocols = "range=v";
    ck_assert(!client_join(&world, &b)->answered);
    transcript_expect(&world.said, "joining_again");
    world_close(&world);
}
END_TEST

/* Members that do not come back within the rebalance time-out are out; if the leader is among them, another leads. */
START_TEST(the_rebalance_time_out)
{
    struct classic_client a = {.label = "a", .session_ms = 60000};
    struct classic_client b = {.label = "b", .session_ms = 60000};
    struct classic_client c = {.label = "c", .session_ms = 60000};
    struct world_call *second = NULL;
    struct world_call *third = NULL;

    world_open(&world);
    settle_two(&a, &b);
    third = client_enter(&world, &c);
    second = client_join(&world, &b);
    world_advance(&world, 29999);
    ck_assert(!second->answered && !third->answered);
    world_advance(&world, 1);
    ck_assert_uint_eq(joined(second)->members_count, 2);
    ck_assert(bytes_equal(joined(third)->leader, bytes_of_text(b.id)));
    ck_assert_int_eq(client_error(client_beat(&world, &a)), 25);
    world_close(&world);
}
END_TEST

/* B094: an id that nobody joins with is forgotten with its session, and holds a rebalance no longer than that. */
START_TEST(ids_that_nobody_uses)
{
    struct classic_client a = {.label = "a"};
    struct classic_client ghost = {.label = "ghost"};
    struct world_call *call = NULL;

    world_open(&world);
    settle_one(&a);
    call = client_join(&world, &ghost);
    client_learn(&ghost, call);
    call = client_join(&world, &a);
    ck_assert(!call->answered);
    world_advance(&world, 9999);
    ck_assert(!call->answered);
    world_advance(&world, 1);
    ck_assert_int_eq(joined(call)->generation_id, 2);
    ck_assert_int_eq(refusal(&ghost), 25);
    world_close(&world);
}
END_TEST

/* B094: a member of before v4 that vanished while it waited is out after five minutes, its wait is no sign of life. */
START_TEST(a_new_member_that_vanished)
{
    struct classic_client a = {.label = "a", .rebalance_ms = 900000, .session_ms = 600000};
    struct classic_client ghost = {.label = "ghost", .version = 3, .rebalance_ms = 900000};
    struct world_call *call = NULL;

    world_open(&world);
    settle_one(&a);
    call = client_join(&world, &ghost);
    world_advance(&world, 299999);
    ck_assert(!call->answered);
    world_advance(&world, 1);
    ck_assert_int_eq(client_error(call), 25);
    call = client_join(&world, &a);
    ck_assert_uint_eq(joined(call)->members_count, 1);
    world_close(&world);
}
END_TEST

/* Ids handed out are bounded in memory: over the bound the oldest is forgotten, whatever its group. */
START_TEST(ids_are_bounded)
{
    static char name[30000];
    struct classic_client first = {.label = "first"};
    struct classic_client second = {.label = "second", .group = "other"};

    memset(name, 'x', sizeof(name));
    world_open(&world);
    world.quiet = true;
    client_learn(&first, client_join(&world, &first));
    client_learn(&second, client_join(&world, &second));
    world.client_id = bytes_of(name, sizeof(name));
    for (int n = 0; world.groups->pending_bytes + sizeof(name) + 200 <= CLASSIC_PENDING_BYTES_MAX; n++) {
        name[0] = (char)('a' + n % 26); /* the test's random numbers come again, and ids must differ */
        name[1] = (char)('a' + n / 26);
        ck_assert_int_eq(refusal(&(struct classic_client){.label = "flood", .group = "flood"}), 79);
    }
    ck_assert_uint_eq(map_count(&group_find(world.groups, BYTES_LITERAL("g"))->classic->pending), 1);
    ck_assert_int_eq(refusal(&(struct classic_client){.label = "flood", .group = "flood"}), 79);
    ck_assert_uint_le(world.groups->pending_bytes, CLASSIC_PENDING_BYTES_MAX);
    ck_assert_int_eq(refusal(&first), 25);
    ck_assert_uint_ge(map_count(&group_find(world.groups, BYTES_LITERAL("flood"))->classic->pending), 270);
    world_close(&world);
}
END_TEST

/* group.max.size: no more members than that, at whatever moment they come; members that are in stay. */
START_TEST(a_full_group)
{
    struct classic_client a = {.label = "a"};
    struct classic_client b = {.label = "b"};
    struct classic_client c = {.label = "c"};
    struct world_call *first = NULL;
    struct world_call *second = NULL;

    world_open(&world);
    world.settings.size_max = 2;
    first = client_enter(&world, &a);
    second = client_enter(&world, &b);
    ck_assert_int_eq(refusal(&c), 81);
    world_advance(&world, 6000);
    client_learn(&a, first);
    client_learn(&b, second);
    ck_assert_int_eq(refusal(&c), 81);
    (void)client_sync(&world, &a, NULL, 0);
    ck_assert_int_eq(refusal(&c), 81);
    ck_assert_int_eq(client_error(client_beat(&world, &b)), 0);
    (void)client_leave(&world, &b, 0);
    second = client_enter(&world, &c);
    first = client_join(&world, &a);
    ck_assert_uint_eq(joined(first)->members_count, 2);
    ck_assert_int_eq(joined(second)->generation_id, 2);
    world_close(&world);
}
END_TEST

/* The limit was lowered: a group that is over it after a restart rebalances, and whoever comes last is out. */
START_TEST(a_group_over_the_limit)
{
    struct classic_client a = {.label = "a"};
    struct classic_client b = {.label = "b"};
    struct world_call *first = NULL;

    world_open(&world);
    settle_two(&a, &b);
    world.settings.size_max = 1;
    world_restart(&world);
    ck_assert_int_eq(client_error(client_beat(&world, &a)), 27);
    first = client_join(&world, &a);
    ck_assert(!first->answered);
    ck_assert_int_eq(refusal(&b), 81);
    world_advance(&world, 30000);
    ck_assert_uint_eq(joined(first)->members_count, 1);
    world_close(&world);
}
END_TEST

/* A second JoinGroup of a member that waits takes the place of the first, which is answered. */
START_TEST(asking_twice)
{
    struct classic_client a = {.label = "a"};
    struct world_call *first = NULL;
    struct world_call *second = NULL;

    world_open(&world);
    first = client_enter(&world, &a);
    second = client_join(&world, &a);
    ck_assert_int_eq(client_error(first), 27);
    ck_assert(!second->answered);
    world_advance(&world, 3000);
    ck_assert_uint_eq(joined(second)->members_count, 1);
    world_close(&world);
}
END_TEST

/* However long a client's id: its member's id fits a string of the protocol and of the records. */
START_TEST(a_long_name)
{
    static char name[WIRE_STRING_BYTES_MAX];
    struct classic_client a = {.label = "a", .version = 3};
    struct world_call *call = NULL;

    memset(name, 'x', sizeof(name));
    world_open(&world);
    world.quiet = true;
    world.client_id = bytes_of(name, sizeof(name));
    call = client_join(&world, &a);
    world_advance(&world, 3000);
    ck_assert_uint_eq(joined(call)->member_id.size, WIRE_STRING_BYTES_MAX);
    world_close(&world);
}
END_TEST

/* A name that comes twice counts once, the first one. (Apache Kafka 4.4 never answers such a request.) */
START_TEST(a_protocol_twice)
{
    struct classic_client a = {.label = "a", .protocols = "range=first,range=second"};
    struct world_call *call = NULL;

    world_open(&world);
    call = client_enter(&world, &a);
    world_advance(&world, 3000);
    ck_assert(bytes_equal(joined(call)->members[0].metadata, BYTES_LITERAL("first")));
    world_close(&world);
}
END_TEST

/* Answers wait for what they follow from: the generation that the last member leaves behind is committed first. */
START_TEST(answers_wait_for_the_commit)
{
    struct classic_client a = {.label = "a"};
    struct classic_client b = {.label = "b"};

    world_open(&world);
    settle_one(&a);
    world.hold = true;
    (void)client_leave(&world, &a, 0);
    (void)client_beat(&world, &a);
    (void)client_join(&world, &b);
    world_commit(&world);
    transcript_expect(&world.said, "answers_wait_for_the_commit");
    world_close(&world);
}
END_TEST

RUN_TESTS("classic_join", refusals, a_new_group_is_on_record, the_initial_delay,
          the_initial_delay_ends_with_the_rebalance_time_out, version_0, votes, the_most_wanted, joining_again,
          the_rebalance_time_out, ids_that_nobody_uses, a_new_member_that_vanished, ids_are_bounded, a_full_group,
          a_group_over_the_limit, asking_twice, a_long_name, a_protocol_twice, answers_wait_for_the_commit)
