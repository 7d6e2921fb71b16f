#include "http/http_server.h"

#include <stdio.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/mem.h"

enum { HEAD_BYTES_MAX = 512, HEAD_END_BYTES = 3 /* of a request: "\n\r\n" */, FOUND_NOWHERE = -1 };

enum exchange_state { HTTP_READING, HTTP_ASKING, HTTP_WRITING };

struct http_exchange {
    struct http_server *server;
    struct net_stream *stream; /* NULL: the peer is gone, or the time is over */
    struct list_node node;
    enum exchange_state state;
    struct loop_timer timer;
    uint32_t size;    /* of the request so far */
    uint32_t dropped; /* bytes before those, of a request that is too large */
    uint8_t request[HTTP_REQUEST_BYTES_MAX];
    uint8_t *reply;
    size_t reply_bytes;
    size_t sent;
};

struct http_server {
    struct http_server_spec spec;
    struct net_listener *listener;
    struct list exchanges;
    uint32_t count;
    size_t replies_bytes; /* that are not sent yet */
    struct loop_task stop_task;
    void (*stopped)(void *context);
    void *stopped_context;
};

static void tell_if_stopped(struct http_server *server)
{
    void (*stopped)(void *context) = server->stopped;

    if (stopped == NULL || server->count > 0)
        return;
    server->stopped = NULL;
    stopped(server->stopped_context);
}

static void let_go(struct http_exchange *exchange)
{
    if (exchange->stream != NULL)
        net_close(exchange->stream, false);
    exchange->stream = NULL;
    loop_timer_stop(exchange->server->spec.loop, &exchange->timer);
}

static void end(struct http_exchange *exchange)
{
    struct http_server *server = exchange->server;

    let_go(exchange);
    list_remove(&exchange->node);
    server->count--;
    server->replies_bytes -= exchange->reply_bytes;
    mem_free(exchange->reply);
    mem_free(exchange);
    tell_if_stopped(server);
}

/* The peer is gone. What is being asked comes to its end first. */
static void give_up(struct http_exchange *exchange)
{
    if (exchange->state == HTTP_ASKING)
        let_go(exchange);
    else
        end(exchange);
}

static void too_late(struct loop_timer *timer)
{
    give_up(LIST_ENTRY(timer, struct http_exchange, timer));
}

static void arm(struct http_exchange *exchange)
{
    struct loop *loop = exchange->server->spec.loop;

    loop_timer_start(loop, &exchange->timer, loop_now_ns(loop) + HTTP_TIME_MS_MAX * NS_PER_MS);
}

/* ---- writing ---- */

static const char *phrase_of(int status)
{
    switch (status) {
    case 200:
        return "OK";
    case 400:
        return "Bad Request";
    case 403:
        return "Forbidden";
    case 404:
        return "Not Found";
    case 405:
        return "Method Not Allowed";
    case 431:
        return "Request Header Fields Too Large";
    case 503:
        return "Service Unavailable";
    default:
        return "Internal Server Error";
    }
}

static void write_on(struct http_exchange *exchange)
{
    while (exchange->sent < exchange->reply_bytes) {
        struct slice slice = slice_of(exchange->reply + exchange->sent, exchange->reply_bytes - exchange->sent);
        size_t written = 0;
        enum err err = net_write(exchange->stream, &slice, 1, &written);

        exchange->sent += written;
        if (err == ERR_WOULD_BLOCK) {
            net_want(exchange->stream, false, true);
            return;
        }
        if (err != ERR_OK)
            break;
    }
    end(exchange);
}

void http_reply(struct http_exchange *exchange, int status, struct bytes body)
{
    struct http_server *server = exchange->server;
    char head[HEAD_BYTES_MAX];
    int head_bytes = 0;

    if (body.size > HTTP_SMALL_BYTES_MAX && server->replies_bytes > 0 &&
        server->replies_bytes + body.size > HTTP_REPLIES_BYTES_MAX) {
        status = 503;
        body = BYTES_LITERAL("{\"error\": \"too much is being sent; ask again, or for less\"}\n");
    }
    head_bytes = snprintf(head, sizeof(head),
                          "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n%s"
                          "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n",
                          status, phrase_of(status), body.size, status == 405 ? "Allow: GET\r\n" : "");
    assert(head_bytes > 0 && head_bytes < HEAD_BYTES_MAX && exchange->reply == NULL);
    exchange->state = HTTP_WRITING;
    exchange->reply = exchange->stream == NULL ? NULL : mem_alloc((size_t)head_bytes + body.size);
    if (exchange->reply == NULL) {
        end(exchange); /* the peer is gone, or there is no memory to answer it */
        return;
    }
    exchange->reply_bytes = (size_t)head_bytes + body.size;
    server->replies_bytes += exchange->reply_bytes;
    memcpy(exchange->reply, head, (size_t)head_bytes);
    if (body.size > 0)
        memcpy(exchange->reply + head_bytes, body.data, body.size);
    arm(exchange);
    write_on(exchange);
}

static void refuse(struct http_exchange *exchange, int status, const char *why)
{
    char body[HEAD_BYTES_MAX];
    int size = snprintf(body, sizeof(body), "{\"error\": \"%s\"}\n", why);

    http_reply(exchange, status, bytes_of(body, (size_t)size));
}

/* ---- reading ---- */

/* Takes the next line, without its end; false: there is none. */
static bool take_line(struct bytes *from, struct bytes *line)
{
    const uint8_t *end = memchr(from->data, '\n', from->size);
    size_t size = 0;

    if (end == NULL)
        return false;
    size = (size_t)(end - from->data);
    *line = bytes_of(from->data, size > 0 && end[-1] == '\r' ? size - 1 : size);
    *from = bytes_of(end + 1, from->size - size - 1);
    return true;
}

static struct bytes take_word(struct bytes *from)
{
    const uint8_t *space = memchr(from->data, ' ', from->size);
    struct bytes word = bytes_of(from->data, space == NULL ? from->size : (size_t)(space - from->data));

    *from = space == NULL ? bytes_of(from->data + from->size, 0) : bytes_of(space + 1, from->size - word.size - 1);
    return word;
}

/* The value of Host; null: there is none, or there are two. */
static struct bytes host_of(struct bytes headers)
{
    struct bytes found = {0};
    struct bytes line = {0};

    while (take_line(&headers, &line) && line.size > 0) {
        const uint8_t *colon = memchr(line.data, ':', line.size);
        struct bytes name = bytes_of(line.data, colon == NULL ? 0 : (size_t)(colon - line.data));

        if (!bytes_equal_any_case(name, BYTES_LITERAL("host")))
            continue;
        if (found.data != NULL)
            return (struct bytes){0};
        found = bytes_trim(bytes_of(colon + 1, line.size - name.size - 1));
    }
    return found;
}

static bool begins_with(struct bytes text, struct bytes with)
{
    return text.size >= with.size && memcmp(text.data, with.data, with.size) == 0;
}

static bool is_port(struct bytes text)
{
    for (size_t i = 0; i < text.size; i++)
        if (text.data[i] < '0' || text.data[i] > '9')
            return false;
    return true;
}

/* "127.0.0.1:9097", "localhost", "[::1]:9097". */
static bool is_loopback_name(struct bytes host)
{
    const uint8_t *end = NULL;
    struct bytes name = host;
    struct bytes port;

    if (host.size == 0)
        return false;
    end = memchr(host.data, host.data[0] == '[' ? ']' : ':', host.size);
    if (end != NULL)
        name = bytes_of(host.data, (size_t)(end - host.data) + (*end == ']'));
    port = bytes_of(host.data + name.size, host.size - name.size);
    if (port.size > 0 && (port.data[0] != ':' || !is_port(bytes_of(port.data + 1, port.size - 1))))
        return false;
    if (bytes_equal(name, BYTES_LITERAL("[::1]")) || bytes_equal_any_case(name, BYTES_LITERAL("localhost")))
        return true;
    if (!begins_with(name, BYTES_LITERAL("127.")))
        return false;
    for (size_t i = 0; i < name.size; i++)
        if (name.data[i] != '.' && (name.data[i] < '0' || name.data[i] > '9'))
            return false;
    return true;
}

static bool is_loopback_address(const struct net_address *address)
{
    return strncmp(address->host, "127.", 4) == 0 || strcmp(address->host, "::1") == 0 ||
           strncmp(address->host, "::ffff:127.", 11) == 0;
}

static void answer(struct http_exchange *exchange, struct bytes request)
{
    struct bytes line = {0};
    struct bytes method = {0};
    struct bytes path = {0};
    struct bytes host = {0};

    net_want(exchange->stream, false, false);
    if (!take_line(&request, &line))
        line = (struct bytes){(const uint8_t *)"", 0};
    method = take_word(&line);
    path = take_word(&line);
    host = host_of(request);
    if (!begins_with(line, BYTES_LITERAL("HTTP/1.")) || path.size == 0 || path.data[0] != '/')
        refuse(exchange, 400, "that is no HTTP/1.1 request");
    else if (!bytes_equal(method, BYTES_LITERAL("GET")))
        refuse(exchange, 405, "all that is here can only be read: GET");
    else if (is_loopback_address(&exchange->stream->local) && !is_loopback_name(host))
        refuse(exchange, 403, "by a loopback address only localhost and its numbers are served");
    else {
        exchange->state = HTTP_ASKING;
        loop_timer_stop(exchange->server->spec.loop, &exchange->timer);
        exchange->server->spec.asked(exchange->server->spec.context, exchange, path);
    }
}

/* Where the headers end; FOUND_NOWHERE: not yet. */
static int64_t find_end(const struct http_exchange *exchange)
{
    for (uint32_t i = 1; i < exchange->size; i++)
        if (exchange->request[i] == '\n' &&
            (exchange->request[i - 1] == '\n' ||
             (i >= 2 && exchange->request[i - 1] == '\r' && exchange->request[i - 2] == '\n')))
            return i + 1;
    return FOUND_NOWHERE;
}

/* All that came but for what may be the beginning of the end. */
static void drop(struct http_exchange *exchange)
{
    exchange->dropped += exchange->size - HEAD_END_BYTES;
    memmove(exchange->request, exchange->request + exchange->size - HEAD_END_BYTES, HEAD_END_BYTES);
    exchange->size = HEAD_END_BYTES;
}

static void refuse_large(struct http_exchange *exchange)
{
    net_want(exchange->stream, false, false);
    refuse(exchange, 431, "the request is too large");
}

static void readable(void *context)
{
    struct http_exchange *exchange = context;
    size_t got = 0;
    enum err err = ERR_OK;
    int64_t end_at = FOUND_NOWHERE;

    if (exchange->state != HTTP_READING)
        return;
    err = net_read(exchange->stream, exchange->request + exchange->size, HTTP_REQUEST_BYTES_MAX - exchange->size, &got);
    if (err == ERR_WOULD_BLOCK)
        return;
    if (err != ERR_OK) {
        end(exchange);
        return;
    }
    exchange->size += (uint32_t)got;
    end_at = find_end(exchange);
    if (end_at != FOUND_NOWHERE && exchange->dropped == 0)
        answer(exchange, bytes_of(exchange->request, (size_t)end_at));
    else if (end_at != FOUND_NOWHERE || exchange->dropped > HTTP_DROPPED_BYTES_MAX)
        refuse_large(exchange);
    else if (exchange->size == HTTP_REQUEST_BYTES_MAX)
        drop(exchange);
}

static void writable(void *context)
{
    struct http_exchange *exchange = context;

    if (exchange->state == HTTP_WRITING)
        write_on(exchange);
}

static void accepted(void *context, struct net_stream *stream)
{
    static const struct net_stream_events events = {.readable = readable, .writable = writable};
    static const char busy[] = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    struct http_server *server = context;
    struct http_exchange *exchange = NULL;
    struct slice slice = slice_of(busy, sizeof(busy) - 1);
    size_t written = 0;

    if (server->count < HTTP_CONNECTIONS_MAX && server->listener != NULL)
        exchange = mem_alloc(sizeof(*exchange));
    if (exchange == NULL) {
        (void)!net_write(stream, &slice, 1, &written);
        net_close(stream, false);
        return;
    }
    memset(exchange, 0, offsetof(struct http_exchange, request));
    exchange->reply = NULL;
    exchange->reply_bytes = 0;
    exchange->sent = 0;
    exchange->server = server;
    exchange->stream = stream;
    exchange->timer.fired = too_late;
    list_node_init(&exchange->node);
    list_add_last(&server->exchanges, &exchange->node);
    server->count++;
    stream->events = &events;
    stream->context = exchange;
    arm(exchange);
    net_want(stream, true, false);
}

/* ---- the server ---- */

enum err http_server_new(const struct http_server_spec *spec, struct net_address *bound, struct http_server **server)
{
    struct http_server *made = mem_calloc(1, sizeof(*made));
    enum err err = ERR_OK;

    if (made == NULL)
        return ERR_NOMEM;
    made->spec = *spec;
    list_init(&made->exchanges);
    err = net_listen(spec->net, &spec->address, &made->spec.loop, 1, accepted, made, &made->listener, bound);
    if (err != ERR_OK) {
        mem_free(made);
        return err;
    }
    *server = made;
    return ERR_OK;
}

/* On the loop. */
static void stop(struct loop_task *task)
{
    struct http_server *server = LIST_ENTRY(task, struct http_server, stop_task);

    net_unlisten(server->spec.net, server->listener);
    server->listener = NULL;
    list_each (&server->exchanges, node) {
        struct http_exchange *exchange = LIST_ENTRY(node, struct http_exchange, node);

        if (exchange->state == HTTP_READING) {
            server->count++; /* so that it is told once, below */
            end(exchange);
            server->count--;
        }
    }
    tell_if_stopped(server);
}

void http_server_stop(struct http_server *server, void (*stopped)(void *context), void *context)
{
    server->stopped = stopped;
    server->stopped_context = context;
    server->stop_task.run = stop;
    loop_post(server->spec.loop, &server->stop_task);
}

void http_server_free(struct http_server *server)
{
    if (server == NULL)
        return;
    assert(server->count == 0);
    mem_free(server);
}

uint32_t http_server_connections(const struct http_server *server)
{
    return server->count;
}
