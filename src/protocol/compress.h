/*
 * compress: the four codecs of record batches, both ways. Framing as Kafka's clients have it: gzip streams; snappy in
 * blocks behind the xerial header or as one bare block (told apart by the header's magic; we write the xerial form);
 * lz4 frames with independent blocks; zstd frames.
 *
 * Reading is a stream, so that a batch can be walked through a small window; what comes out is bounded by the caller,
 * so a few hostile bytes cannot become gigabytes.
 *
 * Threads  a stream has one owner at a time.
 */
#ifndef OTTLA_PROTOCOL_COMPRESS_H
#define OTTLA_PROTOCOL_COMPRESS_H

#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"

/* The codec bits of a batch's attributes. */
enum codec {
    CODEC_NONE = 0,
    CODEC_GZIP = 1,
    CODEC_SNAPPY = 2,
    CODEC_LZ4 = 3,
    CODEC_ZSTD = 4,
    CODEC_COUNT,
};

enum {
    CODEC_LEVEL_DEFAULT = INT32_MIN,      /* gzip 6, lz4 fast, zstd 3; snappy has no levels */
    CODEC_XERIAL_BLOCK_BYTES = 32768,     /* snappy-java's default; readers take any */
    CODEC_ZSTD_WINDOW_LOG_MAX = 27,       /* zstd's own default limit, and what its level 22 writes */
    CODEC_SNAPPY_EXPANSION_MAX = 22,      /* 64 bytes out of a copy of 3 is the format's best */
    CODEC_COMPRESSED_BYTES_MAX = 1 << 30, /* more than a frame may hold; keeps every size in an int */
};

/* "none", "gzip", ...: the values of compression.type. */
const char *codec_name(enum codec codec);

/* Decompression of one run of bytes. */
struct decompressor;

/*
 * compressed  borrowed until decompressor_free.
 * bytes_max   what may come out in all, below SIZE_MAX.
 *
 * ERR_NOMEM; ERR_CORRUPT_MESSAGE for more input than CODEC_COMPRESSED_BYTES_MAX.
 */
MUST_CHECK enum err decompressor_new(enum codec codec, struct bytes compressed, size_t bytes_max,
                                     struct decompressor **stream);
void decompressor_free(struct decompressor *stream);
/*
 * Fills to, but for the end of the stream: *got < size only there (and 0 from then on).
 *
 * ERR_CORRUPT_MESSAGE    not what the codec writes, or cut off
 * ERR_MESSAGE_TOO_LARGE  more than bytes_max would come out
 * ERR_NOMEM
 *
 * After an error only decompressor_free may follow.
 */
MUST_CHECK enum err decompressor_read(struct decompressor *stream, void *to, size_t size, size_t *got);

/* Bytes that compress_bytes may need at worst. */
size_t compress_bound(enum codec codec, size_t plain_size);
/*
 * Compresses at once. room: at least compress_bound. level: the codec's own scale, or CODEC_LEVEL_DEFAULT.
 * ERR_NOMEM, also when the library fails for a reason it does not tell.
 */
MUST_CHECK enum err compress_bytes(enum codec codec, int32_t level, struct bytes plain, uint8_t *to, size_t room,
                                   size_t *size);

#endif
