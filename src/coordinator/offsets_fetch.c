#include "coordinator/consumer.h"
#include "coordinator/group_versions.h"
#include "coordinator/offsets.h"
#include "coordinator/offsets_store.h"
#include "protocol/gen/offset_fetch.h"

static bool is_unstable(const struct group_op *op, const struct offset_entry *entry)
{
    return op->require_stable && entry->pending != NULL;
}

/* As for a partition that nothing was committed for. */
static void fill_none(struct offset_fetch_response_partitions *to, int32_t partition, enum err err)
{
    offset_fetch_response_partitions_init(to);
    to->partition_index = partition;
    to->committed_offset = -1;
    to->metadata = BYTES_LITERAL("");
    to->error_code = err_wire(err);
}

static enum err fill_stored(const struct group_op *op, const struct topic_offsets *topic,
                            const struct offset_entry *entry, struct offset_fetch_response_partitions *to)
{
    struct offset_value value = offset_entry_value(topic, entry);

    fill_none(to, entry->partition, ERR_OK);
    to->committed_offset = value.offset;
    to->committed_leader_epoch = value.leader_epoch;
    return arena_copy(op->arena, value.metadata, &to->metadata);
}

/* What was committed for a topic that has been deleted and made again is not for the new one. */
static bool is_other_topic(struct uuid stored, struct uuid current)
{
    return !uuid_is_zero(stored) && !uuid_is_zero(current) && !uuid_equal(stored, current);
}

static enum err fill_asked(const struct group *group, const struct step *step, const struct group_op *op,
                           const struct offset_fetch_request_topics *from, struct offset_fetch_response_topics *to)
{
    const struct group_topics *topics = step->topics;
    const struct topic_offsets *stored = NULL;
    struct group_topic topic = {.name = from->name, .id = from->topic_id};
    bool by_ids = op->version >= FETCH_IDS_SINCE;
    bool known = by_ids ? topics->by_id(topics, from->topic_id, &topic) : topics->by_name(topics, from->name, &topic);
    enum err err = ERR_OK;

    offset_fetch_response_topics_init(to);
    to->name = from->name;
    to->topic_id = topic.id;
    if (known && by_ids)
        err = arena_copy(op->arena, topic.name, &to->name);
    to->partitions = arena_array(op->arena, from->partition_indexes_count, sizeof(*to->partitions));
    if (to->partitions == NULL)
        return ERR_NOMEM;
    to->partitions_count = from->partition_indexes_count;
    if (group != NULL && (known || !by_ids))
        stored = offsets_find_topic(group, topic.name);
    for (uint32_t i = 0; i < from->partition_indexes_count && err == ERR_OK; i++) {
        int32_t partition = from->partition_indexes[i];
        const struct offset_entry *entry = stored == NULL ? NULL : offsets_find_entry(stored, partition);

        if (by_ids && !known)
            fill_none(&to->partitions[i], partition, ERR_UNKNOWN_TOPIC_ID);
        else if (entry != NULL && is_unstable(op, entry))
            fill_none(&to->partitions[i], partition, ERR_UNSTABLE_OFFSET_COMMIT);
        else if (entry == NULL || !entry->cell.stored || is_other_topic(offset_entry_topic_id(stored, entry), topic.id))
            fill_none(&to->partitions[i], partition, ERR_OK);
        else
            err = fill_stored(op, stored, entry, &to->partitions[i]);
    }
    return err;
}

/* Every committed partition of a topic; false in *any: none. */
static enum err fill_topic(const struct step *step, const struct group_op *op, const struct topic_offsets *stored,
                           struct offset_fetch_response_topics *to, bool *any)
{
    const struct group_topics *topics = step->topics;
    struct group_topic topic = {0};
    bool known = topics->by_name(topics, topic_offsets_name(stored), &topic);
    enum err err = ERR_OK;

    *any = false;
    if (!known && op->version >= FETCH_IDS_SINCE)
        return ERR_OK; /* it has no id to be named by */
    offset_fetch_response_topics_init(to);
    to->topic_id = topic.id;
    err = arena_copy(op->arena, topic_offsets_name(stored), &to->name);
    if (err != ERR_OK)
        return err;
    to->partitions = arena_array(op->arena, stored->count, sizeof(*to->partitions));
    if (to->partitions == NULL)
        return ERR_NOMEM;
    for (uint32_t i = 0; i < stored->count && err == ERR_OK; i++) {
        const struct offset_entry *entry = &stored->entries[i];
        struct offset_fetch_response_partitions *at = &to->partitions[to->partitions_count];

        if (!entry->cell.stored || is_other_topic(offset_entry_topic_id(stored, entry), topic.id))
            continue;
        to->partitions_count++;
        if (is_unstable(op, entry))
            fill_none(at, entry->partition, ERR_UNSTABLE_OFFSET_COMMIT);
        else
            err = fill_stored(op, stored, entry, at);
    }
    *any = to->partitions_count > 0;
    return err;
}

static enum err fill_all(const struct group *group, const struct step *step, const struct group_op *op,
                         struct offset_fetch_response_group *out)
{
    const struct group_offsets *offsets = group == NULL ? NULL : group->offsets;
    enum err err = ERR_OK;

    out->topics = arena_array(op->arena, offsets == NULL ? 0 : offsets->count, sizeof(*out->topics));
    if (out->topics == NULL)
        return ERR_NOMEM;
    for (uint32_t i = 0; offsets != NULL && i < offsets->count && err == ERR_OK; i++) {
        bool any = false;

        if (op->may_describe_topic != NULL && !op->may_describe_topic(op, topic_offsets_name(offsets->topics[i])))
            continue;
        err = fill_topic(step, op, offsets->topics[i], &out->topics[out->topics_count], &any);
        out->topics_count += any;
    }
    return err;
}

void offsets_fetch(struct groups *groups, struct step *step, struct group_op *op)
{
    const struct offset_fetch_request_group *in = op->request;
    struct offset_fetch_response_group *out = op->response;
    const struct group *group = group_find(groups, op->group_id);
    enum err allowed = ERR_OK;

    offset_fetch_response_group_init(out);
    out->group_id = op->group_id;
    if (group != NULL && group->kind == GROUP_CONSUMER && (in->member_id.data != NULL || in->member_epoch >= 0))
        allowed = consumer_may_fetch(group, in->member_id, in->member_epoch);
    if (allowed != ERR_OK) {
        out->error_code = err_wire(allowed);
        goto out;
    }
    if (in->topics == NULL) {
        op->op.err = fill_all(group, step, op, out);
        goto out;
    }
    out->topics = arena_array(op->arena, in->topics_count, sizeof(*out->topics));
    if (out->topics == NULL) {
        op->op.err = ERR_NOMEM;
        goto out;
    }
    out->topics_count = in->topics_count;
    for (uint32_t i = 0; i < in->topics_count && op->op.err == ERR_OK; i++)
        op->op.err = fill_asked(group, step, op, &in->topics[i], &out->topics[i]);
out:
    step_answer(step, &op->op);
}
