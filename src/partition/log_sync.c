/* Moving synced_offset: one sync job at a time, for all that wait. */
#include <inttypes.h>

#include "base/assert.h"
#include "base/mem.h"
#include "partition/checkpoint.h"
#include "partition/log.h"
#include "partition/log_internal.h"
#include "partition/log_path.h"
#include "partition/log_syncing.h"
#include "partition/log_truncation_mark.h"
#include "partition/partition_limits.h"

enum err log_snapshot_write(struct fs *fs, const char *dir, int64_t offset, struct bytes content, bool sync)
{
    struct log_path path;
    const char *name = NULL;

    log_path_segment(&path, dir, offset, SEGMENT_SNAPSHOT);
    name = strrchr(path.text, '/') + 1;
    return sync ? text_file_replace(fs, dir, name, content) : text_file_replace_lazily(fs, dir, name, content);
}

enum err log_snapshot_remove(struct fs *fs, const char *dir, int64_t offset)
{
    struct log_path path;
    enum err err = ERR_OK;

    log_path_segment(&path, dir, offset, SEGMENT_SNAPSHOT);
    err = fs_unlink(fs, path.text);
    return err == ERR_NOT_FOUND ? ERR_OK : err;
}

/* --- the plan --- */

/* Index entries go into the file in order, so one job at a time has them. */
static void tail_take(const struct partition_log *log, const struct segment *segment, struct log_sync_file *file,
                      enum log_sync_kind kind)
{
    if ((!segment->indexed && !segment_aborted_unwritten(segment)) || (!file->sealed && kind == LOG_SYNC_PLAIN))
        return;
    file->has_tail =
        log->awake->append_job == NULL && !log->giving_back && segment_index_tail_take(segment, &file->tail) == ERR_OK;
    file->lacks_tail = !file->has_tail;
}

static enum err files_take(struct partition_log *log, uint32_t first, struct log_sync_plan *plan)
{
    for (uint32_t i = first; i < log->segment_count; i++) {
        struct segment *segment = log->segments[i];
        struct log_sync_file *file = &plan->files[plan->file_count++];

        log_segment_use(segment);
        *file = (struct log_sync_file){
            .segment = segment,
            .base_offset = segment->base_offset,
            .file = segment->file == NULL ? NULL : fs_file_keep(segment->file),
            .sealed = i + 1 < log->segment_count,
        };
        if (!file->sealed && segment->indexed && plan->kind == LOG_SYNC_FINAL)
            segment_seal_times(segment);
        tail_take(log, segment, file, plan->kind);
        if (!file->has_tail && segment_aborted_unwritten(segment)) {
            plan->lacks_entries = true;
            if (plan->kind == LOG_SYNC_FINAL)
                return ERR_NOMEM; /* a clean stop's files are believed */
        }
    }
    return ERR_OK;
}

static enum err snapshot_take(const struct partition_log *log, struct log_sync_plan *plan)
{
    if (plan->kind == LOG_SYNC_PLAIN || log->segment_count == 0 || log->snapshot_offset == log->end_offset)
        return ERR_OK;
    plan->snapshot_old = log_is_segment_base(log, log->snapshot_offset) ? -1 : log->snapshot_offset;
    return producer_state_format(&log->producers, &plan->snapshot, &plan->snapshot_size);
}

/* Epochs of which there is a record. One that has none yet is assigned anew by the next start, and Apache Kafka drops
 * it when it opens the log. */
static bool epochs_are_due(const struct partition_log *log)
{
    return log->epochs.changed && log->epochs.changed_from < log->end_offset;
}

static bool unmark_is_due(const struct partition_log *log)
{
    return log->truncated_until >= 0 && log->synced_offset >= log->truncated_until;
}

void log_names_doubt(struct partition_log *log)
{
    log->names_changed = true;
    log->parent_unsynced = true;
    log->topic_id_unsynced = !uuid_is_zero(log->topic_id);
    log->placed = false;
}

bool log_final_sync_is_due(const struct partition_log *log)
{
    if (log->segment_count == 0)
        return false;
    for (uint32_t i = 0; i < log->segment_count; i++)
        if (!log->segments[i]->settled || segment_aborted_unwritten(log->segments[i]))
            return true;
    return log->snapshot_offset != log->end_offset || epochs_are_due(log) || unmark_is_due(log) || log->names_changed ||
           log->parent_unsynced || log->topic_id_unsynced || log->awake->unsynced_bytes > 0;
}

bool partition_log_needs_final_sync(const struct partition_log *log)
{
    return !log->failed && log_final_sync_is_due(log);
}

enum err log_sync_plan_make(struct partition_log *log, enum log_sync_kind kind, struct log_sync_plan *plan)
{
    uint32_t first = log->segment_count;
    enum err err = ERR_OK;

    *plan = (struct log_sync_plan){
        .kind = kind,
        .end_offset = log->end_offset,
        .snapshot_old = -1,
        .sync_parent = log->parent_unsynced,
        .sync_topic_id = log->topic_id_unsynced,
        .write_epochs = epochs_are_due(log),
        .epochs_from = log->epochs.changed_from,
        .unmark = unmark_is_due(log),
    };
    while (first > 0 && !log->segments[first - 1]->settled)
        first--;
    for (uint32_t i = 0; kind == LOG_SYNC_FINAL && i < first; i++)
        if (segment_aborted_unwritten(log->segments[i])) /* its file was damaged */
            first = i;
    if (first < log->segment_count) {
        plan->files = mem_calloc(log->segment_count - first, sizeof(plan->files[0]));
        if (plan->files == NULL)
            return ERR_NOMEM;
    }
    err = snapshot_take(log, plan);
    if (err == ERR_OK && plan->write_epochs) {
        checkpoint_format_epochs(&log->epochs, &plan->epochs);
        err = plan->epochs.failed ? ERR_NOMEM : ERR_OK;
    }
    if (err == ERR_OK)
        err = files_take(log, first, plan);
    if (err != ERR_OK) {
        log_sync_plan_deinit(log, plan);
        return err;
    }
    plan->places = !log->placed;
    plan->sync_names = log->names_changed || plan->snapshot != NULL || plan->write_epochs;
    for (uint32_t i = 0; i < plan->file_count; i++)
        plan->sync_names = plan->sync_names || plan->files[i].has_tail;
    /* What changes from here on is the next plan's. */
    if (plan->write_epochs)
        log->epochs.changed = false;
    log->names_changed = false;
    log->parent_unsynced = false;
    log->topic_id_unsynced = false;
    return ERR_OK;
}

static enum err sync_by_name(struct fs *fs, const char *dir, int64_t base_offset, const char *suffix)
{
    struct log_path path;
    struct fs_file *file = NULL;
    enum err err = ERR_OK;

    log_path_segment(&path, dir, base_offset, suffix);
    err = fs_open(fs, path.text, FS_READ | FS_WRITE, &file);
    if (err == ERR_OK && fs_sync(file) != ERR_OK)
        err = ERR_IO;
    fs_file_drop(file);
    return err;
}

/* An index that is not there is rebuilt when it is wanted. */
static enum err sync_index(struct fs *fs, const char *dir, int64_t base_offset, const char *suffix)
{
    enum err err = sync_by_name(fs, dir, base_offset, suffix);

    return err == ERR_NOT_FOUND ? ERR_OK : err;
}

/* What may be better the next time, as opposed to a sync that failed. */
bool log_may_pass(enum err err)
{
    return err == ERR_NO_DESCRIPTORS || err == ERR_NOMEM || err == ERR_NO_SPACE;
}

static enum err sync_one(struct fs *fs, const char *dir, struct log_sync_plan *plan, struct log_sync_file *file)
{
    bool believed = false;
    enum err err = ERR_OK;

    if (file->file == NULL && !plan->unsynced)
        err = sync_by_name(fs, dir, file->base_offset, SEGMENT_LOG);
    else if (file->file != NULL && !plan->unsynced && fs_sync(file->file) != ERR_OK)
        err = ERR_IO;
    if (err == ERR_OK && file->has_tail) {
        err = segment_index_tail_write(fs, dir, &file->tail, plan->kind == LOG_SYNC_FINAL && !plan->unsynced);
        file->tail_written = err == ERR_OK;
        plan->lacks_entries = plan->lacks_entries || err != ERR_OK;
        if (plan->kind != LOG_SYNC_FINAL && log_may_pass(err))
            return ERR_OK;
    }
    /* The recovery point is about to pass a sealed segment: its indexes will be believed from then on, as are all after
     * a clean stop, also where they were written earlier. */
    believed = !plan->unsynced && (file->sealed || (plan->kind == LOG_SYNC_FINAL && !file->has_tail));
    if (err == ERR_OK && believed)
        err = sync_index(fs, dir, file->base_offset, SEGMENT_INDEX);
    /* A recovery that begins at an anchor holds the offset index against the batches; of times nothing would tell, so
     * they are there before the snapshot is. */
    if (err == ERR_OK && (believed || plan->kind == LOG_SYNC_ANCHOR))
        err = sync_index(fs, dir, file->base_offset, SEGMENT_TIME_INDEX);
    return err;
}

static enum err snapshot_put(struct fs *fs, const char *dir, struct log_sync_plan *plan)
{
    enum err err = log_snapshot_write(fs, dir, plan->end_offset, bytes_of(plan->snapshot, plan->snapshot_size),
                                      plan->kind == LOG_SYNC_FINAL && !plan->unsynced);

    plan->snapshot_written = err == ERR_OK;
    if (err != ERR_OK)
        return plan->kind != LOG_SYNC_FINAL && log_may_pass(err) ? ERR_OK : err;
    return plan->snapshot_old < 0 ? ERR_OK : log_snapshot_remove(fs, dir, plan->snapshot_old);
}

static enum err epochs_put(struct fs *fs, const char *dir, struct log_sync_plan *plan)
{
    bool settles = plan->unsynced && plan->kind != LOG_SYNC_FINAL;
    enum err err = settles ? checkpoint_write_epochs_beside(fs, dir, &plan->epochs)
                           : checkpoint_write_epochs(fs, dir, &plan->epochs, !plan->unsynced);

    plan->epochs_written = !settles && err == ERR_OK;
    plan->epochs_beside = settles && err == ERR_OK;
    /* The recovery point waits for them, nothing else does. */
    return plan->kind != LOG_SYNC_FINAL && log_may_pass(err) ? ERR_OK : err;
}

enum err log_sync_plan_run(const struct partition_env *env, const char *dir, struct log_sync_plan *plan)
{
    enum err err = ERR_OK;

    for (uint32_t i = 0; i < plan->file_count && err == ERR_OK; i++)
        err = sync_one(env->fs, dir, plan, &plan->files[i]);
    if (err == ERR_OK && plan->sync_topic_id && !plan->unsynced)
        err = checkpoint_sync_topic_id(env->fs, dir);
    if (err == ERR_OK && plan->write_epochs)
        err = epochs_put(env->fs, dir, plan);
    /* A recovery begins at the snapshot: what is indexed before it has to be in the files. */
    if (err == ERR_OK && plan->snapshot != NULL && !plan->lacks_entries)
        err = snapshot_put(env->fs, dir, plan);
    if (plan->unsynced) /* what a cut left marked stays so until that is synced */
        return err;
    if (err == ERR_OK && plan->sync_names && fs_sync_dir(env->fs, dir) != ERR_OK)
        err = ERR_IO;
    if (err == ERR_OK && plan->unmark)
        err = log_truncation_mark_remove(env->fs, dir);
    if (err == ERR_OK && plan->sync_parent && fs_sync_dir(env->fs, env->log_dir) != ERR_OK)
        err = ERR_IO;
    return err;
}

enum err log_sync_plan_settle(const struct partition_env *env, const char *dir, struct log_sync_plan *plan, bool *named)
{
    enum err err = ERR_OK;

    if (plan->epochs_beside) {
        err = checkpoint_name_epochs(env->fs, dir);
        plan->epochs_written = err == ERR_OK;
        *named = *named || plan->epochs_written;
    }
    if (err == ERR_OK && plan->unmark)
        err = log_truncation_mark_remove(env->fs, dir);
    return err;
}

static void epochs_again(struct partition_log *log, const struct log_sync_plan *plan)
{
    if (!plan->write_epochs || plan->epochs_written)
        return;
    if (!log->epochs.changed || plan->epochs_from < log->epochs.changed_from)
        log->epochs.changed_from = plan->epochs_from;
    log->epochs.changed = true;
}

void log_sync_plan_failed(struct partition_log *log, const struct log_sync_plan *plan)
{
    log->names_changed = log->names_changed || plan->sync_names;
    log->parent_unsynced = log->parent_unsynced || plan->sync_parent;
    log->topic_id_unsynced = log->topic_id_unsynced || plan->sync_topic_id;
    epochs_again(log, plan);
}

void log_sync_plan_succeeded(struct partition_log *log, const struct log_sync_plan *plan)
{
    if (plan->unmark)
        log->truncated_until = -1;
    epochs_again(log, plan);
    log->placed = log->placed || plan->places;
    if (plan->end_offset > log->segments_synced)
        log->segments_synced = plan->end_offset;
    if (log->unsynced_from >= 0)
        log->unsynced_from = plan->end_offset < log->start_offset ? plan->end_offset : -1;
    if (plan->snapshot_written && plan->end_offset > log->snapshot_offset)
        log->snapshot_offset = plan->end_offset;
    for (uint32_t i = 0; i < plan->file_count; i++) {
        const struct log_sync_file *file = &plan->files[i];
        struct segment *segment = file->segment;

        if (segment->removed)
            continue;
        if (file->tail_written)
            segment_index_tail_done(segment, &file->tail);
        if (file->sealed && !file->lacks_tail && file->has_tail == file->tail_written)
            segment->settled = true;
    }
}

static void file_deinit(struct partition_log *log, struct log_sync_file *file)
{
    if (file->segment != NULL)
        log_segment_let_go(log, file->segment);
    fs_file_drop(file->file);
    segment_index_tail_deinit(&file->tail);
}

void log_sync_plan_deinit(struct partition_log *log, struct log_sync_plan *plan)
{
    for (uint32_t i = 0; i < plan->file_count; i++)
        file_deinit(log, &plan->files[i]);
    mem_free(plan->files);
    mem_free(plan->snapshot);
    text_deinit(&plan->epochs);
    *plan = (struct log_sync_plan){0};
}

/* --- the job --- */

static void sync_run(struct loop_job *base)
{
    struct log_sync_job *job = LIST_ENTRY(base, struct log_sync_job, job);

    job->err = log_sync_plan_run(job->log->env, job->log->dir, &job->plan);
}

void log_syncs_complete(struct partition_log *log)
{
    struct list completed;
    struct list_node *at = NULL;

    /* Apart first: what is called may add to the list, or end the log. */
    list_init(&completed);
    list_each (&log->awake->syncs, node) {
        if (LIST_ENTRY(node, struct log_sync, node)->offset > log->synced_offset)
            continue;
        list_remove(node);
        list_add_last(&completed, node);
    }
    while ((at = list_take_first(&completed)) != NULL) {
        struct log_sync *op = LIST_ENTRY(at, struct log_sync, node);

        op->err = ERR_OK;
        op->done(op);
    }
}

void log_settled(struct partition_log *log)
{
    if (log->unsettled != NULL)
        atomic_fetch_sub_explicit(log->unsettled, 1, memory_order_release);
    log->unsettled = NULL;
}

void log_synced_move(struct partition_log *log)
{
    int64_t synced = log_journal_synced(log);

    if (synced <= log->synced_offset)
        return;
    log->synced_offset = synced;
    log->awake->unpromised_since_ns = loop_now_ns(log->env->loop);
    log_syncs_complete(log);
}

/* So much was written that it is not to wait for the timer. */
static bool bytes_are_due(const struct partition_log *log)
{
    int64_t bytes = log->env->limits.sync_bytes > 0 ? log->env->limits.sync_bytes : PARTITION_SYNC_BYTES;

    return log->awake->unsynced_bytes >= (uint64_t)bytes ||
           (log->awake->unsynced_bytes >= LOG_SYNC_EARLY_BYTES && dirty_is_high(log->env->dirty));
}

bool log_sync_is_asked_for(const struct partition_log *log)
{
    return log->config->flush_messages != INT64_MAX || log->config->flush_ms != INT64_MAX;
}

/* Somebody waits, or as many records as flush.messages lie there (Kafka counts offsets), or for flush.ms. */
static bool is_asked_for_now(const struct partition_log *log)
{
    if (!list_is_empty(&log->awake->syncs))
        return true;
    if (log->end_offset == log->synced_offset)
        return false;
    return log->end_offset - log->synced_offset >= log->config->flush_messages ||
           (log->config->flush_ms != INT64_MAX &&
            loop_now_ns(log->env->loop) - log->awake->unpromised_since_ns >= log->config->flush_ms * 1000000);
}

void log_sync_go_on(struct partition_log *log)
{
    if (log->failed || log->closing != NULL)
        return;
    if (is_asked_for_now(log)) {
        if (!log_journal_covers(log)) {
            log_sync_start(log);
            return;
        }
        log_journal_want(log);
    }
    if (bytes_are_due(log)) {
        if (!log_journal_sync_later(log))
            log_sync_background(log);
    } else if (dirty_reaches(log->env->dirty, SYNC_GROUP_BYTES)) {
        sync_group_hasten(log->env->sync_group);
    }
}

void log_sync_background(struct partition_log *log)
{
    if (!sync_group_takes(log))
        log_sync_start(log);
}

void log_sync_job_end(struct log_sync_job *job)
{
    struct partition_log *log = job->log;
    bool again = true;

    log->awake->sync_job = NULL;
    log->sync_has_tails = false;
    log_journal_sync_ended(log, job->err == ERR_OK);
    if (job->err == ERR_OK && !log->failed) {
        log_sync_plan_succeeded(log, &job->plan);
        log->awake->unsynced_bytes -= job->bytes;
        if (job->plan.snapshot_written && log->anchor_bytes >= job->anchor_bytes)
            log->anchor_bytes -= job->anchor_bytes;
        log->awake->unsynced_since_ns = job->began_ns;
        log_dirty_count(log);
        if (log->segments_synced >= log->found_end)
            log_settled(log);
        log_synced_move(log);
    } else if (log_may_pass(job->err)) {
        log_warn(log->env->log, "sync put off topic=%s partition=%" PRId32 " err=%s", log->topic, log->partition,
                 err_name(job->err));
        log_sync_plan_failed(log, &job->plan);
        log->awake->unsynced_since_ns = loop_now_ns(log->env->loop); /* the timer tries again */
        log_dirty_count(log);
        again = false;
    } else if (job->err != ERR_OK) {
        /* Whatever the error was (a full disk too), the pages that it concerned may be gone. */
        (void)log_storage_error(log, ERR_IO, "sync failed");
    }
    log_sync_plan_deinit(log, &job->plan);
    mem_free(job);
    if (log->closing == NULL && !log->failed) {
        log_tell_change(log);
        if (again)
            log_sync_go_on(log);
        log_timer_set(log);
    }
    log_job_ended(log);
}

static void sync_done(struct loop_job *base)
{
    log_sync_job_end(LIST_ENTRY(base, struct log_sync_job, job));
}

static bool anchor_is_due(const struct partition_log *log)
{
    int64_t bytes = log->env->limits.anchor_bytes > 0 ? log->env->limits.anchor_bytes : LOG_ANCHOR_BYTES;

    return log->anchor_bytes >= (uint64_t)bytes && log->awake->append_job == NULL && !log->giving_back &&
           producer_state_count(&log->producers) <= LOG_ANCHOR_PRODUCERS_MAX;
}

struct log_sync_job *log_sync_job_new(struct partition_log *log)
{
    enum log_sync_kind kind = LOG_SYNC_PLAIN;
    struct log_sync_job *job = NULL;

    if (log_wake(log) != ERR_OK) /* one that sleeps has all synced, but a journal file may wait to be told so */
        return NULL;
    kind = anchor_is_due(log) ? LOG_SYNC_ANCHOR : LOG_SYNC_PLAIN;
    job = mem_calloc(1, sizeof(*job));
    if (job == NULL || log_sync_plan_make(log, kind, &job->plan) != ERR_OK) {
        mem_free(job);
        log_syncs_fail(log, ERR_NOMEM);
        log->awake->unsynced_since_ns = loop_now_ns(log->env->loop); /* the timer tries again */
        return NULL;
    }
    list_node_init(&job->in_group);
    job->job.run = sync_run;
    job->job.done = sync_done;
    job->log = log;
    job->bytes = log->awake->unsynced_bytes;
    job->anchor_bytes = log->anchor_bytes;
    for (uint32_t i = 0; i < job->plan.file_count; i++)
        log->sync_has_tails = log->sync_has_tails || job->plan.files[i].has_tail;
    job->began_ns = loop_now_ns(log->env->loop);
    log->awake->sync_job = job;
    log_journal_sync_begins(log);
    log_job_started(log);
    return job;
}

void log_sync_start(struct partition_log *log)
{
    struct log_sync_job *job = NULL;

    if (log->awake->sync_job != NULL || log->failed || log->closing != NULL || log_is_held(log))
        return;
    job = log_sync_job_new(log);
    if (job != NULL)
        loop_submit(log->env->loop, &job->job);
}

void log_syncs_fail(struct partition_log *log, enum err err)
{
    struct list_node *node = NULL;

    while ((node = list_take_first(&log->awake->syncs)) != NULL) {
        struct log_sync *op = LIST_ENTRY(node, struct log_sync, node);

        op->err = err;
        op->done(op);
    }
}

void partition_log_sync(struct partition_log *log, struct log_sync *op)
{
    assert(op->offset <= log->end_offset);
    list_node_init(&op->node);
    op->err = ERR_OK;
    if (log->failed || log->closing != NULL) {
        op->err = log->failed ? ERR_KAFKA_STORAGE_ERROR : ERR_CLOSED;
        op->done(op);
        return;
    }
    if (op->offset > log->synced_offset)
        op->err = log_wake(log);
    if (op->err != ERR_OK || op->offset <= log->synced_offset) {
        op->done(op);
        return;
    }
    list_add_last(&log->awake->syncs, &op->node);
    log_sync_go_on(log);
}
