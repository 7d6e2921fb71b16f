#include "cli/line_out.h"

#include <inttypes.h>
#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"

enum { MESSAGE_CHARS_MAX = 64 * 1024 };

/* A JSON that could not be made has no memory; the line then lacks it. */
static void set(struct line_out *out, const char *key, json_t *value)
{
    if (value != NULL)
        (void)json_object_set_new(out->object, key, value);
}

void line_begin(struct line_out *out, const char *kind)
{
    if (!out->json) {
        fputs(kind, out->to);
        return;
    }
    out->object = json_object();
    set(out, "kind", json_string(kind));
}

void line_i64(struct line_out *out, const char *key, int64_t value)
{
    if (out->json)
        set(out, key, json_integer(value));
    else
        fprintf(out->to, " %s=%" PRId64, key, value);
}

void line_u64(struct line_out *out, const char *key, uint64_t value)
{
    if (out->json)
        set(out, key, json_integer((json_int_t)value));
    else
        fprintf(out->to, " %s=%" PRIu64, key, value);
}

void line_numbers(struct line_out *out, const struct line_number *numbers, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        line_i64(out, numbers[i].key, numbers[i].value);
}

static bool is_word(const char *value)
{
    return value[0] != '\0' && strpbrk(value, " \"\\\t\n") == NULL;
}

/* Bytes of the character at the front, where it may be printed as it is; 0: it may not. */
static size_t printable(struct bytes text)
{
    struct bytes rest = text;
    uint32_t code = 0;

    if (!utf8_take(&rest, &code) || code < 0x20 || (code >= 0x7f && code < 0xa0) || code == '"' || code == '\\')
        return 0;
    return text.size - rest.size;
}

static void put_quoted(FILE *to, struct bytes value)
{
    if (value.data == NULL) {
        fputs("null", to);
        return;
    }
    fputc('"', to);
    while (value.size > 0) {
        size_t size = printable(value);

        if (size > 0)
            (void)fwrite(value.data, 1, size, to);
        else if (value.data[0] == '"' || value.data[0] == '\\')
            fprintf(to, "\\%c", value.data[0]);
        else if (value.data[0] == '\n')
            fputs("\\n", to);
        else
            fprintf(to, "\\x%02x", value.data[0]);
        size = size == 0 ? 1 : size;
        value = bytes_of(value.data + size, value.size - size);
    }
    fputc('"', to);
}

void line_text(struct line_out *out, const char *key, const char *value)
{
    if (out->json)
        set(out, key, json_string(value));
    else if (is_word(value))
        fprintf(out->to, " %s=%s", key, value);
    else
        line_bytes(out, key, bytes_of_text(value));
}

static json_t *base64(struct bytes value)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char *text = mem_alloc(value.size / 3 * 4 + 5);
    json_t *made = NULL;
    size_t at = 0;

    if (text == NULL)
        return NULL;
    for (size_t i = 0; i < value.size; i += 3) {
        size_t left = value.size - i;
        uint32_t bits = (uint32_t)value.data[i] << 16 | (left > 1 ? (uint32_t)value.data[i + 1] << 8 : 0) |
                        (left > 2 ? (uint32_t)value.data[i + 2] : 0);

        text[at++] = digits[bits >> 18];
        text[at++] = digits[bits >> 12 & 63];
        text[at++] = left > 1 ? digits[bits >> 6 & 63] : '=';
        text[at++] = left > 2 ? digits[bits & 63] : '=';
    }
    made = json_pack("{s:s#}", "base64", text, (int)at);
    mem_free(text);
    return made;
}

static json_t *json_bytes(struct bytes value)
{
    json_t *made = NULL;

    if (value.data == NULL)
        return json_null();
    made = json_stringn((const char *)value.data, value.size); /* NULL: no UTF-8 */
    return made != NULL ? made : base64(value);
}

void line_bytes(struct line_out *out, const char *key, struct bytes value)
{
    if (out->json) {
        set(out, key, json_bytes(value));
        return;
    }
    fprintf(out->to, " %s=", key);
    put_quoted(out->to, value);
}

void line_flag(struct line_out *out, const char *key, bool value)
{
    if (out->json)
        set(out, key, json_boolean(value));
    else if (value)
        fprintf(out->to, " %s", key);
}

/* --- messages --- */

static json_t *json_struct(const struct message_struct *type, int16_t version, const char *from);

static json_t *json_value(const struct message_field *field, int16_t version, const char *at)
{
    const void *value = at;

    switch ((enum message_field_type)field->kind) {
    case FIELD_BOOL:
        return json_boolean(*(const bool *)value);
    case FIELD_INT8:
        return json_integer(*(const int8_t *)value);
    case FIELD_INT16:
        return json_integer(*(const int16_t *)value);
    case FIELD_INT32:
        return json_integer(*(const int32_t *)value);
    case FIELD_INT64:
        return json_integer(*(const int64_t *)value);
    case FIELD_UINT16:
        return json_integer(*(const uint16_t *)value);
    case FIELD_UINT32:
        return json_integer(*(const uint32_t *)value);
    case FIELD_FLOAT64:
        return json_real(*(const double *)value);
    case FIELD_UUID:
        return json_string(uuid_format(*(const struct uuid *)value).text);
    case FIELD_STRING:
    case FIELD_BYTES:
        return json_bytes(*(const struct bytes *)value);
    case FIELD_RECORDS:
        return json_null();
    case FIELD_STRUCT:
        return json_struct(field->type, version, at);
    }
    return json_null();
}

static json_t *json_field(const struct message_field *field, int16_t version, const char *from)
{
    const char *at = from + field->offset;
    const bool nullable = field->nullable.from <= field->nullable.to;

    if (field->secret)
        return json_string("***");
    if (field->array) {
        const char *array = *(const char *const *)(const void *)at;
        uint32_t count = *(const uint32_t *)(const void *)(from + field->count_offset);
        json_t *made = array == NULL && nullable ? json_null() : json_array();

        for (uint32_t i = 0; i < count && made != NULL; i++)
            (void)json_array_append_new(made, json_value(field, version, array + i * message_field_size(field)));
        return made;
    }
    if (field->kind == FIELD_STRUCT && nullable) {
        at = *(const char *const *)(const void *)at;
        return at == NULL ? json_null() : json_struct(field->type, version, at);
    }
    return json_value(field, version, at);
}

static json_t *json_struct(const struct message_struct *type, int16_t version, const char *from)
{
    json_t *made = json_object();

    for (uint32_t i = 0; i < type->field_count && made != NULL; i++)
        if (message_versions_has(type->fields[i].versions, version))
            (void)json_object_set_new(made, type->fields[i].name, json_field(&type->fields[i], version, from));
    return made;
}

void line_message(struct line_out *out, const char *key, const struct message_type *type, int16_t version,
                  const void *message)
{
    static const char no_memory[] = "(no memory)";
    char *text = NULL;

    if (out->json) {
        json_t *made = json_struct(type->structure, version, message);

        if (made != NULL) {
            (void)json_object_set_new(made, "type", json_string(type->name));
            (void)json_object_set_new(made, "version", json_integer(version));
        }
        set(out, key, made);
        return;
    }
    text = mem_alloc(MESSAGE_CHARS_MAX);
    if (text != NULL)
        (void)message_print(type, version, message, text, MESSAGE_CHARS_MAX);
    fprintf(out->to, " %s=%s%s", key, type->name, text == NULL ? no_memory : text);
    mem_free(text);
}

/* --- pairs --- */

void line_pairs_begin(struct line_out *out, const char *key)
{
    if (out->json)
        set(out, key, json_array());
}

void line_pair(struct line_out *out, const char *key, struct bytes name, struct bytes value)
{
    if (out->json) {
        json_t *pair = json_object();

        (void)json_object_set_new(pair, "name", json_bytes(name));
        (void)json_object_set_new(pair, "value", json_bytes(value));
        (void)json_array_append_new(json_object_get(out->object, key), pair);
        return;
    }
    fprintf(out->to, " %s:", key);
    put_quoted(out->to, name);
    fputc('=', out->to);
    put_quoted(out->to, value);
}

void line_end(struct line_out *out)
{
    if (!out->json) {
        fputc('\n', out->to);
        return;
    }
    (void)json_dumpf(out->object, out->to, JSON_COMPACT);
    fputc('\n', out->to);
    json_decref(out->object);
    out->object = NULL;
}

void line_unreadable(struct line_out *out, const char *because, bool *damaged)
{
    *damaged = true;
    line_begin(out, "damaged");
    line_text(out, "because", because);
    line_end(out);
}
