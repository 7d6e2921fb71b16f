#include "protocol/batch_build.h"

#include "base/assert.h"
#include "base/big_endian.h"
#include "base/mem.h"

enum {
    BUILDER_ROOM_MIN = 1024,
    CONTROL_KEY_BYTES = 4, /* version, type */
    CONTROL_KEY_VERSION = 0,
};

void batch_spec_init(struct batch_spec *spec)
{
    *spec = (struct batch_spec){
        .leader_epoch = -1,
        .codec = CODEC_NONE,
        .level = CODEC_LEVEL_DEFAULT,
        .delete_horizon_ms = -1,
        .last_offset_delta_min = -1,
        .producer_id = -1,
        .producer_epoch = -1,
        .base_sequence = -1,
        .size_max = INT32_MAX,
    };
}

void batch_builder_init(struct batch_builder *builder, const struct batch_spec *spec)
{
    *builder = (struct batch_builder){0};
    batch_builder_reset(builder, spec);
}

void batch_builder_deinit(struct batch_builder *builder)
{
    mem_free(builder->data);
    mem_free(builder->packed);
    *builder = (struct batch_builder){0};
}

void batch_builder_reset(struct batch_builder *builder, const struct batch_spec *spec)
{
    assert(spec->size_max <= INT32_MAX && spec->base_offset >= 0 && spec->codec < CODEC_COUNT);
    builder->spec = *spec;
    builder->size = BATCH_HEADER_BYTES;
    builder->record_count = 0;
    builder->last_offset_delta = -1;
    builder->base_timestamp = spec->delete_horizon_ms;
    builder->max_timestamp = -1;
}

size_t batch_builder_size(const struct batch_builder *builder)
{
    return builder->size;
}

static enum err reserve(uint8_t **data, size_t *room, size_t wanted)
{
    size_t larger = *room * 2 > BUILDER_ROOM_MIN ? *room * 2 : (size_t)BUILDER_ROOM_MIN;
    uint8_t *grown = NULL;

    if (wanted <= *room)
        return ERR_OK;
    grown = mem_realloc(*data, wanted > larger ? wanted : larger);
    if (grown == NULL)
        return ERR_NOMEM;
    *data = grown;
    *room = wanted > larger ? wanted : larger;
    return ERR_OK;
}

static size_t bytes_field_size(struct bytes bytes)
{
    return record_varint_size(bytes.data == NULL ? -1 : (int32_t)bytes.size) + bytes.size;
}

static uint8_t *write_raw(uint8_t *to, struct bytes bytes)
{
    if (bytes.size > 0)
        memcpy(to, bytes.data, bytes.size);
    return to + bytes.size;
}

static uint8_t *write_bytes_field(uint8_t *to, struct bytes bytes)
{
    to += record_varint_write(to, bytes.data == NULL ? -1 : (int32_t)bytes.size);
    return write_raw(to, bytes);
}

/* The size of the headers as they will lie there; 64 bits, so that no sum of sizes below 2^31 overflows. */
static uint64_t headers_size(const struct record_header *headers, uint32_t count)
{
    uint64_t size = 0;

    for (uint32_t i = 0; i < count; i++) {
        assert(headers[i].key.data != NULL);
        size += headers[i].key.size > INT32_MAX || headers[i].value.size > INT32_MAX
                    ? INT32_MAX
                    : bytes_field_size(headers[i].key) + bytes_field_size(headers[i].value);
    }
    return size;
}

/* Everything of a record but its headers' bytes: those follow. */
static uint8_t *write_front(uint8_t *to, int32_t body_size, const struct record *record)
{
    to += record_varint_write(to, body_size);
    *to++ = 0; /* attributes, unused */
    to += record_varlong_write(to, record->timestamp_delta);
    to += record_varint_write(to, record->offset_delta);
    to = write_bytes_field(to, record->key);
    to = write_bytes_field(to, record->value);
    return to + record_varint_write(to, (int32_t)record->header_count);
}

/* Makes room for a record and writes its front. record: its deltas, key, value and header_count. headers_at: out,
 * where headers_bytes go, after which the batch is complete again. */
static enum err add_record(struct batch_builder *builder, const struct record *record, uint64_t headers_bytes,
                           uint8_t **headers_at)
{
    uint64_t body = 0;
    enum err err = ERR_OK;

    if (record->key.size > INT32_MAX || record->value.size > INT32_MAX || headers_bytes > INT32_MAX ||
        record->header_count > INT32_MAX)
        return ERR_MESSAGE_TOO_LARGE;
    body = 1 + record_varlong_size(record->timestamp_delta) + record_varint_size(record->offset_delta) +
           bytes_field_size(record->key) + bytes_field_size(record->value) +
           record_varint_size((int32_t)record->header_count) + headers_bytes;
    if (builder->record_count == INT32_MAX || body + RECORD_VARINT_BYTES_MAX + builder->size > builder->spec.size_max)
        return ERR_MESSAGE_TOO_LARGE;
    err = reserve(&builder->data, &builder->room, builder->size + (size_t)body + RECORD_VARINT_BYTES_MAX);
    if (err != ERR_OK)
        return err;
    *headers_at = write_front(builder->data + builder->size, (int32_t)body, record);
    builder->size = (size_t)(*headers_at - builder->data) + (size_t)headers_bytes;
    builder->record_count++;
    builder->last_offset_delta = record->offset_delta;
    return ERR_OK;
}

/* The delta to the batch's base, which the first record sets unless it is given. Differences wrap as readers' sums do.
 */
static int64_t timestamp_delta(const struct batch_builder *builder, int64_t timestamp)
{
    if (builder->record_count == 0 && builder->spec.delete_horizon_ms < 0)
        return 0;
    return (int64_t)((uint64_t)timestamp - (uint64_t)builder->base_timestamp);
}

static void note_timestamp(struct batch_builder *builder, int64_t timestamp)
{
    if (builder->record_count == 1 && builder->spec.delete_horizon_ms < 0)
        builder->base_timestamp = timestamp;
    if (builder->record_count == 1 || timestamp > builder->max_timestamp)
        builder->max_timestamp = timestamp;
}

enum err batch_builder_append(struct batch_builder *builder, int64_t timestamp, struct bytes key, struct bytes value,
                              const struct record_header *headers, uint32_t header_count)
{
    struct record record = {
        .timestamp_delta = timestamp_delta(builder, timestamp),
        .key = key,
        .value = value,
        .header_count = header_count,
    };
    uint8_t *to = NULL;
    enum err err = ERR_OK;

    if (builder->last_offset_delta == INT32_MAX)
        return ERR_MESSAGE_TOO_LARGE;
    record.offset_delta = builder->last_offset_delta + 1;
    err = add_record(builder, &record, headers_size(headers, header_count), &to);
    if (err != ERR_OK)
        return err;
    for (uint32_t i = 0; i < header_count; i++) {
        to = write_bytes_field(to, headers[i].key);
        to = write_bytes_field(to, headers[i].value);
    }
    assert(to == builder->data + builder->size);
    note_timestamp(builder, timestamp);
    return ERR_OK;
}

enum err batch_builder_append_control(struct batch_builder *builder, int64_t timestamp, enum control_type type,
                                      struct bytes value)
{
    uint8_t key[CONTROL_KEY_BYTES];

    assert(builder->spec.control);
    big_endian_store_u16(key, CONTROL_KEY_VERSION);
    big_endian_store_u16(key + 2, (uint16_t)type);
    return batch_builder_append(builder, timestamp, bytes_of(key, sizeof(key)), value, NULL, 0);
}

enum err batch_builder_copy(struct batch_builder *builder, const struct record *record)
{
    struct record copy = *record;
    uint8_t *to = NULL;
    enum err err = ERR_OK;

    assert(record->offset >= builder->spec.base_offset &&
           record->offset - builder->spec.base_offset > builder->last_offset_delta);
    if (record->offset - builder->spec.base_offset > INT32_MAX)
        return ERR_LIMIT;
    copy.offset_delta = (int32_t)(record->offset - builder->spec.base_offset);
    copy.timestamp_delta = timestamp_delta(builder, record->timestamp);
    err = add_record(builder, &copy, record->headers.size, &to);
    if (err != ERR_OK)
        return err;
    write_raw(to, record->headers);
    note_timestamp(builder, record->timestamp);
    return ERR_OK;
}

static uint16_t attributes_of(const struct batch_spec *spec)
{
    return (uint16_t)((uint32_t)spec->codec | (spec->log_append_time ? BATCH_LOG_APPEND_TIME : 0u) |
                      (spec->transactional ? BATCH_TRANSACTIONAL : 0u) | (spec->control ? BATCH_CONTROL : 0u) |
                      (spec->delete_horizon_ms >= 0 ? BATCH_DELETE_HORIZON : 0u));
}

static void write_header(uint8_t *batch, const struct batch_header *header)
{
    big_endian_store_u64(batch + BATCH_FIELD_BASE_OFFSET, (uint64_t)header->base_offset);
    big_endian_store_u32(batch + BATCH_FIELD_LENGTH, header->size - BATCH_LENGTH_BIAS_BYTES);
    big_endian_store_u32(batch + BATCH_FIELD_LEADER_EPOCH, (uint32_t)header->leader_epoch);
    batch[BATCH_FIELD_MAGIC] = BATCH_MAGIC;
    big_endian_store_u16(batch + BATCH_FIELD_ATTRIBUTES, header->attributes);
    big_endian_store_u32(batch + BATCH_FIELD_LAST_OFFSET_DELTA, (uint32_t)header->last_offset_delta);
    big_endian_store_u64(batch + BATCH_FIELD_BASE_TIMESTAMP, (uint64_t)header->base_timestamp);
    big_endian_store_u64(batch + BATCH_FIELD_MAX_TIMESTAMP, (uint64_t)header->max_timestamp);
    big_endian_store_u64(batch + BATCH_FIELD_PRODUCER_ID, (uint64_t)header->producer_id);
    big_endian_store_u16(batch + BATCH_FIELD_PRODUCER_EPOCH, (uint16_t)header->producer_epoch);
    big_endian_store_u32(batch + BATCH_FIELD_BASE_SEQUENCE, (uint32_t)header->base_sequence);
    big_endian_store_u32(batch + BATCH_FIELD_RECORD_COUNT, (uint32_t)header->record_count);
    batch_set_crc(batch);
}

/* Puts the records into their final form behind room for the header. */
static enum err pack(struct batch_builder *builder, enum codec codec, uint8_t **batch, size_t *size)
{
    size_t bound = 0;
    enum err err = reserve(&builder->data, &builder->room, builder->size);

    if (err != ERR_OK)
        return err;
    *batch = builder->data;
    *size = builder->size;
    if (codec == CODEC_NONE)
        return ERR_OK;
    bound = compress_bound(codec, builder->size - BATCH_HEADER_BYTES);
    err = reserve(&builder->packed, &builder->packed_room, BATCH_HEADER_BYTES + bound);
    if (err != ERR_OK)
        return err;
    err = compress_bytes(codec, builder->spec.level, batch_body(bytes_of(builder->data, builder->size)),
                         builder->packed + BATCH_HEADER_BYTES, bound, size);
    *batch = builder->packed;
    *size += BATCH_HEADER_BYTES;
    return err;
}

enum err batch_builder_finish(struct batch_builder *builder, uint8_t **batch, size_t *size)
{
    const struct batch_spec *spec = &builder->spec;
    struct batch_header header = {
        .base_offset = spec->base_offset,
        .leader_epoch = spec->leader_epoch,
        .attributes = attributes_of(spec),
        .last_offset_delta = builder->last_offset_delta < 0 ? 0 : builder->last_offset_delta,
        .base_timestamp = builder->base_timestamp,
        .max_timestamp = builder->max_timestamp,
        .producer_id = spec->producer_id,
        .producer_epoch = spec->producer_epoch,
        .base_sequence = spec->base_sequence,
        .record_count = builder->record_count,
    };
    enum err err = pack(builder, spec->codec, batch, size);

    if (header.last_offset_delta < spec->last_offset_delta_min)
        header.last_offset_delta = spec->last_offset_delta_min;
    if (err != ERR_OK)
        return err;
    header.size = (uint32_t)*size;
    write_header(*batch, &header);
    return ERR_OK;
}

void batch_write_empty(const struct batch_header *of, uint8_t *to)
{
    struct batch_header header = *of;

    header.size = BATCH_HEADER_BYTES;
    header.attributes &= BATCH_LOG_APPEND_TIME | BATCH_TRANSACTIONAL | BATCH_CONTROL;
    header.base_timestamp = -1;
    header.record_count = 0;
    write_header(to, &header);
}

/* Copies the records with their deltas, numbered anew where there are no gaps. */
static enum err copy_records(struct batch_builder *builder, struct bytes batch, const struct batch_header *header,
                             size_t opened_bytes_max)
{
    bool renumber = (int64_t)header->record_count == (int64_t)header->last_offset_delta + 1;
    struct record_iter iter;
    struct record record;
    enum err err = record_iter_init(&iter, batch, opened_bytes_max);

    if (err != ERR_OK)
        return err;
    while ((err = record_iter_next(&iter, &record)) == ERR_OK) {
        uint8_t *to = NULL;

        if (renumber)
            record.offset_delta = builder->record_count;
        err = add_record(builder, &record, record.headers.size, &to);
        if (err != ERR_OK)
            break;
        write_raw(to, record.headers);
    }
    record_iter_deinit(&iter);
    return err == ERR_END ? ERR_OK : err;
}

enum err batch_recompress(struct batch_builder *builder, struct bytes batch, enum codec codec, int32_t level,
                          size_t opened_bytes_max, uint8_t **result, size_t *size)
{
    struct batch_header header;
    struct batch_spec spec;
    enum err err = ERR_OK;

    batch_spec_init(&spec);
    spec.level = level;
    batch_builder_reset(builder, &spec);
    batch_header_read(batch.data, &header);
    err = copy_records(builder, batch, &header, opened_bytes_max);
    if (err == ERR_OK)
        err = pack(builder, codec, result, size);
    if (err != ERR_OK)
        return err;
    header.size = (uint32_t)*size;
    header.attributes = (uint16_t)((header.attributes & ~(uint32_t)BATCH_CODEC_MASK) | (uint32_t)codec);
    write_header(*result, &header);
    return ERR_OK;
}
