#include "protocol/record.h"

#include "base/assert.h"
#include "base/mem.h"
#include "protocol/batch.h"

/* At most 64 bits; what does not fit, or is cut off, is refused. Moves *at on success only. */
static bool read_unsigned(const uint8_t **at, const uint8_t *end, uint32_t bits, uint64_t *value)
{
    const uint8_t *from = *at;
    uint64_t sum = 0;

    for (uint32_t shift = 0; shift < bits && from < end; shift += 7) {
        uint8_t byte = *from++;

        if (shift + 7 > bits && (byte & 0x7f) >> (bits - shift) != 0)
            return false;
        sum |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *value = sum;
            *at = from;
            return true;
        }
    }
    return false;
}

/* Numbers of one and two bytes are nearly all there are: lengths and deltas below 8192. */
static inline bool read_raw(const uint8_t **at, const uint8_t *end, uint32_t bits, uint64_t *value)
{
    const uint8_t *from = *at;

    if (end - from >= 2) {
        if (from[0] < 0x80) {
            *value = from[0];
            *at = from + 1;
            return true;
        }
        if (from[1] < 0x80) {
            *value = (from[0] & 0x7fu) | (uint32_t)from[1] << 7;
            *at = from + 2;
            return true;
        }
    }
    return read_unsigned(at, end, bits, value);
}

static inline bool read_varint(const uint8_t **at, const uint8_t *end, int32_t *value)
{
    uint64_t raw = 0;

    if (!read_raw(at, end, 32, &raw))
        return false;
    *value = (int32_t)(uint32_t)((raw >> 1) ^ (0 - (raw & 1)));
    return true;
}

static inline bool read_varlong(const uint8_t **at, const uint8_t *end, int64_t *value)
{
    uint64_t raw = 0;

    if (!read_raw(at, end, 64, &raw))
        return false;
    *value = (int64_t)((raw >> 1) ^ (0 - (raw & 1)));
    return true;
}

/* A length and that many bytes; -1 is null where that is allowed. */
static inline bool read_bytes(const uint8_t **at, const uint8_t *end, bool nullable, struct bytes *bytes)
{
    int32_t size = 0;

    if (!read_varint(at, end, &size) || size < (nullable ? -1 : 0) || (int64_t)size > end - *at)
        return false;
    if (size < 0) {
        *bytes = (struct bytes){0};
        return true;
    }
    *bytes = bytes_of(*at, (size_t)size);
    *at += size;
    return true;
}

static bool read_header(const uint8_t **at, const uint8_t *end, struct record_header *header)
{
    return read_bytes(at, end, false, &header->key) && read_bytes(at, end, true, &header->value);
}

static bool read_headers(const uint8_t **at, const uint8_t *end, struct record *record)
{
    const uint8_t *start = NULL;
    struct record_header header;
    int32_t count = 0;

    if (!read_varint(at, end, &count) || count < 0 || count > (end - *at) / RECORD_HEADER_BYTES_MIN)
        return false;
    start = *at;
    for (int32_t i = 0; i < count; i++)
        if (!read_header(at, end, &header))
            return false;
    record->header_count = (uint32_t)count;
    record->headers = bytes_of(start, (size_t)(*at - start));
    return true;
}

/* What lies behind a record's length; all of it must be used up. */
static bool read_record(const uint8_t *at, const uint8_t *end, struct record *record)
{
    if (at == end)
        return false;
    at++; /* attributes: not used in magic 2, and ignored by Kafka */
    return read_varlong(&at, end, &record->timestamp_delta) && read_varint(&at, end, &record->offset_delta) &&
           read_bytes(&at, end, true, &record->key) && read_bytes(&at, end, true, &record->value) &&
           read_headers(&at, end, record) && at == end;
}

enum err record_iter_init(struct record_iter *iter, struct bytes batch, size_t opened_bytes_max)
{
    struct batch_header header;
    struct bytes body = batch_body(batch);

    assert(batch.size >= BATCH_HEADER_BYTES);
    batch_header_read(batch.data, &header);
    *iter = (struct record_iter){
        .at = body.data,
        .end = body.data + body.size,
        .left = header.record_count,
        .record_bytes_max = INT32_MAX,
        .log_append_time = batch_has(&header, BATCH_LOG_APPEND_TIME),
        .base_offset = header.base_offset,
        .base_timestamp = header.base_timestamp,
        .max_timestamp = header.max_timestamp,
    };
    assert(header.size == batch.size && (header.attributes & BATCH_CODEC_MASK) < CODEC_COUNT);
    if (batch_codec(&header) == CODEC_NONE)
        return ERR_OK;
    /* Compaction may leave a batch without records, which has nothing to open either. */
    iter->end = iter->at;
    return header.record_count == 0 ? ERR_OK
                                    : decompressor_new(batch_codec(&header), body, opened_bytes_max, &iter->stream);
}

void record_iter_deinit(struct record_iter *iter)
{
    decompressor_free(iter->stream);
    mem_free(iter->window);
    *iter = (struct record_iter){0};
}

static enum err grow_window(struct record_iter *iter)
{
    size_t room = iter->window_room == 0 ? (size_t)RECORD_WINDOW_BYTES_MIN : iter->window_room * 2;
    uint8_t *window = mem_realloc(iter->window, room);

    if (window == NULL)
        return ERR_NOMEM;
    iter->window = window;
    iter->window_room = room;
    return ERR_OK;
}

/* Gets bytes from the stream until wanted ones are at hand; fewer only at its end. The room grows with what has
 * arrived, not with what was announced. */
static enum err fill_window(struct record_iter *iter, size_t wanted)
{
    size_t have = (size_t)(iter->end - iter->at);

    while (have < wanted) {
        size_t got = 0;
        enum err err = ERR_OK;

        if (have > 0)
            memmove(iter->window, iter->at, have);
        if (have == iter->window_room)
            err = grow_window(iter);
        iter->at = iter->window;
        iter->end = iter->window == NULL ? NULL : iter->window + have;
        if (err != ERR_OK)
            return err;
        err = decompressor_read(iter->stream, iter->window + have, iter->window_room - have, &got);
        if (err != ERR_OK)
            return err;
        have += got;
        iter->end = iter->at + have;
        if (got == 0)
            break;
    }
    return ERR_OK;
}

/* Makes a whole record, or all there is, be at hand. */
static enum err fill_record(struct record_iter *iter)
{
    enum err err = fill_window(iter, RECORD_VARINT_BYTES_MAX);
    const uint8_t *at = iter->at;
    int32_t size = 0;

    if (err != ERR_OK || !read_varint(&at, iter->end, &size) || size <= 0)
        return err;
    if (size > iter->record_bytes_max)
        return ERR_INVALID_RECORD;
    return fill_window(iter, (size_t)(at - iter->at) + (size_t)size);
}

static enum err finish(struct record_iter *iter)
{
    if (iter->stream != NULL) {
        enum err err = fill_window(iter, 1);

        if (err != ERR_OK)
            return err;
    }
    return iter->at == iter->end ? ERR_END : ERR_INVALID_RECORD;
}

enum err record_iter_next(struct record_iter *iter, struct record *record)
{
    int32_t size = 0;

    if (iter->left <= 0)
        return finish(iter);
    if (iter->stream != NULL) {
        enum err err = fill_record(iter);

        if (err != ERR_OK)
            return err;
    }
    if (!read_varint(&iter->at, iter->end, &size) || size < 0 || (int64_t)size > iter->end - iter->at ||
        !read_record(iter->at, iter->at + size, record))
        return ERR_INVALID_RECORD;
    iter->at += size;
    iter->left--;
    /* A hostile delta may lead anywhere, but not into undefined behaviour. */
    record->offset = (int64_t)((uint64_t)iter->base_offset + (uint64_t)(int64_t)record->offset_delta);
    record->timestamp = iter->log_append_time
                            ? iter->max_timestamp
                            : (int64_t)((uint64_t)iter->base_timestamp + (uint64_t)record->timestamp_delta);
    return ERR_OK;
}

bool record_header_next(struct bytes *headers, struct record_header *header)
{
    const uint8_t *at = headers->data;
    const uint8_t *end = headers->data + headers->size;

    if (headers->size == 0 || !read_header(&at, end, header))
        return false;
    *headers = bytes_of(at, (size_t)(end - at));
    return true;
}

static size_t write_unsigned(uint8_t *to, uint64_t value)
{
    size_t size = 0;

    for (; value >= 0x80; value >>= 7)
        to[size++] = (uint8_t)(value | 0x80);
    to[size++] = (uint8_t)value;
    return size;
}

static size_t unsigned_size(uint64_t value)
{
    return value == 0 ? 1 : (size_t)(64 - __builtin_clzll(value) + 6) / 7;
}

static uint64_t zigzag(int64_t value)
{
    return ((uint64_t)value << 1) ^ (value < 0 ? UINT64_MAX : 0);
}

size_t record_varint_write(uint8_t *to, int32_t value)
{
    return write_unsigned(to, (uint32_t)zigzag(value));
}

size_t record_varlong_write(uint8_t *to, int64_t value)
{
    return write_unsigned(to, zigzag(value));
}

size_t record_varint_size(int32_t value)
{
    return unsigned_size((uint32_t)zigzag(value));
}

size_t record_varlong_size(int64_t value)
{
    return unsigned_size(zigzag(value));
}
