#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/mem.h"
#include "net/socket_internal.h"

static void stream_arrived(struct loop_task *task)
{
    struct socket_stream *stream = LIST_ENTRY(task, struct socket_stream, handed);

    socket_stream_bind_events(stream);
    stream->accepted(stream->context, &stream->stream);
}

static void hand_out(struct net_listener *listener, int fd)
{
    struct loop *loop = listener->loops[listener->turn];
    struct socket_stream *stream = socket_stream_new(fd, loop);

    if (stream == NULL) {
        close(fd);
        return;
    }
    listener->turn = (listener->turn + 1) % listener->loop_count;
    socket_stream_read_addresses(stream);
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
    return eventfd(0, EFD_CLOEXEC);
}

/* Descriptors have run out: the newcomer is told by being closed. EAGAIN: there is none (the kernel looks for a
 * descriptor before it looks for a connection); EMFILE: not even the spare one was to be had. */
static int turn_away(struct net_listener *listener)
{
    int fd = -1;
    int failure = EMFILE;

    if (listener->spare_fd >= 0) {
        close(listener->spare_fd);
        fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC);
        failure = fd >= 0 ? 0 : errno;
        if (fd >= 0)
            close(fd);
        listener->spare_fd = open_spare();
    }
    if (failure != EAGAIN)
        log_line_rated(listener->net->log, &listener->out_of_descriptors, LOG_ERROR,
                       "connection refused, no descriptors left; raise the limit of open files (ulimit -n)");
    return failure;
}

static void pause_over(struct loop_timer *timer)
{
    struct net_listener *listener = LIST_ENTRY(timer, struct net_listener, pause);

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
        int failure = fd >= 0 ? 0 : errno;

        if (fd >= 0) {
            hand_out(listener, fd);
            continue;
        }
        if (failure == EMFILE || failure == ENFILE)
            failure = turn_away(listener);
        if (failure == 0 || failure == EINTR || failure == ECONNABORTED)
            continue;
        if (failure != EAGAIN) {
            struct loop *loop = listener->loops[0];

            event_del(&listener->event);
            loop_timer_start(loop, &listener->pause, loop_now_ns(loop) + SOCKET_ACCEPT_PAUSE_MS * (int64_t)1000000);
        }
        return;
    }
}

static void listener_start(struct loop_task *task)
{
    struct net_listener *listener = LIST_ENTRY(task, struct net_listener, start);

    event_assign(&listener->event, reactor_event_base(listener->loops[0]), listener->fd, EV_READ | EV_PERSIST,
                 acceptable, listener);
    event_add(&listener->event, NULL);
}

void socket_listener_free(struct net_listener *listener)
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
    struct net_listener *listener = LIST_ENTRY(task, struct net_listener, stop);
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
    socket_listener_free(listener);
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
        return socket_error_of(errno);
    socket_set_option(opened, SOL_SOCKET, SO_REUSEADDR, 1);
    if (address->sa_family == AF_INET6)
        socket_set_option(opened, IPPROTO_IPV6, IPV6_V6ONLY, 0);
    socket_set_options(opened, options);
    if (bind(opened, address, size) != 0 ||
        listen(opened, options->backlog > 0 ? options->backlog : SOCKET_BACKLOG_DEFAULT) != 0) {
        err = socket_error_of(errno);
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

enum err socket_listen(struct net *base, const struct net_address *address, struct loop **loops, uint32_t loop_count,
                       net_accept_fn *accepted, void *context, struct net_listener **listener,
                       struct net_address *bound)
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
        socket_address_of(&local, bound);
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
    socket_listener_free(made);
    return err;
}

void socket_unlisten(struct net *base, struct net_listener *listener)
{
    (void)base;
    loop_post(listener->loops[0], &listener->stop);
}
