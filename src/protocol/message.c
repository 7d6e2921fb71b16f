#include "protocol/message.h"

#include "base/assert.h"

enum err message_read(const struct message_type *type, struct wire_reader *r, struct arena *arena, int16_t version,
                      void *message)
{
    if (!message_serves(type, version)) {
        wire_reader_fail(r, ERR_UNSERVED, 0);
        type->structure->init(message);
    } else {
        type->read(r, arena, version, message);
    }
    return r->err;
}

void message_write(const struct message_type *type, struct wire_writer *w, int16_t version, const void *message)
{
    assert(message_serves(type, version));
    type->write(w, version, message);
}

struct wire_size message_size(const struct message_type *type, int16_t version, const void *message)
{
    struct wire_writer w;

    wire_writer_init_count(&w);
    message_write(type, &w, version, message);
    w.size.slices++; /* the run behind the last records */
    return w.size;
}

enum err message_encode(const struct message_type *type, int16_t version, const void *message, struct arena *arena,
                        struct bytes *encoded)
{
    size_t size = wire_size_total(message_size(type, version, message));
    uint8_t *buffer = arena_alloc(arena, size);
    struct wire_writer w;
    enum err err;

    if (buffer == NULL)
        return ERR_NOMEM;
    wire_writer_init_flat(&w, buffer, size);
    message_write(type, &w, version, message);
    err = wire_writer_finish(&w, NULL);
    assert(err != ERR_OK || w.at == w.end);
    if (err == ERR_OK)
        *encoded = bytes_of(buffer, size);
    return err;
}

size_t message_field_size(const struct message_field *field)
{
    static const uint8_t sizes[] = {
        [FIELD_BOOL] = sizeof(bool),          [FIELD_INT8] = sizeof(int8_t),
        [FIELD_INT16] = sizeof(int16_t),      [FIELD_INT32] = sizeof(int32_t),
        [FIELD_INT64] = sizeof(int64_t),      [FIELD_UINT16] = sizeof(uint16_t),
        [FIELD_UINT32] = sizeof(uint32_t),    [FIELD_FLOAT64] = sizeof(double),
        [FIELD_UUID] = sizeof(struct uuid),   [FIELD_STRING] = sizeof(struct bytes),
        [FIELD_BYTES] = sizeof(struct bytes), [FIELD_RECORDS] = sizeof(struct records),
    };

    return field->kind == FIELD_STRUCT ? field->type->size : sizes[field->kind];
}
