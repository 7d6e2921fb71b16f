/* What a log knows of its own damage: read with it, added to by whoever meets more, kept in a file. */
#include <inttypes.h>

#include "base/mem.h"
#include "partition/log_internal.h"
#include "partition/log_opening.h"

struct log_damage_job {
    struct loop_job job;
    struct partition_log *log;
    uint8_t *content;
    size_t size;
    enum err err;
};

static void told(const struct partition_log *log, uint32_t ranges)
{
    if (log->env->damage_found != NULL && ranges > 0)
        log->env->damage_found(log->env->context, ranges);
}

static void report(const struct partition_log *log, const struct damage_range *range)
{
    log_error(log->env->log,
              "log damaged, the range is kept and not served topic=%s partition=%" PRId32 " offset=%" PRId64
              " end_offset=%" PRId64 " dir=%s segment=%" PRId64 " position=%" PRIu64 " bytes=%" PRIu64,
              log->topic, log->partition, range->first_offset, range->end_offset, log->dir, range->segment_base,
              range->position, range->size);
}

/* True: there was something new. Without memory it is met again by the next reader. */
static bool take(struct partition_log *log, const struct damage *found)
{
    uint32_t fresh = 0;

    for (uint32_t i = 0; i < found->count; i++) {
        struct damage_range range = found->ranges[i];
        bool changed = false;

        range.found_ms = clock_wall_ms(log->env->clock);
        if (damage_add(&log->damage, &range, &changed) != ERR_OK || !changed)
            continue;
        report(log, &range);
        fresh++;
    }
    log->damage_told += fresh;
    if (log->adopted)
        told(log, fresh);
    return fresh > 0;
}

/* --- while the log is opened --- */

enum err log_damage_load(struct partition_log *log)
{
    enum err err = damage_read(log->env->fs, log->dir, &log->damage);

    if (err == ERR_NOT_FOUND)
        return ERR_OK;
    if (err == ERR_DAMAGED) {
        log_warn(log->env->log, "marks of damage not readable, what is damaged will be found again dir=%s file=%s",
                 log->dir, DAMAGE_FILE);
        log->damage_unwritten = true;
        return ERR_OK;
    }
    if (err == ERR_UNSUPPORTED_VERSION)
        log_error(log->env->log, "marks of damage are of a later build dir=%s file=%s", log->dir, DAMAGE_FILE);
    log->damage_told = log->damage.count;
    return err;
}

enum err log_damage_settle(struct opening *opening)
{
    struct partition_log *log = opening->log;
    uint8_t *content = NULL;
    size_t size = 0;
    bool changed = damage_forget(&log->damage, INT64_MIN, log->start_offset);
    enum err err = ERR_OK;

    changed = damage_forget(&log->damage, log->end_offset, INT64_MAX) || changed;
    changed = take(log, &opening->damage) || changed;
    if (!changed && !log->damage_unwritten)
        return ERR_OK;
    err = damage_format(&log->damage, &content, &size);
    if (err == ERR_OK)
        err = damage_write(log->env->fs, log->dir, bytes_of(content, size));
    mem_free(content);
    log->damage_unwritten = err == ERR_NO_SPACE;
    return err == ERR_NO_SPACE ? ERR_OK : err; /* it is known as long as we run, and found again */
}

void log_damage_adopt(const struct partition_log *log)
{
    if (log->damage.count > 0)
        log_warn(log->env->log,
                 "log has damaged ranges topic=%s partition=%" PRId32 " ranges=%" PRIu32 " offset=%" PRId64, log->topic,
                 log->partition, log->damage.count, log->damage.ranges[0].first_offset);
    told(log, log->damage_told);
}

/* --- afterwards --- */

static void write_run(struct loop_job *base)
{
    struct log_damage_job *job = LIST_ENTRY(base, struct log_damage_job, job);

    job->err = damage_write(job->log->env->fs, job->log->dir, bytes_of(job->content, job->size));
}

static void write_start(struct partition_log *log);

static void write_done(struct loop_job *base)
{
    struct log_damage_job *job = LIST_ENTRY(base, struct log_damage_job, job);
    struct partition_log *log = job->log;
    enum err err = job->err;

    log->damage_job = NULL;
    mem_free(job->content);
    mem_free(job);
    if (err != ERR_OK && !log->failed)
        (void)log_storage_error(log, err, "marks of damage not written");
    else if (log->damage_unwritten && log->closing == NULL)
        write_start(log);
    log_job_ended(log);
}

static void write_start(struct partition_log *log)
{
    struct log_damage_job *job = NULL;

    if (log->damage_job != NULL || log->failed)
        return;
    job = mem_calloc(1, sizeof(*job));
    if (job == NULL || damage_format(&log->damage, &job->content, &job->size) != ERR_OK) {
        mem_free(job);
        return; /* with the next one */
    }
    job->job.run = write_run;
    job->job.done = write_done;
    job->log = log;
    log->damage_unwritten = false;
    log->damage_job = job;
    log_job_started(log);
    loop_submit(log->env->loop, &job->job);
}

void log_damage_note(struct partition_log *log, const struct damage *found)
{
    if (!take(log, found))
        return;
    log->damage_unwritten = true;
    write_start(log);
}

void log_damage_cut(struct partition_log *log, int64_t end_offset)
{
    if (!damage_forget(&log->damage, end_offset, INT64_MAX))
        return;
    log->damage_unwritten = true;
    write_start(log);
}

uint64_t log_damage_floor(const struct partition_log *log, int64_t segment_base, int64_t offset)
{
    const struct damage_range *before = damage_before(&log->damage, segment_base, offset);
    const struct segment *segment = log_segment_at(log, segment_base, NULL);

    /* A mark that does not fit the file is of no help in finding anything. */
    if (before == NULL || segment == NULL || before->position > segment->size ||
        before->size > segment->size - before->position)
        return 0;
    return before->position + before->size;
}
