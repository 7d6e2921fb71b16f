/* Deletion from the beginning: DeleteRecords, and retention by age and size. */
#include "partition/partition.h"

#include "base/assert.h"

#include "partition/partition_internal.h"

void partition_when_ready(struct partition *partition, struct partition_wait *wait)
{
    list_node_init(&wait->node);
    if (partition->state == PARTITION_LOADING)
        partition_load_await(partition, &partition->load->waits, &wait->node);
    else
        wait->done(wait, partition);
}

enum err partition_delete_records(struct partition *partition, int64_t offset, int64_t *low_watermark)
{
    const struct log_config *config = partition_config(partition);
    enum err err = partition_check(partition, -1);

    *low_watermark = -1;
    if (err != ERR_OK)
        return err;
    if (config->cleanup_compact && !config->cleanup_delete)
        return ERR_POLICY_VIOLATION;
    if (offset == PARTITION_DELETE_TO_HIGH_WATERMARK)
        offset = partition->high_watermark;
    if (offset < 0 || offset > partition->high_watermark)
        return ERR_OFFSET_OUT_OF_RANGE;
    partition_log_move_start(partition->log, offset);
    *low_watermark = partition_log_start_offset(partition->log);
    return ERR_OK;
}

void partition_scrub(struct partition *partition, struct log_scrub *op)
{
    assert(partition->state == PARTITION_READY);
    partition_log_scrub(partition->log, op);
}

void partition_retain(struct partition *partition)
{
    if (partition->state == PARTITION_READY)
        partition_log_retain(partition->log, partition->high_watermark);
}
