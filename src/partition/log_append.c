/* The end of the log: the queue of appends, and the jobs that make, roll and cut back the file they go to. */
#include "partition/log.h"

#include <inttypes.h>

#include "base/assert.h"
#include "base/mem.h"
#include "partition/checkpoint.h"
#include "partition/log_internal.h"
#include "partition/partition_limits.h"

struct log_append_job {
    struct loop_job job;
    struct partition_log *log;
    enum log_append_job_kind kind;
    enum err err;
    /* create, roll */
    int64_t base_offset;
    struct segment *made;
    bool sync_topic_id;
    bool for_append;      /* the first in the queue asked for it */
    struct fs_file *file; /* out; of LOG_JOB_CUT and LOG_JOB_RELIEVE in, a reference */
    /* roll */
    struct segment *sealed;
    int64_t sync_base; /* of the sealed one, which is synced first; -1: it need not be */
    struct segment_index_tail tail;
    uint8_t *snapshot;
    size_t snapshot_size;
    int64_t snapshot_old; /* is removed: no segment begins there; -1: none */
    enum err tail_err;
    enum err snapshot_err;
    /* cut, relieve */
    uint64_t size;
};

/* --- jobs --- */

/* Where offsets may be missing, a power cut that keeps the next segment and loses the end of this one would not be
 * seen: what is acknowledged and what it stands on would have a hole, and the journals nothing to continue. */
static enum err sealed_sync(const struct log_append_job *job)
{
    const struct partition_log *log = job->log;
    struct fs_file *file = NULL;
    struct log_path path;
    enum err err = ERR_OK;

    if (job->sync_base < 0)
        return ERR_OK;
    log_path_segment(&path, log->dir, job->sync_base, SEGMENT_LOG);
    err = fs_open(log->env->fs, path.text, FS_READ | FS_WRITE, &file);
    if (err != ERR_OK)
        return err;
    if (fs_sync(file) != ERR_OK || fs_sync_dir(log->env->fs, log->dir) != ERR_OK)
        err = ERR_IO;
    fs_file_drop(file);
    return err;
}

static void make_segment(struct log_append_job *job)
{
    const struct partition_log *log = job->log;
    struct dir_relief relief = {0};
    struct log_path path;

    /* A record must never lie in a partition whose id is not certain to be there after a power cut. */
    if (job->sync_topic_id) {
        job->err = checkpoint_sync_topic_id(log->env->fs, log->dir);
        if (job->err != ERR_OK)
            return;
    }
    log_path_segment(&path, log->dir, job->base_offset, SEGMENT_LOG);
    do
        job->err = fs_open(log->env->fs, path.text, FS_READ | FS_WRITE | FS_CREATE | FS_TRUNCATE, &job->file);
    while (job->err == ERR_NO_SPACE && (log->essential || !job->for_append) &&
           dir_space_relieve(log->env->space, &relief));
}

/* An essential append has found no room: what it left is cut off, and some of the reserve given back for it. */
static void relieve(struct log_append_job *job)
{
    job->err = fs_truncate(job->file, job->size);
    if (job->err != ERR_OK)
        job->err = ERR_IO; /* its tail is not known any more */
    else if (!dir_space_relieve(job->log->env->space, &job->log->awake->relief))
        job->err = ERR_NO_SPACE;
}

static void append_job_run(struct loop_job *base)
{
    struct log_append_job *job = LIST_ENTRY(base, struct log_append_job, job);
    const struct partition_log *log = job->log;

    if (job->kind == LOG_JOB_CUT) {
        job->err = fs_truncate(job->file, job->size);
        return;
    }
    if (job->kind == LOG_JOB_RELIEVE) {
        relieve(job);
        return;
    }
    job->err = sealed_sync(job);
    if (job->err == ERR_OK)
        make_segment(job);
    if (job->err == ERR_OK && job->kind == LOG_JOB_ROLL) {
        /* Neither has to succeed: indexes and producers can be had from the batches. */
        if (job->tail.bytes != NULL)
            job->tail_err = segment_index_tail_write(log->env->fs, log->dir, &job->tail, false);
        if (job->snapshot != NULL)
            job->snapshot_err = log_snapshot_write(log->env->fs, log->dir, job->base_offset,
                                                   bytes_of(job->snapshot, job->snapshot_size), false);
        if (job->snapshot_err == ERR_OK && job->snapshot_old >= 0)
            job->snapshot_err = log_snapshot_remove(log->env->fs, log->dir, job->snapshot_old);
    }
}

static void segment_begin(struct partition_log *log, struct log_append_job *job)
{
    struct segment *segment = job->made;

    if (log->config->segment_jitter_ms > 0)
        segment->jitter_ms = (int64_t)rng_below(log->env->rng, (uint64_t)log->config->segment_jitter_ms);
    segment->indexed = true;
    log_segment_add(log, segment);
    job->made = NULL;
    log_file_opened(log, segment, job->file);
    job->file = NULL;
    log->names_changed = true;
    if (job->sync_topic_id)
        log->topic_id_unsynced = false;
}

static void roll_finish(struct partition_log *log, struct log_append_job *job)
{
    if (job->tail_err != ERR_OK)
        (void)log_storage_error(log, job->tail_err, "index of a rolled segment not written");
    else if (job->tail.bytes != NULL)
        segment_index_tail_done(job->sealed, &job->tail);
    if (job->snapshot_err != ERR_OK)
        (void)log_storage_error(log, job->snapshot_err, "producer snapshot not written");
    else if (job->snapshot != NULL)
        log->snapshot_offset = job->base_offset;
    log->anchor_bytes = 0;
}

static void job_free(struct log_append_job *job)
{
    if (job->made != NULL) {
        segment_deinit(job->made);
        mem_free(job->made);
    }
    fs_file_drop(job->file);
    segment_index_tail_deinit(&job->tail);
    mem_free(job->snapshot);
    mem_free(job);
}

/* The one append that asked for it is failed; those behind it may have better luck. */
static void first_fail(struct partition_log *log, enum err err)
{
    struct list_node *node = list_take_first(&log->awake->appends);

    if (node != NULL) {
        struct log_append *op = LIST_ENTRY(node, struct log_append, node);

        op->err = err;
        op->done(op);
    }
}

static void append_job_done(struct loop_job *base)
{
    struct log_append_job *job = LIST_ENTRY(base, struct log_append_job, job);
    struct partition_log *log = job->log;
    enum err err = job->err;

    log->awake->append_job = NULL;
    if (err == ERR_OK && (job->kind == LOG_JOB_CREATE || job->kind == LOG_JOB_ROLL)) {
        segment_begin(log, job);
        log_debug(log->env->log, "segment begun topic=%s partition=%" PRId32 " base_offset=%" PRId64, log->topic,
                  log->partition, job->base_offset);
        if (job->kind == LOG_JOB_ROLL)
            roll_finish(log, job);
    }
    if (err != ERR_OK) {
        /* Where the file cannot be cut back, its tail is not known any more. */
        if (job->kind == LOG_JOB_CUT)
            err = ERR_IO;
        err = log_storage_error(log, err,
                                job->kind == LOG_JOB_CUT       ? "segment not cut back"
                                : job->kind == LOG_JOB_RELIEVE ? "append cut back"
                                                               : "segment not made");
        log->awake->relief = (struct dir_relief){0};
        if (job->kind == LOG_JOB_RELIEVE || job->for_append)
            first_fail(log, err);
        log->retain_limit = -1; /* the next check tries again */
    }
    job_free(job);
    log_retain_go_on(log);
    log_appends_drain(log);
    log_job_ended(log);
}

static void submit(struct partition_log *log, struct log_append_job *job)
{
    job->job.run = append_job_run;
    job->job.done = append_job_done;
    job->log = log;
    log->awake->append_job = job;
    log_job_started(log);
    loop_submit(log->env->loop, &job->job);
}

/* Begins a segment at base_offset; with a segment before it, that one is sealed. */
static enum err segment_make(struct partition_log *log, int64_t base_offset, bool for_append)
{
    struct segment *last = log_last_segment(log);
    struct log_append_job *job = NULL;
    enum err err = log_wake(log);

    if (err == ERR_OK)
        err = log_segments_room_make(log);
    if (err != ERR_OK)
        return err;
    job = mem_calloc(1, sizeof(*job));
    if (job == NULL)
        return ERR_NOMEM;
    job->kind = last == NULL ? LOG_JOB_CREATE : LOG_JOB_ROLL;
    job->base_offset = base_offset;
    job->for_append = for_append;
    job->sync_topic_id = log->topic_id_unsynced;
    job->snapshot_old = -1;
    job->sync_base = -1;
    job->made = mem_alloc(sizeof(*job->made));
    if (job->made == NULL) {
        err = ERR_NOMEM;
        goto out;
    }
    segment_init(job->made, base_offset, clock_wall_ms(log->env->clock));
    job->made->written_from = 0; /* all that it will hold is ours */
    if (last != NULL) {
        if (last->indexed) /* else its files have what they will have */
            segment_seal_times(last);
        last->settled = false;
        job->sealed = last;
        if (log_gaps_are_allowed(log, last->base_offset))
            job->sync_base = last->base_offset;
        if (log->snapshot_offset >= 0 && !log_is_segment_base(log, log->snapshot_offset))
            job->snapshot_old = log->snapshot_offset;
        /* Where another job has them in hand, the next sync writes what is missing. */
        if (last->indexed && !log->sync_has_tails && !log->giving_back)
            err = segment_index_tail_take(last, &job->tail);
        if (err == ERR_OK)
            err = producer_state_format(&log->producers, &job->snapshot, &job->snapshot_size);
    }
out:
    if (err != ERR_OK) {
        job_free(job);
        return err;
    }
    submit(log, job);
    return ERR_OK;
}

static void cut_back(struct partition_log *log, const struct segment *segment, enum log_append_job_kind kind)
{
    struct log_append_job *job = mem_calloc(1, sizeof(*job));

    if (job == NULL) { /* what hangs over would be taken for a torn batch after a crash, and cut then */
        (void)log_storage_error(log, ERR_IO, "no memory to cut a segment back");
        return;
    }
    job->kind = kind;
    job->file = fs_file_keep(segment->file);
    job->size = segment->size;
    submit(log, job);
}

/* --- one append --- */

/* What the batches of an append are together. */
struct run {
    struct batch_header first;
    uint32_t count;
    int64_t end_offset; /* behind the last batch, with the offsets it will have */
    int64_t max_timestamp;
};

/* Looks at all batches; with assigned offsets, writes them in. */
static enum err run_prepare(struct partition_log *log, struct log_append *op, struct run *run)
{
    struct bytes rest = bytes_of(op->batches, op->size);
    uint8_t *at = op->batches;
    struct batch_header header;

    *run = (struct run){.end_offset = log->end_offset, .max_timestamp = -1};
    while (rest.size > 0) {
        if (batch_peek(rest, &header, NULL) != ERR_OK)
            return ERR_CORRUPT_MESSAGE;
        if (run->count == LOG_APPEND_BATCHES_MAX)
            return ERR_LIMIT;
        if (op->origin == LOG_ORIGIN_GIVEN) {
            if (header.base_offset < run->end_offset)
                return ERR_OFFSET_OUT_OF_RANGE;
        } else {
            if (run->end_offset > INT64_MAX - 1 - header.last_offset_delta)
                return ERR_LIMIT;
            header.base_offset = run->end_offset;
            header.leader_epoch = op->leader_epoch;
            batch_set_base_offset(at, header.base_offset);
            batch_set_leader_epoch(at, header.leader_epoch);
        }
        if (run->count++ == 0)
            run->first = header;
        if (header.max_timestamp > run->max_timestamp)
            run->max_timestamp = header.max_timestamp;
        run->end_offset = batch_last_offset(&header) + 1;
        rest = bytes_of(rest.data + header.size, rest.size - header.size);
        at += header.size;
    }
    return run->count == 0 ? ERR_INVALID_RECORD : ERR_OK;
}

/* Sequences, epochs and the memory that noting the batches will take. */
static enum err run_admit(struct partition_log *log, struct segment *segment, struct log_append *op,
                          const struct run *run)
{
    struct bytes rest = bytes_of(op->batches, op->size);
    struct batch_header header;
    uint32_t markers = 0;
    enum err err = ERR_OK;

    if (op->origin == LOG_ORIGIN_CLIENT) {
        const struct producer_batch *duplicate = NULL;

        if (run->count != 1)
            return ERR_INVALID_RECORD;
        err = producer_state_check(&log->producers, &run->first, &duplicate);
        if (err == ERR_OK && duplicate != NULL) {
            op->duplicate = true;
            op->base_offset = duplicate->last_offset - duplicate->offset_delta;
            op->last_offset = duplicate->last_offset;
            op->max_timestamp = duplicate->timestamp;
        }
    }
    while (err == ERR_OK && !op->duplicate && rest.size > 0) {
        batch_header_read(rest.data, &header);
        if (op->origin == LOG_ORIGIN_COORDINATOR)
            err = producer_state_check_coordinator(&log->producers, &header, bytes_of(rest.data, header.size),
                                                   op->transaction_version);
        else
            err = producer_state_reserve(&log->producers, &header);
        markers += batch_has(&header, BATCH_CONTROL) && header.producer_id >= 0;
        if (err == ERR_OK && header.leader_epoch >= 0)
            err = epoch_cache_assign(&log->epochs, header.leader_epoch, header.base_offset);
        rest = bytes_of(rest.data + header.size, rest.size - header.size);
    }
    if (err == ERR_OK && markers > 0)
        err = producer_state_reserve_ended(&log->producers, markers);
    if (err == ERR_OK && markers > 0) {
        log->has_aborted = true;
        err = segment_aborted_reserve(segment, markers);
    }
    return err;
}

/* Nothing of it was appended: what was noted ahead goes. */
static void run_forget(struct partition_log *log, const struct log_append *op)
{
    struct bytes rest = bytes_of(op->batches, op->size);
    struct batch_header header;

    while (rest.size > 0) {
        batch_header_read(rest.data, &header);
        producer_state_unreserve(&log->producers, header.producer_id);
        rest = bytes_of(rest.data + header.size, rest.size - header.size);
    }
    if (op->origin == LOG_ORIGIN_GIVEN)
        epoch_cache_truncate_end(&log->epochs, log->end_offset);
}

static void run_book(struct partition_log *log, struct segment *segment, const struct log_append *op)
{
    struct bytes rest = bytes_of(op->batches, op->size);
    struct batch_header header;
    struct producer_txn ended;

    while (rest.size > 0) {
        batch_header_read(rest.data, &header);
        segment_book(segment, &header, segment->size, log->config->index_interval_bytes);
        if (producer_state_apply(&log->producers, &header, bytes_of(rest.data, header.size), &ended))
            log_note_ended(segment, &ended);
        rest = bytes_of(rest.data + header.size, rest.size - header.size);
    }
    if (segment->max_timestamp < 0)
        segment->modified_ms = clock_wall_ms(log->env->clock);
    segment->settled = false;
    dir_space_take(log->env->space, op->size);
    log->size += op->size;
    log->anchor_bytes += op->size;
    if (log->end_offset == log->synced_offset)
        log->awake->unpromised_since_ns = loop_now_ns(log->env->loop);
    log->end_offset = segment->end_offset;
    if (log->awake->unsynced_bytes == 0)
        log->awake->unsynced_since_ns = loop_now_ns(log->env->loop);
    log->awake->unsynced_bytes += op->size;
}

/* ERR_WOULD_BLOCK: it is to be tried again when a job has made room. */
static enum err run_write(struct partition_log *log, struct segment *segment, struct log_append *op)
{
    struct bytes piece = bytes_of(op->batches, op->size);
    size_t written = 0;
    enum err err = fs_write(segment->file, segment->size, &piece, 1, &written);

    if (err == ERR_OK && written == op->size) {
        log->awake->relief = (struct dir_relief){0};
        return ERR_OK;
    }
    if (err != ERR_OK && err != ERR_NO_SPACE && err != ERR_NOMEM)
        return log_storage_error(log, err, "append failed");
    if (log->essential && log->env->space != NULL && err != ERR_NOMEM) {
        cut_back(log, segment, LOG_JOB_RELIEVE);
        return log->failed ? ERR_KAFKA_STORAGE_ERROR : ERR_WOULD_BLOCK;
    }
    if (written > 0)
        cut_back(log, segment, LOG_JOB_CUT);
    return log_storage_error(log, ERR_NO_SPACE, "append cut back");
}

/* False: it has to wait for a job, first in the queue. */
static bool append_one(struct partition_log *log, struct log_append *op)
{
    struct segment *segment = log_last_segment(log);
    int64_t end_before = log->end_offset;
    struct run run;

    op->duplicate = false;
    op->err = log->failed ? ERR_KAFKA_STORAGE_ERROR : run_prepare(log, op, &run);
    if (op->err != ERR_OK)
        return true;
    if (op->size > (uint64_t)log->config->segment_bytes || op->size > SEGMENT_BYTES_MAX ||
        run.end_offset - 1 - run.first.base_offset > INT32_MAX) { /* no segment can hold it */
        op->err = ERR_RECORD_LIST_TOO_LARGE;
        return true;
    }
    if (segment != NULL && segment->file == NULL) {
        op->err = log_segment_open(log, segment);
        return op->err != ERR_OK;
    }
    if (segment == NULL || segment_is_full(segment, log->config, op->size, run.max_timestamp, run.end_offset - 1,
                                           clock_wall_ms(log->env->clock))) {
        op->err = segment_make(log, run.first.base_offset, true);
        return op->err != ERR_OK;
    }
    if (log_dirty_wait(log))
        return false;
    op->err = run_admit(log, segment, op, &run);
    if (op->err != ERR_OK || op->duplicate) {
        if (op->err != ERR_OK)
            run_forget(log, op);
        return true;
    }
    op->err = run_write(log, segment, op);
    if (op->err != ERR_OK) {
        run_forget(log, op);
        return op->err != ERR_WOULD_BLOCK;
    }
    op->base_offset = run.first.base_offset;
    op->last_offset = run.end_offset - 1;
    op->max_timestamp = run.max_timestamp;
    run_book(log, segment, op);
    log_dirty_count(log);
    log_dirty_push(log, segment, op->size);
    log_journal_give(log, op, end_before);
    return true;
}

/* A last segment that is open is not closed meanwhile: what it still has to write is written by the roll. */
static void roll_now(struct partition_log *log)
{
    const struct segment *last = log_last_segment(log);
    enum err err = ERR_OK;

    log->roll_wanted = false;
    if (last == NULL || last->base_offset == log->end_offset)
        return;
    err = segment_make(log, log->end_offset, false);
    if (err != ERR_OK)
        log->retain_limit = -1; /* no memory; the next check tries again */
}

void log_roll(struct partition_log *log)
{
    log->roll_wanted = true;
    log_appends_drain(log);
}

void log_appends_drain(struct partition_log *log)
{
    bool moved = false;

    if (log->draining || (log_is_held(log) && !log->failed))
        return;
    log->draining = true;
    if (log->roll_wanted && log->awake->append_job == NULL && log->closing == NULL && !log->failed)
        roll_now(log);
    while (log->awake->append_job == NULL && !list_is_empty(&log->awake->appends) &&
           (!log_is_held(log) || log->failed)) {
        struct log_append *op = LIST_ENTRY(list_take_first(&log->awake->appends), struct log_append, node);
        int64_t end_before = log->end_offset;

        if (!append_one(log, op)) {
            list_add_first(&log->awake->appends, &op->node);
            break;
        }
        moved = moved || log->end_offset != end_before;
        op->done(op);
    }
    log->draining = false;
    log_truncation_go_on(log);
    log_move_go_on(log);
    if (log_close_continue(log))
        return;
    if (moved) {
        log_use(log);
        log_sync_go_on(log);
        log_timer_set(log);
    }
    if (moved || log->change_pending)
        log_tell_change(log);
}

void log_appends_fail(struct partition_log *log, enum err err)
{
    struct list_node *node = NULL;

    if (log->draining && log->failed)
        return; /* the append that failed the log comes first; the drain then fails those behind it */
    while ((node = list_take_first(&log->awake->appends)) != NULL) {
        struct log_append *op = LIST_ENTRY(node, struct log_append, node);

        op->err = err;
        op->done(op);
    }
}

void partition_log_append(struct partition_log *log, struct log_append *op)
{
    list_node_init(&op->node);
    op->err = ERR_OK;
    op->duplicate = false;
    op->base_offset = -1;
    op->last_offset = -1;
    op->max_timestamp = -1;
    if (log->closing != NULL || (log->failed && !log->draining)) {
        op->err = log->failed ? ERR_KAFKA_STORAGE_ERROR : ERR_CLOSED;
        op->done(op);
        return;
    }
    op->err = log_wake(log);
    if (op->err != ERR_OK) {
        op->done(op);
        return;
    }
    list_add_last(&log->awake->appends, &op->node);
    log_appends_drain(log);
}

bool partition_log_append_cancel(struct partition_log *log, struct log_append *op)
{
    (void)log;
    if (!list_node_is_linked(&op->node))
        return false;
    list_remove(&op->node);
    return true;
}
