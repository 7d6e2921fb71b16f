/*
 * node_world: a whole broker in the simulated world for tests of what it answers: started, asked over real frames by
 * as many clients as a test wants, stopped. Everything runs on the test's thread, when it says so.
 *
 *   node_world_begin -> node_ask ... -> node_world_end
 */
#ifndef OTTLA_TESTS_BROKER_NODE_WORLD_H
#define OTTLA_TESTS_BROKER_NODE_WORLD_H

#include "protocol/gen/fetch.h"
#include "protocol/gen/produce.h"
#include "sim/sim_client.h"
#include "sim/sim_node.h"

enum { NODE_CLIENTS_MAX = 8, NODE_HEARD_CHARS = 16384 };

struct node_world {
    struct sim sim;
    struct sim_fs disk;
    struct sim_network network;
    struct sim_node node;
    struct sim_client clients[NODE_CLIENTS_MAX];
    struct { /* node_deny's */
        int operation;
        int type;
        uint32_t asked;
    } denied;
    const char *hears; /* node_hear's */
    char heard[NODE_HEARD_CHARS];
    size_t heard_size;
    uint32_t heard_count;
};

/* A question under way. answered: the reply is there, or (err ERR_CLOSED) never will be. */
struct node_call {
    struct sim_call call; /* first */
    bool answered;
    enum err err;
};

/* A node that serves, with that many reactors. The seed decides what happens when. */
void node_world_begin(struct node_world *world, uint64_t seed, uint32_t reactors);
/* The same with settings of its own, "key=value", NULL at the end. */
void node_world_begin_with(struct node_world *world, uint64_t seed, uint32_t reactors, ...);
/* Stops it cleanly, which checks that nothing is left behind. */
void node_world_end(struct node_world *world);
/* From here on world->heard has the lines of the node's log with `what` in them, one below the other, and heard_count
 * says how many; what finds no room is not in it. */
void node_hear(struct node_world *world, const char *what);
/* Runs the world for so long. */
void node_world_pass(struct node_world *world, int64_t ms);

/* Sends; node_answered waits. response_type and version as in sim_client_call. */
void node_send(struct node_world *world, uint32_t client, const struct message_type *request_type, const void *request,
               const struct message_type *response_type, int16_t version, struct node_call *call);
/* Runs the world until it is answered, for at most so long: false when it was not. */
bool node_answered(struct node_world *world, struct node_call *call, int64_t ms);
/* Both; the reply, which lives until node_call_end; NULL: the connection was closed instead. Within a virtual minute.
 */
void *node_ask(struct node_world *world, uint32_t client, const struct message_type *request_type, const void *request,
               const struct message_type *response_type, int16_t version, struct node_call *call);
void node_call_end(struct node_call *call);

/* A topic of so many partitions; configs "key=value", NULL at the end. */
struct uuid node_create_topic(struct node_world *world, const char *name, int32_t partitions, ...);
enum err node_delete_topic(struct node_world *world, const char *name);
/* One record of value_bytes; base offset, or -1 and why. */
int64_t node_produce(struct node_world *world, uint32_t client, struct uuid topic, int32_t partition,
                     size_t value_bytes, enum err *err);
/* The same with a key, for topics that are compacted. */
int64_t node_produce_keyed(struct node_world *world, uint32_t client, struct uuid topic, int32_t partition,
                           struct bytes key, size_t value_bytes, enum err *err);

/* A start that cannot use the second of several log directories. */
void node_start_without_second_dir(struct node_world *world);

/* As clients do it: again and again, until the group's coordinator is there. */
void node_find_coordinator(struct node_world *world, const char *group);

enum { NODE_COMMIT_EPOCH = 5 };
#define NODE_COMMIT_METADATA "m"
/* Commits an offset of a partition of "t", with that leader epoch and metadata, from outside of group management. Asks
 * once; the code. */
int16_t node_commit(struct node_world *world, const char *group, int32_t partition, int64_t offset);

/* From here on nobody may do that operation (0: any) on resources of that type (0: any); denied.asked counts how often
 * the node asked for something since. The double stands where an authorizer will. */
void node_deny(struct node_world *world, int operation, int type);
/* All may do everything again. */
void node_allow(struct node_world *world);

/* A Fetch v12 or v13 over partitions of one topic, each at its offset. */
struct node_fetch {
    struct fetch_request request;
    struct fetch_request_fetch_topic topic;
    struct fetch_request_fetch_partition partitions[64];
};
void node_fetch_init(struct node_fetch *fetch, const char *name, struct uuid topic, int32_t partitions);
/* The partition's part of the reply; NULL: it is not in it. */
const struct fetch_response_partition_data *node_fetched(const struct fetch_response *response, int32_t partition);

#endif
