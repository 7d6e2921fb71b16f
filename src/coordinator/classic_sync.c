#include "coordinator/classic_internal.h"
#include "coordinator/consumer.h"
#include "coordinator/group_versions.h"
#include "protocol/gen/sync_group.h"

static void refuse(struct step *step, struct group_op *op, enum err err)
{
    struct sync_group_response *out = op->response;

    sync_group_response_init(out);
    out->assignment = BYTES_LITERAL("");
    out->error_code = err_wire(err);
    step_answer(step, &op->op);
}

static void answer(struct classic_member *member, struct step *step, struct group_op *op)
{
    struct classic_group *classic = member->classic;
    struct sync_group_response *out = op->response;
    enum err err = ERR_OK;

    sync_group_response_init(out);
    err = arena_copy(op->arena, classic->protocol_type, &out->protocol_type);
    if (err == ERR_OK)
        err = arena_copy(op->arena, classic->protocol, &out->protocol_name);
    if (err == ERR_OK)
        err = arena_copy(op->arena, member->assignment, &out->assignment);
    if (out->assignment.data == NULL)
        out->assignment = BYTES_LITERAL("");
    op->op.err = err;
    step_answer(step, &op->op);
}

bool classic_answer_sync(struct classic_member *member, struct step *step, enum err err)
{
    struct group_op *op = member->syncing;

    if (op == NULL)
        return false;
    member->syncing = NULL;
    if (err == ERR_OK)
        answer(member, step, op);
    else
        refuse(step, op, err);
    return true;
}

void classic_synced(struct classic_member *member)
{
    struct classic_group *classic = member->classic;

    if (!member->sync_pending)
        return;
    member->sync_pending = false;
    if (--classic->sync_pending_count == 0)
        group_timer_stop(classic->group->groups, &classic->sync_timer);
}

/* All who wait are told, and their sessions run again. */
static void answer_all(struct classic_group *classic, struct step *step, enum err err)
{
    uint32_t cursor = 0;
    void *value = NULL;

    while (map_next(&classic->members, &cursor, NULL, &value)) {
        struct classic_member *member = value;

        if (classic_answer_sync(member, step, err))
            classic_session_start(member, step, member->session_timeout_ms);
    }
}

/* The leader has decided; members that it forgot are given nothing, those that it invented are not there. */
static void take_assignments(struct classic_group *classic, struct step *step, const struct sync_group_request *in)
{
    uint32_t cursor = 0;
    void *value = NULL;
    struct rebalance_cause cause = {.cause = CAUSE_FAILED};
    enum err err = ERR_OK;

    while (map_next(&classic->members, &cursor, NULL, &value))
        ((struct classic_member *)value)->given = BYTES_LITERAL("");
    for (uint32_t i = 0; i < in->assignments_count; i++) {
        struct classic_member *member = classic_member_find(classic, in->assignments[i].member_id);

        if (member != NULL)
            member->given = in->assignments[i].assignment;
    }
    err = classic_write(classic, step, false);
    if (err == ERR_MESSAGE_TOO_LARGE) {
        answer_all(classic, step, ERR_UNKNOWN_SERVER_ERROR);
        classic_prepare(classic, step, &cause);
        return;
    }
    if (err != ERR_OK)
        return; /* the state is loaded anew; who waits is answered then */
    group_history_end(classic->group, step, classic->generation, classic_member_count(classic),
                      classic_note_owners(classic));
    answer_all(classic, step, ERR_OK);
}

static bool differs(struct bytes asked, struct bytes ours)
{
    return asked.data != NULL && ours.data != NULL && !bytes_equal(asked, ours);
}

static enum err check(const struct classic_group *classic, const struct sync_group_request *in,
                      struct classic_member **member)
{
    enum err err = classic_member_check(classic, in->member_id, in->group_instance_id, member);

    if (err != ERR_OK)
        return err;
    if (in->generation_id != classic->generation)
        return ERR_ILLEGAL_GENERATION;
    if (differs(in->protocol_type, classic->protocol_type) || differs(in->protocol_name, classic->protocol))
        return ERR_INCONSISTENT_GROUP_PROTOCOL;
    if (classic->state == CLASSIC_PREPARING)
        return ERR_REBALANCE_IN_PROGRESS;
    return ERR_OK;
}

void classic_sync(struct groups *groups, struct step *step, struct group_op *op)
{
    const struct sync_group_request *in = op->request;
    struct group *group = group_find(groups, op->group_id);
    struct classic_group *classic = NULL;
    struct classic_member *member = NULL;
    enum err err = ERR_OK;

    if (op->version >= SYNC_PROTOCOL_SINCE && (in->protocol_type.data == NULL || in->protocol_name.data == NULL)) {
        refuse(step, op, ERR_INCONSISTENT_GROUP_PROTOCOL);
        return;
    }
    if (op->group_id.size == 0) {
        refuse(step, op, ERR_INVALID_GROUP_ID);
        return;
    }
    if (in->assignments_count > CLASSIC_NAMED_MAX) {
        refuse(step, op, ERR_INVALID_REQUEST);
        return;
    }
    if (group != NULL && group->kind == GROUP_CONSUMER && consumer_has_members(group->consumer)) {
        consumer_classic_sync(group, step, op);
        return;
    }
    classic = group == NULL ? NULL : group->classic;
    err = classic == NULL || classic->state == CLASSIC_EMPTY ? ERR_UNKNOWN_MEMBER_ID : check(classic, in, &member);
    if (err != ERR_OK) {
        refuse(step, op, err);
        return;
    }
    classic_synced(member);
    if (classic->state == CLASSIC_STABLE) {
        answer(member, step, op);
        return;
    }
    /* A second request of the same member takes the place of one that nobody listens to any more. */
    (void)classic_answer_sync(member, step, ERR_REBALANCE_IN_PROGRESS);
    member->syncing = op;
    if (classic->leader == member)
        take_assignments(classic, step, in);
}
