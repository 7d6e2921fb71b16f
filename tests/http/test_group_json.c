/* Rule: a page about groups is whole or it is none: wherever memory is missing, nothing is left out of it, and nothing
 * leaks. */
#include <check.h>
#include <string.h>

#include "base/mem.h"
#include "http/group_json.h"
#include "partition/run_tests.h"

enum { NOW_MS = 1000000, TOPICS = 2, ROWS = 3 };

/* jansson's memory: the k-th piece from now on is not there. */
static struct {
    uint64_t taken;
    uint64_t fails_at; /* 0: never */
    int64_t held;
} heap;

static void *take(size_t size)
{
    void *piece = ++heap.taken == heap.fails_at ? NULL : mem_alloc(size);

    heap.held += piece != NULL;
    return piece;
}

static void give(void *piece)
{
    heap.held -= piece != NULL;
    mem_free(piece);
}

static struct listed_group listed[ROWS];
static struct describe_groups_response_described_group classic;
static struct described_group_member classic_members[ROWS];
static struct consumer_group_describe_response_described_group consumer;
static struct consumer_group_describe_response_member consumer_members[ROWS];
static struct consumer_group_describe_response_topic_partitions assigned[TOPICS];
static int32_t partitions[] = {0, 1, 5};
static struct group_query_partition lags[ROWS];
static struct group_rebalance rebalances[ROWS];
static struct group_history_reply history = {.entries = rebalances, .count = ROWS};

static void fill(void)
{
    for (int i = 0; i < TOPICS; i++) {
        consumer_group_describe_response_topic_partitions_init(&assigned[i]);
        assigned[i].topic_name = BYTES_LITERAL("orders");
        assigned[i].partitions = partitions;
        assigned[i].partitions_count = 3;
    }
    for (int i = 0; i < ROWS; i++) {
        listed_group_init(&listed[i]);
        listed[i].group_id = BYTES_LITERAL("a group \xff of no UTF-8");
        described_group_member_init(&classic_members[i]);
        classic_members[i].member_id = BYTES_LITERAL("member");
        consumer_group_describe_response_member_init(&consumer_members[i]);
        consumer_members[i].member_id = BYTES_LITERAL("member");
        consumer_members[i].assignment.topic_partitions = assigned;
        consumer_members[i].assignment.topic_partitions_count = TOPICS;
        consumer_members[i].target_assignment = consumer_members[i].assignment;
        lags[i] = (struct group_query_partition){.topic = BYTES_LITERAL("orders"),
                                                 .index = i,
                                                 .committed = 7,
                                                 .leader_epoch = -1,
                                                 .metadata = BYTES_LITERAL("m"),
                                                 .err = i == 0 ? ERR_OK : ERR_NOT_LEADER_OR_FOLLOWER,
                                                 .start = 0,
                                                 .end = i == 0 ? 10 : -1,
                                                 .next_ms = i == 0 ? NOW_MS - 2500 : -1,
                                                 .lag = i == 0 ? 3 : -1};
        rebalances[i] = (struct group_rebalance){.began_ms = i, .cause = CAUSE_LEFT, .reason = BYTES_LITERAL("bye")};
    }
    describe_groups_response_described_group_init(&classic);
    classic.members = classic_members;
    classic.members_count = ROWS;
    consumer_group_describe_response_described_group_init(&consumer);
    consumer.members = consumer_members;
    consumer.members_count = ROWS;
}

/* Each kind of page. */
static const struct group_query queries[] = {
    {.kind = GROUP_QUERY_LIST, .groups = listed, .group_count = ROWS},
    {.kind = GROUP_QUERY_DESCRIBE, .classic = &classic},
    {.kind = GROUP_QUERY_DESCRIBE, .consumer = &consumer},
    {.kind = GROUP_QUERY_LAG, .partitions = lags, .partition_count = ROWS},
    {.kind = GROUP_QUERY_HISTORY, .history = &history},
};

START_TEST(whole_or_none)
{
    json_set_alloc_funcs(take, give);
    fill();
    for (size_t q = 0; q <= sizeof(queries) / sizeof(queries[0]); q++) {
        bool is_error = q == sizeof(queries) / sizeof(queries[0]);
        json_t *whole = NULL;
        uint64_t pieces = 0;

        heap.fails_at = 0;
        heap.taken = 0;
        whole = is_error ? group_json_error("words", ERR_NOMEM) : group_json(&queries[q], NOW_MS);
        ck_assert_ptr_nonnull(whole);
        pieces = heap.taken;
        for (uint64_t k = 1; k <= pieces; k++) {
            int64_t held = heap.held;
            json_t *value = NULL;

            heap.taken = 0;
            heap.fails_at = k;
            value = is_error ? group_json_error("words", ERR_NOMEM) : group_json(&queries[q], NOW_MS);
            heap.fails_at = 0;
            ck_assert_msg(value == NULL || json_equal(value, whole), "page %zu, piece %llu", q, (unsigned long long)k);
            json_decref(value);
            ck_assert_int_eq(heap.held, held);
        }
        ck_assert_uint_gt(pieces, 4);
        json_decref(whole);
        ck_assert_int_eq(heap.held, 0);
    }
}
END_TEST

/* What is not known is null, and of several partitions the oldest unread record counts. */
START_TEST(lag)
{
    json_t *value = NULL;
    const json_t *row = NULL;

    fill();
    value = group_json(&queries[3], NOW_MS);
    ck_assert_int_eq(json_integer_value(json_object_get(value, "lag")), 3);
    ck_assert(json_real_value(json_object_get(value, "age_s")) == 2.5);
    row = json_array_get(json_object_get(value, "partitions"), 0);
    ck_assert_ptr_null(json_object_get(row, "error"));
    ck_assert(json_is_null(json_object_get(row, "leader_epoch")));
    row = json_array_get(json_object_get(value, "partitions"), 1);
    ck_assert_str_eq(json_string_value(json_object_get(row, "error")), "NOT_LEADER_OR_FOLLOWER");
    ck_assert(json_is_null(json_object_get(row, "lag")) && json_is_null(json_object_get(row, "age_s")));
    json_decref(value);
    /* A record of the future has no age; where nothing is unread none is left. */
    lags[0].next_ms = NOW_MS + 5000;
    value = group_json(&queries[3], NOW_MS);
    ck_assert(json_real_value(json_object_get(value, "age_s")) == 0);
    json_decref(value);
}
END_TEST

RUN_TESTS("group_json", whole_or_none, lag)
