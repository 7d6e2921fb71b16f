#include "raftmeta/image_rows.h"

#include "base/assert.h"
#include "base/mem.h"

/* Where the next piece of a row goes. Pieces that need alignment come first. */
struct cursor {
    uint8_t *at;
};

static const void *take(struct cursor *cursor, const void *from, size_t size)
{
    uint8_t *to = cursor->at;

    if (size > 0)
        memcpy(to, from, size);
    cursor->at += size;
    return to;
}

/* With a NUL behind it; null stays null. */
static struct bytes take_text(struct cursor *cursor, struct bytes from)
{
    struct bytes text = {NULL, 0};

    if (from.data == NULL)
        return text;
    text = bytes_of(take(cursor, from.data, from.size), from.size);
    *cursor->at++ = 0;
    return text;
}

static size_t text_room(struct bytes text)
{
    return text.data == NULL ? 0 : text.size + 1;
}

static bool last_reference(atomic_uint *references)
{
    return atomic_fetch_sub_explicit(references, 1, memory_order_acq_rel) == 1;
}

static void add_reference(atomic_uint *references)
{
    atomic_fetch_add_explicit(references, 1, memory_order_relaxed);
}

struct image_partition *partition_row_new(const struct image_partition *from)
{
    size_t ids = (size_t)from->replica_count + from->isr_count + from->adding_count + from->removing_count +
                 from->elr_count + from->last_elr_count;
    struct image_partition *row =
        mem_alloc(sizeof(*row) + ids * sizeof(int32_t) + from->replica_count * sizeof(struct uuid));
    struct cursor cursor;

    if (row == NULL)
        return NULL;
    cursor = (struct cursor){(uint8_t *)(row + 1)};
    ROW_COPY(row, from);
    atomic_init(&row->references, 1);
    row->replicas = take(&cursor, from->replicas, from->replica_count * sizeof(int32_t));
    row->isr = take(&cursor, from->isr, from->isr_count * sizeof(int32_t));
    row->adding = take(&cursor, from->adding, from->adding_count * sizeof(int32_t));
    row->removing = take(&cursor, from->removing, from->removing_count * sizeof(int32_t));
    row->elr = take(&cursor, from->elr, from->elr_count * sizeof(int32_t));
    row->last_elr = take(&cursor, from->last_elr, from->last_elr_count * sizeof(int32_t));
    row->directories = take(&cursor, from->directories, from->replica_count * sizeof(struct uuid));
    return row;
}

void partition_row_keep(struct image_partition *row)
{
    add_reference(&row->references);
}

void partition_row_drop(struct image_partition *row)
{
    if (row != NULL && last_reference(&row->references))
        mem_free(row);
}

struct image_topic *topic_row_new(struct bytes name, struct uuid id)
{
    struct image_topic *row = mem_alloc(sizeof(*row) + text_room(name));
    struct cursor cursor;

    if (row == NULL)
        return NULL;
    cursor = (struct cursor){(uint8_t *)(row + 1)};
    *row = (struct image_topic){.id = id};
    atomic_init(&row->references, 1);
    row->name = take_text(&cursor, name);
    return row;
}

struct image_topic *topic_row_copy(const struct image_topic *from)
{
    struct image_topic *row = topic_row_new(from->name, from->id);

    if (row == NULL)
        return NULL;
    if (topic_row_grow(row, from->partition_count) != ERR_OK) {
        topic_row_drop(row);
        return NULL;
    }
    for (uint32_t i = 0; i < from->partition_count; i++) {
        row->partitions[i] = from->partitions[i];
        if (row->partitions[i] != NULL)
            partition_row_keep(row->partitions[i]);
    }
    return row;
}

/* The room doubles, so that a topic's partitions, arriving one by one, cost linear time. */
static uint32_t room_of(uint32_t count)
{
    uint32_t room = 1;

    while (room < count)
        room *= 2;
    return count == 0 ? 0 : room;
}

MUST_CHECK enum err topic_row_grow(struct image_topic *topic, uint32_t count)
{
    uint32_t room = room_of(count);

    if (count <= topic->partition_count)
        return ERR_OK;
    if (room > room_of(topic->partition_count)) {
        struct image_partition **grown = mem_realloc(topic->partitions, room * sizeof(*grown));

        if (grown == NULL)
            return ERR_NOMEM;
        topic->partitions = grown;
    }
    for (uint32_t i = topic->partition_count; i < count; i++)
        topic->partitions[i] = NULL;
    topic->partition_count = count;
    return ERR_OK;
}

void topic_row_keep(const struct image_topic *row)
{
    add_reference(&((struct image_topic *)(uintptr_t)row)->references);
}

void topic_row_drop(const struct image_topic *row)
{
    struct image_topic *mine = (struct image_topic *)(uintptr_t)row;

    if (mine == NULL || !last_reference(&mine->references))
        return;
    for (uint32_t i = 0; i < mine->partition_count; i++)
        partition_row_drop(mine->partitions[i]);
    mem_free(mine->partitions);
    mem_free(mine);
}

struct image_broker *broker_row_new(const struct image_broker *from)
{
    size_t size = sizeof(*from) + text_room(from->rack);
    struct image_broker *row = NULL;
    struct image_endpoint *endpoints = NULL;
    struct image_feature_range *features = NULL;
    struct cursor cursor = {NULL};

    size += from->endpoint_count * sizeof(*endpoints) + from->feature_count * sizeof(*features);
    for (uint32_t i = 0; i < from->endpoint_count; i++)
        size += text_room(from->endpoints[i].name) + text_room(from->endpoints[i].host);
    for (uint32_t i = 0; i < from->feature_count; i++)
        size += text_room(from->features[i].name);
    size += ((size_t)from->directory_count + from->cordoned_count) * sizeof(struct uuid);
    row = mem_alloc(size);
    if (row == NULL)
        return NULL;
    ROW_COPY(row, from);
    atomic_init(&row->references, 1);
    row->edit = NULL;
    for (uint32_t i = 0; i < sizeof(row->key); i++)
        row->key[i] = (uint8_t)((uint32_t)from->id >> (24 - 8 * i));
    endpoints = (struct image_endpoint *)(row + 1);
    features = (struct image_feature_range *)(endpoints + from->endpoint_count);
    cursor.at = (uint8_t *)(features + from->feature_count);
    for (uint32_t i = 0; i < from->endpoint_count; i++) {
        endpoints[i] = from->endpoints[i];
        endpoints[i].name = take_text(&cursor, from->endpoints[i].name);
        endpoints[i].host = take_text(&cursor, from->endpoints[i].host);
    }
    for (uint32_t i = 0; i < from->feature_count; i++) {
        features[i] = from->features[i];
        features[i].name = take_text(&cursor, from->features[i].name);
    }
    row->endpoints = endpoints;
    row->features = features;
    row->rack = take_text(&cursor, from->rack);
    row->directories = take(&cursor, from->directories, from->directory_count * sizeof(struct uuid));
    row->cordoned = take(&cursor, from->cordoned, from->cordoned_count * sizeof(struct uuid));
    assert(cursor.at == (uint8_t *)row + size);
    return row;
}

struct bytes broker_row_key(const struct image_broker *row)
{
    return bytes_of(row->key, sizeof(row->key));
}

void broker_row_keep(const struct image_broker *row)
{
    add_reference(&((struct image_broker *)(uintptr_t)row)->references);
}

void broker_row_drop(const struct image_broker *row)
{
    struct image_broker *mine = (struct image_broker *)(uintptr_t)row;

    if (mine != NULL && last_reference(&mine->references))
        mem_free(mine);
}

struct image_configs *configs_row_new(const struct image_configs *from)
{
    size_t size = sizeof(*from) + from->count * sizeof(struct image_config) + 1 + text_room(from->resource);
    struct image_configs *row = NULL;
    struct image_config *entries = NULL;
    struct cursor cursor = {NULL};

    for (uint32_t i = 0; i < from->count; i++)
        size += text_room(from->entries[i].name) + text_room(from->entries[i].value);
    row = mem_alloc(size);
    if (row == NULL)
        return NULL;
    ROW_COPY(row, from);
    atomic_init(&row->references, 1);
    row->edit = NULL;
    entries = (struct image_config *)(row + 1);
    cursor.at = (uint8_t *)(entries + from->count);
    *cursor.at++ = (uint8_t)from->type; /* the key: type, then name */
    row->resource = take_text(&cursor, from->resource);
    for (uint32_t i = 0; i < from->count; i++) {
        entries[i].name = take_text(&cursor, from->entries[i].name);
        entries[i].value = take_text(&cursor, from->entries[i].value);
    }
    row->entries = entries;
    assert(cursor.at == (uint8_t *)row + size);
    return row;
}

struct bytes configs_row_key(const struct image_configs *row)
{
    return bytes_of(row->resource.data - 1, row->resource.size + 1);
}

void configs_row_keep(const struct image_configs *row)
{
    add_reference(&((struct image_configs *)(uintptr_t)row)->references);
}

void configs_row_drop(const struct image_configs *row)
{
    struct image_configs *mine = (struct image_configs *)(uintptr_t)row;

    if (mine != NULL && last_reference(&mine->references))
        mem_free(mine);
}

struct image_feature *feature_row_new(struct bytes name, int16_t level)
{
    struct image_feature *row = mem_alloc(sizeof(*row) + text_room(name));
    struct cursor cursor;

    if (row == NULL)
        return NULL;
    cursor = (struct cursor){(uint8_t *)(row + 1)};
    atomic_init(&row->references, 1);
    row->name = take_text(&cursor, name);
    row->level = level;
    return row;
}

void feature_row_drop(struct image_feature *row)
{
    if (row != NULL && last_reference(&row->references))
        mem_free(row);
}

struct image_record *record_row_new(uint32_t type, struct bytes key, struct bytes frame)
{
    struct image_record *row = mem_alloc(sizeof(*row) + key.size + frame.size);
    struct cursor cursor;

    if (row == NULL)
        return NULL;
    cursor = (struct cursor){(uint8_t *)(row + 1)};
    atomic_init(&row->references, 1);
    row->type = type;
    row->key = bytes_of(take(&cursor, key.data, key.size), key.size);
    row->frame = bytes_of(take(&cursor, frame.data, frame.size), frame.size);
    return row;
}

void record_row_drop(struct image_record *row)
{
    if (row != NULL && last_reference(&row->references))
        mem_free(row);
}

static void topic_keep(void *row)
{
    topic_row_keep(row);
}

static void topic_drop(void *row)
{
    topic_row_drop(row);
}

static void broker_keep(void *row)
{
    broker_row_keep(row);
}

static void broker_drop(void *row)
{
    broker_row_drop(row);
}

static void configs_keep(void *row)
{
    configs_row_keep(row);
}

static void configs_drop(void *row)
{
    configs_row_drop(row);
}

static void feature_keep(void *row)
{
    add_reference(&((struct image_feature *)row)->references);
}

static void feature_drop(void *row)
{
    feature_row_drop(row);
}

static void record_keep(void *row)
{
    add_reference(&((struct image_record *)row)->references);
}

static void record_drop(void *row)
{
    record_row_drop(row);
}

const struct pmap_ops topic_rows = {topic_keep, topic_drop};
const struct pmap_ops broker_rows = {broker_keep, broker_drop};
const struct pmap_ops configs_rows = {configs_keep, configs_drop};
const struct pmap_ops feature_rows = {feature_keep, feature_drop};
const struct pmap_ops record_rows = {record_keep, record_drop};
