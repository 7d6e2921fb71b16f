/*
 * A log and the journal of its directory. Rules: what a log promises because of the journal is there after a power cut,
 * wherever it was told to start meanwhile; whatever waits for the journal comes to an end, also when the journal fails,
 * has no room, or would wait for the very log that waits for it.
 *
 * Sources: partition/journal_files.c, partition/journal_group.c */
#include <check.h>
#include <stdatomic.h>

#include "base/mem.h"
#include "move_world.h"
#include "partition/journal.h"
#include "partition/journal_replay.h"
#include "partition/log_internal.h"
#include "partition/log_moving.h"
#include "partition/partition_limits.h"
#include "run_tests.h"
#include "world.h"

static struct world world;
static struct partition_env other;
static atomic_bool history;
static bool moved;

static void journal_begin(const struct journal_replay *replay)
{
    struct journal_options options = {.generation = journal_replay_generation(replay) + 1, .bytes_max = 4 * 64 * 1024};

    atomic_init(&history, replay != NULL);
    options.history = &history;
    ck_assert_int_eq(journal_new(&world.env, &options, &world.env.journal), ERR_OK);
}

/* A journal's next file that cannot be made fails the journal; a log of which something lies in a group that nobody
 * has asked to be written closes all the same. */
START_TEST(a_group_that_fills_ends_with_its_journal)
{
    uint32_t failures = 0;

    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct partition_log *log = NULL;
        struct world_closed closed = {.op.done = world_was_closed};

        world_begin(&world, seed);
        world.spec.config.flush_ms = 100;
        journal_begin(NULL);
        log = world_log(&world);
        (void)world_append(&world, log, &(struct batch_make){.value_bytes = 10});
        world_pass(&world, INT64_C(200000000)); /* the first file is there */
        (void)world_append(&world, log, &(struct batch_make){.value_bytes = 10});
        sim_fs_set_fault(&world.disk, SIM_FS_FAIL, SIM_FS_OPEN, 1, ERR_IO);
        ck_assert_int_eq(world_sync(&world, log), ERR_OK);
        if (!partition_log_failed(log))
            (void)world_append(&world, log, &(struct batch_make){.value_bytes = 10});
        world_pass(&world, INT64_C(50000000));
        if (world.storage_failures > 0)
            partition_log_fail(log, ERR_IO); /* as the directory's shard does */
        failures += world.storage_failures;
        partition_log_close(log, &closed.op);
        world_run(&world, &closed.done);
        world_journal_close(&world);
        world_end(&world);
    }
    ck_assert_uint_gt(failures, 0);
}
END_TEST

/* What the journal alone promises survives a power cut, wherever the log was told to start meanwhile. */
START_TEST(a_start_over_what_is_not_synced)
{
    for (uint64_t seed = 1; seed <= 400; seed++) {
        struct partition_log_spec second_spec;
        struct partition_log *log = NULL;
        struct partition_log *second = NULL;
        struct journal_replay *replay = NULL;
        struct journal_replay_options options = {.fs = &world.disk.fs, .log = &world.log, .log_dir = "/data"};
        struct log_config config;
        int64_t start = 0;
        int64_t promised = 0;
        int64_t recovery_point = 0;
        struct world_closed closed = {.op.done = world_was_closed};

        world_begin(&world, seed);
        journal_begin(NULL);
        log = world_log(&world);
        (void)world_append(&world, log, &(struct batch_make){.value_bytes = 10}); /* its names */
        ck_assert_int_eq(world_sync(&world, log), ERR_OK);
        second_spec = world.spec;
        second_spec.partition = 1;
        second_spec.config.flush_messages = 1;
        second = world_log_of(&world, &second_spec);
        for (int i = 0; i < 3; i++) { /* the journal has a file */
            (void)world_append(&world, second, &(struct batch_make){.value_bytes = 10});
            ck_assert_int_eq(world_sync(&world, second), ERR_OK);
        }
        for (int i = 0; i < 20; i++)
            (void)world_append(&world, log, &(struct batch_make){.value_bytes = 3000});
        start = partition_log_end_offset(log); /* the high watermark: nobody asked for syncs */
        recovery_point = partition_log_recovery_point(log);
        config = world.spec.config;
        config.flush_messages = 1;
        partition_log_set_config(log, &config);
        (void)world_append(&world, log, &(struct batch_make){.value_bytes = 100});
        (void)world_append(&world, second, &(struct batch_make){.value_bytes = 10});
        for (int i = 0; i < 200 && partition_log_synced_offset(second) < partition_log_end_offset(second); i++) {
            world_pass(&world, 1000);
            if (i == 0)
                partition_log_move_start(log, start); /* DeleteRecords up to the high watermark */
        }
        promised = partition_log_synced_offset(log);
        sim_fs_set_fault(&world.disk, SIM_FS_DIE, SIM_FS_ANY, 1, ERR_IO);
        partition_log_fail(second, ERR_IO);
        partition_log_close(second, &closed.op);
        world_run(&world, &closed.done);
        world_crash(&world, log, true);
        ck_assert_int_eq(journal_replay_open(&options, &replay), ERR_OK);
        world.spec.clean = false;
        world.spec.trust = LOG_TRUST_SYNCED;
        world.spec.recovery_point = recovery_point;
        world.spec.start_offset = 0;
        world.spec.config = config;
        world.spec.journals = replay;
        log = NULL;
        ck_assert_int_eq(partition_log_open(&world.env, &world.spec, &log, NULL), ERR_OK);
        ck_assert_msg(promised <= start || partition_log_end_offset(log) >= promised,
                      "seed=%llu promised %lld, there %lld", (unsigned long long)seed, (long long)promised,
                      (long long)partition_log_end_offset(log));
        world.env.journal = NULL;
        partition_log_adopt(log);
        world_crash(&world, log, false);
        journal_replay_free(replay);
        world_end(&world);
    }
}
END_TEST

static enum err open_with_journals(struct partition_log **log)
{
    struct journal_replay_options options = {.fs = &world.disk.fs, .log = &world.log, .log_dir = "/data"};
    struct journal_replay *replay = NULL;
    enum err err = journal_replay_open(&options, &replay);

    world.spec.journals = replay;
    *log = NULL;
    if (err == ERR_OK)
        err = partition_log_open(&world.env, &world.spec, log, NULL);
    journal_replay_free(replay);
    return err;
}

/* What a replay of journals adds to a compacted log is in several segments before it is synced. If the power goes in
 * between, the next replay must find what is missing: no gap is taken for compaction's. */
START_TEST(a_second_power_cut_in_the_replay)
{
    uint32_t cut = 0;

    for (uint64_t seed = 1; seed <= 400; seed++) {
        struct partition_log *log = NULL;
        struct partition_log *second = NULL; /* for one alone a journal gains nothing */
        struct partition_log_spec second_spec;
        struct world_closed closed = {.op.done = world_was_closed};
        int64_t promised = 0;

        world_begin(&world, seed);
        journal_begin(NULL);
        world.spec.config.cleanup_compact = true;
        world.spec.config.flush_messages = 1;
        log = world_log(&world);
        second_spec = world.spec;
        second_spec.partition = 1;
        second = world_log_of(&world, &second_spec);
        for (int i = 0; i < 20; i++) {
            (void)world_append(&world, log, &(struct batch_make){.value_bytes = 100});
            (void)world_append(&world, second, &(struct batch_make){.value_bytes = 100});
            for (int j = 0; j < 100 && partition_log_synced_offset(log) < partition_log_end_offset(log); j++)
                world_pass(&world, 100000);
        }
        promised = partition_log_synced_offset(log);
        ck_assert_int_eq(promised, 20);
        world.spec.recovery_point = partition_log_recovery_point(log);
        world.spec.trust = LOG_TRUST_SYNCED;
        sim_fs_set_fault(&world.disk, SIM_FS_DIE, SIM_FS_ANY, 1, ERR_IO);
        partition_log_fail(second, ERR_IO);
        partition_log_close(second, &closed.op);
        world_run(&world, &closed.done);
        world_crash(&world, log, true);
        world.spec.config.segment_bytes = 520;
        sim_fs_set_fault(&world.disk, SIM_FS_DIE, SIM_FS_WRITE, 1 + seed % 24, ERR_IO);
        if (open_with_journals(&log) == ERR_OK) {
            partition_log_adopt(log);
            world_crash(&world, log, true);
        } else {
            sim_fs_cut(&world.disk);
            cut++;
        }
        ck_assert_int_eq(open_with_journals(&log), ERR_OK);
        partition_log_adopt(log);
        ck_assert_int_ge(partition_log_end_offset(log), promised);
        for (int64_t at = 0; at < promised; at++) {
            struct batch_header header;
            uint8_t *data = NULL;
            size_t size = 0;

            ck_assert_int_eq(world_read(&world, log, at, at + 1, 1, true, &data, &size), ERR_OK);
            ck_assert_int_eq(batch_peek(bytes_of(data, size), &header, NULL), ERR_OK);
            ck_assert_msg(header.base_offset == at, "seed=%llu %lld is lost", (unsigned long long)seed, (long long)at);
            mem_free(data);
        }
        world_close(&world, log);
        world_end(&world);
    }
    ck_assert_uint_gt(cut, 100);
}
END_TEST

static void moved_now(struct log_move *op)
{
    (void)op;
}

static void done(struct log_move *op)
{
    (void)op;
    moved = true;
}

static void commit_now(struct log_move *op)
{
    partition_log_move_committed(op, ERR_OK);
}

static void a_to_disk(struct partition_log *log)
{
    (void)world_append(&world, log, &(struct batch_make){.value_bytes = 50, .timestamp = 1});
    for (int i = 0; i < 1000000 && partition_log_synced_offset(log) < partition_log_end_offset(log); i++)
        world_pass(&world, 1000);
}

/* The note of a move finds room in the journal, though it is the moving log itself that the oldest file waits for. */
START_TEST(a_move_does_not_wait_for_itself)
{
    struct log_move op = {.commit = commit_now, .moved_now = moved_now, .done = done};
    struct partition_log_spec second_spec;
    struct partition_log *log = NULL;
    struct partition_log *second = NULL;

    move_world_begin(&world, &other, 1, false);
    journal_begin(NULL);
    world.spec.config.flush_messages = 1;
    log = world_log(&world);
    second_spec = world.spec;
    second_spec.partition = 1;
    second_spec.config.segment_bytes = 1 << 30;
    second = world_log_of(&world, &second_spec);
    for (int i = 0; i < 5; i++)
        a_to_disk(log);
    a_to_disk(second);
    op.to = &other;
    world.sim.habits.job_delay_ns_max = INT64_C(200000000);
    partition_log_move(log, &op);
    for (int i = 0;
         i < 100000 && (log->moving->stage != MOVE_COPY || (log->awake != NULL && log->awake->sync_job != NULL)); i++)
        world_pass(&world, 100000);
    ck_assert_int_eq(log->moving->stage, MOVE_COPY);
    for (int i = 0; i < 100000 && log->moving->stage != MOVE_FINAL; i++) {
        if ((log->awake == NULL || log->awake->unsynced_bytes == 0) &&
            !log->moving->holds) /* lies in the journal, and not in its segment yet */
            (void)world_append(&world, log, &(struct batch_make){.value_bytes = 50, .timestamp = 1});
        world_pass(&world, 100000);
    }
    ck_assert_int_eq(log->moving->stage, MOVE_FINAL);
    world.sim.habits.job_delay_ns_max = 1000;
    for (int i = 0; i < 40; i++) { /* the others fill the journal meanwhile */
        (void)world_append(&world, second, &(struct batch_make){.value_bytes = 20000, .timestamp = 1});
        world_pass(&world, 20000);
    }
    world_run(&world, &moved);
    ck_assert_int_eq(op.err, ERR_OK);
    world_close(&world, log);
    world_close(&world, second);
    world_journal_close(&world);
    world_end(&world);
}
END_TEST

/* --- a note for which there is no room --- */

enum how { NOBODY_ENDS_IT, IT_IS_CANCELLED, THE_LOG_CLOSES, THE_LOG_FAILS };

/* No journal file may be used again while those of an earlier run are there and something was noted: then a move waits
 * with its note. The log is held meanwhile, so it waits a second at most, and ends when it is told to. */
static void a_note_waits(enum how how)
{
    struct log_move op = {.commit = commit_now, .moved_now = moved_now, .done = done};
    struct partition_log_spec second_spec;
    struct partition_log *log = NULL;
    struct partition_log *second = NULL;
    struct world_closed closed = {.op.done = world_was_closed};
    int64_t end_offset = 0;

    moved = false;
    move_world_begin(&world, &other, 1, false);
    journal_begin(NULL);
    atomic_store(&history, true);
    world.spec.config.flush_messages = 1;
    log = world_log(&world);
    second_spec = world.spec;
    second_spec.partition = 1;
    second_spec.config.segment_bytes = 1 << 30;
    second = world_log_of(&world, &second_spec);
    a_to_disk(log);
    a_to_disk(second);
    ck_assert(journal_note_lazily(world.env.journal, JOURNAL_DELETION, second_spec.topic_id, 7, 0));
    for (int i = 0; i < 200; i++) { /* the journal is full to its last block, and stays so */
        (void)world_append(&world, second, &(struct batch_make){.value_bytes = i < 100 ? 20000 : 10, .timestamp = 1});
        world_pass(&world, INT64_C(5000000));
    }
    op.to = &other;
    partition_log_move(log, &op);
    for (int i = 0; i < 1000 && log->moving->stage != MOVE_NOTE; i++)
        world_pass(&world, 100000);
    world_pass(&world, MOVE_NOTE_NS_MAX / 2);
    ck_assert(!moved);
    ck_assert_int_eq(log->moving->stage, MOVE_NOTE);
    end_offset = partition_log_end_offset(log);
    switch (how) {
    case NOBODY_ENDS_IT:
        world_pass(&world, MOVE_NOTE_NS_MAX / 2);
        break;
    case IT_IS_CANCELLED:
        partition_log_move_cancel(log);
        break;
    case THE_LOG_CLOSES:
        partition_log_close(log, &closed.op);
        break;
    case THE_LOG_FAILS:
        partition_log_fail(log, ERR_IO);
        break;
    }
    world_run(&world, &moved);
    ck_assert(!op.moved);
    ck_assert_int_eq(op.err, how == NOBODY_ENDS_IT  ? ERR_NO_SPACE
                             : how == THE_LOG_FAILS ? ERR_KAFKA_STORAGE_ERROR
                                                    : ERR_CLOSED);
    if (how == NOBODY_ENDS_IT || how == IT_IS_CANCELLED) { /* it goes on where it was */
        (void)world_append(&world, log, &(struct batch_make){.value_bytes = 50, .timestamp = 1});
        ck_assert_int_eq(partition_log_end_offset(log), end_offset + 1);
        ck_assert_int_eq(world_sync(&world, log), ERR_OK);
    }
    if (how != THE_LOG_CLOSES)
        partition_log_close(log, &closed.op);
    world_run(&world, &closed.done);
    world_close(&world, second);
    world_journal_close(&world);
    world_end(&world);
}

START_TEST(a_note_without_room)
{
    for (int how = NOBODY_ENDS_IT; how <= THE_LOG_FAILS; how++)
        a_note_waits((enum how)how);
}
END_TEST

/* The segments of a log that sleeps are synced already: the journal may ask it all the same. */
START_TEST(a_journal_asks_a_log_that_sleeps)
{
    struct partition_log_spec second_spec;
    struct partition_log *log = NULL;
    struct partition_log *second = NULL;
    struct world_closed closed = {.op.done = world_was_closed};

    world_begin(&world, 1);
    journal_begin(NULL);
    second_spec = world.spec;
    second_spec.partition = 1;
    second_spec.config.flush_messages = 1;
    second = world_log_of(&world, &second_spec);
    world.spec.config.flush_messages = 100;
    log = world_log(&world);
    for (int i = 0; i < 3; i++) { /* the journal has a file */
        (void)world_append(&world, second, &(struct batch_make){.value_bytes = 10});
        ck_assert_int_eq(world_sync(&world, second), ERR_OK);
    }
    (void)world_append(&world, log, &(struct batch_make){.value_bytes = 10});
    ck_assert_int_eq(world_sync(&world, log), ERR_OK);
    world_pass(&world, INT64_C(5000000000));
    (void)world_append(&world, log, &(struct batch_make){.value_bytes = 10});
    world_pass(&world, 3 * PARTITION_IDLE_NS);
    ck_assert(!log_is_awake(log));
    for (int i = 0; i < 400; i++) {
        (void)world_append(&world, second, &(struct batch_make){.value_bytes = 3000});
        ck_assert_int_eq(world_sync(&world, second), ERR_OK);
    }
    partition_log_close(second, &closed.op);
    world_run(&world, &closed.done);
    world_close(&world, log);
    world_journal_close(&world);
    world_end(&world);
}
END_TEST

/* JOURNAL_FLUSH_MESSAGES_MAX, JOURNAL_FLUSH_MS_MAX: a topic that asks for syncs less often is written once alone. */
START_TEST(where_it_gains)
{
    for (int64_t by = -1; by <= 1; by++)
        for (int by_time = 0; by_time < 2; by_time++) {
            struct partition_log *log = NULL;

            world_begin(&world, 1);
            if (by_time)
                world.spec.config.flush_ms = JOURNAL_FLUSH_MS_MAX + by;
            else
                world.spec.config.flush_messages = JOURNAL_FLUSH_MESSAGES_MAX + by;
            journal_begin(NULL);
            log = world_log(&world);
            (void)world_append(&world, log, &(struct batch_make){.value_bytes = 10});
            ck_assert((log->journal != NULL) == (by <= 0));
            ck_assert_int_eq(world_sync(&world, log), ERR_OK);
            world_close(&world, log);
            world_journal_close(&world);
            world_end(&world);
        }
}
END_TEST

RUN_TESTS("log_journal", where_it_gains, a_group_that_fills_ends_with_its_journal, a_start_over_what_is_not_synced,
          a_second_power_cut_in_the_replay, a_move_does_not_wait_for_itself, a_note_without_room,
          a_journal_asks_a_log_that_sleeps)
