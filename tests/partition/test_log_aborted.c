/* Rule: a reader of committed records is told every aborted transaction that overlaps what it reads, from wherever its
 * marker lies, also after restarts, kills and with damaged .txnindex files; what is open, or ended by a marker that may
 * yet be lost, is not stable (replication.md 1, 8; B112).
 *
 * Sources: partition/txn_file.c */
#include "base/mem.h"
#include "partition/segment.h"
#include "run_tests.h"
#include "txn_truth.h"

#define FIRST_INDEX "/data/t-0/00000000000000000000.txnindex"

static struct world world;
static struct truth truth;

static enum err put(struct partition_log *log, uint8_t *batch, size_t size)
{
    struct appended appended;
    enum err err = world_append_run(&world, log, batch, size, LOG_ORIGIN_COORDINATOR, &appended);

    mem_free(batch);
    return err;
}

static void data(struct partition_log *log, int64_t producer_id, uint32_t bytes)
{
    size_t size = 0;
    uint8_t *batch = make_batch(
        &(struct batch_make){
            .value_bytes = bytes, .timestamp = 1000, .producer_id = producer_id, .transactional = producer_id > 0},
        &size);

    ck_assert_int_eq(put(log, batch, size), ERR_OK);
}

static void end(struct partition_log *log, int64_t producer_id, bool commit)
{
    size_t size = 0;
    uint8_t *batch = make_marker(producer_id, 0, commit, 1, &size);

    ck_assert_int_eq(put(log, batch, size), ERR_OK);
}

/* Transactions of four producers that overlap, over several segments; 9 is open throughout and aborted at last. */
static struct partition_log *begin(uint64_t seed)
{
    struct partition_log *log = NULL;

    world_begin(&world, seed);
    world.spec.config.segment_bytes = 3000;
    world.spec.config.index_interval_bytes = 300;
    log = world_log(&world);
    data(log, 9, 100);
    for (int64_t i = 0; i < 40; i++) {
        data(log, 1 + i % 3, 150);
        data(log, 0, 50);
        if (i % 4 == 3)
            end(log, 1 + i % 3, i % 8 == 7);
    }
    end(log, 9, false);
    for (int64_t i = 1; i <= 3; i++)
        end(log, i, false);
    ck_assert_uint_ge(partition_log_segment_count(log), 4);
    return log;
}

START_TEST(found_across_segments_and_restarts)
{
    struct partition_log *log = begin(1);

    truth_check(&truth, &world, log);
    ck_assert_int_eq(truth_first_open(&truth), INT64_MAX);
    world_close(&world, log);
    log = world_log(&world);
    truth_check(&truth, &world, log);
    world_pass(&world, INT64_C(70000000000)); /* files are given back, and the indexes with them */
    truth_check(&truth, &world, log);
    data(log, 2, 10);
    end(log, 2, false);
    truth_check(&truth, &world, log);
    world_crash(&world, log, false);
    log = world_log(&world);
    truth_check(&truth, &world, log);
    world_close(&world, log);
    world_end(&world);
}
END_TEST

START_TEST(without_aborts_there_is_no_file)
{
    struct partition_log *log = NULL;
    struct fs_info info;

    world_begin(&world, 2);
    log = world_log(&world);
    data(log, 1, 10);
    end(log, 1, true);
    end(log, 1, false); /* ends nothing */
    truth_check(&truth, &world, log);
    world_close(&world, log);
    ck_assert_int_eq(fs_stat(&world.disk.fs, FIRST_INDEX, &info), ERR_NOT_FOUND);
    log = world_log(&world);
    data(log, 1, 10);
    end(log, 1, false);
    world_close(&world, log);
    ck_assert_int_eq(fs_stat(&world.disk.fs, FIRST_INDEX, &info), ERR_OK);
    ck_assert_uint_eq(info.size, 34);
    world_end(&world);
}
END_TEST

/* Whatever byte is lost or changed so that the file is no index any more, it is had from the batches. */
START_TEST(damaged_files_are_made_anew)
{
    for (int how = 0; how < 4; how++) {
        struct partition_log *log = begin(3);
        struct bytes content;
        uint8_t *copy = NULL;

        world_close(&world, log);
        content = sim_fs_peek(&world.disk, FIRST_INDEX);
        ck_assert_uint_ge(content.size, 34);
        copy = mem_alloc(content.size + 5);
        memcpy(copy, content.data, content.size);
        if (how == 0)
            sim_fs_poke(&world.disk, FIRST_INDEX, bytes_of(copy, content.size - 1));
        else if (how == 1)
            sim_fs_flip(&world.disk, FIRST_INDEX, 0, 1); /* the version */
        else if (how == 2)
            sim_fs_flip(&world.disk, FIRST_INDEX, 18, 0x40); /* a marker far behind the segment */
        else
            sim_fs_poke(&world.disk, FIRST_INDEX, bytes_of(memset(copy, 0, content.size), content.size));
        mem_free(copy);
        log = world_log(&world);
        world.lines = 0;
        truth_check(&truth, &world, log);
        ck_assert_uint_eq(world.lines, 1); /* one clear line */
        world_close(&world, log);
        log = world_log(&world);
        world.lines = 0;
        truth_check(&truth, &world, log);
        ck_assert_uint_eq(world.lines, 0); /* it was mended */
        world_close(&world, log);
        world_end(&world);
    }
}
END_TEST

/* A .txnindex whose segment is gone is nobody's. */
START_TEST(what_is_left_behind_goes)
{
    struct partition_log *log = begin(4);
    struct fs_info info;
    struct bytes content;
    uint8_t *copy = NULL;

    world_close(&world, log);
    content = sim_fs_peek(&world.disk, FIRST_INDEX);
    copy = mem_alloc(content.size);
    memcpy(copy, content.data, content.size);
    sim_fs_poke(&world.disk, "/data/t-0/00000000000000700000.txnindex", bytes_of(copy, content.size));
    mem_free(copy);
    log = world_log(&world);
    ck_assert_int_eq(fs_stat(&world.disk.fs, "/data/t-0/00000000000000700000.txnindex", &info), ERR_NOT_FOUND);
    truth_check(&truth, &world, log);
    world_close(&world, log);
    world_end(&world);
}
END_TEST

START_TEST(markers_not_yet_replicated_hold_back)
{
    struct partition_log *log = NULL;

    world_begin(&world, 5);
    log = world_log(&world);
    data(log, 1, 10);  /* 0 */
    data(log, 2, 10);  /* 1 */
    end(log, 2, true); /* 2 */
    data(log, 2, 10);  /* 3 */
    end(log, 1, true); /* 4 */
    ck_assert_int_eq(partition_log_first_unstable_offset(log), 0);
    partition_log_replicated(log, 4);
    ck_assert_int_eq(partition_log_first_unstable_offset(log), 0);
    partition_log_replicated(log, 5);
    ck_assert_int_eq(partition_log_first_unstable_offset(log), 3);
    end(log, 2, false); /* 5 */
    data(log, 1, 10);   /* 6 */
    end(log, 1, false); /* 7 */
    partition_log_replicated(log, 6);
    ck_assert_int_eq(partition_log_first_unstable_offset(log), 6);
    partition_log_replicated(log, 8);
    ck_assert_int_eq(partition_log_first_unstable_offset(log), INT64_MAX);
    world_close(&world, log);
    world_end(&world);
}
END_TEST

/* What a coordinator writes is checked too: an old one, or one that speaks for an old producer, is fenced. */
START_TEST(old_coordinators_are_fenced)
{
    struct partition_log *log = NULL;
    size_t size = 0;
    uint8_t *batch = NULL;

    world_begin(&world, 6);
    log = world_log(&world);
    batch = make_batch(&(struct batch_make){.producer_id = 1, .producer_epoch = 3, .transactional = true}, &size);
    ck_assert_int_eq(put(log, batch, size), ERR_OK);
    batch = make_marker(1, 2, true, 5, &size);
    ck_assert_int_eq(put(log, batch, size), ERR_INVALID_PRODUCER_EPOCH);
    batch = make_marker(1, 3, true, 5, &size);
    ck_assert_int_eq(put(log, batch, size), ERR_OK);
    batch = make_marker(1, 3, true, 4, &size);
    ck_assert_int_eq(put(log, batch, size), ERR_TRANSACTION_COORDINATOR_FENCED);
    batch = make_batch(&(struct batch_make){.producer_id = 1, .producer_epoch = 2, .transactional = true}, &size);
    ck_assert_int_eq(put(log, batch, size), ERR_INVALID_PRODUCER_EPOCH);
    batch = make_batch(&(struct batch_make){.producer_id = 1, .producer_epoch = 3, .transactional = true}, &size);
    ck_assert_int_eq(put(log, batch, size), ERR_OK);
    batch = make_batch(&(struct batch_make){.producer_id = 1, .producer_epoch = 3}, &size);
    ck_assert_int_eq(put(log, batch, size), ERR_INVALID_TXN_STATE);
    ck_assert_int_eq(partition_log_end_offset(log), 3);
    world_close(&world, log);
    world_end(&world);
}
END_TEST

/* Lookups that overlap one another, closes and appends: each completes once. */
struct looked_up {
    struct log_aborted_find op;
    bool done;
};

static void was_looked_up(struct log_aborted_find *op)
{
    struct looked_up *up = LIST_ENTRY(op, struct looked_up, op);

    ck_assert(!up->done);
    up->done = true;
}

START_TEST(lookups_end_once)
{
    struct partition_log *log = begin(7);
    struct looked_up ups[12];
    struct arena arena;

    arena_init(&arena, 1 << 20);
    world_close(&world, log);
    log = world_log(&world);
    for (int64_t i = 0; i < 12; i++) {
        ups[i] = (struct looked_up){.op = {.from = i * 7, .to = 90, .arena = &arena, .done = was_looked_up}};
        partition_log_find_aborted(log, &ups[i].op);
        if (i == 5)
            data(log, 1, 10);
    }
    ck_assert(!ups[11].done);
    world_close(&world, log);
    for (int64_t i = 0; i < 12; i++) {
        ck_assert(ups[i].done);
        ck_assert(ups[i].op.err == ERR_CLOSED || ups[i].op.err == ERR_OK);
    }
    arena_deinit(&arena);
    world_end(&world);
}
END_TEST

struct found {
    struct log_find op;
    bool done;
};

static void was_found(struct log_find *op)
{
    LIST_ENTRY(op, struct found, op)->done = true;
}

/* A look-up by time finds markers as it finds records (Apache Kafka 4.4; B038). Markers here are stamped 1000. */
START_TEST(markers_count_by_time)
{
    struct partition_log *log = NULL;
    struct found found = {.op = {.timestamp = 900, .done = was_found}};
    size_t size = 0;
    uint8_t *batch = NULL;

    world_begin(&world, 8);
    log = world_log(&world);
    batch = make_batch(&(struct batch_make){.timestamp = 500, .producer_id = 1, .transactional = true}, &size);
    ck_assert_int_eq(put(log, batch, size), ERR_OK);
    end(log, 1, true);
    partition_log_find(log, &found.op);
    world_run(&world, &found.done);
    ck_assert_int_eq(found.op.err, ERR_OK);
    ck_assert_int_eq(found.op.offset, 1);
    ck_assert_int_eq(found.op.out_timestamp, 1000);
    world_close(&world, log);
    world_end(&world);
}
END_TEST

RUN_TESTS("log_aborted", markers_count_by_time, found_across_segments_and_restarts, without_aborts_there_is_no_file,
          damaged_files_are_made_anew, what_is_left_behind_goes, markers_not_yet_replicated_hold_back,
          old_coordinators_are_fenced, lookups_end_once)
