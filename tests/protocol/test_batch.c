/*
 * Rules: the header lies as KIP-98 has it (held against batches that Apache Kafka wrote); a scan tells a whole batch, a
 * cut one and rubbish apart; stamps outside the CRC leave it valid, the time stamp sets it anew.
 */
#include <check.h>

#include "base/big_endian.h"
#include "golden_batches.h"
#include "protocol/batch.h"

static uint8_t golden[GOLDEN_BATCH_BYTES_MAX];
static size_t golden_size;

static void setup(void)
{
    golden_size = golden_bytes(golden_batches[CODEC_NONE], golden);
}

static struct bytes run(void)
{
    return bytes_of(golden, golden_size);
}

START_TEST(header_fields)
{
    struct batch_header header;
    size_t needed = 0;

    ck_assert_int_eq(batch_peek(run(), &header, &needed), ERR_OK);
    ck_assert_uint_eq(needed, golden_size);
    ck_assert_uint_eq(header.size, golden_size);
    ck_assert_int_eq(header.base_offset, 0);
    ck_assert_int_eq(header.leader_epoch, 9);
    ck_assert_int_eq(header.last_offset_delta, 3);
    ck_assert_int_eq(header.base_timestamp, 1700000000000);
    ck_assert_int_eq(header.max_timestamp, 1700000000100);
    ck_assert_int_eq(header.producer_id, 4000);
    ck_assert_int_eq(header.producer_epoch, 3);
    ck_assert_int_eq(header.base_sequence, 17);
    ck_assert_int_eq(header.record_count, 4);
    ck_assert_int_eq(batch_codec(&header), CODEC_NONE);
    ck_assert(batch_has(&header, BATCH_TRANSACTIONAL));
    ck_assert(!batch_has(&header, BATCH_CONTROL));
    ck_assert_int_eq(batch_last_offset(&header), 3);
    ck_assert_int_eq(batch_last_sequence(&header), 20);
    ck_assert(batch_crc_is_valid(run()));
}
END_TEST

START_TEST(last_sequence_wraps)
{
    struct batch_header header = {.base_sequence = INT32_MAX - 1, .last_offset_delta = 3};

    ck_assert_int_eq(batch_last_sequence(&header), 1);
    header.base_sequence = -1;
    ck_assert_int_eq(batch_last_sequence(&header), -1);
}
END_TEST

START_TEST(peek_at_every_cut)
{
    struct batch_header header;
    size_t needed = 0;

    for (size_t size = 0; size < golden_size; size++) {
        ck_assert_int_eq(batch_peek(bytes_of(golden, size), &header, &needed), ERR_END);
        ck_assert_uint_eq(needed, size < BATCH_HEADER_BYTES ? (size_t)BATCH_HEADER_BYTES : golden_size);
    }
}
END_TEST

/* No header that peek says ok to has a size, offset or count that breaks what walks on from there. */
START_TEST(peek_refuses_rubbish)
{
    static const struct {
        enum batch_field field;
        uint32_t value;
    } cases[] = {
        {BATCH_FIELD_LENGTH, 48},
        {BATCH_FIELD_LENGTH, 0},
        {BATCH_FIELD_LENGTH, 0xffffffff},
        {BATCH_FIELD_LENGTH, 0xfffffff4},
        {BATCH_FIELD_LENGTH, 0x7ffffff4},
        {BATCH_FIELD_BASE_OFFSET, 0x80000000},
        {BATCH_FIELD_RECORD_COUNT, 0xffffffff},
        {BATCH_FIELD_LAST_OFFSET_DELTA, 0x80000000},
    };
    struct batch_header header;
    uint8_t zeroes[100] = {0};

    ck_assert_int_eq(batch_peek(bytes_of(zeroes, sizeof(zeroes)), &header, NULL), ERR_CORRUPT_MESSAGE);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        setup();
        big_endian_store_u32(golden + cases[i].field, cases[i].value);
        ck_assert_int_eq(batch_peek(run(), &header, NULL), ERR_CORRUPT_MESSAGE);
    }
    for (int magic = 0; magic < 256; magic++) {
        setup();
        golden[BATCH_FIELD_MAGIC] = (uint8_t)magic;
        ck_assert_int_eq(batch_peek(run(), &header, NULL), magic == BATCH_MAGIC ? ERR_OK : ERR_CORRUPT_MESSAGE);
    }
    setup();
    golden[BATCH_FIELD_ATTRIBUTES + 1] |= 5;
    ck_assert_int_eq(batch_peek(run(), &header, NULL), ERR_CORRUPT_MESSAGE);
}
END_TEST

START_TEST(stamps_outside_the_crc)
{
    struct batch_header header;

    batch_set_base_offset(golden, INT64_C(0x123456789abcdef0));
    batch_set_leader_epoch(golden, 77);
    ck_assert(batch_crc_is_valid(run()));
    ck_assert_int_eq(batch_peek(run(), &header, NULL), ERR_OK);
    ck_assert_int_eq(header.base_offset, INT64_C(0x123456789abcdef0));
    ck_assert_int_eq(header.leader_epoch, 77);
    golden[golden_size - 1] ^= 1;
    ck_assert(!batch_crc_is_valid(run()));
}
END_TEST

START_TEST(time_stamp_sets_the_crc)
{
    struct batch_header before;
    struct batch_header after;

    batch_header_read(golden, &before);
    batch_set_max_timestamp(golden, false, before.max_timestamp);
    batch_header_read(golden, &after);
    ck_assert_uint_eq(before.crc, after.crc);
    batch_set_max_timestamp(golden, true, 1800000000000);
    batch_header_read(golden, &after);
    ck_assert_uint_ne(before.crc, after.crc);
    ck_assert(batch_crc_is_valid(run()));
    ck_assert(batch_has(&after, BATCH_LOG_APPEND_TIME));
    ck_assert(batch_has(&after, BATCH_TRANSACTIONAL));
    ck_assert_int_eq(after.max_timestamp, 1800000000000);
    batch_set_max_timestamp(golden, false, before.max_timestamp);
    batch_header_read(golden, &after);
    ck_assert_uint_eq(before.crc, after.crc);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("batch");
    TCase *tcase = tcase_create("batch");
    SRunner *runner = srunner_create(suite);
    int failed = 0;

    tcase_add_checked_fixture(tcase, setup, NULL);
    tcase_add_test(tcase, header_fields);
    tcase_add_test(tcase, last_sequence_wraps);
    tcase_add_test(tcase, peek_at_every_cut);
    tcase_add_test(tcase, peek_refuses_rubbish);
    tcase_add_test(tcase, stamps_outside_the_crc);
    tcase_add_test(tcase, time_stamp_sets_the_crc);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
