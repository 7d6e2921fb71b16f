/*
 * log_syncing: one log's sync while it is under way, alone (log_sync.c) or with others (sync_group.c). Nobody else
 * includes it.
 */
#ifndef OTTLA_PARTITION_LOG_SYNCING_H
#define OTTLA_PARTITION_LOG_SYNCING_H

#include "partition/log_internal.h"

struct log_sync_job {
    struct loop_job job;       /* alone */
    struct list_node in_group; /* with others */
    struct partition_log *log;
    struct log_sync_plan plan;
    uint64_t bytes;        /* un-synced when it began */
    int64_t counted_bytes; /* with others: of those, in the directory's count and not the log's */
    uint64_t anchor_bytes;
    int64_t began_ns;
    enum err err;
};

/* The log's sync begins: it covers what there is by now. NULL without memory, and the timer tries again. */
struct log_sync_job *log_sync_job_new(struct partition_log *log);
/* It has ended as job->err and the plan say, which is freed. The log may be gone afterwards. */
void log_sync_job_end(struct log_sync_job *job);

#endif
