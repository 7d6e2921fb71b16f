#include "broker/broker_internal.h"
#include "broker/handlers.h"
#include "protocol/gen/find_coordinator.h"

enum coordinator_type { COORDINATES_GROUP = 0, COORDINATES_TRANSACTION = 1, COORDINATES_SHARE = 2 };

/* What exists is told truthfully: as long as there is no coordinator of a type, it is not available, which clients take
 * for "ask again". */
static enum err find_coordinator(const struct request *request, int8_t type, struct bytes key)
{
    switch (type) {
    case COORDINATES_GROUP:
        if (!request_may(request, MAY_DESCRIBE, ON_GROUP, key))
            return ERR_GROUP_AUTHORIZATION_FAILED;
        return ERR_COORDINATOR_NOT_AVAILABLE;
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
    enum err err = find_coordinator(request, in->key_type, in->key);

    response->error_code = err_wire(err);
    response->error_message = bytes_of_text(err_text(err));
    response->node_id = -1;
    response->host = BYTES_LITERAL("");
    response->port = -1;
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
        enum err err = find_coordinator(request, in->key_type, in->coordinator_keys[i]);

        find_coordinator_response_coordinator_init(entry);
        entry->key = in->coordinator_keys[i];
        entry->node_id = -1;
        entry->port = -1;
        entry->error_code = err_wire(err);
        entry->error_message = bytes_of_text(err_text(err));
    }
    response.coordinators_count = in->coordinator_keys_count;
    request_reply(request, &response);
}
