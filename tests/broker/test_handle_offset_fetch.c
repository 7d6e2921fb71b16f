/* Rule: no question about one group holds up its coordinator's loop. An OffsetFetch that names much is read in pieces,
 * and answered as if it were not; what is decided in one step names a bounded number of things, and is refused beyond.
 */
#include <stdio.h>

#include "../partition/run_tests.h"
#include "broker/broker_internal.h"
#include "node_world.h"
#include "protocol/gen/leave_group.h"
#include "protocol/gen/offset_delete.h"
#include "protocol/gen/offset_fetch.h"
#include "protocol/gen/sync_group.h"

enum {
    PARTITIONS = 3,
    ASKED_MAX = 3 * OFFSET_FETCH_PIECE_ENTRIES,
    TOPICS = 2000,
    EACH = 5,
    NAME_CHARS = 8,
    INVALID_REQUEST = 42,
    UNKNOWN_MEMBER = 25,
};

static struct node_world world;
static int32_t asked[ASKED_MAX];

#define ASK(api, request, version, call)                                                                               \
    node_ask(&world, 0, &api##_request_message, request, &api##_response_message, version, call)

static int64_t offset_of(int32_t partition)
{
    return 10 + partition;
}

static void begin(uint64_t seed)
{
    node_world_begin(&world, seed, 2);
    (void)node_create_topic(&world, "t", PARTITIONS, NULL);
    node_find_coordinator(&world, "g");
    for (int32_t i = 0; i < PARTITIONS; i++)
        while (node_commit(&world, "g", i, offset_of(i)) != 0)
            node_world_pass(&world, 10);
    for (int32_t i = 0; i < ASKED_MAX; i++)
        asked[i] = i % (PARTITIONS + 1); /* one of them does not exist */
}

static void check(const struct offset_fetch_response_partitions *answers, uint32_t count, bool known)
{
    for (uint32_t i = 0; i < count; i++) {
        ck_assert_int_eq(answers[i].partition_index, asked[i]);
        ck_assert_int_eq(answers[i].error_code, 0);
        ck_assert_int_eq(answers[i].committed_offset, known && asked[i] < PARTITIONS ? offset_of(asked[i]) : -1);
    }
}

START_TEST(one_topic_in_pieces)
{
    static const uint32_t counts[] = {OFFSET_FETCH_PIECE_ENTRIES - 2, OFFSET_FETCH_PIECE_ENTRIES - 1,
                                      OFFSET_FETCH_PIECE_ENTRIES, OFFSET_FETCH_PIECE_ENTRIES + 1, ASKED_MAX};

    begin(1);
    for (uint32_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        struct offset_fetch_request request;
        struct offset_fetch_request_group group;
        struct offset_fetch_request_topics topic;
        struct offset_fetch_response *response = NULL;
        struct node_call call;

        offset_fetch_request_init(&request);
        offset_fetch_request_group_init(&group);
        offset_fetch_request_topics_init(&topic);
        group.group_id = BYTES_LITERAL("g");
        topic.name = BYTES_LITERAL("t");
        topic.partition_indexes = asked;
        topic.partition_indexes_count = counts[i];
        group.topics = &topic;
        group.topics_count = 1;
        request.groups = &group;
        request.groups_count = 1;
        response = ASK(offset_fetch, &request, 8, &call);
        ck_assert_int_eq(response->groups[0].error_code, 0);
        ck_assert_uint_eq(response->groups[0].topics_count, 1);
        ck_assert_uint_eq(response->groups[0].topics[0].partitions_count, counts[i]);
        check(response->groups[0].topics[0].partitions, counts[i], true);
        node_call_end(&call);
    }
    node_world_end(&world);
}
END_TEST

/* Some lie in two pieces, some have no partitions. */
START_TEST(many_topics_in_pieces)
{
    static char names[TOPICS][NAME_CHARS + 1];
    static struct offset_fetch_request_topics topics[TOPICS];
    struct offset_fetch_request request;
    struct offset_fetch_request_group group;
    struct offset_fetch_response *response = NULL;
    struct node_call call;

    begin(2);
    offset_fetch_request_init(&request);
    offset_fetch_request_group_init(&group);
    for (uint32_t i = 0; i < TOPICS; i++) {
        (void)snprintf(names[i], sizeof(names[i]), "n%07u", i);
        offset_fetch_request_topics_init(&topics[i]);
        topics[i].name = i % 2 == 0 ? BYTES_LITERAL("t") : bytes_of_text(names[i]);
        topics[i].partition_indexes = asked;
        topics[i].partition_indexes_count = i % EACH;
    }
    group.group_id = BYTES_LITERAL("g");
    group.topics = topics;
    group.topics_count = TOPICS;
    request.groups = &group;
    request.groups_count = 1;
    response = ASK(offset_fetch, &request, 8, &call);
    ck_assert_int_eq(response->groups[0].error_code, 0);
    ck_assert_uint_eq(response->groups[0].topics_count, TOPICS);
    for (uint32_t i = 0; i < TOPICS; i++) {
        const struct offset_fetch_response_topics *answer = &response->groups[0].topics[i];

        ck_assert(bytes_equal(answer->name, topics[i].name));
        ck_assert_uint_eq(answer->partitions_count, i % EACH);
        check(answer->partitions, answer->partitions_count, i % 2 == 0);
    }
    node_call_end(&call);
    node_world_end(&world);
}
END_TEST

START_TEST(members_of_one_question_are_bounded)
{
    static struct member_identity members[GROUP_ENTRIES_MAX + 1];
    static struct sync_group_request_assignment shares[GROUP_ENTRIES_MAX + 1];
    struct leave_group_request leave;
    struct sync_group_request sync;

    begin(3);
    leave_group_request_init(&leave);
    sync_group_request_init(&sync);
    leave.group_id = sync.group_id = BYTES_LITERAL("g");
    leave.members = members;
    sync.member_id = BYTES_LITERAL("m");
    sync.assignments = shares;
    for (uint32_t i = 0; i <= GROUP_ENTRIES_MAX; i++) {
        member_identity_init(&members[i]);
        sync_group_request_assignment_init(&shares[i]);
        members[i].member_id = BYTES_LITERAL("m");
        shares[i].member_id = BYTES_LITERAL("m");
    }
    for (uint32_t count = GROUP_ENTRIES_MAX; count <= GROUP_ENTRIES_MAX + 1; count++) {
        bool fits = count <= GROUP_ENTRIES_MAX;
        struct leave_group_response *left = NULL;
        struct sync_group_response *synced = NULL;
        struct node_call call;

        leave.members_count = count;
        left = ASK(leave_group, &leave, 3, &call);
        ck_assert_int_eq(left->error_code, fits ? 0 : INVALID_REQUEST);
        ck_assert_uint_eq(left->members_count, fits ? count : 0);
        if (fits)
            ck_assert_int_eq(left->members[count - 1].error_code, UNKNOWN_MEMBER);
        node_call_end(&call);
        sync.assignments_count = count;
        synced = ASK(sync_group, &sync, 1, &call);
        ck_assert_int_eq(synced->error_code, fits ? UNKNOWN_MEMBER : INVALID_REQUEST);
        node_call_end(&call);
    }
    node_world_end(&world);
}
END_TEST

START_TEST(offsets_deleted_by_one_question_are_bounded)
{
    static struct offset_delete_request_partition partitions[GROUP_ENTRIES_MAX];
    struct offset_delete_request_topic topic;
    struct offset_delete_request request;

    begin(4);
    offset_delete_request_init(&request);
    offset_delete_request_topic_init(&topic);
    request.group_id = BYTES_LITERAL("g");
    request.topics = &topic;
    request.topics_count = 1;
    topic.name = BYTES_LITERAL("t");
    topic.partitions = partitions;
    for (int32_t i = 0; i < GROUP_ENTRIES_MAX; i++)
        partitions[i].partition_index = i;
    for (uint32_t count = GROUP_ENTRIES_MAX; count >= GROUP_ENTRIES_MAX - 1; count--) { /* beside the topic */
        bool fits = count + 1 <= GROUP_ENTRIES_MAX;
        struct offset_delete_response *deleted = NULL;
        struct node_call call;

        topic.partitions_count = count;
        deleted = ASK(offset_delete, &request, 0, &call);
        ck_assert_int_eq(deleted->error_code, fits ? 0 : INVALID_REQUEST);
        ck_assert_uint_eq(deleted->topics_count, fits ? 1 : 0);
        node_call_end(&call);
    }
    node_world_end(&world);
}
END_TEST

RUN_TESTS("broker/handle_offset_fetch", one_topic_in_pieces, many_topics_in_pieces, members_of_one_question_are_bounded,
          offsets_deleted_by_one_question_are_bounded)
