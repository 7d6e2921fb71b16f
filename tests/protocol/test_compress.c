/*
 * Rules: each codec gives back what went in, whatever piece sizes it is read in; snappy is written in xerial framing
 * (B124) and read with and without; output never passes its bound; cut or damaged input is an error, never a hang.
 */
#include <check.h>
#include <snappy-c.h>

#include "base/big_endian.h"
#include "base/mem.h"
#include "protocol/compress.h"

enum { PLAIN_MAX = 200000, PACKED_MAX = 300000 };

static uint8_t plain[PLAIN_MAX];
static uint8_t packed[PACKED_MAX];
static uint8_t unpacked[PLAIN_MAX + 1];

static void fill(size_t size, bool random)
{
    uint64_t state = size;

    for (size_t i = 0; i < size; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        plain[i] = random ? (uint8_t)(state >> 40) : (uint8_t) "log line "[i % 9];
    }
}

static size_t compress(enum codec codec, size_t size)
{
    size_t bound = compress_bound(codec, size);
    size_t got = 0;

    ck_assert_uint_le(bound, PACKED_MAX);
    ck_assert_int_eq(compress_bytes(codec, CODEC_LEVEL_DEFAULT, bytes_of(plain, size), packed, bound, &got), ERR_OK);
    ck_assert_uint_le(got, bound);
    return got;
}

/* Reads to the end in pieces. */
static enum err unpack(enum codec codec, struct bytes from, size_t bytes_max, size_t piece, size_t *size)
{
    struct decompressor *stream = NULL;
    size_t got = 1;
    enum err err = decompressor_new(codec, from, bytes_max, &stream);

    *size = 0;
    while (err == ERR_OK && got > 0) {
        size_t room = sizeof(unpacked) - *size < piece ? sizeof(unpacked) - *size : piece;

        err = decompressor_read(stream, unpacked + *size, room, &got);
        if (err == ERR_OK)
            *size += got;
    }
    decompressor_free(stream);
    return err;
}

/* No more than was set aside for it (GZIP_WRAPPER_BYTES_MAX), where there is nothing to compress, too. */
START_TEST(what_went_in_comes_out)
{
    static const size_t sizes[] = {0, 1, 100, 32767, 32768, 32769, 65536, PLAIN_MAX};
    static const size_t pieces[] = {1000000, 4096, 333};

    for (enum codec codec = CODEC_NONE; codec < CODEC_COUNT; codec++)
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
            for (int random = 0; random < 2; random++) {
                size_t packed_size = 0;
                size_t size = 0;

                fill(sizes[i], random == 1);
                packed_size = compress(codec, sizes[i]);
                for (size_t p = 0; p < 3; p++) {
                    ck_assert_int_eq(unpack(codec, bytes_of(packed, packed_size), sizes[i], pieces[p], &size), ERR_OK);
                    ck_assert_uint_eq(size, sizes[i]);
                    ck_assert(memcmp(plain, unpacked, size) == 0);
                }
            }
}
END_TEST

START_TEST(output_stops_at_its_bound)
{
    size_t size = 0;

    fill(PLAIN_MAX, false);
    for (enum codec codec = CODEC_NONE; codec < CODEC_COUNT; codec++) {
        size_t packed_size = compress(codec, PLAIN_MAX);

        ck_assert_int_eq(unpack(codec, bytes_of(packed, packed_size), PLAIN_MAX - 1, 1000, &size),
                         ERR_MESSAGE_TOO_LARGE);
        ck_assert_int_eq(unpack(codec, bytes_of(packed, packed_size), 0, 1000000, &size), ERR_MESSAGE_TOO_LARGE);
        ck_assert_uint_eq(size, 0);
    }
}
END_TEST

START_TEST(cut_off_input)
{
    size_t size = 0;

    fill(1000, false);
    for (enum codec codec = CODEC_GZIP; codec < CODEC_COUNT; codec++) {
        size_t packed_size = compress(codec, 1000);

        for (size_t cut = 0; cut < packed_size; cut++) {
            /* A xerial stream may end after any block, and after its header too. */
            if (codec == CODEC_SNAPPY && cut == 16)
                continue;
            if (unpack(codec, bytes_of(packed, cut), PLAIN_MAX, 100, &size) == ERR_OK)
                ck_abort_msg("%s cut off at %zu of %zu", codec_name(codec), cut, packed_size);
        }
    }
}
END_TEST

/* Known trap B124: magic, version 1, lowest compatible version 1, then length-prefixed blocks. */
START_TEST(snappy_is_framed_as_java_does)
{
    static const uint8_t header[16] = {0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0, 0, 0, 0, 1, 0, 0, 0, 1};
    size_t packed_size = 0;
    size_t at = sizeof(header);
    int blocks = 0;

    fill(PLAIN_MAX, false);
    packed_size = compress(CODEC_SNAPPY, PLAIN_MAX);
    ck_assert_mem_eq(packed, header, sizeof(header));
    for (; at < packed_size; blocks++)
        at += 4 + big_endian_load_u32(packed + at);
    ck_assert_uint_eq(at, packed_size);
    ck_assert_int_eq(blocks, (PLAIN_MAX + CODEC_XERIAL_BLOCK_BYTES - 1) / CODEC_XERIAL_BLOCK_BYTES);
}
END_TEST

START_TEST(bare_snappy_is_read_too)
{
    size_t packed_size = sizeof(packed);
    size_t size = 0;

    fill(PLAIN_MAX, false);
    ck_assert_int_eq(snappy_compress((const char *)plain, PLAIN_MAX, (char *)packed, &packed_size), SNAPPY_OK);
    ck_assert_int_eq(unpack(CODEC_SNAPPY, bytes_of(packed, packed_size), PLAIN_MAX, 777, &size), ERR_OK);
    ck_assert_uint_eq(size, PLAIN_MAX);
    ck_assert(memcmp(plain, unpacked, size) == 0);
}
END_TEST

/* A few bytes that announce gigabytes are refused before anything is allocated for them. */
START_TEST(snappy_length_bomb)
{
    static const uint8_t bomb[] = {0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0};
    size_t size = 0;

    ck_assert_int_eq(unpack(CODEC_SNAPPY, bytes_of(bomb, sizeof(bomb)), (size_t)1 << 40, 1000, &size),
                     ERR_CORRUPT_MESSAGE);
}
END_TEST

/* The edge of CODEC_SNAPPY_EXPANSION_MAX: more than the best that the format can do is no length; what it can do is
 * held against the bound of the output. */
START_TEST(snappy_announces_what_it_can_hold)
{
    enum { PACKED = 5, MOST = (PACKED + 1) * CODEC_SNAPPY_EXPANSION_MAX - 1 };
    const uint8_t most[PACKED] = {0x80 | (MOST & 0x7f), MOST >> 7};
    const uint8_t more[PACKED] = {0x80 | ((MOST + 1) & 0x7f), (MOST + 1) >> 7};
    size_t size = 0;

    ck_assert_int_eq(unpack(CODEC_SNAPPY, bytes_of(most, PACKED), MOST - 1, 1000, &size), ERR_MESSAGE_TOO_LARGE);
    ck_assert_int_eq(unpack(CODEC_SNAPPY, bytes_of(more, PACKED), MOST - 1, 1000, &size), ERR_CORRUPT_MESSAGE);
}
END_TEST

/* The edge of CODEC_ZSTD_WINDOW_LOG_MAX, in the head of an empty frame. */
START_TEST(zstd_windows_are_bounded)
{
    for (int log = CODEC_ZSTD_WINDOW_LOG_MAX; log <= CODEC_ZSTD_WINDOW_LOG_MAX + 1; log++) {
        const uint8_t frame[] = {0x28, 0xb5, 0x2f, 0xfd, 0, (uint8_t)((log - 10) << 3), 1, 0, 0};
        size_t size = 0;

        ck_assert_int_eq(unpack(CODEC_ZSTD, bytes_of(frame, sizeof(frame)), 1000, 1000, &size),
                         log <= CODEC_ZSTD_WINDOW_LOG_MAX ? ERR_OK : ERR_CORRUPT_MESSAGE);
        ck_assert_uint_eq(size, 0);
    }
}
END_TEST

/* The edge of CODEC_COMPRESSED_BYTES_MAX: sizes stay those that every codec's library counts in. */
START_TEST(compressed_input_is_bounded)
{
    struct decompressor *stream = NULL;

    ck_assert_int_eq(decompressor_new(CODEC_GZIP, bytes_of(packed, CODEC_COMPRESSED_BYTES_MAX), 1, &stream), ERR_OK);
    decompressor_free(stream);
    ck_assert_int_eq(decompressor_new(CODEC_GZIP, bytes_of(packed, (size_t)CODEC_COMPRESSED_BYTES_MAX + 1), 1, &stream),
                     ERR_CORRUPT_MESSAGE);
}
END_TEST

/* gzip members and frames one after the other, as `cat a.gz b.gz` makes them. */
START_TEST(several_frames_are_one_stream)
{
    static const enum codec codecs[] = {CODEC_GZIP, CODEC_LZ4, CODEC_ZSTD};

    fill(1000, false);
    for (size_t i = 0; i < 3; i++) {
        size_t once = compress(codecs[i], 1000);
        size_t size = 0;

        memcpy(packed + once, packed, once);
        ck_assert_int_eq(unpack(codecs[i], bytes_of(packed, once * 2), PLAIN_MAX, 300, &size), ERR_OK);
        ck_assert_uint_eq(size, 2000);
        ck_assert(memcmp(unpacked, plain, 1000) == 0 && memcmp(unpacked + 1000, plain, 1000) == 0);
        ck_assert_int_ne(unpack(codecs[i], bytes_of(packed, once * 2 - 1), PLAIN_MAX, 300, &size), ERR_OK);
    }
}
END_TEST

START_TEST(levels)
{
    static const struct {
        enum codec codec;
        int32_t level;
    } cases[] = {{CODEC_GZIP, 1}, {CODEC_GZIP, 9}, {CODEC_LZ4, 1}, {CODEC_LZ4, 17}, {CODEC_ZSTD, -5}, {CODEC_ZSTD, 22}};

    fill(PLAIN_MAX, false);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        size_t packed_size = 0;
        size_t size = 0;

        ck_assert_int_eq(compress_bytes(cases[i].codec, cases[i].level, bytes_of(plain, PLAIN_MAX), packed,
                                        sizeof(packed), &packed_size),
                         ERR_OK);
        ck_assert_int_eq(unpack(cases[i].codec, bytes_of(packed, packed_size), PLAIN_MAX, 5000, &size), ERR_OK);
        ck_assert_uint_eq(size, PLAIN_MAX);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("compress");
    TCase *tcase = tcase_create("compress");
    SRunner *runner = srunner_create(suite);
    int failed = 0;

    tcase_add_test(tcase, what_went_in_comes_out);
    tcase_add_test(tcase, output_stops_at_its_bound);
    tcase_add_test(tcase, cut_off_input);
    tcase_add_test(tcase, snappy_is_framed_as_java_does);
    tcase_add_test(tcase, bare_snappy_is_read_too);
    tcase_add_test(tcase, snappy_length_bomb);
    tcase_add_test(tcase, snappy_announces_what_it_can_hold);
    tcase_add_test(tcase, zstd_windows_are_bounded);
    tcase_add_test(tcase, compressed_input_is_bounded);
    tcase_add_test(tcase, several_frames_are_one_stream);
    tcase_add_test(tcase, levels);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
