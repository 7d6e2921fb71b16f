/*
 * request: one request from decoded frame to reply: who asks, where, until when, and the memory that lives as long.
 * A handler gets it, asks access for every topic, group and id it touches, and ends it once with request_reply,
 * request_finish_silent or request_close, at once or later; always on its own shard's loop. That is its connection's,
 * or, for one of many entries, the one aside (request_aside.h): a handler does not care.
 *
 * States    DECODING -> EXECUTING -> REPLIED, then freed; without a reply freed at once. Each ending asserts that it is
 *           the first. The arena, the frame (unless freed) and what cleanup frees stay until the reply's last byte has
 *           left, so a reply may point into them.
 * Threads   the shard's loop. A handler may lend parts to other shards (scatter.h, fetch_part.h).
 */
#ifndef OTTLA_BROKER_REQUEST_H
#define OTTLA_BROKER_REQUEST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/bytes.h"
#include "base/err.h"
#include "broker/api_table.h"
#include "broker/listeners.h"
#include "net/connection.h"
#include "protocol/gen/headers.h"
#include "raftmeta/image.h"

struct broker;
struct shard;

enum request_state {
    REQUEST_DECODING,
    REQUEST_EXECUTING, /* the handler's, until it ends it */
    REQUEST_REPLIED,   /* its bytes are on their way */
};

/* A reply on its way into bytes. */
struct reply {
    struct slice *slices;
    uint32_t count;
    enum err err;
    void *(*make)(struct request *request);
};

/* request_aside.c's. */
struct request_aside {
    struct loop_task task; /* there and back */
    void (*run)(struct request *request);
    struct loop_task abandon;
    size_t reserved_bytes;
    bool is_over; /* it is on its way home */
};

struct request {
    enum request_state state;
    struct shard *shard; /* where it is worked on */
    struct shard *home;  /* its connection's */
    struct broker *broker;
    struct exchange *exchange;     /* its home's, but for the frame */
    struct connection *connection; /* likewise, but for its addresses */
    const struct listener *listener;
    const struct api *api;
    struct request_header header;
    struct bytes principal;        /* "User:ANONYMOUS" */
    struct bytes software_name;    /* of the client, from ApiVersions; null until told */
    struct bytes software_version; /* likewise */
    struct arena arena;
    struct image *image;  /* held: the metadata that this request is answered from */
    int64_t deadline_ns;  /* monotonic: the client waits until then; 0: as long as it takes */
    int64_t decided_ns;   /* monotonic: the outcome was known */
    size_t decoded_bytes; /* of the arena, before the handler took any */
    int32_t throttle_ms;  /* goes into the reply; the connection is muted for as long */
    /* Optional; called once when the reply has left, or could not. */
    void (*cleanup)(struct request *request);
    /* Optional; called once, on its shard, when the reply's bytes are there and counted, or there will be none: what
     * the request kept others from is free. */
    void (*made)(struct request *request);
    /* Optional; the client is gone: what the request waits for may be given up. It still has to be ended. */
    void (*abandoned)(struct request *request);
    void *user;             /* the handler's */
    const char *closed_why; /* a literal, or in the arena */
    struct reply reply;
    struct request_aside aside;
};

/* Frames become requests; called by the shard's connections. */
void request_begin(struct shard *shard, struct connection *connection, struct exchange *exchange);
bool request_overlaps(struct connection *connection, struct bytes frame);
/* The client is gone; what the request waits for may be given up. On its home, while it executes. */
void request_abandon(struct request *request);

/* The one way out: sets the throttle time, encodes at the request's version, hands the bytes over. response: of the
 * type that the API's row writes; may point into the arena and the frame. */
void request_reply(struct request *request, void *response);
/*
 * The same for what is made of much: response puts it together, of what the request holds (its arena, its frame, its
 * image, what its cleanup frees); NULL: no memory. More than REPLY_TURN_BYTES: on the loop aside, the encoding too; the
 * request is its alone meanwhile, whatever becomes of the client. It may ask request_may.
 */
void request_reply_made(struct request *request, size_t bytes, void *(*response)(struct request *request));
/* Whom a full mailbox slows down (outbox.h): its connection; NULL for a request aside, which executes alone anyway. */
struct connection *request_slowed(const struct request *request);
/* No reply (Produce with acks=0). */
void request_finish_silent(struct request *request);
/* Ends the connection instead of answering; why: a literal for the log line. */
void request_close(struct request *request, const char *why);

/* Charges memory that the handler takes outside the arena to the node's budget, until the reply has left; a little is
 * free. On the request's shard. ERR_NOMEM: close the request. */
MUST_CHECK enum err request_reserve(struct request *request, size_t bytes);
/* Array of count zeroed elements in the arena; NULL over its limit. */
void *request_array(struct request *request, size_t count, size_t size) MUST_CHECK;

/* On any thread that works for the request. Whether the principal may do that. Today everybody may everything; tests
 * put a denying double in its place (struct broker, access). */
MUST_CHECK bool request_may(const struct request *request, enum operation operation, enum resource_type type,
                            struct bytes name);
/* Charges what the request did to its principal's quota of that kind; the reply then carries how long it has to wait,
 * and the connection is muted for as long (KIP-219). Nobody has quotas today; tests put a double there (struct broker,
 * quota). Replies charge QUOTA_REQUEST by themselves. */
void request_charge(struct request *request, enum api_quota kind, uint64_t amount);
/* AuthorizedOperations: the set, as bits 1 << operation, of what Kafka lists for the type that the principal may. */
int32_t request_operations(const struct request *request, enum resource_type type, struct bytes name);

#endif
