/* ListGroups, DescribeGroups, DeleteGroups: of all groups, or of several, each asked of its coordinator. */
#include "broker/broker_internal.h"
#include "broker/group_call.h"
#include "broker/handlers.h"
#include "protocol/gen/delete_groups.h"
#include "protocol/gen/describe_groups.h"
#include "protocol/gen/list_groups.h"

static const struct bytes cluster_name = {(const uint8_t *)"kafka-cluster", sizeof("kafka-cluster") - 1};

/* A question about several groups under way; out and parts by entry of the question. */
struct inquiry {
    struct request *request;
    const void *in;
    struct group_part **parts;
    uint32_t count;
    union {
        struct list_groups_response list;
        struct describe_groups_response describe;
        struct delete_groups_response deletion;
    } out;
};

static void no_memory(struct request *request)
{
    request_close(request, "no memory for the request");
}

static struct inquiry *inquiry_new(struct request *request, const void *in, uint32_t count)
{
    struct inquiry *inquiry = arena_alloc(&request->arena, sizeof(*inquiry));

    if (inquiry == NULL)
        return NULL;
    inquiry->request = request;
    inquiry->in = in;
    inquiry->count = count;
    return inquiry;
}

/* Asks of each of them; false without memory. responses as in group_call_add_each. */
static bool inquire(struct inquiry *inquiry, void (*done)(struct group_call *call), enum group_ask ask,
                    enum operation operation, const struct bytes *group_ids, void *responses, size_t response_bytes)
{
    struct group_call *call = group_call_new(inquiry->request, done, inquiry);

    if (call != NULL)
        inquiry->parts =
            group_call_add_each(call, ask, operation, group_ids, inquiry->count, responses, response_bytes);
    if (inquiry->parts == NULL)
        return false;
    group_call_run(call);
    return true;
}

/* ---- ListGroups ---- */

static enum err list_error(const struct inquiry *inquiry)
{
    for (uint32_t i = 0; i < inquiry->count; i++) {
        enum err err = inquiry->parts[i]->err;

        if (err != ERR_OK && err != ERR_NOT_COORDINATOR) /* that one's groups are told of elsewhere */
            return err;
    }
    return ERR_OK;
}

static void listed(struct group_call *call)
{
    struct inquiry *inquiry = call->user;
    struct request *request = inquiry->request;
    struct list_groups_response *out = &inquiry->out.list;
    const struct list_groups_response *of = NULL;
    bool all = request_may(request, MAY_DESCRIBE, ON_CLUSTER, cluster_name);
    uint32_t count = 0;

    list_groups_response_init(out);
    out->error_code = err_wire(list_error(inquiry));
    for (uint32_t i = 0; i < inquiry->count; i++) {
        of = inquiry->parts[i]->ask.response;
        count += inquiry->parts[i]->err == ERR_OK ? of->groups_count : 0;
    }
    if (out->error_code != 0)
        count = 0;
    out->groups = request_array(request, count, sizeof(*out->groups));
    if (out->groups == NULL) {
        no_memory(request);
        return;
    }
    for (uint32_t i = 0; i < inquiry->count && count > 0; i++) {
        of = inquiry->parts[i]->ask.response;
        for (uint32_t j = 0; inquiry->parts[i]->err == ERR_OK && j < of->groups_count; j++)
            if (all || request_may(request, MAY_DESCRIBE, ON_GROUP, of->groups[j].group_id))
                out->groups[out->groups_count++] = of->groups[j];
    }
    request_reply(request, out);
}

/* Every coordinator of this node is asked. */
void handle_list_groups(struct request *request, void *body)
{
    struct group_call *call = group_call_new(request, listed, NULL);
    uint32_t count = call == NULL || call->topic == NULL ? 0 : call->topic->partition_count;
    struct inquiry *inquiry = inquiry_new(request, body, count);
    struct list_groups_response *responses = request_array(request, count, sizeof(*responses));

    if (call == NULL || inquiry == NULL || responses == NULL)
        goto no_memory;
    call->user = inquiry;
    inquiry->parts = request_array(request, count, sizeof(struct group_part *));
    if (inquiry->parts == NULL)
        goto no_memory;
    inquiry->count = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (call->topic->partitions[i]->leader != request->broker->node_id)
            continue;
        inquiry->parts[inquiry->count] = group_call_add_at(call, ASK_LIST_GROUPS, (int32_t)i, body, &responses[i]);
        if (inquiry->parts[inquiry->count++] == NULL)
            goto no_memory;
    }
    group_call_run(call);
    return;

no_memory:
    no_memory(request);
}

/* ---- DescribeGroups ---- */

static void describe_one(struct inquiry *inquiry, uint32_t i)
{
    struct request *request = inquiry->request;
    const struct describe_groups_request *in = inquiry->in;
    struct describe_groups_response_described_group *out = &inquiry->out.describe.groups[i];
    enum err err = group_part_err(inquiry->parts[i]);

    if (err != ERR_OK) {
        describe_groups_response_described_group_init(out);
        out->group_id = in->groups[i];
        out->error_code = err_wire(err);
    }
    if (in->include_authorized_operations && out->error_code == 0)
        out->authorized_operations = request_operations(request, ON_GROUP, in->groups[i]);
}

static void described(struct group_call *call)
{
    struct inquiry *inquiry = call->user;

    for (uint32_t i = 0; i < inquiry->count; i++)
        describe_one(inquiry, i);
    request_reply(inquiry->request, &inquiry->out.describe);
}

void handle_describe_groups(struct request *request, void *body)
{
    const struct describe_groups_request *in = body;
    struct inquiry *inquiry = inquiry_new(request, in, in->groups_count);
    struct describe_groups_response *out = inquiry == NULL ? NULL : &inquiry->out.describe;

    if (out == NULL)
        goto no_memory;
    describe_groups_response_init(out);
    out->groups = request_array(request, in->groups_count, sizeof(*out->groups));
    if (out->groups == NULL)
        goto no_memory;
    out->groups_count = in->groups_count;
    if (inquire(inquiry, described, ASK_DESCRIBE_GROUP, MAY_DESCRIBE, in->groups, out->groups, sizeof(*out->groups)))
        return;

no_memory:
    no_memory(request);
}

/* ---- DeleteGroups ---- */

static void deleted(struct group_call *call)
{
    struct inquiry *inquiry = call->user;
    const struct delete_groups_request *in = inquiry->in;
    struct delete_groups_response *out = &inquiry->out.deletion;

    for (uint32_t i = 0; i < inquiry->count; i++) {
        enum err err = group_part_err(inquiry->parts[i]);

        if (err == ERR_OK)
            continue;
        deletable_group_result_init(&out->results[i]);
        out->results[i].group_id = in->groups_names[i];
        out->results[i].error_code = err_wire(err);
    }
    request_reply(inquiry->request, out);
}

void handle_delete_groups(struct request *request, void *body)
{
    const struct delete_groups_request *in = body;
    struct inquiry *inquiry = inquiry_new(request, in, in->groups_names_count);
    struct delete_groups_response *out = inquiry == NULL ? NULL : &inquiry->out.deletion;

    if (out == NULL)
        goto no_memory;
    delete_groups_response_init(out);
    out->results = request_array(request, in->groups_names_count, sizeof(*out->results));
    if (out->results == NULL)
        goto no_memory;
    out->results_count = in->groups_names_count;
    if (inquire(inquiry, deleted, ASK_DELETE_GROUP, MAY_DELETE, in->groups_names, out->results, sizeof(*out->results)))
        return;

no_memory:
    no_memory(request);
}
