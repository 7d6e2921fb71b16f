/* Rule: what is advertised is exactly what works: each row of the table decodes every version it claims, answers in
 * each, and claims Kafka's own ranges; nothing a frame can hold makes decoding take more than the row's bound. */
#include <check.h>

#include "base/mem.h"
#include "broker/api_table.h"
#include "protocol/frame.h"

static const struct api *api_named(const char *name)
{
    for (uint32_t i = 0; i < api_count(); i++)
        if (strcmp(api_at(i)->name, name) == 0)
            return api_at(i);
    ck_abort_msg("no row for %s", name);
    return NULL;
}

START_TEST(rows_are_whole_and_in_order)
{
    for (uint32_t i = 0; i < api_count(); i++) {
        const struct api *api = api_at(i);

        ck_assert(i == 0 || api_at(i - 1)->key < api->key);
        ck_assert_ptr_eq(api_find(api->key), api);
        ck_assert_int_eq(api->request->api_key, api->key);
        ck_assert_int_eq(api->response->api_key, api->key);
        ck_assert_int_eq(api->request->kind, MESSAGE_REQUEST);
        ck_assert_int_eq(api->response->kind, MESSAGE_RESPONSE);
        ck_assert(api->listeners != 0);
        ck_assert_ptr_nonnull(api->handle);
        /* "FetchRequest" of "Fetch": names in log lines are Kafka's. */
        ck_assert_int_eq(strncmp(api->request->name, api->name, strlen(api->name)), 0);
        ck_assert_str_eq(api->request->name + strlen(api->name), "Request");
    }
    ck_assert_ptr_null(api_find(-1));
    ck_assert_ptr_null(api_find(24706));
}
END_TEST

START_TEST(ranges_are_those_of_the_codecs)
{
    for (uint32_t i = 0; i < api_count(); i++) {
        const struct api *api = api_at(i);

        ck_assert_int_eq(api->version_min, api->request->version_min);
        ck_assert_int_eq(api->version_max, api->request->version_max);
        ck_assert_int_eq(api->version_min, api->response->version_min);
        ck_assert_int_eq(api->version_max, api->response->version_max);
        /* Trap B002: only Produce says less than it takes. */
        ck_assert_int_eq(api->advertised_min, api->key == API_PRODUCE ? 0 : api->version_min);
    }
    ck_assert_int_eq(api_named("Produce")->version_min, 3);
    ck_assert_int_eq(api_named("ListOffsets")->version_min, 0);
}
END_TEST

START_TEST(every_version_that_is_claimed_decodes_and_answers)
{
    for (uint32_t i = 0; i < api_count(); i++) {
        const struct api *api = api_at(i);
        void *request = mem_calloc(1, api->request->structure->size);
        void *response = mem_calloc(1, api->response->structure->size);

        api->request->structure->init(request);
        api->response->structure->init(response);
        for (int16_t version = api->version_min; version <= api->version_max; version++) {
            struct arena arena;
            struct wire_reader reader;
            struct bytes encoded;
            struct slice *slices = NULL;
            uint32_t count = 0;
            void *back = NULL;

            arena_init(&arena, 1 << 20);
            ck_assert_int_eq(message_encode(api->request, version, request, &arena, &encoded), ERR_OK);
            back = arena_alloc(&arena, api->request->structure->size);
            ck_assert_ptr_nonnull(back);
            wire_reader_init(&reader, encoded);
            ck_assert_int_eq(message_read(api->request, &reader, &arena, version, back), ERR_OK);
            ck_assert_uint_eq(wire_reader_left(&reader), 0);
            ck_assert_int_eq(frame_encode_response(api->response, version, 7, response, &arena, &slices, &count),
                             ERR_OK);
            ck_assert_uint_gt(count, 0);
            arena_deinit(&arena);
        }
        mem_free(request);
        mem_free(response);
    }
}
END_TEST

START_TEST(the_throttle_time_is_where_the_row_says)
{
    for (uint32_t i = 0; i < api_count(); i++) {
        const struct message_struct *structure = api_at(i)->response->structure;
        bool found = false;

        for (uint32_t j = 0; j < structure->field_count; j++)
            if (strcmp(structure->fields[j].name, "throttle_time_ms") == 0) {
                ck_assert_uint_eq(structure->fields[j].offset, api_at(i)->throttle_offset);
                found = true;
            }
        ck_assert_msg(found, "%s", api_at(i)->name);
    }
}
END_TEST

/* A frame full of the smallest elements there are. */
static void check_bound(const char *name, int16_t version, const uint8_t *head, size_t head_size,
                        const uint8_t *element, size_t element_size, uint32_t elements)
{
    const struct api *api = api_named(name);
    size_t size = head_size + elements * element_size + 64;
    uint8_t *frame = mem_calloc(1, size);
    void *body = mem_calloc(1, api->request->structure->size);
    struct wire_reader reader;
    struct arena arena;

    memcpy(frame, head, head_size);
    for (uint32_t i = 0; i < elements; i++)
        memcpy(frame + head_size + i * element_size, element, element_size);
    arena_init(&arena, api->bound(size));
    wire_reader_init(&reader, bytes_of(frame, size));
    ck_assert_msg(message_read(api->request, &reader, &arena, version, body) == ERR_OK, "%s", name);
    ck_assert_uint_le(arena.held_bytes, api->bound(size));
    arena_deinit(&arena);
    mem_free(body);
    mem_free(frame);
}

START_TEST(the_bound_holds_for_the_widest_elements)
{
    /* 100,000 of each: counts in front, then the smallest element. */
    static const uint8_t plain_count[] = {0, 1, 0x86, 0xa0};
    static const uint8_t compact_count[] = {0xa1, 0x8d, 0x06};
    static const uint8_t coordinator_head[] = {0, 0xa1, 0x8d, 0x06};
    static const uint8_t produce_head[] = {0, 0, 1, 0, 0, 0, 1, 0xa1, 0x8d, 0x06};
    static const uint8_t empty_name[] = {0, 0};
    static const uint8_t empty_compact_name[] = {1};
    static const uint8_t compact_topic[] = {1, 0};
    static const uint8_t produce_topic[] = {1, 1, 0};

    check_bound("Metadata", 0, plain_count, sizeof(plain_count), empty_name, sizeof(empty_name), 100000);
    check_bound("Metadata", 9, compact_count, sizeof(compact_count), compact_topic, sizeof(compact_topic), 100000);
    check_bound("DeleteTopics", 1, plain_count, sizeof(plain_count), empty_name, sizeof(empty_name), 100000);
    check_bound("FindCoordinator", 4, coordinator_head, sizeof(coordinator_head), empty_compact_name,
                sizeof(empty_compact_name), 100000);
    check_bound("Produce", 9, produce_head, sizeof(produce_head), produce_topic, sizeof(produce_topic), 100000);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("api_table");
    TCase *tcase = tcase_create("api_table");
    SRunner *runner = srunner_create(suite);
    int failed = 0;

    tcase_add_test(tcase, rows_are_whole_and_in_order);
    tcase_add_test(tcase, ranges_are_those_of_the_codecs);
    tcase_add_test(tcase, every_version_that_is_claimed_decodes_and_answers);
    tcase_add_test(tcase, the_throttle_time_is_where_the_row_says);
    tcase_add_test(tcase, the_bound_holds_for_the_widest_elements);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
