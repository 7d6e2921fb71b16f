/* Rule: a log becomes the image that its records make (controller.md "Record types"); a transaction is there as a whole
 * or not at all; what is not known stops the load by its name. */
#include <check.h>
#include <stdarg.h>

#include "base/mem.h"
#include "protocol/batch.h"
#include "protocol/batch_build.h"
#include "raftmeta/loader.h"
#include "raftmeta/transcript.h"

static struct transcript out;
static struct loader loader;
static struct batch_builder builder;
static struct arena arena;
static int64_t next_offset;
static int64_t as_offset = LOADER_OWN_OFFSETS;

static void made(void *context, struct image *image, const struct image_delta *delta)
{
    (void)context;
    if (image_delta_is_empty(delta))
        return; /* NoOp records */
    transcript_say(&out, "image %lld..%lld:", (long long)delta->from_offset, (long long)image_offset(image));
    transcript_delta(&out, delta);
}

static void begin(void)
{
    struct image *nothing = image_new();
    struct batch_spec spec;

    transcript_begin(&out);
    arena_init(&arena, 1024 * 1024);
    loader_init(&loader, nothing);
    loader.made = made;
    image_drop(nothing);
    batch_spec_init(&spec);
    batch_builder_init(&builder, &spec);
    next_offset = 0;
}

static void end(void)
{
    batch_builder_deinit(&builder);
    loader_deinit(&loader);
    arena_deinit(&arena);
}

START_TEST(kafkas_own_log)
{
    size_t size = 0;
    size_t position = 0;
    uint8_t *log = read_test_file("kafka-4.2/00000000000000000000.log", &size);

    begin();
    while (position < size) {
        struct batch_header header;
        struct bytes batch;

        ck_assert_int_eq(batch_peek(bytes_of(log + position, size - position), &header, NULL), ERR_OK);
        batch = bytes_of(log + position, header.size);
        ck_assert(batch_crc_is_valid(batch));
        ck_assert_int_eq(loader_batch(&loader, batch, LOADER_OWN_OFFSETS), ERR_OK);
        ck_assert_int_eq(loader_flush(&loader), ERR_OK);
        position += header.size;
    }
    transcript_say(&out, "leader %d kraft.version %d voters %u\n", loader.facts.leader, loader.facts.kraft_version,
                   loader.facts.voters.count);
    transcript_image(&out, loader.image);
    transcript_expect(&out, "kafka_log");
    mem_free(log);
    end();
}
END_TEST

/* One batch of the given records. */
static enum err load(uint32_t count, ...)
{
    struct batch_spec spec;
    uint8_t *batch = NULL;
    size_t size = 0;
    va_list list;

    batch_spec_init(&spec);
    spec.base_offset = next_offset;
    batch_builder_reset(&builder, &spec);
    va_start(list, count);
    for (uint32_t i = 0; i < count; i++) {
        const struct metadata_record *record = va_arg(list, const struct metadata_record *);
        struct bytes frame;

        ck_assert_int_eq(metadata_record_write(record, &arena, &frame), ERR_OK);
        ck_assert_int_eq(batch_builder_append(&builder, 1, (struct bytes){NULL, 0}, frame, NULL, 0), ERR_OK);
    }
    va_end(list);
    next_offset += count;
    ck_assert_int_eq(batch_builder_finish(&builder, &batch, &size), ERR_OK);
    return loader_batch(&loader, bytes_of(batch, size), as_offset);
}

static struct metadata_record of_kind(enum metadata_record_kind kind)
{
    struct metadata_record record;

    metadata_record_init(&record, kind, 29);
    return record;
}

static struct metadata_record topic(const char *name, uint8_t id)
{
    struct metadata_record record = of_kind(RECORD_TOPIC);

    record.topic.name = bytes_of_text(name);
    record.topic.topic_id = test_uuid(id);
    return record;
}

START_TEST(a_transaction_spans_batches)
{
    struct metadata_record begins = of_kind(RECORD_BEGIN_TRANSACTION);
    struct metadata_record ends = of_kind(RECORD_END_TRANSACTION);
    struct metadata_record aborts = of_kind(RECORD_ABORT_TRANSACTION);
    struct metadata_record a = topic("a", 1);
    struct metadata_record b = topic("b", 2);
    struct metadata_record c = topic("c", 3);
    struct metadata_record d = topic("d", 4);

    begin();
    ck_assert_int_eq(load(3, &a, &begins, &b), ERR_OK);
    ck_assert_int_eq(loader_flush(&loader), ERR_OK);
    ck_assert_ptr_null(image_topic_by_name(loader.image, BYTES_LITERAL("b")));
    ck_assert_int_eq(load(2, &ends, &c), ERR_OK);
    ck_assert_int_eq(loader_flush(&loader), ERR_OK);
    ck_assert_int_eq(load(1, &begins), ERR_OK);
    ck_assert_int_eq(load(2, &d, &aborts), ERR_OK);
    ck_assert_int_eq(loader_flush(&loader), ERR_OK);
    ck_assert_int_eq(load(2, &begins, &d), ERR_OK);
    ck_assert(loader.transaction_open);
    loader_abort(&loader); /* the leader is gone */
    ck_assert_int_eq(load(1, &d), ERR_OK);
    ck_assert_int_eq(loader_flush(&loader), ERR_OK);
    transcript_expect(&out, "transactions");
    ck_assert_int_eq(load(1, &ends), ERR_DAMAGED);
    end();
}
END_TEST

START_TEST(what_is_not_known_stops_the_load_by_name)
{
    struct metadata_record level = of_kind(RECORD_FEATURE_LEVEL);
    struct bytes frame = BYTES_LITERAL("\x01\x1d\x00\x00");
    struct batch_spec spec;
    uint8_t *batch = NULL;
    size_t size = 0;

    begin();
    level.feature_level.name = BYTES_LITERAL("metadata.version");
    level.feature_level.feature_level = 30;
    ck_assert_int_eq(load(1, &level), ERR_UNSUPPORTED_VERSION);
    ck_assert_str_eq(loader.message, "offset 0: metadata.version 30 is not one this build knows (7 to 29)");
    batch_spec_init(&spec);
    spec.base_offset = 1;
    batch_builder_reset(&builder, &spec);
    ck_assert_int_eq(batch_builder_append(&builder, 1, (struct bytes){NULL, 0}, frame, NULL, 0), ERR_OK);
    ck_assert_int_eq(batch_builder_finish(&builder, &batch, &size), ERR_OK);
    ck_assert_int_eq(loader_batch(&loader, bytes_of(batch, size), LOADER_OWN_OFFSETS), ERR_UNSUPPORTED_VERSION);
    ck_assert_str_eq(loader.message, "offset 1: record type 29 (unknown) version 0 is not one this build knows");
    end();
}
END_TEST

START_TEST(records_about_what_is_not_there_are_damage)
{
    struct metadata_record partition = of_kind(RECORD_PARTITION);
    struct metadata_record a = topic("a", 1);

    partition.partition.partition_id = 0;
    partition.partition.topic_id = test_uuid(9);
    begin();
    ck_assert_int_eq(load(1, &partition), ERR_DAMAGED);
    ck_assert_str_eq(loader.message, "offset 0: PARTITION 0 of the unknown topic id AAAAAAAAAAAAAAAAAAAACQ");
    end();
    begin();
    ck_assert_int_eq(load(2, &a, &a), ERR_DAMAGED);
    end();
    begin(); /* a gap in a topic's partitions */
    partition.partition.partition_id = 1;
    partition.partition.topic_id = test_uuid(1);
    ck_assert_int_eq(load(2, &a, &partition), ERR_OK);
    ck_assert_int_eq(loader_flush(&loader), ERR_DAMAGED);
    end();
}
END_TEST

/* Found by fuzzing: offsets that go back made an image older than the one it followed. */
START_TEST(offsets_only_rise)
{
    struct metadata_record a = topic("a", 1);
    struct metadata_record b = topic("b", 2);

    begin();
    ck_assert_int_eq(load(1, &a), ERR_OK);
    next_offset = 0;
    ck_assert_int_eq(load(1, &b), ERR_DAMAGED);
    ck_assert_str_eq(loader.message, "a record at offset 0 comes after offset 0");
    end();
}
END_TEST

/* Found by fuzzing: a snapshot's records are all at one offset, so a transaction has no place in it. */
START_TEST(a_snapshot_holds_no_transaction)
{
    struct metadata_record begins = of_kind(RECORD_BEGIN_TRANSACTION);

    begin();
    as_offset = 7;
    ck_assert_int_eq(load(1, &begins), ERR_DAMAGED);
    as_offset = LOADER_OWN_OFFSETS;
    end();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("loader");
    TCase *tcase = tcase_create("loader");
    SRunner *runner = srunner_create(suite);
    int failed = 0;

    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, kafkas_own_log);
    tcase_add_test(tcase, a_transaction_spans_batches);
    tcase_add_test(tcase, what_is_not_known_stops_the_load_by_name);
    tcase_add_test(tcase, records_about_what_is_not_there_are_damage);
    tcase_add_test(tcase, offsets_only_rise);
    tcase_add_test(tcase, a_snapshot_holds_no_transaction);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
