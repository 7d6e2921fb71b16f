/* The end of a log's life: a clean stop, or deletion. */
#include <inttypes.h>

#include "base/assert.h"
#include "base/mem.h"
#include "partition/log.h"
#include "partition/log_internal.h"
#include "partition/log_path.h"

struct close_job {
    struct loop_job job;
    struct partition_log *log;
    enum err err;
    struct log_sync_plan plan;
    uint8_t *snapshot;
    size_t snapshot_size;
    int64_t snapshot_offset;
    int64_t snapshot_old; /* to be removed: no segment begins there; -1: none */
    struct log_dir_name aside;
    uint32_t tail_count;
    struct segment_index_tail tails[];
};

enum err log_snapshot_write(struct fs *fs, const char *dir, int64_t offset, struct bytes content, bool sync)
{
    struct log_path path;
    const char *name = NULL;

    log_path_segment(&path, dir, offset, SEGMENT_SNAPSHOT);
    name = strrchr(path.text, '/') + 1;
    return sync ? text_file_replace(fs, dir, name, content) : text_file_replace_lazily(fs, dir, name, content);
}

/* --- clean stop --- */

static void close_run(struct loop_job *base)
{
    struct close_job *job = LIST_ENTRY(base, struct close_job, job);
    const struct partition_log *log = job->log;
    struct fs *fs = log->env->fs;
    struct log_path path;

    for (uint32_t i = 0; i < job->tail_count && job->err == ERR_OK; i++)
        job->err = segment_index_tail_write(fs, log->dir, &job->tails[i], true);
    if (job->err == ERR_OK && job->snapshot != NULL)
        job->err =
            log_snapshot_write(fs, log->dir, job->snapshot_offset, bytes_of(job->snapshot, job->snapshot_size), true);
    if (job->err == ERR_OK)
        job->err = log_sync_plan_run(log->env, log->dir, &job->plan);
    if (job->err == ERR_OK && job->plan.write_epochs && !job->plan.epochs_written)
        job->err = ERR_NO_SPACE; /* a clean log is believed without its batches being read */
    if (job->err == ERR_OK && job->snapshot_old >= 0) {
        log_path_segment(&path, log->dir, job->snapshot_old, SEGMENT_SNAPSHOT);
        job->err = fs_unlink(fs, path.text);
        if (job->err == ERR_NOT_FOUND)
            job->err = ERR_OK;
    }
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

static void delete_run(struct loop_job *base)
{
    struct close_job *job = LIST_ENTRY(base, struct close_job, job);
    const struct partition_log *log = job->log;
    struct fs *fs = log->env->fs;
    struct log_path path;

    job->err = log_path_in(&path, log->env->log_dir, job->aside.text);
    if (job->err == ERR_OK)
        job->err = fs_rename(fs, log->dir, path.text);
    if (job->err == ERR_OK)
        job->err = fs_sync_dir(fs, log->env->log_dir);
    if (job->err == ERR_OK)
        job->err = delete_dir(fs, path.text);
}

/* --- both --- */

static void job_free(struct close_job *job)
{
    for (uint32_t i = 0; i < job->tail_count; i++)
        segment_index_tail_deinit(&job->tails[i]);
    mem_free(job->snapshot);
    log_sync_plan_deinit(&job->plan);
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

static bool snapshot_is_at_base(const struct partition_log *log, int64_t offset)
{
    for (uint32_t i = 0; i < log->segment_count; i++)
        if (log->segments[i]->base_offset == offset)
            return true;
    return false;
}

static enum err prepare_stop(struct partition_log *log, struct close_job *job)
{
    enum err err = ERR_OK;

    for (uint32_t i = 0; i < log->segment_count; i++) {
        struct segment *segment = log->segments[i];
        bool is_last = i + 1 == log->segment_count;

        if (!segment->indexed)
            continue;
        if (is_last)
            segment_seal_times(segment);
        if (!is_last && segment->offsets.written == segment->offsets.count &&
            segment->times.written == segment->times.count)
            continue;
        err = segment_index_tail_take(segment, &job->tails[job->tail_count]);
        if (err != ERR_OK)
            return err;
        job->tail_count++;
    }
    if (log->segment_count > 0 && log->snapshot_offset != log->end_offset) {
        err = producer_state_format(&log->producers, &job->snapshot, &job->snapshot_size);
        if (err != ERR_OK)
            return err;
        job->snapshot_offset = log->end_offset;
        job->snapshot_old = snapshot_is_at_base(log, log->snapshot_offset) ? -1 : log->snapshot_offset;
        log->names_changed = true;
    }
    return log_sync_plan_make(log, &job->plan);
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
    job = mem_calloc(1, sizeof(*job) + log->segment_count * sizeof(job->tails[0]));
    if (job == NULL) {
        finish(log, ERR_NOMEM);
        return true;
    }
    job->log = log;
    job->snapshot_old = -1;
    job->job.done = close_done;
    if (log->deleting) {
        job->job.run = delete_run;
        rng_fill(log->env->rng, &unique, sizeof(unique));
        log_path_aside_name(&job->aside, bytes_of_text(log->topic), log->partition, unique, "-delete");
    } else {
        job->job.run = close_run;
        err = prepare_stop(log, job);
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
    log_appends_fail(log, ERR_CLOSED);
    log_reads_fail(log, ERR_CLOSED);
    log_syncs_fail(log, ERR_CLOSED);
    (void)log_close_continue(log);
}

void partition_log_close(struct partition_log *log, struct partition_log_close *op)
{
    close_begin(log, op, false);
}

void partition_log_delete(struct partition_log *log, struct partition_log_close *op)
{
    close_begin(log, op, true);
}
