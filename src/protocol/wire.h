/*
 * wire: Kafka's wire types, read and written; all that the generated codecs stand on.
 *
 * The reader is total: it keeps its first failure, after which every read gives zero and moves nothing, so that a
 * decoder checks once, at the end. Counts and lengths are checked against the bytes that are left before anything is
 * allocated for them. Strings and bytes are borrowed from what is read; arrays live in the arena.
 *
 * The writer fills a buffer of the size that a counting run of the same code gave. A records field ends the run of
 * memory it stands in: its slices are sent from where they lie, so the result is a list of slices, memory, payload,
 * memory ... It too keeps its first failure.
 *
 * Threads  each reader and writer has one owner.
 * Source   Kafka's protocol guide; KIP-482 for the compact forms and tagged fields.
 */
#ifndef OTTLA_PROTOCOL_WIRE_H
#define OTTLA_PROTOCOL_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/bytes.h"
#include "base/err.h"
#include "base/slice.h"
#include "base/uuid.h"
#include "protocol/records.h"

enum {
    WIRE_STRING_BYTES_MAX = INT16_MAX, /* of a string, in the compact form too, as in Apache Kafka */
    WIRE_UVARINT_BYTES_MAX = 5,        /* 32 bits, seven at a time */
    WIRE_UVARLONG_BYTES_MAX = 10,
};

/* How a string, bytes or array stands on the wire; these are or-ed. */
enum wire_form {
    WIRE_PLAIN = 0,
    WIRE_COMPACT = 1,  /* length + 1 as uvarint (flexible versions), else a fixed-size length */
    WIRE_NULLABLE = 2, /* null is legal: length -1, or compact 0 */
};

static inline unsigned wire_compact(bool compact)
{
    return compact ? WIRE_COMPACT : WIRE_PLAIN;
}

static inline unsigned wire_nullable(bool nullable)
{
    return nullable ? WIRE_NULLABLE : WIRE_PLAIN;
}

/* ---- reading ---- */

struct wire_reader {
    const uint8_t *start;
    const uint8_t *at;
    const uint8_t *end;
    enum err err;
    size_t wanted; /* by the read that failed, in bytes, so that a log line can say what was missing */
    size_t left;   /* at that read, in bytes */
    /* Elements of arrays, and tagged fields, that may still come: what takes time to read, and to work on. Whoever
     * lets them not go on for ever sets it; one more is ERR_LIMIT. */
    size_t entries_left;
};

/* Borrows the bytes. */
void wire_reader_init(struct wire_reader *r, struct bytes from);
/* Keeps err if it is the first; no read moves anything afterwards. wanted: bytes that the read needed. */
void wire_reader_fail(struct wire_reader *r, enum err err, size_t wanted);

/* Of the next byte to read; after a failure, of the read that failed. */
static inline size_t wire_reader_position(const struct wire_reader *r)
{
    return (size_t)(r->at - r->start);
}

static inline size_t wire_reader_left(const struct wire_reader *r)
{
    return (size_t)(r->end - r->at);
}

int8_t wire_read_i8(struct wire_reader *r);
int16_t wire_read_i16(struct wire_reader *r);
int32_t wire_read_i32(struct wire_reader *r);
int64_t wire_read_i64(struct wire_reader *r);
uint16_t wire_read_u16(struct wire_reader *r);
uint32_t wire_read_u32(struct wire_reader *r);
double wire_read_f64(struct wire_reader *r);
bool wire_read_bool(struct wire_reader *r); /* any byte but 0 is true */
struct uuid wire_read_uuid(struct wire_reader *r);
uint32_t wire_read_uvarint(struct wire_reader *r); /* ERR_MALFORMED over 32 bits */
int32_t wire_read_varint(struct wire_reader *r);   /* zigzag */
int64_t wire_read_varlong(struct wire_reader *r);  /* zigzag */
/* The next size bytes, borrowed. */
struct bytes wire_read_raw(struct wire_reader *r, size_t size);
/* form: of enum wire_form. Null has data NULL; an empty one has not. */
struct bytes wire_read_string(struct wire_reader *r, unsigned form);
struct bytes wire_read_bytes(struct wire_reader *r, unsigned form);
/* One slice, in the arena, over the bytes where they lie. */
struct records wire_read_records(struct wire_reader *r, struct arena *arena, unsigned form);
/* An array's count. One that the remaining bytes cannot hold fails here, before anything is allocated for it.
 * element_bytes_min > 0: the fewest bytes an element takes. *null may be set only where form is nullable. */
uint32_t wire_read_count(struct wire_reader *r, unsigned form, size_t element_bytes_min, bool *null);
/* -1 null, else the structure follows: whether it does. */
bool wire_read_present(struct wire_reader *r);

/* Arrays, in the arena: NULL where the array is null, and never NULL where it is empty. ERR_NOMEM over the arena's
 * limit. */
bool *wire_read_bool_array(struct wire_reader *r, struct arena *arena, unsigned form, uint32_t *count);
int8_t *wire_read_i8_array(struct wire_reader *r, struct arena *arena, unsigned form, uint32_t *count);
int16_t *wire_read_i16_array(struct wire_reader *r, struct arena *arena, unsigned form, uint32_t *count);
int32_t *wire_read_i32_array(struct wire_reader *r, struct arena *arena, unsigned form, uint32_t *count);
int64_t *wire_read_i64_array(struct wire_reader *r, struct arena *arena, unsigned form, uint32_t *count);
struct uuid *wire_read_uuid_array(struct wire_reader *r, struct arena *arena, unsigned form, uint32_t *count);
struct bytes *wire_read_string_array(struct wire_reader *r, struct arena *arena, unsigned form, uint32_t *count);
struct bytes *wire_read_bytes_array(struct wire_reader *r, struct arena *arena, unsigned form, uint32_t *count);

/* Reads one structure, every field of it. */
typedef void wire_read_fn(struct wire_reader *r, struct arena *arena, int16_t version, void *to);

struct wire_element {
    wire_read_fn *read;
    size_t size;      /* of the structure in memory */
    size_t bytes_min; /* the fewest bytes it takes on the wire */
};

void *wire_read_struct_array(struct wire_reader *r, struct arena *arena, unsigned form, int16_t version,
                             struct wire_element element, uint32_t *count);
/* A nullable structure: NULL where it is null. */
void *wire_read_nullable_struct(struct wire_reader *r, struct arena *arena, int16_t version,
                                struct wire_element element);

/* The same as a tagged field, where its presence is a uvarint: 0 null, 1 present. */
void *wire_read_tagged_struct(struct wire_reader *r, struct arena *arena, int16_t version, struct wire_element element);
/* One with its defaults, for a tagged field that is absent; NULL after a failure. */
void *wire_default_struct(struct wire_reader *r, struct arena *arena, void (*init)(void *), size_t size);

/* Tagged fields (KIP-482): uvarint count, then (tag, size, payload) with ascending tags.
 *
 *     struct wire_tags tags = wire_read_tags(&r);
 *     while (wire_next_tag(&r, &tags))
 *         if (tags.tag == 0) value = wire_read_i32(&r); else wire_skip_tag(&r);
 *
 * A payload that is not read exactly to its end is ERR_MALFORMED. */
struct wire_tags {
    const uint8_t *end; /* of the reader's bytes, while a payload narrows them */
    uint32_t left;
    uint32_t tag;
    bool first;
};

struct wire_tags wire_read_tags(struct wire_reader *r);
bool wire_next_tag(struct wire_reader *r, struct wire_tags *tags);
void wire_skip_tag(struct wire_reader *r);
/* All of them: for structures of which we know no tagged field. */
void wire_skip_tags(struct wire_reader *r);

/* ---- writing ---- */

/* What a message takes: bytes go into the buffer, payload is sent from where it lies. */
struct wire_size {
    size_t bytes;            /* to be written into the buffer */
    size_t payload_bytes;    /* of the records' slices */
    uint32_t payload_slices; /* of the records */
    uint32_t slices;         /* at most, of the whole list */
};

/* Bytes on the wire. */
static inline size_t wire_size_total(struct wire_size size)
{
    return size.bytes + size.payload_bytes;
}

struct wire_writer {
    uint8_t *at;
    uint8_t *end;
    uint8_t *run;         /* first byte of the memory that is in no slice yet */
    struct slice *slices; /* the list so far; NULL copies records into the buffer */
    uint32_t slice_count;
    uint32_t slice_max;
    bool counting;
    enum err err;
    struct wire_size size; /* written, or counted, so far */
};

/* Counts only; then size is what was counted. */
void wire_writer_init_count(struct wire_writer *w);
/* Into buffer, and the list of slices. ERR_LIMIT when either is too small. */
void wire_writer_init(struct wire_writer *w, uint8_t *buffer, size_t size, struct slice *slices, uint32_t slice_max);
/* Into buffer alone: records are copied in, and must lie in memory (ERR_INVALID_REQUEST otherwise). The buffer has
 * wire_size_total bytes. */
void wire_writer_init_flat(struct wire_writer *w, uint8_t *buffer, size_t size);
void wire_writer_fail(struct wire_writer *w, enum err err);
/* Closes the list of slices. The first failure, or ERR_OK; slice_count (may be NULL) only then. */
MUST_CHECK enum err wire_writer_finish(struct wire_writer *w, uint32_t *slice_count);

void wire_write_i8(struct wire_writer *w, int8_t value);
void wire_write_i16(struct wire_writer *w, int16_t value);
void wire_write_i32(struct wire_writer *w, int32_t value);
void wire_write_i64(struct wire_writer *w, int64_t value);
void wire_write_u16(struct wire_writer *w, uint16_t value);
void wire_write_u32(struct wire_writer *w, uint32_t value);
void wire_write_f64(struct wire_writer *w, double value);
void wire_write_bool(struct wire_writer *w, bool value);
void wire_write_uuid(struct wire_writer *w, struct uuid value);
void wire_write_uvarint(struct wire_writer *w, uint32_t value);
void wire_write_varint(struct wire_writer *w, int32_t value);
void wire_write_varlong(struct wire_writer *w, int64_t value);
void wire_write_raw(struct wire_writer *w, struct bytes bytes);
/* Where form is not nullable, null is written as empty. ERR_LIMIT over WIRE_STRING_BYTES_MAX. */
void wire_write_string(struct wire_writer *w, unsigned form, struct bytes value);
void wire_write_bytes(struct wire_writer *w, unsigned form, struct bytes value);
void wire_write_records(struct wire_writer *w, unsigned form, const struct records *records);
/* null counts only where form is nullable. */
void wire_write_count(struct wire_writer *w, unsigned form, bool null, uint32_t count);

void wire_write_bool_array(struct wire_writer *w, unsigned form, const bool *values, uint32_t count);
void wire_write_i8_array(struct wire_writer *w, unsigned form, const int8_t *values, uint32_t count);
void wire_write_i16_array(struct wire_writer *w, unsigned form, const int16_t *values, uint32_t count);
void wire_write_i32_array(struct wire_writer *w, unsigned form, const int32_t *values, uint32_t count);
void wire_write_i64_array(struct wire_writer *w, unsigned form, const int64_t *values, uint32_t count);
void wire_write_uuid_array(struct wire_writer *w, unsigned form, const struct uuid *values, uint32_t count);
void wire_write_string_array(struct wire_writer *w, unsigned form, const struct bytes *values, uint32_t count);
void wire_write_bytes_array(struct wire_writer *w, unsigned form, const struct bytes *values, uint32_t count);

typedef void wire_write_fn(struct wire_writer *w, int16_t version, const void *from);

/* size: of one structure in memory. */
void wire_write_struct_array(struct wire_writer *w, unsigned form, int16_t version, wire_write_fn *write_one,
                             size_t size, const void *values, uint32_t count);
void wire_write_nullable_struct(struct wire_writer *w, int16_t version, wire_write_fn *write_one, const void *value);
void wire_write_tagged_struct(struct wire_writer *w, int16_t version, wire_write_fn *write_one, const void *value);
/* Tag, size and payload; write_one writes the payload (it runs twice, first to be counted). */
void wire_write_tag(struct wire_writer *w, uint32_t tag, int16_t version, wire_write_fn *write_one, const void *from);

/* An array that is empty and not null: non-NULL, never read. */
extern const uint64_t wire_empty[1];
#define WIRE_EMPTY ((void *)(uintptr_t)wire_empty)

#endif
