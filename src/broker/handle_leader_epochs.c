/* OffsetForLeaderEpoch: where an epoch ended, for consumers that look whether what they have read is still there, and
 * for followers (KIP-101, KIP-320). */
#include "broker/broker_internal.h"
#include "broker/handlers.h"
#include "broker/scatter.h"
#include "protocol/gen/offset_for_leader_epoch.h"

struct epoch_op {
    struct scatter_op op; /* first */
    struct partition_wait wait;
    const struct offset_for_leader_partition *in;
    int32_t found_epoch;
    int64_t end_offset;
    enum err err;
    struct offset_for_leader_epoch_response_epoch_end_offset *response;
};

struct leader_epochs {
    struct request *request;
    const struct offset_for_leader_epoch_request *in;
    struct offset_for_leader_epoch_response response;
    struct scatter *scatter;
    bool all_allowed; /* it is a broker */
};

static void is_ready(struct partition_wait *wait, struct partition *partition)
{
    struct epoch_op *op = LIST_ENTRY(wait, struct epoch_op, wait);

    op->err = partition_epoch_end(partition, op->in->current_leader_epoch, op->in->leader_epoch, &op->found_epoch,
                                  &op->end_offset);
    scatter_op_done(&op->op);
}

static void start(struct scatter_op *scatter_op, struct partition *partition)
{
    struct epoch_op *op = (struct epoch_op *)scatter_op;

    op->wait.done = is_ready;
    partition_when_ready(partition, &op->wait);
}

static void all_done(struct scatter *scatter)
{
    struct leader_epochs *epochs = scatter->user;

    for (struct scatter_part *part = scatter->parts; part != NULL; part = part->next)
        for (struct scatter_op *at = part->first; at != NULL; at = at->next) {
            const struct epoch_op *op = (struct epoch_op *)at;
            enum err err = at->err != ERR_OK ? at->err : op->err;

            if (err == ERR_UNKNOWN_TOPIC_ID)
                err = ERR_UNKNOWN_TOPIC_OR_PARTITION;
            op->response->error_code = err_wire(err);
            if (err != ERR_OK)
                continue;
            op->response->leader_epoch = op->found_epoch;
            op->response->end_offset = op->end_offset;
        }
    request_reply(epochs->request, &epochs->response);
}

static bool add_partition(struct leader_epochs *epochs, const struct image_topic *row,
                          const struct offset_for_leader_partition *in,
                          struct offset_for_leader_epoch_response_epoch_end_offset *entry)
{
    struct epoch_op *op = NULL;

    if (row == NULL || in->partition < 0 || (uint32_t)in->partition >= row->partition_count) {
        entry->error_code = err_wire(ERR_UNKNOWN_TOPIC_OR_PARTITION);
        return true;
    }
    op = arena_alloc(&epochs->request->arena, sizeof(*op));
    if (op == NULL)
        return false;
    op->op.topic_id = row->id;
    op->op.index = in->partition;
    op->in = in;
    op->response = entry;
    return scatter_add(epochs->scatter, &op->op) == ERR_OK;
}

static bool add_topic(struct leader_epochs *epochs, const struct offset_for_leader_topic *in, bool allowed)
{
    struct request *request = epochs->request;
    struct offset_for_leader_topic_result *out = &epochs->response.topics[epochs->response.topics_count++];
    const struct image_topic *row = request->image == NULL ? NULL : image_topic_by_name(request->image, in->topic);

    offset_for_leader_topic_result_init(out);
    out->topic = in->topic;
    out->partitions = request_array(request, in->partitions_count, sizeof(*out->partitions));
    if (out->partitions == NULL)
        return false;
    out->partitions_count = in->partitions_count;
    for (uint32_t i = 0; i < in->partitions_count; i++) {
        offset_for_leader_epoch_response_epoch_end_offset_init(&out->partitions[i]);
        out->partitions[i].partition = in->partitions[i].partition;
        if (!allowed)
            out->partitions[i].error_code = err_wire(ERR_TOPIC_AUTHORIZATION_FAILED);
        else if (!add_partition(epochs, row, &in->partitions[i], &out->partitions[i]))
            return false;
    }
    return true;
}

void handle_offset_for_leader_epoch(struct request *request, void *body)
{
    struct leader_epochs *epochs = arena_alloc(&request->arena, sizeof(*epochs));

    if (epochs == NULL)
        goto no_memory;
    epochs->request = request;
    epochs->in = body;
    epochs->all_allowed = request_may(request, MAY_CLUSTER_ACTION, ON_CLUSTER, BYTES_LITERAL("kafka-cluster"));
    offset_for_leader_epoch_response_init(&epochs->response);
    epochs->scatter = scatter_new(request, start, all_done, epochs);
    if (epochs->scatter == NULL)
        goto no_memory;
    epochs->response.topics = request_array(request, epochs->in->topics_count, sizeof(*epochs->response.topics));
    if (epochs->response.topics == NULL)
        goto no_memory;
    for (uint32_t i = 0; i < epochs->in->topics_count; i++) {
        const struct offset_for_leader_topic *in = &epochs->in->topics[i];
        bool allowed = epochs->all_allowed || request_may(request, MAY_DESCRIBE, ON_TOPIC, in->topic);

        if (!add_topic(epochs, in, allowed))
            goto no_memory;
    }
    scatter_run(epochs->scatter);
    return;

no_memory:
    request_close(request, "no memory for the request");
}
