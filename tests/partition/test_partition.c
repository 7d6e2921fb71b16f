/* Rule: what a leader answers. Produce completes once, at the watermark it has to wait for; Fetch sees up to its
 * isolation's bound; ListOffsets finds the right offsets; whoever waits is told; every operation ends when the
 * partition does.
 *
 * Sources: partition/log_find.c, partition/partition_append.c, partition/partition_facts.c,
 * partition/partition_offsets.c, partition/partition_read.c */
#include <check.h>
#include <stdlib.h>

#include "base/mem.h"
#include "partition/partition_limits.h"
#include "world.h"

static struct world world;
static struct partition *partition;
static struct partition_spec spec;
static struct arena arena;
static bool ready;

static void is_ready(void *context, struct partition *which, enum err err)
{
    (void)context;
    (void)which;
    ck_assert_int_eq(err, ERR_OK);
    ready = true;
}

static void open_partition(void)
{
    ready = false;
    ck_assert_int_eq(partition_new(&world.env, &spec, is_ready, NULL, &partition), ERR_OK);
}

static void begin(uint64_t seed)
{
    world_begin(&world, seed);
    arena_init(&arena, 64 << 20);
    spec = (struct partition_spec){
        .topic = BYTES_LITERAL("t"), .topic_id = world.spec.topic_id, .index = 0, .leader_epoch = 3, .clean = true};
    log_config_init(&spec.config);
    spec.config.timestamp_after_max_ms = INT64_MAX;
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

static void end(void)
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
    struct produce *produce = LIST_ENTRY(op, struct produce, op);

    ck_assert(!produce->done);
    produce->done = true;
}

static void produce_start(struct produce *produce, const struct batch_make *make, int16_t acks)
{
    size_t size = 0;
    uint8_t *batch = make_batch(make, &size);
    uint8_t *copy = arena_alloc(&arena, size);

    memcpy(copy, batch, size);
    mem_free(batch);
    *produce = (struct produce){.op = {.batch = copy,
                                       .size = size,
                                       .origin = LOG_ORIGIN_CLIENT,
                                       .acks = acks,
                                       .current_leader_epoch = -1,
                                       .zstd_allowed = true,
                                       .arena = &arena,
                                       .done = was_produced}};
    partition_append(partition, &produce->op);
}

static enum err produce(const struct batch_make *make, int64_t *base_offset)
{
    struct produce produce;

    produce_start(&produce, make, -1);
    world_run(&world, &produce.done);
    if (base_offset != NULL)
        *base_offset = produce.op.base_offset;
    return produce.op.err;
}

struct fetch {
    struct partition_read op;
    bool done;
};

static void was_fetched(struct partition_read *op)
{
    LIST_ENTRY(op, struct fetch, op)->done = true;
}

/* Gives the bytes fetched; err and offsets are in fetch. */
static size_t fetch(struct fetch *fetch, int64_t offset, enum partition_isolation isolation)
{
    struct partition_read op = fetch->op;

    op.offset = offset;
    op.isolation = isolation;
    op.bytes_max = op.bytes_max == 0 ? 1 << 20 : op.bytes_max;
    op.at_least_one = true;
    op.arena = &arena;
    op.done = was_fetched;
    *fetch = (struct fetch){.op = op};
    partition_read(partition, &fetch->op);
    world_run(&world, &fetch->done);
    mem_free(slices_take(fetch->op.slices, fetch->op.slice_count, fetch->op.size));
    return fetch->op.size;
}

static struct fetch plain_fetch(void)
{
    return (struct fetch){.op = {.current_leader_epoch = -1, .last_fetched_epoch = -1}};
}

START_TEST(operations_wait_for_the_load)
{
    struct produce first;
    struct fetch read = plain_fetch();

    begin(1);
    open_partition();
    produce_start(&first, &(struct batch_make){.record_count = 2}, 1);
    ck_assert(!first.done);
    ck_assert_uint_gt(fetch(&read, 0, PARTITION_READ_UNCOMMITTED) + 1, 0);
    ck_assert_int_eq(read.op.err, ERR_OK);
    world_run(&world, &first.done);
    ck_assert_int_eq(first.op.err, ERR_OK);
    ck_assert_int_eq(first.op.base_offset, 0);
    ck_assert_int_eq(first.op.log_start_offset, 0);
    ck_assert(ready);
    read = plain_fetch();
    ck_assert_uint_gt(fetch(&read, 0, PARTITION_READ_UNCOMMITTED), 0);
    ck_assert_int_eq(read.op.high_watermark, 2);
    ck_assert_int_eq(read.op.last_stable_offset, 2);
    end();
}
END_TEST

/* Rule: with flush.messages=1 neither an ack nor a consumer runs ahead of the disk. */
enum { MANY = 12 };

static struct partition *many[MANY];
static uint32_t ready_order[MANY];
static uint32_t ready_count;

static void one_is_ready(void *context, struct partition *which, enum err err)
{
    (void)context;
    ck_assert_int_eq(err, ERR_OK);
    ready_order[ready_count++] = (uint32_t)partition_index(which);
}

/* Partitions are loaded a few at a time, so that other jobs come through, and first those that somebody waits for. */
START_TEST(who_is_asked_for_is_loaded_first)
{
    struct produce one;
    uint32_t place = 0;

    begin(1);
    ready_count = 0;
    for (int32_t i = 0; i < MANY; i++) {
        spec.index = i;
        ck_assert_int_eq(partition_new(&world.env, &spec, one_is_ready, NULL, &many[i]), ERR_OK);
    }
    ck_assert_uint_eq(world.files.loads_running, PARTITION_LOADS_MAX);
    partition = many[MANY - 1];
    produce_start(&one, &(struct batch_make){.record_count = 1, .value_bytes = 10, .timestamp = 1}, 1);
    world_run(&world, &one.done);
    ck_assert_int_eq(one.op.err, ERR_OK);
    while (ready_count < MANY)
        ck_assert(sim_step(&world.sim, INT64_MAX));
    while (ready_order[place] != MANY - 1)
        place++;
    ck_assert_uint_le(place, PARTITION_LOADS_MAX);
    ck_assert_uint_eq(world.files.loads_running, 0);
    for (int32_t i = 0; i < MANY - 1; i++) {
        partition = many[i];
        close_partition();
    }
    partition = many[MANY - 1];
    end();
}
END_TEST

/* One that is closed, or deleted, before its load has begun leaves the others to be loaded. */
START_TEST(who_goes_before_it_is_loaded_does_not_hold_the_others)
{
    begin(2);
    ready_count = 0;
    for (int32_t i = 0; i < MANY; i++) {
        spec.index = i;
        ck_assert_int_eq(partition_new(&world.env, &spec, one_is_ready, NULL, &many[i]), ERR_OK);
    }
    for (int32_t i = 1; i < MANY; i += 2) {
        partition = many[i];
        close_partition();
    }
    while (ready_count < MANY / 2)
        ck_assert(sim_step(&world.sim, INT64_MAX));
    for (int32_t i = 0; i < MANY - 2; i += 2) {
        partition = many[i];
        close_partition();
    }
    partition = many[MANY - 2];
    end();
}
END_TEST

START_TEST(synced_before_acknowledged)
{
    for (uint64_t seed = 0; seed < 20; seed++) {
        struct produce produces[10];

        begin(seed);
        spec.config.flush_messages = 1;
        open_partition();
        world_run(&world, &ready);
        for (int i = 0; i < 10; i++) {
            produce_start(&produces[i], &(struct batch_make){.value_bytes = 100}, i % 2 == 0 ? -1 : 1);
            ck_assert(!produces[i].done);
        }
        for (int i = 0; i < 10; i++) {
            world_run(&world, &produces[i].done);
            ck_assert_int_eq(produces[i].op.err, ERR_OK);
            ck_assert_int_eq(produces[i].op.base_offset, i);
            ck_assert_int_ge(partition_synced_offset(partition), i + 1);
            ck_assert_int_le(partition_high_watermark(partition), partition_synced_offset(partition));
        }
        ck_assert_uint_le(world.disk.calls[SIM_FS_SYNC], 8); /* one serves many */
        end();
    }
}
END_TEST

/* Known trap B026. */
START_TEST(fetch_bounds)
{
    struct fetch read = plain_fetch();

    begin(2);
    open_partition();
    ck_assert_uint_eq(fetch(&read, 0, PARTITION_READ_UNCOMMITTED), 0);
    ck_assert_int_eq(read.op.err, ERR_OK);
    for (int i = 0; i < 5; i++)
        ck_assert_int_eq(produce(&(struct batch_make){.value_bytes = 10}, NULL), ERR_OK);
    read = plain_fetch();
    ck_assert_uint_eq(fetch(&read, 5, PARTITION_READ_UNCOMMITTED), 0);
    ck_assert_int_eq(read.op.err, ERR_OK);
    ck_assert_int_eq(read.op.high_watermark, 5);
    ck_assert_uint_eq(fetch(&read, 6, PARTITION_READ_UNCOMMITTED), 0);
    ck_assert_int_eq(read.op.err, ERR_OFFSET_OUT_OF_RANGE);
    ck_assert_int_eq(read.op.high_watermark, -1);
    ck_assert_uint_eq(fetch(&read, -1, PARTITION_READ_UNCOMMITTED), 0);
    ck_assert_int_eq(read.op.err, ERR_OFFSET_OUT_OF_RANGE);
    end();
}
END_TEST

START_TEST(epochs_are_checked)
{
    struct fetch read = plain_fetch();

    begin(3);
    open_partition();
    ck_assert_int_eq(produce(&(struct batch_make){.value_bytes = 10}, NULL), ERR_OK);
    read.op.current_leader_epoch = 2;
    fetch(&read, 0, PARTITION_READ_UNCOMMITTED);
    ck_assert_int_eq(read.op.err, ERR_FENCED_LEADER_EPOCH);
    read.op.current_leader_epoch = 4;
    fetch(&read, 0, PARTITION_READ_UNCOMMITTED);
    ck_assert_int_eq(read.op.err, ERR_UNKNOWN_LEADER_EPOCH);
    ck_assert_int_eq(partition_set_leader_epoch(partition, 7), ERR_OK);
    ck_assert_int_eq(produce(&(struct batch_make){.value_bytes = 10}, NULL), ERR_OK);
    /* A reader that has read offset 1 in epoch 3 has read what was never written: epoch 3 ended at 1. */
    read = plain_fetch();
    read.op.last_fetched_epoch = 3;
    fetch(&read, 2, PARTITION_READ_LOG_END);
    ck_assert_int_eq(read.op.err, ERR_OK);
    ck_assert(read.op.diverging);
    ck_assert_int_eq(read.op.diverging_epoch, 3);
    ck_assert_int_eq(read.op.diverging_end_offset, 1);
    read.op.last_fetched_epoch = 3;
    ck_assert_uint_gt(fetch(&read, 1, PARTITION_READ_LOG_END), 0);
    ck_assert(!read.op.diverging);
    read.op.last_fetched_epoch = 8;
    fetch(&read, 1, PARTITION_READ_LOG_END);
    ck_assert_int_eq(read.op.err, ERR_OFFSET_OUT_OF_RANGE);
    end();
}
END_TEST

/* Known traps B101 and B103, and again after a restart: the snapshot keeps the last batch of a producer. */
START_TEST(sequences)
{
    struct batch_make make = {.record_count = 2, .producer_id = 77, .producer_epoch = 1};
    int64_t offset = 0;

    begin(4);
    make.timestamp = clock_wall_ms(&world.sim.clock); /* producers of long ago expire with the restart */
    open_partition();
    for (int i = 0; i < 10; i++) {
        make.base_sequence = i * 2;
        ck_assert_int_eq(produce(&make, &offset), ERR_OK);
        ck_assert_int_eq(offset, i * 2);
    }
    for (int i = 5; i < 10; i++) {
        make.base_sequence = i * 2;
        ck_assert_int_eq(produce(&make, &offset), ERR_OK);
        ck_assert_int_eq(offset, i * 2);
    }
    make.base_sequence = 8; /* the sixth last */
    ck_assert_int_eq(produce(&make, NULL), ERR_OUT_OF_ORDER_SEQUENCE_NUMBER);
    make.base_sequence = 22;
    ck_assert_int_eq(produce(&make, NULL), ERR_OUT_OF_ORDER_SEQUENCE_NUMBER);
    make.producer_epoch = 2;
    make.base_sequence = 3;
    ck_assert_int_eq(produce(&make, NULL), ERR_OUT_OF_ORDER_SEQUENCE_NUMBER);
    make.producer_epoch = 0;
    make.base_sequence = 20;
    ck_assert_int_eq(produce(&make, NULL), ERR_INVALID_PRODUCER_EPOCH);
    ck_assert_int_eq(partition_end_offset(partition), 20);
    close_partition();
    open_partition();
    make.producer_epoch = 1;
    make.base_sequence = 18;
    ck_assert_int_eq(produce(&make, &offset), ERR_OK);
    ck_assert_int_eq(offset, 18);
    ck_assert_int_eq(partition_end_offset(partition), 20);
    make.base_sequence = 20;
    ck_assert_int_eq(produce(&make, &offset), ERR_OK);
    ck_assert_int_eq(offset, 20);
    make.producer_epoch = 2;
    make.base_sequence = 0;
    ck_assert_int_eq(produce(&make, &offset), ERR_OK);
    ck_assert_int_eq(offset, 22);
    end();
}
END_TEST

/* After a kill the state is rebuilt from the batches: all five are known again. */
START_TEST(sequences_survive_a_kill)
{
    struct batch_make make = {.record_count = 1, .producer_id = 5, .producer_epoch = 0};
    struct closing closing = {.op.done = was_closed};
    int64_t offset = 0;

    begin(5);
    make.timestamp = clock_wall_ms(&world.sim.clock);
    spec.config.segment_bytes = 400;
    open_partition();
    for (int i = 0; i < 20; i++) {
        make.base_sequence = i;
        ck_assert_int_eq(produce(&make, NULL), ERR_OK);
    }
    world_pass(&world, INT64_C(100000000));
    partition_fail(partition, ERR_IO);
    partition_close(partition, &closing.op);
    world_run(&world, &closing.done);
    sim_fs_kill(&world.disk);
    spec.clean = false;
    open_partition();
    for (int i = 15; i < 20; i++) {
        make.base_sequence = i;
        ck_assert_int_eq(produce(&make, &offset), ERR_OK);
        ck_assert_int_eq(offset, i);
    }
    ck_assert_int_eq(partition_end_offset(partition), 20);
    end();
}
END_TEST

struct ask {
    struct partition_offsets op;
    bool done;
};

static void was_answered(struct partition_offsets *op)
{
    LIST_ENTRY(op, struct ask, op)->done = true;
}

static struct partition_offsets ask(int64_t timestamp, uint32_t max_num_offsets)
{
    struct ask ask = {.op = {.timestamp = timestamp,
                             .current_leader_epoch = -1,
                             .max_num_offsets = max_num_offsets,
                             .arena = &arena,
                             .done = was_answered}};

    partition_offsets(partition, &ask.op);
    world_run(&world, &ask.done);
    ck_assert_int_eq(ask.op.err, ERR_OK);
    return ask.op;
}

static void check_time(int64_t timestamp, int64_t offset, int64_t found)
{
    struct partition_offsets op = ask(timestamp, 0);

    ck_assert_int_eq(op.offset, offset);
    ck_assert_int_eq(op.out_timestamp, found);
}

/* Known traps B034 and B035: four records at 2, 4, 6, 8, as four batches and as one, plain and compressed. */
START_TEST(offsets_by_time)
{
    static const enum codec codecs[] = {CODEC_NONE, CODEC_NONE, CODEC_GZIP, CODEC_SNAPPY, CODEC_LZ4, CODEC_ZSTD};

    for (size_t i = 0; i < sizeof(codecs) / sizeof(codecs[0]); i++) {
        begin(6 + i);
        open_partition();
        world_run(&world, &ready);
        check_time(1, -1, -1);
        check_time(PARTITION_OFFSET_MAX_TIMESTAMP, -1, -1);
        if (i == 0)
            for (int64_t t = 2; t <= 8; t += 2)
                ck_assert_int_eq(produce(&(struct batch_make){.timestamp = t}, NULL), ERR_OK);
        else
            ck_assert_int_eq(
                produce(
                    &(struct batch_make){
                        .record_count = 4, .value_bytes = 30, .timestamp = 2, .timestamp_step = 2, .codec = codecs[i]},
                    NULL),
                ERR_OK);
        for (int again = 0; again < 2; again++) {
            for (int64_t t = 0; t <= 8; t++)
                check_time(t, t <= 2 ? 0 : (t + 1) / 2 - 1, t <= 2 ? 2 : (t + 1) / 2 * 2);
            check_time(9, -1, -1);
            check_time(PARTITION_OFFSET_MAX_TIMESTAMP, 3, 8);
            ck_assert_int_eq(ask(5, 0).leader_epoch, 3);
            close_partition();
            open_partition();
        }
        end();
    }
}
END_TEST

static void check_next(int64_t offset_min, int64_t offset, int64_t time)
{
    struct ask ask = {.op = {.timestamp = PARTITION_OFFSET_NEXT,
                             .offset_min = offset_min,
                             .current_leader_epoch = -1,
                             .arena = &arena,
                             .done = was_answered}};

    partition_offsets(partition, &ask.op);
    world_run(&world, &ask.done);
    ck_assert_int_eq(ask.op.err, ERR_OK);
    ck_assert_int_eq(ask.op.offset, offset);
    ck_assert_int_eq(ask.op.out_timestamp, time);
}

/* PARTITION_OFFSET_NEXT: the first record at or above an offset, with its own time, whatever the times of others are,
 * in the middle of a batch, compressed or not, and over segments; nothing where the log ends; from the log's start
 * where that is later. */
START_TEST(next_record_with_its_time)
{
    static const enum codec codecs[] = {CODEC_NONE, CODEC_LZ4};

    for (size_t i = 0; i < sizeof(codecs) / sizeof(codecs[0]); i++) {
        begin(60 + i);
        spec.config.segment_bytes = 400;
        open_partition();
        world_run(&world, &ready);
        check_next(0, -1, -1);
        for (int64_t batch = 0; batch < 6; batch++) /* 900, 899, 898; 800, ... */
            ck_assert_int_eq(produce(&(struct batch_make){.record_count = 3,
                                                          .value_bytes = 100,
                                                          .timestamp = 900 - 100 * batch,
                                                          .timestamp_step = -1,
                                                          .codec = codecs[i]},
                                     NULL),
                             ERR_OK);
        for (int again = 0; again < 2; again++) {
            for (int64_t offset = 0; offset < 18; offset++)
                check_next(offset, offset, 900 - 100 * (offset / 3) - offset % 3);
            check_next(18, -1, -1);
            check_next(1000, -1, -1);
            close_partition();
            open_partition();
        }
        world_run(&world, &ready);
        end();
    }
}
END_TEST

/* Known trap B037, over many segments, times not in order. */
START_TEST(offsets_by_time_over_segments)
{
    enum { RECORDS = 300 };
    int64_t times[RECORDS];

    begin(20);
    spec.config.segment_bytes = 2000;
    spec.config.index_interval_bytes = 200;
    open_partition();
    for (int i = 0; i < RECORDS; i++) {
        times[i] = 1 + (i * 7919) % 500;
        ck_assert_int_eq(produce(&(struct batch_make){.timestamp = times[i], .value_bytes = 10}, NULL), ERR_OK);
    }
    for (int again = 0; again < 2; again++) {
        for (int64_t t = 0; t <= 510; t += 3) {
            int64_t expected = -1;

            for (int i = 0; i < RECORDS && expected < 0; i++)
                if (times[i] >= t)
                    expected = i;
            check_time(t, expected, expected < 0 ? -1 : times[expected]);
        }
        close_partition();
        open_partition();
    }
    int64_t greatest = 0;
    for (int i = 0; i < RECORDS; i++)
        greatest = times[i] > times[greatest] ? i : greatest;
    check_time(PARTITION_OFFSET_MAX_TIMESTAMP, greatest, times[greatest]);
    end();
}
END_TEST

/* Known traps B041 and B043; v0's list (B040). */
START_TEST(special_offsets)
{
    struct partition_offsets op;

    begin(21);
    spec.leader_epoch = 0;
    spec.config.segment_bytes = 250;
    open_partition();
    world_run(&world, &ready);
    op = ask(PARTITION_OFFSET_LATEST, 0);
    ck_assert_int_eq(op.offset, 0);
    ck_assert_int_eq(op.out_timestamp, -1);
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(produce(&(struct batch_make){.value_bytes = 50, .timestamp = 10 + i}, NULL), ERR_OK);
    ck_assert_int_eq(partition_set_leader_epoch(partition, 4), ERR_OK);
    for (int i = 4; i < 6; i++)
        ck_assert_int_eq(produce(&(struct batch_make){.value_bytes = 50, .timestamp = 10 + i}, NULL), ERR_OK);
    op = ask(PARTITION_OFFSET_EARLIEST, 0);
    ck_assert_int_eq(op.offset, 0);
    ck_assert_int_eq(op.leader_epoch, 0);
    op = ask(PARTITION_OFFSET_EARLIEST_LOCAL, 0);
    ck_assert_int_eq(op.offset, 0);
    op = ask(PARTITION_OFFSET_LATEST_TIERED, 0);
    ck_assert_int_eq(op.offset, -1);
    op = ask(PARTITION_OFFSET_LATEST, 0);
    ck_assert_int_eq(op.offset, 6);
    ck_assert_int_eq(op.leader_epoch, 4);
    ck_assert_int_eq(ask(12, 0).leader_epoch, 0);
    ck_assert_int_eq(ask(14, 0).leader_epoch, 4);
    ck_assert_int_eq(ask(PARTITION_OFFSET_MAX_TIMESTAMP, 0).leader_epoch, 4);
    op = ask(PARTITION_OFFSET_LATEST, 10);
    ck_assert_uint_eq(op.offset_count, 4);
    ck_assert_int_eq(op.offsets[0], 6);
    ck_assert_int_eq(op.offsets[1], 4);
    ck_assert_int_eq(op.offsets[2], 2);
    ck_assert_int_eq(op.offsets[3], 0);
    ck_assert_uint_eq(ask(PARTITION_OFFSET_LATEST, 2).offset_count, 2);
    op = ask(13, 10);
    ck_assert_uint_eq(op.offset_count, 2);
    ck_assert_int_eq(op.offsets[0], 2);
    op = ask(PARTITION_OFFSET_EARLIEST, 10);
    ck_assert_uint_eq(op.offset_count, 1);
    ck_assert_int_eq(op.offsets[0], 0);
    end();
}
END_TEST

struct watcher {
    struct partition_watch watch;
    int told;
    bool gone;
};

static void told(struct partition_watch *watch)
{
    struct watcher *watcher = LIST_ENTRY(watch, struct watcher, watch);

    watcher->told++;
    watcher->gone = watch->partition == NULL;
}

START_TEST(watches_are_told_once_until_armed)
{
    struct watcher one = {.watch.told = told};
    struct watcher two = {.watch.told = told};

    begin(22);
    open_partition();
    world_run(&world, &ready);
    partition_watch_add(partition, &one.watch);
    partition_watch_add(partition, &two.watch);
    ck_assert_int_eq(produce(&(struct batch_make){.value_bytes = 50}, NULL), ERR_OK);
    ck_assert_int_eq(produce(&(struct batch_make){.value_bytes = 50}, NULL), ERR_OK);
    ck_assert_int_eq(one.told, 1);
    ck_assert_int_eq(two.told, 1);
    partition_watch_arm(&one.watch);
    partition_watch_remove(&two.watch);
    partition_watch_remove(&two.watch);
    ck_assert_int_eq(produce(&(struct batch_make){.value_bytes = 50}, NULL), ERR_OK);
    ck_assert_int_eq(one.told, 2);
    ck_assert_int_eq(two.told, 1);
    partition_watch_arm(&one.watch);
    ck_assert_int_eq(partition_set_leader_epoch(partition, 9), ERR_OK);
    ck_assert_int_eq(one.told, 3);
    end();
    ck_assert_int_eq(one.told, 4); /* not armed, but it is the end */
    ck_assert(one.gone);
    partition_watch_arm(&one.watch);
    partition_watch_remove(&one.watch);
}
END_TEST

/* Each completes exactly once: by cancellation, by the end of the partition, or by its own success. */
START_TEST(every_produce_ends)
{
    for (uint64_t seed = 0; seed < 60; seed++) {
        struct produce produces[12];
        struct closing closing = {.op.done = was_closed};

        begin(seed);
        spec.config.flush_messages = 1;
        spec.config.segment_bytes = 300;
        open_partition();
        for (int i = 0; i < 12; i++) {
            produce_start(&produces[i], &(struct batch_make){.value_bytes = 50}, -1);
            world_pass(&world, (int64_t)sim_draw(&world.sim, 1000000));
            if (sim_chance(&world.sim, 30) && !produces[i].done &&
                partition_append_cancel(&produces[i].op, ERR_REQUEST_TIMED_OUT)) {
                ck_assert(produces[i].done);
                ck_assert_int_eq(produces[i].op.err, ERR_REQUEST_TIMED_OUT);
            }
        }
        if (seed % 2 == 0)
            partition_delete(partition, &closing.op);
        else
            partition_close(partition, &closing.op);
        world_run(&world, &closing.done);
        for (int i = 0; i < 12; i++) {
            enum err err = produces[i].op.err;

            ck_assert(produces[i].done);
            ck_assert(err == ERR_OK || err == ERR_REQUEST_TIMED_OUT ||
                      err == (seed % 2 == 0 ? ERR_UNKNOWN_TOPIC_OR_PARTITION : ERR_NOT_LEADER_OR_FOLLOWER));
        }
        ck_assert_uint_eq(world.disk.open_files, 0);
        arena_deinit(&arena);
        world_end(&world);
    }
}
END_TEST

/* ENOSPC fences nothing: what did not fit is refused, what fits later is taken. */
START_TEST(full_disk_refuses_and_goes_on)
{
    struct fetch read = plain_fetch();
    int64_t last = 0;

    begin(23);
    open_partition();
    ck_assert_int_eq(produce(&(struct batch_make){.value_bytes = 1000}, NULL), ERR_OK);
    world.disk.capacity_bytes = world.disk.used_bytes + 5500;
    while (produce(&(struct batch_make){.value_bytes = 1000}, &last) == ERR_OK)
        ck_assert_int_lt(last, 10);
    ck_assert_int_eq(produce(&(struct batch_make){.value_bytes = 1000}, NULL), ERR_KAFKA_STORAGE_ERROR);
    ck_assert(!partition_is_failed(partition));
    ck_assert_uint_eq(world.storage_failures, 0);
    ck_assert_uint_gt(fetch(&read, 0, PARTITION_READ_UNCOMMITTED), 5000);
    world_pass(&world, INT64_C(10000000)); /* the cutting back is a job */
    ck_assert_uint_eq(sim_fs_peek(&world.disk, "/data/t-0/00000000000000000000.log").size, partition_size(partition));
    world.disk.capacity_bytes = UINT64_MAX;
    last = partition_end_offset(partition);
    ck_assert_int_eq(produce(&(struct batch_make){.value_bytes = 1000}, NULL), ERR_OK);
    ck_assert_int_eq(partition_end_offset(partition), last + 1);
    end();
}
END_TEST

/* A failed sync is final: nothing is acknowledged after it, and the directory is reported. */
START_TEST(failed_sync_fences)
{
    struct closing closing = {.op.done = was_closed};
    struct fetch read = plain_fetch();

    begin(24);
    spec.config.flush_messages = 1;
    open_partition();
    ck_assert_int_eq(produce(&(struct batch_make){.value_bytes = 100}, NULL), ERR_OK);
    sim_fs_set_fault(&world.disk, SIM_FS_FAIL, SIM_FS_SYNC, 1, ERR_NO_SPACE);
    ck_assert_int_eq(produce(&(struct batch_make){.value_bytes = 100}, NULL), ERR_KAFKA_STORAGE_ERROR);
    ck_assert(partition_is_failed(partition));
    ck_assert_uint_eq(world.storage_failures, 1);
    ck_assert_int_eq(produce(&(struct batch_make){.value_bytes = 100}, NULL), ERR_KAFKA_STORAGE_ERROR);
    fetch(&read, 0, PARTITION_READ_UNCOMMITTED);
    ck_assert_int_eq(read.op.err, ERR_KAFKA_STORAGE_ERROR);
    partition_close(partition, &closing.op);
    world_run(&world, &closing.done);
    ck_assert_int_eq(closing.op.err, ERR_KAFKA_STORAGE_ERROR);
    arena_deinit(&arena);
    world_end(&world);
}
END_TEST

/* Rule: with flush.messages=1 what was acknowledged survives the power going at any call of the disk. */
START_TEST(acknowledged_survives_power_cuts)
{
    for (uint64_t k = 1;; k++) {
        struct produce produces[16];
        struct closing closing = {.op.done = was_closed};
        int64_t acked_end = 0;
        bool struck = false;

        begin(k);
        spec.config.flush_messages = 1;
        spec.config.segment_bytes = 1200;
        sim_fs_set_fault(&world.disk, SIM_FS_DIE, SIM_FS_ANY, k, ERR_IO);
        ck_assert_int_eq(partition_new(&world.env, &spec, NULL, NULL, &partition), ERR_OK);
        for (int i = 0; i < 16; i++) {
            produce_start(&produces[i], &(struct batch_make){.value_bytes = 100, .fill = (uint8_t)i},
                          i % 3 == 0 ? 1 : -1);
            if (i % 4 == 3)
                world_run(&world, &produces[i].done);
        }
        spec.recovery_point = k % 2 == 0 ? partition_recovery_point(partition) : 0;
        for (int i = 0; i < 16; i++) {
            world_run(&world, &produces[i].done);
            if (produces[i].op.err == ERR_OK) {
                ck_assert_int_eq(produces[i].op.base_offset, acked_end);
                acked_end++;
            }
        }
        struck = sim_fs_fault_struck(&world.disk);
        partition_fail(partition, ERR_IO);
        partition_close(partition, &closing.op);
        world_run(&world, &closing.done);
        sim_fs_cut(&world.disk);
        spec.clean = false;
        open_partition();
        world_run(&world, &ready);
        ck_assert_int_ge(partition_end_offset(partition), acked_end);
        for (int64_t offset = 0; offset < acked_end; offset++) {
            struct fetch read = plain_fetch();

            ck_assert_uint_gt(fetch(&read, offset, PARTITION_READ_LOG_END), 0);
        }
        end();
        if (!struck)
            break;
    }
}
END_TEST

START_TEST(bad_batches_are_refused)
{
    struct produce bad = {0};
    uint8_t *batch = NULL;
    size_t size = 0;

    begin(25);
    spec.config.max_message_bytes = 5000;
    open_partition();
    ck_assert_int_eq(produce(&(struct batch_make){.value_bytes = 6000}, NULL), ERR_MESSAGE_TOO_LARGE);
    ck_assert_int_eq(produce(&(struct batch_make){.transactional = true, .producer_id = 3}, NULL),
                     ERR_INVALID_TXN_STATE);
    batch = make_batch(&(struct batch_make){.value_bytes = 100}, &size);
    batch[size - 1] ^= 1;
    bad.op = (struct partition_append){.batch = batch,
                                       .size = size,
                                       .origin = LOG_ORIGIN_CLIENT,
                                       .acks = 1,
                                       .current_leader_epoch = -1,
                                       .arena = &arena,
                                       .done = was_produced};
    partition_append(partition, &bad.op);
    ck_assert(bad.done);
    ck_assert_int_eq(bad.op.err, ERR_CORRUPT_MESSAGE);
    bad.done = false;
    bad.op.batch = NULL;
    bad.op.size = 0;
    partition_append(partition, &bad.op);
    ck_assert_int_eq(bad.op.err, ERR_INVALID_RECORD);
    ck_assert_int_eq(partition_end_offset(partition), 0);
    mem_free(batch);
    end();
}
END_TEST

/* compression.type other than the producer's: what is stored is the topic's codec, with the same records. */
START_TEST(topic_codec_wins)
{
    struct fetch read = plain_fetch();

    begin(26);
    spec.config.compression = LOG_COMPRESSION_LZ4;
    open_partition();
    for (int i = 0; i < 40; i++) {
        int64_t offset = -1;
        ck_assert_int_eq(produce(&(struct batch_make){.value_bytes = 3000,
                                                      .record_count = 10,
                                                      .codec = i % 2 == 0 ? CODEC_NONE : CODEC_GZIP},
                                 &offset),
                         ERR_OK);
        ck_assert_int_eq(offset, 10 * i);
    }
    ck_assert_uint_lt(partition_size(partition), 40 * 3000);
    ck_assert_uint_eq(fetch(&read, 0, PARTITION_READ_UNCOMMITTED), partition_size(partition));
    end();
}
END_TEST

/* max.message.bytes holds for what is stored, too: another codec may make more of a batch (Apache Kafka looks again).
 */
START_TEST(a_rebuilt_batch_is_held_to_the_limit)
{
    const struct batch_make plain = {.value_bytes = 3000, .record_count = 10};
    struct batch_make gzipped = plain;
    size_t plain_size = 0;

    gzipped.codec = CODEC_GZIP;
    mem_free(make_batch(&plain, &plain_size));
    for (int32_t room = -1; room <= 1; room++) {
        begin(27);
        spec.config.compression = LOG_COMPRESSION_NONE;
        spec.config.max_message_bytes = (int32_t)plain_size + room;
        open_partition();
        ck_assert_int_eq(produce(&gzipped, NULL), room < 0 ? ERR_MESSAGE_TOO_LARGE : ERR_OK);
        ck_assert_uint_eq(partition_size(partition), room < 0 ? 0 : plain_size);
        end();
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("partition");
    TCase *tests = tcase_create("partition");
    SRunner *runner = NULL;
    int failures = 0;

    tcase_add_test(tests, operations_wait_for_the_load);
    tcase_add_test(tests, who_is_asked_for_is_loaded_first);
    tcase_add_test(tests, who_goes_before_it_is_loaded_does_not_hold_the_others);
    tcase_add_test(tests, synced_before_acknowledged);
    tcase_add_test(tests, fetch_bounds);
    tcase_add_test(tests, epochs_are_checked);
    tcase_add_test(tests, sequences);
    tcase_add_test(tests, sequences_survive_a_kill);
    tcase_add_test(tests, offsets_by_time);
    tcase_add_test(tests, next_record_with_its_time);
    tcase_add_test(tests, offsets_by_time_over_segments);
    tcase_add_test(tests, special_offsets);
    tcase_add_test(tests, watches_are_told_once_until_armed);
    tcase_add_test(tests, every_produce_ends);
    tcase_add_test(tests, full_disk_refuses_and_goes_on);
    tcase_add_test(tests, failed_sync_fences);
    tcase_add_test(tests, acknowledged_survives_power_cuts);
    tcase_add_test(tests, bad_batches_are_refused);
    tcase_add_test(tests, topic_codec_wins);
    tcase_add_test(tests, a_rebuilt_batch_is_held_to_the_limit);
    tcase_set_timeout(tests, 60);
    suite_add_tcase(suite, tests);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failures = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
