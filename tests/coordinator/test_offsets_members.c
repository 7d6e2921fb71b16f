/* Rule: who may commit, delete and keep offsets in a group with members is decided by its state, its generation and its
 * subscriptions (groups.md 4; KIP-211, KIP-496).
 *
 * Sources: coordinator/classic_topics.c */
#include <check.h>
#include <string.h>

#include "coordinator/classic_client.h"
#include "coordinator/consumer_beats.h"
#include "coordinator/group_world.h"
#include "coordinator/offset_asks.h"
#include "partition/run_tests.h"
#include "protocol/gen/delete_groups.h"
#include "protocol/gen/join_group.h"

enum { DAY_MS = 24 * 3600 * 1000, REQUESTS_MAX = 64 };

/* A subscription to one topic, as consumers encode it. */
static const uint8_t subscription[] = {0, 0, 0, 0, 0, 1, 0, 1, 't', 255, 255, 255, 255};
enum { TOPIC_AT = 8 };

static struct group_world world;
static struct says {
    struct join_group_request request;
    struct join_group_request_protocol protocol;
    uint8_t subscription[sizeof(subscription)];
} joins[REQUESTS_MAX];
static uint32_t join_count;

/* topic: of one letter. A dynamic member; the leader and whoever else is in the group may have to join again. */
static struct world_call *join(struct classic_client *client, char topic)
{
    struct says *says = &joins[join_count];

    ck_assert_uint_lt(join_count, REQUESTS_MAX);
    join_count++;
    memcpy(says->subscription, subscription, sizeof(subscription));
    says->subscription[TOPIC_AT] = (uint8_t)topic;
    join_group_request_init(&says->request);
    join_group_request_protocol_init(&says->protocol);
    says->protocol.name = BYTES_LITERAL("range");
    says->protocol.metadata = bytes_of(says->subscription, sizeof(says->subscription));
    says->request.group_id = BYTES_LITERAL("g");
    says->request.member_id = bytes_of_text(client->id);
    says->request.session_timeout_ms = 1800000;
    says->request.rebalance_timeout_ms = 30000;
    says->request.protocol_type = BYTES_LITERAL("consumer");
    says->request.protocols = &says->protocol;
    says->request.protocols_count = 1;
    return world_ask(&world, client->label, ASK_JOIN_GROUP, 3, "g", &says->request);
}

/* A member alone in the group, Stable, its leader, subscribed to "t". */
static void enter(struct classic_client *client)
{
    struct world_call *call = join(client, 't');

    world_advance(&world, 3000);
    client_learn(client, call);
    (void)client_sync(&world, client, &(struct classic_share){client, "all"}, 1);
}

static int commit(const char *group, const char *topic, const char *member, int32_t generation, int16_t version)
{
    return offset_commit_as(&world, group, topic, 0, member, generation, version);
}

/* The same with an offset of "t", and one of "u", which nobody subscribes to. */
static void enter_with_offsets(struct classic_client *client)
{
    enter(client);
    ck_assert_int_eq(commit("g", "t", client->id, client->generation, 8), 0);
    ck_assert_int_eq(commit("g", "u", client->id, client->generation, 8), 0);
}

static int delete_offset(const char *topic)
{
    return offset_delete(&world, "g", topic, 0);
}

static int delete_group(const char *group)
{
    return ((const struct deletable_group_result *)world_ask(&world, "d", ASK_DELETE_GROUP, 2, group, NULL)->response)
        ->error_code;
}

static void begin(void)
{
    world_open(&world);
    world.quiet = true;
    join_count = 0;
    world_topic(&world, "t", 2);
    world_topic(&world, "u", 2);
}

/* B082: an administrator's commit to a group with members is 25, and changes nothing. */
START_TEST(who_may_commit)
{
    struct classic_client a = {.label = "a"};
    uint32_t records = 0;

    begin();
    enter(&a);
    ck_assert_int_eq(commit("g", "t", a.id, a.generation, 8), 0);
    records = world.record_count;
    ck_assert_int_eq(offset_commit(&world, "g", "t", 0), 25);
    ck_assert_int_eq(commit("g", "t", a.id, a.generation + 1, 8), 22);
    ck_assert_int_eq(commit("g", "t", a.id, a.generation - 1, 8), 22);
    ck_assert_int_eq(commit("g", "t", "nobody", a.generation, 8), 25);
    ck_assert_uint_eq(world.record_count, records);
    (void)client_leave(&world, &a, 0);
    ck_assert_int_eq(commit("g", "t", a.id, a.generation, 8), 25);
    ck_assert_int_eq(offset_commit(&world, "g", "t", 0), 0);
    world_close(&world);
}
END_TEST

START_TEST(what_may_be_deleted)
{
    struct classic_client a = {.label = "a"};

    begin();
    enter_with_offsets(&a);
    ck_assert_int_eq(delete_offset("t"), 86);
    ck_assert_int_eq(delete_offset("u"), 0);
    ck_assert_int_eq(delete_group("g"), 68);
    (void)client_leave(&world, &a, 0);
    ck_assert_int_eq(delete_offset("t"), 0);
    ck_assert_int_eq(offset_delete(&world, "g", "t", 2), 3); /* it has two */
    ck_assert_int_eq(offset_delete(&world, "g", "t", -1), 3);
    ck_assert_int_eq(offset_delete(&world, "none", "t", 0), 69);
    ck_assert_int_eq(offset_commit(&world, "", "t", 0), 0);
    ck_assert_int_eq(offset_delete(&world, "", "t", 0), 24);
    ck_assert_int_eq(delete_group(""), 0);
    ck_assert_int_eq(offset_commit(&world, "g", "t", 0), 0);
    ck_assert_int_eq(delete_group("g"), 0);
    ck_assert_uint_eq(groups_count(world.groups), 0);
    world_restart(&world);
    ck_assert_uint_eq(groups_count(world.groups), 0);
    ck_assert_int_eq(delete_group("g"), 69);
    world_close(&world);
}
END_TEST

/* What may be deleted in a rebalance is what the last generation does not subscribe to: whoever left may come back, and
 * what newcomers want is nobody's yet. */
START_TEST(what_may_be_deleted_in_a_rebalance)
{
    struct classic_client a = {.label = "a"};
    struct classic_client b = {.label = "b"};
    struct world_call *call = NULL;

    begin();
    enter_with_offsets(&a);
    call = join(&b, 'u');
    (void)client_leave(&world, &a, 0); /* b is the only one then, and has a generation */
    client_learn(&b, call);
    ck_assert_int_eq(delete_offset("u"), 86);
    ck_assert_int_eq(delete_offset("t"), 0);
    (void)client_sync(&world, &b, &(struct classic_share){&b, "all"}, 1);
    ck_assert_int_eq(commit("g", "t", b.id, b.generation, 8), 0);
    (void)join(&a, 't'); /* until b comes again, or is late for it, what counts is what b has */
    ck_assert_int_eq(delete_offset("u"), 86);
    ck_assert_int_eq(delete_offset("t"), 0);
    world_restart(&world); /* and after that it is b alone that is known */
    ck_assert_int_eq(delete_offset("u"), 86);
    ck_assert_int_eq(delete_offset("t"), 0);
    world_close(&world);
}
END_TEST

/* A member that leaves for good takes its subscription along with the next generation, and not before. */
START_TEST(what_may_be_deleted_when_one_has_left)
{
    struct classic_client a = {.label = "a"};
    struct classic_client b = {.label = "b"};
    struct world_call *call = NULL;

    begin();
    enter(&a);
    call = join(&b, 'u');
    client_learn(&a, join(&a, 't'));
    client_learn(&b, call);
    (void)client_sync(&world, &a, &(struct classic_share){&a, "all"}, 1);
    (void)client_sync(&world, &b, NULL, 0);
    (void)client_leave(&world, &b, 0);
    ck_assert_int_eq(delete_offset("u"), 86);
    client_learn(&a, join(&a, 't'));
    ck_assert_int_eq(delete_offset("u"), 0);
    ck_assert_int_eq(delete_offset("t"), 86);
    world_close(&world);
}
END_TEST

/* In its first rebalance nothing is known of a group, and nothing may be deleted; that is over with the generation. */
START_TEST(what_may_be_deleted_before_the_first_generation)
{
    struct classic_client a = {.label = "a"};
    struct world_call *call = NULL;

    begin();
    ck_assert_int_eq(offset_commit(&world, "g", "u", 0), 0);
    call = join(&a, 't');
    ck_assert_int_eq(delete_offset("u"), 86);
    world_advance(&world, 3000);
    client_learn(&a, call);
    ck_assert_int_eq(delete_offset("t"), 86);
    ck_assert_int_eq(delete_offset("u"), 0);
    world_close(&world);
}
END_TEST

static bool has(const char *topic)
{
    uint32_t tombstones = 0;

    for (uint32_t i = 0; i < world.record_count; i++)
        tombstones += world.records[i].value.data == NULL && world.records[i].key.size > 8 &&
                      memmem(world.records[i].key.data, world.records[i].key.size, topic, strlen(topic)) != NULL &&
                      world.records[i].key.data[1] == 1;
    return tombstones == 0;
}

/* B083: what a member is subscribed to stays, however old; what nobody is, ages from its commit. Of an Empty group all
 * ages since it became empty, across restarts, and then the group goes. */
START_TEST(age_in_a_group_with_members)
{
    struct classic_client a = {.label = "a"};

    begin();
    world.settings.offsets_retention_ms = (int64_t)DAY_MS * 7;
    enter_with_offsets(&a);
    for (int beat = 0; beat < 10 * 24 * 60 / 29; beat++) { /* within the longest session there is */
        ck_assert_int_eq(client_error(client_beat(&world, &a)), 0);
        world_advance(&world, 29 * 60 * 1000);
    }
    ck_assert(has("t") && !has("u"));
    (void)client_leave(&world, &a, 0);
    world_advance(&world, (int64_t)DAY_MS * 5);
    world_restart(&world);
    world_advance(&world, (int64_t)DAY_MS * 19 / 10);
    ck_assert(has("t"));
    world_advance(&world, DAY_MS);
    ck_assert(!has("t"));
    ck_assert_uint_eq(groups_count(world.groups), 0);
    world_restart(&world);
    ck_assert_uint_eq(groups_count(world.groups), 0);
    world_close(&world);
}
END_TEST

/* What is not there is answered before the group is asked, whoever asks; where nothing else is asked, the group is not.
 */
START_TEST(what_is_not_there)
{
    struct classic_client a = {.label = "a"};

    begin();
    enter(&a);
    ck_assert_int_eq(commit("g", "missing", "nobody", 7, 8), err_wire(ERR_UNKNOWN_TOPIC_OR_PARTITION));
    ck_assert_int_eq(offset_commit_as(&world, "g", "t", 99, "nobody", 7, 8), err_wire(ERR_UNKNOWN_TOPIC_OR_PARTITION));
    ck_assert_int_eq(offset_commit_as(&world, "g", "t", -1, a.id, 7, 8), err_wire(ERR_UNKNOWN_TOPIC_OR_PARTITION));
    ck_assert_int_eq(commit("none", "missing", "nobody", 7, 9), err_wire(ERR_UNKNOWN_TOPIC_OR_PARTITION));
    world_close(&world);
}
END_TEST

/* In a group of the consumer protocol a member may still commit under an earlier epoch what it had then, from the very
 * epoch on in which it was given, and nothing else: not before that, not what it has given back, not what is new. */
START_TEST(what_an_earlier_epoch_may_commit)
{
    int32_t epoch = 0;
    int32_t given = 0;

    begin();
    world.settings.consumer_assignment_interval_ms = 0;
    given = beat_epoch(JOIN(&world, "a", "t"));
    ck_assert_int_eq(commit("g", "t", "a", given, 9), 0);
    (void)JOIN(&world, "b", "t"); /* partition 1 is to be given back */
    (void)BEAT(&world, "a", given, .owned = "1:0,1");
    epoch = beat_epoch(BEAT(&world, "a", given, .owned = "1:0"));
    ck_assert_int_gt(epoch, given);
    ck_assert_int_eq(commit("g", "t", "a", epoch, 9), 0);
    ck_assert_int_eq(commit("g", "t", "a", given, 9), 0);
    ck_assert_int_eq(commit("g", "t", "a", given - 1, 9), err_wire(ERR_STALE_MEMBER_EPOCH));
    ck_assert_int_eq(offset_commit_as(&world, "g", "t", 1, "a", given, 9), err_wire(ERR_STALE_MEMBER_EPOCH));
    ck_assert_int_eq(commit("g", "t", "a", epoch + 1, 9), err_wire(ERR_STALE_MEMBER_EPOCH));
    world_close(&world);
}
END_TEST

/* What fits the batch to the byte is taken, and what is a byte larger is not. */
START_TEST(a_batch_to_the_byte)
{
    size_t room = 1;

    begin();
    for (; world.record_count == 0; room++) {
        world.batch_room = room;
        (void)offset_commit(&world, "g", "t", 0);
    }
    ck_assert_uint_eq(world.batch_used, world.batch_room);
    world_close(&world);
}
END_TEST

RUN_TESTS("offsets_members", a_batch_to_the_byte, what_an_earlier_epoch_may_commit, what_is_not_there, who_may_commit,
          what_may_be_deleted, what_may_be_deleted_in_a_rebalance, what_may_be_deleted_when_one_has_left,
          what_may_be_deleted_before_the_first_generation, age_in_a_group_with_members)
