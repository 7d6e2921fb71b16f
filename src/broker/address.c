#include "broker/broker_internal.h"

struct net_address broker_address_for(const struct broker *broker, const struct connection *connection)
{
    const struct listener *listener = &broker->listeners.entries[connection_listener(connection)->index];

    if (listener->advertised.host[0] != '\0')
        return listener->advertised;
    return *connection_local(connection);
}

enum err broker_address_of(struct request *request, int32_t node_id, struct bytes *host, int32_t *port)
{
    struct broker *broker = request->broker;
    const struct image_broker *row = NULL;
    struct bytes name = bytes_of_text(request->listener->name);

    *host = BYTES_LITERAL("");
    *port = -1;
    if (node_id == broker->node_id && !request->listener->is_controller) {
        struct net_address address = broker_address_for(broker, request->connection);

        *port = address.port;
        return arena_copy(&request->arena, bytes_of_text(address.host), host);
    }
    row = request->image == NULL ? NULL : image_broker(request->image, node_id);
    if (row == NULL)
        return ERR_BROKER_NOT_AVAILABLE;
    for (uint32_t i = 0; i < row->endpoint_count; i++)
        if (bytes_equal(row->endpoints[i].name, name)) {
            *host = row->endpoints[i].host;
            *port = row->endpoints[i].port;
            return ERR_OK;
        }
    return ERR_LISTENER_NOT_FOUND;
}
