#include "broker/broker_internal.h"
#include "broker/handlers.h"
#include "broker/mentions.h"
#include "broker/scatter.h"
#include "protocol/gen/list_offsets.h"

struct list_offsets_op {
    struct scatter_op op; /* first */
    struct partition_offsets offsets;
    struct list_offsets_partition_response *response;
};

struct list_offsets {
    struct request *request;
    const struct list_offsets_request *in;
    struct list_offsets_response response;
    struct scatter *scatter;
};

static void found(struct partition_offsets *offsets)
{
    scatter_op_done(&LIST_ENTRY(offsets, struct list_offsets_op, offsets)->op);
}

static void start(struct scatter_op *scatter_op, struct partition *partition)
{
    struct list_offsets_op *op = (struct list_offsets_op *)scatter_op;

    op->offsets.arena = &scatter_op->part->arena;
    op->offsets.done = found;
    partition_offsets(partition, &op->offsets);
}

static void fill(const struct request *request, struct list_offsets_op *op)
{
    int16_t version = request->header.request_api_version;
    const struct partition_offsets *offsets = &op->offsets;
    struct list_offsets_partition_response *out = op->response;
    enum err err = op->op.err != ERR_OK ? op->op.err : offsets->err;

    if (err == ERR_UNKNOWN_TOPIC_ID)
        err = ERR_UNKNOWN_TOPIC_OR_PARTITION;
    /* KIP-207: older clients do not know the code. */
    if (err == ERR_OFFSET_NOT_AVAILABLE && version < 5)
        err = ERR_LEADER_NOT_AVAILABLE;
    out->error_code = err_wire(err);
    if (err != ERR_OK)
        return;
    out->offset = offsets->offset;
    out->timestamp = offsets->out_timestamp;
    out->leader_epoch = offsets->leader_epoch;
    out->old_style_offsets = offsets->offsets;
    out->old_style_offsets_count = offsets->offset_count;
}

static void all_done(struct scatter *scatter)
{
    struct list_offsets *list = scatter->user;

    for (struct scatter_part *part = scatter->parts; part != NULL; part = part->next)
        for (struct scatter_op *op = part->first; op != NULL; op = op->next)
            fill(list->request, (struct list_offsets_op *)op);
    request_reply(list->request, &list->response);
}

/* The special values each came with a version. */
static bool timestamp_is_known(int64_t timestamp, int16_t version)
{
    switch (timestamp) {
    case PARTITION_OFFSET_LATEST:
    case PARTITION_OFFSET_EARLIEST:
        return true;
    case PARTITION_OFFSET_MAX_TIMESTAMP:
        return version >= 7;
    case PARTITION_OFFSET_EARLIEST_LOCAL:
        return version >= 8;
    case PARTITION_OFFSET_LATEST_TIERED:
        return version >= 9;
    case PARTITION_OFFSET_EARLIEST_PENDING_UPLOAD:
        return version >= 11;
    default:
        return timestamp >= 0;
    }
}

static void refuse_repeated(const struct mention *mention)
{
    struct list_offsets_partition_response *out = mention->of;

    out->error_code = err_wire(ERR_INVALID_REQUEST);
}

/* Named twice in one request: INVALID_REQUEST for each mention, as in Kafka. */
static bool mark_repeated(struct list_offsets *list)
{
    struct mentions mentions;
    uint32_t count = 0;

    for (uint32_t i = 0; i < list->in->topics_count; i++)
        count += list->in->topics[i].partitions_count;
    if (count < 2)
        return true;
    if (mentions_init(&mentions, &list->request->arena, count) != ERR_OK)
        return false;
    for (uint32_t i = 0; i < list->in->topics_count; i++)
        for (uint32_t j = 0; j < list->in->topics[i].partitions_count; j++)
            mentions_add(&mentions, list->in->topics[i].name, list->in->topics[i].partitions[j].partition_index,
                         &list->response.topics[i].partitions[j]);
    mentions_sort(&mentions);
    for (uint32_t i = 1; i < count; i++)
        if (mention_same_partition(&mentions.list[i - 1], &mentions.list[i])) {
            refuse_repeated(&mentions.list[i - 1]);
            refuse_repeated(&mentions.list[i]);
        }
    return true;
}

static bool add_partition(struct list_offsets *list, const struct image_topic *row,
                          const struct list_offsets_partition *in, struct list_offsets_partition_response *response)
{
    struct request *request = list->request;
    struct list_offsets_op *op = arena_alloc(&request->arena, sizeof(*op));

    if (op == NULL)
        return false;
    op->op.topic_id = row->id;
    op->op.index = in->partition_index;
    op->response = response;
    op->offsets.timestamp = in->timestamp;
    op->offsets.isolation = list->in->isolation_level == 1 ? PARTITION_READ_COMMITTED : PARTITION_READ_UNCOMMITTED;
    op->offsets.current_leader_epoch = in->current_leader_epoch;
    op->offsets.max_num_offsets =
        request->header.request_api_version == 0 && in->max_num_offsets > 0 ? (uint32_t)in->max_num_offsets : 0;
    return scatter_add(list->scatter, &op->op) == ERR_OK;
}

static bool prepare(struct list_offsets *list)
{
    struct request *request = list->request;

    list->response.topics = request_array(request, list->in->topics_count, sizeof(*list->response.topics));
    if (list->response.topics == NULL)
        return false;
    list->response.topics_count = list->in->topics_count;
    for (uint32_t i = 0; i < list->in->topics_count; i++) {
        const struct list_offsets_topic *in = &list->in->topics[i];
        struct list_offsets_topic_response *out = &list->response.topics[i];

        list_offsets_topic_response_init(out);
        out->name = in->name;
        out->partitions = request_array(request, in->partitions_count, sizeof(*out->partitions));
        if (out->partitions == NULL)
            return false;
        out->partitions_count = in->partitions_count;
        for (uint32_t j = 0; j < in->partitions_count; j++) {
            list_offsets_partition_response_init(&out->partitions[j]);
            out->partitions[j].old_style_offsets = WIRE_EMPTY;
            out->partitions[j].partition_index = in->partitions[j].partition_index;
        }
    }
    return mark_repeated(list);
}

static bool add_topic(struct list_offsets *list, uint32_t i)
{
    struct request *request = list->request;
    const struct list_offsets_topic *in = &list->in->topics[i];
    const struct image_topic *row = request->image == NULL ? NULL : image_topic_by_name(request->image, in->name);
    bool allowed = request_may(request, MAY_DESCRIBE, ON_TOPIC, in->name);

    for (uint32_t j = 0; j < in->partitions_count; j++) {
        const struct list_offsets_partition *partition = &in->partitions[j];
        struct list_offsets_partition_response *entry = &list->response.topics[i].partitions[j];

        if (!allowed)
            entry->error_code = err_wire(ERR_TOPIC_AUTHORIZATION_FAILED);
        else if (entry->error_code != 0)
            continue;
        else if (!timestamp_is_known(partition->timestamp, request->header.request_api_version))
            entry->error_code = err_wire(ERR_UNSUPPORTED_VERSION);
        else if (row == NULL || partition->partition_index < 0 ||
                 (uint32_t)partition->partition_index >= row->partition_count)
            entry->error_code = err_wire(ERR_UNKNOWN_TOPIC_OR_PARTITION);
        else if (!add_partition(list, row, partition, entry))
            return false;
    }
    return true;
}

void handle_list_offsets(struct request *request, void *body)
{
    struct list_offsets *list = arena_alloc(&request->arena, sizeof(*list));

    if (list == NULL)
        goto no_memory;
    list->request = request;
    list->in = body;
    list_offsets_response_init(&list->response);
    list->scatter = scatter_new(request, start, all_done, list);
    if (list->scatter == NULL)
        goto no_memory;
    if (!prepare(list))
        goto no_memory;
    for (uint32_t i = 0; i < list->in->topics_count; i++)
        if (!add_topic(list, i))
            goto no_memory;
    scatter_run(list->scatter);
    return;

no_memory:
    request_close(request, "no memory for the request");
}
