#include "net/connection.h"

#include "base/assert.h"
#include "base/mem.h"
#include "net/connection_internal.h"

void connection_schedule(struct connection *connection)
{
    if (connection->turn_end_deferred)
        return;
    connection->turn_end_deferred = true;
    loop_defer(connection->set->loop, &connection->turn_end);
}

/* The only place where the state changes. The stream goes at once, so that nothing can come from it any more; all else
 * that an end brings waits for the end of the turn. */
static void set_state(struct connection *connection, enum connection_state state)
{
    struct loop *loop = connection->set->loop;

    assert(state > connection->state);
    loop_event(loop, "connection leaves state=a for state=b", connection->state, state);
    connection->state = state;
    connection_schedule(connection);
    if (state != CONNECTION_CLOSED)
        return;
    net_close(connection->stream, connection->abort);
    connection->stream = NULL;
    loop_timer_stop(loop, &connection->mute);
    loop_timer_stop(loop, &connection->idle);
    budget_wait_over(&connection->set->memory.gate, &connection->waiter);
    connection->waits_for_memory = false;
    connection->set->stats.open--;
    if (connection->set->limits != NULL)
        connection_limits_leave(connection->set->limits, &connection->peer);
}

void connection_close_now(struct connection *connection)
{
    if (connection->state != CONNECTION_CLOSED)
        set_state(connection, CONNECTION_CLOSED);
}

void connection_end(struct connection *connection)
{
    set_state(connection, CONNECTION_ENDED);
}

void connection_out_of_memory(struct connection *connection)
{
    log_line_rated(connection->set->log, &connection->set->closed_lines, LOG_WARN,
                   "connection closed, no memory for its request " CONNECTION_FORMAT, CONNECTION_ARGS(connection));
    connection_close_now(connection);
}

/* --- the end of a turn --- */

/* Tells the handler which of its exchanges nobody waits for any more. It may end them in the call. */
static void tell_abandoned(struct connection *connection)
{
    const struct connection_handler *handler = &connection->set->handler;

    if (handler->abandoned == NULL)
        return;
    for (struct list_node *at = connection->exchanges.head.next; at != &connection->exchanges.head; at = at->next) {
        struct exchange_state *state = exchange_at(at);

        if (state->phase != EXCHANGE_EXECUTING || state->abandoned_told)
            continue;
        state->abandoned_told = true;
        handler->abandoned(handler->context, &state->exchange);
    }
}

void connection_free(struct connection *connection)
{
    struct connections *set = connection->set;

    assert(connection->exchanges_count == 0 && !connection->turn_end_deferred);
    list_remove(&connection->node);
    if (set->handler.freed != NULL)
        set->handler.freed(set->handler.context, connection);
    mem_free(connection);
    if (set->draining && list_is_empty(&set->all) && set->drained != NULL) {
        loop_post(set->loop, set->drained);
        set->drained = NULL;
    }
}

/* What is left to do once the stream is gone, as exchanges end. */
static void bury(struct connection *connection)
{
    const struct connection_handler *handler = &connection->set->handler;
    struct list_node *at = NULL;

    tell_abandoned(connection);
    at = connection->exchanges.head.next;
    while (at != &connection->exchanges.head) {
        struct exchange_state *state = exchange_at(at);

        at = at->next;
        if (state->phase != EXCHANGE_EXECUTING)
            connection_remove_exchange(connection, state, false);
    }
    connection_pending_free(connection);
    if (!connection->closed_told) {
        connection->closed_told = true;
        if (handler->closed != NULL)
            handler->closed(handler->context, connection);
    }
    /* A callback may have ended the last one, which deferred this again. */
    if (connection->exchanges_count == 0 && !connection->turn_end_deferred)
        connection_free(connection);
}

static bool has_come_to_its_end(const struct connection *connection)
{
    if (connection->exchanges_count > 0)
        return false;
    return connection->state == CONNECTION_FINISHING ||
           (connection->state == CONNECTION_ENDED && !connection_has_whole_frame(connection));
}

static void update_wants(struct connection *connection)
{
    bool read = connection_wants_to_read(connection);
    bool write = connection->write_blocked;

    if (read == connection->wanted_read && write == connection->wanted_write)
        return;
    connection->wanted_read = read;
    connection->wanted_write = write;
    net_want(connection->stream, read, write);
}

/* The elected one at the budget's gate has its frame, so that the next can be let through. */
static void end_election(struct connection *connection)
{
    struct budget_gate *gate = &connection->set->memory.gate;

    if (gate->elected == &connection->waiter && gate->elected_moved && !connection->waits_for_memory &&
        (connection_pending_bytes(connection) < 4 || connection_has_whole_frame(connection)))
        budget_wait_over(gate, &connection->waiter);
}

static void turn_ended(struct loop_task *task)
{
    struct connection *connection = LIST_ENTRY(task, struct connection, turn_end);
    size_t write_left = CONNECTION_TURN_WRITE_BYTES;

    connection->turn_end_deferred = false;
    /* Replies that leave make room for requests that wait, whose replies may be ready at once. Each round consumes
     * frames that have arrived, so it ends. */
    while (connection->state != CONNECTION_CLOSED) {
        size_t before = connection_pending_bytes(connection);

        connection_flush(connection, &write_left);
        if (connection->state <= CONNECTION_ENDED)
            connection_start_pending(connection);
        if (connection_pending_bytes(connection) == before)
            break;
    }
    if (connection->state == CONNECTION_ENDED)
        tell_abandoned(connection);
    if (connection->state != CONNECTION_CLOSED && has_come_to_its_end(connection))
        connection_close_now(connection);
    if (connection->state == CONNECTION_CLOSED) {
        if (!connection->turn_end_deferred)
            bury(connection);
        return;
    }
    if (connection->state == CONNECTION_FINISHING)
        connection_pending_free(connection);
    end_election(connection);
    update_wants(connection);
}

/* --- time --- */

static void mute_over(struct loop_timer *timer)
{
    struct connection *connection = LIST_ENTRY(timer, struct connection, mute);

    connection->muted = false;
    connection_schedule(connection);
}

static void idle_checked(struct loop_timer *timer)
{
    struct connection *connection = LIST_ENTRY(timer, struct connection, idle);
    struct connections *set = connection->set;
    int64_t now_ns = loop_now_ns(set->loop);
    int64_t idle_ns = connection->listener->idle_ms_max * NS_PER_MS;

    /* A request that executes may wait long by its own right; a reply that nobody fetches may not. */
    if (connection->executing == 0 && !connection->waits_for_memory && now_ns - connection->active_ns >= idle_ns) {
        log_debug(set->log, "connection closed, idle idle_ms=%lld " CONNECTION_FORMAT,
                  (long long)((now_ns - connection->active_ns) / NS_PER_MS), CONNECTION_ARGS(connection));
        set->stats.idle_closed++;
        connection_close_now(connection);
        return;
    }
    loop_timer_start(set->loop, timer,
                     (connection->executing == 0 && !connection->waits_for_memory ? connection->active_ns : now_ns) +
                         idle_ns);
}

void connection_evict(struct connection *connection)
{
    log_line_rated(connection->set->log, &connection->set->closed_lines, LOG_WARN,
                   "connection closed, its half request stalled while memory was short arrived_bytes=%zu "
                   "idle_ms=%lld " CONNECTION_FORMAT,
                   connection_pending_bytes(connection),
                   (long long)((loop_now_ns(connection->set->loop) - connection->active_ns) / NS_PER_MS),
                   CONNECTION_ARGS(connection));
    connection_close_now(connection);
}

static void evicted(struct budget_waiter *waiter)
{
    connection_evict(LIST_ENTRY(waiter, struct connection, waiter));
}

static const struct net_stream_events stream_events = {.readable = connection_readable,
                                                       .writable = connection_writable};

struct connection *connection_new(struct connections *set, const struct connection_listener *listener,
                                  struct net_stream *stream)
{
    struct connection *connection = mem_calloc(1, sizeof(*connection));

    if (connection == NULL)
        return NULL;
    connection->set = set;
    connection->listener = listener;
    connection->stream = stream;
    connection->id = set->next_id++;
    connection->peer = stream->peer;
    connection->local = stream->local;
    connection->active_ns = loop_now_ns(set->loop);
    connection->turn_end.run = turn_ended;
    connection->mute.fired = mute_over;
    connection->idle.fired = idle_checked;
    connection->waiter.resume = connection_memory_came;
    connection->waiter.evict = evicted;
    list_init(&connection->exchanges);
    list_node_init(&connection->node);
    list_node_init(&connection->waiter.node);
    stream->events = &stream_events;
    stream->context = connection;
    return connection;
}

/* --- one connection --- */

const struct net_address *connection_peer(const struct connection *connection)
{
    return &connection->peer;
}

const struct net_address *connection_local(const struct connection *connection)
{
    return &connection->local;
}

const struct connection_listener *connection_listener(const struct connection *connection)
{
    return connection->listener;
}

uint64_t connection_id(const struct connection *connection)
{
    return connection->id;
}

void *connection_user(const struct connection *connection)
{
    return connection->user;
}

void connection_set_user(struct connection *connection, void *user)
{
    connection->user = user;
}

bool connection_is_closed(const struct connection *connection)
{
    return connection->state == CONNECTION_CLOSED;
}

void connection_authenticated(struct connection *connection)
{
    connection->authenticated = true;
}

void connection_mute(struct connection *connection, int64_t until_ns)
{
    if (connection->state == CONNECTION_CLOSED || until_ns <= loop_now_ns(connection->set->loop) ||
        (connection->muted && until_ns <= connection->mute.due_ns))
        return;
    connection->muted = true;
    loop_timer_start(connection->set->loop, &connection->mute, until_ns);
    connection_schedule(connection);
}

void connection_finish(struct connection *connection)
{
    if (connection->state < CONNECTION_FINISHING)
        set_state(connection, CONNECTION_FINISHING);
}

void connection_close(struct connection *connection, bool abort)
{
    if (connection->state == CONNECTION_CLOSED)
        return;
    connection->abort = abort;
    connection_close_now(connection);
}

/* --- one exchange --- */

/* It is no longer the handler's. */
static void end(struct exchange *exchange, enum exchange_phase phase)
{
    struct connection *connection = exchange->connection;

    assert(exchange->state->phase == EXCHANGE_EXECUTING && phase != EXCHANGE_EXECUTING);
    assert(connection->executing > 0 && connection->executing <= connection->exchanges_count);
    exchange->state->phase = phase;
    exchange->replied_ns = loop_now_ns(connection->set->loop);
    connection->executing--;
    connection->executing_alone -= !exchange->state->overlaps;
    connection_schedule(connection);
}

void exchange_reply(struct exchange *exchange, const struct slice *slices, uint32_t count,
                    exchange_released_fn *released)
{
    struct connection *connection = exchange->connection;
    struct exchange_state *state = exchange->state;

    state->released = released;
    if (!exchange_set_reply(state, slices, count))
        connection_out_of_memory(connection);
    connection->queued_bytes += state->queued_bytes;
    end(exchange, EXCHANGE_REPLIED);
}

void exchange_finish_silent(struct exchange *exchange)
{
    end(exchange, EXCHANGE_SILENT);
}

void exchange_close(struct exchange *exchange, const char *why)
{
    struct connection *connection = exchange->connection;

    if (connection->state != CONNECTION_CLOSED)
        log_line_rated(connection->set->log, &connection->set->closed_lines, LOG_WARN,
                       "connection closed, %s request_bytes=%zu " CONNECTION_FORMAT, why, exchange->frame_size,
                       CONNECTION_ARGS(connection));
    end(exchange, EXCHANGE_CLOSES);
    connection_finish(connection);
}

void exchange_free_frame(struct exchange *exchange)
{
    exchange_drop_frame(&exchange->connection->set->memory, exchange->state);
}

MUST_CHECK enum err exchange_reserve(struct exchange *exchange, size_t bytes)
{
    struct connection *connection = exchange->connection;

    if (!budget_take(&connection->set->memory.gate, NULL, bytes, connection->listener->reserve))
        return ERR_NOMEM;
    exchange->state->reserved += bytes;
    return ERR_OK;
}
