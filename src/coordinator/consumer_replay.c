#include <stdlib.h>

#include "base/assert.h"
#include "base/mem.h"
#include "coordinator/consumer_internal.h"
#include "protocol/gen/consumer_group_current_member_assignment_record.h"
#include "protocol/gen/consumer_group_metadata_record.h"
#include "protocol/gen/consumer_group_partition_metadata_record.h"
#include "protocol/gen/consumer_group_regular_expression_record.h"
#include "protocol/gen/consumer_group_target_assignment_member_record.h"
#include "protocol/gen/consumer_group_target_assignment_metadata_record.h"

enum { VERSION_BYTES = 2 };

/* Reads a value into an arena that keeps its bytes too. */
static enum err read_kept(const struct message_type *type, struct bytes value, struct arena *arena, void *message)
{
    struct wire_reader reader;
    struct bytes copy = {0};
    enum err err = arena_copy(arena, value, &copy);

    if (err != ERR_OK)
        return err;
    wire_reader_init(&reader, copy);
    if (wire_read_i16(&reader) != 0)
        return ERR_UNSUPPORTED_VERSION;
    err = message_read(type, &reader, arena, 0, message);
    return err == ERR_MALFORMED ? ERR_DAMAGED : err;
}

static enum err read_key(const struct message_type *type, struct bytes key, struct arena *arena, void *message)
{
    struct wire_reader reader;
    enum err err = ERR_OK;

    wire_reader_init(&reader, bytes_of(key.data + VERSION_BYTES, key.size - VERSION_BYTES));
    err = message_read(type, &reader, arena, 0, message);
    return err == ERR_MALFORMED ? ERR_DAMAGED : err;
}

/* ---- one kind of record each ---- */

static enum err replay_epoch(struct groups *groups, struct arena *arena, struct bytes key, struct bytes value)
{
    struct consumer_group_metadata_key about;
    struct consumer_group_metadata_value read;
    struct consumer_group *consumer = NULL;
    enum err err = read_key(&consumer_group_metadata_key_message, key, arena, &about);

    if (err != ERR_OK)
        return err;
    if (value.data == NULL) {
        consumer = consumer_group_find(groups, about.group_id);
        if (consumer != NULL) {
            consumer->has_epoch = false;
            consumer->epoch = CONSUMER_EPOCH_FIRST;
            consumer->metadata_hash = 0;
            consumer_group_settle(groups, consumer);
        }
        return ERR_OK;
    }
    err = read_kept(&consumer_group_metadata_value_message, value, arena, &read);
    if (err == ERR_OK)
        err = consumer_group_get(groups, about.group_id, &consumer);
    if (err != ERR_OK)
        return err;
    consumer->has_epoch = true;
    consumer->epoch = read.epoch;
    consumer->metadata_hash = read.metadata_hash;
    return ERR_OK;
}

/* Written by brokers before 4.1; all that matters is that it stands. */
static enum err replay_metadata(struct groups *groups, struct arena *arena, struct bytes key, struct bytes value)
{
    struct consumer_group_partition_metadata_key about;
    struct consumer_group *consumer = NULL;
    enum err err = read_key(&consumer_group_partition_metadata_key_message, key, arena, &about);

    if (err != ERR_OK)
        return err;
    if (value.data == NULL)
        consumer = consumer_group_find(groups, about.group_id);
    else
        err = consumer_group_get(groups, about.group_id, &consumer);
    if (err != ERR_OK || consumer == NULL)
        return err;
    consumer->has_metadata = value.data != NULL;
    consumer_group_settle(groups, consumer);
    return ERR_OK;
}

static enum err replay_member(struct groups *groups, struct arena *arena, struct bytes key, struct bytes value)
{
    struct consumer_group_member_metadata_key about;
    struct consumer_group *consumer = NULL;
    struct consumer_member *member = NULL;
    struct arena kept;
    struct consumer_group_member_metadata_value read;
    enum err err = read_key(&consumer_group_member_metadata_key_message, key, arena, &about);

    if (err != ERR_OK)
        return err;
    if (value.data == NULL) {
        consumer = consumer_group_find(groups, about.group_id);
        member = consumer == NULL ? NULL : map_get(&consumer->members, about.member_id);
        if (member != NULL) {
            consumer_about_forget(member);
            consumer_current_forget(member);
            consumer_stop_timers(member);
            consumer_member_settle(member);
            consumer_group_settle(groups, consumer);
        }
        return ERR_OK;
    }
    arena_init(&kept, CONSUMER_ABOUT_BYTES_MAX);
    err = read_kept(&consumer_group_member_metadata_value_message, value, &kept, &read);
    if (err == ERR_OK)
        err = consumer_group_get(groups, about.group_id, &consumer);
    if (err == ERR_OK)
        err = consumer_member_get(consumer, about.member_id, &member);
    if (err != ERR_OK) {
        arena_deinit(&kept);
        return err;
    }
    consumer_names_sort(&read);
    consumer_about_forget(member);
    arena_deinit(&member->arena);
    member->arena = kept;
    member->about = read;
    return consumer_about_remember(member);
}

static enum err replay_target_epoch(struct groups *groups, struct arena *arena, struct bytes key, struct bytes value)
{
    struct consumer_group_target_assignment_metadata_key about;
    struct consumer_group_target_assignment_metadata_value read;
    struct consumer_group *consumer = NULL;
    enum err err = read_key(&consumer_group_target_assignment_metadata_key_message, key, arena, &about);

    if (err != ERR_OK)
        return err;
    if (value.data == NULL) {
        consumer = consumer_group_find(groups, about.group_id);
        if (consumer != NULL) {
            consumer->has_target = false;
            consumer->target_epoch = 0;
            consumer->target_ms = 0;
            consumer_group_settle(groups, consumer);
        }
        return ERR_OK;
    }
    err = read_kept(&consumer_group_target_assignment_metadata_value_message, value, arena, &read);
    if (err == ERR_OK)
        err = consumer_group_get(groups, about.group_id, &consumer);
    if (err != ERR_OK)
        return err;
    consumer->has_target = true;
    consumer->target_epoch = read.assignment_epoch;
    consumer->target_ms = read.assignment_timestamp;
    return ERR_OK;
}

static enum err replay_target(struct groups *groups, struct arena *arena, struct bytes key, struct bytes value)
{
    struct consumer_group_target_assignment_member_key about;
    struct consumer_group_target_assignment_member_value read;
    struct consumer_group *consumer = NULL;
    struct consumer_member *member = NULL;
    struct partition_set target = {0};
    enum err err = read_key(&consumer_group_target_assignment_member_key_message, key, arena, &about);

    if (err != ERR_OK)
        return err;
    if (value.data == NULL) {
        consumer = consumer_group_find(groups, about.group_id);
        member = consumer == NULL ? NULL : map_get(&consumer->members, about.member_id);
        if (member != NULL) {
            member->targeted = false;
            partition_set_deinit(&member->target);
            consumer_member_settle(member);
            consumer_group_settle(groups, consumer);
        }
        return ERR_OK;
    }
    err = read_kept(&consumer_group_target_assignment_member_value_message, value, arena, &read);
    for (uint32_t i = 0; err == ERR_OK && i < read.topic_partitions_count; i++)
        for (uint32_t j = 0; err == ERR_OK && j < read.topic_partitions[i].partitions_count; j++)
            err = partition_set_add(&target, read.topic_partitions[i].topic_id, read.topic_partitions[i].partitions[j],
                                    0);
    if (err == ERR_OK)
        err = consumer_group_get(groups, about.group_id, &consumer);
    if (err == ERR_OK)
        err = consumer_member_get(consumer, about.member_id, &member);
    if (err != ERR_OK) {
        partition_set_deinit(&target);
        return err;
    }
    partition_set_sort(&target);
    partition_set_move(&member->target, &target);
    member->targeted = true;
    return ERR_OK;
}

/* Brokers before 4.4 did not write the epochs: then it is the member's. */
static enum err read_set(const struct consumer_group_current_member_assignment_value_topic_partitions *topics,
                         uint32_t count, int32_t member_epoch, struct partition_set *set)
{
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t j = 0; j < topics[i].partitions_count; j++) {
            int32_t epoch = topics[i].assignment_epochs_count > j ? topics[i].assignment_epochs[j] : member_epoch;
            enum err err = partition_set_add(set, topics[i].topic_id, topics[i].partitions[j], epoch);

            if (err != ERR_OK)
                return err;
        }
    partition_set_sort(set);
    return ERR_OK;
}

static enum err replay_current(struct groups *groups, struct arena *arena, struct bytes key, struct bytes value)
{
    struct consumer_group_current_member_assignment_key about;
    struct consumer_group_current_member_assignment_value read;
    struct consumer_group *consumer = NULL;
    struct consumer_member *member = NULL;
    struct partition_set assigned = {0};
    struct partition_set revoking = {0};
    enum err err = read_key(&consumer_group_current_member_assignment_key_message, key, arena, &about);

    if (err != ERR_OK)
        return err;
    if (value.data == NULL) {
        consumer = consumer_group_find(groups, about.group_id);
        member = consumer == NULL ? NULL : map_get(&consumer->members, about.member_id);
        if (member != NULL) {
            consumer_current_forget(member);
            consumer_member_settle(member);
            consumer_group_settle(groups, consumer);
        }
        return ERR_OK;
    }
    err = read_kept(&consumer_group_current_member_assignment_value_message, value, arena, &read);
    if (err == ERR_OK)
        err = read_set(read.assigned_partitions, read.assigned_partitions_count, read.member_epoch, &assigned);
    if (err == ERR_OK)
        err = read_set(read.partitions_pending_revocation, read.partitions_pending_revocation_count, read.member_epoch,
                       &revoking);
    if (err == ERR_OK)
        err = consumer_group_get(groups, about.group_id, &consumer);
    if (err == ERR_OK)
        err = consumer_member_get(consumer, about.member_id, &member);
    if (err != ERR_OK)
        goto out;
    consumer_current_forget(member);
    member->current = true;
    member->epoch = read.member_epoch;
    member->previous_epoch = read.previous_member_epoch;
    member->state = read.state;
    partition_set_move(&member->assigned, &assigned);
    partition_set_move(&member->revoking, &revoking);
    err = consumer_take(member, &member->assigned);
    if (err == ERR_OK)
        err = consumer_take(member, &member->revoking);
out:
    partition_set_deinit(&assigned);
    partition_set_deinit(&revoking);
    return err;
}

static int compare_topics(const void *a, const void *b)
{
    return bytes_compare(*(const struct bytes *)a, *(const struct bytes *)b);
}

static enum err replay_expression(struct groups *groups, struct arena *arena, struct bytes key, struct bytes value)
{
    struct consumer_group_regular_expression_key about;
    struct consumer_group_regular_expression_value read;
    struct consumer_group *consumer = NULL;
    struct consumer_expression *expression = NULL;
    struct arena kept;
    enum err err = read_key(&consumer_group_regular_expression_key_message, key, arena, &about);

    if (err != ERR_OK)
        return err;
    if (value.data == NULL) {
        consumer = consumer_group_find(groups, about.group_id);
        expression = consumer == NULL ? NULL : map_get(&consumer->expressions, about.regular_expression);
        if (expression != NULL) {
            if (expression->resolved)
                consumer_names_remove(consumer, expression->topics, expression->topic_count);
            expression->resolved = false;
            expression->topics = NULL;
            expression->topic_count = 0;
            arena_reset(&expression->arena);
            consumer_expression_settle(consumer, expression);
            consumer_group_settle(groups, consumer);
        }
        return ERR_OK;
    }
    arena_init(&kept, CONSUMER_ABOUT_BYTES_MAX);
    err = read_kept(&consumer_group_regular_expression_value_message, value, &kept, &read);
    if (err == ERR_OK)
        err = consumer_group_get(groups, about.group_id, &consumer);
    if (err == ERR_OK)
        err = consumer_expression_get(consumer, about.regular_expression, &expression);
    if (err != ERR_OK) {
        arena_deinit(&kept);
        return err;
    }
    if (read.topics_count > 0)
        qsort(read.topics, read.topics_count, sizeof(*read.topics), compare_topics);
    if (expression->resolved)
        consumer_names_remove(consumer, expression->topics, expression->topic_count);
    arena_deinit(&expression->arena);
    expression->arena = kept;
    expression->resolved = true;
    expression->topics = read.topics;
    expression->topic_count = read.topics_count;
    expression->version = read.version;
    expression->timestamp_ms = read.timestamp;
    return consumer_names_add(consumer, expression->topics, expression->topic_count);
}

enum err consumer_replay(struct groups *groups, int16_t kind, struct bytes key, struct bytes value)
{
    struct arena arena;
    enum err err = ERR_OK;

    arena_init(&arena, CONSUMER_ABOUT_BYTES_MAX);
    switch (kind) {
    case CONSUMER_GROUP_METADATA_KEY_API_KEY:
        err = replay_epoch(groups, &arena, key, value);
        break;
    case CONSUMER_GROUP_PARTITION_METADATA_KEY_API_KEY:
        err = replay_metadata(groups, &arena, key, value);
        break;
    case CONSUMER_GROUP_MEMBER_METADATA_KEY_API_KEY:
        err = replay_member(groups, &arena, key, value);
        break;
    case CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA_KEY_API_KEY:
        err = replay_target_epoch(groups, &arena, key, value);
        break;
    case CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER_KEY_API_KEY:
        err = replay_target(groups, &arena, key, value);
        break;
    case CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT_KEY_API_KEY:
        err = replay_current(groups, &arena, key, value);
        break;
    case CONSUMER_GROUP_REGULAR_EXPRESSION_KEY_API_KEY:
        err = replay_expression(groups, &arena, key, value);
        break;
    default:
        groups->skipped++;
        break;
    }
    arena_deinit(&arena);
    return err;
}
