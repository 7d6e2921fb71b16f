#include "sim/group_coordinator_check.h"

#include "base/assert.h"
#include "base/big_endian.h"
#include "base/mem.h"
#include "coordinator/classic_internal.h"
#include "coordinator/consumer_internal.h"
#include "protocol/gen/consumer_group_metadata_record.h"
#include "protocol/gen/group_metadata_record.h"
#include "protocol/gen/offset_commit_record.h"

enum { RECORD_BYTES_MAX = 1024 * 1024 };

/* ---- offsets ---- */

struct committed {
    int64_t offset; /* -1: none */
    struct uuid topic;
};

static struct committed committed_of(const struct group_record *record)
{
    struct committed committed = {.offset = -1};
    struct offset_commit_value value;
    struct wire_reader reader;
    struct arena arena;
    int16_t version = 0;

    if (record->value.data == NULL)
        return committed;
    arena_init(&arena, RECORD_BYTES_MAX);
    wire_reader_init(&reader, record->value);
    version = wire_read_i16(&reader);
    if (offset_commit_value_read(&reader, &arena, version, &value) != ERR_OK)
        assert(false && "an offset that cannot be read");
    committed = (struct committed){value.offset, value.topic_id};
    arena_deinit(&arena);
    return committed;
}

/* The invariant of offsets, against the newest of the same key and the same life of the topic. */
static void check_offset(const struct group_coordinator *coordinator, const struct group_record *record)
{
    if (big_endian_load_u16(record->key.data) != OFFSET_COMMIT_KEY_API_KEY || record->reset || record->confused ||
        record->value.data == NULL)
        return;
    for (uint32_t i = coordinator->record_count; i > 0; i--)
        if (bytes_equal(coordinator->records[i - 1].key, record->key)) {
            struct committed before = committed_of(&coordinator->records[i - 1]);
            struct committed now = committed_of(record);

            assert(now.offset >= before.offset || coordinator->records[i - 1].confused ||
                   !uuid_equal(now.topic, before.topic));
            return;
        }
}

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

/* A generation or an epoch: they go on from one kind of group to the other. */
static void check_number(struct group_numbers *numbers, int32_t number)
{
    if (number < numbers->number) {
        assert(!numbers->had_members);
        numbers->life++;
    }
    numbers->number = number;
}

void group_coordinator_check_record(struct group_coordinator *coordinator, const struct group_record *record)
{
    struct consumer_group_metadata_key consumer_key;
    struct consumer_group_metadata_value consumer;
    struct group_metadata_key classic_key;
    struct group_metadata_value classic;
    struct wire_reader key;
    struct wire_reader value;
    struct arena arena;
    int16_t kind = 0;
    int16_t version = 0;
    enum err err = ERR_OK;

    check_offset(coordinator, record);
    if (record->value.data == NULL)
        return;
    arena_init(&arena, RECORD_BYTES_MAX);
    wire_reader_init(&key, record->key);
    wire_reader_init(&value, record->value);
    kind = wire_read_i16(&key);
    version = wire_read_i16(&value);
    if (kind == CONSUMER_GROUP_METADATA_KEY_API_KEY) {
        err = consumer_group_metadata_key_read(&key, &arena, 0, &consumer_key);
        if (err == ERR_OK)
            err = consumer_group_metadata_value_read(&value, &arena, version, &consumer);
        assert(err == ERR_OK);
        check_number(numbers_of(coordinator, consumer_key.group_id), consumer.epoch);
    } else if (kind == GROUP_METADATA_KEY_API_KEY) {
        err = group_metadata_key_read(&key, &arena, 0, &classic_key);
        if (err == ERR_OK)
            err = group_metadata_value_read(&value, &arena, version, &classic);
        assert(err == ERR_OK);
        check_number(numbers_of(coordinator, classic_key.group), classic.generation);
    }
    arena_deinit(&arena);
}

/* ---- the state of a group of the consumer protocol ---- */

/* A target that was computed just now. */
static void check_target(const struct group_coordinator *coordinator, const struct consumer_group *consumer)
{
    uint32_t cursor = 0;
    void *value = NULL;

    while (map_next(&consumer->members, &cursor, NULL, &value)) {
        const struct partition_set *target = &((const struct consumer_member *)value)->target;

        for (uint32_t i = 0; i < target->count; i++) {
            struct group_topic topic = {0};

            assert(coordinator->topics.by_id(&coordinator->topics, target->items[i].topic, &topic));
            assert((uint32_t)target->items[i].partition < topic.partition_count);
        }
    }
}

static void check_owners(const struct consumer_group *consumer)
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
            }
    }
}

/* When a classic group becomes one of this kind, its members' assignments are the first target. Who joins with another
 * subscription than somebody before has it computed anew, in the same step; who takes a static member's place does not
 * (as with Apache Kafka). */
static void look_at_target(const struct group_coordinator *coordinator, struct group_numbers *numbers,
                           const struct consumer_group *consumer)
{
    if (!numbers->was_consumer)
        numbers->target_taken = consumer->target_ms == 0;
    else if (consumer->target_epoch != numbers->target_epoch)
        numbers->target_taken = false;
    if (!numbers->loading && !numbers->target_taken && consumer->target_epoch != numbers->target_epoch)
        check_target(coordinator, consumer);
    numbers->target_epoch = consumer->target_epoch;
    numbers->was_consumer = true;
    numbers->loading = false;
}

/* INT32_MAX: there is none, and what comes begins anew. */
static int32_t number_of(const struct group *group)
{
    if (group != NULL && group->kind == GROUP_CONSUMER)
        return group->consumer->epoch;
    return group != NULL && group->classic != NULL ? group->classic->generation : INT32_MAX;
}

void group_coordinator_check_state(struct group_coordinator *coordinator)
{
    for (uint32_t i = 0; i < COORDINATOR_GROUPS; i++) {
        struct group_numbers *numbers = &coordinator->numbers[i];
        const struct group *group = numbers->id.data == NULL ? NULL : group_find(coordinator->groups, numbers->id);

        check_number(numbers, number_of(group));
        numbers->had_members = group != NULL && group_has_members(group);
        if (group == NULL || group->kind != GROUP_CONSUMER) {
            numbers->was_consumer = false;
            continue;
        }
        check_owners(group->consumer);
        look_at_target(coordinator, numbers, group->consumer);
    }
}

void group_coordinator_check_lost(struct group_coordinator *coordinator)
{
    for (uint32_t i = 0; i < COORDINATOR_GROUPS; i++) {
        coordinator->numbers[i].had_members = false;
        coordinator->numbers[i].loading = true;
    }
}
