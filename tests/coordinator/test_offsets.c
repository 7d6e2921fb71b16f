/* Rule: what is committed is what is fetched, after a restart too; each refusal is Apache Kafka's (groups.md 4).
 *
 * Sources: coordinator/offsets_commit.c, coordinator/offsets_fetch.c, coordinator/offsets_store.c */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "coordinator/group_list.h"
#include "coordinator/group_world.h"
#include "coordinator/offset_asks.h"
#include "partition/run_tests.h"
#include "protocol/gen/list_groups.h"
#include "protocol/gen/offset_commit.h"
#include "protocol/gen/offset_delete.h"
#include "protocol/gen/offset_fetch.h"
#include "protocol/gen/txn_offset_commit.h"

enum { PARTS_MAX = 8, COMMIT_VERSION = 9, FETCH_VERSION = 9, DAY_MS = 24 * 3600 * 1000 };

static struct group_world world;

/* A commit of up to PARTS_MAX partitions of one topic, which lives as long as its question. */
struct commit {
    struct offset_commit_request request;
    struct offset_commit_request_topic topic;
    struct offset_commit_request_partition parts[PARTS_MAX];
};

static struct commit *commit_of(const char *topic)
{
    static struct commit commits[64];
    static uint32_t used;
    struct commit *made = &commits[used++ % 64];

    memset(made, 0, sizeof(*made));
    offset_commit_request_init(&made->request);
    offset_commit_request_topic_init(&made->topic);
    made->topic.name = bytes_of_text(topic);
    made->topic.partitions = made->parts;
    made->request.topics = &made->topic;
    made->request.topics_count = 1;
    return made;
}

static struct offset_commit_request_partition *commit_add(struct commit *commit, int32_t partition, int64_t offset)
{
    struct offset_commit_request_partition *at = &commit->parts[commit->topic.partitions_count++];

    offset_commit_request_partition_init(at);
    at->partition_index = partition;
    at->committed_offset = offset;
    at->committed_metadata = BYTES_LITERAL("");
    return at;
}

static void commit_one(const char *group, const char *topic, int32_t partition, int64_t offset)
{
    struct commit *commit = commit_of(topic);

    (void)commit_add(commit, partition, offset);
    (void)world_ask(&world, "c", ASK_OFFSET_COMMIT, COMMIT_VERSION, group, &commit->request);
}

static void txn_commit_one(int64_t producer_id, const char *group, int32_t partition, int64_t offset)
{
    static struct txn_offset_commit_request request;
    static struct txn_offset_commit_request_topic topic;
    static struct txn_offset_commit_request_partition part;

    txn_offset_commit_request_init(&request);
    txn_offset_commit_request_topic_init(&topic);
    txn_offset_commit_request_partition_init(&part);
    request.transactional_id = BYTES_LITERAL("x");
    request.producer_id = producer_id;
    topic.name = BYTES_LITERAL("t");
    part.partition_index = partition;
    part.committed_offset = offset;
    topic.partitions = &part;
    topic.partitions_count = 1;
    request.topics = &topic;
    request.topics_count = 1;
    (void)world_ask(&world, "x", ASK_TXN_OFFSET_COMMIT, 5, group, &request);
}

/* topic NULL: all. */
static struct world_call *fetch(const char *group, int16_t version, const char *topic, int32_t partition)
{
    static struct offset_fetch_request_group request;
    static struct offset_fetch_request_topics one;
    static int32_t partitions[1];

    offset_fetch_request_group_init(&request);
    offset_fetch_request_topics_init(&one);
    request.group_id = bytes_of_text(group);
    partitions[0] = partition;
    one.name = bytes_of_text(topic);
    one.partition_indexes = partitions;
    one.partition_indexes_count = 1;
    request.topics = topic == NULL ? NULL : &one;
    request.topics_count = topic == NULL ? 0 : 1;
    return world_ask(&world, "f", ASK_OFFSET_FETCH, version, group, &request);
}

static void fetch_stable(const char *group, const char *topic, int32_t partition)
{
    static struct offset_fetch_request_group request;
    static struct offset_fetch_request_topics one;
    static int32_t partitions[1];

    offset_fetch_request_group_init(&request);
    offset_fetch_request_topics_init(&one);
    partitions[0] = partition;
    one.name = bytes_of_text(topic);
    one.partition_indexes = partitions;
    one.partition_indexes_count = 1;
    request.topics = &one;
    request.topics_count = 1;
    world.require_stable = true;
    (void)world_ask(&world, "stable", ASK_OFFSET_FETCH, FETCH_VERSION, group, &request);
    world.require_stable = false;
}

START_TEST(committed_fetched_and_kept)
{
    struct commit *commit = commit_of("t");

    world_open(&world);
    world_topic(&world, "t", 3);
    world_say(&world, "a consumer outside group management: a group of offsets alone appears");
    commit_add(commit, 0, 10)->committed_leader_epoch = 3;
    commit_add(commit, 2, 7)->committed_metadata = BYTES_LITERAL("where I am");
    (void)world_ask(&world, "c", ASK_OFFSET_COMMIT, COMMIT_VERSION, "g", &commit->request);
    (void)fetch("g", FETCH_VERSION, "t", 0);
    (void)fetch("g", FETCH_VERSION, "t", 1);
    (void)fetch("g", FETCH_VERSION, NULL, 0);
    world_say(&world, "the later one counts, and the leader epoch is the one committed with it, or none");
    commit_one("g", "t", 0, 4);
    (void)fetch("g", 5, "t", 0);
    world_restart(&world);
    (void)fetch("g", FETCH_VERSION, NULL, 0);
    world_say(&world, "null metadata is empty");
    commit = commit_of("t");
    commit_add(commit, 1, 1)->committed_metadata = (struct bytes){0};
    (void)world_ask(&world, "c", ASK_OFFSET_COMMIT, COMMIT_VERSION, "g", &commit->request);
    (void)fetch("g", FETCH_VERSION, "t", 1);
    transcript_expect(&world.said, "offsets_kept");
    world_close(&world);
}
END_TEST

START_TEST(all_none_and_unknown)
{
    static struct offset_fetch_request_group none = {.topics = (void *)(uintptr_t)&none};
    static struct offset_commit_request nothing;

    world_open(&world);
    world_topic(&world, "t", 2);
    commit_one("g", "t", 0, 5);
    world_say(&world, "null: all; an empty list: nothing; an unknown group: empty, and no error");
    (void)fetch("g", 2, NULL, 0);
    (void)world_ask(&world, "f", ASK_OFFSET_FETCH, FETCH_VERSION, "g", &none);
    (void)fetch("h", 2, NULL, 0);
    (void)fetch("h", FETCH_VERSION, "t", 0);
    (void)fetch("g", FETCH_VERSION, "unknown", 0);
    (void)fetch("g", FETCH_VERSION, "t", -1);
    world_say(&world, "a commit of nothing makes no group");
    offset_commit_request_init(&nothing);
    (void)world_ask(&world, "c", ASK_OFFSET_COMMIT, COMMIT_VERSION, "h", &nothing);
    ck_assert_uint_eq(groups_count(world.groups), 1);
    transcript_expect(&world.said, "offsets_all");
    world_close(&world);
}
END_TEST

START_TEST(refused)
{
    static char long_text[4097];
    static struct offset_commit_request request;
    static struct offset_commit_request_topic topics[2];
    static struct offset_commit_request_partition known[4];
    static struct offset_commit_request_partition other;
    struct commit *commit = commit_of("t");

    world_open(&world);
    world_topic(&world, "t", 2);
    world_say(&world, "each for itself: partitions and topics that do not exist, metadata of 4097 characters");
    offset_commit_request_init(&request);
    offset_commit_request_topic_init(&topics[0]);
    offset_commit_request_topic_init(&topics[1]);
    for (int32_t i = 0; i < 4; i++) {
        offset_commit_request_partition_init(&known[i]);
        known[i].partition_index = i;
        known[i].committed_offset = 100 + i;
        known[i].committed_metadata = BYTES_LITERAL("");
    }
    known[3].partition_index = -1;
    memset(long_text, 'm', sizeof(long_text));
    known[1].committed_metadata = bytes_of(long_text, 4097);
    offset_commit_request_partition_init(&other);
    topics[0].name = BYTES_LITERAL("t");
    topics[0].partitions = known;
    topics[0].partitions_count = 4;
    topics[1].name = BYTES_LITERAL("unknown");
    topics[1].partitions = &other;
    topics[1].partitions_count = 1;
    request.topics = topics;
    request.topics_count = 2;
    world.quiet = true; /* 4097 characters are no pleasure to read */
    (void)world_ask(&world, "c", ASK_OFFSET_COMMIT, COMMIT_VERSION, "g", &request);
    world.quiet = false;
    {
        const struct offset_commit_response *out = world.calls[world.call_count - 1]->response;
        const struct offset_commit_response_partition *of = out->topics[0].partitions;

        ck_assert_int_eq(of[0].error_code, 0);
        ck_assert_int_eq(of[1].error_code, 12);
        ck_assert_int_eq(of[2].error_code, 3);
        ck_assert_int_eq(of[3].error_code, 3);
        ck_assert_int_eq(out->topics[1].partitions[0].error_code, 3);
        ck_assert_uint_eq(world.record_count, 1);
    }
    world_say(&world, "a generation of a group that does not exist: 22, and 69 where the version knows it");
    (void)commit_add(commit, 0, 1);
    commit->request.generation_id_or_member_epoch = 4;
    commit->request.member_id = BYTES_LITERAL("m");
    (void)world_ask(&world, "c", ASK_OFFSET_COMMIT, 8, "other", &commit->request);
    (void)world_ask(&world, "c", ASK_OFFSET_COMMIT, 9, "other", &commit->request);
    world_say(&world, "a member of a group that has none");
    (void)world_ask(&world, "c", ASK_OFFSET_COMMIT, 9, "g", &commit->request);
    transcript_expect(&world.said, "offsets_refused");
    world_close(&world);
}
END_TEST

/* Characters are UTF-16 units: 4096 of two bytes each fit, 2049 outside the basic plane do not. */
START_TEST(metadata_is_counted_in_characters)
{
    static char two[4096 * 2];
    static char four[2049 * 4];
    struct commit *commit = commit_of("t");
    const struct offset_commit_response *out = NULL;

    for (size_t i = 0; i < 4096; i++)
        memcpy(&two[i * 2], "\xc3\xa4", 2);
    for (size_t i = 0; i < 2049; i++)
        memcpy(&four[i * 4], "\xf0\x9f\x98\x80", 4);
    world_open(&world);
    world.quiet = true;
    world_topic(&world, "t", 3);
    commit_add(commit, 0, 1)->committed_metadata = bytes_of(two, sizeof(two));
    commit_add(commit, 1, 1)->committed_metadata = bytes_of(four, sizeof(four));
    commit_add(commit, 2, 1)->committed_metadata = bytes_of(four, sizeof(four) - 4);
    out = world_ask(&world, "c", ASK_OFFSET_COMMIT, COMMIT_VERSION, "g", &commit->request)->response;
    ck_assert_int_eq(out->topics[0].partitions[0].error_code, 0);
    ck_assert_int_eq(out->topics[0].partitions[1].error_code, 12);
    ck_assert_int_eq(out->topics[0].partitions[2].error_code, 0);
    world_close(&world);
}
END_TEST

START_TEST(a_commit_over_the_batch)
{
    struct commit *commit = commit_of("t");

    world_open(&world);
    world_topic(&world, "t", 3);
    world.batch_room = 150;
    world_say(&world, "what is too large for one batch is refused whole; what fits goes on");
    (void)commit_add(commit, 0, 1);
    (void)commit_add(commit, 1, 1);
    (void)world_ask(&world, "c", ASK_OFFSET_COMMIT, COMMIT_VERSION, "g", &commit->request);
    commit_one("g", "t", 0, 1);
    transcript_expect(&world.said, "offsets_too_large");
    world_close(&world);
}
END_TEST

/* Rule: a commit of more topics and partitions than any batch of that size could hold is not looked through: it is
 * refused whole, for its member first. With as many as could be held, or few of them, each partition is answered for
 * itself. */
START_TEST(a_commit_of_too_many)
{
    enum { FEW = 4096, MANY = 5000 };

    static const struct {
        uint32_t entries;
        uint32_t batch; /* that many have room in it */
        bool taken;
    } cases[] = {
        {FEW, 1, true}, {FEW + 1, FEW, false}, {FEW + 1, FEW + 1, true}, {MANY, MANY, true}, {MANY + 1, MANY, false}};
    static struct offset_commit_request_partition parts[MANY];

    world_open(&world);
    world.quiet = true;
    world_topic(&world, "t", 1);
    for (uint32_t i = 0; i < MANY; i++) {
        offset_commit_request_partition_init(&parts[i]);
        parts[i].partition_index = 1 + (int32_t)i; /* there is none */
        parts[i].committed_metadata = BYTES_LITERAL("");
    }
    for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct commit *commit = commit_of("t");
        struct world_call *call = NULL;

        commit->topic.partitions = parts;
        commit->topic.partitions_count = cases[i].entries - 1; /* the topic counts, too */
        world.batch_room = (cases[i].batch + 1) * (size_t)STEP_RECORD_FRAME_BYTES - 1;
        call = world_ask(&world, "c", ASK_OFFSET_COMMIT, COMMIT_VERSION, "g", &commit->request);
        ck_assert_int_eq(call->op.op.err, cases[i].taken ? ERR_OK : ERR_UNKNOWN_SERVER_ERROR);
        if (cases[i].taken) {
            const struct offset_commit_response *out = call->response;

            ck_assert_int_eq(out->topics[0].partitions[cases[i].entries - 2].error_code, 3);
        }
        commit->request.generation_id_or_member_epoch = 4;
        commit->request.member_id = BYTES_LITERAL("m");
        call = world_ask(&world, "c", ASK_OFFSET_COMMIT, 8, "other", &commit->request);
        ck_assert_int_eq(call->op.op.err, cases[i].taken ? ERR_OK : ERR_ILLEGAL_GENERATION);
    }
    ck_assert_uint_eq(world.record_count, 0);
    world_close(&world);
}
END_TEST

/* Rule: a commit is refused whole, or fits its batch whole, however near it is: a step that fails takes everybody's
 * state with it. The world fails where a step does not fit. */
START_TEST(a_commit_about_as_large_as_the_batch)
{
    enum { PARTS = 8, ROOM_MIN = 700, ROOM_MAX = 1000 };
    uint32_t refusals = 0;
    uint32_t commits = 0;

    world_open(&world);
    world.quiet = true;
    world_topic(&world, "t", PARTS);
    for (size_t room = ROOM_MIN; room < ROOM_MAX; room++) {
        struct commit *commit = commit_of("t");
        uint32_t before = world.record_count;
        const struct offset_commit_response *out = NULL;

        world.batch_room = room;
        for (int32_t i = 0; i < PARTS; i++)
            (void)commit_add(commit, i, 1);
        out = world_ask(&world, "c", ASK_OFFSET_COMMIT, COMMIT_VERSION, "g", &commit->request)->response;
        if (out->topics[0].partitions[0].error_code == 0)
            commits++;
        else
            refusals++;
        ck_assert_uint_eq(world.record_count - before, out->topics[0].partitions[0].error_code == 0 ? PARTS : 0);
    }
    ck_assert_uint_gt(refusals, 0);
    ck_assert_uint_gt(commits, 0);
    world_close(&world);
}
END_TEST

START_TEST(by_topic_id)
{
    struct commit *commit = commit_of("");
    struct offset_fetch_request_topics topic;
    struct offset_fetch_request_group request;
    int32_t partition = 0;

    world_open(&world);
    world_topic(&world, "t", 1);
    (void)commit_add(commit, 0, 5);
    commit->topic.topic_id = test_uuid(1);
    (void)world_ask(&world, "c", ASK_OFFSET_COMMIT, 10, "g", &commit->request);
    offset_fetch_request_group_init(&request);
    offset_fetch_request_topics_init(&topic);
    topic.topic_id = test_uuid(1);
    topic.partition_indexes = &partition;
    topic.partition_indexes_count = 1;
    request.topics = &topic;
    request.topics_count = 1;
    (void)world_ask(&world, "f", ASK_OFFSET_FETCH, 10, "g", &request);
    world_say(&world, "an unknown id is refused, partition by partition");
    commit->topic.topic_id = topic.topic_id = test_uuid(9);
    (void)world_ask(&world, "c", ASK_OFFSET_COMMIT, 10, "g", &commit->request);
    (void)world_ask(&world, "f", ASK_OFFSET_FETCH, 10, "g", &request);
    world_say(&world, "the topic is made anew while no coordinator looks: what stands is not for the new one");
    world.table[0].id = test_uuid(7);
    (void)fetch("g", FETCH_VERSION, "t", 0);
    (void)fetch("g", 10, NULL, 0);
    commit_one("g", "t", 0, 1);
    (void)fetch("g", FETCH_VERSION, "t", 0);
    world_restart(&world);
    (void)fetch("g", 10, NULL, 0);
    transcript_expect(&world.said, "offsets_topic_id");
    world_close(&world);
}
END_TEST

START_TEST(deleted_topics_and_offsets)
{
    world_open(&world);
    world_topic(&world, "t", 2);
    world_topic(&world, "u", 2);
    commit_one("g", "t", 0, 1);
    commit_one("g", "t", 1, 2);
    commit_one("g", "u", 0, 3);
    commit_one("h", "t", 1, 4);
    world_say(&world,
              "OffsetDelete: one that is, one that is not; a partition that the topic does not have; an unknown "
              "topic; an unknown group");
    (void)offset_delete(&world, "g", "t", 0);
    (void)offset_delete(&world, "g", "u", 1);
    (void)offset_delete(&world, "g", "t", 2);
    (void)offset_delete(&world, "g", "t", -1);
    (void)offset_delete(&world, "g", "unknown", 0);
    (void)offset_delete(&world, "nobody", "t", 0);
    world_say(&world, "a topic goes, and with it what was committed, in every group");
    world_topic(&world, "t", 0);
    world_advance(&world, 0);
    (void)fetch("g", FETCH_VERSION, NULL, 0);
    (void)fetch("h", FETCH_VERSION, NULL, 0);
    world_say(&world, "DeleteGroups");
    (void)world_ask(&world, "d", ASK_DELETE_GROUP, 2, "g", NULL);
    (void)world_ask(&world, "d", ASK_DELETE_GROUP, 2, "g", NULL);
    world_restart(&world);
    (void)fetch("g", FETCH_VERSION, NULL, 0);
    transcript_expect(&world.said, "offsets_deleted");
    world_close(&world);
}
END_TEST

/* What does not fit into one batch goes on in the next steps; the answer comes when all is gone. */
START_TEST(deletions_in_parts)
{
    struct world_call *call = NULL;

    world_open(&world);
    world.quiet = true;
    world_topic(&world, "t", 100);
    world_topic(&world, "u", 100);
    for (int32_t i = 0; i < 100; i++) {
        commit_one("g", "t", i, i);
        commit_one("g", "u", i, i);
    }
    world.batch_room = 500;
    world_topic(&world, "t", 0);
    ck_assert_uint_lt(world.record_count, 300);
    world_advance(&world, 1000);
    ck_assert_uint_eq(world.record_count, 300);
    call = world_ask(&world, "d", ASK_DELETE_GROUP, 2, "g", NULL);
    ck_assert(!call->answered);
    world_advance(&world, 1000);
    ck_assert(call->answered);
    ck_assert_uint_eq(world.record_count, 401); /* with the group's own */
    ck_assert_uint_eq(groups_count(world.groups), 0);
    world_close(&world);
}
END_TEST

/* Rule: what a transaction holds pending for a topic is not taken away with an older one of that name, whose offsets
 * are still going piece by piece. */
START_TEST(a_topic_is_back_in_a_transaction)
{
    const struct offset_fetch_response_group *out = NULL;

    world_open(&world);
    world.quiet = true;
    world_topic(&world, "t", 20);
    for (int32_t i = 0; i < 20; i++)
        commit_one("g", "t", i, 5);
    world.batch_room = 500;
    world_topic(&world, "t", 0);
    world_topic(&world, "t", 20);
    txn_commit_one(77, "g", 0, 9);
    world_advance(&world, 1000);
    world_marker(&world, 77, true);
    out = fetch("g", FETCH_VERSION, NULL, 0)->response;
    ck_assert_uint_eq(out->topics_count, 1);
    ck_assert_uint_eq(out->topics[0].partitions_count, 1);
    ck_assert_int_eq(out->topics[0].partitions[0].committed_offset, 9);
    world_close(&world);
}
END_TEST

/* One that is under way when the coordinator goes is answered too. */
START_TEST(a_deletion_and_the_end)
{
    struct world_call *call = NULL;

    world_open(&world);
    world.quiet = true;
    world_topic(&world, "t", 100);
    for (int32_t i = 0; i < 100; i++)
        commit_one("g", "t", i, i);
    world.batch_room = 500;
    call = world_ask(&world, "d", ASK_DELETE_GROUP, 2, "g", NULL);
    ck_assert(!call->answered);
    world_restart(&world);
    ck_assert(call->answered);
    ck_assert_int_eq(call->op.op.err, ERR_NOT_COORDINATOR);
    ck_assert_uint_eq(groups_count(world.groups), 1);
    world_close(&world);
}
END_TEST

static void expect_groups(uint32_t count)
{
    ck_assert_uint_eq(groups_count(world.groups), count);
    world_restart(&world);
    ck_assert_uint_eq(groups_count(world.groups), count);
}

/* Rule: a group of offsets alone that was deleted, or whose offsets grew old, is gone behind a restart too; one of
 * which the last offset was deleted by itself stays until the next look, behind a restart too (as Apache Kafka's). */
START_TEST(gone_behind_a_restart)
{
    world_open(&world);
    world.quiet = true;
    world_topic(&world, "t", 2);
    world.settings.offsets_retention_ms = DAY_MS;
    commit_one("g", "t", 0, 1);
    (void)world_ask(&world, "d", ASK_DELETE_GROUP, 2, "g", NULL);
    expect_groups(0);
    commit_one("h", "t", 0, 1);
    (void)offset_delete(&world, "h", "t", 0);
    expect_groups(1);
    world_advance(&world, world.settings.offsets_check_ms);
    expect_groups(0);
    commit_one("i", "t", 0, 1);
    world_advance(&world, 2 * DAY_MS);
    expect_groups(0);
    commit_one("g", "t", 1, 1);
    expect_groups(1); /* what came after its tombstone stands */
    world_close(&world);
}
END_TEST

/* Rule: a group's tombstone takes nothing of what a transaction that goes on holds for it. */
START_TEST(a_tombstone_and_a_transaction)
{
    static const uint8_t key[] = {0, 2, 0, 1, 'g'};
    const struct offset_fetch_response_group *out = NULL;

    world_open(&world);
    world.quiet = true;
    world_topic(&world, "t", 1);
    txn_commit_one(77, "g", 0, 5);
    ck_assert_int_eq(groups_replay(world.groups, -1, bytes_of(key, sizeof(key)), (struct bytes){0}), ERR_OK);
    world_marker(&world, 77, true);
    out = fetch("g", FETCH_VERSION, "t", 0)->response;
    ck_assert_int_eq(out->topics[0].partitions[0].committed_offset, 5);
    world_close(&world);
}
END_TEST

START_TEST(transactions)
{
    world_open(&world);
    world_topic(&world, "t", 3);
    commit_one("g", "t", 0, 1);
    world_say(&world, "pending: not to be seen, and unstable for who asks");
    txn_commit_one(77, "g", 0, 5);
    txn_commit_one(77, "g", 1, 6);
    (void)fetch("g", FETCH_VERSION, NULL, 0);
    fetch_stable("g", "t", 0);
    fetch_stable("g", "t", 1);
    fetch_stable("g", "t", 2);
    world_restart(&world);
    fetch_stable("g", "t", 1);
    world_marker(&world, 77, true);
    fetch_stable("g", "t", 0);
    (void)fetch("g", FETCH_VERSION, NULL, 0);
    world_say(&world, "an abort leaves what was");
    txn_commit_one(77, "g", 0, 9);
    world_marker(&world, 77, false);
    (void)fetch("g", FETCH_VERSION, NULL, 0);
    world_say(&world, "a commit outside that came later than the transaction's stays");
    txn_commit_one(77, "g", 0, 20);
    commit_one("g", "t", 0, 21);
    world_marker(&world, 77, true);
    (void)fetch("g", FETCH_VERSION, "t", 0);
    world_say(&world, "two producers, the same partition; one commits twice");
    txn_commit_one(78, "g", 2, 30);
    txn_commit_one(79, "g", 2, 31);
    txn_commit_one(78, "g", 2, 32);
    world_marker(&world, 79, true);
    (void)fetch("g", FETCH_VERSION, "t", 2);
    world_marker(&world, 78, true);
    (void)fetch("g", FETCH_VERSION, "t", 2);
    world_restart(&world);
    (void)fetch("g", FETCH_VERSION, NULL, 0);
    world_say(&world, "a tombstone takes what is pending too; a marker for nothing does nothing");
    txn_commit_one(78, "g", 2, 40);
    (void)offset_delete(&world, "g", "t", 2);
    world_marker(&world, 78, true);
    world_marker(&world, 1234, true);
    (void)fetch("g", FETCH_VERSION, "t", 2);
    world_say(&world, "a group that has pending offsets alone, and an abort");
    txn_commit_one(78, "new", 0, 1);
    world_marker(&world, 78, false);
    transcript_expect(&world.said, "offsets_transactions");
    world_close(&world);
}
END_TEST

/* An abort takes what was pending, and leaves the group, Empty: Apache Kafka 4.4 lists a group of which it has nothing
 * but a TxnOffsetCommit and its abort marker, behind a restart, too, until its next look at what has expired
 * (offsets.retention.check.interval.ms), which writes a tombstone of the group. */
START_TEST(an_abort_leaves_the_group)
{
    world_open(&world);
    world.quiet = true;
    world_topic(&world, "t", 1);
    txn_commit_one(78, "new", 0, 1);
    ck_assert_uint_eq(groups_count(world.groups), 1);
    world_marker(&world, 78, false);
    for (int i = 0; i < 2; i++) {
        struct list_groups_request request;
        const struct group_list_reply *list = NULL;

        list_groups_request_init(&request);
        list = world_ask(&world, "l", ASK_LIST_GROUPS, 5, "", &request)->response;
        ck_assert(list->first != NULL && list->first->count == 1 && list->first->next == NULL);
        ck_assert(bytes_equal(list->first->groups[0].group_state, BYTES_LITERAL("Empty")));
        world_restart(&world);
    }
    world_advance(&world, world.settings.offsets_check_ms);
    expect_groups(0);
    txn_commit_one(78, "new", 0, 1);
    world_marker(&world, 78, true);
    expect_groups(1);
    world_close(&world);
}
END_TEST

START_TEST(transactions_refused)
{
    static struct txn_offset_commit_request request;

    world_open(&world);
    world_topic(&world, "t", 1);
    txn_offset_commit_request_init(&request);
    request.producer_id = 5;
    world_say(&world, "zero offsets are nothing at all");
    (void)world_ask(&world, "x", ASK_TXN_OFFSET_COMMIT, 3, "g", &request);
    world_say(&world, "an unknown partition");
    txn_commit_one(5, "g", 7, 1);
    ck_assert_uint_eq(groups_count(world.groups), 0);
    transcript_expect(&world.said, "offsets_transactions_refused");
    world_close(&world);
}
END_TEST

START_TEST(age)
{
    struct commit *commit = commit_of("t");

    world_open(&world);
    world_topic(&world, "t", 4);
    world.settings.offsets_retention_ms = (int64_t)DAY_MS * 100; /* over 2^31 ms */
    world_say(&world, "a group of offsets alone: from each commit on; not a moment before, and not while a transaction "
                      "holds one");
    commit_one("g", "t", 0, 1);
    txn_commit_one(5, "g", 0, 2);
    world_advance(&world, (int64_t)DAY_MS * 50);
    commit_one("g", "t", 1, 1);
    world_advance(&world, (int64_t)DAY_MS * 51);
    (void)fetch("g", FETCH_VERSION, NULL, 0);
    world_marker(&world, 5, false);
    world_advance(&world, DAY_MS);
    (void)fetch("g", FETCH_VERSION, NULL, 0);
    world_say(&world, "the last goes, and the group with it");
    world_advance(&world, (int64_t)DAY_MS * 49);
    ck_assert_uint_eq(groups_count(world.groups), 0);
    world_say(&world, "a retention of its own (versions 2 to 4); -1 is none");
    (void)commit_add(commit, 2, 1);
    commit->request.retention_time_ms = 1000;
    (void)world_ask(&world, "c", ASK_OFFSET_COMMIT, 4, "g", &commit->request);
    commit->request.retention_time_ms = -1;
    commit->parts[0].partition_index = 3;
    (void)world_ask(&world, "c", ASK_OFFSET_COMMIT, 3, "g", &commit->request);
    world_restart(&world);
    world_advance(&world, 600000);
    (void)fetch("g", FETCH_VERSION, NULL, 0);
    world_say(&world, "the largest there is never ends");
    commit->request.retention_time_ms = INT64_MAX;
    (void)world_ask(&world, "c", ASK_OFFSET_COMMIT, 2, "g", &commit->request);
    world_advance(&world, (int64_t)DAY_MS * 200);
    (void)fetch("g", FETCH_VERSION, NULL, 0);
    transcript_expect(&world.said, "offsets_age");
    world_close(&world);
}
END_TEST

/* Nothing goes by its age while the wall clock is doubted. */
START_TEST(a_doubted_clock)
{
    world_open(&world);
    world.quiet = true;
    world_topic(&world, "t", 1);
    commit_one("g", "t", 0, 1);
    world.clock_doubted = true;
    world.now_ms += (int64_t)DAY_MS * 365;
    world_advance(&world, DAY_MS);
    ck_assert_uint_eq(world.record_count, 1);
    world.clock_doubted = false;
    world_advance(&world, DAY_MS);
    ck_assert_uint_eq(world.record_count, 3); /* the offset's tombstone, and the group's */
    world_close(&world);
}
END_TEST

/* A clock that says nonsense: neither overflow nor expiry of what lies ahead. */
START_TEST(commits_of_strange_times)
{
    world_open(&world);
    world.quiet = true;
    world_topic(&world, "t", 1);
    world.now_ms = INT64_MIN;
    commit_one("g", "t", 0, 1);
    world.now_ms = INT64_MAX / 2;
    world_advance(&world, 600000);
    ck_assert_uint_eq(world.record_count, 1);
    world.now_ms = INT64_MAX - DAY_MS;
    commit_one("h", "t", 0, 1);
    world.now_ms = 0;
    world_advance(&world, 600000);
    ck_assert_uint_eq(world.record_count, 2);
    world_close(&world);
}
END_TEST

/* Replay of any order: tombstones of what is not, offsets before groups, old forms; only a version that is unknown
 * fails. */
START_TEST(replayed)
{
    static const uint8_t legacy_key[] = {0, 0, 0, 1, 'g', 0, 1, 't', 0, 0, 0, 1};
    static const uint8_t legacy_value[] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 0, 1, 'm', 0, 0, 0, 0, 0, 0, 0, 5};
    static const uint8_t key[] = {0, 1, 0, 1, 'g', 0, 1, 't', 0, 0, 0, 0};
    static const uint8_t value_1[] = {0, 1, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0,
                                      0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 9};
    static const uint8_t value_3[] = {0, 3, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 6};
    static const uint8_t unknown_value[] = {0, 5, 0, 0, 0, 0};
    static const uint8_t legacy_unknown[] = {0, 1, 0, 0, 0, 0};
    static const uint8_t unknown_kind[] = {1, 200, 0};
    struct groups *groups = NULL;

    world_open(&world);
    world_topic(&world, "t", 2);
    groups = world.groups;
    ck_assert_int_eq(groups_replay(groups, -1, bytes_of(key, sizeof(key)), (struct bytes){0}), ERR_OK);
    ck_assert_int_eq(groups_replay(groups, 9, bytes_of(legacy_key, sizeof(legacy_key)), (struct bytes){0}), ERR_OK);
    ck_assert_uint_eq(groups_count(groups), 0);
    ck_assert_int_eq(groups_replay(groups, -1, bytes_of(legacy_key, sizeof(legacy_key)),
                                   bytes_of(legacy_value, sizeof(legacy_value))),
                     ERR_OK);
    ck_assert_int_eq(groups_replay(groups, -1, bytes_of(key, sizeof(key)), bytes_of(value_1, sizeof(value_1))), ERR_OK);
    (void)fetch("g", FETCH_VERSION, NULL, 0);
    ck_assert_int_eq(groups_replay(groups, -1, bytes_of(key, sizeof(key)), bytes_of(value_3, sizeof(value_3))), ERR_OK);
    (void)fetch("g", FETCH_VERSION, NULL, 0);
    ck_assert_int_eq(groups_replay(groups, -1, bytes_of(unknown_kind, sizeof(unknown_kind)), (struct bytes){0}),
                     ERR_OK);
    ck_assert_int_eq(
        groups_replay(groups, -1, bytes_of(key, sizeof(key)), bytes_of(unknown_value, sizeof(unknown_value))),
        ERR_UNSUPPORTED_VERSION);
    ck_assert_int_eq(groups_replay(groups, -1, bytes_of(legacy_key, sizeof(legacy_key)),
                                   bytes_of(legacy_unknown, sizeof(legacy_unknown))),
                     ERR_UNSUPPORTED_VERSION);
    for (size_t size = 0; size < sizeof(key); size++)
        ck_assert_int_eq(groups_replay(groups, -1, bytes_of(key, size), (struct bytes){0}), ERR_DAMAGED);
    for (size_t size = 0; size < sizeof(value_3); size++)
        ck_assert_int_eq(groups_replay(groups, -1, bytes_of(key, sizeof(key)), bytes_of(value_3, size)), ERR_DAMAGED);
    (void)fetch("g", FETCH_VERSION, NULL, 0);
    transcript_expect(&world.said, "offsets_replayed");
    world_close(&world);
}
END_TEST

/* A record that cannot be written: nothing of the commit stands, and the answer says to ask again. */
START_TEST(a_failed_write)
{
    world_open(&world);
    world_topic(&world, "t", 2);
    commit_one("g", "t", 0, 1);
    world.fail = ERR_NOMEM;
    commit_one("g", "t", 0, 2);
    (void)fetch("g", FETCH_VERSION, "t", 0);
    transcript_expect(&world.said, "offsets_failed");
    world_close(&world);
}
END_TEST

/* A read shows nothing that might still be lost. */
START_TEST(reads_wait_for_the_commit)
{
    world_open(&world);
    world_topic(&world, "t", 1);
    world.hold = true;
    commit_one("g", "t", 0, 1);
    (void)fetch("g", FETCH_VERSION, "t", 0);
    world_commit(&world);
    world.hold = false;
    transcript_expect(&world.said, "offsets_wait");
    world_close(&world);
}
END_TEST

RUN_TESTS("offsets", committed_fetched_and_kept, all_none_and_unknown, refused, metadata_is_counted_in_characters,
          a_commit_over_the_batch, a_commit_of_too_many, a_commit_about_as_large_as_the_batch, by_topic_id,
          deleted_topics_and_offsets, deletions_in_parts, a_topic_is_back_in_a_transaction, a_deletion_and_the_end,
          gone_behind_a_restart, a_tombstone_and_a_transaction, transactions, an_abort_leaves_the_group,
          transactions_refused, age, a_doubted_clock, commits_of_strange_times, replayed, a_failed_write,
          reads_wait_for_the_commit)
