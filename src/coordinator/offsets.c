#include "coordinator/offsets.h"

void offsets_commit(struct groups *groups, struct step *step, struct group_op *op)
{
    (void)groups;
    op->op.err = ERR_COORDINATOR_NOT_AVAILABLE;
    step_answer(step, &op->op);
}

void offsets_txn_commit(struct groups *groups, struct step *step, struct group_op *op)
{
    (void)groups;
    op->op.err = ERR_COORDINATOR_NOT_AVAILABLE;
    step_answer(step, &op->op);
}

void offsets_fetch(struct groups *groups, struct step *step, struct group_op *op)
{
    (void)groups;
    op->op.err = ERR_COORDINATOR_NOT_AVAILABLE;
    step_answer(step, &op->op);
}

void offsets_delete(struct groups *groups, struct step *step, struct group_op *op)
{
    (void)groups;
    op->op.err = ERR_COORDINATOR_NOT_AVAILABLE;
    step_answer(step, &op->op);
}

void offsets_delete_group(struct groups *groups, struct step *step, struct group_op *op)
{
    (void)groups;
    op->op.err = ERR_COORDINATOR_NOT_AVAILABLE;
    step_answer(step, &op->op);
}

enum err offsets_replay(struct groups *groups, int64_t producer_id, int16_t kind, struct bytes key, struct bytes value)
{
    (void)groups;
    (void)producer_id;
    (void)kind;
    (void)key;
    (void)value;
    return ERR_OK;
}

enum err offsets_replay_marker(struct groups *groups, int64_t producer_id, bool committed)
{
    (void)groups;
    (void)producer_id;
    (void)committed;
    return ERR_OK;
}

void offsets_expire(struct groups *groups, struct step *step)
{
    (void)groups;
    (void)step;
}

void offsets_topic_deleted(struct groups *groups, struct step *step, const struct group_topic *topic)
{
    (void)groups;
    (void)step;
    (void)topic;
}

void offsets_free(struct group *group)
{
    (void)group;
}

bool offsets_is_empty(const struct group *group)
{
    (void)group;
    return true;
}

void offsets_unload(struct groups *groups)
{
    (void)groups;
}
