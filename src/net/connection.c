#include "net/connection.h"

#include <string.h>

#include "base/assert.h"
#include "base/list.h"
#include "base/mem.h"
#include "net/budget.h"
#include "net/connection_limits.h"
#include "net/exchange.h"
#include "net/garbage.h"
#include "net/net_limits.h"

#define NS_PER_MS INT64_C(1000000)

enum connection_state { CONNECTION_OPEN, CONNECTION_ENDED, CONNECTION_FINISHING, CONNECTION_CLOSED };

/* Bytes that have arrived and belong to no exchange yet: a frame that is not whole, frames that wait for their turn. */
struct pending {
    uint8_t *block;
    size_t capacity; /* bytes, charged to the budget */
    size_t start;    /* of the first byte not consumed */
    size_t end;      /* behind the last byte that has arrived */
};

struct connection {
    struct connections *set;
    const struct connection_listener *listener;
    struct net_stream *stream; /* NULL once closed */
    enum connection_state state;
    struct list_node node; /* in its set, until it is freed */
    uint64_t id;
    void *user;
    struct pending pending;
    struct list exchanges; /* in request order, those unanswered */
    uint32_t exchanges_count;
    uint32_t executing;       /* of them */
    uint32_t executing_alone; /* of those */
    size_t queued_bytes;      /* of replies, in memory */
    int64_t active_ns;        /* bytes last moved */
    struct loop_task turn_end;
    bool turn_end_deferred;
    bool authenticated;
    bool muted;
    bool write_blocked; /* the stream took no more: go on when it is writable */
    bool waits_for_memory;
    bool wanted_read; /* what the stream was last told */
    bool wanted_write;
    bool first_frame_seen;
    bool abort;       /* close with a reset */
    bool closed_told; /* to the handler */
    struct loop_timer mute;
    struct loop_timer idle;
    struct budget_waiter waiter;
    struct net_address peer; /* they outlive the stream */
    struct net_address local;
};

struct connections {
    struct loop *loop;
    struct connection_handler handler;
    struct budget_gate gate;
    struct connection_limits *limits;
    struct log *log;
    struct list all;
    uint64_t next_id;
    bool draining;
    struct loop_task *drained;
    struct connections_stats stats;
    struct log_rate garbage_lines;
    struct log_rate refused_lines;
    struct log_rate closed_lines;
    /* One read at a time happens on a loop, so one buffer serves all: what waits in front of it, then what it brings.
     */
    uint8_t scratch[CONNECTION_DIRECT_BYTES_MIN + CONNECTION_WAITING_BYTES_MAX + 2 * CONNECTION_READ_BYTES_MAX];
};

/* What every log line about a connection names. */
#define CONNECTION_FORMAT  "listener=%s peer=%s:%u"
#define CONNECTION_ARGS(c) (c)->listener->name, (c)->peer.host, (unsigned)(c)->peer.port

static void schedule(struct connection *connection)
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
    connection->state = state;
    schedule(connection);
    if (state != CONNECTION_CLOSED)
        return;
    net_close(connection->stream, connection->abort);
    connection->stream = NULL;
    loop_timer_stop(loop, &connection->mute);
    loop_timer_stop(loop, &connection->idle);
    budget_wait_over(&connection->set->gate, &connection->waiter);
    connection->waits_for_memory = false;
    connection->set->stats.open--;
    if (connection->set->limits != NULL)
        connection_limits_leave(connection->set->limits, &connection->peer);
}

static void close_now(struct connection *connection)
{
    if (connection->state != CONNECTION_CLOSED)
        set_state(connection, CONNECTION_CLOSED);
}

static void finish(struct connection *connection)
{
    if (connection->state < CONNECTION_FINISHING)
        set_state(connection, CONNECTION_FINISHING);
}

/* --- bytes that wait --- */

static size_t pending_bytes(const struct connection *connection)
{
    return connection->pending.end - connection->pending.start;
}

static const uint8_t *pending_data(const struct connection *connection)
{
    return connection->pending.block + connection->pending.start;
}

static void pending_free(struct connection *connection)
{
    struct pending *pending = &connection->pending;

    mem_free(pending->block);
    if (pending->capacity > 0)
        budget_give(&connection->set->gate, pending->capacity);
    *pending = (struct pending){0};
}

static void out_of_memory(struct connection *connection)
{
    log_line_rated(connection->set->log, &connection->set->closed_lines, LOG_WARN,
                   "connection closed, no memory for its request " CONNECTION_FORMAT, CONNECTION_ARGS(connection));
    close_now(connection);
}

/* Keeps bytes of the scratch buffer beyond the turn. Room for them was found before they were read. */
static void pending_set(struct connection *connection, const uint8_t *data, size_t size)
{
    struct pending *pending = &connection->pending;

    pending_free(connection);
    if (size == 0)
        return;
    pending->block = mem_alloc(size);
    if (pending->block == NULL) {
        out_of_memory(connection);
        return;
    }
    memcpy(pending->block, data, size);
    pending->capacity = size;
    pending->end = size;
    budget_take_over(&connection->set->gate, size);
}

static uint32_t size_field(const uint8_t *data)
{
    return (uint32_t)data[0] << 24 | (uint32_t)data[1] << 16 | (uint32_t)data[2] << 8 | (uint32_t)data[3];
}

static bool holds_whole_frame(const uint8_t *data, size_t size)
{
    return size >= 4 && size - 4 >= size_field(data);
}

/* --- frames --- */

static size_t frame_bytes_max(const struct connection *connection)
{
    const struct connection_listener *listener = connection->listener;
    size_t max = listener->request_bytes_max;

    if (connection->set->gate.budget->share < max)
        max = connection->set->gate.budget->share;
    if (listener->authenticates && !connection->authenticated && max > CONNECTION_UNKNOWN_BYTES_MAX)
        max = CONNECTION_UNKNOWN_BYTES_MAX;
    return max;
}

/* Which setting would have to be larger for this frame. */
static const char *frame_limit_name(const struct connection *connection, size_t max)
{
    if (max == connection->listener->request_bytes_max)
        return "socket.request.max.bytes";
    if (max == connection->set->gate.budget->share)
        return "a connection's share of ottla.connections.memory.bytes";
    return "limit before authentication";
}

/* False: these bytes are no frame we take. What came before them is still answered. */
static bool check_frame_size(struct connection *connection, const uint8_t *data, size_t size)
{
    size_t announced = size_field(data);
    size_t max = frame_bytes_max(connection);
    const char *cause = NULL;

    if (announced >= CONNECTION_FRAME_BYTES_MIN && announced <= max)
        return true;
    cause = garbage_cause(bytes_of(data, size), !connection->first_frame_seen);
    connection->set->stats.garbage++;
    if (cause == NULL && announced <= INT32_MAX && announced > max)
        log_line_rated(
            connection->set->log, &connection->set->garbage_lines, LOG_WARN,
            "connection closed, request too large size_bytes=%zu max_bytes=%zu limit=\"%s\" " CONNECTION_FORMAT,
            announced, max, frame_limit_name(connection, max), CONNECTION_ARGS(connection));
    else
        log_line_rated(connection->set->log, &connection->set->garbage_lines, LOG_WARN,
                       "connection closed, not a Kafka request cause=\"%s\" size_bytes=%d " CONNECTION_FORMAT,
                       cause != NULL ? cause : "size field out of range", (int32_t)announced,
                       CONNECTION_ARGS(connection));
    finish(connection);
    return false;
}

static bool may_start_any(const struct connection *connection)
{
    return connection->state <= CONNECTION_ENDED && !connection->muted &&
           connection->exchanges_count < CONNECTION_EXCHANGES_MAX &&
           connection->queued_bytes <= CONNECTION_QUEUED_BYTES_MAX && connection->executing_alone == 0;
}

/* overlaps: out. */
static bool may_start(struct connection *connection, const uint8_t *frame, size_t size, bool *overlaps)
{
    const struct connection_handler *handler = &connection->set->handler;

    if (!may_start_any(connection))
        return false;
    *overlaps = handler->overlaps != NULL && handler->overlaps(handler->context, connection, bytes_of(frame, size));
    return *overlaps || connection->executing == 0;
}

static void start(struct connection *connection, struct exchange_state *state, bool overlaps)
{
    struct connections *set = connection->set;
    int64_t now_ns = loop_now_ns(set->loop);

    state->exchange.connection = connection;
    state->exchange.read_ns = connection->active_ns;
    state->exchange.started_ns = now_ns;
    state->overlaps = overlaps;
    list_add_last(&connection->exchanges, &state->node);
    connection->exchanges_count++;
    connection->executing++;
    connection->executing_alone += !overlaps;
    connection->first_frame_seen = true;
    set->stats.requests++;
    set->handler.request(set->handler.context, connection, &state->exchange);
}

/* Starts what may start of these bytes; returns how many are done with. Bytes of a connection that takes no more count
 * as done with. */
static size_t start_frames(struct connection *connection, const uint8_t *data, size_t size)
{
    size_t at = 0;

    while (connection->state <= CONNECTION_ENDED && size - at >= 4) {
        const uint8_t *frame = data + at + 4;
        size_t frame_size = size_field(data + at);
        struct exchange_state *state = NULL;
        bool overlaps = false;

        if (!check_frame_size(connection, data + at, size - at))
            break;
        if (size - at - 4 < frame_size || !may_start(connection, frame, frame_size, &overlaps))
            return at;
        state = exchange_new(&connection->set->gate, frame, frame_size);
        if (state == NULL) {
            out_of_memory(connection);
            break;
        }
        at += 4 + frame_size;
        start(connection, state, overlaps);
    }
    return connection->state <= CONNECTION_ENDED ? at : size;
}

/* The same for bytes that wait already. A large frame that fills its block goes on in it. */
static void start_pending(struct connection *connection)
{
    struct pending *pending = &connection->pending;
    size_t size = pending_bytes(connection);
    bool overlaps = false;

    if (size < 4)
        return;
    if (pending->start == 0 && size > CONNECTION_DIRECT_BYTES_MIN && size - 4 == size_field(pending->block)) {
        struct exchange_state *state = NULL;

        if (!may_start(connection, pending->block + 4, size - 4, &overlaps))
            return;
        state =
            exchange_new_take(&connection->set->gate, pending->block, pending->block + 4, size - 4, pending->capacity);
        if (state == NULL) {
            out_of_memory(connection);
            return;
        }
        *pending = (struct pending){0};
        start(connection, state, overlaps);
        return;
    }
    pending->start += start_frames(connection, pending_data(connection), size);
    if (pending->start == pending->end)
        pending_free(connection);
}

/* --- reading --- */

static bool wants_to_read(const struct connection *connection)
{
    return connection->state == CONNECTION_OPEN && !connection->muted && !connection->waits_for_memory &&
           connection->queued_bytes <= CONNECTION_QUEUED_BYTES_MAX &&
           connection->exchanges_count < CONNECTION_EXCHANGES_MAX &&
           !(pending_bytes(connection) >= CONNECTION_WAITING_BYTES_MAX &&
             holds_whole_frame(pending_data(connection), pending_bytes(connection)));
}

static bool take_memory(struct connection *connection, size_t bytes)
{
    struct budget_gate *gate = &connection->set->gate;

    if (budget_take(gate, &connection->waiter, bytes, connection->listener->reserve))
        return true;
    connection->waits_for_memory = true;
    budget_wait(gate, &connection->waiter, bytes);
    return false;
}

static void memory_came(struct budget_waiter *waiter)
{
    struct connection *connection = LIST_ENTRY(waiter, struct connection, waiter);

    connection->waits_for_memory = false;
    schedule(connection);
}

/* One read; false when the stream had no more, or nothing more may come in. */
static bool read_into(struct connection *connection, uint8_t *to, size_t size, size_t *got)
{
    enum err err = net_read(connection->stream, to, size, got);

    if (err == ERR_OK) {
        connection->set->stats.bytes_in += *got;
        return true;
    }
    *got = 0;
    if (err == ERR_CLOSED)
        set_state(connection, CONNECTION_ENDED);
    else if (err != ERR_WOULD_BLOCK)
        close_now(connection);
    return false;
}

/* A large frame that has begun is read where it stays. Its block doubles, so that it follows what has arrived.
 * filled: out, the read brought all that it could take. */
static size_t read_direct(struct connection *connection, bool *filled)
{
    struct pending *pending = &connection->pending;
    size_t whole = 4 + (size_t)size_field(pending_data(connection));
    size_t room = 0;
    size_t got = 0;

    if (pending->start > 0) {
        memmove(pending->block, pending_data(connection), pending_bytes(connection));
        pending->end -= pending->start;
        pending->start = 0;
    }
    assert(pending->end < whole);
    if (pending->end == pending->capacity) {
        size_t capacity = pending->capacity * 2 < whole ? pending->capacity * 2 : whole;
        uint8_t *block = NULL;

        if (!take_memory(connection, capacity - pending->capacity))
            return 0;
        block = mem_realloc(pending->block, capacity);
        if (block == NULL) {
            budget_give(&connection->set->gate, capacity - pending->capacity);
            out_of_memory(connection);
            return 0;
        }
        pending->block = block;
        pending->capacity = capacity;
    }
    room = pending->capacity - pending->end;
    if (room > CONNECTION_TURN_BYTES_MAX)
        room = CONNECTION_TURN_BYTES_MAX;
    if (!read_into(connection, pending->block + pending->end, room, &got))
        return 0;
    pending->end += got;
    *filled = got == room;
    if (pending->end == whole)
        start_pending(connection);
    return got;
}

/* All else goes through the loop's scratch buffer: what waits is put in front, what is left of it kept. */
static size_t read_scratch(struct connection *connection, bool *filled)
{
    struct connections *set = connection->set;
    size_t before = pending_bytes(connection);
    size_t got = 0;
    size_t done = 0;

    assert(before + CONNECTION_READ_BYTES_MAX <= sizeof(set->scratch));
    if (!take_memory(connection, CONNECTION_READ_BYTES_MAX))
        return 0;
    if (read_into(connection, set->scratch + before, CONNECTION_READ_BYTES_MAX, &got)) {
        if (before > 0)
            memcpy(set->scratch, pending_data(connection), before);
        done = start_frames(connection, set->scratch, before + got);
        if (connection->state <= CONNECTION_ENDED)
            pending_set(connection, set->scratch + done, before + got - done);
    }
    budget_give(&set->gate, CONNECTION_READ_BYTES_MAX);
    *filled = got == CONNECTION_READ_BYTES_MAX;
    return got;
}

static bool reads_direct(const struct connection *connection)
{
    size_t size = pending_bytes(connection);

    return size >= 4 && size_field(pending_data(connection)) >= CONNECTION_DIRECT_BYTES_MIN &&
           !holds_whole_frame(pending_data(connection), size);
}

static void readable(void *context)
{
    struct connection *connection = context;
    size_t left = CONNECTION_TURN_BYTES_MAX;

    connection->active_ns = loop_now_ns(connection->set->loop);
    while (wants_to_read(connection)) {
        bool filled = false;
        size_t got = reads_direct(connection) ? read_direct(connection, &filled) : read_scratch(connection, &filled);

        /* A read that brought less than it could have left nothing behind. */
        if (!filled || got >= left)
            break;
        left -= got;
    }
    schedule(connection);
}

/* --- answering --- */

static void remove_exchange(struct connection *connection, struct exchange_state *state, bool sent)
{
    list_remove(&state->node);
    connection->exchanges_count--;
    connection->queued_bytes -= state->queued_bytes;
    if (state->released != NULL)
        state->released(&state->exchange, sent);
    exchange_free(&connection->set->gate, state);
}

static struct exchange_state *first_exchange(const struct connection *connection)
{
    return list_is_empty(&connection->exchanges) ? NULL : exchange_at(connection->exchanges.head.next);
}

/* Takes from the front what needs no more sending. */
static void pop_answered(struct connection *connection)
{
    struct exchange_state *first = NULL;

    while ((first = first_exchange(connection)) != NULL) {
        if (first->phase == EXCHANGE_CLOSES) {
            close_now(connection);
            return;
        }
        if (first->phase == EXCHANGE_EXECUTING || (first->phase == EXCHANGE_REPLIED && !exchange_has_left(first)))
            return;
        remove_exchange(connection, first, first->phase == EXCHANGE_REPLIED);
    }
}

/* The replies at the front that are ready, as far as one write takes them. */
static size_t gather(const struct connection *connection, struct slice *batch, uint32_t *count, size_t bytes_max)
{
    size_t bytes = 0;

    *count = 0;
    for (struct list_node *at = connection->exchanges.head.next; at != &connection->exchanges.head; at = at->next) {
        const struct exchange_state *state = exchange_at(at);

        if (state->phase == EXCHANGE_EXECUTING || state->phase == EXCHANGE_CLOSES)
            break;
        if (state->phase == EXCHANGE_REPLIED)
            bytes += exchange_gather(state, batch, count, CONNECTION_WRITE_SLICES, bytes_max - bytes);
        if (*count == CONNECTION_WRITE_SLICES || bytes >= bytes_max)
            break;
    }
    return bytes;
}

static void advance(struct connection *connection, size_t bytes)
{
    for (struct list_node *at = connection->exchanges.head.next; bytes > 0; at = at->next) {
        struct exchange_state *state = exchange_at(at);

        assert(at != &connection->exchanges.head);
        if (state->phase == EXCHANGE_REPLIED)
            bytes = exchange_advance(state, bytes);
    }
}

/* Sends what may be sent: in the order of the requests, up to the first that still executes. */
static void flush(struct connection *connection, size_t *left)
{
    struct slice batch[CONNECTION_WRITE_SLICES];

    while (connection->state != CONNECTION_CLOSED && !connection->write_blocked) {
        uint32_t count = 0;
        size_t bytes = gather(connection, batch, &count, *left);
        size_t written = 0;
        enum err err = ERR_OK;

        if (count == 0)
            break;
        err = net_write(connection->stream, batch, count, &written);
        if (err != ERR_OK && err != ERR_WOULD_BLOCK) {
            if (err != ERR_CLOSED)
                log_line_rated(connection->set->log, &connection->set->closed_lines, LOG_WARN,
                               "connection closed, reply could not be read from its file err=%s " CONNECTION_FORMAT,
                               err_name(err), CONNECTION_ARGS(connection));
            close_now(connection);
            return;
        }
        if (err == ERR_WOULD_BLOCK)
            written = 0;
        if (written > 0)
            connection->active_ns = loop_now_ns(connection->set->loop);
        connection->set->stats.bytes_out += written;
        advance(connection, written);
        *left -= written;
        connection->write_blocked = written < bytes || *left == 0;
        pop_answered(connection);
    }
    if (connection->state != CONNECTION_CLOSED)
        pop_answered(connection);
}

static void writable(void *context)
{
    struct connection *connection = context;

    connection->write_blocked = false;
    schedule(connection);
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

static void free_connection(struct connection *connection)
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
            remove_exchange(connection, state, false);
    }
    pending_free(connection);
    if (!connection->closed_told) {
        connection->closed_told = true;
        if (handler->closed != NULL)
            handler->closed(handler->context, connection);
    }
    /* A callback may have ended the last one, which deferred this again. */
    if (connection->exchanges_count == 0 && !connection->turn_end_deferred)
        free_connection(connection);
}

static bool has_come_to_its_end(const struct connection *connection)
{
    if (connection->exchanges_count > 0)
        return false;
    return connection->state == CONNECTION_FINISHING ||
           (connection->state == CONNECTION_ENDED &&
            !(pending_bytes(connection) >= 4 &&
              holds_whole_frame(pending_data(connection), pending_bytes(connection))));
}

static void update_wants(struct connection *connection)
{
    bool read = wants_to_read(connection);
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
    struct budget_gate *gate = &connection->set->gate;

    if (gate->elected == &connection->waiter && gate->elected_moved && !connection->waits_for_memory &&
        (pending_bytes(connection) < 4 || holds_whole_frame(pending_data(connection), pending_bytes(connection))))
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
        size_t before = pending_bytes(connection);

        flush(connection, &write_left);
        if (connection->state <= CONNECTION_ENDED)
            start_pending(connection);
        if (pending_bytes(connection) == before)
            break;
    }
    if (connection->state == CONNECTION_ENDED)
        tell_abandoned(connection);
    if (connection->state != CONNECTION_CLOSED && has_come_to_its_end(connection))
        close_now(connection);
    if (connection->state == CONNECTION_CLOSED) {
        if (!connection->turn_end_deferred)
            bury(connection);
        return;
    }
    if (connection->state == CONNECTION_FINISHING)
        pending_free(connection);
    end_election(connection);
    update_wants(connection);
}

/* --- time --- */

static void mute_over(struct loop_timer *timer)
{
    struct connection *connection = LIST_ENTRY(timer, struct connection, mute);

    connection->muted = false;
    schedule(connection);
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
        close_now(connection);
        return;
    }
    loop_timer_start(set->loop, timer,
                     (connection->executing == 0 && !connection->waits_for_memory ? connection->active_ns : now_ns) +
                         idle_ns);
}

/* --- the connections of a loop --- */

static const struct net_stream_events stream_events = {.readable = readable, .writable = writable};

MUST_CHECK enum err connections_new(struct loop *loop, const struct connection_handler *handler, struct budget *budget,
                                    struct connection_limits *limits, struct log *log, struct connections **connections)
{
    struct connections *made = mem_calloc(1, sizeof(*made));
    enum err err = ERR_OK;

    if (made == NULL)
        return ERR_NOMEM;
    made->loop = loop;
    made->handler = *handler;
    made->limits = limits;
    made->log = log;
    list_init(&made->all);
    err = budget_gate_init(&made->gate, budget, loop);
    if (err != ERR_OK) {
        mem_free(made);
        return err;
    }
    *connections = made;
    return ERR_OK;
}

void connections_free(struct connections *connections)
{
    if (connections == NULL)
        return;
    assert(list_is_empty(&connections->all));
    budget_gate_deinit(&connections->gate);
    mem_free(connections);
}

static struct connection *connection_new(struct connections *set, const struct connection_listener *listener,
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
    connection->waiter.resume = memory_came;
    list_init(&connection->exchanges);
    list_node_init(&connection->node);
    list_node_init(&connection->waiter.node);
    stream->events = &stream_events;
    stream->context = connection;
    return connection;
}

/* False: over a limit, and said so. */
static bool admit(struct connections *set, const struct connection_listener *listener, const struct net_stream *stream)
{
    enum connection_verdict verdict = CONNECTION_ADMITTED;

    if (set->draining)
        return false;
    if (set->limits != NULL)
        verdict = connection_limits_enter(set->limits, &stream->peer, listener->reserve);
    if (verdict == CONNECTION_ADMITTED)
        return true;
    log_line_rated(set->log, &set->refused_lines, LOG_WARN, "connection refused limit=%s listener=%s peer=%s:%u",
                   verdict == CONNECTION_OVER_TOTAL ? "max.connections" : "max.connections.per.ip", listener->name,
                   stream->peer.host, (unsigned)stream->peer.port);
    return false;
}

void connections_accepted(void *context, struct net_stream *stream)
{
    const struct connection_listener *listener = context;
    struct connections *set = NULL;
    struct connection *connection = NULL;

    assert(stream->loop->index < listener->loop_count);
    set = listener->loops[stream->loop->index];
    if (!admit(set, listener, stream)) {
        set->stats.refused++;
        net_close(stream, false);
        return;
    }
    connection = connection_new(set, listener, stream);
    if (connection == NULL) {
        if (set->limits != NULL)
            connection_limits_leave(set->limits, &stream->peer);
        net_close(stream, false);
        return;
    }
    list_add_last(&set->all, &connection->node);
    set->stats.open++;
    set->stats.opened++;
    if (listener->idle_ms_max > 0)
        loop_timer_start(set->loop, &connection->idle, connection->active_ns + listener->idle_ms_max * NS_PER_MS);
    if (set->handler.opened != NULL)
        set->handler.opened(set->handler.context, connection);
    schedule(connection);
}

void connections_drain(struct connections *connections, struct loop_task *drained)
{
    assert(!connections->draining);
    connections->draining = true;
    if (list_is_empty(&connections->all)) {
        loop_post(connections->loop, drained);
        return;
    }
    connections->drained = drained;
    list_each (&connections->all, at)
        finish(LIST_ENTRY(at, struct connection, node));
}

void connections_abort(struct connections *connections)
{
    list_each (&connections->all, at)
        connection_close(LIST_ENTRY(at, struct connection, node), false);
}

const struct connections_stats *connections_stats(const struct connections *connections)
{
    return &connections->stats;
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
    schedule(connection);
}

void connection_finish(struct connection *connection)
{
    finish(connection);
}

void connection_close(struct connection *connection, bool abort)
{
    if (connection->state == CONNECTION_CLOSED)
        return;
    connection->abort = abort;
    close_now(connection);
}

/* --- one exchange --- */

/* It is no longer the handler's. */
static void end(struct exchange *exchange, enum exchange_phase phase)
{
    struct connection *connection = exchange->connection;

    assert(exchange->state->phase == EXCHANGE_EXECUTING && phase != EXCHANGE_EXECUTING);
    exchange->state->phase = phase;
    exchange->replied_ns = loop_now_ns(connection->set->loop);
    connection->executing--;
    connection->executing_alone -= !exchange->state->overlaps;
    schedule(connection);
}

void exchange_reply(struct exchange *exchange, const struct slice *slices, uint32_t count,
                    exchange_released_fn *released)
{
    struct connection *connection = exchange->connection;
    struct exchange_state *state = exchange->state;

    state->released = released;
    if (!exchange_set_reply(state, slices, count))
        out_of_memory(connection);
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
    finish(connection);
}

void exchange_free_frame(struct exchange *exchange)
{
    exchange_drop_frame(&exchange->connection->set->gate, exchange->state);
}

MUST_CHECK enum err exchange_reserve(struct exchange *exchange, size_t bytes)
{
    struct connection *connection = exchange->connection;

    if (!budget_take(&connection->set->gate, NULL, bytes, connection->listener->reserve))
        return ERR_NOMEM;
    exchange->state->reserved += bytes;
    return ERR_OK;
}
