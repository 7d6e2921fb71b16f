#include "broker/api_table.h"

#include "base/assert.h"
#include "broker/handlers.h"
#include "protocol/gen/alter_configs.h"
#include "protocol/gen/alter_partition_reassignments.h"
#include "protocol/gen/alter_replica_log_dirs.h"
#include "protocol/gen/api_keys.h"
#include "protocol/gen/api_versions.h"
#include "protocol/gen/consumer_group_describe.h"
#include "protocol/gen/consumer_group_heartbeat.h"
#include "protocol/gen/create_partitions.h"
#include "protocol/gen/create_topics.h"
#include "protocol/gen/delete_groups.h"
#include "protocol/gen/delete_records.h"
#include "protocol/gen/delete_topics.h"
#include "protocol/gen/describe_cluster.h"
#include "protocol/gen/describe_configs.h"
#include "protocol/gen/describe_groups.h"
#include "protocol/gen/describe_log_dirs.h"
#include "protocol/gen/fetch.h"
#include "protocol/gen/find_coordinator.h"
#include "protocol/gen/heartbeat.h"
#include "protocol/gen/incremental_alter_configs.h"
#include "protocol/gen/init_producer_id.h"
#include "protocol/gen/join_group.h"
#include "protocol/gen/leave_group.h"
#include "protocol/gen/list_config_resources.h"
#include "protocol/gen/list_groups.h"
#include "protocol/gen/list_offsets.h"
#include "protocol/gen/list_partition_reassignments.h"
#include "protocol/gen/metadata.h"
#include "protocol/gen/offset_commit.h"
#include "protocol/gen/offset_delete.h"
#include "protocol/gen/offset_fetch.h"
#include "protocol/gen/offset_for_leader_epoch.h"
#include "protocol/gen/produce.h"
#include "protocol/gen/sync_group.h"
#include "protocol/gen/update_features.h"

enum { BOUND_BYTES_BASE = 64 * 1024 };

/* Structures in memory over bytes on the wire: the widest element takes some twenty times its size (an empty topic of
 * Metadata: two bytes, forty). Records stay where they are. */
static size_t bound_by_frame(size_t frame_size)
{
    return BOUND_BYTES_BASE + 32 * frame_size;
}

#define THROTTLE(type) offsetof(struct type, throttle_time_ms)
#define MESSAGES(type) &type##_request_message, &type##_response_message
#define GATE(operation, resource)                                                                                      \
    {                                                                                                                  \
        operation, resource                                                                                            \
    }
#define NO_GATE                                                                                                        \
    {                                                                                                                  \
        0, 0                                                                                                           \
    }
#define BOTH (ON_BROKER | ON_CONTROLLER)

/* clang-format off */
static const struct api table[] = {
    /* key, name, advertised from, accepted from, to, listeners, gate, quota, overlaps, forwarded, feature, memory bound,
     * throttle, handler, messages */
    { API_PRODUCE, "Produce", 0, 3, 13, ON_BROKER, GATE(MAY_WRITE, ON_TOPIC), QUOTA_PRODUCE, true, false, NULL,
      bound_by_frame, THROTTLE(produce_response), handle_produce, MESSAGES(produce) },
    { API_FETCH, "Fetch", 4, 4, 18, ON_BROKER, GATE(MAY_READ, ON_TOPIC), QUOTA_FETCH, false, false, NULL,
      bound_by_frame, THROTTLE(fetch_response), handle_fetch, MESSAGES(fetch) },
    { API_LIST_OFFSETS, "ListOffsets", 0, 0, 11, ON_BROKER, GATE(MAY_DESCRIBE, ON_TOPIC), QUOTA_REQUEST, false, false, NULL,
      bound_by_frame, THROTTLE(list_offsets_response), handle_list_offsets, MESSAGES(list_offsets) },
    { API_METADATA, "Metadata", 0, 0, 13, ON_BROKER, GATE(MAY_DESCRIBE, ON_TOPIC), QUOTA_REQUEST, false, false, NULL,
      bound_by_frame, THROTTLE(metadata_response), handle_metadata, MESSAGES(metadata) },
    { API_OFFSET_COMMIT, "OffsetCommit", 1, 1, 10, ON_BROKER, GATE(MAY_READ, ON_GROUP), QUOTA_REQUEST, false, false, NULL,
      bound_by_frame, THROTTLE(offset_commit_response), handle_offset_commit, MESSAGES(offset_commit) },
    { API_OFFSET_FETCH, "OffsetFetch", 1, 1, 10, ON_BROKER, GATE(MAY_DESCRIBE, ON_GROUP), QUOTA_REQUEST, false, false, NULL,
      bound_by_frame, THROTTLE(offset_fetch_response), handle_offset_fetch, MESSAGES(offset_fetch) },
    { API_FIND_COORDINATOR, "FindCoordinator", 0, 0, 6, ON_BROKER, GATE(MAY_DESCRIBE, ON_GROUP), QUOTA_REQUEST, false, false, NULL,
      bound_by_frame, THROTTLE(find_coordinator_response), handle_find_coordinator, MESSAGES(find_coordinator) },
    { API_JOIN_GROUP, "JoinGroup", 0, 0, 9, ON_BROKER, GATE(MAY_READ, ON_GROUP), QUOTA_REQUEST, false, false, NULL,
      bound_by_frame, THROTTLE(join_group_response), handle_join_group, MESSAGES(join_group) },
    { API_HEARTBEAT, "Heartbeat", 0, 0, 4, ON_BROKER, GATE(MAY_READ, ON_GROUP), QUOTA_REQUEST, false, false, NULL,
      bound_by_frame, THROTTLE(heartbeat_response), handle_heartbeat, MESSAGES(heartbeat) },
    { API_LEAVE_GROUP, "LeaveGroup", 0, 0, 5, ON_BROKER, GATE(MAY_READ, ON_GROUP), QUOTA_REQUEST, false, false, NULL,
      bound_by_frame, THROTTLE(leave_group_response), handle_leave_group, MESSAGES(leave_group) },
    { API_SYNC_GROUP, "SyncGroup", 0, 0, 5, ON_BROKER, GATE(MAY_READ, ON_GROUP), QUOTA_REQUEST, false, false, NULL,
      bound_by_frame, THROTTLE(sync_group_response), handle_sync_group, MESSAGES(sync_group) },
    { API_DESCRIBE_GROUPS, "DescribeGroups", 0, 0, 6, ON_BROKER, GATE(MAY_DESCRIBE, ON_GROUP), QUOTA_REQUEST, false, false, NULL,
      bound_by_frame, THROTTLE(describe_groups_response), handle_describe_groups, MESSAGES(describe_groups) },
    { API_LIST_GROUPS, "ListGroups", 0, 0, 5, ON_BROKER, GATE(MAY_DESCRIBE, ON_CLUSTER), QUOTA_REQUEST, false, false, NULL,
      bound_by_frame, THROTTLE(list_groups_response), handle_list_groups, MESSAGES(list_groups) },
    { API_API_VERSIONS, "ApiVersions", 0, 0, 5, BOTH, NO_GATE, QUOTA_REQUEST, false, false, NULL,
      bound_by_frame, THROTTLE(api_versions_response), handle_api_versions, MESSAGES(api_versions) },
    { API_CREATE_TOPICS, "CreateTopics", 2, 2, 7, BOTH, GATE(MAY_CREATE, ON_CLUSTER), QUOTA_MUTATION, false, true, NULL,
      bound_by_frame, THROTTLE(create_topics_response), handle_create_topics, MESSAGES(create_topics) },
    { API_DELETE_TOPICS, "DeleteTopics", 1, 1, 6, BOTH, GATE(MAY_DELETE, ON_TOPIC), QUOTA_MUTATION, false, true, NULL,
      bound_by_frame, THROTTLE(delete_topics_response), handle_delete_topics, MESSAGES(delete_topics) },
    { API_DELETE_RECORDS, "DeleteRecords", 0, 0, 2, ON_BROKER, GATE(MAY_DELETE, ON_TOPIC), QUOTA_REQUEST, false, false, NULL,
      bound_by_frame, THROTTLE(delete_records_response), handle_delete_records, MESSAGES(delete_records) },
    { API_INIT_PRODUCER_ID, "InitProducerId", 0, 0, 5, ON_BROKER, GATE(MAY_IDEMPOTENT_WRITE, ON_CLUSTER), QUOTA_REQUEST, false, false, NULL,
      bound_by_frame, THROTTLE(init_producer_id_response), handle_init_producer_id, MESSAGES(init_producer_id) },
    { API_OFFSET_FOR_LEADER_EPOCH, "OffsetForLeaderEpoch", 2, 2, 4, ON_BROKER, GATE(MAY_DESCRIBE, ON_TOPIC), QUOTA_REQUEST, false, false, NULL,
      bound_by_frame, THROTTLE(offset_for_leader_epoch_response), handle_offset_for_leader_epoch, MESSAGES(offset_for_leader_epoch) },
    { API_DESCRIBE_CONFIGS, "DescribeConfigs", 1, 1, 4, BOTH, GATE(MAY_DESCRIBE_CONFIGS, ON_TOPIC), QUOTA_REQUEST, false, false, NULL,
      bound_by_frame, THROTTLE(describe_configs_response), handle_describe_configs, MESSAGES(describe_configs) },
    { API_ALTER_CONFIGS, "AlterConfigs", 0, 0, 2, BOTH, GATE(MAY_ALTER_CONFIGS, ON_TOPIC), QUOTA_REQUEST, false, true, NULL,
      bound_by_frame, THROTTLE(alter_configs_response), handle_alter_configs, MESSAGES(alter_configs) },
    { API_ALTER_REPLICA_LOG_DIRS, "AlterReplicaLogDirs", 1, 1, 2, ON_BROKER, GATE(MAY_ALTER, ON_CLUSTER), QUOTA_REQUEST, false, false, NULL,
      bound_by_frame, THROTTLE(alter_replica_log_dirs_response), handle_alter_replica_log_dirs, MESSAGES(alter_replica_log_dirs) },
    { API_DESCRIBE_LOG_DIRS, "DescribeLogDirs", 1, 1, 5, ON_BROKER, GATE(MAY_DESCRIBE, ON_CLUSTER), QUOTA_REQUEST, false, false, NULL,
      bound_by_frame, THROTTLE(describe_log_dirs_response), handle_describe_log_dirs, MESSAGES(describe_log_dirs) },
    { API_CREATE_PARTITIONS, "CreatePartitions", 0, 0, 3, BOTH, GATE(MAY_ALTER, ON_TOPIC), QUOTA_MUTATION, false, true, NULL,
      bound_by_frame, THROTTLE(create_partitions_response), handle_create_partitions, MESSAGES(create_partitions) },
    { API_DELETE_GROUPS, "DeleteGroups", 0, 0, 3, ON_BROKER, GATE(MAY_DELETE, ON_GROUP), QUOTA_REQUEST, false, false, NULL,
      bound_by_frame, THROTTLE(delete_groups_response), handle_delete_groups, MESSAGES(delete_groups) },
    { API_INCREMENTAL_ALTER_CONFIGS, "IncrementalAlterConfigs", 0, 0, 1, BOTH, GATE(MAY_ALTER_CONFIGS, ON_TOPIC), QUOTA_REQUEST, false, true, NULL,
      bound_by_frame, THROTTLE(incremental_alter_configs_response), handle_incremental_alter_configs, MESSAGES(incremental_alter_configs) },
    { API_ALTER_PARTITION_REASSIGNMENTS, "AlterPartitionReassignments", 0, 0, 1, BOTH, GATE(MAY_ALTER, ON_CLUSTER), QUOTA_REQUEST, false, true, NULL,
      bound_by_frame, THROTTLE(alter_partition_reassignments_response), handle_alter_partition_reassignments, MESSAGES(alter_partition_reassignments) },
    { API_LIST_PARTITION_REASSIGNMENTS, "ListPartitionReassignments", 0, 0, 0, BOTH, GATE(MAY_DESCRIBE, ON_CLUSTER), QUOTA_REQUEST, false, true, NULL,
      bound_by_frame, THROTTLE(list_partition_reassignments_response), handle_list_partition_reassignments, MESSAGES(list_partition_reassignments) },
    { API_OFFSET_DELETE, "OffsetDelete", 0, 0, 0, ON_BROKER, GATE(MAY_DELETE, ON_GROUP), QUOTA_REQUEST, false, false, NULL,
      bound_by_frame, THROTTLE(offset_delete_response), handle_offset_delete, MESSAGES(offset_delete) },
    { API_UPDATE_FEATURES, "UpdateFeatures", 0, 0, 2, BOTH, GATE(MAY_ALTER, ON_CLUSTER), QUOTA_REQUEST, false, true, NULL,
      bound_by_frame, THROTTLE(update_features_response), handle_update_features, MESSAGES(update_features) },
    { API_DESCRIBE_CLUSTER, "DescribeCluster", 0, 0, 2, BOTH, GATE(MAY_DESCRIBE, ON_CLUSTER), QUOTA_REQUEST, false, false, NULL,
      bound_by_frame, THROTTLE(describe_cluster_response), handle_describe_cluster, MESSAGES(describe_cluster) },
    { API_CONSUMER_GROUP_HEARTBEAT, "ConsumerGroupHeartbeat", 0, 0, 1, ON_BROKER, GATE(MAY_READ, ON_GROUP), QUOTA_REQUEST, false, false, NULL,
      bound_by_frame, THROTTLE(consumer_group_heartbeat_response), handle_consumer_group_heartbeat, MESSAGES(consumer_group_heartbeat) },
    { API_CONSUMER_GROUP_DESCRIBE, "ConsumerGroupDescribe", 0, 0, 1, ON_BROKER, GATE(MAY_DESCRIBE, ON_GROUP), QUOTA_REQUEST, false, false, NULL,
      bound_by_frame, THROTTLE(consumer_group_describe_response), handle_consumer_group_describe, MESSAGES(consumer_group_describe) },
    { API_LIST_CONFIG_RESOURCES, "ListConfigResources", 0, 0, 1, ON_BROKER, GATE(MAY_DESCRIBE_CONFIGS, ON_CLUSTER), QUOTA_REQUEST, false, false, NULL,
      bound_by_frame, THROTTLE(list_config_resources_response), handle_list_config_resources, MESSAGES(list_config_resources) },
};
/* clang-format on */

uint32_t api_count(void)
{
    return sizeof(table) / sizeof(table[0]);
}

const struct api *api_at(uint32_t index)
{
    assert(index < api_count());
    return &table[index];
}

const struct api *api_find(int16_t key)
{
    for (uint32_t i = 0; i < api_count(); i++)
        if (table[i].key == key)
            return &table[i];
    return NULL;
}
