#include "base/assert.h"
#include "base/mem.h"
#include "net/connection_internal.h"

/* Memory is short: who has sent half a request and then nothing for long makes way. */
static void evict_stalled(struct budget_gate *gate)
{
    struct connections *set = LIST_ENTRY(gate, struct connections, memory.gate);
    int64_t before_ns = loop_now_ns(set->loop) - BUDGET_STALLED_MS * NS_PER_MS;

    list_each (&set->all, at) {
        struct connection *connection = LIST_ENTRY(at, struct connection, node);

        if (connection->state == CONNECTION_OPEN && connection->executing == 0 && !connection->waits_for_memory &&
            connection->active_ns < before_ns && connection_pending_bytes(connection) > 0 &&
            !connection_has_whole_frame(connection))
            connection_evict(connection);
    }
}

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
    err = budget_gate_init(&made->memory.gate, budget, loop);
    if (err != ERR_OK) {
        mem_free(made);
        return err;
    }
    block_pool_init(&made->memory.pool, loop);
    made->memory.gate.pressed = evict_stalled;
    *connections = made;
    return ERR_OK;
}

void connections_free(struct connections *connections)
{
    if (connections == NULL)
        return;
    assert(list_is_empty(&connections->all));
    block_pool_deinit(&connections->memory.pool);
    budget_gate_deinit(&connections->memory.gate);
    mem_free(connections);
}

/* False: over a limit, and said so. slot_ns: out, when it may begin. */
static bool admit(struct connections *set, const struct connection_listener *listener, const struct net_stream *stream,
                  int64_t *slot_ns)
{
    enum connection_verdict verdict = CONNECTION_ADMITTED;

    if (set->draining)
        return false;
    if (set->limits != NULL)
        verdict =
            connection_limits_enter(set->limits, &stream->peer, listener->reserve, loop_now_ns(set->loop), slot_ns);
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
    int64_t slot_ns = 0;

    assert(stream->loop->index < listener->loop_count);
    set = listener->loops[stream->loop->index];
    if (!admit(set, listener, stream, &slot_ns)) {
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
    connection_mute(connection, slot_ns);
    if (set->handler.opened != NULL)
        set->handler.opened(set->handler.context, connection);
    connection_schedule(connection);
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
        connection_finish(LIST_ENTRY(at, struct connection, node));
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

enum err connections_reserve(struct connections *connections, size_t bytes)
{
    return budget_take(&connections->memory.gate, NULL, bytes, false) ? ERR_OK : ERR_NOMEM;
}

void connections_give_back(struct connections *connections, size_t bytes)
{
    budget_give(&connections->memory.gate, bytes);
}
