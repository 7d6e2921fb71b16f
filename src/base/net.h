/*
 * net: the seam through which bytes reach a peer or client: listeners and byte streams that never block. Real ones
 * are sockets under libevent (src/net/socket.c); the simulated network delays, splits, drops and cuts by seed. Frames,
 * order of requests and memory shares are made above it, once for both, in src/net/connection.c.
 *
 * Threads  a stream belongs to the loop it was made on; everything about it happens there.
 */
#ifndef OTTLA_BASE_NET_H
#define OTTLA_BASE_NET_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/loop.h"
#include "base/slice.h"

enum { NET_HOST_CHARS_MAX = 255 };

struct net_address {
    char host[NET_HOST_CHARS_MAX + 1]; /* numeric or name, without brackets; "" is any */
    uint16_t port;
};

struct net_stream;

/* What the owner of a stream is told. Never called from inside a call to the stream. */
struct net_stream_events {
    void (*readable)(void *context);
    void (*writable)(void *context);
};

struct net_stream_ops {
    enum err (*read)(struct net_stream *stream, void *to, size_t size, size_t *got);
    enum err (*write)(struct net_stream *stream, const struct slice *slices, uint32_t count, size_t *written);
    void (*want)(struct net_stream *stream, bool readable, bool writable);
    void (*close)(struct net_stream *stream, bool abort);
};

struct net_stream {
    const struct net_stream_ops *ops;
    const struct net_stream_events *events; /* set by the owner before the first want */
    void *context;
    struct loop *loop;
    struct net_address local; /* numeric */
    struct net_address peer;  /* numeric */
};

/* ERR_WOULD_BLOCK when nothing is there; ERR_CLOSED at the peer's end of stream or reset. */
MUST_CHECK static inline enum err net_read(struct net_stream *stream, void *to, size_t size, size_t *got)
{
    return stream->ops->read(stream, to, size, got);
}

/* Takes what fits (*written may end inside a slice); ERR_WOULD_BLOCK when nothing does. ERR_CLOSED when the peer is
 * gone; ERR_IO when a file range could not be read. */
MUST_CHECK static inline enum err net_write(struct net_stream *stream, const struct slice *slices, uint32_t count,
                                            size_t *written)
{
    return stream->ops->write(stream, slices, count, written);
}

/* Which events to report from now on. */
static inline void net_want(struct net_stream *stream, bool readable, bool writable)
{
    stream->ops->want(stream, readable, writable);
}

/* Frees the stream; no event comes any more. abort: reset, dropping what the kernel has not sent yet (a deposed
 * leader's half-sent answers must not reach anyone). */
static inline void net_close(struct net_stream *stream, bool abort)
{
    stream->ops->close(stream, abort);
}

struct net_listener;
struct net;

/* A new connection, on the loop that net chose among those of the listener. The stream is the callee's now. */
typedef void net_accept_fn(void *context, struct net_stream *stream);
/* The outcome of net_connect, on the loop that asked: the stream (the callee's), or NULL and why. */
typedef void net_connect_fn(void *context, struct net_stream *stream, enum err err);

struct net_ops {
    enum err (*listen)(struct net *net, const struct net_address *address, struct loop **loops, uint32_t loop_count,
                       net_accept_fn *accepted, void *context, struct net_listener **listener,
                       struct net_address *bound);
    void (*unlisten)(struct net *net, struct net_listener *listener);
    enum err (*connect)(struct net *net, struct loop *loop, const struct net_address *address,
                        net_connect_fn *connected, void *context);
};

struct net {
    const struct net_ops *ops;
};

/* Listens; connections are spread over the loops. bound: out, with the port that the system chose for 0.
 * ERR_BUSY: the port is in use; ERR_PERMISSION; ERR_NOT_FOUND: the host does not resolve to an address of this machine.
 * May block on a name look-up: start-up only. */
MUST_CHECK static inline enum err net_listen(struct net *net, const struct net_address *address, struct loop **loops,
                                             uint32_t loop_count, net_accept_fn *accepted, void *context,
                                             struct net_listener **listener, struct net_address *bound)
{
    return net->ops->listen(net, address, loops, loop_count, accepted, context, listener, bound);
}

/* No new connections from here on; those open stay. */
static inline void net_unlisten(struct net *net, struct net_listener *listener)
{
    net->ops->unlisten(net, listener);
}

/* Connects without blocking; numeric addresses only (names are resolved by a job first). */
MUST_CHECK static inline enum err net_connect(struct net *net, struct loop *loop, const struct net_address *address,
                                              net_connect_fn *connected, void *context)
{
    return net->ops->connect(net, loop, address, connected, context);
}

#endif
