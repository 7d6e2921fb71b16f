#include "coordinator/group_list.h"

#include <string.h>

#include "coordinator/classic.h"
#include "coordinator/consumer.h"

enum { MEMBERS_A_LOOK = 8 }; /* of a group whose state is looked up among its members */

static bool passes(struct bytes word, const struct bytes *filter, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (bytes_equal_any_case(word, filter[i]))
            return true;
    return count == 0;
}

static struct bytes kind_name(const struct group *group)
{
    return group->kind == GROUP_CONSUMER ? BYTES_LITERAL("consumer") : BYTES_LITERAL("classic");
}

static struct bytes protocol_type(const struct group *group)
{
    return group->kind == GROUP_CONSUMER ? BYTES_LITERAL("consumer") : classic_protocol_type(group->classic);
}

/* Room for one more; NULL without memory. */
static struct listed_group *next_entry(struct group_op *op)
{
    struct group_list_reply *out = op->response;

    if (out->last == NULL || out->last->count == GROUP_LIST_PIECE) {
        struct group_list_piece *made = arena_alloc(op->arena, sizeof(*made));

        if (made == NULL)
            return NULL;
        if (out->last == NULL)
            out->first = made;
        else
            out->last->next = made;
        out->last = made;
    }
    return &out->last->groups[out->last->count];
}

static enum err tell(struct group_op *op, const struct group *group)
{
    const struct list_groups_request *in = op->request;
    struct group_list_reply *out = op->response;
    struct listed_group *entry = next_entry(op);
    enum err err = ERR_OK;

    if (entry == NULL)
        return ERR_NOMEM;
    listed_group_init(entry);
    entry->group_state = group_state_name(group);
    entry->group_type = kind_name(group);
    if (!passes(entry->group_state, in->states_filter, in->states_filter_count) ||
        !passes(entry->group_type, in->types_filter, in->types_filter_count) ||
        (op->may_describe_group != NULL && !op->may_describe_group(op, group->id)))
        return ERR_OK;
    err = arena_copy(op->arena, group->id, &entry->group_id);
    if (err == ERR_OK)
        err = arena_copy(op->arena, protocol_type(group), &entry->protocol_type);
    if (err == ERR_OK) {
        out->last->count++;
        out->count++;
    }
    return err;
}

/* Begins with the first group what the first question asks. */
static void begin(struct groups *groups)
{
    struct list_node *first = list_first(&groups->all);

    groups->list_at = first == NULL ? NULL : LIST_ENTRY(first, struct group, in_all);
}

/* The first question, as far as it goes in this step; true: it is answered. */
static bool go_on(struct groups *groups, struct step *step, struct group_op *op)
{
    struct group_list_reply *out = op->response;

    for (uint32_t looks = 0; groups->list_at != NULL && groups->list_at->number <= out->number_max;) {
        const struct group *group = groups->list_at;

        if (looks >= GROUP_LIST_STEP_LOOKS)
            return false;
        op->op.err = tell(op, group);
        if (op->op.err != ERR_OK)
            break;
        looks += 1 + (group->kind == GROUP_CONSUMER ? consumer_member_count(group->consumer) / MEMBERS_A_LOOK : 0);
        groups->list_at = group_after(group);
    }
    list_remove(&op->op.node);
    groups->list_at = NULL;
    step_answer(step, &op->op);
    return true;
}

void group_list_ask(struct groups *groups, struct step *step, struct group_op *op)
{
    bool waits = !list_is_empty(&groups->listing);

    *(struct group_list_reply *)op->response = (struct group_list_reply){.number_max = groups->numbers_given};
    list_add_last(&groups->listing, &op->op.node);
    if (waits)
        return;
    begin(groups);
    if (!go_on(groups, step, op))
        group_timer_start(groups, &groups->list_timer, step->now_ns);
}

void group_list_fired(struct loop_timer *timer)
{
    struct groups *groups = LIST_ENTRY(timer, struct groups, list_timer);
    struct list_node *first = list_first(&groups->listing);

    if (go_on(groups, groups->step, LIST_ENTRY(first, struct group_op, op.node)))
        begin(groups);
    if (!list_is_empty(&groups->listing))
        group_timer_start(groups, timer, groups->step->now_ns);
}

void group_list_stop(struct groups *groups, struct step *step, enum err why)
{
    struct list_node *node = NULL;

    group_timer_stop(groups, &groups->list_timer);
    groups->list_at = NULL;
    while ((node = list_take_first(&groups->listing)) != NULL) {
        struct group_op *op = LIST_ENTRY(node, struct group_op, op.node);

        op->op.err = why;
        step_answer(step, &op->op);
    }
}

void group_list_copy(const struct group_list_reply *reply, struct listed_group *to)
{
    for (const struct group_list_piece *piece = reply->first; piece != NULL; piece = piece->next) {
        memcpy(to, piece->groups, piece->count * sizeof(*to));
        to += piece->count;
    }
}
