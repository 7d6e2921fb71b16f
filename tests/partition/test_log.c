/* Rule: what was appended is read back byte for byte from any offset, before and after closing, rolling and opening
 * again; offsets are given out without gaps; the files are Kafka's, trimmed.
 *
 * Sources: partition/log_close.c, partition/log_files.c, partition/log_open.c, partition/log_read.c */
#include <check.h>
#include <stdlib.h>

#include "base/big_endian.h"
#include "base/mem.h"
#include "world.h"

static struct world world;

static void check_batches(struct partition_log *log, int64_t from)
{
    uint8_t *data = NULL;
    size_t size = 0;
    int64_t offset = from;

    while (offset < partition_log_end_offset(log)) {
        struct bytes rest;
        struct batch_header header;

        ck_assert_int_eq(world_read(&world, log, offset, partition_log_end_offset(log), 1 << 20, true, &data, &size),
                         ERR_OK);
        ck_assert_uint_gt(size, 0);
        rest = bytes_of(data, size);
        while (rest.size > 0) {
            ck_assert_int_eq(batch_peek(rest, &header, NULL), ERR_OK);
            ck_assert(batch_crc_is_valid(bytes_of(rest.data, header.size)));
            ck_assert_int_ge(batch_last_offset(&header), offset);
            ck_assert_int_le(header.base_offset, offset);
            offset = batch_last_offset(&header) + 1;
            rest = bytes_of(rest.data + header.size, rest.size - header.size);
        }
        mem_free(data);
    }
    ck_assert_int_eq(offset, partition_log_end_offset(log));
}

START_TEST(appends_and_reads_back)
{
    struct partition_log *log = NULL;
    uint8_t *data = NULL;
    size_t size = 0;

    world_begin(&world, 1);
    log = world_log(&world);
    ck_assert_int_eq(partition_log_end_offset(log), 0);
    ck_assert_int_eq(world_append(&world, log, &(struct batch_make){.record_count = 3, .value_bytes = 10}), 0);
    ck_assert_int_eq(world_append(&world, log, &(struct batch_make){.record_count = 1, .value_bytes = 10}), 3);
    ck_assert_int_eq(world_append(&world, log, &(struct batch_make){.record_count = 2, .value_bytes = 50000}), 4);
    ck_assert_int_eq(partition_log_end_offset(log), 6);
    for (int64_t offset = 0; offset <= 6; offset++)
        check_batches(log, offset);
    ck_assert_int_eq(world_read(&world, log, 6, 6, 1000, true, &data, &size), ERR_OK);
    ck_assert_uint_eq(size, 0);
    mem_free(data);
    ck_assert_int_eq(world_read(&world, log, 7, 6, 1000, true, &data, &size), ERR_OFFSET_OUT_OF_RANGE);
    ck_assert_int_eq(world_read(&world, log, -1, 6, 1000, true, &data, &size), ERR_OFFSET_OUT_OF_RANGE);
    world_close(&world, log);
    world_end(&world);
}
END_TEST

/* Known trap B020: the first batch whole, however small the limit; nothing rather than a part of it otherwise. */
START_TEST(first_batch_is_whole_or_nothing)
{
    struct partition_log *log = NULL;
    uint8_t *data = NULL;
    size_t size = 0;

    world_begin(&world, 2);
    log = world_log(&world);
    world_append(&world, log, &(struct batch_make){.value_bytes = 100000});
    for (int i = 0; i < 10; i++)
        world_append(&world, log, &(struct batch_make){.value_bytes = 100});
    ck_assert_int_eq(world_read(&world, log, 0, 11, 1, true, &data, &size), ERR_OK);
    ck_assert_uint_gt(size, 100000);
    mem_free(data);
    ck_assert_int_eq(world_read(&world, log, 0, 11, 1, false, &data, &size), ERR_OK);
    ck_assert_uint_eq(size, 0);
    mem_free(data);
    ck_assert_int_eq(world_read(&world, log, 1, 11, 100000, false, &data, &size), ERR_OK);
    struct bytes rest = bytes_of(data, size);
    struct batch_header header;
    int count = 0;
    for (; batch_peek(rest, &header, NULL) == ERR_OK; count++)
        rest = bytes_of(rest.data + header.size, rest.size - header.size);
    ck_assert_int_eq(count, 10); /* the last one too */
    ck_assert_uint_eq(rest.size, 0);
    mem_free(data);
    world_close(&world, log);
    world_end(&world);
}
END_TEST

START_TEST(nothing_at_or_above_the_limit_is_given)
{
    struct partition_log *log = NULL;

    world_begin(&world, 3);
    log = world_log(&world);
    for (int i = 0; i < 200; i++)
        world_append(&world, log, &(struct batch_make){.record_count = 2, .value_bytes = 100});
    for (int64_t limit = 0; limit <= 400; limit += 2) {
        uint8_t *data = NULL;
        size_t size = 0;
        struct batch_header header = {0};

        ck_assert_int_eq(world_read(&world, log, 0, limit, 1 << 20, true, &data, &size), ERR_OK);
        for (struct bytes rest = bytes_of(data, size); batch_peek(rest, &header, NULL) == ERR_OK;
             rest = bytes_of(rest.data + header.size, rest.size - header.size))
            ck_assert_int_lt(batch_last_offset(&header), limit);
        ck_assert(limit == 0 ? size == 0 : batch_last_offset(&header) < limit);
        mem_free(data);
    }
    world_close(&world, log);
    world_end(&world);
}
END_TEST

START_TEST(rolls_and_opens_again)
{
    struct partition_log *log = NULL;

    for (uint64_t seed = 0; seed < 20; seed++) {
        world_begin(&world, seed);
        world.spec.config.segment_bytes = 20000;
        world.spec.config.index_interval_bytes = 500;
        log = world_log(&world);
        for (int i = 0; i < 300; i++)
            ck_assert_int_eq(world_append(&world, log,
                                          &(struct batch_make){.record_count = 1 + (uint32_t)i % 3,
                                                               .value_bytes = (uint32_t)(i * 37) % 700,
                                                               .timestamp = 1000 + i}),
                             i / 3 * 6 + (i % 3 == 0   ? 0
                                          : i % 3 == 1 ? 1
                                                       : 3));
        ck_assert_uint_gt(partition_log_segment_count(log), 3);
        check_batches(log, 0);
        check_batches(log, 17);
        check_batches(log, 401);
        world_close(&world, log);
        ck_assert_uint_eq(world.files.open_count, 0);
        log = world_log(&world);
        ck_assert_int_eq(partition_log_end_offset(log), 600);
        ck_assert_int_eq(partition_log_synced_offset(log), 600);
        check_batches(log, 0);
        ck_assert_int_eq(world_append(&world, log, &(struct batch_make){.record_count = 1}), 600);
        check_batches(log, 599);
        world_close(&world, log);
        world_end(&world);
    }
}
END_TEST

/* Byte for byte what Kafka writes: names, trimmed indexes, entries at their places, no tail. */
START_TEST(files_are_kafkas)
{
    struct partition_log *log = NULL;
    struct bytes index;
    struct bytes times;
    struct bytes bytes;
    uint64_t position = 0;

    world_begin(&world, 4);
    world.spec.config.index_interval_bytes = 300;
    log = world_log(&world);
    for (int i = 0; i < 7; i++)
        world_append(&world, log, &(struct batch_make){.record_count = 2, .value_bytes = 20, .timestamp = 5000 + i});
    world_close(&world, log);
    bytes = sim_fs_peek(&world.disk, "/data/t-0/00000000000000000000.log");
    index = sim_fs_peek(&world.disk, "/data/t-0/00000000000000000000.index");
    times = sim_fs_peek(&world.disk, "/data/t-0/00000000000000000000.timeindex");
    ck_assert_uint_eq(bytes.size % 7, 0);
    position = bytes.size / 7; /* of one batch: 115 bytes, so an entry before each fourth */
    ck_assert_uint_eq(position, 115);
    ck_assert_uint_eq(index.size, 2 * 8);
    ck_assert_uint_eq(big_endian_load_u32(index.data), 7);
    ck_assert_uint_eq(big_endian_load_u32(index.data + 4), 3 * position);
    ck_assert_uint_eq(big_endian_load_u32(index.data + 8), 13);
    ck_assert_uint_eq(big_endian_load_u32(index.data + 12), 6 * position);
    ck_assert_uint_eq(times.size, 2 * 12); /* the last entry says what the roll entry would */
    ck_assert_uint_eq(big_endian_load_u64(times.data), 5003);
    ck_assert_uint_eq(big_endian_load_u32(times.data + 8), 7);
    ck_assert_uint_eq(big_endian_load_u64(times.data + 12), 5006);
    ck_assert_uint_eq(big_endian_load_u32(times.data + 20), 13);
    bytes = sim_fs_peek(&world.disk, "/data/t-0/leader-epoch-checkpoint");
    ck_assert(bytes_equal(bytes, BYTES_LITERAL("0\n1\n0 0\n")));
    bytes = sim_fs_peek(&world.disk, "/data/t-0/partition.metadata");
    ck_assert(bytes_equal(bytes, BYTES_LITERAL("version: 0\ntopic_id: AQIDBAUGRwiJCgsMDQ4PEA")));
    bytes = sim_fs_peek(&world.disk, "/data/t-0/00000000000000000014.snapshot");
    ck_assert_uint_eq(bytes.size, 10); /* no producers */
    world_end(&world);
}
END_TEST

/* An idle log gives its files back, and opens them again when it is asked. */
START_TEST(idle_logs_hold_no_file)
{
    struct partition_log *log = NULL;

    world_begin(&world, 5);
    world.spec.config.index_interval_bytes = 100;
    log = world_log(&world);
    for (int i = 0; i < 20; i++)
        world_append(&world, log, &(struct batch_make){.value_bytes = 100, .timestamp = i});
    ck_assert_uint_eq(world.files.open_count, 1);
    world_pass(&world, INT64_C(130000000000));
    ck_assert_uint_eq(world.files.open_count, 0);
    ck_assert_uint_eq(world.disk.open_files, 0);
    ck_assert_int_eq(partition_log_synced_offset(log), 20);
    check_batches(log, 3);
    ck_assert_uint_eq(world.files.open_count, 1);
    ck_assert_int_eq(world_append(&world, log, &(struct batch_make){.value_bytes = 100}), 20);
    world_close(&world, log);
    ck_assert_uint_eq(sim_fs_peek(&world.disk, "/data/t-0/00000000000000000000.index").size % 8, 0);
    log = world_log(&world);
    check_batches(log, 0);
    world_close(&world, log);
    world_end(&world);
}
END_TEST

START_TEST(open_files_are_bounded)
{
    enum { LOGS = 12 };
    struct partition_log *logs[LOGS];

    world_begin(&world, 6);
    partition_files_init(&world.files, 4);
    for (int i = 0; i < LOGS; i++) {
        world.spec.partition = i;
        logs[i] = world_log(&world);
    }
    for (int round = 0; round < 3; round++)
        for (int i = 0; i < LOGS; i++) {
            ck_assert_int_eq(world_append(&world, logs[i], &(struct batch_make){.value_bytes = 100}), round);
            ck_assert_int_eq(world_sync(&world, logs[i]), ERR_OK);
            world_pass(&world, INT64_C(100000000));
            ck_assert_uint_le(world.files.open_count, 5);
        }
    for (int i = 0; i < LOGS; i++) {
        check_batches(logs[i], 0);
        world_close(&world, logs[i]);
    }
    ck_assert_uint_eq(world.disk.open_files, 0);
    world_end(&world);
}
END_TEST

/* A batch that the disk gives back changed is never served; those around it are. */
START_TEST(damage_is_not_served)
{
    for (uint64_t seed = 10; seed < 30; seed++) {
        uint32_t value_bytes = seed % 2 == 0 ? 100 : 40000; /* copied, and brought in by a job */
        struct partition_log *log = NULL;
        uint8_t *data = NULL;
        size_t size = 0;
        uint64_t batch_size = 0;

        world_begin(&world, seed);
        world.sim.habits.cached_miss_percent = seed % 2 == 0 ? 30 : 100;
        log = world_log(&world);
        for (int i = 0; i < 5; i++)
            world_append(&world, log, &(struct batch_make){.value_bytes = value_bytes});
        batch_size = partition_log_size(log) / 5;
        world_close(&world, log);
        ck_assert(sim_fs_flip(&world.disk, "/data/t-0/00000000000000000000.log", 2 * batch_size + batch_size / 2, 4));
        log = world_log(&world);
        for (int64_t offset = 0; offset < 5; offset++) {
            enum err err = world_read(&world, log, offset, 5, 1 << 20, true, &data, &size);

            ck_assert_int_eq(err, offset == 2 ? ERR_CORRUPT_MESSAGE : ERR_OK);
            if (err == ERR_OK)
                ck_assert_uint_eq(size, (offset < 2 ? 2 - (uint64_t)offset : 5 - (uint64_t)offset) * batch_size);
            mem_free(data);
        }
        ck_assert_uint_gt(world.lines, 0);
        ck_assert_uint_eq(world.storage_failures, 0);
        world_close(&world, log);
        world_end(&world);
    }
}
END_TEST

struct removed {
    struct partition_log_close op;
    bool done;
};

static void was_removed(struct partition_log_close *op)
{
    LIST_ENTRY(op, struct removed, op)->done = true;
}

static enum err count_entry(void *context, const char *name, bool is_directory)
{
    (void)name;
    (void)is_directory;
    (*(int *)context)++;
    return ERR_OK;
}

START_TEST(deletion_leaves_nothing)
{
    struct partition_log *log = NULL;
    struct removed removed = {.op.done = was_removed};
    int count = 0;

    world_begin(&world, 7);
    log = world_log(&world);
    world_append(&world, log, &(struct batch_make){.value_bytes = 100});
    partition_log_delete(log, &removed.op);
    world_run(&world, &removed.done);
    ck_assert_int_eq(removed.op.err, ERR_OK);
    ck_assert_int_eq(fs_list(&world.disk.fs, "/data", count_entry, &count), ERR_OK);
    ck_assert_int_eq(count, 0);
    ck_assert_uint_eq(world.disk.open_files, 0);
    world_end(&world);
}
END_TEST

START_TEST(a_directory_of_another_topic_is_refused)
{
    struct partition_log *log = NULL;

    world_begin(&world, 8);
    log = world_log(&world);
    world_append(&world, log, &(struct batch_make){.value_bytes = 100});
    world_close(&world, log);
    world.spec.topic_id.bytes[0] ^= 1;
    ck_assert_int_eq(world_open(&world, &log), ERR_BUSY);
    world_end(&world);
}
END_TEST

/* What could not be written for want of room is tried again when the log has been idle once more, not without a pause.
 */
START_TEST(an_idle_log_on_a_full_disk_asks_now_and_then)
{
    struct partition_log *log = NULL;
    uint64_t calls = 0;

    world_begin(&world, 9);
    log = world_log(&world);
    for (int i = 0; i < 40; i++)
        world_append(&world, log, &(struct batch_make){.value_bytes = 1000});
    ck_assert_int_eq(world_sync(&world, log), ERR_OK);
    world.disk.capacity_bytes = world.disk.used_bytes;
    calls = world.disk.calls[SIM_FS_ANY];
    world_pass(&world, INT64_C(600000000000));
    ck_assert_uint_gt(world.disk.calls[SIM_FS_ANY], calls);
    ck_assert_uint_lt(world.disk.calls[SIM_FS_ANY], calls + 200);
    world.disk.capacity_bytes = UINT64_MAX;
    world_append(&world, log, &(struct batch_make){.value_bytes = 1000});
    world_close(&world, log);
    world_end(&world);
}
END_TEST

/* producer.id.expiration.ms while the log is open, and without anybody touching it. */
START_TEST(silent_producers_are_forgotten)
{
    struct partition_log *log = NULL;
    struct batch_make make = {.value_bytes = 10, .producer_id = 7, .base_sequence = 0};
    struct appended appended;
    size_t size = 0;
    uint8_t *batch = NULL;

    world_begin(&world, 10);
    world.env.limits.producer_expiry_ms = 60000;
    world.env.limits.producer_check_ns = INT64_C(10000000000);
    log = world_log(&world);
    make.timestamp = clock_wall_ms(&world.sim.clock);
    ck_assert_int_eq(world_append(&world, log, &make), 0);
    make.base_sequence = 5; /* a gap, as long as it is known */
    batch = make_batch(&make, &size);
    ck_assert_int_eq(world_append_run(&world, log, batch, size, LOG_ORIGIN_CLIENT, &appended),
                     ERR_OUT_OF_ORDER_SEQUENCE_NUMBER);
    world_pass(&world, INT64_C(80000000000));
    ck_assert_int_eq(world_append_run(&world, log, batch, size, LOG_ORIGIN_CLIENT, &appended), ERR_OK);
    mem_free(batch);
    world_close(&world, log);
    world_end(&world);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("log");
    TCase *tests = tcase_create("log");
    SRunner *runner = NULL;
    int failures = 0;

    tcase_add_test(tests, appends_and_reads_back);
    tcase_add_test(tests, first_batch_is_whole_or_nothing);
    tcase_add_test(tests, nothing_at_or_above_the_limit_is_given);
    tcase_add_test(tests, rolls_and_opens_again);
    tcase_add_test(tests, files_are_kafkas);
    tcase_add_test(tests, idle_logs_hold_no_file);
    tcase_add_test(tests, open_files_are_bounded);
    tcase_add_test(tests, damage_is_not_served);
    tcase_add_test(tests, deletion_leaves_nothing);
    tcase_add_test(tests, a_directory_of_another_topic_is_refused);
    tcase_add_test(tests, an_idle_log_on_a_full_disk_asks_now_and_then);
    tcase_add_test(tests, silent_producers_are_forgotten);
    tcase_set_timeout(tests, 60);
    suite_add_tcase(suite, tests);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failures = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
