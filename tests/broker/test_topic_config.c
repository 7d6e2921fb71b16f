/* Rule: a topic's value is its own, else the node's dynamic, the cluster's dynamic, the file's, each through the
 * synonyms in order, else the default; sources and order are told as DescribeConfigs tells them (trap B071). */
#include <check.h>

#include "broker/topic_config.h"

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

static struct config_standing_value values[CONFIG_STANDING_MAX];

static uint32_t standing(enum config_id id, const struct image_configs *own)
{
    uint32_t count = 0;

    ck_assert_int_eq(config_standing(&config, image, 1, id, own, &arena, values, &count), ERR_OK);
    return count;
}

static void check_value(uint32_t at, const char *name, const char *value, enum config_origin origin)
{
    ck_assert_str_eq(values[at].name, name);
    ck_assert(bytes_equal(values[at].value, bytes_of_text(value)));
    ck_assert_int_eq(values[at].origin, origin);
}

START_TEST(a_default_is_told_under_the_brokers_name)
{
    ck_assert_uint_eq(standing(CONFIG_TOPIC_SEGMENT_BYTES, NULL), 1);
    check_value(0, "log.segment.bytes", "1073741824", CONFIG_ORIGIN_DEFAULT);
}
END_TEST

START_TEST(the_topics_own_value_stands_above_the_file)
{
    static const struct image_config entries[] = {{BYTES_LITERAL("retention.ms"), BYTES_LITERAL("1000")}};
    struct image_configs own = {.type = CONFIG_TOPIC, .count = 1, .entries = entries};

    ck_assert_int_eq(config_read_assignment(&config, BYTES_LITERAL("log.retention.hours=2"), &report), ERR_OK);
    ck_assert_uint_eq(standing(CONFIG_TOPIC_RETENTION_MS, &own), 3);
    check_value(0, "retention.ms", "1000", CONFIG_ORIGIN_TOPIC);
    check_value(1, "log.retention.hours", "7200000", CONFIG_ORIGIN_STATIC_BROKER);
    check_value(2, "log.retention.ms", "604800000", CONFIG_ORIGIN_DEFAULT);
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

/* Traps B058, B059, B068: INVALID_CONFIG with key and value named. */
START_TEST(the_controllers_rules_name_what_is_wrong)
{
    static const struct {
        struct image_config entry;
        const char *message;
    } cases[] = {
        {{BYTES_LITERAL("retention.ms"), BYTES_LITERAL("12h")},
         "Invalid value 12h for configuration retention.ms: a whole number of milliseconds of at least -1 is accepted"},
        {{BYTES_LITERAL("colour"), BYTES_LITERAL("red")}, "Unknown topic config name: colour"},
        {{BYTES_LITERAL("retention.ms"), {0}}, "Null value not supported for topic config: retention.ms"},
    };
    struct config_rules rules;

    topic_config_rules(&config, &rules);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct bytes message = {0};

        ck_assert_int_eq(
            rules.check(rules.context, CONFIG_TOPIC, BYTES_LITERAL("t"), &cases[i].entry, 1, &arena, &message),
            ERR_INVALID_CONFIG);
        ck_assert(bytes_equal(message, bytes_of_text(cases[i].message)));
    }
}
END_TEST

START_TEST(lags_must_agree)
{
    static const struct image_config entries[] = {
        {BYTES_LITERAL("max.compaction.lag.ms"), BYTES_LITERAL("10")},
        {BYTES_LITERAL("min.compaction.lag.ms"), BYTES_LITERAL("11")},
    };
    struct config_rules rules;
    struct bytes message = {0};

    topic_config_rules(&config, &rules);
    ck_assert_int_eq(rules.check(rules.context, CONFIG_TOPIC, BYTES_LITERAL("t"), entries, 2, &arena, &message),
                     ERR_INVALID_CONFIG);
    ck_assert_int_eq(rules.check(rules.context, CONFIG_TOPIC, BYTES_LITERAL("t"), entries, 1, &arena, &message),
                     ERR_OK);
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
    tcase_add_test(tcase, the_topics_own_value_stands_above_the_file);
    tcase_add_test(tcase, the_typed_sum_is_what_the_log_gets);
    tcase_add_test(tcase, the_controllers_rules_name_what_is_wrong);
    tcase_add_test(tcase, lags_must_agree);
    tcase_add_test(tcase, topic_names_are_kafkas);
    tcase_add_test(tcase, internal_topics_get_their_own_settings);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
