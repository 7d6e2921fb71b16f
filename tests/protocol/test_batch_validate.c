/*
 * Rules: the leader's checks of replication.md 5, each with the error that Apache Kafka gives; hostile records (known
 * trap B118), keys of compacted topics (B121), times (B122); nothing is written into a batch that is refused.
 */
#include <check.h>

#include "base/big_endian.h"
#include "golden_batches.h"
#include "protocol/batch_build.h"
#include "protocol/batch_validate.h"

#define NULL_BYTES ((struct bytes){0})

enum { NOW_MS_OFFSET = 1000, ROOM = 4096 };

static const int64_t now_ms = 1700000000000 + NOW_MS_OFFSET;
static uint8_t batch[ROOM];
static size_t batch_size;
static struct batch_rules rules;
static struct batch_verdict verdict;
static struct batch_spec spec;
static struct batch_builder builder;
static struct arena arena;

static void setup(void)
{
    arena_init(&arena, 1 << 20);
    batch_rules_init(&rules);
    rules.now_ms = now_ms;
    batch_spec_init(&spec);
    batch_builder_init(&builder, &spec);
    batch_size = golden_bytes(golden_batches[CODEC_NONE], batch);
}

static void teardown(void)
{
    batch_builder_deinit(&builder);
    arena_deinit(&arena);
}

/* Validates; a refused batch must be as it was. */
static enum err validate(void)
{
    static uint8_t before[ROOM];
    enum err err = ERR_OK;

    memcpy(before, batch, batch_size);
    arena_reset(&arena);
    err = batch_validate(batch, batch_size, &rules, &arena, &verdict);
    if (err != ERR_OK || !verdict.rewritten)
        ck_assert_mem_eq(before, batch, batch_size);
    if (err == ERR_OK)
        ck_assert(batch_crc_is_valid(bytes_of(batch, batch_size)));
    return err;
}

static void finish(void)
{
    uint8_t *built = NULL;

    ck_assert_int_eq(batch_builder_finish(&builder, &built, &batch_size), ERR_OK);
    ck_assert_uint_le(batch_size, ROOM);
    memcpy(batch, built, batch_size);
}

/* A batch whose body is the given bytes, with a right CRC. */
static void set_body(const void *body, size_t size, int32_t record_count)
{
    batch_size = BATCH_HEADER_BYTES + size;
    if (size > 0)
        memmove(batch + BATCH_HEADER_BYTES, body, size);
    big_endian_store_u32(batch + BATCH_FIELD_LENGTH, (uint32_t)(batch_size - BATCH_LENGTH_BIAS_BYTES));
    big_endian_store_u32(batch + BATCH_FIELD_RECORD_COUNT, (uint32_t)record_count);
    big_endian_store_u32(batch + BATCH_FIELD_LAST_OFFSET_DELTA, (uint32_t)record_count - 1);
    batch_set_crc(batch);
}

static void set_u32(enum batch_field field, uint32_t value)
{
    batch_size = golden_bytes(golden_batches[CODEC_NONE], batch);
    big_endian_store_u32(batch + field, value);
    if (field > BATCH_FIELD_CRC)
        batch_set_crc(batch);
}

START_TEST(good_batches_pass_untouched)
{
    for (enum codec codec = CODEC_NONE; codec < CODEC_COUNT; codec++)
        for (int open = 0; open < 2; open++) {
            batch_size = golden_bytes(golden_batches[codec], batch);
            rules.open_compressed = open == 1;
            ck_assert_int_eq(validate(), ERR_OK);
            ck_assert(!verdict.rewritten);
            ck_assert(!verdict.rebuild);
            ck_assert_int_eq(verdict.header.record_count, 4);
        }
}
END_TEST

START_TEST(exactly_one_whole_batch)
{
    size_t whole = batch_size;

    for (batch_size = 0; batch_size < whole; batch_size++)
        ck_assert_int_eq(validate(), ERR_INVALID_RECORD);
    memcpy(batch + whole, batch, whole);
    batch_size = whole * 2;
    ck_assert_int_eq(validate(), ERR_INVALID_RECORD);
    batch_size = whole + 1;
    ck_assert_int_eq(validate(), ERR_INVALID_RECORD);
    batch_size = whole;
    batch[BATCH_FIELD_MAGIC] = 1;
    ck_assert_int_eq(validate(), ERR_INVALID_RECORD);
    batch[BATCH_FIELD_MAGIC] = 3;
    ck_assert_int_eq(validate(), ERR_CORRUPT_MESSAGE);
}
END_TEST

START_TEST(sizes_at_their_limits)
{
    rules.max_message_bytes = (int32_t)batch_size;
    rules.segment_bytes = (int64_t)batch_size;
    ck_assert_int_eq(validate(), ERR_OK);
    rules.segment_bytes--;
    ck_assert_int_eq(validate(), ERR_RECORD_LIST_TOO_LARGE);
    rules.max_message_bytes--;
    ck_assert_int_eq(validate(), ERR_MESSAGE_TOO_LARGE);
    ck_assert_ptr_nonnull(verdict.message);
}
END_TEST

/* A flip of any bit that the CRC covers, or of the CRC itself. */
START_TEST(flipped_bits_are_corruption)
{
    for (size_t at = BATCH_FIELD_CRC; at < batch_size; at++)
        for (int bit = 0; bit < 8; bit++) {
            enum err err = ERR_OK;

            batch[at] ^= (uint8_t)(1 << bit);
            err = batch_validate(batch, batch_size, &rules, &arena, &verdict);
            batch[at] ^= (uint8_t)(1 << bit);
            if (err != ERR_CORRUPT_MESSAGE)
                ck_abort_msg("bit %d of byte %zu: error %d", bit, at, err);
        }
}
END_TEST

START_TEST(what_clients_may_not_write)
{
    set_u32(BATCH_FIELD_BASE_OFFSET + 4, 1);
    ck_assert_int_eq(validate(), ERR_INVALID_RECORD);
    set_u32(BATCH_FIELD_RECORD_COUNT, 0);
    ck_assert_int_eq(validate(), ERR_INVALID_RECORD);
    set_u32(BATCH_FIELD_RECORD_COUNT, 3);
    ck_assert_int_eq(validate(), ERR_INVALID_RECORD);
    set_u32(BATCH_FIELD_LAST_OFFSET_DELTA, 4);
    ck_assert_int_eq(validate(), ERR_INVALID_RECORD);
    set_u32(BATCH_FIELD_LAST_OFFSET_DELTA, INT32_MAX);
    ck_assert_int_eq(validate(), ERR_INVALID_RECORD);
    set_u32(BATCH_FIELD_LAST_OFFSET_DELTA, UINT32_MAX);
    ck_assert_int_eq(validate(), ERR_INVALID_RECORD);
    set_u32(BATCH_FIELD_RECORD_COUNT, UINT32_MAX);
    ck_assert_int_eq(validate(), ERR_INVALID_RECORD);
    set_u32(BATCH_FIELD_BASE_SEQUENCE, UINT32_MAX);
    ck_assert_int_eq(validate(), ERR_INVALID_RECORD);
    batch_size = golden_bytes(golden_batches[CODEC_NONE], batch);
    batch[BATCH_FIELD_ATTRIBUTES + 1] |= BATCH_LOG_APPEND_TIME;
    batch_set_crc(batch);
    ck_assert_int_eq(validate(), ERR_INVALID_TIMESTAMP);
    batch_size = golden_bytes(golden_marker, batch);
    batch_set_base_offset(batch, 0);
    ck_assert_int_eq(validate(), ERR_INVALID_RECORD);
    rules.from_client = false;
    ck_assert_int_eq(validate(), ERR_OK);
}
END_TEST

START_TEST(zstd_before_produce_7)
{
    rules.zstd_allowed = false;
    ck_assert_int_eq(validate(), ERR_OK);
    batch_size = golden_bytes(golden_batches[CODEC_ZSTD], batch);
    ck_assert_int_eq(validate(), ERR_UNSUPPORTED_COMPRESSION_TYPE);
}
END_TEST

/* Known trap B118 (KAFKA-13149), and B010's header count: the CRC is right, what is inside is not. */
START_TEST(hostile_records)
{
    static const struct {
        const char *what;
        const char *body;
        size_t size;
        int32_t count;
    } cases[] = {
#define BODY(bytes) bytes, sizeof(bytes) - 1
        {"nothing at all", "", 0, 1},
        {"length past the end", BODY("\x10\0\0\0\1\1\0"), 1},
        {"length of 2^31-1", BODY("\xfe\xff\xff\xff\x0f\0\0\0\1\1\0"), 1},
        {"length -1", BODY("\x01\0\0\0\1\1\0"), 1},
        {"length 0", BODY("\0\0\0\0\1\1\0"), 1},
        {"length too short for the fields", BODY("\x0a\0\0\0\1\1\0"), 1},
        {"length too long for the fields", BODY("\x0e\0\0\0\1\1\0\0"), 1},
        {"length varint of 6 bytes", BODY("\x8c\x80\x80\x80\x80\0\0\0\0\1\1\0"), 1},
        {"length varint over 32 bits", BODY("\x8c\x80\x80\x80\x10\0\0\0\1\1\0"), 1},
        {"length varint cut off", BODY("\xff"), 1},
        {"timestamp varlong of 11 bytes", BODY("\x20\0\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\0\0\1\1\0"), 1},
        {"timestamp varlong over 64 bits", BODY("\x1e\0\x80\x80\x80\x80\x80\x80\x80\x80\x80\x02\0\1\1\0"), 1},
        {"key length -2", BODY("\x0c\0\0\0\3\1\0"), 1},
        {"key length past the end", BODY("\x0c\0\0\0\x20\1\0"), 1},
        {"key length past the record, within the batch", BODY("\x0c\0\0\0\x04\1\0\x0c\0\0\2\1\1\0"), 2},
        {"value length -2", BODY("\x0c\0\0\0\1\3\0"), 1},
        {"value length 2^31-1", BODY("\x14\0\0\0\1\xfe\xff\xff\xff\x0f\0"), 1},
        {"header count -1", BODY("\x0c\0\0\0\1\1\1"), 1},
        {"header count 2^31-1", BODY("\x14\0\0\0\1\1\xfe\xff\xff\xff\x0f"), 1},
        {"header without bytes", BODY("\x0c\0\0\0\1\1\2"), 1},
        {"header key length -1", BODY("\x10\0\0\0\1\1\2\1\1"), 1},
        {"header value length -2", BODY("\x10\0\0\0\1\1\2\0\3"), 1},
        {"bytes behind the last record", BODY("\x0c\0\0\0\1\1\0\0"), 1},
        {"one record less than the header says", BODY("\x0c\0\0\0\1\1\0"), 2},
        {"one record more than the header says", BODY("\x0c\0\0\0\1\1\0\x0c\0\0\2\1\1\0"), 1},
        {"offset delta 1 where 0 belongs", BODY("\x0c\0\0\2\1\1\0"), 1},
        {"offset delta -1", BODY("\x0c\0\0\1\1\1\0"), 1},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        enum err err = ERR_OK;

        set_body(cases[i].body, cases[i].size, cases[i].count);
        err = validate();
        if (err != ERR_INVALID_RECORD)
            ck_abort_msg("%s: error %d", cases[i].what, err);
    }
    /* The same shape is fine where it is right. */
    set_body(BODY("\x0c\0\0\0\1\1\0\x10\0\0\2\1\1\2\0\1"), 2);
    ck_assert_int_eq(validate(), ERR_OK);
}
END_TEST

START_TEST(hostile_compressed_blocks)
{
    rules.open_compressed = true;
    for (enum codec codec = CODEC_GZIP; codec < CODEC_COUNT; codec++) {
        size_t whole = golden_bytes(golden_batches[codec], batch);
        static uint8_t golden[ROOM];

        memcpy(golden, batch, whole);
        /* Cut off at every byte; and every byte flipped, which may also leave the records as they are (a level or
         * flag in the frame's header): then it is accepted. */
        for (size_t size = BATCH_HEADER_BYTES; size < whole; size++) {
            memcpy(batch, golden, whole);
            set_body(golden + BATCH_HEADER_BYTES, size - BATCH_HEADER_BYTES, 4);
            if (validate() == ERR_OK)
                ck_abort_msg("%s cut off at %zu of %zu", codec_name(codec), size, whole);
        }
        for (size_t at = BATCH_HEADER_BYTES; at < whole; at++) {
            memcpy(batch, golden, whole);
            batch[at] ^= 0x55;
            batch_set_crc(batch);
            batch_size = whole;
            if (validate() != ERR_OK)
                ck_assert(verdict.message != NULL);
        }
        /* Rubbish behind the block. */
        memcpy(batch, golden, whole);
        memcpy(batch + whole, "rubbish", 7);
        set_body(batch + BATCH_HEADER_BYTES, whole - BATCH_HEADER_BYTES + 7, 4);
        ck_assert_int_ne(validate(), ERR_OK);
    }
}
END_TEST

START_TEST(a_batch_may_not_unfold_beyond_the_limit)
{
    for (enum codec codec = CODEC_GZIP; codec < CODEC_COUNT; codec++) {
        static uint8_t zeroes[100000];

        spec.codec = codec;
        batch_builder_reset(&builder, &spec);
        for (int i = 0; i < 5; i++)
            ck_assert_int_eq(batch_builder_append(&builder, now_ms, NULL_BYTES,
                                                  bytes_of(zeroes, codec == CODEC_SNAPPY ? 10000 : sizeof(zeroes)),
                                                  NULL, 0),
                             ERR_OK);
        finish();
        rules.open_compressed = true;
        rules.opened_bytes_max = batch_builder_size(&builder) - BATCH_HEADER_BYTES;
        ck_assert_int_eq(validate(), ERR_OK);
        rules.opened_bytes_max--;
        ck_assert_int_eq(validate(), ERR_MESSAGE_TOO_LARGE);
    }
}
END_TEST

/* max.decompressed.message.bytes, new in Kafka 4.4: at it, and one below. */
START_TEST(a_record_in_a_compressed_batch_has_its_own_limit)
{
    for (enum codec codec = CODEC_NONE; codec < CODEC_COUNT; codec++) {
        spec.codec = codec;
        batch_builder_reset(&builder, &spec);
        ck_assert_int_eq(batch_builder_append(&builder, now_ms, NULL_BYTES, bytes_of(batch, 300), NULL, 0), ERR_OK);
        finish();
        rules.open_compressed = true;
        /* attributes, three numbers of one byte and one of two, the value, the header count */
        rules.record_bytes_max = 1 + 3 + 2 + 300 + 1;
        ck_assert_int_eq(validate(), ERR_OK);
        rules.record_bytes_max--;
        ck_assert_int_eq(validate(), codec == CODEC_NONE ? ERR_OK : ERR_INVALID_RECORD);
    }
}
END_TEST

/* Known trap B121. */
START_TEST(compacted_topics_need_keys)
{
    rules.keys_required = true;
    for (enum codec codec = CODEC_NONE; codec < CODEC_COUNT; codec++) {
        spec.codec = codec;
        batch_builder_reset(&builder, &spec);
        ck_assert_int_eq(batch_builder_append(&builder, now_ms, BYTES_LITERAL("a"), NULL_BYTES, NULL, 0), ERR_OK);
        ck_assert_int_eq(batch_builder_append(&builder, now_ms, NULL_BYTES, BYTES_LITERAL("v"), NULL, 0), ERR_OK);
        ck_assert_int_eq(batch_builder_append(&builder, now_ms, BYTES_LITERAL("b"), NULL_BYTES, NULL, 0), ERR_OK);
        finish();
        ck_assert_int_eq(validate(), ERR_INVALID_RECORD);
        ck_assert_uint_eq(verdict.record_error_count, 1);
        ck_assert_int_eq(verdict.record_errors[0].index, 1);
        batch_builder_reset(&builder, &spec);
        ck_assert_int_eq(batch_builder_append(&builder, now_ms, BYTES_LITERAL(""), NULL_BYTES, NULL, 0), ERR_OK);
        finish();
        ck_assert_int_eq(validate(), ERR_OK);
    }
}
END_TEST

static void build_with_times(const int64_t *times, size_t count)
{
    batch_builder_reset(&builder, &spec);
    for (size_t i = 0; i < count; i++)
        ck_assert_int_eq(batch_builder_append(&builder, times[i], BYTES_LITERAL("k"), BYTES_LITERAL("v"), NULL, 0),
                         ERR_OK);
    finish();
}

/* Known trap B122 (KIP-937). */
START_TEST(times_out_of_range)
{
    int64_t last = now_ms + 3600000;
    int64_t times[4] = {now_ms, last, last + 1, INT64_C(4102444800000)};
    int64_t edges[4] = {-1, now_ms - 5, now_ms - 6, INT64_MIN};

    build_with_times(times, 2);
    ck_assert_int_eq(validate(), ERR_OK);
    build_with_times(times, 4);
    ck_assert_int_eq(validate(), ERR_INVALID_TIMESTAMP);
    ck_assert_uint_eq(verdict.record_error_count, 2);
    ck_assert_int_eq(verdict.record_errors[0].index, 2);
    ck_assert_int_eq(verdict.record_errors[1].index, 3);
    ck_assert_ptr_nonnull(verdict.record_errors[1].message);
    rules.timestamp_before_max_ms = 5;
    build_with_times(edges, 2);
    ck_assert_int_eq(validate(), ERR_OK);
    build_with_times(edges, 4);
    ck_assert_int_eq(validate(), ERR_INVALID_TIMESTAMP);
    ck_assert_uint_eq(verdict.record_error_count, 2);
    /* A shut batch is judged by its header. */
    spec.codec = CODEC_LZ4;
    build_with_times(times, 4);
    ck_assert_int_eq(validate(), ERR_INVALID_TIMESTAMP);
    ck_assert_uint_eq(verdict.record_error_count, 0);
    build_with_times(times, 1);
    ck_assert_int_eq(validate(), ERR_OK);
    /* A topic that stamps takes any. */
    rules.stamp_append_time = true;
    build_with_times(times, 4);
    ck_assert_int_eq(validate(), ERR_OK);
}
END_TEST

START_TEST(append_time_is_stamped)
{
    struct batch_header header;

    rules.stamp_append_time = true;
    for (enum codec codec = CODEC_NONE; codec < CODEC_COUNT; codec++) {
        batch_size = golden_bytes(golden_batches[codec], batch);
        ck_assert_int_eq(validate(), ERR_OK);
        ck_assert(verdict.rewritten);
        batch_header_read(batch, &header);
        ck_assert(batch_has(&header, BATCH_LOG_APPEND_TIME));
        ck_assert_int_eq(header.max_timestamp, now_ms);
        ck_assert_int_eq(header.base_timestamp, 1700000000000);
        ck_assert_uint_eq(header.crc, verdict.header.crc);
        ck_assert_int_eq(header.max_timestamp, verdict.header.max_timestamp);
    }
}
END_TEST

START_TEST(a_wrong_maximum_is_corrected)
{
    rules.open_compressed = true;
    for (enum codec codec = CODEC_NONE; codec < CODEC_COUNT; codec++) {
        uint8_t golden[GOLDEN_BATCH_BYTES_MAX];

        batch_size = golden_bytes(golden_batches[codec], batch);
        memcpy(golden, batch, batch_size);
        batch_set_max_timestamp(batch, false, 1700000000000);
        ck_assert_int_eq(validate(), ERR_OK);
        ck_assert(verdict.rewritten);
        ck_assert_mem_eq(golden, batch, batch_size);
    }
}
END_TEST

START_TEST(another_codec_asks_for_a_rebuild)
{
    rules.codec = CODEC_ZSTD;
    for (enum codec codec = CODEC_NONE; codec < CODEC_COUNT; codec++) {
        batch_size = golden_bytes(golden_batches[codec], batch);
        ck_assert_int_eq(validate(), ERR_OK);
        ck_assert_int_eq(verdict.rebuild, codec != CODEC_ZSTD);
    }
}
END_TEST

/* A million bad records are not named one by one, and a full arena takes messages, not the verdict. */
START_TEST(record_errors_are_bounded)
{
    for (int i = 0; i < 200; i++)
        ck_assert_int_eq(batch_builder_append(&builder, now_ms, NULL_BYTES, NULL_BYTES, NULL, 0), ERR_OK);
    finish();
    rules.keys_required = true;
    ck_assert_int_eq(validate(), ERR_INVALID_RECORD);
    ck_assert_uint_eq(verdict.record_error_count, BATCH_RECORD_ERRORS_MAX);
    ck_assert_int_eq(verdict.record_errors[99].index, 99);
    arena_deinit(&arena);
    arena_init(&arena, 1);
    ck_assert_int_eq(validate(), ERR_INVALID_RECORD);
    ck_assert_uint_eq(verdict.record_error_count, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("batch_validate");
    TCase *tcase = tcase_create("batch_validate");
    SRunner *runner = srunner_create(suite);
    int failed = 0;

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, good_batches_pass_untouched);
    tcase_add_test(tcase, exactly_one_whole_batch);
    tcase_add_test(tcase, sizes_at_their_limits);
    tcase_add_test(tcase, flipped_bits_are_corruption);
    tcase_add_test(tcase, what_clients_may_not_write);
    tcase_add_test(tcase, zstd_before_produce_7);
    tcase_add_test(tcase, hostile_records);
    tcase_add_test(tcase, hostile_compressed_blocks);
    tcase_add_test(tcase, a_batch_may_not_unfold_beyond_the_limit);
    tcase_add_test(tcase, a_record_in_a_compressed_batch_has_its_own_limit);
    tcase_add_test(tcase, compacted_topics_need_keys);
    tcase_add_test(tcase, times_out_of_range);
    tcase_add_test(tcase, append_time_is_stamped);
    tcase_add_test(tcase, a_wrong_maximum_is_corrected);
    tcase_add_test(tcase, another_codec_asks_for_a_rebuild);
    tcase_add_test(tcase, record_errors_are_bounded);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
