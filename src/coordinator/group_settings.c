#include "coordinator/group_settings.h"

#include "base/assert.h"

static const char *const assignor_names[ASSIGNOR_COUNT] = {[ASSIGNOR_UNIFORM] = "uniform", [ASSIGNOR_RANGE] = "range"};

const char *group_assignor_name(enum group_assignor assignor)
{
    assert(assignor < ASSIGNOR_COUNT);
    return assignor_names[assignor];
}

bool group_assignor_find(struct bytes name, enum group_assignor *assignor)
{
    for (uint32_t i = 0; i < ASSIGNOR_COUNT; i++)
        if (bytes_equal(name, bytes_of_text(assignor_names[i]))) {
            *assignor = (enum group_assignor)i;
            return true;
        }
    return false;
}

void group_settings_init(struct group_settings *settings)
{
    *settings = (struct group_settings){
        .initial_rebalance_delay_ms = 3000,
        .session_timeout_ms_min = 6000,
        .session_timeout_ms_max = 1800000,
        .size_max = INT32_MAX,
        .offsets_retention_ms = INT64_C(10080) * 60 * 1000,
        .offsets_check_ms = 600000,
        .metadata_chars_max = 4096,
        .consumer_enabled = true,
        .consumer_session_timeout_ms = 45000,
        .consumer_session_timeout_ms_min = 45000,
        .consumer_session_timeout_ms_max = 60000,
        .consumer_heartbeat_ms = 5000,
        .consumer_heartbeat_ms_min = 5000,
        .consumer_heartbeat_ms_max = 15000,
        .consumer_size_max = INT32_MAX,
        .consumer_assignment_interval_ms = 1000,
        .consumer_assignors = {ASSIGNOR_UNIFORM, ASSIGNOR_RANGE},
        .consumer_assignor_count = ASSIGNOR_COUNT,
        .migration = MIGRATION_BIDIRECTIONAL,
        .regex_refresh_ms = 600000,
    };
}
