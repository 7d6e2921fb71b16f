#include "coordinator/consumer_internal.h"

uint32_t consumer_request_owned_count(const struct consumer_group_heartbeat_request *request)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < request->topic_partitions_count && count <= CONSUMER_OWNED_MAX; i++)
        count += request->topic_partitions[i].partitions_count;
    return count;
}

const char *consumer_request_mistake(const struct consumer_group_heartbeat_request *request, int16_t version)
{
    if ((version >= 1 || request->member_epoch > 0 || request->member_epoch == EPOCH_LEAVE) &&
        request->member_id.size == 0)
        return "MemberId can't be empty.";
    if (request->group_id.size == 0)
        return "GroupId can't be empty.";
    if (request->instance_id.data != NULL && request->instance_id.size == 0)
        return "InstanceId can't be empty.";
    if (request->rack_id.data != NULL && request->rack_id.size == 0)
        return "RackId can't be empty.";
    if (request->subscribed_topic_names_count > CONSUMER_NAMES_MAX)
        return "SubscribedTopicNames has too many names.";
    if (consumer_request_owned_count(request) > CONSUMER_OWNED_MAX)
        return "TopicPartitions has too many partitions.";
    if (request->member_epoch == 0) {
        if (request->rebalance_timeout_ms == -1)
            return "RebalanceTimeoutMs must be provided in first request.";
        if (request->topic_partitions == NULL || request->topic_partitions_count > 0)
            return "TopicPartitions must be empty when (re-)joining.";
        if (request->subscribed_topic_names == NULL && request->subscribed_topic_regex.data == NULL)
            return "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.";
    } else if (request->member_epoch == EPOCH_LEAVE_STATIC) {
        if (request->instance_id.data == NULL)
            return "InstanceId can't be null.";
    } else if (request->member_epoch < EPOCH_LEAVE_STATIC) {
        return "MemberEpoch is invalid.";
    }
    return NULL;
}

bool consumer_request_owns_only(const struct consumer_group_heartbeat_request *request, const struct partition_set *of)
{
    for (uint32_t i = 0; i < request->topic_partitions_count; i++)
        for (uint32_t j = 0; j < request->topic_partitions[i].partitions_count; j++)
            if (partition_set_find(of, request->topic_partitions[i].topic_id,
                                   request->topic_partitions[i].partitions[j]) == NULL)
                return false;
    return true;
}

enum err consumer_request_owned(const struct consumer_group_heartbeat_request *request, struct partition_set *owned)
{
    for (uint32_t i = 0; i < request->topic_partitions_count; i++)
        for (uint32_t j = 0; j < request->topic_partitions[i].partitions_count; j++) {
            enum err err = partition_set_add(owned, request->topic_partitions[i].topic_id,
                                             request->topic_partitions[i].partitions[j], 0);

            if (err != ERR_OK)
                return err;
        }
    partition_set_sort(owned);
    return ERR_OK;
}
