/*
 * A scrub reads what a log has, a piece at a time. Rules: while the log is cut or changes its directory a scrub does
 * nothing, and harms nothing; what a compaction left out is no damage, also once the topic is not compacted any more.
 */
#include <check.h>

#include "base/mem.h"
#include "move_world.h"
#include "run_tests.h"
#include "world.h"

static struct world world;
static struct partition_env other;

struct scrubbed {
    struct log_scrub op;
    bool done;
};

static struct scrubbed scrubbed;
static struct partition_log *moving_log;
static bool moved;

static void was_scrubbed(struct log_scrub *op)
{
    LIST_ENTRY(op, struct scrubbed, op)->done = true;
}

static void commit(struct log_move *op)
{
    scrubbed = (struct scrubbed){.op = {.bytes_max = 4096, .done = was_scrubbed}};
    partition_log_scrub(moving_log, &scrubbed.op);
    partition_log_move_committed(op, ERR_OK);
}

static void moved_now(struct log_move *op)
{
    (void)op;
}

static void done(struct log_move *op)
{
    (void)op;
    moved = true;
}

/* A piece of a scrub that begins while a move holds the log harms neither. */
START_TEST(a_scrub_begins_while_a_move_holds)
{
    struct log_move op = {.commit = commit, .moved_now = moved_now, .done = done};

    move_world_begin(&world, &other, 1, false);
    moving_log = world_log(&world);
    move_world_fill(&world, moving_log);
    op.to = &other;
    partition_log_move(moving_log, &op);
    world_run(&world, &moved);
    world_run(&world, &scrubbed.done);
    ck_assert_int_eq(op.err, ERR_OK);
    ck_assert(!partition_log_failed(moving_log));
    ck_assert_uint_eq(world.storage_failures, 0);
    world_close(&world, moving_log);
    world_end(&world);
}
END_TEST

/* A piece of a scrub that begins while the log is being cut. */
START_TEST(a_scrub_begins_while_a_log_is_cut)
{
    for (uint64_t seed = 1; seed <= 30; seed++) {
        struct partition_log *log = NULL;
        struct world_cut cut = {.op = {.offset = 2, .done = world_was_cut}};

        world_begin(&world, seed);
        log = world_log(&world);
        for (int i = 0; i < 5; i++)
            (void)world_append(&world, log, &(struct batch_make){.value_bytes = 10});
        world_pass(&world, INT64_C(2000000000));
        partition_log_truncate(log, &cut.op);
        scrubbed = (struct scrubbed){.op = {.bytes_max = 4096, .done = was_scrubbed}};
        partition_log_scrub(log, &scrubbed.op);
        world_run(&world, &cut.done);
        world_run(&world, &scrubbed.done);
        ck_assert_uint_eq(world.storage_failures, 0);
        world_close(&world, log);
        world_end(&world);
    }
}
END_TEST

static void append_at(struct partition_log *log, int64_t offset)
{
    struct appended appended;
    size_t size = 0;
    uint8_t *batch = make_batch(&(struct batch_make){.value_bytes = 10}, &size);

    batch_set_base_offset(batch, offset);
    batch_set_leader_epoch(batch, 0);
    ck_assert_int_eq(world_append_run(&world, log, batch, size, LOG_ORIGIN_GIVEN, &appended), ERR_OK);
    mem_free(batch);
}

/* Gaps that compaction left are no damage to a scrub either when the topic is not compacted any more. */
START_TEST(a_scrub_knows_old_gaps)
{
    struct partition_log *log = NULL;
    uint8_t *data = NULL;
    size_t size = 0;

    world_begin(&world, 1);
    world.spec.config.cleanup_compact = true;
    world.spec.config.cleanup_delete = false;
    world.spec.config.segment_bytes = 200;
    log = world_log(&world);
    append_at(log, 0);
    append_at(log, 7); /* what lay between was superseded */
    append_at(log, 20);
    append_at(log, 21);
    world_close(&world, log);
    world.spec.cleaned_offset = 20;
    log = world_log(&world);
    ck_assert_uint_gt(partition_log_segment_count(log), 1);
    world.spec.config.cleanup_compact = false; /* the topic's policy is changed */
    world.spec.config.cleanup_delete = true;
    partition_log_set_config(log, &world.spec.config);
    ck_assert_int_eq(world_read(&world, log, 7, 8, 1000, true, &data, &size), ERR_OK);
    ck_assert_uint_gt(size, 0);
    mem_free(data);
    scrubbed = (struct scrubbed){.op = {.bytes_max = 1 << 20, .done = was_scrubbed}};
    for (int i = 0; i < 10; i++) {
        scrubbed.done = false;
        partition_log_scrub(log, &scrubbed.op);
        world_run(&world, &scrubbed.done);
        if (scrubbed.op.at_end)
            break;
    }
    ck_assert_int_eq(world_read(&world, log, 7, 8, 1000, true, &data, &size), ERR_OK);
    ck_assert_uint_gt(size, 0);
    mem_free(data);
    world_close(&world, log);
    world_end(&world);
}
END_TEST

RUN_TESTS("log_scrub", a_scrub_begins_while_a_move_holds, a_scrub_begins_while_a_log_is_cut, a_scrub_knows_old_gaps)
