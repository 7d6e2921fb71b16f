/* Rule: files are swapped so that any crash during a cleaning leaves the old or the new segments (on-disk.md 6), and a
 * call of the disk that fails loses nothing. */
#include <check.h>

#include "compacted.h"
#include "run_tests.h"

static struct world world;
static struct compacted kept;

static void crash_script(uint64_t seed, uint64_t k, bool power_cut, bool *struck)
{
    struct partition_log *log = NULL;
    struct compacted_cleaning cleaned;
    int64_t promised = 0;

    compacted_begin(&kept, &world, seed);
    log = world_log(&world);
    compacted_append_some(&kept, log, 12);
    ck_assert_int_eq(compacted_clean(&world, log),
                     ERR_OK); /* so that there is something clean, and tombstones with a horizon */
    compacted_append_some(&kept, log, 12);
    ck_assert_int_eq(world_sync(&world, log), ERR_OK);
    world.spec.recovery_point = partition_log_recovery_point(log);
    world.spec.cleaned_offset = partition_log_cleaned_offset(log);
    promised = power_cut ? partition_log_synced_offset(log) : kept.end;
    sim_fs_set_fault(&world.disk, SIM_FS_DIE, SIM_FS_ANY, k, ERR_IO);
    cleaned = compacted_clean_of(log);
    cleaned.op.now_ms = COMPACTED_WALL_MS + 100000000; /* tombstones of the first one may go */
    compacted_clean_run(&world, log, &cleaned);
    world_pass(&world, INT64_C(100000000));
    *struck = sim_fs_fault_struck(&world.disk);
    world_crash(&world, log, power_cut);
    sim_fs_set_fault(&world.disk, SIM_FS_NO_FAULT, SIM_FS_ANY, 0, ERR_OK);
    log = world_log(&world);
    compacted_check_names(&world);
    ck_assert_int_ge(partition_log_end_offset(log), promised);
    kept.end = partition_log_end_offset(log);
    compacted_read(&kept, log, 0);
    compacted_check_state(&kept, kept.end);
    compacted_append_some(&kept, log, 5);
    ck_assert_int_eq(compacted_clean(&world, log), ERR_OK);
    compacted_check_all(&kept, log);
    world_close(&world, log);
    world_end(&world);
}

START_TEST(a_crash_leaves_the_old_or_the_new)
{
    for (uint64_t seed = 1; seed <= 3; seed++) {
        bool struck = true;

        for (uint64_t k = 1; struck; k++)
            crash_script(seed, k, seed > 1, &struck); /* the first is killed, the others lose power */
    }
}
END_TEST

/* The k-th call of each kind fails: the cleaning ends, or the directory is given up, and nothing is lost. */
START_TEST(a_failed_call_loses_nothing)
{
    static const enum sim_fs_call kinds[] = {SIM_FS_OPEN, SIM_FS_RENAME, SIM_FS_UNLINK, SIM_FS_SYNC_DIR, SIM_FS_STAT,
                                             SIM_FS_READ, SIM_FS_WRITE,  SIM_FS_SYNC,   SIM_FS_SET_MTIME};
    static const enum err errors[] = {ERR_NO_SPACE, ERR_IO};

    for (size_t kind = 0; kind < sizeof(kinds) / sizeof(kinds[0]); kind++) {
        for (size_t error = 0; error < 2; error++) {
            bool struck = true;

            for (uint64_t k = 1; struck; k++) {
                struct partition_log *log = NULL;
                struct compacted_cleaning cleaned;

                compacted_begin(&kept, &world, 4);
                log = world_log(&world);
                compacted_append_some(&kept, log, 16);
                ck_assert_int_eq(world_sync(&world, log), ERR_OK);
                sim_fs_set_fault(&world.disk, SIM_FS_FAIL, kinds[kind], k, errors[error]);
                cleaned = compacted_clean_of(log);
                compacted_clean_run(&world, log, &cleaned);
                world_pass(&world, INT64_C(100000000));
                struck = sim_fs_fault_struck(&world.disk);
                sim_fs_set_fault(&world.disk, SIM_FS_NO_FAULT, SIM_FS_ANY, 0, ERR_OK);
                if (partition_log_failed(log)) {
                    ck_assert(errors[error] == ERR_IO || kinds[kind] == SIM_FS_SYNC || kinds[kind] == SIM_FS_SYNC_DIR ||
                              kinds[kind] == SIM_FS_RENAME || kinds[kind] == SIM_FS_UNLINK);
                    world_crash(&world, log, false);
                    log = world_log(&world);
                }
                compacted_check_names(&world);
                compacted_read(&kept, log, 0);
                compacted_check_state(&kept, kept.end);
                ck_assert_int_eq(compacted_clean(&world, log), ERR_OK);
                compacted_check_all(&kept, log);
                world_close(&world, log);
                world_end(&world);
            }
        }
    }
}
END_TEST

RUN_TESTS("log_clean_failures", a_crash_leaves_the_old_or_the_new, a_failed_call_loses_nothing)
