#include "coordinator/group_settings.h"

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
