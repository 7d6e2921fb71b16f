/*
 * Cutting a log (replication.md 3). It is rare, and touches everything, so it is done while nothing else is: what comes
 * meanwhile queues; when the last job is through, one job syncs the log as a clean stop does, cuts it on the disk, and
 * opens it again beside the old one, whose place it then takes.
 *
 * Bytes that were cut may still be on their way out of a socket, which sends pages and not copies. So they are never
 * written over: the file that is cut is only made shorter, and appends go on in a new one (docs/decisions/0011).
 */
#include <inttypes.h>

#include "base/assert.h"
#include "base/mem.h"
#include "partition/checkpoint.h"
#include "partition/journal.h"
#include "partition/log.h"
#include "partition/log_internal.h"
#include "partition/log_moved_mark.h"
#include "partition/log_path.h"
#include "partition/log_truncation_mark.h"

struct cut_segment {
    int64_t base_offset;
    uint64_t size;
    struct fs_file *file; /* a reference; NULL: it is not open */
};

struct log_truncation {
    struct loop_job job;
    struct partition_log *log;
    struct log_truncate *op;
    bool running;
    struct partition_log_spec spec;
    struct log_sync_plan plan;
    struct cut_segment *segments;
    uint32_t segment_count;
    struct log_truncation_mark mark;
    int32_t pending_epoch; /* assigned meanwhile; -1: none */
    struct journal_note note;
    /* out */
    bool synced;
    bool begun; /* the files are not any more what the log in memory says */
    int64_t end_offset;
    struct partition_log *made;
    enum err err;
};

/* --- the job --- */

static enum err unlink_one(const struct partition_log *log, int64_t base_offset, const char *suffix)
{
    struct log_path path;
    enum err err = ERR_OK;

    log_path_segment(&path, log->dir, base_offset, suffix);
    err = fs_unlink(log->env->fs, path.text);
    return err == ERR_NOT_FOUND ? ERR_OK : err;
}

static enum err segment_unlink(const struct partition_log *log, int64_t base_offset)
{
    static const char *const suffixes[] = {SEGMENT_LOG, SEGMENT_INDEX, SEGMENT_TIME_INDEX, SEGMENT_TXN_INDEX};
    enum err err = ERR_OK;

    for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]) && err == ERR_OK; i++)
        err = unlink_one(log, base_offset, suffixes[i]);
    return err;
}

struct snapshot_sweep {
    const struct partition_log *log;
    int64_t offset;
    bool all;
};

static enum err sweep_one(void *context, const char *name, bool is_directory)
{
    const struct snapshot_sweep *sweep = context;
    const char *suffix = NULL;
    int64_t offset = 0;

    if (is_directory || !log_path_parse_segment(name, &offset, &suffix) || strcmp(suffix, SEGMENT_SNAPSHOT) != 0 ||
        (offset <= sweep->offset && !sweep->all))
        return ERR_OK;
    return unlink_one(sweep->log, offset, SEGMENT_SNAPSHOT);
}

/* Where the segment is to be cut: behind its last batch that lies wholly below offset. size: all of it stays. */
static enum err cut_find(const struct log_truncation *job, const struct cut_segment *segment, int64_t offset,
                         uint64_t *position, int64_t *end_offset)
{
    const struct partition_log *log = job->log;
    struct fs_file *file = NULL;
    struct offset_index offsets = {0};
    struct time_index times = {0};
    struct batch_header head;
    struct log_path path;
    enum err err = ERR_OK;

    *position = segment->size;
    *end_offset = offset;
    if (segment->size == 0)
        return ERR_OK;
    log_path_segment(&path, log->dir, segment->base_offset, SEGMENT_LOG);
    err = fs_open(log->env->fs, path.text, FS_READ, &file);
    if (err == ERR_OK)
        err = segment_read_indexes(log->env->fs, log->dir, segment->base_offset, file, segment->size,
                                   job->spec.config.index_interval_bytes, &offsets, &times);
    if (err == ERR_OK)
        err = segment_find(file, &offsets, segment->base_offset, offset, segment->size, false, position, &head);
    if (err == ERR_OK && head.base_offset < offset)
        *end_offset = head.base_offset;
    if (err == ERR_END) {
        *position = segment->size;
        err = ERR_OK;
    }
    offset_index_deinit(&offsets);
    time_index_deinit(&times);
    fs_file_drop(file);
    return err;
}

/* From the end inwards, so that a crash leaves a log without a hole. */
static enum err cut_files(struct log_truncation *job, uint32_t first_gone)
{
    const struct partition_log *log = job->log;
    struct snapshot_sweep sweep = {log, job->end_offset, job->op->whole};
    enum err err = job->op->whole ? checkpoint_remove_epochs(log->env->fs, log->dir) : ERR_OK;

    for (uint32_t i = job->segment_count; i > first_gone && err == ERR_OK; i--)
        err = segment_unlink(log, job->segments[i - 1].base_offset);
    if (err == ERR_OK)
        err = fs_list(log->env->fs, log->dir, sweep_one, &sweep);
    if (err == ERR_OK && fs_sync_dir(log->env->fs, log->dir) != ERR_OK)
        err = ERR_IO;
    return err;
}

static enum err segment_begin(const struct log_truncation *job)
{
    const struct partition_log *log = job->log;
    struct dir_relief relief = {0};
    struct log_path path;
    struct fs_file *file = NULL;
    enum err err = ERR_OK;

    log_path_segment(&path, log->dir, job->end_offset, SEGMENT_LOG);
    do
        err = fs_open(log->env->fs, path.text, FS_READ | FS_WRITE | FS_CREATE | FS_TRUNCATE, &file);
    while (err == ERR_NO_SPACE && dir_space_relieve(log->env->space, &relief));
    fs_file_drop(file);
    if (err == ERR_OK && fs_sync_dir(log->env->fs, log->dir) != ERR_OK)
        err = ERR_IO;
    return err;
}

static enum err cut(struct log_truncation *job)
{
    const struct partition_log *log = job->log;
    int64_t offset = job->op->offset;
    uint32_t kept = 0;
    uint64_t position = 0;
    enum err err = ERR_OK;

    job->end_offset = offset;
    while (!job->op->whole && kept < job->segment_count && job->segments[kept].base_offset < offset)
        kept++;
    if (kept > 0) {
        err = cut_find(job, &job->segments[kept - 1], offset, &position, &job->end_offset);
        if (err != ERR_OK)
            return err;
        if (position == 0) /* nothing of it stays */
            kept--;
    }
    job->mark.offset = job->end_offset;
    err = log_truncation_mark_write(log->env->fs, log->dir, &job->mark);
    if (err != ERR_OK)
        return err;
    job->begun = true;
    err = log_moved_mark_remove(log->env->fs, log->dir);
    if (err == ERR_OK)
        err = cut_files(job, kept);
    if (err == ERR_OK && kept > 0 && position > 0 && position < job->segments[kept - 1].size)
        err = segment_truncate(log->env->fs, log->dir, job->segments[kept - 1].base_offset, position, job->end_offset,
                               job->spec.config.index_interval_bytes);
    if (err == ERR_OK)
        err = segment_begin(job);
    return err;
}

static void truncate_run(struct loop_job *base)
{
    struct log_truncation *job = LIST_ENTRY(base, struct log_truncation, job);
    const struct partition_log *log = job->log;

    job->err = log_sync_plan_run(log->env, log->dir, &job->plan);
    job->synced = job->err == ERR_OK;
    if (job->err == ERR_OK)
        job->err = cut(job);
    if (job->err != ERR_OK)
        return;
    if (job->op->whole || job->end_offset < job->spec.start_offset)
        job->spec.start_offset = job->end_offset;
    job->err = partition_log_open(log->env, &job->spec, &job->made, NULL);
}

/* --- taking over --- */

static void segments_drop(struct partition_log *log)
{
    for (uint32_t i = 0; i < log->segment_count; i++) {
        log_file_close(log, log->segments[i]);
        segment_deinit(log->segments[i]);
        mem_free(log->segments[i]);
    }
    mem_free(log->segments);
    log->segments = NULL;
    log->segment_count = 0;
    log->segment_room = 0;
}

/* The log becomes what was opened, but for who waits for it and listens to it. */
static void take_over(struct partition_log *log, struct partition_log *made, bool whole)
{
    int64_t start_offset = log->start_offset;

    segments_drop(log);
    epoch_cache_deinit(&log->epochs);
    log->segments = made->segments;
    log->segment_count = made->segment_count;
    log->segment_room = made->segment_room;
    log->start_offset = made->start_offset;
    log->end_offset = made->end_offset;
    if (log->cleaned_offset > log->end_offset)
        log->cleaned_offset = log->end_offset;
    log->segments_synced = made->segments_synced;
    log->unsynced_from = made->unsynced_from;
    log->synced_offset = made->synced_offset;
    log->size = made->size;
    log->epochs = made->epochs;
    log->snapshot_offset = made->snapshot_offset;
    log->has_aborted = made->has_aborted;
    log->truncated_until = made->truncated_until;
    log->names_changed = log->names_changed || made->names_changed;
    log->anchor_bytes = 0;
    log->awake->unsynced_bytes = made->awake->unsynced_bytes;
    producer_state_take(&log->producers, &made->producers);
    made->segments = NULL;
    made->segment_count = 0;
    made->epochs = (struct epoch_cache){0};
    log_damage_note(log, &made->damage);
    log_damage_cut(log, whole ? 0 : log->end_offset);
    log_free(made);
    log_dirty_count(log);
    log_move_stale(log);
    log->retain_limit = -1; /* what was too old or too much is looked for anew */
    /* It was moved meanwhile; a log that ends before its start starts where it ends. */
    partition_log_move_start(log, start_offset < log->end_offset ? start_offset : log->end_offset);
    log_remove_below_start(log); /* and what was about to be renamed was found again */
}

static void job_free(struct log_truncation *job)
{
    log_sync_plan_deinit(job->log, &job->plan);
    for (uint32_t i = 0; i < job->segment_count; i++)
        fs_file_drop(job->segments[i].file);
    mem_free(job->segments);
    mem_free(job);
}

/* What waits for a sync of what is no more is told so. */
static void syncs_above_end_fail(struct partition_log *log)
{
    struct list gone;
    struct list_node *at = NULL;

    list_init(&gone);
    list_each (&log->awake->syncs, node) {
        if (LIST_ENTRY(node, struct log_sync, node)->offset <= log->end_offset)
            continue;
        list_remove(node);
        list_add_last(&gone, node);
    }
    while ((at = list_take_first(&gone)) != NULL) {
        struct log_sync *op = LIST_ENTRY(at, struct log_sync, node);

        op->err = ERR_OFFSET_OUT_OF_RANGE;
        op->done(op);
    }
}

/* Whatever waited goes on, with the log as it is now. */
static void release(struct partition_log *log)
{
    syncs_above_end_fail(log);
    log_syncs_complete(log);
    log_tell_change(log);
    log_reads_retry(log);
    log_finds_retry(log);
    log_lookups_retry(log);
    log_sync_go_on(log);
    log_timer_set(log);
    log_appends_drain(log);
}

static enum err outcome(struct partition_log *log, const struct log_truncation *job)
{
    enum err err = job->err;

    if (err == ERR_OK || log->failed)
        return log->failed ? ERR_KAFKA_STORAGE_ERROR : ERR_OK;
    /* Half of it is done: neither the old log nor the new one is there. The next start finds one of them. */
    if (job->begun || (!job->synced && !log_may_pass(err)))
        err = ERR_IO;
    return log_storage_error(log, err, "log not truncated");
}

/* The last to close a large file that has no name any more waits for its end: not on the reactor. */
static void drop_run(struct loop_job *base)
{
    struct log_truncation *job = LIST_ENTRY(base, struct log_truncation, job);

    for (uint32_t i = 0; i < job->segment_count; i++) {
        fs_file_drop(job->segments[i].file);
        job->segments[i].file = NULL;
    }
}

static void drop_done(struct loop_job *base)
{
    struct log_truncation *job = LIST_ENTRY(base, struct log_truncation, job);
    struct partition_log *log = job->log;

    job_free(job);
    log_job_ended(log);
}

static void journal_tell(struct log_truncation *job);
static void journal_told(struct journal_note *note);
static void finish(struct log_truncation *job);

static void truncate_done(struct loop_job *base)
{
    struct log_truncation *job = LIST_ENTRY(base, struct log_truncation, job);
    struct partition_log *log = job->log;
    struct log_truncate *op = job->op;
    int64_t old_end = log->end_offset;

    if (job->synced) {
        log_sync_plan_succeeded(log, &job->plan);
        log->awake->unsynced_bytes = 0;
        if (log->synced_offset < log->segments_synced) /* whatever becomes of the cut */
            log->synced_offset = log->segments_synced;
    } else {
        log_sync_plan_failed(log, &job->plan);
    }
    log_dirty_count(log);
    op->err = outcome(log, job);
    if (op->err == ERR_OK) {
        log_sync_plan_deinit(log, &job->plan); /* it has uses of segments that are about to go */
        take_over(log, job->made, op->whole);
        op->offset = log->end_offset;
        log_settled(log);
        log_info(log->env->log,
                 "log truncated topic=%s partition=%" PRId32 " old_end_offset=%" PRId64 " end_offset=%" PRId64,
                 log->topic, log->partition, old_end, log->end_offset);
    } else {
        if (job->made != NULL)
            log_free(job->made);
        if (!log->failed) /* not cut, but synced */
            log_synced_move(log);
    }
    if (op->err == ERR_OK && log->env->journal != NULL)
        journal_tell(job);
    else
        finish(job);
}

/* What the journal has of before is history. That is on its disk before anything new is promised. */
static void journal_tell(struct log_truncation *job)
{
    struct partition_log *log = job->log;

    log_journal_truncated(log, log->end_offset);
    job->note = (struct journal_note){
        .type = JOURNAL_TRUNCATION,
        .topic_id = log->topic_id,
        .partition = log->partition,
        .offset = log->end_offset,
        .done = journal_told,
    };
    journal_note(log->env->journal, &job->note);
}

static void journal_told(struct journal_note *note)
{
    struct log_truncation *job = LIST_ENTRY(note, struct log_truncation, note);

    job->op->err = job->log->failed ? ERR_KAFKA_STORAGE_ERROR : note->err;
    finish(job);
}

static void finish(struct log_truncation *job)
{
    struct partition_log *log = job->log;
    struct log_truncate *op = job->op;

    log->truncation = NULL;
    if (op->err == ERR_OK && job->pending_epoch >= 0)
        op->err = partition_log_assign_epoch(log, job->pending_epoch);
    op->done(op);
    if (log->closing == NULL && !log->failed)
        release(log);
    job->job.run = drop_run;
    job->job.done = drop_done;
    loop_submit(log->env->loop, &job->job);
}

/* --- the door --- */

static enum err prepare(struct partition_log *log, struct log_truncation *job)
{
    enum err err = ERR_OK;

    job->segments = mem_calloc((size_t)log->segment_count + 1, sizeof(job->segments[0]));
    if (job->segments == NULL)
        return ERR_NOMEM;
    err = log_sync_plan_make(log, LOG_SYNC_FINAL, &job->plan);
    if (err != ERR_OK)
        return err;
    for (uint32_t i = 0; i < log->segment_count; i++) {
        const struct segment *segment = log->segments[i];

        job->segments[job->segment_count++] = (struct cut_segment){
            segment->base_offset, segment->size, segment->file == NULL ? NULL : fs_file_keep(segment->file)};
    }
    job->mark.until = log->synced_offset > log->truncated_until ? log->synced_offset : log->truncated_until;
    job->spec = (struct partition_log_spec){
        .topic = bytes_of_text(log->topic),
        .partition = log->partition,
        .topic_id = log->topic_id,
        .config = *log->config,
        .start_offset = log->start_offset,
        .clean = true,
        .essential = log->essential,
    };
    return ERR_OK;
}

static void give_up(struct partition_log *log, enum err err)
{
    struct log_truncation *job = log->truncation;
    struct log_truncate *op = job->op;

    log->truncation = NULL;
    job_free(job);
    op->err = err;
    op->done(op);
}

void log_truncation_go_on(struct partition_log *log)
{
    struct log_truncation *job = log->truncation;
    enum err err = ERR_OK;

    if (job == NULL || job->running || log->jobs > 0 || log->draining)
        return;
    err = prepare(log, job);
    if (err != ERR_OK) {
        give_up(log, err);
        release(log);
        return;
    }
    job->running = true;
    job->job.run = truncate_run;
    job->job.done = truncate_done;
    log_job_started(log);
    loop_submit(log->env->loop, &job->job);
}

bool log_truncation_is_running(const struct partition_log *log)
{
    return log->truncation != NULL && log->truncation->running;
}

void log_truncation_fail(struct partition_log *log, enum err err)
{
    if (log->truncation == NULL)
        return;
    if (!log->truncation->running)
        give_up(log, err);
    else
        journal_note_cancel(&log->truncation->note, err); /* the room it waits for may never come */
}

bool log_truncation_takes_epoch(struct partition_log *log, int32_t epoch)
{
    if (log->truncation == NULL)
        return false;
    if (epoch > log->truncation->pending_epoch)
        log->truncation->pending_epoch = epoch;
    return true;
}

void partition_log_truncate(struct partition_log *log, struct log_truncate *op)
{
    struct log_truncation *job = NULL;

    assert(op->offset >= 0 && log->truncation == NULL);
    op->err = log->failed ? ERR_KAFKA_STORAGE_ERROR : log->closing != NULL ? ERR_CLOSED : ERR_OK;
    if (op->err == ERR_OK && !op->whole && op->offset >= log->end_offset) {
        /* Nothing to cut; but an epoch may have begun at the end that the leader knows nothing of. */
        epoch_cache_truncate_end(&log->epochs, op->offset);
        op->offset = log->end_offset;
        op->done(op);
        return;
    }
    if (op->err == ERR_OK)
        op->err = log_wake(log);
    if (op->err == ERR_OK) {
        job = mem_calloc(1, sizeof(*job));
        op->err = job == NULL ? ERR_NOMEM : ERR_OK;
    }
    if (op->err != ERR_OK) {
        op->done(op);
        return;
    }
    if (log->segment_count == 0 || op->offset < log->segments[0]->base_offset)
        op->whole = true;
    job->log = log;
    job->op = op;
    job->pending_epoch = -1;
    job->plan.snapshot_old = -1;
    log->truncation = job;
    log_cleaning_end(log);
    log_journal_want(log); /* it waits for what lies in a group */
    log_truncation_go_on(log);
}

int64_t partition_log_divergence(const struct partition_log *log, int32_t leader_epoch, int64_t leader_end,
                                 bool *ask_again)
{
    int32_t epoch = -1;
    int64_t end = -1;
    int64_t offset = log->end_offset;

    *ask_again = false;
    partition_log_epoch_end(log, leader_epoch, &epoch, &end);
    if (epoch < 0)
        return leader_end < offset ? leader_end : offset;
    if (end < offset)
        offset = end;
    if (epoch == leader_epoch)
        return leader_end < offset ? leader_end : offset;
    *ask_again = true;
    return offset;
}
