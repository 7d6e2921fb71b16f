#include "net/socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <unistd.h>

#include "base/mem.h"
#include "net/socket_internal.h"

/* --- addresses --- */

void socket_address_of(const struct sockaddr_storage *from, struct net_address *to)
{
    *to = (struct net_address){0};
    if (from->ss_family == AF_INET) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)from;

        inet_ntop(AF_INET, &v4->sin_addr, to->host, sizeof(to->host));
        to->port = ntohs(v4->sin_port);
    } else if (from->ss_family == AF_INET6) {
        const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)from;

        /* A client of a socket bound to both families is known by its IPv4 address. */
        if (IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr))
            inet_ntop(AF_INET, &v6->sin6_addr.s6_addr[12], to->host, sizeof(to->host));
        else
            inet_ntop(AF_INET6, &v6->sin6_addr, to->host, sizeof(to->host));
        to->port = ntohs(v6->sin6_port);
    }
}

enum err socket_error_of(int errno_value)
{
    switch (errno_value) {
    case EADDRINUSE:
        return ERR_BUSY;
    case EADDRNOTAVAIL:
    case EAFNOSUPPORT:
        return ERR_NOT_FOUND;
    case EPIPE:
    case ECONNRESET:
    case ECONNREFUSED:
    case ECONNABORTED:
    case ENOTCONN:
        return ERR_CLOSED;
    case ETIMEDOUT:
        return ERR_REQUEST_TIMED_OUT;
    case EHOSTUNREACH:
    case ENETUNREACH:
    case ENETDOWN:
        return ERR_NETWORK_EXCEPTION;
    default:
        return err_from_errno(errno_value);
    }
}

void socket_set_option(int fd, int level, int name, int value)
{
    setsockopt(fd, level, name, &value, sizeof(value));
}

/* All but the first two help speed alone, so a refusal changes nothing. On a listener: its connections inherit them. */
void socket_set_options(int fd, const struct socket_options *options)
{
    socket_set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    socket_set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    /* BBR, the default of some hosts, halves what loopback and a data centre carry (limits 1.1). */
    setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "cubic", 5);
    if (options->send_buffer_bytes > 0)
        socket_set_option(fd, SOL_SOCKET, SO_SNDBUF, options->send_buffer_bytes);
    if (options->receive_buffer_bytes > 0)
        socket_set_option(fd, SOL_SOCKET, SO_RCVBUF, options->receive_buffer_bytes);
}

/* --- outgoing --- */

static void connect_decided(evutil_socket_t fd, short what, void *argument)
{
    struct socket_stream *stream = argument;
    net_connect_fn *connected = stream->connected;
    void *context = stream->context;
    int failure = 0;
    socklen_t size = sizeof(failure);

    (void)what;
    (void)loop_now_ns(stream->stream.loop); /* the turn begins by now */
    event_del(&stream->write_event);
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &failure, &size) != 0)
        failure = errno;
    if (failure != 0) {
        close(fd);
        mem_free(stream);
        connected(context, NULL, socket_error_of(failure));
        return;
    }
    socket_stream_read_addresses(stream);
    socket_stream_bind_events(stream);
    connected(context, &stream->stream, ERR_OK);
}

static enum err parse_numeric(const struct net_address *address, struct sockaddr_storage *to, socklen_t *size)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)to;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)to;

    *to = (struct sockaddr_storage){0};
    if (inet_pton(AF_INET, address->host, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons(address->port);
        *size = sizeof(*v4);
        return ERR_OK;
    }
    if (inet_pton(AF_INET6, address->host, &v6->sin6_addr) == 1) {
        v6->sin6_family = AF_INET6;
        v6->sin6_port = htons(address->port);
        *size = sizeof(*v6);
        return ERR_OK;
    }
    return ERR_NOT_FOUND;
}

static enum err net_connect_real(struct net *base, struct loop *loop, const struct net_address *address,
                                 net_connect_fn *connected, void *context)
{
    struct socket_net *net = (struct socket_net *)base;
    struct socket_stream *stream = NULL;
    struct sockaddr_storage to;
    socklen_t size = 0;
    int fd = -1;
    enum err err = parse_numeric(address, &to, &size);

    if (err != ERR_OK)
        return err;
    fd = socket(to.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return socket_error_of(errno);
    socket_set_options(fd, &net->options);
    if (connect(fd, (struct sockaddr *)&to, size) != 0 && errno != EINPROGRESS) {
        err = socket_error_of(errno);
        goto out;
    }
    err = ERR_NOMEM;
    stream = socket_stream_new(fd, loop);
    if (stream == NULL)
        goto out;
    stream->connected = connected;
    stream->context = context;
    event_assign(&stream->write_event, reactor_event_base(loop), fd, EV_WRITE, connect_decided, stream);
    if (event_add(&stream->write_event, NULL) != 0)
        goto out;
    return ERR_OK;
out:
    mem_free(stream);
    close(fd);
    return err;
}

/* --- life --- */

static const struct net_ops net_ops = {
    .listen = socket_listen,
    .unlisten = socket_unlisten,
    .connect = net_connect_real,
};

MUST_CHECK enum err socket_net_new(struct log *log, const struct socket_options *options, struct net **net)
{
    struct socket_net *made = mem_calloc(1, sizeof(*made));

    if (made == NULL)
        return ERR_NOMEM;
    made->net.ops = &net_ops;
    made->log = log;
    made->options = (struct socket_options){.send_buffer_bytes = -1, .receive_buffer_bytes = -1};
    if (options != NULL)
        made->options = *options;
    pthread_mutex_init(&made->order, NULL);
    *net = &made->net;
    return ERR_OK;
}

void socket_net_free(struct net *base)
{
    struct socket_net *net = (struct socket_net *)base;

    if (net == NULL)
        return;
    while (net->listeners != NULL) {
        struct net_listener *listener = net->listeners;

        net->listeners = listener->next;
        socket_listener_free(listener);
    }
    pthread_mutex_destroy(&net->order);
    mem_free(net);
}
