/* Writing: the records of steps become batches, and those go into the log, in order. */
#include "base/assert.h"
#include "base/clock.h"
#include "base/mem.h"
#include "coordinator/state_log_internal.h"

enum {
    SCRATCH_KEPT_BYTES = 64 * 1024,
    NULL_SIZE = -1,
};

/* A record in the scratch: this, then key and value. */
struct scratch_record {
    uint32_t key_size;
    int32_t value_size; /* NULL_SIZE: a tombstone */
};

/* --- records of the step under way --- */

static enum err scratch_add(struct state_logs *logs, struct bytes key, struct bytes value)
{
    struct scratch_record front = {(uint32_t)key.size, value.data == NULL ? NULL_SIZE : (int32_t)value.size};
    size_t wanted = logs->scratch_size + sizeof(front) + key.size + value.size;
    uint8_t *at = NULL;

    if (wanted > logs->scratch_room) {
        size_t room = wanted > 2 * logs->scratch_room ? wanted : 2 * logs->scratch_room;

        at = mem_realloc(logs->scratch, room);
        if (at == NULL)
            return ERR_NOMEM;
        logs->scratch = at;
        logs->scratch_room = room;
    }
    at = logs->scratch + logs->scratch_size;
    memcpy(at, &front, sizeof(front));
    memcpy(at + sizeof(front), key.data, key.size);
    if (value.size > 0)
        memcpy(at + sizeof(front) + key.size, value.data, value.size);
    logs->scratch_size = wanted;
    return ERR_OK;
}

void state_write_clear(struct state_logs *logs)
{
    logs->scratch_size = 0;
    if (logs->scratch_room <= SCRATCH_KEPT_BYTES)
        return;
    mem_free(logs->scratch);
    logs->scratch = NULL;
    logs->scratch_room = 0;
}

/* What the step's records take in a batch, at most. */
static size_t step_bytes(const struct state_log *log)
{
    return log->logs->scratch_size +
           (size_t)log->step_records * (STEP_RECORD_FRAME_BYTES - sizeof(struct scratch_record));
}

static size_t batch_bytes_max(const struct state_log *log)
{
    return log->partition == NULL ? 0 : (size_t)partition_config(log->partition)->max_message_bytes;
}

size_t state_write_room(const struct state_log *log)
{
    size_t used = BATCH_HEADER_BYTES + step_bytes(log);

    return used > batch_bytes_max(log) ? 0 : batch_bytes_max(log) - used;
}

enum err state_write_record(struct state_log *log, const struct step_producer *producer, struct bytes key,
                            struct bytes value)
{
    enum err err = ERR_OK;

    assert(log->step_records == 0 || (producer == NULL ? -1 : producer->id) == log->step_producer.id);
    if (step_record_bytes(key.size, value.size) > state_write_room(log))
        return ERR_MESSAGE_TOO_LARGE;
    err = scratch_add(log->logs, key, value);
    if (err != ERR_OK)
        return err;
    log->step_records++;
    if (producer != NULL)
        log->step_producer = *producer;
    return ERR_OK;
}

/* --- batches --- */

static void batch_free(struct state_batch *batch)
{
    list_remove(&batch->node);
    batch->log->pending_bytes -= batch->counted_bytes;
    batch_builder_deinit(&batch->builder);
    mem_free(batch);
}

/* In the name of the step under way. */
static enum err batch_begin(struct state_log *log)
{
    struct state_batch *batch = mem_calloc(1, sizeof(*batch));
    struct batch_spec spec;

    if (batch == NULL)
        return ERR_NOMEM;
    batch_spec_init(&spec);
    spec.codec = log->logs->settings.codec;
    spec.size_max = batch_bytes_max(log);
    spec.transactional = log->step_producer.id >= 0;
    spec.producer_id = log->step_producer.id;
    spec.producer_epoch = log->step_producer.epoch;
    batch_builder_init(&batch->builder, &spec);
    batch->log = log;
    batch->expected_offset = log->end_offset;
    list_node_init(&batch->node);
    log->current = batch;
    return ERR_OK;
}

static void batch_queue_current(struct state_log *log)
{
    if (log->current == NULL)
        return;
    list_add_last(&log->queued, &log->current->node);
    log->current = NULL;
}

static void batch_count(struct state_batch *batch)
{
    batch->log->pending_bytes += batch_builder_size(&batch->builder) - batch->counted_bytes;
    batch->counted_bytes = batch_builder_size(&batch->builder);
}

static void drop(struct state_log *log)
{
    struct list_node *node = NULL;

    batch_queue_current(log);
    while ((node = list_first(&log->queued)) != NULL)
        batch_free(LIST_ENTRY(node, struct state_batch, node));
}

static enum err add_to_batch(struct state_log *log, int64_t now_ms)
{
    const uint8_t *at = log->logs->scratch;
    const uint8_t *end = at + log->logs->scratch_size;

    while (at < end) {
        struct scratch_record front;
        struct bytes key;
        struct bytes value = {0};
        enum err err = ERR_OK;

        memcpy(&front, at, sizeof(front));
        at += sizeof(front);
        key = bytes_of(at, front.key_size);
        at += front.key_size;
        if (front.value_size != NULL_SIZE)
            value = bytes_of(at, (size_t)front.value_size);
        at += value.size;
        err = batch_builder_append(&log->current->builder, now_ms, key, value, NULL, 0);
        if (err != ERR_OK)
            return err;
    }
    return ERR_OK;
}

/* The step's records behind those of earlier ones, all or none. */
enum err state_write_step(struct state_log *log, int64_t now_ms)
{
    struct batch_builder mark;
    enum err err = ERR_OK;

    if (log->step_records == 0)
        return ERR_OK;
    if (log->current != NULL && log->step_producer.id >= 0)
        batch_queue_current(log);
    if (log->current != NULL &&
        batch_builder_size(&log->current->builder) + step_bytes(log) > log->current->builder.spec.size_max)
        batch_queue_current(log);
    if (log->current == NULL)
        err = batch_begin(log);
    if (err != ERR_OK)
        return err;
    mark = log->current->builder;
    err = add_to_batch(log, now_ms);
    if (err != ERR_OK) { /* as it was, but for what memory it has */
        mark.data = log->current->builder.data;
        mark.room = log->current->builder.room;
        log->current->builder = mark;
    } else {
        log->end_offset += log->step_records;
    }
    batch_count(log->current);
    if (log->current->builder.record_count == 0) {
        batch_free(log->current);
        log->current = NULL;
    } else if (log->step_producer.id >= 0) { /* a transaction's batch holds nothing else */
        batch_queue_current(log);
    }
    return err;
}

/* --- on their way --- */

/* Takes those back that are not written yet: they stand on what has failed. */
static void cancel_flying(struct state_log *log, enum err err)
{
    list_each (&log->flying, node) {
        struct partition_append *op = &LIST_ENTRY(node, struct state_batch, node)->append;

        if (op->state != PARTITION_APPEND_LOADING && op->state != PARTITION_APPEND_LOGGING)
            continue;
        if (partition_append_cancel(op, err))
            return; /* its end has come here again, for the rest */
    }
}

void state_write_fail(struct state_log *log, enum err err)
{
    drop(log);
    cancel_flying(log, err);
}

static void appended(struct partition_append *op)
{
    struct state_batch *batch = LIST_ENTRY(op, struct state_batch, append);
    struct state_log *log = batch->log;
    enum err err = op->err;

    state_log_enter(log);
    if (err == ERR_OK && op->base_offset != batch->expected_offset) { /* somebody else writes here */
        log_error(log->logs->log,
                  "%s coordinator wrote at another offset partition=%d offset=%lld expected_offset=%lld",
                  log->kind->name, log->index, (long long)op->base_offset, (long long)batch->expected_offset);
        err = ERR_UNKNOWN_SERVER_ERROR;
    }
    log->in_flight--;
    batch_free(batch);
    if (err == ERR_OK) {
        log->retry_ms = 0;
        state_log_release(log);
        state_write_flush(log);
    } else {
        state_log_append_failed(log, err);
    }
    state_log_leave(log);
}

static void append(struct state_log *log, struct state_batch *batch)
{
    enum err err = ERR_OK;

    batch->append = (struct partition_append){.origin = LOG_ORIGIN_COORDINATOR,
                                              .acks = -1,
                                              .current_leader_epoch = -1,
                                              .zstd_allowed = true,
                                              .done = appended};
    log->in_flight++;
    list_add_last(&log->flying, &batch->node);
    err = log->partition == NULL ? ERR_NOT_LEADER_OR_FOLLOWER
                                 : batch_builder_finish(&batch->builder, &batch->append.batch, &batch->append.size);
    if (err == ERR_OK) {
        partition_append(log->partition, &batch->append);
        return;
    }
    log->in_flight--;
    batch_free(batch);
    state_log_append_failed(log, err);
}

/* Gives the partition what there is, within what may be under way. */
void state_write_flush(struct state_log *log)
{
    if (log->in_flight >= STATE_LOG_IN_FLIGHT_MAX) /* steps go on into the batch that is begun */
        return;
    while (log->in_flight < STATE_LOG_IN_FLIGHT_MAX) {
        struct list_node *node = list_take_first(&log->queued);

        if (node == NULL) {
            batch_queue_current(log);
            node = list_take_first(&log->queued);
        }
        if (node == NULL)
            return;
        append(log, LIST_ENTRY(node, struct state_batch, node));
    }
}

static void flush_deferred(struct loop_task *task)
{
    struct state_log *log = LIST_ENTRY(task, struct state_log, flush_task);

    state_log_enter(log);
    log->flush_deferred = false;
    state_write_flush(log);
    state_log_leave(log);
}

static void linger_is_over(struct loop_timer *timer)
{
    struct state_log *log = LIST_ENTRY(timer, struct state_log, linger_timer);

    state_log_enter(log);
    state_write_flush(log);
    state_log_leave(log);
}

/* What was written goes soon. */
void state_write_later(struct state_log *log)
{
    const struct state_logs *logs = log->logs;

    if (log->current == NULL && list_is_empty(&log->queued))
        return;
    if (logs->settings.linger_ms > 0 && list_is_empty(&log->queued) && log->state == STATE_LOG_ACTIVE) {
        if (log->linger_timer.heap_slot == 0)
            loop_timer_start(logs->loop, &log->linger_timer,
                             loop_now_ns(logs->loop) + logs->settings.linger_ms * NS_PER_MS);
        return;
    }
    if (log->flush_deferred)
        return;
    log->flush_deferred = true;
    loop_defer(logs->loop, &log->flush_task);
}

void state_write_init(struct state_log *log)
{
    list_init(&log->queued);
    list_init(&log->flying);
    log->flush_task.run = flush_deferred;
    log->linger_timer.fired = linger_is_over;
}
