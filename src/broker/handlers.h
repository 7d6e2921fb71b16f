/*
 * handlers: who answers each API; by family in handle_*.c. body: of the type that the API's row decodes.
 *
 * Threads  the request's shard.
 */
#ifndef OTTLA_BROKER_HANDLERS_H
#define OTTLA_BROKER_HANDLERS_H

#include "broker/request.h"

api_handle_fn handle_alter_configs;
api_handle_fn handle_alter_partition_reassignments;
api_handle_fn handle_alter_replica_log_dirs;
api_handle_fn handle_api_versions;
api_handle_fn handle_consumer_group_describe;
api_handle_fn handle_consumer_group_heartbeat;
api_handle_fn handle_create_partitions;
api_handle_fn handle_create_topics;
api_handle_fn handle_delete_groups;
api_handle_fn handle_delete_records;
api_handle_fn handle_delete_topics;
api_handle_fn handle_describe_cluster;
api_handle_fn handle_describe_configs;
api_handle_fn handle_describe_groups;
api_handle_fn handle_describe_log_dirs;
api_handle_fn handle_fetch;
api_handle_fn handle_find_coordinator;
api_handle_fn handle_heartbeat;
api_handle_fn handle_incremental_alter_configs;
api_handle_fn handle_init_producer_id;
api_handle_fn handle_join_group;
api_handle_fn handle_leave_group;
api_handle_fn handle_list_config_resources;
api_handle_fn handle_list_groups;
api_handle_fn handle_list_offsets;
api_handle_fn handle_list_partition_reassignments;
api_handle_fn handle_metadata;
api_handle_fn handle_offset_commit;
api_handle_fn handle_offset_delete;
api_handle_fn handle_offset_fetch;
api_handle_fn handle_offset_for_leader_epoch;
api_handle_fn handle_produce;
api_handle_fn handle_sync_group;
api_handle_fn handle_update_features;

/* The node stops: fetches that wait answer with what there is. */
void handle_fetch_finish(struct shard *shard);

/* The answer to an ApiVersions request of a version we do not know: error 35 in the oldest form, with the one range
 * that lets the client try again (trap B001). */
void handle_unknown_api_versions(struct request *request);

#endif
