/* How offsets go: by request, with their topic, with their group, by age. */
#include "base/assert.h"
#include "base/mem.h"
#include "coordinator/classic.h"
#include "coordinator/consumer.h"
#include "coordinator/offsets.h"
#include "coordinator/offsets_store.h"
#include "protocol/gen/delete_groups.h"
#include "protocol/gen/offset_commit_record.h"
#include "protocol/gen/offset_delete.h"

#define NS_PER_MS INT64_C(1000000)

enum {
    TOMBSTONE_OVERHEAD_BYTES = 64, /* a key's fixed fields, and the record around it, at most */
    AGAIN_MS = 1,                  /* what did not fit into a step goes on in another one */
};

/* A topic that was deleted while its offsets did not all fit into one batch. */
struct gone_topic {
    struct list_node node;
    struct uuid id;
    struct bytes name;
};

static bool has_room(const struct step *step, const struct group *group, struct bytes topic)
{
    return step->err == ERR_OK && step_room(step) >= TOMBSTONE_OVERHEAD_BYTES + group->id.size + topic.size;
}

static void go_on_soon(struct groups *groups, const struct step *step)
{
    group_timer_start(groups, &groups->expire_timer, step->now_ns + AGAIN_MS * NS_PER_MS);
}

static enum err write_tombstone(const struct group *group, struct step *step, struct bytes topic, int32_t partition)
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

static enum err may_delete_offsets(const struct group *group)
{
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
        if (!known)
            at->error_code = err_wire(ERR_UNKNOWN_TOPIC_OR_PARTITION);
        else if (subscribed)
            at->error_code = err_wire(ERR_GROUP_SUBSCRIBED_TO_TOPIC);
        else if (offsets_find(group, from->name, at->partition_index) == NULL)
            continue;
        else if (!has_room(step, group, from->name))
            at->error_code = err_wire(ERR_UNKNOWN_SERVER_ERROR);
        else
            err = write_tombstone(group, step, from->name, at->partition_index);
    }
    return err;
}

void offsets_delete(struct groups *groups, struct step *step, struct group_op *op)
{
    const struct offset_delete_request *in = op->request;
    struct offset_delete_response *out = op->response;
    enum err allowed = may_delete_offsets(group_find(groups, op->group_id));

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

/* Tombstones of all its offsets, from the last on; false: there was no room for all. */
static bool drop_all(struct group *group, struct step *step)
{
    while (group->offsets != NULL && step->err == ERR_OK) {
        const struct topic_offsets *topic = group->offsets->topics[group->offsets->count - 1];
        struct bytes name = topic_offsets_name(topic);

        if (!has_room(step, group, name))
            return false;
        if (write_tombstone(group, step, name, topic->entries[topic->count - 1].partition) != ERR_OK)
            return false;
    }
    return step->err == ERR_OK;
}

/* Nobody is in it, and nothing is committed any more. Its record goes, and it. */
static void drop_group(struct groups *groups, struct step *step, struct group *group)
{
    struct bytes id = bytes_of(mem_copy_text(group->id.data, group->id.size), group->id.size);
    enum err err = ERR_OK;

    if (id.data == NULL)
        return; /* it is looked at again */
    if (group->kind == GROUP_CONSUMER)
        err = consumer_write_tombstones(group, step);
    else if (group->classic != NULL)
        err = classic_write_tombstone(group, step);
    group = group_find(groups, id);
    if (err == ERR_OK && group != NULL)
        (void)group_settle(group); /* else the step has failed, and the state with it */
    mem_free((void *)(uintptr_t)id.data);
}

/* One deletion, as far as it goes in this step; true: it is answered. */
static bool delete_group(struct groups *groups, struct step *step, struct group_op *op)
{
    struct deletable_group_result *out = op->response;
    struct group *group = group_find(groups, op->group_id);

    if (group == NULL || group_has_members(group)) {
        out->error_code = err_wire(group == NULL ? ERR_GROUP_ID_NOT_FOUND : ERR_NON_EMPTY_GROUP);
        goto out;
    }
    if (!drop_all(group, step) && step->err == ERR_OK)
        return false;
    if (step->err == ERR_OK)
        drop_group(groups, step, group);
out:
    list_remove(&op->op.node);
    step_answer(step, &op->op);
    return true;
}

void offsets_delete_group(struct groups *groups, struct step *step, struct group_op *op)
{
    struct deletable_group_result *out = op->response;

    deletable_group_result_init(out);
    out->group_id = op->group_id;
    list_add_last(&groups->deleting, &op->op.node);
    if (!delete_group(groups, step, op))
        go_on_soon(groups, step);
}

static bool delete_waiting(struct groups *groups, struct step *step)
{
    list_each (&groups->deleting, node)
        if (!delete_group(groups, step, LIST_ENTRY(node, struct group_op, op.node)))
            return false;
    return true;
}

/* ---- deleted topics ---- */

static void free_gone(struct gone_topic *gone)
{
    list_remove(&gone->node);
    mem_free((void *)(uintptr_t)gone->name.data);
    mem_free(gone);
}

/* False: there was no room for all. */
static bool drop_topic(struct group *group, struct step *step, const struct gone_topic *gone)
{
    const struct topic_offsets *topic = offsets_find_topic(group, gone->name);
    uint32_t at = topic == NULL ? 0 : topic->count;

    while (at > 0) {
        const struct offset_entry *entry = &topic->entries[at - 1];
        struct uuid id = offset_entry_topic_id(topic, entry);
        bool last = topic->count == 1;

        at--;
        if (entry->cell.stored && !uuid_is_zero(id) && !uuid_equal(id, gone->id))
            continue; /* for a topic of that name which came since */
        if (!has_room(step, group, gone->name) || write_tombstone(group, step, gone->name, entry->partition) != ERR_OK)
            return false;
        if (last)
            break; /* and the topic's memory is gone */
    }
    return true;
}

static bool drop_gone_topics(struct groups *groups, struct step *step)
{
    list_each (&groups->gone_topics, node) {
        struct gone_topic *gone = LIST_ENTRY(node, struct gone_topic, node);
        uint32_t cursor = 0;
        void *value = NULL;

        while (map_next(&groups->by_id, &cursor, NULL, &value))
            if (!drop_topic(value, step, gone))
                return false;
        free_gone(gone);
    }
    return true;
}

void offsets_topic_deleted(struct groups *groups, struct step *step, const struct group_topic *topic)
{
    struct gone_topic *gone = mem_calloc(1, sizeof(*gone));
    uint8_t *name = (uint8_t *)mem_copy_text(topic->name.data, topic->name.size);

    if (gone == NULL || name == NULL) {
        mem_free(gone);
        mem_free(name);
        return; /* its offsets stay until they expire; those of a new topic of that name have another id */
    }
    list_node_init(&gone->node);
    gone->id = topic->id;
    gone->name = bytes_of(name, topic->name.size);
    list_add_last(&groups->gone_topics, &gone->node);
    if (!drop_gone_topics(groups, step))
        go_on_soon(groups, step);
}

/* ---- expiry (KIP-211) ---- */

/* Since when an offset ages. */
enum age {
    AGE_NEVER,       /* it does not */
    AGE_SINCE_EMPTY, /* since the group has had no members; since the commit where that is unknown */
    AGE_SINCE_COMMIT,
    AGE_UNSUBSCRIBED, /* since the commit, where nobody subscribes to its topic */
};

static enum age age_of(const struct group *group)
{
    struct bytes type = {0};
    struct bytes state = {0};

    if (group->kind == GROUP_CONSUMER)
        return AGE_UNSUBSCRIBED;
    type = classic_protocol_type(group->classic);
    state = classic_state_name(group->classic);
    if (type.size == 0)
        return AGE_SINCE_COMMIT;
    if (bytes_equal(state, BYTES_LITERAL("Empty")))
        return AGE_SINCE_EMPTY;
    return bytes_equal(type, BYTES_LITERAL("consumer")) && bytes_equal(state, BYTES_LITERAL("Stable"))
               ? AGE_UNSUBSCRIBED
               : AGE_NEVER;
}

static bool is_subscribed_for_age(const struct group *group, struct bytes topic)
{
    bool known = false;
    bool subscribes = group_subscribes(group, topic, &known);

    return subscribes || !known;
}

static bool is_expired(const struct group *group, const struct step *step, enum age age,
                       const struct offset_entry *entry)
{
    int64_t expire_ms = offset_entry_expire_ms(entry);
    int64_t base_ms = entry->cell.commit_ms;
    int64_t age_ms = 0;

    if (expire_ms != -1)
        return step->now_ms >= expire_ms;
    if (age == AGE_SINCE_EMPTY && group->classic != NULL && classic_state_since_ms(group->classic) != -1)
        base_ms = classic_state_since_ms(group->classic);
    /* What a record says is not believed to be in the range of a sane clock. */
    return !__builtin_sub_overflow(step->now_ms, base_ms, &age_ms) &&
           age_ms >= group->groups->settings->offsets_retention_ms;
}

/* False: there was no room for all. */
static bool expire_topic(struct group *group, struct step *step, enum age age, struct topic_offsets *topic)
{
    uint32_t at = topic->count;

    if (age == AGE_UNSUBSCRIBED && is_subscribed_for_age(group, topic_offsets_name(topic)))
        return true;
    while (at > 0) {
        const struct offset_entry *entry = &topic->entries[--at];
        bool last = topic->count == 1;

        if (!entry->cell.stored || entry->pending != NULL || !is_expired(group, step, age, entry))
            continue;
        if (!has_room(step, group, topic_offsets_name(topic)) ||
            write_tombstone(group, step, topic_offsets_name(topic), entry->partition) != ERR_OK)
            return false;
        if (last)
            break;
    }
    return true;
}

static bool expire_group(struct groups *groups, struct step *step, struct group *group)
{
    enum age age = age_of(group);
    uint32_t at = group->offsets == NULL ? 0 : group->offsets->count;

    while (at > 0 && age != AGE_NEVER) {
        bool last = group->offsets->count == 1;

        if (!expire_topic(group, step, age, group->offsets->topics[--at]))
            return false;
        if (last)
            break;
    }
    if (group->offsets == NULL && bytes_equal(group_state_name(group), BYTES_LITERAL("Empty")) &&
        !group_has_members(group))
        drop_group(groups, step, group);
    return step->err == ERR_OK;
}

void offsets_expire(struct groups *groups, struct step *step)
{
    uint32_t cursor = 0;
    void *value = NULL;
    bool all = delete_waiting(groups, step) && drop_gone_topics(groups, step);

    while (all && !step->clock_doubted && map_next(&groups->by_id, &cursor, NULL, &value))
        all = expire_group(groups, step, value);
    if (!all)
        go_on_soon(groups, step);
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

void offsets_unload(struct groups *groups)
{
    struct list_node *node = NULL;

    /* What was pending went with the groups, and what waited was answered. */
    assert(map_u64_count(&groups->transactions) == 0);
    assert(list_is_empty(&groups->deleting));
    while ((node = list_first(&groups->gone_topics)) != NULL)
        free_gone(LIST_ENTRY(node, struct gone_topic, node));
}
