/* ListGroups, DescribeGroups, DeleteGroups: of all groups, or of several, each asked of its coordinator. */
#include "base/map.h"
#include "broker/broker_internal.h"
#include "broker/group_call.h"
#include "broker/handlers.h"
#include "coordinator/group_filters.h"
#include "coordinator/group_list.h"
#include "protocol/gen/delete_groups.h"
#include "protocol/gen/describe_groups.h"

static const struct bytes cluster_name = {(const uint8_t *)"kafka-cluster", sizeof("kafka-cluster") - 1};

/* A question about several groups under way; out and parts by entry of the question. */
struct inquiry {
    struct request *request;
    const void *in;
    struct group_part **parts;
    uint32_t count;
    union {
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

/* One under way. What the coordinators tell is as much as a tenth of what all groups take, and is counted only when it
 * is complete: so of the connections of a shard one is answered at a time, the others wait for it. */
struct listing {
    struct request *request;
    const struct list_groups_request *in;
    struct list_node node; /* in those that wait */
    struct group_part **parts;
    uint32_t count;
    struct list_groups_response out;
};

static struct listing *listing_of(const struct request *request)
{
    return group_call_of(request)->user;
}

static enum err list_error(const struct listing *listing)
{
    for (uint32_t i = 0; i < listing->count; i++) {
        enum err err = listing->parts[i]->err;

        if (err != ERR_OK && err != ERR_NOT_COORDINATOR) /* that one's groups are told of elsewhere */
            return err;
    }
    return ERR_OK;
}

static void *put_lists_together(struct request *request)
{
    struct listing *listing = listing_of(request);
    struct list_groups_response *out = &listing->out;
    uint32_t count = 0;

    list_groups_response_init(out);
    out->error_code = err_wire(list_error(listing));
    for (uint32_t i = 0; i < listing->count && out->error_code == 0; i++)
        if (listing->parts[i]->err == ERR_OK)
            count += ((const struct group_list_reply *)listing->parts[i]->ask.response)->count;
    out->groups = request_array(request, count, sizeof(*out->groups));
    if (out->groups == NULL)
        return NULL;
    for (uint32_t i = 0; i < listing->count && count > 0; i++) {
        const struct group_list_reply *reply = listing->parts[i]->ask.response;

        if (listing->parts[i]->err != ERR_OK)
            continue;
        group_list_copy(reply, &out->groups[out->groups_count]);
        out->groups_count += reply->count;
    }
    return out;
}

static void listed(struct group_call *call)
{
    group_call_reply(call, put_lists_together);
}

/* Asks every coordinator of this node; false without memory. */
static bool list(struct listing *listing)
{
    struct request *request = listing->request;
    struct group_call *call = group_call_new(request, listed, listing);
    uint32_t count = call == NULL || call->topic == NULL ? 0 : call->topic->partition_count;
    struct group_list_reply *replies = request_array(request, count, sizeof(*replies));
    bool all = request_may(request, MAY_DESCRIBE, ON_CLUSTER, cluster_name);

    listing->parts = request_array(request, count, sizeof(struct group_part *));
    if (call == NULL || replies == NULL || listing->parts == NULL)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        struct group_part *part = NULL;

        if (call->topic->partitions[i]->leader != request->broker->node_id)
            continue;
        part = group_call_add_at(call, ASK_LIST_GROUPS, (int32_t)i, listing->in, &replies[i]);
        if (part == NULL)
            return false;
        part->ask.may_describe_group = all ? NULL : group_call_may_describe_group;
        listing->parts[listing->count++] = part;
    }
    group_call_run(call);
    return true;
}

static void list_made(struct request *request)
{
    struct shard_groups *groups = &request->shard->groups;

    groups->lists = false;
    if (groups->list_deferred || list_is_empty(&groups->lists_waiting))
        return;
    groups->list_deferred = true;
    loop_defer(request->shard->loop, &groups->list_next);
}

static void begin_list(struct listing *listing)
{
    struct request *request = listing->request;

    request->shard->groups.lists = true;
    request->made = list_made;
    if (!list(listing))
        no_memory(request);
}

static void begin_next_list(struct loop_task *task)
{
    struct shard_groups *groups = LIST_ENTRY(task, struct shard_groups, list_next);
    struct list_node *node = groups->lists ? NULL : list_take_first(&groups->lists_waiting);

    groups->list_deferred = false;
    if (node == NULL) /* another came first, or whoever waited has gone */
        return;
    LIST_ENTRY(node, struct listing, node)->request->abandoned = NULL;
    begin_list(LIST_ENTRY(node, struct listing, node));
}

static void stop_waiting(struct request *request)
{
    list_remove(&((struct listing *)request->user)->node);
    request_close(request, "the client has gone");
}

void handle_list_groups(struct request *request, void *body)
{
    struct shard_groups *groups = &request->shard->groups;
    struct listing *listing = arena_alloc(&request->arena, sizeof(*listing));

    if (listing == NULL) {
        no_memory(request);
        return;
    }
    group_filters_reduce(body); /* before every coordinator looks through them */
    listing->request = request;
    listing->in = body;
    list_node_init(&listing->node);
    if (!groups->lists && list_is_empty(&groups->lists_waiting)) {
        begin_list(listing);
        return;
    }
    groups->list_next.run = begin_next_list;
    request->user = listing;
    request->abandoned = stop_waiting;
    list_add_last(&groups->lists_waiting, &listing->node);
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

static void *describe_all(struct request *request)
{
    struct inquiry *inquiry = group_call_of(request)->user;

    for (uint32_t i = 0; i < inquiry->count; i++)
        describe_one(inquiry, i);
    return &inquiry->out.describe;
}

static void described(struct group_call *call)
{
    group_call_reply(call, describe_all);
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

static void *tell_deleted(struct request *request)
{
    struct inquiry *inquiry = group_call_of(request)->user;
    const struct bytes *group_ids = inquiry->in;
    struct delete_groups_response *out = &inquiry->out.deletion;

    for (uint32_t i = 0; i < inquiry->count; i++) {
        enum err err = group_part_err(inquiry->parts[i]);

        if (err == ERR_OK)
            continue;
        deletable_group_result_init(&out->results[i]);
        out->results[i].group_id = group_ids[i];
        out->results[i].error_code = err_wire(err);
    }
    return out;
}

static void deleted(struct group_call *call)
{
    group_call_reply(call, tell_deleted);
}

/* Each of them once: of two answers about one group the second would say that there is none. NULL without memory. */
static struct bytes *distinct(struct request *request, const struct delete_groups_request *in, uint32_t *count)
{
    struct bytes *to = request_array(request, in->groups_names_count, sizeof(*to));
    struct map seen;
    enum err err = ERR_OK;

    *count = 0;
    map_init(&seen, rng_u64(request->broker->env.rng), MAP_COUNT_MAX);
    for (uint32_t i = 0; to != NULL && i < in->groups_names_count && err != ERR_NOMEM; i++) {
        err = map_insert(&seen, in->groups_names[i], to);
        if (err == ERR_OK)
            to[(*count)++] = in->groups_names[i];
    }
    map_deinit(&seen);
    return err == ERR_NOMEM ? NULL : to;
}

void handle_delete_groups(struct request *request, void *body)
{
    uint32_t count = 0;
    struct bytes *group_ids = distinct(request, body, &count);
    struct inquiry *inquiry = group_ids == NULL ? NULL : inquiry_new(request, group_ids, count);
    struct delete_groups_response *out = inquiry == NULL ? NULL : &inquiry->out.deletion;

    if (out == NULL)
        goto no_memory;
    delete_groups_response_init(out);
    out->results = request_array(request, count, sizeof(*out->results));
    if (out->results == NULL)
        goto no_memory;
    out->results_count = count;
    if (inquire(inquiry, deleted, ASK_DELETE_GROUP, MAY_DELETE, group_ids, out->results, sizeof(*out->results)))
        return;

no_memory:
    no_memory(request);
}
