/* Loading: the log's records, from its start to its end, become a state. */
#include "base/assert.h"
#include "base/big_endian.h"
#include "base/mem.h"
#include "coordinator/state_log_internal.h"
#include "protocol/record.h"

enum {
    COPIED_BYTES_MAX = 64 * 1024, /* of a piece that lies in memory; the rest comes by a job */
    CONTROL_KEY_BYTES_MIN = 4,
};

/* A load that takes so long is told of: requests wait for it. */
#define TOLD_NS INT64_C(1000000000)

static void go_on(struct state_log *log);

static void load_free(struct state_log *log)
{
    struct state_load *load = log->load;

    mem_free(load->data);
    arena_deinit(&load->arena);
    mem_free(load);
    log->load = NULL;
}

/* The next of those that wait for their turn. */
static void next_begins(struct state_logs *logs);

static void finish(struct state_log *log, enum err err)
{
    struct state_logs *logs = log->logs;
    int64_t took_ns = loop_now_ns(logs->loop) - log->load->began_ns;
    uint64_t records = log->load->records;

    load_free(log);
    logs->loads_under_way--;
    if (log->state == STATE_LOG_CLOSED || err != ERR_OK) {
        state_log_load_failed(log, err);
    } else {
        if (took_ns >= TOLD_NS)
            log_info(logs->log, "%s coordinator loaded partition=%d records=%llu took_ms=%lld", log->kind->name,
                     log->index, (unsigned long long)records, (long long)(took_ns / 1000000));
        else
            log_debug(logs->log, "%s coordinator loaded partition=%d records=%llu", log->kind->name, log->index,
                      (unsigned long long)records);
        state_log_loaded(log);
    }
    next_begins(logs);
}

/* --- replay --- */

static enum err replay_control(struct state_log *log, const struct batch_header *header, const struct record *record)
{
    int16_t type = 0;

    if (record->key.size < CONTROL_KEY_BYTES_MIN)
        return ERR_DAMAGED;
    type = (int16_t)big_endian_load_u16(record->key.data + 2);
    if (type != CONTROL_COMMIT && type != CONTROL_ABORT)
        return ERR_OK;
    return log->kind->replay_marker(log->of_kind, header->producer_id, type == CONTROL_COMMIT);
}

static enum err replay_record(struct state_log *log, const struct batch_header *header, const struct record *record)
{
    if (record->offset < log->load->offset) /* the log's start lies in the middle of a batch */
        return ERR_OK;
    log->load->records++;
    if (batch_has(header, BATCH_CONTROL))
        return replay_control(log, header, record);
    return log->kind->replay(log->of_kind, batch_has(header, BATCH_TRANSACTIONAL) ? header->producer_id : -1,
                             record->key, record->value);
}

static enum err replay_batch(struct state_log *log, struct bytes batch, const struct batch_header *header)
{
    struct record_iter iter;
    struct record record;
    int64_t offset = log->load->offset;
    enum err err = record_iter_init(&iter, batch, BATCH_OPENED_BYTES_MAX);

    if (err != ERR_OK)
        return err;
    while (err == ERR_OK) {
        err = record_iter_next(&iter, &record);
        if (err == ERR_OK) {
            offset = record.offset;
            err = replay_record(log, header, &record);
        }
    }
    record_iter_deinit(&iter);
    if (err == ERR_END)
        return ERR_OK;
    log_line_rated(log->logs->log, &log->logs->lines, LOG_ERROR,
                   "%s coordinator: record cannot be replayed partition=%d offset=%lld err=%s", log->kind->name,
                   log->index, (long long)offset, err_name(err));
    return err;
}

/* As much as one turn may take. */
static enum err replay_turn(struct state_log *log)
{
    struct state_load *load = log->load;
    size_t until = load->at + STATE_LOG_TURN_BYTES;

    while (load->at < load->size && load->at < until) {
        struct bytes rest = bytes_of(load->data + load->at, load->size - load->at);
        struct batch_header header;
        enum err err = batch_peek(rest, &header, NULL);

        if (err == ERR_OK && batch_last_offset(&header) >= load->offset)
            err = replay_batch(log, bytes_of(rest.data, header.size), &header);
        if (err != ERR_OK)
            return err == ERR_END ? ERR_DAMAGED : err;
        load->at += header.size;
        if (batch_last_offset(&header) >= load->offset)
            load->offset = batch_last_offset(&header) + 1;
    }
    return ERR_OK;
}

/* --- a piece --- */

static void drop_slices(struct state_load *load)
{
    for (uint32_t i = 0; i < load->read.slice_count; i++)
        if (load->read.slices[i].file != NULL)
            fs_file_drop(load->read.slices[i].file);
    load->read.slice_count = 0;
}

/* On an I/O thread, or where all lies in memory on the loop. */
static void gather(struct loop_job *job)
{
    struct state_load *load = LIST_ENTRY(job, struct state_load, job);
    size_t at = 0;

    load->err = ERR_OK;
    for (uint32_t i = 0; i < load->read.slice_count && load->err == ERR_OK; i++) {
        const struct slice *slice = &load->read.slices[i];
        size_t got = slice->size;

        if (slice->file == NULL)
            memcpy(load->data + at, slice->data, slice->size);
        else
            load->err = fs_read(slice->file, slice->position, load->data + at, slice->size, &got);
        if (load->err == ERR_OK && got < slice->size)
            load->err = ERR_DAMAGED;
        at += slice->size;
    }
}

static void gathered(struct loop_job *job)
{
    struct state_load *load = LIST_ENTRY(job, struct state_load, job);

    struct state_log *log = load->log;

    state_log_enter(log);
    drop_slices(load);
    arena_reset(&load->arena);
    load->at = 0;
    if (load->err == ERR_OK)
        go_on(log);
    else
        finish(log, load->err);
    state_log_leave(log);
}

static bool lies_in_memory(const struct state_load *load)
{
    for (uint32_t i = 0; i < load->read.slice_count; i++)
        if (load->read.slices[i].file != NULL)
            return false;
    return true;
}

static void take_piece(struct state_log *log, struct partition_read *read)
{
    struct state_load *load = log->load;

    mem_free(load->data);
    load->data = NULL;
    load->size = read->err == ERR_OK ? read->size : 0;
    if (read->err != ERR_OK || read->size == 0) { /* nothing: the log ends in a gap that compaction left */
        finish(log, read->err);
        return;
    }
    load->data = mem_alloc(read->size);
    if (load->data == NULL) {
        drop_slices(load);
        finish(log, ERR_NOMEM);
        return;
    }
    load->job.run = gather;
    load->job.done = gathered;
    if (lies_in_memory(load)) {
        gather(&load->job);
        gathered(&load->job);
        return;
    }
    loop_submit(log->logs->loop, &load->job);
}

static void was_read(struct partition_read *read)
{
    struct state_log *log = LIST_ENTRY(read, struct state_load, read)->log;

    state_log_enter(log);
    take_piece(log, read);
    state_log_leave(log);
}

static void read_piece(struct state_log *log)
{
    struct state_load *load = log->load;

    if (load->offset >= partition_end_offset(log->partition)) {
        finish(log, ERR_OK);
        return;
    }
    load->read = (struct partition_read){
        .offset = load->offset,
        .bytes_max = (uint32_t)log->logs->settings.load_bytes,
        .at_least_one = true,
        .isolation = PARTITION_READ_LOG_END,
        .current_leader_epoch = -1,
        .last_fetched_epoch = -1,
        .arena = &load->arena,
        .done = was_read,
    };
    partition_read(log->partition, &load->read);
}

static void turn(struct loop_task *task)
{
    struct state_log *log = LIST_ENTRY(task, struct state_load, task)->log;
    enum err err = ERR_OK;

    state_log_enter(log);
    if (log->state != STATE_LOG_CLOSED)
        err = replay_turn(log);
    if (err == ERR_OK)
        go_on(log);
    else
        finish(log, err);
    state_log_leave(log);
}

static void go_on(struct state_log *log)
{
    struct state_load *load = log->load;

    if (log->state == STATE_LOG_CLOSED || log->partition == NULL) {
        finish(log, ERR_NOT_LEADER_OR_FOLLOWER);
        return;
    }
    if (load->at >= load->size) {
        read_piece(log);
        return;
    }
    loop_post(log->logs->loop, &load->task);
}

/* --- begin and end --- */

static void start(struct state_log *log)
{
    struct state_load *load = log->load;
    enum err err = ERR_OK;

    state_log_enter(log);
    err = log->kind->make(log->context, &log->of_kind);
    load->waits = false;
    log->logs->loads_under_way++;
    load->began_ns = loop_now_ns(log->logs->loop);
    if (err == ERR_OK && log->partition == NULL)
        err = ERR_NOT_LEADER_OR_FOLLOWER;
    if (err == ERR_OK) {
        load->offset = partition_start_offset(log->partition);
        go_on(log);
    } else {
        finish(log, err);
    }
    state_log_leave(log);
}

static void next_begins(struct state_logs *logs)
{
    struct list_node *node = NULL;

    if (logs->starting_loads)
        return;
    logs->starting_loads = true; /* one that is empty ends at once: the next begins here, not deeper */
    while (logs->loads_under_way < STATE_LOG_LOADS_MAX && (node = list_take_first(&logs->loads)) != NULL)
        start(LIST_ENTRY(node, struct state_load, node)->log);
    logs->starting_loads = false;
}

void state_load_begin(struct state_log *log)
{
    struct state_load *load = mem_calloc(1, sizeof(*load));

    assert(log->load == NULL && log->of_kind == NULL);
    if (load == NULL) {
        state_log_load_failed(log, ERR_NOMEM);
        return;
    }
    load->log = log;
    load->task.run = turn;
    load->waits = true;
    arena_init(&load->arena, COPIED_BYTES_MAX);
    list_node_init(&load->node);
    log->load = load;
    list_add_last(&log->logs->loads, &load->node);
    next_begins(log->logs);
}

void state_load_end(struct state_log *log, enum err err)
{
    if (!log->load->waits) /* whoever has it comes back, and sees that the log is closed */
        return;
    list_remove(&log->load->node);
    load_free(log);
    state_log_load_failed(log, err);
}
