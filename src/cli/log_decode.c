#include "cli/log_decode.h"

#include <string.h>

#include "base/big_endian.h"
#include "protocol/gen/control_record_type_schema.h"
#include "protocol/gen/end_txn_marker.h"
#include "protocol/gen/kraft_version_record.h"
#include "protocol/gen/leader_change_message.h"
#include "protocol/gen/messages.h"
#include "protocol/gen/snapshot_footer_record.h"
#include "protocol/gen/snapshot_header_record.h"
#include "protocol/gen/voters_record.h"

enum { METADATA_FRAME_VERSION = 1, VERSION_BYTES = 2, CONTROL_KEY_BYTES = 4 };

enum log_decoder log_decoder_of(struct bytes topic)
{
    if (bytes_equal(topic, BYTES_LITERAL("__consumer_offsets")))
        return DECODE_OFFSETS;
    if (bytes_equal(topic, BYTES_LITERAL("__transaction_state")))
        return DECODE_TRANSACTIONS;
    if (bytes_equal(topic, BYTES_LITERAL("__share_group_state")))
        return DECODE_SHARE;
    if (bytes_equal(topic, BYTES_LITERAL("__cluster_metadata")))
        return DECODE_METADATA;
    return DECODE_NOTHING;
}

bool log_decoder_parse(const char *name, enum log_decoder *decoder)
{
    static const char *const names[] = {
        [DECODE_NOTHING] = "none", [DECODE_OFFSETS] = "offsets",   [DECODE_TRANSACTIONS] = "transactions",
        [DECODE_SHARE] = "share",  [DECODE_METADATA] = "metadata",
    };

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(names[i], name) == 0) {
            *decoder = (enum log_decoder)i;
            return true;
        }
    return false;
}

static const struct message_type *find(enum message_family family, enum message_kind kind, int16_t number)
{
    for (size_t i = 0; i < MESSAGE_TYPE_COUNT; i++)
        if (message_types[i]->family == family && message_types[i]->kind == kind && message_types[i]->api_key == number)
            return message_types[i];
    return NULL;
}

/* False: these bytes are no such message. */
static bool put_message(struct line_out *out, const char *key, const struct message_type *type, int16_t version,
                        struct bytes body, struct arena *arena)
{
    struct wire_reader reader;
    void *message = NULL;

    if (type == NULL || !message_serves(type, version))
        return false;
    message = arena_alloc(arena, type->structure->size);
    if (message == NULL)
        return false;
    wire_reader_init(&reader, body);
    type->structure->init(message);
    if (message_read(type, &reader, arena, version, message) != ERR_OK)
        return false;
    line_message(out, key, type, version, message);
    return true;
}

static struct bytes behind(struct bytes bytes, size_t size)
{
    return bytes_of(bytes.data + size, bytes.size - size);
}

/* Key: int16 record type, body of version 0. Value: int16 version, body; null: the key's end. */
static void put_coordinator_record(struct line_out *out, enum message_family family, const struct record *record,
                                   struct arena *arena)
{
    int16_t number = 0;

    if (record->key.size >= VERSION_BYTES)
        number = (int16_t)big_endian_load_u16(record->key.data);
    if (record->key.size < VERSION_BYTES ||
        !put_message(out, "key", find(family, MESSAGE_KEY, number), 0, behind(record->key, VERSION_BYTES), arena)) {
        line_bytes(out, "undecoded_key", record->key);
        line_bytes(out, "undecoded_value", record->value);
        return;
    }
    if (record->value.data == NULL)
        line_bytes(out, "value", record->value);
    else if (record->value.size < VERSION_BYTES || !put_message(out, "value", find(family, MESSAGE_VALUE, number),
                                                                (int16_t)big_endian_load_u16(record->value.data),
                                                                behind(record->value, VERSION_BYTES), arena))
        line_bytes(out, "undecoded_value", record->value);
}

/* kraft.md "Record batches in the metadata log". */
static void put_metadata_record(struct line_out *out, const struct record *record, struct arena *arena)
{
    struct wire_reader reader;
    uint32_t frame = 0;
    uint32_t number = 0;
    uint32_t version = 0;

    wire_reader_init(&reader, record->value);
    frame = wire_read_uvarint(&reader);
    number = wire_read_uvarint(&reader);
    version = wire_read_uvarint(&reader);
    if (record->key.data != NULL)
        line_bytes(out, "key", record->key);
    if (record->value.data == NULL || reader.err != ERR_OK || frame != METADATA_FRAME_VERSION || number > INT16_MAX ||
        version > INT16_MAX ||
        !put_message(out, "value", find(MESSAGE_FAMILY_METADATA, MESSAGE_RECORD, (int16_t)number), (int16_t)version,
                     bytes_of(reader.at, wire_reader_left(&reader)), arena))
        line_bytes(out, "undecoded_value", record->value);
}

static void put_control_record(struct line_out *out, const struct record *record, struct arena *arena)
{
    static const struct {
        const char *name;
        const struct message_type *type;
        bool version_apart; /* it stands before the body, and is not its first field */
    } kinds[] = {
        {"abort", &end_txn_marker_message, true},
        {"commit", &end_txn_marker_message, true},
        {"leader_change", &leader_change_message_message, false},
        {"snapshot_header", &snapshot_header_record_message, false},
        {"snapshot_footer", &snapshot_footer_record_message, false},
        {"kraft_version", &kraft_version_record_message, false},
        {"voters", &voters_record_message, false},
    };
    uint16_t number = 0;
    int16_t version = 0;

    if (record->key.size < CONTROL_KEY_BYTES || record->value.size < VERSION_BYTES) {
        line_bytes(out, "undecoded_key", record->key);
        line_bytes(out, "undecoded_value", record->value);
        return;
    }
    number = big_endian_load_u16(record->key.data + VERSION_BYTES);
    version = (int16_t)big_endian_load_u16(record->value.data);
    if (number >= sizeof(kinds) / sizeof(kinds[0])) {
        line_i64(out, "control_type", number);
        line_bytes(out, "undecoded_value", record->value);
        return;
    }
    line_text(out, "control", kinds[number].name);
    if (!put_message(out, "value", kinds[number].type, version,
                     kinds[number].version_apart ? behind(record->value, VERSION_BYTES) : record->value, arena))
        line_bytes(out, "undecoded_value", record->value);
}

void log_decode_record(struct line_out *out, enum log_decoder decoder, bool control, const struct record *record,
                       struct arena *arena)
{
    arena_reset(arena);
    if (control) {
        put_control_record(out, record, arena);
        return;
    }
    switch (decoder) {
    case DECODE_NOTHING:
        line_bytes(out, "key", record->key);
        line_bytes(out, "value", record->value);
        break;
    case DECODE_OFFSETS:
        put_coordinator_record(out, MESSAGE_FAMILY_GROUP, record, arena);
        break;
    case DECODE_TRANSACTIONS:
        put_coordinator_record(out, MESSAGE_FAMILY_TRANSACTION, record, arena);
        break;
    case DECODE_SHARE:
        put_coordinator_record(out, MESSAGE_FAMILY_SHARE, record, arena);
        break;
    case DECODE_METADATA:
        put_metadata_record(out, record, arena);
        break;
    }
}
