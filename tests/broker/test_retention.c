/* Rule: what is too old or too much goes by itself, log.initial.task.delay.ms after the start and every
 * log.retention.check.interval.ms from then on; by age only while the wall clock is to be believed; a key that is
 * changed while the node runs holds at the next check. Traps B035, B043, B122. */
#include "../partition/run_tests.h"
#include "broker/broker_internal.h"
#include "node_world.h"
#include "protocol/gen/list_offsets.h"

static struct node_world world;

enum { CHECKED_MS = 31000, CHECK_EVERY_MS = 300000, DAY_MS = 86400000 };

static int64_t offset_at(int64_t timestamp)
{
    struct list_offsets_request request;
    struct list_offsets_topic topic;
    struct list_offsets_partition partition;
    struct list_offsets_response *response = NULL;
    struct node_call call;
    int64_t offset = 0;

    list_offsets_request_init(&request);
    list_offsets_topic_init(&topic);
    list_offsets_partition_init(&partition);
    topic.name = BYTES_LITERAL("t");
    topic.partitions = &partition;
    topic.partitions_count = 1;
    partition.timestamp = timestamp;
    request.topics = &topic;
    request.topics_count = 1;
    response = node_ask(&world, 0, &list_offsets_request_message, &request, &list_offsets_response_message, 7, &call);
    ck_assert_int_eq(response->topics[0].partitions[0].error_code, 0);
    offset = response->topics[0].partitions[0].offset;
    node_call_end(&call);
    return offset;
}

static struct uuid begin(const char *setting)
{
    struct uuid topic;
    enum err err = ERR_OK;

    node_world_begin(&world, 1, 2);
    topic = node_create_topic(&world, "t", 1, setting, "message.timestamp.type=LogAppendTime", NULL);
    for (int k = 0; k < 5; k++)
        ck_assert_int_eq(node_produce(&world, 0, topic, 0, 1000, &err), k);
    ck_assert_int_eq(offset_at(-2), 0);
    return topic;
}

/* An idle log's only segment: it is rolled, and the emptied partition begins where it ends. */
START_TEST(what_is_old_goes)
{
    struct uuid topic = begin("retention.ms=1000");
    enum err err = ERR_OK;

    node_world_pass(&world, CHECKED_MS);
    ck_assert_int_eq(offset_at(-2), 5);
    ck_assert_int_eq(offset_at(-1), 5);
    ck_assert_int_eq(offset_at(0), -1);
    ck_assert_int_eq(node_produce(&world, 0, topic, 0, 1000, &err), 5);
    node_world_pass(&world, CHECK_EVERY_MS);
    ck_assert_int_eq(offset_at(-2), 6);
    sim_node_stop(&world.node);
    sim_node_start(&world.node);
    ck_assert_int_eq(offset_at(-2), 6);
    ck_assert_int_eq(offset_at(-1), 6);
    node_world_end(&world);
}
END_TEST

START_TEST(what_is_too_much_goes)
{
    (void)begin("retention.bytes=0");
    node_world_pass(&world, CHECKED_MS);
    ck_assert_int_eq(offset_at(-2), 5);
    node_world_end(&world);
}
END_TEST

START_TEST(what_is_neither_stays)
{
    (void)begin("retention.ms=86400000");
    node_world_pass(&world, CHECKED_MS);
    ck_assert_int_eq(offset_at(-2), 0);
    node_world_end(&world);
}
END_TEST

/* A week ahead in one step: nothing goes for it, until the clock is back and the records are really old. */
START_TEST(a_clock_that_jumped)
{
    struct shard *shard = NULL;
    struct uuid topic = begin("retention.ms=60000");

    shard = shard_home(world.node.broker, topic, 0);
    world.sim.wall_offset_ms += 7 * (int64_t)DAY_MS;
    node_world_pass(&world, CHECKED_MS);
    ck_assert_int_eq(offset_at(-2), 0);
    ck_assert(shard->clock_guard.doubts);
    world.sim.wall_offset_ms -= 7 * (int64_t)DAY_MS;
    node_world_pass(&world, CHECK_EVERY_MS);
    ck_assert(!shard->clock_guard.doubts);
    ck_assert_int_eq(offset_at(-2), 5);
    node_world_end(&world);
}
END_TEST

/* A laptop that was closed for a week: no timer has run meanwhile, and its clock is right. */
START_TEST(a_machine_that_slept)
{
    struct uuid topic = begin("retention.ms=86400000");
    const struct shard *shard = shard_home(world.node.broker, topic, 0);

    world.sim.slept_ns += 7 * INT64_C(1000000) * DAY_MS;
    node_world_pass(&world, CHECKED_MS);
    ck_assert(!shard->clock_guard.doubts);
    ck_assert_int_eq(offset_at(-2), 5);
    node_world_end(&world);
}
END_TEST

RUN_TESTS("broker/retention", what_is_old_goes, what_is_too_much_goes, what_is_neither_stays, a_clock_that_jumped,
          a_machine_that_slept)
