/* What a log has written and not synced yet: counted for its directory, and pushed out as it accumulates, so that a
 * sync finds little left to do. */
#include "base/mem.h"
#include "partition/log_internal.h"
#include "partition/partition_limits.h"

struct push_job {
    struct loop_job job;
    struct partition_log *log;
    struct fs_file *file; /* a reference */
    uint64_t position;
    uint64_t size;
    enum err err;
};

void log_dirty_count(struct partition_log *log)
{
    int64_t now = log->failed ? 0 : (int64_t)log->awake->unsynced_bytes - log->awake->lent_bytes;
    int64_t more = now - log->awake->counted_bytes;

    if (more != 0)
        log->awake->counted_bytes = now;
    dirty_move(log->env->dirty, more);
    sync_group_follow(log);
}

void log_dirty_forget(struct partition_log *log)
{
    sync_group_leave(log);
    dirty_wait_end(&log->awake->dirty_waiter);
    dirty_move(log->env->dirty, -log->awake->counted_bytes);
    if (log->awake->counted_bytes != 0)
        log->awake->counted_bytes = 0;
}

static void go_on(struct dirty_waiter *waiter)
{
    log_appends_drain(LIST_ENTRY(waiter, struct log_awake, dirty_waiter)->log);
}

bool log_dirty_wait(struct partition_log *log)
{
    log->awake->dirty_waiter.wake = go_on;
    if (log->essential || !dirty_wait(log->env->dirty, &log->awake->dirty_waiter))
        return false;
    if (log->awake->unsynced_bytes > 0)
        log_sync_background(log);
    return true;
}

/* --- pushing --- */

static void push_run(struct loop_job *base)
{
    struct push_job *job = LIST_ENTRY(base, struct push_job, job);

    job->err = fs_write_behind(job->file, job->position, job->size);
}

static void push_done(struct loop_job *base)
{
    struct push_job *job = LIST_ENTRY(base, struct push_job, job);
    struct partition_log *log = job->log;

    /* Whatever it met, the next sync meets it too, and says what it means. */
    log->pushing = false;
    fs_file_drop(job->file);
    mem_free(job);
    log_job_ended(log);
}

void log_dirty_push(struct partition_log *log, const struct segment *segment, size_t appended)
{
    struct push_job *job = NULL;

    log->awake->unpushed_bytes += appended;
    if (log->awake->unpushed_bytes < LOG_PUSH_BYTES || log->pushing)
        return;
    job = mem_calloc(1, sizeof(*job));
    if (job == NULL) /* the sync does it all */
        return;
    job->job.run = push_run;
    job->job.done = push_done;
    job->log = log;
    job->file = fs_file_keep(segment->file);
    job->size = log->awake->unpushed_bytes < segment->size ? log->awake->unpushed_bytes : segment->size;
    job->position = segment->size - job->size;
    log->awake->unpushed_bytes = 0;
    log->pushing = true;
    log_job_started(log);
    loop_submit(log->env->loop, &job->job);
}
