/*
 * Record batches out of any bytes. The first byte picks what is done (the bits below), the rest is the batch. Shows:
 * no bytes crash, hang or bloat us (known traps B010, B118); what validation accepts can be read to its end, is
 * accepted again unchanged, and survives every change of codec.
 */
#include <stdlib.h>

#include "base/assert.h"
#include "base/big_endian.h"
#include "base/mem.h"
#include "protocol/batch_build.h"
#include "protocol/batch_validate.h"

enum {
    FUZZ_MEND = 1,        /* set length, magic and CRC right first: mutation alone rarely gets past them */
    FUZZ_OPEN = 2,        /* open compressed ones */
    FUZZ_KEYS = 4,        /* a compacted topic */
    FUZZ_APPEND_TIME = 8, /* a topic that stamps */
    FUZZ_INTERNAL = 16,   /* not from a client */
    FUZZ_UNPACK = 32,     /* no batch: feed the codecs (bits 6 and 7, plus one) alone */
    FUZZ_OPENED_BYTES_MAX = 1 << 20,
};

static const int64_t now_ms = 1700000000000;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void unpack(enum codec codec, struct bytes from)
{
    struct decompressor *stream = NULL;
    uint8_t piece[3000];
    size_t total = 0;
    size_t got = 1;

    if (decompressor_new(codec, from, FUZZ_OPENED_BYTES_MAX, &stream) != ERR_OK)
        return;
    while (got > 0 && decompressor_read(stream, piece, sizeof(piece), &got) == ERR_OK)
        total += got;
    assert(total <= FUZZ_OPENED_BYTES_MAX);
    decompressor_free(stream);
}

static void mend(uint8_t *batch, size_t size)
{
    if (size < BATCH_HEADER_BYTES)
        return;
    big_endian_store_u32(batch + BATCH_FIELD_LENGTH, (uint32_t)(size - BATCH_LENGTH_BIAS_BYTES));
    batch[BATCH_FIELD_MAGIC] = BATCH_MAGIC;
    batch_set_crc(batch);
}

/* Walks the batches of a run as a log scan does. */
static void scan(struct bytes run)
{
    struct batch_header header;
    size_t needed = 0;

    while (batch_peek(run, &header, &needed) == ERR_OK) {
        assert(needed == header.size && needed >= BATCH_HEADER_BYTES && needed <= run.size);
        assert(batch_last_offset(&header) >= header.base_offset);
        (void)batch_crc_is_valid(bytes_of(run.data, needed));
        run = bytes_of(run.data + needed, run.size - needed);
    }
}

/* To the end, or to the first error. */
static enum err walk(struct bytes batch, uint64_t *checksum)
{
    struct record_iter iter;
    struct record record;
    struct record_header header;
    enum err err = record_iter_init(&iter, batch, FUZZ_OPENED_BYTES_MAX);

    if (err != ERR_OK)
        return err;
    *checksum = 0;
    while ((err = record_iter_next(&iter, &record)) == ERR_OK) {
        struct bytes headers = record.headers;
        uint32_t count = 0;

        for (; record_header_next(&headers, &header); count++)
            *checksum = *checksum * 31 + header.key.size * 7 + header.value.size + (header.value.data == NULL);
        assert(count == record.header_count && headers.size == 0);
        *checksum = *checksum * 31 + (uint64_t)record.timestamp + record.key.size + (record.key.data == NULL) * 3u;
        *checksum = *checksum * 31 + record.value.size + (record.value.data == NULL) * 5u;
    }
    record_iter_deinit(&iter);
    return err;
}

/* What was accepted and can be read keeps its records through every codec. */
static void recompress(struct bytes batch, uint64_t checksum)
{
    struct batch_builder builder;
    struct batch_spec spec;

    batch_spec_init(&spec);
    batch_builder_init(&builder, &spec);
    for (enum codec codec = CODEC_NONE; codec < CODEC_COUNT; codec++) {
        uint8_t *result = NULL;
        size_t size = 0;
        uint64_t again = 0;
        struct batch_header header;

        if (batch_recompress(&builder, batch, codec, CODEC_LEVEL_DEFAULT, FUZZ_OPENED_BYTES_MAX, &result, &size) !=
            ERR_OK)
            abort();
        assert(batch_peek(bytes_of(result, size), &header, NULL) == ERR_OK && header.size == size);
        assert(batch_codec(&header) == codec && batch_crc_is_valid(bytes_of(result, size)));
        assert(walk(bytes_of(result, size), &again) == ERR_END && again == checksum);
    }
    batch_builder_deinit(&builder);
}

static void validate(uint8_t *batch, size_t size, uint32_t flags)
{
    struct batch_rules rules;
    struct batch_verdict verdict;
    struct arena arena;
    uint64_t checksum = 0;
    enum err err = ERR_OK;

    batch_rules_init(&rules);
    rules.now_ms = now_ms;
    rules.open_compressed = (flags & FUZZ_OPEN) != 0;
    rules.keys_required = (flags & FUZZ_KEYS) != 0;
    rules.stamp_append_time = (flags & FUZZ_APPEND_TIME) != 0;
    rules.from_client = (flags & FUZZ_INTERNAL) == 0;
    rules.opened_bytes_max = FUZZ_OPENED_BYTES_MAX;
    arena_init(&arena, 1 << 20);
    err = batch_validate(batch, size, &rules, &arena, &verdict);
    if (err == ERR_OK) {
        bool opened = batch_codec(&verdict.header) == CODEC_NONE || rules.open_compressed || rules.keys_required ||
                      rules.stamp_append_time;

        assert(verdict.header.size == size && batch_crc_is_valid(bytes_of(batch, size)));
        err = walk(bytes_of(batch, size), &checksum);
        assert(!opened || err == ERR_END);
        if (err == ERR_END)
            recompress(bytes_of(batch, size), checksum);
        /* A stamp of append time is not what a client may send; else nothing is left to correct. */
        rules.from_client = rules.from_client && !rules.stamp_append_time;
        assert(batch_validate(batch, size, &rules, &arena, &verdict) == ERR_OK);
    }
    arena_deinit(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *batch = NULL;
    uint64_t checksum = 0;
    struct batch_header header;

    if (size < 1)
        return 0;
    if (data[0] & FUZZ_UNPACK) {
        unpack((enum codec)(data[0] / 64 + CODEC_GZIP), bytes_of(data + 1, size - 1));
        return 0;
    }
    /* In a block of its own size, so that the sanitizer sees one byte too far. */
    batch = mem_alloc(size);
    if (batch == NULL)
        return 0;
    memcpy(batch, data + 1, size - 1);
    size--;
    scan(bytes_of(batch, size));
    if (data[0] & FUZZ_MEND)
        mend(batch, size);
    if (batch_peek(bytes_of(batch, size), &header, NULL) == ERR_OK)
        (void)walk(bytes_of(batch, header.size), &checksum);
    validate(batch, size, data[0]);
    mem_free(batch);
    return 0;
}
