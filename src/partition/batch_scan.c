#include "partition/batch_scan.h"

#include <zlib.h>

#include "base/assert.h"
#include "base/big_endian.h"
#include "base/mem.h"

enum {
    BUFFER_BYTES_HEADS = 8 * 1024,    /* an index interval and a half */
    SPARSE_BYTES_MIN = 4 * 1024,      /* of a body: copying it costs more than one more call */
    BUFFER_BYTES_BODIES = 128 * 1024, /* from where larger reads bring no more (limits.md 1.4) */
    OLD_MESSAGE_BYTES_MIN = 14,       /* CRC, magic, attributes, two lengths */
    OLD_MESSAGE_BYTES_MAX = 64 << 20, /* beyond what anybody let in; Kafka's own default was 1 MB */
    OLD_HEADER_BYTES = 17,            /* up to the magic */
    OLD_FIELD_CRC = 12,               /* CRC-32, not -32C, of what follows it */
};

static enum err head_read(const struct batch_scan *scan, const uint8_t *at, struct batch_header *head)
{
    uint8_t copy[BATCH_HEADER_BYTES];
    enum err err = batch_peek(bytes_of(at, BATCH_HEADER_BYTES), head, NULL);

    if (err == ERR_CORRUPT_MESSAGE && scan->any_codec) {
        memcpy(copy, at, sizeof(copy));
        copy[BATCH_FIELD_ATTRIBUTES + 1] &= (uint8_t)~BATCH_CODEC_MASK;
        err = batch_peek(bytes_of(copy, sizeof(copy)), head, NULL);
        batch_header_read(at, head);
    }
    if (err == ERR_CORRUPT_MESSAGE)
        return ERR_DAMAGED;
    if (err != ERR_OK && err != ERR_END)
        return err;
    return head->base_offset > INT64_MAX - 1 - head->last_offset_delta ? ERR_DAMAGED : ERR_OK;
}

void batch_scan_init(struct batch_scan *scan, struct fs_file *file, uint64_t position, uint64_t limit,
                     enum batch_scan_depth depth)
{
    *scan = (struct batch_scan){.file = file, .position = position, .limit = limit, .depth = depth};
}

void batch_scan_deinit(struct batch_scan *scan)
{
    mem_free(scan->buffer);
    *scan = (struct batch_scan){0};
}

/* Bytes of the buffer from position on. */
static size_t buffered(const struct batch_scan *scan)
{
    if (scan->position < scan->buffer_position || scan->position >= scan->buffer_position + scan->buffer_filled)
        return 0;
    return (size_t)(scan->buffer_position + scan->buffer_filled - scan->position);
}

/* Makes at least want bytes from position on lie in the buffer; want does not pass the limit. */
static enum err fill(struct batch_scan *scan, size_t want)
{
    size_t room = scan->buffer_bytes > 0            ? scan->buffer_bytes
                  : scan->depth == BATCH_SCAN_HEADS ? (size_t)BUFFER_BYTES_HEADS
                                                    : (size_t)BUFFER_BYTES_BODIES;
    size_t keep = buffered(scan);
    size_t size = 0;
    size_t got = 0;
    enum err err = ERR_OK;

    if (keep >= want)
        return ERR_OK;
    if (room < want)
        room = want;
    if (scan->buffer_room < room) {
        uint8_t *grown = mem_alloc(room);

        if (grown == NULL)
            return ERR_NOMEM;
        if (keep > 0)
            memcpy(grown, scan->buffer + (scan->position - scan->buffer_position), keep);
        mem_free(scan->buffer);
        scan->buffer = grown;
        scan->buffer_room = room;
    } else if (keep > 0) {
        memmove(scan->buffer, scan->buffer + (scan->position - scan->buffer_position), keep);
    }
    scan->buffer_position = scan->position;
    scan->buffer_filled = keep;
    size = (scan->is_sparse && want == BATCH_HEADER_BYTES ? want : scan->buffer_room) - keep;
    if (size > scan->limit - scan->position - keep)
        size = (size_t)(scan->limit - scan->position - keep);
    if (scan->cached_only)
        err = fs_read_cached(scan->file, scan->position + keep, scan->buffer + keep, size, &got);
    else
        err = fs_read(scan->file, scan->position + keep, scan->buffer + keep, size, &got);
    if (err != ERR_OK)
        return err;
    scan->buffer_filled += got;
    return scan->buffer_filled >= want ? ERR_OK : ERR_DAMAGED; /* the file is shorter than was said */
}

/* A message of magic 0 or 1 is whole data that we do not read, and no damage to be cut off: its checksum says so.
 * Formats only ever went up, so a file that holds such messages begins with one. */
static enum err check_old(struct batch_scan *scan)
{
    const uint8_t *message = NULL;
    uint32_t size = 0;
    enum err err = ERR_OK;

    if (scan->position > 0 || scan->limit < OLD_HEADER_BYTES)
        return ERR_OK;
    err = fill(scan, OLD_HEADER_BYTES);
    if (err != ERR_OK)
        return err;
    size = big_endian_load_u32(scan->buffer + BATCH_FIELD_LENGTH);
    if (scan->buffer[BATCH_FIELD_MAGIC] >= BATCH_MAGIC || size < OLD_MESSAGE_BYTES_MIN ||
        size > OLD_MESSAGE_BYTES_MAX || size > scan->limit - OLD_FIELD_CRC)
        return ERR_OK;
    err = fill(scan, OLD_FIELD_CRC + size);
    if (err != ERR_OK)
        return err;
    message = scan->buffer + OLD_FIELD_CRC;
    return crc32_z(0, message + sizeof(uint32_t), size - sizeof(uint32_t)) == big_endian_load_u32(message)
               ? ERR_UNSUPPORTED_FOR_MESSAGE_FORMAT
               : ERR_OK;
}

static bool wants_body(const struct batch_scan *scan, const struct batch_header *head)
{
    if (scan->depth != BATCH_SCAN_WRITTEN)
        return scan->depth != BATCH_SCAN_HEADS;
    return scan->position + head->size > scan->bodies_from || batch_has(head, BATCH_CONTROL);
}

enum err batch_scan_next(struct batch_scan *scan, struct batch_header *head, struct bytes *batch)
{
    const uint8_t *at = NULL;
    bool whole = false;
    enum err err = ERR_OK;

    assert(scan->position <= scan->limit);
    if (scan->position == scan->limit)
        return ERR_END;
    err = check_old(scan);
    if (err != ERR_OK)
        return err;
    if (scan->limit - scan->position < BATCH_HEADER_BYTES)
        return ERR_DAMAGED;
    err = fill(scan, BATCH_HEADER_BYTES);
    if (err != ERR_OK)
        return err;
    err = head_read(scan, scan->buffer + (scan->position - scan->buffer_position), head);
    if (err != ERR_OK)
        return err;
    if (head->size > scan->limit - scan->position)
        return ERR_DAMAGED;
    whole = wants_body(scan, head);
    if (whole) {
        err = fill(scan, head->size);
        if (err != ERR_OK)
            return err;
    }
    scan->is_sparse = scan->depth == BATCH_SCAN_WRITTEN && !whole && head->size >= SPARSE_BYTES_MIN;
    at = scan->buffer + (scan->position - scan->buffer_position);
    *batch = bytes_of(at, whole ? head->size : BATCH_HEADER_BYTES);
    if (scan->depth == BATCH_SCAN_CHECKED && !batch_crc_is_valid(*batch))
        return ERR_DAMAGED;
    scan->position += head->size;
    return ERR_OK;
}
