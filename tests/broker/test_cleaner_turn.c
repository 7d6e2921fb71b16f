/* Rule: each shard cleans the dirtiest of its compacted logs that is due, one after the other, and nothing else: what
 * is below its ratio, what is not compacted and what lies in a failed directory is left. log.cleaner.threads cleanings
 * run at a time in the node, and share its buffers and its rate. One that fails is left for a while, and the others
 * have their turn. */
#include <stdio.h>
#include <string.h>

#include "../partition/run_tests.h"
#include "broker/broker_internal.h"
#include "node_world.h"

static struct node_world world;

enum { RECORD_BYTES = 1000, ROLL_MS = 1500, SETTLE_MS = 3000, SEALED_KEYS = 10 };

static const char compacted[] = "cleanup.policy=compact";
static const char rolled_soon[] = "segment.ms=1000";

static void fill(struct uuid topic, int32_t partition, int first_key, int count)
{
    for (int i = 0; i < count; i++) {
        char key[16];
        enum err err = ERR_OK;
        int size = snprintf(key, sizeof(key), "key-%d", first_key + i);

        (void)node_produce_keyed(&world, 0, topic, partition, bytes_of(key, (size_t)size), RECORD_BYTES, &err);
        ck_assert_int_eq(err, ERR_OK);
    }
}

/* What was filled in so far lies in segments that no append goes to any more. */
static void seal(struct uuid topic, int32_t partition)
{
    node_world_pass(&world, ROLL_MS);
    fill(topic, partition, 1000, 1);
}

static struct partition *partition_of(struct uuid topic, int32_t index)
{
    return shard_find(shard_home(world.node.broker, topic, index), topic, index);
}

static struct shard_cleaner *cleaner_of(struct uuid topic, int32_t index)
{
    return &shard_home(world.node.broker, topic, index)->cleaner;
}

static bool is_busy(void *context)
{
    return ((struct shard_cleaner *)context)->busy;
}

static bool is_idle(void *context)
{
    return !((struct shard_cleaner *)context)->busy;
}

static void await(struct shard_cleaner *cleaner, bool (*state)(void *context), int64_t ms)
{
    ck_assert(sim_run(&world.sim, world.sim.mono_ns + ms * 1000000, state, cleaner));
}

/* Of two that are due the one with the greater dirty part comes first, whichever of them it is; one with less than its
 * ratio, and one that only deletes, are not touched however long it takes. */
START_TEST(the_dirtiest_that_is_due_comes_first)
{
    for (int turn = 0; turn < 2; turn++) {
        static const char *const names[] = {"one", "other"};
        struct uuid topics[2];
        struct uuid below;
        struct uuid deleting;
        int64_t below_to = 0;
        const char *first = NULL;
        const char *second = NULL;

        node_world_begin_with(&world, 1, 1, "log.cleaner.backoff.ms=60000", NULL);
        for (int i = 0; i < 2; i++)
            topics[i] =
                node_create_topic(&world, names[i], 1, compacted, rolled_soon, "min.cleanable.dirty.ratio=0.05", NULL);
        below = node_create_topic(&world, "below", 1, compacted, rolled_soon, "min.cleanable.dirty.ratio=0.9", NULL);
        deleting = node_create_topic(&world, "deleting", 1, rolled_soon, NULL);
        for (int i = 0; i < 2; i++)
            fill(topics[i], 0, 0, SEALED_KEYS);
        fill(below, 0, 0, SEALED_KEYS);
        fill(deleting, 0, 0, SEALED_KEYS);
        for (int i = 0; i < 2; i++)
            seal(topics[i], 0);
        seal(below, 0);
        seal(deleting, 0);
        node_hear(&world, "log cleaned");
        node_world_pass(&world, 60000);
        ck_assert_uint_eq(world.heard_count, 3);
        below_to = partition_cleaned_offset(partition_of(below, 0));
        ck_assert_int_eq(below_to, SEALED_KEYS);

        fill(topics[turn], 0, 0, 6);
        fill(topics[1 - turn], 0, 0, 2);
        fill(below, 0, 0, 6);
        for (int i = 0; i < 2; i++)
            seal(topics[i], 0);
        seal(below, 0);
        node_hear(&world, "log cleaned");
        node_world_pass(&world, 60000);
        ck_assert_uint_eq(world.heard_count, 2);
        first = strstr(world.heard, turn == 0 ? "topic=one " : "topic=other ");
        second = strstr(world.heard, turn == 0 ? "topic=other " : "topic=one ");
        ck_assert_ptr_nonnull(first);
        ck_assert_ptr_nonnull(second);
        ck_assert(first < second);
        node_world_pass(&world, 600000);
        ck_assert_uint_eq(world.heard_count, 2);
        ck_assert_int_eq(partition_cleaned_offset(partition_of(below, 0)), below_to);
        ck_assert_int_eq(partition_cleaned_offset(partition_of(deleting, 0)), -1);
        node_world_end(&world);
    }
}
END_TEST

/* What is below its ratio is due once its oldest record is older than max.compaction.lag.ms. */
START_TEST(what_lies_dirty_for_too_long_is_due)
{
    struct uuid topic;

    node_world_begin_with(&world, 2, 1, "log.cleaner.backoff.ms=1000", NULL);
    topic = node_create_topic(&world, "lagging", 1, compacted, rolled_soon, "min.cleanable.dirty.ratio=1",
                              "max.compaction.lag.ms=120000", NULL);
    fill(topic, 0, 0, SEALED_KEYS);
    seal(topic, 0);
    node_world_pass(&world, 110000);
    ck_assert_int_eq(partition_cleaned_offset(partition_of(topic, 0)), -1);
    node_world_pass(&world, 15000);
    ck_assert_int_eq(partition_cleaned_offset(partition_of(topic, 0)), SEALED_KEYS);
    node_world_end(&world);
}
END_TEST

/* A cleaning of one log with that setting; how long it took. */
static int64_t clean_with(const char *threads, const char *dedupe, const char *buffer, struct log_clean *op)
{
    struct uuid topic;
    struct shard_cleaner *cleaner = NULL;

    node_world_begin_with(&world, 3, 1, "log.cleaner.backoff.ms=20000", "log.cleaner.io.max.bytes.per.second=8000",
                          threads, dedupe, buffer, NULL);
    topic = node_create_topic(&world, "t", 1, compacted, rolled_soon, NULL);
    for (int i = 0; i < 3; i++)
        fill(topic, 0, 0, SEALED_KEYS);
    seal(topic, 0);
    cleaner = cleaner_of(topic, 0);
    await(cleaner, is_busy, 21000);
    await(cleaner, is_idle, 600000);
    *op = cleaner->op;
    ck_assert_int_eq(op->err, ERR_OK);
    ck_assert_int_eq(partition_cleaned_offset(partition_of(topic, 0)), 3 * SEALED_KEYS);
    node_world_end(&world);
    return op->elapsed_ns;
}

/* Each of the threads has its part of the buffers and of the rate, whether the others have something to do or not. */
START_TEST(the_buffers_and_the_rate_are_divided)
{
    struct log_clean alone;
    struct log_clean quarter;
    int64_t alone_ns = clean_with("log.cleaner.threads=1", "log.cleaner.dedupe.buffer.size=8388608",
                                  "log.cleaner.io.buffer.size=1048576", &alone);
    int64_t quarter_ns = clean_with("log.cleaner.threads=4", "log.cleaner.dedupe.buffer.size=8388608",
                                    "log.cleaner.io.buffer.size=1048576", &quarter);
    uint64_t bytes = alone.bytes_mapped + alone.bytes_read + alone.bytes_written;

    ck_assert_uint_eq(alone.map_bytes_max, 8 * 1024 * 1024);
    ck_assert_uint_eq(quarter.map_bytes_max, 2 * 1024 * 1024);
    ck_assert_uint_eq(alone.buffer_bytes, 512 * 1024); /* of each, reading and writing */
    ck_assert_uint_eq(quarter.buffer_bytes, 128 * 1024);
    ck_assert(alone.bytes_per_second > 7999 && alone.bytes_per_second < 8001);
    ck_assert(quarter.bytes_per_second > 1999 && quarter.bytes_per_second < 2001);
    ck_assert_uint_eq(quarter.bytes_mapped + quarter.bytes_read + quarter.bytes_written, bytes);
    ck_assert_int_ge(alone_ns, (int64_t)bytes * 1000000 / 8 / 2); /* the last piece is not waited for */
    ck_assert_int_ge(quarter_ns, 3 * alone_ns);
}
END_TEST

/* A part that would be nothing is still enough to get on with. */
START_TEST(a_small_part_is_enough)
{
    struct log_clean op;

    (void)clean_with("log.cleaner.threads=3", "log.cleaner.dedupe.buffer.size=0", "log.cleaner.io.buffer.size=0", &op);
    ck_assert_uint_eq(op.map_bytes_max, CLEANER_MAP_BYTES_MIN);
    ck_assert_uint_eq(op.buffer_bytes, CLEANER_BUFFER_BYTES_MIN);
}
END_TEST

/* At a rate of nothing a cleaning gets on by a piece a minute; a stop in its midst does not wait for it, and is clean.
 */
START_TEST(a_stop_does_not_wait_for_a_slow_one)
{
    struct uuid topic;
    struct shard_cleaner *cleaner = NULL;

    node_world_begin_with(&world, 4, 1, "log.cleaner.backoff.ms=5000", "log.cleaner.io.max.bytes.per.second=-1", NULL);
    topic = node_create_topic(&world, "t", 1, compacted, rolled_soon, NULL);
    fill(topic, 0, 0, SEALED_KEYS);
    seal(topic, 0);
    cleaner = cleaner_of(topic, 0);
    await(cleaner, is_busy, 20000);
    node_world_pass(&world, 50000);
    ck_assert(cleaner->busy);
    node_world_end(&world); /* asserts that it comes */
}
END_TEST

struct busy_seen {
    int32_t most;
    int32_t threads;
};

static void count_busy(void *context)
{
    struct busy_seen *seen = context;
    int32_t busy = 0;

    if (world.node.broker == NULL)
        return;
    for (uint32_t i = 0; i < world.node.broker->env.reactor_count; i++)
        busy += world.node.broker->shards[i].cleaner.busy ? 1 : 0;
    ck_assert_int_le(busy, seen->threads);
    ck_assert_int_le(busy, atomic_load(&world.node.broker->cleanings));
    if (busy > seen->most)
        seen->most = busy;
}

/* On four shards with two logs each. */
START_TEST(so_many_at_a_time)
{
    for (int32_t threads = 0; threads <= 5; threads++) {
        struct busy_seen seen = {0, threads};
        struct uuid topic;
        char setting[64];

        (void)snprintf(setting, sizeof(setting), "log.cleaner.threads=%d", threads);
        node_world_begin_with(&world, 5 + (uint64_t)threads, 4, "log.cleaner.backoff.ms=30000",
                              "log.cleaner.io.max.bytes.per.second=20000", setting, NULL);
        world.sim.stepped = count_busy;
        world.sim.stepped_context = &seen;
        topic = node_create_topic(&world, "t", 8, compacted, rolled_soon, NULL);
        for (int32_t i = 0; i < 8; i++)
            fill(topic, i, 0, SEALED_KEYS);
        node_world_pass(&world, ROLL_MS);
        for (int32_t i = 0; i < 8; i++)
            fill(topic, i, 1000, 1);
        node_world_pass(&world, 900000);
        ck_assert_int_eq(seen.most, threads < 4 ? threads : 4);
        ck_assert_int_eq(atomic_load(&world.node.broker->cleanings), 0);
        for (int32_t i = 0; i < 8; i++)
            ck_assert_int_eq(partition_cleaned_offset(partition_of(topic, i)), threads == 0 ? -1 : SEALED_KEYS);
        world.sim.stepped = NULL;
        node_world_end(&world);
    }
}
END_TEST

/* No pause between two looks is still one: a node with nothing to do does next to nothing. The longest there is, is
 * none that would come around in the timer. */
START_TEST(the_least_and_the_longest_backoff)
{
    for (int longest = 0; longest <= 1; longest++) {
        struct uuid topic;
        uint64_t steps = 0;

        node_world_begin_with(&world, 14, 1,
                              longest ? "log.cleaner.backoff.ms=9223372036854775807" : "log.cleaner.backoff.ms=0",
                              "metadata.max.idle.interval.ms=0", NULL);
        topic = node_create_topic(&world, "t", 1, compacted, rolled_soon, NULL);
        fill(topic, 0, 0, SEALED_KEYS);
        seal(topic, 0);
        node_world_pass(&world, 3000);
        ck_assert_int_eq(partition_cleaned_offset(partition_of(topic, 0)), longest ? -1 : SEALED_KEYS);
        steps = world.sim.steps;
        node_world_pass(&world, 10000);
        if (!longest)
            ck_assert_uint_lt(world.sim.steps - steps, 10 * (10000 / CLEANER_BACKOFF_MS_MIN));
        world.sim.mono_ns += (CLEANER_BACKOFF_MS_MAX - 1000) * INT64_C(1000000);
        node_world_pass(&world, 5000);
        ck_assert_int_eq(partition_cleaned_offset(partition_of(topic, 0)), SEALED_KEYS);
        node_world_end(&world);
    }
}
END_TEST

START_TEST(disabled_it_cleans_nothing)
{
    struct uuid topic;

    node_world_begin_with(&world, 11, 1, "log.cleaner.enable=false", NULL);
    topic = node_create_topic(&world, "t", 1, compacted, rolled_soon, NULL);
    fill(topic, 0, 0, SEALED_KEYS);
    seal(topic, 0);
    node_world_pass(&world, 600000);
    ck_assert_int_eq(partition_cleaned_offset(partition_of(topic, 0)), -1);
    node_world_end(&world);
}
END_TEST

/* What fails for want of something that may come back is tried again a minute later; the other has its turn before. */
START_TEST(one_that_fails_is_left_for_a_while)
{
    static const char *const names[] = {"topic=one ", "topic=other "};
    struct uuid topics[2];
    struct shard_cleaner *cleaner = NULL;
    int failed = 0;

    node_world_begin_with(&world, 12, 1, "log.cleaner.backoff.ms=10000", NULL);
    topics[0] = node_create_topic(&world, "one", 1, compacted, rolled_soon, NULL);
    topics[1] = node_create_topic(&world, "other", 1, compacted, rolled_soon, NULL);
    for (int i = 0; i < 2; i++)
        fill(topics[i], 0, 0, SEALED_KEYS);
    for (int i = 0; i < 2; i++)
        seal(topics[i], 0);
    cleaner = cleaner_of(topics[0], 0);
    node_hear(&world, "log cleaned");
    world.node.silent = true;
    await(cleaner, is_busy, 11000);
    sim_fs_set_fault(&world.disk, SIM_FS_FAIL, SIM_FS_OPEN, 1, ERR_NO_DESCRIPTORS);
    await(cleaner, is_idle, 60000);
    ck_assert(sim_fs_fault_struck(&world.disk));
    ck_assert_int_eq(cleaner->op.err, ERR_KAFKA_STORAGE_ERROR);
    ck_assert_int_eq(atomic_load(&world.node.broker->cleanings), 0);
    ck_assert_uint_eq(world.heard_count, 0);
    for (int i = 0; i < 2; i++)
        ck_assert(!partition_is_failed(partition_of(topics[i], 0)));
    node_world_pass(&world, 50000);
    ck_assert_uint_eq(world.heard_count, 1);
    failed = strstr(world.heard, names[0]) == NULL ? 0 : 1;
    ck_assert_int_eq(partition_cleaned_offset(partition_of(topics[failed], 0)), -1);
    node_world_pass(&world, 25000);
    ck_assert_uint_eq(world.heard_count, 2);
    ck_assert_ptr_nonnull(strstr(world.heard, names[failed]));
    node_world_end(&world);
}
END_TEST

/* A log whose directory fails while it is cleaned is never looked at again; those of others are. */
START_TEST(a_failed_directory_is_not_for_the_cleaner)
{
    struct uuid topics[2];
    struct shard_cleaner *cleaner = NULL;
    uint32_t lost = 0;

    node_world_begin_with(&world, 13, 1, "log.dirs=/data,/more", "log.cleaner.backoff.ms=10000", NULL);
    topics[0] = node_create_topic(&world, "one", 1, compacted, rolled_soon, NULL);
    topics[1] = node_create_topic(&world, "other", 1, compacted, rolled_soon, NULL);
    lost = shard_hosted(shard_home(world.node.broker, topics[0], 0), topics[0], 0)->dir == 1 ? 0 : 1;
    ck_assert_uint_eq(shard_hosted(shard_home(world.node.broker, topics[lost], 0), topics[lost], 0)->dir, 1);
    fill(topics[lost], 0, 0, SEALED_KEYS);
    seal(topics[lost], 0);
    cleaner = cleaner_of(topics[lost], 0);
    world.node.silent = true;
    await(cleaner, is_busy, 20000);
    sim_fs_set_fault(&world.disk, SIM_FS_FAIL, SIM_FS_READ, 1, ERR_IO);
    await(cleaner, is_idle, 60000);
    ck_assert(sim_fs_fault_struck(&world.disk));
    ck_assert(partition_is_failed(partition_of(topics[lost], 0)));
    ck_assert_int_eq(atomic_load(&world.node.broker->cleanings), 0);
    fill(topics[1 - lost], 0, 0, SEALED_KEYS);
    seal(topics[1 - lost], 0);
    node_hear(&world, "log cleaned");
    node_world_pass(&world, 600000);
    ck_assert_uint_eq(world.heard_count, 1);
    ck_assert_int_eq(partition_cleaned_offset(partition_of(topics[1 - lost], 0)), SEALED_KEYS);
    node_world_end(&world);
}
END_TEST

RUN_TESTS("broker/cleaner_turn", the_dirtiest_that_is_due_comes_first, what_lies_dirty_for_too_long_is_due,
          the_buffers_and_the_rate_are_divided, a_small_part_is_enough, a_stop_does_not_wait_for_a_slow_one,
          so_many_at_a_time, the_least_and_the_longest_backoff, disabled_it_cleans_nothing,
          one_that_fails_is_left_for_a_while, a_failed_directory_is_not_for_the_cleaner)
