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

int main(void)
{
    Suite *suite = suite_create("log_sync");
    TCase *tcase = tcase_create("log_sync");
    SRunner *runner = srunner_create(suite);
    int failed = 0;

    tcase_add_test(tcase, what_a_sync_that_was_put_off_owed_is_done_by_the_next);
    tcase_add_test(tcase, at_the_limit_of_unsynced_bytes_a_sync_begins);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
