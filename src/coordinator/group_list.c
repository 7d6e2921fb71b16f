#include "coordinator/group_list.h"

#include <strings.h>

#include "coordinator/classic.h"
#include "protocol/gen/list_groups.h"

static bool same_word(struct bytes a, struct bytes b)
{
    return a.size == b.size && strncasecmp((const char *)a.data, (const char *)b.data, a.size) == 0;
}

static bool passes(struct bytes word, const struct bytes *filter, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (same_word(word, filter[i]))
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

void group_list_ask(struct groups *groups, struct step *step, struct group_op *op)
{
    const struct list_groups_request *in = op->request;
    struct list_groups_response *out = op->response;
    uint32_t cursor = 0;
    void *value = NULL;

    list_groups_response_init(out);
    out->groups = arena_array(op->arena, groups_count(groups), sizeof(*out->groups));
    if (out->groups == NULL) {
        op->op.err = ERR_NOMEM;
        goto out;
    }
    while (map_next(&groups->by_id, &cursor, NULL, &value)) {
        const struct group *group = value;
        struct listed_group *entry = &out->groups[out->groups_count];

        listed_group_init(entry);
        entry->group_state = group_state_name(group);
        entry->group_type = kind_name(group);
        if (!passes(entry->group_state, in->states_filter, in->states_filter_count) ||
            !passes(entry->group_type, in->types_filter, in->types_filter_count))
            continue;
        op->op.err = arena_copy(op->arena, group->id, &entry->group_id);
        if (op->op.err == ERR_OK)
            op->op.err = arena_copy(op->arena, protocol_type(group), &entry->protocol_type);
        if (op->op.err != ERR_OK)
            goto out;
        out->groups_count++;
    }
out:
    step_answer(step, &op->op);
}
