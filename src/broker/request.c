#include "broker/request.h"

#include <stdio.h>

#include "base/assert.h"
#include "base/mem.h"
#include "broker/broker_internal.h"
#include "broker/client.h"
#include "broker/handlers.h"
#include "broker/request_aside.h"
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
    struct client *client = request->api->overlaps ? connection_user(request->connection) : NULL;

    tell_made(request);
    if (client != NULL)
        client->overlapping_bytes -= request->exchange->frame_size;
    if (request->cleanup != NULL)
        request->cleanup(request);
    arena_deinit(&request->arena);
    image_drop(request->image);
    mem_free(request);
}

/* Aside. */
static void free_aside(struct request *request)
{
    struct shard *aside = request->shard;

    request_aside_give(request);
    free_request(request);
    shard_closing_ended(aside);
}

/* From home: on its shard. */
static void let_go(struct request *request)
{
    if (request_is_aside(request))
        request_aside_go(request, free_aside);
    else
        free_request(request);
}

static void count_request(const struct request *request)
{
    const struct shard *shard = request->home;

    broker_metrics_count(request->broker->metrics, shard->metrics, request->api,
                         loop_now_ns(shard->loop) - request->exchange->read_ns);
}

/* At home. The reason may lie in the request: it is said first. */
static void close_exchange(struct request *request)
{
    struct exchange *exchange = request->exchange;
    char why[WHY_CHARS];

    (void)snprintf(why, sizeof(why), "%s", request->closed_why);
    let_go(request);
    exchange_close(exchange, why);
}

void request_close(struct request *request, const char *why)
{
    assert(request->state == REQUEST_EXECUTING);
    request->closed_why = why;
    if (request_is_aside(request))
        request_aside_return(request, close_exchange);
    else
        close_exchange(request);
}

void request_finish_silent(struct request *request)
{
    struct exchange *exchange = request->exchange;

    assert(request->state == REQUEST_EXECUTING && !request_is_aside(request));
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
    let_go(request);
}

static size_t arena_bytes_max(const struct broker *broker)
{
    uint64_t share = broker->env.memory_bytes_max / REQUEST_ARENA_SHARE_DIVISOR;

    return share < REQUEST_ARENA_BYTES_MAX ? (size_t)share : REQUEST_ARENA_BYTES_MAX;
}

static enum err reserve(struct request *request, size_t bytes)
{
    return request_is_aside(request) ? request_aside_reserve(request, bytes)
                                     : exchange_reserve(request->exchange, bytes);
}

/* What was allocated since the request was decoded stays until the client has taken the reply: many large ones that
 * nobody takes must not add up to more than the node has. */
static enum err charge_reply(struct request *request)
{
    size_t bytes = request->arena.held_bytes - request->decoded_bytes;

    return bytes <= REPLY_BYTES_FREE ? ERR_OK : reserve(request, bytes);
}

enum err request_reserve(struct request *request, size_t bytes)
{
    return bytes <= REPLY_BYTES_FREE ? ERR_OK : reserve(request, bytes);
}

struct connection *request_slowed(const struct request *request)
{
    return request_is_aside(request) ? NULL : request->connection;
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

/* At home. */
static void leave(struct request *request)
{
    loop_event(request->home->loop, "reply api=a correlation=b", request->api->key, request->header.correlation_id);
    if (request->throttle_ms > 0)
        connection_mute(request->connection, request->decided_ns + (int64_t)request->throttle_ms * 1000000);
    count_request(request);
    request->state = REQUEST_REPLIED;
    exchange_free_frame(request->exchange); /* what the reply took from it is copied by now */
    exchange_reply(request->exchange, request->reply.slices, request->reply.count, released);
}

/* The reply is made, or could not be. */
static void finish(struct request *request)
{
    struct reply *reply = &request->reply;

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
    if (request_is_aside(request))
        request_aside_return(request, leave);
    else
        leave(request);
}

void request_reply(struct request *request, void *response)
{
    decide(request);
    encode(request, response);
    finish(request);
}

static void make(struct request *request)
{
    void *response = request->reply.make(request);

    if (response == NULL)
        request->reply.err = ERR_NOMEM;
    else
        encode(request, response);
}

/* Aside, of a request that is not. */
static void make_aside(struct request *request)
{
    make(request);
    request_aside_return(request, finish);
}

void request_reply_made(struct request *request, size_t bytes, void *(*response)(struct request *request))
{
    decide(request);
    request->reply.make = response;
    if (bytes > REPLY_TURN_BYTES && !request_is_aside(request)) {
        request_aside_go(request, make_aside);
        return;
    }
    make(request);
    finish(request);
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

/* Why the connection ends of what has not become a request. */
static void say_refused(char why[WHY_CHARS], const struct request_header *header, const struct wire_reader *reader,
                        enum err err)
{
    assert(err == ERR_NOMEM || err == ERR_LIMIT || err_fate(err) == FATE_CLOSE);
    if (err == ERR_NOMEM) /* no reply without memory either */
        (void)snprintf(why, WHY_CHARS, "no memory for the request");
    else if (err == ERR_MALFORMED)
        (void)snprintf(why, WHY_CHARS, "%s api=%d version=%d position_bytes=%zu wanted_bytes=%zu left_bytes=%zu",
                       err_text(err), header->request_api_key, header->request_api_version,
                       wire_reader_position(reader), reader->wanted, reader->left);
    else
        (void)snprintf(why, WHY_CHARS, "%s api=%d version=%d",
                       err == ERR_LIMIT ? "more entries than may be" : err_text(err), header->request_api_key,
                       header->request_api_version);
}

static void refuse(struct shard *shard, struct exchange *exchange, const struct request_header *header,
                   const struct wire_reader *reader, enum err err)
{
    char why[WHY_CHARS];

    say_refused(why, header, reader, err);
    if (err != ERR_NOMEM)
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
    request->home = shard;
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
        err = reserve(request, request->arena.held_bytes);
    return err;
}

static void execute(struct request *request, void *body)
{
    request->state = REQUEST_EXECUTING;
    request->decoded_bytes = request->arena.held_bytes;
    request->arena.limit_bytes = arena_bytes_max(request->broker); /* from here on the handler takes what it needs */
    request->api->handle(request, body);
}

/* Aside: decoded from the beginning, and worked on there. */
static void begin_aside(struct request *request)
{
    struct wire_reader reader;
    struct request_header header;
    char why[WHY_CHARS];
    struct bytes kept = {0};
    void *body = NULL;
    enum err err = ERR_OK;

    request->shard->closing++; /* a stop waits until it is freed */
    wire_reader_init(&reader, bytes_of(request->exchange->frame, request->exchange->frame_size));
    err = frame_read_request_header(&reader, &header);
    if (err == ERR_OK)
        err = decode(request, &reader, &body);
    if (err == ERR_OK) {
        execute(request, body);
        return;
    }
    say_refused(why, &request->header, &reader, err);
    if (err != ERR_NOMEM)
        broker_metrics_refuse(request->broker->metrics, request->shard->metrics);
    arena_reset(&request->arena);
    kept = arena_printf(&request->arena, "%s", why);
    request->state = REQUEST_EXECUTING;
    request_close(request, kept.data == NULL ? "no memory for the request" : (const char *)kept.data);
}

static void set_aside(struct request *request)
{
    arena_reset(&request->arena);
    request->shard = broker_aside(request->broker);
    request_aside_go(request, begin_aside);
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
    reader.entries_left = REQUEST_TURN_ENTRIES;
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
    if (api->overlaps)
        reader.entries_left = REQUEST_OVERLAPPING_ENTRIES_MAX;
    err = decode(request, &reader, &body);
    if (err == ERR_OK) {
        execute(request, body);
    } else if (err == ERR_LIMIT && !api->overlaps) {
        set_aside(request);
    } else {
        free_request(request);
        refuse(shard, exchange, &header, &reader, err);
    }
}

void request_abandon(struct request *request)
{
    if (request_is_aside(request))
        request_aside_abandon(request);
    else if (request->abandoned != NULL)
        request->abandoned(request);
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
