#include "broker/config_groups.h"

/* Bounds come before what they bound, so that a wrong pair of them is told of first. */
static const struct config_bound bounds[] = {
    {CONFIG_OF_GROUP_CONSUMER_HEARTBEAT_INTERVAL_MS, CONFIG_GROUP_CONSUMER_HEARTBEAT_INTERVAL_MS,
     CONFIG_GROUP_CONSUMER_MIN_HEARTBEAT_INTERVAL_MS, CONFIG_GROUP_CONSUMER_MAX_HEARTBEAT_INTERVAL_MS},
    {CONFIG_OF_GROUP_CONSUMER_SESSION_TIMEOUT_MS, CONFIG_GROUP_CONSUMER_SESSION_TIMEOUT_MS,
     CONFIG_GROUP_CONSUMER_MIN_SESSION_TIMEOUT_MS, CONFIG_GROUP_CONSUMER_MAX_SESSION_TIMEOUT_MS},
    {CONFIG_OF_GROUP_CONSUMER_ASSIGNMENT_INTERVAL_MS, CONFIG_GROUP_CONSUMER_ASSIGNMENT_INTERVAL_MS,
     CONFIG_GROUP_CONSUMER_MIN_ASSIGNMENT_INTERVAL_MS, CONFIG_GROUP_CONSUMER_MAX_ASSIGNMENT_INTERVAL_MS},
    {CONFIG_OF_GROUP_SHARE_HEARTBEAT_INTERVAL_MS, CONFIG_GROUP_SHARE_HEARTBEAT_INTERVAL_MS,
     CONFIG_GROUP_SHARE_MIN_HEARTBEAT_INTERVAL_MS, CONFIG_GROUP_SHARE_MAX_HEARTBEAT_INTERVAL_MS},
    {CONFIG_OF_GROUP_SHARE_SESSION_TIMEOUT_MS, CONFIG_GROUP_SHARE_SESSION_TIMEOUT_MS,
     CONFIG_GROUP_SHARE_MIN_SESSION_TIMEOUT_MS, CONFIG_GROUP_SHARE_MAX_SESSION_TIMEOUT_MS},
    {CONFIG_OF_GROUP_SHARE_ASSIGNMENT_INTERVAL_MS, CONFIG_GROUP_SHARE_ASSIGNMENT_INTERVAL_MS,
     CONFIG_GROUP_SHARE_MIN_ASSIGNMENT_INTERVAL_MS, CONFIG_GROUP_SHARE_MAX_ASSIGNMENT_INTERVAL_MS},
    {CONFIG_OF_GROUP_SHARE_RECORD_LOCK_DURATION_MS, CONFIG_GROUP_SHARE_RECORD_LOCK_DURATION_MS,
     CONFIG_GROUP_SHARE_MIN_RECORD_LOCK_DURATION_MS, CONFIG_GROUP_SHARE_MAX_RECORD_LOCK_DURATION_MS},
    {CONFIG_OF_GROUP_SHARE_DELIVERY_COUNT_LIMIT, CONFIG_GROUP_SHARE_DELIVERY_COUNT_LIMIT,
     CONFIG_GROUP_SHARE_MIN_DELIVERY_COUNT_LIMIT, CONFIG_GROUP_SHARE_MAX_DELIVERY_COUNT_LIMIT},
    {CONFIG_OF_GROUP_SHARE_PARTITION_MAX_RECORD_LOCKS, CONFIG_GROUP_SHARE_PARTITION_MAX_RECORD_LOCKS,
     CONFIG_GROUP_SHARE_MIN_PARTITION_MAX_RECORD_LOCKS, CONFIG_GROUP_SHARE_MAX_PARTITION_MAX_RECORD_LOCKS},
    {CONFIG_OF_GROUP_STREAMS_HEARTBEAT_INTERVAL_MS, CONFIG_GROUP_STREAMS_HEARTBEAT_INTERVAL_MS,
     CONFIG_GROUP_STREAMS_MIN_HEARTBEAT_INTERVAL_MS, CONFIG_GROUP_STREAMS_MAX_HEARTBEAT_INTERVAL_MS},
    {CONFIG_OF_GROUP_STREAMS_SESSION_TIMEOUT_MS, CONFIG_GROUP_STREAMS_SESSION_TIMEOUT_MS,
     CONFIG_GROUP_STREAMS_MIN_SESSION_TIMEOUT_MS, CONFIG_GROUP_STREAMS_MAX_SESSION_TIMEOUT_MS},
    {CONFIG_OF_GROUP_STREAMS_ASSIGNMENT_INTERVAL_MS, CONFIG_GROUP_STREAMS_ASSIGNMENT_INTERVAL_MS,
     CONFIG_GROUP_STREAMS_MIN_ASSIGNMENT_INTERVAL_MS, CONFIG_GROUP_STREAMS_MAX_ASSIGNMENT_INTERVAL_MS},
    {CONFIG_OF_GROUP_STREAMS_NUM_STANDBY_REPLICAS, CONFIG_GROUP_STREAMS_NUM_STANDBY_REPLICAS, CONFIG_NONE,
     CONFIG_GROUP_STREAMS_MAX_STANDBY_REPLICAS},
    {CONFIG_OF_GROUP_STREAMS_NUM_WARMUP_REPLICAS, CONFIG_GROUP_STREAMS_NUM_WARMUP_REPLICAS, CONFIG_NONE,
     CONFIG_GROUP_STREAMS_MAX_WARMUP_REPLICAS},
    {CONFIG_OF_GROUP_STREAMS_TASK_OFFSET_INTERVAL_MS, CONFIG_GROUP_STREAMS_TASK_OFFSET_INTERVAL_MS,
     CONFIG_GROUP_STREAMS_MIN_TASK_OFFSET_INTERVAL_MS, CONFIG_NONE},
};

static const struct config_session sessions[] = {
    {CONFIG_OF_GROUP_CONSUMER_SESSION_TIMEOUT_MS, CONFIG_GROUP_CONSUMER_SESSION_TIMEOUT_MS,
     CONFIG_OF_GROUP_CONSUMER_HEARTBEAT_INTERVAL_MS, CONFIG_GROUP_CONSUMER_HEARTBEAT_INTERVAL_MS},
    {CONFIG_OF_GROUP_SHARE_SESSION_TIMEOUT_MS, CONFIG_GROUP_SHARE_SESSION_TIMEOUT_MS,
     CONFIG_OF_GROUP_SHARE_HEARTBEAT_INTERVAL_MS, CONFIG_GROUP_SHARE_HEARTBEAT_INTERVAL_MS},
    {CONFIG_OF_GROUP_STREAMS_SESSION_TIMEOUT_MS, CONFIG_GROUP_STREAMS_SESSION_TIMEOUT_MS,
     CONFIG_OF_GROUP_STREAMS_HEARTBEAT_INTERVAL_MS, CONFIG_GROUP_STREAMS_HEARTBEAT_INTERVAL_MS},
};

/* Apache Kafka's classes, by whose names they were written for 4.0. */
static const char *const assignor_classes[ASSIGNOR_COUNT] = {
    [ASSIGNOR_UNIFORM] = "org.apache.kafka.coordinator.group.assignor.UniformAssignor",
    [ASSIGNOR_RANGE] = "org.apache.kafka.coordinator.group.assignor.RangeAssignor",
};

const struct config_bound *config_groups_bound(size_t n)
{
    return n < sizeof(bounds) / sizeof(bounds[0]) ? &bounds[n] : NULL;
}

const struct config_session *config_groups_session(size_t n)
{
    return n < sizeof(sessions) / sizeof(sessions[0]) ? &sessions[n] : NULL;
}

static bool is_least(const struct config *config, enum config_id id, enum config_id least,
                     const struct config_report *report)
{
    if (least == CONFIG_NONE || config_long(config, id) >= config_long(config, least))
        return true;
    config_report_line(report, true, "%s=%s is not accepted: at least %s, which is %s, is", config_key(id)->name,
                       config_text(config, id), config_key(least)->name, config_text(config, least));
    return false;
}

static bool is_most(const struct config *config, enum config_id id, enum config_id most,
                    const struct config_report *report)
{
    if (most == CONFIG_NONE || config_long(config, id) <= config_long(config, most))
        return true;
    config_report_line(report, true, "%s=%s is not accepted: at most %s, which is %s, is", config_key(id)->name,
                       config_text(config, id), config_key(most)->name, config_text(config, most));
    return false;
}

static bool is_within(const struct config *config, const struct config_bound *bound, const struct config_report *report)
{
    if (bound->most != CONFIG_NONE && !is_least(config, bound->most, bound->least, report))
        return false;
    return is_least(config, bound->of_node, bound->least, report) &&
           is_most(config, bound->of_node, bound->most, report);
}

static bool outlives_a_heartbeat(const struct config *config, const struct config_session *session,
                                 const struct config_report *report)
{
    if (config_long(config, session->heartbeat_of_node) < config_long(config, session->session_of_node))
        return true;
    config_report_line(report, true, "%s=%s is not accepted: less than %s, which is %s, is",
                       config_key(session->heartbeat_of_node)->name, config_text(config, session->heartbeat_of_node),
                       config_key(session->session_of_node)->name, config_text(config, session->session_of_node));
    return false;
}

static bool find_assignor(struct bytes name, enum group_assignor *assignor)
{
    for (uint32_t i = 0; i < ASSIGNOR_COUNT; i++)
        if (bytes_equal(name, bytes_of_text(assignor_classes[i]))) {
            *assignor = (enum group_assignor)i;
            return true;
        }
    return group_assignor_find(name, assignor);
}

bool config_groups_assignors(const struct config *config, enum group_assignor found[ASSIGNOR_COUNT], uint32_t *count)
{
    struct bytes rest = bytes_of_text(config_text(config, CONFIG_GROUP_CONSUMER_ASSIGNORS));
    struct bytes item;

    *count = 0;
    while (config_list_next(&rest, &item)) {
        enum group_assignor assignor = ASSIGNOR_UNIFORM;

        if (!find_assignor(item, &assignor))
            return false;
        for (uint32_t i = 0; i < *count; i++)
            if (found[i] == assignor)
                return false;
        found[(*count)++] = assignor;
    }
    return *count > 0;
}

enum err config_groups_check(const struct config *config, const struct config_report *report)
{
    enum group_assignor found[ASSIGNOR_COUNT];
    uint32_t count = 0;
    enum err err = ERR_OK;

    for (size_t i = 0; config_groups_bound(i) != NULL; i++)
        if (!is_within(config, config_groups_bound(i), report))
            err = ERR_USAGE;
    for (size_t i = 0; config_groups_session(i) != NULL; i++)
        if (!outlives_a_heartbeat(config, config_groups_session(i), report))
            err = ERR_USAGE;
    if (!is_least(config, CONFIG_GROUP_SHARE_MAX_SHARE_SESSIONS, CONFIG_GROUP_SHARE_MAX_SIZE, report))
        err = ERR_USAGE;
    if (!config_groups_assignors(config, found, &count)) {
        config_report_line(report, true, "%s=%s is not accepted: at least one of uniform and range, none twice, is",
                           config_key(CONFIG_GROUP_CONSUMER_ASSIGNORS)->name,
                           config_text(config, CONFIG_GROUP_CONSUMER_ASSIGNORS));
        err = ERR_USAGE;
    }
    if (!config_list_has(bytes_of_text(config_text(config, CONFIG_GROUP_COORDINATOR_REBALANCE_PROTOCOLS)),
                         BYTES_LITERAL("classic"))) {
        config_report_line(report, true, "%s=%s is not accepted: the classic protocol cannot be disabled",
                           config_key(CONFIG_GROUP_COORDINATOR_REBALANCE_PROTOCOLS)->name,
                           config_text(config, CONFIG_GROUP_COORDINATOR_REBALANCE_PROTOCOLS));
        err = ERR_USAGE;
    }
    return err;
}
