/*
 * frame: what stands in a frame before the body: the headers of requests and responses. The frame's own size field (an
 * int32 in front) is the connection's business, not ours.
 *
 * Request header 1: api key, version, correlation id, client id. 2, for flexible versions: tagged fields behind. The
 * client id keeps its int16 length in both. Response header 0: correlation id; 1, for flexible versions: tagged fields
 * behind; but every version of ApiVersions is answered behind header 0, since a client that asks does not know yet
 * what we speak (KIP-511).
 *
 * Threads  any.
 */
#ifndef OTTLA_PROTOCOL_FRAME_H
#define OTTLA_PROTOCOL_FRAME_H

#include "protocol/gen/api_keys.h"
#include "protocol/gen/headers.h"
#include "protocol/message.h"

/* -1 for an API we do not know; else right for any version number, served or not. */
int16_t frame_request_header_version(int16_t api_key, int16_t version);
int16_t frame_response_header_version(int16_t api_key, int16_t version);

/* The header of a request; the body follows at the reader. A null client id is left null.
 *
 * ERR_UNSERVED   an API key we do not know: key, version and correlation id are set, nothing else
 * ERR_MALFORMED  not a header */
MUST_CHECK enum err frame_read_request_header(struct wire_reader *r, struct request_header *header);

/* A response in the arena, header and body, as slices to be sent in this order: memory, and what the records of the
 * body lie in. type: of the response.
 *
 * ERR_LIMIT  a string over 32767 bytes, or more than a frame can hold
 * ERR_NOMEM  over the arena's limit */
MUST_CHECK enum err frame_encode_response(const struct message_type *type, int16_t version, int32_t correlation_id,
                                          const void *body, struct arena *arena, struct slice **slices,
                                          uint32_t *slice_count);

/* A request, likewise, for peers. client_id: may be null. */
MUST_CHECK enum err frame_encode_request(const struct message_type *type, int16_t version, int32_t correlation_id,
                                         struct bytes client_id, const void *body, struct arena *arena,
                                         struct slice **slices, uint32_t *slice_count);

/* The header of a response to a request of that key and version; the body follows at the reader. */
MUST_CHECK enum err frame_read_response_header(struct wire_reader *r, int16_t api_key, int16_t version,
                                               int32_t *correlation_id);

#endif
