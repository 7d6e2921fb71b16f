/*
 * batch: a record batch, format v2 (magic 2; KIP-98), as it lies in a frame or a file: its header of 61 bytes and what
 * may be stamped into it. Checking a producer's batch is batch_validate.h, making one batch_build.h, walking the
 * records record.h.
 *
 * The CRC covers everything from the attributes to the end; base offset, length, leader epoch and magic lie outside, so
 * those stamps cost nothing.
 *
 * Threads  any: no state.
 */
#ifndef OTTLA_PROTOCOL_BATCH_H
#define OTTLA_PROTOCOL_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"
#include "protocol/compress.h"

/* Where a field begins, in bytes from the start of the batch. */
enum batch_field {
    BATCH_FIELD_BASE_OFFSET = 0,
    BATCH_FIELD_LENGTH = 8,
    BATCH_FIELD_LEADER_EPOCH = 12,
    BATCH_FIELD_MAGIC = 16,
    BATCH_FIELD_CRC = 17,
    BATCH_FIELD_ATTRIBUTES = 21,
    BATCH_FIELD_LAST_OFFSET_DELTA = 23,
    BATCH_FIELD_BASE_TIMESTAMP = 27,
    BATCH_FIELD_MAX_TIMESTAMP = 35,
    BATCH_FIELD_PRODUCER_ID = 43,
    BATCH_FIELD_PRODUCER_EPOCH = 51,
    BATCH_FIELD_BASE_SEQUENCE = 53,
    BATCH_FIELD_RECORD_COUNT = 57,
};

enum {
    BATCH_HEADER_BYTES = 61,
    BATCH_LENGTH_BIAS_BYTES = 12, /* the length field counts what lies behind it */
    BATCH_MAGIC = 2,
    BATCH_OPENED_BYTES_MAX = 100 * 1024 * 1024, /* what one compressed batch may unfold to: the most that one
                                                   request may carry plain */
};

enum batch_attribute {
    BATCH_CODEC_MASK = 0x07,
    BATCH_LOG_APPEND_TIME = 0x08,
    BATCH_TRANSACTIONAL = 0x10,
    BATCH_CONTROL = 0x20,
    BATCH_DELETE_HORIZON =
        0x40, /* base_timestamp is the delete horizon, record times are relative to it all the same */
};

struct batch_header {
    int64_t base_offset;
    uint32_t size; /* bytes, header included */
    int32_t leader_epoch;
    uint32_t crc;
    uint16_t attributes;
    int32_t last_offset_delta;
    int64_t base_timestamp;
    int64_t max_timestamp;
    int64_t producer_id; /* -1: none, as the two below */
    int16_t producer_epoch;
    int32_t base_sequence;
    int32_t record_count; /* below last_offset_delta + 1 after compaction, even 0 */
};

/*
 * Looks at the first batch of a run, as a log scan does: structure only, neither CRC nor records.
 *
 * needed_size  out, may be NULL: bytes that the batch takes, or BATCH_HEADER_BYTES when its header is not whole yet.
 *
 * ERR_END              the run is empty or ends within the batch; header is filled if the run holds one
 * ERR_CORRUPT_MESSAGE  no batch of magic 2 begins here: length below the header's, another magic, a negative offset
 *                      or count, a codec that does not exist
 */
MUST_CHECK enum err batch_peek(struct bytes run, struct batch_header *header, size_t *needed_size);
/* Whether the checksum is right. The batch is whole: what batch_peek said ok to, exactly. */
bool batch_crc_is_valid(struct bytes batch);
/* Reads the header's fields as they are, all of BATCH_HEADER_BYTES there; judges nothing. */
void batch_header_read(const uint8_t *batch, struct batch_header *header);

/* Stamps outside the CRC. */
void batch_set_base_offset(uint8_t *batch, int64_t base_offset);
void batch_set_leader_epoch(uint8_t *batch, int32_t leader_epoch);
/* Sets the timestamp type and the largest timestamp, and the CRC anew if that changes anything. */
void batch_set_max_timestamp(uint8_t *batch, bool log_append_time, int64_t max_timestamp);
/* Makes the CRC fit the bytes. */
void batch_set_crc(uint8_t *batch);

static inline enum codec batch_codec(const struct batch_header *header)
{
    return (enum codec)(header->attributes & BATCH_CODEC_MASK);
}

static inline bool batch_has(const struct batch_header *header, enum batch_attribute attribute)
{
    return (header->attributes & attribute) != 0;
}

static inline bool batch_has_producer(const struct batch_header *header)
{
    return header->producer_id >= 0;
}

static inline int64_t batch_last_offset(const struct batch_header *header)
{
    return header->base_offset + header->last_offset_delta;
}

/* Sequences wrap from 2^31 - 1 to 0 (KIP-98). -1 without a sequence. */
static inline int32_t batch_last_sequence(const struct batch_header *header)
{
    if (header->base_sequence < 0)
        return -1;
    return (int32_t)(((uint32_t)header->base_sequence + (uint32_t)header->last_offset_delta) & INT32_MAX);
}

/* The part behind the header: plain records, or one compressed block. */
static inline struct bytes batch_body(struct bytes batch)
{
    return bytes_of(batch.data + BATCH_HEADER_BYTES, batch.size - BATCH_HEADER_BYTES);
}

#endif
