/* The end of a log's life: a clean stop, or deletion. */
#include <inttypes.h>

#include "base/assert.h"
#include "base/mem.h"
#include "partition/bare_dir.h"
#include "partition/checkpoint.h"
#include "partition/log.h"
#include "partition/log_internal.h"
#include "partition/log_path.h"
#include "partition/partition_limits.h"

struct close_job {
    struct loop_job job;
    struct partition_log *log;
    enum err err;
    struct log_sync_plan plan;
    struct deleted_dir *aside; /* of a deletion: where the directory goes */
    bool later;                /* it stays there for file.delete.delay.ms */
};

/* --- clean stop --- */

static void close_run(struct loop_job *base)
{
    struct close_job *job = LIST_ENTRY(base, struct close_job, job);

    struct dir_relief relief = {0};

    do
        job->err = log_sync_plan_run(job->log->env, job->log->dir, &job->plan);
    while (job->err == ERR_NO_SPACE && dir_space_relieve(job->log->env->space, &relief));
}

/* --- deletion --- */

enum err log_set_aside(const struct partition_env *env, const char *dir, const char *aside,
                       enum err (*give_name)(struct fs *fs, const char *from, const char *to))
{
    struct dir_relief relief = {0};
    enum err err = ERR_OK;

    do
        err = give_name(env->fs, dir, aside);
    while (err == ERR_NO_SPACE && dir_space_relieve(env->space, &relief));
    if (err == ERR_OK && fs_sync_dir(env->fs, env->log_dir) != ERR_OK)
        err = ERR_IO;
    return err;
}

static void delete_run(struct loop_job *base)
{
    struct close_job *job = LIST_ENTRY(base, struct close_job, job);

    job->err = log_set_aside(job->log->env, job->log->dir, job->aside->path, fs_rename);
    if (job->err == ERR_OK && !job->later)
        job->err = deleted_dir_remove(job->log->env->fs, job->aside->path);
    log_sync_plan_deinit(job->log,
                         &job->plan); /* the last to close a large file that has no name any more waits for its end */
}

enum err partition_log_discard(const struct partition_env *env, const struct partition_log_spec *spec,
                               struct uuid unique)
{
    struct log_dir_name name;
    struct log_dir_name aside;
    struct log_path path;
    struct log_path aside_path;
    struct uuid there;
    enum err id_err = ERR_OK;
    enum err err = log_path_dir_name(&name, spec->topic, spec->partition);

    log_path_aside_name(&aside, spec->topic, spec->partition, unique, "-delete");
    if (err == ERR_OK)
        err = log_path_in(&path, env->log_dir, name.text);
    if (err == ERR_OK)
        err = log_path_in(&aside_path, env->log_dir, aside.text);
    if (err != ERR_OK)
        return err;
    id_err = checkpoint_read_topic_id(env->fs, path.text, &there);
    if (id_err == ERR_OK && !uuid_equal(there, spec->topic_id))
        return ERR_OK;
    if (id_err == ERR_NOT_FOUND || id_err == ERR_DAMAGED)
        err = log_set_aside(env, path.text, aside_path.text, bare_dir_rename);
    else
        err = id_err == ERR_OK ? log_set_aside(env, path.text, aside_path.text, fs_rename) : id_err;
    if (err == ERR_NOT_FOUND || err == ERR_BUSY)
        return ERR_OK;
    return err == ERR_OK ? deleted_dir_remove(env->fs, aside_path.text) : err;
}

/* --- both --- */

static void job_free(struct close_job *job)
{
    log_sync_plan_deinit(job->log, &job->plan);
    mem_free(job->aside);
    mem_free(job);
}

static void finish(struct partition_log *log, enum err err)
{
    struct partition_log_close *op = log->closing;

    if (err != ERR_OK && !log->failed)
        log_error(log->env->log, "%s topic=%s partition=%" PRId32 " dir=%s err=%s",
                  log->deleting ? "partition not removed" : "log not closed cleanly", log->topic, log->partition,
                  log->dir, err_name(err));
    if (err == ERR_IO && !log->failed && log->env->storage_failed != NULL)
        log->env->storage_failed(log->env->context, log->env->log_dir, err);
    if (err != ERR_OK && !log->deleting)
        log_journal_keep(log);
    log_free(log);
    op->err = err;
    op->done(op);
}

static void close_done(struct loop_job *base)
{
    struct close_job *job = LIST_ENTRY(base, struct close_job, job);
    struct partition_log *log = job->log;
    enum err err = job->err;

    log->closing->left_unsynced = err == ERR_OK && job->plan.unsynced;
    if (err == ERR_OK && job->later) {
        deleted_dirs_take(log->env->deleted_dirs, job->aside);
        job->aside = NULL;
    }
    job_free(job);
    log->jobs--;
    if (err == ERR_OK)
        log_settled(log);
    finish(log, err);
}

/* The open files go with the job. */
static enum err files_hand_over(struct partition_log *log, struct log_sync_plan *plan)
{
    plan->files = mem_calloc(log->segment_count, sizeof(plan->files[0]));
    if (plan->files == NULL)
        return ERR_NOMEM;
    for (uint32_t i = 0; i < log->segment_count; i++) {
        if (log->segments[i]->file == NULL)
            continue;
        plan->files[plan->file_count++].file = fs_file_keep(log->segments[i]->file);
        log_file_close(log, log->segments[i]);
    }
    return ERR_OK;
}

static enum err aside_make(const struct partition_log *log, struct close_job *job)
{
    int64_t delay_ns = log_delete_delay_ns(log);
    struct log_dir_name name;
    struct log_path path;
    struct uuid unique;
    enum err err = ERR_OK;

    rng_fill(log->env->rng, &unique, sizeof(unique));
    log_path_aside_name(&name, bytes_of_text(log->topic), log->partition, unique, "-delete");
    err = log_path_in(&path, log->env->log_dir, name.text);
    if (err != ERR_OK)
        return err;
    job->later = log->env->deleted_dirs != NULL && delay_ns > 0;
    job->aside = deleted_dir_new(path.text, loop_now_ns(log->env->loop) + delay_ns);
    return job->aside == NULL ? ERR_NOMEM : ERR_OK;
}

bool log_close_continue(struct partition_log *log)
{
    struct close_job *job = NULL;
    enum err err = ERR_OK;

    if (log->closing == NULL || log->jobs > 0 || log->draining)
        return false;
    if (log->failed && !log->deleting) {
        finish(log, ERR_KAFKA_STORAGE_ERROR);
        return true;
    }
    if (!log->deleting && !log_final_sync_is_due(log)) {
        log_settled(log);
        finish(log, ERR_OK);
        return true;
    }
    job = mem_calloc(1, sizeof(*job));
    if (job == NULL) {
        finish(log, ERR_NOMEM);
        return true;
    }
    job->log = log;
    job->job.done = close_done;
    if (log->deleting) {
        job->job.run = delete_run;
        err = aside_make(log, job);
        if (err == ERR_OK)
            err = files_hand_over(log, &job->plan);
        log_journal_deleted(log);
    } else {
        job->job.run = close_run;
        err = log_sync_plan_make(log, LOG_SYNC_FINAL, &job->plan);
        /* The journal is not to let go of what is not in the segments. */
        job->plan.unsynced = err == ERR_OK && log->closing->sync_all_follows && log->journal == NULL;
    }
    if (err != ERR_OK) {
        job_free(job);
        finish(log, err);
        return true;
    }
    log->jobs++;
    log->close_running = true;
    loop_submit(log->env->loop, &job->job);
    return true;
}

static void close_begin(struct partition_log *log, struct partition_log_close *op, bool deleting)
{
    assert(log->closing == NULL && log->adopted);
    log->closing = op;
    op->left_unsynced = false;
    log->deleting = deleting;
    loop_timer_stop(log->env->loop, &log->timer);
    log_job_started(log); /* so that it lasts until the end of this */
    log_cleaning_end(log);
    dirty_wait_end(&log->awake->dirty_waiter);
    log_appends_fail(log, ERR_CLOSED);
    log_reads_fail(log, ERR_CLOSED);
    log_lookups_fail(log, ERR_CLOSED);
    log_syncs_fail(log, ERR_CLOSED);
    log_journal_want(log);
    log_finds_fail(log, ERR_CLOSED);
    log_removal_fail(log, ERR_CLOSED);
    log_truncation_fail(log, ERR_CLOSED);
    log_move_end(log);
    log_job_ended(log);
}

void partition_log_close(struct partition_log *log, struct partition_log_close *op)
{
    close_begin(log, op, false);
}

void partition_log_delete(struct partition_log *log, struct partition_log_close *op)
{
    close_begin(log, op, true);
}
