#include "protocol/batch.h"

#include "base/assert.h"
#include "base/big_endian.h"
#include "base/crc32c.h"

void batch_header_read(const uint8_t *batch, struct batch_header *header)
{
    *header = (struct batch_header){
        .base_offset = (int64_t)big_endian_load_u64(batch + BATCH_FIELD_BASE_OFFSET),
        .size = big_endian_load_u32(batch + BATCH_FIELD_LENGTH) + BATCH_LENGTH_BIAS_BYTES,
        .leader_epoch = (int32_t)big_endian_load_u32(batch + BATCH_FIELD_LEADER_EPOCH),
        .crc = big_endian_load_u32(batch + BATCH_FIELD_CRC),
        .attributes = big_endian_load_u16(batch + BATCH_FIELD_ATTRIBUTES),
        .last_offset_delta = (int32_t)big_endian_load_u32(batch + BATCH_FIELD_LAST_OFFSET_DELTA),
        .base_timestamp = (int64_t)big_endian_load_u64(batch + BATCH_FIELD_BASE_TIMESTAMP),
        .max_timestamp = (int64_t)big_endian_load_u64(batch + BATCH_FIELD_MAX_TIMESTAMP),
        .producer_id = (int64_t)big_endian_load_u64(batch + BATCH_FIELD_PRODUCER_ID),
        .producer_epoch = (int16_t)big_endian_load_u16(batch + BATCH_FIELD_PRODUCER_EPOCH),
        .base_sequence = (int32_t)big_endian_load_u32(batch + BATCH_FIELD_BASE_SEQUENCE),
        .record_count = (int32_t)big_endian_load_u32(batch + BATCH_FIELD_RECORD_COUNT),
    };
}

/* What no batch has, whoever wrote it. */
static bool is_plausible(const struct batch_header *header, uint8_t magic)
{
    return magic == BATCH_MAGIC && header->size >= BATCH_HEADER_BYTES &&
           header->size <= (uint32_t)INT32_MAX /* so no sum of it overflows */ && header->base_offset >= 0 &&
           header->last_offset_delta >= 0 && header->base_offset <= INT64_MAX - 1 - header->last_offset_delta &&
           header->record_count >= 0 && (header->attributes & BATCH_CODEC_MASK) < CODEC_COUNT;
}

enum err batch_peek(struct bytes run, struct batch_header *header, size_t *needed_size)
{
    if (needed_size != NULL)
        *needed_size = BATCH_HEADER_BYTES;
    if (run.size < BATCH_HEADER_BYTES)
        return ERR_END;
    batch_header_read(run.data, header);
    if (!is_plausible(header, run.data[BATCH_FIELD_MAGIC]))
        return ERR_CORRUPT_MESSAGE;
    if (needed_size != NULL)
        *needed_size = header->size;
    return header->size <= run.size ? ERR_OK : ERR_END;
}

static uint32_t crc_of(const uint8_t *batch, size_t size)
{
    assert(size >= BATCH_HEADER_BYTES);
    return crc32c(0, batch + BATCH_FIELD_ATTRIBUTES, size - BATCH_FIELD_ATTRIBUTES);
}

bool batch_crc_is_valid(struct bytes batch)
{
    return crc_of(batch.data, batch.size) == big_endian_load_u32(batch.data + BATCH_FIELD_CRC);
}

void batch_set_crc(uint8_t *batch)
{
    size_t size = big_endian_load_u32(batch + BATCH_FIELD_LENGTH) + (size_t)BATCH_LENGTH_BIAS_BYTES;

    big_endian_store_u32(batch + BATCH_FIELD_CRC, crc_of(batch, size));
}

void batch_set_base_offset(uint8_t *batch, int64_t base_offset)
{
    assert(base_offset >= 0);
    big_endian_store_u64(batch + BATCH_FIELD_BASE_OFFSET, (uint64_t)base_offset);
}

void batch_set_leader_epoch(uint8_t *batch, int32_t leader_epoch)
{
    big_endian_store_u32(batch + BATCH_FIELD_LEADER_EPOCH, (uint32_t)leader_epoch);
}

void batch_set_max_timestamp(uint8_t *batch, bool log_append_time, int64_t max_timestamp)
{
    uint16_t before = big_endian_load_u16(batch + BATCH_FIELD_ATTRIBUTES);
    uint16_t after = (uint16_t)((before & ~BATCH_LOG_APPEND_TIME) | (log_append_time ? BATCH_LOG_APPEND_TIME : 0));

    if (before == after && big_endian_load_u64(batch + BATCH_FIELD_MAX_TIMESTAMP) == (uint64_t)max_timestamp)
        return;
    big_endian_store_u16(batch + BATCH_FIELD_ATTRIBUTES, after);
    big_endian_store_u64(batch + BATCH_FIELD_MAX_TIMESTAMP, (uint64_t)max_timestamp);
    batch_set_crc(batch);
}
