#include "broker/request.h"

#include <stdio.h>

#include "base/assert.h"
#include "base/mem.h"
#include "broker/broker_internal.h"
#include "broker/client.h"
#include "broker/handlers.h"
#include "protocol/frame.h"

enum { WHY_CHARS = 160 }; /* of the line that says why a connection was closed */

static void tell_made(struct request *request)
{
    void (*tell)(struct request * request) = request->made;

    request->made = NULL;
    if (tell != NULL)
        tell(request);
}

static void free_request(struct request *request)
{
    struct client *client = connection_user(request->connection);

    tell_made(request);
    if (client != NULL && request->api->overlaps)
        client->overlapping_bytes -= request->exchange->frame_size;
    if (request->cleanup != NULL)
        request->cleanup(request);
    arena_deinit(&request->arena);
    image_drop(request->image);
    mem_free(request);
}

static void count_request(const struct request *request)
{
    const struct shard *shard = request->shard;

    broker_metrics_count(request->broker->metrics, shard->metrics, request->api,
                         loop_now_ns(shard->loop) - request->exchange->read_ns);
}

void request_close(struct request *request, const char *why)
{
    struct exchange *exchange = request->exchange;

    assert(request->state == REQUEST_EXECUTING);
    free_request(request);
    exchange_close(exchange, why);
}

void request_finish_silent(struct request *request)
{
    struct exchange *exchange = request->exchange;

    assert(request->state == REQUEST_EXECUTING);
    count_request(request);
    free_request(request);
    exchange_finish_silent(exchange);
}

void *request_array(struct request *request, size_t count, size_t size)
{
    return arena_array(&request->arena, count, size);
}

static void released(struct exchange *exchange, bool sent)
{
    struct request *request = exchange->user;

    (void)sent;
    assert(request->state == REQUEST_REPLIED);
    free_request(request);
}

static size_t arena_bytes_max(const struct broker *broker)
{
    uint64_t share = broker->env.memory_bytes_max / REQUEST_ARENA_SHARE_DIVISOR;

    return share < REQUEST_ARENA_BYTES_MAX ? (size_t)share : REQUEST_ARENA_BYTES_MAX;
}

/* What was allocated since the request was decoded stays until the client has taken the reply: many large ones that
 * nobody takes must not add up to more than the node has. */
static enum err charge_reply(struct request *request)
{
    size_t bytes = request->arena.held_bytes - request->decoded_bytes;

    return bytes <= REPLY_BYTES_FREE ? ERR_OK : exchange_reserve(request->exchange, bytes);
}

enum err request_reserve(struct request *request, size_t bytes)
{
    return bytes <= REPLY_BYTES_FREE ? ERR_OK : exchange_reserve(request->exchange, bytes);
}

void request_charge(struct request *request, enum api_quota kind, uint64_t amount)
{
    const struct broker *broker = request->broker;
    int32_t throttle_ms = 0;

    if (broker->quota == NULL)
        return;
    throttle_ms = broker->quota(broker->quota_context, request, kind, amount);
    if (throttle_ms > request->throttle_ms) /* several quotas: the hardest counts, as in Kafka */
        request->throttle_ms = throttle_ms;
}

/* The outcome is known. */
static void decide(struct request *request)
{
    assert(request->state == REQUEST_EXECUTING);
    request->decided_ns = loop_now_ns(request->shard->loop);
    request_charge(request, QUOTA_REQUEST, (uint64_t)(request->decided_ns - request->exchange->started_ns));
    if (request->throttle_ms > 0)
        connection_mute(request->connection, request->decided_ns + (int64_t)request->throttle_ms * 1000000);
}

static void encode(struct request *request, void *response)
{
    struct reply *reply = &request->reply;

    if (request->throttle_ms > 0)
        memcpy((uint8_t *)response + request->api->throttle_offset, &request->throttle_ms,
               sizeof(request->throttle_ms));
    reply->err =
        frame_encode_response(request->api->response, request->header.request_api_version,
                              request->header.correlation_id, response, &request->arena, &reply->slices, &reply->count);
}

static void leave(struct request *request)
{
    struct reply *reply = &request->reply;

    loop_event(request->shard->loop, "reply api=a correlation=b", request->api->key, request->header.correlation_id);
    if (reply->err == ERR_OK)
        reply->err = charge_reply(request);
    if (reply->err != ERR_OK) {
        log_line_rated(&request->broker->log, &request->broker->bad_requests, LOG_ERROR,
                       "reply cannot be encoded or kept api=%s version=%d held_bytes=%zu err=%s", request->api->name,
                       request->header.request_api_version, request->arena.held_bytes, err_name(reply->err));
        request_close(request, "reply cannot be encoded");
        return;
    }
    tell_made(request);
    count_request(request);
    request->state = REQUEST_REPLIED;
    exchange_free_frame(request->exchange); /* what the reply took from it is copied by now */
    exchange_reply(request->exchange, reply->slices, reply->count, released);
}

void request_reply(struct request *request, void *response)
{
    decide(request);
    encode(request, response);
    leave(request);
}

static void make(struct request *request)
{
    void *response = request->reply.make(request);

    if (response == NULL)
        request->reply.err = ERR_NOMEM;
    else
        encode(request, response);
}

static void make_job(struct loop_job *job)
{
    make(LIST_ENTRY(job, struct request, reply.job));
}

static void job_done(struct loop_job *job)
{
    leave(LIST_ENTRY(job, struct request, reply.job));
}

void request_reply_made(struct request *request, size_t bytes, void *(*response)(struct request *request))
{
    decide(request);
    request->reply.make = response;
    if (bytes > REPLY_TURN_BYTES) {
        request->reply.job = (struct loop_job){.run = make_job, .done = job_done};
        loop_submit(request->shard->loop, &request->reply.job);
        return;
    }
    make(request);
    leave(request);
}

bool request_may(const struct request *request, enum operation operation, enum resource_type type, struct bytes name)
{
    const struct broker *broker = request->broker;

    return broker->access == NULL || broker->access(broker->access_context, request, operation, type, name);
}

int32_t request_operations(const struct request *request, enum resource_type type, struct bytes name)
{
    /* What can be asked of each type (AclEntry.supportedOperations). */
    static const uint16_t topic = 1 << MAY_READ | 1 << MAY_WRITE | 1 << MAY_CREATE | 1 << MAY_DELETE | 1 << MAY_ALTER |
                                  1 << MAY_DESCRIBE | 1 << MAY_DESCRIBE_CONFIGS | 1 << MAY_ALTER_CONFIGS;
    static const uint16_t group =
        1 << MAY_READ | 1 << MAY_DELETE | 1 << MAY_DESCRIBE | 1 << MAY_DESCRIBE_CONFIGS | 1 << MAY_ALTER_CONFIGS;
    static const uint16_t cluster = 1 << MAY_CREATE | 1 << MAY_ALTER | 1 << MAY_DESCRIBE | 1 << MAY_CLUSTER_ACTION |
                                    1 << MAY_DESCRIBE_CONFIGS | 1 << MAY_ALTER_CONFIGS | 1 << MAY_IDEMPOTENT_WRITE;
    uint16_t all = type == ON_TOPIC ? topic : type == ON_GROUP ? group : cluster;
    int32_t allowed = 0;

    for (int operation = MAY_READ; operation <= MAY_IDEMPOTENT_WRITE; operation++)
        if ((all & 1 << operation) != 0 && request_may(request, (enum operation)operation, type, name))
            allowed |= 1 << operation;
    return allowed;
}

static bool is_served(const struct api *api, const struct listener *listener)
{
    return (api->listeners & (listener->is_controller ? ON_CONTROLLER : ON_BROKER)) != 0;
}

/* Ends what has not become a request: err's fate is the connection's. */
static void refuse(struct shard *shard, struct exchange *exchange, const struct request_header *header,
                   const struct wire_reader *reader, enum err err)
{
    char why[WHY_CHARS];

    if (err == ERR_NOMEM) { /* no reply without memory either */
        exchange_close(exchange, "no memory for the request");
        return;
    }
    assert(err_fate(err) == FATE_CLOSE);
    if (err == ERR_MALFORMED)
        (void)snprintf(why, sizeof(why), "%s api=%d version=%d position_bytes=%zu wanted_bytes=%zu left_bytes=%zu",
                       err_text(err), header->request_api_key, header->request_api_version,
                       wire_reader_position(reader), reader->wanted, reader->left);
    else
        (void)snprintf(why, sizeof(why), "%s api=%d version=%d", err_text(err), header->request_api_key,
                       header->request_api_version);
    broker_metrics_refuse(shard->broker->metrics, shard->metrics);
    exchange_close(exchange, why);
}

static struct request *request_new(struct shard *shard, struct connection *connection, struct exchange *exchange,
                                   const struct api *api, const struct request_header *header)
{
    struct request *request = mem_calloc(1, sizeof(*request));
    struct client *client = connection_user(connection);
    size_t bound = api->bound(exchange->frame_size);

    if (request == NULL)
        return NULL;
    request->shard = shard;
    request->broker = shard->broker;
    request->exchange = exchange;
    request->connection = connection;
    request->listener = &shard->broker->listeners.entries[connection_listener(connection)->index];
    request->api = api;
    request->header = *header;
    request->principal = BYTES_LITERAL("User:ANONYMOUS");
    if (client != NULL && api->overlaps)
        client->overlapping_bytes += exchange->frame_size;
    if (client != NULL && client->name[0] != '\0') {
        request->software_name = bytes_of_text(client->name);
        request->software_version = bytes_of_text(client->version);
    }
    if (shard->image != NULL)
        request->image = image_keep(shard->image);
    arena_init(&request->arena, bound < arena_bytes_max(shard->broker) ? bound : arena_bytes_max(shard->broker));
    exchange->user = request;
    return request;
}

/* The header, and the row that serves it. ERR_MALFORMED; ERR_UNSERVED: the version gate stands before all else (trap
 * B014). ApiVersions alone is answered softly where its version is too new. */
static enum err find_api(const struct listener *listener, struct wire_reader *reader, struct request_header *header,
                         const struct api **found)
{
    enum err err = frame_read_request_header(reader, header);
    const struct api *api = err == ERR_OK ? api_find(header->request_api_key) : NULL;

    if (err != ERR_OK)
        return err;
    if (api == NULL || !is_served(api, listener) || header->request_api_version < api->version_min ||
        (header->request_api_version > api->version_max && api->key != API_API_VERSIONS))
        return ERR_UNSERVED;
    *found = api;
    return ERR_OK;
}

/* body: out, in the request's arena, charged to the connection where it takes more than its frame did. */
static enum err decode(struct request *request, struct wire_reader *reader, void **body)
{
    const struct message_type *type = request->api->request;
    enum err err = ERR_OK;

    *body = arena_alloc(&request->arena, type->structure->size);
    if (*body == NULL)
        return ERR_NOMEM;
    err = message_read(type, reader, &request->arena, request->header.request_api_version, *body);
    if (err == ERR_OK && request->arena.held_bytes > request->exchange->frame_size)
        err = exchange_reserve(request->exchange, request->arena.held_bytes);
    return err;
}

void request_begin(struct shard *shard, struct connection *connection, struct exchange *exchange)
{
    const struct listener *listener = &shard->broker->listeners.entries[connection_listener(connection)->index];
    struct request_header header = {0};
    struct request *request = NULL;
    const struct api *api = NULL;
    struct wire_reader reader;
    void *body = NULL;
    enum err err = ERR_OK;

    wire_reader_init(&reader, bytes_of(exchange->frame, exchange->frame_size));
    err = find_api(listener, &reader, &header, &api);
    loop_event(shard->loop, "request api=a correlation=b", header.request_api_key, header.correlation_id);
    if (err == ERR_OK) {
        request = request_new(shard, connection, exchange, api, &header);
        err = request == NULL ? ERR_NOMEM : ERR_OK;
    }
    if (err != ERR_OK) {
        refuse(shard, exchange, &header, &reader, err);
        return;
    }
    if (header.request_api_version > api->version_max) {
        request->state = REQUEST_EXECUTING;
        handle_unknown_api_versions(request);
        return;
    }
    err = decode(request, &reader, &body);
    if (err != ERR_OK) {
        free_request(request);
        refuse(shard, exchange, &header, &reader, err);
        return;
    }
    request->state = REQUEST_EXECUTING;
    request->decoded_bytes = request->arena.held_bytes;
    request->arena.limit_bytes = arena_bytes_max(shard->broker); /* from here on the handler takes what it needs */
    api->handle(request, body);
}

bool request_overlaps(struct connection *connection, struct bytes frame)
{
    const struct client *client = connection_user(connection);
    const struct api *api = NULL;

    if (frame.size < 2)
        return false;
    api = api_find((int16_t)((uint16_t)frame.data[0] << 8 | frame.data[1]));
    if (api == NULL || !api->overlaps)
        return false;
    return client != NULL && client->overlapping_bytes + frame.size <= CLIENT_OVERLAP_BYTES_MAX;
}
