#include "coordinator/consumer.h"

void consumer_heartbeat(struct groups *groups, struct step *step, struct group_op *op)
{
    (void)groups;
    op->op.err = ERR_COORDINATOR_NOT_AVAILABLE;
    step_answer(step, &op->op);
}

void consumer_describe(struct groups *groups, struct step *step, struct group_op *op)
{
    (void)groups;
    op->op.err = ERR_COORDINATOR_NOT_AVAILABLE;
    step_answer(step, &op->op);
}

void consumer_classic_join(struct group *group, struct step *step, struct group_op *op)
{
    (void)group;
    op->op.err = ERR_COORDINATOR_NOT_AVAILABLE;
    step_answer(step, &op->op);
}

void consumer_classic_sync(struct group *group, struct step *step, struct group_op *op)
{
    (void)group;
    op->op.err = ERR_COORDINATOR_NOT_AVAILABLE;
    step_answer(step, &op->op);
}

void consumer_classic_heartbeat(struct group *group, struct step *step, struct group_op *op)
{
    (void)group;
    op->op.err = ERR_COORDINATOR_NOT_AVAILABLE;
    step_answer(step, &op->op);
}

void consumer_classic_leave(struct group *group, struct step *step, struct group_op *op)
{
    (void)group;
    op->op.err = ERR_COORDINATOR_NOT_AVAILABLE;
    step_answer(step, &op->op);
}

enum err consumer_replay(struct groups *groups, int16_t kind, struct bytes key, struct bytes value)
{
    (void)groups;
    (void)kind;
    (void)key;
    (void)value;
    return ERR_OK;
}

void consumer_loaded(struct group *group, struct step *step)
{
    (void)group;
    (void)step;
}

void consumer_unload(struct group *group, struct step *step, enum err why)
{
    (void)group;
    (void)step;
    (void)why;
}

enum err consumer_write_tombstones(struct group *group, struct step *step)
{
    (void)group;
    (void)step;
    return ERR_OK;
}

void consumer_topics_changed(struct group *group, struct step *step)
{
    (void)group;
    (void)step;
}

struct bytes consumer_state_name(const struct consumer_group *consumer)
{
    (void)consumer;
    return BYTES_LITERAL("Empty");
}

bool consumer_has_members(const struct consumer_group *consumer)
{
    (void)consumer;
    return false;
}

bool consumer_is_settled(const struct consumer_group *consumer)
{
    (void)consumer;
    return true;
}

bool consumer_subscribes(const struct consumer_group *consumer, struct bytes topic)
{
    (void)consumer;
    (void)topic;
    return false;
}

enum err consumer_may_commit(struct group *group, struct step *step, struct bytes member_id, struct bytes instance_id,
                             int32_t epoch, int16_t version, bool transactional)
{
    (void)group;
    (void)step;
    (void)member_id;
    (void)instance_id;
    (void)epoch;
    (void)version;
    (void)transactional;
    return ERR_OK;
}

enum err consumer_may_fetch(const struct group *group, struct bytes member_id, int32_t epoch)
{
    (void)group;
    (void)member_id;
    (void)epoch;
    return ERR_OK;
}
