/* Rules: a log takes what only one in use needs when it is used, and gives it back when it has been idle for a while,
 * whatever used it; partitions of a topic hold one copy of its settings. */
#include <check.h>

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

RUN_TESTS("log_awake", a_log_that_idles_sleeps, a_look_does_not_wake, settings_are_held_once)
