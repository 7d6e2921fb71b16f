/* Rule: of a range's transactions those are found that end in or behind it and begin before its end, and the search
 * ends where nothing open began before that; the file is Kafka's, byte for byte (on-disk.md 3.4). */
#include "base/big_endian.h"
#include "partition/txn_index.h"
#include "run_tests.h"

static enum err add_up(void *context, const struct txn_index_entry *entry)
{
    int64_t *sum = context;

    *sum += entry->producer_id;
    return ERR_OK;
}

/* The sum of the producers found. */
static int64_t found(const struct txn_index *index, int64_t from, int64_t to, bool *through)
{
    int64_t sum = 0;

    ck_assert_int_eq(txn_index_each(index, from, to, add_up, &sum, through), ERR_OK);
    return sum;
}

/* 1: [0, 5], while 2 is open from 3 on; 2: [3, 9]; 4: [12, 14]. */
static void fill(struct txn_index *index)
{
    static const struct txn_index_entry entries[] = {{1, 0, 5, 3}, {2, 3, 9, 10}, {4, 12, 14, 15}};

    for (uint32_t i = 0; i < 3; i++) {
        ck_assert_int_eq(txn_index_reserve(index, 1), ERR_OK);
        txn_index_add(index, &entries[i]);
    }
}

START_TEST(finds_what_overlaps)
{
    struct txn_index index = {0};
    bool through = false;

    ck_assert_int_eq(found(&index, 0, 100, &through), 0);
    ck_assert(!through);
    fill(&index);
    ck_assert_int_eq(found(&index, 0, 1, &through), 1);
    ck_assert(through);
    ck_assert_int_eq(found(&index, 0, 4, &through), 3); /* 2 began below 4, and ends later */
    ck_assert(through);
    ck_assert_int_eq(found(&index, 6, 8, &through), 2);
    ck_assert_int_eq(found(&index, 9, 10, &through), 2); /* its marker alone */
    ck_assert_int_eq(found(&index, 10, 12, &through), 0);
    ck_assert(through); /* at 14 nothing is open that began before 12 */
    ck_assert_int_eq(found(&index, 0, 16, &through), 7);
    ck_assert(!through);
    ck_assert_int_eq(found(&index, 15, 16, &through), 0);
    txn_index_deinit(&index);
}
END_TEST

START_TEST(knows_its_span_when_unloaded)
{
    struct txn_index index = {0};

    fill(&index);
    txn_index_unload(&index); /* not before they are in the file */
    ck_assert(!index.absent);
    index.written = index.count;
    txn_index_unload(&index);
    ck_assert(index.absent);
    ck_assert_ptr_null(index.entries);
    ck_assert_int_eq(txn_index_judge(&index, 0, 1), TXN_INDEX_LOAD);
    ck_assert_int_eq(txn_index_judge(&index, 14, 20), TXN_INDEX_LOAD);
    ck_assert_int_eq(txn_index_judge(&index, 15, 20), TXN_INDEX_GO_ON); /* all markers lie before it */
    txn_index_deinit(&index);
    fill(&index);
    txn_index_cut(&index, 14);
    ck_assert_uint_eq(index.count, 2);
    txn_index_cut(&index, 0);
    ck_assert_uint_eq(index.count, 0);
    txn_index_deinit(&index);
}
END_TEST

START_TEST(file_round_trip_and_damage)
{
    struct txn_index index = {0};
    struct txn_index again = {0};
    uint8_t bytes[3 * TXN_INDEX_ENTRY_BYTES];
    struct bytes file = bytes_of(bytes, sizeof(bytes));

    fill(&index);
    txn_index_format(&index, 0, bytes);
    ck_assert_uint_eq(big_endian_load_u16(bytes), 0);
    ck_assert_uint_eq(big_endian_load_u64(bytes + 34 + 2), 2);
    ck_assert_uint_eq(big_endian_load_u64(bytes + 34 + 10), 3);
    ck_assert_uint_eq(big_endian_load_u64(bytes + 34 + 18), 9);
    ck_assert_uint_eq(big_endian_load_u64(bytes + 34 + 26), 10);
    ck_assert_int_eq(txn_index_parse(&again, file, 0, 15), ERR_OK);
    ck_assert_uint_eq(again.count, 3);
    ck_assert_uint_eq(again.written, 3);
    txn_index_deinit(&again);
    ck_assert_int_eq(txn_index_parse(&again, file, 0, 14), ERR_DAMAGED); /* a marker behind the segment */
    ck_assert_int_eq(txn_index_parse(&again, file, 6, 15), ERR_DAMAGED); /* or before it */
    ck_assert_int_eq(txn_index_parse(&again, bytes_of(bytes, 35), 0, 15), ERR_DAMAGED);
    for (size_t i = 0; i < 34; i += 8) { /* version, then the sign of each field */
        bytes[i == 0 ? 1 : i - 6] ^= 0x80;
        ck_assert_int_eq(txn_index_parse(&again, file, 0, 15), ERR_DAMAGED);
        bytes[i == 0 ? 1 : i - 6] ^= 0x80;
    }
    memmove(bytes + 34, bytes, 34); /* markers ascend */
    ck_assert_int_eq(txn_index_parse(&again, file, 0, 15), ERR_DAMAGED);
    ck_assert_uint_eq(again.count, 0);
    txn_index_deinit(&index);
}
END_TEST

RUN_TESTS("txn_index", finds_what_overlaps, knows_its_span_when_unloaded, file_round_trip_and_damage)
