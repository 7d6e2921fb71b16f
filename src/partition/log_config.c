#include "partition/log_config.h"

#include "base/limits.h"

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
