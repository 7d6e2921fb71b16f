/*
 * Rules: what we build is byte for byte what Apache Kafka builds (plain batches, markers); null stays null, empty stays
 * empty, header order and repeated keys stay (B127), with every codec and after a change of codec, which keeps
 * producer, sequence, times, offsets and flags (B125); a full or failed builder is as it was.
 */
#include <check.h>

#include "base/big_endian.h"
#include "golden_batches.h"
#include "protocol/batch_build.h"

#define NULL_BYTES ((struct bytes){0})

static struct batch_builder builder;
static struct batch_spec spec;

static void setup(void)
{
    batch_spec_init(&spec);
    batch_builder_init(&builder, &spec);
}

static void teardown(void)
{
    batch_builder_deinit(&builder);
}

/* The four records of the golden batches. */
static void append_golden(void)
{
    struct record_header headers[3] = {
        {BYTES_LITERAL("h1"), BYTES_LITERAL("x")},
        {BYTES_LITERAL(""), NULL_BYTES},
        {BYTES_LITERAL("h1"), BYTES_LITERAL("")},
    };
    uint8_t key[70];
    uint8_t value[100];

    memset(key, 'k', sizeof(key));
    memset(value, 'v', sizeof(value));
    ck_assert_int_eq(
        batch_builder_append(&builder, 1700000000000, BYTES_LITERAL("key"), BYTES_LITERAL("value"), headers, 3),
        ERR_OK);
    ck_assert_int_eq(batch_builder_append(&builder, 1700000000005, NULL_BYTES, BYTES_LITERAL(""), NULL, 0), ERR_OK);
    ck_assert_int_eq(batch_builder_append(&builder, 1699999999990, BYTES_LITERAL(""), NULL_BYTES, NULL, 0), ERR_OK);
    ck_assert_int_eq(batch_builder_append(&builder, 1700000000100, bytes_of(key, sizeof(key)),
                                          bytes_of(value, sizeof(value)), NULL, 0),
                     ERR_OK);
}

static void golden_spec(enum codec codec)
{
    spec.leader_epoch = 9;
    spec.producer_id = 4000;
    spec.producer_epoch = 3;
    spec.base_sequence = 17;
    spec.transactional = true;
    spec.codec = codec;
    batch_builder_reset(&builder, &spec);
}

/* Whether two runs of records, each in a batch of any codec, are the same in everything a client can see. */
static void check_same_records(struct bytes a, struct bytes b)
{
    struct record_iter iters[2];
    struct record records[2];
    enum err err = ERR_OK;

    ck_assert_int_eq(record_iter_init(&iters[0], a, BATCH_OPENED_BYTES_MAX), ERR_OK);
    ck_assert_int_eq(record_iter_init(&iters[1], b, BATCH_OPENED_BYTES_MAX), ERR_OK);
    while ((err = record_iter_next(&iters[0], &records[0])) == ERR_OK) {
        ck_assert_int_eq(record_iter_next(&iters[1], &records[1]), ERR_OK);
        ck_assert_int_eq(records[0].offset, records[1].offset);
        ck_assert_int_eq(records[0].timestamp, records[1].timestamp);
        ck_assert_int_eq(records[0].key.data == NULL, records[1].key.data == NULL);
        ck_assert(bytes_equal(records[0].key, records[1].key));
        ck_assert_int_eq(records[0].value.data == NULL, records[1].value.data == NULL);
        ck_assert(bytes_equal(records[0].value, records[1].value));
        ck_assert_uint_eq(records[0].header_count, records[1].header_count);
        ck_assert(bytes_equal(records[0].headers, records[1].headers));
    }
    ck_assert_int_eq(err, ERR_END);
    ck_assert_int_eq(record_iter_next(&iters[1], &records[1]), ERR_END);
    record_iter_deinit(&iters[0]);
    record_iter_deinit(&iters[1]);
}

static struct bytes finish(void)
{
    uint8_t *batch = NULL;
    size_t size = 0;
    struct batch_header header;

    ck_assert_int_eq(batch_builder_finish(&builder, &batch, &size), ERR_OK);
    ck_assert_int_eq(batch_peek(bytes_of(batch, size), &header, NULL), ERR_OK);
    ck_assert_uint_eq(header.size, size);
    ck_assert(batch_crc_is_valid(bytes_of(batch, size)));
    return bytes_of(batch, size);
}

START_TEST(plain_batch_is_apache_kafkas)
{
    uint8_t golden[GOLDEN_BATCH_BYTES_MAX];
    size_t size = golden_bytes(golden_batches[CODEC_NONE], golden);
    struct bytes batch;

    golden_spec(CODEC_NONE);
    append_golden();
    ck_assert_uint_eq(batch_builder_size(&builder), size);
    batch = finish();
    ck_assert_uint_eq(batch.size, size);
    ck_assert_mem_eq(batch.data, golden, size);
}
END_TEST

START_TEST(marker_is_apache_kafkas)
{
    uint8_t golden[GOLDEN_BATCH_BYTES_MAX];
    size_t size = golden_bytes(golden_marker, golden);
    struct bytes batch;

    spec.base_offset = 42;
    spec.leader_epoch = 7;
    spec.producer_id = 4000;
    spec.producer_epoch = 3;
    spec.transactional = true;
    spec.control = true;
    batch_builder_reset(&builder, &spec);
    ck_assert_int_eq(
        batch_builder_append_control(&builder, 1700000000000, CONTROL_COMMIT, bytes_of("\0\0\0\0\0\x0b", 6)), ERR_OK);
    batch = finish();
    ck_assert_uint_eq(batch.size, size);
    ck_assert_mem_eq(batch.data, golden, size);
}
END_TEST

START_TEST(every_codec_reads_what_it_and_apache_kafka_wrote)
{
    uint8_t plain[GOLDEN_BATCH_BYTES_MAX];
    size_t plain_size = golden_bytes(golden_batches[CODEC_NONE], plain);

    for (enum codec codec = CODEC_NONE; codec < CODEC_COUNT; codec++) {
        uint8_t golden[GOLDEN_BATCH_BYTES_MAX];
        size_t size = golden_bytes(golden_batches[codec], golden);

        golden_spec(codec);
        append_golden();
        check_same_records(finish(), bytes_of(plain, plain_size));
        check_same_records(bytes_of(golden, size), bytes_of(plain, plain_size));
    }
}
END_TEST

/* Known traps B125, B127. */
START_TEST(a_change_of_codec_keeps_all_else)
{
    for (enum codec from = CODEC_NONE; from < CODEC_COUNT; from++)
        for (enum codec to = CODEC_NONE; to < CODEC_COUNT; to++) {
            uint8_t golden[GOLDEN_BATCH_BYTES_MAX];
            size_t size = golden_bytes(golden_batches[from], golden);
            uint8_t *result = NULL;
            size_t result_size = 0;
            struct batch_header after;

            batch_set_base_offset(golden, 1000);
            ck_assert_int_eq(batch_recompress(&builder, bytes_of(golden, size), to, CODEC_LEVEL_DEFAULT,
                                              BATCH_OPENED_BYTES_MAX, &result, &result_size),
                             ERR_OK);
            ck_assert_int_eq(batch_peek(bytes_of(result, result_size), &after, NULL), ERR_OK);
            ck_assert(batch_crc_is_valid(bytes_of(result, result_size)));
            check_same_records(bytes_of(golden, size), bytes_of(result, result_size));
            ck_assert_int_eq(batch_codec(&after), to);
            /* The header but for length, CRC and codec. */
            big_endian_store_u32(golden + BATCH_FIELD_LENGTH, big_endian_load_u32(result + BATCH_FIELD_LENGTH));
            big_endian_store_u32(golden + BATCH_FIELD_CRC, big_endian_load_u32(result + BATCH_FIELD_CRC));
            golden[BATCH_FIELD_ATTRIBUTES + 1] = (uint8_t)((golden[BATCH_FIELD_ATTRIBUTES + 1] & ~7) | (int)to);
            ck_assert_mem_eq(golden, result, BATCH_HEADER_BYTES);
        }
}
END_TEST

/* A plain batch of a codec-changing topic whose records are numbered 0, 0, 0: some old clients do that inside of
 * compressed batches, and Kafka numbers them anew. */
START_TEST(wrong_inner_offsets_are_numbered_anew)
{
    uint8_t *batch = NULL;
    size_t size = 0;
    struct record_iter iter;
    struct record record;

    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(batch_builder_append(&builder, 5, BYTES_LITERAL("k"), BYTES_LITERAL("v"), NULL, 0), ERR_OK);
    ck_assert_int_eq(batch_builder_finish(&builder, &batch, &size), ERR_OK);
    uint8_t copy[256];

    memcpy(copy, batch, size);
    for (size_t i = 0; i < 3; i++)
        copy[BATCH_HEADER_BYTES + i * (size - BATCH_HEADER_BYTES) / 3 + 3] = 0;
    batch_set_crc(copy);
    ck_assert_int_eq(batch_recompress(&builder, bytes_of(copy, size), CODEC_LZ4, CODEC_LEVEL_DEFAULT,
                                      BATCH_OPENED_BYTES_MAX, &batch, &size),
                     ERR_OK);
    ck_assert_int_eq(record_iter_init(&iter, bytes_of(batch, size), BATCH_OPENED_BYTES_MAX), ERR_OK);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(record_iter_next(&iter, &record), ERR_OK);
        ck_assert_int_eq(record.offset, i);
    }
    ck_assert_int_eq(record_iter_next(&iter, &record), ERR_END);
    record_iter_deinit(&iter);
}
END_TEST

START_TEST(a_full_batch_says_so_and_stays)
{
    size_t before = 0;
    int count = 0;

    spec.size_max = 1000;
    batch_builder_reset(&builder, &spec);
    while (batch_builder_append(&builder, 1, NULL_BYTES, BYTES_LITERAL("0123456789"), NULL, 0) == ERR_OK)
        count++;
    before = batch_builder_size(&builder);
    ck_assert_uint_le(before, 1000);
    ck_assert_uint_gt(before, 1000 - 10 - RECORD_BYTES_MIN - RECORD_VARINT_BYTES_MAX);
    ck_assert_int_eq(batch_builder_append(&builder, 1, NULL_BYTES, BYTES_LITERAL("0123456789"), NULL, 0),
                     ERR_MESSAGE_TOO_LARGE);
    ck_assert_uint_eq(batch_builder_size(&builder), before);
    ck_assert_int_eq(big_endian_load_u32(finish().data + BATCH_FIELD_RECORD_COUNT), count);
}
END_TEST

START_TEST(compaction_keeps_gaps)
{
    uint8_t golden[GOLDEN_BATCH_BYTES_MAX];
    size_t size = golden_bytes(golden_batches[CODEC_ZSTD], golden);
    struct record_iter iter;
    struct record record;
    struct batch_header header;
    struct bytes batch;

    batch_set_base_offset(golden, 500);
    spec.base_offset = 500;
    batch_builder_reset(&builder, &spec);
    ck_assert_int_eq(record_iter_init(&iter, bytes_of(golden, size), BATCH_OPENED_BYTES_MAX), ERR_OK);
    while (record_iter_next(&iter, &record) == ERR_OK)
        if (record.offset % 2 == 1)
            ck_assert_int_eq(batch_builder_copy(&builder, &record), ERR_OK);
    record_iter_deinit(&iter);
    batch = finish();
    batch_header_read(batch.data, &header);
    ck_assert_int_eq(header.record_count, 2);
    ck_assert_int_eq(batch_last_offset(&header), 503);
    ck_assert_int_eq(record_iter_init(&iter, batch, BATCH_OPENED_BYTES_MAX), ERR_OK);
    ck_assert_int_eq(record_iter_next(&iter, &record), ERR_OK);
    ck_assert_int_eq(record.offset, 501);
    ck_assert_int_eq(record.timestamp, 1700000000005);
    ck_assert_int_eq(record_iter_next(&iter, &record), ERR_OK);
    ck_assert_int_eq(record.offset, 503);
    ck_assert_int_eq(record.timestamp, 1700000000100);
    ck_assert_int_eq(record_iter_next(&iter, &record), ERR_END);
    record_iter_deinit(&iter);
}
END_TEST

/* KIP-534: the horizon takes the base timestamp's place, and no reader sees a record's time change. */
START_TEST(a_delete_horizon_leaves_times_alone)
{
    uint8_t golden[GOLDEN_BATCH_BYTES_MAX];
    size_t size = golden_bytes(golden_batches[CODEC_NONE], golden);
    struct record_iter iter;
    struct record record;
    struct batch_header header;
    struct bytes batch;

    spec.delete_horizon_ms = 1700000050000;
    spec.last_offset_delta_min = 3;
    batch_builder_reset(&builder, &spec);
    ck_assert_int_eq(record_iter_init(&iter, bytes_of(golden, size), BATCH_OPENED_BYTES_MAX), ERR_OK);
    while (record_iter_next(&iter, &record) == ERR_OK)
        if (record.offset < 2)
            ck_assert_int_eq(batch_builder_copy(&builder, &record), ERR_OK);
    record_iter_deinit(&iter);
    batch = finish();
    batch_header_read(batch.data, &header);
    ck_assert(batch_crc_is_valid(batch));
    ck_assert(batch_has(&header, BATCH_DELETE_HORIZON));
    ck_assert_int_eq(header.base_timestamp, 1700000050000);
    ck_assert_int_eq(header.max_timestamp, 1700000000005);
    ck_assert_int_eq(header.last_offset_delta, 3);
    ck_assert_int_eq(header.record_count, 2);
    ck_assert_int_eq(record_iter_init(&iter, batch, BATCH_OPENED_BYTES_MAX), ERR_OK);
    ck_assert_int_eq(record_iter_next(&iter, &record), ERR_OK);
    ck_assert_int_eq(record.timestamp, 1700000000000);
    ck_assert_int_eq(record_iter_next(&iter, &record), ERR_OK);
    ck_assert_int_eq(record.timestamp, 1700000000005);
    record_iter_deinit(&iter);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("batch_build");
    TCase *tcase = tcase_create("batch_build");
    SRunner *runner = srunner_create(suite);
    int failed = 0;

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, plain_batch_is_apache_kafkas);
    tcase_add_test(tcase, marker_is_apache_kafkas);
    tcase_add_test(tcase, every_codec_reads_what_it_and_apache_kafka_wrote);
    tcase_add_test(tcase, a_change_of_codec_keeps_all_else);
    tcase_add_test(tcase, wrong_inner_offsets_are_numbered_anew);
    tcase_add_test(tcase, a_full_batch_says_so_and_stays);
    tcase_add_test(tcase, compaction_keeps_gaps);
    tcase_add_test(tcase, a_delete_horizon_leaves_times_alone);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
