/* ConsumerGroupHeartbeat and ConsumerGroupDescribe (KIP-848). */
#include "broker/broker_internal.h"
#include "broker/group_call.h"
#include "broker/handlers.h"
#include "protocol/gen/consumer_group_describe.h"
#include "protocol/gen/consumer_group_heartbeat.h"

/* The protocol is served, and the cluster has agreed on it. Settings are each shard's own, and the same. */
static bool is_enabled(const struct request *request)
{
    return request->shard->groups.settings.consumer_enabled;
}

/* ---- ConsumerGroupHeartbeat ---- */

struct beat {
    struct request *request;
    struct group_part *part;
    struct consumer_group_heartbeat_response out;
};

static void refuse(struct beat *beat, enum err err)
{
    consumer_group_heartbeat_response_init(&beat->out);
    beat->out.error_code = err_wire(err);
    beat->out.error_message = bytes_of_text(err_text(err));
    request_reply(beat->request, &beat->out);
}

static void beaten(struct group_call *call)
{
    struct beat *beat = call->user;

    if (beat->part->err != ERR_OK)
        refuse(beat, beat->part->err);
    else
        request_reply(beat->request, &beat->out);
}

static enum err may_beat(const struct request *request, const struct consumer_group_heartbeat_request *in)
{
    if (!is_enabled(request))
        return ERR_UNSUPPORTED_VERSION;
    if (!request_may(request, MAY_READ, ON_GROUP, in->group_id))
        return ERR_GROUP_AUTHORIZATION_FAILED;
    for (uint32_t i = 0; i < in->subscribed_topic_names_count; i++)
        if (!request_may(request, MAY_DESCRIBE, ON_TOPIC, in->subscribed_topic_names[i]))
            return ERR_TOPIC_AUTHORIZATION_FAILED;
    return ERR_OK;
}

void handle_consumer_group_heartbeat(struct request *request, void *body)
{
    const struct consumer_group_heartbeat_request *in = body;
    struct beat *beat = arena_alloc(&request->arena, sizeof(*beat));
    enum err err = may_beat(request, in);
    struct group_call *call = NULL;

    if (beat == NULL)
        goto no_memory;
    beat->request = request;
    if (err != ERR_OK) {
        refuse(beat, err);
        return;
    }
    call = group_call_new(request, beaten, beat);
    if (call != NULL)
        beat->part = group_call_add(call, ASK_CONSUMER_HEARTBEAT, in->group_id, in, &beat->out);
    if (call == NULL || beat->part == NULL)
        goto no_memory;
    beat->part->ask.may_describe_topic = group_call_may_describe_topic;
    group_call_run(call);
    return;

no_memory:
    request_close(request, "no memory for the request");
}

/* ---- ConsumerGroupDescribe ---- */

struct description {
    struct request *request;
    const struct consumer_group_describe_request *in;
    struct group_part **parts; /* by group of the question; NULL: the protocol was not enabled when it was asked */
    struct consumer_group_describe_response out;
};

static bool may_see(const struct request *request, const struct consumer_group_describe_response_assignment *assignment)
{
    for (uint32_t i = 0; i < assignment->topic_partitions_count; i++)
        if (!request_may(request, MAY_DESCRIBE, ON_TOPIC, assignment->topic_partitions[i].topic_name))
            return false;
    return true;
}

/* Whoever may not see a topic sees no member of a group that has it. */
static void hide(const struct request *request, struct consumer_group_describe_response_described_group *group)
{
    for (uint32_t i = 0; i < group->members_count; i++) {
        if (may_see(request, &group->members[i].assignment) && may_see(request, &group->members[i].target_assignment))
            continue;
        group->error_code = err_wire(ERR_TOPIC_AUTHORIZATION_FAILED);
        group->error_message =
            BYTES_LITERAL("The group has described topic(s) that the client is not authorized to describe.");
        group->members_count = 0;
        return;
    }
}

static void fill(struct description *description, uint32_t i)
{
    const struct request *request = description->request;
    struct consumer_group_describe_response_described_group *out = &description->out.groups[i];
    struct bytes group_id = description->in->group_ids[i];
    enum err err = description->parts == NULL ? ERR_UNSUPPORTED_VERSION : group_part_err(description->parts[i]);

    if (err != ERR_OK) {
        consumer_group_describe_response_described_group_init(out);
        out->group_id = group_id;
        out->error_code = err_wire(err);
        return;
    }
    if (out->error_code != 0)
        return;
    if (description->in->include_authorized_operations)
        out->authorized_operations = request_operations(request, ON_GROUP, group_id);
    hide(request, out);
}

static void *fill_all(struct request *request)
{
    struct description *description = group_call_of(request)->user;

    for (uint32_t i = 0; i < description->out.groups_count; i++)
        fill(description, i);
    return &description->out;
}

static void described(struct group_call *call)
{
    group_call_reply(call, fill_all);
}

void handle_consumer_group_describe(struct request *request, void *body)
{
    const struct consumer_group_describe_request *in = body;
    struct description *description = arena_alloc(&request->arena, sizeof(*description));
    struct group_call *call = description == NULL ? NULL : group_call_new(request, described, description);
    struct consumer_group_describe_response *out = NULL;

    if (call == NULL)
        goto no_memory;
    description->request = request;
    description->in = in;
    out = &description->out;
    consumer_group_describe_response_init(out);
    out->groups = request_array(request, in->group_ids_count, sizeof(*out->groups));
    if (out->groups == NULL)
        goto no_memory;
    out->groups_count = in->group_ids_count;
    if (is_enabled(request)) { /* or it is answered at once */
        description->parts = group_call_add_each(call, ASK_CONSUMER_DESCRIBE, MAY_DESCRIBE, in->group_ids,
                                                 in->group_ids_count, out->groups, sizeof(*out->groups));
        if (description->parts == NULL)
            goto no_memory;
    }
    group_call_run(call);
    return;

no_memory:
    request_close(request, "no memory for the request");
}
