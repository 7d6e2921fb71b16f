/* Rule: what the journal says is on the disk comes back after a power cut, whatever the segments have lost, and never
 * anything else; a file that another build or another program wrote is told apart.
 *
 * Sources: partition/boot_mark.c, partition/journal_format.c, partition/journal_replay.c, partition/log_dir_trust.c,
 * partition/log_replay.c */
#include <stdio.h>

#include "base/big_endian.h"
#include "base/crc32c.h"
#include "base/mem.h"
#include "partition/boot_mark.h"
#include "partition/checkpoint.h"
#include "partition/journal.h"
#include "partition/journal_replay.h"
#include "partition/log_dir_trust.h"
#include "run_tests.h"
#include "world.h"

static struct world world;
static struct journal_replay *replay;
static atomic_bool history;

static void journal_begin(void)
{
    atomic_init(&history, replay != NULL);
    struct journal_options options = {
        .generation = journal_replay_generation(replay) + 1,
        .history = &history,
        .bytes_max = 4 * 64 * 1024,
    };

    ck_assert_int_eq(journal_new(&world.env, &options, &world.env.journal), ERR_OK);
}

static void begin(uint64_t seed)
{
    world_begin(&world, seed);
    world.spec.config.flush_messages = 1;
    world.spec.config.segment_bytes = 20000;
    journal_begin();
}

/* The process or the power goes; what the journals have is read, as a start would. */
static enum err restart(struct partition_log *log, bool power_cut)
{
    struct journal_replay_options options = {.fs = &world.disk.fs, .log = &world.log, .log_dir = "/data"};

    world.spec.recovery_point = partition_log_recovery_point(log);
    if (power_cut) /* in the middle of whatever is under way */
        sim_fs_set_fault(&world.disk, SIM_FS_DIE, SIM_FS_ANY, 1 + sim_draw(&world.sim, 4), ERR_IO);
    world_crash(&world, log, power_cut);
    journal_replay_free(replay);
    replay = NULL;
    world.spec.clean = false;
    world.spec.trust = power_cut ? LOG_TRUST_SYNCED : LOG_TRUST_WRITTEN;
    options.mode = power_cut ? JOURNAL_REPLAY_READ : JOURNAL_REPLAY_KEEP;
    return journal_replay_open(&options, &replay);
}

static struct partition_log *open_again(void)
{
    journal_begin();
    world.spec.journals = replay;
    return world_log(&world);
}

static void end(struct partition_log *log)
{
    world_close(&world, log);
    world_journal_close(&world);
    journal_replay_free(replay);
    replay = NULL;
    ck_assert_uint_eq(world.disk.open_files, 0);
    world_end(&world);
}

/* --- format --- */

enum { CRC_AT = 60 /* of a journal's header and of a boot mark, whatever their version */ };

/* As a build of that version would have written it. */
static void make_version(uint8_t *header, uint8_t version)
{
    header[9] = version;
    big_endian_store_u32(header + CRC_AT, crc32c(0, header, CRC_AT));
}

/* Any flipped bit is damage, one in the version too; a later build's mark is told from that. */
START_TEST(a_boot_mark_reads_back)
{
    struct boot_mark mark = {BOOT_MARK_STOPPED, {{1, 2, 3}}};
    struct boot_mark read;
    uint8_t buffer[BOOT_MARK_BYTES];
    uint16_t version = 0;

    boot_mark_format(&mark, buffer);
    ck_assert_int_eq(boot_mark_parse(bytes_of(buffer, sizeof(buffer)), &read, &version), ERR_OK);
    ck_assert_int_eq(read.state, mark.state);
    ck_assert(uuid_equal(read.boot_id, mark.boot_id));
    for (size_t bit = 0; bit < 8 * sizeof(buffer); bit++) {
        buffer[bit / 8] ^= (uint8_t)(1 << bit % 8);
        ck_assert_int_eq(boot_mark_parse(bytes_of(buffer, sizeof(buffer)), &read, &version), ERR_DAMAGED);
        buffer[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    make_version(buffer, BOOT_MARK_VERSION + 1);
    ck_assert_int_eq(boot_mark_parse(bytes_of(buffer, sizeof(buffer)), &read, &version), ERR_UNSUPPORTED_VERSION);
    ck_assert_uint_eq(version, BOOT_MARK_VERSION + 1);
}
END_TEST

START_TEST(what_is_written_reads_back)
{
    uint8_t buffer[4096];
    struct journal_header header = {.reactor = 3, .generation = 7, .file_bytes = 65536, .random = 99};
    struct journal_header read_header;
    struct journal_entry entry = {.type = JOURNAL_APPEND,
                                  .partition = 5,
                                  .leader_epoch = 2,
                                  .offset = 10,
                                  .end_offset = 12,
                                  .previous_end = 10,
                                  .body = BYTES_LITERAL("some bytes")};
    struct journal_entry read_entry;
    uint16_t version = 0;
    size_t taken = 0;

    journal_header_write(&header, buffer);
    ck_assert_int_eq(journal_header_read(bytes_of(buffer, JOURNAL_HEADER_BYTES), &read_header, &version), ERR_OK);
    ck_assert_uint_eq(read_header.generation, 7);
    ck_assert_uint_eq(read_header.random, 99);
    for (size_t bit = 0; bit < 8 * JOURNAL_HEADER_BYTES; bit++) {
        buffer[bit / 8] ^= (uint8_t)(1 << bit % 8);
        ck_assert_int_eq(journal_header_read(bytes_of(buffer, JOURNAL_HEADER_BYTES), &read_header, &version),
                         ERR_DAMAGED);
        buffer[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    make_version(buffer, JOURNAL_VERSION + 1);
    ck_assert_int_eq(journal_header_read(bytes_of(buffer, JOURNAL_HEADER_BYTES), &read_header, &version),
                     ERR_UNSUPPORTED_VERSION);
    ck_assert_uint_eq(version, JOURNAL_VERSION + 1);
    memset(buffer, 0, sizeof(buffer));
    ck_assert_int_eq(journal_header_read(bytes_of(buffer, JOURNAL_HEADER_BYTES), &read_header, &version),
                     ERR_NOT_FOUND);
    ck_assert_uint_eq(journal_entry_write(&entry, buffer), 88);
    ck_assert_uint_eq(journal_entry_seal(buffer, 99, 4), 88);
    for (size_t size = 0; size < 88; size++)
        ck_assert_int_eq(journal_entry_read(bytes_of(buffer, size), &read_entry, &taken), ERR_DAMAGED);
    ck_assert_int_eq(journal_entry_read(bytes_of(buffer, 88), &read_entry, &taken), ERR_OK);
    ck_assert_int_eq(read_entry.end_offset, 12);
    ck_assert_uint_eq(read_entry.random, 99);
    for (size_t at = 0; at < 82; at++) {
        buffer[at] ^= 1;
        ck_assert_int_eq(journal_entry_read(bytes_of(buffer, 88), &read_entry, &taken), ERR_DAMAGED);
        buffer[at] ^= 1;
    }
}
END_TEST

/* --- life --- */

/* Every acknowledged record survives, in many disks' and seeds' order; files are used again meanwhile. */
START_TEST(nothing_synced_is_lost)
{
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct partition_log *log = NULL;
        int64_t synced = 0;

        begin(seed);
        log = world_log(&world);
        for (int life = 0; life < 5; life++) {
            bool power_cut = sim_chance(&world.sim, 70);
            int count = (int)sim_draw(&world.sim, 150);

            for (int i = 0; i < count; i++) {
                (void)world_append(&world, log,
                                   &(struct batch_make){.record_count = 1 + (uint32_t)sim_draw(&world.sim, 3),
                                                        .value_bytes = (uint32_t)sim_draw(&world.sim, 3000)});
                if (sim_chance(&world.sim, 50))
                    world_pass(&world, (int64_t)sim_draw(&world.sim, INT64_C(3000000)));
                if (sim_chance(&world.sim, 10))
                    ck_assert_int_eq(world_sync(&world, log), ERR_OK);
            }
            synced = partition_log_synced_offset(log);
            ck_assert_int_eq(restart(log, power_cut), ERR_OK);
            log = open_again();
            ck_assert_msg(partition_log_end_offset(log) >= synced, "seed=%llu", (unsigned long long)seed);
            ck_assert_int_eq(partition_log_synced_offset(log), partition_log_end_offset(log));
            world.spec.unsettled = NULL;
        }
        end(log);
    }
}
END_TEST

static void append_perhaps(struct partition_log *log)
{
    struct appended appended = {0};
    size_t size = 0;
    uint8_t *batch = make_batch(&(struct batch_make){.value_bytes = 100}, &size);
    enum err err = world_append_run(&world, log, batch, size, LOG_ORIGIN_CLIENT, &appended);

    ck_assert(err == ERR_OK || partition_log_failed(log));
    mem_free(batch);
}

/* The k-th sync of anything fails: nothing that is not on the disk is promised. */
START_TEST(a_failed_sync_promises_nothing)
{
    for (uint64_t k = 1; k <= 30; k++) {
        struct partition_log *log = NULL;
        int64_t synced = 0;

        begin(100 + k);
        log = world_log(&world);
        sim_fs_set_fault(&world.disk, SIM_FS_FAIL, SIM_FS_SYNC, k, k % 2 == 0 ? ERR_IO : ERR_NO_SPACE);
        for (int i = 0; i < 60 && !partition_log_failed(log); i++) {
            append_perhaps(log);
            world_pass(&world, 2000000);
        }
        ck_assert_uint_eq(world.storage_failures > 0, sim_fs_fault_struck(&world.disk));
        synced = partition_log_synced_offset(log);
        ck_assert_int_eq(restart(log, true), ERR_OK);
        log = open_again();
        ck_assert_int_ge(partition_log_end_offset(log), synced);
        end(log);
    }
}
END_TEST

/* --- what happens to a log besides appends --- */

enum { OFFSETS_MAX = 4096 };

static int64_t times[OFFSETS_MAX]; /* of the record at each offset: another each time */

static void append_noted(struct partition_log *log, int64_t time)
{
    int64_t offset = world_append(
        &world, log, &(struct batch_make){.value_bytes = (uint32_t)sim_draw(&world.sim, 2000), .timestamp = time});

    ck_assert_int_lt(offset, OFFSETS_MAX);
    times[offset] = time;
}

static enum err is_as_noted(void *context, struct bytes batch)
{
    struct batch_header header;

    (void)context;
    batch_header_read(batch.data, &header);
    ck_assert_int_eq(header.max_timestamp, times[header.base_offset]);
    return ERR_OK;
}

/* Cuts while syncs are under way, and new records at the old offsets: after any power cut a record is the one that was
 * last appended there, and none that was promised is gone. */
START_TEST(what_was_cut_does_not_come_back)
{
    int64_t time = 1;

    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct partition_log *log = NULL;

        begin(1000 + seed);
        log = world_log(&world);
        for (int life = 0; life < 4; life++) {
            int64_t synced = 0;
            int64_t start = 0;

            for (int i = 0; i < 80; i++) {
                append_noted(log, time++);
                if (sim_chance(&world.sim, 40))
                    world_pass(&world, (int64_t)sim_draw(&world.sim, INT64_C(2000000)));
                if (sim_chance(&world.sim, 6)) {
                    int64_t first = partition_log_start_offset(log);
                    int64_t end = partition_log_end_offset(log);
                    struct world_cut cut = {.op = {.done = world_was_cut}};

                    cut.op.offset = first + (int64_t)sim_draw(&world.sim, (uint64_t)(end - first) + 1);
                    partition_log_truncate(log, &cut.op);
                    world_run(&world, &cut.done);
                    ck_assert_int_eq(cut.op.err, ERR_OK);
                } else if (sim_chance(&world.sim, 3)) {
                    partition_log_move_start(log, partition_log_synced_offset(log));
                }
            }
            synced = partition_log_synced_offset(log);
            start = partition_log_start_offset(log);
            ck_assert_int_eq(restart(log, sim_chance(&world.sim, 80)), ERR_OK);
            log = open_again();
            ck_assert_msg(partition_log_end_offset(log) >= synced, "seed=%llu", (unsigned long long)seed);
            ck_assert_int_le(partition_log_start_offset(log), start > synced ? start : synced);
            ck_assert_int_eq(partition_log_scan(log, partition_log_start_offset(log), is_as_noted, NULL), ERR_OK);
        }
        end(log);
    }
}
END_TEST

/* --- what is taken, and what is not --- */

/* A journal made by hand: every field as it should be, but for what a test changes. */
struct forged {
    uint8_t bytes[16 * JOURNAL_BLOCK_BYTES];
    size_t size;
    struct journal_header header;
    struct journal_group_header group; /* of the next group */
};

static void forge_begin(struct forged *forged)
{
    *forged = (struct forged){.size = JOURNAL_BLOCK_BYTES,
                              .header = {.generation = 7, .random = 99, .file_bytes = sizeof(forged->bytes)},
                              .group = {.generation = 7, .random = 99}};
}

/* A group of one entry: a batch at that offset, of that epoch. flip: a byte of the batch's value, before all checksums
 * but the batch's. */
static void forge_group(struct forged *forged, struct uuid topic_id, int64_t offset, int32_t epoch, bool flip)
{
    uint8_t *at = forged->bytes + forged->size + JOURNAL_GROUP_HEADER_BYTES;
    size_t size = 0;
    uint8_t *batch = make_batch(&(struct batch_make){.value_bytes = 100, .timestamp = offset}, &size);
    struct journal_entry entry = {.type = JOURNAL_APPEND,
                                  .topic_id = topic_id,
                                  .leader_epoch = epoch,
                                  .offset = offset,
                                  .end_offset = offset + 1,
                                  .previous_end = offset,
                                  .body = bytes_of(batch, size)};

    big_endian_store_u64(batch, (uint64_t)offset);
    big_endian_store_u32(batch + BATCH_FIELD_LEADER_EPOCH, (uint32_t)epoch);
    batch[size - 2] ^= flip;
    forged->group.entries_bytes = (uint32_t)journal_entry_write(&entry, at);
    forged->group.entry_count = 1;
    (void)journal_entry_seal(at, forged->group.random, forged->group.number);
    journal_group_header_write(&forged->group, forged->bytes + forged->size);
    forged->size += journal_group_bytes(forged->group.entries_bytes);
    forged->group.number++;
    mem_free(batch);
}

/* The log ends at 1, in epoch 0; where it ends after a start with that journal. skipped: out, entries. */
static int64_t end_with(struct forged *forged, struct uuid directory_id, uint32_t *skipped)
{
    struct journal_replay_options options = {
        .fs = &world.disk.fs, .log = &world.log, .log_dir = "/data", .directory_id = directory_id};
    struct partition_log_recovery recovery = {0};
    struct partition_log *log = NULL;
    int64_t end = 0;

    world_begin(&world, 1);
    log = world_log(&world);
    (void)world_append(&world, log, &(struct batch_make){.value_bytes = 10});
    ck_assert_int_eq(world_sync(&world, log), ERR_OK);
    world_crash(&world, log, true);
    journal_header_write(&forged->header, forged->bytes);
    sim_fs_poke(&world.disk, "/data/ottla-journal-0-1", bytes_of(forged->bytes, sizeof(forged->bytes)));
    ck_assert_int_eq(journal_replay_open(&options, &replay), ERR_OK);
    world.spec.journals = replay;
    ck_assert_int_eq(partition_log_open(&world.env, &world.spec, &log, &recovery), ERR_OK);
    partition_log_adopt(log);
    *skipped = recovery.entries_skipped;
    end = partition_log_end_offset(log);
    world_close(&world, log);
    journal_replay_free(replay);
    replay = NULL;
    world_end(&world);
    return end;
}

static const struct uuid mine = {{1, 2, 3, 4, 5, 6, 0x47, 8, 0x89, 10, 11, 12, 13, 14, 15, 16}}; /* world.spec's */
static const struct uuid other = {{9, 2, 3, 4, 5, 6, 0x47, 8, 0x89, 10, 11, 12, 13, 14, 15, 16}};
static const struct uuid none = {{0}};

/* An entry applies only under the log's own topic id, where its offset and its epoch continue the log, and where its
 * batches check. */
START_TEST(only_what_continues_the_log_applies)
{
    static struct forged forged;
    uint32_t skipped = 0;

    forge_begin(&forged);
    forge_group(&forged, mine, 1, 0, false);
    forge_group(&forged, mine, 2, 4, false);
    ck_assert_int_eq(end_with(&forged, none, &skipped), 3);
    forge_begin(&forged);
    forge_group(&forged, other, 1, 0, false);
    ck_assert_int_eq(end_with(&forged, none, &skipped), 1);
    ck_assert_uint_eq(skipped, 0);
    forge_begin(&forged);
    forge_group(&forged, mine, 5, 0, false);
    ck_assert_int_eq(end_with(&forged, none, &skipped), 1);
    ck_assert_uint_eq(skipped, 1);
    forge_begin(&forged);
    forge_group(&forged, mine, 1, -1, false);
    ck_assert_int_eq(end_with(&forged, none, &skipped), 1);
    ck_assert_uint_eq(skipped, 1);
    forge_begin(&forged);
    forge_group(&forged, mine, 1, 3, false);
    forge_group(&forged, mine, 2, 2, false);
    ck_assert_int_eq(end_with(&forged, none, &skipped), 2);
    forge_begin(&forged);
    forge_group(&forged, mine, 1, 0, true);
    ck_assert_int_eq(end_with(&forged, none, &skipped), 1);
    ck_assert_uint_eq(skipped, 1);
}
END_TEST

/* What lies in a file from an earlier use of it is not taken, whatever of it looks new; nor is what a checksum refuses,
 * nor another directory's journal. */
START_TEST(only_one_use_of_a_file_counts)
{
    static struct forged forged;
    uint32_t skipped = 0;
    size_t second = 0;

    forge_begin(&forged);
    forge_group(&forged, mine, 1, 0, false);
    forged.group.generation = 6;
    forge_group(&forged, mine, 2, 0, false);
    ck_assert_int_eq(end_with(&forged, none, &skipped), 2);
    forge_begin(&forged);
    forge_group(&forged, mine, 1, 0, false);
    forged.group.random = 98;
    forge_group(&forged, mine, 2, 0, false);
    ck_assert_int_eq(end_with(&forged, none, &skipped), 2);
    forge_begin(&forged);
    forge_group(&forged, mine, 1, 0, false);
    forged.group.number = 0; /* that number has been */
    forge_group(&forged, mine, 2, 0, false);
    ck_assert_int_eq(end_with(&forged, none, &skipped), 2);
    for (int part = 0; part < 3; part++) { /* the header is new, its entry is of an earlier use; or damaged */
        forge_begin(&forged);
        forge_group(&forged, mine, 1, 0, false);
        second = forged.size + JOURNAL_GROUP_HEADER_BYTES;
        forge_group(&forged, mine, 2, 0, false);
        if (part == 0)
            (void)journal_entry_seal(forged.bytes + second, 98, 1);
        else if (part == 1)
            (void)journal_entry_seal(forged.bytes + second, 99, 0);
        else
            forged.bytes[second + JOURNAL_ENTRY_HEADER_BYTES + 1] ^= 1; /* outside the batch's own checksum */
        ck_assert_int_eq(end_with(&forged, none, &skipped), 2);
    }
    forge_begin(&forged);
    forge_group(&forged, mine, 1, 0, false);
    second = forged.size;
    forge_group(&forged, mine, 2, 0, false);
    forged.bytes[second + 38] ^= 1; /* a byte of the group's header that nobody reads */
    ck_assert_int_eq(end_with(&forged, none, &skipped), 2);
    forge_begin(&forged);
    forged.header.directory_id = mine;
    forge_group(&forged, mine, 1, 0, false);
    ck_assert_int_eq(end_with(&forged, mine, &skipped), 2);
    ck_assert_int_eq(end_with(&forged, other, &skipped), 1);
}
END_TEST

/* A cut, a deletion and a move make all before them history. */
START_TEST(notes_make_history)
{
    static const enum journal_entry_type types[] = {JOURNAL_TRUNCATION, JOURNAL_DELETION, JOURNAL_MOVE};
    static struct forged forged;
    uint32_t skipped = 0;

    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        struct journal_entry note = {
            .type = types[i], .topic_id = mine, .leader_epoch = -1, .offset = 1, .end_offset = 1};
        uint8_t *at = NULL;

        forge_begin(&forged);
        forge_group(&forged, mine, 1, 0, false);
        at = forged.bytes + forged.size + JOURNAL_GROUP_HEADER_BYTES;
        forged.group.entries_bytes = (uint32_t)journal_entry_write(&note, at);
        (void)journal_entry_seal(at, forged.group.random, forged.group.number);
        journal_group_header_write(&forged.group, forged.bytes + forged.size);
        ck_assert_int_eq(end_with(&forged, none, &skipped), 1);
    }
}
END_TEST

/* An unknown version stops the start with a line. */
START_TEST(a_later_version_is_refused)
{
    struct partition_log *log = NULL;
    uint8_t *copy = NULL;
    struct bytes content;

    begin(1);
    log = world_log(&world);
    for (int i = 0; i < 5; i++) {
        (void)world_append(&world, log, &(struct batch_make){.value_bytes = 100});
        world_pass(&world, 20000000);
    }
    content = sim_fs_peek(&world.disk, "/data/ottla-journal-0-1");
    ck_assert_uint_gt(content.size, 0);
    copy = mem_alloc(content.size);
    memcpy(copy, content.data, content.size);
    make_version(copy, JOURNAL_VERSION + 1);
    sim_fs_poke(&world.disk, "/data/ottla-journal-0-1", bytes_of(copy, content.size));
    mem_free(copy);
    world.lines = 0;
    ck_assert_int_eq(restart(log, true), ERR_UNSUPPORTED_VERSION);
    ck_assert_uint_eq(world.lines, 1);
    world_end(&world);
}
END_TEST

/* --- whom to believe --- */

static struct log_dir_trust judge(bool clean)
{
    struct log_dir_trust trust;

    ck_assert_int_eq(log_dir_judge(&world.disk.fs, &world.log, "/data", clean, &trust), ERR_OK);
    return trust;
}

static void mark(enum boot_mark_state state)
{
    struct boot_mark mark = {state, fs_boot_id(&world.disk.fs)};

    ck_assert_int_eq(boot_mark_write(&world.disk.fs, "/data", &mark), ERR_OK);
}

START_TEST(trust_follows_the_marks)
{
    struct checkpoint_offset entry = {BYTES_LITERAL("t"), 0, 5};

    world_begin(&world, 1);
    world.sim.habits.cached_miss_percent = 0;
    ck_assert_int_eq(judge(false).trust, LOG_TRUST_SYNCED); /* no mark */
    mark(BOOT_MARK_RUNNING);
    ck_assert_int_eq(judge(false).trust, LOG_TRUST_WRITTEN);
    ck_assert_int_eq(checkpoint_write_offsets(&world.disk.fs, "/data", "recovery-point-offset-checkpoint", &entry, 1),
                     ERR_OK);
    ck_assert_int_eq(judge(false).trust, LOG_TRUST_WRITTEN);
    world.sim.habits.cached_miss_percent = 100; /* mounted anew */
    ck_assert_int_eq(judge(false).trust, LOG_TRUST_SYNCED);
    world.sim.habits.cached_miss_percent = 0;
    sim_fs_cut(&world.disk);
    sim_fs_forget_files(&world.disk);
    ck_assert_int_eq(judge(false).trust, LOG_TRUST_SYNCED); /* another boot */
    ck_assert(!judge(false).discard_journals);
    mark(BOOT_MARK_FAILED);
    ck_assert_int_eq(judge(false).trust, LOG_TRUST_REWRITE);
    mark(BOOT_MARK_RUNNING);
    ck_assert(judge(true).discard_journals); /* who stopped cleanly was not us */
    sim_fs_poke(&world.disk, "/data/recovery-point-offset-checkpoint", BYTES_LITERAL("0\n1\nt 0 5\n"));
    ck_assert(judge(false).discard_journals); /* nor who wrote that */
    ck_assert_int_eq(judge(false).trust, LOG_TRUST_SYNCED);
    mark(BOOT_MARK_STOPPED);
    ck_assert(!judge(true).discard_journals);
    ck_assert_int_eq(judge(true).trust, LOG_TRUST_ALL);
    world_end(&world);
}
END_TEST

/* The edge of REPLAY_FILES_MAX of journal_replay.c: more files of journals than any run leaves stop the start. */
START_TEST(so_many_files)
{
    enum { FILES = 4096 };
    struct journal_replay_options options = {.fs = &world.disk.fs, .log = &world.log, .log_dir = "/data"};
    struct journal_replay *read = NULL;
    char path[64];

    world_begin(&world, 30);
    for (int i = 1; i <= FILES + 1; i++) {
        (void)snprintf(path, sizeof(path), "/data/" JOURNAL_FILE_PREFIX "0-%d", i);
        sim_fs_poke(&world.disk, path, BYTES_LITERAL(""));
    }
    ck_assert_int_eq(journal_replay_open(&options, &read), ERR_LIMIT);
    ck_assert_int_eq(fs_unlink(&world.disk.fs, path), ERR_OK);
    ck_assert_int_eq(journal_replay_open(&options, &read), ERR_OK);
    ck_assert_uint_eq(journal_replay_file_count(read), FILES);
    journal_replay_free(read);
    world_end(&world);
}
END_TEST

RUN_TESTS("journal", a_boot_mark_reads_back, what_is_written_reads_back, nothing_synced_is_lost,
          a_failed_sync_promises_nothing, what_was_cut_does_not_come_back, only_what_continues_the_log_applies,
          only_one_use_of_a_file_counts, notes_make_history, a_later_version_is_refused, trust_follows_the_marks,
          so_many_files)
