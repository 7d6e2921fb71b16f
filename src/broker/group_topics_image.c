#include "broker/group_topics_image.h"

#include "broker/broker_internal.h"

_Static_assert((int)GROUP_TOPIC_NAME_BYTES_MAX >= (int)IMAGE_TOPIC_NAME_BYTES_MAX, "a topic's name fits");

const struct bytes group_topic_name = {(const uint8_t *)"__consumer_offsets", sizeof("__consumer_offsets") - 1};

static const struct image *image_of(const struct group_topics *topics)
{
    const struct shard_groups *groups =
        (const struct shard_groups *)(const void *)((const char *)topics - offsetof(struct shard_groups, topics));

    return groups->shard->image;
}

static bool take(const struct image_topic *row, struct group_topic *topic)
{
    if (row == NULL)
        return false;
    *topic = (struct group_topic){row->id, row->name, row->partition_count};
    return true;
}

static bool by_name(const struct group_topics *topics, struct bytes name, struct group_topic *topic)
{
    const struct image *image = image_of(topics);

    return image != NULL && take(image_topic_by_name(image, name), topic);
}

static bool by_id(const struct group_topics *topics, struct uuid id, struct group_topic *topic)
{
    const struct image *image = image_of(topics);

    return image != NULL && take(image_topic_by_id(image, id), topic);
}

struct walk {
    bool (*each)(void *context, const struct group_topic *topic);
    void *context;
};

/* An image_topic_fn. */
static enum err walk_topic(void *context, const struct image_topic *row)
{
    const struct walk *walk = context;
    struct group_topic topic;

    return take(row, &topic) && walk->each(walk->context, &topic) ? ERR_OK : ERR_END;
}

static void each_topic(const struct group_topics *topics, struct bytes from,
                       bool (*each)(void *context, const struct group_topic *topic), void *context)
{
    const struct image *image = image_of(topics);
    struct walk walk = {each, context};
    enum err err = image == NULL ? ERR_END : image_each_topic_from(image, from, walk_topic, &walk);

    (void)err; /* it stopped where each said so */
}

/* Adds it where it belongs among those that are there; how many there are then. */
static uint32_t add_rack(struct bytes *racks, uint32_t count, uint32_t max, struct bytes rack)
{
    uint32_t at = count;

    for (uint32_t i = 0; i < count; i++)
        if (bytes_equal(racks[i], rack))
            return count;
    if (count == max)
        return count;
    for (; at > 0 && bytes_compare(racks[at - 1], rack) > 0; at--)
        racks[at] = racks[at - 1];
    racks[at] = rack;
    return count + 1;
}

static uint32_t racks_of(const struct group_topics *topics, struct uuid id, uint32_t partition, struct bytes *racks,
                         uint32_t max)
{
    const struct image *image = image_of(topics);
    const struct image_partition *row = image == NULL ? NULL : image_partition(image, id, (int32_t)partition);
    uint32_t count = 0;

    for (uint32_t i = 0; row != NULL && i < row->replica_count; i++) {
        const struct image_broker *broker = image_broker(image, row->replicas[i]);

        if (broker != NULL && broker->rack.data != NULL)
            count = add_rack(racks, count, max, broker->rack);
    }
    return count;
}

static struct bytes group_config(const struct group_topics *topics, struct bytes group_id, struct bytes name)
{
    const struct image *image = image_of(topics);

    return image == NULL ? (struct bytes){0} : image_config(image, CONFIG_GROUP, group_id, name);
}

void group_topics_image_init(struct group_topics *topics)
{
    *topics = (struct group_topics){
        .by_name = by_name, .by_id = by_id, .each = each_topic, .racks = racks_of, .group_config = group_config};
}
