/*
 * log_tool: our log code on real files, for the suites that compare them with Apache Kafka's.
 *
 *   log_tool read DIR TOPIC PARTITION [unclean]   every batch, a line each, then offsets, epochs, producers
 *   log_tool write DIR TOPIC PARTITION BATCHES SEGMENT_BYTES
 *                                                 appends that many batches of all codecs, with producers; a clean stop
 *   log_tool journal DIR TOPIC PARTITION BATCHES SEGMENT_BYTES
 *                                                 the same with flush.messages=1 and a journal, killed at the end
 *   log_tool transactions DIR TOPIC PARTITION BATCHES SEGMENT_BYTES
 *                                                 transactions of three producers that overlap, every other one aborted
 */
#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/mem.h"
#include "partition/boot_mark.h"
#include "partition/checkpoint.h"
#include "partition/journal.h"
#include "partition/log_path.h"
#include "protocol/record.h"
#include "world.h"

static struct world world;
static struct fs files;

static void real_begin(const char *dir, const char *topic, const char *partition)
{
    struct log_path path;
    struct log_dir_name name;
    struct uuid there;

    world_begin(&world, 1);
    world.verbose = true;
    fs_init_real(&files);
    clock_init_real(&world.sim.clock);
    world.env.fs = &files;
    world.env.log_dir = dir;
    world.spec.topic = bytes_of_text(topic);
    world.spec.partition = (int32_t)strtol(partition, NULL, 10);
    if (log_path_dir_name(&name, world.spec.topic, world.spec.partition) == ERR_OK &&
        log_path_in(&path, dir, name.text) == ERR_OK && checkpoint_read_topic_id(&files, path.text, &there) == ERR_OK)
        world.spec.topic_id = there;
}

static enum err print_batch(void *context, struct bytes batch)
{
    struct batch_header header;
    struct record_iter iter;
    struct record record;
    uint64_t sum = 0;
    int32_t count = 0;
    enum err err = ERR_OK;

    (void)context;
    batch_header_read(batch.data, &header);
    err = record_iter_init(&iter, batch, BATCH_OPENED_BYTES_MAX);
    while (err == ERR_OK && (err = record_iter_next(&iter, &record)) == ERR_OK) {
        sum += record.key.size + record.value.size;
        count++;
    }
    record_iter_deinit(&iter);
    printf("batch base=%" PRId64 " last=%" PRId64 " epoch=%" PRId32 " crc=%" PRIu32 " max_timestamp=%" PRId64
           " producer=%" PRId64 " sequence=%" PRId32 " records=%" PRId32 " payload=%" PRIu64 "\n",
           header.base_offset, batch_last_offset(&header), header.leader_epoch, header.crc, header.max_timestamp,
           header.producer_id, header.base_sequence, count, sum);
    return err == ERR_END ? ERR_OK : err;
}

static int run_read(bool unclean)
{
    struct partition_log *log = NULL;
    enum err err = ERR_OK;

    world.spec.clean = !unclean;
    err = partition_log_open(&world.env, &world.spec, &log, NULL);
    if (err != ERR_OK) {
        fprintf(stderr, "log_tool: not opened: %s\n", err_name(err));
        return EXIT_FAILURE;
    }
    partition_log_adopt(log);
    err = partition_log_scan(log, 0, print_batch, NULL);
    printf("start=%" PRId64 " end=%" PRId64 " segments=%" PRIu32 " last_epoch=%" PRId32 " bytes=%" PRIu64 " %s\n",
           partition_log_start_offset(log), partition_log_end_offset(log), partition_log_segment_count(log),
           partition_log_last_epoch(log), partition_log_size(log), err_name(err));
    world_close(&world, log);
    return err == ERR_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}

static struct partition_log *write_batches(uint32_t batches, int64_t segment_bytes)
{
    struct partition_log *log = NULL;

    world.spec.config.segment_bytes = segment_bytes;
    world.spec.config.index_interval_bytes = 1000;
    log = world_log(&world);
    for (uint32_t i = 0; i < batches; i++)
        world_append(&world, log,
                     &(struct batch_make){.record_count = 1 + i % 7,
                                          .value_bytes = i * 31 % 900,
                                          .timestamp = clock_wall_ms(&world.sim.clock) - batches + i,
                                          .producer_id = i % 3 == 0 ? 1000 : 0,
                                          .base_sequence = 0,
                                          .producer_epoch = (int16_t)(i / 3),
                                          .codec = (enum codec)(i % CODEC_COUNT),
                                          .fill = (uint8_t)('a' + i % 26)});
    return log;
}

static int run_write(uint32_t batches, int64_t segment_bytes)
{
    world_close(&world, write_batches(batches, segment_bytes));
    return EXIT_SUCCESS;
}

static int run_journal(uint32_t batches, int64_t segment_bytes)
{
    struct journal_options options = {.generation = 1, .bytes_max = 64 * 1024 * 1024};
    struct boot_mark mark = {BOOT_MARK_RUNNING, fs_boot_id(&files)};

    ck_assert_int_eq(boot_mark_write(&files, world.env.log_dir, &mark), ERR_OK);
    ck_assert_int_eq(journal_new(&world.env, &options, &world.env.journal), ERR_OK);
    world.env.limits.sync_interval_ns = INT64_C(1000000000000); /* the segments stay behind */
    world.spec.config.flush_messages = 1;
    ck_assert_int_eq(world_sync(&world, write_batches(batches, segment_bytes)), ERR_OK);
    _exit(EXIT_SUCCESS);
}

static void put(struct partition_log *log, uint8_t *batch, size_t size)
{
    struct appended appended;

    ck_assert_int_eq(world_append_run(&world, log, batch, size, LOG_ORIGIN_COORDINATOR, &appended), ERR_OK);
    mem_free(batch);
}

/* Producers 1 to 3 take turns; each ends its transaction at its fourth batch. */
static int run_transactions(uint32_t batches, int64_t segment_bytes)
{
    struct partition_log *log = NULL;
    int32_t sequences[4] = {0};

    world.spec.config.segment_bytes = segment_bytes;
    world.spec.config.index_interval_bytes = 1000;
    log = world_log(&world);
    for (uint32_t i = 0; i < batches; i++) {
        int64_t producer_id = 1 + i % 3;
        size_t size = 0;
        uint8_t *batch = make_batch(&(struct batch_make){.value_bytes = i * 31 % 900,
                                                         .timestamp = clock_wall_ms(&world.sim.clock),
                                                         .producer_id = producer_id,
                                                         .base_sequence = sequences[producer_id]++,
                                                         .transactional = true,
                                                         .codec = (enum codec)(i % CODEC_COUNT),
                                                         .fill = (uint8_t)('a' + i % 26)},
                                    &size);

        put(log, batch, size);
        if (sequences[producer_id] % 4 == 0) {
            batch = make_marker(producer_id, 0, sequences[producer_id] % 8 == 0, 1, &size);
            put(log, batch, size);
        }
    }
    world_close(&world, log);
    return EXIT_SUCCESS;
}

static int arg_count;
static char **args;
static int result = 2;

/* world's helpers assert as tests do, so the work is one. */
START_TEST(work)
{
    real_begin(args[2], args[3], args[4]);
    if (strcmp(args[1], "read") == 0)
        result = run_read(arg_count > 5);
    else if (strcmp(args[1], "transactions") == 0)
        result = run_transactions((uint32_t)strtoul(args[5], NULL, 10), strtoll(args[6], NULL, 10));
    else if (strcmp(args[1], "journal") == 0)
        result = run_journal((uint32_t)strtoul(args[5], NULL, 10), strtoll(args[6], NULL, 10));
    else
        result = run_write((uint32_t)strtoul(args[5], NULL, 10), strtoll(args[6], NULL, 10));
    world_end(&world);
}
END_TEST

int main(int count, char **words)
{
    Suite *suite = suite_create("log_tool");
    TCase *tests = tcase_create("log_tool");
    SRunner *runner = NULL;
    bool reads = count >= 5 && strcmp(words[1], "read") == 0;
    bool writes = count == 7 && (strcmp(words[1], "write") == 0 || strcmp(words[1], "journal") == 0 ||
                                 strcmp(words[1], "transactions") == 0);

    if (!reads && !writes) {
        fprintf(stderr,
                "usage: log_tool read DIR TOPIC PARTITION [unclean] | write|journal|transactions DIR TOPIC PARTITION "
                "BATCHES SEGMENT_BYTES\n");
        return 2;
    }
    arg_count = count;
    args = words;
    tcase_add_test(tests, work);
    tcase_set_timeout(tests, 0);
    suite_add_tcase(suite, tests);
    runner = srunner_create(suite);
    srunner_set_fork_status(runner, CK_NOFORK);
    srunner_run_all(runner, CK_SILENT);
    if (srunner_ntests_failed(runner) > 0) {
        srunner_print(runner, CK_NORMAL);
        result = EXIT_FAILURE;
    }
    srunner_free(runner);
    return result;
}
