/* The files of a log: opened on demand, bounded in number, given back when nobody has used them for a while. */
#include <inttypes.h>

#include "base/assert.h"
#include "base/mem.h"
#include "partition/log.h"
#include "partition/log_internal.h"
#include "partition/log_path.h"
#include "partition/segment_checked.h"
#include "partition/txn_file.h"

/* Of all that sleep; it is never written to. */
static const struct log_awake asleep = {
#define EMPTY(list)                                                                                                    \
    {                                                                                                                  \
        {                                                                                                              \
            (struct list_node *)&asleep.list.head, (struct list_node *)&asleep.list.head                               \
        }                                                                                                              \
    }
#define UNLINKED(node)                                                                                                 \
    {                                                                                                                  \
        (struct list_node *)&asleep.node, (struct list_node *)&asleep.node                                             \
    }
    .appends = EMPTY(appends),
    .syncs = EMPTY(syncs),
    .dirty_waiter = {.node = UNLINKED(dirty_waiter.node)},
    .by_dirty = UNLINKED(by_dirty),
    .reads = EMPTY(reads),
    .finds = EMPTY(finds),
    .lookups = EMPTY(lookups),
    .by_use = UNLINKED(by_use),
#undef UNLINKED
#undef EMPTY
};

void log_awake_init(struct partition_log *log)
{
    log->awake = (struct log_awake *)(uintptr_t)&asleep;
}

void log_awake_free(struct partition_log *log)
{
    if (log_is_awake(log))
        mem_free(log->awake);
    log_awake_init(log);
}

bool log_is_awake(const struct partition_log *log)
{
    return log->awake != &asleep;
}

enum err log_wake(struct partition_log *log)
{
    struct log_awake *made = NULL;

    if (log_is_awake(log))
        return ERR_OK;
    made = mem_calloc(1, sizeof(*made));
    if (made == NULL)
        return ERR_NOMEM;
    made->log = log;
    made->last_use_ns = log->adopted ? loop_now_ns(log->env->loop) : 0; /* else it is being opened, by a job */
    list_init(&made->appends);
    list_init(&made->syncs);
    list_init(&made->reads);
    list_init(&made->finds);
    list_init(&made->lookups);
    list_node_init(&made->dirty_waiter.node);
    list_node_init(&made->by_dirty);
    list_node_init(&made->by_use);
    log->awake = made;
    log_timer_set(log); /* so that it sleeps again */
    return ERR_OK;
}

void log_sleep(struct partition_log *log)
{
    const struct log_awake *awake = log->awake;

    if (log_is_awake(log) && awake->open_files == 0 && awake->append_job == NULL && awake->sync_job == NULL &&
        awake->unsynced_bytes == 0 && awake->counted_bytes == 0 && list_is_empty(&awake->appends) &&
        list_is_empty(&awake->syncs) && list_is_empty(&awake->reads) && list_is_empty(&awake->finds) &&
        list_is_empty(&awake->lookups) && !list_node_is_linked(&awake->dirty_waiter.node) && log->cleaning == NULL &&
        log->moving == NULL && log->truncation == NULL && log->closing == NULL)
        log_awake_free(log);
}

void log_use(struct partition_log *log)
{
    log->awake->last_use_ns = loop_now_ns(log->env->loop);
    if (log->awake->open_files > 0) {
        list_remove(&log->awake->by_use);
        list_add_last(&log->env->files->logs, &log->awake->by_use);
    }
}

void log_file_opened(struct partition_log *log, struct segment *segment, struct fs_file *file)
{
    struct partition_files *files = log->env->files;

    assert(segment->file == NULL);
    segment->file = file;
    files->open_count++;
    if (log->awake->open_files++ == 0)
        list_add_last(&files->logs, &log->awake->by_use);
    log_use(log);
    if (files->open_count > files->open_max) {
        struct list_node *oldest = list_first(&files->logs);
        struct partition_log *other = LIST_ENTRY(oldest, struct log_awake, by_use)->log;

        if (other != log) {
            log_use(other); /* so that the next one over the bound asks another */
            log_files_give_back(other);
        }
    }
    log_timer_set(log);
}

void log_file_close(struct partition_log *log, struct segment *segment)
{
    if (segment->file == NULL)
        return;
    fs_file_drop(segment->file);
    segment->file = NULL;
    segment_checked_forget(segment);
    log->env->files->open_count--;
    if (--log->awake->open_files == 0)
        list_remove(&log->awake->by_use);
}

struct segment_job {
    struct loop_job job;
    struct partition_log *log;
    struct segment *segment;
    int64_t base_offset;
    uint64_t size;
    int32_t index_interval_bytes;
    bool writable;
    bool has_aborted; /* a file to be loaded */
    int64_t end_offset;
    struct fs_file *file;
    struct offset_index offsets;
    struct time_index times;
    struct txn_index aborted;
    bool rebuilt;
    enum err err;
};

static void open_run(struct loop_job *base)
{
    struct segment_job *job = LIST_ENTRY(base, struct segment_job, job);
    const struct partition_log *log = job->log;
    struct log_path path;

    log_path_segment(&path, log->dir, job->base_offset, SEGMENT_LOG);
    job->err = fs_open(log->env->fs, path.text, job->writable ? FS_READ | FS_WRITE : FS_READ, &job->file);
    if (job->err != ERR_OK)
        return;
    job->err = segment_read_indexes(log->env->fs, log->dir, job->base_offset, job->file, job->size,
                                    job->index_interval_bytes, &job->offsets, &job->times);
    if (job->err == ERR_OK && job->has_aborted) {
        job->err =
            txn_file_load(log->env->fs, log->dir, job->base_offset, job->end_offset, &job->aborted, &job->rebuilt);
        if (job->err != ERR_OK) {
            offset_index_deinit(&job->offsets);
            time_index_deinit(&job->times);
        }
    }
    if (job->err != ERR_OK) {
        fs_file_drop(job->file);
        job->file = NULL;
    }
}

static void open_done(struct loop_job *base)
{
    struct segment_job *job = LIST_ENTRY(base, struct segment_job, job);
    struct partition_log *log = job->log;
    struct segment *segment = job->segment;
    enum err err = job->err;

    segment->opening = NULL;
    if (err == ERR_OK && segment->removed) {
        fs_file_drop(job->file);
        offset_index_deinit(&job->offsets);
        time_index_deinit(&job->times);
    } else if (err == ERR_OK) {
        log_file_opened(log, segment, job->file);
        offset_index_deinit(&segment->offsets);
        time_index_deinit(&segment->times);
        segment->offsets = job->offsets;
        segment->times = job->times;
        segment->indexed = true;
        if (job->has_aborted)
            log_aborted_loaded(log, segment, &job->aborted, job->rebuilt);
    }
    txn_index_deinit(&job->aborted);
    mem_free(job);
    if (err == ERR_OK) {
        log_segment_let_go(log, segment);
        log_appends_drain(log);
        log_reads_retry(log);
    } else { /* of this segment: what waits for another one may well have it */
        err = log_storage_error(log, err, "segment not opened");
        if (segment == log_last_segment(log))
            log_appends_fail(log, err);
        log_reads_fail_of(log, segment, err);
        log_segment_let_go(log, segment);
    }
    log_job_ended(log);
}

enum err log_segment_open(struct partition_log *log, struct segment *segment)
{
    struct segment_job *job = NULL;

    assert(segment->file == NULL);
    if (log_wake(log) != ERR_OK)
        return ERR_NOMEM;
    if (segment->opening != NULL || segment->moving)
        return ERR_OK;
    job = mem_calloc(1, sizeof(*job));
    if (job == NULL)
        return ERR_NOMEM;
    job->job.run = open_run;
    job->job.done = open_done;
    job->log = log;
    job->segment = segment;
    job->base_offset = segment->base_offset;
    job->size = segment->size;
    job->index_interval_bytes = log->config->index_interval_bytes;
    job->writable = segment == log_last_segment(log);
    job->has_aborted = segment->aborted != NULL && segment->aborted->absent;
    job->end_offset = segment->end_offset;
    segment->opening = job;
    log_segment_use(segment);
    log_job_started(log);
    loop_submit(log->env->loop, &job->job);
    return ERR_OK;
}

/* --- giving files back --- */

struct idle_tail {
    struct segment *segment; /* a use */
    struct segment_index_tail tail;
};

struct idle_job {
    struct loop_job job;
    struct partition_log *log;
    int64_t last_use_ns; /* when it was decided: a use since then keeps the files open */
    uint32_t tail_count;
    enum err err;
    struct idle_tail tails[];
};

static void idle_run(struct loop_job *base)
{
    struct idle_job *job = LIST_ENTRY(base, struct idle_job, job);

    for (uint32_t i = 0; i < job->tail_count && job->err == ERR_OK; i++)
        job->err = segment_index_tail_write(job->log->env->fs, job->log->dir, &job->tails[i].tail, false);
}

bool log_is_at_rest(const struct partition_log *log)
{
    return log->jobs == 0 && list_is_empty(&log->awake->appends) && list_is_empty(&log->awake->reads) &&
           log->awake->unsynced_bytes == 0;
}

static void idle_done(struct loop_job *base)
{
    struct idle_job *job = LIST_ENTRY(base, struct idle_job, job);
    struct partition_log *log = job->log;

    log->giving_back = false;
    for (uint32_t i = 0; i < job->tail_count; i++) {
        struct segment *segment = job->tails[i].segment;

        if (job->err == ERR_OK && !segment->removed)
            segment_index_tail_done(segment, &job->tails[i].tail);
        segment_index_tail_deinit(&job->tails[i].tail);
        log_segment_let_go(log, segment);
    }
    if (job->err == ERR_OK && log->jobs == 1 && log->awake->unsynced_bytes == 0 &&
        list_is_empty(&log->awake->appends) && list_is_empty(&log->awake->reads) &&
        log->awake->last_use_ns == job->last_use_ns) {
        for (uint32_t i = 0; i < log->segment_count; i++) {
            log_file_close(log, log->segments[i]);
            segment_drop_indexes(log->segments[i]);
        }
        log_sleep(log);
    } else if (job->err != ERR_OK) {
        (void)log_storage_error(log, job->err, "indexes not written");
        log_use(log); /* asked again when it has been idle once more, not at once */
    }
    mem_free(job);
    log_timer_set(log);
    log_job_ended(log);
}

void log_files_give_back(struct partition_log *log)
{
    struct idle_job *job = NULL;

    if (!log_is_at_rest(log) || log_is_held(log) || log->segment_count == 0 || log->closing != NULL || log->failed)
        return;
    job = mem_calloc(1, sizeof(*job) + log->segment_count * sizeof(job->tails[0]));
    if (job == NULL) { /* they stay open until it has been idle once more */
        log_use(log);
        return;
    }
    job->job.run = idle_run;
    job->job.done = idle_done;
    job->log = log;
    job->last_use_ns = log->awake->last_use_ns;
    log->giving_back = true;
    if (log_last_segment(log)->indexed)
        segment_seal_times(log_last_segment(log));
    for (uint32_t i = 0; i < log->segment_count; i++) {
        struct segment *segment = log->segments[i];
        struct idle_tail *tail = &job->tails[job->tail_count];

        if (segment->moving || (!segment_aborted_unwritten(segment) &&
                                (!segment->indexed || (segment->offsets.written == segment->offsets.count &&
                                                       segment->times.written == segment->times.count))))
            continue;
        if (segment_index_tail_take(segment, &tail->tail) != ERR_OK)
            continue;
        tail->segment = segment;
        log_segment_use(segment);
        job->tail_count++;
    }
    log_job_started(log);
    loop_submit(log->env->loop, &job->job);
}
