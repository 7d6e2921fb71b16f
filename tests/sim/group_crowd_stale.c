/* What is of a generation or an epoch that is over, as of a request that was long on its way; and, of a static member,
 * what a process says whose place another has taken. Where the coordinator must have forgotten the one that speaks,
 * whatever it lost when it died, it has to refuse (group_crowd_check.c sees to it). */
#include <stdio.h>

#include "sim/group_crowd_internal.h"

enum { LEAVE = -1, JOIN_VERSION = 9, SYNC_VERSION = 4, BEAT_VERSION = 4, LEAVE_VERSION = 5, SESSION_MS = 5000 };

/* Another process has the name of the view's. */
static bool is_replaced(const struct crowd_member *member)
{
    return member->instance[0] != '\0' && member->sure_id[0] != '\0' && strcmp(member->before.id, member->sure_id) != 0;
}

/* The same one is further on. */
static bool is_behind(const struct crowd_member *member)
{
    return strcmp(member->before.id, member->sure_id) == 0 && member->before.generation < member->sure_generation;
}

static bool must_fail(const struct crowd_member *member)
{
    return is_replaced(member) || is_behind(member);
}

/* A commit of the same process under an earlier epoch is taken in a group of the consumer protocol, where it has had
 * the partition since then (KIP-1251). */
static uint8_t commit_refused_by(const struct crowd_member *member)
{
    if (is_replaced(member) || (is_behind(member) && member->before.modern && member->before.released))
        return REFUSED_BY_ALL;
    return is_behind(member) ? REFUSED_BY_CLASSIC : 0;
}

static struct crowd_call *beat(struct crowd_member *member)
{
    struct crowd_call *call = crowd_call_new(member->crowd, member, ASK_HEARTBEAT, BEAT_VERSION, member->group);
    struct heartbeat_request *request = &call->request.beat;

    heartbeat_request_init(request);
    request->member_id = crowd_call_text(call, member->before.id);
    request->group_instance_id = crowd_instance(call, member);
    request->generation_id = member->before.generation;
    return call;
}

/* As a leader that gives nobody anything. */
static struct crowd_call *sync_generation(struct crowd_member *member)
{
    struct crowd_call *call = crowd_call_new(member->crowd, member, ASK_SYNC_GROUP, SYNC_VERSION, member->group);
    struct sync_group_request *request = &call->request.sync;

    sync_group_request_init(request);
    request->member_id = crowd_call_text(call, member->before.id);
    request->group_instance_id = crowd_instance(call, member);
    request->generation_id = member->before.generation;
    return call;
}

static struct crowd_call *join(struct crowd_member *member)
{
    struct crowd_call *call = crowd_call_new(member->crowd, member, ASK_JOIN_GROUP, JOIN_VERSION, member->group);
    struct join_group_request *request = &call->request.join;

    join_group_request_init(request);
    request->group_id = call->op.group_id;
    request->session_timeout_ms = SESSION_MS;
    request->rebalance_timeout_ms = SESSION_MS;
    request->member_id = crowd_call_text(call, member->before.id);
    request->group_instance_id = crowd_instance(call, member);
    request->protocol_type = BYTES_LITERAL("consumer");
    request->protocols = crowd_call_array(call, 1, sizeof(*request->protocols));
    request->protocols_count = 1;
    join_group_request_protocol_init(request->protocols);
    request->protocols->name = BYTES_LITERAL("range");
    request->protocols->metadata = crowd_subscription(member, call);
    return call;
}

static struct crowd_call *leave(struct crowd_member *member)
{
    struct crowd_call *call = crowd_call_new(member->crowd, member, ASK_LEAVE_GROUP, LEAVE_VERSION, member->group);
    struct leave_group_request *request = &call->request.leave;

    leave_group_request_init(request);
    request->members = crowd_call_array(call, 1, sizeof(*request->members));
    request->members_count = 1;
    member_identity_init(request->members);
    request->members->member_id = crowd_call_text(call, member->before.id);
    request->members->group_instance_id = crowd_instance(call, member);
    return call;
}

static struct crowd_call *consumer_beat(struct crowd_member *member, int32_t epoch)
{
    struct crowd_call *call = crowd_consumer_beat(member, epoch);

    call->request.consumer_beat.member_id = crowd_call_text(call, member->before.id);
    return call;
}

static struct crowd_call *txn_commit(struct crowd_member *member)
{
    int64_t producer_id = group_coordinator_begin_transaction(&member->crowd->coordinator);

    crowd_abort_later(member->crowd, producer_id);
    return crowd_txn_commit_of(member, &member->before, producer_id);
}

/* What does harm where it is taken is said only where it must be refused. */
static struct crowd_call *classic_call(struct crowd_member *member, uint64_t what, uint8_t *refused_by)
{
    if (what == 0 && must_fail(member))
        return sync_generation(member);
    if (what == 1 && is_replaced(member))
        return join(member);
    if (what == 2 && is_replaced(member))
        return leave(member);
    if (what <= 3)
        return beat(member);
    *refused_by = commit_refused_by(member);
    return what == 4 ? txn_commit(member) : crowd_commit_of(member, &member->before);
}

static struct crowd_call *consumer_call(struct crowd_member *member, uint64_t what, uint8_t *refused_by)
{
    if (what == 0 && is_replaced(member))
        return consumer_beat(member, LEAVE);
    if (what <= 2 && member->before.generation > 0)
        return consumer_beat(member, member->before.generation);
    if (what == 3) {
        *refused_by &= REFUSED_BY_CONSUMER; /* in another kind of group nobody is asked who they are */
        return crowd_fetch_of(member, &member->before);
    }
    *refused_by = commit_refused_by(member);
    return what == 4 ? txn_commit(member) : crowd_commit_of(member, &member->before);
}

void crowd_say_stale(struct crowd_member *member)
{
    uint64_t what = sim_draw(crowd_sim(member), 8);
    uint8_t refused_by = must_fail(member) ? REFUSED_BY_ALL : 0;
    struct crowd_call *call =
        member->before.modern ? consumer_call(member, what, &refused_by) : classic_call(member, what, &refused_by);

    call->stale = true;
    call->refused_by = refused_by;
    crowd_ask(member, call);
}
