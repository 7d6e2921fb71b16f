/* How offsets go by request: OffsetDelete, and DeleteGroups. */
#include "coordinator/offsets_remove.h"
#include "base/clock.h"
#include "coordinator/classic.h"
#include "coordinator/consumer.h"
#include "coordinator/offsets.h"
#include "protocol/gen/delete_groups.h"
#include "protocol/gen/offset_commit_record.h"
#include "protocol/gen/offset_delete.h"

enum {
    AGAIN_MS = 1,           /* before the next step */
    DELETED_IN_STEP = 1024, /* offsets of deleted groups: some 0.4 ms */
};

static size_t tombstone_bytes(const struct group *group, struct bytes topic)
{
    struct offset_commit_key key = {.group = group->id, .topic = topic};

    return step_message_bytes(&offset_commit_key_message, &key, &offset_commit_value_message, 0, NULL);
}

bool offsets_has_room(const struct step *step, const struct group *group, struct bytes topic)
{
    return step->err == ERR_OK && tombstone_bytes(group, topic) <= step_room(step);
}

bool offsets_fits_a_step(const struct group *group, struct bytes topic)
{
    return tombstone_bytes(group, topic) <= group->groups->step_room;
}

void offsets_go_on_soon(struct groups *groups, const struct step *step)
{
    group_timer_start(groups, &groups->expire_timer, step->now_ns + AGAIN_MS * NS_PER_MS);
}

enum err offsets_write_tombstone(const struct group *group, struct step *step, struct bytes topic, int32_t partition)
{
    struct offset_commit_key key = {.group = group->id, .topic = topic, .partition = partition};

    return step_write(step, &offset_commit_key_message, &key, &offset_commit_value_message, 0, NULL);
}

/* ---- OffsetDelete (KIP-496) ---- */

/* Whether it may still be committed for: Apache Kafka takes a subscription that it cannot read for one to all. */
static bool is_subscribed(const struct group *group, struct bytes topic)
{
    bool known = false;
    bool subscribes = group_subscribes(group, topic, &known);

    if (known)
        return subscribes;
    return bytes_equal(classic_protocol_type(group->classic), BYTES_LITERAL("consumer"));
}

static enum err may_delete_offsets(struct bytes group_id, const struct group *group)
{
    if (group_id.size == 0)
        return ERR_INVALID_GROUP_ID; /* offsets alone may have it, of oldest clients: they age */
    if (group == NULL)
        return ERR_GROUP_ID_NOT_FOUND;
    if (group->kind == GROUP_CLASSIC && group_has_members(group) &&
        !bytes_equal(classic_protocol_type(group->classic), BYTES_LITERAL("consumer")))
        return ERR_NON_EMPTY_GROUP;
    return ERR_OK;
}

static enum err delete_topic(struct groups *groups, struct step *step, struct group_op *op,
                             const struct offset_delete_request_topic *from, struct offset_delete_response_topic *to)
{
    struct group_topic topic = {0};
    bool known = step->topics->by_name(step->topics, from->name, &topic);
    const struct group *group = group_find(groups, op->group_id);
    bool subscribed = is_subscribed(group, from->name);
    enum err err = ERR_OK;

    offset_delete_response_topic_init(to);
    to->name = from->name;
    to->partitions = arena_array(op->arena, from->partitions_count, sizeof(*to->partitions));
    if (to->partitions == NULL)
        return ERR_NOMEM;
    to->partitions_count = from->partitions_count;
    for (uint32_t i = 0; i < from->partitions_count && err == ERR_OK; i++) {
        struct offset_delete_response_partition *at = &to->partitions[i];

        offset_delete_response_partition_init(at);
        at->partition_index = from->partitions[i].partition_index;
        if (!known || at->partition_index < 0 || (uint32_t)at->partition_index >= topic.partition_count)
            at->error_code = err_wire(ERR_UNKNOWN_TOPIC_OR_PARTITION);
        else if (subscribed)
            at->error_code = err_wire(ERR_GROUP_SUBSCRIBED_TO_TOPIC);
        else if (offsets_find(group, from->name, at->partition_index) == NULL)
            continue;
        else if (!offsets_has_room(step, group, from->name))
            at->error_code = err_wire(ERR_UNKNOWN_SERVER_ERROR);
        else
            err = offsets_write_tombstone(group, step, from->name, at->partition_index);
    }
    return err;
}

void offsets_delete(struct groups *groups, struct step *step, struct group_op *op)
{
    const struct offset_delete_request *in = op->request;
    struct offset_delete_response *out = op->response;
    enum err allowed = may_delete_offsets(op->group_id, group_find(groups, op->group_id));

    offset_delete_response_init(out);
    out->error_code = err_wire(allowed);
    if (allowed != ERR_OK)
        goto out;
    out->topics = arena_array(op->arena, in->topics_count, sizeof(*out->topics));
    if (out->topics == NULL) {
        op->op.err = ERR_NOMEM;
        goto out;
    }
    out->topics_count = in->topics_count;
    for (uint32_t i = 0; i < in->topics_count && op->op.err == ERR_OK; i++)
        op->op.err = delete_topic(groups, step, op, &in->topics[i], &out->topics[i]);
out:
    step_answer(step, &op->op);
}

/* ---- DeleteGroups ---- */

/* Tombstones of all its offsets, from the last on; *left: how many more may go in this step. False: there are more. */
static bool drop_all(struct group *group, struct step *step, uint32_t *left)
{
    for (; group->offsets != NULL && step->err == ERR_OK; --*left) {
        const struct topic_offsets *topic = group->offsets->topics[group->offsets->count - 1];
        struct bytes name = topic_offsets_name(topic);

        if (*left == 0 || !offsets_has_room(step, group, name))
            return false;
        if (offsets_write_tombstone(group, step, name, topic->entries[topic->count - 1].partition) != ERR_OK)
            return false;
    }
    return step->err == ERR_OK;
}

static size_t group_tombstone_bytes(const struct group *group)
{
    return group->kind == GROUP_CONSUMER ? consumer_tombstones_bytes(group->consumer) : classic_tombstone_bytes(group);
}

bool offsets_has_room_for_group(const struct step *step, const struct group *group)
{
    return step->err == ERR_OK && group_tombstone_bytes(group) <= step_room(step);
}

bool offsets_group_fits_a_step(const struct group *group)
{
    return group_tombstone_bytes(group) <= group->groups->step_room;
}

void offsets_drop_group(struct groups *groups, struct step *step, struct group *group)
{
    uint32_t count = groups_count(groups);
    enum err err = ERR_OK;

    if (group->kind == GROUP_CONSUMER)
        err = consumer_write_tombstones(group, step);
    else
        err = classic_write_tombstone(group, step);
    if (err == ERR_OK && groups_count(groups) == count) /* it did not go with its last tombstone */
        (void)group_settle(group); /* where err is set the step has failed, and the state with it */
}

/* Whether there is a step for each of its tombstones, before the first is written: what is refused has lost nothing. */
static bool can_go(const struct group *group)
{
    const struct group_offsets *offsets = group->offsets;

    if (!offsets_group_fits_a_step(group))
        return false;
    if (offsets == NULL || tombstone_bytes(group, BYTES_LITERAL("")) + INT16_MAX <= group->groups->step_room)
        return true; /* whatever the topics' names are: nobody need look at a hundred thousand of them */
    for (uint32_t i = 0; i < offsets->count; i++)
        if (!offsets_fits_a_step(group, topic_offsets_name(offsets->topics[i])))
            return false;
    return true;
}

/* What drop_all, or its own tombstone, stopped at fits no step, however many there will be: max.message.bytes was
 * lowered between two of them. */
static bool cannot_go(const struct group *group)
{
    const struct group_offsets *offsets = group->offsets;

    if (offsets == NULL)
        return !offsets_group_fits_a_step(group);
    return !offsets_fits_a_step(group, topic_offsets_name(offsets->topics[offsets->count - 1]));
}

/* One deletion, as far as it goes in this step; true: it is answered. */
static bool delete_group(struct groups *groups, struct step *step, struct group_op *op, uint32_t *left)
{
    struct deletable_group_result *out = op->response;
    struct group *group = group_find(groups, op->group_id);

    if (group == NULL || group_has_members(group)) {
        out->error_code = err_wire(group == NULL ? ERR_GROUP_ID_NOT_FOUND : ERR_NON_EMPTY_GROUP);
        goto out;
    }
    if (!group->deleting && !can_go(group)) {
        out->error_code = err_wire(ERR_UNKNOWN_SERVER_ERROR);
        goto out;
    }
    group->deleting = true;
    if (drop_all(group, step, left) && offsets_has_room_for_group(step, group)) {
        *left -= *left > 0;
        offsets_drop_group(groups, step, group);
    } else if (step->err == ERR_OK) {
        if (!cannot_go(group))
            return false;
        out->error_code = err_wire(ERR_UNKNOWN_SERVER_ERROR);
    }
    group = group_find(groups, op->group_id);
    if (group != NULL)
        group->deleting = false;
out:
    list_remove(&op->op.node);
    step_answer(step, &op->op);
    return true;
}

void offsets_delete_group(struct groups *groups, struct step *step, struct group_op *op)
{
    struct deletable_group_result *out = op->response;
    uint32_t left = DELETED_IN_STEP;

    deletable_group_result_init(out);
    out->group_id = op->group_id;
    list_add_last(&groups->deleting, &op->op.node);
    if (!delete_group(groups, step, op, &left))
        offsets_go_on_soon(groups, step);
}

bool offsets_delete_waiting(struct groups *groups, struct step *step)
{
    uint32_t left = DELETED_IN_STEP;

    list_each (&groups->deleting, node)
        if (!delete_group(groups, step, LIST_ENTRY(node, struct group_op, op.node), &left))
            return false;
    return true;
}

void offsets_stop(struct groups *groups, struct step *step, enum err why)
{
    struct list_node *node = NULL;

    while ((node = list_take_first(&groups->deleting)) != NULL) {
        struct group_op *op = LIST_ENTRY(node, struct group_op, op.node);

        op->op.err = why;
        step_answer(step, &op->op);
    }
}
