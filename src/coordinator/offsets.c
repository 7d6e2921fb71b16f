#include "coordinator/offsets.h"

#include "base/big_endian.h"
#include "coordinator/offsets_store.h"
#include "protocol/gen/legacy_offset_commit_record.h"
#include "protocol/gen/offset_commit_record.h"

enum {
    VERSION_BYTES = 2,
};

/* Key or value behind its two bytes. */
static enum err read_half(const struct message_type *type, int16_t version, struct bytes from, void *message)
{
    struct wire_reader reader;
    struct arena arena;
    enum err err = ERR_OK;

    arena_init(&arena, 0); /* these records have no arrays: nothing is taken of it */
    wire_reader_init(&reader, bytes_of(from.data + VERSION_BYTES, from.size - VERSION_BYTES));
    err = message_read(type, &reader, &arena, version, message);
    arena_deinit(&arena);
    return err == ERR_MALFORMED ? ERR_DAMAGED : err;
}

static enum err read_key(int16_t kind, struct bytes from, struct offset_commit_key *key)
{
    struct legacy_offset_commit_key legacy;
    enum err err = ERR_OK;

    if (kind == OFFSET_COMMIT_KEY_API_KEY)
        return read_half(&offset_commit_key_message, 0, from, key);
    err = read_half(&legacy_offset_commit_key_message, 0, from, &legacy);
    *key = (struct offset_commit_key){.group = legacy.group, .topic = legacy.topic, .partition = legacy.partition};
    return err;
}

static enum err read_value(int16_t kind, struct bytes from, struct offset_value *value)
{
    int16_t version = 0;
    struct offset_commit_value record;
    struct legacy_offset_commit_value legacy;
    enum err err = ERR_OK;

    if (from.size < VERSION_BYTES)
        return ERR_DAMAGED;
    version = (int16_t)big_endian_load_u16(from.data);
    if (!message_serves(kind == OFFSET_COMMIT_KEY_API_KEY ? &offset_commit_value_message
                                                          : &legacy_offset_commit_value_message,
                        version))
        return ERR_UNSUPPORTED_VERSION;
    if (kind == OFFSET_COMMIT_KEY_API_KEY) {
        err = read_half(&offset_commit_value_message, version, from, &record);
        *value = (struct offset_value){.offset = record.offset,
                                       .commit_ms = record.commit_timestamp,
                                       .expire_ms = record.expire_timestamp,
                                       .leader_epoch = record.leader_epoch,
                                       .topic_id = record.topic_id,
                                       .metadata = record.metadata};
    } else {
        err = read_half(&legacy_offset_commit_value_message, version, from, &legacy);
        *value = (struct offset_value){.offset = legacy.offset,
                                       .commit_ms = legacy.commit_timestamp,
                                       .expire_ms = -1,
                                       .leader_epoch = -1,
                                       .metadata = legacy.metadata};
    }
    return err;
}

enum err offsets_replay(struct groups *groups, int64_t producer_id, int16_t kind, struct bytes key, struct bytes value)
{
    struct offset_commit_key at = {0};
    struct offset_value offset = {0};
    struct group *group = NULL;
    enum err err = read_key(kind, key, &at);

    if (err != ERR_OK)
        return err;
    if (value.data == NULL) {
        group = group_find(groups, at.group);
        if (group != NULL) /* which stays, as Apache Kafka's does: OffsetDelete is no DeleteGroups */
            offsets_drop(group, at.topic, at.partition);
        return ERR_OK;
    }
    err = read_value(kind, value, &offset);
    if (err != ERR_OK)
        return err;
    if (producer_id == -1)
        return offsets_put(groups, at.group, at.topic, at.partition, &offset);
    return offsets_put_pending(groups, producer_id, at.group, at.topic, at.partition, &offset);
}

enum err offsets_replay_marker(struct groups *groups, int64_t producer_id, bool committed)
{
    offsets_settle(groups, producer_id, committed);
    return ERR_OK;
}
