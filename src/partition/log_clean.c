/* Compaction of a log: what is next, on its reactor; clean_io.c does the work in jobs. */
#include <inttypes.h>

#include "base/assert.h"
#include "base/mem.h"
#include "partition/log_cleaning.h"
#include "partition/partition_limits.h"

/* --- what there is to clean --- */

/* Marks of damage say where in a segment's file it lies. */
static bool has_damage(const struct partition_log *log, int64_t base_offset)
{
    for (uint32_t i = 0; i < log->damage.count; i++)
        if (log->damage.ranges[i].segment_base == base_offset)
            return true;
    return false;
}

static void source_fill(const struct partition_log *log, uint32_t slot, struct clean_source *source)
{
    const struct segment *segment = log->segments[slot];

    *source = (struct clean_source){
        .base_offset = segment->base_offset,
        .end_offset = log->segments[slot + 1]->base_offset,
        .size = segment->size,
        .max_timestamp = segment->max_timestamp,
        .first_timestamp = segment->first_timestamp,
        .mtime_ms = segment->created_ms,
        .settled = segment->settled && !segment->moving,
        .left_alone = has_damage(log, segment->base_offset),
    };
}

/* *sources: to be freed. */
static enum err range_find(const struct partition_log *log, int64_t stable_offset, int64_t now_ms,
                           struct clean_source **sources, struct clean_range *range)
{
    uint32_t count = log->segment_count < 2 ? 0 : log->segment_count - 1;

    *sources = mem_alloc((count + 1) * sizeof(**sources));
    if (*sources == NULL)
        return ERR_NOMEM;
    for (uint32_t i = 0; i < count; i++)
        source_fill(log, i, &(*sources)[i]);
    clean_range_find(*sources, count, log->config, log->start_offset, log->end_offset, log->cleaned_offset,
                     stable_offset, now_ms, range);
    return ERR_OK;
}

void partition_log_look_cleanable(const struct partition_log *log, int64_t stable_offset, int64_t now_ms,
                                  struct log_cleanable *cleanable)
{
    struct clean_source *sources = NULL;
    struct clean_range range;

    *cleanable = (struct log_cleanable){0};
    if (log->cleaning != NULL || log->moving != NULL || log->closing != NULL || log->failed || log_is_held(log) ||
        !log->config->cleanup_compact || loop_now_ns(log->env->loop) < log->clean_again_ns ||
        (log->env->clock_guard != NULL && log->env->clock_guard->doubts) ||
        range_find(log, stable_offset, now_ms, &sources, &range) != ERR_OK)
        return;
    cleanable->dirty_bytes = range.dirty_bytes;
    cleanable->total_bytes = range.total_bytes;
    cleanable->ratio = clean_range_ratio(&range);
    cleanable->is_due = clean_range_is_due(&range, log->config);
    mem_free(sources);
}

int64_t partition_log_cleaned_offset(const struct partition_log *log)
{
    return log->cleaned_offset;
}

/* --- uses of segments --- */

static void uses_drop(struct log_cleaning *cleaning)
{
    while (cleaning->used_count > 0)
        log_segment_let_go(cleaning->log, cleaning->used[--cleaning->used_count]);
}

/* The segments of these sources are there still, as they were. */
static bool sources_are_there(const struct log_cleaning *cleaning, uint32_t first, uint32_t end)
{
    for (uint32_t i = first; i < end; i++) {
        const struct segment *segment = log_segment_at(cleaning->log, cleaning->sources[i].base_offset, NULL);

        if (segment == NULL || segment->base_offset != cleaning->sources[i].base_offset || segment->moving ||
            segment->size != cleaning->sources[i].size)
            return false;
    }
    return true;
}

static bool uses_take(struct log_cleaning *cleaning, uint32_t first, uint32_t end)
{
    if (!sources_are_there(cleaning, first, end))
        return false;
    for (uint32_t i = first; i < end; i++) {
        struct segment *segment = log_segment_at(cleaning->log, cleaning->sources[i].base_offset, NULL);

        log_segment_use(segment);
        cleaning->used[cleaning->used_count++] = segment;
    }
    return true;
}

/* --- the end --- */

static void cleaning_free(struct log_cleaning *cleaning)
{
    cleaner_free(cleaning->cleaner);
    mem_free(cleaning->sources);
    mem_free(cleaning->producers);
    mem_free(cleaning->aborted);
    mem_free(cleaning->aborted_files);
    mem_free(cleaning->used);
    mem_free(cleaning->buffer);
    mem_free(cleaning);
}

static void unopened_tell(struct partition_log *log, const struct cleaner *cleaner)
{
    struct cleaner_stats stats;

    cleaner_get_stats(cleaner, &stats);
    if (stats.batches_unopened == 0 || stats.first_unopened_offset == log->unopened_offset)
        return;
    log->unopened_offset = stats.first_unopened_offset;
    log_error(log->env->log,
              "batches that cannot be opened are kept as they are topic=%s partition=%" PRId32 " count=%" PRIu64
              " first_offset=%" PRId64,
              log->topic, log->partition, stats.batches_unopened, stats.first_unopened_offset);
}

static void tell(const struct log_cleaning *cleaning)
{
    const struct partition_log *log = cleaning->log;
    const struct log_clean *op = cleaning->op;

    log_info(log->env->log,
             "log cleaned topic=%s partition=%" PRId32 " from=%" PRId64 " to=%" PRId64 " bytes_mapped=%" PRIu64
             " bytes_read=%" PRIu64 " bytes_written=%" PRIu64 " ms=%" PRId64,
             log->topic, log->partition, cleaning->range.first_dirty_offset, log->cleaned_offset, op->bytes_mapped,
             op->bytes_read, op->bytes_written, op->elapsed_ns / 1000000);
}

static void over(struct log_cleaning *cleaning)
{
    struct partition_log *log = cleaning->log;
    struct log_clean *op = cleaning->op;

    assert(cleaning->used_count == 0 && cleaning->in == NULL && cleaning->out == NULL && cleaning->made == NULL);
    op->err = cleaning->ends_err;
    op->elapsed_ns = loop_now_ns(log->env->loop) - op->elapsed_ns;
    if (op->err == ERR_OK) {
        log->cleaned_offset = cleaner_end_offset(cleaning->cleaner);
        unopened_tell(log, cleaning->cleaner);
        tell(cleaning);
    } else if (op->err != ERR_CLOSED) {
        log->clean_again_ns = loop_now_ns(log->env->loop) + CLEAN_AGAIN_NS;
    }
    log->cleaning = NULL;
    cleaning_free(cleaning);
    op->done(op);
    log_timer_set(log);
    log_job_ended(log);
}

static void submit(struct log_cleaning *cleaning, enum clean_stage stage)
{
    cleaning->stage = stage;
    loop_submit(cleaning->log->env->loop, &cleaning->job);
}

static void end(struct log_cleaning *cleaning, enum err err)
{
    cleaning->ends = true;
    cleaning->ends_err = err;
    if (cleaning->in != NULL || cleaning->out != NULL || cleaning->made != NULL) {
        submit(cleaning, CLEAN_DISCARD);
        return;
    }
    uses_drop(cleaning);
    over(cleaning);
}

/* --- what is next --- */

static void group_begin(struct log_cleaning *cleaning, uint32_t first)
{
    while (first < cleaning->source_count) {
        uint32_t group_end = first + 1;

        if (!sources_are_there(cleaning, first, group_end)) { /* the log's start has passed it */
            cleaner_skip(cleaning->cleaner);
            first++;
            continue;
        }
        group_end = clean_group_end(cleaning->sources, cleaning->source_count, first, &cleaning->config);

        if (!cleaning->sources[first].left_alone && uses_take(cleaning, first, group_end)) {
            cleaning->group_first = cleaning->at = first;
            cleaning->group_end = group_end;
            submit(cleaning, CLEAN_FILTER);
            return;
        }
        cleaner_skip(cleaning->cleaner);
        first = group_end;
    }
    end(cleaning, ERR_OK);
}

static void map_on(struct log_cleaning *cleaning)
{
    int64_t end_offset = 0;

    uses_drop(cleaning);
    for (; cleaning->at < cleaning->source_count && !cleaning->map_is_full; cleaning->at++) {
        if (cleaning->sources[cleaning->at].end_offset <= cleaning->range.first_dirty_offset)
            continue;
        if (uses_take(cleaning, cleaning->at, cleaning->at + 1)) {
            submit(cleaning, CLEAN_MAP);
            return;
        }
        cleaning->sources[cleaning->at].left_alone = true; /* it was removed meanwhile */
        cleaner_map_reached(cleaning->cleaner, cleaning->sources[cleaning->at].end_offset);
    }
    end_offset = cleaner_end_offset(cleaning->cleaner);
    while (cleaning->source_count > 0 && cleaning->sources[cleaning->source_count - 1].base_offset >= end_offset)
        cleaning->source_count--;
    group_begin(cleaning, 0);
}

static void damage_tell(struct log_cleaning *cleaning)
{
    struct partition_log *log = cleaning->log;
    int64_t base_offset = cleaning->sources[cleaning->at].base_offset;

    if (base_offset <= log->unwalked_offset)
        return;
    log->unwalked_offset = base_offset;
    log_error(log->env->log,
              "segment left as it is, it cannot be walked topic=%s partition=%" PRId32 " base_offset=%" PRId64,
              log->topic, log->partition, base_offset);
}

static void replaced(struct log_replace *op)
{
    struct log_cleaning *cleaning = LIST_ENTRY(op, struct log_cleaning, replace);

    cleaning->made = op->segment;
    if (op->err == ERR_OK) {
        group_begin(cleaning, cleaning->group_end);
    } else if (op->err == ERR_CLOSED || op->err == ERR_NOMEM) { /* it was not begun */
        end(cleaning, op->err);
    } else {
        /* The old files may be gone: what lies there the next start finishes. */
        clean_io_close(cleaning);
        end(cleaning, op->err);
    }
}

static void replace(struct log_cleaning *cleaning)
{
    cleaning->stage = CLEAN_REPLACE;
    cleaning->replace = (struct log_replace){
        .segment = cleaning->made,
        .count = cleaning->group_end - cleaning->group_first,
        .done = replaced,
    };
    log_segments_replace(cleaning->log, &cleaning->replace);
}

static void source_next(struct log_cleaning *cleaning)
{
    if (cleaning->sources[cleaning->at].left_alone) {
        damage_tell(cleaning);
        if (cleaning->stage == CLEAN_FILTER) {
            submit(cleaning, CLEAN_DISCARD); /* and the group anew, without it */
            return;
        }
    }
    cleaning->at++;
    if (cleaning->stage == CLEAN_MAP)
        map_on(cleaning);
    else
        submit(cleaning, cleaning->at < cleaning->group_end ? CLEAN_FILTER : CLEAN_FINISH);
}

/* The first of the group were removed meanwhile: once more with the others. What they hold that is superseded must not
 * stay, since tombstones behind it count it as gone. */
static void group_again(struct log_cleaning *cleaning)
{
    cleaning->at = cleaning->group_first;
    submit(cleaning, CLEAN_DISCARD);
}

/* The stage's job has succeeded. */
static void go_on(struct log_cleaning *cleaning)
{
    switch (cleaning->stage) {
    case CLEAN_PREPARE:
        map_on(cleaning);
        return;
    case CLEAN_MAP:
    case CLEAN_FILTER:
        if (cleaning->source_is_done)
            source_next(cleaning);
        else
            submit(cleaning, cleaning->stage);
        return;
    case CLEAN_FINISH:
        uses_drop(cleaning);
        if (!cleaning->changed)
            submit(cleaning, CLEAN_DISCARD);
        else if (sources_are_there(cleaning, cleaning->group_first, cleaning->group_end))
            submit(cleaning, CLEAN_SWAP);
        else
            group_again(cleaning);
        return;
    case CLEAN_SWAP:
        if (sources_are_there(cleaning, cleaning->group_first, cleaning->group_end))
            replace(cleaning);
        else
            group_again(cleaning);
        return;
    case CLEAN_DISCARD:
        uses_drop(cleaning);
        if (cleaning->ends)
            over(cleaning);
        else
            group_begin(cleaning, cleaning->at < cleaning->group_end ? cleaning->group_first : cleaning->group_end);
        return;
    case CLEAN_REPLACE:
        break;
    }
    assert_never("a stage without a job");
}

/* Why it is not to go on; ERR_OK: it is. */
static enum err stop_reason(const struct log_cleaning *cleaning)
{
    const struct partition_log *log = cleaning->log;

    if (log->failed)
        return ERR_KAFKA_STORAGE_ERROR;
    /* What was cut off may have superseded what is left. */
    if (log->closing != NULL || log->moving != NULL || log_is_held(log) ||
        log->end_offset < cleaning->range.limit_offset)
        return ERR_CLOSED;
    return ERR_OK;
}

/* Markers lie behind what they decide. Were one lost with the power once the cleaning has gone by it, what it took away
 * as superseded or as aborted was neither. */
static bool decisions_are_synced(const struct log_cleaning *cleaning)
{
    const struct partition_log *log = cleaning->log;

    return log->synced_offset >= cleaning->decided_end || log->synced_offset == log->end_offset;
}

static void step(struct log_cleaning *cleaning)
{
    struct partition_log *log = cleaning->log;
    enum err err = cleaning->ends ? ERR_OK : stop_reason(cleaning);

    if (err != ERR_OK) {
        end(cleaning, err);
    } else if (!cleaning->ends && !decisions_are_synced(cleaning)) {
        log_sync_start(log);
        loop_timer_start(log->env->loop, &cleaning->pause, loop_now_ns(log->env->loop) + CLEAN_SYNC_WAIT_NS);
    } else {
        go_on(cleaning);
    }
}

static void pause_over(struct loop_timer *timer)
{
    step(LIST_ENTRY(timer, struct log_cleaning, pause));
}

/* When all that was done so far is in keeping with the rate. */
static bool has_to_pause(struct log_cleaning *cleaning)
{
    int64_t now_ns = loop_now_ns(cleaning->log->env->loop);
    double cost_ns = (double)cleaning->slice_bytes / cleaning->op->bytes_per_second * 1e9;

    if (cleaning->paced_ns < now_ns - CLEAN_CREDIT_NS)
        cleaning->paced_ns = now_ns - CLEAN_CREDIT_NS;
    cleaning->paced_ns += cost_ns < (double)CLEAN_PAUSE_NS_MAX ? (int64_t)cost_ns : CLEAN_PAUSE_NS_MAX;
    return cleaning->paced_ns > now_ns;
}

static void job_run(struct loop_job *base)
{
    clean_io_run(LIST_ENTRY(base, struct log_cleaning, job));
}

static void job_done(struct loop_job *base)
{
    struct log_cleaning *cleaning = LIST_ENTRY(base, struct log_cleaning, job);
    enum err err = cleaning->err;

    if (cleaning->stage == CLEAN_MAP)
        cleaning->op->bytes_mapped += cleaning->slice_bytes;
    if (err != ERR_OK) {
        err = log_storage_error(cleaning->log, err, "cleaning failed");
        if (cleaning->stage == CLEAN_DISCARD) { /* what is left lying there the next start removes */
            cleaning->ends_err = cleaning->ends ? cleaning->ends_err : err;
            uses_drop(cleaning);
            over(cleaning);
        } else {
            end(cleaning, err);
        }
    } else if (!cleaning->ends && stop_reason(cleaning) == ERR_OK && has_to_pause(cleaning)) {
        loop_timer_start(cleaning->log->env->loop, &cleaning->pause, cleaning->paced_ns);
    } else {
        step(cleaning);
    }
}

void log_cleaning_end(struct partition_log *log)
{
    struct log_cleaning *cleaning = log->cleaning;

    if (cleaning == NULL || cleaning->pause.heap_slot == 0)
        return; /* a job is under way, and asks when it is done */
    loop_timer_stop(log->env->loop, &cleaning->pause);
    end(cleaning, stop_reason(cleaning));
}

/* --- the beginning --- */

static enum err producers_take(struct log_cleaning *cleaning)
{
    const struct producer_state *state = &cleaning->log->producers;
    uint32_t count = 0;

    cleaning->producers = mem_alloc((producer_state_count(state) + 1) * sizeof(cleaning->producers[0]));
    if (cleaning->producers == NULL)
        return ERR_NOMEM;
    for (const struct producer *producer = producer_state_next(state, NULL); producer != NULL;
         producer = producer_state_next(state, producer)) {
        if (producer->epoch >= 0)
            cleaning->producers[count++] = (struct cleaner_producer){
                .id = producer->id,
                .epoch = producer->epoch,
                .last_offset =
                    producer->batch_count == 0 ? -1 : producer->batches[producer->batch_count - 1].last_offset,
            };
    }
    cleaning->spec.producers = cleaning->producers;
    cleaning->spec.producer_count = count;
    return ERR_OK;
}

/* Every one that the log knows of: those in memory now, the others by the first job. */
static enum err aborted_take(struct log_cleaning *cleaning)
{
    const struct partition_log *log = cleaning->log;
    enum err err = ERR_OK;

    cleaning->aborted_files = mem_calloc(log->segment_count + 1, sizeof(cleaning->aborted_files[0]));
    if (cleaning->aborted_files == NULL)
        return ERR_NOMEM;
    for (uint32_t i = 0; i < log->segment_count && err == ERR_OK; i++) {
        const struct segment *segment = log->segments[i];

        if (segment->aborted == NULL)
            continue;
        if (segment->aborted->absent)
            cleaning->aborted_files[cleaning->aborted_file_count++] =
                (struct clean_source){.base_offset = segment->base_offset, .end_offset = segment->end_offset};
        else
            err = clean_io_aborted_add(cleaning, segment->aborted);
    }
    return err;
}

/* The files that the first job reads keep their names until it is through. */
static void first_uses_take(struct log_cleaning *cleaning)
{
    struct partition_log *log = cleaning->log;
    bool there = uses_take(cleaning, 0, cleaning->source_count);

    assert(there);
    for (uint32_t i = 0; i < cleaning->aborted_file_count; i++) {
        struct segment *segment = log_segment_at(log, cleaning->aborted_files[i].base_offset, NULL);

        log_segment_use(segment);
        cleaning->used[cleaning->used_count++] = segment;
    }
}

static enum err cleaning_make(struct partition_log *log, struct log_clean *op, struct log_cleaning **made)
{
    struct log_cleaning *cleaning = mem_calloc(1, sizeof(*cleaning));
    enum err err = ERR_OK;

    if (cleaning == NULL)
        return ERR_NOMEM;
    cleaning->job.run = job_run;
    cleaning->job.done = job_done;
    cleaning->pause.fired = pause_over;
    cleaning->log = log;
    cleaning->op = op;
    cleaning->decided_end = log->end_offset;
    cleaning->config = *log->config;
    err = range_find(log, op->stable_offset, op->now_ms, &cleaning->sources, &cleaning->range);
    if (err == ERR_OK)
        err = producers_take(cleaning);
    if (err == ERR_OK)
        err = aborted_take(cleaning);
    cleaning->source_count = cleaning->range.count;
    cleaning->used = mem_alloc((2 * log->segment_count + 1) * sizeof(struct segment *));
    if (err == ERR_OK && cleaning->used == NULL)
        err = ERR_NOMEM;
    if (err != ERR_OK) {
        cleaning_free(cleaning);
        return err;
    }
    cleaning->spec.first_dirty_offset = cleaning->range.first_dirty_offset;
    cleaning->spec.limit_offset = cleaning->range.limit_offset;
    cleaning->spec.now_ms = op->now_ms;
    cleaning->spec.delete_retention_ms = log->config->delete_retention_ms;
    cleaning->spec.map_bytes_max = op->map_bytes_max;
    cleaning->spec.map_load = op->map_load;
    cleaning->spec.keys_expected = (uint64_t)(cleaning->range.limit_offset - cleaning->range.first_dirty_offset);
    cleaning->spec.hash_seed = rng_u64(log->env->rng);
    *made = cleaning;
    return ERR_OK;
}

void partition_log_clean(struct partition_log *log, struct log_clean *op)
{
    struct log_cleaning *cleaning = NULL;

    assert(log->cleaning == NULL && op->buffer_bytes > 0 && op->bytes_per_second > 0);
    op->bytes_mapped = op->bytes_read = op->bytes_written = 0;
    op->elapsed_ns = loop_now_ns(log->env->loop);
    op->err = log->failed                                                       ? ERR_KAFKA_STORAGE_ERROR
              : log->closing != NULL || log->moving != NULL || log_is_held(log) ? ERR_CLOSED
                                                                                : ERR_OK;
    if (op->err == ERR_OK)
        op->err = cleaning_make(log, op, &cleaning);
    if (op->err != ERR_OK) {
        op->elapsed_ns = 0;
        op->done(op);
        return;
    }
    log->cleaning = cleaning;
    log_job_started(log);
    first_uses_take(cleaning);
    submit(cleaning, CLEAN_PREPARE);
}
