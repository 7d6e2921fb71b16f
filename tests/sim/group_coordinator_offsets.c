#include "sim/group_coordinator_offsets.h"

#include "base/assert.h"
#include "base/big_endian.h"
#include "coordinator/offsets_store.h"
#include "protocol/gen/offset_commit_record.h"

enum { RECORD_BYTES_MAX = 64 * 1024 };

enum transaction_end group_record_end(const struct group_coordinator *coordinator, const struct group_record *record)
{
    return record->producer_id < 0 ? TRANSACTION_COMMITTED : coordinator->transactions[record->producer_id - 1].marked;
}

static uint8_t topic_number(const struct group_coordinator *coordinator, struct bytes name)
{
    for (uint8_t i = 0; i < COORDINATOR_TOPICS; i++)
        if (bytes_equal(coordinator->table[i].name, name))
            return i;
    assert(false && "a topic that never was");
    return 0;
}

void group_record_read_offset(const struct group_coordinator *coordinator, struct group_record *record)
{
    struct offset_commit_key key;
    struct offset_commit_value value;
    struct wire_reader reader;
    struct arena arena;
    int16_t version = 0;
    enum err err = ERR_OK;

    if (record->marker || big_endian_load_u16(record->key.data) != OFFSET_COMMIT_KEY_API_KEY)
        return;
    arena_init(&arena, RECORD_BYTES_MAX);
    wire_reader_init(&reader, record->key);
    (void)wire_read_i16(&reader);
    err = offset_commit_key_read(&reader, &arena, 0, &key);
    assert(err == ERR_OK);
    record->about = (struct offset_record){
        .is = true, .topic = topic_number(coordinator, key.topic), .partition = key.partition, .group = key.group};
    if (record->value.data != NULL) {
        wire_reader_init(&reader, record->value);
        version = wire_read_i16(&reader);
        err = offset_commit_value_read(&reader, &arena, version, &value);
        assert(err == ERR_OK);
        record->about.stored = true;
        record->about.offset = value.offset;
        record->about.life = value.topic_id.bytes[UUID_BYTES - 1];
    }
    arena_deinit(&arena);
}

/* Against the newest of the same key and the same life of the topic. */
void group_coordinator_check_offset(const struct group_coordinator *coordinator, const struct group_record *record)
{
    if (!record->about.stored || record->reset || record->confused)
        return;
    for (uint32_t i = coordinator->record_count; i > 0; i--) {
        const struct group_record *before = &coordinator->records[i - 1];

        if (!before->about.is || !bytes_equal(before->key, record->key) ||
            group_record_end(coordinator, before) == TRANSACTION_ABORTED)
            continue;
        assert(!before->about.stored || before->confused || before->about.life != record->about.life ||
               record->about.offset >= before->about.offset);
        return;
    }
}

void group_coordinator_expect(const struct group_coordinator *coordinator, struct bytes group_id,
                              struct offsets_expected *expected)
{
    bool known[COORDINATOR_TOPICS][COORDINATOR_PARTITIONS_MAX] = {{false}};
    bool closed[COORDINATOR_TOPICS][COORDINATOR_PARTITIONS_MAX] = {{false}}; /* a tombstone stands behind */

    memset(expected, 0, sizeof(*expected));
    for (uint32_t i = coordinator->record_count; i > 0; i--) {
        const struct group_record *record = &coordinator->records[i - 1];
        const struct offset_record *about = &record->about;
        struct offset_expected *to = &expected->of[about->topic][about->partition];
        enum transaction_end end = TRANSACTION_OPEN;

        if (!about->is || closed[about->topic][about->partition] || !bytes_equal(about->group, group_id))
            continue;
        end = group_record_end(coordinator, record);
        if (!about->stored) {
            closed[about->topic][about->partition] = true;
        } else if (end == TRANSACTION_OPEN) {
            to->pending = true;
        } else if (end == TRANSACTION_COMMITTED && !known[about->topic][about->partition]) {
            known[about->topic][about->partition] = true;
            to->stored = true;
            to->offset = about->offset;
            to->life = about->life;
        }
    }
}

static bool stands_anywhere(const struct groups *groups, uint32_t life)
{
    list_each (&groups->all, node) {
        const struct group *group = LIST_ENTRY(node, struct group, in_all);

        for (uint32_t t = 0; group->offsets != NULL && t < group->offsets->count; t++) {
            const struct topic_offsets *topic = group->offsets->topics[t];

            for (uint32_t i = 0; i < topic->count; i++)
                if (topic->entries[i].cell.stored &&
                    offset_entry_topic_id(topic, &topic->entries[i]).bytes[UUID_BYTES - 1] == life)
                    return true;
        }
    }
    return false;
}

/* Beside what a transaction holds for the topic that has the name now something of the one before may stay. */
static bool is_held(const struct groups *groups, struct bytes name)
{
    list_each (&groups->all, node) {
        const struct topic_offsets *topic = offsets_find_topic(LIST_ENTRY(node, struct group, in_all), name);

        for (uint32_t i = 0; topic != NULL && i < topic->count; i++)
            if (topic->entries[i].pending != NULL)
                return true;
    }
    return false;
}

void group_coordinator_check_gone(struct group_coordinator *coordinator)
{
    const struct groups *groups = coordinator->groups;

    if (!list_is_empty(&groups->gone_topics))
        return;
    for (uint32_t life = 1; life <= coordinator->lives; life++) {
        if (coordinator->going[life] > 0)
            coordinator->gone[life] = !is_held(groups, coordinator->table[coordinator->going[life] - 1].name);
        coordinator->going[life] = 0;
        assert(!coordinator->gone[life] || !stands_anywhere(groups, life));
    }
}
