/* Rule: a marker is one control record that says commit or abort and in which coordinator epoch; nothing else is one,
 * and no bytes of it are believed beyond its end (on-disk.md 3.1). */
#include "base/big_endian.h"
#include "base/mem.h"
#include "partition/txn_marker.h"
#include "run_tests.h"
#include "world.h"

START_TEST(commit_and_abort)
{
    for (int commit = 0; commit < 2; commit++) {
        struct txn_marker marker = {.commit = commit == 0};
        size_t size = 0;
        uint8_t *batch = make_marker(7, 1, commit == 1, 12, &size);

        ck_assert_int_eq(txn_marker_read(bytes_of(batch, size), &marker), ERR_OK);
        ck_assert(marker.commit == (commit == 1));
        ck_assert_int_eq(marker.coordinator_epoch, 12);
        mem_free(batch);
    }
}
END_TEST

START_TEST(what_is_no_marker)
{
    struct txn_marker marker;
    size_t size = 0;
    uint8_t *batch = make_batch(&(struct batch_make){.record_count = 1, .value_bytes = 20}, &size);

    ck_assert_int_eq(txn_marker_read(bytes_of(batch, size), &marker), ERR_DAMAGED); /* it has no key */
    mem_free(batch);
    batch = make_marker(7, 1, true, 12, &size);
    for (size_t cut = 0; cut < size; cut++) { /* whole as a batch, whose records end early */
        if (cut >= BATCH_HEADER_BYTES)
            big_endian_store_u32(batch + BATCH_FIELD_LENGTH, (uint32_t)(cut - BATCH_LENGTH_BIAS_BYTES));
        ck_assert_int_eq(txn_marker_read(bytes_of(batch, cut), &marker), ERR_DAMAGED);
    }
    mem_free(batch);
}
END_TEST

RUN_TESTS("txn_marker", commit_and_abort, what_is_no_marker)
