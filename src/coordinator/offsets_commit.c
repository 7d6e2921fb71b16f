#include "base/assert.h"
#include "base/utf8.h"
#include "coordinator/classic.h"
#include "coordinator/consumer.h"
#include "coordinator/group_versions.h"
#include "coordinator/offsets.h"
#include "coordinator/offsets_store.h"
#include "protocol/gen/offset_commit.h"
#include "protocol/gen/offset_commit_record.h"
#include "protocol/gen/txn_offset_commit.h"

enum {
    RECORD_VERSION = 4,        /* Kafka 4.1 and above write */
    RECORD_VERSION_EXPIRE = 1, /* the one that has expireTimestamp */
    PARTS_ALWAYS = 4096,       /* topics and partitions that are looked through however small the batch: 0.5 ms */
};

struct commit_part {
    const struct group_topic *topic; /* NULL: of what is not there, and the error says so */
    int32_t partition;
    int32_t leader_epoch;
    int64_t offset;
    int64_t timestamp_ms;
    struct bytes metadata;
    int16_t *error_code; /* in the response */
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
    struct group_topic *topics; /* by topic of the request */
    struct commit_part *parts;
    uint32_t part_count;
    uint32_t asked; /* of them, what is there */
};

static enum err may_commit(const struct commit *commit)
{
    struct group *group = group_find(commit->groups, commit->op->group_id);
    int16_t version = commit->op->version;

    if (group == NULL) {
        if (commit->generation < 0)
            return ERR_OK; /* a consumer outside group management, or an administrator */
        return !commit->transactional && version >= COMMIT_EPOCHS_SINCE ? ERR_GROUP_ID_NOT_FOUND
                                                                        : ERR_ILLEGAL_GENERATION;
    }
    if (group->kind == GROUP_CONSUMER)
        return consumer_may_commit(group, commit->member_id, commit->instance_id, commit->generation, version,
                                   commit->transactional);
    if (group->classic != NULL)
        return classic_may_commit(group, commit->step, commit->member_id, commit->instance_id, commit->generation,
                                  commit->transactional);
    return commit->generation < 0 ? ERR_OK : ERR_UNKNOWN_MEMBER_ID; /* Empty, and never had members */
}

/* ERR_OK: *topic is filled in. */
static enum err resolve(const struct commit *commit, struct bytes name, struct uuid id, struct group_topic *topic)
{
    const struct group_topics *topics = commit->step->topics;

    if (commit->by_ids)
        return topics->by_id(topics, id, topic) ? ERR_OK : ERR_UNKNOWN_TOPIC_ID;
    return topics->by_name(topics, name, topic) ? ERR_OK : ERR_UNKNOWN_TOPIC_OR_PARTITION;
}

static enum err check_partition(const struct commit *commit, const struct commit_part *part)
{
    if (utf8_count_units(part->metadata) > (size_t)commit->groups->settings->metadata_chars_max)
        return ERR_OFFSET_METADATA_TOO_LARGE;
    return ERR_OK;
}

/* What is written of one. */
struct record {
    struct offset_commit_key key;
    struct offset_commit_value value;
    int16_t version;
};

static struct record record_of(const struct commit *commit, const struct commit_part *part)
{
    struct record record = {
        .key = {.group = commit->op->group_id, .topic = part->topic->name, .partition = part->partition},
        .version = commit->expire_ms != -1 ? RECORD_VERSION_EXPIRE : RECORD_VERSION};

    offset_commit_value_init(&record.value);
    record.value.offset = part->offset;
    record.value.leader_epoch = part->leader_epoch;
    record.value.metadata = part->metadata;
    record.value.commit_timestamp = part->timestamp_ms;
    record.value.expire_timestamp = commit->expire_ms;
    record.value.topic_id = part->topic->id;
    return record;
}

static size_t record_bytes(const struct commit *commit, const struct commit_part *part)
{
    struct record record = record_of(commit, part);

    return step_message_bytes(&offset_commit_key_message, &record.key, &offset_commit_value_message, record.version,
                              &record.value);
}

static enum err write_part(const struct commit *commit, const struct commit_part *part)
{
    struct record record = record_of(commit, part);

    return step_write(commit->step, &offset_commit_key_message, &record.key, &offset_commit_value_message,
                      record.version, &record.value);
}

/* What is not there was not asked of the group, and keeps its own error. */
static void fail_all(const struct commit *commit, enum err why)
{
    for (uint32_t i = 0; i < commit->part_count; i++)
        if (commit->parts[i].topic != NULL)
            *commit->parts[i].error_code = err_wire(why);
}

/* The next part, of a topic of the request (known: ERR_OK, or what to say of it), with the error that it has. */
static void add_part(struct commit *commit, struct commit_part part, enum err known)
{
    if (known == ERR_OK && (part.partition < 0 || (uint32_t)part.partition >= part.topic->partition_count))
        known = ERR_UNKNOWN_TOPIC_OR_PARTITION;
    if (known != ERR_OK)
        part.topic = NULL;
    *part.error_code = err_wire(known);
    commit->asked += (uint32_t)(known == ERR_OK);
    commit->parts[commit->part_count++] = part;
}

/* Refuses what is to be refused; *bytes: out, of the records of the rest. */
static void check_parts(const struct commit *commit, size_t *bytes)
{
    *bytes = 0;
    for (uint32_t i = 0; i < commit->part_count; i++) {
        const struct commit_part *part = &commit->parts[i];

        if (*part->error_code == 0)
            *part->error_code = err_wire(check_partition(commit, part));
        if (*part->error_code == 0)
            *bytes += record_bytes(commit, part);
    }
}

/* In a group of the consumer protocol a member may still commit under an earlier epoch what it had then already; one
 * partition that it had not is the whole request's error. */
static enum err may_commit_all(const struct commit *commit)
{
    const struct group *group = group_find(commit->groups, commit->op->group_id);

    if (group == NULL || group->kind != GROUP_CONSUMER)
        return ERR_OK;
    for (uint32_t i = 0; i < commit->part_count; i++) {
        const struct commit_part *part = &commit->parts[i];
        enum err err = ERR_OK;

        if (*part->error_code == 0)
            err = consumer_may_commit_partition(group, commit->member_id, commit->generation, part->topic->id,
                                                part->partition, commit->transactional);
        if (err != ERR_OK)
            return err;
    }
    return ERR_OK;
}

static enum err write_parts(const struct commit *commit)
{
    enum err err = ERR_OK;

    for (uint32_t i = 0; i < commit->part_count && err == ERR_OK; i++)
        if (*commit->parts[i].error_code == 0)
            err = write_part(commit, &commit->parts[i]);
    return err;
}

static enum err check_member(const struct commit *commit)
{
    enum err allowed = may_commit(commit);

    return allowed == ERR_STALE_MEMBER_EPOCH && commit->transactional ? ERR_ILLEGAL_GENERATION : allowed;
}

/* More topics and partitions than a batch could hold if their records had no names: some twice of what it does. They
 * are not even looked through, for which the others of this loop would have to wait. (Apache Kafka would still take
 * what fits if more than half were unknown to it.) */
static bool is_too_many(const struct commit *commit, uint64_t count)
{
    return count > PARTS_ALWAYS && count > step_room(commit->step) / STEP_RECORD_FRAME_BYTES;
}

static enum err refuse_too_many(const struct commit *commit)
{
    enum err allowed = check_member(commit);

    return allowed != ERR_OK ? allowed : ERR_UNKNOWN_SERVER_ERROR; /* as below */
}

/* ERR_OK: the response is filled in, be it with refusals. */
static enum err decide(const struct commit *commit)
{
    enum err allowed = ERR_OK;
    size_t bytes = 0;

    if (commit->asked == 0)
        return ERR_OK; /* the group is not asked, and nobody's session goes on */
    allowed = check_member(commit);
    if (allowed != ERR_OK) {
        fail_all(commit, allowed);
        return ERR_OK;
    }
    check_parts(commit, &bytes);
    allowed = may_commit_all(commit);
    if (allowed != ERR_OK) {
        fail_all(commit, allowed);
        return ERR_OK;
    }
    if (bytes <= step_room(commit->step))
        return write_parts(commit);
    fail_all(commit, ERR_UNKNOWN_SERVER_ERROR); /* as Apache Kafka answers what is too large for a batch */
    return ERR_OK;
}

static enum err make_room(struct commit *commit, uint32_t topic_count, uint32_t part_count)
{
    commit->topics = arena_array(commit->op->arena, topic_count, sizeof(*commit->topics));
    commit->parts = arena_array(commit->op->arena, part_count, sizeof(*commit->parts));
    return commit->topics == NULL || commit->parts == NULL ? ERR_NOMEM : ERR_OK;
}

/* ---- OffsetCommit ---- */

/* Makes the response, and of each of its partitions a part. */
static enum err take(struct commit *commit, const struct offset_commit_request *in, struct offset_commit_response *out)
{
    struct arena *arena = commit->op->arena;
    uint32_t part_count = 0;

    for (uint32_t i = 0; i < in->topics_count && !is_too_many(commit, i + (uint64_t)part_count); i++)
        part_count += in->topics[i].partitions_count;
    if (is_too_many(commit, in->topics_count + (uint64_t)part_count))
        return refuse_too_many(commit);
    out->topics = arena_array(arena, in->topics_count, sizeof(*out->topics));
    if (out->topics == NULL || make_room(commit, in->topics_count, part_count) != ERR_OK)
        return ERR_NOMEM;
    out->topics_count = in->topics_count;
    for (uint32_t i = 0; i < in->topics_count; i++) {
        const struct offset_commit_request_topic *from = &in->topics[i];
        struct offset_commit_response_topic *to = &out->topics[i];
        enum err known = resolve(commit, from->name, from->topic_id, &commit->topics[i]);

        offset_commit_response_topic_init(to);
        to->name = from->name;
        to->topic_id = from->topic_id;
        to->partitions = arena_array(arena, from->partitions_count, sizeof(*to->partitions));
        if (to->partitions == NULL)
            return ERR_NOMEM;
        to->partitions_count = from->partitions_count;
        for (uint32_t k = 0; k < from->partitions_count; k++) {
            const struct offset_commit_request_partition *at = &from->partitions[k];

            offset_commit_response_partition_init(&to->partitions[k]);
            to->partitions[k].partition_index = at->partition_index;
            add_part(commit,
                     (struct commit_part){
                         .topic = &commit->topics[i],
                         .partition = at->partition_index,
                         .leader_epoch = at->committed_leader_epoch,
                         .offset = at->committed_offset,
                         .timestamp_ms = at->commit_timestamp == -1 ? commit->step->now_ms : at->commit_timestamp,
                         .metadata = at->committed_metadata,
                         .error_code = &to->partitions[k].error_code,
                     },
                     known);
        }
    }
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
                            .by_ids = op->version >= COMMIT_IDS_SINCE};

    offset_commit_response_init(out);
    if (in->retention_time_ms != -1)
        commit.expire_ms =
            in->retention_time_ms > INT64_MAX - step->now_ms ? INT64_MAX : step->now_ms + in->retention_time_ms;
    op->op.err = take(&commit, in, out);
    if (op->op.err == ERR_OK)
        op->op.err = decide(&commit);
    step_answer(step, &op->op);
}

/* ---- TxnOffsetCommit: the same, in a batch of the transaction ---- */

static enum err take_txn(struct commit *commit, const struct txn_offset_commit_request *in,
                         struct txn_offset_commit_response *out)
{
    struct arena *arena = commit->op->arena;
    uint32_t part_count = 0;

    for (uint32_t i = 0; i < in->topics_count && !is_too_many(commit, i + (uint64_t)part_count); i++)
        part_count += in->topics[i].partitions_count;
    if (is_too_many(commit, in->topics_count + (uint64_t)part_count))
        return refuse_too_many(commit);
    out->topics = arena_array(arena, in->topics_count, sizeof(*out->topics));
    if (out->topics == NULL || make_room(commit, in->topics_count, part_count) != ERR_OK)
        return ERR_NOMEM;
    out->topics_count = in->topics_count;
    for (uint32_t i = 0; i < in->topics_count; i++) {
        const struct txn_offset_commit_request_topic *from = &in->topics[i];
        struct txn_offset_commit_response_topic *to = &out->topics[i];
        enum err known = resolve(commit, from->name, from->topic_id, &commit->topics[i]);

        txn_offset_commit_response_topic_init(to);
        to->name = from->name;
        to->topic_id = from->topic_id;
        to->partitions = arena_array(arena, from->partitions_count, sizeof(*to->partitions));
        if (to->partitions == NULL)
            return ERR_NOMEM;
        to->partitions_count = from->partitions_count;
        for (uint32_t k = 0; k < from->partitions_count; k++) {
            const struct txn_offset_commit_request_partition *at = &from->partitions[k];

            txn_offset_commit_response_partition_init(&to->partitions[k]);
            to->partitions[k].partition_index = at->partition_index;
            add_part(commit,
                     (struct commit_part){
                         .topic = &commit->topics[i],
                         .partition = at->partition_index,
                         .leader_epoch = at->committed_leader_epoch,
                         .offset = at->committed_offset,
                         .timestamp_ms = commit->step->now_ms,
                         .metadata = at->committed_metadata,
                         .error_code = &to->partitions[k].error_code,
                     },
                     known);
        }
    }
    return ERR_OK;
}

void offsets_txn_commit(struct groups *groups, struct step *step, struct group_op *op)
{
    const struct txn_offset_commit_request *in = op->request;
    struct txn_offset_commit_response *out = op->response;
    struct commit commit = {.groups = groups,
                            .step = step,
                            .op = op,
                            .member_id = in->member_id,
                            .instance_id = in->group_instance_id,
                            .generation = in->generation_id_or_member_epoch,
                            .expire_ms = -1,
                            .transactional = true,
                            .by_ids = op->version >= TXN_COMMIT_IDS_SINCE};
    struct step_producer producer = {.id = in->producer_id, .epoch = in->producer_epoch};

    txn_offset_commit_response_init(out);
    op->op.err = take_txn(&commit, in, out);
    if (op->op.err == ERR_OK) {
        step->producer = &producer;
        op->op.err = decide(&commit);
        step->producer = NULL;
    }
    step_answer(step, &op->op);
}
