/* Rule: a failed sync is final for its log directory: nothing of it is acknowledged any more, on any reactor, and
 * nothing new is put there; partitions spread over the reactors, and a topic that goes leaves nothing behind.
 *
 * Sources: broker/hosting.c, broker/shard_dirs.c */
#include "../partition/run_tests.h"
#include "broker/broker_internal.h"
#include "node_world.h"

static struct node_world world;

START_TEST(a_failed_sync_ends_the_directory_on_every_reactor)
{
    struct uuid topic;
    enum err err = ERR_OK;

    node_world_begin(&world, 21, 2);
    topic = node_create_topic(&world, "t", 4, "flush.messages=1", NULL);
    for (int32_t i = 0; i < 4; i++)
        ck_assert_int_eq(node_produce(&world, 0, topic, i, 100, &err), 0);
    sim_fs_set_fault(&world.disk, SIM_FS_FAIL, SIM_FS_SYNC, 1, ERR_IO);
    (void)node_produce(&world, 0, topic, 0, 100, &err);
    ck_assert(sim_fs_fault_struck(&world.disk));
    ck_assert_int_eq(err, ERR_KAFKA_STORAGE_ERROR);
    ck_assert(atomic_load(&world.node.broker->dirs[0].failed));
    for (int32_t i = 0; i < 4; i++) {
        ck_assert_int_eq(node_produce(&world, 0, topic, i, 100, &err), -1);
        ck_assert_int_eq(err, ERR_KAFKA_STORAGE_ERROR);
    }
    node_world_end(&world);
}
END_TEST

START_TEST(partitions_spread_evenly_and_stay_where_they_are)
{
    struct uuid topic;
    int32_t at[2] = {0, 0};

    node_world_begin(&world, 22, 2);
    topic = node_create_topic(&world, "t", 10, NULL);
    for (int32_t i = 0; i < 10; i++) {
        struct shard *home = shard_home(world.node.broker, topic, i);

        at[home->index]++;
        ck_assert_ptr_nonnull(shard_find(home, topic, i));
        ck_assert_ptr_null(shard_find(&world.node.broker->shards[1 - home->index], topic, i));
    }
    ck_assert_int_eq(at[0], 5);
    ck_assert_int_eq(at[1], 5);
    node_world_end(&world);
}
END_TEST

START_TEST(why_there_is_no_partition)
{
    struct uuid topic;
    struct uuid unknown = {{9}};
    struct partition *partition = NULL;
    struct shard *home = NULL;

    node_world_begin(&world, 23, 2);
    topic = node_create_topic(&world, "t", 1, NULL);
    home = shard_home(world.node.broker, topic, 0);
    ck_assert_int_eq(shard_lookup(home, topic, 0, &partition), ERR_OK);
    ck_assert_ptr_nonnull(partition);
    ck_assert_int_eq(shard_lookup(home, topic, 1, &partition), ERR_UNKNOWN_TOPIC_OR_PARTITION);
    ck_assert_int_eq(shard_lookup(home, topic, -1, &partition), ERR_UNKNOWN_TOPIC_OR_PARTITION);
    ck_assert_int_eq(shard_lookup(home, unknown, 0, &partition), ERR_UNKNOWN_TOPIC_ID);
    /* Another reactor's: known, but not to be led here. */
    ck_assert_int_eq(shard_lookup(&world.node.broker->shards[1 - home->index], topic, 0, &partition),
                     ERR_NOT_LEADER_OR_FOLLOWER);
    ck_assert_int_eq(node_delete_topic(&world, "t"), ERR_OK);
    ck_assert_int_eq(shard_lookup(home, topic, 0, &partition), ERR_UNKNOWN_TOPIC_ID);
    ck_assert_ptr_null(partition);
    node_world_end(&world);
}
END_TEST

/* A topic made again under its name is another topic: nothing of the first comes back. */
START_TEST(a_name_that_comes_again_begins_empty)
{
    struct uuid first;
    struct uuid second;
    enum err err = ERR_OK;

    node_world_begin(&world, 24, 2);
    first = node_create_topic(&world, "t", 1, NULL);
    ck_assert_int_eq(node_produce(&world, 0, first, 0, 100, &err), 0);
    ck_assert_int_eq(node_produce(&world, 0, first, 0, 100, &err), 1);
    ck_assert_int_eq(node_delete_topic(&world, "t"), ERR_OK);
    second = node_create_topic(&world, "t", 1, NULL);
    ck_assert(!uuid_equal(first, second));
    ck_assert_int_eq(node_produce(&world, 0, first, 0, 100, &err), -1);
    ck_assert_int_eq(err, ERR_UNKNOWN_TOPIC_ID);
    ck_assert_int_eq(node_produce(&world, 0, second, 0, 100, &err), 0);
    node_world_end(&world);
}
END_TEST

/* Stopped cleanly and started again on the same disk: every record is there, and nothing was recovered. */
START_TEST(a_clean_stop_and_a_start)
{
    struct uuid topic;
    struct node_fetch ask;
    struct node_call call;
    struct fetch_response *response = NULL;
    enum err err = ERR_OK;

    node_world_begin(&world, 25, 2);
    topic = node_create_topic(&world, "t", 3, NULL);
    for (int32_t i = 0; i < 3; i++)
        ck_assert_int_eq(node_produce(&world, 0, topic, i, 100, &err), 0);
    sim_node_stop(&world.node);
    sim_node_start(&world.node);
    ck_assert(world.node.broker->dirs[0].clean);
    node_fetch_init(&ask, "t", topic, 3);
    response = node_ask(&world, 1, &fetch_request_message, &ask.request, &fetch_response_message, 13, &call);
    for (int32_t i = 0; i < 3; i++)
        ck_assert_int_eq(node_fetched(response, i)->high_watermark, 1);
    node_call_end(&call);
    node_world_end(&world);
}
END_TEST

/* Who comes while the node starts, and is not one of those that are held. */
struct early {
    struct net_stream *stream;
    bool closed;
};

static void early_readable(void *context)
{
    struct early *early = context;
    uint8_t byte = 0;
    size_t got = 0;

    early->closed = net_read(early->stream, &byte, 1, &got) == ERR_CLOSED;
    if (early->closed)
        net_close(early->stream, false);
}

static void early_connected(void *context, struct net_stream *stream, enum err err)
{
    static const struct net_stream_events events = {.readable = early_readable};
    struct early *early = context;

    ck_assert_int_eq(err, ERR_OK);
    early->stream = stream;
    stream->events = &events;
    stream->context = early;
    net_want(stream, true, false);
}

static uint32_t count_closed(const struct early *early, uint32_t count)
{
    uint32_t closed = 0;

    for (uint32_t i = 0; i < count; i++)
        closed += early[i].closed;
    return closed;
}

/* A start that takes long holds so many connections, turns more of them away at once, and serves those that it held. */
START_TEST(who_comes_before_its_time)
{
    enum { MORE = 6, COUNT = SHARD_HELD_STREAMS_MAX + MORE };
    static struct early early[COUNT];
    struct sim_host *host = NULL;
    struct loop *loop = NULL;
    struct net_address address;

    node_world_begin(&world, 31, 1);
    address = sim_node_address(&world.node);
    sim_node_stop(&world.node);
    world.sim.habits.job_delay_ns_max = INT64_C(3000000000);
    sim_node_begin(&world.node);
    host = sim_host_add(&world.network);
    loop = sim_loop_new(&world.sim, "early", 0);
    memset(early, 0, sizeof(early));
    for (uint32_t i = 0; i < COUNT; i++)
        ck_assert_int_eq(net_connect(&host->net, loop, &address, early_connected, &early[i]), ERR_OK);
    while (world.node.broker->shards[0].held_count < SHARD_HELD_STREAMS_MAX)
        ck_assert(sim_step(&world.sim, INT64_MAX));
    ck_assert(!world.node.broker->shards[0].serving);
    while (count_closed(early, COUNT) < MORE)
        ck_assert(sim_step(&world.sim, INT64_MAX));
    world.sim.habits.job_delay_ns_max = 1000000;
    while (!world.node.broker->shards[0].serving)
        ck_assert(sim_step(&world.sim, INT64_MAX));
    node_world_pass(&world, 1000);
    ck_assert_uint_eq(count_closed(early, COUNT), MORE);
    ck_assert_uint_eq(world.node.broker->shards[0].held_count, 0);
    ck_assert_uint_ge(connections_stats(world.node.broker->shards[0].connections)->open, SHARD_HELD_STREAMS_MAX);
    world.node.told = false;
    node_world_end(&world);
}
END_TEST

RUN_TESTS("broker/shard", a_failed_sync_ends_the_directory_on_every_reactor,
          partitions_spread_evenly_and_stay_where_they_are, why_there_is_no_partition,
          a_name_that_comes_again_begins_empty, a_clean_stop_and_a_start, who_comes_before_its_time)
