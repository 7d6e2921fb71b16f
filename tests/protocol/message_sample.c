#include "message_sample.h"

#include <stdlib.h>

#include "base/assert.h"

enum { SAMPLE_COUNT_MAX = 3, SAMPLE_STRING_MAX = 14 };

/* splitmix64. */
uint64_t sample_draw(struct sample *sample, uint64_t below)
{
    uint64_t z = sample->seed += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    z ^= z >> 31;
    return below == 0 ? z : z % below;
}

uint32_t sample_name_hash(const char *name)
{
    uint32_t hash = UINT32_C(2166136261);

    for (; *name != '\0'; name++)
        hash = (hash ^ (uint8_t)*name) * UINT32_C(16777619);
    return hash >> 8;
}

static void *take(struct sample *sample, size_t count, size_t size)
{
    void *room = arena_array(sample->arena, count == 0 ? 1 : count, size);
    assert(room != NULL);
    return room;
}

static int64_t draw_number(struct sample *sample)
{
    static const int64_t edges[] = {0, 1, -1, INT8_MIN, INT16_MAX, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN};

    switch (sample_draw(sample, 3)) {
    case 0:
        return edges[sample_draw(sample, sizeof(edges) / sizeof(edges[0]))];
    case 1:
        return (int64_t)sample_draw(sample, 1000);
    default:
        return (int64_t)sample_draw(sample, 0);
    }
}

/* ASCII and now and then a letter of two bytes, so that it is text for Java too. */
static struct bytes draw_string(struct sample *sample)
{
    size_t size =
        sample_draw(sample, 20) == 0 ? 130 + sample_draw(sample, 200) : sample_draw(sample, SAMPLE_STRING_MAX);
    uint8_t *data = take(sample, size + 1, 1);
    size_t used = 0;

    while (used < size) {
        if (used + 2 <= size && sample_draw(sample, 8) == 0) {
            data[used++] = 0xc3;
            data[used++] = (uint8_t)(0xa0 + sample_draw(sample, 0x17));
        } else {
            data[used++] = (uint8_t)('!' + sample_draw(sample, 90));
        }
    }
    return bytes_of(data, size);
}

static struct bytes draw_bytes(struct sample *sample)
{
    size_t size = sample_draw(sample, 24);
    uint8_t *data = take(sample, size + 1, 1);

    for (size_t i = 0; i < size; i++)
        data[i] = (uint8_t)sample_draw(sample, 256);
    return bytes_of(data, size);
}

static struct records draw_records(struct sample *sample)
{
    uint32_t count = 1 + (uint32_t)sample_draw(sample, 3);
    struct slice *slices = take(sample, count, sizeof(*slices));
    struct records records = {.slices = slices, .slice_count = count};

    for (uint32_t i = 0; i < count; i++) {
        struct bytes bytes = draw_bytes(sample);
        slices[i] = slice_of(bytes.data, bytes.size);
        records.size += bytes.size;
    }
    return records;
}

static void draw_struct(struct sample *sample, const struct message_struct *type, int16_t version, char *to);

static void draw_value(struct sample *sample, const struct message_field *field, int16_t version, char *to)
{
    int64_t number = draw_number(sample);
    void *at = to;

    switch ((enum message_field_type)field->kind) {
    case FIELD_BOOL:
        *(bool *)at = (number & 1) != 0;
        break;
    case FIELD_INT8:
        *(int8_t *)at = (int8_t)number;
        break;
    case FIELD_INT16:
        *(int16_t *)at = (int16_t)number;
        break;
    case FIELD_INT32:
        *(int32_t *)at = (int32_t)number;
        break;
    case FIELD_INT64:
        *(int64_t *)at = number;
        break;
    case FIELD_UINT16:
        *(uint16_t *)at = (uint16_t)number;
        break;
    case FIELD_UINT32:
        *(uint32_t *)at = (uint32_t)number;
        break;
    case FIELD_FLOAT64:
        *(double *)at = (double)number / 8;
        break;
    case FIELD_UUID:
        for (unsigned i = 0; i < UUID_BYTES; i++)
            ((struct uuid *)at)->bytes[i] = (uint8_t)sample_draw(sample, 256);
        break;
    case FIELD_STRING:
        *(struct bytes *)at = draw_string(sample);
        break;
    case FIELD_BYTES:
        *(struct bytes *)at = draw_bytes(sample);
        break;
    case FIELD_RECORDS:
        *(struct records *)at = draw_records(sample);
        break;
    case FIELD_STRUCT:
        draw_struct(sample, field->type, version, to);
        break;
    }
}

static void draw_field(struct sample *sample, const struct message_field *field, int16_t version, char *to)
{
    bool may_be_null = message_versions_has(field->nullable, version) ||
                       (sample->all_fields && field->nullable.from <= field->nullable.to);
    bool null = may_be_null && sample_draw(sample, 4) == 0;
    void *at = to + field->offset;

    if (field->array) {
        uint32_t count = (uint32_t)sample_draw(sample, SAMPLE_COUNT_MAX + 1);
        size_t size = message_field_size(field);
        char *array = null ? NULL : take(sample, count, size);
        *(void **)at = array;
        *(uint32_t *)(void *)(to + field->count_offset) = null ? 0 : count;
        for (uint32_t i = 0; array != NULL && i < count; i++)
            draw_value(sample, field, version, array + i * size);
    } else if (field->kind == FIELD_STRUCT && field->nullable.from <= field->nullable.to) {
        char *value = null ? NULL : take(sample, 1, field->type->size);
        *(void **)at = value;
        if (value != NULL)
            draw_struct(sample, field->type, version, value);
    } else if (null && field->kind == FIELD_RECORDS) {
        *(struct records *)at = (struct records){.null = true};
    } else if (null) {
        *(struct bytes *)at = bytes_of(NULL, 0);
    } else {
        draw_value(sample, field, version, at);
    }
}

static void draw_struct(struct sample *sample, const struct message_struct *type, int16_t version, char *to)
{
    type->init(to);
    for (uint32_t i = 0; i < type->field_count; i++) {
        const struct message_field *field = &type->fields[i];
        if (!sample->all_fields && !message_versions_has(field->versions, version))
            continue;
        if (field->tag >= 0 && sample_draw(sample, 3) == 0)
            continue; /* keeps its default */
        draw_field(sample, field, version, to);
    }
}

void *sample_message(struct sample *sample, const struct message_type *type, int16_t version)
{
    char *message = take(sample, 1, type->structure->size);
    draw_struct(sample, type->structure, version, message);
    return message;
}

static bool struct_shows_arrays(const struct message_struct *type, int16_t version, const char *of)
{
    for (uint32_t i = 0; i < type->field_count; i++) {
        const struct message_field *field = &type->fields[i];
        bool pointed_to = field->array || (field->kind == FIELD_STRUCT && field->nullable.from <= field->nullable.to);
        const void *at = of + field->offset;

        if (!message_versions_has(field->versions, version))
            continue;
        if (field->array && *(const uint32_t *)(const void *)(of + field->count_offset) == 0)
            return false;
        if (pointed_to)
            at = *(const void *const *)at;
        if (field->kind == FIELD_STRUCT && at != NULL && !struct_shows_arrays(field->type, version, at))
            return false;
    }
    return true;
}

bool sample_shows_arrays(const struct message_type *type, int16_t version, const void *message)
{
    return struct_shows_arrays(type->structure, version, message);
}

static bool same_records(const struct records *a, const struct records *b)
{
    uint32_t i = 0, j = 0;
    size_t in_a = 0, in_b = 0;

    if (a->null || b->null || a->size != b->size)
        return a->null == b->null && a->size == b->size;
    for (size_t position = 0; position < a->size; position++) {
        while (in_a == a->slices[i].size) {
            i++;
            in_a = 0;
        }
        while (in_b == b->slices[j].size) {
            j++;
            in_b = 0;
        }
        if (a->slices[i].data[in_a++] != b->slices[j].data[in_b++])
            return false;
    }
    return true;
}

static const char *struct_difference(const struct message_struct *type, int16_t version, const char *a, const char *b,
                                     bool a_has_all);

static const char *value_difference(const struct message_field *field, int16_t version, const void *a, const void *b,
                                    bool nullable, bool a_has_all)
{
    bool same;

    switch ((enum message_field_type)field->kind) {
    case FIELD_STRUCT:
        return struct_difference(field->type, version, a, b, a_has_all);
    case FIELD_STRING:
    case FIELD_BYTES: {
        const struct bytes *x = a, *y = b;
        same = bytes_equal(*x, *y) && (!nullable || (x->data == NULL) == (y->data == NULL));
        break;
    }
    case FIELD_RECORDS: {
        struct records empty = {.null = false};
        const struct records *x = a;
        same = same_records(x->null && !nullable ? &empty : x, b);
        break;
    }
    default:
        same = memcmp(a, b, message_field_size(field)) == 0;
        break;
    }
    return same ? NULL : field->name;
}

/* nullable: null counts; where it may not be, it was written as empty. */
static const char *field_difference(const struct message_field *field, int16_t version, const char *a, const char *b,
                                    bool nullable, bool a_has_all)
{
    const void *x = a + field->offset, *y = b + field->offset;
    const char *difference = NULL;

    if (field->array) {
        uint32_t count = *(const uint32_t *)(const void *)(a + field->count_offset);
        size_t size = message_field_size(field);
        x = *(const void *const *)x;
        y = *(const void *const *)y;
        if ((nullable && (x == NULL) != (y == NULL)) ||
            count != *(const uint32_t *)(const void *)(b + field->count_offset))
            return field->name;
        for (uint32_t i = 0; i < count && difference == NULL; i++)
            difference = value_difference(field, version, (const char *)x + i * size, (const char *)y + i * size, false,
                                          a_has_all);
        return difference;
    }
    if (field->kind == FIELD_STRUCT && field->nullable.from <= field->nullable.to) {
        x = *(const void *const *)x;
        y = *(const void *const *)y;
        if (x == NULL || y == NULL)
            return x == y ? NULL : field->name;
    }
    return value_difference(field, version, x, y, nullable, a_has_all);
}

static const char *struct_difference(const struct message_struct *type, int16_t version, const char *a, const char *b,
                                     bool a_has_all)
{
    const char *difference = NULL;
    char *defaults = malloc(type->size);

    assert(defaults != NULL);
    type->init(defaults);
    for (uint32_t i = 0; i < type->field_count && difference == NULL; i++) {
        const struct message_field *field = &type->fields[i];
        bool has = message_versions_has(field->versions, version);
        bool nullable = message_versions_has(field->nullable, version);
        if (has || !a_has_all)
            difference = field_difference(field, version, a, b,
                                          has ? nullable : field->nullable.from <= field->nullable.to, a_has_all);
        else
            difference =
                field_difference(field, version, defaults, b, field->nullable.from <= field->nullable.to, false);
    }
    free(defaults);
    return difference;
}

const char *sample_difference(const struct message_type *type, int16_t version, const void *a, const void *b,
                              bool a_has_all)
{
    return struct_difference(type->structure, version, a, b, a_has_all);
}
