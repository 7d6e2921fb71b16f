#include "coordinator/group_history.h"

void group_history_begin(struct group *group, const struct step *step, enum group_cause cause, struct bytes member_id,
                         struct bytes client_id, struct bytes client_host, struct bytes reason)
{
    (void)group;
    (void)step;
    (void)cause;
    (void)member_id;
    (void)client_id;
    (void)client_host;
    (void)reason;
}

void group_history_end(struct group *group, const struct step *step, int32_t generation, uint32_t members,
                       int32_t moved)
{
    (void)group;
    (void)step;
    (void)generation;
    (void)members;
    (void)moved;
}

void group_history_free(struct group *group)
{
    (void)group;
}

const char *group_cause_text(enum group_cause cause)
{
    (void)cause;
    return "";
}

void group_history_ask(struct groups *groups, struct step *step, struct group_op *op)
{
    (void)groups;
    op->op.err = ERR_COORDINATOR_NOT_AVAILABLE;
    step_answer(step, &op->op);
}
