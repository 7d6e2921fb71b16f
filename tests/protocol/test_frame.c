/*
 * Rules: the header version follows from key and version; the client id keeps its old form in both; every version of
 * ApiVersions is answered behind header 0 (KIP-511); an unknown key is told apart from bytes that are no header.
 */
#include <check.h>

#include "protocol/frame.h"
#include "protocol/gen/api_versions.h"
#include "protocol/gen/fetch.h"
#include "protocol/gen/messages.h"

START_TEST(header_versions)
{
    static const struct {
        int16_t key, version, request, response;
    } rows[] = {
        {API_PRODUCE, 3, 1, 0},
        {API_PRODUCE, 8, 1, 0},
        {API_PRODUCE, 9, 2, 1},
        {API_FETCH, 11, 1, 0},
        {API_FETCH, 12, 2, 1},
        {API_API_VERSIONS, 0, 1, 0},
        {API_API_VERSIONS, 2, 1, 0},
        {API_API_VERSIONS, 3, 2, 0},
        {API_API_VERSIONS, 99, 2, 0},
        {API_SASL_HANDSHAKE, 1, 1, 0},
        {API_OFFSET_DELETE, 0, 1, 0},
        {API_VOTE, 0, 2, 1},
        {API_BEGIN_QUORUM_EPOCH, 0, 1, 0},
        {API_BEGIN_QUORUM_EPOCH, 1, 2, 1},
        {API_DESCRIBE_CLUSTER, 0, 2, 1},
        {4, 0, -1, -1},
        {7, 0, -1, -1},
        {-1, 0, -1, -1},
        {24706, 0, -1, -1},
        {INT16_MAX, 0, -1, -1},
        {API_FETCH, -1, 1, 0},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        ck_assert_int_eq(frame_request_header_version(rows[i].key, rows[i].version), rows[i].request);
        ck_assert_int_eq(frame_response_header_version(rows[i].key, rows[i].version), rows[i].response);
    }
}
END_TEST

START_TEST(request_header_of_a_flexible_version)
{
    /* Fetch 12, correlation 7, client id "me" with an int16 length, one unknown tag. */
    struct bytes bytes = BYTES_LITERAL("\x00\x01\x00\x0c\x00\x00\x00\x07\x00\x02me\x01\x09\x01\xff!");
    struct wire_reader r;
    struct request_header header;

    wire_reader_init(&r, bytes);
    ck_assert_int_eq(frame_read_request_header(&r, &header), ERR_OK);
    ck_assert_int_eq(header.request_api_key, API_FETCH);
    ck_assert_int_eq(header.request_api_version, 12);
    ck_assert_int_eq(header.correlation_id, 7);
    ck_assert(bytes_equal(header.client_id, BYTES_LITERAL("me")));
    ck_assert_uint_eq(wire_reader_left(&r), 1);
}
END_TEST

START_TEST(wrong_request_headers)
{
    struct wire_reader r;
    struct request_header header;

    wire_reader_init(&r, BYTES_LITERAL("\x60\x82\x00\x0c\x00\x00\x00\x07"));
    ck_assert_int_eq(frame_read_request_header(&r, &header), ERR_UNSERVED);
    ck_assert_int_eq(header.request_api_key, 24706);
    ck_assert_int_eq(header.correlation_id, 7);
    for (size_t size = 0; size < 13; size++) {
        wire_reader_init(&r, bytes_of("\x00\x01\x00\x0c\x00\x00\x00\x07\x00\x02me\x00", size));
        ck_assert_int_eq(frame_read_request_header(&r, &header), ERR_MALFORMED);
    }
    wire_reader_init(&r, BYTES_LITERAL("\x00\x01\x00\x04\x00\x00\x00\x07\xff\xff"));
    ck_assert_int_eq(frame_read_request_header(&r, &header), ERR_OK);
    ck_assert_ptr_null(header.client_id.data);
}
END_TEST

/* Known trap B001: the answer to an ApiVersions we do not speak is one of version 0. */
START_TEST(api_versions_is_answered_behind_header_0)
{
    struct api_version entry = {.api_key = API_API_VERSIONS, .min_version = 0, .max_version = 4};
    struct api_versions_response response;
    struct arena arena;
    struct slice *slices;
    uint32_t count;

    arena_init(&arena, 4096);
    api_versions_response_init(&response);
    response.error_code = 35;
    response.api_keys = &entry;
    response.api_keys_count = 1;
    ck_assert_int_eq(
        frame_encode_response(&api_versions_response_message, 0, 0x01020304, &response, &arena, &slices, &count),
        ERR_OK);
    ck_assert_uint_eq(count, 1);
    ck_assert_uint_eq(slices[0].size, 16);
    ck_assert_mem_eq(slices[0].data, "\x01\x02\x03\x04\x00\x23\x00\x00\x00\x01\x00\x12\x00\x00\x00\x04", 16);
    ck_assert_int_eq(frame_encode_response(&api_versions_response_message, 3, 9, &response, &arena, &slices, &count),
                     ERR_OK);
    /* Flexible body right behind the correlation id. */
    ck_assert_mem_eq(slices[0].data, "\x00\x00\x00\x09\x00\x23\x02\x00\x12\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00",
                     19);
    ck_assert_uint_eq(slices[0].size, 19);
    arena_deinit(&arena);
}
END_TEST

START_TEST(response_with_records)
{
    struct slice batch = slice_of("0123456789", 10);
    struct fetch_response_partition_data partition;
    struct fetchable_topic_response topic;
    struct fetch_response response, back;
    struct arena arena;
    struct slice *slices;
    uint32_t count;
    uint8_t flat[256];
    size_t size = 0;
    struct wire_reader r;
    int32_t correlation_id;

    arena_init(&arena, 65536);
    fetch_response_init(&response);
    fetchable_topic_response_init(&topic);
    fetch_response_partition_data_init(&partition);
    partition.records = (struct records){.slices = &batch, .slice_count = 1, .size = batch.size};
    topic.partitions = &partition;
    topic.partitions_count = 1;
    response.responses = &topic;
    response.responses_count = 1;
    ck_assert_int_eq(frame_encode_response(&fetch_response_message, 12, 5, &response, &arena, &slices, &count), ERR_OK);
    ck_assert_uint_eq(count, 3);
    ck_assert_ptr_eq(slices[1].data, batch.data);
    for (uint32_t i = 0; i < count; i++) {
        memcpy(flat + size, slices[i].data, slices[i].size);
        size += slices[i].size;
    }
    wire_reader_init(&r, bytes_of(flat, size));
    ck_assert_int_eq(frame_read_response_header(&r, API_FETCH, 12, &correlation_id), ERR_OK);
    ck_assert_int_eq(correlation_id, 5);
    ck_assert_int_eq(fetch_response_read(&r, &arena, 12, &back), ERR_OK);
    ck_assert_uint_eq(wire_reader_left(&r), 0);
    ck_assert_uint_eq(back.responses[0].partitions[0].records.size, 10);
    arena_deinit(&arena);
}
END_TEST

START_TEST(request_there_and_back)
{
    struct api_versions_request request, back;
    struct request_header header;
    struct arena arena;
    struct slice *slices;
    uint32_t count;
    struct wire_reader r;

    arena_init(&arena, 65536);
    api_versions_request_init(&request);
    request.client_software_name = BYTES_LITERAL("ottla");
    ck_assert_int_eq(frame_encode_request(&api_versions_request_message, 4, 11, BYTES_LITERAL("client"), &request,
                                          &arena, &slices, &count),
                     ERR_OK);
    ck_assert_uint_eq(count, 1);
    wire_reader_init(&r, bytes_of(slices[0].data, slices[0].size));
    ck_assert_int_eq(frame_read_request_header(&r, &header), ERR_OK);
    ck_assert(bytes_equal(header.client_id, BYTES_LITERAL("client")));
    ck_assert_int_eq(api_versions_request_read(&r, &arena, header.request_api_version, &back), ERR_OK);
    ck_assert(bytes_equal(back.client_software_name, BYTES_LITERAL("ottla")));
    arena_deinit(&arena);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("frame");
    TCase *tcase = tcase_create("frame");
    SRunner *runner = srunner_create(suite);
    int failed = 0;

    tcase_add_test(tcase, header_versions);
    tcase_add_test(tcase, request_header_of_a_flexible_version);
    tcase_add_test(tcase, wrong_request_headers);
    tcase_add_test(tcase, api_versions_is_answered_behind_header_0);
    tcase_add_test(tcase, response_with_records);
    tcase_add_test(tcase, request_there_and_back);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
