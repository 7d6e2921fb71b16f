#include "protocol/wire.h"

#include "base/assert.h"

void wire_writer_init_count(struct wire_writer *w)
{
    *w = (struct wire_writer){.counting = true};
}

void wire_writer_init(struct wire_writer *w, uint8_t *buffer, size_t size, struct slice *slices, uint32_t slice_max)
{
    assert(slices != NULL);
    *w = (struct wire_writer){
        .at = buffer, .end = buffer + size, .run = buffer, .slices = slices, .slice_max = slice_max};
}

void wire_writer_init_flat(struct wire_writer *w, uint8_t *buffer, size_t size)
{
    *w = (struct wire_writer){.at = buffer, .end = buffer + size, .run = buffer};
}

void wire_writer_fail(struct wire_writer *w, enum err err)
{
    assert(err != ERR_OK);
    if (w->err != ERR_OK)
        return;
    w->err = err;
    w->end = w->at; /* so that nothing more is written */
}

static void push_slice(struct wire_writer *w, struct slice slice)
{
    if (w->slice_count == w->slice_max) {
        wire_writer_fail(w, ERR_LIMIT);
        return;
    }
    w->slices[w->slice_count++] = slice;
}

static void close_run(struct wire_writer *w)
{
    if (w->at != w->run)
        push_slice(w, slice_of(w->run, (size_t)(w->at - w->run)));
    w->run = w->at;
}

enum err wire_writer_finish(struct wire_writer *w, uint32_t *slice_count)
{
    w->size.slices++; /* the last run */
    if (w->err == ERR_OK && !w->counting && w->slices != NULL)
        close_run(w);
    if (w->err == ERR_OK && slice_count != NULL)
        *slice_count = w->slice_count;
    return w->err;
}

/* Room for size bytes; NULL where they are only counted, or there is none. */
static inline uint8_t *room(struct wire_writer *w, size_t size)
{
    uint8_t *at = w->at;

    w->size.bytes += size;
    if (w->counting)
        return NULL;
    if ((size_t)(w->end - at) < size) {
        wire_writer_fail(w, ERR_LIMIT);
        return NULL;
    }
    w->at = at + size;
    return at;
}

void wire_write_i8(struct wire_writer *w, int8_t value)
{
    uint8_t *at = room(w, 1);
    if (at != NULL)
        at[0] = (uint8_t)value;
}

void wire_write_i16(struct wire_writer *w, int16_t value)
{
    wire_write_u16(w, (uint16_t)value);
}

void wire_write_i32(struct wire_writer *w, int32_t value)
{
    wire_write_u32(w, (uint32_t)value);
}

void wire_write_i64(struct wire_writer *w, int64_t value)
{
    uint8_t *at = room(w, 8);
    if (at != NULL)
        for (unsigned i = 0; i < 8; i++)
            at[i] = (uint8_t)((uint64_t)value >> (56 - 8 * i));
}

void wire_write_u16(struct wire_writer *w, uint16_t value)
{
    uint8_t *at = room(w, 2);
    if (at != NULL) {
        at[0] = (uint8_t)(value >> 8);
        at[1] = (uint8_t)value;
    }
}

void wire_write_u32(struct wire_writer *w, uint32_t value)
{
    uint8_t *at = room(w, 4);
    if (at != NULL)
        for (unsigned i = 0; i < 4; i++)
            at[i] = (uint8_t)(value >> (24 - 8 * i));
}

void wire_write_f64(struct wire_writer *w, double value)
{
    int64_t bits;

    _Static_assert(sizeof(value) == sizeof(bits), "IEEE 754 doubles");
    memcpy(&bits, &value, sizeof(bits));
    wire_write_i64(w, bits);
}

void wire_write_bool(struct wire_writer *w, bool value)
{
    wire_write_i8(w, value ? 1 : 0);
}

void wire_write_uuid(struct wire_writer *w, struct uuid value)
{
    uint8_t *at = room(w, UUID_BYTES);
    if (at != NULL)
        memcpy(at, value.bytes, UUID_BYTES);
}

static void write_base128(struct wire_writer *w, uint64_t value)
{
    uint8_t groups[WIRE_UVARLONG_BYTES_MAX];
    size_t count = 0;

    do {
        groups[count] = (uint8_t)((value & 0x7f) | (value > 0x7f ? 0x80 : 0));
        count++;
        value >>= 7;
    } while (value != 0);
    wire_write_raw(w, bytes_of(groups, count));
}

void wire_write_uvarint(struct wire_writer *w, uint32_t value)
{
    write_base128(w, value);
}

void wire_write_varint(struct wire_writer *w, int32_t value)
{
    write_base128(w, (uint32_t)value << 1 ^ (value < 0 ? UINT32_MAX : 0));
}

void wire_write_varlong(struct wire_writer *w, int64_t value)
{
    write_base128(w, (uint64_t)value << 1 ^ (value < 0 ? UINT64_MAX : 0));
}

void wire_write_raw(struct wire_writer *w, struct bytes bytes)
{
    uint8_t *at = room(w, bytes.size);
    if (at != NULL && bytes.size > 0)
        memcpy(at, bytes.data, bytes.size);
}

/* A length or count in its form; -1 is null. */
static void write_length(struct wire_writer *w, unsigned form, int64_t length)
{
    if (length > INT32_MAX)
        wire_writer_fail(w, ERR_LIMIT);
    else if (form & WIRE_COMPACT)
        wire_write_uvarint(w, (uint32_t)(length + 1));
    else
        wire_write_i32(w, (int32_t)length);
}

void wire_write_string(struct wire_writer *w, unsigned form, struct bytes value)
{
    bool null = value.data == NULL && (form & WIRE_NULLABLE) != 0;

    if (value.size > WIRE_STRING_BYTES_MAX) {
        wire_writer_fail(w, ERR_LIMIT);
        return;
    }
    if (form & WIRE_COMPACT)
        wire_write_uvarint(w, null ? 0 : (uint32_t)value.size + 1);
    else
        wire_write_i16(w, null ? -1 : (int16_t)value.size);
    wire_write_raw(w, value);
}

void wire_write_bytes(struct wire_writer *w, unsigned form, struct bytes value)
{
    write_length(w, form, value.data == NULL && (form & WIRE_NULLABLE) != 0 ? -1 : (int64_t)value.size);
    wire_write_raw(w, value);
}

void wire_write_records(struct wire_writer *w, unsigned form, const struct records *records)
{
    bool null = records->null && (form & WIRE_NULLABLE) != 0;
    size_t size = 0;

    for (uint32_t i = 0; !records->null && i < records->slice_count; i++)
        size += records->slices[i].size;
    assert(size == records->size || records->null);
    write_length(w, form, null ? -1 : (int64_t)size);
    if (size == 0)
        return;
    w->size.payload_bytes += size;
    w->size.payload_slices += records->slice_count;
    w->size.slices += records->slice_count + 1;
    if (w->counting)
        return;
    if (w->slices != NULL) {
        close_run(w);
        for (uint32_t i = 0; i < records->slice_count; i++)
            if (records->slices[i].size > 0)
                push_slice(w, records->slices[i]);
        return;
    }
    for (uint32_t i = 0; i < records->slice_count; i++) {
        const struct slice *slice = &records->slices[i];
        if (slice->file != NULL)
            wire_writer_fail(w, ERR_INVALID_REQUEST);
        else
            wire_write_raw(w, bytes_of(slice->data, slice->size));
    }
    w->size.bytes -= size; /* counted as payload */
}

void wire_write_count(struct wire_writer *w, unsigned form, bool null, uint32_t count)
{
    write_length(w, form, null && (form & WIRE_NULLABLE) != 0 ? -1 : (int64_t)count);
}

#define WRITE_ARRAY(name, type, write_one)                                                                             \
    void wire_write_##name##_array(struct wire_writer *w, unsigned form, const type *values, uint32_t count)           \
    {                                                                                                                  \
        wire_write_count(w, form, values == NULL, count);                                                              \
        for (uint32_t i = 0; i < count && w->err == ERR_OK; i++)                                                       \
            write_one;                                                                                                 \
    }

WRITE_ARRAY(bool, bool, wire_write_bool(w, values[i]))
WRITE_ARRAY(i8, int8_t, wire_write_i8(w, values[i]))
WRITE_ARRAY(i16, int16_t, wire_write_i16(w, values[i]))
WRITE_ARRAY(i32, int32_t, wire_write_i32(w, values[i]))
WRITE_ARRAY(i64, int64_t, wire_write_i64(w, values[i]))
WRITE_ARRAY(uuid, struct uuid, wire_write_uuid(w, values[i]))
WRITE_ARRAY(string, struct bytes, wire_write_string(w, form &WIRE_COMPACT, values[i]))
WRITE_ARRAY(bytes, struct bytes, wire_write_bytes(w, form &WIRE_COMPACT, values[i]))

void wire_write_struct_array(struct wire_writer *w, unsigned form, int16_t version, wire_write_fn *write_one,
                             size_t size, const void *values, uint32_t count)
{
    assert(values != NULL || count == 0);
    wire_write_count(w, form, values == NULL, count);
    for (uint32_t i = 0; i < count && w->err == ERR_OK; i++)
        write_one(w, version, (const char *)values + i * size);
}

void wire_write_nullable_struct(struct wire_writer *w, int16_t version, wire_write_fn *write_one, const void *value)
{
    wire_write_i8(w, value == NULL ? -1 : 1);
    if (value != NULL)
        write_one(w, version, value);
}

void wire_write_tagged_struct(struct wire_writer *w, int16_t version, wire_write_fn *write_one, const void *value)
{
    wire_write_uvarint(w, value == NULL ? 0 : 1);
    if (value != NULL)
        write_one(w, version, value);
}

void wire_write_tag(struct wire_writer *w, uint32_t tag, int16_t version, wire_write_fn *write_one, const void *from)
{
    struct wire_writer count;

    wire_writer_init_count(&count);
    write_one(&count, version, from);
    assert(count.size.payload_bytes == 0); /* no records in a tagged field */
    wire_write_uvarint(w, tag);
    wire_write_uvarint(w, (uint32_t)count.size.bytes);
    write_one(w, version, from);
}
