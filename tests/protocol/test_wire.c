/*
 * Rules: the reader is total, keeps its first failure and says what was missing; base-128 numbers are bounded; the
 * writer keeps its first failure, never writes past its buffer, and cuts the buffer where records stand.
 *
 * Sources: protocol/wire_read.c, protocol/wire_write.c */
#include <check.h>

#include "protocol/wire.h"

static struct wire_reader reader_of(struct bytes bytes)
{
    struct wire_reader r;
    wire_reader_init(&r, bytes);
    return r;
}

START_TEST(numbers_there_and_back)
{
    uint8_t buffer[128];
    struct wire_writer w;

    wire_writer_init_flat(&w, buffer, sizeof(buffer));
    wire_write_i8(&w, -2);
    wire_write_i16(&w, -300);
    wire_write_i32(&w, INT32_MIN);
    wire_write_i64(&w, INT64_MIN + 1);
    wire_write_u16(&w, 65535);
    wire_write_u32(&w, UINT32_MAX);
    wire_write_f64(&w, -0.125);
    wire_write_bool(&w, true);
    wire_write_uvarint(&w, UINT32_MAX);
    wire_write_varint(&w, INT32_MIN);
    wire_write_varlong(&w, INT64_MIN);
    wire_write_varlong(&w, INT64_MAX);
    ck_assert_int_eq(wire_writer_finish(&w, NULL), ERR_OK);

    struct wire_reader r = reader_of(bytes_of(buffer, (size_t)(w.at - buffer)));
    ck_assert_int_eq(wire_read_i8(&r), -2);
    ck_assert_int_eq(wire_read_i16(&r), -300);
    ck_assert_int_eq(wire_read_i32(&r), INT32_MIN);
    ck_assert_int_eq(wire_read_i64(&r), INT64_MIN + 1);
    ck_assert_uint_eq(wire_read_u16(&r), 65535);
    ck_assert_uint_eq(wire_read_u32(&r), UINT32_MAX);
    ck_assert_double_eq(wire_read_f64(&r), -0.125);
    ck_assert(wire_read_bool(&r));
    ck_assert_uint_eq(wire_read_uvarint(&r), UINT32_MAX);
    ck_assert_int_eq(wire_read_varint(&r), INT32_MIN);
    ck_assert_int_eq(wire_read_varlong(&r), INT64_MIN);
    ck_assert_int_eq(wire_read_varlong(&r), INT64_MAX);
    ck_assert_int_eq(r.err, ERR_OK);
    ck_assert_uint_eq(wire_reader_left(&r), 0);
}
END_TEST

START_TEST(known_bytes)
{
    uint8_t buffer[64];
    struct wire_writer w;
    static const uint8_t expected[] = {0x01, 0xac, 0x02, 0x01, 0x02, 0x03, 0x00,
                                       0x01, 'a',  0x02, 'a',  0xff, 0xff, 0x00};

    wire_writer_init_flat(&w, buffer, sizeof(buffer));
    wire_write_uvarint(&w, 1);
    wire_write_uvarint(&w, 300);
    wire_write_varint(&w, -1); /* zigzag */
    wire_write_varint(&w, 1);
    wire_write_varint(&w, -2);
    wire_write_string(&w, WIRE_PLAIN, BYTES_LITERAL("a"));
    wire_write_string(&w, WIRE_COMPACT, BYTES_LITERAL("a"));
    wire_write_string(&w, WIRE_NULLABLE, bytes_of(NULL, 0));
    wire_write_string(&w, WIRE_NULLABLE | WIRE_COMPACT, bytes_of(NULL, 0));
    ck_assert_uint_eq(w.size.bytes, sizeof(expected));
    ck_assert_mem_eq(buffer, expected, sizeof(expected));
}
END_TEST

START_TEST(first_failure_stays)
{
    struct wire_reader r = reader_of(BYTES_LITERAL("\x01\x02\x03\x04\x05\x06"));

    ck_assert_int_eq(wire_read_i32(&r), 0x01020304);
    ck_assert_int_eq(wire_read_i64(&r), 0);
    ck_assert_int_eq(r.err, ERR_MALFORMED);
    ck_assert_uint_eq(wire_reader_position(&r), 4);
    ck_assert_uint_eq(r.wanted, 8);
    ck_assert_uint_eq(r.left, 2);
    ck_assert_int_eq(wire_read_i8(&r), 0); /* though a byte is there */
    ck_assert_ptr_null(wire_read_string(&r, WIRE_PLAIN).data);
    ck_assert_uint_eq(wire_reader_position(&r), 4);
    ck_assert_uint_eq(r.wanted, 8);
}
END_TEST

START_TEST(nothing_to_read)
{
    struct wire_reader r = reader_of(bytes_of(NULL, 0));

    ck_assert_uint_eq(wire_read_raw(&r, 0).size, 0);
    ck_assert_int_eq(r.err, ERR_OK);
    ck_assert_uint_eq(wire_read_uvarint(&r), 0);
    ck_assert_int_eq(r.err, ERR_MALFORMED);
}
END_TEST

/* To WIRE_UVARINT_BYTES_MAX and WIRE_UVARLONG_BYTES_MAX bytes. */
START_TEST(base_128_is_bounded)
{
    struct wire_reader r = reader_of(BYTES_LITERAL("\xff\xff\xff\xff\x0f"));
    ck_assert_int_eq(r.end - r.at, WIRE_UVARINT_BYTES_MAX);
    ck_assert_uint_eq(wire_read_uvarint(&r), UINT32_MAX);
    ck_assert_int_eq(r.err, ERR_OK);
    r = reader_of(BYTES_LITERAL("\xff\xff\xff\xff\x1f")); /* 33 bits */
    ck_assert_uint_eq(wire_read_uvarint(&r), 0);
    ck_assert_int_eq(r.err, ERR_MALFORMED);
    r = reader_of(BYTES_LITERAL("\x80\x80\x80\x80\x80\x00")); /* a sixth byte */
    ck_assert_uint_eq(wire_read_uvarint(&r), 0);
    ck_assert_int_eq(r.err, ERR_MALFORMED);
    r = reader_of(BYTES_LITERAL("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"));
    ck_assert_int_eq(r.end - r.at, WIRE_UVARLONG_BYTES_MAX);
    ck_assert_int_eq(wire_read_varlong(&r), INT64_MIN);
    ck_assert_int_eq(r.err, ERR_OK);
    r = reader_of(BYTES_LITERAL("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02")); /* 65 bits */
    ck_assert_int_eq(wire_read_varlong(&r), 0);
    ck_assert_int_eq(r.err, ERR_MALFORMED);
}
END_TEST

START_TEST(null_only_where_it_may_be)
{
    struct wire_reader r = reader_of(BYTES_LITERAL("\xff\xff\x00\x00"));
    ck_assert_ptr_null(wire_read_string(&r, WIRE_NULLABLE).data);
    ck_assert_int_eq(r.err, ERR_OK);
    ck_assert_ptr_nonnull(wire_read_string(&r, WIRE_NULLABLE).data); /* empty is not null */
    r = reader_of(BYTES_LITERAL("\xff\xff"));
    ck_assert_ptr_null(wire_read_string(&r, WIRE_PLAIN).data);
    ck_assert_int_eq(r.err, ERR_MALFORMED);
    r = reader_of(BYTES_LITERAL("\xff\xfe")); /* -2 is no length */
    wire_read_string(&r, WIRE_NULLABLE);
    ck_assert_int_eq(r.err, ERR_MALFORMED);
    r = reader_of(BYTES_LITERAL("\x00"));
    wire_read_bytes(&r, WIRE_COMPACT);
    ck_assert_int_eq(r.err, ERR_MALFORMED);
}
END_TEST

START_TEST(strings_have_a_limit)
{
    static uint8_t bytes[WIRE_STRING_BYTES_MAX + 8], buffer[WIRE_STRING_BYTES_MAX + 8];

    for (size_t size = WIRE_STRING_BYTES_MAX - 1; size <= WIRE_STRING_BYTES_MAX + 1; size++) {
        struct wire_writer w;
        struct wire_reader r;
        bool fits = size <= WIRE_STRING_BYTES_MAX;

        wire_writer_init_flat(&w, buffer, sizeof(buffer));
        wire_write_string(&w, WIRE_COMPACT, bytes_of(bytes, size));
        ck_assert_int_eq(wire_writer_finish(&w, NULL), fits ? ERR_OK : ERR_LIMIT);

        wire_writer_init_flat(&w, buffer, sizeof(buffer));
        wire_write_bytes(&w, WIRE_COMPACT, bytes_of(bytes, size)); /* the same form, without the limit */
        r = reader_of(bytes_of(buffer, w.size.bytes));
        ck_assert_uint_eq(wire_read_string(&r, WIRE_COMPACT).size, fits ? size : 0);
        ck_assert_int_eq(r.err, fits ? ERR_OK : ERR_MALFORMED);
    }
}
END_TEST

/* Known trap B010: 2^31 - 1 elements claimed in a few bytes. */
START_TEST(counts_are_held_against_what_is_left)
{
    struct arena arena;
    uint32_t count;
    struct wire_reader r = reader_of(BYTES_LITERAL("\x7f\xff\xff\xff\x00\x00\x00\x01"));

    arena_init(&arena, 4096);
    ck_assert_ptr_null(wire_read_i32_array(&r, &arena, WIRE_PLAIN, &count));
    ck_assert_uint_eq(count, 0);
    ck_assert_int_eq(r.err, ERR_MALFORMED);
    ck_assert_uint_eq(arena.used_bytes, 0);
    r = reader_of(BYTES_LITERAL("\xff\xff\xff\xff\x0f\x00\x00"));
    ck_assert_ptr_null(wire_read_string_array(&r, &arena, WIRE_COMPACT, &count));
    ck_assert_int_eq(r.err, ERR_MALFORMED);
    ck_assert_uint_eq(arena.used_bytes, 0);
    /* As many as are there, and one more. */
    r = reader_of(BYTES_LITERAL("\x00\x00\x00\x02\x00\x00\x00\x07\x00\x00\x00\x08"));
    int32_t *values = wire_read_i32_array(&r, &arena, WIRE_PLAIN, &count);
    ck_assert_int_eq(r.err, ERR_OK);
    ck_assert_uint_eq(count, 2);
    ck_assert_int_eq(values[1], 8);
    r = reader_of(BYTES_LITERAL("\x00\x00\x00\x03\x00\x00\x00\x07\x00\x00\x00\x08"));
    ck_assert_ptr_null(wire_read_i32_array(&r, &arena, WIRE_PLAIN, &count));
    ck_assert_int_eq(r.err, ERR_MALFORMED);
    arena_deinit(&arena);
}
END_TEST

/* Elements of arrays and tagged fields share one number; the last that fits is taken, and of one more nothing is. */
START_TEST(entries_have_a_limit)
{
    struct bytes bytes = BYTES_LITERAL("\x00\x00\x00\x02\x00\x00\x00\x07\x00\x00\x00\x08" /* two numbers */
                                       "\x02\x00\x00\x01\x01\x09");                       /* two fields */

    for (size_t entries = 0; entries <= 4; entries++) {
        struct wire_reader r = reader_of(bytes);
        struct arena arena;
        uint32_t count = 0;

        arena_init(&arena, 4096);
        r.entries_left = entries;
        (void)wire_read_i32_array(&r, &arena, WIRE_PLAIN, &count);
        ck_assert_uint_eq(count, entries < 2 ? 0 : 2);
        ck_assert_int_eq(r.err, entries < 2 ? ERR_LIMIT : ERR_OK);
        ck_assert_uint_eq(arena.used_bytes, entries < 2 ? 0 : 16);
        wire_skip_tags(&r);
        ck_assert_int_eq(r.err, entries < 4 ? ERR_LIMIT : ERR_OK);
        if (entries == 4)
            ck_assert_uint_eq(wire_reader_left(&r), 0);
        arena_deinit(&arena);
    }
}
END_TEST

START_TEST(arena_limit_is_an_error)
{
    static uint8_t bytes[4 + 4096];
    struct arena arena;
    uint32_t count;

    bytes[2] = 0x10; /* 4096 bools */
    arena_init(&arena, 1024);
    struct wire_reader r = reader_of(bytes_of(bytes, sizeof(bytes)));
    ck_assert_ptr_null(wire_read_bool_array(&r, &arena, WIRE_PLAIN, &count));
    ck_assert_int_eq(r.err, ERR_NOMEM);
    ck_assert_uint_eq(count, 0);
    arena_deinit(&arena);
}
END_TEST

START_TEST(tags_ascend_and_fit)
{
    struct wire_tags tags;
    struct wire_reader r = reader_of(BYTES_LITERAL("\x02\x00\x01\x07\x05\x02\x01\x02\x63"));

    tags = wire_read_tags(&r);
    ck_assert(wire_next_tag(&r, &tags));
    ck_assert_uint_eq(tags.tag, 0);
    ck_assert_int_eq(wire_read_i8(&r), 7);
    ck_assert(wire_next_tag(&r, &tags));
    ck_assert_uint_eq(tags.tag, 5);
    wire_skip_tag(&r);
    ck_assert(!wire_next_tag(&r, &tags));
    ck_assert_int_eq(wire_read_i8(&r), 0x63); /* what stands behind them */
    ck_assert_int_eq(r.err, ERR_OK);

    static const struct bytes wrong[] = {
        BYTES_LITERAL("\x02\x01\x00\x01\x00"),         /* twice the same */
        BYTES_LITERAL("\x02\x01\x00\x00\x00"),         /* descending */
        BYTES_LITERAL("\x01\x00\x05\x01"),             /* longer than what is there */
        BYTES_LITERAL("\xff\xff\xff\xff\x0f\x00\x00"), /* more than can be there */
        BYTES_LITERAL("\x01"),                         /* fewer than told */
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        r = reader_of(wrong[i]);
        wire_skip_tags(&r);
        ck_assert_msg(r.err == ERR_MALFORMED, "case %zu", i);
    }
    r = reader_of(BYTES_LITERAL("\x01\x00\x02\x07\x08")); /* a payload of which a byte is left */
    tags = wire_read_tags(&r);
    ck_assert(wire_next_tag(&r, &tags));
    wire_read_i8(&r);
    ck_assert(!wire_next_tag(&r, &tags));
    ck_assert_int_eq(r.err, ERR_MALFORMED);
    r = reader_of(BYTES_LITERAL("\x01\x00\x01\x07\x08")); /* a payload that would read what is behind it */
    tags = wire_read_tags(&r);
    ck_assert(wire_next_tag(&r, &tags));
    wire_read_i16(&r);
    ck_assert_int_eq(r.err, ERR_MALFORMED);
}
END_TEST

START_TEST(writer_stops_at_its_end)
{
    uint8_t buffer[8] = {0};
    struct wire_writer w;

    wire_writer_init_flat(&w, buffer, 5);
    wire_write_i32(&w, 1);
    wire_write_i16(&w, 0x0707);
    wire_write_i8(&w, 7); /* would fit, but comes after a failure */
    ck_assert_int_eq(wire_writer_finish(&w, NULL), ERR_LIMIT);
    ck_assert_int_eq(buffer[4], 0);
}
END_TEST

START_TEST(records_cut_the_buffer)
{
    struct slice payload[] = {slice_of("abc", 3), {.file = (struct fs_file *)0x1000, .position = 5, .size = 10}};
    struct records records = {.slices = payload, .slice_count = 2, .size = 13};
    struct records empty = {.null = false};
    struct slice slices[8];
    uint8_t buffer[64];
    uint32_t count;
    struct wire_writer w;

    wire_writer_init(&w, buffer, sizeof(buffer), slices, 8);
    wire_write_i8(&w, 1);
    wire_write_records(&w, WIRE_NULLABLE, &records);
    wire_write_i8(&w, 2);
    wire_write_records(&w, WIRE_NULLABLE | WIRE_COMPACT, &empty);
    ck_assert_int_eq(wire_writer_finish(&w, &count), ERR_OK);
    ck_assert_uint_eq(count, 4);
    ck_assert_uint_eq(slices[0].size, 5);
    ck_assert_mem_eq(slices[0].data, "\x01\x00\x00\x00\x0d", 5);
    ck_assert_ptr_eq(slices[1].data, payload[0].data);
    ck_assert_ptr_eq(slices[2].file, payload[1].file);
    ck_assert_uint_eq(slices[2].position, 5);
    ck_assert_mem_eq(slices[3].data, "\x02\x01", 2); /* empty, not null (known trap B017) */
    ck_assert_uint_eq(slices[3].size, 2);
    ck_assert_uint_eq(w.size.bytes, 7);
    ck_assert_uint_eq(w.size.payload_bytes, 13);
    ck_assert_uint_le(count, w.size.slices);

    wire_writer_init(&w, buffer, sizeof(buffer), slices, 2); /* no room for the third slice */
    wire_write_i8(&w, 1);
    wire_write_records(&w, WIRE_NULLABLE, &records);
    ck_assert_int_eq(wire_writer_finish(&w, &count), ERR_LIMIT);

    wire_writer_init_flat(&w, buffer, sizeof(buffer)); /* a file range cannot be copied here */
    wire_write_records(&w, WIRE_NULLABLE, &records);
    ck_assert_int_eq(wire_writer_finish(&w, NULL), ERR_INVALID_REQUEST);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("wire");
    TCase *tcase = tcase_create("wire");
    SRunner *runner = srunner_create(suite);
    int failed = 0;

    tcase_add_test(tcase, numbers_there_and_back);
    tcase_add_test(tcase, known_bytes);
    tcase_add_test(tcase, first_failure_stays);
    tcase_add_test(tcase, nothing_to_read);
    tcase_add_test(tcase, base_128_is_bounded);
    tcase_add_test(tcase, null_only_where_it_may_be);
    tcase_add_test(tcase, strings_have_a_limit);
    tcase_add_test(tcase, counts_are_held_against_what_is_left);
    tcase_add_test(tcase, entries_have_a_limit);
    tcase_add_test(tcase, arena_limit_is_an_error);
    tcase_add_test(tcase, tags_ascend_and_fit);
    tcase_add_test(tcase, writer_stops_at_its_end);
    tcase_add_test(tcase, records_cut_the_buffer);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
