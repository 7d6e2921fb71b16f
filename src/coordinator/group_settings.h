/*
 * group_settings: what the broker's configuration says of groups (group.*, offsets.*). Names and defaults: Kafka's.
 *
 * Threads  constant while a step runs; the broker may put new values between two.
 */
#ifndef OTTLA_COORDINATOR_GROUP_SETTINGS_H
#define OTTLA_COORDINATOR_GROUP_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"

enum group_migration {
    MIGRATION_DISABLED = 0,
    MIGRATION_UPGRADE = 1,
    MIGRATION_DOWNGRADE = 2,
    MIGRATION_BIDIRECTIONAL = 3, /* both bits */
};

enum group_assignor { ASSIGNOR_UNIFORM, ASSIGNOR_RANGE, ASSIGNOR_COUNT };

struct group_settings {
    /* classic */
    int32_t initial_rebalance_delay_ms;
    int32_t session_timeout_ms_min;
    int32_t session_timeout_ms_max;
    int32_t size_max;
    /* offsets */
    int64_t offsets_retention_ms;
    int64_t offsets_check_ms;
    int32_t metadata_chars_max;
    /* consumer (KIP-848) */
    bool consumer_enabled; /* group.coordinator.rebalance.protocols has it, and group.version is 1 */
    int32_t consumer_session_timeout_ms;
    int32_t consumer_session_timeout_ms_min;
    int32_t consumer_session_timeout_ms_max;
    int32_t consumer_heartbeat_ms;
    int32_t consumer_heartbeat_ms_min;
    int32_t consumer_heartbeat_ms_max;
    int32_t consumer_size_max;
    int32_t consumer_assignment_interval_ms; /* see group.consumer.assignment.interval.ms */
    enum group_assignor consumer_assignors[ASSIGNOR_COUNT];
    uint32_t consumer_assignor_count;
    enum group_migration migration;
    int64_t regex_refresh_ms;
};

/* "uniform", "range": as members ask for them. */
const char *group_assignor_name(enum group_assignor assignor);
/* False: none of that name. */
bool group_assignor_find(struct bytes name, enum group_assignor *assignor);
/* Kafka 4.4's defaults. */
void group_settings_init(struct group_settings *settings);

#endif
