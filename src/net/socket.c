#include "net/socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <event2/event.h>
#include <event2/event_struct.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/fs.h"
#include "base/mem.h"
#include "net/net_limits.h"
#include "net/reactor.h"

struct socket_net {
    struct net net;
    struct log *log;
    struct socket_options options;
    pthread_mutex_t order; /* of the list of listeners, which change rarely */
    struct net_listener *listeners;
};

struct net_listener {
    struct socket_net *net;
    struct net_listener *next;
    struct net_listener *previous;
    struct loop **loops;
    uint32_t loop_count;
    uint32_t turn; /* whose is the next connection */
    net_accept_fn *accepted;
    void *context;
    int fd;
    int spare_fd; /* given up to accept and close a newcomer when descriptors have run out */
    struct event event;
    struct loop_task start;
    struct loop_task stop;
    struct loop_timer pause;
    struct log_rate out_of_descriptors;
};

struct socket_stream {
    struct net_stream stream;
    int fd;
    bool wants_read;
    bool wants_write;
    struct event read_event;
    struct event write_event;
    /* While it is handed to its loop. */
    struct loop_task handed;
    net_accept_fn *accepted;
    net_connect_fn *connected;
    void *context; /* of the two above */
};

/* --- addresses --- */

static void address_of(const struct sockaddr_storage *from, struct net_address *to)
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

static enum err error_of(int errno_value)
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

static void set_option(int fd, int level, int name, int value)
{
    setsockopt(fd, level, name, &value, sizeof(value));
}

/* All but the first two help speed alone, so a refusal changes nothing. On a listener: its connections inherit them. */
static void set_options(int fd, const struct socket_options *options)
{
    set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    /* BBR, the default of some hosts, halves what loopback and a data centre carry (limits 1.1). */
    setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "cubic", 5);
    if (options->send_buffer_bytes > 0)
        set_option(fd, SOL_SOCKET, SO_SNDBUF, options->send_buffer_bytes);
    if (options->receive_buffer_bytes > 0)
        set_option(fd, SOL_SOCKET, SO_RCVBUF, options->receive_buffer_bytes);
}

/* --- streams --- */

static struct socket_stream *stream_of(struct net_stream *stream)
{
    return (struct socket_stream *)stream;
}

static enum err stream_read(struct net_stream *base, void *to, size_t size, size_t *got)
{
    for (;;) {
        ssize_t count = recv(stream_of(base)->fd, to, size, 0);

        if (count > 0) {
            *got = (size_t)count;
            return ERR_OK;
        }
        if (count == 0)
            return ERR_CLOSED;
        if (errno == EAGAIN)
            return ERR_WOULD_BLOCK;
        if (errno != EINTR)
            return ERR_CLOSED;
    }
}

/* The memory slices at the front in one call. */
static enum err write_memory(int fd, const struct slice *slices, uint32_t count, uint32_t *taken, size_t *size,
                             size_t *written)
{
    struct iovec iovecs[SOCKET_IOVECS_MAX];
    struct msghdr message = {.msg_iov = iovecs};
    uint32_t i = 0;

    *size = 0;
    for (; i < count && slices[i].file == NULL && message.msg_iovlen < SOCKET_IOVECS_MAX; i++) {
        if (slices[i].size == 0)
            continue;
        iovecs[message.msg_iovlen].iov_base = (void *)(uintptr_t)slices[i].data;
        iovecs[message.msg_iovlen].iov_len = slices[i].size;
        message.msg_iovlen++;
        *size += slices[i].size;
    }
    *taken = i;
    *written = 0;
    while (*size > 0) {
        ssize_t sent = sendmsg(fd, &message, MSG_NOSIGNAL | (i < count ? MSG_MORE : 0));

        if (sent >= 0) {
            *written = (size_t)sent;
            return ERR_OK;
        }
        if (errno == EAGAIN)
            return ERR_WOULD_BLOCK;
        if (errno != EINTR)
            return ERR_CLOSED;
    }
    return ERR_OK;
}

/* A range of a file that has no descriptor. What comes back short was truncated under us. */
static enum err copy_range(int fd, const struct slice *slice, bool more, size_t *written)
{
    uint8_t copy[SOCKET_COPY_BYTES];
    struct slice piece = {.data = copy};
    size_t wanted = slice->size < sizeof(copy) ? slice->size : sizeof(copy);
    uint32_t taken = 0;
    size_t size = 0;
    enum err err = fs_read(slice->file, slice->position, copy, wanted, &piece.size);

    (void)more;
    if (err != ERR_OK)
        return ERR_IO;
    if (piece.size < wanted)
        return ERR_IO;
    return write_memory(fd, &piece, 1, &taken, &size, written);
}

/* Some of a file range. */
static enum err write_range(int fd, const struct slice *slice, bool more, size_t *written)
{
    int file_fd = fs_descriptor(slice->file);
    off_t position = (off_t)slice->position;

    if (file_fd < 0)
        return copy_range(fd, slice, more, written);
    for (;;) {
        ssize_t sent = sendfile(fd, file_fd, &position, slice->size);

        if (sent > 0) {
            *written = (size_t)sent;
            return ERR_OK;
        }
        if (sent == 0)
            return ERR_IO; /* the file ends before the range does */
        if (errno == EAGAIN)
            return ERR_WOULD_BLOCK;
        if (errno != EINTR)
            return errno == EPIPE || errno == ECONNRESET ? ERR_CLOSED : ERR_IO;
    }
}

static enum err stream_write(struct net_stream *base, const struct slice *slices, uint32_t count, size_t *written)
{
    int fd = stream_of(base)->fd;
    uint32_t at = 0;
    enum err err = ERR_OK;

    *written = 0;
    while (at < count && err == ERR_OK) {
        size_t sent = 0;
        size_t size = 0;

        if (slices[at].file == NULL) {
            uint32_t taken = 0;

            err = write_memory(fd, slices + at, count - at, &taken, &size, &sent);
            at += taken;
        } else {
            struct slice left = slices[at];

            size = left.size;
            while (left.size > 0 && err == ERR_OK) {
                size_t some = 0;

                err = write_range(fd, &left, at + 1 < count, &some);
                left.position += some;
                left.size -= some;
                sent += some;
            }
            at++;
        }
        *written += sent;
        if (sent < size)
            break;
    }
    return err == ERR_WOULD_BLOCK && *written > 0 ? ERR_OK : err;
}

static void stream_readable(evutil_socket_t fd, short what, void *argument)
{
    struct net_stream *stream = argument;

    (void)fd;
    (void)what;
    stream->events->readable(stream->context);
}

static void stream_writable(evutil_socket_t fd, short what, void *argument)
{
    struct net_stream *stream = argument;

    (void)fd;
    (void)what;
    stream->events->writable(stream->context);
}

static void switch_event(struct event *event, bool *is, bool wanted)
{
    if (*is == wanted)
        return;
    *is = wanted;
    if (!wanted)
        event_del(event);
    else if (event_add(event, NULL) != 0)
        *is = false; /* epoll refused (no memory): the idle limit will end this connection */
}

static void stream_want(struct net_stream *base, bool readable, bool writable)
{
    struct socket_stream *stream = stream_of(base);

    switch_event(&stream->read_event, &stream->wants_read, readable);
    switch_event(&stream->write_event, &stream->wants_write, writable);
}

static void stream_close(struct net_stream *base, bool abort)
{
    struct socket_stream *stream = stream_of(base);

    stream_want(base, false, false);
    if (abort) {
        struct linger linger = {.l_onoff = 1, .l_linger = 0};

        setsockopt(stream->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
    } else {
        /* Bytes left unread would make the kernel send a reset, which may overtake our last replies. */
        char rest[4096];

        for (int i = 0; i < SOCKET_CLOSE_READS_MAX && recv(stream->fd, rest, sizeof(rest), MSG_DONTWAIT) > 0; i++)
            continue;
    }
    close(stream->fd);
    mem_free(stream);
}

static const struct net_stream_ops stream_ops = {
    .read = stream_read,
    .write = stream_write,
    .want = stream_want,
    .close = stream_close,
};

/* Takes fd on success. */
static struct socket_stream *stream_new(int fd, struct loop *loop)
{
    struct socket_stream *stream = mem_calloc(1, sizeof(*stream));

    if (stream == NULL)
        return NULL;
    stream->stream.ops = &stream_ops;
    stream->stream.loop = loop;
    stream->fd = fd;
    return stream;
}

static void read_addresses(struct socket_stream *stream)
{
    struct sockaddr_storage address;
    socklen_t size = sizeof(address);

    if (getsockname(stream->fd, (struct sockaddr *)&address, &size) == 0)
        address_of(&address, &stream->stream.local);
    size = sizeof(address);
    if (getpeername(stream->fd, (struct sockaddr *)&address, &size) == 0)
        address_of(&address, &stream->stream.peer);
}

/* On its loop. */
static void stream_bind_events(struct socket_stream *stream)
{
    struct event_base *base = reactor_event_base(stream->stream.loop);

    event_assign(&stream->read_event, base, stream->fd, EV_READ | EV_PERSIST, stream_readable, stream);
    event_assign(&stream->write_event, base, stream->fd, EV_WRITE | EV_PERSIST, stream_writable, stream);
}

/* --- listeners --- */

static void stream_arrived(struct loop_task *task)
{
    struct socket_stream *stream =
        (struct socket_stream *)(void *)((char *)task - offsetof(struct socket_stream, handed));

    stream_bind_events(stream);
    stream->accepted(stream->context, &stream->stream);
}

static void hand_out(struct net_listener *listener, int fd)
{
    struct loop *loop = listener->loops[listener->turn];
    struct socket_stream *stream = stream_new(fd, loop);

    if (stream == NULL) {
        close(fd);
        return;
    }
    listener->turn = (listener->turn + 1) % listener->loop_count;
    read_addresses(stream);
    stream->accepted = listener->accepted;
    stream->context = listener->context;
    stream->handed.run = stream_arrived;
    if (loop == listener->loops[0])
        stream_arrived(&stream->handed);
    else
        loop_post(loop, &stream->handed);
}

static int open_spare(void)
{
    return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

/* Descriptors have run out: the newcomer is told by being closed. False: not even the spare one was to be had. */
static bool turn_away(struct net_listener *listener)
{
    int fd = -1;

    log_line_rated(listener->net->log, &listener->out_of_descriptors, LOG_ERROR,
                   "connection refused, no descriptors left; raise the limit of open files (ulimit -n)");
    if (listener->spare_fd < 0)
        return false;
    close(listener->spare_fd);
    fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC);
    if (fd >= 0)
        close(fd);
    listener->spare_fd = open_spare();
    return fd >= 0;
}

static void pause_over(struct loop_timer *timer)
{
    struct net_listener *listener =
        (struct net_listener *)(void *)((char *)timer - offsetof(struct net_listener, pause));

    if (listener->spare_fd < 0)
        listener->spare_fd = open_spare();
    event_add(&listener->event, NULL);
}

static void acceptable(evutil_socket_t event_fd, short what, void *argument)
{
    struct net_listener *listener = argument;

    (void)event_fd;
    (void)what;
    for (int i = 0; i < SOCKET_ACCEPTS_PER_TURN; i++) {
        int fd = accept4(listener->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

        if (fd >= 0) {
            hand_out(listener, fd);
            continue;
        }
        if (errno == EINTR || errno == ECONNABORTED)
            continue;
        if ((errno == EMFILE || errno == ENFILE) && turn_away(listener))
            continue;
        if (errno != EAGAIN) {
            struct loop *loop = listener->loops[0];

            event_del(&listener->event);
            loop_timer_start(loop, &listener->pause, loop_now_ns(loop) + SOCKET_ACCEPT_PAUSE_MS * (int64_t)1000000);
        }
        return;
    }
}

static void listener_start(struct loop_task *task)
{
    struct net_listener *listener =
        (struct net_listener *)(void *)((char *)task - offsetof(struct net_listener, start));

    event_assign(&listener->event, reactor_event_base(listener->loops[0]), listener->fd, EV_READ | EV_PERSIST,
                 acceptable, listener);
    event_add(&listener->event, NULL);
}

static void listener_free(struct net_listener *listener)
{
    if (listener == NULL)
        return;
    if (listener->fd >= 0)
        close(listener->fd);
    if (listener->spare_fd >= 0)
        close(listener->spare_fd);
    mem_free(listener->loops);
    mem_free(listener);
}

static void listener_stop(struct loop_task *task)
{
    struct net_listener *listener = (struct net_listener *)(void *)((char *)task - offsetof(struct net_listener, stop));
    struct socket_net *net = listener->net;

    event_del(&listener->event);
    loop_timer_stop(listener->loops[0], &listener->pause);
    pthread_mutex_lock(&net->order);
    if (listener->next != NULL)
        listener->next->previous = listener->previous;
    if (listener->previous != NULL)
        listener->previous->next = listener->next;
    else
        net->listeners = listener->next;
    pthread_mutex_unlock(&net->order);
    listener_free(listener);
}

/* Resolves a host to bind to; ERR_NOT_FOUND. The caller frees the list. */
static enum err resolve(const struct net_address *address, struct addrinfo **list)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    char port[8];

    snprintf(port, sizeof(port), "%u", address->port);
    if (address->host[0] == '\0')
        hints.ai_family = AF_INET6; /* both families, see bind_one */
    if (getaddrinfo(address->host[0] == '\0' ? NULL : address->host, port, &hints, list) == 0)
        return ERR_OK;
    return ERR_NOT_FOUND;
}

/* A listening socket on one address; ERR_BUSY, ERR_PERMISSION, ERR_NOT_FOUND and such. */
static enum err bind_one(const struct sockaddr *address, socklen_t size, const struct socket_options *options, int *fd)
{
    int opened = socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    enum err err = ERR_OK;

    if (opened < 0)
        return error_of(errno);
    set_option(opened, SOL_SOCKET, SO_REUSEADDR, 1);
    if (address->sa_family == AF_INET6)
        set_option(opened, IPPROTO_IPV6, IPV6_V6ONLY, 0);
    set_options(opened, options);
    if (bind(opened, address, size) != 0 ||
        listen(opened, options->backlog > 0 ? options->backlog : SOCKET_BACKLOG_DEFAULT) != 0) {
        err = error_of(errno);
        close(opened);
        return err;
    }
    *fd = opened;
    return ERR_OK;
}

static enum err bind_to(const struct net_address *address, const struct socket_options *options, int *fd)
{
    struct addrinfo *list = NULL;
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons(address->port)};
    enum err err = resolve(address, &list);

    for (struct addrinfo *at = list; at != NULL; at = at->ai_next) {
        err = bind_one(at->ai_addr, at->ai_addrlen, options, fd);
        if (err == ERR_OK)
            break;
    }
    if (list != NULL)
        freeaddrinfo(list);
    /* A host without IPv6. */
    if (err == ERR_NOT_FOUND && address->host[0] == '\0')
        err = bind_one((struct sockaddr *)&any, sizeof(any), options, fd);
    return err;
}

static enum err net_listen_real(struct net *base, const struct net_address *address, struct loop **loops,
                                uint32_t loop_count, net_accept_fn *accepted, void *context,
                                struct net_listener **listener, struct net_address *bound)
{
    struct socket_net *net = (struct socket_net *)base;
    struct net_listener *made = mem_calloc(1, sizeof(*made));
    struct sockaddr_storage local;
    socklen_t local_size = sizeof(local);
    enum err err = ERR_NOMEM;

    assert(loop_count > 0);
    if (made == NULL)
        return ERR_NOMEM;
    made->fd = -1;
    made->spare_fd = -1;
    made->loops = mem_alloc(loop_count * sizeof(struct loop *));
    if (made->loops == NULL)
        goto out;
    memcpy(made->loops, loops, loop_count * sizeof(struct loop *));
    made->loop_count = loop_count;
    made->net = net;
    made->accepted = accepted;
    made->context = context;
    err = bind_to(address, &net->options, &made->fd);
    if (err != ERR_OK)
        goto out;
    if (getsockname(made->fd, (struct sockaddr *)&local, &local_size) == 0 && bound != NULL)
        address_of(&local, bound);
    made->spare_fd = open_spare();
    made->start.run = listener_start;
    made->stop.run = listener_stop;
    made->pause.fired = pause_over;
    pthread_mutex_lock(&net->order);
    made->next = net->listeners;
    if (made->next != NULL)
        made->next->previous = made;
    net->listeners = made;
    pthread_mutex_unlock(&net->order);
    loop_post(loops[0], &made->start);
    *listener = made;
    made = NULL;
out:
    listener_free(made);
    return err;
}

static void net_unlisten_real(struct net *base, struct net_listener *listener)
{
    (void)base;
    loop_post(listener->loops[0], &listener->stop);
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
    event_del(&stream->write_event);
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &failure, &size) != 0)
        failure = errno;
    if (failure != 0) {
        close(fd);
        mem_free(stream);
        connected(context, NULL, error_of(failure));
        return;
    }
    read_addresses(stream);
    stream_bind_events(stream);
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
        return error_of(errno);
    set_options(fd, &net->options);
    if (connect(fd, (struct sockaddr *)&to, size) != 0 && errno != EINPROGRESS) {
        err = error_of(errno);
        goto out;
    }
    err = ERR_NOMEM;
    stream = stream_new(fd, loop);
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
    .listen = net_listen_real,
    .unlisten = net_unlisten_real,
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
        listener_free(listener);
    }
    pthread_mutex_destroy(&net->order);
    mem_free(net);
}
