#include "protocol/compress.h"

#include <lz4frame.h>
#include <snappy-c.h>
#include <zlib.h>
#include <zstd.h>

#include "base/assert.h"
#include "base/big_endian.h"
#include "base/mem.h"

enum {
    XERIAL_HEADER_BYTES = 16,          /* magic, version, lowest compatible version */
    GZIP_WINDOW_BITS = MAX_WBITS + 16, /* gzip's wrapper, no other */
    GZIP_WRAPPER_BYTES_MAX = 32,       /* header and trailer, over zlib's own which compressBound counts */
    GZIP_MEMORY_LEVEL = 8,             /* zlib's default */
};

static const uint8_t xerial_magic[8] = {0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0};

struct decompressor {
    enum codec codec;
    const uint8_t *at; /* input not yet taken */
    const uint8_t *end;
    size_t bytes_left; /* that may still come out */
    bool ended;        /* at the end of a frame, with no input left */
    bool gzip_ready;
    z_stream gzip;
    LZ4F_dctx *lz4;
    ZSTD_DStream *zstd;
    bool xerial;
    uint8_t *block; /* snappy: the block that is being given out */
    size_t block_at;
    size_t block_size;
};

const char *codec_name(enum codec codec)
{
    static const char *const names[CODEC_COUNT] = {"none", "gzip", "snappy", "lz4", "zstd"};

    assert(codec < CODEC_COUNT);
    return names[codec];
}

static size_t input_left(const struct decompressor *stream)
{
    return (size_t)(stream->end - stream->at);
}

static enum err open_codec(struct decompressor *stream)
{
    switch (stream->codec) {
    case CODEC_GZIP:
        stream->gzip_ready = inflateInit2(&stream->gzip, GZIP_WINDOW_BITS) == Z_OK;
        return stream->gzip_ready ? ERR_OK : ERR_NOMEM;
    case CODEC_LZ4:
        return LZ4F_isError(LZ4F_createDecompressionContext(&stream->lz4, LZ4F_VERSION)) ? ERR_NOMEM : ERR_OK;
    case CODEC_ZSTD:
        stream->zstd = ZSTD_createDStream();
        if (stream->zstd == NULL)
            return ERR_NOMEM;
        return ZSTD_isError(ZSTD_DCtx_setParameter(stream->zstd, ZSTD_d_windowLogMax, CODEC_ZSTD_WINDOW_LOG_MAX))
                   ? ERR_NOMEM
                   : ERR_OK;
    case CODEC_SNAPPY:
        stream->xerial =
            input_left(stream) >= XERIAL_HEADER_BYTES && memcmp(stream->at, xerial_magic, sizeof(xerial_magic)) == 0;
        if (stream->xerial)
            stream->at += XERIAL_HEADER_BYTES;
        return ERR_OK;
    case CODEC_NONE:
    case CODEC_COUNT:
        break;
    }
    return ERR_OK;
}

enum err decompressor_new(enum codec codec, struct bytes compressed, size_t bytes_max, struct decompressor **stream)
{
    struct decompressor *opened = NULL;
    enum err err = ERR_OK;

    assert(codec < CODEC_COUNT && bytes_max < SIZE_MAX);
    if (compressed.size > CODEC_COMPRESSED_BYTES_MAX)
        return ERR_CORRUPT_MESSAGE;
    opened = mem_calloc(1, sizeof(*opened));
    if (opened == NULL)
        return ERR_NOMEM;
    opened->codec = codec;
    opened->at = compressed.data;
    opened->end = compressed.data + compressed.size;
    opened->bytes_left = bytes_max;
    err = open_codec(opened);
    if (err != ERR_OK) {
        decompressor_free(opened);
        return err;
    }
    *stream = opened;
    return ERR_OK;
}

void decompressor_free(struct decompressor *stream)
{
    if (stream == NULL)
        return;
    if (stream->gzip_ready)
        inflateEnd(&stream->gzip);
    LZ4F_freeDecompressionContext(stream->lz4);
    ZSTD_freeDStream(stream->zstd);
    mem_free(stream->block);
    mem_free(stream);
}

/* The read_* below make one step: some bytes out (*got may be 0 while input goes in), or ended. They may be called
 * with room only. */

static enum err read_none(struct decompressor *stream, uint8_t *to, size_t room, size_t *got)
{
    *got = room < input_left(stream) ? room : input_left(stream);
    if (*got > 0)
        memcpy(to, stream->at, *got);
    stream->at += *got;
    stream->ended = stream->at == stream->end;
    return ERR_OK;
}

static enum err read_gzip(struct decompressor *stream, uint8_t *to, size_t room, size_t *got)
{
    z_stream *gzip = &stream->gzip;
    int result = 0;

    if (room > CODEC_COMPRESSED_BYTES_MAX)
        room = CODEC_COMPRESSED_BYTES_MAX;
    /* zlib only reads the input; its type predates const. */
    gzip->next_in = (Bytef *)(uintptr_t)stream->at;
    gzip->avail_in = (uInt)input_left(stream);
    gzip->next_out = to;
    gzip->avail_out = (uInt)room;
    result = inflate(gzip, Z_NO_FLUSH);
    *got = room - gzip->avail_out;
    stream->at = stream->end - gzip->avail_in;
    if (result == Z_STREAM_END) {
        stream->ended = stream->at == stream->end;
        /* Java writes and reads several members one after the other. */
        return stream->ended || inflateReset(gzip) == Z_OK ? ERR_OK : ERR_CORRUPT_MESSAGE;
    }
    if (result == Z_MEM_ERROR)
        return ERR_NOMEM;
    return result == Z_OK ? ERR_OK : ERR_CORRUPT_MESSAGE; /* Z_BUF_ERROR: no progress, so it is cut off */
}

static enum err read_lz4(struct decompressor *stream, uint8_t *to, size_t room, size_t *got)
{
    size_t taken = input_left(stream);
    size_t wanted = 0;

    *got = room;
    wanted = LZ4F_decompress(stream->lz4, to, got, stream->at, &taken, NULL);
    if (LZ4F_isError(wanted))
        return ERR_CORRUPT_MESSAGE;
    stream->at += taken;
    stream->ended = wanted == 0 && stream->at == stream->end;
    return stream->ended || taken > 0 || *got > 0 ? ERR_OK : ERR_CORRUPT_MESSAGE;
}

static enum err read_zstd(struct decompressor *stream, uint8_t *to, size_t room, size_t *got)
{
    ZSTD_inBuffer in = {stream->at, input_left(stream), 0};
    ZSTD_outBuffer out = {to, room, 0};
    size_t wanted = ZSTD_decompressStream(stream->zstd, &out, &in);

    if (ZSTD_isError(wanted))
        return ERR_CORRUPT_MESSAGE;
    *got = out.pos;
    stream->at += in.pos;
    stream->ended = wanted == 0 && stream->at == stream->end;
    return stream->ended || in.pos > 0 || out.pos > 0 ? ERR_OK : ERR_CORRUPT_MESSAGE;
}

/* Unpacks the next block as a whole: the format has no other way. */
static enum err next_snappy_block(struct decompressor *stream)
{
    size_t packed = input_left(stream);
    size_t plain = 0;
    uint8_t *block = NULL;

    if (stream->xerial) {
        uint32_t announced = 0;

        if (packed < sizeof(announced))
            return ERR_CORRUPT_MESSAGE;
        announced = big_endian_load_u32(stream->at);
        if (announced > packed - sizeof(announced))
            return ERR_CORRUPT_MESSAGE;
        stream->at += sizeof(announced);
        packed = announced;
    }
    if (snappy_uncompressed_length((const char *)stream->at, packed, &plain) != SNAPPY_OK ||
        plain / CODEC_SNAPPY_EXPANSION_MAX > packed)
        return ERR_CORRUPT_MESSAGE;
    if (plain > stream->bytes_left)
        return ERR_MESSAGE_TOO_LARGE;
    block = mem_realloc(stream->block, plain == 0 ? 1 : plain);
    if (block == NULL)
        return ERR_NOMEM;
    stream->block = block;
    if (snappy_uncompress((const char *)stream->at, packed, (char *)block, &plain) != SNAPPY_OK)
        return ERR_CORRUPT_MESSAGE;
    stream->at += packed;
    stream->block_at = 0;
    stream->block_size = plain;
    return ERR_OK;
}

static enum err read_snappy(struct decompressor *stream, uint8_t *to, size_t room, size_t *got)
{
    *got = 0;
    if (stream->block_at == stream->block_size) {
        enum err err = ERR_OK;

        if (stream->xerial && stream->at == stream->end) {
            stream->ended = true;
            return ERR_OK;
        }
        err = next_snappy_block(stream);
        if (err != ERR_OK)
            return err;
    }
    *got = stream->block_size - stream->block_at < room ? stream->block_size - stream->block_at : room;
    memcpy(to, stream->block + stream->block_at, *got);
    stream->block_at += *got;
    stream->ended = stream->block_at == stream->block_size && stream->at == stream->end;
    return ERR_OK;
}

static enum err read_some(struct decompressor *stream, uint8_t *to, size_t room, size_t *got)
{
    switch (stream->codec) {
    case CODEC_NONE:
        return read_none(stream, to, room, got);
    case CODEC_GZIP:
        return read_gzip(stream, to, room, got);
    case CODEC_SNAPPY:
        return read_snappy(stream, to, room, got);
    case CODEC_LZ4:
        return read_lz4(stream, to, room, got);
    case CODEC_ZSTD:
        return read_zstd(stream, to, room, got);
    case CODEC_COUNT:
        break;
    }
    assert_never("a codec without a reader");
}

enum err decompressor_read(struct decompressor *stream, void *to, size_t size, size_t *got)
{
    /* One byte more than allowed is asked for, to see whether there is one. */
    size_t room = size > stream->bytes_left ? stream->bytes_left + 1 : size;
    size_t done = 0;

    while (done < room && !stream->ended) {
        size_t some = 0;
        enum err err = read_some(stream, (uint8_t *)to + done, room - done, &some);

        if (err != ERR_OK)
            return err;
        done += some;
    }
    if (done > stream->bytes_left)
        return ERR_MESSAGE_TOO_LARGE;
    stream->bytes_left -= done;
    *got = done;
    return ERR_OK;
}

/* Java's reader takes frames of independent blocks only. */
static LZ4F_preferences_t lz4_preferences(int32_t level)
{
    return (LZ4F_preferences_t){
        .frameInfo = {.blockSizeID = LZ4F_max64KB, .blockMode = LZ4F_blockIndependent},
        .compressionLevel = level == CODEC_LEVEL_DEFAULT ? 0 : level,
    };
}

size_t compress_bound(enum codec codec, size_t plain_size)
{
    LZ4F_preferences_t lz4 = lz4_preferences(CODEC_LEVEL_DEFAULT);

    switch (codec) {
    case CODEC_NONE:
        return plain_size;
    case CODEC_GZIP:
        return compressBound((uLong)plain_size) + GZIP_WRAPPER_BYTES_MAX;
    case CODEC_SNAPPY:
        return XERIAL_HEADER_BYTES + (plain_size / CODEC_XERIAL_BLOCK_BYTES + 1) *
                                         (sizeof(uint32_t) + snappy_max_compressed_length(CODEC_XERIAL_BLOCK_BYTES));
    case CODEC_LZ4:
        return LZ4F_compressFrameBound(plain_size, &lz4);
    case CODEC_ZSTD:
        return ZSTD_compressBound(plain_size);
    case CODEC_COUNT:
        break;
    }
    assert_never("a codec without a bound");
}

static enum err compress_gzip(int32_t level, struct bytes plain, uint8_t *to, size_t room, size_t *size)
{
    z_stream gzip = {0};
    int result = 0;

    if (deflateInit2(&gzip, level == CODEC_LEVEL_DEFAULT ? Z_DEFAULT_COMPRESSION : level, Z_DEFLATED, GZIP_WINDOW_BITS,
                     GZIP_MEMORY_LEVEL, Z_DEFAULT_STRATEGY) != Z_OK)
        return ERR_NOMEM;
    gzip.next_in = (Bytef *)(uintptr_t)plain.data;
    gzip.avail_in = (uInt)plain.size;
    gzip.next_out = to;
    gzip.avail_out = (uInt)room;
    result = deflate(&gzip, Z_FINISH);
    *size = room - gzip.avail_out;
    deflateEnd(&gzip);
    return result == Z_STREAM_END ? ERR_OK : ERR_NOMEM;
}

static enum err compress_snappy(struct bytes plain, uint8_t *to, size_t room, size_t *size)
{
    size_t done = XERIAL_HEADER_BYTES;

    memcpy(to, xerial_magic, sizeof(xerial_magic));
    big_endian_store_u32(to + 8, 1);
    big_endian_store_u32(to + 12, 1);
    while (plain.size > 0) {
        size_t part = plain.size < CODEC_XERIAL_BLOCK_BYTES ? plain.size : CODEC_XERIAL_BLOCK_BYTES;
        size_t packed = room - done - sizeof(uint32_t);

        if (snappy_compress((const char *)plain.data, part, (char *)to + done + sizeof(uint32_t), &packed) != SNAPPY_OK)
            return ERR_NOMEM;
        big_endian_store_u32(to + done, (uint32_t)packed);
        done += sizeof(uint32_t) + packed;
        plain = bytes_of(plain.data + part, plain.size - part);
    }
    *size = done;
    return ERR_OK;
}

enum err compress_bytes(enum codec codec, int32_t level, struct bytes plain, uint8_t *to, size_t room, size_t *size)
{
    LZ4F_preferences_t lz4 = lz4_preferences(level);

    assert(plain.size <= CODEC_COMPRESSED_BYTES_MAX && room >= compress_bound(codec, plain.size));
    switch (codec) {
    case CODEC_NONE:
        if (plain.size > 0)
            memcpy(to, plain.data, plain.size);
        *size = plain.size;
        return ERR_OK;
    case CODEC_GZIP:
        return compress_gzip(level, plain, to, room, size);
    case CODEC_SNAPPY:
        return compress_snappy(plain, to, room, size);
    case CODEC_LZ4:
        *size = LZ4F_compressFrame(to, room, plain.data, plain.size, &lz4);
        return LZ4F_isError(*size) ? ERR_NOMEM : ERR_OK;
    case CODEC_ZSTD:
        *size =
            ZSTD_compress(to, room, plain.data, plain.size, level == CODEC_LEVEL_DEFAULT ? ZSTD_CLEVEL_DEFAULT : level);
        return ZSTD_isError(*size) ? ERR_NOMEM : ERR_OK;
    case CODEC_COUNT:
        break;
    }
    assert_never("a codec without a writer");
}
