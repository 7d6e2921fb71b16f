/* What the image says of settings reaches a shard's partitions, and its own. */
#include "base/assert.h"
#include "broker/broker_internal.h"
#include "broker/dynamic_config.h"
#include "broker/topic_config.h"

static void topic_config(struct shard *shard, const struct image_topic *topic, struct log_config *config)
{
    const struct image_configs *own = image_configs(shard->image, CONFIG_TOPIC, topic->name);

    topic_config_resolve(shard->broker->config, shard->image, shard->broker->node_id, own,
                         topic_is_internal(topic->name), config);
}

struct log_config *shard_share_config(struct shard *shard, const struct image_topic *topic)
{
    struct log_config config;

    topic_config(shard, topic, &config);
    return log_config_share(&config);
}

static void set_config(struct shard *shard, const struct image_topic *topic)
{
    struct log_config config;

    topic_config(shard, topic, &config);
    for (uint32_t i = 0; i < topic->partition_count; i++) {
        struct partition *partition = shard_find(shard, topic->id, (int32_t)i);

        if (partition != NULL)
            partition_set_config(partition, &config);
    }
}

static enum err set_config_of_each(void *context, const struct image_topic *topic)
{
    set_config(context, topic);
    return ERR_OK;
}

static void follow_topic_configs(struct shard *shard, const struct image_configs_change *change)
{
    const struct image_configs *row = change->after != NULL ? change->after : change->before;
    const struct image_topic *topic =
        row->type != CONFIG_TOPIC ? NULL : image_topic_by_name(shard->image, row->resource);

    if (topic != NULL)
        set_config(shard, topic);
}

static bool concerns_brokers(const struct image_delta *delta)
{
    for (uint32_t i = 0; i < delta->configs_count; i++) {
        const struct image_configs_change *change = &delta->configs[i];

        if ((change->after != NULL ? change->after : change->before)->type == CONFIG_BROKER)
            return true;
    }
    return false;
}

/* What nodes are told may stand for any topic's: then all are looked at, once. */
void shard_follow_configs(struct shard *shard, const struct image_delta *delta, bool is_home, bool is_first)
{
    if (concerns_brokers(delta)) {
        dynamic_config_apply(shard);
        if (is_home && !is_first) {
            enum err err = image_each_topic(shard->image, set_config_of_each, shard);

            assert(err == ERR_OK);
        }
        return;
    }
    for (uint32_t i = 0; is_home && !is_first && i < delta->configs_count; i++)
        follow_topic_configs(shard, &delta->configs[i]);
}
