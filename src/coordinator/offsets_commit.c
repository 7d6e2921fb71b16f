#include "base/assert.h"
#include "coordinator/classic.h"
#include "coordinator/consumer.h"
#include "coordinator/offsets.h"
#include "coordinator/offsets_store.h"
#include "protocol/gen/offset_commit.h"
#include "protocol/gen/offset_commit_record.h"
#include "protocol/gen/txn_offset_commit.h"

enum {
    RECORD_VERSION = 4,        /* Kafka 4.1 and above write */
    RECORD_VERSION_EXPIRE = 1, /* the one that has expireTimestamp */
    COMMIT_VERSION_IDS = 10,
    TXN_VERSION_IDS = 6,
    COMMIT_VERSION_GROUP_ERRORS = 9, /* from it on GROUP_ID_NOT_FOUND and STALE_MEMBER_EPOCH may be answered */
    RECORD_OVERHEAD_BYTES = 96,      /* fixed fields of key and value, and the record around them, at most */
};

/* A commit, in a transaction or outside, as the rest looks at it. */
struct commit {
    struct groups *groups;
    struct step *step;
    struct group_op *op;
    struct bytes member_id, instance_id;
    int32_t generation;
    int64_t expire_ms;
    bool transactional;
    bool by_ids;
};

/* UTF-16 units, as Java counts a string's length. What is not UTF-8 counts about as much. */
static size_t count_chars(struct bytes text)
{
    size_t chars = 0;

    for (size_t i = 0; i < text.size; i++)
        chars += (size_t)((text.data[i] & 0xc0) != 0x80) + (size_t)(text.data[i] >= 0xf0);
    return chars;
}

static enum err may_commit(const struct commit *commit)
{
    struct group *group = group_find(commit->groups, commit->op->group_id);
    int16_t version = commit->op->version;

    if (group == NULL) {
        if (commit->generation < 0)
            return ERR_OK; /* a consumer outside group management, or an administrator */
        return !commit->transactional && version >= COMMIT_VERSION_GROUP_ERRORS ? ERR_GROUP_ID_NOT_FOUND
                                                                                : ERR_ILLEGAL_GENERATION;
    }
    if (group->kind == GROUP_CONSUMER)
        return consumer_may_commit(group, commit->step, commit->member_id, commit->instance_id, commit->generation,
                                   version, commit->transactional);
    if (group->classic != NULL)
        return classic_may_commit(group, commit->step, commit->member_id, commit->instance_id, commit->generation,
                                  commit->transactional);
    return commit->generation < 0 ? ERR_OK : ERR_UNKNOWN_MEMBER_ID; /* Empty, and never had members */
}

/* Known: *topic is filled in. */
static enum err resolve(const struct commit *commit, struct bytes name, struct uuid id, struct group_topic *topic)
{
    const struct group_topics *topics = commit->step->topics;

    if (commit->by_ids)
        return topics->by_id(topics, id, topic) ? ERR_OK : ERR_UNKNOWN_TOPIC_ID;
    return topics->by_name(topics, name, topic) ? ERR_OK : ERR_UNKNOWN_TOPIC_OR_PARTITION;
}

static enum err check_partition(const struct commit *commit, const struct group_topic *topic, int32_t partition,
                                struct bytes metadata)
{
    if (partition < 0 || (uint32_t)partition >= topic->partition_count)
        return ERR_UNKNOWN_TOPIC_OR_PARTITION;
    if (count_chars(metadata) > (size_t)commit->groups->settings->metadata_chars_max)
        return ERR_OFFSET_METADATA_TOO_LARGE;
    return ERR_OK;
}

static size_t record_bytes(const struct commit *commit, const struct group_topic *topic, struct bytes metadata)
{
    return RECORD_OVERHEAD_BYTES + commit->op->group_id.size + topic->name.size + metadata.size;
}

static enum err write_one(const struct commit *commit, const struct group_topic *topic, int32_t partition,
                          int64_t offset, int32_t leader_epoch, int64_t commit_ms, struct bytes metadata)
{
    bool expires = commit->expire_ms != -1;
    struct offset_commit_key key = {.group = commit->op->group_id, .topic = topic->name, .partition = partition};
    struct offset_commit_value value;

    offset_commit_value_init(&value);
    value.offset = offset;
    value.leader_epoch = leader_epoch;
    value.metadata = metadata;
    value.commit_timestamp = commit_ms;
    value.expire_timestamp = commit->expire_ms;
    value.topic_id = topic->id;
    return step_write(commit->step, &offset_commit_key_message, &key, &offset_commit_value_message,
                      expires ? RECORD_VERSION_EXPIRE : RECORD_VERSION, &value);
}

static enum err answer_commit(const struct commit *commit, const struct offset_commit_request *in,
                              struct offset_commit_response *out)
{
    out->topics = arena_array(commit->op->arena, in->topics_count, sizeof(*out->topics));
    if (out->topics == NULL)
        return ERR_NOMEM;
    out->topics_count = in->topics_count;
    for (uint32_t i = 0; i < in->topics_count; i++) {
        const struct offset_commit_request_topic *from = &in->topics[i];
        struct offset_commit_response_topic *to = &out->topics[i];

        offset_commit_response_topic_init(to);
        to->name = from->name;
        to->topic_id = from->topic_id;
        to->partitions = arena_array(commit->op->arena, from->partitions_count, sizeof(*to->partitions));
        if (to->partitions == NULL)
            return ERR_NOMEM;
        to->partitions_count = from->partitions_count;
        for (uint32_t k = 0; k < from->partitions_count; k++) {
            offset_commit_response_partition_init(&to->partitions[k]);
            to->partitions[k].partition_index = from->partitions[k].partition_index;
        }
    }
    return ERR_OK;
}

static void fail_commit(struct offset_commit_response *out, enum err why)
{
    for (uint32_t i = 0; i < out->topics_count; i++)
        for (uint32_t k = 0; k < out->topics[i].partitions_count; k++)
            out->topics[i].partitions[k].error_code = err_wire(why);
}

/* Refuses what is to be refused; *bytes: out, of the records of the rest. */
static void check_commit(const struct commit *commit, const struct offset_commit_request *in,
                         struct offset_commit_response *out, size_t *bytes)
{
    *bytes = 0;
    for (uint32_t i = 0; i < in->topics_count; i++) {
        const struct offset_commit_request_topic *from = &in->topics[i];
        struct group_topic topic = {0};
        enum err known = resolve(commit, from->name, from->topic_id, &topic);

        for (uint32_t k = 0; k < from->partitions_count; k++) {
            const struct offset_commit_request_partition *at = &from->partitions[k];
            enum err err = known;

            if (err == ERR_OK)
                err = check_partition(commit, &topic, at->partition_index, at->committed_metadata);
            if (err == ERR_OK)
                *bytes += record_bytes(commit, &topic, at->committed_metadata);
            out->topics[i].partitions[k].error_code = err_wire(err);
        }
    }
}

/* In a group of the consumer protocol a member may still commit under an earlier epoch what it had then already; one
 * partition that it had not is the whole request's error. */
static enum err may_commit_all(const struct commit *commit, const struct offset_commit_request *in,
                               const struct offset_commit_response *out)
{
    const struct group *group = group_find(commit->groups, commit->op->group_id);

    if (group == NULL || group->kind != GROUP_CONSUMER)
        return ERR_OK;
    for (uint32_t i = 0; i < in->topics_count; i++) {
        const struct offset_commit_request_topic *from = &in->topics[i];
        struct group_topic topic = {0};

        if (resolve(commit, from->name, from->topic_id, &topic) != ERR_OK)
            continue;
        for (uint32_t k = 0; k < from->partitions_count; k++) {
            enum err err = ERR_OK;

            if (out->topics[i].partitions[k].error_code == 0)
                err = consumer_may_commit_partition(group, commit->member_id, commit->generation, topic.id,
                                                    from->partitions[k].partition_index, commit->transactional);
            if (err != ERR_OK)
                return err;
        }
    }
    return ERR_OK;
}

static enum err write_commit(const struct commit *commit, const struct offset_commit_request *in,
                             const struct offset_commit_response *out)
{
    enum err err = ERR_OK;

    for (uint32_t i = 0; i < in->topics_count; i++) {
        const struct offset_commit_request_topic *from = &in->topics[i];
        struct group_topic topic = {0};

        if (resolve(commit, from->name, from->topic_id, &topic) != ERR_OK)
            continue;
        for (uint32_t k = 0; k < from->partitions_count && err == ERR_OK; k++) {
            const struct offset_commit_request_partition *at = &from->partitions[k];

            if (out->topics[i].partitions[k].error_code == 0)
                err = write_one(commit, &topic, at->partition_index, at->committed_offset, at->committed_leader_epoch,
                                at->commit_timestamp == -1 ? commit->step->now_ms : at->commit_timestamp,
                                at->committed_metadata);
        }
    }
    return err;
}

/* ERR_OK: out is filled in, be it with refusals. */
static enum err decide(const struct commit *commit, const struct offset_commit_request *in,
                       struct offset_commit_response *out)
{
    enum err err = answer_commit(commit, in, out);
    enum err allowed = ERR_OK;
    size_t bytes = 0;

    if (err != ERR_OK)
        return err;
    allowed = may_commit(commit);
    if (allowed == ERR_STALE_MEMBER_EPOCH && commit->transactional)
        allowed = ERR_ILLEGAL_GENERATION;
    if (allowed != ERR_OK) {
        fail_commit(out, allowed);
        return ERR_OK;
    }
    check_commit(commit, in, out, &bytes);
    allowed = may_commit_all(commit, in, out);
    if (allowed != ERR_OK) {
        fail_commit(out, allowed);
        return ERR_OK;
    }
    if (bytes <= step_room(commit->step))
        return write_commit(commit, in, out);
    fail_commit(out, ERR_UNKNOWN_SERVER_ERROR); /* as Apache Kafka answers what is too large for a batch */
    return ERR_OK;
}

void offsets_commit(struct groups *groups, struct step *step, struct group_op *op)
{
    const struct offset_commit_request *in = op->request;
    struct offset_commit_response *out = op->response;
    struct commit commit = {.groups = groups,
                            .step = step,
                            .op = op,
                            .member_id = in->member_id,
                            .instance_id = in->group_instance_id,
                            .generation = in->generation_id_or_member_epoch,
                            .expire_ms = -1,
                            .by_ids = op->version >= COMMIT_VERSION_IDS};

    offset_commit_response_init(out);
    if (in->retention_time_ms != -1)
        commit.expire_ms =
            in->retention_time_ms > INT64_MAX - step->now_ms ? INT64_MAX : step->now_ms + in->retention_time_ms;
    op->op.err = decide(&commit, in, out);
    step_answer(step, &op->op);
}

/* ---- TxnOffsetCommit: the same, in a batch of the transaction ---- */

static enum err from_txn(struct arena *arena, const struct txn_offset_commit_request *in,
                         struct offset_commit_request *out)
{
    offset_commit_request_init(out);
    out->topics = arena_array(arena, in->topics_count, sizeof(*out->topics));
    if (out->topics == NULL)
        return ERR_NOMEM;
    out->topics_count = in->topics_count;
    for (uint32_t i = 0; i < in->topics_count; i++) {
        const struct txn_offset_commit_request_topic *from = &in->topics[i];
        struct offset_commit_request_topic *to = &out->topics[i];

        offset_commit_request_topic_init(to);
        to->name = from->name;
        to->topic_id = from->topic_id;
        to->partitions = arena_array(arena, from->partitions_count, sizeof(*to->partitions));
        if (to->partitions == NULL)
            return ERR_NOMEM;
        to->partitions_count = from->partitions_count;
        for (uint32_t k = 0; k < from->partitions_count; k++) {
            offset_commit_request_partition_init(&to->partitions[k]);
            to->partitions[k].partition_index = from->partitions[k].partition_index;
            to->partitions[k].committed_offset = from->partitions[k].committed_offset;
            to->partitions[k].committed_leader_epoch = from->partitions[k].committed_leader_epoch;
            to->partitions[k].committed_metadata = from->partitions[k].committed_metadata;
        }
    }
    return ERR_OK;
}

static enum err to_txn(struct arena *arena, const struct offset_commit_response *in,
                       struct txn_offset_commit_response *out)
{
    out->topics = arena_array(arena, in->topics_count, sizeof(*out->topics));
    if (out->topics == NULL)
        return ERR_NOMEM;
    out->topics_count = in->topics_count;
    for (uint32_t i = 0; i < in->topics_count; i++) {
        const struct offset_commit_response_topic *from = &in->topics[i];
        struct txn_offset_commit_response_topic *to = &out->topics[i];

        txn_offset_commit_response_topic_init(to);
        to->name = from->name;
        to->topic_id = from->topic_id;
        to->partitions = arena_array(arena, from->partitions_count, sizeof(*to->partitions));
        if (to->partitions == NULL)
            return ERR_NOMEM;
        to->partitions_count = from->partitions_count;
        for (uint32_t k = 0; k < from->partitions_count; k++) {
            txn_offset_commit_response_partition_init(&to->partitions[k]);
            to->partitions[k].partition_index = from->partitions[k].partition_index;
            to->partitions[k].error_code = from->partitions[k].error_code;
        }
    }
    return ERR_OK;
}

void offsets_txn_commit(struct groups *groups, struct step *step, struct group_op *op)
{
    const struct txn_offset_commit_request *in = op->request;
    struct txn_offset_commit_response *out = op->response;
    struct offset_commit_request plain;
    struct offset_commit_response decided;
    struct commit commit = {.groups = groups,
                            .step = step,
                            .op = op,
                            .member_id = in->member_id,
                            .instance_id = in->group_instance_id,
                            .generation = in->generation_id_or_member_epoch,
                            .expire_ms = -1,
                            .transactional = true,
                            .by_ids = op->version >= TXN_VERSION_IDS};
    struct step_producer producer = {.id = in->producer_id, .epoch = in->producer_epoch};

    txn_offset_commit_response_init(out);
    offset_commit_response_init(&decided);
    op->op.err = from_txn(op->arena, in, &plain);
    if (op->op.err == ERR_OK) {
        step->producer = &producer;
        op->op.err = decide(&commit, &plain, &decided);
        step->producer = NULL;
    }
    if (op->op.err == ERR_OK)
        op->op.err = to_txn(op->arena, &decided, out);
    step_answer(step, &op->op);
}
