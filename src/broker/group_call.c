#include "broker/group_call.h"

#include "broker/broker_internal.h"
#include "broker/group_coordinators.h"
#include "broker/group_topics_image.h"
#include "coordinator/coordinator_key.h"

static void decided(struct step_op *op)
{
    struct group_part *part = LIST_ENTRY(op, struct group_part, ask.op);

    part->err = op->err;
    scatter_op_done(&part->op);
}

static void start(struct scatter_op *op, struct partition *partition)
{
    struct group_part *part = LIST_ENTRY(op, struct group_part, op);

    (void)partition;
    part->ask.arena = &op->part->arena;
    group_coordinators_ask(op->part->home, shard_hosted(op->part->home, op->topic_id, op->index), &part->ask);
}

/* What the coordinators answered stays until the reply has left, and counts as long. */
static void all_done(struct scatter *scatter)
{
    struct group_call *call = scatter->user;

    call->held_bytes = scatter_held_bytes(scatter);
    if (request_reserve(call->request, call->held_bytes) == ERR_OK)
        call->done(call);
    else
        request_close(call->request, "no memory for the answers of coordinators");
}

void group_call_reply(const struct group_call *call, void *(*response)(struct request *request))
{
    request_reply_made(call->request, call->held_bytes + call->request->arena.held_bytes, response);
}

struct group_call *group_call_new(struct request *request, void (*done)(struct group_call *call), void *user)
{
    struct group_call *call = arena_alloc(&request->arena, sizeof(*call));

    if (call == NULL)
        return NULL;
    call->request = request;
    call->scatter = scatter_new(request, start, all_done, call);
    call->client_host = arena_printf(&request->arena, "/%s", connection_peer(request->connection)->host);
    if (call->scatter == NULL || call->client_host.data == NULL)
        return NULL;
    if (request->image != NULL)
        call->topic = image_topic_by_name(request->image, group_topic_name);
    call->scatter->in_turns = true;
    call->done = done;
    call->user = user;
    return call;
}

struct group_part *group_call_add_at(struct group_call *call, enum group_ask ask, int32_t partition, const void *asked,
                                     void *response)
{
    struct request *request = call->request;
    struct group_part *part = arena_alloc(&request->arena, sizeof(*part));

    if (part == NULL)
        return NULL;
    part->err = ERR_NOT_COORDINATOR; /* unless it is asked */
    part->ask = (struct group_op){
        .op.done = decided,
        .ask = ask,
        .version = request->header.request_api_version,
        .client_id = request->header.client_id,
        .client_host = call->client_host,
        .request = asked,
        .response = response,
        .user = call,
    };
    if (call->topic == NULL)
        return part;
    part->op.topic_id = call->topic->id;
    part->op.index = partition;
    return scatter_add(call->scatter, &part->op) == ERR_OK ? part : NULL;
}

struct group_part *group_call_add(struct group_call *call, enum group_ask ask, struct bytes group_id, const void *asked,
                                  void *response)
{
    uint32_t partitions = call->topic == NULL ? 1 : call->topic->partition_count;
    struct group_part *part =
        group_call_add_at(call, ask, coordinator_key_partition(group_id, partitions), asked, response);

    if (part != NULL)
        part->ask.group_id = group_id;
    return part;
}

struct group_part **group_call_add_each(struct group_call *call, enum group_ask ask, enum operation operation,
                                        const struct bytes *group_ids, uint32_t count, void *responses,
                                        size_t response_bytes)
{
    struct group_part **parts = request_array(call->request, count, sizeof(struct group_part *));

    for (uint32_t i = 0; parts != NULL && i < count; i++) {
        if (!request_may(call->request, operation, ON_GROUP, group_ids[i]))
            continue;
        parts[i] = group_call_add(call, ask, group_ids[i], NULL, (uint8_t *)responses + i * response_bytes);
        if (parts[i] == NULL)
            return NULL;
    }
    return parts;
}

enum err group_part_err(const struct group_part *part)
{
    return part == NULL ? ERR_GROUP_AUTHORIZATION_FAILED : part->err;
}

void group_call_run(struct group_call *call)
{
    scatter_run(call->scatter);
}

bool group_call_may_topic_id(const struct request *request, enum operation operation, struct uuid topic_id)
{
    const struct image_topic *row = request->image == NULL ? NULL : image_topic_by_id(request->image, topic_id);

    return row == NULL || request_may(request, operation, ON_TOPIC, row->name);
}

bool group_call_may_describe_topic(const struct group_op *op, struct bytes topic)
{
    const struct group_call *call = op->user;

    return request_may(call->request, MAY_DESCRIBE, ON_TOPIC, topic);
}

bool group_call_may_describe_group(const struct group_op *op, struct bytes group_id)
{
    const struct group_call *call = op->user;

    return request_may(call->request, MAY_DESCRIBE, ON_GROUP, group_id);
}

struct group_call *group_call_of(const struct request *request)
{
    const struct scatter *scatter = request->user;

    return scatter->user;
}
