/* Rule: what the pages tell of groups is what their coordinators and their partitions' homes say: each partition's lag
 * in records and the time of the first that is not read, in the middle of a log, at its end, behind its start, and
 * where the topic is gone; groups of both kinds; nothing of a group that is none, and why. */
#include <stdio.h>
#include <string.h>

#include "../partition/run_tests.h"
#include "broker/broker_internal.h"
#include "broker/group_query.h"
#include "node_world.h"
#include "protocol/gen/consumer_group_heartbeat.h"
#include "protocol/gen/delete_records.h"

enum { PARTITIONS = 4, RECORDS = 10, TRIES = 100, WAIT_MS = 10000 };

static struct node_world world;
static struct loop *loop;
static struct group_query *query;
static bool done;

#define ASK(api, request, version, call)                                                                               \
    node_ask(&world, 0, &api##_request_message, request, &api##_response_message, version, call)

static void begin(uint64_t seed, uint32_t reactors)
{
    node_world_begin(&world, seed, reactors);
    loop = sim_loop_new(&world.sim, "pages", 0);
    node_find_coordinator(&world, "g");
    node_world_pass(&world, 50); /* the other coordinators come, too */
}

static void is_done(struct group_query *which)
{
    ck_assert_ptr_eq(which, query);
    ck_assert(!done);
    done = true;
}

/* Until group_query_free. */
static const struct group_query *ask(enum group_query_kind kind, const char *group)
{
    done = false;
    ck_assert_int_eq(group_query_new(world.node.broker, loop, kind, bytes_of_text(group), &query), ERR_OK);
    query->done = is_done;
    group_query_run(query);
    ck_assert(!done);
    node_world_pass(&world, WAIT_MS);
    ck_assert(done);
    return query;
}

static void commit(const char *group, int32_t partition, int64_t offset)
{
    for (int tries = 0; node_commit(&world, group, partition, offset) != 0; tries++) {
        ck_assert_int_lt(tries, TRIES);
        node_world_pass(&world, 10);
    }
}

static void delete_before(int32_t partition, int64_t offset)
{
    struct delete_records_request request;
    struct delete_records_topic topic;
    struct delete_records_partition entry;
    struct node_call call;

    delete_records_request_init(&request);
    delete_records_topic_init(&topic);
    delete_records_partition_init(&entry);
    request.timeout_ms = 1000;
    request.topics = &topic;
    request.topics_count = 1;
    topic.name = BYTES_LITERAL("t");
    topic.partitions = &entry;
    topic.partitions_count = 1;
    entry.partition_index = partition;
    entry.offset = offset;
    ck_assert_int_eq(
        ((struct delete_records_response *)ASK(delete_records, &request, 2, &call))->topics[0].partitions[0].error_code,
        0);
    node_call_end(&call);
}

START_TEST(lag)
{
    static const int64_t committed[PARTITIONS] = {3, RECORDS, 2, 0};
    int64_t times[RECORDS];
    const struct group_query *found = NULL;
    struct uuid id;

    begin(1, 3);
    id = node_create_topic(&world, "t", PARTITIONS, NULL);
    for (int i = 0; i < RECORDS; i++) { /* a second apart; all partitions at the same time */
        times[i] = world.sim.mono_ns / 1000000 + world.sim.wall_offset_ms;
        for (int32_t p = 0; p < PARTITIONS - 1; p++) {
            enum err err = ERR_OK;

            ck_assert_int_eq(node_produce(&world, 0, id, p, 10, &err), i);
        }
        node_world_pass(&world, 1000);
    }
    for (int32_t p = 0; p < PARTITIONS; p++)
        commit("g", p, committed[p]);
    delete_before(2, 5);
    found = ask(GROUP_QUERY_LAG, "g");
    ck_assert_int_eq(found->err, ERR_OK);
    ck_assert_uint_eq(found->partition_count, PARTITIONS);
    for (uint32_t i = 0; i < found->partition_count; i++) {
        const struct group_query_partition *row = &found->partitions[i];
        int64_t end = row->index == PARTITIONS - 1 ? 0 : RECORDS;
        int64_t start = row->index == 2 ? 5 : 0;
        int64_t next = committed[row->index] < start ? start : committed[row->index];

        ck_assert_int_eq(row->err, ERR_OK);
        ck_assert(bytes_equal(row->topic, BYTES_LITERAL("t")));
        ck_assert_int_eq(row->committed, committed[row->index]);
        ck_assert_int_eq(row->leader_epoch, NODE_COMMIT_EPOCH);
        ck_assert(bytes_equal(row->metadata, BYTES_LITERAL(NODE_COMMIT_METADATA)));
        ck_assert_int_eq(row->start, start);
        ck_assert_int_eq(row->end, end);
        ck_assert_int_eq(row->lag, end - next);
        if (next == end) {
            ck_assert_int_eq(row->next_ms, -1);
        } else {
            ck_assert_int_ge(row->next_ms, times[next]);
            ck_assert_int_lt(row->next_ms, times[next] + 1000);
        }
    }
    group_query_free(query);

    found = ask(GROUP_QUERY_LAG, "nobody");
    ck_assert_int_eq(found->err, ERR_GROUP_ID_NOT_FOUND);
    group_query_free(query);
    node_world_end(&world);
}
END_TEST

static void join(void)
{
    struct consumer_group_heartbeat_request request;
    struct consumer_group_heartbeat_request_topic_partitions owned[1];
    struct bytes topic = BYTES_LITERAL("t");
    struct node_call call;

    consumer_group_heartbeat_request_init(&request);
    request.group_id = BYTES_LITERAL("modern");
    request.member_id = BYTES_LITERAL("m");
    request.rebalance_timeout_ms = 60000;
    request.subscribed_topic_names = &topic;
    request.subscribed_topic_names_count = 1;
    request.topic_partitions = owned;
    ck_assert_int_eq(
        ((struct consumer_group_heartbeat_response *)ASK(consumer_group_heartbeat, &request, 1, &call))->error_code, 0);
    node_call_end(&call);
}

START_TEST(groups_of_both_kinds)
{
    const struct group_query *found = NULL;

    begin(2, 2);
    found = ask(GROUP_QUERY_LIST, "");
    ck_assert_int_eq(found->err, ERR_OK);
    ck_assert_uint_eq(found->group_count, 0);
    group_query_free(query);
    (void)node_create_topic(&world, "t", PARTITIONS, NULL);
    commit("classic", 0, 1);
    node_world_pass(&world, 1000);
    join();
    found = ask(GROUP_QUERY_LIST, "");
    ck_assert_uint_eq(found->group_count, 2);
    group_query_free(query);

    found = ask(GROUP_QUERY_DESCRIBE, "classic");
    ck_assert_int_eq(found->err, ERR_OK);
    ck_assert_ptr_null(found->consumer);
    ck_assert(bytes_equal(found->classic->group_state, BYTES_LITERAL("Empty")));
    group_query_free(query);
    found = ask(GROUP_QUERY_DESCRIBE, "modern");
    ck_assert_int_eq(found->err, ERR_OK);
    ck_assert_ptr_null(found->classic);
    ck_assert_uint_eq(found->consumer->members_count, 1);
    group_query_free(query);
    found = ask(GROUP_QUERY_DESCRIBE, "nobody");
    ck_assert_int_eq(found->err, ERR_GROUP_ID_NOT_FOUND);
    group_query_free(query);

    found = ask(GROUP_QUERY_HISTORY, "modern");
    ck_assert_int_eq(found->err, ERR_OK);
    ck_assert_uint_ge(found->history->count, 1);
    ck_assert_int_eq(found->history->entries[0].cause, CAUSE_JOINED);
    group_query_free(query);
    found = ask(GROUP_QUERY_HISTORY, "nobody");
    ck_assert_int_eq(found->err, ERR_GROUP_ID_NOT_FOUND);
    group_query_free(query);
    node_world_end(&world);
}
END_TEST

/* A query that was made and is not run after all, and a coordinator that nobody has found yet. */
START_TEST(without_coordinators)
{
    const struct group_query *found = NULL;

    node_world_begin(&world, 3, 2);
    loop = sim_loop_new(&world.sim, "pages", 0);
    ck_assert_int_eq(group_query_new(world.node.broker, loop, GROUP_QUERY_LAG, BYTES_LITERAL("g"), &query), ERR_OK);
    group_query_free(query);
    found = ask(GROUP_QUERY_LIST, "");
    ck_assert_int_eq(found->err, ERR_OK);
    ck_assert_uint_eq(found->group_count, 0);
    group_query_free(query);
    found = ask(GROUP_QUERY_LAG, "g");
    ck_assert_int_ne(found->err, ERR_OK);
    group_query_free(query);
    node_world_end(&world);
}
END_TEST

RUN_TESTS("broker/group_query", lag, groups_of_both_kinds, without_coordinators)
