#include "raftmeta/metadata_record.h"

#include <stdio.h>

#include "base/assert.h"

enum { FRAME_VERSION = 1 };

struct kind {
    const char *name;
    const struct message_type *type;
    size_t offset; /* of its member in struct metadata_record */
};

static const struct kind *kind_of(uint32_t number)
{
    static const struct kind kinds[] = {
#define METADATA_RECORD_ROW(number, name, codec)                                                                       \
    [number] = {#name, &codec##_record_message, offsetof(struct metadata_record, codec)},
        METADATA_RECORD_LIST(METADATA_RECORD_ROW)
#undef METADATA_RECORD_ROW
    };

    if (number >= sizeof(kinds) / sizeof(kinds[0]) || kinds[number].name == NULL)
        return NULL;
    return &kinds[number];
}

static void *body_of(struct metadata_record *record, const struct kind *kind)
{
    return (uint8_t *)record + kind->offset;
}

const char *metadata_record_name(uint32_t kind)
{
    const struct kind *known = kind_of(kind);

    return known == NULL ? NULL : known->name;
}

/* Levels at which a kind's records got new fields (kraft.md "Features"). A broker of that level writes them so. */
static int16_t version_at(enum metadata_record_kind kind, int16_t metadata_version)
{
    switch (kind) {
    case RECORD_REGISTER_BROKER:
        return metadata_version >= 17 ? 3 : metadata_version >= 8 ? 2 : 1;
    case RECORD_PARTITION:
    case RECORD_PARTITION_CHANGE:
        return metadata_version >= 23 ? 2 : metadata_version >= 17 ? 1 : 0;
    default:
        return 0;
    }
}

void metadata_record_init(struct metadata_record *record, enum metadata_record_kind kind, int16_t metadata_version)
{
    const struct kind *known = kind_of((uint32_t)kind);

    assert(known != NULL);
    memset(record, 0, sizeof(*record));
    record->kind = kind;
    record->version = version_at(kind, metadata_version);
    known->type->structure->init(body_of(record, known));
}

enum err metadata_record_read(struct bytes frame, struct arena *arena, struct metadata_record *record)
{
    struct wire_reader reader;
    const struct kind *known = NULL;
    uint32_t version = 0;
    uint32_t number = 0;
    enum err err = ERR_OK;

    memset(record, 0, sizeof(*record));
    wire_reader_init(&reader, frame);
    if (wire_read_uvarint(&reader) != FRAME_VERSION)
        return ERR_DAMAGED;
    number = wire_read_uvarint(&reader);
    version = wire_read_uvarint(&reader);
    if (reader.err != ERR_OK || number > INT16_MAX || version > INT16_MAX)
        return ERR_DAMAGED;
    record->kind = (enum metadata_record_kind)number;
    record->version = (int16_t)version;
    known = kind_of(number);
    if (known == NULL || !message_serves(known->type, record->version))
        return ERR_UNSUPPORTED_VERSION;
    err = message_read(known->type, &reader, arena, record->version, body_of(record, known));
    if (err == ERR_OK && wire_reader_left(&reader) > 0)
        err = ERR_DAMAGED;
    return err == ERR_MALFORMED ? ERR_DAMAGED : err;
}

enum err metadata_record_write(const struct metadata_record *record, struct arena *arena, struct bytes *frame)
{
    const struct kind *known = kind_of((uint32_t)record->kind);
    const void *body = NULL;
    struct wire_writer writer;
    struct wire_size size;
    uint8_t *buffer = NULL;
    size_t room = 0;
    enum err err = ERR_OK;

    assert(known != NULL);
    body = (const uint8_t *)record + known->offset;
    size = message_size(known->type, record->version, body);
    room = (size_t)3 * WIRE_UVARINT_BYTES_MAX + wire_size_total(size);
    buffer = arena_alloc(arena, room);
    if (buffer == NULL)
        return ERR_NOMEM;
    wire_writer_init_flat(&writer, buffer, room);
    wire_write_uvarint(&writer, FRAME_VERSION);
    wire_write_uvarint(&writer, (uint32_t)record->kind);
    wire_write_uvarint(&writer, (uint32_t)record->version);
    message_write(known->type, &writer, record->version, body);
    err = wire_writer_finish(&writer, NULL);
    *frame = bytes_of(buffer, (size_t)(writer.at - buffer));
    return err;
}

size_t metadata_record_print(const struct metadata_record *record, char *text, size_t size)
{
    const struct kind *known = kind_of((uint32_t)record->kind);
    int head = 0;
    size_t used = 0;

    assert(known != NULL);
    head = snprintf(text, size, "%s ", known->name);
    used = (size_t)head < size ? (size_t)head : size;
    return (size_t)head + message_print(known->type, record->version, (const uint8_t *)record + known->offset,
                                        text + used, size - used);
}
