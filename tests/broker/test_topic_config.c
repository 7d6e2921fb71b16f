/* Rule: a topic's value is its own, else the node's dynamic, the cluster's dynamic, the file's, each through the
 * synonyms in order, else the default; sources and order are told as DescribeConfigs tells them (trap B071). */
#include <check.h>

#include "broker/topic_config.h"
#include "raftmeta/metadata_record.h"

static struct config config;
static struct image *image;
static struct arena arena;

static void quiet(void *context, bool fatal, const char *line)
{
    (void)context;
    (void)fatal;
    (void)line;
}

static const struct config_report report = {quiet, NULL};

static void setup(void)
{
    config_init(&config);
    image = image_new();
    arena_init(&arena, 1 << 20);
}

static void teardown(void)
{
    config_deinit(&config);
    image_drop(image);
    arena_deinit(&arena);
}

static struct config_places places;

static uint32_t standing(enum config_id id, const struct image_configs *own)
{
    config_places_find(&config, image, 1, id, own, &places);
    return places.count;
}

static void check_place(uint32_t at, const char *name, const char *value, enum config_origin origin)
{
    ck_assert_str_eq(places.entries[at].name, name);
    ck_assert(bytes_equal(places.entries[at].value, bytes_of_text(value)));
    ck_assert_int_eq(places.entries[at].origin, origin);
}

static void check_effective(enum config_id id, const struct image_configs *own, const char *value)
{
    char text[CONFIG_NUMBER_CHARS];
    struct bytes got = config_effective(&config, image, 1, id, own, text);

    if (value == NULL)
        ck_assert_ptr_null(got.data);
    else
        ck_assert(bytes_equal(got, bytes_of_text(value)));
}

/* What an operator sets on line. */
static void set_dynamic(const char *resource, const char *name, const char *value)
{
    struct image_edit *edit = image_edit_new(image);
    struct metadata_record record;
    struct image *next = NULL;
    struct image_delta *delta = NULL;

    metadata_record_init(&record, RECORD_CONFIG, METADATA_VERSION_NEWEST);
    record.config.resource_type = CONFIG_BROKER;
    record.config.resource_name = bytes_of_text(resource);
    record.config.name = bytes_of_text(name);
    record.config.value = bytes_of_text(value);
    ck_assert_int_eq(image_edit_apply(edit, &record, image_offset(image) + 1), ERR_OK);
    ck_assert_int_eq(image_edit_finish(edit, image_offset(image) + 1, 1, 0, &next, &delta), ERR_OK);
    image_delta_drop(delta);
    image_drop(image);
    image = next;
}

static void set_static(const char *assignment)
{
    ck_assert_int_eq(config_read_assignment(&config, bytes_of_text(assignment), &report), ERR_OK);
}

START_TEST(a_default_is_told_under_the_brokers_name)
{
    ck_assert_uint_eq(standing(CONFIG_TOPIC_SEGMENT_BYTES, NULL), 1);
    check_place(0, "log.segment.bytes", "1073741824", CONFIG_ORIGIN_DEFAULT);
}
END_TEST

START_TEST(the_most_special_level_wins_and_the_others_follow)
{
    static const struct image_config entries[] = {{BYTES_LITERAL("retention.ms"), BYTES_LITERAL("1000")}};
    struct image_configs own = {.type = CONFIG_TOPIC, .count = 1, .entries = entries};

    set_static("log.retention.ms=4000");
    check_effective(CONFIG_TOPIC_RETENTION_MS, NULL, "4000");
    set_dynamic("", "log.retention.ms", "3000");
    check_effective(CONFIG_TOPIC_RETENTION_MS, NULL, "3000");
    set_dynamic("2", "log.retention.ms", "5"); /* another node's */
    set_dynamic("1", "log.retention.ms", "2000");
    check_effective(CONFIG_TOPIC_RETENTION_MS, NULL, "2000");
    check_effective(CONFIG_LOG_RETENTION_MS, NULL, "2000");
    check_effective(CONFIG_TOPIC_RETENTION_MS, &own, "1000");
    ck_assert_uint_eq(standing(CONFIG_TOPIC_RETENTION_MS, &own), 5);
    check_place(0, "retention.ms", "1000", CONFIG_ORIGIN_TOPIC);
    check_place(1, "log.retention.ms", "2000", CONFIG_ORIGIN_DYNAMIC_BROKER);
    check_place(2, "log.retention.ms", "3000", CONFIG_ORIGIN_DYNAMIC_DEFAULT_BROKER);
    check_place(3, "log.retention.ms", "4000", CONFIG_ORIGIN_STATIC_BROKER);
    check_place(4, "log.retention.hours", "168", CONFIG_ORIGIN_DEFAULT);
}
END_TEST

/* As Apache Kafka tells it: hours stand for the topic's milliseconds, but are no synonym that it lists alone. */
START_TEST(hours_speak_for_milliseconds)
{
    set_static("log.retention.hours=2");
    check_effective(CONFIG_TOPIC_RETENTION_MS, NULL, "7200000");
    ck_assert_uint_eq(standing(CONFIG_TOPIC_RETENTION_MS, NULL), 0);
    check_effective(CONFIG_LOG_RETENTION_MS, NULL, NULL);
    ck_assert_uint_eq(standing(CONFIG_LOG_RETENTION_MS, NULL), 0);
    ck_assert_uint_eq(standing(CONFIG_LOG_RETENTION_HOURS, NULL), 2);
    check_place(0, "log.retention.hours", "2", CONFIG_ORIGIN_STATIC_BROKER);
    check_place(1, "log.retention.hours", "168", CONFIG_ORIGIN_DEFAULT);
    set_dynamic("", "log.retention.ms", "3000");
    check_effective(CONFIG_TOPIC_RETENTION_MS, NULL, "3000");
    ck_assert_uint_eq(standing(CONFIG_TOPIC_RETENTION_MS, NULL), 3);
    check_place(1, "log.retention.hours", "2", CONFIG_ORIGIN_STATIC_BROKER);
}
END_TEST

/* What a group's own key has no default for is as the node's key has it, in the value as among the synonyms. */
START_TEST(a_default_of_the_nodes_key)
{
    check_effective(CONFIG_OF_GROUP_STREAMS_ASSIGNOR_NAME, NULL, "sticky");
    ck_assert_uint_eq(standing(CONFIG_OF_GROUP_STREAMS_ASSIGNOR_NAME, NULL), 1);
    check_place(0, "group.streams.assignors", "sticky", CONFIG_ORIGIN_DEFAULT);
}
END_TEST

START_TEST(a_node_has_one_id_under_two_names)
{
    set_static("node.id=7");
    check_effective(CONFIG_BROKER_ID, NULL, "7");
    check_effective(CONFIG_NODE_ID, NULL, "7");
    ck_assert_uint_eq(standing(CONFIG_BROKER_ID, NULL), 2);
    check_place(0, "broker.id", "7", CONFIG_ORIGIN_STATIC_BROKER);
    check_place(1, "broker.id", "-1", CONFIG_ORIGIN_DEFAULT);
    ck_assert_uint_eq(standing(CONFIG_NODE_ID, NULL), 1);
}
END_TEST

START_TEST(the_typed_sum_is_what_the_log_gets)
{
    static const struct image_config entries[] = {
        {BYTES_LITERAL("cleanup.policy"), BYTES_LITERAL("compact,delete")},
        {BYTES_LITERAL("compression.type"), BYTES_LITERAL("lz4")},
        {BYTES_LITERAL("flush.messages"), BYTES_LITERAL("1")},
        {BYTES_LITERAL("message.timestamp.type"), BYTES_LITERAL("LogAppendTime")},
        {BYTES_LITERAL("segment.bytes"), BYTES_LITERAL("not a number")}, /* of a log that another version wrote */
    };
    struct image_configs own = {.type = CONFIG_TOPIC, .count = 5, .entries = entries};
    struct log_config log_config;
    struct log_config defaults;

    ck_assert_int_eq(config_read_assignment(&config, BYTES_LITERAL("log.roll.hours=1"), &report), ERR_OK);
    topic_config_resolve(&config, image, 1, &own, false, &log_config);
    ck_assert(log_config.cleanup_compact && log_config.cleanup_delete);
    ck_assert_int_eq(log_config.compression, LOG_COMPRESSION_LZ4);
    ck_assert_int_eq(log_config.flush_messages, 1);
    ck_assert_int_eq(log_config.timestamp_type, LOG_APPEND_TIME);
    ck_assert_int_eq(log_config.segment_ms, 3600000);
    ck_assert_int_eq(log_config.segment_bytes, 1073741824);
    ck_assert(!log_config.validate_compressed);
    /* Nothing set: Kafka's defaults, the same in both rooms. */
    log_config_init(&defaults);
    config_deinit(&config);
    config_init(&config);
    topic_config_resolve(&config, image, 1, NULL, false, &log_config);
    ck_assert_int_eq(log_config.segment_bytes, defaults.segment_bytes);
    ck_assert_int_eq(log_config.segment_ms, defaults.segment_ms);
    ck_assert_int_eq(log_config.retention_ms, defaults.retention_ms);
    ck_assert_int_eq(log_config.retention_bytes, defaults.retention_bytes);
    ck_assert_int_eq(log_config.flush_messages, defaults.flush_messages);
    ck_assert_int_eq(log_config.max_message_bytes, defaults.max_message_bytes);
    ck_assert_int_eq(log_config.max_decompressed_message_bytes, defaults.max_decompressed_message_bytes);
    ck_assert_int_eq(log_config.index_interval_bytes, defaults.index_interval_bytes);
    ck_assert_int_eq(log_config.timestamp_after_max_ms, defaults.timestamp_after_max_ms);
    ck_assert_int_eq(log_config.file_delete_delay_ms, defaults.file_delete_delay_ms);
}
END_TEST

/* Trap B055. */
START_TEST(topic_names_are_kafkas)
{
    char longest[250];

    memset(longest, 'a', sizeof(longest));
    ck_assert(topic_name_is_valid(bytes_of(longest, 249)));
    ck_assert(!topic_name_is_valid(bytes_of(longest, 250)));
    ck_assert(topic_name_is_valid(BYTES_LITERAL("a.b_c-9")));
    ck_assert(topic_name_is_valid(BYTES_LITERAL("...")));
    ck_assert(!topic_name_is_valid(BYTES_LITERAL("")));
    ck_assert(!topic_name_is_valid(BYTES_LITERAL(".")));
    ck_assert(!topic_name_is_valid(BYTES_LITERAL("..")));
    ck_assert(!topic_name_is_valid(BYTES_LITERAL("a/b")));
    ck_assert(!topic_name_is_valid(BYTES_LITERAL("a b")));
    ck_assert(!topic_name_is_valid(BYTES_LITERAL("\xc3\xa9")));
}
END_TEST

START_TEST(internal_topics_get_their_own_settings)
{
    struct create_topic topic = {.name = BYTES_LITERAL("__consumer_offsets"), .partition_count = -1};

    ck_assert_int_eq(config_use_single_node(&config), ERR_OK);
    ck_assert(topic_internal_settings(&config, &topic, &arena));
    ck_assert_int_eq(topic.partition_count, 50);
    ck_assert_int_eq(topic.replication_factor, 1);
    ck_assert_uint_eq(topic.config_count, 3);
    topic = (struct create_topic){.name = BYTES_LITERAL("letters"), .partition_count = -1};
    ck_assert(topic_internal_settings(&config, &topic, &arena));
    ck_assert_int_eq(topic.partition_count, -1);
    ck_assert_uint_eq(topic.config_count, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("topic_config");
    TCase *tcase = tcase_create("topic_config");
    SRunner *runner = srunner_create(suite);
    int failed = 0;

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, a_default_is_told_under_the_brokers_name);
    tcase_add_test(tcase, the_most_special_level_wins_and_the_others_follow);
    tcase_add_test(tcase, hours_speak_for_milliseconds);
    tcase_add_test(tcase, a_default_of_the_nodes_key);
    tcase_add_test(tcase, a_node_has_one_id_under_two_names);
    tcase_add_test(tcase, the_typed_sum_is_what_the_log_gets);
    tcase_add_test(tcase, topic_names_are_kafkas);
    tcase_add_test(tcase, internal_topics_get_their_own_settings);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
