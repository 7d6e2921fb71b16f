/* Rule: a log that was cut is as if what was cut had never come: records, producers, epochs, indexes; what is appended
 * then lies in a new file, so that no byte that was ever read is written over; and no crash brings back a log with a
 * hole, or with records that were acknowledged after the cut missing or unchecked.
 *
 * Sources: partition/log_open_marks.c, partition/segment_truncate.c */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "partition/log_internal.h"
#include "partition/log_truncation_mark.h"
#include "world.h"

static struct world world;

struct truncating {
    struct log_truncate op;
    bool done;
};

static void was_truncated(struct log_truncate *op)
{
    struct truncating *truncating = LIST_ENTRY(op, struct truncating, op);

    ck_assert(!truncating->done);
    truncating->done = true;
}

static enum err truncate_to(struct partition_log *log, int64_t offset, bool whole, int64_t *end)
{
    struct truncating truncating = {.op = {.offset = offset, .whole = whole, .done = was_truncated}};

    partition_log_truncate(log, &truncating.op);
    world_run(&world, &truncating.done);
    if (end != NULL)
        *end = truncating.op.offset;
    return truncating.op.err;
}

/* Batches of two records of 1000 bytes, three batches a segment; batch i has timestamp 1000 * i. */
static struct partition_log *log_of(uint64_t seed, int batches)
{
    struct partition_log *log = NULL;

    world_begin(&world, seed);
    world.spec.config.segment_bytes = 6500;
    world.spec.config.index_interval_bytes = 1;
    log = world_log(&world);
    for (int i = 0; i < batches; i++)
        world_append(
            &world, log,
            &(struct batch_make){.record_count = 2, .value_bytes = 1000, .timestamp = 1000 * i, .fill = (uint8_t)i});
    return log;
}

struct expected {
    int64_t next;
    int64_t cut; /* batches from here on were appended later: filled with 0xcc */
};

static enum err check_batch(void *context, struct bytes batch)
{
    struct expected *expected = context;
    struct batch_header header;

    batch_header_read(batch.data, &header);
    ck_assert_int_eq(header.base_offset, expected->next);
    ck_assert_uint_eq(batch.data[batch.size - 10],
                      header.base_offset < expected->cut ? (uint8_t)(header.base_offset / 2) : 0xcc);
    expected->next = batch_last_offset(&header) + 1;
    return ERR_OK;
}

static void check_log(struct partition_log *log, int64_t cut, int64_t end)
{
    struct expected expected = {.next = partition_log_start_offset(log), .cut = cut};

    ck_assert_int_eq(partition_log_end_offset(log), end);
    ck_assert_int_eq(partition_log_scan(log, 0, check_batch, &expected), ERR_OK);
    ck_assert_int_eq(expected.next, end);
    for (int64_t offset = partition_log_start_offset(log); offset < end; offset++) {
        uint8_t *data = NULL;
        size_t size = 0;
        struct batch_header header;

        ck_assert_int_eq(world_read(&world, log, offset, end, 10, true, &data, &size), ERR_OK);
        ck_assert_int_eq(batch_peek(bytes_of(data, size), &header, NULL), ERR_OK);
        ck_assert_int_eq(header.base_offset, offset & ~INT64_C(1));
        mem_free(data);
    }
}

static void append_after(struct partition_log *log)
{
    world_append(&world, log,
                 &(struct batch_make){.record_count = 2, .value_bytes = 1000, .timestamp = 500000, .fill = 0xcc});
}

/* Everywhere: inside a segment, at its edges, inside a batch, at the log's beginning. */
START_TEST(at_any_offset)
{
    for (int64_t offset = 0; offset <= 24; offset++) {
        for (int way = 0; way < 3; way++) {
            struct partition_log *log = log_of((uint64_t)offset, 12);
            int64_t end = -1;
            int64_t expected = offset & ~INT64_C(1);

            ck_assert_int_eq(truncate_to(log, offset, false, &end), ERR_OK);
            ck_assert_int_eq(end, expected);
            check_log(log, expected, expected);
            ck_assert_int_eq(partition_log_synced_offset(log), offset == 24 ? partition_log_synced_offset(log) : end);
            append_after(log);
            append_after(log);
            check_log(log, expected, expected + 4);
            if (way == 0)
                world_close(&world, log);
            else
                world_crash(&world, log, false);
            world.spec.recovery_point = way == 1 ? 24 : 0; /* as a checkpoint from before tells it */
            log = world_log(&world);
            check_log(log, expected, expected + 4);
            world_close(&world, log);
            ck_assert_uint_eq(world.disk.open_files, 0);
            world_end(&world);
        }
    }
}
END_TEST

/* The file that was cut has the length that it was cut to, for good. */
START_TEST(cut_bytes_are_not_written_over)
{
    struct partition_log *log = log_of(1, 5);
    size_t size = 0;

    ck_assert_int_eq(truncate_to(log, 8, false, NULL), ERR_OK);
    size = sim_fs_peek(&world.disk, "/data/t-0/00000000000000000006.log").size;
    ck_assert_uint_gt(size, 2000);
    ck_assert_uint_lt(size, 3000);
    for (int i = 0; i < 4; i++)
        append_after(log);
    ck_assert_uint_eq(sim_fs_peek(&world.disk, "/data/t-0/00000000000000000006.log").size, size);
    ck_assert_uint_gt(sim_fs_peek(&world.disk, "/data/t-0/00000000000000000008.log").size, 0);
    check_log(log, 8, 16);
    world_close(&world, log);
    world_end(&world);
}
END_TEST

/* A leader whose log begins behind the end of ours: all goes, and the log begins there. */
START_TEST(the_whole_of_it)
{
    static const int64_t offsets[] = {0, 5, 12, 1000};

    for (size_t i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++) {
        struct partition_log *log = log_of(i, 6);

        partition_log_move_start(log, 7);
        ck_assert_int_eq(truncate_to(log, offsets[i], true, NULL), ERR_OK);
        ck_assert_int_eq(partition_log_start_offset(log), offsets[i]);
        ck_assert_int_eq(partition_log_end_offset(log), offsets[i]);
        ck_assert_int_eq(partition_log_last_epoch(log), -1);
        ck_assert_uint_eq(partition_log_size(log), 0);
        append_after(log);
        world_close(&world, log);
        world.spec.recovery_point = 0;
        log = world_log(&world);
        ck_assert_int_eq(partition_log_start_offset(log), offsets[i]);
        ck_assert_int_eq(partition_log_end_offset(log), offsets[i] + 2);
        world_close(&world, log);
        world_end(&world);
    }
}
END_TEST

/* Below the start: the start moves back with the end, and what lay between is gone. */
START_TEST(below_the_start)
{
    struct partition_log *log = log_of(3, 6);

    partition_log_move_start(log, 3); /* in the first segment */
    ck_assert_int_eq(truncate_to(log, 2, false, NULL), ERR_OK);
    ck_assert_int_eq(partition_log_end_offset(log), 2);
    ck_assert_int_eq(partition_log_start_offset(log), 2);
    append_after(log);
    partition_log_move_start(log, 4);
    world_close(&world, log);
    world_end(&world);
    log = log_of(4, 6);
    partition_log_move_start(log, 7); /* the first segment is gone */
    ck_assert_int_eq(truncate_to(log, 2, false, NULL), ERR_OK);
    ck_assert_int_eq(partition_log_start_offset(log), 2);
    ck_assert_int_eq(partition_log_end_offset(log), 2);
    world_close(&world, log);
    world_end(&world);
}
END_TEST

static void was_appended(struct log_append *op)
{
    LIST_ENTRY(op, struct appended, op)->done = true;
}

static void append_in_epoch(struct partition_log *log, int32_t epoch)
{
    struct appended appended = {.op = {.leader_epoch = epoch, .done = was_appended}};

    appended.op.batches =
        make_batch(&(struct batch_make){.record_count = 2, .value_bytes = 1000, .fill = 0xcc}, &appended.op.size);
    partition_log_append(log, &appended.op);
    world_run(&world, &appended.done);
    ck_assert_int_eq(appended.op.err, ERR_OK);
    mem_free(appended.op.batches);
}

static int64_t append_numbered(struct partition_log *log, int32_t sequence, enum err *err)
{
    struct appended appended;
    size_t size = 0;
    uint8_t *batch = make_batch(&(struct batch_make){.value_bytes = 1000,
                                                     .timestamp = clock_wall_ms(&world.sim.clock),
                                                     .producer_id = 9,
                                                     .base_sequence = sequence},
                                &size);

    *err = world_append_run(&world, log, batch, size, LOG_ORIGIN_CLIENT, &appended);
    mem_free(batch);
    return appended.op.base_offset;
}

/* A producer goes on where the log does, whatever it had sent beyond. */
START_TEST(producers_are_as_they_were)
{
    struct partition_log *log = log_of(5, 2);
    enum err err = ERR_OK;

    for (int32_t i = 0; i < 8; i++)
        ck_assert_int_eq(append_numbered(log, i, &err), 4 + i);
    ck_assert_int_eq(truncate_to(log, 9, false, NULL), ERR_OK);
    (void)append_numbered(log, 6, &err);
    ck_assert_int_eq(err, ERR_OUT_OF_ORDER_SEQUENCE_NUMBER);
    ck_assert_int_eq(append_numbered(log, 4, &err), 8); /* it is there still */
    ck_assert_int_eq(append_numbered(log, 5, &err), 9);
    ck_assert_int_eq(err, ERR_OK);
    ck_assert_int_eq(truncate_to(log, 4, false, NULL), ERR_OK);
    ck_assert_uint_eq(producer_state_count(&log->producers), 0);
    ck_assert_int_eq(append_numbered(log, 77, &err), 4); /* nothing is known of it */
    world_close(&world, log);
    world_end(&world);
}
END_TEST

START_TEST(epochs_are_cut)
{
    struct partition_log *log = log_of(6, 3);
    bool again = false;

    ck_assert_int_eq(partition_log_assign_epoch(log, 4), ERR_OK); /* at 6 */
    append_in_epoch(log, 4);
    ck_assert_int_eq(partition_log_assign_epoch(log, 6), ERR_OK); /* at 8 */
    append_in_epoch(log, 6);
    /* KIP-101, KIP-279: what to cut to, by what the leader tells. */
    ck_assert_int_eq(partition_log_divergence(log, 6, 9, &again), 9);
    ck_assert(!again);
    ck_assert_int_eq(partition_log_divergence(log, 5, 7, &again), 8);
    ck_assert(again);
    ck_assert_int_eq(partition_log_divergence(log, 4, 7, &again), 7);
    ck_assert(!again);
    ck_assert_int_eq(partition_log_divergence(log, 9, 3, &again), 3);
    ck_assert_int_eq(truncate_to(log, 8, false, NULL), ERR_OK);
    ck_assert_int_eq(partition_log_last_epoch(log), 4);
    ck_assert_int_eq(truncate_to(log, 6, false, NULL), ERR_OK);
    ck_assert_int_eq(partition_log_last_epoch(log), 0);
    /* An epoch that began at the end goes although there is nothing to cut. */
    ck_assert_int_eq(partition_log_assign_epoch(log, 8), ERR_OK);
    ck_assert_int_eq(truncate_to(log, 6, false, NULL), ERR_OK);
    ck_assert_int_eq(partition_log_last_epoch(log), 0);
    world_close(&world, log);
    world_end(&world);
}
END_TEST

struct finding {
    struct log_find op;
    bool done;
};

static void was_found(struct log_find *op)
{
    LIST_ENTRY(op, struct finding, op)->done = true;
}

static int64_t find_time(struct partition_log *log, int64_t timestamp)
{
    struct finding finding = {.op = {.timestamp = timestamp, .done = was_found}};

    partition_log_find(log, &finding.op);
    world_run(&world, &finding.done);
    ck_assert_int_eq(finding.op.err, ERR_OK);
    return finding.op.offset;
}

/* Trap B035: a time that only the cut records had is found no more. */
START_TEST(times_are_cut)
{
    struct partition_log *log = log_of(7, 8);

    ck_assert_int_eq(find_time(log, 6000), 12);
    ck_assert_int_eq(truncate_to(log, 8, false, NULL), ERR_OK);
    for (int twice = 0; twice < 2; twice++) {
        ck_assert_int_eq(find_time(log, 3000), 6);
        ck_assert_int_eq(find_time(log, 3001), -1);
        ck_assert_int_eq(find_time(log, LOG_FIND_MAX_TIMESTAMP), 6);
        world_close(&world, log);
        log = world_log(&world);
    }
    world_close(&world, log);
    world_end(&world);
}
END_TEST

struct reading {
    struct log_read op;
    struct arena arena;
    bool done;
};

static void was_read(struct log_read *op)
{
    LIST_ENTRY(op, struct reading, op)->done = true;
}

struct syncing {
    struct log_sync op;
    bool done;
};

static void was_synced(struct log_sync *op)
{
    LIST_ENTRY(op, struct syncing, op)->done = true;
}

/* What is under way when the log is to be cut ends first; what comes then waits, and finds the log that is left. */
static void overlap(uint64_t seed)
{
    struct partition_log *log = log_of(seed, 9);
    struct truncating truncating = {.op = {.offset = 2 * (1 + (int64_t)(seed % 8)), .done = was_truncated}};
    struct syncing sync = {.op = {.offset = 18, .done = was_synced}};
    struct appended appended[2] = {0};
    struct reading reads[6];
    int64_t cut = truncating.op.offset;

    world.sim.habits.cached_miss_percent = 50;
    for (int i = 0; i < 2; i++) {
        appended[i].op.batches = make_batch(&(struct batch_make){.record_count = 2, .value_bytes = 1000, .fill = 0xcc},
                                            &appended[i].op.size);
        appended[i].op.leader_epoch = 5;
        appended[i].op.done = was_appended;
    }
    if (seed % 2 == 0)
        partition_log_sync(log, &sync.op);
    for (int i = 0; i < 6; i++) {
        reads[i] = (struct reading){.op = {.offset = (int64_t)sim_draw(&world.sim, 18),
                                           .offset_limit = 18,
                                           .bytes_max = 3000,
                                           .at_least_one = true,
                                           .arena = &reads[i].arena,
                                           .done = was_read}};
        arena_init(&reads[i].arena, 1 << 20);
        if (i == 3) {
            partition_log_truncate(log, &truncating.op);
            partition_log_append(log, &appended[0].op);
            ck_assert_int_eq(partition_log_assign_epoch(log, 5), ERR_OK);
        }
        partition_log_read(log, &reads[i].op);
        if (sim_chance(&world.sim, 30))
            world_pass(&world, (int64_t)sim_draw(&world.sim, 100000));
    }
    world_run(&world, &truncating.done);
    ck_assert_int_eq(truncating.op.err, ERR_OK);
    ck_assert_int_eq(truncating.op.offset, cut);
    world_run(&world, &appended[0].done);
    ck_assert_int_eq(appended[0].op.err, ERR_OK);
    ck_assert_int_eq(appended[0].op.base_offset, cut);
    ck_assert_int_eq(partition_log_last_epoch(log), 5);
    partition_log_append(log, &appended[1].op);
    world_run(&world, &appended[1].done);
    if (seed % 2 == 0) {
        world_run(&world, &sync.done);
        ck_assert(sync.op.err == ERR_OK || sync.op.err == ERR_OFFSET_OUT_OF_RANGE);
    }
    for (int i = 0; i < 6; i++) {
        world_run(&world, &reads[i].done);
        if (reads[i].op.err == ERR_OK) {
            for (uint32_t k = 0; k < reads[i].op.slice_count; k++)
                fs_file_drop(reads[i].op.slices[k].file);
        } else {
            ck_assert_int_eq(reads[i].op.err, ERR_OFFSET_OUT_OF_RANGE);
            ck_assert_int_gt(reads[i].op.offset, cut);
        }
        arena_deinit(&reads[i].arena);
    }
    check_log(log, cut, cut + 4);
    mem_free(appended[0].op.batches);
    mem_free(appended[1].op.batches);
    ck_assert_uint_eq(world.storage_failures, 0);
    world_close(&world, log);
    ck_assert_uint_eq(world.disk.open_files, 0);
    world_end(&world);
}

START_TEST(whatever_is_under_way)
{
    for (uint64_t seed = 1; seed <= 100; seed++)
        overlap(seed);
}
END_TEST

/* A checkpoint that still tells of the recovery point before the cut is not believed: what was written since and not
 * synced is checked by the next start, also where it lies in sealed segments. */
START_TEST(an_old_recovery_point_is_not_believed)
{
    struct partition_log *log = log_of(11, 12);
    struct partition_log_recovery recovery;
    struct log_truncation_mark mark;

    ck_assert_int_eq(world_sync(&world, log), ERR_OK);
    ck_assert_int_eq(truncate_to(log, 8, false, NULL), ERR_OK);
    ck_assert_int_eq(log_truncation_mark_read(&world.disk.fs, "/data/t-0", &mark), ERR_OK);
    ck_assert_int_eq(mark.offset, 8);
    ck_assert_int_eq(mark.until, 24);
    for (int i = 0; i < 5; i++)
        append_after(log);
    world_crash(&world, log, false);
    ck_assert(sim_fs_flip(&world.disk, "/data/t-0/00000000000000000008.log", 2200, 1)); /* torn: it was not synced */
    world.spec.recovery_point = 24;
    ck_assert_int_eq(partition_log_open(&world.env, &world.spec, &log, &recovery), ERR_OK);
    ck_assert_uint_gt(recovery.bytes_cut, 0);
    ck_assert_int_eq(partition_log_end_offset(log), 10);
    partition_log_adopt(log);
    /* Once as much is synced again, the mark goes. */
    for (int i = 0; i < 8; i++)
        append_after(log);
    ck_assert_int_eq(world_sync(&world, log), ERR_OK);
    append_after(log);
    ck_assert_int_eq(world_sync(&world, log), ERR_OK);
    ck_assert_int_eq(log_truncation_mark_read(&world.disk.fs, "/data/t-0", &mark), ERR_NOT_FOUND);
    world_close(&world, log);
    world_end(&world);
}
END_TEST

/* --- failures --- */

static const struct fault {
    enum sim_fs_fault fault;
    enum err err;
    bool power_cut;
} faults[] = {
    {SIM_FS_FAIL, ERR_IO, false},
    {SIM_FS_FAIL, ERR_NO_SPACE, false},
    {SIM_FS_FAIL, ERR_NO_DESCRIPTORS, false},
    {SIM_FS_DIE, ERR_IO, false},
    {SIM_FS_DIE, ERR_IO, true},
    {SIM_FS_SHORT, ERR_IO, true},
    {SIM_FS_FAIL, ERR_NO_DESCRIPTORS, true},
};

/* Batches that were there before the cut, or came after it, and nothing else, without a hole. What was acknowledged
 * below the cut stays through a kill, and through a power cut where it was synced. */
static enum err check_either(void *context, struct bytes batch)
{
    int64_t *next = context;
    struct batch_header header;
    uint8_t fill = batch.data[batch.size - 10];

    batch_header_read(batch.data, &header);
    ck_assert_int_eq(header.base_offset, *next);
    ck_assert(fill == 0xcc || fill == (uint8_t)(header.base_offset / 2));
    *next = batch_last_offset(&header) + 1;
    return ERR_OK;
}

static bool run_one(const struct fault *fault, int64_t offset, uint64_t k)
{
    struct partition_log *log = log_of(k, 9);
    bool struck = false;
    bool synced = false;
    int64_t next = 0;
    int64_t promised = offset;
    enum err err = ERR_OK;

    ck_assert_int_eq(world_sync(&world, log), ERR_OK);
    sim_fs_set_fault(&world.disk, fault->fault, SIM_FS_ANY, k, fault->err);
    err = truncate_to(log, offset, false, NULL);
    ck_assert(err != ERR_OK || partition_log_end_offset(log) == offset);
    if (err == ERR_OK) {
        struct appended appended;
        size_t size = 0;
        uint8_t *batch = make_batch(&(struct batch_make){.record_count = 2, .value_bytes = 1000, .fill = 0xcc}, &size);

        if (world_append_run(&world, log, batch, size, LOG_ORIGIN_CLIENT, &appended) == ERR_OK) {
            synced = world_sync(&world, log) == ERR_OK;
            promised = !fault->power_cut || synced ? offset + 2 : offset;
        }
        mem_free(batch);
    } else if (!partition_log_failed(log)) { /* as it was */
        check_log(log, 18, 18);
        promised = 18;
    }
    struck = sim_fs_fault_struck(&world.disk);
    world_crash(&world, log, fault->power_cut);
    world.spec.recovery_point = k % 2 == 0 ? 18 : 0;
    log = world_log(&world);
    ck_assert_int_eq(partition_log_scan(log, 0, check_either, &next), ERR_OK);
    ck_assert_int_eq(next, partition_log_end_offset(log));
    ck_assert_int_ge(next, promised);
    append_after(log);
    world_close(&world, log);
    ck_assert_uint_eq(world.disk.open_files, 0);
    world_end(&world);
    return struck;
}

START_TEST(every_call_failing)
{
    static const int64_t offsets[] = {2, 6, 10, 16};

    for (size_t i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++) {
        uint64_t k = 1;

        while (run_one(&faults[_i], offsets[i], k))
            k++;
        ck_assert_uint_gt(k, 20);
    }
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        at_any_offset,   cut_bytes_are_not_written_over, the_whole_of_it,
        below_the_start, producers_are_as_they_were,     epochs_are_cut,
        times_are_cut,   whatever_is_under_way,          an_old_recovery_point_is_not_believed};
    Suite *suite = suite_create("log_truncate");
    TCase *all = tcase_create("log_truncate");
    SRunner *runner = NULL;
    int failed = 0;

    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
        tcase_add_test(all, tests[i]);
    tcase_add_loop_test(all, every_call_failing, 0, (int)(sizeof(faults) / sizeof(faults[0])));
    tcase_set_timeout(all, 120);
    suite_add_tcase(suite, all);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
