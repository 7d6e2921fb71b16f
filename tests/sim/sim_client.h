/*
 * sim_client: a client of Kafka's protocol inside the simulated world: one connection, requests in order, each answered
 * by a callback. It encodes and decodes with the project's own codecs; what it says is what the test tells it to.
 *
 * Threads  one; callbacks come on the client's loop.
 */
#ifndef OTTLA_TESTS_SIM_CLIENT_H
#define OTTLA_TESTS_SIM_CLIENT_H

#include "base/arena.h"
#include "base/list.h"
#include "protocol/message.h"
#include "sim/sim_net.h"

/* A request under way; embedded in the caller's, borrowed until answered. */
struct sim_call {
    const struct message_type *response_type;
    int16_t api_key;
    int16_t version;
    /* err ERR_OK: response is of response_type and lives as long as the arena; ERR_CLOSED: no answer will come, and
     * whether the request took effect is unknown. */
    void (*answered)(struct sim_call *call, enum err err);
    void *response;
    struct arena arena; /* of the response; the caller deinits it */
    int32_t correlation_id;
    struct list_node node;
};

struct sim_client {
    struct sim_host *host;
    struct loop *loop;
    struct net_address address;
    const char *client_id;
    struct net_stream *stream;
    bool connecting;
    int32_t next_correlation_id;
    uint8_t *out; /* bytes not yet taken by the stream */
    size_t out_size;
    size_t out_room;
    uint8_t *in; /* an answer not yet whole */
    size_t in_size;
    size_t in_room;
    struct list calls; /* in order of sending */
};

void sim_client_init(struct sim_client *client, struct sim_host *host, struct loop *loop,
                     const struct net_address *address, const char *client_id);
/* Calls under way get ERR_CLOSED. */
void sim_client_deinit(struct sim_client *client);
/* Sends, connecting first where needed. request: of request_type, read within the call. */
void sim_client_call(struct sim_client *client, const struct message_type *request_type, const void *request,
                     const struct message_type *response_type, int16_t version, struct sim_call *call);
/* Sends what gets no answer (Produce with acks=0). */
void sim_client_tell(struct sim_client *client, const struct message_type *request_type, const void *request,
                     int16_t version);
/* Breaks the connection; calls under way get ERR_CLOSED. */
void sim_client_break(struct sim_client *client);

#endif
