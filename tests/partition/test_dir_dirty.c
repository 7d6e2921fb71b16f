/* Rules: what a directory's logs have not synced is counted, whoever wrote it; over the bound appends queue and go on
 * by themselves, in their order; what was written is pushed out while the next comes.
 *
 * Sources: partition/log_dirty.c */
#include <check.h>

#include "base/mem.h"
#include "partition/partition_limits.h"
#include "run_tests.h"
#include "world.h"

enum { BOUND_BYTES = 100 * 1024, VALUE_BYTES = 10 * 1024, OPS_MAX = 16 };

static struct world world;
static struct dir_dirty dirty;
static struct appended ops[OPS_MAX];
static uint8_t *batches[OPS_MAX];

static void was_appended(struct log_append *op)
{
    LIST_ENTRY(op, struct appended, op)->done = true;
}

static void begin(void)
{
    world_begin(&world, 1);
    ck_assert_int_eq(dir_dirty_init(&dirty, BOUND_BYTES, &world.loop, 1), ERR_OK);
    world.env.dirty = &dirty.homes[0];
}

static void end(void)
{
    dir_dirty_deinit(&dirty); /* asserts that nothing is counted any more */
    world_end(&world);
}

static struct partition_log *open_log(struct bytes topic)
{
    world.spec.topic = topic;
    return world_log(&world);
}

static void append(struct partition_log *log, uint32_t slot)
{
    size_t size = 0;

    batches[slot] = make_batch(&(struct batch_make){.value_bytes = VALUE_BYTES}, &size);
    ops[slot] = (struct appended){.op = {.batches = batches[slot], .size = size, .done = was_appended}};
    partition_log_append(log, &ops[slot].op);
}

static void free_batches(uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        mem_free(batches[i]);
}

/* Two logs share the bound (of a broker's directory: DIR_DIRTY_BYTES_MAX): the second's appends wait for what the first
 * has written, until both are synced. */
START_TEST(over_the_bound_appends_queue_and_go_on)
{
    struct partition_log *first = NULL;
    struct partition_log *second = NULL;
    uint32_t done = 0;

    begin();
    first = open_log(BYTES_LITERAL("first"));
    second = open_log(BYTES_LITERAL("second"));
    world_append(&world, second, &(struct batch_make){.value_bytes = 10}); /* its file is there */
    for (uint32_t i = 0; i < 9; i++)
        world_append(&world, first, &(struct batch_make){.value_bytes = VALUE_BYTES});
    ck_assert_int_lt(atomic_load(&dirty.bytes), BOUND_BYTES);
    for (uint32_t i = 0; i < 6; i++) {
        append(second, i);
        done += ops[i].done;
    }
    ck_assert_uint_ge(done, 1);
    ck_assert_uint_lt(done, 6);
    ck_assert_int_lt(atomic_load(&dirty.bytes), BOUND_BYTES + 2 * VALUE_BYTES);
    world_run(&world, &ops[5].done);
    for (uint32_t i = 0; i < 6; i++) {
        ck_assert_int_eq(ops[i].op.err, ERR_OK);
        ck_assert_int_eq(ops[i].op.base_offset, 1 + i);
    }
    ck_assert_int_eq(world_sync(&world, first), ERR_OK);
    ck_assert_int_eq(world_sync(&world, second), ERR_OK);
    ck_assert_int_eq(atomic_load(&dirty.bytes), 0);
    world_close(&world, first);
    world_close(&world, second);
    free_batches(6);
    end();
}
END_TEST

/* What waits can be taken back, refused by the log's end, and by its failure; the count is right after each. */
START_TEST(what_waits_can_end_otherwise)
{
    for (int how = 0; how < 2; how++) {
        struct partition_log *log = NULL;
        uint32_t waiting = 0;

        begin();
        log = open_log(BYTES_LITERAL("t"));
        world_append(&world, log, &(struct batch_make){.value_bytes = 10});
        for (uint32_t i = 0; i < OPS_MAX; i++)
            append(log, i);
        while (waiting < OPS_MAX && ops[waiting].done)
            waiting++;
        ck_assert_uint_lt(waiting, OPS_MAX - 1);
        ck_assert(partition_log_append_cancel(log, &ops[OPS_MAX - 1].op));
        if (how == 0) {
            world_close(&world, log);
            ck_assert_int_eq(ops[waiting].op.err, ERR_CLOSED);
        } else {
            partition_log_fail(log, ERR_IO);
            ck_assert_int_eq(ops[waiting].op.err, ERR_KAFKA_STORAGE_ERROR);
            ck_assert_int_eq(atomic_load(&dirty.bytes), 0);
            world_crash(&world, log, false);
        }
        ck_assert(!ops[OPS_MAX - 1].done);
        free_batches(OPS_MAX);
        end();
    }
}
END_TEST

/* The node's own logs wait for nobody. */
START_TEST(an_essential_log_does_not_wait)
{
    struct partition_log *log = NULL;

    begin();
    world.spec.essential = true;
    log = open_log(BYTES_LITERAL("t"));
    world_append(&world, log, &(struct batch_make){.value_bytes = 10});
    for (uint32_t i = 0; i < OPS_MAX; i++) {
        append(log, i);
        ck_assert(ops[i].done);
    }
    world_close(&world, log);
    free_batches(OPS_MAX);
    end();
}
END_TEST

RUN_TESTS("dir_dirty", over_the_bound_appends_queue_and_go_on, what_waits_can_end_otherwise,
          an_essential_log_does_not_wait)
