/*
 * Rules, for every message in every version: what was written reads back equal and takes the size foretold (size);
 * bytes cut short are refused, wherever they are cut; counts and lengths that lie are refused without memory being
 * taken for them (known trap B010), nor more than the arena's limit; fields that a version lacks are dropped in writing
 * and have their default after reading (B008); nothing crashes on any of it.
 */
#include <check.h>
#include <stdlib.h>

#include "base/assert.h"
#include "message_sample.h"
#include "protocol/gen/messages.h"

enum {
    SAMPLES = 12,
    ARENA_BYTES_MAX = 64 * 1024 * 1024,
    /* Memory that a byte read may take: a structure of some 200 bytes for 3 on the wire, some levels deep. */
    ARENA_BYTES_PER_BYTE_MAX = 512,
};

struct encoded {
    struct arena arena;
    struct bytes bytes;
    void *message;
};

static void encode_sample(struct encoded *encoded, const struct message_type *type, int16_t version, uint64_t seed,
                          bool all_fields)
{
    struct sample sample = {.seed = seed, .all_fields = all_fields, .arena = &encoded->arena};

    for (const char *c = type->name; *c != '\0'; c++)
        sample.seed = sample.seed * 31 + (uint64_t)*c;
    arena_init(&encoded->arena, ARENA_BYTES_MAX);
    encoded->message = sample_message(&sample, type, version);
    ck_assert_int_eq(message_encode(type, version, encoded->message, &encoded->arena, &encoded->bytes), ERR_OK);
}

/* Reads into its own exact heap copy, so that a sanitizer sees one byte too far. */
static enum err decode(const struct message_type *type, int16_t version, struct bytes bytes, struct arena *arena,
                       const uint8_t *copy, void **message, struct wire_reader *r)
{
    *message = arena_alloc(arena, type->structure->size);
    assert(*message != NULL);
    wire_reader_init(r, bytes_of(copy, bytes.size));
    return message_read(type, r, arena, version, *message);
}

#define EACH_VERSION(type, version)                                                                                    \
    for (uint32_t type##_index = 0; type##_index < MESSAGE_TYPE_COUNT; type##_index++)                                 \
        for (const struct message_type *type = message_types[type##_index]; type != NULL; type = NULL)                 \
            for (int16_t version = type->version_min; version <= type->version_max; version++)

static uint8_t *copy_of(struct bytes bytes)
{
    uint8_t *copy = malloc(bytes.size == 0 ? 1 : bytes.size);
    assert(copy != NULL);
    memcpy(copy, bytes.data, bytes.size);
    return copy;
}

static void check_round_trip(const struct message_type *type, int16_t version, uint64_t seed, bool all_fields)
{
    struct encoded encoded;
    struct arena arena;
    struct wire_reader r;
    struct bytes again;
    void *message;

    encode_sample(&encoded, type, version, seed, all_fields);
    uint8_t *copy = copy_of(encoded.bytes);
    arena_init(&arena, ARENA_BYTES_MAX);
    ck_assert_msg(decode(type, version, encoded.bytes, &arena, copy, &message, &r) == ERR_OK, "%s v%d at %zu",
                  type->name, version, wire_reader_position(&r));
    ck_assert_uint_eq(wire_reader_left(&r), 0);
    const char *difference = sample_difference(type, version, encoded.message, message, all_fields);
    ck_assert_msg(difference == NULL, "%s v%d: %s", type->name, version, difference);
    ck_assert_int_eq(message_encode(type, version, message, &arena, &again), ERR_OK);
    ck_assert_msg(bytes_equal(again, encoded.bytes), "%s v%d", type->name, version);
    arena_deinit(&arena);
    arena_deinit(&encoded.arena);
    free(copy);
}

START_TEST(written_reads_back_equal)
{
    EACH_VERSION(type, version)
    for (uint64_t seed = 0; seed < SAMPLES; seed++)
        check_round_trip(type, version, seed, false);
}
END_TEST

START_TEST(fields_a_version_lacks_are_dropped)
{
    EACH_VERSION(type, version)
    for (uint64_t seed = 0; seed < SAMPLES; seed++)
        check_round_trip(type, version, seed, true);
}
END_TEST

START_TEST(defaults_read_back_equal)
{
    EACH_VERSION(type, version)
    {
        struct arena arena;
        struct bytes bytes;
        struct wire_reader r;
        void *message, *back;

        arena_init(&arena, ARENA_BYTES_MAX);
        message = arena_alloc(&arena, type->structure->size);
        type->structure->init(message);
        ck_assert_int_eq(message_encode(type, version, message, &arena, &bytes), ERR_OK);
        uint8_t *copy = copy_of(bytes);
        ck_assert_int_eq(decode(type, version, bytes, &arena, copy, &back, &r), ERR_OK);
        const char *difference = sample_difference(type, version, message, back, true);
        ck_assert_msg(difference == NULL, "%s v%d: %s", type->name, version, difference);
        arena_deinit(&arena);
        free(copy);
    }
}
END_TEST

START_TEST(slices_hold_the_same_bytes)
{
    EACH_VERSION(type, version)
    {
        struct encoded encoded;
        struct slice slices[64];
        struct wire_writer w;
        struct wire_size size;
        uint32_t count = 0;
        size_t position = 0;

        encode_sample(&encoded, type, version, 99, false);
        size = message_size(type, version, encoded.message);
        ck_assert_uint_eq(wire_size_total(size), encoded.bytes.size);
        ck_assert_uint_le(size.slices, 64);
        uint8_t *buffer = malloc(size.bytes == 0 ? 1 : size.bytes);
        wire_writer_init(&w, buffer, size.bytes, slices, size.slices);
        message_write(type, &w, version, encoded.message);
        ck_assert_int_eq(wire_writer_finish(&w, &count), ERR_OK);
        ck_assert_uint_eq(w.size.bytes, size.bytes);
        ck_assert_uint_eq(w.size.payload_bytes, size.payload_bytes);
        ck_assert_ptr_eq(w.at, w.end);
        for (uint32_t i = 0; i < count; i++) {
            ck_assert_int_eq(memcmp(slices[i].data, encoded.bytes.data + position, slices[i].size), 0);
            position += slices[i].size;
        }
        ck_assert_uint_eq(position, encoded.bytes.size);
        free(buffer);
        arena_deinit(&encoded.arena);
    }
}
END_TEST

/* Whether the version before has the same layout, as far as the same draws show: what it can show has been shown. */
static bool is_as_before(const struct message_type *type, int16_t version, uint64_t seed, struct bytes bytes)
{
    struct encoded before;

    if (version == type->version_min)
        return false;
    encode_sample(&before, type, (int16_t)(version - 1), seed, false);
    bool same = bytes_equal(before.bytes, bytes);
    arena_deinit(&before.arena);
    return same;
}

START_TEST(cut_short_is_refused_at_every_byte)
{
    EACH_VERSION(type, version)
    {
        struct encoded encoded;

        encode_sample(&encoded, type, version, 7, false);
        if (is_as_before(type, version, 7, encoded.bytes)) {
            arena_deinit(&encoded.arena);
            continue;
        }
        for (size_t size = 0; size < encoded.bytes.size; size++) {
            struct bytes cut = bytes_of(encoded.bytes.data, size);
            uint8_t *copy = copy_of(cut);
            struct wire_reader r;
            struct arena arena;
            void *message;

            arena_init(&arena, ARENA_BYTES_MAX);
            ck_assert_msg(decode(type, version, cut, &arena, copy, &message, &r) == ERR_MALFORMED, "%s v%d cut to %zu",
                          type->name, version, size);
            ck_assert_uint_le(wire_reader_position(&r), size);
            arena_deinit(&arena);
            free(copy);
        }
        arena_deinit(&encoded.arena);
    }
}
END_TEST

/* Whatever the bytes say, reading them ends, in an error or not, and takes memory in proportion to them only. */
static void check_hostile(const struct message_type *type, int16_t version, const uint8_t *data, size_t size)
{
    struct wire_reader r;
    struct arena arena;
    void *message;

    arena_init(&arena, ARENA_BYTES_MAX);
    message = arena_alloc(&arena, type->structure->size);
    size_t before = arena.used_bytes;
    wire_reader_init(&r, bytes_of(data, size));
    enum err err = message_read(type, &r, &arena, version, message);
    ck_assert(err == ERR_OK || err == ERR_MALFORMED);
    ck_assert_msg(arena.used_bytes - before <= size * ARENA_BYTES_PER_BYTE_MAX, "%s v%d took %zu for %zu", type->name,
                  version, arena.used_bytes - before, size);
    arena_deinit(&arena);
}

START_TEST(counts_and_lengths_that_lie)
{
    static const struct bytes lies[] = {
        BYTES_LITERAL("\x7f\xff\xff\xff"),
        BYTES_LITERAL("\x80\x00\x00\x00"),
        BYTES_LITERAL("\xff\xff\xff\xfe"),
        BYTES_LITERAL("\x00\x00\xff\xff"),
        BYTES_LITERAL("\x7f\xff"),
        BYTES_LITERAL("\x80\x00"),
        BYTES_LITERAL("\xff\xfe"),
        BYTES_LITERAL("\xff"),
        BYTES_LITERAL("\x00"),
        BYTES_LITERAL("\xff\xff\xff\xff\x0f"),
        BYTES_LITERAL("\xff\xff\xff\xff\x1f"),
        BYTES_LITERAL("\x80\x80\x80\x80\x80\x00"),
    };

    EACH_VERSION(type, version)
    {
        struct encoded encoded;

        encode_sample(&encoded, type, version, 3, false);
        if (is_as_before(type, version, 3, encoded.bytes)) {
            arena_deinit(&encoded.arena);
            continue;
        }
        /* Each lie over the bytes at each place, so at every count and length there is; the long ones of compact forms
         * also in place of one byte. */
        uint8_t *copy = malloc(encoded.bytes.size + 8);
        for (size_t at = 0; at < encoded.bytes.size; at++) {
            for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
                size_t size = encoded.bytes.size;
                memcpy(copy, encoded.bytes.data, size);
                if (at + lies[i].size <= size) {
                    memcpy(copy + at, lies[i].data, lies[i].size);
                    check_hostile(type, version, copy, size);
                }
                if (lies[i].size < 5)
                    continue;
                memcpy(copy + at, lies[i].data, lies[i].size);
                memcpy(copy + at + lies[i].size, encoded.bytes.data + at + 1, size - at - 1);
                check_hostile(type, version, copy, size + lies[i].size - 1);
            }
        }
        free(copy);
        arena_deinit(&encoded.arena);
    }
}
END_TEST

START_TEST(arena_limits_are_kept)
{
    for (uint32_t i = 0; i < MESSAGE_TYPE_COUNT; i++) {
        const struct message_type *type = message_types[i];
        struct encoded encoded;
        enum err err = ERR_NOMEM;

        encode_sample(&encoded, type, type->version_max, 11, false);
        for (size_t limit = 0; err != ERR_OK; limit += 16) {
            struct arena arena;
            struct wire_reader r;
            void *message = malloc(type->structure->size);

            arena_init(&arena, limit);
            wire_reader_init(&r, encoded.bytes);
            err = message_read(type, &r, &arena, type->version_max, message);
            ck_assert(err == ERR_OK || err == ERR_NOMEM);
            ck_assert_uint_le(arena.held_bytes, limit);
            arena_deinit(&arena);
            free(message);
        }
        arena_deinit(&encoded.arena);
    }
}
END_TEST

START_TEST(versions_it_lacks_are_refused)
{
    for (uint32_t i = 0; i < MESSAGE_TYPE_COUNT; i++) {
        const struct message_type *type = message_types[i];
        const int16_t versions[] = {INT16_MIN, -1, (int16_t)(type->version_min - 1), (int16_t)(type->version_max + 1),
                                    INT16_MAX};
        for (size_t j = 0; j < sizeof(versions) / sizeof(versions[0]); j++) {
            struct arena arena;
            struct wire_reader r;

            arena_init(&arena, ARENA_BYTES_MAX);
            void *message = arena_alloc(&arena, type->structure->size);
            wire_reader_init(&r, BYTES_LITERAL("\0\0\0\0\0\0\0\0"));
            ck_assert_int_eq(message_read(type, &r, &arena, versions[j], message), ERR_UNSERVED);
            arena_deinit(&arena);
        }
    }
}
END_TEST

START_TEST(printing_is_bounded)
{
    EACH_VERSION(type, version)
    {
        struct encoded encoded;
        char text[4096], small[40];

        encode_sample(&encoded, type, version, 5, false);
        size_t length = message_print(type, version, encoded.message, text, sizeof(text));
        ck_assert_uint_eq(length, strlen(text));
        ck_assert_int_eq(text[0], '{');
        ck_assert_uint_lt(message_print(type, version, encoded.message, small, sizeof(small)), sizeof(small));
        ck_assert_int_eq(memcmp(small, text, strlen(small)), 0);
        arena_deinit(&encoded.arena);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("codecs");
    TCase *tcase = tcase_create("codecs");
    SRunner *runner = srunner_create(suite);
    int failed = 0;

    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, written_reads_back_equal);
    tcase_add_test(tcase, fields_a_version_lacks_are_dropped);
    tcase_add_test(tcase, defaults_read_back_equal);
    tcase_add_test(tcase, slices_hold_the_same_bytes);
    tcase_add_test(tcase, cut_short_is_refused_at_every_byte);
    tcase_add_test(tcase, counts_and_lengths_that_lie);
    tcase_add_test(tcase, arena_limits_are_kept);
    tcase_add_test(tcase, versions_it_lacks_are_refused);
    tcase_add_test(tcase, printing_is_bounded);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
