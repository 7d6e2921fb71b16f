#include "protocol/wire.h"

#include "base/assert.h"

const uint64_t wire_empty[1];

void wire_reader_init(struct wire_reader *r, struct bytes from)
{
    const uint8_t *start = from.data == NULL ? (const uint8_t *)wire_empty : from.data;

    assert(from.data != NULL || from.size == 0);
    *r = (struct wire_reader){.start = start, .at = start, .end = start + from.size, .entries_left = SIZE_MAX};
}

void wire_reader_fail(struct wire_reader *r, enum err err, size_t wanted)
{
    assert(err != ERR_OK);
    if (r->err != ERR_OK)
        return;
    r->err = err;
    r->wanted = wanted;
    r->left = wire_reader_left(r);
    r->end = r->at; /* so that every later read finds nothing */
}

/* The next size bytes, or NULL. */
static inline const uint8_t *take(struct wire_reader *r, size_t size)
{
    const uint8_t *at = r->at;

    if ((size_t)(r->end - at) < size) {
        wire_reader_fail(r, ERR_MALFORMED, size);
        return NULL;
    }
    r->at = at + size;
    return at;
}

static inline uint16_t load_u16(const uint8_t *at)
{
    return (uint16_t)(at[0] << 8 | at[1]);
}

static inline uint32_t load_u32(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | (uint32_t)at[3];
}

static inline uint64_t load_u64(const uint8_t *at)
{
    return (uint64_t)load_u32(at) << 32 | load_u32(at + 4);
}

int8_t wire_read_i8(struct wire_reader *r)
{
    const uint8_t *at = take(r, 1);
    return at == NULL ? 0 : (int8_t)at[0];
}

int16_t wire_read_i16(struct wire_reader *r)
{
    return (int16_t)wire_read_u16(r);
}

int32_t wire_read_i32(struct wire_reader *r)
{
    return (int32_t)wire_read_u32(r);
}

int64_t wire_read_i64(struct wire_reader *r)
{
    const uint8_t *at = take(r, 8);
    return at == NULL ? 0 : (int64_t)load_u64(at);
}

uint16_t wire_read_u16(struct wire_reader *r)
{
    const uint8_t *at = take(r, 2);
    return at == NULL ? 0 : load_u16(at);
}

uint32_t wire_read_u32(struct wire_reader *r)
{
    const uint8_t *at = take(r, 4);
    return at == NULL ? 0 : load_u32(at);
}

double wire_read_f64(struct wire_reader *r)
{
    int64_t bits = wire_read_i64(r);
    double value;

    _Static_assert(sizeof(value) == sizeof(bits), "IEEE 754 doubles");
    memcpy(&value, &bits, sizeof(value));
    return value;
}

bool wire_read_bool(struct wire_reader *r)
{
    return wire_read_i8(r) != 0;
}

struct uuid wire_read_uuid(struct wire_reader *r)
{
    struct uuid id = {{0}};
    const uint8_t *at = take(r, UUID_BYTES);

    if (at != NULL)
        memcpy(id.bytes, at, UUID_BYTES);
    return id;
}

static uint64_t read_base128(struct wire_reader *r, unsigned bits)
{
    uint64_t value = 0;

    for (unsigned shift = 0; shift < bits; shift += 7) {
        const uint8_t *at = take(r, 1);
        if (at == NULL)
            return 0;
        uint64_t group = *at & 0x7f;
        if (shift + 7 > bits && group >> (bits - shift) != 0)
            break;
        value |= group << shift;
        if ((*at & 0x80) == 0)
            return value;
    }
    wire_reader_fail(r, ERR_MALFORMED, 1);
    return 0;
}

uint32_t wire_read_uvarint(struct wire_reader *r)
{
    return (uint32_t)read_base128(r, 32);
}

int32_t wire_read_varint(struct wire_reader *r)
{
    uint32_t value = wire_read_uvarint(r);
    return (int32_t)(value >> 1 ^ (0u - (value & 1)));
}

int64_t wire_read_varlong(struct wire_reader *r)
{
    uint64_t value = read_base128(r, 64);
    return (int64_t)(value >> 1 ^ (UINT64_C(0) - (value & 1)));
}

struct bytes wire_read_raw(struct wire_reader *r, size_t size)
{
    const uint8_t *at = take(r, size);
    return at == NULL ? bytes_of(NULL, 0) : bytes_of(at, size);
}

/* What a length that stands on the wire as -1 (null), 0, 1 ... comes to. False: null, or failed. */
static bool settle_length(struct wire_reader *r, unsigned form, int64_t length, size_t *size)
{
    if (r->err != ERR_OK)
        return false;
    if (length < 0) {
        if (length != -1 || (form & WIRE_NULLABLE) == 0)
            wire_reader_fail(r, ERR_MALFORMED, 0);
        return false;
    }
    *size = (size_t)length;
    return true;
}

struct bytes wire_read_string(struct wire_reader *r, unsigned form)
{
    int64_t length = form & WIRE_COMPACT ? (int64_t)wire_read_uvarint(r) - 1 : wire_read_i16(r);
    size_t size;

    if (!settle_length(r, form, length, &size))
        return bytes_of(NULL, 0);
    if (size > WIRE_STRING_BYTES_MAX) {
        wire_reader_fail(r, ERR_MALFORMED, size);
        return bytes_of(NULL, 0);
    }
    return wire_read_raw(r, size);
}

struct bytes wire_read_bytes(struct wire_reader *r, unsigned form)
{
    int64_t length = form & WIRE_COMPACT ? (int64_t)wire_read_uvarint(r) - 1 : wire_read_i32(r);
    size_t size;

    if (!settle_length(r, form, length, &size))
        return bytes_of(NULL, 0);
    return wire_read_raw(r, size);
}

struct records wire_read_records(struct wire_reader *r, struct arena *arena, unsigned form)
{
    struct bytes run = wire_read_bytes(r, form);

    if (r->err != ERR_OK)
        return (struct records){.null = false};
    if (run.data == NULL)
        return (struct records){.null = true};
    struct slice *slice = arena_alloc(arena, sizeof(*slice));
    if (slice == NULL) {
        wire_reader_fail(r, ERR_NOMEM, 0);
        return (struct records){.null = false};
    }
    *slice = slice_of(run.data, run.size);
    return (struct records){.slices = slice, .slice_count = 1, .size = run.size};
}

/* So many entries follow. False: more than may. */
static bool take_entries(struct wire_reader *r, size_t count)
{
    if (count > r->entries_left) {
        wire_reader_fail(r, ERR_LIMIT, 0);
        return false;
    }
    r->entries_left -= count;
    return true;
}

uint32_t wire_read_count(struct wire_reader *r, unsigned form, size_t element_bytes_min, bool *null)
{
    int64_t length = form & WIRE_COMPACT ? (int64_t)wire_read_uvarint(r) - 1 : wire_read_i32(r);
    size_t count;

    assert(element_bytes_min > 0);
    *null = false;
    if (!settle_length(r, form, length, &count)) {
        *null = r->err == ERR_OK;
        return 0;
    }
    if (count > wire_reader_left(r) / element_bytes_min) {
        wire_reader_fail(r, ERR_MALFORMED, count * element_bytes_min);
        return 0;
    }
    return take_entries(r, count) ? (uint32_t)count : 0;
}

bool wire_read_present(struct wire_reader *r)
{
    int8_t mark = wire_read_i8(r);
    return r->err == ERR_OK && mark >= 0;
}

/* The count of an array, and room for it. NULL: null, or failed. */
static void *read_array(struct wire_reader *r, struct arena *arena, unsigned form, size_t bytes_min, size_t size,
                        uint32_t *count)
{
    bool null = false;
    void *array = NULL;

    *count = wire_read_count(r, form, bytes_min, &null);
    if (r->err != ERR_OK || null)
        return NULL;
    if (*count == 0)
        return WIRE_EMPTY;
    array = arena_array(arena, *count, size);
    if (array == NULL) {
        wire_reader_fail(r, ERR_NOMEM, 0);
        *count = 0;
    }
    return array;
}

#define READ_ARRAY(name, type, bytes_min, read_one)                                                                    \
    type *wire_read_##name##_array(struct wire_reader *r, struct arena *arena, unsigned form, uint32_t *count)         \
    {                                                                                                                  \
        type *array = read_array(r, arena, form, bytes_min, sizeof(*array), count);                                    \
        for (uint32_t i = 0; array != NULL && i < *count && r->err == ERR_OK; i++)                                     \
            array[i] = read_one;                                                                                       \
        return array;                                                                                                  \
    }

READ_ARRAY(bool, bool, 1, wire_read_bool(r))
READ_ARRAY(i8, int8_t, 1, wire_read_i8(r))
READ_ARRAY(i16, int16_t, 2, wire_read_i16(r))
READ_ARRAY(i32, int32_t, 4, wire_read_i32(r))
READ_ARRAY(i64, int64_t, 8, wire_read_i64(r))
READ_ARRAY(uuid, struct uuid, UUID_BYTES, wire_read_uuid(r))
READ_ARRAY(string, struct bytes, form &WIRE_COMPACT ? 1 : 2, wire_read_string(r, form &WIRE_COMPACT))
READ_ARRAY(bytes, struct bytes, form &WIRE_COMPACT ? 1 : 4, wire_read_bytes(r, form &WIRE_COMPACT))

void *wire_read_struct_array(struct wire_reader *r, struct arena *arena, unsigned form, int16_t version,
                             struct wire_element element, uint32_t *count)
{
    char *array = read_array(r, arena, form, element.bytes_min, element.size, count);

    for (uint32_t i = 0; array != NULL && i < *count && r->err == ERR_OK; i++)
        element.read(r, arena, version, array + i * element.size);
    return array;
}

static void *read_struct(struct wire_reader *r, struct arena *arena, int16_t version, struct wire_element element)
{
    void *value = arena_alloc(arena, element.size);

    if (value == NULL)
        wire_reader_fail(r, ERR_NOMEM, 0);
    else
        element.read(r, arena, version, value);
    return value;
}

void *wire_read_nullable_struct(struct wire_reader *r, struct arena *arena, int16_t version,
                                struct wire_element element)
{
    return wire_read_present(r) ? read_struct(r, arena, version, element) : NULL;
}

void *wire_read_tagged_struct(struct wire_reader *r, struct arena *arena, int16_t version, struct wire_element element)
{
    return wire_read_uvarint(r) > 0 ? read_struct(r, arena, version, element) : NULL;
}

void *wire_default_struct(struct wire_reader *r, struct arena *arena, void (*init)(void *), size_t size)
{
    void *value = r->err == ERR_OK ? arena_alloc(arena, size) : NULL;

    if (value != NULL)
        init(value);
    else if (r->err == ERR_OK)
        wire_reader_fail(r, ERR_NOMEM, 0);
    return value;
}

struct wire_tags wire_read_tags(struct wire_reader *r)
{
    struct wire_tags tags = {.end = r->end, .first = true};

    tags.left = wire_read_uvarint(r);
    if (tags.left > wire_reader_left(r) / 2) { /* a tag and a size are two bytes at least */
        wire_reader_fail(r, ERR_MALFORMED, (size_t)tags.left * 2);
        tags.left = 0;
    }
    if (!take_entries(r, tags.left))
        tags.left = 0;
    return tags;
}

bool wire_next_tag(struct wire_reader *r, struct wire_tags *tags)
{
    if (r->err != ERR_OK)
        return false;
    if (r->at != r->end && !tags->first) { /* the payload before this one is longer than what it holds */
        wire_reader_fail(r, ERR_MALFORMED, 0);
        return false;
    }
    r->end = tags->end;
    if (tags->left == 0)
        return false;
    tags->left--;
    uint32_t tag = wire_read_uvarint(r);
    size_t size = wire_read_uvarint(r);
    if (r->err == ERR_OK && !tags->first && tag <= tags->tag)
        wire_reader_fail(r, ERR_MALFORMED, 0);
    if (size > wire_reader_left(r))
        wire_reader_fail(r, ERR_MALFORMED, size);
    tags->first = false;
    tags->tag = tag;
    if (r->err != ERR_OK)
        return false;
    r->end = r->at + size;
    return true;
}

void wire_skip_tag(struct wire_reader *r)
{
    r->at = r->end;
}

void wire_skip_tags(struct wire_reader *r)
{
    struct wire_tags tags = wire_read_tags(r);

    while (wire_next_tag(r, &tags))
        wire_skip_tag(r);
}
