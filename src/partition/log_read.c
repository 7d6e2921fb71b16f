/* Reading: on the reactor what lies in memory, by a job what has to come from the disk. */
#include "partition/log.h"

#include <inttypes.h>

#include "base/assert.h"
#include "base/mem.h"
#include "partition/log_internal.h"
#include "partition/partition_limits.h"
#include "partition/segment_checked.h"
#include "partition/segment_damage.h"

/* The cold way: finds the batch, brings the range into memory and checks each batch on the way. */
struct cold_read {
    struct loop_job job;
    struct partition_log *log;
    struct log_read *op;
    struct fs_file *file;
    int64_t offset;
    int64_t offset_limit;
    uint64_t start; /* a batch begins here, at or before the wanted one */
    uint64_t limit;
    uint32_t bytes_max;
    bool at_least_one;
    int64_t base_offset; /* of the segment */
    int64_t end_offset;
    uint64_t size_there;
    bool gaps_allowed;
    bool passed;    /* out: what was wanted lies in a gap at the segment's end, or behind it */
    bool looked_at; /* the way to job->position was gone with checksums */
    /* out */
    enum err err;
    uint64_t position;
    size_t size;
    int64_t next_offset;  /* behind the last batch; -1: nothing was found */
    struct damage damage; /* met on the way */
};

static void complete(struct log_read *op, enum err err)
{
    op->err = err;
    op->done(op);
}

static void give_range(struct log_read *op, struct fs_file *file, uint64_t position, size_t size)
{
    op->slices[0] = (struct slice){.file = fs_file_keep(file), .position = position, .size = size};
    op->slice_count = 1;
    op->size = size;
}

/* Bytes of the good batches that a run begins with; *next_offset behind the last one. Checked here too, where it costs
 * a microsecond: the kernel reads ahead, so not all that lies in memory came through a job. */
static size_t good_batches(const uint8_t *data, size_t size, int64_t *next_offset)
{
    struct bytes rest = bytes_of(data, size);
    struct batch_header header;

    while (batch_peek(rest, &header, NULL) == ERR_OK && batch_crc_is_valid(bytes_of(rest.data, header.size))) {
        *next_offset = batch_last_offset(&header) + 1;
        rest = bytes_of(rest.data + header.size, rest.size - header.size);
    }
    return size - rest.size;
}

/* ERR_WOULD_BLOCK: not in memory any more. ERR_NOMEM: no room to copy it to; the range itself will do. */
static enum err give_copy(struct log_read *op, struct fs_file *file, uint64_t position, size_t size)
{
    uint8_t *copy = arena_alloc(op->arena, size);
    size_t got = 0;
    enum err err = ERR_OK;

    if (copy == NULL)
        return ERR_NOMEM;
    err = fs_read_cached(file, position, copy, size, &got);
    if (err != ERR_OK)
        return err;
    if (got < size)
        return ERR_DAMAGED; /* the file is shorter than what was written to it */
    op->size = good_batches(copy, size, &op->next_offset);
    if (op->size == 0)
        return ERR_DAMAGED;
    op->slices[0] = slice_of(copy, op->size);
    op->slice_count = 1;
    return ERR_OK;
}

/* What a reader is told of what went wrong. */
static enum err reader_error(struct partition_log *log, const struct log_read *op, enum err err)
{
    switch (err) {
    case ERR_DAMAGED:
        log_line_rated(log->env->log, &log->damage_rate, LOG_ERROR,
                       "damaged batch not served topic=%s partition=%" PRId32 " offset=%" PRId64, log->topic,
                       log->partition, op->offset);
        return ERR_CORRUPT_MESSAGE;
    case ERR_OK:
    case ERR_NOMEM:
    case ERR_CORRUPT_MESSAGE:
    case ERR_UNSUPPORTED_FOR_MESSAGE_FORMAT:
        return err;
    default:
        return log_storage_error(log, err, "read failed");
    }
}

/* --- the cold way --- */

/* By the heads up to the wanted batch: damage before it is no matter of this read. */
static enum err cold_find(struct cold_read *job, struct batch_scan *scan)
{
    struct batch_header header;
    struct bytes batch;
    int64_t next_offset = job->base_offset;
    enum err err = ERR_OK;

    do {
        job->position = scan->position;
        err = batch_scan_next(scan, &header, &batch);
        /* The index says that what it points at begins at or below the offset. */
        if (err == ERR_OK && ((job->position > 0 && job->position == job->start && header.base_offset > job->offset) ||
                              header.base_offset < next_offset))
            err = ERR_DAMAGED;
        if (err == ERR_OK)
            next_offset = batch_last_offset(&header) + 1;
    } while (err == ERR_OK && next_offset <= job->offset);
    return err;
}

/* A batch behind a gap: compaction leaves such, but one whose successor stands before its end was not moved by that. */
static bool gap_is_believed(const struct cold_read *job, const struct batch_header *header, uint64_t behind)
{
    struct batch_scan scan;
    struct batch_header next;
    struct bytes batch;
    enum err err = ERR_OK;

    batch_scan_init(&scan, job->file, behind, job->size_there, BATCH_SCAN_HEADS);
    err = batch_scan_next(&scan, &next, &batch);
    batch_scan_deinit(&scan);
    return err == ERR_OK ? next.base_offset > batch_last_offset(header) : err != ERR_END || job->gaps_allowed;
}

/* Whether the offsets of a batch can be what they say, which no checksum covers: behind those of the one before it, and
 * before those of the next. */
static bool cold_follows(const struct cold_read *job, const struct batch_header *header, uint64_t behind)
{
    int64_t expected = job->size > 0                    ? job->next_offset
                       : job->offset > job->base_offset ? job->offset
                                                        : job->base_offset;

    if (batch_last_offset(header) >= job->end_offset || (job->size > 0 && header->base_offset < expected))
        return false;
    if (job->size == 0 && header->base_offset > expected && !job->gaps_allowed && !job->looked_at)
        return false; /* nothing should be missing there */
    return header->base_offset <= expected || gap_is_believed(job, header, behind);
}

/* Takes the batches from job->position on. */
static enum err cold_take(struct cold_read *job)
{
    struct batch_scan scan;
    struct batch_header header;
    struct bytes batch;
    enum err err = job->position >= job->limit ? ERR_END : ERR_OK;

    batch_scan_init(&scan, job->file, job->position, job->limit, BATCH_SCAN_CHECKED);
    while (err == ERR_OK && job->size < job->bytes_max) {
        err = batch_scan_next(&scan, &header, &batch);
        if (err != ERR_OK)
            break;
        if (!cold_follows(job, &header, scan.position)) {
            err = ERR_DAMAGED;
            break;
        }
        if (header.base_offset >= job->offset_limit)
            break;
        if (job->size > 0 ? job->size + batch.size > job->bytes_max : batch.size > job->bytes_max && !job->at_least_one)
            break;
        job->size += batch.size;
        job->next_offset = batch_last_offset(&header) + 1;
    }
    batch_scan_deinit(&scan);
    /* What comes behind a good batch is the next read's matter. */
    return job->size > 0 || err == ERR_END ? ERR_OK : err;
}

/* The heads or the index led nowhere, or to what cannot be: the way there is gone once more, with checksums. */
static enum err cold_look(struct cold_read *job)
{
    struct segment_damage_search search = {
        .fs = job->log->env->fs,
        .dir = job->log->dir,
        .file = job->file,
        .base_offset = job->base_offset,
        .end_offset = job->end_offset,
        .size = job->size_there,
        .offset = job->offset,
        .gaps_allowed = job->gaps_allowed,
    };
    enum err err = segment_damage_search(&search);

    job->damage = search.damage;
    if (err != ERR_OK)
        return err;
    if (!search.found) { /* none holds the offset, or nobody can tell */
        job->passed = job->gaps_allowed && search.damage.count == 0;
        return damage_at(&search.damage, job->offset) != NULL ? ERR_DAMAGED : ERR_OK;
    }
    job->position = search.position;
    job->looked_at = true;
    return cold_take(job);
}

static void cold_run(struct loop_job *base)
{
    struct cold_read *job = LIST_ENTRY(base, struct cold_read, job);
    struct batch_scan scan;

    batch_scan_init(&scan, job->file, job->start, job->limit, BATCH_SCAN_HEADS);
    job->err = cold_find(job, &scan);
    batch_scan_deinit(&scan);
    if (job->err == ERR_OK)
        job->err = cold_take(job);
    if (job->err == ERR_DAMAGED || (job->err == ERR_END && job->offset < job->end_offset))
        job->err = cold_look(job);
    if (job->err == ERR_END)
        job->err = ERR_OK;
}

static enum err cold_give(struct log_read *op, const struct cold_read *job)
{
    enum err err = ERR_OK;

    if (job->size == 0)
        return ERR_OK;
    op->next_offset = job->next_offset;
    op->end_bound = job->next_offset;
    if (job->size < LOG_READ_COPY_BYTES) {
        err = give_copy(op, job->file, job->position, job->size);
        if (err != ERR_WOULD_BLOCK && err != ERR_NOMEM)
            return err;
    }
    give_range(op, job->file, job->position, job->size);
    op->next_offset = job->next_offset;
    op->end_bound = job->next_offset;
    return ERR_OK;
}

static void note_checked(const struct partition_log *log, const struct cold_read *job)
{
    struct segment *segment = log_segment_at(log, job->base_offset, NULL);

    if (segment != NULL && segment->file == job->file)
        segment_checked_add(segment, job->position, job->size);
}

static void read_behind(struct partition_log *log, struct log_read *op, int64_t segment_base);

static void cold_done(struct loop_job *base)
{
    struct cold_read *job = LIST_ENTRY(base, struct cold_read, job);
    struct partition_log *log = job->log;
    enum err err = job->err;

    if (err == ERR_OK)
        err = cold_give(job->op, job);
    if (err == ERR_OK && job->size > 0)
        note_checked(log, job);
    if (err == ERR_DAMAGED && job->damage.count > 0)
        err = ERR_CORRUPT_MESSAGE; /* said with the mark */
    log_damage_note(log, &job->damage);
    if (err == ERR_OK && job->size == 0 && job->passed)
        read_behind(log, job->op, job->base_offset);
    else
        complete(job->op, reader_error(log, job->op, err));
    damage_deinit(&job->damage);
    fs_file_drop(job->file);
    mem_free(job);
    log_job_ended(log);
}

static void cold_start(struct partition_log *log, struct log_read *op, const struct segment *segment, uint64_t start,
                       uint64_t limit)
{
    struct cold_read *job = mem_calloc(1, sizeof(*job));

    if (job == NULL) {
        complete(op, ERR_NOMEM);
        return;
    }
    job->job.run = cold_run;
    job->job.done = cold_done;
    job->log = log;
    job->op = op;
    job->file = fs_file_keep(segment->file);
    job->offset = op->offset;
    job->offset_limit = op->offset_limit;
    job->start = start;
    job->limit = limit;
    job->base_offset = segment->base_offset;
    job->end_offset = segment->end_offset;
    job->size_there = segment->size;
    job->gaps_allowed = log_gaps_are_allowed(log, segment->base_offset);
    job->bytes_max = op->bytes_max < LOG_READ_COLD_BYTES_MAX ? op->bytes_max : LOG_READ_COLD_BYTES_MAX;
    job->at_least_one = op->at_least_one || op->bytes_max > LOG_READ_COLD_BYTES_MAX;
    job->next_offset = -1;
    log_job_started(log);
    loop_submit(log->env->loop, &job->job);
}

/* --- the way through memory --- */

/* Where in the segment the read has to stop. */
static enum err limit_position(const struct segment *segment, int64_t offset_limit, uint64_t *limit)
{
    struct batch_header header;
    enum err err = ERR_OK;

    *limit = segment->size;
    if (offset_limit >= segment->end_offset)
        return ERR_OK;
    err = segment_find(segment->file, &segment->offsets, segment->base_offset, offset_limit, segment->size, true, limit,
                       &header);
    if (err == ERR_END)
        *limit = segment->size;
    return err == ERR_END ? ERR_OK : err;
}

/*
 * Where a read is cut short by its size it ends with the last batch that fits whole. (Apache Kafka sends a piece of the
 * next one, which every client throws away; with batches of 600 kB that is a third of what goes out.) All that fit are
 * given: trap B020.
 */
static enum err whole_size(const struct segment *segment, uint64_t position, uint64_t first_bytes, uint64_t *size)
{
    struct batch_scan scan;
    struct batch_header header;
    struct bytes batch;
    uint64_t cut = position + *size;
    uint64_t end = position + first_bytes;
    uint64_t indexed = offset_index_boundary(&segment->offsets, (uint32_t)cut);
    enum err err = ERR_OK;

    if (end < indexed)
        end = indexed;
    batch_scan_init(&scan, segment->file, end, segment->size, BATCH_SCAN_HEADS);
    scan.cached_only = true;
    while (err == ERR_OK && scan.position <= cut) {
        end = scan.position;
        err = batch_scan_next(&scan, &header, &batch);
    }
    batch_scan_deinit(&scan);
    *size = end - position;
    return err == ERR_END ? ERR_OK : err;
}

static int64_t end_bound(const struct segment *segment, uint64_t position)
{
    int64_t bound = offset_index_bound(&segment->offsets, position);

    return bound < 0 ? segment->end_offset : segment->base_offset + bound;
}

static enum err hot_read(struct log_read *op, const struct segment *segment)
{
    struct batch_header header;
    uint64_t position = 0;
    uint64_t limit = 0;
    uint64_t size = 0;
    enum err err = limit_position(segment, op->offset_limit, &limit);

    if (err == ERR_OK)
        err = segment_find(segment->file, &segment->offsets, segment->base_offset, op->offset, limit, true, &position,
                           &header);
    if (err != ERR_OK)
        return err;
    if (header.base_offset > op->offset && op->offset > segment->base_offset)
        return ERR_WOULD_BLOCK; /* a gap is looked at more closely */
    if (header.size > op->bytes_max && !op->at_least_one)
        return ERR_OK; /* too short for the first batch: nothing */
    size = limit - position;
    if (size > op->bytes_max)
        size = op->bytes_max;
    if (size < header.size)
        size = header.size;
    if (position + size < limit) {
        err = whole_size(segment, position, header.size, &size);
        if (err != ERR_OK)
            return err;
    }
    if (!segment_checked_has(segment, position, size))
        return ERR_WOULD_BLOCK; /* not before a job has looked at it */
    if (position + size == segment->size)
        op->next_offset = segment->end_offset;
    op->end_bound = end_bound(segment, position + size);
    if (size < LOG_READ_COPY_BYTES) {
        err = give_copy(op, segment->file, position, (size_t)size);
        if (err != ERR_NOMEM)
            return err;
    }
    if (!fs_is_cached(segment->file, position, (size_t)size))
        return ERR_WOULD_BLOCK;
    give_range(op, segment->file, position, (size_t)size);
    return ERR_OK;
}

static struct segment *segment_for(const struct partition_log *log, int64_t offset)
{
    uint32_t slot = 0;

    /* Compaction may have left a gap before the next one. */
    if (log_segment_at(log, offset, &slot) == NULL)
        return log->segment_count == 0 ? NULL : log->segments[0];
    while (offset >= log->segments[slot]->end_offset && slot + 1 < log->segment_count)
        slot++;
    return log->segments[slot];
}

static void read_from(struct partition_log *log, struct log_read *op, const struct segment *segment)
{
    const struct damage_range *next = damage_from(&log->damage, op->offset);
    uint64_t start = offset_index_position(
        &segment->offsets, op->offset < segment->base_offset ? 0 : (uint32_t)(op->offset - segment->base_offset));
    uint64_t floor = log_damage_floor(log, segment->base_offset, op->offset);
    uint64_t limit = segment->size;
    enum err err = ERR_WOULD_BLOCK;

    if (next != NULL && next->segment_base == segment->base_offset && next->position < limit)
        limit = next->position;
    /* With damage in the segment the way by its heads may lead through it. */
    if (floor == 0 && limit == segment->size)
        err = hot_read(op, segment);
    /* What ends before the offset that it should hold is looked at closely, too. */
    if (err == ERR_WOULD_BLOCK || err == ERR_DAMAGED || (err == ERR_END && op->offset < segment->end_offset))
        cold_start(log, op, segment, start > floor && start < limit ? start : floor, limit);
    else
        complete(op, err == ERR_END ? ERR_OK : reader_error(log, op, err));
}

/* False, and the read is through: the offset lies in a damaged range. What it may read ends where the next begins. */
static bool damage_allows(const struct partition_log *log, struct log_read *op)
{
    const struct damage_range *next = damage_from(&log->damage, op->offset);

    if (next != NULL && next->first_offset <= op->offset && op->offset < op->offset_limit) {
        complete(op, ERR_CORRUPT_MESSAGE);
        return false;
    }
    if (next != NULL && next->first_offset < op->offset_limit)
        op->offset_limit = next->first_offset;
    return true;
}

/* Until log_reads_retry or one of those that fail it. */
static void wait_in_list(struct partition_log *log, struct log_read *op, const struct segment *waits_for)
{
    op->waits_for = waits_for;
    list_add_last(&log->awake->reads, &op->node);
}

static void read_in(struct partition_log *log, struct log_read *op, struct segment *segment)
{
    enum err err = ERR_OK;

    if (segment == NULL || op->offset >= op->offset_limit || segment->base_offset >= op->offset_limit) {
        complete(op, ERR_OK);
        return;
    }
    err = log_wake(log);
    if (err != ERR_OK) {
        complete(op, err);
        return;
    }
    log_use(log);
    if (segment->file == NULL) {
        err = log_segment_open(log, segment);
        if (err != ERR_OK)
            complete(op, err);
        else
            wait_in_list(log, op, segment);
        return;
    }
    read_from(log, op, segment);
}

static void read_now(struct partition_log *log, struct log_read *op)
{
    if (log->failed) {
        complete(op, ERR_KAFKA_STORAGE_ERROR);
        return;
    }
    if (log_is_held(log)) {
        wait_in_list(log, op, NULL);
        return;
    }
    if (op->offset_limit > log->end_offset) /* it was cut since it was asked */
        op->offset_limit = log->end_offset;
    if (op->offset < log->start_offset || op->offset > log->end_offset) {
        complete(op, ERR_OFFSET_OUT_OF_RANGE);
        return;
    }
    if (log->damage.count > 0 && !damage_allows(log, op))
        return;
    read_in(log, op, segment_for(log, op->offset));
}

/* In the segments behind the one of that base. */
static void read_behind(struct partition_log *log, struct log_read *op, int64_t segment_base)
{
    uint32_t slot = 0;
    bool is_there = log_segment_at(log, segment_base, &slot) != NULL;

    if (log->failed || log->closing != NULL)
        complete(op, log->failed ? ERR_KAFKA_STORAGE_ERROR : ERR_CLOSED);
    else if (log_is_held(log))
        wait_in_list(log, op, NULL);
    else
        read_in(log, op, is_there && slot + 1 < log->segment_count ? log->segments[slot + 1] : NULL);
}

void partition_log_read(struct partition_log *log, struct log_read *op)
{
    assert(op->offset_limit <= log->end_offset);
    list_node_init(&op->node);
    op->err = ERR_OK;
    op->slice_count = 0;
    op->size = 0;
    op->next_offset = -1;
    op->end_bound = -1;
    if (log->closing != NULL)
        complete(op, ERR_CLOSED);
    else
        read_now(log, op);
}

/* All that wait are tried again, but for those that wait for failed: they end with err. */
static void retry_but(struct partition_log *log, const struct segment *failed, enum err err)
{
    struct list waiting;
    struct list_node *node = NULL;

    list_init(&waiting);
    list_move_all(&waiting, &log->awake->reads);
    while ((node = list_take_first(&waiting)) != NULL) {
        struct log_read *op = LIST_ENTRY(node, struct log_read, node);

        if (log->closing != NULL)
            complete(op, ERR_CLOSED);
        else if (failed != NULL && op->waits_for == failed)
            complete(op, err);
        else
            read_now(log, op);
    }
}

void log_reads_retry(struct partition_log *log)
{
    retry_but(log, NULL, ERR_OK);
}

void log_reads_fail_of(struct partition_log *log, const struct segment *segment, enum err err)
{
    retry_but(log, segment, err);
}

void log_reads_fail(struct partition_log *log, enum err err)
{
    struct list_node *node = NULL;

    while ((node = list_take_first(&log->awake->reads)) != NULL)
        complete(LIST_ENTRY(node, struct log_read, node), err);
}
