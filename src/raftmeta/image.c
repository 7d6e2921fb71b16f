#include "raftmeta/image.h"

#include "base/assert.h"
#include "base/mem.h"
#include "raftmeta/image_rows.h"

struct image *image_new(void)
{
    struct image *image = mem_calloc(1, sizeof(*image));

    if (image == NULL)
        return NULL;
    atomic_init(&image->references, 1);
    image->offset = IMAGE_OFFSET_NONE;
    image->epoch = -1;
    image->timestamp_ms = -1;
    pmap_init(&image->topics_by_name, &topic_rows);
    pmap_init(&image->topics_by_id, &topic_rows);
    pmap_init(&image->brokers, &broker_rows);
    pmap_init(&image->controllers, &broker_rows);
    pmap_init(&image->configs, &configs_rows);
    pmap_init(&image->features, &feature_rows);
    pmap_init(&image->records, &record_rows);
    return image;
}

struct image *image_copy(const struct image *from)
{
    struct image *image = mem_alloc(sizeof(*image));

    if (image == NULL)
        return NULL;
    ROW_COPY(image, from);
    atomic_init(&image->references, 1);
    image->topics_by_name = pmap_copy(&from->topics_by_name);
    image->topics_by_id = pmap_copy(&from->topics_by_id);
    image->brokers = pmap_copy(&from->brokers);
    image->controllers = pmap_copy(&from->controllers);
    image->configs = pmap_copy(&from->configs);
    image->features = pmap_copy(&from->features);
    image->records = pmap_copy(&from->records);
    return image;
}

struct image *image_keep(struct image *image)
{
    atomic_fetch_add_explicit(&image->references, 1, memory_order_relaxed);
    return image;
}

void image_drop(struct image *image)
{
    if (image == NULL || atomic_fetch_sub_explicit(&image->references, 1, memory_order_acq_rel) != 1)
        return;
    pmap_deinit(&image->topics_by_name);
    pmap_deinit(&image->topics_by_id);
    pmap_deinit(&image->brokers);
    pmap_deinit(&image->controllers);
    pmap_deinit(&image->configs);
    pmap_deinit(&image->features);
    pmap_deinit(&image->records);
    mem_free(image);
}

int64_t image_offset(const struct image *image)
{
    return image->offset;
}

int32_t image_epoch(const struct image *image)
{
    return image->epoch;
}

int64_t image_timestamp_ms(const struct image *image)
{
    return image->timestamp_ms;
}

const struct image_topic *image_topic_by_name(const struct image *image, struct bytes name)
{
    return pmap_get(&image->topics_by_name, name);
}

const struct image_topic *image_topic_by_id(const struct image *image, struct uuid id)
{
    return pmap_get(&image->topics_by_id, bytes_of(id.bytes, UUID_BYTES));
}

static bool is_joint(uint8_t c)
{
    return c == '.' || c == '_';
}

/* The places [0, from) of candidate are as wanted; gives the smallest name that matches behind them. */
static void complete(uint8_t *candidate, size_t from, struct bytes name)
{
    for (size_t i = from; i < name.size; i++)
        candidate[i] = is_joint(name.data[i]) ? '.' : name.data[i];
}

/*
 * Makes of candidate the smallest matching name above key, where key is no match; false when there is none. Names match
 * when they are equal but for '.' and '_' at the joints; '.' is the smaller of the two.
 */
static bool advance(uint8_t *candidate, struct bytes name, struct bytes key)
{
    size_t same = 0;

    while (same < name.size && same < key.size &&
           (is_joint(name.data[same]) ? is_joint(key.data[same]) : key.data[same] == name.data[same]))
        same++;
    if (same > 0)
        memcpy(candidate, key.data, same);
    if (same == key.size || (same < name.size && !is_joint(name.data[same]) && key.data[same] < name.data[same]) ||
        (same < name.size && is_joint(name.data[same]) && key.data[same] < '.')) {
        complete(candidate, same, name);
        return true;
    }
    if (same < name.size && is_joint(name.data[same]) && key.data[same] < '_') {
        candidate[same] = '_';
        complete(candidate, same + 1, name);
        return true;
    }
    while (same > 0) { /* key is above all that begins like it: the last joint that can still grow does */
        same--;
        if (is_joint(name.data[same]) && candidate[same] == '.') {
            candidate[same] = '_';
            complete(candidate, same + 1, name);
            return true;
        }
    }
    return false;
}

const struct image_topic *image_topic_colliding(const struct image *image, struct bytes name)
{
    uint8_t candidate[IMAGE_TOPIC_NAME_BYTES_MAX];
    struct pmap_cursor cursor;
    struct bytes key;
    void *row = NULL;
    bool more = name.size > 0 && name.size <= sizeof(candidate) &&
                (memchr(name.data, '.', name.size) != NULL || memchr(name.data, '_', name.size) != NULL);

    if (more)
        complete(candidate, 0, name);
    while (more) {
        pmap_seek(&image->topics_by_name, bytes_of(candidate, name.size), &cursor);
        if (!pmap_next(&cursor, &key, &row))
            return NULL;
        if (bytes_equal(key, name) && !pmap_next(&cursor, &key, &row))
            return NULL;
        more = false;
        for (size_t i = 0; i < name.size && !more; i++)
            more = key.size != name.size ||
                   (is_joint(name.data[i]) ? !is_joint(key.data[i]) : key.data[i] != name.data[i]);
        if (!more)
            return row;
        more = advance(candidate, name, key);
    }
    return NULL;
}

const struct image_partition *image_partition(const struct image *image, struct uuid id, int32_t partition)
{
    const struct image_topic *topic = image_topic_by_id(image, id);

    if (topic == NULL || partition < 0 || (uint32_t)partition >= topic->partition_count)
        return NULL;
    return topic->partitions[partition];
}

static const struct image_broker *node_of(const struct pmap *map, int32_t id)
{
    uint8_t key[4] = {(uint8_t)((uint32_t)id >> 24), (uint8_t)((uint32_t)id >> 16), (uint8_t)((uint32_t)id >> 8),
                      (uint8_t)id};

    return pmap_get(map, bytes_of(key, sizeof(key)));
}

const struct image_broker *image_broker(const struct image *image, int32_t id)
{
    return node_of(&image->brokers, id);
}

const struct image_broker *image_controller(const struct image *image, int32_t id)
{
    return node_of(&image->controllers, id);
}

const struct image_configs *image_configs(const struct image *image, enum config_resource_type type,
                                          struct bytes resource)
{
    uint8_t key[1 + IMAGE_RESOURCE_BYTES_MAX];

    if (resource.size > IMAGE_RESOURCE_BYTES_MAX)
        return NULL;
    key[0] = (uint8_t)type;
    if (resource.size > 0)
        memcpy(key + 1, resource.data, resource.size);
    return pmap_get(&image->configs, bytes_of(key, resource.size + 1));
}

struct bytes image_config(const struct image *image, enum config_resource_type type, struct bytes resource,
                          struct bytes name)
{
    const struct image_configs *configs = image_configs(image, type, resource);

    for (uint32_t i = 0; configs != NULL && i < configs->count; i++)
        if (bytes_equal(configs->entries[i].name, name))
            return configs->entries[i].value;
    return (struct bytes){NULL, 0};
}

int16_t image_feature(const struct image *image, struct bytes name)
{
    const struct image_feature *feature = pmap_get(&image->features, name);

    return feature == NULL ? 0 : feature->level;
}

int16_t image_metadata_version(const struct image *image)
{
    return image_feature(image, BYTES_LITERAL("metadata.version"));
}

int64_t image_next_producer_id(const struct image *image)
{
    return image->next_producer_id;
}

uint32_t image_topic_count(const struct image *image)
{
    return image->topics_by_id.count;
}

uint32_t image_broker_count(const struct image *image)
{
    return image->brokers.count;
}

uint64_t image_partition_count(const struct image *image)
{
    return image->partition_count;
}

enum err image_each_topic(const struct image *image, image_topic_fn *each, void *context)
{
    return image_each_topic_from(image, (struct bytes){0}, each, context);
}

enum err image_each_topic_from(const struct image *image, struct bytes from, image_topic_fn *each, void *context)
{
    struct pmap_cursor cursor;
    void *row = NULL;
    enum err err = ERR_OK;

    pmap_seek(&image->topics_by_name, from, &cursor);
    while (err == ERR_OK && pmap_next(&cursor, NULL, &row))
        err = each(context, row);
    return err;
}

static enum err each_node(const struct pmap *map, image_broker_fn *each, void *context)
{
    struct pmap_cursor cursor;
    void *row = NULL;
    enum err err = ERR_OK;

    pmap_first(map, &cursor);
    while (err == ERR_OK && pmap_next(&cursor, NULL, &row))
        err = each(context, row);
    return err;
}

enum err image_each_broker(const struct image *image, image_broker_fn *each, void *context)
{
    return each_node(&image->brokers, each, context);
}

enum err image_each_controller(const struct image *image, image_broker_fn *each, void *context)
{
    return each_node(&image->controllers, each, context);
}

enum err image_each_configs(const struct image *image, image_configs_fn *each, void *context)
{
    struct pmap_cursor cursor;
    void *row = NULL;
    enum err err = ERR_OK;

    pmap_first(&image->configs, &cursor);
    while (err == ERR_OK && pmap_next(&cursor, NULL, &row))
        err = each(context, row);
    return err;
}

enum err image_each_feature(const struct image *image, image_feature_fn *each, void *context)
{
    struct pmap_cursor cursor;
    void *row = NULL;
    enum err err = ERR_OK;

    pmap_first(&image->features, &cursor);
    while (err == ERR_OK && pmap_next(&cursor, NULL, &row)) {
        const struct image_feature *feature = row;

        err = each(context, feature->name, feature->level);
    }
    return err;
}

enum err image_each_record(const struct image *image, image_record_fn *each, void *context)
{
    struct pmap_cursor cursor;
    void *row = NULL;
    enum err err = ERR_OK;

    pmap_first(&image->records, &cursor);
    while (err == ERR_OK && pmap_next(&cursor, NULL, &row)) {
        const struct image_record *record = row;

        err = each(context, record->type, record->frame);
    }
    return err;
}

/* --- deltas --- */

struct image_delta *image_delta_keep(struct image_delta *delta)
{
    atomic_fetch_add_explicit(&delta->references, 1, memory_order_relaxed);
    return delta;
}

void image_delta_drop(struct image_delta *delta)
{
    if (delta == NULL || atomic_fetch_sub_explicit(&delta->references, 1, memory_order_acq_rel) != 1)
        return;
    for (uint32_t i = 0; i < delta->topic_count; i++) {
        topic_row_drop(delta->topics[i].before);
        topic_row_drop(delta->topics[i].after);
    }
    for (uint32_t i = 0; i < delta->broker_count; i++) {
        broker_row_drop(delta->brokers[i].before);
        broker_row_drop(delta->brokers[i].after);
    }
    for (uint32_t i = 0; i < delta->configs_count; i++) {
        configs_row_drop(delta->configs[i].before);
        configs_row_drop(delta->configs[i].after);
    }
    mem_free(delta->topics);
    mem_free(delta->brokers);
    mem_free(delta->configs);
    mem_free(delta);
}

bool image_delta_is_empty(const struct image_delta *delta)
{
    return delta->topic_count == 0 && delta->broker_count == 0 && delta->configs_count == 0 &&
           !delta->features_changed && !delta->producer_ids_changed && !delta->controllers_changed &&
           !delta->records_changed;
}

static enum err add_topic(void *context, const struct image_topic *topic)
{
    struct image_delta *delta = context;

    topic_row_keep(topic);
    delta->topics[delta->topic_count++] = (struct image_topic_change){NULL, topic};
    return ERR_OK;
}

static enum err add_broker(void *context, const struct image_broker *broker)
{
    struct image_delta *delta = context;

    broker_row_keep(broker);
    delta->brokers[delta->broker_count++] = (struct image_broker_change){NULL, broker};
    return ERR_OK;
}

static enum err add_configs(void *context, const struct image_configs *configs)
{
    struct image_delta *delta = context;

    configs_row_keep(configs);
    delta->configs[delta->configs_count++] = (struct image_configs_change){NULL, configs};
    return ERR_OK;
}

enum err image_delta_whole(const struct image *image, struct image_delta **delta)
{
    struct image_delta *whole = mem_calloc(1, sizeof(*whole));
    enum err err = ERR_NOMEM;

    if (whole == NULL)
        return ERR_NOMEM;
    atomic_init(&whole->references, 1);
    whole->from_offset = IMAGE_OFFSET_NONE;
    whole->to_offset = image->offset;
    whole->features_changed = image->features.count > 0;
    whole->producer_ids_changed = image->next_producer_id > 0;
    whole->controllers_changed = image->controllers.count > 0;
    whole->records_changed = image->records.count > 0;
    whole->topics = mem_calloc((size_t)image->topics_by_id.count + 1, sizeof(*whole->topics));
    whole->brokers = mem_calloc((size_t)image->brokers.count + 1, sizeof(*whole->brokers));
    whole->configs = mem_calloc((size_t)image->configs.count + 1, sizeof(*whole->configs));
    if (whole->topics == NULL || whole->brokers == NULL || whole->configs == NULL)
        goto out;
    err = image_each_topic(image, add_topic, whole);
    if (err == ERR_OK)
        err = image_each_broker(image, add_broker, whole);
    if (err == ERR_OK)
        err = image_each_configs(image, add_configs, whole);
    if (err != ERR_OK)
        goto out;
    *delta = whole;
    whole = NULL;
out:
    image_delta_drop(whole);
    return err;
}
