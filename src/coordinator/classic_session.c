#include "base/clock.h"
#include "coordinator/classic_internal.h"
#include "coordinator/consumer.h"
#include "coordinator/group_versions.h"
#include "protocol/gen/heartbeat.h"
#include "protocol/gen/leave_group.h"

static struct rebalance_cause cause_of(enum group_cause cause, const struct classic_member *member, struct bytes reason)
{
    return (struct rebalance_cause){.cause = cause,
                                    .member_id = member->id,
                                    .client_id = member->client_id,
                                    .client_host = member->client_host,
                                    .reason = reason};
}

/* ---- silence ---- */

/* Whoever waits for an answer is alive, but for one that came and has never had any: it may be long gone. */
static bool is_alive(const struct classic_member *member)
{
    return !member->is_new && (member->joining != NULL || member->syncing != NULL);
}

static void session_fired(struct loop_timer *timer)
{
    struct classic_member *member = LIST_ENTRY(timer, struct classic_member, session);
    struct classic_group *classic = member->classic;
    struct step *step = classic->group->groups->step;
    struct rebalance_cause cause = cause_of(CAUSE_SESSION, member, (struct bytes){0});

    if (is_alive(member))
        return; /* its session starts with the answer */
    group_history_begin(classic->group, step, &cause);
    classic_drop_member(member, step);
    cause = (struct rebalance_cause){.cause = CAUSE_SESSION};
    classic_after_removal(classic, step, &cause);
}

void classic_session_start(struct classic_member *member, struct step *step, int32_t timeout_ms)
{
    member->session.fired = session_fired;
    group_timer_start(member->classic->group->groups, &member->session, step->now_ns + timeout_ms * NS_PER_MS);
}

void classic_drop_member(struct classic_member *member, struct step *step)
{
    classic_refuse_join(member, step, ERR_UNKNOWN_MEMBER_ID, BYTES_LITERAL(""));
    (void)classic_answer_sync(member, step, ERR_UNKNOWN_MEMBER_ID);
    classic_member_remove(member);
}

/* ---- Heartbeat ---- */

static enum err beat(struct classic_group *classic, struct step *step, const struct heartbeat_request *in)
{
    struct classic_member *member = NULL;
    enum err err = classic_member_check(classic, in->member_id, in->group_instance_id, &member);

    if (err != ERR_OK)
        return err;
    if (in->generation_id != classic->generation)
        return ERR_ILLEGAL_GENERATION;
    classic_session_start(member, step, member->session_timeout_ms);
    return classic->state == CLASSIC_PREPARING ? ERR_REBALANCE_IN_PROGRESS : ERR_OK;
}

void classic_heartbeat(struct groups *groups, struct step *step, struct group_op *op)
{
    struct group *group = group_find(groups, op->group_id);
    struct heartbeat_response *out = op->response;
    enum err err = ERR_UNKNOWN_MEMBER_ID;

    if (group != NULL && group->kind == GROUP_CONSUMER) {
        consumer_classic_heartbeat(group, step, op);
        return;
    }
    heartbeat_response_init(out);
    if (op->group_id.size == 0)
        err = ERR_INVALID_GROUP_ID;
    else if (group != NULL)
        err = beat(group->classic, step, op->request);
    out->error_code = err_wire(err);
    step_answer(step, &op->op);
}

/* ---- LeaveGroup ---- */

/* removed: out, set where a member went (and not just an id that was handed out). */
static enum err leave(struct classic_group *classic, struct step *step, const struct member_identity *who,
                      enum group_cause *removed)
{
    bool by_instance = who->member_id.size == 0; /* an administrator: the member itself knows its id */
    struct classic_member *member = NULL;
    struct rebalance_cause cause = {0};
    enum err err = ERR_OK;

    if (classic == NULL)
        return ERR_UNKNOWN_MEMBER_ID;
    if (!by_instance && classic_pending_has(classic, who->member_id)) {
        classic_pending_remove(classic, who->member_id);
        return ERR_OK; /* no rebalance, as Apache Kafka begins one: for everybody else nothing has changed */
    }
    if (by_instance) {
        member =
            who->group_instance_id.data == NULL ? NULL : classic_member_find_instance(classic, who->group_instance_id);
        err = member == NULL ? ERR_UNKNOWN_MEMBER_ID : ERR_OK;
    } else {
        err = classic_member_check(classic, who->member_id, who->group_instance_id, &member);
    }
    if (err != ERR_OK)
        return err;
    cause = cause_of(by_instance ? CAUSE_REMOVED : CAUSE_LEFT, member, who->reason);
    *removed = cause.cause;
    group_history_begin(classic->group, step, &cause);
    classic_drop_member(member, step);
    return ERR_OK;
}

static enum err leave_all(struct classic_group *classic, struct step *step, struct group_op *op,
                          const struct member_identity *who, uint32_t count)
{
    struct leave_group_response *out = op->response;
    struct rebalance_cause cause = {.cause = CAUSE_COUNT};
    enum err err = ERR_OK;

    out->members = arena_array(op->arena, count, sizeof(*out->members));
    if (out->members == NULL)
        return ERR_NOMEM;
    for (uint32_t i = 0; i < count && err == ERR_OK; i++) {
        struct member_response *entry = &out->members[out->members_count++];
        enum err code = leave(classic, step, &who[i], &cause.cause);

        member_response_init(entry);
        entry->error_code = err_wire(code);
        err = arena_copy(op->arena, who[i].member_id, &entry->member_id);
        if (err == ERR_OK)
            err = arena_copy(op->arena, who[i].group_instance_id, &entry->group_instance_id);
    }
    if (classic != NULL && (cause.cause != CAUSE_COUNT || classic->state == CLASSIC_PREPARING))
        classic_rebalance(classic, step, &cause);
    return err;
}

void classic_leave(struct groups *groups, struct step *step, struct group_op *op)
{
    const struct leave_group_request *in = op->request;
    struct group *group = group_find(groups, op->group_id);
    struct leave_group_response *out = op->response;
    struct member_identity one;

    leave_group_response_init(out);
    if (op->group_id.size == 0)
        out->error_code = err_wire(ERR_INVALID_GROUP_ID);
    else if (in->members_count > CLASSIC_NAMED_MAX)
        out->error_code = err_wire(ERR_INVALID_REQUEST);
    if (out->error_code != 0) {
        step_answer(step, &op->op);
        return;
    }
    if (group != NULL && group->kind == GROUP_CONSUMER) {
        consumer_classic_leave(group, step, op);
        return;
    }
    if (op->version >= LEAVE_MEMBERS_SINCE) {
        op->op.err = leave_all(group == NULL ? NULL : group->classic, step, op, in->members, in->members_count);
    } else {
        member_identity_init(&one);
        one.member_id = in->member_id;
        op->op.err = leave_all(group == NULL ? NULL : group->classic, step, op, &one, 1);
        if (op->op.err == ERR_OK)
            out->error_code = out->members[0].error_code;
    }
    step_answer(step, &op->op);
}
