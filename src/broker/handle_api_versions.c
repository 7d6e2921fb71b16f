#include "broker/broker_internal.h"
#include "broker/client.h"
#include "broker/handlers.h"
#include "protocol/gen/api_keys.h"
#include "protocol/gen/api_versions.h"

static bool is_word(uint8_t c)
{
    return byte_is_letter(c) || byte_is_digit(c);
}

/* [a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?  (KIP-511) */
static bool is_software_text(struct bytes text)
{
    if (text.size == 0 || !is_word(text.data[0]) || !is_word(text.data[text.size - 1]))
        return false;
    for (size_t i = 0; i < text.size; i++)
        if (!is_word(text.data[i]) && text.data[i] != '-' && text.data[i] != '.')
            return false;
    return true;
}

static void copy_text(char to[CLIENT_SOFTWARE_CHARS_MAX + 1], struct bytes from)
{
    size_t size = from.size < CLIENT_SOFTWARE_CHARS_MAX ? from.size : CLIENT_SOFTWARE_CHARS_MAX;

    memcpy(to, from.data, size);
    to[size] = '\0';
}

/* Without memory the client stays nameless. */
static void remember_client(struct request *request, const struct api_versions_request *body)
{
    struct client *client = connection_user(request->connection);

    if (client == NULL)
        return;
    copy_text(client->name, body->client_software_name);
    copy_text(client->version, body->client_software_version);
}

static bool is_offered(const struct request *request, const struct api *api)
{
    uint8_t listener = request->listener->is_controller ? ON_CONTROLLER : ON_BROKER;

    if ((api->listeners & listener) == 0)
        return false;
    return api->feature == NULL ||
           (request->image != NULL && image_feature(request->image, bytes_of_text(api->feature)) > 0);
}

static bool list_apis(struct request *request, struct api_versions_response *response)
{
    response->api_keys = request_array(request, api_count(), sizeof(*response->api_keys));
    if (response->api_keys == NULL)
        return false;
    for (uint32_t i = 0; i < api_count(); i++) {
        const struct api *api = api_at(i);
        struct api_version *entry = &response->api_keys[response->api_keys_count];

        if (!is_offered(request, api))
            continue;
        api_version_init(entry);
        entry->api_key = api->key;
        /* The controller has no Produce, and so no need of its false minimum. */
        entry->min_version = api->advertised_min;
        entry->max_version = api->version_max;
        response->api_keys_count++;
    }
    return true;
}

struct feature_list {
    struct finalized_feature_key *entries;
    uint32_t count;
    uint32_t room;
};

static enum err add_finalized(void *context, struct bytes name, int16_t level)
{
    struct feature_list *list = context;

    if (level == 0 || list->count == list->room)
        return ERR_OK;
    finalized_feature_key_init(&list->entries[list->count]);
    list->entries[list->count].name = name;
    list->entries[list->count].max_version_level = level;
    list->entries[list->count].min_version_level = level;
    list->count++;
    return ERR_OK;
}

static bool list_features(struct request *request, struct api_versions_response *response)
{
    struct feature_list finalized = {.room = broker_feature_count};

    response->supported_features = request_array(request, broker_feature_count, sizeof(*response->supported_features));
    finalized.entries = request_array(request, finalized.room, sizeof(*finalized.entries));
    if (response->supported_features == NULL || finalized.entries == NULL)
        return false;
    for (uint32_t i = 0; i < broker_feature_count; i++) {
        const struct image_feature_range *feature = &broker_features[i];
        struct supported_feature_key *entry = &response->supported_features[response->supported_features_count];

        /* KAFKA-17011: clients before version 4 take a minimum of 0 for an error, so it is left out (trap B004). */
        if (feature->min == 0 && request->header.request_api_version < 4)
            continue;
        supported_feature_key_init(entry);
        entry->name = feature->name;
        entry->min_version = feature->min;
        entry->max_version = feature->max;
        response->supported_features_count++;
    }
    if (request->image == NULL || image_metadata_version(request->image) == 0)
        return true; /* nothing is finalised that we know of: epoch -1 */
    if (image_each_feature(request->image, add_finalized, &finalized) != ERR_OK)
        return false;
    response->finalized_features = finalized.entries;
    response->finalized_features_count = finalized.count;
    response->finalized_features_epoch = image_offset(request->image);
    return true;
}

/* KIP-1242: a client that means another cluster or node finds its way anew. */
static bool is_for_another(const struct request *request, const struct api_versions_request *in)
{
    if (in->cluster_id.data != NULL && !bytes_equal(in->cluster_id, bytes_of_text(request->broker->cluster_id)))
        return true;
    return in->node_id >= 0 && in->node_id != request->broker->node_id;
}

void handle_api_versions(struct request *request, void *body)
{
    const struct api_versions_request *in = body;
    struct api_versions_response response;

    api_versions_response_init(&response);
    if (request->header.request_api_version >= 3 &&
        (!is_software_text(in->client_software_name) || !is_software_text(in->client_software_version))) {
        response.error_code = err_wire(ERR_INVALID_REQUEST);
        request_reply(request, &response);
        return;
    }
    if (request->header.request_api_version >= 3)
        remember_client(request, in);
    if (is_for_another(request, in)) {
        response.error_code = err_wire(ERR_REBOOTSTRAP_REQUIRED);
        request_reply(request, &response);
        return;
    }
    if (!list_apis(request, &response) || !list_features(request, &response)) {
        request_close(request, "no memory for the reply");
        return;
    }
    request_reply(request, &response);
}

void handle_unknown_api_versions(struct request *request)
{
    struct api_versions_response response;
    struct api_version entry;

    api_versions_response_init(&response);
    api_version_init(&entry);
    entry.api_key = API_API_VERSIONS;
    entry.min_version = request->api->advertised_min;
    entry.max_version = request->api->version_max;
    response.error_code = err_wire(ERR_UNSUPPORTED_VERSION);
    response.api_keys = &entry;
    response.api_keys_count = 1;
    request->header.request_api_version = 0;
    request_reply(request, &response);
}
