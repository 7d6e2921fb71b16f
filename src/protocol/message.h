/*
 * message: what every generated codec has in common. A message_type describes one message of Kafka's protocol or one
 * of its log records; the typed functions of protocol/gen/<schema>.h are thin covers over the functions here, which
 * generic code (dispatch, tests, fuzzing, printing) calls with the type itself.
 *
 * One struct holds all versions of a message. Fields that a version lacks have their default after reading, and are
 * dropped silently in writing (KAFKA-9297); tagged fields that have their default are left out (KIP-482); unknown
 * tagged fields are skipped.
 *
 * Threads  any: constants, and what the caller owns.
 * Source   src/protocol/schemas, whose grammar is in tools/gen/schema.py.
 */
#ifndef OTTLA_PROTOCOL_MESSAGE_H
#define OTTLA_PROTOCOL_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "protocol/wire.h"

enum message_kind {
    MESSAGE_REQUEST,
    MESSAGE_RESPONSE,
    MESSAGE_HEADER,
    MESSAGE_DATA,   /* carried inside another message, a control record or a file */
    MESSAGE_RECORD, /* of the metadata log */
    MESSAGE_KEY,    /* of a coordinator's log */
    MESSAGE_VALUE,
};

/* Which schemas folder it stands in: keys of records are unique within one. */
enum message_family {
    MESSAGE_FAMILY_API,
    MESSAGE_FAMILY_CONTROL,
    MESSAGE_FAMILY_GROUP,
    MESSAGE_FAMILY_METADATA,
    MESSAGE_FAMILY_PAYLOAD,
    MESSAGE_FAMILY_SHARE,
    MESSAGE_FAMILY_TRANSACTION,
};

enum message_field_type {
    FIELD_BOOL,
    FIELD_INT8,
    FIELD_INT16,
    FIELD_INT32,
    FIELD_INT64,
    FIELD_UINT16,
    FIELD_UINT32,
    FIELD_FLOAT64,
    FIELD_UUID,
    FIELD_STRING,
    FIELD_BYTES,
    FIELD_RECORDS,
    FIELD_STRUCT,
};

struct message_versions {
    int16_t from;
    int16_t to; /* below from: none */
};

static inline bool message_versions_has(struct message_versions versions, int16_t version)
{
    return version >= versions.from && version <= versions.to;
}

struct message_struct;

/* A field as memory and wire have it; what reads and writes is generated code, this is for walking a message. */
struct message_field {
    const char *name;                  /* in C */
    const struct message_struct *type; /* FIELD_STRUCT */
    int64_t default_number;
    uint16_t offset;       /* in its struct */
    uint16_t count_offset; /* arrays: of the uint32_t count */
    uint8_t kind;          /* enum message_field_type; of the elements, where it is an array */
    bool array;
    bool default_null;
    bool secret;
    int16_t tag;                      /* -1: not a tagged field */
    struct message_versions versions; /* that have it */
    struct message_versions nullable;
    struct message_versions tagged;
};

struct message_struct {
    const char *name; /* in C */
    const struct message_field *fields;
    void (*init)(void *); /* all fields to their defaults */
    uint32_t field_count;
    uint32_t size; /* in memory, in bytes */
};

struct message_type {
    const char *name; /* Kafka's: "ListOffsetsRequest" */
    enum message_kind kind;
    enum message_family family;
    int16_t api_key; /* of a record: its type's number; -1: none */
    int16_t version_min;
    int16_t version_max;
    int16_t flexible_min; /* INT16_MAX: never */
    const struct message_struct *structure;
    wire_read_fn *read;
    wire_write_fn *write;
};

static inline bool message_serves(const struct message_type *type, int16_t version)
{
    return version >= type->version_min && version <= type->version_max;
}

/* Reads one message; what it points to lies in the bytes read and in the arena. Bytes behind it stay unread.
 *
 * ERR_UNSERVED   a version the type does not have
 * ERR_MALFORMED  the bytes are no such message; the reader knows where, and what was missing
 * ERR_LIMIT      more entries than the reader may take
 * ERR_NOMEM      over the arena's limit */
MUST_CHECK enum err message_read(const struct message_type *type, struct wire_reader *r, struct arena *arena,
                                 int16_t version, void *message);
/* The version is one the type has (asserted); failures stay in the writer. */
void message_write(const struct message_type *type, struct wire_writer *w, int16_t version, const void *message);
/* What message_write will write. */
struct wire_size message_size(const struct message_type *type, int16_t version, const void *message);
/* All of it, payload included, in the arena. ERR_LIMIT for a string that is too long; ERR_NOMEM. */
MUST_CHECK enum err message_encode(const struct message_type *type, int16_t version, const void *message,
                                   struct arena *arena, struct bytes *encoded);

/* Bytes in memory of a field's value, or of one element of an array. */
size_t message_field_size(const struct message_field *field);

/* For people and debug logs: {throttle_time_ms=0 topics=[{name="a"}]}. Fields that the version lacks are left out;
 * of bytes and records only the size is shown, of secret fields nothing. What does not fit is cut. Returns the
 * characters written, without the closing NUL. */
size_t message_print(const struct message_type *type, int16_t version, const void *message, char *text, size_t size);

#endif
