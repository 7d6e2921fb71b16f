#include "partition/log_config.h"

#include "base/assert.h"
#include "base/limits.h"
#include "base/list.h"
#include "base/mem.h"

struct shared_config {
    uint32_t holders;
    struct log_config config;
};

static struct shared_config *shared_of(struct log_config *config)
{
    return LIST_ENTRY(config, struct shared_config, config);
}

struct log_config *log_config_share(const struct log_config *config)
{
    struct shared_config *made = mem_alloc(sizeof(*made));

    if (made == NULL)
        return NULL;
    *made = (struct shared_config){.holders = 1, .config = *config};
    return &made->config;
}

struct log_config *log_config_keep(struct log_config *shared)
{
    shared_of(shared)->holders++;
    return shared;
}

void log_config_drop(struct log_config *shared)
{
    if (shared == NULL)
        return;
    assert(shared_of(shared)->holders > 0);
    if (--shared_of(shared)->holders == 0)
        mem_free(shared_of(shared));
}

void log_config_init(struct log_config *config)
{
    *config = (struct log_config){
        .segment_bytes = 1024 * 1024 * 1024,
        .segment_ms = 7 * INT64_C(86400000),
        .segment_jitter_ms = 0,
        .segment_index_bytes = 10 * 1024 * 1024,
        .index_interval_bytes = 4096,
        .max_message_bytes = MESSAGE_BYTES_DEFAULT,
        .max_decompressed_message_bytes = INT32_MAX - 8, /* what an array of Java holds */
        .retention_ms = 7 * INT64_C(86400000),
        .retention_bytes = -1,
        .flush_messages = INT64_MAX,
        .flush_ms = INT64_MAX,
        .file_delete_delay_ms = 60000,
        .min_cleanable_dirty_ratio = 0.5,
        .min_compaction_lag_ms = 0,
        .max_compaction_lag_ms = INT64_MAX,
        .delete_retention_ms = INT64_C(86400000),
        .timestamp_before_max_ms = INT64_MAX,
        .timestamp_after_max_ms = 3600000,
        .timestamp_type = LOG_CREATE_TIME,
        .compression = LOG_COMPRESSION_PRODUCER,
        .min_insync_replicas = 1,
        .cleanup_delete = true,
        .cleanup_compact = false,
        .validate_compressed = false,
    };
}
