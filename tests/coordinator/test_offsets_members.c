/* Rule: who may commit, delete and keep offsets in a group with members is decided by its state, its generation and its
 * subscriptions (groups.md 4; KIP-211, KIP-496). */
#include <check.h>
#include <string.h>

#include "coordinator/classic_client.h"
#include "coordinator/consumer_beats.h"
#include "coordinator/group_world.h"
#include "partition/run_tests.h"
#include "protocol/gen/delete_groups.h"
#include "protocol/gen/join_group.h"
#include "protocol/gen/offset_commit.h"
#include "protocol/gen/offset_delete.h"

enum { DAY_MS = 24 * 3600 * 1000, REQUESTS_MAX = 64 };

/* A subscription to topic "t", as consumers encode it. */
static const uint8_t subscription[] = {0, 0, 0, 0, 0, 1, 0, 1, 't', 255, 255, 255, 255};

static struct group_world world;
static struct {
    struct offset_commit_request request;
    struct offset_commit_request_topic topic;
    struct offset_commit_request_partition part;
} commits[REQUESTS_MAX];
static uint32_t commit_count;

/* A member alone in the group, Stable, its leader. */
static void enter(struct classic_client *client)
{
    static struct join_group_request request;
    static struct join_group_request_protocol protocol;
    struct world_call *call = NULL;

    join_group_request_init(&request);
    join_group_request_protocol_init(&protocol);
    protocol.name = BYTES_LITERAL("range");
    protocol.metadata = bytes_of(subscription, sizeof(subscription));
    request.group_id = BYTES_LITERAL("g");
    request.session_timeout_ms = 1800000;
    request.rebalance_timeout_ms = 30000;
    request.protocol_type = BYTES_LITERAL("consumer");
    request.protocols = &protocol;
    request.protocols_count = 1;
    call = world_ask(&world, client->label, ASK_JOIN_GROUP, 3, "g", &request);
    world_advance(&world, 3000);
    client_learn(client, call);
    (void)client_sync(&world, client, &(struct classic_share){client, "all"}, 1);
}

static int commit_at(const char *group, const char *topic, int32_t partition, const char *member, int32_t generation,
                     int16_t version)
{
    struct world_call *call = NULL;

    ck_assert_uint_lt(commit_count, REQUESTS_MAX);
    offset_commit_request_init(&commits[commit_count].request);
    offset_commit_request_topic_init(&commits[commit_count].topic);
    offset_commit_request_partition_init(&commits[commit_count].part);
    commits[commit_count].part.partition_index = partition;
    commits[commit_count].part.committed_offset = 7;
    commits[commit_count].part.committed_metadata = BYTES_LITERAL("");
    commits[commit_count].topic.name = bytes_of_text(topic);
    commits[commit_count].topic.partitions = &commits[commit_count].part;
    commits[commit_count].topic.partitions_count = 1;
    commits[commit_count].request.topics = &commits[commit_count].topic;
    commits[commit_count].request.topics_count = 1;
    commits[commit_count].request.member_id = bytes_of_text(member);
    commits[commit_count].request.generation_id_or_member_epoch = generation;
    call = world_ask(&world, "c", ASK_OFFSET_COMMIT, version, group, &commits[commit_count].request);
    commit_count++;
    ck_assert_int_eq(call->op.op.err, ERR_OK);
    return ((const struct offset_commit_response *)call->response)->topics[0].partitions[0].error_code;
}

static int commit(const char *group, const char *topic, const char *member, int32_t generation, int16_t version)
{
    return commit_at(group, topic, 0, member, generation, version);
}

static int delete_offset(const char *topic)
{
    static struct offset_delete_request request;
    static struct offset_delete_request_topic one;
    static struct offset_delete_request_partition part;
    const struct offset_delete_response *out = NULL;

    offset_delete_request_init(&request);
    offset_delete_request_topic_init(&one);
    one.name = bytes_of_text(topic);
    one.partitions = &part;
    one.partitions_count = 1;
    request.topics = &one;
    request.topics_count = 1;
    out = world_ask(&world, "d", ASK_OFFSET_DELETE, 0, "g", &request)->response;
    return out->error_code != 0 ? out->error_code : out->topics[0].partitions[0].error_code;
}

static int delete_group(void)
{
    return ((const struct deletable_group_result *)world_ask(&world, "d", ASK_DELETE_GROUP, 2, "g", NULL)->response)
        ->error_code;
}

static void begin(void)
{
    world_open(&world);
    world.quiet = true;
    commit_count = 0;
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
    ck_assert_int_eq(commit("g", "t", "", -1, 8), 25);
    ck_assert_int_eq(commit("g", "t", a.id, a.generation + 1, 8), 22);
    ck_assert_int_eq(commit("g", "t", a.id, a.generation - 1, 8), 22);
    ck_assert_int_eq(commit("g", "t", "nobody", a.generation, 8), 25);
    ck_assert_uint_eq(world.record_count, records);
    (void)client_leave(&world, &a, 0);
    ck_assert_int_eq(commit("g", "t", a.id, a.generation, 8), 25);
    ck_assert_int_eq(commit("g", "t", "", -1, 8), 0);
    world_close(&world);
}
END_TEST

START_TEST(what_may_be_deleted)
{
    struct classic_client a = {.label = "a"};

    begin();
    enter(&a);
    ck_assert_int_eq(commit("g", "t", a.id, a.generation, 8), 0);
    ck_assert_int_eq(commit("g", "u", a.id, a.generation, 8), 0);
    ck_assert_int_eq(delete_offset("t"), 86);
    ck_assert_int_eq(delete_offset("u"), 0);
    ck_assert_int_eq(delete_group(), 68);
    (void)client_leave(&world, &a, 0);
    ck_assert_int_eq(delete_offset("t"), 0);
    ck_assert_int_eq(commit("g", "t", "", -1, 8), 0);
    ck_assert_int_eq(delete_group(), 0);
    ck_assert_uint_eq(groups_count(world.groups), 0);
    world_restart(&world);
    ck_assert_uint_eq(groups_count(world.groups), 0);
    ck_assert_int_eq(delete_group(), 69);
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
    enter(&a);
    ck_assert_int_eq(commit("g", "t", a.id, a.generation, 8), 0);
    ck_assert_int_eq(commit("g", "u", a.id, a.generation, 8), 0);
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
    ck_assert_int_eq(commit_at("g", "t", 1, "a", given, 9), err_wire(ERR_STALE_MEMBER_EPOCH));
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
        (void)commit("g", "t", "", -1, 8);
        commit_count = 0;
    }
    ck_assert_uint_eq(world.batch_used, world.batch_room);
    world_close(&world);
}
END_TEST

RUN_TESTS("offsets_members", a_batch_to_the_byte, what_an_earlier_epoch_may_commit, who_may_commit, what_may_be_deleted,
          age_in_a_group_with_members)
