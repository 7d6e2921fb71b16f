#include "coordinator/state_log.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/mem.h"
#include "coordinator/state_log_internal.h"

/* --- what logs share --- */

static void next_is_due(struct loop_timer *timer);

void state_logs_init(struct state_logs *logs)
{
    list_init(&logs->loads);
    logs->loads_under_way = 0;
    logs->starting_loads = false;
    logs->scratch = NULL;
    logs->scratch_size = 0;
    logs->scratch_room = 0;
    logs->lines = (struct log_rate){0};
    list_init(&logs->due);
    logs->due_timer = (struct loop_timer){.fired = next_is_due};
    logs->ticked_ns = INT64_MIN;
    logs->asked_ns = INT64_MIN;
}

void state_logs_deinit(struct state_logs *logs)
{
    mem_free(logs->scratch);
    logs->scratch = NULL;
}

/* --- errors --- */

enum err state_log_error(enum err err)
{
    switch (err) {
    case ERR_UNKNOWN_TOPIC_OR_PARTITION:
    case ERR_NOT_ENOUGH_REPLICAS:
    case ERR_NOT_ENOUGH_REPLICAS_AFTER_APPEND:
    case ERR_REQUEST_TIMED_OUT:
    case ERR_NOMEM:
        return ERR_COORDINATOR_NOT_AVAILABLE;
    case ERR_NOT_LEADER_OR_FOLLOWER:
    case ERR_KAFKA_STORAGE_ERROR:
    case ERR_FENCED_LEADER_EPOCH:
    case ERR_UNKNOWN_LEADER_EPOCH:
    case ERR_NOT_COORDINATOR:
        return ERR_NOT_COORDINATOR;
    default:
        return ERR_UNKNOWN_SERVER_ERROR;
    }
}

void *state_log_state(const struct state_log *log)
{
    return log->state == STATE_LOG_ACTIVE ? log->of_kind : NULL;
}

/* --- answers --- */

static void complete_all(struct list *answers)
{
    struct list_node *node = NULL;

    while ((node = list_take_first(answers)) != NULL) {
        struct step_op *op = LIST_ENTRY(node, struct step_op, node);

        op->done(op);
    }
}

/* Those that saw nothing but what is committed. */
void state_log_release(struct state_log *log)
{
    if (log->partition != NULL)
        log->high_watermark = partition_high_watermark(log->partition);
    for (struct list_node *node = NULL; (node = list_first(&log->answers)) != NULL;) {
        struct step_op *op = LIST_ENTRY(node, struct step_op, node);

        if (op->wait_offset > log->high_watermark)
            break;
        list_remove(node);
        op->done(op);
    }
    if (!list_is_empty(&log->answers))
        partition_watch_arm(&log->watch);
}

static void watermark_told(struct partition_watch *watch)
{
    struct state_log *log = LIST_ENTRY(watch, struct state_log, watch);

    state_log_enter(log);
    if (watch->partition == NULL)
        log->partition = NULL;
    state_log_release(log);
    state_log_leave(log);
}

static void answers_fail(struct state_log *log, enum err err)
{
    struct list failed;

    state_log_release(log);
    list_init(&failed);
    list_move_all(&failed, &log->answers);
    list_each (&failed, node)
        LIST_ENTRY(node, struct step_op, node)->err = state_log_error(err);
    complete_all(&failed);
}

static void arm_answer_timer(struct state_log *log)
{
    struct list_node *first = list_first(&log->answers);

    if (first != NULL && log->answer_timer.heap_slot == 0)
        loop_timer_start(log->logs->loop, &log->answer_timer, LIST_ENTRY(first, struct step_op, node)->deadline_ns);
}

/* What was appended stays; whoever waited is told that nobody knows yet. */
static void answers_are_late(struct loop_timer *timer)
{
    struct state_log *log = LIST_ENTRY(timer, struct state_log, answer_timer);
    int64_t now_ns = loop_now_ns(log->logs->loop);
    struct list late;

    state_log_enter(log);
    list_init(&late);
    list_each (&log->answers, node) {
        struct step_op *op = LIST_ENTRY(node, struct step_op, node);

        if (op->deadline_ns > now_ns)
            break;
        list_remove(node);
        op->err = state_log_error(ERR_REQUEST_TIMED_OUT);
        list_add_last(&late, node);
    }
    complete_all(&late);
    arm_answer_timer(log);
    state_log_leave(log);
}

/* --- the end of a state --- */

static void retry(struct loop_timer *timer)
{
    struct state_log *log = LIST_ENTRY(timer, struct state_log, retry_timer);

    state_log_enter(log);
    log->state = STATE_LOG_LOADING;
    state_load_begin(log);
    state_log_leave(log);
}

/* Once nothing is under way any more, so that the log's end is where it stays. */
static void load_again(struct state_log *log)
{
    if (log->state != STATE_LOG_FAILED || log->in_flight > 0 || !list_is_empty(&log->queued) || log->current != NULL ||
        log->retry_timer.heap_slot != 0)
        return;
    log->retry_timer.fired = retry;
    loop_timer_start(log->logs->loop, &log->retry_timer, loop_now_ns(log->logs->loop) + log->retry_ms * NS_PER_MS);
    log->retry_ms = log->retry_ms == 0 ? STATE_LOG_RETRY_MS_MIN : 2 * log->retry_ms;
    if (log->retry_ms > STATE_LOG_RETRY_MS_MAX)
        log->retry_ms = STATE_LOG_RETRY_MS_MAX;
}

static void step_begin(struct state_log *log, struct step *step)
{
    const struct state_logs *logs = log->logs;
    int64_t now_ms = clock_wall_ms(logs->clock);

    assert(!log->in_step && logs->scratch_size == 0);
    log->in_step = true;
    log->step_records = 0;
    log->step_producer = (struct step_producer){-1, -1};
    *step = (struct step){
        .now_ns = loop_now_ns(logs->loop),
        .now_ms = now_ms,
        .clock_doubted = logs->guard != NULL && !clock_guard_trusts(logs->guard, now_ms, clock_mono_ns(logs->clock)),
        .rng = logs->rng,
        .topics = logs->topics,
        .sink = &log->sink,
    };
}

static void step_clear(struct state_log *log)
{
    log->in_step = false;
    state_write_clear(log->logs);
}

static void is_due_no_more(struct state_log *log)
{
    struct state_logs *logs = log->logs;

    loop_timer_stop(logs->loop, &log->due_timer);
    list_remove(&log->due_node);
    if (list_is_empty(&logs->due))
        loop_timer_stop(logs->loop, &logs->due_timer);
}

/* Throws the state away, and answers whoever waits in it. */
static void unload(struct state_log *log, enum err why)
{
    struct step step;
    struct list answers;

    is_due_no_more(log);
    step_begin(log, &step);
    log->unloading = true;
    log->kind->unload(log->of_kind, &step, why);
    log->unloading = false;
    step_clear(log);
    log->kind->free(log->of_kind);
    log->of_kind = NULL;
    list_init(&answers);
    list_move_all(&answers, &log->step_answers);
    complete_all(&answers);
}

static void fail(struct state_log *log, const char *what, enum err err)
{
    if (log->state != STATE_LOG_ACTIVE)
        return;
    log_line_rated(log->logs->log, &log->logs->lines, LOG_WARN,
                   "%s coordinator is loaded anew, %s failed partition=%d err=%s", log->kind->name, what, log->index,
                   err_name(err));
    log->state = STATE_LOG_FAILED;
    if (loop_now_ns(log->logs->loop) - log->active_ns >= STATE_LOG_RETRY_MS_MAX * NS_PER_MS)
        log->retry_ms = 0;
    unload(log, ERR_NOT_COORDINATOR);
}

/* --- writing --- */

void state_log_append_failed(struct state_log *log, enum err err)
{
    state_write_fail(log, err);
    fail(log, "an append", err);
    answers_fail(log, err);
}

/* --- steps --- */

/* A step_sink function. */
static enum err record(struct step_sink *sink, struct step *step, struct bytes key, struct bytes value)
{
    struct state_log *log = LIST_ENTRY(sink, struct state_log, sink);
    enum err err = ERR_OK;

    assert(log->in_step && !log->unloading);
    err = state_write_record(log, step->producer, key, value);
    return err != ERR_OK ? err : log->kind->replay(log->of_kind, log->step_producer.id, key, value);
}

/* Likewise. */
static void answer(struct step_sink *sink, struct step *step, struct step_op *op)
{
    struct state_log *log = LIST_ENTRY(sink, struct state_log, sink);

    (void)step;
    assert(log->in_step);
    list_add_last(&log->step_answers, &op->node);
}

/* Likewise. */
static size_t room(const struct step_sink *sink, const struct step *step)
{
    const struct state_log *log =
        (const struct state_log *)(const void *)((const char *)sink - offsetof(struct state_log, sink));

    return step->err != ERR_OK ? 0 : state_write_room(log);
}

static void arm_due_timer(struct state_log *log)
{
    int64_t due_ns = INT64_MAX;

    if (list_node_is_linked(&log->due_node)) /* its turn comes */
        return;
    if (log->state == STATE_LOG_ACTIVE)
        due_ns = log->kind->due_ns(log->of_kind);
    if (due_ns < log->put_off_ns)
        due_ns = log->put_off_ns;
    if (due_ns == INT64_MAX)
        loop_timer_stop(log->logs->loop, &log->due_timer);
    else if (log->due_timer.heap_slot == 0 || log->due_timer.due_ns != due_ns)
        loop_timer_start(log->logs->loop, &log->due_timer, due_ns);
}

static void step_failed(struct state_log *log, enum err err)
{
    struct list answers;

    list_init(&answers);
    list_move_all(&answers, &log->step_answers);
    list_each (&answers, node)
        LIST_ENTRY(node, struct step_op, node)->err = state_log_error(err);
    fail(log, "a step", err);
    complete_all(&answers);
    state_write_later(log); /* what earlier steps wrote is as good as before */
}

static void step_end(struct state_log *log, struct step *step)
{
    int64_t deadline_ns = step->now_ns + log->logs->settings.commit_timeout_ms * NS_PER_MS;
    enum err err = step->err;

    if (err == ERR_OK)
        err = state_write_step(log, step->now_ms);
    step_clear(log);
    if (err != ERR_OK) {
        step_failed(log, err);
        return;
    }
    list_each (&log->step_answers, node) {
        struct step_op *op = LIST_ENTRY(node, struct step_op, node);

        op->wait_offset = log->end_offset;
        op->deadline_ns = deadline_ns;
    }
    list_move_all(&log->answers, &log->step_answers);
    arm_due_timer(log);
    state_write_later(log);
    state_log_release(log);
    arm_answer_timer(log);
}

void state_log_step(struct state_log *log, state_step_fn *run, void *argument)
{
    struct step step;

    assert(log->state == STATE_LOG_ACTIVE);
    state_log_enter(log);
    step_begin(log, &step);
    run(log->of_kind, &step, argument);
    step_end(log, &step);
    state_log_leave(log);
}

static void tick(void *state, struct step *step, void *argument)
{
    struct state_log *log = argument;

    log->ticked_ns = step->now_ns;
    log->put_offs = 0;
    log->kind->tick(state, step);
}

/* Each tick is bounded, but many logs of one loop may be due at once: those of every coordinator, where a topic is
 * deleted. They take turns, one in each of the loop's, whoever is due again behind all that wait. */
static void next_tick(struct state_logs *logs)
{
    int64_t now_ns = loop_now_ns(logs->loop);
    struct list_node *node = logs->ticked_ns == now_ns ? NULL : list_take_first(&logs->due);

    if (node != NULL) {
        struct state_log *log = LIST_ENTRY(node, struct state_log, due_node);

        logs->ticked_ns = now_ns;
        state_log_step(log, tick, log);
    }
    if (!list_is_empty(&logs->due))
        loop_timer_start(logs->loop, &logs->due_timer, now_ns + 1);
}

static void next_is_due(struct loop_timer *timer)
{
    next_tick(LIST_ENTRY(timer, struct state_logs, due_timer));
}

/* The loop slept beyond what is due: the machine did, or the process was stopped. Sessions that end meanwhile are those
 * of members whom nobody heard, not of silent ones: their heartbeats wait in the sockets of this loop, in those of
 * another, or for a connection. If it sleeps again before all are heard, they wait again; not for ever, as a loop that
 * is late in each turn is overloaded. What a tick left for the next has waited. */
static bool is_put_off(struct state_log *log)
{
    int64_t now_ns = loop_now_ns(log->logs->loop);
    int64_t due_ns = log->kind->due_ns(log->of_kind);
    int64_t late_ns = now_ns - (due_ns < log->put_off_ns ? log->put_off_ns : due_ns);

    if (due_ns > log->put_off_ns)
        log->put_offs = 0;
    if (due_ns <= log->ticked_ns + 1 || log->put_offs == STATE_LOG_PUT_OFFS_MAX || late_ns <= STATE_LOG_PUNCTUAL_NS)
        return false;
    log->put_offs++;
    log->put_off_ns = now_ns + (late_ns < STATE_LOG_PUT_OFF_NS_MAX ? late_ns : STATE_LOG_PUT_OFF_NS_MAX);
    return true;
}

static void is_due(struct loop_timer *timer)
{
    struct state_log *log = LIST_ENTRY(timer, struct state_log, due_timer);

    if (is_put_off(log)) {
        arm_due_timer(log);
        return;
    }
    list_add_last(&log->logs->due, &log->due_node);
    next_tick(log->logs);
}

/* A turn of a loop has its sockets and its mail before its timers: whoever asks a moment after a session's end would
 * still find the member. Not where the loop slept: a heartbeat that waits there may be older than the session's end;
 * nor while everybody is being heard because of it.
 * Once a turn: what a tick leaves for later is not done sooner because many ask. */
static bool is_due_before_who_asks(const struct state_log *log)
{
    int64_t now_ns = loop_now_ns(log->logs->loop);
    int64_t due_ns = log->kind->due_ns(log->of_kind);

    return due_ns <= now_ns && now_ns - due_ns <= STATE_LOG_PUNCTUAL_NS && log->ticked_ns != now_ns &&
           now_ns >= log->put_off_ns &&
           (log->logs->asked_ns != now_ns || log->logs->asked_ticks < STATE_LOG_ASKED_TICKS_MAX);
}

static enum err check(const struct state_log *log)
{
    switch (log->state) {
    case STATE_LOG_LOADING:
        return ERR_COORDINATOR_LOAD_IN_PROGRESS;
    case STATE_LOG_FAILED:
        return ERR_NOT_COORDINATOR;
    case STATE_LOG_CLOSED:
        return log->why;
    case STATE_LOG_ACTIVE:
        break;
    }
    /* "ask again soon, here": what clients do with it is what is wanted. */
    return log->pending_bytes >= STATE_LOG_PENDING_BYTES_MAX ? ERR_COORDINATOR_LOAD_IN_PROGRESS : ERR_OK;
}

enum err state_log_check(struct state_log *log)
{
    enum err err = ERR_OK;

    state_log_enter(log);
    if (log->state == STATE_LOG_ACTIVE && is_due_before_who_asks(log)) {
        int64_t now_ns = loop_now_ns(log->logs->loop);

        log->logs->asked_ticks = log->logs->asked_ns == now_ns ? log->logs->asked_ticks + 1 : 1;
        log->logs->asked_ns = now_ns;
        state_log_step(log, tick, log);
    }
    err = check(log);
    state_log_leave(log);
    return err;
}

/* --- load --- */

static void loaded(void *state, struct step *step, void *argument)
{
    const struct state_log *log = argument;

    log->kind->loaded(state, step);
}

void state_log_loaded(struct state_log *log)
{
    log->state = STATE_LOG_ACTIVE;
    log->active_ns = loop_now_ns(log->logs->loop);
    log->end_offset = partition_end_offset(log->partition);
    state_log_step(log, loaded, log);
}

void state_log_load_failed(struct state_log *log, enum err err)
{
    if (log->of_kind != NULL)
        log->kind->free(log->of_kind);
    log->of_kind = NULL;
    if (log->state == STATE_LOG_CLOSED)
        return;
    log->state = STATE_LOG_FAILED;
    log_line_rated(log->logs->log, &log->logs->lines, LOG_ERROR,
                   "%s coordinator cannot be loaded, it is tried again partition=%d err=%s", log->kind->name,
                   log->index, err_name(err));
}

/* --- life --- */

enum err state_log_new(struct state_logs *logs, const struct state_kind *kind, void *context,
                       struct partition *partition, struct state_log **log)
{
    struct state_log *made = mem_calloc(1, sizeof(*made));

    if (made == NULL)
        return ERR_NOMEM;
    made->logs = logs;
    made->kind = kind;
    made->context = context;
    made->partition = partition;
    made->index = partition_index(partition);
    made->state = STATE_LOG_LOADING;
    made->sink = (struct step_sink){.record = record, .answer = answer, .room = room};
    list_init(&made->step_answers);
    list_init(&made->answers);
    state_write_init(made);
    made->answer_timer.fired = answers_are_late;
    made->due_timer.fired = is_due;
    list_node_init(&made->due_node);
    made->watch.told = watermark_told;
    partition_watch_add(partition, &made->watch);
    made->high_watermark = partition_high_watermark(partition);
    *log = made;
    state_log_enter(made);
    state_load_begin(made);
    state_log_leave(made);
    return ERR_OK;
}

void state_log_close(struct state_log *log, enum err why, void (*closed)(void *context), void *context)
{
    assert(log->state != STATE_LOG_CLOSED && !log->in_step);
    state_log_enter(log);
    loop_timer_stop(log->logs->loop, &log->retry_timer);
    log->why = why;
    log->closed = closed;
    log->closed_context = context;
    if (log->state == STATE_LOG_ACTIVE) {
        log->state = STATE_LOG_CLOSED;
        unload(log, why);
    }
    log->state = STATE_LOG_CLOSED;
    if (log->load != NULL)
        state_load_end(log, ERR_CLOSED);
    state_log_leave(log);
}

/* It is closed: frees it where nothing is under way any more. */
static void settle(struct state_log *log)
{
    void (*closed)(void *context) = log->closed;
    void *context = log->closed_context;
    struct loop *loop = log->logs->loop;

    if (log->load != NULL || log->in_flight > 0 || log->flush_deferred || !list_is_empty(&log->answers) ||
        !list_is_empty(&log->queued) || log->current != NULL)
        return;
    assert(log->pending_bytes == 0 && log->of_kind == NULL);
    loop_timer_stop(loop, &log->linger_timer);
    loop_timer_stop(loop, &log->answer_timer);
    is_due_no_more(log);
    partition_watch_remove(&log->watch);
    mem_free(log);
    closed(context);
}

void state_log_enter(struct state_log *log)
{
    log->entered++;
}

void state_log_leave(struct state_log *log)
{
    if (log->entered == 1 && log->state == STATE_LOG_CLOSED)
        state_write_flush(log);
    log->entered--;
    if (log->entered > 0)
        return;
    if (log->state == STATE_LOG_CLOSED)
        settle(log);
    else
        load_again(log);
}
