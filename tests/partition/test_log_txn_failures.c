/* Rule: whatever call of the disk fails while transactions begin, end, roll and are snapshotted, and whether the
 * process is killed or the power cut there: what the log says is open and what it says was aborted is what its batches
 * say. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "txn_truth.h"

enum { STEP = 9 };

static struct world world;
static struct truth truth;
static int64_t synced_end;    /* everything below was promised to survive a power cut */
static int64_t acked_end;     /* and this, a kill */
static uint64_t script_state; /* the script's own draws, the same for every k */

static uint64_t script_draw(uint64_t bound)
{
    script_state = script_state * 6364136223846793005u + 1442695040888963407u;
    return (script_state >> 33) % bound;
}

/* Data of one of three producers, or of none, or a marker. */
static void try_append(struct partition_log *log)
{
    struct appended appended;
    int64_t producer_id = (int64_t)script_draw(4);
    bool is_marker = producer_id > 0 && script_draw(3) == 0;
    bool commit = script_draw(3) == 0;
    uint32_t value_bytes = (uint32_t)script_draw(500);
    size_t size = 0;
    uint8_t *batch = is_marker ? make_marker(producer_id, 0, commit, 1, &size)
                               : make_batch(&(struct batch_make){.value_bytes = value_bytes,
                                                                 .timestamp = 1000,
                                                                 .producer_id = producer_id,
                                                                 .transactional = producer_id > 0},
                                            &size);

    if (world_append_run(&world, log, batch, size, LOG_ORIGIN_COORDINATOR, &appended) == ERR_OK)
        acked_end = appended.op.last_offset + 1;
    mem_free(batch);
}

static void try_sync(struct partition_log *log)
{
    int64_t end = partition_log_end_offset(log);

    if (world_sync(&world, log) == ERR_OK)
        synced_end = end;
    if (script_draw(2) == 0) /* as a checkpoint would have it, now and then */
        world.spec.recovery_point = partition_log_recovery_point(log);
}

/* False: not cleanly. */
static bool try_close(struct partition_log *log)
{
    struct world_closed closed = {.op.done = world_was_closed};
    int64_t end = partition_log_end_offset(log);

    partition_log_close(log, &closed.op);
    world_run(&world, &closed.done);
    if (closed.op.err == ERR_OK) {
        synced_end = end;
        world.spec.recovery_point = end;
    }
    world.spec.clean = closed.op.err == ERR_OK;
    return world.spec.clean;
}

/* NULL: it is closed. */
static struct partition_log *script(void)
{
    struct partition_log *log = NULL;

    for (int life = 0; life < 2; life++) {
        if (world_open(&world, &log) != ERR_OK) {
            world.spec.clean = false;
            return NULL;
        }
        world.spec.clean = false;
        for (int i = 0; i < 36; i++) {
            try_append(log);
            if (script_draw(6) == 0)
                try_sync(log);
            if (script_draw(12) == 0)
                world_pass(&world, INT64_C(70000000000)); /* files are given back */
        }
        if (life == 0 && !try_close(log))
            return NULL;
    }
    return log;
}

struct fault {
    const char *name;
    enum sim_fs_fault fault;
    enum err err;
    bool power_cut;
};

static const struct fault faults[] = {
    {"fails with an I/O error", SIM_FS_FAIL, ERR_IO, false},
    {"fails for want of space", SIM_FS_FAIL, ERR_NO_SPACE, false},
    {"is short", SIM_FS_SHORT, ERR_IO, false},
    {"is where the process dies", SIM_FS_DIE, ERR_IO, false},
    {"is where the power goes", SIM_FS_DIE, ERR_IO, true},
    {"is short, the power goes later", SIM_FS_SHORT, ERR_IO, true},
    {"fails for want of descriptors, the power goes later", SIM_FS_FAIL, ERR_NO_DESCRIPTORS, true},
    {"fails for want of space, the power goes later", SIM_FS_FAIL, ERR_NO_SPACE, true},
};

static bool run_one(const struct fault *fault, uint64_t seed, uint64_t k)
{
    struct partition_log *log = NULL;
    bool struck = false;

    printf("txn sweep: seed %llu: call %llu %s\r", (unsigned long long)seed, (unsigned long long)k, fault->name);
    fflush(stdout);
    script_state = seed;
    synced_end = 0;
    acked_end = 0;
    world_begin(&world, seed);
    world.spec.config.segment_bytes = 4000;
    world.spec.config.index_interval_bytes = 400;
    world.env.limits.anchor_bytes = 1 + (int64_t)(seed * 1000 % 6000);
    sim_fs_set_fault(&world.disk, fault->fault, SIM_FS_ANY, k, fault->err);
    log = script();
    struck = sim_fs_fault_struck(&world.disk);
    world_crash(&world, log, fault->power_cut);
    if (k % 2 == 1 && struck) { /* and again, while it recovers */
        sim_fs_set_fault(&world.disk, SIM_FS_DIE, SIM_FS_ANY, 1 + (k + seed) % 37, ERR_IO);
        log = NULL;
        if (world_open(&world, &log) != ERR_OK)
            log = NULL;
        world_crash(&world, log, fault->power_cut);
    }
    sim_fs_set_fault(&world.disk, SIM_FS_NO_FAULT, SIM_FS_ANY, 0, ERR_OK);
    log = world_log(&world);
    truth_check(&truth, &world, log);
    ck_assert_int_ge(truth.end_offset, fault->power_cut ? synced_end : acked_end);
    /* It goes on. */
    for (int i = 0; i < 6; i++)
        try_append(log);
    truth_check(&truth, &world, log);
    ck_assert(try_close(log));
    log = world_log(&world);
    truth_check(&truth, &world, log);
    ck_assert(try_close(log));
    ck_assert_uint_eq(world.disk.open_files, 0);
    world_end(&world);
    return struck;
}

static uint64_t seeds(void)
{
    const char *text = getenv("OTTLA_SWEEP_SEEDS");

    return text == NULL ? 1 : strtoull(text, NULL, 10);
}

START_TEST(every_call_failing)
{
    /* Unless it was asked for more, each fault strikes at a part of the calls, another part for each. */
    uint64_t step = getenv("OTTLA_SWEEP_SEEDS") == NULL ? STEP : 1;

    for (uint64_t seed = 1; seed <= seeds(); seed++) {
        uint64_t k = 1 + (uint64_t)_i % step;

        while (run_one(&faults[_i], seed, k))
            k += step;
        ck_assert_uint_gt(k, 60); /* the script touches the disk that often */
    }
    printf("\n");
}
END_TEST

/* Without any fault, at the end of the script: what a crash there leaves. */
START_TEST(crash_after_the_last_call)
{
    for (uint64_t seed = 1; seed <= 20 * seeds(); seed++)
        ck_assert(!run_one(&faults[3 + _i], seed, UINT64_MAX / 2));
    printf("\n");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("log_txn_failures");
    TCase *tests = tcase_create("sweep");
    SRunner *runner = NULL;
    int failed = 0;

    tcase_add_loop_test(tests, every_call_failing, 0, (int)(sizeof(faults) / sizeof(faults[0])));
    tcase_add_loop_test(tests, crash_after_the_last_call, 0, 2);
    tcase_set_timeout(tests, 3600);
    suite_add_tcase(suite, tests);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
