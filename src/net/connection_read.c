#include <string.h>

#include "base/assert.h"
#include "base/mem.h"
#include "net/connection_internal.h"
#include "net/garbage.h"

/* --- bytes that wait --- */

size_t connection_pending_bytes(const struct connection *connection)
{
    return connection->pending.end - connection->pending.start;
}

static const uint8_t *pending_data(const struct connection *connection)
{
    const struct pending *pending = &connection->pending;

    return pending->block.data == NULL ? NULL : pending->block.data + pending->start;
}

void connection_pending_free(struct connection *connection)
{
    struct pending *pending = &connection->pending;

    if (pending->block.data == NULL)
        return;
    block_pool_give(&connection->set->memory.pool, pending->block);
    budget_give(&connection->set->memory.gate, pending->block.capacity);
    *pending = (struct pending){0};
}

/* What waits is from now on a copy of these bytes, which may be the end of what waited. Room for them was found before
 * they were read. */
static void pending_set(struct connection *connection, const uint8_t *data, size_t size)
{
    struct pending next = {.end = size};

    if (size > 0) {
        next.block = block_pool_take(&connection->set->memory.pool, size);
        if (next.block.data == NULL) {
            connection_out_of_memory(connection);
            return;
        }
        memcpy(next.block.data, data, size);
        budget_take_over(&connection->set->memory.gate, next.block.capacity);
    }
    connection_pending_free(connection);
    connection->pending = next;
}

static uint32_t size_field(const uint8_t *data)
{
    return (uint32_t)data[0] << 24 | (uint32_t)data[1] << 16 | (uint32_t)data[2] << 8 | (uint32_t)data[3];
}

static bool holds_whole_frame(const uint8_t *data, size_t size)
{
    return size >= 4 && size - 4 >= size_field(data);
}

bool connection_has_whole_frame(const struct connection *connection)
{
    return holds_whole_frame(pending_data(connection), connection_pending_bytes(connection));
}

/* --- frames --- */

static size_t frame_bytes_max(const struct connection *connection)
{
    const struct connection_listener *listener = connection->listener;
    size_t max = listener->request_bytes_max;

    if (connection->set->memory.gate.budget->share < max)
        max = connection->set->memory.gate.budget->share;
    if (listener->authenticates && !connection->authenticated && max > CONNECTION_UNKNOWN_BYTES_MAX)
        max = CONNECTION_UNKNOWN_BYTES_MAX;
    return max;
}

/* Which setting would have to be larger for this frame. */
static const char *frame_limit_name(const struct connection *connection, size_t max)
{
    if (max == connection->listener->request_bytes_max)
        return "socket.request.max.bytes";
    if (max == connection->set->memory.gate.budget->share)
        return "memory that one request may have here";
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
    connection_finish(connection);
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
    assert(connection->exchanges_count <= CONNECTION_EXCHANGES_MAX);
    assert(connection->executing_alone == 0 || connection->executing == 1);
    connection->first_frame_seen = true;
    connection->expected_bytes = 0;
    if (state->exchange.frame_size >= CONNECTION_DIRECT_BYTES_MIN)
        connection->expected_bytes = 4 + state->exchange.frame_size < CONNECTION_EXPECTED_BYTES_MAX
                                         ? 4 + state->exchange.frame_size
                                         : CONNECTION_EXPECTED_BYTES_MAX;
    set->stats.requests++;
    set->handler.execute(set->handler.context, connection, &state->exchange);
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
        state = exchange_new(&connection->set->memory, frame, frame_size);
        if (state == NULL) {
            connection_out_of_memory(connection);
            break;
        }
        at += 4 + frame_size;
        start(connection, state, overlaps);
    }
    return connection->state <= CONNECTION_ENDED ? at : size;
}

/* A large frame in front that is most of its block goes on in it, and the little behind it moves. True: it started. */
static bool start_in_place(struct connection *connection)
{
    struct pending *pending = &connection->pending;
    struct pending old = *pending;
    size_t size = connection_pending_bytes(connection);
    size_t frame_size = size < 4 ? 0 : size_field(pending_data(connection));
    struct exchange_state *state = NULL;
    bool overlaps = false;

    if (connection->state > CONNECTION_ENDED || frame_size < CONNECTION_DIRECT_BYTES_MIN || size - 4 < frame_size ||
        size - 4 - frame_size > frame_size)
        return false;
    if (!check_frame_size(connection, pending_data(connection), size) ||
        !may_start(connection, pending_data(connection) + 4, frame_size, &overlaps))
        return false;
    state = exchange_new_take(old.block, old.block.data + old.start + 4, frame_size);
    if (state == NULL) {
        connection_out_of_memory(connection);
        return false;
    }
    *pending = (struct pending){0};
    pending_set(connection, old.block.data + old.start + 4 + frame_size, size - 4 - frame_size);
    start(connection, state, overlaps);
    return true;
}

void connection_start_pending(struct connection *connection)
{
    struct pending *pending = &connection->pending;

    while (start_in_place(connection))
        continue;
    if (connection->state > CONNECTION_ENDED || connection_pending_bytes(connection) < 4)
        return;
    pending->start += start_frames(connection, pending_data(connection), connection_pending_bytes(connection));
    if (pending->start == pending->end)
        connection_pending_free(connection);
}

/* --- reading --- */

bool connection_wants_to_read(const struct connection *connection)
{
    return connection->state == CONNECTION_OPEN && !connection->muted && !connection->waits_for_memory &&
           connection->queued_bytes <= CONNECTION_QUEUED_BYTES_MAX &&
           connection->exchanges_count < CONNECTION_EXCHANGES_MAX &&
           !(connection_pending_bytes(connection) >= CONNECTION_WAITING_BYTES_MAX &&
             connection_has_whole_frame(connection));
}

static bool take_memory(struct connection *connection, size_t bytes)
{
    struct budget_gate *gate = &connection->set->memory.gate;

    if (budget_take(gate, &connection->waiter, bytes, connection->listener->reserve))
        return true;
    connection->waits_for_memory = true;
    budget_wait(gate, &connection->waiter, bytes);
    return false;
}

void connection_memory_came(struct budget_waiter *waiter)
{
    struct connection *connection = LIST_ENTRY(waiter, struct connection, waiter);

    connection->waits_for_memory = false;
    connection_schedule(connection);
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
        connection_end(connection);
    else if (err != ERR_WOULD_BLOCK)
        connection_close_now(connection);
    return false;
}

static bool reads_direct(const struct connection *connection)
{
    size_t size = connection_pending_bytes(connection);

    return size >= 4 && size_field(pending_data(connection)) >= CONNECTION_DIRECT_BYTES_MIN &&
           !holds_whole_frame(pending_data(connection), size);
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* A block of at least that capacity, charged. False: none now, or for good (the connection is closed then). */
static bool take_block(struct connection *connection, size_t capacity, struct block *block)
{
    struct frame_memory *memory = &connection->set->memory;

    if (!take_memory(connection, capacity))
        return false;
    *block = block_pool_take(&memory->pool, capacity);
    if (block->data == NULL) {
        budget_give(&memory->gate, capacity);
        connection_out_of_memory(connection);
        return false;
    }
    budget_take_over(&memory->gate, block->capacity - capacity);
    return true;
}

/* Moves what has arrived into a larger block: larger by what has arrived, not by what the header announces. */
static bool pending_grow(struct connection *connection, size_t whole)
{
    struct pending *pending = &connection->pending;
    size_t size = connection_pending_bytes(connection);
    size_t capacity = pending->block.capacity * 2;
    struct pending next = {.end = size};

    if (capacity < pending->block.capacity + CONNECTION_READ_BYTES_MAX)
        capacity = pending->block.capacity + CONNECTION_READ_BYTES_MAX;
    if (capacity < connection->expected_bytes)
        capacity = connection->expected_bytes;
    if (!take_block(connection, smaller(capacity, whole), &next.block))
        return false;
    memcpy(next.block.data, pending_data(connection), size);
    connection_pending_free(connection);
    *pending = next;
    return true;
}

/* A large frame that has begun is read where it stays, up to its end. filled: out, the read brought all it could. */
static size_t read_direct(struct connection *connection, bool *filled)
{
    struct pending *pending = &connection->pending;
    size_t whole = 4 + (size_t)size_field(pending_data(connection));
    size_t room = 0;
    size_t got = 0;

    if (pending->start > 0) {
        memmove(pending->block.data, pending_data(connection), connection_pending_bytes(connection));
        pending->end -= pending->start;
        pending->start = 0;
    }
    assert(pending->end < whole);
    if (pending->end == pending->block.capacity && !pending_grow(connection, whole))
        return 0;
    room = smaller(smaller(pending->block.capacity, whole) - pending->end, CONNECTION_TURN_BYTES_MAX);
    if (!read_into(connection, pending->block.data + pending->end, room, &got))
        return 0;
    pending->end += got;
    *filled = got == room;
    if (pending->end == whole)
        connection_start_pending(connection);
    return got;
}

/* Behind a large frame another one is expected: the read goes where it would stay. */
static size_t read_expected(struct connection *connection, bool *filled)
{
    struct pending *pending = &connection->pending;
    size_t room = smaller(connection->expected_bytes, CONNECTION_TURN_BYTES_MAX);
    size_t got = 0;

    assert(pending->block.data == NULL);
    if (!take_block(connection, connection->expected_bytes, &pending->block))
        return 0;
    if (!read_into(connection, pending->block.data, room, &got)) {
        connection_pending_free(connection);
        return 0;
    }
    pending->end = got;
    *filled = got == room;
    connection_start_pending(connection);
    /* Another kind of frame came: what is left of it shall not hold a large block. */
    if (connection_pending_bytes(connection) > 0 && !reads_direct(connection))
        pending_set(connection, pending_data(connection), connection_pending_bytes(connection));
    return got;
}

/* All else goes through the loop's scratch buffer: what waits is put in front, what is left of it kept. */
static size_t read_scratch(struct connection *connection, bool *filled)
{
    struct connections *set = connection->set;
    size_t before = connection_pending_bytes(connection);
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
    budget_give(&set->memory.gate, CONNECTION_READ_BYTES_MAX);
    *filled = got == CONNECTION_READ_BYTES_MAX;
    return got;
}

static size_t read_once(struct connection *connection, bool *filled)
{
    if (reads_direct(connection))
        return read_direct(connection, filled);
    if (connection->pending.block.data == NULL && connection->expected_bytes > 0)
        return read_expected(connection, filled);
    return read_scratch(connection, filled);
}

void connection_readable(void *context)
{
    struct connection *connection = context;
    size_t left = CONNECTION_TURN_BYTES_MAX;

    connection->active_ns = loop_now_ns(connection->set->loop);
    while (connection_wants_to_read(connection)) {
        bool filled = false;
        size_t got = read_once(connection, &filled);

        /* A read that brought less than it could have left nothing behind. */
        if (!filled || got >= left)
            break;
        left -= got;
    }
    connection_schedule(connection);
}
