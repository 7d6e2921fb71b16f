/*
 * Rules: tagged fields that have their default are left out, tags ascend, sizes are exact, unknown tags are skipped
 * (known trap B007); fields newer than the version are dropped silently (B008); null is written as empty where it is
 * not legal; printing shows neither secrets nor contents.
 *
 * Sources: protocol/message_print.c */
#include <check.h>
#include <stdlib.h>

#include "protocol/gen/api_versions.h"
#include "protocol/gen/config_record.h"
#include "protocol/gen/consumer_group_member_metadata_record.h"
#include "protocol/gen/create_topics.h"
#include "protocol/gen/describe_topic_partitions.h"
#include "protocol/gen/fetch.h"
#include "protocol/gen/list_offsets.h"
#include "protocol/gen/metadata.h"
#include "protocol/gen/offset_commit.h"
#include "protocol/gen/sasl_authenticate.h"

static struct arena arena;

static void set_up(void)
{
    arena_init(&arena, 1024 * 1024);
}

static void tear_down(void)
{
    arena_deinit(&arena);
}

static struct bytes encode(const struct message_type *type, int16_t version, const void *message)
{
    struct bytes bytes;
    ck_assert_int_eq(message_encode(type, version, message, &arena, &bytes), ERR_OK);
    return bytes;
}

#define ck_assert_bytes(bytes, text)                                                                                   \
    do {                                                                                                               \
        ck_assert_uint_eq((bytes).size, sizeof(text) - 1);                                                             \
        ck_assert_mem_eq((bytes).data, text, sizeof(text) - 1);                                                        \
    } while (0)

START_TEST(defaults_are_left_out)
{
    struct api_versions_response versions;
    struct fetch_request fetch;

    api_versions_response_init(&versions);
    ck_assert_int_eq(versions.finalized_features_epoch, -1);
    ck_assert_bytes(encode(&api_versions_response_message, 3, &versions), "\0\0\x01\0\0\0\0\0");
    fetch_request_init(&fetch);
    ck_assert_int_eq(fetch.max_bytes, INT32_MAX);
    ck_assert_bytes(encode(&fetch_request_message, 17, &fetch),
                    "\0\0\0\0\0\0\0\0\x7f\xff\xff\xff\0\0\0\0\0\xff\xff\xff\xff\x01\x01\x01\0");
}
END_TEST

START_TEST(tags_ascend_with_exact_sizes)
{
    struct fetch_request fetch;

    fetch_request_init(&fetch);
    fetch.cluster_id = BYTES_LITERAL("");
    fetch.replica_state.replica_id = 3;
    /* Tag 0: an empty string, which is not the default null. Tag 1: a structure with a tag count of its own. */
    ck_assert_bytes(encode(&fetch_request_message, 15, &fetch),
                    "\0\0\0\0\0\0\0\0\x7f\xff\xff\xff\0\0\0\0\0\xff\xff\xff\xff\x01\x01\x01"
                    "\x02\x00\x01\x01\x01\x0d\0\0\0\x03\xff\xff\xff\xff\xff\xff\xff\xff\0");
    /* Version 14 has no tag 1, and the field that it replaced. */
    fetch.replica_id = 9;
    ck_assert_bytes(encode(&fetch_request_message, 14, &fetch),
                    "\0\0\0\x09\0\0\0\0\0\0\0\0\x7f\xff\xff\xff\0\0\0\0\0\xff\xff\xff\xff\x01\x01\x01\x01\x00\x01\x01");
}
END_TEST

START_TEST(unknown_tags_are_skipped)
{
    struct api_versions_response response;
    struct wire_reader r;

    /* Tag 1 (epoch 5), tag 77 unknown; in front of them one API with an unknown tag. */
    wire_reader_init(
        &r, BYTES_LITERAL(
                "\0\0\x02\0\x12\0\0\0\x04\x01\x05\x01\xff\0\0\0\x01\x02\x01\x08\0\0\0\0\0\0\0\x05\x4d\x02\xaa\xbb"));
    ck_assert_int_eq(api_versions_response_read(&r, &arena, 3, &response), ERR_OK);
    ck_assert_uint_eq(wire_reader_left(&r), 0);
    ck_assert_int_eq(response.finalized_features_epoch, 5);
    ck_assert_int_eq(response.throttle_time_ms, 1);
    ck_assert_uint_eq(response.api_keys_count, 1);
    ck_assert_int_eq(response.api_keys[0].max_version, 4);
}
END_TEST

START_TEST(a_tag_of_a_later_version_is_unknown)
{
    struct fetch_request request;
    struct wire_reader r;

    /* Version 12 with tag 1, which means something from version 15 on. */
    wire_reader_init(&r,
                     BYTES_LITERAL("\xff\xff\xff\xff\0\0\0\0\0\0\0\0\x7f\xff\xff\xff\0\0\0\0\0\xff\xff\xff\xff\x01\x01"
                                   "\x01\x01\x01\x02\xaa\xbb"));
    ck_assert_int_eq(fetch_request_read(&r, &arena, 12, &request), ERR_OK);
    ck_assert_uint_eq(wire_reader_left(&r), 0);
    ck_assert_int_eq(request.replica_state.replica_id, -1);
}
END_TEST

START_TEST(newer_fields_are_dropped)
{
    struct creatable_topic_result topic;
    struct create_topics_response response;
    struct list_offsets_partition_response partition;

    creatable_topic_result_init(&topic);
    topic.name = BYTES_LITERAL("t");
    topic.topic_id.bytes[0] = 1;        /* version 7 */
    topic.num_partitions = 3;           /* version 5 */
    topic.topic_config_error_code = 29; /* a tag from version 5 on */
    create_topics_response_init(&response);
    response.topics = &topic;
    response.topics_count = 1;
    ck_assert_bytes(encode(&create_topics_response_message, 2, &response), "\0\0\0\0\0\0\0\x01\0\x01t\0\0\0\0");
    list_offsets_partition_response_init(&partition);
    partition.leader_epoch = 8; /* version 4 */
    struct list_offsets_topic_response offsets_topic = {.partitions = &partition, .partitions_count = 1};
    struct list_offsets_response offsets = {.topics = &offsets_topic, .topics_count = 1};
    ck_assert_bytes(
        encode(&list_offsets_response_message, 1, &offsets),
        "\0\0\0\x01\0\0\0\0\0\x01\0\0\0\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff");
}
END_TEST

/* Versions that Kafka 4 has no definition of any more, so no oracle either: layouts as in Kafka 3. */
START_TEST(versions_kept_for_old_clients)
{
    struct list_offsets_partition asked = {.partition_index = 1, .timestamp = -2, .max_num_offsets = 5};
    struct list_offsets_topic topic = {.name = BYTES_LITERAL("t"), .partitions = &asked, .partitions_count = 1};
    struct list_offsets_request request = {
        .replica_id = -1, .topics = &topic, .topics_count = 1, .isolation_level = 1, .timeout_ms = 9};
    int64_t offsets[] = {7, 0};
    struct list_offsets_partition_response answer = {.partition_index = 1,
                                                     .error_code = 3,
                                                     .old_style_offsets = offsets,
                                                     .old_style_offsets_count = 2,
                                                     .offset = 99,
                                                     .timestamp = 98};
    struct list_offsets_topic_response answers = {
        .name = BYTES_LITERAL("t"), .partitions = &answer, .partitions_count = 1};
    struct list_offsets_response response = {.throttle_time_ms = 5, .topics = &answers, .topics_count = 1};
    struct offset_commit_request_partition commit = {
        .partition_index = 1, .committed_offset = 2, .commit_timestamp = 3, .committed_metadata = BYTES_LITERAL("m")};
    struct offset_commit_request_topic commits = {
        .name = BYTES_LITERAL("t"), .partitions = &commit, .partitions_count = 1};
    struct offset_commit_request old = {.group_id = BYTES_LITERAL("g"),
                                        .generation_id_or_member_epoch = 4,
                                        .member_id = BYTES_LITERAL("x"),
                                        .retention_time_ms = 6,
                                        .topics = &commits,
                                        .topics_count = 1};

    ck_assert_bytes(encode(&list_offsets_request_message, 0, &request),
                    "\xff\xff\xff\xff\0\0\0\x01\0\x01t\0\0\0\x01\0\0\0\x01\xff\xff\xff\xff\xff\xff\xff\xfe\0\0\0\x05");
    ck_assert_bytes(encode(&list_offsets_response_message, 0, &response),
                    "\0\0\0\x01\0\x01t\0\0\0\x01\0\0\0\x01\0\x03\0\0\0\x02\0\0\0\0\0\0\0\x07\0\0\0\0\0\0\0\0");
    ck_assert_bytes(encode(&offset_commit_request_message, 1, &old),
                    "\0\x01g\0\0\0\x04\0\x01x\0\0\0\x01\0\x01t\0\0\0\x01\0\0\0\x01\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0"
                    "\x03\0\x01m");
}
END_TEST

/* A consumer group member's classic part: its default is a structure of defaults, and null must be told (as Kafka's
 * own coordinator does), else Kafka takes the member for a classic one. Presence is a uvarint among tagged fields. */
START_TEST(nullable_structure_as_a_tagged_field)
{
    struct classic_member_metadata classic = {.session_timeout_ms = 5};
    struct consumer_group_member_metadata_value value, back;
    struct wire_reader r;
    struct bytes bytes;

    consumer_group_member_metadata_value_init(&value);
    ck_assert_bytes(encode(&consumer_group_member_metadata_value_message, 0, &value),
                    "\x01\x01\x01\x01\x01\x01\xff\xff\xff\xff\x01\x01\0\x01\0");
    value.classic_member_metadata = &classic;
    ck_assert_bytes(encode(&consumer_group_member_metadata_value_message, 0, &value),
                    "\x01\x01\x01\x01\x01\x01\xff\xff\xff\xff\x01\x01\0\x07\x01\0\0\0\x05\x01\0");
    classic.session_timeout_ms = 0;
    bytes = encode(&consumer_group_member_metadata_value_message, 0, &value);
    ck_assert_bytes(bytes, "\x01\x01\x01\x01\x01\x01\xff\xff\xff\xff\x01\0");
    wire_reader_init(&r, bytes);
    ck_assert_int_eq(consumer_group_member_metadata_value_read(&r, &arena, 0, &back), ERR_OK);
    ck_assert_ptr_nonnull(back.classic_member_metadata);
    ck_assert_int_eq(back.classic_member_metadata->session_timeout_ms, 0);
}
END_TEST

START_TEST(null_and_empty_arrays)
{
    struct metadata_request request;
    struct wire_reader r;

    metadata_request_init(&request);
    request.topics = NULL; /* all topics */
    ck_assert_bytes(encode(&metadata_request_message, 1, &request), "\xff\xff\xff\xff");
    ck_assert_bytes(encode(&metadata_request_message, 0, &request), "\0\0\0\0"); /* null is not legal there */
    wire_reader_init(&r, BYTES_LITERAL("\xff\xff\xff\xff"));
    ck_assert_int_eq(metadata_request_read(&r, &arena, 1, &request), ERR_OK);
    ck_assert_ptr_null(request.topics);
    ck_assert(request.allow_auto_topic_creation); /* the default of a field that the version lacks (B047) */
    wire_reader_init(&r, BYTES_LITERAL("\0\0\0\0"));
    ck_assert_int_eq(metadata_request_read(&r, &arena, 1, &request), ERR_OK);
    ck_assert_ptr_nonnull(request.topics);
    ck_assert_uint_eq(request.topics_count, 0);
    wire_reader_init(&r, BYTES_LITERAL("\xff\xff\xff\xff"));
    ck_assert_int_eq(metadata_request_read(&r, &arena, 0, &request), ERR_MALFORMED);
}
END_TEST

START_TEST(nullable_structures)
{
    struct describe_topic_partitions_request_cursor cursor = {.topic_name = BYTES_LITERAL("t"), .partition_index = 2};
    struct describe_topic_partitions_request request, back;
    struct wire_reader r;
    struct bytes bytes;

    describe_topic_partitions_request_init(&request);
    ck_assert_ptr_null(request.cursor);
    ck_assert_bytes(encode(&describe_topic_partitions_request_message, 0, &request), "\x01\x00\x00\x07\xd0\xff\x00");
    request.cursor = &cursor;
    bytes = encode(&describe_topic_partitions_request_message, 0, &request);
    ck_assert_bytes(bytes, "\x01\x00\x00\x07\xd0\x01\x02t\x00\x00\x00\x02\x00\x00");
    wire_reader_init(&r, bytes);
    ck_assert_int_eq(describe_topic_partitions_request_read(&r, &arena, 0, &back), ERR_OK);
    ck_assert_int_eq(back.cursor->partition_index, 2);
}
END_TEST

START_TEST(prints_what_it_may)
{
    char text[512];
    struct config_record config = {.resource_type = 2,
                                   .resource_name = BYTES_LITERAL("a\"b"),
                                   .name = BYTES_LITERAL("k"),
                                   .value = BYTES_LITERAL("pw")};
    struct sasl_authenticate_request sasl = {.auth_bytes = BYTES_LITERAL("secret")};
    struct list_offsets_response offsets;

    config_record_print(0, &config, text, sizeof(text));
    ck_assert_str_eq(text, "{resource_type=2 resource_name=\"a\\x22b\" name=\"k\" value=***}");
    sasl_authenticate_request_print(2, &sasl, text, sizeof(text));
    ck_assert_str_eq(text, "{auth_bytes=<6 bytes>}");
    list_offsets_response_init(&offsets);
    list_offsets_response_print(0, &offsets, text, sizeof(text));
    ck_assert_str_eq(text, "{topics=[]}");
    ck_assert_uint_eq(list_offsets_response_print(2, &offsets, text, 8), 7);
    ck_assert_str_eq(text, "{thrott");
    ck_assert_uint_eq(list_offsets_response_print(2, &offsets, NULL, 0), 0);
}
END_TEST

/* The edge of PRINT_STRING_BYTES_MAX, which a longer string is cut to. */
START_TEST(long_strings_are_cut_in_print)
{
    enum { STRING_BYTES = 256 };
    static uint8_t name[STRING_BYTES + 1];
    char text[1024];
    struct config_record config;

    memset(name, 'n', sizeof(name));
    config_record_init(&config);
    config.name = bytes_of(name, STRING_BYTES);
    config_record_print(0, &config, text, sizeof(text));
    ck_assert_ptr_nonnull(strstr(text, "nn\" value="));
    config.name = bytes_of(name, STRING_BYTES + 1);
    config_record_print(0, &config, text, sizeof(text));
    ck_assert_ptr_nonnull(strstr(text, "nn...\" value="));
    ck_assert_uint_eq(strspn(strstr(text, " name=\"") + strlen(" name=\""), "n"), STRING_BYTES);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("message");
    TCase *tcase = tcase_create("message");
    SRunner *runner = srunner_create(suite);
    int failed = 0;

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, defaults_are_left_out);
    tcase_add_test(tcase, tags_ascend_with_exact_sizes);
    tcase_add_test(tcase, unknown_tags_are_skipped);
    tcase_add_test(tcase, a_tag_of_a_later_version_is_unknown);
    tcase_add_test(tcase, newer_fields_are_dropped);
    tcase_add_test(tcase, versions_kept_for_old_clients);
    tcase_add_test(tcase, nullable_structure_as_a_tagged_field);
    tcase_add_test(tcase, null_and_empty_arrays);
    tcase_add_test(tcase, nullable_structures);
    tcase_add_test(tcase, prints_what_it_may);
    tcase_add_test(tcase, long_strings_are_cut_in_print);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
