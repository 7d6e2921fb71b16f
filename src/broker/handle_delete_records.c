/* DeleteRecords: each partition at its home. A single replica's log start is the low watermark at once, so nothing
 * waits for others. */
#include "broker/broker_internal.h"
#include "broker/handlers.h"
#include "broker/mentions.h"
#include "broker/scatter.h"
#include "broker/topic_config.h"
#include "protocol/gen/delete_records.h"

struct delete_records_op {
    struct scatter_op op; /* first */
    struct partition_wait wait;
    int64_t offset;
    int64_t low_watermark;
    enum err err;
    struct delete_records_partition_result *response;
};

struct delete_records {
    struct request *request;
    struct delete_records_response response;
    struct scatter *scatter;
};

static void is_ready(struct partition_wait *wait, struct partition *partition)
{
    struct delete_records_op *op = LIST_ENTRY(wait, struct delete_records_op, wait);

    op->err = partition_delete_records(partition, op->offset, &op->low_watermark);
    scatter_op_done(&op->op);
}

static void start(struct scatter_op *scatter_op, struct partition *partition)
{
    struct delete_records_op *op = (struct delete_records_op *)scatter_op;

    op->wait.done = is_ready;
    partition_when_ready(partition, &op->wait);
}

static void all_done(struct scatter *scatter)
{
    struct delete_records *deletion = scatter->user;

    for (struct scatter_part *part = scatter->parts; part != NULL; part = part->next)
        for (struct scatter_op *at = part->first; at != NULL; at = at->next) {
            const struct delete_records_op *op = (struct delete_records_op *)at;
            enum err err = at->err != ERR_OK ? at->err : op->err;

            if (err == ERR_UNKNOWN_TOPIC_ID)
                err = ERR_UNKNOWN_TOPIC_OR_PARTITION;
            op->response->error_code = err_wire(err);
            op->response->low_watermark = err == ERR_OK ? op->low_watermark : -1;
        }
    request_reply(deletion->request, &deletion->response);
}

/* Apache Kafka keeps a map: of a partition that is named twice the last mention holds, and it is answered once. Each
 * mention is of the request's partition. */
static enum err take_mentions(struct request *request, const struct delete_records_request *in,
                              struct mentions *mentions)
{
    uint32_t all = 0;
    enum err err = ERR_OK;

    for (uint32_t i = 0; i < in->topics_count; i++)
        all += in->topics[i].partitions_count;
    err = mentions_init(mentions, &request->arena, all);
    if (err != ERR_OK)
        return err;
    for (uint32_t i = 0; i < in->topics_count; i++)
        for (uint32_t j = 0; j < in->topics[i].partitions_count; j++)
            mentions_add(mentions, in->topics[i].name, in->topics[i].partitions[j].partition_index,
                         &in->topics[i].partitions[j]);
    mentions_keep_last(mentions);
    return ERR_OK;
}

/* Why nothing of it is deleted, as far as the metadata tells. */
static enum err refusal(struct request *request, const struct image_topic *row, const struct mention *mention)
{
    if (!request_may(request, MAY_DELETE, ON_TOPIC, mention->topic))
        return ERR_TOPIC_AUTHORIZATION_FAILED;
    if (row == NULL || mention->index < 0 || (uint32_t)mention->index >= row->partition_count)
        return ERR_UNKNOWN_TOPIC_OR_PARTITION;
    return topic_is_internal(mention->topic) ? ERR_INVALID_TOPIC_EXCEPTION : ERR_OK;
}

static bool add_partition(struct delete_records *deletion, const struct mention *mention,
                          struct delete_records_partition_result *entry)
{
    const struct delete_records_partition *in = mention->of;
    struct request *request = deletion->request;
    const struct image_topic *row = request->image == NULL ? NULL : image_topic_by_name(request->image, mention->topic);
    enum err err = refusal(request, row, mention);
    struct delete_records_op *op = NULL;

    delete_records_partition_result_init(entry);
    entry->partition_index = mention->index;
    entry->low_watermark = -1;
    entry->error_code = err_wire(err);
    if (err != ERR_OK)
        return true;
    op = arena_alloc(&request->arena, sizeof(*op));
    if (op == NULL)
        return false;
    op->op.topic_id = row->id;
    op->op.index = mention->index;
    op->offset = in->offset;
    op->response = entry;
    return scatter_add(deletion->scatter, &op->op) == ERR_OK;
}

static bool add_all(struct delete_records *deletion, const struct mentions *mentions)
{
    struct delete_records_topic_result *topic = NULL;
    struct delete_records_partition_result *entries =
        request_array(deletion->request, mentions->count, sizeof(*entries));

    deletion->response.topics = request_array(deletion->request, mentions->count, sizeof(*topic));
    if (entries == NULL || deletion->response.topics == NULL)
        return false;
    for (uint32_t i = 0; i < mentions->count; i++) {
        const struct mention *mention = &mentions->list[i];

        if (topic == NULL || !bytes_equal(topic->name, mention->topic)) {
            topic = &deletion->response.topics[deletion->response.topics_count++];
            delete_records_topic_result_init(topic);
            topic->name = mention->topic;
            topic->partitions = &entries[i];
        }
        topic->partitions_count++;
        if (!add_partition(deletion, mention, &entries[i]))
            return false;
    }
    return true;
}

void handle_delete_records(struct request *request, void *body)
{
    struct delete_records *deletion = arena_alloc(&request->arena, sizeof(*deletion));
    struct mentions mentions;

    if (deletion == NULL)
        goto no_memory;
    deletion->request = request;
    delete_records_response_init(&deletion->response);
    deletion->scatter = scatter_new(request, start, all_done, deletion);
    if (deletion->scatter == NULL)
        goto no_memory;
    if (take_mentions(request, body, &mentions) != ERR_OK || !add_all(deletion, &mentions))
        goto no_memory;
    scatter_run(deletion->scatter);
    return;

no_memory:
    request_close(request, "no memory for the request");
}
