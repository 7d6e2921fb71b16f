/*
 * connection: Kafka frames on one byte stream, from the first byte read to the last byte of the reply. It sits above
 * the seam base/net.h and holds no socket and no libevent, so the simulator runs this very code over simulated streams.
 *
 * A frame (four bytes of size, then that many) becomes an exchange, which the handler answers once. Kinds of order:
 *
 *   execution  one exchange of a connection executes at a time, in the order of arrival; one for which the handler's
 *              overlaps says yes may start while all that execute are such too (Produce behind Produces). The rest wait
 *              undecoded, within CONNECTION_WAITING_BYTES_MAX: beyond it reading stops meanwhile.
 *   replies    leave in the order of the requests, whatever the order of exchange_reply; all that one turn completed
 *              leaves in one write.
 *
 * States, changed in one function (connection.c, set_state), only downwards:
 *
 *   OPEN       reads, starts, answers
 *   ENDED      the peer has closed its side: nothing more is read; whole frames that came before are executed (Produce
 *              with acks=0 and close), replies are tried, and with the last of them it is CLOSED
 *   FINISHING  nothing more is read or started; what was started is answered, then CLOSED. Entered by
 *              connection_finish, exchange_close (which also drops the answers behind it), connections_drain and bytes
 *              that are no frame
 *   CLOSED     the stream is gone; what still executes ends without a trace. Memory is freed at the end of the turn in
 *              which the last exchange ends
 *
 * Memory     a frame lies in one buffer that grows with the bytes that arrive, never by what its header announces. Read
 *            buffers and exchange_reserve are charged to the budget (net/budget.h); while that is full, connections of
 *            listeners without reserve do not read. Queued replies over CONNECTION_QUEUED_BYTES_MAX: nothing more is
 *            read or started until the peer has taken some.
 * Threads    all of a connection happens on its stream's loop: callbacks, and every call to it or its exchanges. One
 *            struct connections per loop.
 */
#ifndef OTTLA_NET_CONNECTION_H
#define OTTLA_NET_CONNECTION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/net.h"
#include "base/slice.h"

struct budget;
struct connection;
struct connections;
struct exchange;

/* Called once for each reply, on the connection's loop and never from inside exchange_reply: when its last byte is with
 * the kernel (sent), or when the connection died first. The exchange is gone when this returns. */
typedef void exchange_released_fn(struct exchange *exchange, bool sent);

/* One request from frame to reply. Made by the connection, ended by the handler with exactly one of exchange_reply,
 * exchange_finish_silent and exchange_close: at once, or any time later. */
struct exchange {
    struct connection *connection; /* valid as long as the exchange, closed or not */
    uint8_t *frame;                /* the request behind its size field; may be written to; NULL once freed */
    size_t frame_size;             /* bytes; stays after exchange_free_frame */
    int64_t read_ns;               /* monotonic: its last byte was there */
    int64_t started_ns;            /* monotonic: handed to the handler */
    int64_t replied_ns;            /* monotonic: exchange_reply and its like */
    void *user;                    /* the handler's */
    struct exchange_state *state;  /* the connection's */
};

/* What the broker does with connections; one for each struct connections. Optional members may be NULL. */
struct connection_handler {
    void *context;
    /* A connection is there. Optional. */
    void (*opened)(void *context, struct connection *connection);
    /* May this request execute beside earlier ones for which the same was said? frame: whole, behind the size field.
     * May be asked more than once; looks at nothing but the frame. */
    bool (*overlaps)(void *context, struct connection *connection, struct bytes frame);
    /* Execute it. The exchange is the handler's until it ends it, which it may do in here. */
    void (*execute)(void *context, struct connection *connection, struct exchange *exchange);
    /* The peer has closed, or the stream is gone, while this exchange executes: what it waits for may be given up. It
     * must still be ended (in here, or later by what was going to). Told once for each exchange, before closed, at the
     * end of a turn. Optional. */
    void (*abandoned)(void *context, struct exchange *exchange);
    /* The stream is gone. Exchanges that execute may outlive it, and the connection lives as long as they. Told once,
     * at the end of a turn. Optional. */
    void (*closed)(void *context, struct connection *connection);
    /* The last call for a connection: its user pointer can go. Optional. */
    void (*freed)(void *context, struct connection *connection);
};

/* What connections of one listener have in common. Owned by the broker; outlives its connections. */
struct connection_listener {
    struct connections **loops; /* by struct loop's index */
    uint32_t loop_count;
    uint32_t index;           /* among the broker's listeners */
    const char *name;         /* "PLAINTEXT", for log lines */
    size_t request_bytes_max; /* socket.request.max.bytes */
    int64_t idle_ms_max;      /* connections.max.idle.ms; 0: for ever */
    bool authenticates;       /* CONNECTION_UNKNOWN_BYTES_MAX until connection_authenticated */
    bool reserve;             /* draws on the budget's reserve: replication, quorum, controllers */
};

/* Counters of one loop; read them on it. */
struct connections_stats {
    uint64_t open;        /* now */
    uint64_t opened;      /* ever */
    uint64_t refused;     /* over a limit of connections */
    uint64_t garbage;     /* closed for bytes that are no frame */
    uint64_t idle_closed; /* by connections.max.idle.ms */
    uint64_t requests;    /* exchanges started */
    uint64_t bytes_in;
    uint64_t bytes_out;
};

/* Limits over all loops and listeners of a broker; see connection_limits.h. */
struct connection_limits;

/* --- all connections of one loop --- */

/* handler: copied. budget, limits and log are borrowed and outlive it; limits may be NULL. ERR_NOMEM. */
MUST_CHECK enum err connections_new(struct loop *loop, const struct connection_handler *handler, struct budget *budget,
                                    struct connection_limits *limits, struct log *log,
                                    struct connections **connections);
/* Only when none is open and no exchange executes (after connections_drain). NULL does nothing. */
void connections_free(struct connections *connections);
/* A net_accept_fn: context is the struct connection_listener. Takes the stream, on its loop; also on failure. */
void connections_accepted(void *context, struct net_stream *stream);
/* Graceful end: every connection is FINISHING, new ones are closed at once. drained: posted to the loop once none is
 * left and the last exchange has ended. */
void connections_drain(struct connections *connections, struct loop_task *drained);
/* Closes all at once; exchanges that execute still have to be ended. */
void connections_abort(struct connections *connections);
const struct connections_stats *connections_stats(const struct connections *connections);
/* Charges memory that belongs to no exchange here to the budget, and gives it back. ERR_NOMEM: it cannot bear it. */
MUST_CHECK enum err connections_reserve(struct connections *connections, size_t bytes);
void connections_give_back(struct connections *connections, size_t bytes);

/* --- one connection --- */

const struct net_address *connection_peer(const struct connection *connection);
const struct net_address *connection_local(const struct connection *connection);
const struct connection_listener *connection_listener(const struct connection *connection);
/* Distinct within the loop: for log lines and the index that tells replicas and fetch sessions apart. */
uint64_t connection_id(const struct connection *connection);
/* The handler's pointer, NULL at first. */
void *connection_user(const struct connection *connection);
void connection_set_user(struct connection *connection, void *user);
bool connection_is_closed(const struct connection *connection);
/* From here on frames of request_bytes_max are taken. */
void connection_authenticated(struct connection *connection);
/* Throttling: reads and starts nothing before that monotonic time; replies still leave. A later time wins. */
void connection_mute(struct connection *connection, int64_t until_ns);
/* Answers what has been started, starts nothing more, closes. */
void connection_finish(struct connection *connection);
/* Closes now. abort: reset, what the kernel still holds is dropped. */
void connection_close(struct connection *connection, bool abort);

/* --- one exchange --- */

/*
 * Answers it. The size field is put in front of them; slices (the array is copied, count up to EXCHANGE_SLICES_MAX) and
 * what they point to stay valid until released. The next exchange may start before the reply has left.
 */
void exchange_reply(struct exchange *exchange, const struct slice *slices, uint32_t count,
                    exchange_released_fn *released);
/* Ends it without a reply (Produce with acks=0). The exchange is gone. */
void exchange_finish_silent(struct exchange *exchange);
/* Ends it and the connection: requests before it are answered first, those behind it are dropped (trap B013). The
 * exchange is gone. why: for the one log line there is of it, read within the call. */
void exchange_close(struct exchange *exchange, const char *why);
/* Gives the frame's memory back early, right after an append. */
void exchange_free_frame(struct exchange *exchange);
/* Charges memory that the handler takes for this exchange to the budget, until it ends. ERR_NOMEM: the budget cannot
 * bear it; answer an error. */
MUST_CHECK enum err exchange_reserve(struct exchange *exchange, size_t bytes);

#endif
