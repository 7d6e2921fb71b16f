#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "coordinator/consumer_internal.h"
#include "coordinator/record_arena.h"
#include "protocol/gen/consumer_group_current_member_assignment_record.h"
#include "protocol/gen/consumer_group_metadata_record.h"
#include "protocol/gen/consumer_group_partition_metadata_record.h"
#include "protocol/gen/consumer_group_regular_expression_record.h"
#include "protocol/gen/consumer_group_target_assignment_member_record.h"
#include "protocol/gen/consumer_group_target_assignment_metadata_record.h"

enum { VERSION_BYTES = 2 };

union value {
    struct consumer_group_metadata_value epoch;
    struct consumer_group_member_metadata_value member;
    struct consumer_group_target_assignment_metadata_value target_epoch;
    struct consumer_group_target_assignment_member_value target;
    struct consumer_group_current_member_assignment_value current;
    struct consumer_group_regular_expression_value expression;
};

/* One record on its way into the state. */
struct replay {
    struct consumer_group *consumer;
    struct bytes name; /* what the key names in the group: a member, an expression; null: nothing */
    union value value;
    struct arena arena; /* what the value points to; whoever keeps that takes it (keep_arena) */
};

struct kind {
    const struct message_type *key;
    const struct message_type *value;      /* NULL: all that matters is that it stands */
    void (*forget)(struct replay *replay); /* a tombstone came */
    enum err (*apply)(struct replay *replay);
};

static void keep_arena(struct replay *replay, struct arena *to)
{
    arena_deinit(to);
    *to = replay->arena;
    record_arena_init(&replay->arena, 0);
}

/* ---- the group's epoch ---- */

static void forget_epoch(struct replay *replay)
{
    replay->consumer->has_epoch = false;
    replay->consumer->epoch = CONSUMER_EPOCH_FIRST;
    replay->consumer->metadata_hash = 0;
}

static enum err apply_epoch(struct replay *replay)
{
    replay->consumer->has_epoch = true;
    replay->consumer->epoch = replay->value.epoch.epoch;
    replay->consumer->metadata_hash = replay->value.epoch.metadata_hash;
    return ERR_OK;
}

/* ---- metadata: written by brokers before 4.1 ---- */

static void forget_metadata(struct replay *replay)
{
    replay->consumer->has_metadata = false;
}

static enum err apply_metadata(struct replay *replay)
{
    replay->consumer->has_metadata = true;
    return ERR_OK;
}

/* ---- a member ---- */

static void forget_member(struct replay *replay)
{
    struct consumer_member *member = map_get(&replay->consumer->members, replay->name);

    if (member == NULL)
        return;
    consumer_about_forget(member);
    consumer_current_forget(member);
    consumer_stop_timers(member);
    consumer_member_settle(member);
}

static enum err apply_member(struct replay *replay)
{
    struct consumer_member *member = NULL;
    enum err err = consumer_member_get(replay->consumer, replay->name, &member);

    if (err != ERR_OK)
        return err;
    consumer_about_forget(member);
    keep_arena(replay, &member->arena);
    member->about = replay->value.member;
    consumer_names_sort(&member->about);
    return consumer_about_remember(member);
}

/* ---- the epoch of the target assignment ---- */

static void forget_target_epoch(struct replay *replay)
{
    replay->consumer->has_target = false;
    replay->consumer->target_epoch = CONSUMER_EPOCH_FIRST;
    replay->consumer->target_ms = 0;
}

static enum err apply_target_epoch(struct replay *replay)
{
    replay->consumer->has_target = true;
    replay->consumer->target_epoch = replay->value.target_epoch.assignment_epoch;
    replay->consumer->target_ms = replay->value.target_epoch.assignment_timestamp;
    return ERR_OK;
}

/* ---- a member's target ---- */

static void forget_target(struct replay *replay)
{
    struct consumer_member *member = map_get(&replay->consumer->members, replay->name);

    if (member == NULL)
        return;
    member->targeted = false;
    partition_set_deinit(&member->target);
    consumer_member_settle(member);
}

static enum err apply_target(struct replay *replay)
{
    const struct consumer_group_target_assignment_member_value *read = &replay->value.target;
    struct consumer_member *member = NULL;
    struct partition_set target = {0};
    enum err err = ERR_OK;

    for (uint32_t i = 0; err == ERR_OK && i < read->topic_partitions_count; i++)
        for (uint32_t j = 0; err == ERR_OK && j < read->topic_partitions[i].partitions_count; j++)
            err = partition_set_add(&target, read->topic_partitions[i].topic_id,
                                    read->topic_partitions[i].partitions[j], 0);
    if (err == ERR_OK)
        err = consumer_member_get(replay->consumer, replay->name, &member);
    if (err != ERR_OK) {
        partition_set_deinit(&target);
        return err;
    }
    partition_set_sort(&target);
    partition_set_move(&member->target, &target);
    member->targeted = true;
    return ERR_OK;
}

/* ---- what a member has ---- */

static void forget_current(struct replay *replay)
{
    struct consumer_member *member = map_get(&replay->consumer->members, replay->name);

    if (member == NULL)
        return;
    consumer_current_forget(member);
    consumer_member_settle(member);
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

static enum err apply_current(struct replay *replay)
{
    const struct consumer_group_current_member_assignment_value *read = &replay->value.current;
    struct consumer_member *member = NULL;
    struct partition_set assigned = {0};
    struct partition_set revoking = {0};
    enum err err = read_set(read->assigned_partitions, read->assigned_partitions_count, read->member_epoch, &assigned);

    if (err == ERR_OK)
        err = read_set(read->partitions_pending_revocation, read->partitions_pending_revocation_count,
                       read->member_epoch, &revoking);
    if (err == ERR_OK)
        err = consumer_member_get(replay->consumer, replay->name, &member);
    if (err != ERR_OK)
        goto out;
    consumer_current_forget(member);
    member->current = true;
    member->epoch = read->member_epoch;
    member->previous_epoch = read->previous_member_epoch;
    member->state = read->state;
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

/* ---- an expression, resolved ---- */

static void forget_expression(struct replay *replay)
{
    struct consumer_group *consumer = replay->consumer;
    struct consumer_expression *expression = map_get(&consumer->expressions, replay->name);

    if (expression == NULL)
        return;
    if (expression->resolved)
        consumer_names_remove(consumer, expression->topics, expression->topic_count);
    expression->resolved = false;
    expression->topics = NULL;
    expression->topic_count = 0;
    arena_reset(&expression->arena);
    consumer_expression_settle(consumer, expression);
}

static enum err apply_expression(struct replay *replay)
{
    const struct consumer_group_regular_expression_value *read = &replay->value.expression;
    struct consumer_group *consumer = replay->consumer;
    struct consumer_expression *expression = NULL;
    enum err err = consumer_expression_get(consumer, replay->name, &expression);

    if (err != ERR_OK)
        return err;
    if (read->topics_count > 0)
        qsort(read->topics, read->topics_count, sizeof(*read->topics), bytes_compare_elements);
    if (expression->resolved)
        consumer_names_remove(consumer, expression->topics, expression->topic_count);
    keep_arena(replay, &expression->arena);
    expression->resolved = true;
    expression->topics = read->topics;
    expression->topic_count = read->topics_count;
    expression->version = read->version;
    expression->timestamp_ms = read->timestamp;
    return consumer_names_add(consumer, expression->topics, expression->topic_count);
}

/* ---- any of them ---- */

static const struct kind kinds[] = {
    {&consumer_group_metadata_key_message, &consumer_group_metadata_value_message, forget_epoch, apply_epoch},
    {&consumer_group_partition_metadata_key_message, NULL, forget_metadata, apply_metadata},
    {&consumer_group_member_metadata_key_message, &consumer_group_member_metadata_value_message, forget_member,
     apply_member},
    {&consumer_group_target_assignment_metadata_key_message, &consumer_group_target_assignment_metadata_value_message,
     forget_target_epoch, apply_target_epoch},
    {&consumer_group_target_assignment_member_key_message, &consumer_group_target_assignment_member_value_message,
     forget_target, apply_target},
    {&consumer_group_current_member_assignment_key_message, &consumer_group_current_member_assignment_value_message,
     forget_current, apply_current},
    {&consumer_group_regular_expression_key_message, &consumer_group_regular_expression_value_message,
     forget_expression, apply_expression},
};

static const struct kind *find_kind(int16_t number)
{
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (kinds[i].key->api_key == number)
            return &kinds[i];
    return NULL;
}

/* Every kind's key is a group's id and, where the kind has one, a name. */
union key {
    struct consumer_group_metadata_key group;
    struct consumer_group_member_metadata_key member;
    struct bytes parts[2];
};

/* The parts lie in the key's bytes. */
static enum err read_key(const struct message_type *type, struct bytes key, union key *read)
{
    struct wire_reader reader;
    struct arena arena;
    enum err err = ERR_OK;

    assert(type->structure->size == type->structure->field_count * sizeof(read->parts[0]));
    assert(type->structure->size <= sizeof(*read));
    *read = (union key){.parts = {{0}}};
    record_arena_init(&arena, key.size);
    wire_reader_init(&reader, bytes_of(key.data + VERSION_BYTES, key.size - VERSION_BYTES));
    err = message_read(type, &reader, &arena, 0, read);
    arena_deinit(&arena);
    return err == ERR_MALFORMED ? ERR_DAMAGED : err;
}

/* The arena keeps the value's bytes too. */
static enum err read_value(const struct message_type *type, struct bytes value, struct replay *replay)
{
    struct wire_reader reader;
    struct bytes copy = {0};
    enum err err = arena_copy(&replay->arena, value, &copy);

    if (err != ERR_OK)
        return err;
    wire_reader_init(&reader, copy);
    if (wire_read_i16(&reader) != 0)
        return ERR_UNSUPPORTED_VERSION;
    err = message_read(type, &reader, &replay->arena, 0, &replay->value);
    return err == ERR_MALFORMED ? ERR_DAMAGED : err;
}

static void replay_tombstone(struct groups *groups, const struct kind *kind, const union key *key)
{
    struct replay replay = {.consumer = consumer_group_find(groups, key->parts[0]), .name = key->parts[1]};

    if (replay.consumer == NULL)
        return;
    kind->forget(&replay);
    consumer_group_settle(groups, replay.consumer);
}

static enum err replay_value(struct groups *groups, const struct kind *kind, const union key *key, struct bytes value)
{
    struct replay replay = {.name = key->parts[1]};
    enum err err = ERR_OK;

    record_arena_init(&replay.arena, value.size);
    if (kind->value != NULL)
        err = read_value(kind->value, value, &replay);
    if (err == ERR_OK)
        err = consumer_group_get(groups, key->parts[0], &replay.consumer);
    if (err == ERR_OK)
        err = kind->apply(&replay);
    arena_deinit(&replay.arena);
    return err;
}

enum err consumer_replay(struct groups *groups, int16_t kind, struct bytes key, struct bytes value)
{
    const struct kind *row = find_kind(kind);
    union key about;
    enum err err = ERR_OK;

    if (row == NULL) {
        groups->skipped++;
        return ERR_OK;
    }
    err = read_key(row->key, key, &about);
    if (err != ERR_OK)
        return err;
    if (value.data != NULL)
        return replay_value(groups, row, &about, value);
    replay_tombstone(groups, row, &about);
    return ERR_OK;
}
