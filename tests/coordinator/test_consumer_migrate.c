/* Rules of online migration: groups.md 3.7, as transcripts.
 *
 * Sources: coordinator/consumer_classic.c, coordinator/consumer_embedded.c */
#include <check.h>
#include <string.h>

#include "coordinator/classic_client.h"
#include "coordinator/consumer_beats.h"
#include "coordinator/group.h"
#include "partition/run_tests.h"
#include "protocol/gen/consumer_protocol_assignment.h"
#include "protocol/gen/consumer_protocol_subscription.h"
#include "protocol/gen/describe_groups.h"
#include "protocol/gen/heartbeat.h"
#include "protocol/gen/join_group.h"
#include "protocol/gen/leave_group.h"
#include "protocol/gen/sync_group.h"

enum { BYTES_MAX = 256, REQUESTS_MAX = 64 };

static struct group_world world;
static uint8_t blobs[REQUESTS_MAX][BYTES_MAX];
static uint32_t blob_count;

static void begin(void)
{
    blob_count = 0;
    world_open(&world);
    world.settings.consumer_assignment_interval_ms = 0;
    world_topic(&world, "t", 4);
}

static void end(const char *name)
{
    transcript_expect(&world.said, name);
    world_close(&world);
}

static struct bytes finish(struct wire_writer *w, const uint8_t *to, size_t size)
{
    ck_assert_int_eq(wire_writer_finish(w, NULL), ERR_OK);
    return bytes_of(to, size);
}

/* owned: partitions of t, -1 ends. */
static struct bytes subscription(struct bytes *topic, const int32_t *owned, uint32_t count)
{
    struct consumer_protocol_subscription_topic_partition partitions = {
        .topic = BYTES_LITERAL("t"), .partitions = (int32_t *)(uintptr_t)owned, .partitions_count = count};
    struct consumer_protocol_subscription says;
    struct wire_writer w;
    uint8_t *to = blobs[blob_count++];
    size_t size = 0;

    consumer_protocol_subscription_init(&says);
    says.topics = topic;
    says.topics_count = 1;
    if (count > 0) {
        says.owned_partitions = &partitions;
        says.owned_partitions_count = 1;
    }
    size = 2 + wire_size_total(consumer_protocol_subscription_size(1, &says));
    ck_assert_uint_le(size, BYTES_MAX);
    wire_writer_init_flat(&w, to, size);
    wire_write_i16(&w, 1);
    consumer_protocol_subscription_write(&w, 1, &says);
    return finish(&w, to, size);
}

static struct bytes assignment(const int32_t *partitions, uint32_t count, const char *user_data)
{
    struct consumer_protocol_assignment_topic_partition topic = {
        .topic = BYTES_LITERAL("t"), .partitions = (int32_t *)(uintptr_t)partitions, .partitions_count = count};
    struct consumer_protocol_assignment says;
    struct wire_writer w;
    uint8_t *to = blobs[blob_count++];
    size_t size = 0;

    consumer_protocol_assignment_init(&says);
    says.assigned_partitions = &topic;
    says.assigned_partitions_count = count > 0 ? 1 : 0;
    says.user_data = user_data == NULL ? (struct bytes){0} : bytes_of_text(user_data);
    size = 2 + wire_size_total(consumer_protocol_assignment_size(1, &says));
    ck_assert_uint_le(size, BYTES_MAX);
    wire_writer_init_flat(&w, to, size);
    wire_write_i16(&w, 1);
    consumer_protocol_assignment_write(&w, 1, &says);
    return finish(&w, to, size);
}

struct old {
    const char *id;       /* "": none yet */
    const char *instance; /* NULL: dynamic */
    const char *protocol; /* NULL: "range" */
    const char *topic;    /* NULL: "t" */
    const int32_t *owned;
    uint32_t owned_count;
    int16_t version; /* 0: 9; -1: 3 */
    bool oldest;     /* version 0, in which there is no rebalance time-out */
    const char *type;
};

static struct world_call *join(const char *label, const struct old *old)
{
    static struct join_group_request requests[REQUESTS_MAX];
    static struct join_group_request_protocol protocols[REQUESTS_MAX];
    static struct bytes topics[REQUESTS_MAX];
    static uint32_t at;
    struct join_group_request *request = NULL;

    at = (at + 1) % REQUESTS_MAX;
    request = &requests[at];
    topics[at] = bytes_of_text(old->topic == NULL ? "t" : old->topic);
    protocols[at] =
        (struct join_group_request_protocol){.name = bytes_of_text(old->protocol == NULL ? "range" : old->protocol),
                                             .metadata = subscription(&topics[at], old->owned, old->owned_count)};
    join_group_request_init(request);
    request->group_id = BYTES_LITERAL("g");
    request->session_timeout_ms = 10000;
    request->rebalance_timeout_ms = old->oldest ? -1 : 30000;
    request->member_id = bytes_of_text(old->id);
    request->group_instance_id = old->instance == NULL ? (struct bytes){0} : bytes_of_text(old->instance);
    request->protocol_type = bytes_of_text(old->type == NULL ? "consumer" : old->type);
    request->protocols = &protocols[at];
    request->protocols_count = 1;
    return world_ask(&world, label, ASK_JOIN_GROUP,
                     (int16_t)(old->oldest          ? 0
                               : old->version == 0  ? 9
                               : old->version == -1 ? 3
                                                    : old->version),
                     "g", request);
}

#define JOIN_OLD(label, ...) join(label, &(struct old){__VA_ARGS__})
#define JOIN_V0(label)       JOIN_OLD(label, .id = "", .oldest = true)

static struct world_call *old_sync(const char *label, const char *id, int32_t generation)
{
    static struct sync_group_request request;

    sync_group_request_init(&request);
    request.group_id = BYTES_LITERAL("g");
    request.member_id = bytes_of_text(id);
    request.generation_id = generation;
    request.protocol_type = BYTES_LITERAL("consumer");
    request.protocol_name = BYTES_LITERAL("range");
    return world_ask(&world, label, ASK_SYNC_GROUP, 5, "g", &request);
}

static struct world_call *old_beat(const char *label, const char *id, int32_t generation)
{
    static struct heartbeat_request request;

    heartbeat_request_init(&request);
    request.group_id = BYTES_LITERAL("g");
    request.member_id = bytes_of_text(id);
    request.generation_id = generation;
    return world_ask(&world, label, ASK_HEARTBEAT, 4, "g", &request);
}

static struct world_call *old_leave(const char *label, const char *id, const char *instance)
{
    static struct leave_group_request request;
    static struct member_identity who;

    leave_group_request_init(&request);
    member_identity_init(&who);
    who.member_id = bytes_of_text(id);
    who.group_instance_id = instance == NULL ? (struct bytes){0} : bytes_of_text(instance);
    request.group_id = BYTES_LITERAL("g");
    request.members = &who;
    request.members_count = 1;
    return world_ask(&world, label, ASK_LEAVE_GROUP, 5, "g", &request);
}

static char id[CLIENT_ID_BYTES];

/* One classic member, Stable in generation 1 with all of t. */
static void classic_group(const char *user_data)
{
    static const int32_t all[] = {0, 1, 2, 3};
    static struct sync_group_request request;
    static struct sync_group_request_assignment gives;
    struct world_call *call = JOIN_OLD("old", .id = "");
    const struct join_group_response *response = call->response;

    memcpy(id, response->member_id.data, response->member_id.size);
    id[response->member_id.size] = '\0';
    JOIN_OLD("old", .id = id);
    world_advance(&world, 3000);
    sync_group_request_init(&request);
    request.group_id = BYTES_LITERAL("g");
    request.member_id = bytes_of_text(id);
    request.generation_id = 1;
    gives = (struct sync_group_request_assignment){.member_id = request.member_id,
                                                   .assignment = assignment(all, 4, user_data)};
    request.assignments = &gives;
    request.assignments_count = 1;
    world_ask(&world, "old", ASK_SYNC_GROUP, 3, "g", &request);
}

/* Rule: a heartbeat with epoch 0 upgrades a classic group: tombstone, then 5, 3, 7, 6, 8; its members keep what they
 * have, are told to rejoin when they are to give something back, and take part with JoinGroup and SyncGroup; when the
 * last member of the new protocol leaves, the group is a classic one again, and rebalances. */
START_TEST(up_and_down)
{
    static const int32_t all[] = {0, 1, 2, 3};
    static const int32_t half[] = {0, 1};

    begin();
    classic_group(NULL);
    JOIN(&world, "new", "t");
    describe_group(&world);
    old_beat("old", id, 1);
    JOIN_OLD("old", .id = id, .owned = all, .owned_count = 4);
    old_sync("old", id, 1);
    old_beat("old", id, 1);
    JOIN_OLD("old", .id = id, .owned = half, .owned_count = 2);
    old_sync("old", id, 2);
    old_beat("old", id, 2);
    BEAT(&world, "new", 2);
    describe_group(&world);
    BEAT(&world, "new", -1);
    client_describe(&world, "g", 5);
    old_beat("old", id, 2);
    JOIN_OLD("old", .id = id);
    end("migrate_up_and_down");
}
END_TEST

/* Rule: what the policy, the protocol or a custom assignor's data forbid is 69, and nothing happens. */
START_TEST(upgrade_refused)
{
    begin();
    classic_group("mine");
    JOIN(&world, "new", "t");
    world.settings.migration = MIGRATION_DOWNGRADE;
    JOIN(&world, "new", "t");
    client_describe(&world, "g", 5);
    end("migrate_refused");
}
END_TEST

/* Rule: an upgrade that would not fit its batch is refused, and nothing happens: with it comes the first target, of all
 * that the members subscribe to, have they got it yet or not. The world fails where a step does not fit. */
START_TEST(upgrade_too_large)
{
    enum { PARTITIONS = 30000, ROOM_MAX = 4000000 };
    uint32_t accepted = 0;

    for (size_t room = 1000; room < ROOM_MAX; room += room / 4) {
        begin();
        world.quiet = true;
        world_topic(&world, "u", 1);
        classic_group(NULL);
        world_topic(&world, "t", PARTITIONS); /* of which nobody has more than four */
        world.batch_room = room;
        accepted += beat_error(JOIN(&world, "new", "u")) == 0;
        world_close(&world);
    }
    ck_assert_uint_gt(accepted, 0);
}
END_TEST

/* Rule: a leader of the classic protocol may give one partition to two members; in the other protocol a partition has
 * one owner, and Apache Kafka reads no log in which it has two: such a group is not upgraded (-1, as there), and stays
 * as it is, until its leader decides otherwise. */
START_TEST(two_owners)
{
    static const int32_t all[] = {0, 1, 2, 3};
    static const int32_t rest[] = {1, 2, 3};
    static struct sync_group_request request;
    static struct sync_group_request_assignment gives[2];
    static char ids[2][CLIENT_ID_BYTES];
    const struct describe_groups_response_described_group *described = NULL;

    for (uint32_t shared = 0; shared < 2; shared++) {
        begin();
        world.quiet = true;
        for (uint32_t i = 0; i < 2; i++) {
            const struct join_group_response *joined = JOIN_OLD("old", .id = "")->response;

            memcpy(ids[i], joined->member_id.data, joined->member_id.size);
            ids[i][joined->member_id.size] = '\0';
            JOIN_OLD("old", .id = ids[i]);
        }
        world_advance(&world, 6000);
        sync_group_request_init(&request);
        request.group_id = BYTES_LITERAL("g");
        request.member_id = bytes_of_text(ids[0]);
        request.generation_id = 1;
        gives[0].member_id = bytes_of_text(ids[0]);
        gives[0].assignment = assignment(all, 1, NULL);
        gives[1].member_id = bytes_of_text(ids[1]);
        gives[1].assignment = shared ? assignment(all, 4, NULL) : assignment(rest, 3, NULL);
        request.assignments = gives;
        request.assignments_count = 2;
        world_ask(&world, "old", ASK_SYNC_GROUP, 3, "g", &request);
        ck_assert_int_eq(beat_error(JOIN(&world, "new", "t")), shared ? -1 : 0);
        if (shared) {
            described = client_describe(&world, "g", 5)->response;
            ck_assert(bytes_equal(described->group_state, BYTES_LITERAL("Stable")));
            ck_assert_uint_eq(described->members_count, 2);
            ck_assert_int_eq(client_error(old_beat("old", ids[1], 1)), 0);
        }
        world_restart(&world);
        ck_assert_uint_eq(world.failed, 0);
        world_close(&world);
    }
}
END_TEST

/* Rule: an empty group changes its kind whatever the policy says. */
START_TEST(empty_groups)
{
    begin();
    world.settings.migration = MIGRATION_DISABLED;
    classic_group(NULL);
    old_leave("old", id, NULL);
    JOIN(&world, "new", "t");
    JOIN_OLD("old", .id = "");
    BEAT(&world, "new", -1);
    JOIN_OLD("old", .id = "");
    end("migrate_empty");
}
END_TEST

/* Rule: a classic member joins a group of the new protocol: MEMBER_ID_REQUIRED first, then the generation is its epoch,
 * nobody leads; wrong type or protocol 23; unknown 25; wrong generation 22. It is fenced by its session, by a join that
 * does not come, and by a sync that does not come. */
START_TEST(classic_members)
{
    begin();
    JOIN(&world, "new", "t");
    JOIN_OLD("old", .id = "");
    JOIN_OLD("old", .id = "x", .type = "connect");
    JOIN_OLD("old", .id = "x");
    old_sync("old", "x", 3);
    old_beat("old", "x", 2);
    old_beat("old", "y", 2);
    old_beat("old", "new", 2);
    JOIN_OLD("old", .id = "y", .protocol = "other");
    BEAT(&world, "new", 2, .owned = "1:0,1");
    old_beat("old", "x", 3);
    JOIN_OLD("old", .id = "x");
    old_sync("old", "x", 3);
    describe_group(&world);
    world_say(&world, "no heartbeat: out");
    world_advance(&world, 10000);
    old_beat("old", "x", 3);
    JOIN_OLD("old", .id = "x", .version = -1);
    old_leave("old", "x", NULL);
    old_leave("old", "x", NULL);
    describe_group(&world);
    end("migrate_classic_members");
}
END_TEST

/* Rule: a static member of the new protocol that comes back with the old one takes its place; the group is a classic
 * one then, without a rebalance, as nothing else changed. */
START_TEST(static_downgrade)
{
    begin();
    JOIN(&world, "new", "t", .instance = "i");
    JOIN_OLD("old", .id = "", .instance = "i");
    client_describe(&world, "g", 5);
    end("migrate_static");
}
END_TEST

/* Rule: whichever protocol it speaks, a static member that comes back for other topics is why the group rebalances, and
 * it is not a member that was there. */
START_TEST(static_comes_back)
{
    begin();
    world_topic(&world, "u", 2);
    JOIN(&world, "new", "t");
    JOIN_OLD("old", .id = "", .instance = "i", .topic = "u");
    BEAT(&world, "new", 2);
    JOIN_OLD("old", .id = "", .instance = "i");
    (void)world_ask(&world, "h", ASK_HISTORY, 0, "g", NULL);
    end("migrate_static_back");
}
END_TEST

/* Rule: with another subscription it is a rebalance; the generation is still the one that all others were told of, so
 * that they are sent to it (27) and may commit what they have, instead of being thrown out (22). */
START_TEST(static_downgrade_changed)
{
    begin();
    JOIN(&world, "new", "t", .instance = "i");
    JOIN_OLD("old", .id = "x");
    JOIN_OLD("late", .id = "", .instance = "i", .topic = "u");
    old_beat("old", "x", 3);
    client_describe(&world, "g", 5);
    end("migrate_static_changed");
}
END_TEST

/* Rule: a group whose last member has left while another is about to join is not Empty: its epochs go on from its
 * generations, though nobody is in it. */
START_TEST(last_one_left)
{
    begin();
    classic_group(NULL);
    JOIN_OLD("other", .id = "");
    old_leave("old", id, NULL);
    client_describe(&world, "g", 5);
    world_say(&world, "in the middle of it");
    JOIN(&world, "new", "t");
    describe_group(&world);
    end("migrate_last_left");
}
END_TEST

/* Rule: before JoinGroup 1 a member's rebalance time-out is its session's; bytes that are no subscription are refused
 * as a protocol that the group has not (23), and such a refusal names no member. */
START_TEST(oldest_members)
{
    begin();
    JOIN(&world, "new", "t");
    world.quiet = true;
    ck_assert_int_eq(client_error(JOIN_V0("old")), 0);
    world_advance(&world, 9000);
    world.quiet = false;
    describe_group(&world);
    world_say(&world, "it never syncs");
    world_advance(&world, 1000);
    describe_group(&world);
    end("migrate_oldest");
}
END_TEST

/* Rule: more members than one batch has tombstones for do not leave at once: who asks is told, nobody else loses
 * anything by it. */
START_TEST(too_many_leave)
{
    static struct leave_group_request request;
    static struct member_identity who[2];
    const struct leave_group_response *response = NULL;

    begin();
    world.quiet = true;
    JOIN(&world, "new", "t");
    leave_group_request_init(&request);
    for (int i = 0; i < 2; i++) {
        const struct join_group_response *joined = JOIN_OLD("old", .id = "", .version = -1)->response;

        member_identity_init(&who[i]);
        who[i].member_id = joined->member_id;
    }
    request.group_id = BYTES_LITERAL("g");
    request.members = who;
    request.members_count = 2;
    world.batch_room = 800;
    response = world_ask(&world, "old", ASK_LEAVE_GROUP, 5, "g", &request)->response;
    ck_assert_int_eq(response->members[0].error_code, -1);
    ck_assert_int_eq(response->members[1].error_code, -1);
    request.members_count = 1;
    response = world_ask(&world, "old", ASK_LEAVE_GROUP, 5, "g", &request)->response;
    ck_assert_int_eq(response->members[0].error_code, 0);
    world_close(&world);
}
END_TEST

/* Rule: at no size of a batch is more written than fits it, be it of who comes or of the group that changes its kind:
 * the world fails where a step does not fit. */
START_TEST(about_as_large_as_the_batch)
{
    for (size_t room = 100; room < 6000; room += 10) {
        begin();
        world.quiet = true;
        JOIN(&world, "new", "t", .instance = "i");
        JOIN_OLD("old", .id = "", .version = -1);
        world.batch_room = room;
        JOIN_OLD("other", .id = "", .instance = "i");
        world_close(&world);
    }
}
END_TEST

static bool is_classic(void)
{
    return groups_count(world.groups) > 0 && group_find(world.groups, BYTES_LITERAL("g"))->kind == GROUP_CLASSIC;
}

/* The last member of the consumer protocol goes by its session, at the same moment as one of another group, before or
 * behind it; a classic one stays. */
static bool becomes_classic(size_t room, bool before, bool behind)
{
    bool is = false;

    begin();
    world.quiet = true;
    if (before)
        JOIN(&world, "one", "t", .group = "h");
    JOIN(&world, "new", "t");
    if (behind)
        JOIN(&world, "one", "t", .group = "h");
    (void)JOIN_V0("old");
    world.settings.consumer_session_timeout_ms = 9000;
    world_advance(&world, 1);
    if (before)
        BEAT(&world, .member = "one", .epoch = 2, .group = "h");
    BEAT(&world, .member = "new", .epoch = 2);
    if (behind)
        BEAT(&world, .member = "one", .epoch = 2, .group = "h");
    world.batch_room = room;
    world_advance(&world, 9001);
    is = is_classic();
    world_close(&world);
    return is;
}

/* Rule: a group that goes back to the classic protocol does so whatever else a tick has to write: what does not fit
 * with that is done in the next one. It would not be made up for. */
START_TEST(what_does_not_fit_this_tick)
{
    uint32_t times = 0;

    for (size_t room = 1000; room < 3000; room += 20) {
        bool alone = becomes_classic(room, false, false);

        ck_assert_msg(becomes_classic(room, true, false) == alone, "%zu bytes", room);
        ck_assert_msg(becomes_classic(room, false, true) == alone, "%zu bytes", room);
        times += alone;
    }
    ck_assert_uint_gt(times, 0);
}
END_TEST

/* Rule: what is refused names no member, and an empty group stays what it is for it. */
START_TEST(refused_without_a_trace)
{
    const struct join_group_response *response = NULL;
    uint32_t records = 0;

    begin();
    world.quiet = true;
    JOIN(&world, "new", "t", .instance = "i");
    response = JOIN_OLD("old", .id = "who", .instance = "i")->response;
    ck_assert_int_eq(response->error_code, 82);
    ck_assert_uint_eq(response->member_id.size, 0);
    response = JOIN_OLD("old", .id = "who", .instance = "j")->response;
    ck_assert_int_eq(response->error_code, 25);
    ck_assert_uint_eq(response->member_id.size, 0);
    BEAT(&world, .member = "new", .epoch = -1, .instance = "i");
    records = world.record_count;
    response = JOIN_OLD("old", .id = "who")->response;
    ck_assert_int_eq(response->error_code, 25);
    ck_assert_uint_eq(world.record_count, records);
    ck_assert(!is_classic());
    ck_assert_int_eq(JOIN_OLD("old", .id = "", .version = -1)->op.op.err, 0);
    ck_assert(is_classic());
    world_close(&world);
}
END_TEST

RUN_TESTS("consumer_migrate", refused_without_a_trace, what_does_not_fit_this_tick, too_many_leave, up_and_down,
          upgrade_refused, upgrade_too_large, two_owners, empty_groups, classic_members, static_downgrade,
          static_comes_back, static_downgrade_changed, last_one_left, oldest_members, about_as_large_as_the_batch)
