/* Moving a log to another log directory while it serves: what is next, on the reactor (log_moving.h has the stages). */
#include <inttypes.h>

#include "base/assert.h"
#include "base/mem.h"
#include "partition/log_moving.h"
#include "partition/partition_limits.h"

static void step(struct log_moving *moving);

/* --- the end --- */

static void over(struct log_moving *moving, enum err err)
{
    struct log_move *op = moving->op;

    op->err = err;
    log_moving_free(moving);
    op->done(op);
}

/* Whatever waited goes on. */
static void release(struct partition_log *log)
{
    log_tell_change(log);
    log_reads_retry(log);
    log_finds_retry(log);
    log_lookups_retry(log);
    log_remove_below_start(log);
    log_removal_timer_fired(log);
    log_sync_go_on(log);
    log_timer_set(log);
    log_truncation_go_on(log);
    log_appends_drain(log);
}

static void submit(struct log_moving *moving, enum move_stage stage)
{
    moving->stage = stage;
    moving->running = true;
    log_job_started(moving->log);
    loop_submit(moving->log->env->loop, &moving->job);
}

static void held_say(const struct log_moving *moving)
{
    moving->op->held_ns = loop_now_ns(moving->log->env->loop) - moving->held_ns;
}

/* It is given up: the log goes on where it is, and the copy goes. */
static void end(struct log_moving *moving, enum err err)
{
    struct partition_log *log = moving->log;

    moving->ends = true;
    moving->ends_err = err;
    if (moving->holds && moving->held_ns != 0)
        held_say(moving);
    if (log->closing != NULL && !log->deleting && !moving->in_place) { /* the next start begins it anew */
        log->moving = NULL;
        over(moving, err);
        return;
    }
    submit(moving, MOVE_DISCARD); /* first, so that a closing log waits for it */
    if (moving->holds) {
        moving->holds = false;
        if (log->closing == NULL && !log->failed)
            release(log);
    }
}

/* The target has failed for good: all its logs are to hear of it. */
static void target_failed(struct log_moving *moving, enum err err)
{
    const struct partition_env *to = moving->op->to;

    if (err != ERR_IO && err != ERR_PERMISSION)
        return;
    if (to->storage_failed != NULL)
        to->storage_failed(to->context, to->log_dir, err);
}

static void failed(struct log_moving *moving, enum err err, bool at_target)
{
    struct partition_log *log = moving->log;

    log_error(log->env->log, "move ended topic=%s partition=%" PRId32 " dir=%s to_dir=%s err=%s at_dir=%s", log->topic,
              log->partition, log->env->log_dir, moving->op->to->log_dir, err_name(err),
              at_target ? moving->op->to->log_dir : log->env->log_dir);
    if (at_target)
        target_failed(moving, err);
    else if (!log_may_pass(err) && err != ERR_CLOSED && err != ERR_DAMAGED)
        (void)log_storage_error(log, err, "log not read for a move");
    end(moving, err);
}

/* --- passes --- */

/* The next of the pass that is still in the log, and may be gone to by name. */
static bool source_use(struct log_moving *moving)
{
    struct partition_log *log = moving->log;

    for (; moving->at < moving->source_count; moving->at++) {
        const struct move_source *source = &moving->sources[moving->at];
        struct segment *segment = log_segment_at(log, source->base_offset, NULL);

        if (segment == NULL || segment->base_offset != source->base_offset || segment->moving)
            continue;
        log_segment_use(segment);
        moving->used = segment;
        return true;
    }
    return false;
}

static void pass_begin(struct log_moving *moving)
{
    struct partition_log *log = moving->log;
    enum err err = ERR_OK;

    if (moving->passes > 0 && move_plan_is_near(moving)) {
        moving->holds = true;
        moving->held_ns = loop_now_ns(log->env->loop);
        log_journal_want(log); /* it waits for what lies in a group */
        log_move_go_on(log);
        return;
    }
    moving->passes++;
    if (log->awake->unsynced_bytes > 0)
        log_sync_start(log); /* so that the last sync is a short one */
    err = move_plan_sources(moving, false);
    if (err != ERR_OK) {
        failed(moving, err, false);
        return;
    }
    moving->stage = MOVE_COPY;
    step(moving);
}

/* --- the held part --- */

static enum err final_prepare(struct log_moving *moving)
{
    struct partition_log *log = moving->log;
    enum err err = move_plan_sources(moving, true);

    if (err == ERR_OK)
        err = log_sync_plan_make(log, LOG_SYNC_FINAL, &moving->plan);
    if (err != ERR_OK)
        return err;
    /* It writes index entries of these once more. */
    for (uint32_t i = 0; i < moving->plan.file_count; i++)
        for (uint32_t j = 0; j < moving->copied_count; j++)
            if (moving->copied[j].base_offset == moving->plan.files[i].base_offset)
                moving->copied[j].sealed = false;
    moving->mark = (struct log_moved_mark){log->end_offset, log->start_offset, log->cleaned_offset};
    return ERR_OK;
}

bool log_move_holds(const struct partition_log *log)
{
    return log->moving != NULL && log->moving->holds;
}

void log_move_go_on(struct partition_log *log)
{
    struct log_moving *moving = log->moving;
    enum err err = ERR_OK;

    if (moving == NULL || !moving->holds || moving->running || log->jobs > 0 || log->draining ||
        log->truncation != NULL)
        return;
    if (moving->stale || log->closing != NULL || log->failed) {
        moving->holds = false;
        if (log->closing == NULL && !log->failed)
            release(log);
        step(moving);
        return;
    }
    err = final_prepare(moving);
    if (err == ERR_OK)
        submit(moving, MOVE_FINAL);
    else
        failed(moving, err, false);
}

static void note_done(struct journal_note *note)
{
    struct log_moving *moving = LIST_ENTRY(note, struct log_moving, note);
    struct partition_log *log = moving->log;

    moving->running = false;
    loop_timer_stop(log->env->loop, &moving->pause);
    if (log->failed || note->err != ERR_OK) {
        if (!log->failed && note->err == ERR_NO_SPACE)
            failed(moving, note->err, false);
        else
            end(moving, !log->failed && note->err == ERR_CLOSED ? ERR_CLOSED : ERR_KAFKA_STORAGE_ERROR);
        log_job_ended(log);
        return;
    }
    moving->stage = MOVE_COMMIT;
    moving->running = true;
    moving->op->commit(moving->op); /* the job of the note goes on */
}

/* What the old directory's journal has of the log is history: it must never be taken for news once the log is back. Nor
 * may any of its files wait for the log, which is synced and can do no more for them: the note may want their room. */
static void note(struct log_moving *moving)
{
    struct partition_log *log = moving->log;

    moving->stage = MOVE_NOTE;
    moving->running = true;
    log_job_started(log);
    moving->note = (struct journal_note){
        .type = JOURNAL_MOVE,
        .topic_id = log->topic_id,
        .partition = log->partition,
        .offset = log->end_offset,
        .done = note_done,
    };
    if (log->env->journal == NULL) {
        note_done(&moving->note);
        return;
    }
    loop_timer_start(log->env->loop, &moving->pause, loop_now_ns(log->env->loop) + MOVE_NOTE_NS_MAX);
    log_journal_truncated(log, log->end_offset);
    journal_note(log->env->journal, &moving->note);
}

/* The log is its copy from here on. All files are closed and opened by their new names when they are wanted. */
static void take_over(struct log_moving *moving)
{
    struct partition_log *log = moving->log;

    log_settled(log);
    log_journal_free(log);
    log_dirty_forget(log);
    log_removal_free(log);
    for (uint32_t i = 0; i < log->segment_count; i++) {
        struct segment *segment = log->segments[i];

        bool is_open = segment->file != NULL && segment->indexed && moving->last != NULL;

        log_file_close(log, segment);
        if (i + 1 < log->segment_count || !is_open) {
            segment_drop_indexes(segment);
            segment->written_from = segment->size; /* what was copied is verified before it is served */
            continue;
        }
        log_file_opened(log, segment, moving->last);
        moving->last = NULL;
    }
    mem_free(log->dir);
    log->dir = moving->place_dir;
    moving->place_dir = NULL;
    log->env = moving->op->to;
    log->placed = true;
    log->names_changed = false;
    log->parent_unsynced = false;
    log->topic_id_unsynced = false;
    log->awake->relief = (struct dir_relief){0};
    log_dirty_count(log);
    if (log->start_offset > moving->mark.start_offset) /* it moved while the log was held: nothing here knows of it */
        log_journal_started(log, log->start_offset);
}

void partition_log_move_committed(struct log_move *op, enum err err)
{
    struct log_moving *moving = op->moving;
    struct partition_log *log = moving->log;

    assert(moving->stage == MOVE_COMMIT && moving->running);
    moving->running = false;
    if (err == ERR_KAFKA_STORAGE_ERROR) { /* the metadata log failed over it */
        /* Whether it is written nobody knows: to go on in either directory might be to go on in the wrong one. */
        log_error(log->env->log, "move not known to be committed topic=%s partition=%" PRId32 " to_dir=%s", log->topic,
                  log->partition, op->to->log_dir);
        moving->in_place = false; /* it stays; the next start knows which one counts */
        partition_log_fail(log, ERR_IO);
        moving->holds = false;
        log->moving = NULL;
        over(moving, ERR_KAFKA_STORAGE_ERROR);
        log_job_ended(log);
        return;
    }
    if (err != ERR_OK) {
        log_error(log->env->log, "move refused topic=%s partition=%" PRId32 " to_dir=%s err=%s", log->topic,
                  log->partition, op->to->log_dir, err_name(err));
        end(moving, err);
        log_job_ended(log);
        return;
    }
    if (log->closing == NULL) /* the old directory may have failed meanwhile: all of the log is in a sound one */
        log->failed = false;
    take_over(moving);
    op->moved = true;
    held_say(moving);
    moving->holds = false;
    op->moved_now(op);
    moving->later = op->from->deleted_dirs != NULL && log_delete_delay_ns(log) > 0;
    submit(moving, MOVE_LEAVE);
    if (log->closing == NULL && !log->failed)
        release(log);
    log_job_ended(log); /* the note's */
}

/* --- the job --- */

/* Why it is not to go on; ERR_OK: it is. */
static enum err stop_reason(const struct log_moving *moving)
{
    const struct partition_log *log = moving->log;

    if (log->failed)
        return ERR_KAFKA_STORAGE_ERROR;
    if (log->closing != NULL || moving->op->cancelled)
        return ERR_CLOSED;
    return dir_space_refuses(moving->op->to->space) ? ERR_NO_SPACE : ERR_OK;
}

static void job_run(struct loop_job *base)
{
    move_io_run(LIST_ENTRY(base, struct log_moving, job));
}

static void final_done(struct log_moving *moving)
{
    struct partition_log *log = moving->log;

    if (moving->synced) {
        log_sync_plan_succeeded(log, &moving->plan);
        log->awake->unsynced_bytes = 0;
        log->anchor_bytes = 0;
        log_dirty_count(log);
        log_synced_move(log);
    } else {
        log_sync_plan_failed(log, &moving->plan);
    }
    log_sync_plan_deinit(log, &moving->plan);
    if (moving->err != ERR_OK)
        failed(moving, moving->err, moving->at_target);
    else if (log->failed)
        end(moving, ERR_KAFKA_STORAGE_ERROR);
    else
        note(moving);
}

/* The old directory is gone, or cannot be: the log has left it in any case. */
static void leave_done(struct log_moving *moving)
{
    struct partition_log *log = moving->log;
    const struct partition_env *from = moving->op->from;
    enum err err = moving->err;

    if (err == ERR_OK && moving->later) {
        struct deleted_dir *aside =
            deleted_dir_new(moving->aside_dir, loop_now_ns(log->env->loop) + log_delete_delay_ns(log));

        if (aside != NULL) /* else the next start removes it */
            deleted_dirs_take(from->deleted_dirs, aside);
    } else if (err != ERR_OK) {
        log_error(log->env->log,
                  "directory not removed after a move, the next start sets it aside topic=%s partition=%" PRId32
                  " dir=%s err=%s",
                  log->topic, log->partition, moving->from_dir, err_name(err));
        if (err == ERR_IO && from->storage_failed != NULL)
            from->storage_failed(from->context, from->log_dir, err);
    }
    log->moving = NULL;
    over(moving, ERR_OK);
}

static void discard_done(struct log_moving *moving)
{
    struct partition_log *log = moving->log;

    if (moving->err != ERR_OK)
        log_warn(log->env->log, "copy of a move not removed, the next start does dir=%s err=%s", moving->future_dir,
                 err_name(moving->err));
    log->moving = NULL;
    over(moving, moving->ends_err);
}

/* When all that was copied so far is in keeping with the rate. */
static bool has_to_pause(struct log_moving *moving)
{
    int64_t now_ns = loop_now_ns(moving->log->env->loop);
    double rate = moving->op->rate == NULL ? 0 : moving->op->rate(moving->op);
    double cost_ns = 0;

    if (rate <= 0 || moving->slice_bytes == 0)
        return false;
    cost_ns = (double)moving->slice_bytes / rate * 1e9;
    if (moving->paced_ns < now_ns - CLEAN_CREDIT_NS)
        moving->paced_ns = now_ns - CLEAN_CREDIT_NS;
    moving->paced_ns += cost_ns < (double)CLEAN_PAUSE_NS_MAX ? (int64_t)cost_ns : CLEAN_PAUSE_NS_MAX;
    return moving->paced_ns > now_ns;
}

static void copy_done(struct log_moving *moving)
{
    const struct move_source *source = &moving->sources[moving->at];

    moving->op->size += moving->copied_bytes;
    if (moving->source_is_done) {
        moving->op->copied_offset = source->end_offset;
        moving->at++;
    }
    if (stop_reason(moving) == ERR_OK && has_to_pause(moving)) /* nobody waits with it for an end that has come */
        loop_timer_start(moving->log->env->loop, &moving->pause, moving->paced_ns);
    else
        step(moving);
}

static void job_done(struct loop_job *base)
{
    struct log_moving *moving = LIST_ENTRY(base, struct log_moving, job);
    struct partition_log *log = moving->log;

    moving->running = false;
    if (moving->used != NULL) {
        struct segment *used = moving->used;

        moving->used = NULL;
        log_segment_let_go(log, used);
    }
    switch (moving->stage) {
    case MOVE_FINAL:
        final_done(moving);
        break;
    case MOVE_LEAVE:
        leave_done(moving);
        break;
    case MOVE_DISCARD:
        discard_done(moving);
        break;
    default:
        if (moving->err != ERR_OK && !log->failed && log->closing == NULL && !moving->stale)
            failed(moving, moving->err, moving->at_target);
        else if (moving->stage == MOVE_COPY)
            copy_done(moving);
        else
            step(moving);
    }
    log_job_ended(log);
}

/* --- the course --- */

static void pause_over(struct loop_timer *timer)
{
    struct log_moving *moving = LIST_ENTRY(timer, struct log_moving, pause);

    if (moving->stage != MOVE_NOTE) {
        step(moving);
        return;
    }
    /* One that is being written cannot be taken back, but may have to wait once more. */
    loop_timer_start(moving->log->env->loop, &moving->pause, loop_now_ns(moving->log->env->loop) + MOVE_NOTE_NS_MAX);
    journal_note_cancel(&moving->note, ERR_NO_SPACE); /* the log is held no longer than that for want of room */
}

static void wait(struct log_moving *moving)
{
    loop_timer_start(moving->log->env->loop, &moving->pause, loop_now_ns(moving->log->env->loop) + MOVE_WAIT_NS);
}

/* Between two jobs. */
static void step(struct log_moving *moving)
{
    struct partition_log *log = moving->log;
    enum err err = stop_reason(moving);

    if (err == ERR_NO_SPACE) {
        failed(moving, err, true);
        return;
    }
    if (err != ERR_OK) {
        end(moving, err);
        return;
    }
    if (log->cleaning != NULL || log->truncation != NULL) { /* they end, or are short */
        wait(moving);
        return;
    }
    if (moving->stale) { /* from the beginning; the files are cut when they are opened again */
        moving->stale = false;
        moving->copied_count = 0;
        moving->op->size = 0;
        moving->source_count = moving->at = 0;
        moving->open_base = -1;
        moving->passes = 0;
    }
    if (source_use(moving))
        submit(moving, MOVE_COPY);
    else
        pass_begin(moving);
}

void log_move_stale(struct partition_log *log)
{
    if (log->moving != NULL)
        log->moving->stale = true;
}

void log_move_end(struct partition_log *log)
{
    struct log_moving *moving = log->moving;

    if (moving != NULL && moving->stage == MOVE_NOTE) {
        journal_note_cancel(&moving->note, ERR_CLOSED); /* the room it waits for may never come */
        return;
    }
    if (moving == NULL || moving->running)
        return; /* whoever has it asks when he is done */
    if (moving->pause.heap_slot != 0) {
        loop_timer_stop(log->env->loop, &moving->pause);
        step(moving);
    } else {
        log_move_go_on(log);
    }
}

void partition_log_move_cancel(struct partition_log *log)
{
    if (log->moving == NULL || log->moving->op->moved || (log->moving->holds && log->moving->stage != MOVE_NOTE))
        return;
    log->moving->op->cancelled = true;
    log_move_end(log);
}

/* --- the beginning --- */

void partition_log_move(struct partition_log *log, struct log_move *op)
{
    struct log_moving *moving = NULL;

    assert(log->moving == NULL && log->adopted && op->to != log->env);
    op->from = log->env;
    op->moved = op->cancelled = false;
    op->bytes_copied = op->size = 0;
    op->held_ns = 0;
    op->copied_offset = log->start_offset;
    op->err = log->failed ? ERR_KAFKA_STORAGE_ERROR : log->closing != NULL ? ERR_CLOSED : ERR_OK;
    if (op->err == ERR_OK)
        op->err = log_wake(log);
    if (op->err == ERR_OK)
        op->err = log_moving_make(log, op, &moving);
    if (op->err != ERR_OK) {
        op->done(op);
        return;
    }
    moving->job.run = job_run;
    moving->job.done = job_done;
    moving->pause.fired = pause_over;
    op->moving = moving;
    log->moving = moving;
    log_cleaning_end(log);
    submit(moving, MOVE_BEGIN);
}
