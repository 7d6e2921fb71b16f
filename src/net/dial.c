#include "net/dial.h"
#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PORT_CHARS = 8, WRITE_FLAGS = MSG_NOSIGNAL };

/* Until the socket is ready for it, or the time is over. */
static enum err wait_for(const struct dial *dial, short events, int64_t until_ns)
{
    struct pollfd poll_fd = {.fd = dial->fd, .events = events};

    for (;;) {
        int64_t left_ms = (until_ns - clock_mono_ns(dial->clock)) / NS_PER_MS;
        int ready = left_ms <= 0 ? 0 : poll(&poll_fd, 1, left_ms > INT32_MAX ? INT32_MAX : (int)left_ms);

        if (ready > 0)
            return ERR_OK;
        if (ready == 0)
            return ERR_REQUEST_TIMED_OUT;
        if (errno != EINTR)
            return err_from_errno(errno);
    }
}

static int64_t deadline_ns(const struct dial *dial)
{
    return clock_mono_ns(dial->clock) + dial->timeout_ms * NS_PER_MS;
}

static enum err connect_to(struct dial *dial, const struct addrinfo *address, int64_t until_ns)
{
    int failure = 0;
    socklen_t size = sizeof(failure);
    enum err err = ERR_OK;

    dial->fd = socket(address->ai_family, address->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, address->ai_protocol);
    if (dial->fd < 0)
        return err_from_errno(errno);
    if (connect(dial->fd, address->ai_addr, address->ai_addrlen) == 0)
        return ERR_OK;
    if (errno != EINPROGRESS)
        return ERR_CLOSED;
    err = wait_for(dial, POLLOUT, until_ns);
    if (err == ERR_OK && (getsockopt(dial->fd, SOL_SOCKET, SO_ERROR, &failure, &size) != 0 || failure != 0))
        err = ERR_CLOSED;
    return err;
}

enum err dial_open(struct dial *dial, struct clock *clock, const char *host, uint16_t port, int64_t timeout_ms)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    char service[PORT_CHARS];
    int64_t until_ns = 0;
    enum err err = ERR_NOT_FOUND;

    *dial = (struct dial){.clock = clock, .fd = -1, .timeout_ms = timeout_ms};
    (void)snprintf(service, sizeof(service), "%u", port);
    if (getaddrinfo(host, service, &hints, &found) != 0)
        return ERR_NOT_FOUND;
    until_ns = deadline_ns(dial);
    for (const struct addrinfo *at = found; at != NULL; at = at->ai_next) {
        err = connect_to(dial, at, until_ns);
        if (err == ERR_OK)
            break;
        dial_close(dial);
    }
    freeaddrinfo(found);
    return err;
}

void dial_close(struct dial *dial)
{
    if (dial->fd >= 0)
        (void)close(dial->fd);
    dial->fd = -1;
}

enum err dial_write(struct dial *dial, struct bytes bytes)
{
    int64_t until_ns = deadline_ns(dial);

    while (bytes.size > 0) {
        ssize_t wrote = send(dial->fd, bytes.data, bytes.size, WRITE_FLAGS);
        enum err err = ERR_OK;

        if (wrote > 0) {
            bytes = bytes_of(bytes.data + wrote, bytes.size - (size_t)wrote);
            continue;
        }
        if (errno == EAGAIN || errno == EINTR)
            err = wait_for(dial, POLLOUT, until_ns);
        else
            err = ERR_CLOSED;
        if (err != ERR_OK)
            return err;
    }
    return ERR_OK;
}

enum err dial_read_some(struct dial *dial, void *to, size_t size, size_t *got)
{
    int64_t until_ns = deadline_ns(dial);

    for (;;) {
        ssize_t read_bytes = recv(dial->fd, to, size, 0);
        enum err err = ERR_OK;

        if (read_bytes >= 0) {
            *got = (size_t)read_bytes;
            return ERR_OK;
        }
        if (errno != EAGAIN && errno != EINTR)
            return ERR_CLOSED;
        err = wait_for(dial, POLLIN, until_ns);
        if (err != ERR_OK)
            return err;
    }
}

enum err dial_read(struct dial *dial, void *to, size_t size)
{
    uint8_t *at = to;
    int64_t until_ns = deadline_ns(dial);

    while (size > 0) {
        size_t got = 0;
        enum err err = dial_read_some(dial, at, size, &got);

        if (err == ERR_OK && got == 0)
            err = ERR_CLOSED;
        if (err == ERR_OK && clock_mono_ns(dial->clock) > until_ns)
            err = ERR_REQUEST_TIMED_OUT;
        if (err != ERR_OK)
            return err;
        at += got;
        size -= got;
    }
    return ERR_OK;
}
