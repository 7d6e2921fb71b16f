#include "txn_truth.h"

#include <check.h>
#include <stdlib.h>

#include "partition/txn_marker.h"

static struct truth_txn *open_of(struct truth *truth, int64_t producer_id)
{
    for (uint32_t i = 0; i < truth->count; i++)
        if (truth->txns[i].producer_id == producer_id && truth->txns[i].last_offset < 0)
            return &truth->txns[i];
    return NULL;
}

static enum err note(void *context, struct bytes batch)
{
    struct truth *truth = context;
    struct batch_header head;
    struct truth_txn *open = NULL;
    struct txn_marker marker;

    batch_header_read(batch.data, &head);
    truth->end_offset = batch_last_offset(&head) + 1;
    if (head.producer_id < 0 || !batch_has(&head, BATCH_TRANSACTIONAL))
        return ERR_OK;
    open = open_of(truth, head.producer_id);
    if (!batch_has(&head, BATCH_CONTROL)) {
        if (open == NULL) {
            ck_assert_uint_lt(truth->count, TRUTH_TXNS_MAX);
            truth->txns[truth->count++] = (struct truth_txn){head.producer_id, head.base_offset, -1, false};
        }
        return ERR_OK;
    }
    ck_assert_int_eq(txn_marker_read(batch, &marker), ERR_OK);
    if (open != NULL) {
        open->last_offset = head.base_offset;
        open->aborted = !marker.commit;
    }
    return ERR_OK;
}

void truth_read(struct truth *truth, struct partition_log *log)
{
    *truth = (struct truth){0};
    ck_assert_int_eq(partition_log_scan(log, 0, note, truth), ERR_OK);
}

int64_t truth_first_open(const struct truth *truth)
{
    int64_t first = INT64_MAX;

    for (uint32_t i = 0; i < truth->count; i++)
        if (truth->txns[i].last_offset < 0 && truth->txns[i].first_offset < first)
            first = truth->txns[i].first_offset;
    return first;
}

struct looked_up {
    struct log_aborted_find op;
    bool done;
};

static void was_looked_up(struct log_aborted_find *op)
{
    LIST_ENTRY(op, struct looked_up, op)->done = true;
}

static int compare(const void *a, const void *b)
{
    const struct log_aborted *left = a;
    const struct log_aborted *right = b;

    return (left->first_offset > right->first_offset) - (left->first_offset < right->first_offset);
}

void truth_check_range(const struct truth *truth, struct world *world, struct partition_log *log, int64_t from,
                       int64_t to)
{
    struct log_aborted expected[TRUTH_TXNS_MAX];
    uint32_t count = 0;
    struct arena arena;
    struct looked_up up = {.op = {.from = from, .to = to, .arena = &arena, .done = was_looked_up}};

    arena_init(&arena, 1 << 20);
    partition_log_find_aborted(log, &up.op);
    world_run(world, &up.done);
    ck_assert_int_eq(up.op.err, ERR_OK);
    for (uint32_t i = 0; i < truth->count; i++) {
        const struct truth_txn *txn = &truth->txns[i];

        if (txn->aborted && txn->last_offset >= from && txn->first_offset < to)
            expected[count++] = (struct log_aborted){txn->producer_id, txn->first_offset};
    }
    if (up.op.count != count)
        ck_abort_msg("[%lld, %lld): %u aborted, expected %u", (long long)from, (long long)to, up.op.count, count);
    if (count > 0) {
        qsort(up.op.aborted, count, sizeof(up.op.aborted[0]), compare);
        qsort(expected, count, sizeof(expected[0]), compare);
    }
    for (uint32_t i = 0; i < count; i++) {
        ck_assert_int_eq(up.op.aborted[i].producer_id, expected[i].producer_id);
        ck_assert_int_eq(up.op.aborted[i].first_offset, expected[i].first_offset);
    }
    arena_deinit(&arena);
}

void truth_check(struct truth *truth, struct world *world, struct partition_log *log)
{
    int64_t end = 0;
    int64_t step = 0;

    truth_read(truth, log);
    partition_log_replicated(log, truth->end_offset);
    ck_assert_int_eq(partition_log_first_unstable_offset(log), truth_first_open(truth));
    end = truth_first_open(truth) < truth->end_offset ? truth_first_open(truth) : truth->end_offset;
    step = 1 + end / 5;
    for (int64_t from = 0; from < end; from += step)
        for (int64_t to = from + 1; to <= end; to += step)
            truth_check_range(truth, world, log, from, to);
}
