/* Rule: DeleteRecords moves the start of a partition up to its high watermark and no further, with Apache Kafka's
 * errors; who waits below the new start is told; who asks while the partition loads waits for it. */
#include <check.h>
#include <stdlib.h>

#include "base/mem.h"
#include "run_tests.h"
#include "world.h"

static struct world world;
static struct partition *partition;

struct closing {
    struct partition_close op;
    bool done;
};

static void was_closed(struct partition_close *op)
{
    LIST_ENTRY(op, struct closing, op)->done = true;
}

static void end(void)
{
    struct closing closing = {.op.done = was_closed};

    partition_close(partition, &closing.op);
    world_run(&world, &closing.done);
    ck_assert_int_eq(closing.op.err, ERR_OK);
    ck_assert_uint_eq(world.disk.open_files, 0);
    world_end(&world);
}

struct waiting {
    struct partition_wait op;
    bool done;
};

static void is_ready(struct partition_wait *op, struct partition *which)
{
    ck_assert_ptr_eq(which, partition);
    LIST_ENTRY(op, struct waiting, op)->done = true;
}

static void begin(const struct log_config *config)
{
    struct partition_spec spec = {.topic = BYTES_LITERAL("t"), .leader_epoch = 3, .clean = true, .config = *config};
    struct waiting waiting = {.op.done = is_ready};

    world_begin(&world, 1);
    spec.topic_id = world.spec.topic_id;
    ck_assert_int_eq(partition_new(&world.env, &spec, NULL, NULL, &partition), ERR_OK);
    partition_when_ready(partition, &waiting.op);
    ck_assert(!waiting.done);
    world_run(&world, &waiting.done);
    waiting.done = false;
    partition_when_ready(partition, &waiting.op); /* at once */
    ck_assert(waiting.done);
}

struct produce {
    struct partition_append op;
    bool done;
};

static void was_produced(struct partition_append *op)
{
    LIST_ENTRY(op, struct produce, op)->done = true;
}

static void produce(int64_t timestamp)
{
    struct arena arena;
    struct produce produce = {.op = {.origin = LOG_ORIGIN_COORDINATOR,
                                     .acks = 1,
                                     .current_leader_epoch = -1,
                                     .arena = &arena,
                                     .done = was_produced}};

    arena_init(&arena, 1 << 20);
    produce.op.batch = make_batch(&(struct batch_make){.value_bytes = 1000, .timestamp = timestamp}, &produce.op.size);
    partition_append(partition, &produce.op);
    world_run(&world, &produce.done);
    ck_assert_int_eq(produce.op.err, ERR_OK);
    mem_free(produce.op.batch);
    arena_deinit(&arena);
}

static enum err delete_to(int64_t offset, int64_t *low_watermark)
{
    return partition_delete_records(partition, offset, low_watermark);
}

static int told;

static void watch_told(struct partition_watch *watch)
{
    (void)watch;
    told++;
}

START_TEST(up_to_the_high_watermark)
{
    struct log_config config;
    struct partition_watch watch = {.told = watch_told};
    int64_t low = 0;

    log_config_init(&config);
    begin(&config);
    ck_assert_int_eq(delete_to(0, &low), ERR_OK); /* a partition that nobody has written to */
    ck_assert_int_eq(low, 0);
    for (int i = 0; i < 5; i++)
        produce(1000);
    partition_watch_add(partition, &watch);
    ck_assert_int_eq(delete_to(6, &low), ERR_OFFSET_OUT_OF_RANGE);
    ck_assert_int_eq(low, -1);
    ck_assert_int_eq(delete_to(-2, &low), ERR_OFFSET_OUT_OF_RANGE);
    ck_assert_int_eq(told, 0);
    ck_assert_int_eq(delete_to(3, &low), ERR_OK);
    ck_assert_int_eq(low, 3);
    ck_assert_int_eq(told, 1);
    ck_assert_int_eq(delete_to(2, &low), ERR_OK); /* it is deleted already */
    ck_assert_int_eq(low, 3);
    ck_assert_int_eq(delete_to(PARTITION_DELETE_TO_HIGH_WATERMARK, &low), ERR_OK);
    ck_assert_int_eq(low, 5);
    ck_assert_int_eq(partition_start_offset(partition), 5);
    ck_assert_int_eq(partition_last_stable_offset(partition), 5);
    partition_watch_remove(&watch);
    end();
}
END_TEST

/* Where acknowledged means synced, what is not synced is not there to be deleted. */
START_TEST(not_beyond_what_is_synced)
{
    struct log_config config;
    int64_t low = 0;

    log_config_init(&config);
    config.flush_messages = 1;
    begin(&config);
    produce(1000);
    ck_assert_int_eq(delete_to(1, &low), ERR_OK);
    ck_assert_int_eq(delete_to(2, &low), ERR_OFFSET_OUT_OF_RANGE);
    end();
}
END_TEST

START_TEST(a_topic_that_only_compacts)
{
    struct log_config config;
    int64_t low = 0;

    log_config_init(&config);
    config.cleanup_compact = true;
    begin(&config);
    produce(1000);
    ck_assert_int_eq(delete_to(1, &low), ERR_OK); /* compact,delete */
    config.cleanup_delete = false;
    partition_set_config(partition, &config);
    ck_assert_int_eq(delete_to(1, &low), ERR_POLICY_VIOLATION);
    config.cleanup_compact = false; /* no policy at all: as in 4.2 */
    partition_set_config(partition, &config);
    ck_assert_int_eq(delete_to(1, &low), ERR_OK);
    end();
}
END_TEST

/* What the topic's configuration says holds from the moment it says it. */
START_TEST(retention_follows_the_configuration)
{
    struct log_config config;

    log_config_init(&config);
    config.segment_bytes = 1100;
    begin(&config);
    for (int i = 0; i < 4; i++)
        produce(clock_wall_ms(&world.sim.clock));
    world_pass(&world, INT64_C(1000000000));
    partition_retain(partition);
    ck_assert_int_eq(partition_start_offset(partition), 0);
    config.retention_ms = 500;
    partition_set_config(partition, &config);
    partition_retain(partition);
    world_pass(&world, INT64_C(1000000000));
    ck_assert_int_eq(partition_start_offset(partition), 4);
    ck_assert_int_eq(partition_end_offset(partition), 4);
    end();
}
END_TEST

RUN_TESTS("partition_retain", up_to_the_high_watermark, not_beyond_what_is_synced, a_topic_that_only_compacts,
          retention_follows_the_configuration)
