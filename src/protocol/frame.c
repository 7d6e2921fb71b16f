#include "protocol/frame.h"

#include "base/assert.h"
#include "protocol/gen/messages.h"

static bool is_flexible(int16_t api_key, int16_t version)
{
    return version >= message_requests[api_key]->flexible_min;
}

static bool is_known(int16_t api_key)
{
    return api_key >= 0 && api_key <= API_KEY_MAX && message_requests[api_key] != NULL;
}

int16_t frame_request_header_version(int16_t api_key, int16_t version)
{
    if (!is_known(api_key))
        return -1;
    return is_flexible(api_key, version) ? 2 : 1;
}

int16_t frame_response_header_version(int16_t api_key, int16_t version)
{
    if (!is_known(api_key))
        return -1;
    return api_key != API_API_VERSIONS && is_flexible(api_key, version) ? 1 : 0;
}

enum err frame_read_request_header(struct wire_reader *r, struct request_header *header)
{
    int16_t header_version;

    request_header_init(header);
    header->request_api_key = wire_read_i16(r);
    header->request_api_version = wire_read_i16(r);
    header->correlation_id = wire_read_i32(r);
    if (r->err != ERR_OK)
        return r->err;
    header_version = frame_request_header_version(header->request_api_key, header->request_api_version);
    if (header_version < 0) {
        wire_reader_fail(r, ERR_UNSERVED, 0);
        return r->err;
    }
    header->client_id = wire_read_string(r, WIRE_PLAIN | WIRE_NULLABLE);
    if (header_version >= REQUEST_HEADER_FLEXIBLE_MIN)
        wire_skip_tags(r);
    return r->err;
}

enum err frame_read_response_header(struct wire_reader *r, int16_t api_key, int16_t version, int32_t *correlation_id)
{
    int16_t header_version = frame_response_header_version(api_key, version);

    assert(header_version >= 0);
    *correlation_id = wire_read_i32(r);
    if (header_version >= RESPONSE_HEADER_FLEXIBLE_MIN)
        wire_skip_tags(r);
    return r->err;
}

static enum err encode(const struct message_type *header_type, int16_t header_version, const void *header,
                       const struct message_type *type, int16_t version, const void *body, struct arena *arena,
                       struct slice **slices, uint32_t *slice_count)
{
    struct wire_size header_size = message_size(header_type, header_version, header);
    struct wire_size size = message_size(type, version, body);
    uint8_t *buffer = NULL;
    struct slice *list = NULL;
    struct wire_writer w;
    enum err err;

    size.bytes += header_size.bytes;
    if (wire_size_total(size) > INT32_MAX)
        return ERR_LIMIT;
    buffer = arena_alloc(arena, size.bytes);
    list = arena_array(arena, size.slices, sizeof(*list));
    if (buffer == NULL || list == NULL)
        return ERR_NOMEM;
    wire_writer_init(&w, buffer, size.bytes, list, size.slices);
    message_write(header_type, &w, header_version, header);
    message_write(type, &w, version, body);
    err = wire_writer_finish(&w, slice_count);
    assert(err != ERR_OK || w.at == w.end);
    if (err == ERR_OK)
        *slices = list;
    return err;
}

enum err frame_encode_response(const struct message_type *type, int16_t version, int32_t correlation_id,
                               const void *body, struct arena *arena, struct slice **slices, uint32_t *slice_count)
{
    struct response_header header = {.correlation_id = correlation_id};

    assert(type->kind == MESSAGE_RESPONSE);
    return encode(&response_header_message, frame_response_header_version(type->api_key, version), &header, type,
                  version, body, arena, slices, slice_count);
}

enum err frame_encode_request(const struct message_type *type, int16_t version, int32_t correlation_id,
                              struct bytes client_id, const void *body, struct arena *arena, struct slice **slices,
                              uint32_t *slice_count)
{
    struct request_header header = {.request_api_key = type->api_key,
                                    .request_api_version = version,
                                    .correlation_id = correlation_id,
                                    .client_id = client_id};

    assert(type->kind == MESSAGE_REQUEST);
    return encode(&request_header_message, frame_request_header_version(type->api_key, version), &header, type, version,
                  body, arena, slices, slice_count);
}
