/* Rule: the index finds the greatest entry at or below what is asked, holds only ascending entries, and takes no file
 * that does not (on-disk.md 3.2). */
#include "base/mem.h"
#include "partition/offset_index.h"
#include "run_tests.h"

START_TEST(finds_at_or_below)
{
    struct offset_index index = {0};

    ck_assert_uint_eq(offset_index_position(&index, 5), 0);
    for (uint32_t i = 1; i <= 100; i++)
        ck_assert_int_eq(offset_index_add(&index, i * 10, i * 100), ERR_OK);
    ck_assert_int_eq(offset_index_add(&index, 1000, 20000), ERR_OK); /* does not ascend: left out */
    ck_assert_uint_eq(index.count, 100);
    for (uint32_t offset = 0; offset < 1100; offset++) {
        uint32_t entry = offset / 10 > 100 ? 100 : offset / 10;

        ck_assert_uint_eq(offset_index_position(&index, offset), entry * 100);
        ck_assert_uint_eq(offset_index_boundary(&index, offset * 10 + 9), entry * 100);
    }
    offset_index_cut(&index, 500, 10000000);
    ck_assert_uint_eq(index.count, 49);
    offset_index_cut(&index, 5000, 4800);
    ck_assert_uint_eq(index.count, 47);
    offset_index_deinit(&index);
}
END_TEST

START_TEST(file_round_trip_and_damage)
{
    struct offset_index index = {0};
    struct offset_index again = {0};
    uint8_t bytes[5 * 8];

    for (uint32_t i = 1; i <= 5; i++)
        ck_assert_int_eq(offset_index_add(&index, i, i * 70), ERR_OK);
    offset_index_format(&index, 0, bytes);
    ck_assert_int_eq(offset_index_parse(&again, bytes_of(bytes, sizeof(bytes)), 351), ERR_OK);
    ck_assert_uint_eq(again.count, 5);
    ck_assert_uint_eq(again.written, 5);
    ck_assert_int_eq(memcmp(again.entries, index.entries, sizeof(bytes)), 0);
    offset_index_deinit(&again);
    ck_assert_int_eq(offset_index_parse(&again, bytes_of(bytes, sizeof(bytes)), 350), ERR_DAMAGED); /* behind the end */
    ck_assert_int_eq(offset_index_parse(&again, bytes_of(bytes, 39), 1000), ERR_DAMAGED);
    memset(bytes + 32, 0, 8); /* a tail of zeroes, as a mapped file of Kafka's that was not trimmed */
    ck_assert_int_eq(offset_index_parse(&again, bytes_of(bytes, sizeof(bytes)), 1000), ERR_DAMAGED);
    ck_assert_ptr_null(again.entries);
    offset_index_deinit(&index);
}
END_TEST

RUN_TESTS("offset_index", finds_at_or_below, file_round_trip_and_damage)
