#include "coordinator/classic.h"

void classic_join(struct groups *groups, struct step *step, struct group_op *op)
{
    (void)groups;
    op->op.err = ERR_COORDINATOR_NOT_AVAILABLE;
    step_answer(step, &op->op);
}

void classic_sync(struct groups *groups, struct step *step, struct group_op *op)
{
    (void)groups;
    op->op.err = ERR_COORDINATOR_NOT_AVAILABLE;
    step_answer(step, &op->op);
}

void classic_heartbeat(struct groups *groups, struct step *step, struct group_op *op)
{
    (void)groups;
    op->op.err = ERR_COORDINATOR_NOT_AVAILABLE;
    step_answer(step, &op->op);
}

void classic_leave(struct groups *groups, struct step *step, struct group_op *op)
{
    (void)groups;
    op->op.err = ERR_COORDINATOR_NOT_AVAILABLE;
    step_answer(step, &op->op);
}

void classic_describe(struct groups *groups, struct step *step, struct group_op *op)
{
    (void)groups;
    op->op.err = ERR_COORDINATOR_NOT_AVAILABLE;
    step_answer(step, &op->op);
}

enum err classic_replay(struct groups *groups, struct bytes key, struct bytes value)
{
    (void)groups;
    (void)key;
    (void)value;
    return ERR_OK;
}

void classic_loaded(struct group *group, struct step *step)
{
    (void)group;
    (void)step;
}

void classic_unload(struct group *group, struct step *step, enum err why)
{
    (void)group;
    (void)step;
    (void)why;
}

enum err classic_write_tombstone(struct group *group, struct step *step)
{
    (void)group;
    (void)step;
    return ERR_OK;
}

struct bytes classic_state_name(const struct classic_group *classic)
{
    (void)classic;
    return BYTES_LITERAL("Empty");
}

struct bytes classic_protocol_type(const struct classic_group *classic)
{
    (void)classic;
    return BYTES_LITERAL("");
}

bool classic_has_members(const struct classic_group *classic)
{
    (void)classic;
    return false;
}

bool classic_is_settled(const struct classic_group *classic)
{
    (void)classic;
    return true;
}

bool classic_subscribes(const struct classic_group *classic, struct bytes topic, bool *known)
{
    (void)classic;
    (void)topic;
    (void)known;
    return false;
}

int64_t classic_state_since_ms(const struct classic_group *classic)
{
    (void)classic;
    return -1;
}

enum err classic_may_commit(struct group *group, struct step *step, struct bytes member_id, struct bytes instance_id,
                            int32_t generation, bool transactional)
{
    (void)group;
    (void)step;
    (void)member_id;
    (void)instance_id;
    (void)generation;
    (void)transactional;
    return ERR_OK;
}
