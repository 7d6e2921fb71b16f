/* Rule: a minute after the start, and then once a day at most, each shard reads all that its logs have on the disk, all
 * shards together no faster than ottla.scrub.bytes.per.second and leaving a slow disk alone for longer; what it finds
 * damaged is said, counted and answered with CORRUPT_MESSAGE before anybody has asked for it. Logs that go meanwhile do
 * not hold it up. */
#include <stdio.h>
#include <string.h>

#include "../partition/run_tests.h"
#include "broker/broker_internal.h"
#include "node_world.h"

static struct node_world world;

#define NS_PER_MS INT64_C(1000000)
#define HOUR_MS   INT64_C(3600000)

enum { RECORD_BYTES = 100000, FETCH_VERSION = 13, SETTLE_MS = 600 * 1000 };

static const char round_line[] = "old data read again";

static void fill(struct uuid topic, int32_t partition, int records)
{
    for (int i = 0; i < records; i++) {
        enum err err = ERR_OK;

        (void)node_produce(&world, 0, topic, partition, RECORD_BYTES, &err);
        ck_assert_int_eq(err, ERR_OK);
    }
}

static struct partition *partition_of(struct uuid topic, int32_t index)
{
    return shard_find(shard_home(world.node.broker, topic, index), topic, index);
}

static uint64_t bytes_of_all(struct uuid topic, int32_t partitions)
{
    uint64_t bytes = 0;

    for (int32_t i = 0; i < partitions; i++)
        bytes += partition_size(partition_of(topic, i));
    return bytes;
}

/* As if the machine had stood still for most of them: nothing but timers would have gone on. */
static void pass_hours(int64_t hours)
{
    world.sim.mono_ns += (hours * HOUR_MS - SETTLE_MS) * NS_PER_MS;
    node_world_pass(&world, SETTLE_MS);
}

/* At no moment has more been read since the rounds began than the rate allows, but for one piece of each shard: it ends
 * with a whole batch, and is paid for by the pause behind it. */
static void check_rate(void *context)
{
    const int64_t *rate = context;
    const struct broker *broker = world.node.broker;
    uint64_t bytes = 0;
    int64_t began_ns = INT64_MAX;

    if (broker == NULL)
        return;
    for (uint32_t i = 0; i < broker->env.reactor_count; i++) {
        const struct shard_scrub *scrub = &broker->shards[i].scrub;

        bytes += scrub->pass_bytes;
        if (scrub->pass_began_ns != 0 && scrub->pass_began_ns < began_ns)
            began_ns = scrub->pass_began_ns;
    }
    if (bytes > 0)
        ck_assert_uint_le(bytes, (uint64_t)((double)(world.sim.mono_ns - began_ns) / 1e9 * (double)*rate) +
                                     broker->env.reactor_count * (SCRUB_PIECE_BYTES + RECORD_BYTES * 2));
}

START_TEST(all_is_read_once_a_day_at_its_rate)
{
    for (uint32_t reactors = 1; reactors <= 4; reactors += 3) {
        int64_t rate = 20000;
        uint64_t bytes = 0;
        struct uuid topic;
        char expected[128];

        node_world_begin_with(&world, 1, reactors, "ottla.scrub.bytes.per.second=20000", NULL);
        topic = node_create_topic(&world, "t", 8, NULL);
        for (int32_t i = 0; i < 8; i++)
            fill(topic, i, 6);
        bytes = bytes_of_all(topic, 8);
        ck_assert_uint_gt(bytes, 8 * 6 * RECORD_BYTES);
        for (uint32_t i = 0; i < reactors; i++)
            ck_assert_int_eq(world.node.broker->shards[i].scrub.rate, rate / reactors);
        node_hear(&world, round_line);
        world.sim.stepped = check_rate;
        world.sim.stepped_context = &rate;
        node_world_pass(&world, SCRUB_FIRST_S * 1000 / 2);
        for (uint32_t i = 0; i < reactors; i++)
            ck_assert_int_eq(world.node.broker->shards[i].scrub.pass_began_ns, 0);
        node_world_pass(&world, SCRUB_FIRST_S * 1000 / 2 + (int64_t)(bytes * 1000 / (uint64_t)rate) + 120000);
        ck_assert_uint_eq(world.heard_count, reactors);
        if (reactors == 1) {
            (void)snprintf(expected, sizeof(expected), "partitions=8 bytes=%llu took_s=%llu", (unsigned long long)bytes,
                           (unsigned long long)bytes / (unsigned long long)rate);
            ck_assert_msg(strstr(world.heard, expected) != NULL, "%s: %s", expected, world.heard);
        }
        world.sim.stepped = NULL;
        node_hear(&world, round_line);
        pass_hours(23);
        ck_assert_uint_eq(world.heard_count, 0);
        pass_hours(2);
        ck_assert_uint_eq(world.heard_count, reactors);
        node_world_end(&world);
    }
}
END_TEST

/* A rate that leaves a shard less than a byte a second leaves it one; none at all leaves the disk alone. */
START_TEST(the_least_rate_and_none)
{
    struct uuid topic;

    node_world_begin_with(&world, 2, 4, "ottla.scrub.bytes.per.second=3", NULL);
    for (uint32_t i = 0; i < 4; i++)
        ck_assert_int_eq(world.node.broker->shards[i].scrub.rate, 1);
    node_world_end(&world);
    node_world_begin_with(&world, 3, 1, "ottla.scrub.bytes.per.second=0", NULL);
    topic = node_create_topic(&world, "t", 1, NULL);
    fill(topic, 0, 1);
    node_hear(&world, round_line);
    pass_hours(50);
    ck_assert_uint_eq(world.heard_count, 0);
    ck_assert_uint_eq(world.node.broker->shards[0].scrub.pass_bytes, 0);
    node_world_end(&world);
}
END_TEST

struct rests {
    bool was_armed;
    uint32_t counted;
};

static void check_rest(void *context)
{
    struct rests *rests = context;
    const struct shard_scrub *scrub = NULL;
    bool is_armed = false;

    if (world.node.broker == NULL)
        return;
    scrub = &world.node.broker->shards[0].scrub;
    is_armed = scrub->timer.heap_slot != 0;
    if (is_armed && !rests->was_armed && scrub->pass_bytes > 0 && scrub->op.bytes > 0) {
        int64_t took_ns = world.sim.mono_ns - scrub->piece_began_ns;

        /* The step that ended it took a moment itself. */
        ck_assert_int_ge(scrub->timer.due_ns - world.sim.mono_ns, (took_ns - NS_PER_MS) * SCRUB_REST_FACTOR);
        rests->counted++;
    }
    rests->was_armed = is_armed;
}

/* Whatever the rate, the disk has rest for several times what a piece took it. */
START_TEST(a_slow_disk_is_left_alone)
{
    struct rests rests = {0};
    struct uuid topic;

    node_world_begin_with(&world, 4, 1, "ottla.scrub.bytes.per.second=1000000000000", NULL);
    topic = node_create_topic(&world, "t", 1, NULL);
    fill(topic, 0, 20);
    node_hear(&world, round_line);
    world.sim.stepped = check_rest;
    world.sim.stepped_context = &rests;
    world.sim.habits.job_delay_ns_max = INT64_C(2000000000);
    node_world_pass(&world, 300000);
    ck_assert_uint_eq(world.heard_count, 1);
    ck_assert_uint_ge(rests.counted, 20 * RECORD_BYTES / (SCRUB_PIECE_BYTES + RECORD_BYTES));
    world.sim.stepped = NULL;
    node_world_end(&world);
}
END_TEST

static int16_t fetched(struct uuid topic, int64_t offset)
{
    struct node_fetch ask;
    struct node_call call;
    const struct fetch_response *response = NULL;
    const struct fetch_response_partition_data *part = NULL;
    int16_t code = 0;

    node_fetch_init(&ask, "t", topic, 1);
    ask.partitions[0].fetch_offset = offset;
    ask.partitions[0].partition_max_bytes = 1;
    response = node_ask(&world, 1, &fetch_request_message, &ask.request, &fetch_response_message, FETCH_VERSION, &call);
    ck_assert_ptr_nonnull(response);
    part = node_fetched(response, 0);
    ck_assert_ptr_nonnull(part);
    code = part->error_code;
    node_call_end(&call);
    return code;
}

/* Said once, though it is found in every round; what lies beside it is served. */
START_TEST(damage_is_found_before_it_is_asked_for)
{
    struct uuid topic;

    node_world_begin_with(&world, 5, 1, "ottla.scrub.bytes.per.second=1000000", NULL);
    topic = node_create_topic(&world, "t", 1, NULL);
    fill(topic, 0, 6);
    node_world_pass(&world, 5000); /* it is synced */
    ck_assert(sim_fs_flip(&world.disk, "/data/t-0/00000000000000000000.log", 3 * RECORD_BYTES, 0x10));
    world.node.silent = true;
    node_hear(&world, "log damaged");
    node_world_pass(&world, SCRUB_FIRST_S * 1000 - 10000);
    ck_assert_uint_eq(world.heard_count, 0);
    node_world_pass(&world, 30000);
    ck_assert_uint_eq(world.heard_count, 1);
    ck_assert_ptr_nonnull(strstr(world.heard, "topic=t partition=0 offset=2 end_offset=3 "));
    for (int64_t offset = 0; offset < 6; offset++)
        ck_assert_int_eq(fetched(topic, offset), offset == 2 ? err_wire(ERR_CORRUPT_MESSAGE) : 0);
    node_hear(&world, round_line);
    pass_hours(25);
    ck_assert_uint_eq(world.heard_count, 1);
    ck_assert(!atomic_load(&world.node.broker->dirs[0].failed));
    node_hear(&world, "log damaged");
    pass_hours(25);
    ck_assert_uint_eq(world.heard_count, 0);
    node_world_end(&world);
}
END_TEST

/* Deleted at any moment of the round, in the midst of a piece or between two: the others are read to their end. */
START_TEST(a_log_that_goes_meanwhile)
{
    for (uint64_t seed = 1; seed <= 12; seed++) {
        struct uuid topics[2];
        struct shard_scrub *scrub = NULL;

        node_world_begin_with(&world, seed, 1, "ottla.scrub.bytes.per.second=100000", NULL);
        world.sim.habits.job_delay_ns_max = INT64_C(500000000);
        topics[0] = node_create_topic(&world, "goes", 2, NULL);
        topics[1] = node_create_topic(&world, "stays", 2, NULL);
        for (int32_t i = 0; i < 4; i++)
            fill(topics[i / 2], i % 2, 6);
        node_hear(&world, round_line);
        scrub = &world.node.broker->shards[0].scrub;
        while (scrub->pass_began_ns == 0)
            node_world_pass(&world, 100);
        node_world_pass(&world, (int64_t)seed * 1500);
        ck_assert_int_eq(node_delete_topic(&world, "goes"), ERR_OK);
        node_world_pass(&world, 120000);
        ck_assert_uint_eq(world.heard_count, 1);
        for (int32_t i = 0; i < 2; i++)
            ck_assert(!partition_is_failed(partition_of(topics[1], i)));
        node_world_end(&world);
    }
}
END_TEST

/* At any moment of it. */
START_TEST(a_stop_is_clean)
{
    for (uint64_t seed = 1; seed <= 12; seed++) {
        struct uuid topic;

        node_world_begin_with(&world, seed, 1, "ottla.scrub.bytes.per.second=100000", NULL);
        world.sim.habits.job_delay_ns_max = INT64_C(500000000);
        topic = node_create_topic(&world, "t", 2, NULL);
        for (int32_t i = 0; i < 2; i++)
            fill(topic, i, 6);
        while (world.node.broker->shards[0].scrub.pass_began_ns == 0)
            node_world_pass(&world, 100);
        node_world_pass(&world, (int64_t)seed * 900);
        node_world_end(&world);
    }
}
END_TEST

RUN_TESTS("broker/scrub", all_is_read_once_a_day_at_its_rate, the_least_rate_and_none, a_slow_disk_is_left_alone,
          damage_is_found_before_it_is_asked_for, a_log_that_goes_meanwhile, a_stop_is_clean)
