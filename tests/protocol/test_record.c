/*
 * Rules: what is built is what is read, for any keys, values and headers, null, empty or long, with every codec (B127);
 * varints are zig-zag and never longer than their type; a failing allocation is ERR_NOMEM, leaks nothing, and the
 * same call succeeds afterwards.
 */
#include <check.h>

#include "base/mem.h"
#include "protocol/batch_build.h"

/* Linked with --wrap for the three: the allocation that this counts down to fails. */
static int allocations_left = -1;

static bool may_allocate(void)
{
    if (allocations_left == 0)
        return false;
    allocations_left -= allocations_left > 0;
    return true;
}

void *__real_mem_alloc(size_t size);
void *__real_mem_calloc(size_t count, size_t size);
void *__real_mem_realloc(void *block, size_t size);
void *__wrap_mem_alloc(size_t size);
void *__wrap_mem_calloc(size_t count, size_t size);
void *__wrap_mem_realloc(void *block, size_t size);

void *__wrap_mem_alloc(size_t size)
{
    return may_allocate() ? __real_mem_alloc(size) : NULL;
}

void *__wrap_mem_calloc(size_t count, size_t size)
{
    return may_allocate() ? __real_mem_calloc(count, size) : NULL;
}

void *__wrap_mem_realloc(void *block, size_t size)
{
    return may_allocate() ? __real_mem_realloc(block, size) : NULL;
}

enum { RECORDS_MAX = 60, HEADERS_MAX = 4, POOL = 400000 };

struct model {
    int64_t timestamp;
    struct bytes key;
    struct bytes value;
    struct record_header headers[HEADERS_MAX];
    uint32_t header_count;
};

static struct model models[RECORDS_MAX];
static uint8_t pool[POOL];
static uint64_t state = 5;

static uint32_t draw(uint32_t bound)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33) % bound;
}

/* Sizes at the edges of varints and of the window come up often. */
static struct bytes draw_bytes(bool nullable)
{
    static const uint32_t sizes[] = {0, 1, 5, 63, 64, 100, 8191, 8192, 16383, 16384, 16385, 50000};
    uint32_t size = sizes[draw(draw(20) == 0 ? 12 : 6)];

    if (nullable && draw(4) == 0)
        return (struct bytes){0};
    return bytes_of(pool + draw(POOL - size), size);
}

static uint32_t draw_models(void)
{
    uint32_t count = draw(RECORDS_MAX) + 1;

    for (uint32_t i = 0; i < count; i++) {
        struct model *model = &models[i];

        model->timestamp = draw(10) == 0 ? -1 : 1700000000000 + draw(100000) - 50000;
        model->key = draw_bytes(true);
        model->value = draw_bytes(true);
        model->header_count = draw(3) == 0 ? draw(HEADERS_MAX + 1) : 0;
        for (uint32_t h = 0; h < model->header_count; h++)
            model->headers[h] = (struct record_header){draw_bytes(false), draw_bytes(true)};
    }
    return count;
}

static bool same(struct bytes a, struct bytes b)
{
    return (a.data == NULL) == (b.data == NULL) && bytes_equal(a, b);
}

static bool matches(const struct record *record, const struct model *model)
{
    struct bytes headers = record->headers;
    struct record_header header;
    bool good = record->timestamp == model->timestamp && same(record->key, model->key) &&
                same(record->value, model->value) && record->header_count == model->header_count;

    for (uint32_t h = 0; good && h < model->header_count; h++)
        good = record_header_next(&headers, &header) && same(header.key, model->headers[h].key) &&
               same(header.value, model->headers[h].value);
    return good && !record_header_next(&headers, &header);
}

static enum err build(struct batch_builder *builder, const struct batch_spec *spec, uint32_t count, struct bytes *batch)
{
    uint8_t *data = NULL;
    size_t size = 0;
    enum err err = ERR_OK;

    batch_builder_reset(builder, spec);
    for (uint32_t i = 0; i < count && err == ERR_OK; i++)
        err = batch_builder_append(builder, models[i].timestamp, models[i].key, models[i].value, models[i].headers,
                                   models[i].header_count);
    if (err == ERR_OK)
        err = batch_builder_finish(builder, &data, &size);
    *batch = bytes_of(data, size);
    return err;
}

/* ERR_OK when the batch holds the models; ERR_UNKNOWN_SERVER_ERROR when it holds others. */
static enum err compare(struct bytes batch, int64_t base_offset, uint32_t count)
{
    struct record_iter iter;
    struct record record;
    uint32_t index = 0;
    enum err err = record_iter_init(&iter, batch, BATCH_OPENED_BYTES_MAX);

    if (err != ERR_OK)
        return err;
    while ((err = record_iter_next(&iter, &record)) == ERR_OK) {
        if (index == count || record.offset != base_offset + index || !matches(&record, &models[index]))
            break;
        index++;
    }
    record_iter_deinit(&iter);
    if (err == ERR_OK || (err == ERR_END && index != count))
        return ERR_UNKNOWN_SERVER_ERROR;
    return err == ERR_END ? ERR_OK : err;
}

static void fill_pool(void)
{
    for (size_t i = 0; i < POOL; i++)
        pool[i] = (uint8_t)(i % 7 == 0 ? draw(256) : i / 1000);
}

START_TEST(any_records_come_back_with_every_codec)
{
    struct batch_builder builder;
    struct batch_spec spec;

    fill_pool();
    batch_spec_init(&spec);
    batch_builder_init(&builder, &spec);
    for (int round = 0; round < 60; round++) {
        uint32_t count = draw_models();
        struct bytes batch;

        spec.codec = (enum codec)(round % CODEC_COUNT);
        spec.base_offset = draw(1000000);
        ck_assert_int_eq(build(&builder, &spec, count, &batch), ERR_OK);
        ck_assert_int_eq(compare(batch, spec.base_offset, count), ERR_OK);
    }
    batch_builder_deinit(&builder);
}
END_TEST

START_TEST(a_record_larger_than_the_window)
{
    struct batch_builder builder;
    struct batch_spec spec;
    struct bytes batch;

    fill_pool();
    batch_spec_init(&spec);
    batch_builder_init(&builder, &spec);
    models[0] = (struct model){.timestamp = 1, .value = bytes_of(pool, 100)};
    models[1] = (struct model){.timestamp = 2, .value = bytes_of(pool, POOL)};
    models[2] = (struct model){.timestamp = 3, .key = bytes_of(pool, POOL), .value = bytes_of(pool, 0)};
    for (spec.codec = CODEC_NONE; spec.codec < CODEC_COUNT; spec.codec++) {
        ck_assert_int_eq(build(&builder, &spec, 3, &batch), ERR_OK);
        ck_assert_int_eq(compare(batch, 0, 3), ERR_OK);
    }
    batch_builder_deinit(&builder);
}
END_TEST

START_TEST(every_allocation_may_fail)
{
    struct batch_spec spec;

    fill_pool();
    batch_spec_init(&spec);
    for (spec.codec = CODEC_NONE; spec.codec < CODEC_COUNT; spec.codec++) {
        uint32_t count = draw_models();
        enum err err = ERR_NOMEM;
        int failures = 0;

        models[0].value = bytes_of(pool, 50000);
        for (int k = 0; err == ERR_NOMEM; k++) {
            struct batch_builder builder;
            struct bytes batch = {0};

            batch_builder_init(&builder, &spec);
            allocations_left = k;
            err = build(&builder, &spec, count, &batch);
            if (err == ERR_OK)
                err = compare(batch, 0, count);
            allocations_left = -1;
            failures += err == ERR_NOMEM;
            if (err == ERR_NOMEM) {
                ck_assert_int_eq(build(&builder, &spec, count, &batch), ERR_OK);
                ck_assert_int_eq(compare(batch, 0, count), ERR_OK);
            }
            batch_builder_deinit(&builder);
        }
        ck_assert_int_eq(err, ERR_OK);
        ck_assert_int_ge(failures, spec.codec == CODEC_NONE ? 1 : 5);
    }
}
END_TEST

START_TEST(append_time_is_what_readers_see)
{
    struct batch_builder builder;
    struct batch_spec spec;
    struct bytes batch;

    batch_spec_init(&spec);
    spec.log_append_time = true;
    batch_builder_init(&builder, &spec);
    models[0] = (struct model){.timestamp = 10};
    models[1] = (struct model){.timestamp = 30};
    models[2] = (struct model){.timestamp = 20};
    ck_assert_int_eq(build(&builder, &spec, 3, &batch), ERR_OK);
    for (int i = 0; i < 3; i++)
        models[i].timestamp = 30;
    ck_assert_int_eq(compare(batch, 0, 3), ERR_OK);
    batch_builder_deinit(&builder);
}
END_TEST

/* Through a record: the only reader of varints is the one that reads them. */
START_TEST(varints_at_their_edges)
{
    static const int64_t values[] = {0,         -1,      1,         63,        64,        -64,
                                     -65,       8191,    8192,      INT32_MAX, INT32_MIN, INT64_MAX,
                                     INT64_MIN, 1048575, 134217727, 134217728, -134217728};
    uint8_t bytes[RECORD_VARLONG_BYTES_MAX];

    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        struct batch_builder builder;
        struct batch_spec spec;
        struct bytes batch;
        size_t size = record_varlong_write(bytes, values[i]);

        ck_assert_uint_eq(size, record_varlong_size(values[i]));
        ck_assert_uint_le(size, RECORD_VARLONG_BYTES_MAX);
        if (values[i] == (int32_t)values[i]) {
            ck_assert_uint_eq(record_varint_write(bytes, (int32_t)values[i]), size);
            ck_assert_uint_eq(record_varint_size((int32_t)values[i]), size);
            ck_assert_uint_le(size, RECORD_VARINT_BYTES_MAX);
        }
        batch_spec_init(&spec);
        batch_builder_init(&builder, &spec);
        models[0] = (struct model){.timestamp = 0};
        models[1] = (struct model){.timestamp = values[i]};
        ck_assert_int_eq(build(&builder, &spec, 2, &batch), ERR_OK);
        ck_assert_int_eq(compare(batch, 0, 2), ERR_OK);
        batch_builder_deinit(&builder);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("record");
    TCase *tcase = tcase_create("record");
    SRunner *runner = srunner_create(suite);
    int failed = 0;

    tcase_add_test(tcase, any_records_come_back_with_every_codec);
    tcase_add_test(tcase, a_record_larger_than_the_window);
    tcase_add_test(tcase, every_allocation_may_fail);
    tcase_add_test(tcase, append_time_is_what_readers_see);
    tcase_add_test(tcase, varints_at_their_edges);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
