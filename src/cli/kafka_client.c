#include "cli/kafka_client.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/big_endian.h"
#include "base/clock.h"
#include "base/mem.h"
#include "net/address.h"
#include "protocol/frame.h"
#include "protocol/gen/api_versions.h"
#include "protocol/gen/find_coordinator.h"

enum {
    SIZE_BYTES = 4,
    RESPONSE_BYTES_MAX = 512 * 1024 * 1024, /* more than any broker answers to what we ask */
    ARENA_BYTES_MAX = 1024 * 1024 * 1024,
    NODES_FIRST = 8,
    API_VERSIONS_VERSION = 0, /* every broker answers it */
    METADATA_VERSION_MAX = 12,
    FIND_COORDINATOR_VERSION_MAX = 3,
    PAUSE_MS = 250, /* a new cluster makes its first coordinator within a moment */
    PORT_MAX = 65535,
};

static const char client_id[] = "ottla-cli";

enum err kafka_client_refused(struct kafka_client *client, enum err err, const char *what)
{
    (void)snprintf(client->message, sizeof(client->message), "%s: %s (%s)", what, err_text(err), err_name(err));
    return err;
}

static enum err failed(struct kafka_client *client, const struct kafka_node *node, enum err err, const char *what)
{
    (void)snprintf(client->message, sizeof(client->message), "%.200s:%u %s: %s", node->address.host, node->address.port,
                   what,
                   err == ERR_CLOSED              ? "the connection was refused or closed"
                   : err == ERR_NOT_FOUND         ? "the name does not resolve"
                   : err == ERR_REQUEST_TIMED_OUT ? "no answer in time"
                                                  : err_text(err));
    return err;
}

/* ---- one request ---- */

static enum err send_request(struct kafka_client *client, struct kafka_node *node, const struct message_type *type,
                             int16_t version, const void *request)
{
    struct slice *slices = NULL;
    uint32_t count = 0;
    size_t size = 0;
    uint8_t *frame = NULL;
    uint8_t *at = NULL;
    enum err err =
        frame_encode_request(type, version, ++client->correlation_id, bytes_of(client_id, sizeof(client_id) - 1),
                             request, &client->arena, &slices, &count);

    if (err != ERR_OK)
        return err;
    for (uint32_t i = 0; i < count; i++)
        size += slices[i].size;
    frame = arena_alloc(&client->arena, SIZE_BYTES + size);
    if (frame == NULL)
        return ERR_NOMEM;
    big_endian_store_u32(frame, (uint32_t)size);
    at = frame + SIZE_BYTES;
    for (uint32_t i = 0; i < count; i++) {
        memcpy(at, slices[i].data, slices[i].size);
        at += slices[i].size;
    }
    return dial_write(&node->dial, bytes_of(frame, SIZE_BYTES + size));
}

static enum err read_response(struct kafka_client *client, struct kafka_node *node, int16_t api_key,
                              const struct message_type *type, int16_t version, void *response)
{
    uint8_t size_bytes[SIZE_BYTES];
    struct wire_reader reader;
    int32_t correlation_id = 0;
    uint32_t size = 0;
    uint8_t *body = NULL;
    enum err err = dial_read(&node->dial, size_bytes, sizeof(size_bytes));

    if (err != ERR_OK)
        return err;
    size = big_endian_load_u32(size_bytes);
    if (size > RESPONSE_BYTES_MAX)
        return ERR_MALFORMED; /* it does not speak Kafka */
    body = arena_alloc(&client->arena, size);
    if (body == NULL)
        return ERR_NOMEM;
    err = dial_read(&node->dial, body, size);
    if (err != ERR_OK)
        return err;
    wire_reader_init(&reader, bytes_of(body, size));
    err = frame_read_response_header(&reader, api_key, version, &correlation_id);
    if (err == ERR_OK && correlation_id != client->correlation_id)
        err = ERR_MALFORMED;
    return err == ERR_OK ? message_read(type, &reader, &client->arena, version, response) : err;
}

static enum err exchange(struct kafka_client *client, struct kafka_node *node, const struct message_type *request_type,
                         int16_t version, const void *request, const struct message_type *response_type, void *response)
{
    enum err err = send_request(client, node, request_type, version, request);

    if (err == ERR_OK)
        err = read_response(client, node, request_type->api_key, response_type, version, response);
    if (err != ERR_OK) {
        dial_close(&node->dial); /* what is left on it belongs to nobody */
        node->is_open = false;
    }
    return err;
}

/* ---- nodes ---- */

static enum err open_node(struct kafka_client *client, struct kafka_node *node)
{
    struct api_versions_request request;
    struct api_versions_response response;
    enum err err = ERR_OK;

    if (node->is_open)
        return ERR_OK;
    err = dial_open(&node->dial, client->clock, node->address.host, node->address.port, client->timeout_ms);
    if (err != ERR_OK)
        return failed(client, node, err, "cannot be reached");
    node->is_open = true;
    api_versions_request_init(&request);
    err = exchange(client, node, &api_versions_request_message, API_VERSIONS_VERSION, &request,
                   &api_versions_response_message, &response);
    if (err != ERR_OK)
        return failed(client, node, err, "does not answer as a Kafka broker does");
    for (uint32_t i = 0; i < KAFKA_API_KEYS_MAX; i++)
        node->versions[i].to = -1;
    for (uint32_t i = 0; i < response.api_keys_count; i++) {
        const struct api_version *row = &response.api_keys[i];

        if (row->api_key >= 0 && row->api_key < KAFKA_API_KEYS_MAX) {
            node->versions[row->api_key].from = row->min_version;
            node->versions[row->api_key].to = row->max_version;
        }
    }
    return ERR_OK;
}

enum err kafka_client_open(struct kafka_client *client, struct clock *clock, const char *bootstrap, int64_t timeout_ms)
{
    enum err err = ERR_USAGE;

    *client = (struct kafka_client){.clock = clock, .timeout_ms = timeout_ms};
    client->bootstrap.id = KAFKA_NODE_ANY;
    client->bootstrap.dial.fd = -1;
    arena_init(&client->arena, ARENA_BYTES_MAX);
    for (const char *at = bootstrap; err != ERR_OK && *at != '\0';) {
        const char *comma = strchr(at, ',');
        struct bytes one = bytes_trim(bytes_of(at, comma == NULL ? strlen(at) : (size_t)(comma - at)));

        at = comma == NULL ? at + strlen(at) : comma + 1;
        if (!address_parse(one, &client->bootstrap.address) || client->bootstrap.address.host[0] == '\0' ||
            client->bootstrap.address.port == 0) {
            (void)snprintf(client->message, sizeof(client->message), "\"%.*s\" is not host:port",
                           (int)(one.size < 200 ? one.size : 200), (const char *)one.data);
            return ERR_USAGE;
        }
        err = open_node(client, &client->bootstrap);
    }
    if (err == ERR_USAGE)
        (void)snprintf(client->message, sizeof(client->message), "no bootstrap server is given");
    return err;
}

void kafka_client_close(struct kafka_client *client)
{
    dial_close(&client->bootstrap.dial);
    for (uint32_t i = 0; i < client->node_count; i++)
        dial_close(&client->nodes[i].dial);
    mem_free(client->nodes);
    arena_deinit(&client->arena);
}

static struct kafka_node *find_node(struct kafka_client *client, int32_t node_id)
{
    if (node_id == KAFKA_NODE_ANY)
        return &client->bootstrap;
    for (uint32_t i = 0; i < client->node_count; i++)
        if (client->nodes[i].id == node_id)
            return &client->nodes[i];
    return NULL;
}

const struct net_address *kafka_client_address(struct kafka_client *client, int32_t node_id)
{
    const struct kafka_node *node = find_node(client, node_id);

    return node == NULL ? NULL : &node->address;
}

static enum err learn_node(struct kafka_client *client, int32_t id, struct bytes host, int32_t port)
{
    struct kafka_node *node = find_node(client, id);

    if (node != NULL)
        return ERR_OK;
    if (client->node_count == KAFKA_NODES_MAX || host.size > NET_HOST_CHARS_MAX || port < 1 || port > PORT_MAX)
        return ERR_MALFORMED;
    if (mem_grow(&client->nodes, &client->node_room, client->node_count + 1, NODES_FIRST, sizeof(*client->nodes)) !=
        ERR_OK)
        return ERR_NOMEM;
    node = &client->nodes[client->node_count++];
    *node = (struct kafka_node){.id = id, .dial = {.fd = -1}};
    memcpy(node->address.host, host.data, host.size);
    node->address.port = (uint16_t)port;
    return ERR_OK;
}

static int16_t common_version(const struct kafka_node *node, const struct message_type *type, int16_t version_max)
{
    int16_t to = -1;

    if (type->api_key < 0 || type->api_key >= KAFKA_API_KEYS_MAX)
        return -1;
    to = node->versions[type->api_key].to;
    if (to > type->version_max)
        to = type->version_max;
    if (to > version_max)
        to = version_max;
    return to >= type->version_min && to >= node->versions[type->api_key].from ? to : -1;
}

int16_t kafka_version(struct kafka_client *client, int32_t node_id, const struct message_type *request_type)
{
    const struct kafka_node *node = find_node(client, node_id);

    return node == NULL || !node->is_open ? -1 : common_version(node, request_type, INT16_MAX);
}

enum err kafka_call(struct kafka_client *client, int32_t node_id, const struct message_type *request_type,
                    int16_t version_max, const void *request, const struct message_type *response_type, void *response,
                    int16_t *version)
{
    struct kafka_node *node = find_node(client, node_id);
    int16_t spoken = 0;
    enum err err = ERR_OK;

    if (node == NULL) {
        (void)snprintf(client->message, sizeof(client->message), "node %d is not known", node_id);
        return ERR_BROKER_NOT_AVAILABLE;
    }
    err = open_node(client, node);
    if (err != ERR_OK)
        return err;
    spoken = common_version(node, request_type, version_max);
    if (spoken < 0) {
        (void)snprintf(client->message, sizeof(client->message), "%.200s:%u does not serve %s", node->address.host,
                       node->address.port, request_type->name);
        return ERR_UNSUPPORTED_VERSION;
    }
    if (version != NULL)
        *version = spoken;
    err = exchange(client, node, request_type, spoken, request, response_type, response);
    return err == ERR_OK ? ERR_OK : failed(client, node, err, request_type->name);
}

enum err kafka_client_metadata(struct kafka_client *client, const struct bytes *topics, uint32_t count,
                               struct metadata_response *response)
{
    struct metadata_request request;
    enum err err = ERR_OK;

    metadata_request_init(&request);
    request.allow_auto_topic_creation = false;
    request.topics = arena_array(&client->arena, count, sizeof(*request.topics));
    if (request.topics == NULL)
        return kafka_client_refused(client, ERR_NOMEM, "Metadata");
    request.topics_count = count;
    for (uint32_t i = 0; i < count; i++) {
        metadata_request_topic_init(&request.topics[i]);
        request.topics[i].name = topics[i];
    }
    err = kafka_call(client, KAFKA_NODE_ANY, &metadata_request_message, METADATA_VERSION_MAX, &request,
                     &metadata_response_message, response, NULL);
    for (uint32_t i = 0; err == ERR_OK && i < response->brokers_count; i++) {
        err = learn_node(client, response->brokers[i].node_id, response->brokers[i].host, response->brokers[i].port);
        if (err != ERR_OK)
            (void)kafka_client_refused(client, err, "Metadata");
    }
    return err;
}

static enum err ask_coordinator(struct kafka_client *client, struct bytes group_id,
                                struct find_coordinator_response *response)
{
    struct find_coordinator_request request;
    enum err err = ERR_OK;

    find_coordinator_request_init(&request);
    request.key = group_id;
    err = kafka_call(client, KAFKA_NODE_ANY, &find_coordinator_request_message, FIND_COORDINATOR_VERSION_MAX, &request,
                     &find_coordinator_response_message, response, NULL);
    return err == ERR_OK ? err_from_wire(response->error_code) : err;
}

bool kafka_client_asks_again(struct kafka_client *client, enum err err, int64_t began_ns)
{
    if (err != ERR_COORDINATOR_LOAD_IN_PROGRESS && err != ERR_COORDINATOR_NOT_AVAILABLE && err != ERR_NOT_COORDINATOR &&
        err != ERR_UNSTABLE_OFFSET_COMMIT)
        return false;
    if (clock_mono_ns(client->clock) - began_ns >= client->timeout_ms * NS_PER_MS)
        return false;
    clock_sleep_ms(PAUSE_MS);
    return true;
}

enum err kafka_client_coordinator(struct kafka_client *client, struct bytes group_id, int32_t *node_id)
{
    int64_t began_ns = clock_mono_ns(client->clock);
    struct find_coordinator_response response;
    enum err err = ERR_OK;

    client->message[0] = '\0';
    do
        err = ask_coordinator(client, group_id, &response);
    while (kafka_client_asks_again(client, err, began_ns));
    if (err != ERR_OK)
        return client->message[0] != '\0' ? err : kafka_client_refused(client, err, "the group's coordinator");
    *node_id = response.node_id;
    err = learn_node(client, response.node_id, response.host, response.port);
    return err == ERR_OK ? ERR_OK : kafka_client_refused(client, err, "FindCoordinator");
}
