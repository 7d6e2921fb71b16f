/* FindCoordinator: which node coordinates a group. The topic that coordinators stand on is made when somebody asks. */
#include "base/mem.h"
#include "broker/broker_internal.h"
#include "broker/group_topics_image.h"
#include "broker/handlers.h"
#include "broker/topic_config.h"
#include "coordinator/coordinator_key.h"
#include "protocol/gen/find_coordinator.h"

enum coordinator_type { COORDINATES_GROUP = 0, COORDINATES_TRANSACTION = 1, COORDINATES_SHARE = 2 };

enum { MAKE_ARENA_BYTES_MAX = 64 * 1024 };

/* ---- making the topic ---- */

struct make {
    struct metadata_call call;
    struct shard *shard;
    struct arena arena;
    struct create_topic topic;
};

static void made(struct metadata_call *call)
{
    struct make *make = LIST_ENTRY(call, struct make, call);
    struct shard *shard = make->shard;
    const struct create_topic *topic = &make->topic;
    enum err err = call->request.err != ERR_OK ? call->request.err : topic->err;
    struct bytes message = call->request.err != ERR_OK ? call->request.message : topic->message;

    bool missing = err != ERR_OK && err != ERR_TOPIC_ALREADY_EXISTS; /* another shard asked, too */

    /* Clients ask again and again, several times a second: it is said once, until it could be made. */
    if (!atomic_exchange(&shard->broker->coordinators_missing, missing) && missing)
        log_error(&shard->broker->log,
                  "internal topic cannot be made, its coordinators are not available topic=%.*s partitions=%d "
                  "replication_factor=%d err=%s %.*s",
                  BYTES_PRINTF(topic->name), topic->partition_count, topic->replication_factor, err_name(err),
                  BYTES_PRINTF(message));
    shard->groups.making = NULL;
    arena_deinit(&make->arena);
    mem_free(make);
    shard_closing_ended(shard);
}

/* One at a time for each shard; whoever asked meanwhile asks again. */
static void make_topic(struct request *request, struct bytes name)
{
    struct shard *shard = request->shard;
    struct make *make = NULL;

    if (shard->groups.making != NULL || shard->stopping)
        return;
    make = mem_calloc(1, sizeof(*make));
    if (make == NULL)
        return;
    arena_init(&make->arena, MAKE_ARENA_BYTES_MAX);
    make->shard = shard;
    make->topic = (struct create_topic){.name = name, .partition_count = -1, .replication_factor = -1};
    if (!topic_internal_settings(shard->broker->config, &make->topic, &make->arena)) {
        arena_deinit(&make->arena);
        mem_free(make);
        return;
    }
    make->call = (struct metadata_call){.home = shard->loop, .done = made};
    make->call.request.type = CONTROLLER_CREATE_TOPICS;
    make->call.request.arena = &make->arena;
    make->call.request.create_topics = (struct create_topics){.topics = &make->topic, .count = 1};
    shard->groups.making = &make->call;
    shard->closing++;
    metadata_node_call(shard->broker->metadata, &make->call);
}

/* ---- where it is ---- */

struct node_address {
    int32_t id;
    struct bytes host;
    int32_t port;
};

static enum err find_group(struct request *request, struct bytes key, struct node_address *node)
{
    const struct image_topic *topic =
        request->image == NULL ? NULL : image_topic_by_name(request->image, group_topic_name);
    const struct image_broker *broker = NULL;
    int32_t leader = IMAGE_LEADER_NONE;
    enum err err = ERR_OK;

    if (!request_may(request, MAY_DESCRIBE, ON_GROUP, key))
        return ERR_GROUP_AUTHORIZATION_FAILED;
    if (topic == NULL) {
        make_topic(request, group_topic_name);
        return ERR_COORDINATOR_NOT_AVAILABLE;
    }
    leader = topic->partitions[coordinator_key_partition(key, topic->partition_count)]->leader;
    broker = image_broker(request->image, leader);
    if (broker == NULL || broker->fenced)
        return ERR_COORDINATOR_NOT_AVAILABLE;
    err = broker_address_of(request, leader, &node->host, &node->port);
    if (err == ERR_OK)
        node->id = leader;
    return err == ERR_OK || err == ERR_NOMEM ? err : ERR_COORDINATOR_NOT_AVAILABLE;
}

/* What exists is told truthfully: as long as there is no coordinator of a type, it is not available, which clients take
 * for "ask again". */
static enum err find_coordinator(struct request *request, int8_t type, struct bytes key, struct node_address *node)
{
    *node = (struct node_address){-1, BYTES_LITERAL(""), -1};
    switch (type) {
    case COORDINATES_GROUP:
        return find_group(request, key, node);
    case COORDINATES_TRANSACTION:
        if (!request_may(request, MAY_DESCRIBE, ON_TRANSACTIONAL_ID, key))
            return ERR_TRANSACTIONAL_ID_AUTHORIZATION_FAILED;
        return ERR_COORDINATOR_NOT_AVAILABLE;
    case COORDINATES_SHARE:
        if (request->header.request_api_version < 6)
            return ERR_INVALID_REQUEST;
        if (!request_may(request, MAY_CLUSTER_ACTION, ON_CLUSTER, BYTES_LITERAL("kafka-cluster")))
            return ERR_CLUSTER_AUTHORIZATION_FAILED;
        return ERR_COORDINATOR_NOT_AVAILABLE;
    default:
        return ERR_INVALID_REQUEST;
    }
}

static void answer_one(struct request *request, const struct find_coordinator_request *in,
                       struct find_coordinator_response *response)
{
    struct node_address node;
    enum err err = find_coordinator(request, in->key_type, in->key, &node);

    response->error_code = err_wire(err);
    response->error_message = err == ERR_OK ? BYTES_LITERAL("NONE") : bytes_of_text(err_text(err));
    response->node_id = node.id;
    response->host = node.host;
    response->port = node.port;
}

void handle_find_coordinator(struct request *request, void *body)
{
    const struct find_coordinator_request *in = body;
    struct find_coordinator_response response;

    find_coordinator_response_init(&response);
    if (request->header.request_api_version < 4) {
        answer_one(request, in, &response);
        request_reply(request, &response);
        return;
    }
    response.coordinators = request_array(request, in->coordinator_keys_count, sizeof(*response.coordinators));
    if (response.coordinators == NULL) {
        request_close(request, "no memory for the reply");
        return;
    }
    for (uint32_t i = 0; i < in->coordinator_keys_count; i++) {
        struct find_coordinator_response_coordinator *entry = &response.coordinators[i];
        struct node_address node;
        enum err err = find_coordinator(request, in->key_type, in->coordinator_keys[i], &node);

        find_coordinator_response_coordinator_init(entry);
        entry->key = in->coordinator_keys[i];
        entry->node_id = node.id;
        entry->host = node.host;
        entry->port = node.port;
        entry->error_code = err_wire(err);
        entry->error_message = err == ERR_OK ? BYTES_LITERAL("") : bytes_of_text(err_text(err));
    }
    response.coordinators_count = in->coordinator_keys_count;
    request_reply(request, &response);
}
