/* Rule: a fetch of committed records ends at the last stable offset and names every aborted transaction that overlaps
 * what it brings; any other sees up to the high watermark and is told of none (B110, B112). Where records are to be
 * synced first, a marker counts from then on. */
#include "base/mem.h"
#include "run_tests.h"
#include "world.h"

static struct world world;
static struct partition *partition;
static struct partition_spec spec;
static struct arena arena;

static void begin(uint64_t seed)
{
    world_begin(&world, seed);
    arena_init(&arena, 64 << 20);
    spec = (struct partition_spec){
        .topic = BYTES_LITERAL("t"), .topic_id = world.spec.topic_id, .index = 0, .leader_epoch = 3, .clean = true};
    log_config_init(&spec.config);
}

static void open_partition(void)
{
    ck_assert_int_eq(partition_new(&world.env, &spec, NULL, NULL, &partition), ERR_OK);
}

struct closing {
    struct partition_close op;
    bool done;
};

static void was_closed(struct partition_close *op)
{
    LIST_ENTRY(op, struct closing, op)->done = true;
}

static void close_partition(void)
{
    struct closing closing = {.op.done = was_closed};

    partition_close(partition, &closing.op);
    world_run(&world, &closing.done);
    ck_assert_int_eq(closing.op.err, ERR_OK);
}

static void end_world(void)
{
    close_partition();
    ck_assert_uint_eq(world.disk.open_files, 0);
    arena_deinit(&arena);
    world_end(&world);
}

struct produce {
    struct partition_append op;
    bool done;
};

static void was_produced(struct partition_append *op)
{
    LIST_ENTRY(op, struct produce, op)->done = true;
}

static void put(uint8_t *batch, size_t size)
{
    struct produce produce = {.op = {.batch = batch,
                                     .size = size,
                                     .origin = LOG_ORIGIN_COORDINATOR,
                                     .acks = -1,
                                     .current_leader_epoch = -1,
                                     .arena = &arena,
                                     .done = was_produced}};

    partition_append(partition, &produce.op);
    world_run(&world, &produce.done);
    ck_assert_int_eq(produce.op.err, ERR_OK);
    mem_free(batch);
}

static void data(int64_t producer_id, uint32_t bytes)
{
    size_t size = 0;
    uint8_t *batch = make_batch(
        &(struct batch_make){.value_bytes = bytes, .producer_id = producer_id, .transactional = producer_id > 0},
        &size);

    put(batch, size);
}

static void mark(int64_t producer_id, bool commit)
{
    size_t size = 0;
    uint8_t *batch = make_marker(producer_id, 0, commit, 1, &size);

    put(batch, size);
}

struct fetch {
    struct partition_read op;
    bool done;
};

static void was_fetched(struct partition_read *op)
{
    LIST_ENTRY(op, struct fetch, op)->done = true;
}

/* The end of what it brought, -1 for nothing; the fetch itself is left for a look. */
static int64_t fetch(struct fetch *fetch, int64_t offset, uint32_t bytes_max, enum partition_isolation isolation)
{
    struct batch_header head;
    struct bytes rest;
    uint8_t *taken = NULL;
    int64_t end = -1;

    *fetch = (struct fetch){.op = {.offset = offset,
                                   .bytes_max = bytes_max,
                                   .at_least_one = true,
                                   .isolation = isolation,
                                   .current_leader_epoch = -1,
                                   .last_fetched_epoch = -1,
                                   .arena = &arena,
                                   .done = was_fetched}};
    partition_read(partition, &fetch->op);
    world_run(&world, &fetch->done);
    ck_assert_int_eq(fetch->op.err, ERR_OK);
    taken = slices_take(fetch->op.slices, fetch->op.slice_count, fetch->op.size);
    rest = bytes_of(taken, fetch->op.size);
    for (; batch_peek(rest, &head, NULL) == ERR_OK; rest = bytes_of(rest.data + head.size, rest.size - head.size))
        end = batch_last_offset(&head) + 1;
    mem_free(taken);
    return end;
}

static bool names(const struct fetch *fetch, int64_t producer_id, int64_t first_offset)
{
    for (uint32_t i = 0; i < fetch->op.aborted_count; i++)
        if (fetch->op.aborted[i].producer_id == producer_id && fetch->op.aborted[i].first_offset == first_offset)
            return true;
    return false;
}

START_TEST(committed_ends_at_the_last_stable_offset)
{
    struct fetch read;

    begin(1);
    open_partition();
    data(0, 10); /* 0 */
    data(1, 10); /* 1 */
    data(0, 10); /* 2 */
    ck_assert_int_eq(fetch(&read, 0, 1 << 20, PARTITION_READ_COMMITTED), 1);
    ck_assert_int_eq(read.op.last_stable_offset, 1);
    ck_assert_int_eq(read.op.high_watermark, 3);
    ck_assert_uint_eq(read.op.aborted_count, 0);
    ck_assert_int_eq(fetch(&read, 1, 1 << 20, PARTITION_READ_COMMITTED), -1);
    ck_assert_int_eq(fetch(&read, 0, 1 << 20, PARTITION_READ_UNCOMMITTED), 3);
    mark(1, false); /* 3 */
    ck_assert_int_eq(fetch(&read, 0, 1 << 20, PARTITION_READ_COMMITTED), 4);
    ck_assert_uint_eq(read.op.aborted_count, 1);
    ck_assert(names(&read, 1, 1));
    ck_assert_int_eq(fetch(&read, 0, 1 << 20, PARTITION_READ_UNCOMMITTED), 4);
    ck_assert_uint_eq(read.op.aborted_count, 0);
    ck_assert_int_eq(partition_last_stable_offset(partition), 4);
    end_world();
}
END_TEST

/* At the start, in the middle and across segments, by small fetches and by large ones, hot and cold. */
START_TEST(aborted_are_named_whatever_is_read)
{
    for (uint64_t seed = 0; seed < 6; seed++) {
        struct fetch read;
        int64_t end = 0;

        begin(seed);
        world.sim.habits.cached_miss_percent = (uint32_t)seed * 15;
        spec.config.segment_bytes = 6000;
        spec.config.index_interval_bytes = 500;
        open_partition();
        data(9, 10); /* aborted at the very end */
        for (int64_t i = 0; i < 20; i++) {
            data(1 + i % 2, 300); /* 1 + i * 3 */
            data(0, 300);
            mark(1 + i % 2, i % 2 == 1);
        }
        mark(9, false);
        if (seed % 2 == 1) {
            close_partition();
            spec.recovery_point = 62;
            open_partition();
        }
        for (uint32_t bytes_max = 1; bytes_max < 20000; bytes_max = bytes_max * 5 + 100)
            for (int64_t offset = 0; offset < 62; offset = offset < 3 ? offset + 1 : end) {
                end = fetch(&read, offset, bytes_max, PARTITION_READ_COMMITTED);
                ck_assert_int_gt(end, offset);
                ck_assert(names(&read, 9, 0));
                for (int64_t i = 0; i < 20; i += 2) {
                    bool overlaps = 1 + i * 3 < end && 3 + i * 3 >= offset;

                    ck_assert(!overlaps || names(&read, 1, 1 + i * 3));
                }
            }
        end_world();
    }
}
END_TEST

/* Neither a marker nor what it ends is stable before it is on the disk. */
START_TEST(markers_count_once_synced)
{
    for (uint64_t seed = 0; seed < 10; seed++) {
        struct produce produce = {0};
        struct fetch read;
        size_t size = 0;

        begin(seed);
        spec.config.flush_messages = 1;
        open_partition();
        data(1, 10);
        produce.op = (struct partition_append){.batch = make_marker(1, 0, true, 1, &size),
                                               .origin = LOG_ORIGIN_COORDINATOR,
                                               .acks = -1,
                                               .current_leader_epoch = -1,
                                               .arena = &arena,
                                               .done = was_produced};
        produce.op.size = size;
        partition_append(partition, &produce.op);
        while (!produce.done) {
            ck_assert_int_eq(partition_last_stable_offset(partition), 0);
            world_pass(&world, 20000);
        }
        ck_assert_int_eq(partition_last_stable_offset(partition), 2);
        ck_assert_int_eq(fetch(&read, 0, 1 << 20, PARTITION_READ_COMMITTED), 2);
        mem_free(produce.op.batch);
        end_world();
    }
}
END_TEST

/* Where nobody can say what was aborted, nothing is given. */
START_TEST(no_index_no_records)
{
    struct fetch read;

    begin(11);
    open_partition();
    data(1, 10);
    mark(1, false);
    close_partition();
    spec.recovery_point = 2;
    open_partition();
    (void)fetch(&read, 0, 1 << 20, PARTITION_READ_UNCOMMITTED); /* opened: its index too */
    ck_assert_int_eq(fetch(&read, 0, 1 << 20, PARTITION_READ_COMMITTED), 2);
    ck_assert(names(&read, 1, 0));
    close_partition();
    open_partition();
    world_pass(&world, 50000000);
    ck_assert(partition_is_ready(partition));
    sim_fs_set_fault(&world.disk, SIM_FS_FAIL, SIM_FS_OPEN, 4, ERR_NO_DESCRIPTORS); /* .log, two indexes, .txnindex */
    read = (struct fetch){.op = {.bytes_max = 1 << 20,
                                 .at_least_one = true,
                                 .isolation = PARTITION_READ_COMMITTED,
                                 .current_leader_epoch = -1,
                                 .last_fetched_epoch = -1,
                                 .arena = &arena,
                                 .done = was_fetched}};
    partition_read(partition, &read.op);
    world_run(&world, &read.done);
    ck_assert(sim_fs_fault_struck(&world.disk));
    ck_assert_int_eq(read.op.err, ERR_KAFKA_STORAGE_ERROR);
    ck_assert_uint_eq(read.op.size, 0);
    sim_fs_set_fault(&world.disk, SIM_FS_NO_FAULT, SIM_FS_ANY, 0, ERR_OK);
    ck_assert_int_eq(fetch(&read, 0, 1 << 20, PARTITION_READ_COMMITTED), 2);
    ck_assert(names(&read, 1, 0));
    end_world();
}
END_TEST

RUN_TESTS("partition_txn", committed_ends_at_the_last_stable_offset, aborted_are_named_whatever_is_read,
          markers_count_once_synced, no_index_no_records)
