/* Fetch: checks, bounds, and the log's answer. */
#include "partition/partition.h"

#include "base/assert.h"
#include "partition/partition_internal.h"

static void complete(struct partition_read *op, enum err err)
{
    op->err = partition_client_error(op->partition, err);
    if (op->err != ERR_OK) {
        op->high_watermark = -1;
        op->last_stable_offset = -1;
        op->log_start_offset = -1;
    }
    op->done(op);
}

static void was_looked_up(struct log_aborted_find *find)
{
    struct partition_read *op = LIST_ENTRY(find, struct partition_read, log_aborted_find);

    if (find->err == ERR_OK) {
        op->aborted = find->aborted;
        op->aborted_count = find->count;
    } else { /* records of which nobody could say whether they count are not given */
        for (uint32_t i = 0; i < op->slice_count; i++)
            fs_file_drop(op->slices[i].file);
        op->slice_count = 0;
        op->size = 0;
    }
    complete(op, find->err);
}

/* Transactions of all that was read have ended: it lies below the last stable offset (B112). */
static void look_up_aborted(struct partition_read *op)
{
    int64_t to = op->log_read.next_offset >= 0 ? op->log_read.next_offset : op->log_read.end_bound;

    op->log_aborted_find = (struct log_aborted_find){
        .from = op->offset,
        .to = to < op->last_stable_offset ? to : op->last_stable_offset,
        .arena = op->arena,
        .done = was_looked_up,
    };
    partition_log_find_aborted(op->partition->log, &op->log_aborted_find);
}

static void was_read(struct log_read *log_op)
{
    struct partition_read *op = LIST_ENTRY(log_op, struct partition_read, log_read);

    if (log_op->err == ERR_OK) {
        for (uint32_t i = 0; i < log_op->slice_count; i++)
            op->slices[i] = log_op->slices[i];
        op->slice_count = log_op->slice_count;
        op->size = log_op->size;
    }
    if (log_op->err == ERR_OK && op->size > 0 && op->isolation == PARTITION_READ_COMMITTED)
        look_up_aborted(op);
    else
        complete(op, log_op->err);
}

/* Whether the reader's history is ours up to its offset (replication.md 3, Fetch v12). True: it was answered. */
static bool diverges(struct partition_read *op)
{
    int32_t epoch = -1;
    int64_t end_offset = -1;

    if (op->last_fetched_epoch < 0)
        return false;
    partition_log_epoch_end(op->partition->log, op->last_fetched_epoch, &epoch, &end_offset);
    if (epoch < 0 || op->offset < partition_log_start_offset(op->partition->log)) {
        complete(op, ERR_OFFSET_OUT_OF_RANGE);
        return true;
    }
    if (epoch == op->last_fetched_epoch && end_offset >= op->offset)
        return false;
    op->diverging = true;
    op->diverging_epoch = epoch;
    op->diverging_end_offset = end_offset;
    complete(op, ERR_OK);
    return true;
}

void partition_read_start(struct partition_read *op)
{
    struct partition *partition = op->partition;
    int64_t readable_end = 0;
    enum err err = partition_check(partition, op->current_leader_epoch);

    if (err != ERR_OK) {
        complete(op, err);
        return;
    }
    op->high_watermark = partition->high_watermark;
    op->last_stable_offset = partition_last_stable_offset(partition);
    op->log_start_offset = partition_log_start_offset(partition->log);
    if (diverges(op))
        return;
    readable_end = partition_readable_end(partition, op->isolation);
    op->log_read = (struct log_read){
        .offset = op->offset,
        .offset_limit = readable_end,
        .bytes_max = op->bytes_max,
        .at_least_one = op->at_least_one,
        .arena = op->arena,
        .done = was_read,
    };
    partition_log_read(partition->log, &op->log_read);
}

void partition_read(struct partition *partition, struct partition_read *op)
{
    op->partition = partition;
    op->err = ERR_OK;
    op->high_watermark = -1;
    op->last_stable_offset = -1;
    op->log_start_offset = -1;
    op->diverging = false;
    op->diverging_epoch = -1;
    op->diverging_end_offset = -1;
    op->aborted = NULL;
    op->aborted_count = 0;
    op->slice_count = 0;
    op->size = 0;
    list_node_init(&op->node);
    if (partition->state == PARTITION_LOADING)
        partition_load_await(partition, &partition->load->reads, &op->node);
    else
        partition_read_start(op);
}

uint64_t partition_readable_bytes(const struct partition *partition, int64_t offset, enum partition_isolation isolation)
{
    if (partition->state != PARTITION_READY)
        return 0;
    return partition_log_bytes_between(partition->log, offset, partition_readable_end(partition, isolation));
}
