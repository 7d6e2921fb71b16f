/*
 * Produce, in stages: decode (request.c), access, validate, gate, append, wait, reply. A request over several homes is
 * split; what fails fails its own partition only.
 */
#include "base/assert.h"
#include "broker/broker_internal.h"
#include "broker/handlers.h"
#include "broker/leader_hint.h"
#include "broker/scatter.h"
#include "broker/topic_config.h"
#include "protocol/gen/produce.h"

/* One partition's share. */
struct produce_op {
    struct scatter_op op; /* first */
    struct partition_append append;
    struct partition_produce_response *response;
};

struct produce {
    struct request *request;
    const struct produce_request *in;
    struct produce_response response;
    struct scatter *scatter;
    bool failed; /* any partition: a client that asked for no reply is told by the closed connection */
};

static void refuse(struct produce *produce, struct partition_produce_response *response, enum err err)
{
    response->error_code = err_wire(err);
    response->base_offset = -1;
    response->error_message = bytes_of_text(err_text(err));
    produce->failed = true;
}

/* ---- access ---- */

static enum err check_access(const struct request *request, const struct topic_produce_data *topic,
                             const struct image_topic **row)
{
    bool by_id = request->header.request_api_version >= 13;

    *row = NULL;
    if (request->image != NULL)
        *row = by_id ? image_topic_by_id(request->image, topic->topic_id)
                     : image_topic_by_name(request->image, topic->name);
    if (by_id && *row == NULL)
        return ERR_UNKNOWN_TOPIC_ID;
    if (!request_may(request, MAY_WRITE, ON_TOPIC, *row != NULL ? (*row)->name : topic->name))
        return ERR_TOPIC_AUTHORIZATION_FAILED;
    return *row == NULL ? ERR_UNKNOWN_TOPIC_OR_PARTITION : ERR_OK;
}

/* ---- gate, at the home ---- */

/* What must hold before anything is appended. A scatter starts its operations in the order of the request, and requests
 * of a connection come in order, so whatever is let through here keeps the order of its producer. There is no
 * transaction coordinator to ask, so a transactional batch finds no open transaction: the partition refuses it. */
static enum err gate(const struct produce_op *op, const struct partition *partition)
{
    const struct image *image = op->op.part->home->image;
    const struct image_partition *row = NULL;
    uint32_t enough = (uint32_t)partition_config(partition)->min_insync_replicas;

    if (!partition_has_room(partition))
        return ERR_NO_SPACE;
    if (op->append.acks != -1)
        return ERR_OK;
    row = image_partition(image, op->op.topic_id, op->op.index);
    if (row == NULL)
        return ERR_OK;               /* it goes away this moment: the partition says so */
    if (enough > row->replica_count) /* KIP-966: more than there are cannot be asked for */
        enough = row->replica_count;
    return row->isr_count < enough ? ERR_NOT_ENOUGH_REPLICAS : ERR_OK;
}

/* ---- append, at the home ---- */

static void appended(struct partition_append *append)
{
    struct produce_op *op = LIST_ENTRY(append, struct produce_op, append);

    scatter_op_done(&op->op);
}

static void start_append(struct scatter_op *scatter_op, struct partition *partition)
{
    struct produce_op *op = (struct produce_op *)scatter_op;

    scatter_op->err = gate(op, partition);
    if (scatter_op->err != ERR_OK) {
        scatter_op_done(scatter_op);
        return;
    }
    op->append.arena = &scatter_op->part->arena;
    op->append.done = appended;
    partition_append(partition, &op->append);
}

static void time_out(struct scatter_op *scatter_op)
{
    struct produce_op *op = (struct produce_op *)scatter_op;

    (void)partition_append_cancel(&op->append, ERR_REQUEST_TIMED_OUT);
}

/* ---- reply ---- */

static bool record_errors(struct request *request, const struct partition_append *append,
                          struct partition_produce_response *response)
{
    response->record_errors = request_array(request, append->record_error_count, sizeof(*response->record_errors));
    if (response->record_errors == NULL)
        return false;
    response->record_errors_count = append->record_error_count;
    for (uint32_t i = 0; i < append->record_error_count; i++) {
        batch_index_and_error_message_init(&response->record_errors[i]);
        response->record_errors[i].batch_index = append->record_errors[i].index;
        response->record_errors[i].batch_index_error_message = bytes_of_text(append->record_errors[i].message);
    }
    return true;
}

static bool fill(struct produce *produce, struct produce_op *op)
{
    struct partition_produce_response *response = op->response;
    const struct partition_append *append = &op->append;
    enum err err = op->op.err != ERR_OK ? op->op.err : append->err;

    /* A topic that went away after its name was resolved is unknown under that name. */
    if (err == ERR_UNKNOWN_TOPIC_ID && produce->request->header.request_api_version < 13)
        err = ERR_UNKNOWN_TOPIC_OR_PARTITION;
    if (err == ERR_OK) {
        response->base_offset = append->base_offset;
        response->log_append_time_ms = append->log_append_time_ms;
        response->log_start_offset = append->log_start_offset;
        return true;
    }
    refuse(produce, response, err);
    if (op->op.err == ERR_OK) {
        response->log_start_offset = append->log_start_offset;
        if (append->message != NULL)
            response->error_message = bytes_of_text(append->message);
        if (!record_errors(produce->request, append, response))
            return false;
    }
    if (err == ERR_NOT_LEADER_OR_FOLLOWER)
        leader_hint(produce->request->shard->image, op->op.topic_id, op->op.index, &response->current_leader.leader_id,
                    &response->current_leader.leader_epoch);
    return true;
}

/* KIP-951: where the leaders live that the reply names. */
static bool add_endpoints(struct produce *produce)
{
    struct request *request = produce->request;
    struct produce_response *out = &produce->response;
    struct leader_ids ids = {.count = 0};

    for (uint32_t i = 0; i < out->responses_count; i++)
        for (uint32_t j = 0; j < out->responses[i].partition_responses_count; j++)
            leader_ids_add(&ids, out->responses[i].partition_responses[j].current_leader.leader_id);
    if (ids.count == 0)
        return true;
    out->node_endpoints = request_array(request, ids.count, sizeof(*out->node_endpoints));
    if (out->node_endpoints == NULL)
        return false;
    for (uint32_t i = 0; i < ids.count; i++) {
        struct produce_response_node_endpoint *entry = &out->node_endpoints[out->node_endpoints_count];

        produce_response_node_endpoint_init(entry);
        entry->node_id = ids.ids[i];
        if (broker_address_of(request, ids.ids[i], &entry->host, &entry->port) == ERR_OK)
            out->node_endpoints_count++;
    }
    return true;
}

static void reply(struct produce *produce)
{
    struct request *request = produce->request;

    if (produce->in->acks == 0) {
        if (produce->failed)
            request_close(request, "produce with acks=0 failed");
        else
            request_finish_silent(request);
        return;
    }
    if (!add_endpoints(produce)) {
        request_close(request, "no memory for the reply");
        return;
    }
    request_reply(request, &produce->response);
}

static void all_done(struct scatter *scatter)
{
    struct produce *produce = scatter->user;

    for (struct scatter_part *part = scatter->parts; part != NULL; part = part->next)
        for (struct scatter_op *op = part->first; op != NULL; op = op->next)
            if (!fill(produce, (struct produce_op *)op)) {
                request_close(produce->request, "no memory for the reply");
                return;
            }
    reply(produce);
}

/* ---- in ---- */

static bool add_partition(struct produce *produce, const struct image_topic *row,
                          const struct partition_produce_data *in, struct partition_produce_response *response)
{
    struct request *request = produce->request;
    struct produce_op *op = arena_alloc(&request->arena, sizeof(*op));

    if (op == NULL)
        return false;
    op->op.topic_id = row->id;
    op->op.index = in->index;
    op->response = response;
    op->append.origin = LOG_ORIGIN_CLIENT;
    op->append.acks = produce->in->acks;
    op->append.current_leader_epoch = -1;
    op->append.zstd_allowed = request->header.request_api_version >= 7;
    op->append.log_append_time_ms = -1;
    op->append.log_start_offset = -1;
    if (!in->records.null && in->records.slice_count == 1) {
        /* The frame is this request's own: base offset and epoch are written into it where it lies. */
        op->append.batch = (uint8_t *)(uintptr_t)in->records.slices[0].data;
        op->append.size = in->records.slices[0].size;
    }
    return scatter_add(produce->scatter, &op->op) == ERR_OK;
}

/* What coordinators write to is theirs alone; one client id may, as in Apache Kafka. */
static bool is_admin(const struct request *request)
{
    return bytes_equal(request->header.client_id, BYTES_LITERAL("__admin_client"));
}

static bool add_topic(struct produce *produce, const struct topic_produce_data *in,
                      struct topic_produce_response *response)
{
    struct request *request = produce->request;
    const struct image_topic *row = NULL;
    enum err err = check_access(request, in, &row);

    if (produce->in->transactional_id.data != NULL &&
        !request_may(request, MAY_WRITE, ON_TRANSACTIONAL_ID, produce->in->transactional_id))
        err = ERR_TRANSACTIONAL_ID_AUTHORIZATION_FAILED;
    if (err == ERR_OK && (produce->in->acks < -1 || produce->in->acks > 1))
        err = ERR_INVALID_REQUIRED_ACKS;
    topic_produce_response_init(response);
    response->name = in->name;
    response->topic_id = in->topic_id;
    response->partition_responses =
        request_array(request, in->partition_data_count, sizeof(*response->partition_responses));
    if (response->partition_responses == NULL)
        return false;
    response->partition_responses_count = in->partition_data_count;
    for (uint32_t i = 0; i < in->partition_data_count; i++) {
        struct partition_produce_response *entry = &response->partition_responses[i];
        int32_t index = in->partition_data[i].index;

        partition_produce_response_init(entry);
        entry->index = index;
        if (err != ERR_OK)
            refuse(produce, entry, err);
        else if (index < 0 || (uint32_t)index >= row->partition_count)
            refuse(produce, entry, ERR_UNKNOWN_TOPIC_OR_PARTITION);
        else if (topic_is_internal(row->name) && !is_admin(request))
            refuse(produce, entry, ERR_INVALID_TOPIC_EXCEPTION);
        else if (!add_partition(produce, row, &in->partition_data[i], entry))
            return false;
    }
    return true;
}

void handle_produce(struct request *request, void *body)
{
    const struct produce_request *in = body;
    struct produce *produce = arena_alloc(&request->arena, sizeof(*produce));

    if (produce == NULL)
        goto no_memory;
    produce->request = request;
    produce->in = in;
    produce_response_init(&produce->response);
    produce->scatter = scatter_new(request, start_append, all_done, produce);
    if (produce->scatter == NULL)
        goto no_memory;
    produce->scatter->cancel = time_out;
    if (in->acks == -1)
        request->deadline_ns =
            loop_now_ns(request->shard->loop) + (in->timeout_ms > 0 ? in->timeout_ms : 0) * INT64_C(1000000);
    produce->response.responses = request_array(request, in->topic_data_count, sizeof(*produce->response.responses));
    if (produce->response.responses == NULL)
        goto no_memory;
    produce->response.responses_count = in->topic_data_count;
    for (uint32_t i = 0; i < in->topic_data_count; i++)
        if (!add_topic(produce, &in->topic_data[i], &produce->response.responses[i]))
            goto no_memory;
    request_charge(request, QUOTA_PRODUCE, request->exchange->frame_size);
    scatter_run(produce->scatter);
    return;

no_memory:
    request_close(request, "no memory for the request");
}
