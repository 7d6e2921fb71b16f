/* Rules: a log takes what only one in use needs when it is used, and gives it back when it has been idle for a while,
 * whatever used it; where a file cannot be had for the moment, only who needs that one is told; partitions of a topic
 * hold one copy of its settings.
 *
 * Sources: partition/log_config.c */
#include <check.h>
#include <inttypes.h>

#include "base/mem.h"
#include "partition/log_internal.h"
#include "partition/partition_limits.h"
#include "run_tests.h"
#include "world.h"

static struct world world;

enum use { USE_APPEND, USE_READ, USE_FIND, USE_SYNC, USE_ROLL, USES };

static void was_found(struct log_find *op)
{
    op->done = NULL;
}

static void use(struct partition_log *log, enum use use)
{
    struct log_find find = {.timestamp = 500, .done = was_found};
    uint8_t *data = NULL;
    size_t size = 0;

    switch (use) {
    case USE_APPEND:
        (void)world_append(&world, log, &(struct batch_make){.value_bytes = 10, .timestamp = 1000});
        break;
    case USE_READ:
        ck_assert_int_eq(world_read(&world, log, 0, partition_log_end_offset(log), 1000, true, &data, &size), ERR_OK);
        ck_assert_uint_gt(size, 0);
        mem_free(data);
        break;
    case USE_FIND:
        partition_log_find(log, &find);
        while (find.done != NULL)
            ck_assert(sim_step(&world.sim, INT64_MAX));
        ck_assert_int_eq(find.offset, 0);
        break;
    case USE_SYNC:
        (void)world_append(&world, log, &(struct batch_make){.value_bytes = 10, .timestamp = 1000});
        ck_assert_int_eq(world_sync(&world, log), ERR_OK);
        break;
    case USE_ROLL:
        log_roll(log);
        break;
    case USES:
        break;
    }
}

/* After each use, and in the same state: what the log knows does not change by it. */
START_TEST(a_log_that_idles_sleeps)
{
    struct partition_log *log = NULL;

    world_begin(&world, 1);
    log = world_log(&world);
    ck_assert(!log_is_awake(log));
    for (int each = 0; each < 2 * USES; each++) {
        int64_t end = 0;

        use(log, (enum use)(each % USES));
        ck_assert(log_is_awake(log));
        end = partition_log_end_offset(log);
        world_pass(&world, 3 * PARTITION_IDLE_NS);
        ck_assert(!log_is_awake(log));
        ck_assert_uint_eq(world.files.open_count, 0);
        ck_assert_int_eq(partition_log_end_offset(log), end);
        ck_assert_int_eq(partition_log_synced_offset(log), end);
    }
    world_close(&world, log);
    world_end(&world);
}
END_TEST

/* Whoever only looks does not wake it. */
START_TEST(a_look_does_not_wake)
{
    struct partition_log *log = NULL;
    uint8_t *data = NULL;
    size_t size = 0;

    world_begin(&world, 1);
    log = world_log(&world);
    ck_assert_int_eq(world_read(&world, log, 0, 0, 1000, true, &data, &size), ERR_OK);
    mem_free(data);
    partition_log_retain(log, 0);
    partition_log_set_config(log, &world.spec.config);
    ck_assert_int_eq(world_sync(&world, log), ERR_OK);
    world_pass(&world, PARTITION_SYNC_INTERVAL_NS);
    ck_assert(!log_is_awake(log));
    world_close(&world, log);
    world_end(&world);
}
END_TEST

struct waiting_read {
    struct log_read op;
    struct arena arena;
    bool done;
};

static void was_read(struct log_read *op)
{
    LIST_ENTRY(op, struct waiting_read, op)->done = true;
}

static void was_appended(struct log_append *op)
{
    LIST_ENTRY(op, struct appended, op)->done = true;
}

/* One batch in each segment. Reads of the first two and an append wait for their files, all at once, and the k-th call
 * that opens one fails. How many of the three failed. */
static uint32_t fail_of_three(uint64_t seed, uint64_t k)
{
    const struct batch_make make = {.value_bytes = 600, .timestamp = 1000};
    struct partition_log *log = NULL;
    struct waiting_read reads[2];
    struct appended appended = {.op = {.origin = LOG_ORIGIN_CLIENT, .done = was_appended}};
    uint32_t failures = 0;

    world_begin(&world, seed);
    world.spec.config.segment_bytes = 1000;
    log = world_log(&world);
    for (int i = 0; i < 3; i++)
        (void)world_append(&world, log, &make);
    world_pass(&world, 3 * PARTITION_IDLE_NS);
    ck_assert_uint_eq(world.files.open_count, 0);
    sim_fs_set_fault(&world.disk, SIM_FS_FAIL, SIM_FS_OPEN, k, ERR_NOMEM);
    for (int64_t i = 0; i < 2; i++) {
        reads[i] = (struct waiting_read){.op = {.offset = i,
                                                .offset_limit = i + 1,
                                                .bytes_max = 1000,
                                                .at_least_one = true,
                                                .arena = &reads[i].arena,
                                                .done = was_read}};
        arena_init(&reads[i].arena, 1 << 20);
        partition_log_read(log, &reads[i].op);
    }
    appended.op.batches = make_batch(&(struct batch_make){.value_bytes = 10, .timestamp = 1000}, &appended.op.size);
    partition_log_append(log, &appended.op);
    world_run(&world, &reads[0].done);
    world_run(&world, &reads[1].done);
    world_run(&world, &appended.done);
    for (int i = 0; i < 2; i++) {
        failures += reads[i].op.err != ERR_OK;
        if (reads[i].op.err == ERR_OK)
            mem_free(slices_take(reads[i].op.slices, reads[i].op.slice_count, reads[i].op.size));
        arena_deinit(&reads[i].arena);
    }
    failures += appended.op.err != ERR_OK;
    mem_free(appended.op.batches);
    world_close(&world, log);
    world_end(&world);
    return failures;
}

START_TEST(a_file_that_cannot_be_had_fails_who_waits_for_it)
{
    enum { SEEDS = 20, CALLS = 3 };
    uint32_t failures = 0;

    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        for (uint64_t k = 1; k <= CALLS; k++) {
            uint32_t count = fail_of_three(seed, k);

            ck_assert_msg(count <= 1, "seed %" PRIu64 " call %" PRIu64 ": %u failed", seed, k, count);
            failures += count;
        }
    }
    ck_assert_uint_gt(failures, SEEDS);
}
END_TEST

static void was_closed(struct partition_close *op)
{
    op->done = NULL;
}

/* They have a change at once, also one that is still being loaded, and the last to go frees it. */
START_TEST(settings_are_held_once)
{
    enum { COUNT = 4 };
    struct partition *all[COUNT];
    struct log_config changed;
    struct log_config *shared = NULL;

    world_begin(&world, 1);
    shared = log_config_share(&world.spec.config);
    for (int32_t i = 0; i < COUNT; i++) {
        struct partition_spec spec = {.topic = BYTES_LITERAL("t"), .index = i, .clean = true, .shared = shared};

        ck_assert_int_eq(partition_new(&world.env, &spec, NULL, NULL, &all[i]), ERR_OK);
    }
    ck_assert(!partition_is_ready(all[COUNT - 1]));
    log_config_drop(shared);
    changed = world.spec.config;
    changed.retention_ms = 12345;
    for (int32_t i = 0; i < COUNT; i++)
        partition_set_config(all[i], &changed);
    world_pass(&world, PARTITION_SYNC_INTERVAL_NS);
    for (int32_t i = 0; i < COUNT; i++) {
        ck_assert(partition_is_ready(all[i]));
        ck_assert_ptr_eq(partition_config(all[i]), shared);
        ck_assert_int_eq(partition_config(all[i])->retention_ms, 12345);
    }
    for (int32_t i = 0; i < COUNT; i++) {
        struct partition_close op = {.done = was_closed};

        partition_close(all[i], &op);
        while (op.done != NULL)
            ck_assert(sim_step(&world.sim, INT64_MAX));
    }
    slab_deinit(&world.files.loads);
    world_end(&world);
}
END_TEST

RUN_TESTS("log_awake", a_log_that_idles_sleeps, a_look_does_not_wake, a_file_that_cannot_be_had_fails_who_waits_for_it,
          settings_are_held_once)
