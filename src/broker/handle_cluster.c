#include "broker/broker_internal.h"
#include "broker/handlers.h"
#include "protocol/gen/describe_cluster.h"

enum { ENDPOINTS_OF_BROKERS = 1, ENDPOINTS_OF_CONTROLLERS = 2 };

/* Collects the rows of the image that the reply shows. */
struct lister {
    struct request *request;
    struct describe_cluster_response *response;
    bool fenced_too;
};

static enum err add_broker(void *context, const struct image_broker *row)
{
    struct lister *lister = context;
    struct describe_cluster_broker *entry = &lister->response->brokers[lister->response->brokers_count];
    enum err err = ERR_OK;

    if (row->fenced && !lister->fenced_too)
        return ERR_OK;
    describe_cluster_broker_init(entry);
    entry->broker_id = row->id;
    entry->rack = row->rack;
    entry->is_fenced = row->fenced;
    err = broker_address_of(lister->request, row->id, &entry->host, &entry->port);
    if (err == ERR_NOMEM)
        return err;
    if (err == ERR_OK)
        lister->response->brokers_count++;
    return ERR_OK;
}

/* The one voter: this node, at its advertised controller listener. */
static enum err add_controller(struct lister *lister)
{
    const struct broker *broker = lister->request->broker;
    struct describe_cluster_broker *entry = &lister->response->brokers[lister->response->brokers_count++];
    struct net_address address;

    describe_cluster_broker_init(entry);
    entry->broker_id = broker->node_id;
    if (lister->request->listener->is_controller) {
        address = broker_address_for(broker, lister->request->connection);
        entry->port = address.port;
        return arena_copy(&lister->request->arena, bytes_of_text(address.host), &entry->host);
    }
    entry->host = broker->voter_endpoint.host;
    entry->port = broker->voter_endpoint.port;
    return ERR_OK;
}

void handle_describe_cluster(struct request *request, void *body)
{
    const struct describe_cluster_request *in = body;
    struct describe_cluster_response response;
    struct lister lister = {request, &response, in->include_fenced_brokers};
    int8_t serves = request->listener->is_controller ? ENDPOINTS_OF_CONTROLLERS : ENDPOINTS_OF_BROKERS;
    enum err err = ERR_OK;

    /* With an error everything else is as in an empty reply. */
    describe_cluster_response_init(&response);
    if (in->endpoint_type != ENDPOINTS_OF_BROKERS && in->endpoint_type != ENDPOINTS_OF_CONTROLLERS) {
        response.error_code = err_wire(ERR_UNSUPPORTED_ENDPOINT_TYPE);
        request_reply(request, &response);
        return;
    }
    if (in->endpoint_type != serves) { /* KIP-919: ask at a listener of that type */
        response.error_code = err_wire(ERR_MISMATCHED_ENDPOINT_TYPE);
        request_reply(request, &response);
        return;
    }
    response.endpoint_type = in->endpoint_type;
    response.cluster_id = bytes_of_text(request->broker->cluster_id);
    response.controller_id = request->broker->node_id;
    if (in->include_cluster_authorized_operations)
        response.cluster_authorized_operations =
            request_may(request, MAY_DESCRIBE, ON_CLUSTER, BYTES_LITERAL("kafka-cluster"))
                ? request_operations(request, ON_CLUSTER, BYTES_LITERAL("kafka-cluster"))
                : 0;
    response.brokers =
        request_array(request, request->image == NULL ? 1 : (size_t)image_broker_count(request->image) + 1,
                      sizeof(*response.brokers));
    if (response.brokers == NULL)
        err = ERR_NOMEM;
    else if (serves == ENDPOINTS_OF_CONTROLLERS)
        err = add_controller(&lister);
    else if (request->image != NULL)
        err = image_each_broker(request->image, add_broker, &lister);
    if (err != ERR_OK) {
        request_close(request, "no memory for the reply");
        return;
    }
    request_reply(request, &response);
}
