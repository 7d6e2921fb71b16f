/* The first record at or after a time: the segment by its greatest timestamp, the place by the indexes, the record by
 * opening batches (replication.md 7). */
#include "partition/log.h"

#include <inttypes.h>

#include "base/assert.h"
#include "base/mem.h"
#include "partition/log_internal.h"
#include "protocol/record.h"

struct find_job {
    struct loop_job job;
    struct partition_log *log;
    struct log_find *op;
    uint32_t slot; /* of the segment */
    int64_t base_offset;
    uint64_t size;
    int32_t index_interval_bytes;
    struct fs_file *file; /* a reference; NULL: opened by name */
    bool start_known;     /* the indexes were at hand */
    bool control_counts;  /* the greatest timestamp of all may be a marker's */
    uint64_t start;
    int64_t timestamp;
    int64_t offset_min;
    /* out */
    enum err err;
    int64_t offset; /* -1: not in this segment */
    int64_t found_timestamp;
};

static uint64_t start_of(const struct offset_index *offsets, const struct time_index *times, int64_t base_offset,
                         int64_t timestamp, int64_t offset_min)
{
    int64_t relative = time_index_offset(times, timestamp);

    if (offset_min - base_offset > relative)
        relative = offset_min - base_offset;
    return offset_index_position(offsets, relative > UINT32_MAX ? UINT32_MAX : (uint32_t)relative);
}

static enum err search_batch(struct find_job *job, struct bytes batch)
{
    struct record_iter iter;
    struct record record;
    enum err err = record_iter_init(&iter, batch, BATCH_OPENED_BYTES_MAX);

    if (err != ERR_OK)
        return err;
    while ((err = record_iter_next(&iter, &record)) == ERR_OK) {
        if (record.timestamp < job->timestamp || record.offset < job->offset_min)
            continue;
        job->offset = record.offset;
        job->found_timestamp = record.timestamp;
        break;
    }
    record_iter_deinit(&iter);
    if (err == ERR_END)
        err = ERR_OK;
    return err == ERR_OK || err == ERR_NOMEM ? err : ERR_DAMAGED;
}

static enum err search(struct find_job *job)
{
    struct batch_scan scan;
    struct batch_header header;
    struct bytes batch;
    enum err err = ERR_OK;

    batch_scan_init(&scan, job->file, job->start, job->size, BATCH_SCAN_HEADS);
    while (job->offset < 0) {
        uint64_t position = scan.position;

        err = batch_scan_next(&scan, &header, &batch);
        if (err != ERR_OK)
            break;
        if (header.max_timestamp < job->timestamp || batch_last_offset(&header) < job->offset_min ||
            (batch_has(&header, BATCH_CONTROL) && !job->control_counts))
            continue;
        scan.position = position;
        scan.depth = BATCH_SCAN_CHECKED;
        err = batch_scan_next(&scan, &header, &batch);
        if (err == ERR_OK)
            err = search_batch(job, batch);
        if (err != ERR_OK)
            break;
        scan.depth = BATCH_SCAN_HEADS;
    }
    batch_scan_deinit(&scan);
    return err == ERR_END ? ERR_OK : err;
}

static void find_run(struct loop_job *base)
{
    struct find_job *job = LIST_ENTRY(base, struct find_job, job);
    const struct partition_log *log = job->log;

    if (job->file == NULL) {
        struct log_path path;

        log_path_segment(&path, log->dir, job->base_offset, SEGMENT_LOG);
        job->err = fs_open(log->env->fs, path.text, FS_READ, &job->file);
    }
    if (job->err == ERR_OK && !job->start_known) {
        struct offset_index offsets = {0};
        struct time_index times = {0};

        job->err = segment_read_indexes(log->env->fs, log->dir, job->base_offset, job->file, job->size,
                                        job->index_interval_bytes, &offsets, &times);
        job->start = start_of(&offsets, &times, job->base_offset, job->timestamp, job->offset_min);
        offset_index_deinit(&offsets);
        time_index_deinit(&times);
    }
    if (job->err == ERR_OK)
        job->err = search(job);
}

static void complete(struct log_find *op, enum err err)
{
    op->err = err;
    op->done(op);
}

static void find_in(struct partition_log *log, struct log_find *op, uint32_t slot, int64_t timestamp);

static void find_done(struct loop_job *base)
{
    struct find_job *job = LIST_ENTRY(base, struct find_job, job);
    struct partition_log *log = job->log;
    struct log_find *op = job->op;
    uint32_t slot = job->slot;
    int64_t timestamp = job->timestamp;
    enum err err = job->err;
    bool found = job->offset >= 0;

    if (found) {
        op->offset = job->offset;
        op->out_timestamp = job->found_timestamp;
    }
    fs_file_drop(job->file);
    mem_free(job);
    if (err == ERR_DAMAGED || err == ERR_UNSUPPORTED_FOR_MESSAGE_FORMAT)
        complete(op, ERR_CORRUPT_MESSAGE);
    else if (err != ERR_OK)
        complete(op, log_storage_error(log, err, "look-up by time failed"));
    else if (found)
        complete(op, ERR_OK);
    else if (log->closing != NULL)
        complete(op, ERR_CLOSED);
    else
        find_in(log, op, slot + 1, timestamp);
    log_job_ended(log);
}

/* Slots may have moved since: segments only go at the front, so that at worst one is searched twice or skipped that is
 * no more. */
static void find_in(struct partition_log *log, struct log_find *op, uint32_t slot, int64_t timestamp)
{
    struct segment *segment = NULL;
    struct find_job *job = NULL;

    while (slot < log->segment_count &&
           (log->segments[slot]->max_timestamp < timestamp || log->segments[slot]->end_offset <= log->start_offset))
        slot++;
    if (slot >= log->segment_count) {
        complete(op, ERR_OK);
        return;
    }
    job = mem_calloc(1, sizeof(*job));
    if (job == NULL) {
        complete(op, ERR_NOMEM);
        return;
    }
    segment = log->segments[slot];
    job->job.run = find_run;
    job->job.done = find_done;
    job->log = log;
    job->op = op;
    job->slot = slot;
    job->base_offset = segment->base_offset;
    job->size = segment->size;
    job->index_interval_bytes = log->config.index_interval_bytes;
    job->file = segment->file == NULL ? NULL : fs_file_keep(segment->file);
    job->timestamp = timestamp;
    job->offset_min = log->start_offset;
    job->control_counts = op->timestamp == LOG_FIND_MAX_TIMESTAMP;
    job->offset = -1;
    job->start_known = segment->indexed;
    if (segment->indexed)
        job->start = start_of(&segment->offsets, &segment->times, segment->base_offset, timestamp, job->offset_min);
    log_job_started(log);
    loop_submit(log->env->loop, &job->job);
}

void partition_log_find(struct partition_log *log, struct log_find *op)
{
    int64_t timestamp = op->timestamp;
    uint32_t slot = 0;

    op->err = ERR_OK;
    op->offset = -1;
    op->out_timestamp = -1;
    if (log->failed || log->closing != NULL) {
        complete(op, log->failed ? ERR_KAFKA_STORAGE_ERROR : ERR_CLOSED);
        return;
    }
    if (timestamp == LOG_FIND_MAX_TIMESTAMP) {
        for (uint32_t i = 0; i < log->segment_count; i++) {
            if (log->segments[i]->max_timestamp > timestamp) {
                timestamp = log->segments[i]->max_timestamp;
                slot = i;
            }
        }
        if (timestamp < 0) {
            complete(op, ERR_OK);
            return;
        }
    }
    find_in(log, op, slot, timestamp);
}
