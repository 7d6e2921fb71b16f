#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/assert.h"
#include "protocol/message.h"

enum { PRINT_STRING_BYTES_MAX = 256 }; /* of one string; a longer one is cut */

struct out {
    char *text;
    size_t size;
    size_t length; /* of the whole, whether or not it fits */
};

static void put(struct out *out, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void put(struct out *out, const char *format, ...)
{
    size_t used = out->length < out->size ? out->length : out->size;
    va_list arguments;
    int length;

    va_start(arguments, format);
    length = vsnprintf(out->text == NULL ? NULL : out->text + used, out->size - used, format, arguments);
    va_end(arguments);
    out->length += length < 0 ? 0 : (size_t)length;
}

static void put_string(struct out *out, struct bytes string)
{
    size_t shown = string.size < PRINT_STRING_BYTES_MAX ? string.size : PRINT_STRING_BYTES_MAX;

    if (string.data == NULL) {
        put(out, "null");
        return;
    }
    put(out, "\"");
    for (size_t i = 0; i < shown; i++) {
        uint8_t c = string.data[i];
        if (c < 0x20 || c == 0x7f || c == '"' || c == '\\')
            put(out, "\\x%02x", c);
        else
            put(out, "%c", c);
    }
    put(out, shown < string.size ? "...\"" : "\"");
}

static void put_struct(struct out *out, const struct message_struct *type, int16_t version, const char *from);

static void put_value(struct out *out, const struct message_field *field, int16_t version, const char *at)
{
    switch ((enum message_field_type)field->kind) {
    case FIELD_BOOL:
        put(out, *(const bool *)at ? "true" : "false");
        break;
    case FIELD_INT8:
        put(out, "%d", *(const int8_t *)at);
        break;
    case FIELD_INT16:
        put(out, "%d", *(const int16_t *)(const void *)at);
        break;
    case FIELD_INT32:
        put(out, "%" PRId32, *(const int32_t *)(const void *)at);
        break;
    case FIELD_INT64:
        put(out, "%" PRId64, *(const int64_t *)(const void *)at);
        break;
    case FIELD_UINT16:
        put(out, "%u", *(const uint16_t *)(const void *)at);
        break;
    case FIELD_UINT32:
        put(out, "%" PRIu32, *(const uint32_t *)(const void *)at);
        break;
    case FIELD_FLOAT64:
        put(out, "%.17g", *(const double *)(const void *)at);
        break;
    case FIELD_UUID:
        put(out, "%s", uuid_format(*(const struct uuid *)(const void *)at).text);
        break;
    case FIELD_STRING:
        put_string(out, *(const struct bytes *)(const void *)at);
        break;
    case FIELD_BYTES: {
        const struct bytes *bytes = (const void *)at;
        put(out, bytes->data == NULL ? "null" : "<%zu bytes>", bytes->size);
        break;
    }
    case FIELD_RECORDS: {
        const struct records *records = (const void *)at;
        put(out, records->null ? "null" : "<%zu bytes of records>", records->size);
        break;
    }
    case FIELD_STRUCT:
        put_struct(out, field->type, version, at);
        break;
    }
}

static void put_array(struct out *out, const struct message_field *field, int16_t version, const char *from)
{
    const char *array = *(const char *const *)(const void *)(from + field->offset);
    uint32_t count = *(const uint32_t *)(const void *)(from + field->count_offset);

    if (array == NULL && field->nullable.from <= field->nullable.to) {
        put(out, "null");
        return;
    }
    put(out, "[");
    for (uint32_t i = 0; i < count && (out->length < out->size || i == 0); i++) {
        put(out, i == 0 ? "" : " ");
        put_value(out, field, version, array + i * message_field_size(field));
    }
    put(out, "]");
}

static void put_struct(struct out *out, const struct message_struct *type, int16_t version, const char *from)
{
    bool first = true;

    put(out, "{");
    for (uint32_t i = 0; i < type->field_count; i++) {
        const struct message_field *field = &type->fields[i];
        const char *at = from + field->offset;
        if (!message_versions_has(field->versions, version))
            continue;
        put(out, "%s%s=", first ? "" : " ", field->name);
        first = false;
        if (field->secret)
            put(out, "***");
        else if (field->array)
            put_array(out, field, version, from);
        else if (field->kind == FIELD_STRUCT && field->nullable.from <= field->nullable.to) {
            at = *(const char *const *)(const void *)at;
            if (at == NULL)
                put(out, "null");
            else
                put_struct(out, field->type, version, at);
        } else
            put_value(out, field, version, at);
    }
    put(out, "}");
}

size_t message_print(const struct message_type *type, int16_t version, const void *message, char *text, size_t size)
{
    struct out out = {.text = text, .size = size};

    put_struct(&out, type->structure, version, message);
    return out.length < size ? out.length : size > 0 ? size - 1 : 0;
}
