/*
 * Rule: whoever is late goes, by the clock that counts for it, and nobody else: a member that has left for now keeps
 * its place for its session, whatever it still owed; one of the classic protocol that was let in must fetch what it was
 * given within its rebalance time-out. An epoch before the one before is nobody's any more.
 */
#include <check.h>

#include "coordinator/classic_client.h"
#include "coordinator/classic_internal.h"
#include "coordinator/consumer_beats.h"
#include "coordinator/consumer_internal.h"
#include "partition/run_tests.h"
#include "protocol/gen/join_group.h"
#include "protocol/gen/leave_group.h"
#include "protocol/gen/sync_group.h"

enum { REBALANCE_MS = 10000, SESSION_MS = 45000 };

/* A subscription to topic "t", as consumers encode it. */
static const uint8_t subscription[] = {0, 0, 0, 0, 0, 1, 0, 1, 't', 255, 255, 255, 255};

static struct group_world world;

static void begin(void)
{
    world_open(&world);
    world.settings.consumer_assignment_interval_ms = 0;
    world.quiet = true;
    world_topic(&world, "t", 3);
}

static const struct consumer_group *the_group(void)
{
    return group_find(world.groups, BYTES_LITERAL("g"))->consumer;
}

/* It was to give something back within less than its session. */
START_TEST(left_for_now_while_it_owes)
{
    int32_t epoch = 0;

    begin();
    epoch = beat_epoch(BEAT(&world, "a", 0, .instance = "i", .rebalance_ms = REBALANCE_MS, .topics = "t", .owned = ""));
    (void)JOIN(&world, "b", "t");
    ck_assert_int_eq(beat_epoch(BEAT(&world, "a", epoch, .instance = "i", .owned = "1:0,1,2")), epoch);
    ck_assert_int_eq(consumer_find(the_group(), BYTES_LITERAL("a"))->state, MEMBER_UNREVOKED);
    ck_assert_int_eq(beat_error(BEAT(&world, "a", -2, .instance = "i")), 0);
    for (int64_t ms = 0; ms < SESSION_MS - REBALANCE_MS; ms += REBALANCE_MS) {
        world_advance(&world, REBALANCE_MS);
        (void)BEAT(&world, "b", beat_epoch(JOIN(&world, "b", "t")));
        ck_assert_ptr_nonnull(consumer_find(the_group(), BYTES_LITERAL("a")));
    }
    world_advance(&world, 2 * REBALANCE_MS);
    ck_assert_ptr_null(consumer_find(the_group(), BYTES_LITERAL("a")));
    world_close(&world);
}
END_TEST

/* The epoch before is one whose answer was lost; the one before that is not. */
START_TEST(two_epochs_behind)
{
    int32_t epoch = 0;
    int32_t member = 0;

    begin();
    member = beat_epoch(JOIN(&world, "a", "t"));
    for (const char *other = "b"; *other != 'd'; other = "c") {
        epoch = member;
        (void)JOIN(&world, other, "t");
        (void)BEAT(&world, "a", epoch, .owned = "1:0,1,2");
        member = beat_epoch(BEAT(&world, "a", epoch, .owned = "1:0"));
        ck_assert_int_gt(member, epoch);
        if (*other == 'c')
            break;
    }
    ck_assert_int_eq(beat_error(BEAT(&world, "a", epoch - 1, .owned = "")), err_wire(ERR_FENCED_MEMBER_EPOCH));
    ck_assert_int_eq(beat_error(BEAT(&world, "a", epoch, .owned = "")), 0);
    world_close(&world);
}
END_TEST

static struct world_call *join_classic(struct classic_client *client)
{
    static struct join_group_request request;
    static struct join_group_request_protocol protocol;
    struct world_call *call = NULL;

    join_group_request_init(&request);
    join_group_request_protocol_init(&protocol);
    protocol.name = BYTES_LITERAL("range");
    protocol.metadata = bytes_of(subscription, sizeof(subscription));
    request.group_id = BYTES_LITERAL("g");
    request.session_timeout_ms = SESSION_MS;
    request.rebalance_timeout_ms = REBALANCE_MS;
    request.protocol_type = BYTES_LITERAL("consumer");
    request.protocols = &protocol;
    request.protocols_count = 1;
    call = world_ask(&world, client->label, ASK_JOIN_GROUP, 3, "g", &request);
    ck_assert(call->answered);
    client_learn(client, call);
    ck_assert_int_eq(client_error(call), 0);
    return call;
}

START_TEST(let_in_and_never_fetched)
{
    for (int fetches = 0; fetches < 2; fetches++) {
        struct classic_client client = {.label = "c"};

        begin();
        world.settings.migration = MIGRATION_BIDIRECTIONAL;
        (void)JOIN(&world, "a", "t");
        (void)join_classic(&client);
        if (fetches)
            ck_assert_int_eq(client_error(client_sync(&world, &client, NULL, 0)), 0);
        world_advance(&world, REBALANCE_MS - 1);
        ck_assert_ptr_nonnull(consumer_find(the_group(), bytes_of_text(client.id)));
        world_advance(&world, 1);
        ck_assert((consumer_find(the_group(), bytes_of_text(client.id)) != NULL) == (fetches == 1));
        world_close(&world);
    }
}
END_TEST

/* One that waits for what another still has is told to join again once that is free, not before. */
START_TEST(waits_for_what_others_have)
{
    struct classic_client client = {.label = "c"};
    int32_t epoch = 0;

    begin();
    world.settings.migration = MIGRATION_BIDIRECTIONAL;
    epoch = beat_epoch(JOIN(&world, "a", "t"));
    (void)join_classic(&client);
    ck_assert_int_eq(client_error(client_sync(&world, &client, NULL, 0)), 0);
    ck_assert_int_eq(consumer_find(the_group(), bytes_of_text(client.id))->state, MEMBER_UNRELEASED);
    ck_assert_int_eq(client_error(client_beat(&world, &client)), 0);
    (void)BEAT(&world, "a", epoch, .owned = "1:0,1,2");
    ck_assert_int_eq(client_error(client_beat(&world, &client)), 0);
    (void)BEAT(&world, "a", epoch, .owned = "1:0,1");
    ck_assert_int_eq(client_error(client_beat(&world, &client)), err_wire(ERR_REBALANCE_IN_PROGRESS));
    world_close(&world);
}
END_TEST

/* With the last ones of its own protocol, who go together, a group goes back to the classic one: without them. */
START_TEST(left_together)
{
    static struct member_identity who[2];
    static struct leave_group_request request;
    struct classic_client client = {.label = "c"};
    const struct leave_group_response *response = NULL;
    const struct group *group = NULL;

    begin();
    world.settings.migration = MIGRATION_BIDIRECTIONAL;
    (void)JOIN(&world, "a", "t");
    (void)JOIN(&world, "b", "t");
    (void)join_classic(&client);
    leave_group_request_init(&request);
    request.members = who;
    request.members_count = 2;
    for (int i = 0; i < 2; i++) {
        member_identity_init(&who[i]);
        who[i].member_id = bytes_of_text(i == 0 ? "a" : "b");
    }
    response = world_ask(&world, "admin", ASK_LEAVE_GROUP, 5, "g", &request)->response;
    ck_assert_int_eq(response->error_code, 0);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(response->members[i].error_code, 0);
    group = group_find(world.groups, BYTES_LITERAL("g"));
    ck_assert_int_eq(group->kind, GROUP_CLASSIC);
    ck_assert_uint_eq(classic_member_count(group->classic), 1);
    ck_assert_ptr_nonnull(classic_member_find(group->classic, bytes_of_text(client.id)));
    world_close(&world);
}
END_TEST

RUN_TESTS("consumer_fence", waits_for_what_others_have, left_together, left_for_now_while_it_owes, two_epochs_behind,
          let_in_and_never_fetched)
