/* Which transactions were aborted in a range of offsets: out of the segments' indexes, from the range's own segment on
 * to where no marker can concern it any more (replication.md 6, KIP-98). */
#include "partition/log.h"

#include <inttypes.h>

#include "base/assert.h"
#include "base/mem.h"
#include "partition/log_internal.h"
#include "partition/txn_file.h"

struct lookup_job {
    struct loop_job job;
    struct partition_log *log;
    struct segment *segment; /* a use */
    int64_t base_offset;
    int64_t end_offset;
    struct txn_index index;
    bool rebuilt;
    enum err err;
};

void log_note_ended(struct segment *segment, const struct producer_txn *ended)
{
    if (ended->aborted)
        segment_aborted_add(segment, &(struct txn_index_entry){ended->producer_id, ended->first_offset,
                                                               ended->last_offset, ended->stable_offset});
}

void log_aborted_loaded(struct partition_log *log, struct segment *segment, struct txn_index *loaded, bool rebuilt)
{
    if (segment->aborted == NULL || !segment->aborted->absent)
        return;
    if (rebuilt)
        log_warn(log->env->log,
                 "index of aborted transactions was damaged, made anew topic=%s partition=%" PRId32
                 " base_offset=%" PRId64 " entries=%" PRIu32,
                 log->topic, log->partition, segment->base_offset, loaded->count);
    txn_index_take(segment->aborted, loaded);
}

static void complete(struct log_aborted_find *op, enum err err)
{
    op->err = err;
    op->done(op);
}

/* --- loading --- */

static void lookup_run(struct loop_job *base)
{
    struct lookup_job *job = LIST_ENTRY(base, struct lookup_job, job);

    job->err =
        txn_file_load(job->log->env->fs, job->log->dir, job->base_offset, job->end_offset, &job->index, &job->rebuilt);
}

static void lookup_done(struct loop_job *base)
{
    struct lookup_job *job = LIST_ENTRY(base, struct lookup_job, job);
    struct partition_log *log = job->log;
    struct segment *segment = job->segment;
    enum err err = job->err;

    log->lookup_is_running = false;
    if (err == ERR_OK && !segment->removed && segment->end_offset == job->end_offset)
        log_aborted_loaded(log, segment, &job->index, job->rebuilt);
    txn_index_deinit(&job->index);
    mem_free(job);
    log_segment_let_go(log, segment);
    if (err == ERR_OK)
        log_lookups_retry(log);
    else
        log_lookups_fail(log, log_storage_error(log, err, "index of aborted transactions not read"));
    log_job_ended(log);
}

/* Where one runs already, or the segment is being replaced, what comes behind that asks again. */
static enum err lookup_start(struct partition_log *log, struct segment *segment)
{
    struct lookup_job *job = NULL;

    if (log->lookup_is_running || segment->moving || log_is_held(log))
        return ERR_OK;
    job = mem_calloc(1, sizeof(*job));
    if (job == NULL)
        return ERR_NOMEM;
    job->job.run = lookup_run;
    job->job.done = lookup_done;
    job->log = log;
    job->segment = segment;
    log_segment_use(segment);
    job->base_offset = segment->base_offset;
    job->end_offset = segment->end_offset;
    log->lookup_is_running = true;
    log_job_started(log);
    loop_submit(log->env->loop, &job->job);
    return ERR_OK;
}

/* --- looking --- */

static enum err count_one(void *context, const struct txn_index_entry *entry)
{
    struct log_aborted_find *op = context;

    (void)entry;
    op->count++;
    return ERR_OK;
}

static enum err give_one(void *context, const struct txn_index_entry *entry)
{
    struct log_aborted_find *op = context;

    op->aborted[op->count++] = (struct log_aborted){entry->producer_id, entry->first_offset};
    return ERR_OK;
}

/* Walks the indexes that concern the range. *missing: out, the first that is not in memory; the walk ends there. */
static enum err walk(const struct partition_log *log, struct log_aborted_find *op, txn_index_fn *each,
                     struct segment **missing)
{
    uint32_t slot = 0;
    bool through = false;

    *missing = NULL;
    if (!log->has_aborted)
        return ERR_OK;
    (void)log_segment_at(log, op->from, &slot);
    for (uint32_t i = slot; i < log->segment_count && !through; i++) {
        const struct txn_index *index = log->segments[i]->aborted;
        enum txn_index_search search = index == NULL ? TXN_INDEX_GO_ON : txn_index_judge(index, op->from, op->to);
        enum err err = ERR_OK;

        if (search == TXN_INDEX_LOAD && index->absent) {
            *missing = log->segments[i];
            return ERR_OK;
        }
        if (search == TXN_INDEX_LOAD)
            err = txn_index_each(index, op->from, op->to, each, op, &through);
        if (err != ERR_OK)
            return err;
        through = through || search == TXN_INDEX_THROUGH;
    }
    return ERR_OK;
}

static void find_now(struct partition_log *log, struct log_aborted_find *op)
{
    struct segment *missing = NULL;
    enum err err = ERR_OK;

    op->count = 0;
    err = walk(log, op, count_one, &missing);
    if (err == ERR_OK && missing != NULL) {
        err = lookup_start(log, missing);
        if (err == ERR_OK) {
            list_add_last(&log->awake->lookups, &op->node);
            return;
        }
    }
    if (err == ERR_OK && op->count > 0) {
        op->aborted = arena_array(op->arena, op->count, sizeof(op->aborted[0]));
        if (op->aborted == NULL)
            err = ERR_NOMEM;
        op->count = 0;
    }
    if (err == ERR_OK && op->aborted != NULL)
        err = walk(log, op, give_one, &missing);
    log_use(log);
    complete(op, err);
}

void partition_log_find_aborted(struct partition_log *log, struct log_aborted_find *op)
{
    list_node_init(&op->node);
    op->err = ERR_OK;
    op->aborted = NULL;
    op->count = 0;
    if (log->failed || log->closing != NULL)
        complete(op, log->failed ? ERR_KAFKA_STORAGE_ERROR : ERR_CLOSED);
    else if (log_wake(log) != ERR_OK)
        complete(op, ERR_NOMEM);
    else
        find_now(log, op);
}

void log_lookups_retry(struct partition_log *log)
{
    struct list waiting;
    struct list_node *node = NULL;

    list_init(&waiting);
    list_move_all(&waiting, &log->awake->lookups);
    while ((node = list_take_first(&waiting)) != NULL) {
        struct log_aborted_find *op = LIST_ENTRY(node, struct log_aborted_find, node);

        if (log->failed || log->closing != NULL)
            complete(op, log->failed ? ERR_KAFKA_STORAGE_ERROR : ERR_CLOSED);
        else
            find_now(log, op);
    }
}

void log_lookups_fail(struct partition_log *log, enum err err)
{
    struct list_node *node = NULL;

    while ((node = list_take_first(&log->awake->lookups)) != NULL)
        complete(LIST_ENTRY(node, struct log_aborted_find, node), err);
}
