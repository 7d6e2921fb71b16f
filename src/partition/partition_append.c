/* Produce: validate, append, wait for the high watermark. */
#include "partition/partition.h"

#include "base/assert.h"
#include "base/mem.h"
#include "partition/partition_internal.h"
#include "protocol/batch_build.h"

void partition_append_complete(struct partition_append *op, enum err err)
{
    assert(op->state != PARTITION_APPEND_COMPLETED);
    op->state = PARTITION_APPEND_COMPLETED;
    op->err = partition_client_error(op->partition, err);
    if (op->rebuilt != NULL) {
        batch_builder_deinit(op->rebuilt);
        mem_free(op->rebuilt);
        op->rebuilt = NULL;
    }
    op->done(op);
}

/* --- validate --- */

/* Apache Kafka tells where the log starts with every error that the log itself finds, but for these. */
static void tell_start(struct partition_append *op, enum err err)
{
    if (err != ERR_MESSAGE_TOO_LARGE && err != ERR_RECORD_LIST_TOO_LARGE && err != ERR_CORRUPT_MESSAGE &&
        err != ERR_KAFKA_STORAGE_ERROR && err != ERR_CLOSED && err != ERR_UNSUPPORTED_COMPRESSION_TYPE)
        op->log_start_offset = partition_log_start_offset(op->partition->log);
}

static void rules_make(const struct partition_append *op, struct batch_rules *rules)
{
    const struct partition *partition = op->partition;
    const struct log_config *config = partition_config(partition);

    batch_rules_init(rules);
    rules->max_message_bytes = config->max_message_bytes;
    rules->record_bytes_max = config->max_decompressed_message_bytes;
    rules->segment_bytes = config->segment_bytes;
    rules->from_client = true;
    rules->keys_required = config->cleanup_compact;
    rules->stamp_append_time = config->timestamp_type == LOG_APPEND_TIME;
    rules->zstd_allowed = op->zstd_allowed;
    rules->open_compressed = config->validate_compressed;
    rules->codec = config->compression;
    rules->now_ms = clock_wall_ms(partition->env->clock);
    rules->timestamp_before_max_ms = config->timestamp_before_max_ms;
    rules->timestamp_after_max_ms = config->timestamp_after_max_ms;
}

/* compression.type differs from the producer's, or the offsets inside the batch are not in order. Rare, and as long as
 * opening it was: on the reactor. */
static enum err rebuild(struct partition_append *op, const struct batch_verdict *verdict)
{
    struct batch_spec spec;
    enum log_compression wanted = partition_config(op->partition)->compression;
    enum codec codec = wanted == LOG_COMPRESSION_PRODUCER ? batch_codec(&verdict->header) : (enum codec)wanted;
    uint8_t *batch = NULL;
    size_t size = 0;
    enum err err = ERR_OK;

    op->rebuilt = mem_alloc(sizeof(*op->rebuilt));
    if (op->rebuilt == NULL)
        return ERR_NOMEM;
    batch_spec_init(&spec);
    batch_builder_init(op->rebuilt, &spec);
    err = batch_recompress(op->rebuilt, bytes_of(op->batch, op->size), codec, CODEC_LEVEL_DEFAULT,
                           BATCH_OPENED_BYTES_MAX, &batch, &size);
    if (err != ERR_OK)
        return err;
    /* Another codec may make more of it; Apache Kafka looks a second time, too. */
    if (size > (size_t)partition_config(op->partition)->max_message_bytes)
        return ERR_MESSAGE_TOO_LARGE;
    op->log_append.batches = batch;
    op->log_append.size = size;
    return ERR_OK;
}

static enum err validate(struct partition_append *op)
{
    struct batch_rules rules;
    struct batch_verdict verdict;
    enum err err = ERR_OK;

    if (op->batch == NULL)
        return ERR_INVALID_RECORD;
    rules_make(op, &rules);
    err = batch_validate(op->batch, op->size, &rules, op->arena, &verdict);
    op->message = verdict.message;
    op->record_errors = verdict.record_errors;
    op->record_error_count = verdict.record_error_count;
    if (err != ERR_OK && verdict.framed)
        tell_start(op, err);
    if (err != ERR_OK)
        return err;
    /* No coordinator has verified that the partition is in the transaction (KIP-890). */
    if (batch_has(&verdict.header, BATCH_TRANSACTIONAL))
        return ERR_INVALID_TXN_STATE;
    op->record_count = verdict.header.record_count;
    if (rules.stamp_append_time)
        op->log_append_time_ms = verdict.header.max_timestamp;
    return verdict.rebuild ? rebuild(op, &verdict) : ERR_OK;
}

/* --- append and wait --- */

static void ack_wait(struct partition *partition, struct partition_append *op)
{
    struct list_node *before = &partition->acks.head;

    /* Ascending; only a duplicate's old offset ever goes before the end. */
    while (before->previous != &partition->acks.head &&
           LIST_ENTRY(before->previous, struct partition_append, node)->wait_offset > op->wait_offset)
        before = before->previous;
    assert(op->state == PARTITION_APPEND_LOGGING);
    op->state = PARTITION_APPEND_ACKING;
    list_insert_before(before, &op->node);
}

static void appended(struct log_append *log_op)
{
    struct partition_append *op = LIST_ENTRY(log_op, struct partition_append, log_append);
    struct partition *partition = op->partition;
    bool waits = op->acks == -1 || (op->acks == 1 && partition_config(partition)->flush_messages != INT64_MAX);

    if (log_op->err != ERR_OK) {
        op->log_append_time_ms = -1;
        tell_start(op, log_op->err);
        partition_append_complete(op, log_op->err);
        return;
    }
    op->base_offset = log_op->base_offset;
    op->log_start_offset = partition_log_start_offset(partition->log);
    if (log_op->duplicate && op->log_append_time_ms >= 0)
        op->log_append_time_ms = log_op->max_timestamp;
    op->wait_offset = log_op->last_offset + 1;
    if (waits && op->wait_offset > partition->high_watermark)
        ack_wait(partition, op);
    else
        partition_append_complete(op, ERR_OK);
}

bool partition_has_room(const struct partition *partition)
{
    return partition->essential || !dir_space_refuses(partition->env->space);
}

void partition_append_start(struct partition_append *op)
{
    struct partition *partition = op->partition;
    enum err err = partition_check(partition, op->current_leader_epoch);

    op->log_append.batches = op->batch;
    op->log_append.size = op->size;
    if (err == ERR_OK && op->origin == LOG_ORIGIN_CLIENT)
        err = validate(op);
    if (err != ERR_OK) {
        partition_append_complete(op, err);
        return;
    }
    assert(op->state == PARTITION_APPEND_NEW || op->state == PARTITION_APPEND_LOADING);
    op->state = PARTITION_APPEND_LOGGING;
    op->log_append.origin = op->origin;
    op->log_append.leader_epoch = partition->leader_epoch;
    op->log_append.done = appended;
    partition_log_append(partition->log, &op->log_append);
}

void partition_append(struct partition *partition, struct partition_append *op)
{
    op->partition = partition;
    op->state = PARTITION_APPEND_NEW;
    op->rebuilt = NULL;
    op->err = ERR_OK;
    op->base_offset = -1;
    op->log_append_time_ms = -1;
    op->log_start_offset = -1;
    op->record_count = 0;
    op->record_errors = NULL;
    op->record_error_count = 0;
    op->message = NULL;
    list_node_init(&op->node);
    if (partition->state == PARTITION_LOADING) {
        op->state = PARTITION_APPEND_LOADING;
        partition_load_await(partition, &partition->load->appends, &op->node);
    } else {
        partition_append_start(op);
    }
}

bool partition_append_cancel(struct partition_append *op, enum err err)
{
    switch (op->state) {
    case PARTITION_APPEND_LOADING:
    case PARTITION_APPEND_ACKING:
        list_remove(&op->node);
        break;
    case PARTITION_APPEND_LOGGING:
        if (!partition_log_append_cancel(op->partition->log, &op->log_append))
            return false;
        break;
    default:
        return false;
    }
    partition_append_complete(op, err);
    return true;
}
