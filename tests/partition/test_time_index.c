/* Rule: the greatest entry at or below a time is found, timestamps strictly ascend, offsets never descend (on-disk.md
 * 3.3). */
#include "partition/time_index.h"
#include "run_tests.h"

START_TEST(finds_at_or_below)
{
    struct time_index index = {0};

    ck_assert_uint_eq(time_index_offset(&index, 100), 0);
    ck_assert_int_eq(time_index_add(&index, -1, 4), ERR_OK); /* no time */
    ck_assert_uint_eq(index.count, 0);
    for (uint32_t i = 1; i <= 50; i++)
        ck_assert_int_eq(time_index_add(&index, i * 1000, i * 3), ERR_OK);
    ck_assert_int_eq(time_index_add(&index, 50000, 500), ERR_OK);
    ck_assert_int_eq(time_index_add(&index, 60000, 149), ERR_OK); /* its offset would descend */
    ck_assert_uint_eq(index.count, 50);
    for (uint32_t i = 0; i < 52000; i += 100)
        ck_assert_uint_eq(time_index_offset(&index, i), (i / 1000 > 50 ? 50 : i / 1000) * 3);
    time_index_cut(&index, 100);
    ck_assert_uint_eq(index.count, 33);
    time_index_deinit(&index);
}
END_TEST

START_TEST(file_round_trip_and_damage)
{
    struct time_index index = {0};
    struct time_index again = {0};
    uint8_t bytes[4 * 12];

    for (uint32_t i = 0; i < 4; i++)
        ck_assert_int_eq(time_index_add(&index, 1700000000000 + i, i), ERR_OK);
    time_index_format(&index, 0, bytes);
    ck_assert_int_eq(time_index_parse(&again, bytes_of(bytes, sizeof(bytes))), ERR_OK);
    ck_assert_uint_eq(again.count, 4);
    ck_assert_int_eq(time_index_last(&again)->timestamp, 1700000000003);
    time_index_deinit(&again);
    ck_assert_int_eq(time_index_parse(&again, bytes_of(bytes, 47)), ERR_DAMAGED);
    memset(bytes + 36, 0, 12);
    ck_assert_int_eq(time_index_parse(&again, bytes_of(bytes, sizeof(bytes))), ERR_DAMAGED);
    time_index_deinit(&index);
}
END_TEST

RUN_TESTS("time_index", finds_at_or_below, file_round_trip_and_damage)
