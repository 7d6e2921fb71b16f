/*
 * Any bytes to the HTTP pages, in any pieces: the first byte says over which address, in runs of how many bytes, and
 * how the peer reads and ends. Shows: nothing crashes, hangs or leaks; each connection has one whole answer or none;
 * only a request line with a path comes to a page, over loopback only by loopback's names (DNS rebinding); a path means
 * one page and one group, and that group's name written in full leads to the same.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/mem.h"
#include "http/group_pages.h"
#include "net/double.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    OVER_LOOPBACK = 1,
    RUN_SHIFT = 1, /* three bits */
    PEER_ENDS = 16,
    ANSWER_LATER = 32,
    READS_SLOWLY = 64,
    SLOW_BYTES = 7,
};

struct world {
    struct net net; /* first */
    struct double_loop loop;
    struct double_stream *stream;
    struct http_server *server;
    net_accept_fn *accepted;
    void *accepted_context;
    struct http_exchange *asking;
    uint8_t flags;
    struct bytes sent;
    uint32_t asked;
    bool stopped;
};

/* --- the net: one listener, one connection --- */

static enum err net_listens(struct net *net, const struct net_address *address, struct loop **loops,
                            uint32_t loop_count, net_accept_fn *accepted, void *context, struct net_listener **listener,
                            struct net_address *bound)
{
    struct world *world = (struct world *)net;

    assert(loop_count == 1 && loops[0] == &world->loop.loop);
    world->accepted = accepted;
    world->accepted_context = context;
    *bound = *address;
    *listener = (struct net_listener *)world;
    return ERR_OK;
}

static void net_unlistens(struct net *net, struct net_listener *listener)
{
    assert((void *)net == (void *)listener);
}

static const struct net_ops net_ops = {.listen = net_listens, .unlisten = net_unlistens};

/* --- pages --- */

static const char *suffix_of(enum group_query_kind kind)
{
    return kind == GROUP_QUERY_LAG ? "/lag" : kind == GROUP_QUERY_HISTORY ? "/history" : "";
}

/* The group's name with each byte escaped. */
static void check_named(struct bytes group_id, enum group_query_kind kind)
{
    size_t room = 32 + group_id.size * 3;
    char *path = mem_alloc(room);
    uint8_t *to = mem_alloc(room);
    size_t size = 0;
    enum group_query_kind again = GROUP_QUERY_LIST;
    struct bytes id = {0};
    bool found = false;

    assert(path != NULL && to != NULL);
    size = (size_t)snprintf(path, room, "/groups/");
    for (size_t i = 0; i < group_id.size; i++)
        size += (size_t)snprintf(path + size, room - size, i % 2 == 0 ? "%%%02x" : "%%%02X", group_id.data[i]);
    size += (size_t)snprintf(path + size, room - size, "%s", suffix_of(kind));
    found = group_pages_parse(bytes_of(path, size), to, &again, &id);
    assert(found && again == kind && bytes_equal(id, group_id));
    mem_free(path);
    mem_free(to);
}

static void check_path(struct bytes path)
{
    uint8_t *to = mem_alloc(path.size); /* no byte more: ASan sees one that is written */
    enum group_query_kind kind = GROUP_QUERY_LIST;
    struct bytes group_id = {0};

    assert(to != NULL);
    if (group_pages_parse(path, to, &kind, &group_id)) {
        assert(group_id.size < path.size && (kind == GROUP_QUERY_LIST) == (group_id.size == 0));
        if (kind != GROUP_QUERY_LIST)
            check_named(group_id, kind);
    }
    mem_free(to);
}

static bool says(struct bytes text, const char *what)
{
    size_t size = strlen(what);

    for (size_t i = 0; i + size <= text.size; i++)
        if (strncasecmp((const char *)text.data + i, what, size) == 0)
            return true;
    return false;
}

static void asked(void *context, struct http_exchange *exchange, struct bytes path)
{
    struct world *world = context;

    world->asked++;
    assert(path.size > 0 && path.data[0] == '/' && memchr(path.data, ' ', path.size) == NULL &&
           memchr(path.data, '\n', path.size) == NULL);
    assert((world->flags & OVER_LOOPBACK) == 0 ||
           (says(world->sent, "host:") &&
            (says(world->sent, "localhost") || says(world->sent, "127.") || says(world->sent, "[::1]"))));
    check_path(path);
    if (world->flags & ANSWER_LATER)
        world->asking = exchange;
    else
        http_reply(exchange, 200, path);
}

/* --- a connection --- */

/* A status line, and as many bytes as it says. */
static void check_answer(const struct world *world)
{
    const struct double_stream *stream = world->stream;
    const char *out = (const char *)stream->out;
    const char *end = NULL;
    const char *length = NULL;

    if (stream->out_size == 0)
        return;
    assert(stream->out_size > 13 && memcmp(out, "HTTP/1.1 ", 9) == 0);
    end = memmem(out, stream->out_size, "\r\n\r\n", 4);
    length = memmem(out, stream->out_size, "Content-Length: ", 16);
    assert(end != NULL && length != NULL && length < end);
    assert(strtoull(length + 16, NULL, 10) == stream->out_size - (size_t)(end + 4 - out));
    assert((memcmp(out + 9, "200", 3) == 0) == (world->asked == 1));
}

static void was_stopped(void *context)
{
    ((struct world *)context)->stopped = true;
}

static void talk(struct world *world)
{
    struct double_stream *stream = world->stream;

    double_arrive(stream, world->sent.data, world->sent.size);
    stream->read_max = (size_t)1 << ((world->flags >> RUN_SHIFT & 7) * 2);
    stream->peer_ended = (world->flags & PEER_ENDS) != 0;
    if (world->flags & READS_SLOWLY)
        stream->out_room = SLOW_BYTES;
    world->accepted(world->accepted_context, &stream->stream);
    /* A byte a turn at the least. */
    for (size_t i = 0; i < HTTP_REQUEST_BYTES_MAX * 2 && !stream->closed; i++) {
        double_tell(&world->loop, stream);
        if (world->asking != NULL) {
            struct http_exchange *exchange = world->asking;

            world->asking = NULL;
            http_reply(exchange, 200, BYTES_LITERAL("{}"));
        }
        if (stream->out_room == 0)
            stream->out_room = SLOW_BYTES;
    }
    if (!stream->closed) /* it was silent too early */
        double_wait(&world->loop, HTTP_TIME_MS_MAX);
    assert(stream->closed && http_server_connections(world->server) == 0 && world->asked <= 1);
    check_answer(world);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct world world = {.net.ops = &net_ops};
    struct http_server_spec spec = {.net = &world.net, .asked = asked, .context = &world, .loop = &world.loop.loop};
    struct net_address bound;
    enum err err = ERR_OK;

    if (size == 0 || size > HTTP_REQUEST_BYTES_MAX * 2)
        return 0;
    world.flags = data[0];
    world.sent = bytes_of(data + 1, size - 1);
    double_loop_init(&world.loop, 0);
    err = http_server_new(&spec, &bound, &world.server);
    assert(err == ERR_OK);
    world.stream = double_stream_new(&world.loop);
    (void)snprintf(world.stream->stream.local.host, sizeof(world.stream->stream.local.host), "%s",
                   world.flags & OVER_LOOPBACK ? "127.0.0.1" : "10.0.0.1");
    talk(&world);
    http_server_stop(world.server, was_stopped, &world);
    double_turn(&world.loop);
    assert(world.stopped);
    http_server_free(world.server);
    double_stream_free(world.stream);
    double_loop_deinit(&world.loop);
    return 0;
}
