#include "sim/sim_net.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/fs.h"

struct net_listener {
    struct net_listener *next;
    struct sim_host *host;
    uint16_t port;
    struct loop **loops;
    uint32_t loop_count;
    net_accept_fn *accepted;
    void *context;
};

struct sim_stream {
    struct net_stream stream;
    struct sim_network *network;
    struct sim_host *host;    /* this end's */
    struct sim_stream *other; /* NULL once that end is closed or reset */
    struct sim_stream *next;
    struct sim_stream **previous;
    uint8_t buffer[SIM_NET_WINDOW_BYTES]; /* bytes for this end: arrived first, then those on their way */
    size_t arrived;
    size_t on_their_way;
    bool end_follows; /* the other end closed; what is on its way still arrives */
    bool ended;
    bool reset;
    bool closed; /* by its owner: freed as soon as nothing points here any more */
    bool want_readable;
    bool want_writable;
    bool told; /* tell is posted */
    struct sim_event arrival;
    struct loop_task tell;
    struct loop_task accept; /* the listener's side: tells that it is there */
    net_accept_fn *accepted;
    void *accept_context;
};

/* A connection being made: the event, then a task on each side. */
struct attempt {
    struct list_node node; /* the network's attempts */
    struct sim_event event;
    struct loop_task connected_task;
    struct sim_host *host;
    struct loop *loop;
    struct net_address address;
    net_connect_fn *connected;
    void *context;
    struct sim_stream *stream;
};

static struct sim_stream *of(struct net_stream *stream)
{
    return (struct sim_stream *)(void *)((char *)stream - offsetof(struct sim_stream, stream));
}

static void *must(void *block)
{
    assert(block != NULL);
    return block;
}

static int64_t delay(struct sim *sim)
{
    return (int64_t)sim_draw(sim, (uint64_t)sim->habits.network_delay_ns_max);
}

static size_t room(const struct sim_stream *stream)
{
    return stream->other == NULL ? 0 : SIM_NET_WINDOW_BYTES - stream->other->arrived - stream->other->on_their_way;
}

static bool is_readable(const struct sim_stream *stream)
{
    return stream->arrived > 0 || stream->ended || stream->reset;
}

static bool is_writable(const struct sim_stream *stream)
{
    return stream->reset || stream->other == NULL || room(stream) >= SIM_NET_WINDOW_BYTES / 4;
}

static void stream_free(struct sim_stream *stream)
{
    sim_event_cancel(stream->network->sim, &stream->arrival);
    *stream->previous = stream->next;
    if (stream->next != NULL)
        stream->next->previous = stream->previous;
    free(stream);
}

/* Level-triggered: tells as long as what is wanted holds. */
static void tell_if_due(struct sim_stream *stream)
{
    if (stream->told || stream->closed)
        return;
    if ((stream->want_readable && is_readable(stream)) || (stream->want_writable && is_writable(stream))) {
        stream->told = true;
        loop_post(stream->stream.loop, &stream->tell);
    }
}

static void on_tell(struct loop_task *task)
{
    struct sim_stream *stream = (struct sim_stream *)(void *)((char *)task - offsetof(struct sim_stream, tell));

    if (!stream->closed && stream->want_readable && is_readable(stream))
        stream->stream.events->readable(stream->stream.context);
    if (!stream->closed && stream->want_writable && is_writable(stream))
        stream->stream.events->writable(stream->stream.context);
    stream->told = false;
    if (stream->closed)
        stream_free(stream);
    else
        tell_if_due(stream);
}

static void arrival_plan(struct sim_stream *stream)
{
    struct sim *sim = stream->network->sim;

    if (stream->arrival.slot == 0 && (stream->on_their_way > 0 || (stream->end_follows && !stream->ended)))
        sim_event_add(sim, &stream->arrival, sim->mono_ns + delay(sim));
}

static void on_arrival(struct sim_event *event)
{
    struct sim_stream *stream = (struct sim_stream *)(void *)((char *)event - offsetof(struct sim_stream, arrival));
    struct sim *sim = stream->network->sim;
    size_t run = 1 + (size_t)sim_draw(sim, sim->habits.network_run_bytes_max);

    if (stream->closed)
        return;
    if (stream->host->cut_off || (stream->other != NULL && stream->other->host->cut_off)) {
        sim_event_add(sim, &stream->arrival, sim->mono_ns + 1000000 + delay(sim)); /* asks again: TCP's resend */
        return;
    }
    if (run > stream->on_their_way)
        run = stream->on_their_way;
    stream->on_their_way -= run;
    stream->arrived += run;
    sim_trace(sim, 0x6e6574, run);
    if (stream->on_their_way == 0 && stream->end_follows)
        stream->ended = true;
    arrival_plan(stream);
    tell_if_due(stream);
}

static enum err sim_read(struct net_stream *base, void *to, size_t size, size_t *got)
{
    struct sim_stream *stream = of(base);

    *got = 0;
    if (stream->reset)
        return ERR_CLOSED;
    if (stream->arrived == 0)
        return stream->ended ? ERR_CLOSED : ERR_WOULD_BLOCK;
    *got = size < stream->arrived ? size : stream->arrived;
    memcpy(to, stream->buffer, *got);
    memmove(stream->buffer, stream->buffer + *got, stream->arrived + stream->on_their_way - *got);
    stream->arrived -= *got;
    if (stream->other != NULL)
        tell_if_due(stream->other);
    return ERR_OK;
}

static enum err put(struct sim_stream *to, const struct slice *slice, size_t size)
{
    uint8_t *at = to->buffer + to->arrived + to->on_their_way;
    size_t got = 0;
    enum err err = ERR_OK;

    if (slice->file == NULL) {
        memcpy(at, slice->data, size);
    } else {
        err = fs_read(slice->file, slice->position, at, size, &got);
        if (err != ERR_OK || got != size)
            return ERR_IO; /* as sendfile past the end of a truncated file */
    }
    to->on_their_way += size;
    return ERR_OK;
}

static enum err sim_write(struct net_stream *base, const struct slice *slices, uint32_t count, size_t *written)
{
    struct sim_stream *stream = of(base);
    size_t budget = 0;

    *written = 0;
    if (stream->reset || stream->other == NULL)
        return ERR_CLOSED;
    budget = room(stream);
    if (budget == 0)
        return ERR_WOULD_BLOCK;
    budget = 1 + (size_t)sim_draw(stream->network->sim, budget);
    for (uint32_t i = 0; i < count && budget > 0; i++) {
        size_t size = slices[i].size < budget ? slices[i].size : budget;

        if (size == 0)
            continue;
        if (put(stream->other, &slices[i], size) != ERR_OK)
            return ERR_IO;
        *written += size;
        budget -= size;
    }
    arrival_plan(stream->other);
    return ERR_OK;
}

static void sim_want(struct net_stream *base, bool readable, bool writable)
{
    struct sim_stream *stream = of(base);

    stream->want_readable = readable;
    stream->want_writable = writable;
    tell_if_due(stream);
}

static void part(struct sim_stream *stream, bool abort)
{
    struct sim_stream *other = stream->other;

    if (other == NULL)
        return;
    stream->other = NULL;
    other->other = NULL;
    if (abort) {
        other->reset = true;
        other->arrived = 0;
        other->on_their_way = 0;
    } else {
        other->end_follows = true;
        arrival_plan(other);
    }
    tell_if_due(other);
}

static void sim_close(struct net_stream *base, bool abort)
{
    struct sim_stream *stream = of(base);

    /* As the kernel: closing with bytes unread tells the peer by a reset. */
    part(stream, abort || stream->arrived + stream->on_their_way > 0);
    stream->closed = true;
    if (!stream->told)
        stream_free(stream);
}

static const struct net_stream_ops stream_ops = {
    .read = sim_read,
    .write = sim_write,
    .want = sim_want,
    .close = sim_close,
};

static struct sim_stream *stream_new(struct sim_host *host, struct loop *loop)
{
    struct sim_network *network = host->network;
    struct sim_stream *stream = must(calloc(1, sizeof(*stream)));

    stream->stream.ops = &stream_ops;
    stream->stream.loop = loop;
    stream->network = network;
    stream->host = host;
    stream->arrival.run = on_arrival;
    stream->tell.run = on_tell;
    stream->next = network->streams;
    stream->previous = &network->streams;
    if (network->streams != NULL)
        network->streams->previous = &stream->next;
    network->streams = stream;
    return stream;
}

static struct sim_host *host_of(struct net *net)
{
    return (struct sim_host *)(void *)((char *)net - offsetof(struct sim_host, net));
}

static struct net_listener **listener_find(struct sim_network *network, const char *host, uint16_t port)
{
    struct net_listener **at = &network->listeners;

    while (*at != NULL && (strcmp((*at)->host->name, host) != 0 || (*at)->port != port))
        at = &(*at)->next;
    return at;
}

static enum err sim_listen(struct net *net, const struct net_address *address, struct loop **loops, uint32_t loop_count,
                           net_accept_fn *accepted, void *context, struct net_listener **out, struct net_address *bound)
{
    struct sim_host *host = host_of(net);
    struct sim_network *network = host->network;
    struct net_listener *listener = NULL;
    uint16_t port = address->port != 0 ? address->port : network->next_port++;

    if (*listener_find(network, host->name, port) != NULL)
        return ERR_BUSY;
    listener = must(calloc(1, sizeof(*listener)));
    listener->host = host;
    listener->port = port;
    listener->loops = must(calloc(loop_count, sizeof(struct loop *)));
    memcpy(listener->loops, loops, loop_count * sizeof(struct loop *));
    listener->loop_count = loop_count;
    listener->accepted = accepted;
    listener->context = context;
    listener->next = network->listeners;
    network->listeners = listener;
    *out = listener;
    *bound = (struct net_address){.port = port};
    snprintf(bound->host, sizeof(bound->host), "%s", host->name);
    return ERR_OK;
}

static void sim_unlisten(struct net *net, struct net_listener *listener)
{
    struct net_listener **at = listener_find(host_of(net)->network, listener->host->name, listener->port);

    if (*at == listener)
        *at = listener->next;
    free(listener->loops);
    free(listener);
}

static void on_connected(struct loop_task *task)
{
    struct attempt *attempt = (struct attempt *)(void *)((char *)task - offsetof(struct attempt, connected_task));

    attempt->connected(attempt->context, attempt->stream == NULL ? NULL : &attempt->stream->stream,
                       attempt->stream == NULL ? ERR_CLOSED : ERR_OK);
    list_remove(&attempt->node);
    free(attempt);
}

static void on_accepted(struct loop_task *task)
{
    struct sim_stream *stream = (struct sim_stream *)(void *)((char *)task - offsetof(struct sim_stream, accept));

    stream->accepted(stream->accept_context, &stream->stream);
}

static void on_attempt(struct sim_event *event)
{
    struct attempt *attempt = (struct attempt *)(void *)((char *)event - offsetof(struct attempt, event));
    struct sim_network *network = attempt->host->network;
    struct net_listener *listener = *listener_find(network, attempt->address.host, attempt->address.port);

    if (attempt->host->cut_off || (listener != NULL && listener->host->cut_off)) {
        sim_event_add(network->sim, &attempt->event, network->sim->mono_ns + 1000000 + delay(network->sim));
        return;
    }
    if (listener != NULL) {
        struct loop *loop = listener->loops[sim_draw(network->sim, listener->loop_count)];
        struct sim_stream *near_end = stream_new(attempt->host, attempt->loop);
        struct sim_stream *far_end = stream_new(listener->host, loop);

        near_end->other = far_end;
        far_end->other = near_end;
        near_end->stream.peer = attempt->address;
        far_end->stream.local = attempt->address;
        snprintf(near_end->stream.local.host, sizeof(near_end->stream.local.host), "%s", attempt->host->name);
        near_end->stream.local.port = network->next_port++;
        far_end->stream.peer = near_end->stream.local;
        attempt->stream = near_end;
        far_end->accept.run = on_accepted;
        far_end->accepted = listener->accepted;
        far_end->accept_context = listener->context;
        loop_post(loop, &far_end->accept);
    }
    attempt->connected_task.run = on_connected;
    loop_post(attempt->loop, &attempt->connected_task);
}

static enum err sim_connect(struct net *net, struct loop *loop, const struct net_address *address,
                            net_connect_fn *connected, void *context)
{
    struct sim_host *host = host_of(net);
    struct sim *sim = host->network->sim;
    struct attempt *attempt = must(calloc(1, sizeof(*attempt)));

    attempt->event.run = on_attempt;
    attempt->host = host;
    attempt->loop = loop;
    attempt->address = *address;
    attempt->connected = connected;
    attempt->context = context;
    list_node_init(&attempt->node);
    list_add_last(&host->network->attempts, &attempt->node);
    sim_event_add(sim, &attempt->event, sim->mono_ns + delay(sim));
    return ERR_OK;
}

static const struct net_ops ops = {
    .listen = sim_listen,
    .unlisten = sim_unlisten,
    .connect = sim_connect,
};

void sim_network_init(struct sim_network *network, struct sim *sim)
{
    *network = (struct sim_network){.sim = sim, .next_port = 40000};
    list_init(&network->attempts);
}

void sim_network_deinit(struct sim_network *network)
{
    struct list_node *node = NULL;

    while ((node = list_take_first(&network->attempts)) != NULL)
        free(LIST_ENTRY(node, struct attempt, node));
    while (network->streams != NULL)
        stream_free(network->streams);
    while (network->listeners != NULL)
        sim_unlisten(&network->listeners->host->net, network->listeners);
}

struct sim_host *sim_host_add(struct sim_network *network)
{
    struct sim_host *host = &network->hosts[network->host_count];

    assert(network->host_count < SIM_NET_HOSTS_MAX);
    network->host_count++;
    host->net.ops = &ops;
    host->network = network;
    snprintf(host->name, sizeof(host->name), "10.0.0.%u", (unsigned)network->host_count);
    return host;
}

void sim_host_cut(struct sim_host *host, bool cut_off)
{
    host->cut_off = cut_off;
}

static void stream_reset(struct sim_stream *stream)
{
    part(stream, true);
    stream->reset = true;
    stream->arrived = 0;
    stream->on_their_way = 0;
    tell_if_due(stream);
}

void sim_host_kill(struct sim_host *host)
{
    struct sim_network *network = host->network;
    struct net_listener **at = &network->listeners;

    for (struct sim_stream *stream = network->streams; stream != NULL;) {
        struct sim_stream *next = stream->next;

        if (stream->host == host) {
            part(stream, true);
            stream_free(stream);
        }
        stream = next;
    }
    while (*at != NULL) {
        struct net_listener *listener = *at;

        if (listener->host == host)
            sim_unlisten(&host->net, listener);
        else
            at = &listener->next;
    }
}

uint32_t sim_network_reset_some(struct sim_network *network, uint32_t percent)
{
    uint32_t count = 0;

    for (struct sim_stream *stream = network->streams; stream != NULL; stream = stream->next) {
        if (stream->other == NULL || !sim_chance(network->sim, percent))
            continue;
        stream_reset(stream);
        count++;
    }
    return count;
}
