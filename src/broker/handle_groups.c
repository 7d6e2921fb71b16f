/* JoinGroup, SyncGroup, Heartbeat, LeaveGroup: one group each, decided by its coordinator. */
#include "broker/broker_internal.h"
#include "broker/group_call.h"
#include "broker/handlers.h"
#include "protocol/gen/heartbeat.h"
#include "protocol/gen/join_group.h"
#include "protocol/gen/leave_group.h"
#include "protocol/gen/sync_group.h"

/* One of them under way. */
struct membership {
    struct request *request;
    const void *in;
    struct group_part *part; /* NULL: refused here */
    union {
        struct join_group_response join;
        struct sync_group_response sync;
        struct heartbeat_response heartbeat;
        struct leave_group_response leave;
    } out;
};

/* Asks the coordinator where the principal may read the group, and names no more than may be; else, and where it cannot
 * be asked, answer is called with why. */
static void ask(struct request *request, const void *in, uint32_t entries, enum group_ask what, struct bytes group_id,
                void (*done)(struct group_call *call), void (*answer)(struct membership *membership, enum err err))
{
    struct membership *membership = arena_alloc(&request->arena, sizeof(*membership));
    struct group_call *call = NULL;

    if (membership == NULL)
        goto no_memory;
    membership->request = request;
    membership->in = in;
    if (!request_may(request, MAY_READ, ON_GROUP, group_id)) {
        answer(membership, ERR_GROUP_AUTHORIZATION_FAILED);
        return;
    }
    if (entries > GROUP_ENTRIES_MAX) {
        answer(membership, ERR_INVALID_REQUEST);
        return;
    }
    call = group_call_new(request, done, membership);
    if (call != NULL)
        membership->part = group_call_add(call, what, group_id, in, &membership->out);
    if (call == NULL || membership->part == NULL)
        goto no_memory;
    group_call_run(call);
    return;

no_memory:
    request_close(request, "no memory for the request");
}

/* ---- JoinGroup ---- */

static void answer_join(struct membership *membership, enum err err)
{
    struct request *request = membership->request;
    struct join_group_response *out = &membership->out.join;

    if (err != ERR_OK) {
        const struct join_group_request *in = membership->in;

        join_group_response_init(out);
        out->error_code = err_wire(err);
        out->member_id = err == ERR_GROUP_AUTHORIZATION_FAILED ? BYTES_LITERAL("") : in->member_id;
    }
    request_reply(request, out);
}

static void joined(struct group_call *call)
{
    struct membership *membership = call->user;

    answer_join(membership, membership->part->err);
}

void handle_join_group(struct request *request, void *body)
{
    const struct join_group_request *in = body;

    ask(request, in, in->protocols_count, ASK_JOIN_GROUP, in->group_id, joined, answer_join);
}

/* ---- SyncGroup ---- */

static void answer_sync(struct membership *membership, enum err err)
{
    struct sync_group_response *out = &membership->out.sync;

    if (err != ERR_OK) {
        sync_group_response_init(out);
        out->error_code = err_wire(err);
    }
    request_reply(membership->request, out);
}

static void synced(struct group_call *call)
{
    struct membership *membership = call->user;

    answer_sync(membership, membership->part->err);
}

void handle_sync_group(struct request *request, void *body)
{
    const struct sync_group_request *in = body;

    ask(request, in, in->assignments_count, ASK_SYNC_GROUP, in->group_id, synced, answer_sync);
}

/* ---- Heartbeat ---- */

static void answer_heartbeat(struct membership *membership, enum err err)
{
    struct heartbeat_response *out = &membership->out.heartbeat;

    if (err != ERR_OK) {
        heartbeat_response_init(out);
        /* The group is being loaded: its sessions begin anew then, and nobody needs to be troubled. */
        out->error_code = err == ERR_COORDINATOR_LOAD_IN_PROGRESS ? 0 : err_wire(err);
    }
    request_reply(membership->request, out);
}

static void beaten(struct group_call *call)
{
    struct membership *membership = call->user;

    answer_heartbeat(membership, membership->part->err);
}

void handle_heartbeat(struct request *request, void *body)
{
    const struct heartbeat_request *in = body;

    ask(request, in, 0, ASK_HEARTBEAT, in->group_id, beaten, answer_heartbeat);
}

/* ---- LeaveGroup ---- */

static void answer_leave(struct membership *membership, enum err err)
{
    struct leave_group_response *out = &membership->out.leave;

    if (err != ERR_OK) {
        leave_group_response_init(out);
        out->error_code = err_wire(err);
    }
    request_reply(membership->request, out);
}

static void left(struct group_call *call)
{
    struct membership *membership = call->user;

    answer_leave(membership, membership->part->err);
}

void handle_leave_group(struct request *request, void *body)
{
    const struct leave_group_request *in = body;

    ask(request, in, in->members_count, ASK_LEAVE_GROUP, in->group_id, left, answer_leave);
}
