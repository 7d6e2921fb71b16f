/* ListOffsets: the special values, times, and the old list of segments. */
#include "partition/partition.h"

#include "base/assert.h"
#include "partition/partition_internal.h"

static void complete(struct partition_offsets *op, enum err err)
{
    op->err = partition_client_error(op->partition, err);
    if (op->err != ERR_OK) {
        op->offset = -1;
        op->out_timestamp = -1;
        op->leader_epoch = -1;
    }
    op->done(op);
}

static void was_found(struct log_find *find)
{
    struct partition_offsets *op = LIST_ENTRY(find, struct partition_offsets, find);
    const struct partition *partition = op->partition;

    if (find->err == ERR_OK && find->offset >= 0 && find->offset < partition_readable_end(partition, op->isolation)) {
        op->offset = find->offset;
        op->out_timestamp = find->out_timestamp;
        op->leader_epoch = find->leader_epoch;
    }
    complete(op, find->err);
}

static void find(struct partition_offsets *op, int64_t timestamp, int64_t offset_min)
{
    op->find = (struct log_find){.timestamp = timestamp, .offset_min = offset_min, .done = was_found};
    partition_log_find(op->partition->log, &op->find);
}

static void answer(struct partition_offsets *op, int64_t offset, int32_t leader_epoch)
{
    op->offset = offset;
    op->leader_epoch = leader_epoch;
    complete(op, ERR_OK);
}

/* ListOffsets v0: bases of segments whose records are all at or before the time, newest first; the end before them for
 * latest. */
static void list_segments(struct partition_offsets *op)
{
    const struct partition *partition = op->partition;
    const struct partition_log *log = partition->log;
    int64_t start = partition_log_start_offset(log);
    uint32_t count = partition_log_segment_count(log);
    uint32_t room = count + 2 < op->max_num_offsets ? count + 2 : op->max_num_offsets;

    op->offsets = arena_array(op->arena, room, sizeof(op->offsets[0]));
    if (op->offsets == NULL) {
        complete(op, ERR_NOMEM);
        return;
    }
    if (op->timestamp == PARTITION_OFFSET_EARLIEST) {
        op->offsets[op->offset_count++] = start;
    } else {
        bool latest = op->timestamp == PARTITION_OFFSET_LATEST;

        if (latest)
            op->offsets[op->offset_count++] = partition_readable_end(partition, op->isolation);
        for (uint32_t i = count; i > 0 && op->offset_count < room; i--) {
            int64_t base = partition_log_segment_base(log, i - 1);

            if (base < start)
                base = start; /* what lies before the start is no more */
            if (op->offset_count > 0 && op->offsets[op->offset_count - 1] <= base)
                continue;
            if (latest || partition_log_segment_max_timestamp(log, i - 1) <= op->timestamp)
                op->offsets[op->offset_count++] = base;
        }
        if (latest && count == 0 && op->offset_count < room && op->offsets[0] > start)
            op->offsets[op->offset_count++] = start;
    }
    if (op->offset_count > 0)
        op->offset = op->offsets[0];
    complete(op, ERR_OK);
}

void partition_offsets_start(struct partition_offsets *op)
{
    const struct partition *partition = op->partition;
    enum err err = partition_check(partition, op->current_leader_epoch);

    if (err != ERR_OK) {
        complete(op, err);
        return;
    }
    if (op->max_num_offsets > 0) {
        list_segments(op);
        return;
    }
    switch (op->timestamp) {
    case PARTITION_OFFSET_LATEST:
        answer(op, partition_readable_end(partition, op->isolation), partition->leader_epoch);
        return;
    case PARTITION_OFFSET_EARLIEST:
    case PARTITION_OFFSET_EARLIEST_LOCAL: {
        int64_t start = partition_log_start_offset(partition->log);

        answer(op, start, partition_log_epoch_at(partition->log, start));
        return;
    }
    case PARTITION_OFFSET_LATEST_TIERED: /* no tier: none */
    case PARTITION_OFFSET_EARLIEST_PENDING_UPLOAD:
        answer(op, -1, -1);
        return;
    case PARTITION_OFFSET_MAX_TIMESTAMP:
        find(op, LOG_FIND_MAX_TIMESTAMP, 0);
        return;
    case PARTITION_OFFSET_NEXT:
        find(op, INT64_MIN, op->offset_min);
        return;
    default:
        if (op->timestamp < 0)
            complete(op, ERR_UNSUPPORTED_VERSION);
        else
            find(op, op->timestamp, 0);
    }
}

void partition_offsets(struct partition *partition, struct partition_offsets *op)
{
    op->partition = partition;
    op->err = ERR_OK;
    op->offset = -1;
    op->out_timestamp = -1;
    op->leader_epoch = -1;
    op->offsets = NULL;
    op->offset_count = 0;
    list_node_init(&op->node);
    if (partition->state == PARTITION_LOADING)
        partition_load_await(partition, &partition->load->offsets, &op->node);
    else
        partition_offsets_start(op);
}
