/* Rule: a sync that was put off (no memory, no descriptor) is made good by the next, with all that the first one owed;
 * so much un-synced does not wait for the timer. */
#include <check.h>

#include "base/mem.h"
#include "partition/partition_limits.h"
#include "world.h"

static struct world world;

/* The first sync of a new partition also owes the log directory its name: a power cut after the second one must find
 * the partition. */
START_TEST(what_a_sync_that_was_put_off_owed_is_done_by_the_next)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct batch_make make = {.record_count = 3, .value_bytes = 10, .timestamp = 1000};
        struct partition_log *log = NULL;

        world_begin(&world, seed);
        log = world_log(&world);
        (void)world_append(&world, log, &make);
        sim_fs_set_fault(&world.disk, SIM_FS_FAIL, SIM_FS_OPEN, 1, ERR_NOMEM);
        ck_assert_int_eq(world_sync(&world, log), ERR_OK);
        ck_assert(sim_fs_fault_struck(&world.disk));
        ck_assert_int_eq(partition_log_synced_offset(log), 3);
        world_crash(&world, log, true);
        log = world_log(&world);
        ck_assert_int_eq(partition_log_end_offset(log), 3);
        world_close(&world, log);
        world_end(&world);
    }
}
END_TEST

/* One byte under the limit waits for the timer, the limit and one byte over do not. */
START_TEST(at_the_limit_of_unsynced_bytes_a_sync_begins)
{
    for (int64_t over = -1; over <= 1; over++) {
        struct batch_make make = {.record_count = 1, .value_bytes = 100, .timestamp = 1000};
        struct partition_log *log = NULL;
        size_t size = 0;

        mem_free(make_batch(&make, &size));
        world_begin(&world, 1);
        world.env.limits.sync_bytes = (int64_t)size - over;
        log = world_log(&world);
        (void)world_append(&world, log, &make);
        world_pass(&world, PARTITION_SYNC_INTERVAL_NS / 2);
        ck_assert_int_eq(partition_log_synced_offset(log), over >= 0 ? 1 : 0);
        world_pass(&world, PARTITION_SYNC_INTERVAL_NS);
        ck_assert_int_eq(partition_log_synced_offset(log), 1);
        world_close(&world, log);
        world_end(&world);
    }
}
END_TEST

/* What was synced is not synced again: a stop of a log that has rested since its last clean stop, or that has no
 * record, touches no file; and what is known of how far it was synced does not go back meanwhile. */
START_TEST(a_stop_has_nothing_to_do_where_nothing_was_written)
{
    for (uint32_t records = 0; records <= 3; records += 3) {
        struct batch_make make = {.record_count = records, .value_bytes = 10, .timestamp = 1000};
        struct partition_log *log = NULL;
        uint64_t calls = 0;

        world_begin(&world, 1);
        log = world_log(&world);
        ck_assert_int_eq(partition_log_assign_epoch(log, 1), ERR_OK);
        if (records > 0)
            (void)world_append(&world, log, &make);
        world_close(&world, log);
        log = world_log(&world);
        ck_assert_int_eq(partition_log_assign_epoch(log, 2), ERR_OK);
        world_pass(&world, 2 * PARTITION_SYNC_INTERVAL_NS);
        ck_assert_int_eq(partition_log_recovery_point(log), (int64_t)records);
        ck_assert(!partition_log_needs_final_sync(log));
        calls = world.disk.calls[SIM_FS_ANY];
        world_close(&world, log);
        ck_assert_uint_eq(world.disk.calls[SIM_FS_ANY], calls);
        sim_fs_cut(&world.disk);
        log = world_log(&world);
        ck_assert_int_eq(partition_log_end_offset(log), (int64_t)records);
        world_close(&world, log);
        world_end(&world);
    }
}
END_TEST

/* Nor does it go back with a kill: what was synced before it is so afterwards, and is not synced or read again. */
START_TEST(a_kill_does_not_pull_the_recovery_point_back)
{
    struct batch_make make = {.record_count = 3, .value_bytes = 10, .timestamp = 1000};
    struct partition_log *log = NULL;

    world_begin(&world, 1);
    log = world_log(&world);
    ck_assert_int_eq(partition_log_assign_epoch(log, 0), ERR_OK);
    (void)world_append(&world, log, &make);
    ck_assert_int_eq(world_sync(&world, log), ERR_OK);
    for (int round = 0; round < 3; round++) {
        ck_assert_int_eq(partition_log_recovery_point(log), 3);
        world.spec.recovery_point = 3;
        world_crash(&world, log, false);
        log = world_log(&world);
        ck_assert_int_eq(partition_log_assign_epoch(log, round + 1), ERR_OK);
        ck_assert_int_eq(partition_log_end_offset(log), 3);
        ck_assert_int_eq(partition_log_synced_offset(log), 3);
    }
    world_close(&world, log);
    world_end(&world);
}
END_TEST

/* A log that had no record at a clean stop owes its names: its first synced record outlives a power cut. */
START_TEST(an_empty_log_is_taken_for_new)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct batch_make make = {.record_count = 3, .value_bytes = 10, .timestamp = 1000};
        struct partition_log *log = NULL;

        world_begin(&world, seed);
        world_close(&world, world_log(&world));
        log = world_log(&world);
        (void)world_append(&world, log, &make);
        ck_assert_int_eq(world_sync(&world, log), ERR_OK);
        world_crash(&world, log, true);
        log = world_log(&world);
        ck_assert_int_eq(partition_log_end_offset(log), 3);
        world_close(&world, log);
        world_end(&world);
    }
}
END_TEST

static void closed(struct partition_log_close *op)
{
    op->done = NULL;
}

/* Whoever syncs the whole file system behind it gets files that need nothing else: no sync is made by the close, and
 * after that one a power cut finds a clean log. */
START_TEST(one_sync_may_follow_for_all)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct batch_make make = {.record_count = 3, .value_bytes = 10, .timestamp = 1000, .producer_id = 7};
        struct partition_log_close op = {.done = closed, .sync_all_follows = true};
        struct partition_log *log = NULL;
        struct fs_file *file = NULL;
        uint64_t syncs = 0;

        world_begin(&world, seed);
        log = world_log(&world);
        (void)world_append(&world, log, &make);
        ck_assert(partition_log_needs_final_sync(log));
        syncs = world.disk.calls[SIM_FS_SYNC] + world.disk.calls[SIM_FS_SYNC_DIR];
        partition_log_close(log, &op);
        while (op.done != NULL)
            ck_assert(sim_step(&world.sim, INT64_MAX));
        ck_assert_int_eq(op.err, ERR_OK);
        ck_assert(op.left_unsynced);
        ck_assert_uint_eq(world.disk.calls[SIM_FS_SYNC] + world.disk.calls[SIM_FS_SYNC_DIR], syncs);
        ck_assert_int_eq(fs_open(&world.disk.fs, "/data/t-0/00000000000000000000.log", FS_READ, &file), ERR_OK);
        ck_assert_int_eq(fs_sync_all(file), ERR_OK);
        fs_file_drop(file);
        sim_fs_cut(&world.disk);
        log = world_log(&world);
        ck_assert_int_eq(partition_log_end_offset(log), 3);
        ck_assert(!partition_log_needs_final_sync(log));
        ck_assert_uint_eq(world.lines, 0);
        world_close(&world, log);
        world_end(&world);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("log_sync");
    TCase *tcase = tcase_create("log_sync");
    SRunner *runner = srunner_create(suite);
    int failed = 0;

    tcase_add_test(tcase, what_a_sync_that_was_put_off_owed_is_done_by_the_next);
    tcase_add_test(tcase, at_the_limit_of_unsynced_bytes_a_sync_begins);
    tcase_add_test(tcase, a_stop_has_nothing_to_do_where_nothing_was_written);
    tcase_add_test(tcase, a_kill_does_not_pull_the_recovery_point_back);
    tcase_add_test(tcase, an_empty_log_is_taken_for_new);
    tcase_add_test(tcase, one_sync_may_follow_for_all);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
