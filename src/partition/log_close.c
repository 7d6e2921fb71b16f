/* The end of a log's life: a clean stop, or deletion. */
#include <inttypes.h>

#include "base/assert.h"
#include "base/mem.h"
#include "partition/checkpoint.h"
#include "partition/log.h"
#include "partition/log_internal.h"
#include "partition/log_path.h"

struct close_job {
    struct loop_job job;
    struct partition_log *log;
    enum err err;
    struct log_sync_plan plan;
    struct log_dir_name aside;
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

struct delete_walk {
    struct fs *fs;
    const char *dir;
};

static enum err delete_entry(void *context, const char *name, bool is_directory)
{
    const struct delete_walk *walk = context;
    struct log_path path;
    enum err err = log_path_in(&path, walk->dir, name);

    if (err != ERR_OK)
        return err;
    return is_directory ? fs_rmdir(walk->fs, path.text) : fs_unlink(walk->fs, path.text);
}

static enum err delete_dir(struct fs *fs, const char *dir)
{
    struct delete_walk walk = {fs, dir};
    enum err err = fs_list(fs, dir, delete_entry, &walk);

    return err == ERR_OK ? fs_rmdir(fs, dir) : err;
}

static enum err remove_dir(const struct partition_env *env, const char *dir, const struct log_dir_name *aside)
{
    struct dir_relief relief = {0};
    struct log_path path;
    enum err err = log_path_in(&path, env->log_dir, aside->text);

    do
        err = err == ERR_OK || err == ERR_NO_SPACE ? fs_rename(env->fs, dir, path.text) : err;
    while (err == ERR_NO_SPACE && dir_space_relieve(env->space, &relief));
    if (err == ERR_OK)
        err = fs_sync_dir(env->fs, env->log_dir);
    return err == ERR_OK ? delete_dir(env->fs, path.text) : err;
}

static void delete_run(struct loop_job *base)
{
    struct close_job *job = LIST_ENTRY(base, struct close_job, job);

    job->err = remove_dir(job->log->env, job->log->dir, &job->aside);
    log_sync_plan_deinit(job->log,
                         &job->plan); /* the last to close a large file that has no name any more waits for its end */
}

enum err partition_log_discard(const struct partition_env *env, const struct partition_log_spec *spec,
                               struct uuid unique)
{
    struct log_dir_name name;
    struct log_dir_name aside;
    struct log_path path;
    struct uuid there;
    enum err err = log_path_dir_name(&name, spec->topic, spec->partition);

    if (err == ERR_OK)
        err = log_path_in(&path, env->log_dir, name.text);
    if (err == ERR_OK)
        err = checkpoint_read_topic_id(env->fs, path.text, &there);
    if (err == ERR_NOT_FOUND || err == ERR_DAMAGED || (err == ERR_OK && !uuid_equal(there, spec->topic_id)))
        return ERR_OK;
    if (err != ERR_OK)
        return err;
    log_path_aside_name(&aside, spec->topic, spec->partition, unique, "-delete");
    return remove_dir(env, path.text, &aside);
}

/* --- both --- */

static void job_free(struct close_job *job)
{
    log_sync_plan_deinit(job->log, &job->plan);
    mem_free(job);
}

static void finish(struct partition_log *log, enum err err)
{
    struct partition_log_close *op = log->closing;

    if (err != ERR_OK && !log->failed)
        log_error(log->env->log, "%s topic=%s partition=%" PRId32 " dir=%s err=%s",
                  log->deleting ? "partition not removed" : "log not closed cleanly", log->topic, log->partition,
                  log->dir, err_name(err));
    log_free(log);
    op->err = err;
    op->done(op);
}

static void close_done(struct loop_job *base)
{
    struct close_job *job = LIST_ENTRY(base, struct close_job, job);
    struct partition_log *log = job->log;
    enum err err = job->err;

    job_free(job);
    log->jobs--;
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

bool log_close_continue(struct partition_log *log)
{
    struct close_job *job = NULL;
    struct uuid unique;
    enum err err = ERR_OK;

    if (log->closing == NULL || log->jobs > 0 || log->draining)
        return false;
    if (log->failed && !log->deleting) {
        finish(log, ERR_KAFKA_STORAGE_ERROR);
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
        rng_fill(log->env->rng, &unique, sizeof(unique));
        log_path_aside_name(&job->aside, bytes_of_text(log->topic), log->partition, unique, "-delete");
        err = files_hand_over(log, &job->plan);
    } else {
        job->job.run = close_run;
        err = log_sync_plan_make(log, LOG_SYNC_FINAL, &job->plan);
    }
    if (err != ERR_OK) {
        job_free(job);
        finish(log, err);
        return true;
    }
    log->jobs++;
    loop_submit(log->env->loop, &job->job);
    return true;
}

static void close_begin(struct partition_log *log, struct partition_log_close *op, bool deleting)
{
    assert(log->closing == NULL && log->adopted);
    log->closing = op;
    log->deleting = deleting;
    loop_timer_stop(log->env->loop, &log->timer);
    log_job_started(log); /* so that it lasts until the end of this */
    log_cleaning_end(log);
    log_appends_fail(log, ERR_CLOSED);
    log_reads_fail(log, ERR_CLOSED);
    log_lookups_fail(log, ERR_CLOSED);
    log_syncs_fail(log, ERR_CLOSED);
    log_finds_fail(log, ERR_CLOSED);
    log_removal_fail(log, ERR_CLOSED);
    log_truncation_fail(log, ERR_CLOSED);
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
