/* Rule: after an unclean stop the log ends behind its last good batch: a torn, damaged or missing batch cuts it there,
 * nothing behind it is served, and what was cut is said. Indexes, epochs and producers come back from the batches.
 *
 * Sources: partition/segment_tail.c */
#include <zlib.h>

#include "base/big_endian.h"
#include "base/mem.h"
#include "run_tests.h"
#include "world.h"

#define FIRST "/data/t-0/00000000000000000000.log"

static struct world world;

static void fill(struct partition_log *log, int count)
{
    for (int i = 0; i < count; i++)
        (void)world_append(&world, log, &(struct batch_make){.value_bytes = 100, .timestamp = 1000 + i});
}

/* Ten batches of one record, killed. */
static uint64_t begin_killed(uint64_t seed, int64_t segment_bytes)
{
    struct partition_log *log = NULL;
    uint64_t size = 0;

    world_begin(&world, seed);
    world.spec.config.segment_bytes = segment_bytes;
    world.spec.config.index_interval_bytes = 200;
    log = world_log(&world);
    fill(log, 10);
    size = partition_log_size(log) / 10;
    world_pass(&world, INT64_C(10000000));
    world_crash(&world, log, false);
    return size;
}

static void check_end(int64_t end_offset, uint64_t bytes_cut)
{
    struct partition_log *log = NULL;
    struct partition_log_recovery recovery;

    world.lines = 0;
    ck_assert_int_eq(partition_log_open(&world.env, &world.spec, &log, &recovery), ERR_OK);
    partition_log_adopt(log);
    ck_assert_int_eq(partition_log_end_offset(log), end_offset);
    ck_assert_uint_eq(recovery.bytes_cut, bytes_cut);
    ck_assert_uint_eq(world.lines, bytes_cut > 0 ? 1 : 0);
    ck_assert_int_eq(world_append(&world, log, &(struct batch_make){.value_bytes = 100, .timestamp = 9000}),
                     end_offset);
    world_close(&world, log);
    log = world_log(&world);
    ck_assert_int_eq(partition_log_end_offset(log), end_offset + 1);
    world_close(&world, log);
    world_end(&world);
}

START_TEST(whole_log_stays)
{
    begin_killed(1, 1 << 20);
    check_end(10, 0);
}
END_TEST

START_TEST(torn_tail_is_cut)
{
    for (uint64_t cut = 1; cut < 161; cut += 13) {
        uint64_t size = begin_killed(2, 1 << 20);
        struct bytes content = sim_fs_peek(&world.disk, FIRST);
        uint8_t *copy = mem_alloc(content.size);

        memcpy(copy, content.data, content.size);
        sim_fs_poke(&world.disk, FIRST, bytes_of(copy, content.size - cut));
        mem_free(copy);
        check_end(9, size - cut);
    }
}
END_TEST

START_TEST(zeroes_are_cut)
{
    begin_killed(3, 1 << 20);
    struct bytes content = sim_fs_peek(&world.disk, FIRST);
    uint8_t *copy = mem_calloc(content.size + 5000, 1);

    memcpy(copy, content.data, content.size);
    sim_fs_poke(&world.disk, FIRST, bytes_of(copy, content.size + 5000));
    mem_free(copy);
    check_end(10, 5000);
}
END_TEST

START_TEST(any_flipped_bit_cuts_there)
{
    for (uint64_t at = 0; at < 161; at++) {
        uint64_t size = begin_killed(4, 1 << 20);

        if (at >= 12 && at < 16) { /* the leader epoch lies outside the checksum */
            world_end(&world);
            continue;
        }
        ck_assert(sim_fs_flip(&world.disk, FIRST, 4 * size + at % size, 0x40));
        check_end(4, 6 * size);
        size = begin_killed(4, 1 << 20); /* and the last one, behind which nothing tells */
        ck_assert(sim_fs_flip(&world.disk, FIRST, 9 * size + at % size, 0x02));
        check_end(9, size);
    }
}
END_TEST

START_TEST(later_segments_go)
{
    uint64_t size = begin_killed(5, 520); /* three batches a segment */

    ck_assert_uint_gt(sim_fs_peek(&world.disk, "/data/t-0/00000000000000000009.log").size, 0);
    ck_assert(sim_fs_flip(&world.disk, "/data/t-0/00000000000000000003.log", size + 100, 1));
    check_end(4, 6 * size);
}
END_TEST

/* A power cut may keep a later segment and lose the end of the one before: what follows the gap is not served. */
START_TEST(a_gap_between_segments_ends_the_log)
{
    uint64_t size = begin_killed(6, 520);
    struct bytes content = sim_fs_peek(&world.disk, "/data/t-0/00000000000000000003.log");
    uint8_t *copy = mem_alloc(content.size);

    memcpy(copy, content.data, content.size);
    sim_fs_poke(&world.disk, "/data/t-0/00000000000000000003.log", bytes_of(copy, 2 * size));
    mem_free(copy);
    check_end(5, 4 * size);
}
END_TEST

/* Where a log is compacted a gap between segments tells nothing: so a segment is on the disk before the next one
 * begins, and a power cut leaves all up to some end, whatever it keeps. */
START_TEST(a_compacted_log_has_no_gap_after_a_power_cut)
{
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct partition_log *log = NULL;

        world_begin(&world, seed);
        world.spec.config.segment_bytes = 520;
        world.spec.config.cleanup_compact = true;
        log = world_log(&world);
        fill(log, 10);
        world_crash(&world, log, true);
        log = world_log(&world);
        for (int64_t at = 0; at < partition_log_end_offset(log); at++) {
            struct batch_header header;
            uint8_t *data = NULL;
            size_t size = 0;

            ck_assert_int_eq(world_read(&world, log, at, at + 1, 1, true, &data, &size), ERR_OK);
            ck_assert_int_eq(batch_peek(bytes_of(data, size), &header, NULL), ERR_OK);
            ck_assert_int_eq(header.base_offset, at);
            mem_free(data);
        }
        world_close(&world, log);
        world_end(&world);
    }
}
END_TEST

/* What lies below the recovery point is believed, and not read. */
START_TEST(only_above_the_recovery_point)
{
    struct partition_log *log = NULL;
    struct partition_log_recovery recovery;
    uint64_t size = begin_killed(7, 520);

    world.spec.recovery_point = 7;
    ck_assert_int_eq(partition_log_open(&world.env, &world.spec, &log, &recovery), ERR_OK);
    ck_assert_uint_eq(recovery.bytes_scanned, 4 * size);
    ck_assert_uint_eq(recovery.segments_recovered, 2);
    ck_assert_int_eq(partition_log_synced_offset(log), 7);
    partition_log_adopt(log);
    world_pass(&world, INT64_C(3000000000));
    ck_assert_int_eq(partition_log_synced_offset(log), 10); /* the rest is synced behind */
    world_close(&world, log);
    world_end(&world);
}
END_TEST

/* Where a sync left an anchor (a producer snapshot, and index entries), a recovery reads only what lies behind it;
 * index files that were not synced are believed only where the batches bear them out. */
START_TEST(only_behind_the_anchor)
{
    static const uint8_t wrong[][16] = {
        {0, 0, 0, 3, 0, 0, 2, 100},                          /* no batch begins there */
        {0, 0, 0, 2, 0, 0, 0, 169, 0, 0, 0, 4, 0, 0, 1, 82}, /* one does, with another offset */
        {0},
    };

    for (size_t i = 0; i < 4; i++) {
        struct partition_log *log = NULL;
        struct partition_log_recovery recovery;
        uint64_t size = 0;

        world_begin(&world, 11);
        world.spec.config.index_interval_bytes = 200;
        world.env.limits.anchor_bytes = 1;
        log = world_log(&world);
        fill(log, 6);
        ck_assert_int_eq(world_sync(&world, log), ERR_OK);
        ck_assert_uint_eq(sim_fs_peek(&world.disk, "/data/t-0/00000000000000000006.snapshot").size, 10);
        world.spec.recovery_point = partition_log_recovery_point(log);
        ck_assert_int_eq(world.spec.recovery_point, 6);
        fill(log, 4);
        size = partition_log_size(log) / 10;
        world_crash(&world, log, false);
        if (i > 0)
            sim_fs_poke(&world.disk, "/data/t-0/00000000000000000000.index", bytes_of(wrong[i - 1], i == 2 ? 16 : 8));
        ck_assert_int_eq(partition_log_open(&world.env, &world.spec, &log, &recovery), ERR_OK);
        partition_log_adopt(log);
        ck_assert_int_eq(partition_log_end_offset(log), 10);
        ck_assert_uint_eq(recovery.bytes_scanned, (i == 0 ? 6 : 10) * size); /* from the batch of the last entry on */
        ck_assert_int_eq(partition_log_epoch_at(log, 0), 0);
        ck_assert_int_eq(partition_log_segment_max_timestamp(log, 0), 1005);
        world_close(&world, log);
        ck_assert_uint_eq(sim_fs_peek(&world.disk, "/data/t-0/00000000000000000006.snapshot").size, 0); /* replaced */
        world_end(&world);
    }
}
END_TEST

/* A recovery that resumes at an anchor leaves the index entries before it as they lie there, synced: when the power
 * goes next, the anchor and its entries are still of one mind. */
START_TEST(an_anchor_keeps_its_entries)
{
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct partition_log *log = NULL;

        world_begin(&world, seed);
        world.spec.config.index_interval_bytes = 200;
        world.env.limits.anchor_bytes = 1;
        log = world_log(&world);
        (void)world_append(&world, log, &(struct batch_make){.value_bytes = 100, .timestamp = 9000});
        fill(log, 6);
        ck_assert_int_eq(world_sync(&world, log), ERR_OK);
        world.spec.recovery_point = partition_log_recovery_point(log);
        fill(log, (int)(seed % 4));
        for (int crash = 0; crash < 3; crash++) {
            if (crash == 1 && seed % 3 == 0) /* it is read from its beginning */
                sim_fs_poke(&world.disk, "/data/t-0/00000000000000000000.index", BYTES_LITERAL("1234567"));
            world_crash(&world, log, crash > 0);
            log = world_log(&world);
            ck_assert_int_ge(partition_log_end_offset(log), 7);
            ck_assert_msg(partition_log_segment_max_timestamp(log, 0) == 9000, "seed %llu crash %d",
                          (unsigned long long)seed, crash);
        }
        world_close(&world, log);
        world_end(&world);
    }
}
END_TEST

/* A clean stop's index files are believed, also where they were written long before it, when the log was idle. */
START_TEST(a_clean_stop_syncs_what_was_written_earlier)
{
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct partition_log *log = NULL;

        world_begin(&world, seed);
        world.spec.config.index_interval_bytes = 200;
        log = world_log(&world);
        (void)world_append(&world, log, &(struct batch_make){.value_bytes = 100, .timestamp = 9000});
        fill(log, 4);
        world_pass(&world, INT64_C(130000000000));
        world_close(&world, log);
        sim_fs_cut(&world.disk);
        log = world_log(&world);
        ck_assert_int_eq(partition_log_segment_max_timestamp(log, 0), 9000);
        world_close(&world, log);
        world_end(&world);
    }
}
END_TEST

/* A log may begin within a batch that is not synced: that batch can be torn, and is no damage then. */
START_TEST(the_recovery_point_is_no_start_that_is_not_synced)
{
    struct partition_log *log = NULL;

    world_begin(&world, 1);
    log = world_log(&world);
    (void)world_append(&world, log, &(struct batch_make){.value_bytes = 100, .record_count = 10});
    ck_assert_int_eq(world_sync(&world, log), ERR_OK);
    (void)world_append(&world, log, &(struct batch_make){.value_bytes = 100, .record_count = 10});
    partition_log_move_start(log, 15);
    ck_assert_int_eq(partition_log_recovery_point(log), 10);
    ck_assert_int_eq(world_sync(&world, log), ERR_OK);
    ck_assert_int_eq(partition_log_recovery_point(log), 20);
    world_close(&world, log);
    world_end(&world);
}
END_TEST

/* Missing and damaged indexes are rebuilt, after a clean stop too. */
START_TEST(indexes_come_back)
{
    static const char *const names[] = {"/data/t-0/00000000000000000000.index", "/data/t-0/00000000000000000003.index",
                                        "/data/t-0/00000000000000000000.timeindex",
                                        "/data/t-0/00000000000000000009.timeindex"};

    for (size_t i = 0; i < 2 * sizeof(names) / sizeof(names[0]); i++) {
        const char *name = names[i / 2];
        struct partition_log *log = NULL;
        uint8_t *data = NULL;
        size_t size = 0;

        begin_killed(8, 520);
        log = world_log(&world);
        world_close(&world, log);
        if (i % 2 == 0)
            ck_assert_int_eq(fs_unlink(&world.disk.fs, name), ERR_OK);
        else
            sim_fs_poke(&world.disk, name,
                        BYTES_LITERAL("\377\377\377\377\377\377\377\377\377\377\377\377"
                                      "\0\0\0\0\0\0\0\0\0\0\0\0"));
        log = world_log(&world);
        ck_assert_int_eq(partition_log_end_offset(log), 10);
        for (int64_t offset = 0; offset < 10; offset++) {
            struct batch_header header;

            ck_assert_int_eq(world_read(&world, log, offset, 10, 10000, true, &data, &size), ERR_OK);
            ck_assert_int_eq(batch_peek(bytes_of(data, size), &header, NULL), ERR_OK);
            ck_assert_int_eq(header.base_offset, offset);
            mem_free(data);
        }
        ck_assert_int_eq(partition_log_segment_max_timestamp(log, 0), 1002);
        world_close(&world, log);
        world_end(&world);
    }
}
END_TEST

static void append_of_epoch(struct partition_log *log, int64_t offset, int32_t epoch)
{
    struct appended appended;
    size_t size = 0;
    uint8_t *batch = make_batch(&(struct batch_make){.value_bytes = 10}, &size);

    batch_set_base_offset(batch, offset);
    batch_set_leader_epoch(batch, epoch);
    ck_assert_int_eq(world_append_run(&world, log, batch, size, LOG_ORIGIN_GIVEN, &appended), ERR_OK);
    mem_free(batch);
}

/* Known trap B142: epochs, with 0 among them, and the emptied log. */
START_TEST(epochs_come_back)
{
    struct partition_log *log = NULL;
    int32_t epoch = -1;
    int64_t end = -1;

    world_begin(&world, 9);
    log = world_log(&world);
    fill(log, 2);
    ck_assert_int_eq(partition_log_assign_epoch(log, 5), ERR_OK);
    append_of_epoch(log, 2, 5);
    world_crash(&world, log, false);
    log = world_log(&world);
    partition_log_epoch_end(log, 0, &epoch, &end);
    ck_assert_int_eq(epoch, 0);
    ck_assert_int_eq(end, 2);
    ck_assert_int_eq(partition_log_last_epoch(log), 5);
    ck_assert_int_eq(partition_log_epoch_at(log, 1), 0);
    ck_assert_int_eq(partition_log_epoch_at(log, 2), 5);
    world_close(&world, log);
    world.spec.start_offset = 3; /* all deleted */
    log = world_log(&world);
    ck_assert_int_eq(partition_log_start_offset(log), 3);
    ck_assert_int_eq(partition_log_end_offset(log), 3);
    world_close(&world, log);
    world.spec.start_offset = 100; /* the log was cut below its start */
    world.spec.clean = false;
    log = world_log(&world);
    ck_assert_int_eq(partition_log_end_offset(log), 100);
    ck_assert_int_eq(world_append(&world, log, &(struct batch_make){.value_bytes = 10}), 100);
    world_close(&world, log);
    world_end(&world);
}
END_TEST

/* An empty file of epochs is no word that there are none where a stop was not clean: it was renamed into place, and the
 * power went before its content was on the disk. */
START_TEST(an_empty_file_of_epochs_tells_nothing)
{
    struct partition_log *log = NULL;

    world_begin(&world, 9);
    world.spec.config.segment_bytes = 250; /* what lies before the last one is not read for its records' sake */
    log = world_log(&world);
    fill(log, 2);
    ck_assert_int_eq(partition_log_assign_epoch(log, 5), ERR_OK);
    append_of_epoch(log, 2, 5);
    ck_assert_int_eq(partition_log_last_epoch(log), 5);
    ck_assert_uint_gt(partition_log_segment_count(log), 1);
    world_close(&world, log);
    sim_fs_poke(&world.disk, "/data/t-0/leader-epoch-checkpoint", BYTES_LITERAL(""));
    world.spec.clean = false;
    world.spec.recovery_point = 3;
    log = world_log(&world);
    ck_assert_int_eq(partition_log_epoch_at(log, 0), 0);
    ck_assert_int_eq(partition_log_epoch_at(log, 2), 5);
    world_close(&world, log);
    world_end(&world);
}
END_TEST

/* Messages of old formats are data that we do not read, and never cut; what only looks like one is torn. */
START_TEST(old_messages_are_not_cut)
{
    uint8_t old[40] = {[11] = 28, [16] = 1};
    struct partition_log *log = NULL;

    big_endian_store_u32(old + 12, (uint32_t)crc32_z(0, old + 16, sizeof(old) - 16));
    world_begin(&world, 10);
    sim_fs_poke(&world.disk, FIRST, bytes_of(old, sizeof(old)));
    world.spec.clean = false;
    ck_assert_int_eq(world_open(&world, &log), ERR_UNSUPPORTED_FOR_MESSAGE_FORMAT);
    ck_assert_uint_eq(sim_fs_peek(&world.disk, FIRST).size, sizeof(old));
    old[20] ^= 1;
    sim_fs_poke(&world.disk, FIRST, bytes_of(old, sizeof(old)));
    log = world_log(&world);
    ck_assert_uint_eq(partition_log_size(log), 0);
    world_close(&world, log);
    world_end(&world);
}
END_TEST

RUN_TESTS("log_recovery", whole_log_stays, torn_tail_is_cut, zeroes_are_cut, any_flipped_bit_cuts_there,
          later_segments_go, a_gap_between_segments_ends_the_log, a_compacted_log_has_no_gap_after_a_power_cut,
          only_above_the_recovery_point, only_behind_the_anchor, an_anchor_keeps_its_entries,
          a_clean_stop_syncs_what_was_written_earlier, the_recovery_point_is_no_start_that_is_not_synced,
          indexes_come_back, epochs_come_back, an_empty_file_of_epochs_tells_nothing, old_messages_are_not_cut)
