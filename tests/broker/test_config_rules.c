/* Rule: what the controller takes for a setting is what Apache Kafka takes, and what it refuses it refuses with Kafka's
 * code and by name (traps B058, B059, B068, B073). */
#include <check.h>

#include "../partition/run_tests.h"
#include "broker/config.h"
#include "broker/config_rules.h"

static struct arena arena;
static struct bytes message;
static struct config config; /* the defaults */

static enum err check_one(enum config_resource_type type, const char *resource, const char *name, const char *value)
{
    struct image_config entry = {bytes_of_text(name), bytes_of_text(value)};
    struct config_rules rules;

    config_init(&config);
    config_rules_init(&rules, &config);
    arena_reset(&arena);
    message = (struct bytes){0};
    return rules.check(rules.context, type, bytes_of_text(resource), &entry, 1, &arena, &message);
}

static bool says(const char *text)
{
    return bytes_equal(message, bytes_of_text(text));
}

START_TEST(a_topics_wrong_setting_is_named)
{
    arena_init(&arena, 1 << 16);
    ck_assert_int_eq(check_one(CONFIG_TOPIC, "t", "retention.ms", "12h"), ERR_INVALID_CONFIG);
    ck_assert(says(
        "Invalid value 12h for configuration retention.ms: a whole number of milliseconds of at least -1 is accepted"));
    ck_assert_int_eq(check_one(CONFIG_TOPIC, "t", "colour", "red"), ERR_INVALID_CONFIG);
    ck_assert(says("Unknown topic config name: colour"));
    ck_assert_int_eq(check_one(CONFIG_TOPIC, "t", "retention.ms", NULL), ERR_INVALID_CONFIG);
    ck_assert(says("Null value not supported for topic config: retention.ms"));
    ck_assert_int_eq(check_one(CONFIG_TOPIC, "t", "remote.storage.enable", "true"), ERR_INVALID_CONFIG);
    ck_assert_int_eq(check_one(CONFIG_TOPIC, "t", "remote.storage.enable", "false"), ERR_OK);
    ck_assert_int_eq(check_one(CONFIG_TOPIC, "t", "compression.gzip.level", "0"), ERR_INVALID_CONFIG);
    ck_assert_int_eq(check_one(CONFIG_TOPIC, "t", "compression.gzip.level", "-1"), ERR_OK);
    ck_assert_int_eq(check_one(CONFIG_TOPIC, "t", "cleanup.policy", ""), ERR_OK);
    ck_assert_int_eq(check_one(CONFIG_TOPIC, "t", "cleanup.policy", "delete,"), ERR_INVALID_CONFIG);
    ck_assert_int_eq(check_one(CONFIG_TOPIC, "t", "leader.replication.throttled.replicas", "*"), ERR_OK);
    ck_assert_int_eq(check_one(CONFIG_TOPIC, "t", "leader.replication.throttled.replicas", "0:1,12:3"), ERR_OK);
    ck_assert_int_eq(check_one(CONFIG_TOPIC, "t", "leader.replication.throttled.replicas", "0:1,x"),
                     ERR_INVALID_CONFIG);
    ck_assert_int_eq(check_one(CONFIG_TOPIC, "t", "leader.replication.throttled.replicas", "0:"), ERR_INVALID_CONFIG);
    arena_deinit(&arena);
}
END_TEST

START_TEST(lags_must_agree)
{
    static const struct image_config entries[] = {
        {BYTES_LITERAL("max.compaction.lag.ms"), BYTES_LITERAL("10")},
        {BYTES_LITERAL("min.compaction.lag.ms"), BYTES_LITERAL("11")},
    };
    struct config_rules rules;

    arena_init(&arena, 1 << 16);
    config_init(&config);
    config_rules_init(&rules, &config);
    ck_assert_int_eq(rules.check(rules.context, CONFIG_TOPIC, BYTES_LITERAL("t"), entries, 2, &arena, &message),
                     ERR_INVALID_CONFIG);
    ck_assert_int_eq(rules.check(rules.context, CONFIG_TOPIC, BYTES_LITERAL("t"), entries, 1, &arena, &message),
                     ERR_OK);
    arena_deinit(&arena);
}
END_TEST

/* KAFKA-13609: for brokers everything is an invalid request; a key that nobody knows is a plugin's. */
START_TEST(a_brokers_setting_is_one_that_can_change_on_line)
{
    arena_init(&arena, 1 << 16);
    ck_assert_int_eq(check_one(CONFIG_BROKER, "1", "log.retention.ms", "5"), ERR_OK);
    ck_assert_int_eq(check_one(CONFIG_BROKER, "", "log.retention.ms", "5"), ERR_OK);
    ck_assert_int_eq(check_one(CONFIG_BROKER, "1", "no.such.key", "x"), ERR_OK);
    ck_assert_int_eq(check_one(CONFIG_BROKER, "1", "log.retention.ms", "x"), ERR_INVALID_REQUEST);
    ck_assert_int_eq(check_one(CONFIG_BROKER, "1", "log.retention.hours", "5"), ERR_INVALID_REQUEST);
    ck_assert(says("Cannot update these configs dynamically: [log.retention.hours]"));
    ck_assert_int_eq(check_one(CONFIG_BROKER, "", "listeners", "X://:1"), ERR_INVALID_REQUEST);
    ck_assert(says("Cannot update these configs at default cluster level, broker id must be specified: [listeners]"));
    ck_assert_int_eq(check_one(CONFIG_BROKER, "1", "listeners", "X://:1"), ERR_INVALID_REQUEST);
    ck_assert_int_eq(check_one(CONFIG_BROKER, "1", "ssl.keystore.password", "secret"), ERR_INVALID_REQUEST);
    ck_assert_int_eq(check_one(CONFIG_BROKER, "1", "listener.name.x.ssl.keystore.password", "secret"), ERR_OK);
    ck_assert_int_eq(check_one(CONFIG_BROKER, "1", "max.connections", "0"), ERR_INVALID_REQUEST);
    ck_assert_int_eq(check_one(CONFIG_BROKER, "1", "max.connections", "1"), ERR_OK);
    ck_assert_int_eq(check_one(CONFIG_BROKER, "1", "max.connections.per.ip.overrides", "10.0.0.1:5"), ERR_OK);
    ck_assert_int_eq(check_one(CONFIG_BROKER, "1", "max.connections.per.ip.overrides", "x"), ERR_INVALID_REQUEST);
    arena_deinit(&arena);
}
END_TEST

/* A group's own settings lie within the broker's bounds, and a session is longer than a heartbeat (GroupConfig). */
START_TEST(a_groups_setting_lies_within_the_brokers)
{
    static const struct {
        const char *name;
        const char *value;
        enum err err;
    } outside[] = {
        {"consumer.assignment.interval.ms", "15001", ERR_INVALID_CONFIG},
        {"share.session.timeout.ms", "44999", ERR_INVALID_CONFIG},
        {"share.session.timeout.ms", "45000", ERR_OK},
        {"share.heartbeat.interval.ms", "15001", ERR_INVALID_CONFIG},
        {"share.assignment.interval.ms", "15001", ERR_INVALID_CONFIG},
        {"share.record.lock.duration.ms", "14999", ERR_INVALID_CONFIG},
        {"share.record.lock.duration.ms", "60001", ERR_INVALID_CONFIG},
        {"share.delivery.count.limit", "11", ERR_INVALID_CONFIG},
        {"share.delivery.count.limit", "10", ERR_OK},
        {"share.partition.max.record.locks", "4001", ERR_INVALID_CONFIG},
        {"streams.session.timeout.ms", "60001", ERR_INVALID_CONFIG},
        {"streams.heartbeat.interval.ms", "4999", ERR_INVALID_CONFIG},
        {"streams.assignment.interval.ms", "15001", ERR_INVALID_CONFIG},
        {"streams.num.standby.replicas", "3", ERR_INVALID_CONFIG},
        {"streams.num.standby.replicas", "2", ERR_OK},
        {"streams.num.warmup.replicas", "21", ERR_INVALID_CONFIG},
        {"streams.task.offset.interval.ms", "14999", ERR_INVALID_CONFIG},
        {"streams.assignor.name", "sticky", ERR_OK},
        {"streams.assignor.name", "range", ERR_INVALID_CONFIG},
        {"share.auto.offset.reset", "earliest", ERR_OK},
        {"share.auto.offset.reset", "by_duration:PT1H", ERR_OK},
        {"share.auto.offset.reset", "by_duration:p1dt2h3m4.5s", ERR_OK},
        {"share.auto.offset.reset", "by_duration:PT0S", ERR_OK},
        {"share.auto.offset.reset", "by_duration:P1DT-1H", ERR_OK},
        {"share.auto.offset.reset", "by_duration:-PT-1S", ERR_OK},
        {"share.auto.offset.reset", "by_duration:-PT1H", ERR_INVALID_CONFIG},
        {"share.auto.offset.reset", "by_duration:PT-0.1S", ERR_INVALID_CONFIG},
        {"share.auto.offset.reset", "by_duration:P1DT", ERR_INVALID_CONFIG},
        {"share.auto.offset.reset", "by_duration:PT1M1H", ERR_INVALID_CONFIG},
        {"share.auto.offset.reset", "by_duration:PT1.5H", ERR_INVALID_CONFIG},
        {"share.auto.offset.reset", "by_duration:P106751991167301D", ERR_INVALID_CONFIG},
        {"share.auto.offset.reset", "by_duration:PT1.0000000001S", ERR_INVALID_CONFIG},
        {"share.auto.offset.reset", "by_duration:P", ERR_INVALID_CONFIG},
        {"share.auto.offset.reset", "by_duration:", ERR_INVALID_CONFIG},
        {"share.auto.offset.reset", "by_duration:PnDTnHnMn.nS", ERR_INVALID_CONFIG},
    };

    arena_init(&arena, 1 << 16);
    ck_assert_int_eq(check_one(CONFIG_GROUP, "g", "consumer.session.timeout.ms", "45000"), ERR_OK);
    ck_assert_int_eq(check_one(CONFIG_GROUP, "g", "consumer.session.timeout.ms", "60000"), ERR_OK);
    ck_assert_int_eq(check_one(CONFIG_GROUP, "g", "consumer.session.timeout.ms", "44999"), ERR_INVALID_CONFIG);
    ck_assert(
        says("consumer.session.timeout.ms must be at least group.consumer.min.session.timeout.ms, which is 45000"));
    ck_assert_int_eq(check_one(CONFIG_GROUP, "g", "consumer.session.timeout.ms", "60001"), ERR_INVALID_CONFIG);
    ck_assert(
        says("consumer.session.timeout.ms must be at most group.consumer.max.session.timeout.ms, which is 60000"));
    ck_assert_int_eq(check_one(CONFIG_GROUP, "g", "consumer.heartbeat.interval.ms", "5000"), ERR_OK);
    ck_assert_int_eq(check_one(CONFIG_GROUP, "g", "consumer.heartbeat.interval.ms", "4999"), ERR_INVALID_CONFIG);
    ck_assert_int_eq(check_one(CONFIG_GROUP, "g", "consumer.heartbeat.interval.ms", "15001"), ERR_INVALID_CONFIG);
    for (size_t i = 0; i < sizeof(outside) / sizeof(outside[0]); i++)
        ck_assert_msg(check_one(CONFIG_GROUP, "g", outside[i].name, outside[i].value) == outside[i].err, "%s=%s",
                      outside[i].name, outside[i].value);
    ck_assert_int_eq(check_one(CONFIG_GROUP, "g", "no.such", "1"), ERR_INVALID_CONFIG);
    arena_deinit(&arena);
}
END_TEST

START_TEST(lists_are_known_with_their_defaults)
{
    struct config_rules rules;
    bool is_list = false;
    struct bytes value;

    config_init(&config);
    config_rules_init(&rules, &config);
    ck_assert_int_eq(rules.list_default(rules.context, CONFIG_TOPIC, BYTES_LITERAL("cleanup.policy"), &is_list, &value),
                     ERR_OK);
    ck_assert(is_list && bytes_equal(value, BYTES_LITERAL("delete")));
    ck_assert_int_eq(rules.list_default(rules.context, CONFIG_TOPIC, BYTES_LITERAL("retention.ms"), &is_list, &value),
                     ERR_OK);
    ck_assert(!is_list);
    ck_assert_int_eq(rules.list_default(rules.context, CONFIG_TOPIC, BYTES_LITERAL("x"), &is_list, &value),
                     ERR_INVALID_CONFIG);
}
END_TEST

RUN_TESTS("broker/config_rules", a_topics_wrong_setting_is_named, lags_must_agree,
          a_brokers_setting_is_one_that_can_change_on_line, a_groups_setting_lies_within_the_brokers,
          lists_are_known_with_their_defaults)
