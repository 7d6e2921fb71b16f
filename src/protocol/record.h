/*
 * record: the records inside a batch (magic 2), one after the other, plain or compressed.
 *
 *     record_iter_init(&iter, batch, BATCH_OPENED_BYTES_MAX);
 *     while ((err = record_iter_next(&iter, &record)) == ERR_OK)
 *         ...
 *     record_iter_deinit(&iter);       (err is ERR_END when all went well)
 *
 * Total: any bytes at all give records or an error. A compressed batch goes through a window as large as its largest
 * record, no larger.
 *
 * Threads  an iterator has one owner at a time.
 */
#ifndef OTTLA_PROTOCOL_RECORD_H
#define OTTLA_PROTOCOL_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"
#include "protocol/compress.h"

enum {
    RECORD_BYTES_MIN = 7,            /* length, attributes, two deltas, two lengths, header count */
    RECORD_HEADER_BYTES_MIN = 2,     /* two lengths */
    RECORD_VARINT_BYTES_MAX = 5,     /* of 32 bits */
    RECORD_VARLONG_BYTES_MAX = 10,   /* of 64 bits */
    RECORD_WINDOW_BYTES_MIN = 16384, /* what is unfolded of a compressed batch at a time */
};

/* Null is not empty: a null key or value has data == NULL, an empty one has not. */
struct record {
    int64_t offset;
    int64_t timestamp; /* the append time when the batch says so; -1: none */
    int64_t timestamp_delta;
    int32_t offset_delta;
    struct bytes key;
    struct bytes value;
    struct bytes headers; /* as they lie there, for record_header_next */
    uint32_t header_count;
};

struct record_header {
    struct bytes key;   /* never null, may be empty; keys may repeat */
    struct bytes value; /* may be null */
};

struct record_iter {
    const uint8_t *at; /* bytes at hand: in the batch, or in the window */
    const uint8_t *end;
    int32_t left;             /* records to come */
    int32_t record_bytes_max; /* of a record in a compressed batch, without its length: INT32_MAX after init, the
                                 caller may lower it (max.decompressed.message.bytes) */
    bool log_append_time;
    int64_t base_offset;
    int64_t base_timestamp;
    int64_t max_timestamp;
    struct decompressor *stream; /* NULL for a plain batch */
    uint8_t *window;
    size_t window_room;
};

/*
 * batch             one whole batch as batch_peek said ok to; borrowed until record_iter_deinit.
 * opened_bytes_max  what a compressed one may unfold to: BATCH_OPENED_BYTES_MAX as a rule.
 *
 * ERR_NOMEM (nothing is held then).
 */
MUST_CHECK enum err record_iter_init(struct record_iter *iter, struct bytes batch, size_t opened_bytes_max);
/*
 * The next record. What it points to stays until the next call (in a plain batch: as long as the batch).
 *
 * ERR_END                after the last, with nothing behind it
 * ERR_INVALID_RECORD     lengths, counts or numbers that do not fit, or bytes behind the last record
 * ERR_CORRUPT_MESSAGE    the codec does not take it
 * ERR_MESSAGE_TOO_LARGE  over opened_bytes_max
 * ERR_NOMEM
 */
MUST_CHECK enum err record_iter_next(struct record_iter *iter, struct record *record);
void record_iter_deinit(struct record_iter *iter);

/* Takes the next header off the front of what is left of record.headers; false at the end. */
bool record_header_next(struct bytes *headers, struct record_header *header);

/* Zig-zag varints, as records have them. Write: to has room for the longest; gives the bytes written. */
size_t record_varint_write(uint8_t *to, int32_t value);
size_t record_varlong_write(uint8_t *to, int64_t value);
size_t record_varint_size(int32_t value);
size_t record_varlong_size(int64_t value);

#endif
