/* Rules: a log changes its directory while it serves, with all that belongs to it; what is appended, cut off, deleted
 * or asked for meanwhile finds it as it is; a move that ends leaves the log where it was, and nothing behind.
 *
 * Sources: partition/log_moving.c, partition/move_io.c */
#include <check.h>

#include "base/mem.h"
#include "move_world.h"
#include "partition/journal_replay.h"
#include "partition/partition_limits.h"
#include "run_tests.h"

static struct world world;
static struct partition_env other;
static struct moving_op moving;

static void is_same(struct partition_log *log, const uint8_t *before, size_t before_size)
{
    size_t size = 0;
    uint8_t *now = move_world_read(&world, log, &size);

    ck_assert_uint_ge(size, before_size);
    ck_assert_mem_eq(now, before, before_size);
    mem_free(now);
}

/* Records, producers, epochs, open and aborted transactions, offsets: all as before, also after a clean stop and after
 * a power cut; the old directory is on its way out. */
START_TEST(all_of_it_goes_along)
{
    for (int how = 0; how < 2; how++) {
        struct partition_log *log = NULL;
        uint8_t *before = NULL;
        size_t size = 0;
        int32_t epoch = -1;
        int64_t end = -1;
        int64_t unstable = 0;

        move_world_begin(&world, &other, 1, false);
        log = world_log(&world);
        move_world_fill(&world, log);
        partition_log_move_start(log, 5);
        partition_log_replicated(log, partition_log_end_offset(log));
        unstable = partition_log_first_unstable_offset(log);
        before = move_world_read(&world, log, &size);
        moving = (struct moving_op){0};
        move_world_run(&world, log, &other, &moving);
        ck_assert_int_eq(moving.op.err, ERR_OK);
        ck_assert(moving.op.moved && moving.committed);
        ck_assert_uint_eq(move_world_count(&world, "/data", "-delete"), 0); /* nobody delays it here */
        ck_assert_uint_eq(move_world_count(&world, "/data", "t-0"), 0);
        ck_assert_uint_eq(move_world_count(&world, "/data2", "t-0"), 1);
        ck_assert_uint_eq(move_world_count(&world, "/data2", "-future"), 0);
        is_same(log, before, size);
        (void)world_append(&world, log, &(struct batch_make){.value_bytes = 10, .fill = 200, .timestamp = 1});
        if (how == 0) {
            world_close(&world, log);
        } else {
            ck_assert_int_eq(world_sync(&world, log), ERR_OK);
            world_crash(&world, log, true);
        }
        world.env = other;
        world.spec.recovery_point = 0; /* the checkpoint files there do not know it yet */
        world.spec.start_offset = 0;
        log = world_log(&world);
        is_same(log, before, size);
        ck_assert_int_eq(partition_log_start_offset(log), 5);
        partition_log_replicated(log, partition_log_end_offset(log));
        ck_assert_int_eq(partition_log_first_unstable_offset(log), unstable);
        partition_log_epoch_end(log, 0, &epoch, &end);
        ck_assert_int_eq(epoch, 0);
        ck_assert_int_eq(end, partition_log_end_offset(log));
        world_close(&world, log);
        mem_free(before);
        world_end(&world);
    }
}
END_TEST

/* An idempotent producer's retry is known in the new place, and its next record continues. */
START_TEST(a_producer_goes_on)
{
    struct partition_log *log = NULL;
    struct appended appended;
    struct batch_make make = {.value_bytes = 100, .producer_id = 7, .base_sequence = MOVE_WORLD_ROUNDS - 1};
    size_t size = 0;
    uint8_t *batch = NULL;

    move_world_begin(&world, &other, 1, false);
    log = world_log(&world);
    move_world_fill(&world, log);
    moving = (struct moving_op){0};
    move_world_run(&world, log, &other, &moving);
    batch = make_batch(&make, &size);
    ck_assert_int_eq(world_append_run(&world, log, batch, size, LOG_ORIGIN_CLIENT, &appended), ERR_OK);
    ck_assert(appended.op.duplicate);
    mem_free(batch);
    make.base_sequence = MOVE_WORLD_ROUNDS + 1;
    batch = make_batch(&make, &size);
    ck_assert_int_eq(world_append_run(&world, log, batch, size, LOG_ORIGIN_CLIENT, &appended),
                     ERR_OUT_OF_ORDER_SEQUENCE_NUMBER);
    mem_free(batch);
    make.base_sequence = MOVE_WORLD_ROUNDS;
    (void)world_append(&world, log, &make);
    world_close(&world, log);
    world_end(&world);
}
END_TEST

/* At a slow rate: appends, syncs and reads go on, retention removes, and all of it is there in the end. */
START_TEST(it_serves_meanwhile)
{
    struct partition_log *log = NULL;
    uint8_t *before = NULL;
    size_t size = 0;

    move_world_begin(&world, &other, 3, false);
    log = world_log(&world);
    move_world_fill(&world, log);
    moving = (struct moving_op){.bytes_per_second = 20000};
    move_world_start(&world, log, &other, &moving);
    for (int i = 0; i < 40; i++) {
        (void)world_append(&world, log, &(struct batch_make){.value_bytes = 600, .fill = (uint8_t)i, .timestamp = 1});
        if (i % 5 == 0)
            ck_assert_int_eq(world_sync(&world, log), ERR_OK);
        if (i == 10)
            partition_log_move_start(log, 12);
        world_pass(&world, 10000000);
    }
    ck_assert(!moving.done);
    ck_assert_uint_eq(move_world_count(&world, "/data2", "-future"), 1);
    moving.bytes_per_second = 0;
    world_run(&world, &moving.done);
    ck_assert_int_eq(moving.op.err, ERR_OK);
    ck_assert_int_eq(partition_log_start_offset(log), 12);
    before = move_world_read(&world, log, &size);
    world_close(&world, log);
    world.env = other;
    log = world_log(&world);
    is_same(log, before, size);
    ck_assert_int_eq(partition_log_start_offset(log), 12);
    world_close(&world, log);
    mem_free(before);
    world_end(&world);
}
END_TEST

static void was_truncated(struct log_truncate *op)
{
    op->whole = true; /* taken as "done" below */
}

/* What was copied before the log was cut is not believed: it is copied anew. */
START_TEST(a_cut_log_is_copied_anew)
{
    struct partition_log *log = NULL;
    struct log_truncate cut = {.offset = 14, .done = was_truncated};
    uint8_t *before = NULL;
    size_t size = 0;

    move_world_begin(&world, &other, 1, false);
    log = world_log(&world);
    move_world_fill(&world, log);
    moving = (struct moving_op){.bytes_per_second = 10000};
    move_world_start(&world, log, &other, &moving);
    world_pass(&world, 500000000);
    ck_assert(!moving.done);
    partition_log_truncate(log, &cut);
    world_run(&world, &cut.whole);
    ck_assert_int_eq(cut.err, ERR_OK);
    for (int i = 0; i < 20; i++)
        (void)world_append(&world, log, &(struct batch_make){.value_bytes = 650, .fill = 222, .timestamp = 1});
    before = move_world_read(&world, log, &size);
    moving.bytes_per_second = 0;
    world_run(&world, &moving.done);
    ck_assert_int_eq(moving.op.err, ERR_OK);
    world_close(&world, log);
    world.env = other;
    log = world_log(&world);
    is_same(log, before, size);
    world_close(&world, log);
    mem_free(before);
    world_end(&world);
}
END_TEST

static bool is_deleted;

static void was_deleted(struct partition_log_close *op)
{
    ck_assert_int_eq(op->err, ERR_OK);
    is_deleted = true;
}

/* Cancelled, refused by the metadata, the log closed or deleted: it is where it was, and the copy is gone, but for a
 * stop: there the next start begins anew, which removes it. */
START_TEST(it_may_end)
{
    for (int how = 0; how < 4; how++) {
        struct partition_log *log = NULL;
        uint8_t *before = NULL;
        size_t size = 0;

        move_world_begin(&world, &other, 1, false);
        log = world_log(&world);
        move_world_fill(&world, log);
        before = move_world_read(&world, log, &size);
        moving = (struct moving_op){.bytes_per_second = how == 1 ? 0 : 20000,
                                    .commit_err = how == 1 ? ERR_UNKNOWN_TOPIC_ID : ERR_OK};
        move_world_start(&world, log, &other, &moving);
        world_pass(&world, 300000000);
        if (how == 0) {
            partition_log_move_cancel(log);
            world_run(&world, &moving.done);
            ck_assert_int_eq(moving.op.err, ERR_CLOSED);
        } else if (how == 1) {
            world_run(&world, &moving.done);
            ck_assert_int_eq(moving.op.err, ERR_UNKNOWN_TOPIC_ID);
        } else if (how == 2) {
            world_close(&world, log);
            ck_assert(moving.done);
            ck_assert_uint_eq(move_world_count(&world, "/data2", "-future"), 1);
            log = world_log(&world);
            is_same(log, before, size);
            moving = (struct moving_op){0};
            move_world_run(&world, log, &other, &moving);
            ck_assert_int_eq(moving.op.err, ERR_OK);
            ck_assert_uint_eq(move_world_count(&world, "/data2", "-future"), 0);
        } else {
            struct partition_log_close op = {.done = was_deleted};

            is_deleted = false;
            partition_log_delete(log, &op);
            world_run(&world, &is_deleted);
            ck_assert(moving.done);
            log = NULL;
        }
        ck_assert(moving.op.moved == (how == 2));
        if (how != 2) {
            ck_assert_uint_eq(move_world_count(&world, "/data2", "-future"), 0);
            ck_assert_uint_eq(move_world_count(&world, "/data2", "t-0"), 0);
        }
        if (log != NULL) {
            is_same(log, before, size);
            (void)world_append(&world, log, &(struct batch_make){.value_bytes = 10, .timestamp = 1});
            world_close(&world, log);
        }
        mem_free(before);
        world_end(&world);
    }
}
END_TEST

/* Whatever is under way of it, a slice too whose pace would have it wait: a stop and a deletion do not wait with it,
 * and nothing of it is left behind them. */
START_TEST(a_slow_one_ends_with_the_log)
{
    for (int how = 0; how < 2; how++) {
        for (int steps = 0; steps < 120; steps++) {
            struct partition_log *log = NULL;
            int64_t asked_ns = 0;

            move_world_begin(&world, &other, 1 + (uint64_t)steps, false);
            log = world_log(&world);
            move_world_fill(&world, log);
            moving = (struct moving_op){.bytes_per_second = 1000};
            move_world_start(&world, log, &other, &moving);
            for (int i = 0; i < steps; i++)
                (void)sim_step(&world.sim, INT64_MAX);
            asked_ns = world.sim.mono_ns;
            if (how == 0) {
                world_close(&world, log);
            } else {
                struct partition_log_close op = {.done = was_deleted};

                is_deleted = false;
                partition_log_delete(log, &op);
                world_run(&world, &is_deleted);
            }
            ck_assert(moving.done);
            ck_assert_int_lt(world.sim.mono_ns - asked_ns, 1000000000);
            world_pass(&world, INT64_C(120000000000));
            world_end(&world);
        }
    }
}
END_TEST

/* The same of one that is cancelled. */
START_TEST(a_slow_one_is_cancelled_at_once)
{
    for (int steps = 0; steps < 120; steps++) {
        struct partition_log *log = NULL;
        int64_t asked_ns = 0;

        move_world_begin(&world, &other, 1 + (uint64_t)steps, false);
        log = world_log(&world);
        move_world_fill(&world, log);
        moving = (struct moving_op){.bytes_per_second = 1000};
        move_world_start(&world, log, &other, &moving);
        for (int i = 0; i < steps; i++)
            (void)sim_step(&world.sim, INT64_MAX);
        asked_ns = world.sim.mono_ns;
        partition_log_move_cancel(log);
        world_run(&world, &moving.done);
        ck_assert_int_lt(world.sim.mono_ns - asked_ns, 1000000000);
        world_close(&world, log);
        world_end(&world);
    }
}
END_TEST

/* There and back again, with a journal in the first directory: what it had of before is no news. */
START_TEST(it_comes_back)
{
    struct partition_log *log = NULL;
    struct partition_env here;
    uint8_t *before = NULL;
    size_t size = 0;

    move_world_begin(&world, &other, 1, true);
    here = world.env;
    log = world_log(&world);
    move_world_fill(&world, log);
    for (int i = 0; i < 4; i++) {
        moving = (struct moving_op){0};
        move_world_run(&world, log, i % 2 == 0 ? &other : &world.env, &moving);
        ck_assert_int_eq(moving.op.err, ERR_OK);
        (void)world_append(&world, log, &(struct batch_make){.value_bytes = 100, .timestamp = 1});
        ck_assert_int_eq(world_sync(&world, log), ERR_OK);
    }
    before = move_world_read(&world, log, &size);
    world_close(&world, log);
    world_journal_close(&world);
    here.journal = NULL;
    world.env = here;
    log = world_log(&world);
    is_same(log, before, size);
    world_close(&world, log);
    mem_free(before);
    world_end(&world);
}
END_TEST

/* DeleteRecords that came while the log was held, behind the mark that goes with it: the journal of the new directory
 * hears of it, as that of the old one would have, so that it holds where the power goes before a checkpoint knows. */
START_TEST(what_is_deleted_while_it_is_held_stays_so)
{
    struct journal_options options = {.generation = 1, .bytes_max = 1024 * 1024};
    struct journal_replay_options replaying = {.fs = &world.disk.fs, .log = &world.log, .log_dir = "/data2"};
    struct journal_replay *replay = NULL;
    struct partition_log_spec second_spec;
    struct partition_log *second = NULL;
    struct partition_log *log = NULL;
    struct partition_env here;

    move_world_begin(&world, &other, 1, true);
    ck_assert_int_eq(journal_new(&other, &options, &other.journal), ERR_OK);
    here = world.env;
    world.env = other;
    second_spec = world.spec;
    second_spec.partition = 1;
    second = world_log_of(&world, &second_spec); /* so that the journal has something to tell */
    for (int i = 0; i < 3; i++) {
        (void)world_append(&world, second, &(struct batch_make){.value_bytes = 10});
        ck_assert_int_eq(world_sync(&world, second), ERR_OK);
    }
    world_close(&world, second);
    world.env = here;
    log = world_log(&world);
    move_world_fill(&world, log);
    moving = (struct moving_op){.delete_to = 5};
    move_world_run(&world, log, &other, &moving);
    ck_assert_int_eq(moving.op.err, ERR_OK);
    ck_assert_int_eq(partition_log_start_offset(log), 5);
    for (int i = 0; i < 3; i++) {
        (void)world_append(&world, log, &(struct batch_make){.value_bytes = 100, .timestamp = 1});
        ck_assert_int_eq(world_sync(&world, log), ERR_OK);
    }
    world.env = other;
    world_crash(&world, log, true);
    world.env = here;
    world_journal_close(&world);
    world.env = other;
    world.env.journal = NULL;
    world.spec.recovery_point = world.spec.start_offset = 0;
    world.spec.clean = false;
    ck_assert_int_eq(journal_replay_open(&replaying, &replay), ERR_OK);
    world.spec.journals = replay;
    log = world_log(&world);
    ck_assert_int_eq(partition_log_start_offset(log), 5);
    world.spec.journals = NULL;
    world_close(&world, log);
    journal_replay_free(replay);
    world_end(&world);
}
END_TEST

/* What the mark of a move says is history once another program has written there: it may have cut the log. */
START_TEST(another_program_makes_the_mark_history)
{
    for (int foreign = 0; foreign < 2; foreign++) {
        struct partition_log *log = NULL;

        move_world_begin(&world, &other, 1, false);
        log = world_log(&world);
        move_world_fill(&world, log);
        partition_log_move_start(log, 5);
        moving = (struct moving_op){0};
        move_world_run(&world, log, &other, &moving);
        world_close(&world, log);
        world.env = other;
        world.spec.start_offset = 0;
        world.spec.clean = false;
        world.spec.foreign = foreign == 1;
        log = world_log(&world);
        ck_assert_int_eq(partition_log_start_offset(log), foreign == 1 ? 0 : 5);
        ck_assert_uint_eq(move_world_count(&world, "/data2/t-0", "ottla-moved"), foreign == 1 ? 0 : 1);
        world_close(&world, log);
        world_end(&world);
    }
}
END_TEST

/* A move of a log that nobody uses may pause for its rate longer than a log takes to idle: that costs a timer a minute,
 * and not a turn of the loop after the other. */
START_TEST(a_paused_one_does_not_spin)
{
    struct partition_log *log = NULL;
    uint64_t steps = 0;
    int64_t began_ns = 0;

    move_world_begin(&world, &other, 1, false);
    log = world_log(&world);
    move_world_fill(&world, log);
    ck_assert_int_eq(world_sync(&world, log), ERR_OK);
    moving = (struct moving_op){.bytes_per_second = 1};
    began_ns = world.sim.mono_ns;
    move_world_start(&world, log, &other, &moving);
    for (; !moving.done; steps++) {
        ck_assert(sim_step(&world.sim, INT64_MAX));
        ck_assert_uint_lt(steps, 2000);
    }
    /* Nor is a pause longer than CLEAN_PAUSE_NS_MAX: at a byte a second it would take hours. */
    ck_assert_int_ge(world.sim.mono_ns - began_ns, CLEAN_PAUSE_NS_MAX);
    ck_assert_int_le(world.sim.mono_ns - began_ns, 10 * CLEAN_PAUSE_NS_MAX);
    world_close(&world, log);
    world_end(&world);
}
END_TEST

RUN_TESTS("log_move", a_paused_one_does_not_spin, all_of_it_goes_along, a_producer_goes_on, it_serves_meanwhile,
          a_cut_log_is_copied_anew, it_may_end, a_slow_one_ends_with_the_log, a_slow_one_is_cancelled_at_once,
          it_comes_back, what_is_deleted_while_it_is_held_stays_so, another_program_makes_the_mark_history)
