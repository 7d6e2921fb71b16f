/* Rule: snapshots are Kafka's files byte for byte (kraft.md "Snapshots"), whole or not there, and give back the image
 * they were made of. */
#include <check.h>
#include <stdio.h>

#include "base/mem.h"
#include "protocol/batch.h"
#include "raftmeta/metadata_limits.h"
#include "raftmeta/snapshot.h"
#include "raftmeta/transcript.h"
#include "sim/sim_fs.h"

static struct sim sim;
static struct sim_fs disk;
static struct loader loader;
static struct transcript before, after;

static void begin(void)
{
    struct image *nothing = image_new();

    sim_init(&sim, 1);
    sim_fs_init(&disk, &sim);
    ck_assert_int_eq(fs_mkdir(&disk.fs, "/m"), ERR_OK);
    ck_assert_int_eq(fs_sync_dir(&disk.fs, "/"), ERR_OK);
    loader_init(&loader, nothing);
    image_drop(nothing);
}

static void end(void)
{
    loader_deinit(&loader);
    sim_fs_deinit(&disk);
    sim_deinit(&sim);
}

START_TEST(names)
{
    struct snapshot_id id;
    char name[SNAPSHOT_NAME_CHARS_MAX];

    snapshot_name((struct snapshot_id){1234, 56}, name);
    ck_assert_str_eq(name, "00000000000000001234-0000000056.checkpoint");
    ck_assert(snapshot_parse_name(name, &id));
    ck_assert_int_eq(id.end_offset, 1234);
    ck_assert_int_eq(id.epoch, 56);
    ck_assert(!snapshot_parse_name("00000000000000001234-0000000056.checkpoint.part", &id));
    ck_assert(!snapshot_parse_name("00000000000000001234-0000000056.checkpoin", &id));
    ck_assert(!snapshot_parse_name("0000000000000001234-0000000056.checkpoint", &id));
    ck_assert(!snapshot_parse_name("99999999999999999999-0000000056.checkpoint", &id));
    ck_assert(!snapshot_parse_name("00000000000000001234-9999999999.checkpoint", &id));
    ck_assert(!snapshot_parse_name("bootstrap.checkpoint", &id));
    ck_assert(!snapshot_parse_name("", &id));
}
END_TEST

/* The control batch that kafka-storage wrote, made again from its own content. */
START_TEST(kafkas_voters_are_written_the_same)
{
    struct snapshot_source source = {.kraft_version = 1};
    struct batch_header header;
    size_t size = 0;
    uint8_t *golden = read_test_file("kafka-4.2/00000000000000000000-0000000000.checkpoint", &size);
    struct bytes made;

    begin();
    sim_fs_poke(&disk, "/m/golden", bytes_of(golden, size));
    ck_assert_int_eq(snapshot_load(&disk.fs, "/m/golden", -1, &loader), ERR_OK);
    ck_assert_int_eq(loader.facts.kraft_version, 1);
    ck_assert_uint_eq(loader.facts.voters.count, 1);
    ck_assert_str_eq(loader.facts.voters.voters[0].endpoints[0].name, "CONTROLLER");
    ck_assert_uint_eq(loader.facts.voters.voters[0].endpoints[0].port, 29393);
    ck_assert_int_eq(batch_peek(bytes_of(golden, size), &header, NULL), ERR_OK);
    source.voters = &loader.facts.voters;
    source.now_ms = header.base_timestamp;
    source.last_ms = loader.facts.snapshot_timestamp_ms;
    ck_assert_int_eq(snapshot_write(&disk.fs, "/m/made", &source), ERR_OK);
    made = sim_fs_peek(&disk, "/m/made");
    ck_assert_uint_gt(made.size, header.size);
    ck_assert(bytes_equal(bytes_of(made.data, header.size), bytes_of(golden, header.size)));
    mem_free(golden);
    end();
}
END_TEST

START_TEST(an_image_comes_back)
{
    struct snapshot_source source = {.now_ms = 5, .last_ms = 4, .epoch = 2};
    struct loader again;
    struct image *nothing = image_new();
    size_t size = 0;
    size_t position = 0;
    uint8_t *log = read_test_file("kafka-4.2/00000000000000000000.log", &size);

    begin();
    while (position < size) {
        struct batch_header header;

        ck_assert_int_eq(batch_peek(bytes_of(log + position, size - position), &header, NULL), ERR_OK);
        ck_assert_int_eq(loader_batch(&loader, bytes_of(log + position, header.size), LOADER_OWN_OFFSETS), ERR_OK);
        position += header.size;
    }
    ck_assert_int_eq(loader_flush(&loader), ERR_OK);
    source.image = loader.image;
    source.voters = &loader.facts.voters;
    source.kraft_version = 1;
    ck_assert_int_eq(snapshot_write(&disk.fs, "/m/x.checkpoint", &source), ERR_OK);
    loader_init(&again, nothing);
    ck_assert_int_eq(snapshot_load(&disk.fs, "/m/x.checkpoint", image_offset(loader.image), &again), ERR_OK);
    ck_assert_int_eq(image_offset(again.image), image_offset(loader.image));
    ck_assert_int_eq(image_feature(again.image, BYTES_LITERAL("kraft.version")), 1);
    transcript_begin(&before);
    transcript_begin(&after);
    transcript_image(&before, loader.image);
    transcript_image(&after, again.image);
    ck_assert_uint_gt(before.size, 1000);
    ck_assert_str_eq(before.text, after.text);
    loader_deinit(&again);
    image_drop(nothing);
    mem_free(log);
    end();
}
END_TEST

/* An image of so many groups with a setting of this size each. */
static void fill(uint32_t count, size_t value_bytes)
{
    static uint8_t value[INT16_MAX];
    struct image_edit *edit = image_edit_new(loader.image);
    struct image_delta *delta = NULL;
    struct image *made = NULL;

    ck_assert_ptr_nonnull(edit);
    memset(value, 'v', sizeof(value));
    for (uint32_t i = 0; i < count; i++) {
        struct metadata_record record;
        char name[16];

        metadata_record_init(&record, RECORD_CONFIG, 29);
        (void)snprintf(name, sizeof(name), "g%u", i);
        record.config.resource_type = CONFIG_GROUP;
        record.config.resource_name = bytes_of_text(name);
        record.config.name = BYTES_LITERAL("k");
        record.config.value = bytes_of(value, value_bytes);
        ck_assert_int_eq(image_edit_apply(edit, &record, (int64_t)i), ERR_OK);
    }
    ck_assert_int_eq(image_edit_finish(edit, (int64_t)count, 1, 0, &made, &delta), ERR_OK);
    image_delta_drop(delta);
    image_drop(loader.image);
    loader.image = made;
}

/* Writes it, and gives the batches of records behind that of the header. */
static uint32_t write_and_look(struct batch_header *batches, uint32_t room)
{
    struct snapshot_source source = {.now_ms = 5, .last_ms = 4, .epoch = 2, .image = loader.image};
    struct bytes file;
    uint32_t count = 0;

    ck_assert_int_eq(snapshot_write(&disk.fs, "/m/x.checkpoint", &source), ERR_OK);
    file = sim_fs_peek(&disk, "/m/x.checkpoint");
    while (file.size > 0) {
        ck_assert_uint_lt(count, room);
        ck_assert_int_eq(batch_peek(file, &batches[count], NULL), ERR_OK);
        file = bytes_of(file.data + batches[count].size, file.size - batches[count].size);
        count++;
    }
    memmove(batches, batches + 1, (count - 1) * sizeof(*batches));
    return count - 2; /* nor that of the footer */
}

/* The edges of SNAPSHOT_BATCH_RECORDS_MAX and METADATA_BATCH_BYTES_MAX: what is over goes into the next batch. */
START_TEST(a_batch_holds_so_much)
{
    struct batch_header batches[8];

    begin();
    fill(SNAPSHOT_BATCH_RECORDS_MAX, 1);
    ck_assert_uint_eq(write_and_look(batches, 8), 1);
    ck_assert_int_eq(batches[0].record_count, SNAPSHOT_BATCH_RECORDS_MAX);
    end();
    begin();
    fill(SNAPSHOT_BATCH_RECORDS_MAX + 1, 1);
    ck_assert_uint_eq(write_and_look(batches, 8), 2);
    ck_assert_int_eq(batches[0].record_count, SNAPSHOT_BATCH_RECORDS_MAX);
    ck_assert_int_eq(batches[1].record_count, 1);
    end();
    begin();
    fill(METADATA_BATCH_BYTES_MAX / INT16_MAX + 1, INT16_MAX);
    ck_assert_uint_eq(write_and_look(batches, 8), 2);
    ck_assert_uint_le(batches[0].size, METADATA_BATCH_BYTES_MAX);
    ck_assert_uint_gt(batches[0].size, METADATA_BATCH_BYTES_MAX - INT16_MAX - 100); /* not one more would fit */
    end();
}
END_TEST

static uint64_t claimed_bytes;

static enum err claim_size(struct fs_file *file, uint64_t *size)
{
    (void)file;
    *size = claimed_bytes;
    return ERR_OK;
}

/* The edge of SNAPSHOT_BYTES_MAX, for a file that says it is as large. */
START_TEST(a_file_that_is_too_large_is_not_read)
{
    struct fs_ops ops;

    begin();
    ops = *disk.fs.ops;
    ops.size = claim_size;
    disk.fs.ops = &ops;
    sim_fs_poke(&disk, "/m/x.checkpoint", BYTES_LITERAL(""));
    claimed_bytes = SNAPSHOT_BYTES_MAX;
    ck_assert_int_eq(snapshot_load(&disk.fs, "/m/x.checkpoint", 9, &loader), ERR_OK);
    claimed_bytes++;
    ck_assert_int_eq(snapshot_load(&disk.fs, "/m/x.checkpoint", 9, &loader), ERR_LIMIT);
    end();
}
END_TEST

START_TEST(a_flipped_bit_is_found)
{
    struct snapshot_source source = {.now_ms = 5, .last_ms = 4, .epoch = 2};

    begin();
    ck_assert_int_eq(snapshot_write(&disk.fs, "/m/x.checkpoint", &source), ERR_OK);
    ck_assert(sim_fs_flip(&disk, "/m/x.checkpoint", 60, 4));
    ck_assert_int_eq(snapshot_load(&disk.fs, "/m/x.checkpoint", 9, &loader), ERR_DAMAGED);
    ck_assert_str_ne(loader.message, "");
    end();
}
END_TEST

START_TEST(old_ones_are_removed)
{
    static const struct snapshot_id ids[] = {{0, 0}, {5, 1}, {9, 1}, {9, 2}, {30, 2}};
    struct snapshot_source source = {.now_ms = 5};
    struct snapshot_id newest;
    struct fs_info info;
    char name[SNAPSHOT_NAME_CHARS_MAX];

    begin();
    ck_assert_int_eq(snapshot_find(&disk.fs, "/m", &newest), ERR_NOT_FOUND);
    for (uint32_t i = 0; i < 5; i++) {
        char path[SNAPSHOT_PATH_CHARS_MAX];

        snapshot_name(ids[i], name);
        (void)snprintf(path, sizeof(path), "/m/%s", name);
        ck_assert_int_eq(snapshot_write(&disk.fs, path, &source), ERR_OK);
    }
    sim_fs_poke(&disk, "/m/00000000000000000040-0000000002.checkpoint.part", BYTES_LITERAL("x"));
    ck_assert_int_eq(snapshot_clean(&disk.fs, "/m", 2), ERR_OK);
    ck_assert_int_eq(snapshot_find(&disk.fs, "/m", &newest), ERR_OK);
    ck_assert_int_eq(newest.end_offset, 30);
    for (uint32_t i = 0; i < 5; i++) {
        char path[SNAPSHOT_PATH_CHARS_MAX];

        snapshot_name(ids[i], name);
        (void)snprintf(path, sizeof(path), "/m/%s", name);
        ck_assert_int_eq(fs_stat(&disk.fs, path, &info), i == 1 || i == 2 ? ERR_NOT_FOUND : ERR_OK);
    }
    ck_assert_int_eq(fs_stat(&disk.fs, "/m/00000000000000000040-0000000002.checkpoint.part", &info), ERR_NOT_FOUND);
    end();
}
END_TEST

/* Whatever call the machine dies at: a file that has its name is whole. */
START_TEST(a_crash_leaves_none_or_a_whole_one)
{
    for (uint64_t k = 1;; k++) {
        struct snapshot_source source = {.now_ms = 5, .last_ms = 4, .epoch = 2};
        bool struck = false;
        enum err err = ERR_OK;

        begin();
        sim_fs_set_fault(&disk, SIM_FS_DIE, SIM_FS_ANY, k, ERR_IO);
        err = snapshot_write(&disk.fs, "/m/00000000000000000030-0000000002.checkpoint", &source);
        struck = sim_fs_fault_struck(&disk);
        sim_fs_cut(&disk);
        enum err loaded = snapshot_load(&disk.fs, "/m/00000000000000000030-0000000002.checkpoint", 29, &loader);
        ck_assert(loaded == ERR_OK || (loaded == ERR_NOT_FOUND && err != ERR_OK));
        end();
        if (!struck)
            break;
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("snapshot");
    TCase *tcase = tcase_create("snapshot");
    SRunner *runner = srunner_create(suite);
    int failed = 0;

    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, names);
    tcase_add_test(tcase, kafkas_voters_are_written_the_same);
    tcase_add_test(tcase, an_image_comes_back);
    tcase_add_test(tcase, a_batch_holds_so_much);
    tcase_add_test(tcase, a_file_that_is_too_large_is_not_read);
    tcase_add_test(tcase, a_flipped_bit_is_found);
    tcase_add_test(tcase, old_ones_are_removed);
    tcase_add_test(tcase, a_crash_leaves_none_or_a_whole_one);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
