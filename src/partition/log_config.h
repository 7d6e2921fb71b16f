/*
 * log_config: what a topic's configuration says about its logs, in Kafka's units and with Kafka's defaults. A value
 * type, replaced as a whole when the topic's configuration changes. The logs of a topic that have one home share a
 * copy: thousands of idle ones do not hold it each.
 *
 * Threads  none of its own; a shared copy is its holders', who have one home.
 */
#ifndef OTTLA_PARTITION_LOG_CONFIG_H
#define OTTLA_PARTITION_LOG_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

enum log_timestamp_type { LOG_CREATE_TIME, LOG_APPEND_TIME };

/* compression.type; "producer" keeps what the producer chose. */
enum log_compression {
    LOG_COMPRESSION_PRODUCER = -1,
    LOG_COMPRESSION_NONE = 0, /* from here on the codec bits of a batch's attributes */
    LOG_COMPRESSION_GZIP = 1,
    LOG_COMPRESSION_SNAPPY = 2,
    LOG_COMPRESSION_LZ4 = 3,
    LOG_COMPRESSION_ZSTD = 4,
};

struct log_config {
    int64_t segment_bytes;       /* segment.bytes */
    int64_t segment_ms;          /* segment.ms */
    int64_t segment_jitter_ms;   /* segment.jitter.ms: up to this is taken off segment_ms, drawn for each segment */
    int32_t segment_index_bytes; /* segment.index.bytes: a full index rolls the segment */
    int32_t index_interval_bytes;
    int32_t max_message_bytes;
    int32_t max_decompressed_message_bytes; /* of one record, where a compressed batch is opened */
    int64_t retention_ms;                   /* -1: without limit */
    int64_t retention_bytes;                /* -1: without limit */
    int64_t flush_messages; /* 1: nothing counts as written before it is synced; INT64_MAX: never asked for */
    int64_t flush_ms;       /* INT64_MAX: never asked for */
    int64_t file_delete_delay_ms;
    double min_cleanable_dirty_ratio;
    int64_t min_compaction_lag_ms;
    int64_t max_compaction_lag_ms; /* a segment of a compacted topic is rolled by then, too */
    int64_t delete_retention_ms;
    int64_t timestamp_before_max_ms;
    int64_t timestamp_after_max_ms;
    enum log_timestamp_type timestamp_type;
    enum log_compression compression;
    int32_t min_insync_replicas;
    bool cleanup_delete;
    bool cleanup_compact;     /* also: keys must not be null */
    bool validate_compressed; /* ottla.validate.compressed, and always for internal topics: batches are opened */
};

/* Kafka's defaults. */
void log_config_init(struct log_config *config);

/* A copy on the heap, with one holder; NULL without memory. */
struct log_config *log_config_share(const struct log_config *config) MUST_CHECK;
struct log_config *log_config_keep(struct log_config *shared);
/* The last one frees it. NULL does nothing. */
void log_config_drop(struct log_config *shared);

#endif
