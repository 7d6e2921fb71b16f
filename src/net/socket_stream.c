#include <errno.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/mem.h"
#include "net/socket_internal.h"

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
    (void)loop_now_ns(stream->loop); /* the turn begins by now */
    stream->events->readable(stream->context);
}

static void stream_writable(evutil_socket_t fd, short what, void *argument)
{
    struct net_stream *stream = argument;

    (void)fd;
    (void)what;
    (void)loop_now_ns(stream->loop);
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
struct socket_stream *socket_stream_new(int fd, struct loop *loop)
{
    struct socket_stream *stream = mem_calloc(1, sizeof(*stream));

    if (stream == NULL)
        return NULL;
    stream->stream.ops = &stream_ops;
    stream->stream.loop = loop;
    stream->fd = fd;
    return stream;
}

void socket_stream_read_addresses(struct socket_stream *stream)
{
    struct sockaddr_storage address;
    socklen_t size = sizeof(address);

    if (getsockname(stream->fd, (struct sockaddr *)&address, &size) == 0)
        socket_address_of(&address, &stream->stream.local);
    size = sizeof(address);
    if (getpeername(stream->fd, (struct sockaddr *)&address, &size) == 0)
        socket_address_of(&address, &stream->stream.peer);
}

/* On its loop. */
void socket_stream_bind_events(struct socket_stream *stream)
{
    struct event_base *base = reactor_event_base(stream->stream.loop);

    event_assign(&stream->read_event, base, stream->fd, EV_READ | EV_PERSIST, stream_readable, stream);
    event_assign(&stream->write_event, base, stream->fd, EV_WRITE | EV_PERSIST, stream_writable, stream);
}
