/* Rule: server.properties has Kafka's keys, units and defaults; a wrong value is refused with file, line, key, what was
 * read and what is accepted; an unknown key is a warning with a spelling hint.
 *
 * Sources: broker/config_groups.c, broker/config_table.c */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "broker/config.h"
#include "broker/listeners.h"

struct lines {
    char text[4096];
    int fatal;
    int warnings;
};

static void collect(void *context, bool fatal, const char *line)
{
    struct lines *lines = context;
    size_t used = strlen(lines->text);

    (void)snprintf(lines->text + used, sizeof(lines->text) - used, "%s\n", line);
    lines->fatal += fatal;
    lines->warnings += !fatal;
}

static struct config config;
static struct lines lines;
static struct config_report report = {collect, &lines};

static void setup(void)
{
    lines = (struct lines){{0}, 0, 0};
    config_init(&config);
}

static void teardown(void)
{
    config_deinit(&config);
}

static enum err parse(const char *text)
{
    return config_read_properties(&config, bytes_of_text(text), "server.properties", &report);
}

START_TEST(every_default_is_accepted_by_its_own_row)
{
    ck_assert_int_eq(config_int(&config, CONFIG_NUM_PARTITIONS), 1);
    ck_assert_int_eq(config_long(&config, CONFIG_LOG_RETENTION_CHECK_INTERVAL_MS), 300000);
    ck_assert(config_bool(&config, CONFIG_AUTO_CREATE_TOPICS_ENABLE));
    ck_assert_str_eq(config_text(&config, CONFIG_COMPRESSION_TYPE), "producer");
    ck_assert_ptr_null(config_text(&config, CONFIG_LOG_DIRS));
    ck_assert_double_eq(config_double(&config, CONFIG_LOG_CLEANER_MIN_CLEANABLE_RATIO), 0.5);
}
END_TEST

START_TEST(names_are_distinct_in_their_scope_and_synonyms_lead_to_broker_keys)
{
    for (enum config_id id = 0; id < CONFIG_KEY_COUNT; id++) {
        struct bytes name = bytes_of_text(config_key(id)->name);
        enum config_scope scope = config_key(id)->scope;
        enum config_id found = scope == CONFIG_SCOPE_TOPIC   ? config_find_topic_key(name)
                               : scope == CONFIG_SCOPE_GROUP ? config_find_group_key(name)
                                                             : config_find_broker_key(name);
        enum config_id other = CONFIG_NONE;

        ck_assert_int_eq(found, id);
        for (uint32_t n = 0; (other = config_synonym(id, n)) != CONFIG_NONE; n++) {
            ck_assert_int_ne(config_key(other)->scope, CONFIG_SCOPE_TOPIC);
            ck_assert_int_ne(config_key(other)->scope, CONFIG_SCOPE_GROUP);
        }
    }
}
END_TEST

START_TEST(properties_are_read_as_java_reads_them)
{
    ck_assert_int_eq(parse("# comment\n! another\n\n"
                           "  node.id = 7  \r\n"
                           "log.dirs:/a\\ b,\\\n    /c\\u00e9\n"
                           "broker.rack r\\t1\n"
                           "num.partitions=3\\\n"),
                     ERR_OK);
    ck_assert_int_eq(config_int(&config, CONFIG_NODE_ID), 7);
    ck_assert_str_eq(config_text(&config, CONFIG_LOG_DIRS), "/a b,/c\xc3\xa9");
    ck_assert_str_eq(config_text(&config, CONFIG_BROKER_RACK), "r\t1");
    ck_assert_int_eq(config_int(&config, CONFIG_NUM_PARTITIONS), 3);
    ck_assert_int_eq(config.slots[CONFIG_BROKER_RACK].line, 7);
    ck_assert_str_eq(lines.text, "");
}
END_TEST

/* max - 1, max and max + 1 bytes: the last is refused with a line that says how many there may be. */
START_TEST(the_largest_file)
{
    char *text = mem_alloc(CONFIG_FILE_BYTES_MAX + 1);

    ck_assert_ptr_nonnull(text);
    for (int more = -1; more <= 1; more++) {
        size_t size = (size_t)(CONFIG_FILE_BYTES_MAX + more);

        memset(text, '#', size); /* a comment */
        memcpy(text, "num.partitions=7\n", 17);
        config_deinit(&config);
        setup();
        ck_assert_int_eq(config_read_properties(&config, bytes_of(text, size), "server.properties", &report),
                         more > 0 ? ERR_USAGE : ERR_OK);
        ck_assert_int_eq(lines.fatal, more > 0 ? 1 : 0);
        ck_assert_int_eq(config_int(&config, CONFIG_NUM_PARTITIONS), more > 0 ? 1 : 7);
    }
    ck_assert_ptr_nonnull(strstr(lines.text, "1048576"));
    mem_free(text);
}
END_TEST

START_TEST(a_wrong_value_is_refused_with_all_that_helps)
{
    ck_assert_int_eq(parse("node.id=1\nnum.partitions=0\nlog.retention.ms=12h\nbackground.threads=2\n"), ERR_USAGE);
    ck_assert_str_eq(lines.text,
                     "server.properties:2: num.partitions=0 is not accepted: a whole number from 1 to 2147483647 is\n"
                     "server.properties:3: log.retention.ms=12h is not accepted: a whole number of milliseconds is\n"
                     "server.properties:4: background.threads has no effect: reactors and I/O threads do this work: "
                     "ottla.reactors, ottla.io.threads\n");
    ck_assert_int_eq(lines.fatal, 2);
    /* Not cut short where a C string would end. */
    ck_assert_int_eq(parse("node.id=1\nbroker.rack=a\\u0000b\n"), ERR_USAGE);
    ck_assert_ptr_nonnull(strstr(lines.text, "broker.rack=a is not accepted: a value without NUL characters is\n"));
}
END_TEST

START_TEST(an_unknown_key_is_a_warning_with_a_hint)
{
    ck_assert_int_eq(parse("num.partition=3\nzookeeper.connect=localhost\n"), ERR_OK);
    ck_assert_str_eq(lines.text, "server.properties:1: unknown key num.partition is left out; did you mean "
                                 "num.partitions?\n"
                                 "server.properties:2: unknown key zookeeper.connect is left out\n");
    ck_assert_int_eq(lines.fatal, 0);
}
END_TEST

START_TEST(what_guards_is_refused_rather_than_ignored)
{
    ck_assert_int_eq(parse("authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\n"),
                     ERR_USAGE);
    ck_assert_int_eq(lines.fatal, 1);
}
END_TEST

START_TEST(a_slip_behind_set_is_refused)
{
    ck_assert_int_eq(config_read_assignment(&config, BYTES_LITERAL("num.partitions=5"), &report), ERR_OK);
    ck_assert_int_eq(config_int(&config, CONFIG_NUM_PARTITIONS), 5);
    ck_assert_int_eq(config_read_assignment(&config, BYTES_LITERAL("num.partition=5"), &report), ERR_USAGE);
    ck_assert_int_eq(config_read_assignment(&config, BYTES_LITERAL("num.partitions"), &report), ERR_USAGE);
    ck_assert_int_eq(config_read_assignment(&config, BYTES_LITERAL("num.partitions=x"), &report), ERR_USAGE);
}
END_TEST

START_TEST(a_topic_key_follows_its_synonyms_in_order)
{
    char text[CONFIG_NUMBER_CHARS];
    enum config_id source = CONFIG_NONE;

    ck_assert_str_eq(config_resolve(&config, CONFIG_TOPIC_RETENTION_MS, text, &source), "604800000");
    ck_assert_int_eq(source, CONFIG_NONE);
    ck_assert_int_eq(parse("log.retention.hours=2\n"), ERR_OK);
    ck_assert_str_eq(config_resolve(&config, CONFIG_TOPIC_RETENTION_MS, text, &source), "7200000");
    ck_assert_int_eq(source, CONFIG_LOG_RETENTION_HOURS);
    ck_assert_int_eq(parse("log.retention.minutes=-1\n"), ERR_OK);
    ck_assert_str_eq(config_resolve(&config, CONFIG_TOPIC_RETENTION_MS, text, &source), "-1");
    ck_assert_int_eq(parse("log.retention.ms=5\n"), ERR_OK);
    ck_assert_str_eq(config_resolve(&config, CONFIG_TOPIC_RETENTION_MS, text, &source), "5");
}
END_TEST

/* Traps B058, B068: wrong topic configurations are INVALID_CONFIG; -1 is the only negative retention. A number has no
 * more than NUMBER_CHARS_MAX characters. */
START_TEST(topic_values_are_bounded)
{
    static const struct {
        enum config_id id;
        const char *text;
        enum err err;
    } cases[] = {
        {CONFIG_TOPIC_RETENTION_MS, "-1", ERR_OK},
        {CONFIG_TOPIC_RETENTION_MS, "-2", ERR_INVALID_CONFIG},
        {CONFIG_TOPIC_RETENTION_MS, "12h", ERR_INVALID_CONFIG},
        {CONFIG_TOPIC_RETENTION_MS, "000000000000000000000000000000000000000000000000000000000000007", ERR_OK},
        {CONFIG_TOPIC_RETENTION_MS, "0000000000000000000000000000000000000000000000000000000000000007",
         ERR_INVALID_CONFIG},
        {CONFIG_TOPIC_RETENTION_MS, "", ERR_INVALID_CONFIG},
        {CONFIG_TOPIC_SEGMENT_MS, "0", ERR_INVALID_CONFIG},
        {CONFIG_TOPIC_SEGMENT_BYTES, "1", ERR_INVALID_CONFIG},
        {CONFIG_TOPIC_SEGMENT_BYTES, "1048576", ERR_OK},
        {CONFIG_TOPIC_SEGMENT_BYTES, "2147483648", ERR_INVALID_CONFIG},
        {CONFIG_TOPIC_MAX_MESSAGE_BYTES, "-1", ERR_INVALID_CONFIG},
        {CONFIG_TOPIC_MIN_CLEANABLE_DIRTY_RATIO, "1.5", ERR_INVALID_CONFIG},
        {CONFIG_TOPIC_MIN_CLEANABLE_DIRTY_RATIO, "nan", ERR_INVALID_CONFIG},
        {CONFIG_TOPIC_COMPRESSION_TYPE, "foo", ERR_INVALID_CONFIG},
        {CONFIG_TOPIC_COMPRESSION_TYPE, "zstd", ERR_OK},
        {CONFIG_TOPIC_CLEANUP_POLICY, "x", ERR_INVALID_CONFIG},
        {CONFIG_TOPIC_CLEANUP_POLICY, "compact, delete", ERR_OK},
        {CONFIG_TOPIC_MESSAGE_TIMESTAMP_TYPE, "Y", ERR_INVALID_CONFIG},
        {CONFIG_TOPIC_FLUSH_MESSAGES, "99999999999999999999", ERR_INVALID_CONFIG},
        {CONFIG_TOPIC_PREALLOCATE, "TRUE", ERR_OK},
        {CONFIG_TOPIC_PREALLOCATE, "yes", ERR_INVALID_CONFIG},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct config_value value;
        struct config_why why;

        ck_assert_msg(config_check(cases[i].id, bytes_of_text(cases[i].text), &value, &why) == cases[i].err, "%s=%s",
                      config_key(cases[i].id)->name, cases[i].text);
    }
}
END_TEST

START_TEST(the_profile_is_a_complete_node)
{
    struct listeners listeners;

    ck_assert_int_eq(config_use_single_node(&config), ERR_OK);
    ck_assert_int_eq(config_check_whole(&config, &report), ERR_OK);
    ck_assert_int_eq(listeners_parse(&config, &listeners, &report), ERR_OK);
    ck_assert_str_eq(lines.text, "");
    ck_assert_uint_eq(listeners.count, 2);
    ck_assert_str_eq(listeners.entries[0].name, "PLAINTEXT");
    ck_assert_uint_eq(listeners.entries[0].bind.port, 9092);
    ck_assert(!listeners.entries[0].is_controller);
    ck_assert_str_eq(listeners.entries[0].advertised.host, "127.0.0.1");
    ck_assert(listeners.entries[1].is_controller);
}
END_TEST

/* What Apache Kafka does not start with (GroupCoordinatorConfig), and the line that says what it would. */
START_TEST(settings_of_groups_go_together)
{
    static const struct {
        const char *text; /* several assignments, with blanks between */
        const char *problem;
    } cases[] = {
        {"group.consumer.session.timeout.ms=44999",
         "group.consumer.session.timeout.ms=44999 is not accepted: at least group.consumer.min.session.timeout.ms, "
         "which is 45000, is\n"},
        {"group.consumer.heartbeat.interval.ms=15001",
         "group.consumer.heartbeat.interval.ms=15001 is not accepted: at most "
         "group.consumer.max.heartbeat.interval.ms, which is 15000, is\n"},
        {"group.consumer.assignment.interval.ms=15001",
         "group.consumer.assignment.interval.ms=15001 is not accepted: at most "
         "group.consumer.max.assignment.interval.ms, which is 15000, is\n"},
        {"group.consumer.min.session.timeout.ms=60001",
         "group.consumer.max.session.timeout.ms=60000 is not accepted: at least "
         "group.consumer.min.session.timeout.ms, which is 60001, is\n"},
        {"group.consumer.max.heartbeat.interval.ms=50000 group.consumer.heartbeat.interval.ms=45000",
         "group.consumer.heartbeat.interval.ms=45000 is not accepted: less than group.consumer.session.timeout.ms, "
         "which is 45000, is\n"},
        {"group.consumer.assignors=bogus",
         "group.consumer.assignors=bogus is not accepted: at least one of uniform and range, none twice, is\n"},
        {"group.consumer.assignors=",
         "group.consumer.assignors= is not accepted: at least one of uniform and range, none twice, is\n"},
        {"group.consumer.assignors=range,range",
         "group.consumer.assignors=range,range is not accepted: at least one of uniform and range, none twice, is\n"},
        {"group.consumer.assignors=range,org.apache.kafka.coordinator.group.assignor.RangeAssignor",
         "group.consumer.assignors=range,org.apache.kafka.coordinator.group.assignor.RangeAssignor is not accepted: at "
         "least one of uniform and range, none twice, is\n"},
        {"group.coordinator.rebalance.protocols=consumer",
         "group.coordinator.rebalance.protocols=consumer is not accepted: the classic protocol cannot be disabled\n"},
        {"group.consumer.assignors=range group.consumer.session.timeout.ms=60000 "
         "group.consumer.heartbeat.interval.ms=15000 group.coordinator.rebalance.protocols=classic",
         ""},
        {"group.consumer.assignors=org.apache.kafka.coordinator.group.assignor.UniformAssignor,range", ""},
        {"group.min.session.timeout.ms=60000 group.max.session.timeout.ms=50000", ""}, /* it has no rule for these */
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const char *at = cases[i].text;

        teardown();
        setup();
        ck_assert_int_eq(config_use_single_node(&config), ERR_OK);
        while (*at != '\0') {
            size_t size = strcspn(at, " ");

            ck_assert_int_eq(config_read_assignment(&config, bytes_of(at, size), &report), ERR_OK);
            at += size + (at[size] == ' ');
        }
        lines = (struct lines){{0}, 0, 0};
        ck_assert_int_eq(config_check_whole(&config, &report), *cases[i].problem == '\0' ? ERR_OK : ERR_USAGE);
        ck_assert_str_eq(lines.text, cases[i].problem);
    }
}
END_TEST

START_TEST(listeners_are_parsed_and_refused)
{
    static const struct {
        const char *text;
        const char *problem;
    } cases[] = {
        {"listeners=PLAINTEXT://:9092", "listeners: a controller needs one named in controller.listener.names\n"},
        {"listeners=PLAINTEXT://h:9092,CONTROLLER://h:9092", "listeners: PLAINTEXT and CONTROLLER are not accepted on "
                                                             "one address\n"},
        {"listeners=PLAINTEXT:9092", "listeners: PLAINTEXT:9092 is not accepted: NAME://host:port is\n"},
        {"listeners=PLAINTEXT://h:99999", "listeners: PLAINTEXT://h:99999 is not accepted: NAME://host:port is\n"},
        {"listeners=SSL://h:1,CONTROLLER://h:2", "listeners: SSL with SSL is not accepted: only PLAINTEXT works yet\n"},
        {"listeners=EXTERNAL://h:1,CONTROLLER://h:2",
         "listeners: EXTERNAL has no security protocol in listener.security.protocol.map\n"},
        {"advertised.listeners=X://h:1", "advertised.listeners: X is not accepted: it is not in listeners\n"},
        {"advertised.listeners=PLAINTEXT://0.0.0.0:1",
         "advertised.listeners: 0.0.0.0 is not accepted: clients cannot connect to every address\n"},
        {"inter.broker.listener.name=NONE",
         "inter.broker.listener.name: NONE is not accepted: a broker's listener in listeners is\n"},
        {"listeners=PLAINTEXT://[::1]:0,CONTROLLER://127.0.0.1:0", ""},
        {"listeners=PLAINTEXT://0.0.0.0:9092,CONTROLLER://127.0.0.1:0", ""},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct listeners listeners;
        enum err err = ERR_OK;

        teardown();
        setup();
        ck_assert_int_eq(config_use_single_node(&config), ERR_OK);
        ck_assert_int_eq(parse(cases[i].text), ERR_OK);
        err = listeners_parse(&config, &listeners, &report);
        ck_assert_str_eq(lines.text, cases[i].problem);
        ck_assert_int_eq(err, cases[i].problem[0] == '\0' ? ERR_OK : ERR_USAGE);
        if (err == ERR_OK && listener_host_is_wildcard(listeners.entries[0].bind.host))
            ck_assert_str_eq(listeners.entries[0].advertised.host, "");
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("config");
    TCase *tcase = tcase_create("config");
    SRunner *runner = srunner_create(suite);
    int failed = 0;

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, every_default_is_accepted_by_its_own_row);
    tcase_add_test(tcase, names_are_distinct_in_their_scope_and_synonyms_lead_to_broker_keys);
    tcase_add_test(tcase, properties_are_read_as_java_reads_them);
    tcase_add_test(tcase, the_largest_file);
    tcase_add_test(tcase, a_wrong_value_is_refused_with_all_that_helps);
    tcase_add_test(tcase, an_unknown_key_is_a_warning_with_a_hint);
    tcase_add_test(tcase, what_guards_is_refused_rather_than_ignored);
    tcase_add_test(tcase, a_slip_behind_set_is_refused);
    tcase_add_test(tcase, a_topic_key_follows_its_synonyms_in_order);
    tcase_add_test(tcase, topic_values_are_bounded);
    tcase_add_test(tcase, the_profile_is_a_complete_node);
    tcase_add_test(tcase, settings_of_groups_go_together);
    tcase_add_test(tcase, listeners_are_parsed_and_refused);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
