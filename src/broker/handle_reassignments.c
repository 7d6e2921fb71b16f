/* AlterPartitionReassignments and ListPartitionReassignments, as far as a node that is alone goes: what a partition has
 * already is granted, what names brokers that are not there is refused, and nothing is ever under way. kafka-reassign-
 * partitions asks both before it moves replicas between log directories. Codes and words of Apache Kafka 4.4. */
#include "broker/broker_internal.h"
#include "broker/handlers.h"
#include "protocol/gen/alter_partition_reassignments.h"
#include "protocol/gen/list_partition_reassignments.h"

struct verdict {
    enum err err;
    struct bytes message; /* null: none */
};

static struct verdict check_replicas(struct request *request, const int32_t *replicas, uint32_t count)
{
    if (count == 0)
        return (struct verdict){ERR_INVALID_REPLICA_ASSIGNMENT,
                                BYTES_LITERAL("The manual partition assignment includes an empty replica list.")};
    for (uint32_t i = 0; i < count; i++) {
        if (image_broker(request->image, replicas[i]) == NULL)
            return (struct verdict){
                ERR_INVALID_REPLICA_ASSIGNMENT,
                arena_printf(&request->arena,
                             "The manual partition assignment includes broker %d, but no such broker is registered.",
                             replicas[i])};
        for (uint32_t j = 0; j < i; j++)
            if (replicas[j] == replicas[i])
                return (struct verdict){
                    ERR_INVALID_REPLICA_ASSIGNMENT,
                    arena_printf(&request->arena,
                                 "The manual partition assignment includes the broker %d more than once.",
                                 replicas[i])};
    }
    return (struct verdict){ERR_OK, {NULL, 0}};
}

static bool is_same(const struct image_partition *row, const struct reassignable_partition *asked)
{
    if (row->replica_count != asked->replicas_count)
        return false;
    for (uint32_t i = 0; i < row->replica_count; i++)
        if (row->replicas[i] != asked->replicas[i])
            return false;
    return true;
}

static struct verdict judge(struct request *request, const struct image_topic *topic,
                            const struct reassignable_partition *asked)
{
    const struct image_partition *row = NULL;
    struct verdict verdict;

    if (topic == NULL)
        return (struct verdict){ERR_UNKNOWN_TOPIC_OR_PARTITION,
                                BYTES_LITERAL("This server does not host this topic-partition.")};
    if (asked->partition_index < 0 || (uint32_t)asked->partition_index >= topic->partition_count)
        return (struct verdict){ERR_UNKNOWN_TOPIC_OR_PARTITION,
                                arena_printf(&request->arena, "Unable to find partition %d.", asked->partition_index)};
    row = topic->partitions[asked->partition_index];
    if (asked->replicas == NULL)
        return (struct verdict){ERR_NO_REASSIGNMENT_IN_PROGRESS,
                                BYTES_LITERAL("No partition reassignment is in progress.")};
    verdict = check_replicas(request, asked->replicas, asked->replicas_count);
    if (verdict.err == ERR_OK && !is_same(row, asked))
        return (struct verdict){ERR_INVALID_REPLICA_ASSIGNMENT,
                                BYTES_LITERAL("Replicas cannot be moved between brokers yet.")};
    return verdict;
}

static bool answer_topic(struct request *request, const struct reassignable_topic *asked,
                         struct reassignable_topic_response *out)
{
    const struct image_topic *topic = request->image == NULL ? NULL : image_topic_by_name(request->image, asked->name);

    reassignable_topic_response_init(out);
    out->name = asked->name;
    out->partitions = request_array(request, asked->partitions_count, sizeof(*out->partitions));
    if (out->partitions == NULL)
        return false;
    out->partitions_count = asked->partitions_count;
    for (uint32_t i = 0; i < asked->partitions_count; i++) {
        struct verdict verdict = judge(request, topic, &asked->partitions[i]);

        reassignable_partition_response_init(&out->partitions[i]);
        out->partitions[i].partition_index = asked->partitions[i].partition_index;
        out->partitions[i].error_code = err_wire(verdict.err);
        out->partitions[i].error_message = verdict.message;
    }
    return true;
}

void handle_alter_partition_reassignments(struct request *request, void *body)
{
    const struct alter_partition_reassignments_request *in = body;
    struct alter_partition_reassignments_response *response = arena_alloc(&request->arena, sizeof(*response));

    if (response == NULL)
        goto no_memory;
    alter_partition_reassignments_response_init(response);
    response->allow_replication_factor_change = in->allow_replication_factor_change;
    if (!request_may(request, MAY_ALTER, ON_CLUSTER, BYTES_LITERAL("kafka-cluster"))) {
        response->error_code = err_wire(ERR_CLUSTER_AUTHORIZATION_FAILED);
        request_reply(request, response);
        return;
    }
    response->responses = request_array(request, in->topics_count, sizeof(*response->responses));
    if (response->responses == NULL)
        goto no_memory;
    response->responses_count = in->topics_count;
    for (uint32_t i = 0; i < in->topics_count; i++)
        if (!answer_topic(request, &in->topics[i], &response->responses[i]))
            goto no_memory;
    request_reply(request, response);
    return;

no_memory:
    request_close(request, "no memory for the request");
}

void handle_list_partition_reassignments(struct request *request, void *body)
{
    struct list_partition_reassignments_response *response = arena_alloc(&request->arena, sizeof(*response));

    (void)body;
    if (response == NULL) {
        request_close(request, "no memory for the request");
        return;
    }
    list_partition_reassignments_response_init(response);
    if (!request_may(request, MAY_DESCRIBE, ON_CLUSTER, BYTES_LITERAL("kafka-cluster")))
        response->error_code = err_wire(ERR_CLUSTER_AUTHORIZATION_FAILED);
    request_reply(request, response);
}
