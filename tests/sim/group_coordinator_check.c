#include "sim/group_coordinator_check.h"

#include "base/assert.h"
#include "base/mem.h"
#include "coordinator/classic_internal.h"
#include "coordinator/consumer_internal.h"
#include "protocol/gen/consumer_group_current_member_assignment_record.h"
#include "protocol/gen/consumer_group_metadata_record.h"
#include "protocol/gen/group_metadata_record.h"
#include "sim/group_coordinator_offsets.h"

enum { RECORD_BYTES_MAX = 1024 * 1024 };

/* ---- numbers of groups ---- */

static struct group_numbers *numbers_of(struct group_coordinator *coordinator, struct bytes id)
{
    for (uint32_t i = 0; i < COORDINATOR_GROUPS; i++) {
        struct group_numbers *numbers = &coordinator->numbers[i];

        if (numbers->id.data == NULL) {
            numbers->id = bytes_of(mem_copy_text(id.data, id.size), id.size);
            assert(numbers->id.data != NULL);
        }
        if (bytes_equal(numbers->id, id))
            return numbers;
    }
    assert(false && "more groups than there are");
    return NULL;
}

uint32_t group_coordinator_group_life(const struct group_coordinator *coordinator, struct bytes id)
{
    for (uint32_t i = 0; i < COORDINATOR_GROUPS; i++)
        if (bytes_equal(coordinator->numbers[i].id, id))
            return coordinator->numbers[i].life;
    return 0;
}

bool group_coordinator_assigned(const struct group_coordinator *coordinator, struct bytes id)
{
    for (uint32_t i = 0; i < COORDINATOR_GROUPS; i++)
        if (bytes_equal(coordinator->numbers[i].id, id))
            return coordinator->numbers[i].was_consumer && !coordinator->numbers[i].target_taken;
    return false;
}

/* A generation or an epoch, in a record: they go on from one kind of group to the other. One that the same step takes
 * back, where a group becomes classic, nobody was told. */
static void check_number(struct group_numbers *numbers, int32_t number)
{
    if (number >= numbers->number)
        return;
    assert(!numbers->had_members);
    numbers->life++;
    numbers->number = number;
}

/* ---- what members are given ---- */

static bool exists(const struct group_coordinator *coordinator, struct uuid topic, int32_t partition)
{
    struct group_topic now = {0};

    return coordinator->topics.by_id(&coordinator->topics, topic, &now) && (uint32_t)partition < now.partition_count;
}

/* A record of what a member has. */
struct current {
    struct arena arena;
    struct consumer_group_current_member_assignment_value value;
};

static void read_current(struct bytes bytes, struct current *current)
{
    struct wire_reader reader;
    int16_t version = 0;

    arena_init(&current->arena, RECORD_BYTES_MAX);
    wire_reader_init(&reader, bytes);
    version = wire_read_i16(&reader);
    if (consumer_group_current_member_assignment_value_read(&reader, &current->arena, version, &current->value) !=
        ERR_OK)
        assert(false && "an assignment that cannot be read");
}

static bool holds(const struct consumer_group_current_member_assignment_value *value, struct uuid topic,
                  int32_t partition)
{
    for (uint32_t i = 0; i < value->assigned_partitions_count; i++)
        for (uint32_t j = 0; j < value->assigned_partitions[i].partitions_count; j++)
            if (uuid_equal(value->assigned_partitions[i].topic_id, topic) &&
                value->assigned_partitions[i].partitions[j] == partition)
                return true;
    return false;
}

/* What it had already when its topic went it may keep for a while. */
static bool had(const struct group_coordinator *coordinator, struct bytes key, struct uuid topic, int32_t partition)
{
    for (uint32_t i = coordinator->record_count; i > 0; i--) {
        const struct group_record *before = &coordinator->records[i - 1];
        struct current current;
        bool found = false;

        if (!bytes_equal(before->key, key))
            continue;
        if (before->value.data == NULL)
            return false;
        read_current(before->value, &current);
        found = holds(&current.value, topic, partition);
        arena_deinit(&current.arena);
        return found;
    }
    return false;
}

/* Nobody is given what is not there. A member that takes another's place, or comes with its classic group, has what
 * that had: its epoch is none that it came to by itself. */
static void check_current(const struct group_coordinator *coordinator, const struct group_numbers *numbers,
                          const struct group_record *record)
{
    struct current current;

    read_current(record->value, &current);
    for (uint32_t i = 0; i < current.value.assigned_partitions_count; i++)
        for (uint32_t j = 0; j < current.value.assigned_partitions[i].partitions_count; j++) {
            struct uuid topic = current.value.assigned_partitions[i].topic_id;
            int32_t partition = current.value.assigned_partitions[i].partitions[j];

            assert(exists(coordinator, topic, partition) || current.value.member_epoch <= 0 || !numbers->was_consumer ||
                   had(coordinator, record->key, topic, partition));
        }
    arena_deinit(&current.arena);
}

/* ---- records ---- */

void group_coordinator_check_record(struct group_coordinator *coordinator, const struct group_record *record)
{
    struct consumer_group_current_member_assignment_key current_key;
    struct consumer_group_metadata_key consumer_key;
    struct consumer_group_metadata_value consumer;
    struct group_metadata_key classic_key;
    struct group_metadata_value classic;
    struct wire_reader key;
    struct wire_reader value;
    struct arena arena;
    int16_t version = 0;
    enum err err = ERR_OK;

    group_coordinator_check_offset(coordinator, record);
    if (record->value.data == NULL)
        return;
    arena_init(&arena, RECORD_BYTES_MAX);
    wire_reader_init(&key, record->key);
    wire_reader_init(&value, record->value);
    switch (wire_read_i16(&key)) {
    case CONSUMER_GROUP_METADATA_KEY_API_KEY:
        version = wire_read_i16(&value);
        err = consumer_group_metadata_key_read(&key, &arena, 0, &consumer_key);
        if (err == ERR_OK)
            err = consumer_group_metadata_value_read(&value, &arena, version, &consumer);
        assert(err == ERR_OK);
        check_number(numbers_of(coordinator, consumer_key.group_id), consumer.epoch);
        break;
    case GROUP_METADATA_KEY_API_KEY:
        version = wire_read_i16(&value);
        err = group_metadata_key_read(&key, &arena, 0, &classic_key);
        if (err == ERR_OK)
            err = group_metadata_value_read(&value, &arena, version, &classic);
        assert(err == ERR_OK);
        check_number(numbers_of(coordinator, classic_key.group), classic.generation);
        break;
    case CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT_KEY_API_KEY:
        err = consumer_group_current_member_assignment_key_read(&key, &arena, 0, &current_key);
        assert(err == ERR_OK);
        check_current(coordinator, numbers_of(coordinator, current_key.group_id), record);
        break;
    default:
        break;
    }
    arena_deinit(&arena);
}

/* ---- the state of a group of the consumer protocol ---- */

static bool existed(const struct group_coordinator *coordinator, const struct partition_item *item)
{
    uint8_t life = item->topic.bytes[UUID_BYTES - 1];

    return (uint32_t)item->partition < coordinator->most[life] || coordinator->mistaken[life][item->partition];
}

static void check_exist(const struct group_coordinator *coordinator, const struct partition_set *set)
{
    for (uint32_t i = 0; i < set->count; i++)
        assert(exists(coordinator, set->items[i].topic, set->items[i].partition));
}

static void check_within(const struct partition_set *set, const struct partition_set *of)
{
    for (uint32_t i = 0; i < set->count; i++)
        assert(partition_set_find(of, set->items[i].topic, set->items[i].partition) != NULL);
}

/* The target stands for the topics as they are, and so does what a member has that has come to it. */
static void check_seen(const struct group_coordinator *coordinator, const struct consumer_group *consumer)
{
    uint32_t cursor = 0;
    void *value = NULL;

    while (map_next(&consumer->members, &cursor, NULL, &value)) {
        const struct consumer_member *member = value;

        check_exist(coordinator, &member->target);
        if (member->epoch != consumer->target_epoch || member->state == MEMBER_UNREVOKED)
            continue;
        check_exist(coordinator, &member->assigned);
        check_within(&member->assigned, &member->target);
    }
}

/* arrives: its members were a classic group's before this step. */
static void check_owners(struct group_coordinator *coordinator, const struct consumer_group *consumer, bool arrives)
{
    bool assigned[UINT8_MAX + 1][COORDINATOR_PARTITIONS_MAX] = {{false}};
    bool targeted[UINT8_MAX + 1][COORDINATOR_PARTITIONS_MAX] = {{false}};
    uint32_t cursor = 0;
    void *value = NULL;

    assert(consumer->target_epoch <= consumer->epoch);
    while (map_next(&consumer->members, &cursor, NULL, &value)) {
        const struct consumer_member *member = value;
        const struct partition_set *sets[] = {&member->assigned, &member->revoking, &member->target};

        assert(member->epoch <= consumer->target_epoch);
        for (uint32_t i = 0; i < sizeof(sets) / sizeof(sets[0]); i++)
            for (uint32_t j = 0; j < sets[i]->count; j++) {
                uint8_t topic = sets[i]->items[j].topic.bytes[UUID_BYTES - 1];
                bool *taken = sets[i] == &member->target ? &targeted[topic][sets[i]->items[j].partition]
                                                         : &assigned[topic][sets[i]->items[j].partition];

                assert(!*taken);
                *taken = true;
                if (arrives && !existed(coordinator, &sets[i]->items[j]))
                    coordinator->mistaken[topic][sets[i]->items[j].partition] = true;
                assert(existed(coordinator, &sets[i]->items[j]));
            }
    }
}

/* When a classic group becomes one of this kind, its members' assignments are the first target. Who joins with another
 * subscription than somebody before has it computed anew, in the same step; who takes a static member's place does not
 * (as with Apache Kafka). */
static void look_at_target(const struct group_coordinator *coordinator, struct group_numbers *numbers,
                           const struct consumer_group *consumer)
{
    const struct groups *groups = consumer->group->groups;

    if (!numbers->was_consumer)
        numbers->target_taken = consumer->target_ms == 0;
    else if (consumer->target_epoch != numbers->target_epoch)
        numbers->target_taken = false;
    if (!numbers->target_taken && consumer->target_epoch == consumer->epoch &&
        consumer->topics_seen == groups->topics_changes)
        check_seen(coordinator, consumer);
    numbers->target_epoch = consumer->target_epoch;
    numbers->was_consumer = true;
}

/* INT32_MAX: there is none, and what comes begins anew. */
static int32_t number_of(const struct group *group)
{
    if (group != NULL && group->kind == GROUP_CONSUMER)
        return group->consumer->epoch;
    return group != NULL && group->classic != NULL ? group->classic->generation : INT32_MAX;
}

static const struct group *find(const struct group_coordinator *coordinator, struct bytes id)
{
    return coordinator->groups == NULL ? NULL : group_find(coordinator->groups, id);
}

uint32_t group_coordinator_member_count(const struct group_coordinator *coordinator, struct bytes id)
{
    const struct group *group = find(coordinator, id);

    if (group == NULL)
        return 0;
    if (group->kind == GROUP_CONSUMER)
        return group->consumer->member_count;
    return group->classic == NULL ? 0 : classic_member_count(group->classic);
}

bool group_coordinator_is_consumer(const struct group_coordinator *coordinator, struct bytes id)
{
    const struct group *group = find(coordinator, id);

    return group != NULL && group->kind == GROUP_CONSUMER;
}

void group_coordinator_check_state(struct group_coordinator *coordinator)
{
    group_coordinator_check_gone(coordinator);
    for (uint32_t i = 0; i < COORDINATOR_GROUPS; i++) {
        struct group_numbers *numbers = &coordinator->numbers[i];
        const struct group *group = numbers->id.data == NULL ? NULL : group_find(coordinator->groups, numbers->id);

        check_number(numbers, number_of(group));
        numbers->number = number_of(group);
        numbers->had_members = group != NULL && group_has_members(group);
        if (group == NULL || group->kind != GROUP_CONSUMER) {
            numbers->was_consumer = false;
            continue;
        }
        check_owners(coordinator, group->consumer, !numbers->was_consumer);
        look_at_target(coordinator, numbers, group->consumer);
    }
}

void group_coordinator_check_lost(struct group_coordinator *coordinator)
{
    memset(coordinator->going, 0, sizeof(coordinator->going));
    memset(coordinator->gone, 0, sizeof(coordinator->gone)); /* the tombstones may be lost */
    for (uint32_t i = 0; i < COORDINATOR_GROUPS; i++)
        coordinator->numbers[i].had_members = false;
}
