/* Old data read again, a piece at a time: what the disk has lost is to be known before somebody asks for it. */
#include <inttypes.h>

#include "base/mem.h"
#include "partition/batch_walk.h"
#include "partition/log.h"
#include "partition/log_internal.h"
#include "partition/log_path.h"
#include "partition/segment_damage.h"

struct scrub_job {
    struct loop_job job;
    struct partition_log *log;
    struct log_scrub *op;
    struct segment *segment; /* held */
    int64_t base_offset;
    int64_t end_offset;
    uint64_t position;
    uint64_t size;
    int64_t next_offset;
    uint64_t bytes_max;
    bool gaps_allowed;
    /* out */
    enum err err;
    struct damage damage;
    bool found;
};

static enum err note(struct scrub_job *job, const struct batch_extent *extent)
{
    bool changed = false;

    if (extent->first_offset >= job->end_offset)
        return ERR_OK;
    return damage_add(&job->damage,
                      &(struct damage_range){
                          .first_offset = extent->first_offset,
                          .end_offset = extent->end_offset >= 0 ? extent->end_offset : job->end_offset,
                          .segment_base = job->base_offset,
                          .position = extent->position,
                          .size = extent->size,
                      },
                      &changed);
}

/* Walks from position to `to` at least. With noting damage goes into the job, without it only says that there is some.
 */
static enum err walk(struct scrub_job *job, struct fs_file *file, const struct offset_index *boundaries, uint64_t to,
                     bool noting)
{
    struct batch_walk walk;
    struct batch_header head;
    struct bytes batch;
    enum err err = ERR_OK;

    batch_walk_init(&walk, file, job->position, job->size, job->next_offset);
    walk.end_offset = job->end_offset;
    walk.gaps_allowed = job->gaps_allowed;
    walk.offsets = boundaries;
    while (err == ERR_OK && walk.scan.position < to) {
        err = batch_walk_next(&walk, &head, &batch);
        if (err == ERR_DAMAGED) {
            job->found = true;
            err = noting ? note(job, &walk.extent) : ERR_OK;
            if (!noting)
                break;
        }
    }
    job->position = walk.scan.position;
    job->next_offset = walk.next_offset;
    batch_walk_deinit(&walk);
    return err == ERR_END ? ERR_OK : err;
}

static void scrub_run(struct loop_job *base)
{
    struct scrub_job *job = LIST_ENTRY(base, struct scrub_job, job);
    const struct partition_log *log = job->log;
    struct offset_index boundaries = {0};
    struct fs_file *file = NULL;
    struct log_path path;
    uint64_t from = job->position;
    uint64_t to = job->size - from < job->bytes_max ? job->size : from + job->bytes_max;
    bool was_cached = false;

    log_path_segment(&path, log->dir, job->base_offset, SEGMENT_LOG);
    job->err = fs_open(log->env->fs, path.text, FS_READ, &file);
    if (job->err != ERR_OK)
        return;
    was_cached = fs_is_cached(file, from, (size_t)(to - from));
    job->err = walk(job, file, NULL, to, false);
    if (job->err == ERR_OK && job->found) {
        /* Perhaps the segment was replaced since the last piece, and no batch begins where that one ended: only a walk
         * from the segment's beginning tells. */
        job->position = 0;
        job->next_offset = job->base_offset;
        job->err = segment_damage_boundaries(log->env->fs, log->dir, job->base_offset, job->size, &boundaries);
        if (job->err == ERR_OK)
            job->err = walk(job, file, &boundaries, to, true);
        offset_index_deinit(&boundaries);
    }
    if (!was_cached && job->position > from)
        fs_forget_cached(file, from, job->position - from);
    fs_file_drop(file);
}

static void scrub_done(struct loop_job *base)
{
    struct scrub_job *job = LIST_ENTRY(base, struct scrub_job, job);
    struct partition_log *log = job->log;
    struct log_scrub *op = job->op;
    enum err err = job->err;

    op->bytes = job->position > op->position ? job->position - op->position : 0;
    op->base_offset = job->base_offset;
    op->position = job->position;
    op->next_offset = job->next_offset;
    if (job->position >= job->size) { /* on with the next segment */
        op->base_offset = job->end_offset;
        op->position = 0;
    }
    if (!log->failed && log->closing == NULL)
        log_damage_note(log, &job->damage);
    damage_deinit(&job->damage);
    log_segment_let_go(log, job->segment);
    mem_free(job);
    if (err == ERR_UNSUPPORTED_FOR_MESSAGE_FORMAT) {
        op->at_end = true;
        err = ERR_OK;
    } else if (err != ERR_OK && !log->failed && log->closing == NULL) {
        err = log_storage_error(log, err, "scrub could not read");
    }
    op->err = err;
    op->done(op);
    log_job_ended(log);
}

/* The segment that the cursor is in, or the next one that has anything; NULL: none. */
static struct segment *segment_next(const struct partition_log *log, const struct log_scrub *op)
{
    for (uint32_t i = 0; i < log->segment_count; i++) {
        struct segment *segment = log->segments[i];

        if (segment->base_offset == op->base_offset ? segment->size > op->position
                                                    : segment->base_offset > op->base_offset && segment->size > 0)
            return segment;
    }
    return NULL;
}

void partition_log_scrub(struct partition_log *log, struct log_scrub *op)
{
    struct segment *segment = segment_next(log, op);
    struct scrub_job *job = NULL;

    op->err = log->failed ? ERR_KAFKA_STORAGE_ERROR : log->closing != NULL ? ERR_CLOSED : ERR_OK;
    op->bytes = 0;
    op->at_end = segment == NULL;
    if (op->err != ERR_OK || segment == NULL || segment->moving || log_is_held(log)) {
        op->at_end = true; /* what is being replaced, or held, has its turn in the next pass */
        op->done(op);
        return;
    }
    job = mem_calloc(1, sizeof(*job));
    if (job == NULL) {
        op->err = ERR_NOMEM;
        op->done(op);
        return;
    }
    if (segment->base_offset != op->base_offset || op->position == 0) {
        op->base_offset = segment->base_offset;
        op->position = 0;
        op->next_offset = segment->base_offset;
    }
    job->job.run = scrub_run;
    job->job.done = scrub_done;
    job->log = log;
    job->op = op;
    job->segment = segment;
    job->base_offset = segment->base_offset;
    job->end_offset = segment->end_offset;
    job->position = op->position;
    job->size = segment->size;
    job->next_offset = op->next_offset;
    job->bytes_max = op->bytes_max;
    job->gaps_allowed = log_gaps_are_allowed(log, segment->base_offset);
    log_segment_use(segment);
    log_job_started(log);
    loop_submit(log->env->loop, &job->job);
}
