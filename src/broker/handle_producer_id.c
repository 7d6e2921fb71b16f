/* InitProducerId without a transactional id: a fresh producer id out of the shard's block. */
#include "broker/broker_internal.h"
#include "broker/handlers.h"
#include "protocol/gen/init_producer_id.h"

enum { NO_PRODUCER_ID = -1, NO_PRODUCER_EPOCH = -1 };

struct producer_id_wait {
    struct list_node node; /* in the shard's list of those that wait for a block */
    struct request *request;
    struct init_producer_id_response response;
};

static void answer(struct producer_id_wait *wait, enum err err, int64_t producer_id)
{
    wait->response.error_code = err_wire(err);
    wait->response.producer_id = err == ERR_OK ? producer_id : -1;
    wait->response.producer_epoch = err == ERR_OK ? 0 : -1;
    request_reply(wait->request, &wait->response);
}

static void ask_for_block(struct shard *shard);

static void serve(struct shard *shard)
{
    struct shard_producer_ids *ids = &shard->producer_ids;

    while (ids->left > 0) {
        struct list_node *node = list_take_first(&ids->waiting);

        if (node == NULL)
            return;
        ids->left--;
        answer(LIST_ENTRY(node, struct producer_id_wait, node), ERR_OK, ids->next++);
    }
    if (!list_is_empty(&ids->waiting) && !ids->asking)
        ask_for_block(shard);
}

static void block_came(struct metadata_call *ask)
{
    struct shard *shard = LIST_ENTRY(ask, struct shard, producer_ids.request);
    struct shard_producer_ids *ids = &shard->producer_ids;
    enum err err = ask->request.err;

    ids->asking = false;
    if (err == ERR_OK) {
        ids->next = ask->request.allocate_producer_ids.first;
        ids->left = ask->request.allocate_producer_ids.count;
    }
    arena_reset(&ids->arena);
    if (err == ERR_OK) {
        serve(shard);
        return;
    }
    /* Clients take this for "ask again", as while Kafka's own block is on its way. */
    for (struct list_node *node = NULL; (node = list_take_first(&ids->waiting)) != NULL;)
        answer(LIST_ENTRY(node, struct producer_id_wait, node), ERR_COORDINATOR_LOAD_IN_PROGRESS, -1);
}

static void ask_for_block(struct shard *shard)
{
    struct shard_producer_ids *ids = &shard->producer_ids;

    ids->asking = true;
    ids->request = (struct metadata_call){.home = shard->loop, .done = block_came};
    ids->request.request.type = CONTROLLER_ALLOCATE_PRODUCER_IDS;
    ids->request.request.arena = &ids->arena;
    ids->request.request.allocate_producer_ids = (struct allocate_producer_ids){
        .broker_id = shard->broker->node_id, .broker_epoch = atomic_load(&shard->broker->broker_epoch)};
    metadata_node_call(shard->broker->metadata, &ids->request);
}

void handle_init_producer_id(struct request *request, void *body)
{
    const struct init_producer_id_request *in = body;
    struct producer_id_wait *wait = arena_alloc(&request->arena, sizeof(*wait));

    if (wait == NULL) {
        request_close(request, "no memory for the request");
        return;
    }
    wait->request = request;
    list_node_init(&wait->node);
    init_producer_id_response_init(&wait->response);
    if (in->transactional_id.data != NULL) {
        enum err err = ERR_COORDINATOR_NOT_AVAILABLE; /* there is no transaction coordinator yet */

        if (!request_may(request, MAY_WRITE, ON_TRANSACTIONAL_ID, in->transactional_id))
            err = ERR_TRANSACTIONAL_ID_AUTHORIZATION_FAILED;
        else if (in->transactional_id.size == 0)
            err = ERR_INVALID_REQUEST;
        answer(wait, err, -1);
        return;
    }
    if (!request_may(request, MAY_IDEMPOTENT_WRITE, ON_CLUSTER, BYTES_LITERAL("kafka-cluster")) &&
        !request_may(request, MAY_WRITE, ON_TOPIC, BYTES_LITERAL(""))) {
        answer(wait, ERR_CLUSTER_AUTHORIZATION_FAILED, -1);
        return;
    }
    if ((in->producer_id == NO_PRODUCER_ID) != (in->producer_epoch == NO_PRODUCER_EPOCH)) {
        answer(wait, ERR_INVALID_REQUEST, -1);
        return;
    }
    list_add_last(&request->shard->producer_ids.waiting, &wait->node);
    serve(request->shard);
}
