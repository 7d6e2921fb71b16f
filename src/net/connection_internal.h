/*
 * connection_internal: the inside of a connection, for the files it is made of:
 *
 *   connection.c        its states, the end of a turn, time, and what handlers call
 *   connection_read.c   from bytes to exchanges that start
 *   connection_write.c  from replies to bytes
 *   connections.c       all of one loop: coming, draining
 *
 * Threads  its loop's.
 */
#ifndef OTTLA_NET_CONNECTION_INTERNAL_H
#define OTTLA_NET_CONNECTION_INTERNAL_H

#include "base/clock.h"
#include "base/list.h"
#include "net/budget.h"
#include "net/connection.h"
#include "net/connection_limits.h"
#include "net/exchange.h"
#include "net/net_limits.h"

enum connection_state { CONNECTION_OPEN, CONNECTION_ENDED, CONNECTION_FINISHING, CONNECTION_CLOSED };

/* Bytes that have arrived and belong to no exchange yet: a frame that is not whole, frames that wait for their turn. */
struct pending {
    struct block block; /* its capacity is charged to the budget */
    size_t start;       /* of the first byte not consumed */
    size_t end;         /* behind the last byte that has arrived */
};

struct connection {
    struct connections *set;
    const struct connection_listener *listener;
    struct net_stream *stream; /* NULL once closed */
    enum connection_state state;
    struct list_node node; /* in its set, until it is freed */
    uint64_t id;
    void *user;
    struct pending pending;
    size_t expected_bytes; /* of the next frame with its size field, after a large one; else 0 */
    struct list exchanges; /* in request order, those unanswered */
    uint32_t exchanges_count;
    uint32_t executing;       /* of them */
    uint32_t executing_alone; /* of those */
    size_t queued_bytes;      /* of replies, in memory */
    int64_t active_ns;        /* bytes last moved */
    struct loop_task turn_end;
    bool turn_end_deferred;
    bool authenticated;
    bool muted;
    bool write_blocked; /* the stream took no more: go on when it is writable */
    bool waits_for_memory;
    bool wanted_read; /* what the stream was last told */
    bool wanted_write;
    bool first_frame_seen;
    bool abort;       /* close with a reset */
    bool closed_told; /* to the handler */
    struct loop_timer mute;
    struct loop_timer idle;
    struct budget_waiter waiter;
    struct net_address peer; /* they outlive the stream */
    struct net_address local;
};

struct connections {
    struct loop *loop;
    struct connection_handler handler;
    struct frame_memory memory;
    struct connection_limits *limits;
    struct log *log;
    struct list all;
    uint64_t next_id;
    bool draining;
    struct loop_task *drained;
    struct connections_stats stats;
    struct log_rate garbage_lines;
    struct log_rate refused_lines;
    struct log_rate closed_lines;
    /* One read at a time happens on a loop, so one buffer serves all: what waits in front of it, then what it brings.
     */
    uint8_t scratch[CONNECTION_DIRECT_BYTES_MIN + CONNECTION_WAITING_BYTES_MAX + 2 * CONNECTION_READ_BYTES_MAX];
};

/* What every log line about a connection names. */
#define CONNECTION_FORMAT  "listener=%s peer=%s:%u"
#define CONNECTION_ARGS(c) (c)->listener->name, (c)->peer.host, (unsigned)(c)->peer.port

/* Looks at the connection again when the turn ends. */
void connection_schedule(struct connection *connection);
void connection_close_now(struct connection *connection);
/* The peer has closed its side. */
void connection_end(struct connection *connection);
/* Closes for want of memory, and says so. */
void connection_out_of_memory(struct connection *connection);
/* Closes because others wait for the memory of its half frame, and says so. */
void connection_evict(struct connection *connection);
/* The last thing that happens to a connection. */
void connection_free(struct connection *connection);
/* With what its set, listener and stream say; NULL: no memory. */
struct connection *connection_new(struct connections *set, const struct connection_listener *listener,
                                  struct net_stream *stream);

/* --- connection_read.c --- */

size_t connection_pending_bytes(const struct connection *connection);
void connection_pending_free(struct connection *connection);
/* A whole frame is in front of what waits. */
bool connection_has_whole_frame(const struct connection *connection);
bool connection_wants_to_read(const struct connection *connection);
/* The stream's readable. */
void connection_readable(void *context);
/* The budget's waiter resumes. */
void connection_memory_came(struct budget_waiter *waiter);
/* Starts what may start of the frames that wait. */
void connection_start_pending(struct connection *connection);

/* --- connection_write.c --- */

/* The stream's writable. */
void connection_writable(void *context);
/* Sends what may be sent: in the order of the requests, up to the first that still executes, at most *left bytes. */
void connection_flush(struct connection *connection, size_t *left);
/* Out of the queue, released, freed. */
void connection_remove_exchange(struct connection *connection, struct exchange_state *state, bool sent);

#endif
