#include "coordinator/consumer.h"

#include "base/assert.h"
#include "base/clock.h"
#include "coordinator/consumer_internal.h"
#include "coordinator/group_versions.h"
#include "protocol/gen/consumer_group_current_member_assignment_record.h"
#include "protocol/gen/consumer_group_metadata_record.h"
#include "protocol/gen/consumer_group_partition_metadata_record.h"
#include "protocol/gen/consumer_group_target_assignment_member_record.h"
#include "protocol/gen/consumer_group_target_assignment_metadata_record.h"

void consumer_loaded(struct group *group, struct step *step)
{
    struct consumer_group *consumer = group->consumer;
    uint32_t cursor = 0;
    void *value = NULL;

    while (map_next(&consumer->members, &cursor, NULL, &value)) {
        struct consumer_member *member = value;

        if (!member->subscribed)
            continue;
        consumer_start_session(member, step);
        if (member->state != MEMBER_UNREVOKED)
            continue;
        member->rebalance_epoch = member->epoch;
        group_timer_start(group->groups, &member->rebalance_timer,
                          step->now_ns + member->about.rebalance_timeout_ms * NS_PER_MS);
    }
    consumer_rebalance_forget(consumer);
}

/* Nobody waits in a group of this kind: what is asked is decided at once. */
void consumer_unload(struct group *group)
{
    struct consumer_group *consumer = group->consumer;

    if (consumer == NULL)
        return;
    consumer_free(consumer);
    group->consumer = NULL;
    group->kind = GROUP_CLASSIC;
}

struct bytes consumer_state_name(const struct consumer_group *consumer)
{
    uint32_t cursor = 0;
    void *value = NULL;

    if (consumer->member_count == 0)
        return BYTES_LITERAL("Empty");
    if (consumer->epoch > consumer->target_epoch)
        return BYTES_LITERAL("Assigning");
    while (map_next(&consumer->members, &cursor, NULL, &value))
        if (((struct consumer_member *)value)->subscribed && !consumer_is_reconciled(value))
            return BYTES_LITERAL("Reconciling");
    return BYTES_LITERAL("Stable");
}

uint32_t consumer_member_count(const struct consumer_group *consumer)
{
    return consumer->member_count;
}

bool consumer_has_members(const struct consumer_group *consumer)
{
    return consumer->member_count > 0;
}

bool consumer_is_settled(const struct consumer_group *consumer)
{
    return map_count(&consumer->members) == 0 && map_count(&consumer->expressions) == 0 && !consumer->has_epoch &&
           !consumer->has_target && !consumer->has_metadata;
}

bool consumer_subscribes(const struct consumer_group *consumer, struct bytes topic)
{
    return map_get(&consumer->names, topic) != NULL;
}

static enum err stale(const struct consumer_member *member, bool transactional)
{
    return consumer_member_is_classic(member) || transactional ? ERR_ILLEGAL_GENERATION : ERR_STALE_MEMBER_EPOCH;
}

enum err consumer_may_commit(const struct group *group, struct bytes member_id, struct bytes instance_id, int32_t epoch,
                             int16_t version, bool transactional)
{
    const struct consumer_group *consumer = group->consumer;
    const struct consumer_member *member = NULL;

    if (epoch < 0 && consumer->member_count == 0)
        return ERR_OK;
    /* A transaction that names no member is not held to one. */
    if (transactional && epoch == -1 && member_id.size == 0 && instance_id.data == NULL)
        return ERR_OK;
    member = consumer_find(consumer, member_id);
    if (member == NULL)
        return ERR_UNKNOWN_MEMBER_ID;
    if (!transactional && !consumer_member_is_classic(member) && version < COMMIT_EPOCHS_SINCE)
        return ERR_UNSUPPORTED_VERSION;
    return epoch <= member->epoch ? ERR_OK : stale(member, transactional);
}

enum err consumer_may_commit_partition(const struct group *group, struct bytes member_id, int32_t epoch,
                                       struct uuid topic, int32_t partition, bool transactional)
{
    const struct consumer_member *member = consumer_find(group->consumer, member_id);
    const struct partition_item *item = NULL;

    if (member == NULL || epoch >= member->epoch)
        return ERR_OK; /* nobody's commit, or one of now */
    item = partition_set_find(&member->assigned, topic, partition);
    if (item == NULL)
        item = partition_set_find(&member->revoking, topic, partition);
    return item != NULL && item->epoch <= epoch ? ERR_OK : stale(member, transactional);
}

enum err consumer_may_fetch(const struct group *group, struct bytes member_id, int32_t epoch)
{
    const struct consumer_member *member = NULL;

    if (member_id.data == NULL && epoch < 0)
        return ERR_OK;
    member = consumer_find(group->consumer, member_id);
    if (member == NULL)
        return ERR_UNKNOWN_MEMBER_ID;
    if (epoch == member->epoch)
        return ERR_OK;
    return consumer_member_is_classic(member) ? ERR_ILLEGAL_GENERATION : ERR_STALE_MEMBER_EPOCH;
}

/* ---- the end of a group ---- */

static enum err write_gone(struct step *step, const struct message_type *key_type, const void *key,
                           const struct message_type *value_type)
{
    return step_write(step, key_type, key, value_type, 0, NULL);
}

/* Records of one kind of all members; entries go one by one with them, so ids are copied first. */
static enum err write_members_gone(struct group *group, struct step *step, int kind, const struct bytes *ids,
                                   uint32_t count)
{
    enum err err = ERR_OK;

    for (uint32_t i = 0; i < count && err == ERR_OK; i++) {
        struct consumer_group_current_member_assignment_key current = {.group_id = group->id, .member_id = ids[i]};
        struct consumer_group_target_assignment_member_key target = {.group_id = group->id, .member_id = ids[i]};
        struct consumer_group_member_metadata_key about = {.group_id = group->id, .member_id = ids[i]};

        if (kind == CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT_KEY_API_KEY)
            err = write_gone(step, &consumer_group_current_member_assignment_key_message, &current,
                             &consumer_group_current_member_assignment_value_message);
        else if (kind == CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER_KEY_API_KEY)
            err = write_gone(step, &consumer_group_target_assignment_member_key_message, &target,
                             &consumer_group_target_assignment_member_value_message);
        else
            err = write_gone(step, &consumer_group_member_metadata_key_message, &about,
                             &consumer_group_member_metadata_value_message);
    }
    return err;
}

static enum err copy_ids(const struct map *map, struct arena *arena, struct bytes **ids, uint32_t *count)
{
    uint32_t cursor = 0;
    struct bytes key = {0};
    void *value = NULL;
    enum err err = ERR_OK;

    *count = 0;
    *ids = arena_array(arena, map_count(map), sizeof(**ids));
    if (*ids == NULL)
        return ERR_NOMEM;
    while (err == ERR_OK && map_next(map, &cursor, &key, &value))
        err = arena_copy(arena, key, &(*ids)[(*count)++]);
    return err;
}

/* In Kafka's order: 8, 7, 6, 5, 16, 4, 3. */
static enum err write_all_gone(struct group *group, struct step *step, struct arena *arena)
{
    struct consumer_group_target_assignment_metadata_key target = {.group_id = group->id};
    struct consumer_group_partition_metadata_key metadata = {.group_id = group->id};
    struct consumer_group_metadata_key epoch = {.group_id = group->id};
    struct bytes *members = NULL;
    struct bytes *expressions = NULL;
    uint32_t member_count = 0;
    uint32_t expression_count = 0;
    enum err err = copy_ids(&group->consumer->members, arena, &members, &member_count);

    if (err == ERR_OK)
        err = copy_ids(&group->consumer->expressions, arena, &expressions, &expression_count);
    if (err == ERR_OK)
        err = write_members_gone(group, step, CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT_KEY_API_KEY, members,
                                 member_count);
    if (err == ERR_OK)
        err =
            write_members_gone(group, step, CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER_KEY_API_KEY, members, member_count);
    if (err == ERR_OK)
        err = write_gone(step, &consumer_group_target_assignment_metadata_key_message, &target,
                         &consumer_group_target_assignment_metadata_value_message);
    if (err == ERR_OK)
        err = write_members_gone(group, step, CONSUMER_GROUP_MEMBER_METADATA_KEY_API_KEY, members, member_count);
    for (uint32_t i = 0; i < expression_count && err == ERR_OK; i++) /* what stays without members is resolved */
        if (map_get(&group->consumer->expressions, expressions[i]) != NULL)
            err = consumer_write_expression_gone(group->consumer, step, expressions[i]);
    if (err == ERR_OK)
        err = write_gone(step, &consumer_group_partition_metadata_key_message, &metadata,
                         &consumer_group_partition_metadata_value_message);
    if (err == ERR_OK)
        err = write_gone(step, &consumer_group_metadata_key_message, &epoch, &consumer_group_metadata_value_message);
    return err;
}

enum err consumer_write_tombstones(struct group *group, struct step *step)
{
    struct arena arena;
    enum err err = ERR_OK;

    arena_init(&arena, CONSUMER_RECORD_BYTES_MAX);
    err = write_all_gone(group, step, &arena);
    arena_deinit(&arena);
    if (err != ERR_OK) {
        if (step->err == ERR_OK)
            step->err = err;
        return err;
    }
    assert(consumer_is_settled(group->consumer));
    consumer_unload(group);
    return ERR_OK;
}
