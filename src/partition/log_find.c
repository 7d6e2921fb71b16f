/* The first record at or after a time: the segment by its greatest timestamp, the place by the indexes, the record by
 * opening batches (replication.md 7). A marker counts as any record does, and the greatest time of all is told of a
 * record that is deleted too while its segment is there: both as in Apache Kafka. */
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
    struct segment *segment; /* a use, where its files are opened by name; else NULL */
    int64_t base_offset;
    int64_t end_offset;
    uint64_t size;
    int32_t index_interval_bytes;
    struct fs_file *file; /* a reference; NULL: opened by name */
    bool start_known;     /* the indexes were at hand */
    uint64_t start;
    int64_t timestamp;
    int64_t offset_min;
    /* out */
    enum err err;
    int64_t offset; /* -1: not in this segment */
    int64_t found_timestamp;
    int32_t found_epoch;
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
        if (header.max_timestamp < job->timestamp || batch_last_offset(&header) < job->offset_min)
            continue;
        scan.position = position;
        scan.depth = BATCH_SCAN_CHECKED;
        err = batch_scan_next(&scan, &header, &batch);
        if (err == ERR_OK)
            err = search_batch(job, batch);
        if (err != ERR_OK)
            break;
        job->found_epoch = header.leader_epoch;
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

static void find_begin(struct partition_log *log, struct log_find *op);
static void find_on(struct partition_log *log, struct log_find *op);

/* What may be told of: with those that are deleted and there, or without. */
static int64_t first_offset(const struct partition_log *log, bool with_deleted)
{
    return with_deleted && log->segment_count > 0 && log->segments[0]->base_offset < log->start_offset
               ? log->segments[0]->base_offset
               : log->start_offset;
}

static void find_done(struct loop_job *base)
{
    struct find_job *job = LIST_ENTRY(base, struct find_job, job);
    struct partition_log *log = job->log;
    struct log_find *op = job->op;
    enum err err = job->err;
    bool of_all = op->timestamp == LOG_FIND_MAX_TIMESTAMP;
    bool found = job->offset >= 0;
    bool is_there = found && job->offset >= first_offset(log, of_all); /* it may have been removed meanwhile */
    bool anew = of_all && first_offset(log, true) > job->base_offset;

    if (is_there) {
        op->offset = job->offset;
        op->out_timestamp = job->found_timestamp;
        op->leader_epoch = job->found_epoch;
    }
    op->next_offset = found ? log->start_offset : job->end_offset;
    if (job->segment != NULL)
        log_segment_let_go(log, job->segment);
    fs_file_drop(job->file);
    mem_free(job);
    if (err == ERR_DAMAGED || err == ERR_UNSUPPORTED_FOR_MESSAGE_FORMAT)
        complete(op, ERR_CORRUPT_MESSAGE);
    else if (err != ERR_OK)
        complete(op, log_storage_error(log, err, "look-up by time failed"));
    else if (is_there)
        complete(op, ERR_OK);
    else if (log->failed || log->closing != NULL)
        complete(op, log->failed ? ERR_KAFKA_STORAGE_ERROR : ERR_CLOSED);
    else if (anew)
        find_begin(log, op);
    else
        find_on(log, op);
    log_job_ended(log);
}

/* The first segment from next_offset on that may have it; NULL: there is none. */
static struct segment *candidate(const struct partition_log *log, const struct log_find *op)
{
    uint32_t slot = 0;

    (void)log_segment_at(log, op->next_offset, &slot);
    for (; slot < log->segment_count; slot++) {
        struct segment *segment = log->segments[slot];

        if (segment->end_offset > op->next_offset &&
            segment->end_offset > first_offset(log, op->timestamp == LOG_FIND_MAX_TIMESTAMP) &&
            segment->max_timestamp >= op->wanted_timestamp)
            return segment;
    }
    return NULL;
}

static void find_on(struct partition_log *log, struct log_find *op)
{
    struct segment *segment = candidate(log, op);
    struct find_job *job = NULL;
    bool by_name = segment != NULL && (segment->file == NULL || !segment->indexed);

    if (segment == NULL) {
        complete(op, ERR_OK);
        return;
    }
    if (log_is_held(log) || (by_name && segment->moving)) {
        list_add_last(&log->awake->finds, &op->node);
        return;
    }
    job = mem_calloc(1, sizeof(*job));
    if (job == NULL) {
        complete(op, ERR_NOMEM);
        return;
    }
    job->job.run = find_run;
    job->job.done = find_done;
    job->log = log;
    job->op = op;
    job->base_offset = segment->base_offset;
    job->end_offset = segment->end_offset;
    job->size = segment->size;
    job->index_interval_bytes = log->config->index_interval_bytes;
    job->file = segment->file == NULL ? NULL : fs_file_keep(segment->file);
    job->timestamp = op->wanted_timestamp;
    job->offset_min = first_offset(log, op->timestamp == LOG_FIND_MAX_TIMESTAMP);
    if (job->offset_min < op->offset_min)
        job->offset_min = op->offset_min;
    job->offset = -1;
    job->start_known = segment->indexed;
    if (segment->indexed)
        job->start =
            start_of(&segment->offsets, &segment->times, segment->base_offset, job->timestamp, job->offset_min);
    if (by_name) {
        job->segment = segment;
        log_segment_use(segment);
    }
    log_job_started(log);
    loop_submit(log->env->loop, &job->job);
}

static void find_begin(struct partition_log *log, struct log_find *op)
{
    op->wanted_timestamp = op->timestamp;
    op->next_offset = log->start_offset > op->offset_min ? log->start_offset : op->offset_min;
    if (op->timestamp == LOG_FIND_MAX_TIMESTAMP) {
        for (uint32_t i = 0; i < log->segment_count; i++) {
            if (log->segments[i]->max_timestamp > op->wanted_timestamp) {
                op->wanted_timestamp = log->segments[i]->max_timestamp;
                op->next_offset = log->segments[i]->base_offset;
            }
        }
        if (op->wanted_timestamp < 0) {
            complete(op, ERR_OK);
            return;
        }
    }
    find_on(log, op);
}

void partition_log_find(struct partition_log *log, struct log_find *op)
{
    list_node_init(&op->node);
    op->err = ERR_OK;
    op->offset = -1;
    op->out_timestamp = -1;
    op->leader_epoch = -1;
    if (log->failed || log->closing != NULL)
        complete(op, log->failed ? ERR_KAFKA_STORAGE_ERROR : ERR_CLOSED);
    else if (log_wake(log) != ERR_OK)
        complete(op, ERR_NOMEM);
    else
        find_begin(log, op);
}

void log_finds_retry(struct partition_log *log)
{
    struct list waiting;
    struct list_node *node = NULL;

    list_init(&waiting);
    list_move_all(&waiting, &log->awake->finds);
    while ((node = list_take_first(&waiting)) != NULL) {
        struct log_find *op = LIST_ENTRY(node, struct log_find, node);

        if (log->failed || log->closing != NULL)
            complete(op, log->failed ? ERR_KAFKA_STORAGE_ERROR : ERR_CLOSED);
        else
            find_on(log, op);
    }
}

void log_finds_fail(struct partition_log *log, enum err err)
{
    struct list_node *node = NULL;

    while ((node = list_take_first(&log->awake->finds)) != NULL)
        complete(LIST_ENTRY(node, struct log_find, node), err);
}
