/*
 * kafka_client: a small Kafka client for commands: one request at a time, blocking, over the generated codecs. It
 * learns the cluster's nodes from the bootstrap server and speaks with each the newest version that both know.
 *
 * Owns     every reply, in its arena, until it is closed.
 * Threads  one.
 */
#ifndef OTTLA_CLI_KAFKA_CLIENT_H
#define OTTLA_CLI_KAFKA_CLIENT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/net.h"
#include "net/dial.h"
#include "protocol/gen/metadata.h"
#include "protocol/message.h"

enum {
    KAFKA_NODES_MAX = 1000,
    KAFKA_NODE_ANY = -1, /* the bootstrap server */
    KAFKA_MESSAGE_CHARS = 512,
    KAFKA_API_KEYS_MAX = 128,
};

struct kafka_node {
    int32_t id;
    struct net_address address;
    struct dial dial;
    bool is_open;
    struct {
        int16_t from, to; /* to -1: not served */
    } versions[KAFKA_API_KEYS_MAX];
};

struct kafka_client {
    struct clock *clock;
    int64_t timeout_ms;
    int32_t correlation_id;
    struct arena arena;
    struct kafka_node bootstrap;
    struct kafka_node *nodes; /* grow in kafka_client_metadata */
    uint32_t node_count;
    uint32_t node_room;
    char message[KAFKA_MESSAGE_CHARS]; /* why the last call failed, in words */
};

/* bootstrap: host:port[,host:port...], the first that answers. The client is to be closed in any case. */
MUST_CHECK enum err kafka_client_open(struct kafka_client *client, struct clock *clock, const char *bootstrap,
                                      int64_t timeout_ms);
void kafka_client_close(struct kafka_client *client);

/*
 * One request, and its response. version_max: at most this version; out (may be NULL): the one spoken.
 *
 * ERR_UNSUPPORTED_VERSION  the node does not serve it
 * ERR_CLOSED, ERR_REQUEST_TIMED_OUT, ERR_MALFORMED, ERR_NOMEM; client->message says it in words
 */
MUST_CHECK enum err kafka_call(struct kafka_client *client, int32_t node_id, const struct message_type *request_type,
                               int16_t version_max, const void *request, const struct message_type *response_type,
                               void *response, int16_t *version);
/* The newest version of it that the node and we have; -1: none. The node has been asked before. */
int16_t kafka_version(struct kafka_client *client, int32_t node_id, const struct message_type *request_type);
/* Asks for topics (NULL: none; names), and learns the nodes. */
MUST_CHECK enum err kafka_client_metadata(struct kafka_client *client, const struct bytes *topics, uint32_t count,
                                          struct metadata_response *response);
/*
 * Whether a coordinator is to be asked again, found anew: it loads, moves or is being made, and since began_ns (of the
 * client's clock, monotonic) less than the client's timeout has gone by. A moment has passed then.
 */
bool kafka_client_asks_again(struct kafka_client *client, enum err err, int64_t began_ns);
/* The node that coordinates the group; as patient as kafka_client_asks_again. */
MUST_CHECK enum err kafka_client_coordinator(struct kafka_client *client, struct bytes group_id, int32_t *node_id);
/* NULL: not known. */
const struct net_address *kafka_client_address(struct kafka_client *client, int32_t node_id);
/* Says it in client->message, after "what: "; gives err back. */
enum err kafka_client_refused(struct kafka_client *client, enum err err, const char *what);

#endif
