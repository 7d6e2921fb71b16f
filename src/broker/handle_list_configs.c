/* ListConfigResources (KIP-1142): the names of what has, or can have, settings. */
#include "broker/broker_internal.h"
#include "broker/handlers.h"
#include "protocol/gen/list_config_resources.h"

enum { BROKER_LOGGER = 8, TYPES_SINCE = 1 };

struct listing {
    struct request *request;
    struct list_config_resources_response response;
    uint32_t room;
    int8_t type; /* that is being listed */
};

static enum err add(struct listing *listing, struct bytes name)
{
    struct list_config_resources_response *out = &listing->response;
    struct config_resource *grown = NULL;

    if (out->config_resources_count == listing->room) {
        grown = request_array(listing->request, 2 * (size_t)listing->room + 16, sizeof(*grown));
        if (grown == NULL)
            return ERR_NOMEM;
        if (listing->room > 0)
            memcpy(grown, out->config_resources, listing->room * sizeof(*grown));
        out->config_resources = grown;
        listing->room = 2 * listing->room + 16;
    }
    config_resource_init(&out->config_resources[out->config_resources_count]);
    out->config_resources[out->config_resources_count].resource_name = name;
    out->config_resources[out->config_resources_count].resource_type = listing->type;
    out->config_resources_count++;
    return ERR_OK;
}

/* An image_configs_fn: groups and client metrics are named by what is set for them. */
static enum err add_configs(void *context, const struct image_configs *configs)
{
    struct listing *listing = context;

    return configs->type == listing->type ? add(listing, configs->resource) : ERR_OK;
}

/* An image_topic_fn. */
static enum err add_topic(void *context, const struct image_topic *topic)
{
    return add(context, topic->name);
}

/* An image_broker_fn. */
static enum err add_broker(void *context, const struct image_broker *broker)
{
    struct listing *listing = context;
    struct bytes name = arena_printf(&listing->request->arena, "%d", broker->id);

    return name.data == NULL ? ERR_NOMEM : add(listing, name);
}

/* ERR_UNSUPPORTED_VERSION: nothing of that type is listed. */
static enum err add_type(struct listing *listing, int8_t type)
{
    const struct image *image = listing->request->image;

    listing->type = type;
    switch (type) {
    case CONFIG_GROUP:
    case CONFIG_CLIENT_METRICS:
        return image == NULL ? ERR_OK : image_each_configs(image, add_configs, listing);
    case CONFIG_TOPIC:
        return image == NULL ? ERR_OK : image_each_topic(image, add_topic, listing);
    case CONFIG_BROKER:
    case BROKER_LOGGER:
        return image == NULL ? ERR_OK : image_each_broker(image, add_broker, listing);
    default:
        return ERR_UNSUPPORTED_VERSION;
    }
}

static enum err list(struct listing *listing, const struct list_config_resources_request *in)
{
    static const int8_t all[] = {CONFIG_GROUP, CONFIG_CLIENT_METRICS, BROKER_LOGGER, CONFIG_BROKER, CONFIG_TOPIC};
    enum err err = ERR_OK;

    if (!request_may(listing->request, MAY_DESCRIBE_CONFIGS, ON_CLUSTER, BYTES_LITERAL("kafka-cluster")))
        return ERR_CLUSTER_AUTHORIZATION_FAILED;
    if (listing->request->header.request_api_version < TYPES_SINCE)
        return add_type(listing, CONFIG_CLIENT_METRICS);
    for (uint32_t i = 0; i < in->resource_types_count && err == ERR_OK; i++)
        err = add_type(listing, in->resource_types[i]);
    for (size_t i = 0; in->resource_types_count == 0 && i < sizeof(all) && err == ERR_OK; i++)
        err = add_type(listing, all[i]);
    return err;
}

void handle_list_config_resources(struct request *request, void *body)
{
    struct listing listing = {.request = request};
    enum err err = ERR_OK;

    list_config_resources_response_init(&listing.response);
    err = list(&listing, body);
    if (err == ERR_NOMEM) {
        request_close(request, "no memory for the reply");
        return;
    }
    if (err != ERR_OK)
        listing.response.config_resources_count = 0;
    listing.response.error_code = err_wire(err);
    request_reply(request, &listing.response);
}
