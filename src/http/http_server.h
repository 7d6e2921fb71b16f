/*
 * http_server: just enough HTTP/1.1 to be read by people and tools: one GET a connection, answered and closed. Written
 * on the net seam, so that its memory and its connections are bounded, and hostile input is a unit test.
 *
 *   READING -> ASKING -> WRITING -> closed; a peer that goes away in ASKING is forgotten once the answer is there
 *
 * Limits   HTTP_CONNECTIONS_MAX (who comes beyond is answered 503), HTTP_REQUEST_BYTES_MAX (431, once
 *          HTTP_DROPPED_BYTES_MAX more have come or its end has: to close on bytes unread would be a reset, and that
 *          may overtake the answer), HTTP_TIME_MS_MAX for the request to come in and again for the answer to leave
 *          (closed), HTTP_REPLIES_BYTES_MAX of answers that have not left (503, but for the only one and for those of
 *          HTTP_SMALL_BYTES_MAX).
 * Rebinding  over a loopback address only the names of loopback are served (403 for others): a page in a browser on
 *          this machine cannot make the browser read what is here by a name of its own (DNS rebinding).
 * Threads  its loop's; http_server_new from any, before the loop serves it.
 */
#ifndef OTTLA_HTTP_HTTP_SERVER_H
#define OTTLA_HTTP_HTTP_SERVER_H

#include "base/arena.h"
#include "base/log.h"
#include "base/net.h"

enum {
    HTTP_CONNECTIONS_MAX = 32,
    HTTP_REQUEST_BYTES_MAX = 8 * 1024,
    HTTP_DROPPED_BYTES_MAX = 64 * 1024,
    HTTP_TIME_MS_MAX = 10000,
    HTTP_REPLIES_BYTES_MAX = 64 * 1024 * 1024, /* 600,000 groups, once */
    HTTP_SMALL_BYTES_MAX = 16 * 1024,
};

struct http_exchange;
struct http_server;

struct http_server_spec {
    struct net *net;
    struct loop *loop;
    struct log *log;
    struct net_address address;
    /* path: as it came, with its query, still escaped. Ends in http_reply, at once or later. */
    void (*asked)(void *context, struct http_exchange *exchange, struct bytes path);
    void *context;
};

/* Listens. bound: out, with the port that the system chose for 0. ERR_BUSY, ERR_PERMISSION, ERR_NOT_FOUND, ERR_NOMEM.
 */
MUST_CHECK enum err http_server_new(const struct http_server_spec *spec, struct net_address *bound,
                                    struct http_server **server);
/* Nobody new; who is being answered still is. stopped runs once nobody is left, on the loop. */
void http_server_stop(struct http_server *server, void (*stopped)(void *context), void *context);
/* Once it is stopped. NULL does nothing. */
void http_server_free(struct http_server *server);

/* body: copied; application/json. */
void http_reply(struct http_exchange *exchange, int status, struct bytes body);
uint32_t http_server_connections(const struct http_server *server);

#endif
