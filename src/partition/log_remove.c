/* Segments leave the log: their files are renamed aside, and unlinked later (on-disk.md 6). */
#include <inttypes.h>

#include "base/assert.h"
#include "base/mem.h"
#include "partition/log.h"
#include "partition/log_internal.h"
#include "partition/log_path.h"
#include "partition/partition_limits.h"

enum removal_kind { REMOVAL_RENAME, REMOVAL_REPLACE, REMOVAL_UNLINK };

struct log_removal {
    struct loop_job job;
    struct partition_log *log;
    struct list waiting; /* to be renamed, in this order, once nobody goes by their names */
    struct list renamed; /* to be unlinked when they are due, in this order */
    uint32_t renamed_count;
    struct list hand; /* what the present job has */
    enum removal_kind kind;
    bool running;
    int64_t delay_ns;
    int64_t again_ns;            /* renames were refused: not before then */
    struct log_replace *replace; /* waits for its job, or has it */
    enum err err;
};

#define DELETED ".deleted"
#define SWAP    ".swap"

/* The log first: what has no .log is no segment. */
static const struct removed_file {
    const char *name;
    const char *deleted;
    const char *swap;
} removed_files[] = {
    {SEGMENT_LOG, SEGMENT_LOG DELETED, SEGMENT_LOG SWAP},
    {SEGMENT_INDEX, SEGMENT_INDEX DELETED, SEGMENT_INDEX SWAP},
    {SEGMENT_TIME_INDEX, SEGMENT_TIME_INDEX DELETED, SEGMENT_TIME_INDEX SWAP},
    {SEGMENT_TXN_INDEX, SEGMENT_TXN_INDEX DELETED, SEGMENT_TXN_INDEX SWAP},
    {SEGMENT_SNAPSHOT, SEGMENT_SNAPSHOT DELETED, NULL},
};
enum { REMOVED_FILES = sizeof(removed_files) / sizeof(removed_files[0]) };

static struct segment *segment_of(struct list_node *node)
{
    return LIST_ENTRY(node, struct segment, removed_node);
}

/* --- the job --- */

static enum err file_unlink(const struct partition_log *log, int64_t base_offset, const char *suffix)
{
    struct log_path path;
    enum err err = ERR_OK;

    log_path_segment(&path, log->dir, base_offset, suffix);
    err = fs_unlink(log->env->fs, path.text);
    return err == ERR_NOT_FOUND ? ERR_OK : err;
}

static enum err file_rename(const struct partition_log *log, int64_t base_offset, const char *suffix, const char *to)
{
    struct log_path path;
    struct log_path aside;
    enum err err = ERR_OK;

    log_path_segment(&path, log->dir, base_offset, suffix);
    log_path_segment(&aside, log->dir, base_offset, to);
    err = fs_rename(log->env->fs, path.text, aside.text);
    return err == ERR_NOT_FOUND ? ERR_OK : err;
}

static enum err segment_put_aside(const struct partition_log *log, int64_t base_offset, bool with_snapshot)
{
    enum err err = ERR_OK;

    for (uint32_t i = 0; i < REMOVED_FILES && err == ERR_OK; i++) {
        const struct removed_file *file = &removed_files[i];

        if (!with_snapshot && file->swap == NULL)
            continue;
        err = file_rename(log, base_offset, file->name, file->deleted);
        if (err == ERR_NO_SPACE) /* the directory cannot take another name; that is no reason to keep old data */
            err = file_unlink(log, base_offset, file->name);
    }
    return err;
}

static enum err swap_in(const struct partition_log *log, int64_t base_offset)
{
    enum err err = ERR_OK;

    for (uint32_t i = 0; i < REMOVED_FILES && err == ERR_OK; i++)
        if (removed_files[i].swap != NULL)
            err = file_rename(log, base_offset, removed_files[i].swap, removed_files[i].name);
    return err;
}

static void removal_run(struct loop_job *base)
{
    struct log_removal *removal = LIST_ENTRY(base, struct log_removal, job);
    const struct partition_log *log = removal->log;
    bool replaces = removal->kind == REMOVAL_REPLACE;

    removal->err = ERR_OK;
    list_each (&removal->hand, node) {
        int64_t base_offset = segment_of(node)->base_offset;

        if (removal->err != ERR_OK)
            break;
        if (removal->kind != REMOVAL_UNLINK) {
            /* The state at the first one's base is that at the new one's. */
            bool with_snapshot = !replaces || base_offset != removal->replace->segment->base_offset;

            removal->err = segment_put_aside(log, base_offset, with_snapshot);
            continue;
        }
        for (uint32_t i = 0; i < REMOVED_FILES && removal->err == ERR_OK; i++)
            removal->err = file_unlink(log, base_offset, removed_files[i].deleted);
    }
    if (removal->err == ERR_OK && replaces)
        removal->err = swap_in(log, removal->replace->segment->base_offset);
    if (removal->err == ERR_OK && removal->kind != REMOVAL_UNLINK && fs_sync_dir(log->env->fs, log->dir) != ERR_OK)
        removal->err = ERR_IO;
    if (removal->err != ERR_OK && replaces) /* neither the old nor the new can be told to be there */
        removal->err = ERR_IO;
}

static void segment_free(struct segment *segment)
{
    segment_deinit(segment);
    mem_free(segment);
}

static void go_on(struct partition_log *log);

/* Nobody reads it any more but through references to its file. */
static void segment_strip(struct partition_log *log, struct segment *segment)
{
    segment->removed = true;
    log_file_close(log, segment);
    segment_drop_indexes(segment);
}

static void publish(struct partition_log *log, struct log_removal *removal)
{
    struct log_replace *op = removal->replace;
    uint32_t slot = 0;
    const struct segment *first = log_segment_at(log, op->segment->base_offset, &slot);

    assert(first != NULL && first->base_offset == op->segment->base_offset);
    list_each (&removal->hand, node) {
        struct segment *segment = segment_of(node);

        assert(log->segments[slot] == segment);
        log->size -= segment->size;
        segment_strip(log, segment);
        segment->moving = false;
        slot++;
    }
    slot -= op->count;
    log->segments[slot] = op->segment;
    memmove(&log->segments[slot + 1], &log->segments[slot + op->count],
            (log->segment_count - slot - op->count) * sizeof(log->segments[0]));
    log->segment_count -= op->count - 1;
    log->size += op->segment->size;
    op->segment = NULL;
}

static void hand_was_renamed(struct partition_log *log, struct log_removal *removal)
{
    int64_t due_ns = loop_now_ns(log->env->loop) + removal->delay_ns;

    for (struct list_node *node = NULL; (node = list_take_first(&removal->hand)) != NULL;) {
        segment_of(node)->unlink_due_ns = due_ns;
        list_add_last(&removal->renamed, node);
        removal->renamed_count++;
    }
}

/* What could not be renamed keeps its place: were those behind it renamed and it not, the next start would find a log
 * with a hole. */
static void hand_again(struct log_removal *removal)
{
    struct list behind;

    list_init(&behind);
    list_move_all(&behind, &removal->waiting);
    list_move_all(&removal->waiting, &removal->hand);
    list_move_all(&removal->waiting, &behind);
    removal->again_ns = loop_now_ns(removal->log->env->loop) + LOG_RENAME_AGAIN_NS;
}

static void removal_done(struct loop_job *base)
{
    struct log_removal *removal = LIST_ENTRY(base, struct log_removal, job);
    struct partition_log *log = removal->log;
    struct log_replace *replaced = removal->kind == REMOVAL_REPLACE ? removal->replace : NULL;
    enum err err = removal->err;

    removal->running = false;
    if (replaced != NULL && err == ERR_OK)
        publish(log, removal);
    if (removal->kind == REMOVAL_RENAME && err != ERR_OK) {
        hand_again(removal);
    } else if (removal->kind == REMOVAL_UNLINK) {
        for (struct list_node *node = NULL; (node = list_take_first(&removal->hand)) != NULL;)
            segment_free(segment_of(node)); /* with an error: the next start removes its files */
    } else if (err == ERR_OK) {
        hand_was_renamed(log, removal);
    } else { /* the old ones are the log's still; it is about to fail */
        for (struct list_node *node = NULL; (node = list_take_first(&removal->hand)) != NULL;)
            segment_of(node)->moving = false;
    }
    if (replaced != NULL)
        removal->replace = NULL;
    if (err != ERR_OK)
        err = log_storage_error(log, err, "files of removed segments not dealt with");
    if (replaced != NULL) {
        replaced->err = err;
        replaced->done(replaced);
        log_reads_retry(log);
        log_finds_retry(log);
        log_lookups_retry(log);
    }
    go_on(log);
    log_timer_set(log);
    log_job_ended(log);
}

int64_t log_delete_delay_ns(const struct partition_log *log)
{
    int64_t delay_ms = log->config->file_delete_delay_ms;

    if (dir_space_refuses(log->env->space))
        return 0;
    return (delay_ms < PARTITION_DELETE_DELAY_MS_MAX ? delay_ms : PARTITION_DELETE_DELAY_MS_MAX) * 1000000;
}

static void submit(struct log_removal *removal, enum removal_kind kind)
{
    struct partition_log *log = removal->log;

    removal->kind = kind;
    removal->running = true;
    removal->delay_ns = log_delete_delay_ns(log);
    removal->job.run = removal_run;
    removal->job.done = removal_done;
    log_job_started(log);
    loop_submit(log->env->loop, &removal->job);
}

/* --- what is next --- */

/* In order: after a crash what is left of the log has no hole. */
static bool take_waiting(struct log_removal *removal)
{
    struct list_node *node = NULL;

    if (removal->again_ns > loop_now_ns(removal->log->env->loop))
        return false;
    while ((node = list_first(&removal->waiting)) != NULL && segment_of(node)->uses == 0) {
        list_remove(node);
        list_add_last(&removal->hand, node);
    }
    return !list_is_empty(&removal->hand);
}

static bool take_replaced(struct log_removal *removal)
{
    const struct partition_log *log = removal->log;
    uint32_t slot = 0;

    if (removal->replace == NULL)
        return false;
    (void)log_segment_at(log, removal->replace->segment->base_offset, &slot);
    for (uint32_t i = slot; i < slot + removal->replace->count; i++)
        if (log->segments[i]->uses > 0)
            return false;
    for (uint32_t i = slot; i < slot + removal->replace->count; i++)
        list_add_last(&removal->hand, &log->segments[i]->removed_node);
    return true;
}

static bool is_due(const struct log_removal *removal)
{
    struct list_node *node = list_first(&removal->renamed);

    return node != NULL && (removal->renamed_count > LOG_RENAMED_SEGMENTS_MAX ||
                            segment_of(node)->unlink_due_ns <= loop_now_ns(removal->log->env->loop));
}

static bool take_due(struct log_removal *removal)
{
    while (is_due(removal)) {
        struct list_node *node = list_take_first(&removal->renamed);

        removal->renamed_count--;
        list_add_last(&removal->hand, node);
    }
    return !list_is_empty(&removal->hand);
}

static void go_on(struct partition_log *log)
{
    struct log_removal *removal = log->removal;

    if (removal == NULL || removal->running || log->failed || log->close_running || log_truncation_is_running(log) ||
        (log_move_holds(log) && log->jobs > 0))
        return;
    if (take_waiting(removal)) {
        submit(removal, REMOVAL_RENAME);
    } else if (take_replaced(removal)) {
        submit(removal, REMOVAL_REPLACE);
    } else if (log->closing == NULL && take_due(removal)) { /* a closed log's are removed when it is opened again */
        submit(removal, REMOVAL_UNLINK);
    } else if (removal->replace == NULL && list_is_empty(&removal->waiting) && list_is_empty(&removal->renamed)) {
        log->removal = NULL;
        mem_free(removal);
    }
}

static enum err removal_make(struct partition_log *log)
{
    struct log_removal *removal = NULL;

    if (log->removal != NULL)
        return ERR_OK;
    removal = mem_calloc(1, sizeof(*removal));
    if (removal == NULL)
        return ERR_NOMEM;
    removal->log = log;
    list_init(&removal->waiting);
    list_init(&removal->renamed);
    list_init(&removal->hand);
    log->removal = removal;
    return ERR_OK;
}

void log_removal_free(struct partition_log *log)
{
    struct log_removal *removal = log->removal;

    if (removal == NULL)
        return;
    assert(!removal->running && removal->replace == NULL);
    list_move_all(&removal->waiting, &removal->renamed);
    for (struct list_node *node = NULL; (node = list_take_first(&removal->waiting)) != NULL;)
        segment_free(segment_of(node));
    mem_free(removal);
    log->removal = NULL;
}

int64_t log_removal_due_ns(const struct partition_log *log)
{
    const struct log_removal *removal = log->removal;
    int64_t due_ns = INT64_MAX;

    if (removal == NULL || removal->running)
        return INT64_MAX;
    if (!list_is_empty(&removal->renamed))
        due_ns = segment_of(list_first(&removal->renamed))->unlink_due_ns;
    if (!list_is_empty(&removal->waiting) && removal->again_ns > loop_now_ns(log->env->loop) &&
        removal->again_ns < due_ns)
        due_ns = removal->again_ns;
    return due_ns;
}

void log_removal_timer_fired(struct partition_log *log)
{
    go_on(log);
}

void log_removal_fail(struct partition_log *log, enum err err)
{
    struct log_replace *op = log->removal == NULL ? NULL : log->removal->replace;
    uint32_t slot = 0;

    if (op == NULL || (log->removal->running && log->removal->kind == REMOVAL_REPLACE))
        return;
    log->removal->replace = NULL;
    (void)log_segment_at(log, op->segment->base_offset, &slot);
    for (uint32_t i = slot; i < slot + op->count; i++)
        log->segments[i]->moving = false;
    op->err = err;
    op->done(op);
}

/* --- the door --- */

void log_segment_use(struct segment *segment)
{
    assert(!segment->removed && !segment->moving);
    segment->uses++;
}

void log_segment_let_go(struct partition_log *log, struct segment *segment)
{
    assert(segment->uses > 0);
    if (--segment->uses == 0)
        go_on(log);
}

bool log_segments_are_moving(const struct partition_log *log, uint32_t first, uint32_t count)
{
    for (uint32_t i = first; i < first + count; i++)
        if (log->segments[i]->moving)
            return true;
    return false;
}

enum err log_segments_remove(struct partition_log *log, uint32_t first, uint32_t count)
{
    enum err err = ERR_OK;

    assert(count > 0 && first + count <= log->segment_count && !log_segments_are_moving(log, first, count));
    assert(first == 0 || first + count == log->segment_count);
    err = removal_make(log);
    if (err != ERR_OK)
        return err;
    for (uint32_t i = 0; i < count; i++) {
        /* From the end that was cut inwards, so that a crash in between leaves no hole. */
        struct segment *segment = log->segments[first == 0 ? i : first + count - 1 - i];

        log->size -= segment->size;
        segment_strip(log, segment);
        list_add_last(&log->removal->waiting, &segment->removed_node);
        if (log->snapshot_offset == segment->base_offset)
            log->snapshot_offset = -1;
    }
    memmove(&log->segments[first], &log->segments[first + count],
            (log->segment_count - first - count) * sizeof(log->segments[0]));
    log->segment_count -= count;
    go_on(log);
    return ERR_OK;
}

void log_segments_replace(struct partition_log *log, struct log_replace *op)
{
    uint32_t slot = 0;
    const struct segment *first = log_segment_at(log, op->segment->base_offset, &slot);

    assert(first != NULL && first->base_offset == op->segment->base_offset);
    assert(op->count > 0 && slot + op->count < log->segment_count && !log_segments_are_moving(log, slot, op->count));
    assert(op->segment->end_offset <= log->segments[slot + op->count]->base_offset);
    op->err = log->closing != NULL ? ERR_CLOSED : log->failed ? ERR_KAFKA_STORAGE_ERROR : removal_make(log);
    if (op->err != ERR_OK) {
        op->done(op);
        return;
    }
    assert(log->removal->replace == NULL);
    for (uint32_t i = slot; i < slot + op->count; i++) {
        assert(log->segments[i]->settled);
        log->segments[i]->moving = true;
    }
    log->removal->replace = op;
    go_on(log);
}
