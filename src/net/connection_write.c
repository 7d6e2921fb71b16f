#include "base/assert.h"
#include "net/connection_internal.h"

void connection_remove_exchange(struct connection *connection, struct exchange_state *state, bool sent)
{
    assert(connection->exchanges_count > 0 && connection->queued_bytes >= state->queued_bytes);
    list_remove(&state->node);
    connection->exchanges_count--;
    connection->queued_bytes -= state->queued_bytes;
    if (state->released != NULL)
        state->released(&state->exchange, sent);
    exchange_free(&connection->set->memory, state);
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
            connection_close_now(connection);
            return;
        }
        if (first->phase == EXCHANGE_EXECUTING || (first->phase == EXCHANGE_REPLIED && !exchange_has_left(first)))
            return;
        connection_remove_exchange(connection, first, first->phase == EXCHANGE_REPLIED);
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
void connection_flush(struct connection *connection, size_t *left)
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
            connection_close_now(connection);
            return;
        }
        if (err == ERR_WOULD_BLOCK)
            written = 0;
        if (written > 0)
            connection->active_ns = loop_now_ns(connection->set->loop);
        assert(written <= bytes);
        connection->set->stats.bytes_out += written;
        advance(connection, written);
        *left -= written;
        connection->write_blocked = written < bytes || *left == 0;
        pop_answered(connection);
    }
    if (connection->state != CONNECTION_CLOSED)
        pop_answered(connection);
}

void connection_writable(void *context)
{
    struct connection *connection = context;

    connection->write_blocked = false;
    connection_schedule(connection);
}
