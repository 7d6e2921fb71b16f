/* Rule: sequences as replication.md 8 has them (KIP-98, KIP-360): five batches remembered, gaps and old epochs refused,
 * numbers that wrap; transactions open and close; snapshots are Kafka's, byte for byte. */
#include "base/big_endian.h"
#include "base/mem.h"
#include "partition/producer_state.h"
#include "run_tests.h"
#include "world.h"

#ifdef OTTLA_SLOW_ASSERTS
enum { MILLION_IS_SLOW = true };
#else
enum { MILLION_IS_SLOW = false };
#endif

static struct producer_state state;
static int64_t next_offset;

static struct batch_header header(int64_t id, int16_t epoch, int32_t sequence, int32_t count)
{
    return (struct batch_header){.base_offset = next_offset,
                                 .last_offset_delta = count - 1,
                                 .max_timestamp = 5000 + next_offset,
                                 .producer_id = id,
                                 .producer_epoch = epoch,
                                 .base_sequence = sequence,
                                 .record_count = count};
}

static enum err offer(struct batch_header batch, int64_t *duplicate_offset)
{
    const struct producer_batch *duplicate = NULL;
    enum err err = producer_state_check(&state, &batch, &duplicate);

    *duplicate_offset = duplicate == NULL ? -1 : duplicate->last_offset - duplicate->offset_delta;
    if (err == ERR_OK && duplicate == NULL) {
        (void)producer_state_apply(&state, &batch, (struct bytes){0}, NULL);
        next_offset += batch.last_offset_delta + 1;
    }
    return err;
}

static void check(int64_t id, int16_t epoch, int32_t sequence, int32_t count, enum err expected)
{
    int64_t duplicate = -1;

    ck_assert_int_eq(offer(header(id, epoch, sequence, count), &duplicate), expected);
    ck_assert_int_eq(duplicate, -1);
}

static void check_duplicate(int64_t id, int16_t epoch, int32_t sequence, int32_t count, int64_t offset)
{
    int64_t duplicate = -1;

    ck_assert_int_eq(offer(header(id, epoch, sequence, count), &duplicate), ERR_OK);
    ck_assert_int_eq(duplicate, offset);
}

static void begin(void)
{
    next_offset = 0;
    producer_state_init(&state, 7);
}

START_TEST(five_are_remembered)
{
    ck_assert_int_eq(PRODUCER_BATCHES_MAX, 5);
    begin();
    for (int32_t i = 0; i < 8; i++)
        check(1, 0, i * 10, 10, ERR_OK);
    for (int32_t i = 8 - PRODUCER_BATCHES_MAX; i < 8; i++)
        check_duplicate(1, 0, i * 10, 10, i * 10);
    check(1, 0, 20, 10, ERR_OUT_OF_ORDER_SEQUENCE_NUMBER);
    check(1, 0, 70, 5, ERR_OUT_OF_ORDER_SEQUENCE_NUMBER); /* part of one is none */
    check(1, 0, 81, 1, ERR_OUT_OF_ORDER_SEQUENCE_NUMBER);
    check(1, 0, 80, 1, ERR_OK);
    producer_state_deinit(&state);
}
END_TEST

START_TEST(epochs)
{
    begin();
    check(1, 3, 500, 1, ERR_OK); /* nothing known: any sequence */
    check(1, 2, 501, 1, ERR_INVALID_PRODUCER_EPOCH);
    check(1, 4, 501, 1, ERR_OUT_OF_ORDER_SEQUENCE_NUMBER);
    check(1, 4, 0, 1, ERR_OK);
    check(1, 3, 501, 1, ERR_INVALID_PRODUCER_EPOCH);
    check(1, 4, 1, 1, ERR_OK);
    check_duplicate(1, 4, 0, 1, 1);
    producer_state_deinit(&state);
}
END_TEST

START_TEST(sequences_wrap)
{
    begin();
    check(1, 0, INT32_MAX - 4, 5, ERR_OK); /* ends at the greatest */
    check(1, 0, 0, 3, ERR_OK);
    check_duplicate(1, 0, INT32_MAX - 4, 5, 0);
    check(2, 0, INT32_MAX - 1, 4, ERR_OK); /* over it: the last is 1 */
    check(2, 0, 3, 1, ERR_OUT_OF_ORDER_SEQUENCE_NUMBER);
    check_duplicate(2, 0, INT32_MAX - 1, 4, 8);
    check(2, 0, 2, 1, ERR_OK);
    producer_state_deinit(&state);
}
END_TEST

START_TEST(a_failed_append_leaves_nothing)
{
    struct batch_header batch;
    const struct producer_batch *duplicate = NULL;

    begin();
    batch = header(9, 0, 7, 1);
    ck_assert_int_eq(producer_state_check(&state, &batch, &duplicate), ERR_OK);
    producer_state_unreserve(&state, 9);
    ck_assert_uint_eq(producer_state_count(&state), 0);
    check(9, 0, 7, 1, ERR_OK);
    producer_state_unreserve(&state, 9); /* it is known now */
    ck_assert_uint_eq(producer_state_count(&state), 1);
    producer_state_deinit(&state);
}
END_TEST

static void mark(int64_t id, int16_t epoch, bool commit)
{
    size_t size = 0;
    uint8_t *batch = make_marker(id, epoch, commit, 7, &size);
    struct batch_header head;

    batch_set_base_offset(batch, next_offset++);
    batch_header_read(batch, &head);
    ck_assert_int_eq(producer_state_reserve(&state, &head), ERR_OK);
    ck_assert_int_eq(producer_state_reserve_ended(&state, 1), ERR_OK);
    (void)producer_state_apply(&state, &head, bytes_of(batch, size), NULL);
    mem_free(batch);
}

START_TEST(transactions)
{
    struct batch_header batch;
    int64_t duplicate = -1;

    begin();
    batch = header(1, 0, 0, 2);
    batch.attributes = BATCH_TRANSACTIONAL;
    ck_assert_int_eq(producer_state_first_open(&state), INT64_MAX);
    ck_assert_int_eq(offer(batch, &duplicate), ERR_OK);
    ck_assert_int_eq(producer_state_first_open(&state), 0);
    check(1, 0, 2, 1, ERR_INVALID_TXN_STATE);
    batch = header(2, 0, 0, 3);
    batch.attributes = BATCH_TRANSACTIONAL;
    ck_assert_int_eq(offer(batch, &duplicate), ERR_OK);
    mark(1, 0, true);
    ck_assert_int_eq(producer_state_first_open(&state), 2);
    ck_assert_int_eq(producer_state_get(&state, 1)->coordinator_epoch, 7);
    check(1, 0, 2, 1, ERR_OK); /* a marker of the same epoch keeps the sequence */
    mark(2, 1, false);
    ck_assert_int_eq(producer_state_first_open(&state), INT64_MAX);
    check(2, 1, 3, 1, ERR_OUT_OF_ORDER_SEQUENCE_NUMBER); /* one that raises it begins anew */
    check(2, 1, 0, 1, ERR_OK);
    producer_state_deinit(&state);
}
END_TEST

START_TEST(snapshot_bytes)
{
    uint8_t *data = NULL;
    size_t size = 0;
    struct producer_state again;

    begin();
    check(0x0102, 3, 5, 2, ERR_OK);
    check(77, 0, 0, 1, ERR_OK);
    mark(77, 1, false);
    ck_assert_int_eq(producer_state_format(&state, &data, &size), ERR_OK);
    ck_assert_uint_eq(size, 10 + 2 * 46);
    ck_assert_int_eq(big_endian_load_u16(data), 1);
    ck_assert_uint_eq(big_endian_load_u32(data + 6), 2);
    ck_assert_uint_eq(big_endian_load_u64(data + 10), 0x0102);
    ck_assert_uint_eq(big_endian_load_u16(data + 18), 3);
    ck_assert_uint_eq(big_endian_load_u32(data + 20), 6);
    ck_assert_uint_eq(big_endian_load_u64(data + 24), 1);
    ck_assert_uint_eq(big_endian_load_u32(data + 32), 1);
    ck_assert_uint_eq(big_endian_load_u64(data + 36), 5000);
    ck_assert_uint_eq(big_endian_load_u32(data + 44), UINT32_MAX);
    ck_assert_uint_eq(big_endian_load_u64(data + 48), UINT64_MAX);
    /* After a marker that raised the epoch no batch is known. */
    ck_assert_uint_eq(big_endian_load_u16(data + 64), 1);
    ck_assert_uint_eq(big_endian_load_u32(data + 66), UINT32_MAX);
    ck_assert_uint_eq(big_endian_load_u64(data + 70), UINT64_MAX);
    producer_state_init(&again, 1);
    ck_assert_int_eq(producer_state_parse(&again, bytes_of(data, size)), ERR_OK);
    ck_assert_uint_eq(producer_state_count(&again), 2);
    ck_assert_int_eq(producer_state_get(&again, 0x0102)->batches[0].last_sequence, 6);
    ck_assert_int_eq(producer_state_get(&again, 77)->batch_count, 0);
    producer_state_clear(&again);
    for (size_t i = 0; i < size; i++) {
        data[i] ^= 0x10;
        ck_assert_int_eq(producer_state_parse(&again, bytes_of(data, size)), ERR_DAMAGED);
        data[i] ^= 0x10;
        ck_assert_int_eq(producer_state_parse(&again, bytes_of(data, i)), ERR_DAMAGED);
    }
    mem_free(data);
    producer_state_deinit(&again);
    producer_state_deinit(&state);
}
END_TEST

START_TEST(silent_ones_expire)
{
    struct batch_header batch;
    int64_t duplicate = -1;

    begin();
    check(1, 0, 0, 1, ERR_OK); /* at 5000 */
    check(2, 0, 0, 1, ERR_OK); /* at 5001 */
    batch = header(3, 0, 0, 1);
    batch.attributes = BATCH_TRANSACTIONAL;
    batch.max_timestamp = 10;
    ck_assert_int_eq(offer(batch, &duplicate), ERR_OK);
    producer_state_expire(&state, 5000);
    ck_assert_uint_eq(producer_state_count(&state), 2);
    ck_assert_ptr_null(producer_state_get(&state, 1));
    ck_assert_ptr_nonnull(producer_state_get(&state, 3)); /* its transaction is open */
    producer_state_deinit(&state);
}
END_TEST

/* The edge of PRODUCERS_MAX: the longest silent one makes room for another, but for one whose transaction is open. A
 * million of them take a second, half a minute with the sanitizers. */
START_TEST(so_many_are_remembered)
{
    struct batch_header batch;
    int64_t duplicate = -1;

    if (MILLION_IS_SLOW)
        return;
    begin();
    batch = header(1, 0, 0, 1);
    batch.attributes = BATCH_TRANSACTIONAL;
    ck_assert_int_eq(offer(batch, &duplicate), ERR_OK);
    for (int64_t id = 2; id <= PRODUCERS_MAX; id++)
        check(id, 0, 0, 1, ERR_OK);
    ck_assert_uint_eq(producer_state_count(&state), PRODUCERS_MAX);
    ck_assert_ptr_nonnull(producer_state_get(&state, 2));
    check(PRODUCERS_MAX + 1, 0, 0, 1, ERR_OK);
    ck_assert_uint_eq(producer_state_count(&state), PRODUCERS_MAX);
    ck_assert_ptr_nonnull(producer_state_get(&state, 1));
    ck_assert_ptr_null(producer_state_get(&state, 2));
    ck_assert_ptr_nonnull(producer_state_get(&state, 3));
    producer_state_deinit(&state);
}
END_TEST

RUN_TESTS("producer_state", five_are_remembered, epochs, sequences_wrap, a_failed_append_leaves_nothing, transactions,
          snapshot_bytes, silent_ones_expire, so_many_are_remembered)
