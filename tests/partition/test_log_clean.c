/* Rule: a cleaning rewrites a log under its readers and writers without their noticing: what it is to keep is read
 * throughout (cleaner.h), and what it cannot do now it leaves for another time.
 *
 * Sources: partition/clean_io.c, partition/clean_plan.c */
#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "compacted.h"
#include "partition/log_internal.h"
#include "partition/log_path.h"
#include "partition/partition_limits.h"
#include "run_tests.h"

static struct world world;
static struct compacted kept;

static int64_t draw(uint64_t bound)
{
    return (int64_t)sim_draw(&world.sim, bound);
}

START_TEST(small_segments_become_one)
{
    struct partition_log *log = NULL;
    uint64_t before = 0;
    uint32_t segments = 0;
    struct fs_info info;
    int64_t mtime_ms = 0;

    compacted_begin(&kept, &world, 1);
    log = world_log(&world);
    compacted_append_some(&kept, log, 60);
    before = partition_log_size(log);
    segments = partition_log_segment_count(log);
    ck_assert_uint_gt(segments, 8);
    world_pass(&world, INT64_C(5000000000));
    /* What becomes one is chosen by the sizes from before. */
    ck_assert_int_eq(compacted_clean(&world, log), ERR_OK);
    ck_assert_int_eq(compacted_clean(&world, log), ERR_OK);
    ck_assert_uint_lt(partition_log_size(log), before / 2);
    ck_assert_uint_lt(partition_log_segment_count(log), segments / 2);
    ck_assert_int_eq(partition_log_cleaned_offset(log),
                     partition_log_segment_base(log, partition_log_segment_count(log) - 1));
    compacted_check_all(&kept, log);
    world_pass(&world, INT64_C(1000000000));
    compacted_check_names(&world);
    /* Retention by age goes by what was written when. */
    ck_assert_int_eq(fs_stat(&world.disk.fs, "/data/t-0/00000000000000000000.log", &info), ERR_OK);
    mtime_ms = info.mtime_ms;
    ck_assert_int_lt(mtime_ms, clock_wall_ms(&world.sim.clock) - 5000);
    world_close(&world, log);
    log = world_log(&world);
    compacted_check_all(&kept, log);
    world_close(&world, log);
    world_end(&world);
}
END_TEST

/* Reads that begin in what compaction has left empty go on behind it, whether the segments were just made or found at
 * the start. */
START_TEST(reads_step_over_gaps)
{
    struct partition_log *log = NULL;

    compacted_begin(&kept, &world, 2);
    log = world_log(&world);
    compacted_append_one(&kept, log, 1, 1);
    for (int64_t i = 0; i < 200; i++)
        compacted_append_one(&kept, log, 2, i);
    compacted_append_one(&kept, log, 3, 3);
    ck_assert_int_eq(compacted_clean(&world, log), ERR_OK);
    for (int again = 0; again < 2; again++) {
        uint32_t full_count = 0;

        compacted_read(&kept, log, 0);
        full_count = kept.there_count;
        for (int64_t offset = 0; offset < kept.end; offset += 7) {
            compacted_read(&kept, log, offset);
            ck_assert_uint_le(kept.there_count, full_count);
            ck_assert_int_eq(kept.there[kept.there_count - 1].offset, kept.end - 1);
        }
        world_close(&world, log);
        log = world_log(&world);
    }
    world_close(&world, log);
    world_end(&world);
}
END_TEST

/* B139: nothing at or above what is stable, not the active segment, nothing that is not synced yet. */
START_TEST(never_beyond_what_is_stable)
{
    struct partition_log *log = NULL;
    struct compacted_cleaning cleaned;
    struct log_cleanable cleanable;

    compacted_begin(&kept, &world, 3);
    log = world_log(&world);
    for (int64_t i = 0; i < 100; i++)
        compacted_append_one(&kept, log, 1, i);
    partition_log_look_cleanable(log, kept.end, COMPACTED_WALL_MS, &cleanable);
    ck_assert_uint_eq(cleanable.dirty_bytes, 0); /* nothing is synced yet */
    ck_assert_int_eq(world_sync(&world, log), ERR_OK);
    partition_log_look_cleanable(log, 50, COMPACTED_WALL_MS, &cleanable);
    ck_assert_uint_gt(cleanable.dirty_bytes, 0);
    ck_assert(cleanable.is_due);
    cleaned = compacted_clean_of(log);
    cleaned.op.stable_offset = 50;
    compacted_clean_run(&world, log, &cleaned);
    ck_assert_int_eq(cleaned.op.err, ERR_OK);
    ck_assert_int_le(partition_log_cleaned_offset(log), 50);
    compacted_read(&kept, log, 0);
    for (int64_t i = 50; i < 100; i++)
        ck_assert_int_eq(kept.there[(int64_t)kept.there_count - 100 + i].offset, i);
    ck_assert_uint_lt(kept.there_count, 60);
    partition_log_look_cleanable(log, 50, COMPACTED_WALL_MS, &cleanable);
    ck_assert(!cleanable.is_due);
    world_close(&world, log);
    world_end(&world);
}
END_TEST

/* What it goes by is synced before anything of it is done: the marker of a transaction lies behind what it decides, and
 * were it lost with the power, what the transaction had superseded would be gone for nothing. */
START_TEST(what_it_goes_by_is_synced_first)
{
    struct partition_log *log = NULL;
    struct compacted_cleaning cleaned;
    int64_t end = 0;

    compacted_begin(&kept, &world, 14);
    log = world_log(&world);
    compacted_append_some(&kept, log, 40);
    ck_assert_int_eq(world_sync(&world, log), ERR_OK);
    compacted_append_one(&kept, log, 1, 1); /* as a marker would */
    end = partition_log_end_offset(log);
    cleaned = compacted_clean_of(log);
    partition_log_clean(log, &cleaned.op);
    while (sim_fs_peek(&world.disk, "/data/t-0/00000000000000000000.log.cleaned").data == NULL && !cleaned.done)
        (void)sim_step(&world.sim, INT64_MAX);
    ck_assert(!cleaned.done);
    ck_assert_int_ge(partition_log_synced_offset(log), end);
    world_run(&world, &cleaned.done);
    ck_assert_int_eq(cleaned.op.err, ERR_OK);
    world_close(&world, log);
    world_end(&world);
}
END_TEST

START_TEST(others_go_on_meanwhile)
{
    for (uint64_t seed = 1; seed <= 6; seed++) {
        struct partition_log *log = NULL;
        struct compacted_cleaning cleaned;

        compacted_begin(&kept, &world, seed);
        log = world_log(&world);
        compacted_append_some(&kept, log, 80);
        ck_assert_int_eq(world_sync(&world, log), ERR_OK);
        cleaned = compacted_clean_of(log);
        cleaned.op.bytes_per_second = 20000; /* so that it takes a while */
        partition_log_clean(log, &cleaned.op);
        while (!cleaned.done) {
            compacted_append_some(&kept, log, 1 + (uint32_t)draw(4));
            if (draw(4) == 0)
                ck_assert_int_eq(world_sync(&world, log), ERR_OK);
            compacted_read(&kept, log, draw((uint64_t)kept.end));
            if (draw(3) == 0) {
                compacted_read(&kept, log, 0);
                compacted_check_state(&kept, kept.end);
            }
            world_pass(&world, draw(30000000));
        }
        ck_assert_int_eq(cleaned.op.err, ERR_OK);
        compacted_check_all(&kept, log);
        world_close(&world, log);
        compacted_check_names(&world);
        world_end(&world);
    }
}
END_TEST

/* The first segments of a group go while it is rewritten: the others are cleaned all the same, or what a tombstone
 * counts as gone would be back once the tombstone has gone. */
START_TEST(the_start_moves_into_a_group)
{
    struct partition_log *log = NULL;
    struct compacted_cleaning cleaned;

    compacted_begin(&kept, &world, 13);
    log = world_log(&world);
    for (int64_t i = 0; i < 60; i++)
        compacted_append_one(&kept, log, i % 3, i);
    log->config->segment_bytes = 1 << 20;
    ck_assert_int_eq(world_sync(&world, log), ERR_OK);
    cleaned = compacted_clean_of(log);
    cleaned.op.bytes_per_second = 20000;
    partition_log_clean(log, &cleaned.op);
    while (sim_fs_peek(&world.disk, "/data/t-0/00000000000000000000.log.cleaned").data == NULL)
        world_pass(&world, 100000);
    ck_assert(!cleaned.done);
    partition_log_move_start(log, partition_log_segment_base(log, 1));
    world_run(&world, &cleaned.done);
    ck_assert_int_eq(cleaned.op.err, ERR_OK);
    compacted_read(&kept, log, partition_log_start_offset(log));
    ck_assert_uint_ge(kept.there_count, 3);
    compacted_check_clean(&kept, log);
    compacted_check_names(&world);
    world_close(&world, log);
    world_end(&world);
}
END_TEST

START_TEST(a_close_ends_it_soon)
{
    for (int64_t delay = 0; delay < 40; delay++) {
        struct partition_log *log = NULL;
        struct compacted_cleaning cleaned;

        compacted_begin(&kept, &world, 7);
        log = world_log(&world);
        compacted_append_some(&kept, log, 60);
        ck_assert_int_eq(world_sync(&world, log), ERR_OK);
        cleaned = compacted_clean_of(log);
        cleaned.op.bytes_per_second = delay % 2 == 0 ? 1000 : 1e300;
        partition_log_clean(log, &cleaned.op);
        world_pass(&world, delay * delay * 20000);
        world_close(&world, log);
        ck_assert(cleaned.done);
        ck_assert(cleaned.op.err == ERR_CLOSED || cleaned.op.err == ERR_OK);
        log = world_log(&world);
        compacted_check_names(&world);
        compacted_read(&kept, log, 0);
        compacted_check_state(&kept, kept.end);
        world_close(&world, log);
        world_end(&world);
    }
}
END_TEST

/* Also where its pace would have it wait once the slice under way is through. */
START_TEST(a_slow_one_does_not_hold_a_close_up)
{
    for (int steps = 0; steps < 80; steps++) {
        struct partition_log *log = NULL;
        struct compacted_cleaning cleaned;
        int64_t asked_ns = 0;

        compacted_begin(&kept, &world, 7 + (uint64_t)steps);
        log = world_log(&world);
        compacted_append_some(&kept, log, 60);
        ck_assert_int_eq(world_sync(&world, log), ERR_OK);
        cleaned = compacted_clean_of(log);
        cleaned.op.bytes_per_second = 100;
        partition_log_clean(log, &cleaned.op);
        for (int i = 0; i < steps; i++)
            (void)sim_step(&world.sim, INT64_MAX);
        asked_ns = world.sim.mono_ns;
        world_close(&world, log);
        ck_assert(cleaned.done);
        ck_assert_int_lt(world.sim.mono_ns - asked_ns, 1000000000);
        world_end(&world);
    }
}
END_TEST

START_TEST(its_rate_is_kept)
{
    struct partition_log *log = NULL;
    struct compacted_cleaning cleaned;
    double done_bytes = 0;

    compacted_begin(&kept, &world, 8);
    log = world_log(&world);
    compacted_append_some(&kept, log, 100);
    ck_assert_int_eq(world_sync(&world, log), ERR_OK);
    cleaned = compacted_clean_of(log);
    cleaned.op.bytes_per_second = 5000;
    compacted_clean_run(&world, log, &cleaned);
    done_bytes = (double)(cleaned.op.bytes_mapped + cleaned.op.bytes_read + cleaned.op.bytes_written);
    ck_assert_double_gt((double)cleaned.op.elapsed_ns / 1e9, done_bytes / 5000 * 0.9 - 0.1);
    ck_assert_double_lt((double)cleaned.op.elapsed_ns / 1e9, done_bytes / 5000 * 1.2 + 0.2);
    world_close(&world, log);
    world_end(&world);
}
END_TEST

/* A full disk fails that cleaning, and nothing else; the log is left in peace for a while. */
START_TEST(a_full_disk_is_another_time)
{
    struct partition_log *log = NULL;
    struct log_cleanable cleanable;

    compacted_begin(&kept, &world, 9);
    log = world_log(&world);
    for (int64_t i = 0; i < 60; i++) /* of which next to nothing can go */
        compacted_append_one(&kept, log, i < 2 ? 0 : i, i);
    ck_assert_int_eq(world_sync(&world, log), ERR_OK);
    world.disk.capacity_bytes = world.disk.used_bytes + 10;
    ck_assert_int_eq(compacted_clean(&world, log), ERR_NO_SPACE);
    ck_assert(!partition_log_failed(log));
    compacted_check_names(&world);
    compacted_read(&kept, log, 0);
    ck_assert_int_eq((int64_t)kept.there_count, kept.end);
    world.disk.capacity_bytes = UINT64_MAX;
    partition_log_look_cleanable(log, kept.end, COMPACTED_WALL_MS, &cleanable);
    ck_assert(!cleanable.is_due);
    world_pass(&world, INT64_C(61000000000));
    partition_log_look_cleanable(log, kept.end, COMPACTED_WALL_MS, &cleanable);
    ck_assert(cleanable.is_due);
    ck_assert_int_eq(compacted_clean(&world, log), ERR_OK);
    world_close(&world, log);
    world_end(&world);
}
END_TEST

/* Nothing is written where it might not fit in the end; where less is free, fewer segments become one. */
START_TEST(what_would_fill_the_disk_is_not_begun)
{
    struct partition_log *log = NULL;
    uint64_t writes = 0;
    uint32_t segments = 0;

    compacted_begin(&kept, &world, 10);
    log = world_log(&world);
    world.disk.capacity_bytes = UINT64_MAX;
    for (int64_t i = 0; i < 60; i++)
        compacted_append_one(&kept, log, i % 5, i);
    log->config->segment_bytes = 1 << 20;
    ck_assert_int_eq(world_sync(&world, log), ERR_OK);
    segments = partition_log_segment_count(log);
    ck_assert_uint_ge(segments, 6);
    writes = world.disk.calls[SIM_FS_WRITE];
    world.disk.capacity_bytes = world.disk.used_bytes + CLEAN_LEAVES_BYTES + 500;
    ck_assert_int_eq(compacted_clean(&world, log), ERR_NO_SPACE);
    ck_assert_uint_eq(world.disk.calls[SIM_FS_WRITE], writes);
    ck_assert_uint_eq(partition_log_segment_count(log), segments);
    world.disk.capacity_bytes = world.disk.used_bytes + CLEAN_LEAVES_BYTES + 1700;
    ck_assert_int_eq(compacted_clean(&world, log), ERR_OK);
    ck_assert_uint_gt(partition_log_segment_count(log), 2);
    ck_assert_uint_lt(partition_log_segment_count(log), segments);
    compacted_check_clean(&kept, log);
    world_close(&world, log);
    world_end(&world);
}
END_TEST

/* KIP-354: what is dirty is as old as the first batch of its segment, and a segment is rolled before it is too old to
 * wait; both hold after a restart too. */
START_TEST(overdue_by_the_first_batch)
{
    const struct keyed_record old = {.timestamp = COMPACTED_WALL_MS - 5000, .key = 1, .value = 1};
    const struct keyed_record fresh = {.timestamp = COMPACTED_WALL_MS - 100, .key = 1, .value = 2};
    struct partition_log *log = NULL;
    struct log_cleanable cleanable;

    compacted_begin(&kept, &world, 11);
    world.spec.config.segment_bytes = 1 << 20;
    world.spec.config.min_cleanable_dirty_ratio = 1;
    world.spec.config.max_compaction_lag_ms = 4900;
    log = world_log(&world);
    compacted_append(&kept, log, (struct keyed_make){.records = &old, .count = 1});
    compacted_append(&kept, log, (struct keyed_make){.records = &fresh, .count = 1});
    ck_assert_uint_eq(partition_log_segment_count(log), 1);
    log_roll(log);
    compacted_append_one(&kept, log, 2, 2);
    for (int restarted = 0; restarted < 2; restarted++) {
        ck_assert_int_eq(world_sync(&world, log), ERR_OK);
        ck_assert_uint_eq(partition_log_segment_count(log), 2);
        partition_log_look_cleanable(log, kept.end, COMPACTED_WALL_MS - 200, &cleanable);
        ck_assert(!cleanable.is_due);
        partition_log_look_cleanable(log, kept.end, COMPACTED_WALL_MS, &cleanable);
        ck_assert(cleanable.is_due);
        world_close(&world, log);
        world.spec.clean = true;
        log = world_log(&world);
    }
    world_close(&world, log);
    world_end(&world);
}
END_TEST

START_TEST(rolled_before_the_lag_is_over)
{
    for (int compact = 0; compact < 2; compact++) {
        const struct keyed_record first = {.timestamp = 1000, .key = 1, .value = 1};
        const struct keyed_record second = {.timestamp = 5900, .key = 1, .value = 2};
        const struct keyed_record third = {.timestamp = 5901, .key = 1, .value = 3};
        struct partition_log *log = NULL;

        compacted_begin(&kept, &world, 12);
        world.spec.config.segment_bytes = 1 << 20;
        world.spec.config.cleanup_compact = compact == 1;
        world.spec.config.max_compaction_lag_ms = 4900;
        log = world_log(&world);
        compacted_append(&kept, log, (struct keyed_make){.records = &first, .count = 1});
        compacted_append(&kept, log, (struct keyed_make){.records = &second, .count = 1});
        ck_assert_uint_eq(partition_log_segment_count(log), 1);
        compacted_append(&kept, log, (struct keyed_make){.records = &third, .count = 1});
        ck_assert_uint_eq(partition_log_segment_count(log), compact == 1 ? 2 : 1);
        world_close(&world, log);
        world_end(&world);
    }
}
END_TEST

/* A segment that cannot be walked is left as it is, one that holds a batch with a wrong checksum is cleaned around it;
 * each is said once. */
START_TEST(damage_is_kept)
{
    for (int kind = 0; kind < 2; kind++) {
        struct partition_log *log = NULL;
        struct log_path path;
        int64_t base = 0;
        struct bytes before;
        uint8_t *copy = NULL;

        compacted_begin(&kept, &world, 10);
        log = world_log(&world);
        for (int64_t i = 0; i < 100; i++)
            compacted_append_one(&kept, log, i % 3, i);
        ck_assert_int_eq(world_sync(&world, log), ERR_OK);
        base = partition_log_segment_base(log, 2);
        log_path_segment(&path, "/data/t-0", base, ".log");
        /* Of the second batch there: its length, or a byte of its record. */
        before = sim_fs_peek(&world.disk, path.text);
        {
            struct batch_header head;

            batch_header_read(before.data, &head);
            ck_assert(sim_fs_flip(&world.disk, path.text, head.size + (kind == 0 ? 8u : 65u), 0x40));
        }
        before = sim_fs_peek(&world.disk, path.text);
        copy = mem_alloc(before.size);
        memcpy(copy, before.data, before.size);
        world.lines = 0;
        for (int round = 0; round < 3; round++) {
            ck_assert_int_eq(compacted_clean(&world, log), ERR_OK);
            ck_assert_int_eq(partition_log_cleaned_offset(log),
                             partition_log_segment_base(log, partition_log_segment_count(log) - 1));
        }
        if (kind == 0) {
            struct bytes after = sim_fs_peek(&world.disk, path.text);

            ck_assert(bytes_equal(after, bytes_of(copy, before.size)));
        }
        ck_assert_uint_lt(partition_log_size(log), 3000);
        ck_assert_uint_ge(world.lines, 1);
        ck_assert_uint_le(world.lines, 2);
        mem_free(copy);
        world_close(&world, log);
        world_end(&world);
    }
}
END_TEST

/* B140: a group never spans more offsets than a segment can number. */
START_TEST(offsets_far_apart_stay_apart)
{
    struct partition_log *log = NULL;
    struct appended appended;
    int64_t base = 0;

    compacted_begin(&kept, &world, 11);
    world.spec.config.segment_bytes = 100;
    log = world_log(&world);
    for (int64_t i = 0; i < 40; i++) {
        const struct keyed_record record = {.timestamp = 5, .key = i, .value = i};
        struct keyed_make make = {.records = &record, .count = 1, .base_offset = base};
        size_t size = 0;
        uint8_t *batch = keyed_batch(&make, &size);

        ck_assert_int_eq(world_append_run(&world, log, batch, size, LOG_ORIGIN_GIVEN, &appended), ERR_OK);
        mem_free(batch);
        base += INT32_MAX / 4;
    }
    ck_assert_uint_eq(partition_log_segment_count(log), 40);
    world.spec.config.segment_bytes = 100000;
    partition_log_set_config(log, &world.spec.config);
    ck_assert_int_eq(compacted_clean(&world, log), ERR_OK);
    ck_assert_uint_eq(partition_log_segment_count(log), 11); /* four each, and the active one */
    for (uint32_t i = 0; i + 1 < partition_log_segment_count(log); i++)
        ck_assert_int_le(partition_log_segment_base(log, i + 1) - partition_log_segment_base(log, i), INT32_MAX);
    world_close(&world, log);
    world_end(&world);
}
END_TEST

struct looked_up {
    struct log_aborted_find op;
    bool done;
};

static void was_looked_up(struct log_aborted_find *op)
{
    LIST_ENTRY(op, struct looked_up, op)->done = true;
}

static uint32_t aborted_count(struct partition_log *log)
{
    struct arena arena;
    struct looked_up find = {
        .op = {.from = 0, .to = partition_log_end_offset(log), .arena = &arena, .done = was_looked_up}};

    arena_init(&arena, 1 << 16);
    partition_log_find_aborted(log, &find.op);
    world_run(&world, &find.done);
    ck_assert_int_eq(find.op.err, ERR_OK);
    arena_deinit(&arena);
    return find.op.count;
}

static void append_marker(struct partition_log *log, int64_t producer_id, bool commit)
{
    struct appended appended;
    size_t size = 0;
    uint8_t *marker = keyed_marker(0, producer_id, 0, commit, &size);

    ck_assert_int_eq(world_append_run(&world, log, marker, size, LOG_ORIGIN_COORDINATOR, &appended), ERR_OK);
    kept.written[kept.end++] = (struct keyed_record){.offset = appended.op.base_offset, .key = -2};
    mem_free(marker);
}

/* B137: aborted records go, whatever comes later of their keys stays, and the index names what is left of them. */
START_TEST(aborted_transactions_go)
{
    struct partition_log *log = NULL;

    compacted_begin(&kept, &world, 12);
    log = world_log(&world);
    for (int32_t txn = 0; txn < 12; txn++) {
        const struct keyed_record good = {.timestamp = 5, .key = txn, .value = txn};
        const struct keyed_record bad = {.timestamp = 5, .key = txn, .value = 666};

        compacted_append(&kept, log, (struct keyed_make){.records = &good, .count = 1});
        compacted_append(
            &kept, log,
            (struct keyed_make){
                .records = &bad, .count = 1, .producer_id = 7, .base_sequence = txn, .transactional = true});
        append_marker(log, 7, txn % 3 == 2);
        if (txn % 3 != 2)
            kept.written[kept.end - 2].key = -2; /* it never was */
    }
    for (int64_t i = 12; i < 24; i++)
        compacted_append_one(&kept, log, i, i);
    ck_assert_uint_eq(aborted_count(log), 8);
    for (int again = 0; again < 2; again++) {
        /* Its batches were met a last time: the markers stay, and their entries. */
        ck_assert_int_eq(compacted_clean(&world, log), ERR_OK);
        ck_assert_uint_eq(aborted_count(log), again == 0 ? 8 : 0);
        world_close(&world, log);
        log = world_log(&world);
        ck_assert_uint_eq(aborted_count(log), again == 0 ? 8 : 0);
        kept.there_count = 0;
        compacted_read(&kept, log, 0);
        compacted_check_state(&kept, kept.end);
        for (uint32_t i = 0; i < kept.there_count; i++)
            ck_assert(kept.there[i].value != 666 || kept.there[i].key % 3 == 2);
    }
    world_close(&world, log);
    world_end(&world);
}
END_TEST

RUN_TESTS("log_clean", what_would_fill_the_disk_is_not_begun, overdue_by_the_first_batch, rolled_before_the_lag_is_over,
          small_segments_become_one, reads_step_over_gaps, never_beyond_what_is_stable, what_it_goes_by_is_synced_first,
          others_go_on_meanwhile, the_start_moves_into_a_group, a_close_ends_it_soon,
          a_slow_one_does_not_hold_a_close_up, its_rate_is_kept, a_full_disk_is_another_time, damage_is_kept,
          offsets_far_apart_stay_apart, aborted_transactions_go)
