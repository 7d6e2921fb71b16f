/* Rules: whichever call of the disk fails during a move, and whenever the power goes, the log is whole in the directory
 * that the metadata names; a target that is full or fails ends the move with one line, and the log goes on. */
#include <check.h>
#include <stdio.h>

#include "base/mem.h"
#include "move_world.h"
#include "partition/journal_replay.h"
#include "run_tests.h"

static struct world world;
static struct partition_env other;
static struct moving_op moving;

static void has_all(struct partition_log *log, const uint8_t *before, size_t before_size)
{
    size_t size = 0;
    uint8_t *now = move_world_read(&world, log, &size);

    ck_assert_uint_ge(size, before_size);
    ck_assert_mem_eq(now, before, before_size);
    mem_free(now);
}

/* The metadata wins; what lies in the other directory is of no interest. */
static void open_where_committed(const uint8_t *before, size_t size)
{
    struct partition_log *log = NULL;
    struct partition_env here = world.env;

    if (moving.committed)
        world.env = other;
    world.env.journal = NULL;
    world.spec.recovery_point = 0;
    world.spec.start_offset = 0;
    log = world_log(&world);
    has_all(log, before, size);
    world_close(&world, log);
    world.env = here;
}

static uint8_t *begin(struct partition_log **log, uint64_t seed, size_t *size)
{
    move_world_begin(&world, &other, seed, false);
    *log = world_log(&world);
    move_world_fill(&world, *log);
    ck_assert_int_eq(world_sync(&world, *log), ERR_OK);
    moving = (struct moving_op){0};
    return move_world_read(&world, *log, size);
}

/* The k-th call of the kind fails, for every k. */
static void each_call_fails(enum sim_fs_call kind, enum err err)
{
    bool struck = true;

    for (uint64_t k = 1; struck; k++) {
        struct partition_log *log = NULL;
        size_t size = 0;
        uint8_t *before = begin(&log, 1, &size);

        sim_fs_set_fault(&world.disk, SIM_FS_FAIL, kind, k, err);
        move_world_run(&world, log, &other, &moving);
        struck = sim_fs_fault_struck(&world.disk);
        sim_fs_set_fault(&world.disk, SIM_FS_NO_FAULT, SIM_FS_ANY, 1, ERR_OK);
        ck_assert(moving.op.moved == moving.committed);
        if (!struck)
            ck_assert(moving.op.moved);
        if (!partition_log_failed(log)) {
            has_all(log, before, size);
            (void)world_append(&world, log, &(struct batch_make){.value_bytes = 10, .timestamp = 1});
            world_close(&world, log);
        } else {
            ck_assert_int_ne(err, ERR_NO_SPACE); /* the log goes on */
            world_crash(&world, log, false);
        }
        open_where_committed(before, size);
        mem_free(before);
        world_end(&world);
    }
}

START_TEST(each_call_may_fail)
{
    each_call_fails(SIM_FS_ANY, ERR_IO);
}
END_TEST

START_TEST(each_call_may_find_no_room)
{
    static const enum sim_fs_call kinds[] = {SIM_FS_WRITE, SIM_FS_OPEN, SIM_FS_MKDIR, SIM_FS_RENAME};

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        each_call_fails(kinds[i], ERR_NO_SPACE);
}
END_TEST

START_TEST(each_call_may_find_no_descriptor)
{
    each_call_fails(SIM_FS_OPEN, ERR_NO_DESCRIPTORS);
}
END_TEST

/* The machine dies at the k-th call, for every k: killed, or without power. */
START_TEST(it_may_die_anywhere)
{
    for (int cut = 0; cut < 2; cut++) {
        bool struck = true;

        for (uint64_t k = 1; struck; k++) {
            struct partition_log *log = NULL;
            size_t size = 0;
            uint8_t *before = begin(&log, k, &size);

            sim_fs_set_fault(&world.disk, SIM_FS_DIE, SIM_FS_ANY, k, ERR_IO);
            move_world_run(&world, log, &other, &moving);
            struck = sim_fs_fault_struck(&world.disk);
            world_crash(&world, log, cut == 1);
            open_where_committed(before, size);
            mem_free(before);
            world_end(&world);
        }
    }
}
END_TEST

/* Appends and syncs until the move is over, or the disk is gone; gives the end that was promised. */
static int64_t write_meanwhile(struct partition_log *log)
{
    int64_t promised = partition_log_end_offset(log);

    for (int i = 0; i < 30 && !moving.done && !partition_log_failed(log); i++) {
        struct batch_make make = {.value_bytes = 300, .fill = (uint8_t)(200 + i), .timestamp = 1};
        struct appended appended;
        size_t size = 0;
        uint8_t *batch = make_batch(&make, &size);
        enum err err = world_append_run(&world, log, batch, size, LOG_ORIGIN_CLIENT, &appended);
        int64_t end = partition_log_end_offset(log);

        mem_free(batch);
        if (err != ERR_OK || world_sync(&world, log) != ERR_OK)
            break;
        promised = end;
    }
    world_run(&world, &moving.done);
    return promised;
}

/* The same of a log that is written to meanwhile, by way of a journal in the first directory: what was promised is
 * there, and the journal's entries of it are no news where the log has gone. */
START_TEST(it_may_die_anywhere_written_to)
{
    for (int cut = 0; cut < 2; cut++) {
        bool struck = true;

        for (uint64_t k = 1; struck; k++) {
            struct journal_replay_options options = {.fs = &world.disk.fs, .log = &world.log, .log_dir = "/data"};
            struct journal_replay *replay = NULL;
            struct partition_log *log = NULL;
            int64_t promised = 0;
            uint8_t *before = NULL;
            size_t size = 0;

            move_world_begin(&world, &other, k, true);
            log = world_log(&world);
            move_world_fill(&world, log);
            ck_assert_int_eq(world_sync(&world, log), ERR_OK);
            before = move_world_read(&world, log, &size);
            moving = (struct moving_op){.bytes_per_second = 200000};
            sim_fs_set_fault(&world.disk, SIM_FS_DIE, SIM_FS_ANY, k, ERR_IO);
            move_world_start(&world, log, &other, &moving);
            promised = write_meanwhile(log);
            struck = sim_fs_fault_struck(&world.disk);
            world_crash(&world, log, cut == 1);
            if (moving.committed)
                world.env = other;
            world.spec.recovery_point = world.spec.start_offset = 0;
            ck_assert_int_eq(journal_replay_open(&options, &replay), ERR_OK);
            world.spec.journals = moving.committed ? NULL : replay;
            log = world_log(&world);
            ck_assert_msg(partition_log_end_offset(log) >= promised, "call %llu: ends at %lld, promised was %lld",
                          (unsigned long long)k, (long long)partition_log_end_offset(log), (long long)promised);
            has_all(log, before, size);
            world_close(&world, log);
            world.spec.journals = NULL;
            journal_replay_free(replay);
            mem_free(before);
            world_end(&world);
        }
    }
}
END_TEST

/* The target has not enough room: it ends there and then, what was copied is gone, and the log goes on. */
START_TEST(a_full_target_ends_it)
{
    struct partition_log *log = NULL;
    size_t size = 0;
    uint8_t *before = begin(&log, 1, &size);
    uint32_t lines = world.lines;

    world.disk.capacity_bytes = world.disk.used_bytes + 9000;
    move_world_run(&world, log, &other, &moving);
    ck_assert_int_eq(moving.op.err, ERR_NO_SPACE);
    ck_assert(!moving.op.moved);
    ck_assert_uint_eq(world.lines, lines + 1);
    ck_assert_uint_eq(move_world_count(&world, "/data2", "-future"), 0);
    world.disk.capacity_bytes = UINT64_MAX;
    has_all(log, before, size);
    (void)world_append(&world, log, &(struct batch_make){.value_bytes = 10, .timestamp = 1});
    world_close(&world, log);
    mem_free(before);
    world_end(&world);
}
END_TEST

/* The metadata log is lost at the very moment: which directory counts nobody knows, so neither is written to. */
START_TEST(an_unknown_outcome_fails_the_log)
{
    struct partition_log *log = NULL;
    size_t size = 0;
    uint8_t *before = begin(&log, 1, &size);

    moving.commit_err = ERR_KAFKA_STORAGE_ERROR;
    move_world_run(&world, log, &other, &moving);
    ck_assert(partition_log_failed(log));
    world_crash(&world, log, true);
    for (int i = 0; i < 2; i++) { /* both are whole */
        moving.committed = i == 1;
        open_where_committed(before, size);
    }
    mem_free(before);
    world_end(&world);
}
END_TEST

/* What lies where the log is to go and is nobody's is set aside, as a start would: the log's own older self, which a
 * full disk kept from going when the log left, or a directory that has neither a topic id nor a record. Another topic's
 * stays, and so do records that say nothing of whose they are; the move ends, and the log goes on. */
START_TEST(what_is_nobodys_makes_way)
{
    static const struct {
        const char *file; /* there; NULL: the log itself was, and could not leave */
        struct bytes content;
        bool makes_way;
    } cases[] = {
        {NULL, {0}, true},
        {"partition.metadata.tmp", BYTES_LITERAL(""), true},
        {"partition.metadata", BYTES_LITERAL(""), true},
        {"00000000000000000000.log", BYTES_LITERAL(""), true},
        {"00000000000000000000.log", BYTES_LITERAL("records"), false},
        {"partition.metadata", BYTES_LITERAL("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAFg"), false},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct partition_log *log = NULL;
        struct partition_env here;
        size_t size = 0;
        uint8_t *before = begin(&log, 1, &size);
        char path[128];

        here = world.env;
        if (cases[i].file == NULL) {
            move_world_run(&world, log, &other, &moving);
            ck_assert(moving.op.moved);
            sim_fs_set_fault(&world.disk, SIM_FS_BREAK, SIM_FS_RENAME, 1, ERR_NO_SPACE);
            sim_fs_limit_fault(&world.disk, "/data2");
            move_world_run(&world, log, &world.env, &moving);
            ck_assert(moving.op.moved);
            sim_fs_set_fault(&world.disk, SIM_FS_NO_FAULT, SIM_FS_ANY, 1, ERR_OK);
            ck_assert_uint_eq(move_world_count(&world, "/data2", "t-0"), 1);
        } else {
            ck_assert_int_eq(fs_mkdir(&world.disk.fs, "/data2/t-0"), ERR_OK);
            (void)snprintf(path, sizeof(path), "/data2/t-0/%s", cases[i].file);
            sim_fs_poke(&world.disk, path, cases[i].content);
        }
        moving = (struct moving_op){0};
        move_world_run(&world, log, &other, &moving);
        ck_assert_int_eq(moving.op.err, cases[i].makes_way ? ERR_OK : ERR_EXISTS);
        ck_assert(moving.op.moved == cases[i].makes_way);
        ck_assert_uint_eq(move_world_count(&world, "/data2", "-stray"), cases[i].makes_way ? 1 : 0);
        ck_assert_uint_eq(move_world_count(&world, "/data2", "-future"), 0);
        ck_assert_uint_eq(move_world_count(&world, "/data2", "t-0"), 1);
        has_all(log, before, size);
        (void)world_append(&world, log, &(struct batch_make){.value_bytes = 10, .timestamp = 1});
        world_close(&world, log);
        open_where_committed(before, size);
        world.env = here;
        mem_free(before);
        world_end(&world);
    }
}
END_TEST

RUN_TESTS("log_move_failures", each_call_may_fail, each_call_may_find_no_room, each_call_may_find_no_descriptor,
          it_may_die_anywhere, it_may_die_anywhere_written_to, a_full_target_ends_it, an_unknown_outcome_fails_the_log,
          what_is_nobodys_makes_way)
