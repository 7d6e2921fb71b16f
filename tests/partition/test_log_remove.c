/* Rule: segments leave a log at any time, whatever is under way: reads, look-ups, opens and syncs that have begun go on
 * with the files they have; files are renamed when nobody goes by their names any more, and unlinked later. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "partition/log_internal.h"
#include "partition/partition_limits.h"
#include "run_tests.h"
#include "world.h"

static struct world world;

/* Of one batch each segment, which is `records` long. */
static struct partition_log *log_of_segments(uint64_t seed, int segments, uint32_t records)
{
    struct partition_log *log = NULL;

    world_begin(&world, seed);
    world.spec.config.segment_bytes = 3000;
    world.spec.config.file_delete_delay_ms = 60000;
    log = world_log(&world);
    for (int i = 0; i < segments; i++)
        world_append(&world, log,
                     &(struct batch_make){.record_count = records,
                                          .value_bytes = 2000 / records,
                                          .timestamp = 1000 * (i + 1),
                                          .fill = (uint8_t)i});
    ck_assert_uint_eq(partition_log_segment_count(log), (uint32_t)segments);
    return log;
}

static bool exists(int64_t base_offset, const char *suffix)
{
    char path[64];
    struct fs_info info;

    snprintf(path, sizeof(path), "/data/t-0/%020lld%s", (long long)base_offset, suffix);
    return fs_stat(&world.disk.fs, path, &info) == ERR_OK;
}

static struct bytes peek(int64_t base_offset, const char *suffix)
{
    char path[64];

    snprintf(path, sizeof(path), "/data/t-0/%020lld%s", (long long)base_offset, suffix);
    return sim_fs_peek(&world.disk, path);
}

START_TEST(renamed_at_once_unlinked_later)
{
    static const char *const kept[] = {".log", ".index", ".timeindex", ".snapshot"};
    struct partition_log *log = log_of_segments(1, 5, 2);

    ck_assert_int_eq(world_sync(&world, log), ERR_OK);
    partition_log_move_start(log, 5); /* inside the third */
    ck_assert_int_eq(partition_log_start_offset(log), 5);
    ck_assert_uint_eq(partition_log_segment_count(log), 3);
    ck_assert_int_eq(partition_log_segment_base(log, 0), 4);
    world_pass(&world, INT64_C(1000000000));
    for (int64_t base = 0; base < 10; base += 2) {
        ck_assert(exists(base, ".log") == (base >= 4));
        ck_assert(exists(base, ".log.deleted") == (base < 4));
        ck_assert(exists(base, ".index.deleted") == (base < 4));
        ck_assert(exists(base, ".timeindex.deleted") == (base < 4));
    }
    ck_assert(exists(2, ".snapshot.deleted") && exists(4, ".snapshot"));
    world_pass(&world, INT64_C(58000000000));
    ck_assert(exists(0, ".log.deleted"));
    world_pass(&world, INT64_C(2000000000));
    for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++) {
        char name[32];

        snprintf(name, sizeof(name), "%s.deleted", kept[i]);
        ck_assert(!exists(0, name) && !exists(2, name));
        ck_assert(exists(6, kept[i]));
    }
    ck_assert_ptr_null(log->removal); /* nothing is kept of it */
    world_close(&world, log);
    log = world_log(&world);
    ck_assert_int_eq(partition_log_start_offset(log), 5);
    ck_assert_int_eq(partition_log_end_offset(log), 10);
    world_close(&world, log);
    ck_assert_uint_eq(world.disk.open_files, 0);
    world_end(&world);
}
END_TEST

/* What a stop leaves behind is removed by the next start. */
START_TEST(closed_before_they_are_unlinked)
{
    struct partition_log *log = log_of_segments(2, 4, 1);

    partition_log_move_start(log, 3);
    world_close(&world, log);
    ck_assert(exists(0, ".log.deleted") && exists(2, ".log.deleted"));
    log = world_log(&world);
    ck_assert(!exists(0, ".log.deleted") && !exists(2, ".index.deleted"));
    ck_assert_uint_eq(partition_log_segment_count(log), 1);
    world_close(&world, log);
    world_end(&world);
}
END_TEST

/* LOG_RENAMED_SEGMENTS_MAX: beyond it the oldest are unlinked before their time. */
START_TEST(so_many_wait_and_no_more)
{
    int segments = LOG_RENAMED_SEGMENTS_MAX + 3;
    struct partition_log *log = log_of_segments(3, segments, 1);

    partition_log_move_start(log, LOG_RENAMED_SEGMENTS_MAX);
    world_pass(&world, INT64_C(1000000000));
    ck_assert(exists(0, ".log.deleted") && exists(LOG_RENAMED_SEGMENTS_MAX - 1, ".log.deleted"));
    partition_log_move_start(log, LOG_RENAMED_SEGMENTS_MAX + 2);
    world_pass(&world, INT64_C(1000000000));
    ck_assert(!exists(0, ".log.deleted") && !exists(1, ".log.deleted"));
    ck_assert(exists(2, ".log.deleted"));
    ck_assert(exists(LOG_RENAMED_SEGMENTS_MAX + 1, ".log.deleted"));
    world_close(&world, log);
    world_end(&world);
}
END_TEST

/* --- while others are at it --- */

enum { READS = 6 };

struct reading {
    struct log_read op;
    struct arena arena;
    bool done;
};

static void was_read(struct log_read *op)
{
    LIST_ENTRY(op, struct reading, op)->done = true;
}

struct finding {
    struct log_find op;
    bool done;
};

static void was_found(struct log_find *op)
{
    LIST_ENTRY(op, struct finding, op)->done = true;
}

struct syncing {
    struct log_sync op;
    bool done;
};

static void was_synced(struct log_sync *op)
{
    LIST_ENTRY(op, struct syncing, op)->done = true;
}

/* Trap B038: nothing fails when it races with deletion. What a read gives is what was written, or the read is told that
 * it is out of range; a look-up gives what is there still. */
static void race(uint64_t seed)
{
    struct partition_log *log = log_of_segments(seed, 8, 2);
    struct reading reads[READS];
    struct finding find = {.op = {.timestamp = 1000 + (int64_t)(seed % 9) * 1000, .done = was_found}};
    struct finding find_last = {.op = {.timestamp = LOG_FIND_MAX_TIMESTAMP, .done = was_found}};
    struct syncing sync = {.op = {.offset = 16, .done = was_synced}};

    if (seed % 3 != 0) { /* all is opened by name */
        world_close(&world, log);
        log = world_log(&world);
        sync.done = true;
    }
    world.sim.habits.cached_miss_percent = (uint32_t)sim_draw(&world.sim, 100);
    if (!sync.done)
        partition_log_sync(log, &sync.op);
    for (int i = 0; i < READS; i++) {
        struct reading *read = &reads[i];

        *read = (struct reading){.op = {.offset = (int64_t)sim_draw(&world.sim, 16),
                                        .offset_limit = 16,
                                        .bytes_max = 5000,
                                        .at_least_one = true,
                                        .arena = &read->arena,
                                        .done = was_read}};
        arena_init(&read->arena, 1 << 20);
        partition_log_read(log, &read->op);
    }
    partition_log_find(log, &find.op);
    partition_log_find(log, &find_last.op);
    for (int64_t start = 1 + (int64_t)sim_draw(&world.sim, 5); start <= 15;
         start += 1 + (int64_t)sim_draw(&world.sim, 6)) {
        partition_log_move_start(log, start);
        world_pass(&world, (int64_t)sim_draw(&world.sim, 400000));
    }
    for (int i = 0; i < READS; i++) {
        struct batch_header header;
        uint8_t *data = NULL;

        world_run(&world, &reads[i].done);
        if (reads[i].op.err == ERR_OK) {
            data = slices_take(reads[i].op.slices, reads[i].op.slice_count, reads[i].op.size);
            ck_assert_int_eq(batch_peek(bytes_of(data, reads[i].op.size), &header, NULL), ERR_OK);
            ck_assert(batch_crc_is_valid(bytes_of(data, header.size)));
            ck_assert_int_eq(header.base_offset, reads[i].op.offset & ~INT64_C(1));
            mem_free(data);
        } else {
            ck_assert_int_eq(reads[i].op.err, ERR_OFFSET_OUT_OF_RANGE);
            ck_assert_int_lt(reads[i].op.offset, partition_log_start_offset(log));
        }
        arena_deinit(&reads[i].arena);
    }
    world_run(&world, &find.done);
    ck_assert_int_eq(find.op.err, ERR_OK);
    if (find.op.timestamp > 8000)
        ck_assert_int_eq(find.op.offset, -1);
    else
        ck_assert_int_ge(find.op.out_timestamp, find.op.timestamp);
    world_run(&world, &find_last.done);
    ck_assert_int_eq(find_last.op.err, ERR_OK);
    ck_assert_int_eq(find_last.op.out_timestamp, 8000);
    world_run(&world, &sync.done);
    ck_assert_int_eq(sync.op.err, ERR_OK);
    ck_assert_uint_eq(world.storage_failures, 0);
    world_close(&world, log);
    ck_assert_uint_eq(world.disk.open_files, 0);
    world_end(&world);
}

START_TEST(whatever_is_under_way)
{
    for (uint64_t seed = 1; seed <= 60; seed++)
        race(seed);
}
END_TEST

/* The descriptor of a removed segment is the reader's as long as it sends from it. */
START_TEST(ranges_on_their_way_out_stay_good)
{
    struct partition_log *log = NULL;
    struct reading read = {.op = {.bytes_max = 1 << 20, .at_least_one = true, .arena = &read.arena, .done = was_read}};
    uint8_t *data = NULL;
    struct batch_header header;

    world_begin(&world, 5);
    world.spec.config.segment_bytes = 100000;
    world.spec.config.file_delete_delay_ms = 0;
    log = world_log(&world);
    for (int i = 0; i < 3; i++)
        world_append(&world, log, &(struct batch_make){.value_bytes = 60000, .timestamp = 1000});
    arena_init(&read.arena, 1 << 20);
    read.op.offset_limit = 3;
    partition_log_read(log, &read.op);
    world_run(&world, &read.done);
    ck_assert_int_eq(read.op.err, ERR_OK);
    ck_assert_ptr_nonnull(read.op.slices[0].file);
    partition_log_move_start(log, 2);
    world_pass(&world, INT64_C(1000000000));
    ck_assert(!exists(0, ".log") && !exists(0, ".log.deleted"));
    data = slices_take(read.op.slices, read.op.slice_count, read.op.size);
    ck_assert_int_eq(batch_peek(bytes_of(data, read.op.size), &header, NULL), ERR_OK);
    ck_assert(batch_crc_is_valid(bytes_of(data, header.size)));
    mem_free(data);
    arena_deinit(&read.arena);
    world_close(&world, log);
    ck_assert_uint_eq(world.disk.open_files, 0);
    world_end(&world);
}
END_TEST

/* A full disk is no reason to keep old data. */
START_TEST(no_room_for_a_new_name)
{
    struct partition_log *log = log_of_segments(6, 3, 1);

    sim_fs_set_fault(&world.disk, SIM_FS_FAIL, SIM_FS_RENAME, 1, ERR_NO_SPACE);
    partition_log_move_start(log, 2);
    world_pass(&world, INT64_C(1000000000));
    ck_assert(sim_fs_fault_struck(&world.disk));
    ck_assert(!exists(0, ".log") && !exists(0, ".log.deleted") && exists(1, ".log.deleted"));
    ck_assert(!partition_log_failed(log));
    world_close(&world, log);
    world_end(&world);
}
END_TEST

/* --- replacing --- */

struct replacing {
    struct log_replace op;
    bool done;
};

static void was_replaced(struct log_replace *op)
{
    LIST_ENTRY(op, struct replacing, op)->done = true;
}

/* The batch at offset 0 as the whole of a new segment that takes the place of those from 0 up to 6. */
static void replacement_make(struct partition_log *log, struct replacing *replacing)
{
    struct segment *segment = mem_alloc(sizeof(*segment));
    struct batch_header header;
    struct bytes old = peek(0, ".log");

    ck_assert_int_eq(batch_peek(old, &header, NULL), ERR_OK);
    sim_fs_poke(&world.disk, "/data/t-0/00000000000000000000.log.swap", bytes_of(old.data, header.size));
    sim_fs_poke(&world.disk, "/data/t-0/00000000000000000000.index.swap", (struct bytes){0});
    sim_fs_poke(&world.disk, "/data/t-0/00000000000000000000.timeindex.swap", peek(0, ".timeindex"));
    segment_init(segment, 0, 0);
    segment_book(segment, &header, 0, log->config->index_interval_bytes);
    segment->settled = true;
    segment_drop_indexes(segment);
    *replacing = (struct replacing){.op = {.segment = segment, .count = 3, .done = was_replaced}};
}

START_TEST(segments_are_replaced)
{
    for (uint64_t seed = 1; seed <= 24; seed++) {
        struct partition_log *log = log_of_segments(seed, 6, 2);
        struct replacing replacing;
        struct reading read = {.op = {.offset = (int64_t)(seed % 6),
                                      .offset_limit = 12,
                                      .bytes_max = 5000,
                                      .at_least_one = true,
                                      .arena = &read.arena,
                                      .done = was_read}};
        struct finding find = {.op = {.timestamp = 1000 * (1 + (int64_t)(seed % 3)), .done = was_found}};
        uint8_t *data = NULL;
        struct batch_header header;

        ck_assert_int_eq(world_sync(&world, log), ERR_OK);
        if (seed % 2 == 0) { /* files are opened by name */
            world_close(&world, log);
            log = world_log(&world);
        }
        replacement_make(log, &replacing);
        arena_init(&read.arena, 1 << 20);
        if (seed % 4 < 2) {
            partition_log_read(log, &read.op);
            partition_log_find(log, &find.op);
        }
        log_segments_replace(log, &replacing.op);
        if (seed % 4 >= 2) {
            partition_log_read(log, &read.op);
            partition_log_find(log, &find.op);
        }
        world_run(&world, &replacing.done);
        ck_assert_int_eq(replacing.op.err, ERR_OK);
        ck_assert_ptr_null(replacing.op.segment);
        ck_assert_uint_eq(partition_log_segment_count(log), 4);
        world_run(&world, &read.done);
        ck_assert_int_eq(read.op.err, ERR_OK);
        data = slices_take(read.op.slices, read.op.slice_count, read.op.size);
        ck_assert_int_eq(batch_peek(bytes_of(data, read.op.size), &header, NULL), ERR_OK);
        ck_assert(batch_crc_is_valid(bytes_of(data, header.size)));
        ck_assert(header.base_offset == (read.op.offset & ~INT64_C(1)) || header.base_offset == 6);
        mem_free(data);
        arena_deinit(&read.arena);
        world_run(&world, &find.done);
        ck_assert_int_eq(find.op.err, ERR_OK);
        ck_assert_int_ge(find.op.out_timestamp, find.op.timestamp);
        ck_assert(exists(0, ".log") && exists(0, ".log.deleted") && !exists(0, ".log.swap") && !exists(2, ".log"));
        ck_assert(exists(4, ".log.deleted") && exists(6, ".log") && !exists(4, ".snapshot"));
        world_close(&world, log);
        log = world_log(&world);
        ck_assert_uint_eq(partition_log_segment_count(log), 4);
        ck_assert_int_eq(partition_log_end_offset(log), 12);
        world_close(&world, log);
        ck_assert_uint_eq(world.disk.open_files, 0);
        world_end(&world);
    }
}
END_TEST

/* Once its renames have begun a replacement is through or the directory is not to be trusted. */
START_TEST(replacing_fails)
{
    struct partition_log *log = log_of_segments(7, 6, 2);
    struct replacing replacing;
    struct finding find = {.op = {.timestamp = 1000, .done = was_found}};

    ck_assert_int_eq(world_sync(&world, log), ERR_OK);
    world_close(&world, log);
    log = world_log(&world);
    replacement_make(log, &replacing);
    sim_fs_set_fault(&world.disk, SIM_FS_FAIL, SIM_FS_RENAME, 7, ERR_IO);
    log_segments_replace(log, &replacing.op);
    partition_log_find(log, &find.op);
    world_run(&world, &replacing.done);
    ck_assert_int_eq(replacing.op.err, ERR_KAFKA_STORAGE_ERROR);
    ck_assert_ptr_nonnull(replacing.op.segment);
    mem_free(replacing.op.segment);
    world_run(&world, &find.done);
    ck_assert_int_eq(find.op.err, ERR_KAFKA_STORAGE_ERROR);
    ck_assert_uint_eq(world.storage_failures, 1);
    world_crash(&world, log, false);
    world_end(&world);
}
END_TEST

/* --- failures --- */

static const struct fault {
    enum sim_fs_fault fault;
    enum err err;
    bool power_cut;
} faults[] = {
    {SIM_FS_FAIL, ERR_IO, false}, {SIM_FS_FAIL, ERR_NO_SPACE, false}, {SIM_FS_FAIL, ERR_NO_DESCRIPTORS, false},
    {SIM_FS_DIE, ERR_IO, false},  {SIM_FS_DIE, ERR_IO, true},         {SIM_FS_FAIL, ERR_NO_SPACE, true},
};

struct left {
    int64_t next; /* -1: whatever comes first */
};

static enum err check_left(void *context, struct bytes batch)
{
    struct left *left = context;
    struct batch_header header;

    batch_header_read(batch.data, &header);
    ck_assert(left->next < 0 || header.base_offset == left->next);
    ck_assert_uint_eq(batch.data[batch.size - 10], (uint8_t)(header.base_offset / 2));
    left->next = batch_last_offset(&header) + 1;
    return ERR_OK;
}

/* The start moves twice, all that is left is too much, and the last of it is unlinked; somewhere there a call fails. */
static bool run_one(const struct fault *fault, uint64_t k)
{
    struct partition_log *log = log_of_segments(k, 6, 2);
    struct left left = {-1};
    int64_t start = 0;
    bool struck = false;

    ck_assert_int_eq(world_sync(&world, log), ERR_OK);
    world.spec.recovery_point = partition_log_recovery_point(log);
    sim_fs_set_fault(&world.disk, fault->fault, SIM_FS_ANY, k, fault->err);
    partition_log_move_start(log, 3);
    world_pass(&world, INT64_C(100000000));
    partition_log_move_start(log, 6);
    world_pass(&world, INT64_C(100000000));
    log->config->retention_bytes = 0;
    partition_log_retain(log, 12);
    world_pass(&world, INT64_C(100000000000));
    start = partition_log_start_offset(log);
    ck_assert(partition_log_failed(log) || start >= 6);
    struck = sim_fs_fault_struck(&world.disk);
    world.spec.start_offset = k % 2 == 0 ? start : 0; /* a checkpoint may be older */
    world_crash(&world, log, fault->power_cut);
    log = world_log(&world);
    ck_assert_int_eq(partition_log_end_offset(log), 12); /* all was synced, and the log knows where it is */
    ck_assert_int_ge(partition_log_start_offset(log), world.spec.start_offset);
    ck_assert_int_eq(partition_log_scan(log, 0, check_left, &left), ERR_OK);
    if (left.next >= 0 && left.next != 12)
        ck_abort_msg("call %llu, err %s: a hole from %lld on, start %lld", (unsigned long long)k, err_name(fault->err),
                     (long long)left.next, (long long)start);
    ck_assert(left.next > 0 || partition_log_start_offset(log) == 12);
    world_append(&world, log, &(struct batch_make){.value_bytes = 10});
    ck_assert_int_eq(partition_log_end_offset(log), 13);
    world_close(&world, log);
    ck_assert_uint_eq(world.disk.open_files, 0);
    world_end(&world);
    return struck;
}

START_TEST(every_call_failing)
{
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
        uint64_t k = 1;

        while (run_one(&faults[i], k))
            k++;
        ck_assert_uint_gt(k, 40);
    }
}
END_TEST

/* PARTITION_DELETE_DELAY_MS_MAX: what is longer is as long, and no time of the past. */
START_TEST(a_delay_that_no_timer_holds)
{
    static const int64_t delays_ms[] = {PARTITION_DELETE_DELAY_MS_MAX - 1, PARTITION_DELETE_DELAY_MS_MAX,
                                        PARTITION_DELETE_DELAY_MS_MAX + 1, INT64_MAX};

    for (size_t i = 0; i < sizeof(delays_ms) / sizeof(delays_ms[0]); i++) {
        struct partition_log *log = log_of_segments(10, 3, 2);

        log->config->file_delete_delay_ms = delays_ms[i];
        partition_log_move_start(log, 4);
        world_pass(&world, INT64_C(86400000000000));
        ck_assert(!exists(0, ".log") && exists(0, ".log.deleted") && exists(2, ".log.deleted"));
        world_close(&world, log);
        world_end(&world);
    }
}
END_TEST

RUN_TESTS("log_remove", a_delay_that_no_timer_holds, every_call_failing, renamed_at_once_unlinked_later,
          closed_before_they_are_unlinked, so_many_wait_and_no_more, whatever_is_under_way,
          ranges_on_their_way_out_stay_good, no_room_for_a_new_name, segments_are_replaced, replacing_fails)
