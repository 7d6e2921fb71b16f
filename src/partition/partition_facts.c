/* What a partition tells of itself. */
#include "partition/partition_internal.h"

int64_t partition_start_offset(const struct partition *partition)
{
    return partition->log == NULL ? 0 : partition_log_start_offset(partition->log);
}

int64_t partition_end_offset(const struct partition *partition)
{
    return partition->log == NULL ? 0 : partition_log_end_offset(partition->log);
}

int64_t partition_synced_offset(const struct partition *partition)
{
    return partition->log == NULL ? 0 : partition_log_synced_offset(partition->log);
}

int64_t partition_recovery_point(const struct partition *partition)
{
    return partition->log == NULL ? 0 : partition_log_recovery_point(partition->log);
}

int64_t partition_high_watermark(const struct partition *partition)
{
    return partition->high_watermark;
}

int64_t partition_last_stable_offset(const struct partition *partition)
{
    int64_t unstable = partition->log == NULL ? INT64_MAX : partition_log_first_unstable_offset(partition->log);

    /* A snapshot may tell of a transaction whose first records are deleted: what is left of it is not stable. */
    if (unstable < partition_start_offset(partition))
        unstable = partition_start_offset(partition);
    return unstable < partition->high_watermark ? unstable : partition->high_watermark;
}

int64_t partition_cleaned_offset(const struct partition *partition)
{
    return partition->log == NULL ? -1 : partition_log_cleaned_offset(partition->log);
}

struct partition_checkpoint partition_look_checkpoint(const struct partition *partition)
{
    const struct partition_log *log = partition->log;
    const struct partition_load *load = partition->load;

    if (log != NULL)
        return (struct partition_checkpoint){.recovery_point = partition_log_recovery_point(log),
                                             .start_offset = partition_log_start_offset(log),
                                             .high_watermark = partition->high_watermark,
                                             .cleaned_offset = partition_log_cleaned_offset(log)};
    return (struct partition_checkpoint){.recovery_point = load->spec.recovery_point,
                                         .start_offset = load->spec.start_offset,
                                         .high_watermark = load->high_watermark,
                                         .cleaned_offset =
                                             load->spec.cleaned_offset > 0 ? load->spec.cleaned_offset : -1};
}

int32_t partition_leader_epoch(const struct partition *partition)
{
    return partition->leader_epoch;
}

uint64_t partition_size(const struct partition *partition)
{
    return partition->log == NULL ? 0 : partition_log_size(partition->log);
}

bool partition_is_ready(const struct partition *partition)
{
    return partition->state == PARTITION_READY;
}

bool partition_is_failed(const struct partition *partition)
{
    return partition->state == PARTITION_UNUSABLE ||
           (partition->state == PARTITION_READY && partition_log_failed(partition->log));
}

bool partition_is_gone(const struct partition *partition)
{
    return partition->state == PARTITION_GONE;
}

struct bytes partition_topic(const struct partition *partition)
{
    return bytes_of_text(partition->log == NULL ? partition->topic : partition_log_topic(partition->log));
}

struct uuid partition_topic_id(const struct partition *partition)
{
    return partition->topic_id;
}

int32_t partition_index(const struct partition *partition)
{
    return partition->index;
}

const struct log_config *partition_config(const struct partition *partition)
{
    return partition->log != NULL ? partition_log_config(partition->log) : partition->load->config;
}

enum err partition_epoch_end(const struct partition *partition, int32_t current_leader_epoch, int32_t epoch,
                             int32_t *found_epoch, int64_t *end_offset)
{
    enum err err = partition_check(partition, current_leader_epoch);

    *found_epoch = -1;
    *end_offset = -1;
    if (err == ERR_OK)
        partition_log_epoch_end(partition->log, epoch, found_epoch, end_offset);
    return err;
}
