/* Rules: where many logs have something to sync one call for their file system syncs all of them, and what it concludes
 * for each is what it had written before; few are synced one by one; an error of that call fails all that stood on it,
 * and a power cut anywhere leaves what was told. */
#include <check.h>

#include "base/mem.h"
#include "partition/log_internal.h"
#include "partition/partition_limits.h"
#include "partition/sync_group.h"
#include "run_tests.h"
#include "world.h"

enum { FEW = 3, LOGS = 5, CROWD = SYNC_GROUP_SLICE_LOGS + 100 };

static struct world world;
static atomic_bool turn;
static struct partition_log *logs[CROWD];

static void begin(uint64_t seed, uint32_t logs_min)
{
    struct sync_group_options options = {.turn = &turn, .logs_min = logs_min};

    world_begin(&world, seed);
    atomic_init(&turn, false);
    ck_assert_int_eq(fs_open(&world.disk.fs, "/data/.lock", FS_READ | FS_WRITE | FS_CREATE, &options.file), ERR_OK);
    ck_assert_int_eq(sync_group_new(&world.env, &options, &world.env.sync_group), ERR_OK);
}

static void group_free(void)
{
    sync_group_free(world.env.sync_group); /* asserts that no log is in it any more */
    world.env.sync_group = NULL;
}

static void end(void)
{
    group_free();
    world_end(&world);
}

static void open_logs(uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        world.spec.partition = (int32_t)i;
        logs[i] = world_log(&world);
    }
}

static void append_to(struct partition_log *log)
{
    (void)world_append(&world, log, &(struct batch_make){.value_bytes = 10, .timestamp = 1000});
}

static void close_logs(uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (logs[i] != NULL)
            world_close(&world, logs[i]);
}

static void was_closed(struct partition_log_close *op)
{
    op->done = NULL;
}

/* Nothing more is written by them; then the power may go, and the next opening is on its own. */
static void drop_logs(uint32_t count, bool power_cut)
{
    for (uint32_t i = 0; i < count; i++) {
        struct partition_log_close op = {.done = was_closed};

        partition_log_fail(logs[i], ERR_IO);
        partition_log_close(logs[i], &op);
        while (op.done != NULL)
            ck_assert(sim_step(&world.sim, INT64_MAX));
    }
    group_free();
    if (power_cut)
        sim_fs_cut(&world.disk);
    world.spec.clean = false;
}

static uint64_t syncs(void)
{
    return world.disk.calls[SIM_FS_SYNC] + world.disk.calls[SIM_FS_SYNC_DIR];
}

/* The first time each new log syncs what says whose it is, before its first record, and names have to follow what the
 * files hold; from then on it is one call. More logs than one turn looks at are no different. All of it outlives a
 * power cut, epochs too. */
START_TEST(many_are_synced_by_one_call)
{
    uint64_t before = 0;

    begin(1, 0);
    open_logs(CROWD);
    before = syncs();
    for (uint32_t i = 0; i < CROWD; i++)
        append_to(logs[i]);
    world_pass(&world, 2 * PARTITION_SYNC_INTERVAL_NS);
    ck_assert_uint_le(syncs() - before, CROWD + 2 * FEW); /* alone each would take five */
    for (int64_t round = 1; round <= 3; round++) {
        for (uint32_t i = 0; i < CROWD; i++)
            ck_assert_int_eq(partition_log_recovery_point(logs[i]), round);
        before = syncs();
        for (uint32_t i = 0; i < CROWD; i++)
            append_to(logs[i]);
        world_pass(&world, 2 * PARTITION_SYNC_INTERVAL_NS);
        ck_assert_uint_eq(syncs() - before, 1);
    }
    drop_logs(CROWD, true);
    open_logs(CROWD);
    for (uint32_t i = 0; i < CROWD; i++) {
        ck_assert_int_eq(partition_log_end_offset(logs[i]), 4);
        ck_assert_int_eq(partition_log_last_epoch(logs[i]), 0);
    }
    close_logs(CROWD);
    end();
}
END_TEST

/* Below the limit each has its own sync, at it there is one for all. */
START_TEST(few_are_synced_one_by_one)
{
    for (uint32_t count = FEW - 1; count <= FEW; count++) {
        uint64_t before = 0;

        begin(count, FEW);
        open_logs(count);
        for (uint32_t i = 0; i < count; i++)
            append_to(logs[i]);
        world_pass(&world, 2 * PARTITION_SYNC_INTERVAL_NS);
        before = syncs();
        for (uint32_t i = 0; i < count; i++)
            append_to(logs[i]);
        world_pass(&world, 2 * PARTITION_SYNC_INTERVAL_NS);
        ck_assert_uint_eq(syncs() - before, count < FEW ? count : 1);
        for (uint32_t i = 0; i < count; i++)
            ck_assert_int_eq(partition_log_synced_offset(logs[i]), 2);
        close_logs(count);
        end();
    }
}
END_TEST

/* Logs with a record each, and names that are synced; then one more record each, whose sync is under way. */
static void begin_sync(uint64_t seed)
{
    begin(seed, FEW);
    open_logs(LOGS);
    for (uint32_t i = 0; i < LOGS; i++)
        append_to(logs[i]);
    world_pass(&world, 2 * PARTITION_SYNC_INTERVAL_NS);
    for (uint32_t i = 0; i < LOGS; i++)
        append_to(logs[i]);
    while (logs[LOGS - 1]->awake->sync_job == NULL)
        ck_assert(sim_step(&world.sim, INT64_MAX));
}

/* What a log gets while the call is under way is not told to be synced by it, and is by the next. */
START_TEST(what_is_written_meanwhile_is_the_next_ones)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        begin_sync(seed);
        for (uint32_t i = 0; i < LOGS; i++)
            append_to(logs[i]);
        while (logs[0]->awake->sync_job != NULL)
            ck_assert(sim_step(&world.sim, INT64_MAX));
        for (uint32_t i = 0; i < LOGS; i++)
            ck_assert_int_eq(partition_log_synced_offset(logs[i]), 2);
        world_pass(&world, 2 * PARTITION_SYNC_INTERVAL_NS);
        for (uint32_t i = 0; i < LOGS; i++)
            ck_assert_int_eq(partition_log_synced_offset(logs[i]), 3);
        close_logs(LOGS);
        end();
    }
}
END_TEST

static void was_cut(struct log_truncate *op)
{
    op->done = NULL;
}

/* A log that is deleted, cut or closed meanwhile is so once the call has ended, and the others are synced. */
START_TEST(a_log_may_go_or_be_cut_meanwhile)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct partition_log_close deletion = {.done = was_closed};
        struct partition_log_close stop = {.done = was_closed};
        struct log_truncate cut = {.offset = 1, .done = was_cut};

        begin_sync(seed);
        partition_log_delete(logs[0], &deletion);
        partition_log_close(logs[1], &stop);
        partition_log_truncate(logs[2], &cut);
        while (deletion.done != NULL || stop.done != NULL || cut.done != NULL)
            ck_assert(sim_step(&world.sim, INT64_MAX));
        ck_assert(deletion.err == ERR_OK && stop.err == ERR_OK && cut.err == ERR_OK);
        ck_assert_int_eq(partition_log_end_offset(logs[2]), 1);
        ck_assert_int_eq(partition_log_synced_offset(logs[2]), 1);
        append_to(logs[2]);
        world_pass(&world, 2 * PARTITION_SYNC_INTERVAL_NS);
        for (uint32_t i = 2; i < LOGS; i++)
            ck_assert_int_eq(partition_log_synced_offset(logs[i]), 2);
        ck_assert_uint_eq(world.lines, 0);
        logs[0] = logs[1] = NULL;
        close_logs(LOGS);
        end();
    }
}
END_TEST

/* The first call or the second: none of the logs promises anything more, one line says why, and the directory hears of
 * it. */
START_TEST(an_error_fails_all)
{
    for (uint64_t call = 1; call <= 2; call++) {
        begin(call, FEW);
        open_logs(LOGS);
        for (uint32_t i = 0; i < LOGS; i++)
            append_to(logs[i]);
        sim_fs_set_fault(&world.disk, SIM_FS_FAIL, SIM_FS_SYNC, call, ERR_NO_SPACE);
        world_pass(&world, 2 * PARTITION_SYNC_INTERVAL_NS);
        ck_assert(sim_fs_fault_struck(&world.disk));
        ck_assert_uint_eq(world.storage_failures, 1);
        ck_assert_uint_eq(world.lines, 1);
        for (uint32_t i = 0; i < LOGS; i++) {
            ck_assert(partition_log_failed(logs[i]));
            ck_assert_int_eq(partition_log_synced_offset(logs[i]), 0);
        }
        drop_logs(LOGS, false);
        end();
    }
}
END_TEST

/* Whoever waits for a log, or asks for syncs by its configuration, does not wait for the others. */
START_TEST(who_waits_is_not_taken_along)
{
    begin_sync(1);
    world_pass(&world, 2 * PARTITION_SYNC_INTERVAL_NS);
    for (uint32_t i = 1; i < LOGS; i++)
        append_to(logs[i]);
    append_to(logs[0]);
    ck_assert_int_eq(world_sync(&world, logs[0]), ERR_OK);
    for (uint32_t i = 0; i < LOGS; i++)
        ck_assert_int_eq(partition_log_synced_offset(logs[i]), i == 0 ? 3 : 2);
    close_logs(LOGS);
    end();
}
END_TEST

/* What has been handed to the disk no longer counts for the directory's bound, though it is not synced yet; what comes
 * meanwhile does, and whatever becomes of the sync, nothing is counted twice or for ever. */
START_TEST(bytes_count_until_they_are_written_out)
{
    for (int fails = 0; fails <= 1; fails++) {
        static struct dir_dirty dirty;
        uint64_t calls = 0;
        int64_t before = 0;

        begin(1, FEW);
        ck_assert_int_eq(dir_dirty_init(&dirty, 1 << 20, &world.loop, 1), ERR_OK);
        world.env.dirty = &dirty.homes[0];
        open_logs(LOGS);
        for (uint32_t i = 0; i < LOGS; i++)
            append_to(logs[i]);
        world_pass(&world, 2 * PARTITION_SYNC_INTERVAL_NS);
        ck_assert_int_eq(atomic_load(&dirty.bytes), 0);
        for (uint32_t i = 0; i < LOGS; i++)
            append_to(logs[i]);
        before = atomic_load(&dirty.bytes);
        ck_assert_int_gt(before, 0);
        if (fails)
            sim_fs_set_fault(&world.disk, SIM_FS_FAIL, SIM_FS_SYNC, 1, ERR_IO);
        calls = world.disk.calls[SIM_FS_SYNC];
        while (world.disk.calls[SIM_FS_SYNC] == calls)
            ck_assert(sim_step(&world.sim, INT64_MAX));
        ck_assert(logs[0]->awake->sync_job != NULL);
        ck_assert_int_eq(atomic_load(&dirty.bytes), 0);
        append_to(logs[0]);
        ck_assert_int_eq(atomic_load(&dirty.bytes), before / LOGS);
        world_pass(&world, 3 * PARTITION_SYNC_INTERVAL_NS);
        ck_assert_int_eq(atomic_load(&dirty.bytes), 0);
        ck_assert_int_eq(partition_log_failed(logs[0]), fails);
        if (fails)
            drop_logs(LOGS, false);
        else
            close_logs(LOGS);
        dir_dirty_deinit(&dirty); /* asserts that nothing is counted any more */
        end();
    }
}
END_TEST

/* While another home of the directory syncs, this one waits, and does so no longer when its logs have gone. */
START_TEST(homes_take_turns)
{
    begin(1, FEW);
    open_logs(LOGS);
    for (uint32_t i = 0; i < LOGS; i++)
        append_to(logs[i]);
    atomic_store(&turn, true);
    world_pass(&world, 5 * PARTITION_SYNC_INTERVAL_NS);
    for (uint32_t i = 0; i < LOGS; i++)
        ck_assert_int_eq(partition_log_synced_offset(logs[i]), 0);
    atomic_store(&turn, false);
    world_pass(&world, PARTITION_SYNC_INTERVAL_NS);
    for (uint32_t i = 0; i < LOGS; i++)
        ck_assert_int_eq(partition_log_synced_offset(logs[i]), 1);
    ck_assert(!atomic_load(&turn));
    atomic_store(&turn, true);
    for (uint32_t i = 0; i < LOGS; i++)
        append_to(logs[i]);
    world_pass(&world, 2 * PARTITION_SYNC_INTERVAL_NS);
    close_logs(LOGS);
    group_free();
    world_pass(&world, PARTITION_SYNC_INTERVAL_NS);
    world_end(&world);
}
END_TEST

/* A power cut at every call there is: what was told to be synced is there, with its epoch. */
START_TEST(a_power_cut_leaves_what_was_told)
{
    bool struck = true;

    for (uint64_t call = 1; struck; call++) {
        int64_t told[LOGS];

        begin(call, FEW);
        open_logs(LOGS);
        sim_fs_set_fault(&world.disk, SIM_FS_DIE, SIM_FS_ANY, call, ERR_IO);
        for (int round = 0; round < 2; round++) {
            for (uint32_t i = 0; i < LOGS && !partition_log_failed(logs[i]); i++) {
                struct appended appended;
                size_t size = 0;
                uint8_t *batch = make_batch(&(struct batch_make){.value_bytes = 10}, &size);

                (void)world_append_run(&world, logs[i], batch, size, LOG_ORIGIN_CLIENT, &appended);
                mem_free(batch);
            }
            world_pass(&world, 2 * PARTITION_SYNC_INTERVAL_NS);
        }
        struck = sim_fs_fault_struck(&world.disk);
        for (uint32_t i = 0; i < LOGS; i++)
            told[i] = partition_log_synced_offset(logs[i]);
        drop_logs(LOGS, true);
        for (uint32_t i = 0; i < LOGS; i++) {
            world.spec.partition = (int32_t)i;
            world.spec.recovery_point = told[i];
            logs[i] = world_log(&world);
            ck_assert_int_ge(partition_log_end_offset(logs[i]), told[i]);
            if (told[i] > 0)
                ck_assert_int_eq(partition_log_epoch_at(logs[i], 0), 0);
        }
        close_logs(LOGS);
        end();
    }
}
END_TEST

RUN_TESTS("sync_group", many_are_synced_by_one_call, few_are_synced_one_by_one,
          what_is_written_meanwhile_is_the_next_ones, a_log_may_go_or_be_cut_meanwhile, an_error_fails_all,
          who_waits_is_not_taken_along, bytes_count_until_they_are_written_out, homes_take_turns,
          a_power_cut_leaves_what_was_told)
