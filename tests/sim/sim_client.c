#include "sim/sim_client.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "protocol/frame.h"

enum {
    CALL_ARENA_BYTES = 16 * 1024 * 1024,
    READ_BYTES = 8 * 1024,
    SIZE_BYTES = 4, /* in front of each frame */
};

static void append(uint8_t **buffer, size_t *size, size_t *room, const void *data, size_t count)
{
    if (*size + count > *room) {
        *room = (*size + count) * 2;
        *buffer = realloc(*buffer, *room);
        assert(*buffer != NULL); /* the test's own memory */
    }
    if (count > 0)
        memcpy(*buffer + *size, data, count);
    *size += count;
}

static struct sim_call *first_call(struct list *calls)
{
    return list_is_empty(calls) ? NULL : LIST_ENTRY(calls->head.next, struct sim_call, node);
}

static void lose(struct sim_client *client)
{
    struct list failed;
    struct sim_call *call = NULL;

    if (client->stream != NULL)
        net_close(client->stream, false);
    client->stream = NULL;
    client->out_size = 0;
    client->in_size = 0;
    /* Whoever is told may call again: that is for the next connection. */
    list_init(&failed);
    list_move_all(&failed, &client->calls);
    while ((call = first_call(&failed)) != NULL) {
        list_remove(&call->node);
        call->answered(call, ERR_CLOSED);
    }
}

static void send_more(struct sim_client *client)
{
    while (client->stream != NULL && client->out_size > 0) {
        struct slice slice = slice_of(client->out, client->out_size);
        size_t written = 0;
        enum err err = net_write(client->stream, &slice, 1, &written);

        if (err == ERR_WOULD_BLOCK)
            break;
        if (err != ERR_OK) {
            lose(client);
            return;
        }
        memmove(client->out, client->out + written, client->out_size - written);
        client->out_size -= written;
    }
    if (client->stream != NULL)
        net_want(client->stream, true, client->out_size > 0);
}

static void take_answer(struct sim_client *client, struct bytes frame)
{
    struct sim_call *call = first_call(&client->calls);
    struct wire_reader reader;
    int32_t correlation_id = 0;
    enum err err = ERR_OK;

    assert(call != NULL); /* an answer nobody asked for */
    list_remove(&call->node);
    arena_init(&call->arena, CALL_ARENA_BYTES);
    err = arena_copy(&call->arena, frame, &frame); /* the input moves on */
    assert(err == ERR_OK);
    wire_reader_init(&reader, frame);
    err = frame_read_response_header(&reader, call->api_key, call->version, &correlation_id);
    assert(err == ERR_OK && correlation_id == call->correlation_id); /* answers come in the order of the requests */
    call->response = arena_alloc(&call->arena, call->response_type->structure->size);
    assert(call->response != NULL);
    err = message_read(call->response_type, &reader, &call->arena, call->version, call->response);
    assert(err == ERR_OK && wire_reader_left(&reader) == 0); /* the broker's answers can be read, to their end */
    call->answered(call, ERR_OK);
}

static size_t frame_size(const struct sim_client *client)
{
    const uint8_t *at = client->in;

    return (size_t)at[0] << 24 | (size_t)at[1] << 16 | (size_t)at[2] << 8 | at[3];
}

static void on_readable(void *context)
{
    struct sim_client *client = context;
    uint8_t chunk[READ_BYTES];
    size_t got = 0;
    enum err err = net_read(client->stream, chunk, sizeof(chunk), &got);

    if (err == ERR_CLOSED) {
        lose(client);
        return;
    }
    append(&client->in, &client->in_size, &client->in_room, chunk, got);
    while (client->in_size >= SIZE_BYTES && client->in_size - SIZE_BYTES >= frame_size(client)) {
        struct net_stream *stream = client->stream;
        size_t size = SIZE_BYTES + frame_size(client);

        take_answer(client, bytes_of(client->in + SIZE_BYTES, size - SIZE_BYTES));
        if (client->stream != stream)
            return; /* the caller broke the connection */
        memmove(client->in, client->in + size, client->in_size - size);
        client->in_size -= size;
    }
}

static void on_writable(void *context)
{
    send_more(context);
}

static const struct net_stream_events events = {.readable = on_readable, .writable = on_writable};

static void on_connected(void *context, struct net_stream *stream, enum err err)
{
    struct sim_client *client = context;

    client->connecting = false;
    if (err != ERR_OK) {
        lose(client);
        return;
    }
    client->stream = stream;
    stream->events = &events;
    stream->context = client;
    send_more(client);
}

void sim_client_init(struct sim_client *client, struct sim_host *host, struct loop *loop,
                     const struct net_address *address, const char *client_id)
{
    *client = (struct sim_client){.host = host, .loop = loop, .address = *address, .client_id = client_id};
    list_init(&client->calls);
}

void sim_client_deinit(struct sim_client *client)
{
    lose(client);
    free(client->out);
    free(client->in);
}

/* Into the bytes that wait to be sent. */
static void encode(struct sim_client *client, const struct message_type *request_type, const void *request,
                   int16_t version, int32_t correlation_id)
{
    struct arena arena;
    struct slice *slices = NULL;
    uint32_t slice_count = 0;
    size_t size = 0;
    enum err err = ERR_OK;

    arena_init(&arena, CALL_ARENA_BYTES);
    err = frame_encode_request(request_type, version, correlation_id, bytes_of_text(client->client_id), request, &arena,
                               &slices, &slice_count);
    assert(err == ERR_OK);
    for (uint32_t i = 0; i < slice_count; i++)
        size += slices[i].size;
    uint8_t header[SIZE_BYTES] = {(uint8_t)(size >> 24), (uint8_t)(size >> 16), (uint8_t)(size >> 8), (uint8_t)size};
    append(&client->out, &client->out_size, &client->out_room, header, SIZE_BYTES);
    for (uint32_t i = 0; i < slice_count; i++)
        append(&client->out, &client->out_size, &client->out_room, slices[i].data, slices[i].size);
    arena_deinit(&arena);
}

/* Goes on sending, connecting first where needed. */
static void go_on(struct sim_client *client)
{
    enum err err = ERR_OK;

    if (client->stream != NULL) {
        net_want(client->stream, true, true);
    } else if (!client->connecting) {
        client->connecting = true;
        err = net_connect(&client->host->net, client->loop, &client->address, on_connected, client);
        assert(err == ERR_OK);
    }
}

void sim_client_call(struct sim_client *client, const struct message_type *request_type, const void *request,
                     const struct message_type *response_type, int16_t version, struct sim_call *call)
{
    call->response_type = response_type;
    call->api_key = request_type->api_key;
    call->version = version;
    call->response = NULL;
    call->correlation_id = client->next_correlation_id++;
    list_node_init(&call->node);
    encode(client, request_type, request, version, call->correlation_id);
    list_add_last(&client->calls, &call->node);
    go_on(client);
}

void sim_client_tell(struct sim_client *client, const struct message_type *request_type, const void *request,
                     int16_t version)
{
    encode(client, request_type, request, version, client->next_correlation_id++);
    go_on(client);
}

void sim_client_break(struct sim_client *client)
{
    lose(client);
}
