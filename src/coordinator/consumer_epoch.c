#define XXH_INLINE_ALL
#include <stdlib.h>
#include <xxhash.h>

#include "base/big_endian.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "coordinator/consumer_internal.h"
#include "protocol/gen/consumer_group_metadata_record.h"
#include "protocol/gen/consumer_group_partition_metadata_record.h"

enum {
    TEXT_ROOM_FIRST = 4096,
};

/* What is hashed: as hash4j streams it. Numbers are little-endian; a text is its UTF-16 units, then how many. */
struct hash_text {
    uint8_t *bytes;
    uint32_t size;
    uint32_t room;
    enum err err;
};

static void put(struct hash_text *text, uint64_t number, uint32_t bytes)
{
    if (text->err == ERR_OK)
        text->err = mem_grow(&text->bytes, &text->room, text->size + bytes, TEXT_ROOM_FIRST, 1);
    for (uint32_t i = 0; i < bytes && text->err == ERR_OK; i++)
        text->bytes[text->size++] = (uint8_t)(number >> (8 * i));
}

static void put_text(struct hash_text *text, struct bytes what)
{
    size_t count = utf8_count_units(what);

    while (what.size > 0) {
        uint16_t units[2];
        uint32_t code = 0;
        uint32_t of_code = 0;

        utf8_take(&what, &code);
        of_code = utf8_units(code, units);
        for (uint32_t i = 0; i < of_code; i++)
            put(text, units[i], 2);
    }
    put(text, count, 4);
}

static enum err hash_topic(const struct group_topics *topics, const struct group_topic *topic, uint64_t *hash)
{
    struct bytes racks[GROUP_TOPIC_RACKS_MAX];
    struct hash_text text = {.err = ERR_OK};

    put(&text, 0, 1); /* of the hash's form */
    put(&text, big_endian_load_u64(topic->id.bytes), 8);
    put(&text, big_endian_load_u64(topic->id.bytes + 8), 8);
    put_text(&text, topic->name);
    put(&text, topic->partition_count, 4);
    for (uint32_t i = 0; i < topic->partition_count; i++) {
        uint32_t count = topics->racks(topics, topic->id, i, racks, GROUP_TOPIC_RACKS_MAX);

        put(&text, i, 4);
        for (uint32_t j = 0; j < count; j++) {
            put(&text, utf8_count_units(racks[j]), 4);
            put_text(&text, racks[j]);
        }
    }
    if (text.err == ERR_OK)
        *hash = XXH3_64bits(text.bytes, text.size);
    mem_free(text.bytes);
    return text.err;
}

static int compare(const void *a, const void *b)
{
    return bytes_compare((*(struct consumer_name *const *)a)->name, (*(struct consumer_name *const *)b)->name);
}

enum err consumer_hash(struct consumer_group *consumer, const struct step *step, int64_t *hash)
{
    const struct group_topics *topics = step->topics;
    uint32_t room = map_count(&consumer->names);
    uint32_t count = 0;
    uint32_t cursor = 0;
    void *value = NULL;
    struct consumer_name **names = mem_calloc((size_t)room + 1, sizeof(struct consumer_name *));
    struct hash_text text = {.err = ERR_OK};

    if (names == NULL)
        return ERR_NOMEM;
    while (map_next(&consumer->names, &cursor, NULL, &value)) {
        struct consumer_name *name = value;
        struct group_topic topic = {0};

        if (!topics->by_name(topics, name->name, &topic))
            continue; /* what does not exist is left out */
        if (name->hash_version != topics->version) {
            text.err = hash_topic(topics, &topic, &name->hash);
            if (text.err != ERR_OK)
                goto out;
            name->hash_version = topics->version;
        }
        names[count++] = name;
    }
    if (count > 1)
        qsort(names, count, sizeof(struct consumer_name *), compare);
    for (uint32_t i = 0; i < count; i++)
        put(&text, names[i]->hash, 8);
    if (text.err == ERR_OK)
        *hash = count == 0 ? 0 : (int64_t)XXH3_64bits(text.bytes, text.size);
out:
    mem_free(names);
    mem_free(text.bytes);
    return text.err;
}

int32_t consumer_next_epoch(const struct consumer_group *consumer)
{
    return consumer->epoch == INT32_MAX ? INT32_MAX : consumer->epoch + 1;
}

enum err consumer_write_epoch(struct consumer_group *consumer, struct step *step, int32_t epoch, int64_t hash)
{
    struct consumer_group_metadata_key key = {.group_id = consumer->group->id};
    struct consumer_group_metadata_value value;

    consumer_group_metadata_value_init(&value);
    value.epoch = epoch;
    value.metadata_hash = hash;
    return step_write(step, &consumer_group_metadata_key_message, &key, &consumer_group_metadata_value_message, 0,
                      &value);
}

/* The record of brokers before 4.1 says what the hash says now. */
static enum err write_metadata_gone(struct consumer_group *consumer, struct step *step)
{
    struct consumer_group_partition_metadata_key key = {.group_id = consumer->group->id};

    return step_write(step, &consumer_group_partition_metadata_key_message, &key,
                      &consumer_group_partition_metadata_value_message, 0, NULL);
}

bool consumer_must_refresh(const struct consumer_group *consumer)
{
    return consumer->topics_seen != consumer->group->groups->topics_changes;
}

enum err consumer_bump(struct consumer_group *consumer, struct step *step, bool asked)
{
    int64_t hash = 0;
    enum err err = consumer_hash(consumer, step, &hash);

    if (err != ERR_OK)
        return err;
    if (asked || hash != consumer->metadata_hash)
        err = consumer_write_epoch(consumer, step, consumer_next_epoch(consumer), hash);
    if (err != ERR_OK)
        return err;
    consumer->topics_seen = consumer->group->groups->topics_changes;
    return consumer->has_metadata ? write_metadata_gone(consumer, step) : ERR_OK;
}
