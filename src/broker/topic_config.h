/*
 * topic_config: what a topic's configuration comes to on this node: its own entries (in the image), then the node's
 * dynamic and static keys through their synonyms, then the defaults. Also the rules that the controller checks changes
 * by, and the one walk that DescribeConfigs and CreateTopics list entries with.
 *
 * Threads  any: everything it reads is constant.
 */
#ifndef OTTLA_BROKER_TOPIC_CONFIG_H
#define OTTLA_BROKER_TOPIC_CONFIG_H

#include "base/arena.h"
#include "broker/broker_limits.h"
#include "broker/config.h"
#include "partition/log_config.h"
#include "raftmeta/controller.h"
#include "raftmeta/image.h"

/* As on the wire (DescribeConfigs). */
enum config_origin {
    CONFIG_ORIGIN_UNKNOWN = 0,
    CONFIG_ORIGIN_TOPIC = 1,
    CONFIG_ORIGIN_DYNAMIC_BROKER = 2,
    CONFIG_ORIGIN_DYNAMIC_DEFAULT_BROKER = 3,
    CONFIG_ORIGIN_STATIC_BROKER = 4,
    CONFIG_ORIGIN_DEFAULT = 5,
    CONFIG_ORIGIN_DYNAMIC_LOGGER = 6,
    CONFIG_ORIGIN_CLIENT_METRICS = 7,
    CONFIG_ORIGIN_GROUP = 8,
};

/* One place where a value stands, most telling first. */
struct config_standing_value {
    const char *name;   /* of the key that has it there: a synonym's, or the key's own */
    struct bytes value; /* null: unset */
    enum config_origin origin;
};

/* Where a value for key id stands: *count entries, the first one wins. own: the resource's entries (a topic's), NULL
 * without any; for broker keys the dynamic entries of the node and the cluster are found in the image. Values lie in
 * the image, the configuration, or the arena. ERR_NOMEM. */
MUST_CHECK enum err config_standing(const struct config *config, const struct image *image, int32_t node_id,
                                    enum config_id id, const struct image_configs *own, struct arena *arena,
                                    struct config_standing_value values[CONFIG_STANDING_MAX], uint32_t *count);

/* The typed sum of it for one topic. own: its entries, NULL without any. */
void topic_config_resolve(const struct config *config, const struct image *image, int32_t node_id,
                          const struct image_configs *own, bool internal, struct log_config *log_config);

/* For controller_settings; config is borrowed for life. */
void topic_config_rules(const struct config *config, struct config_rules *rules);

/* __consumer_offsets, __transaction_state, __share_group_state: made by the broker, marked internal. */
bool topic_is_internal(struct bytes name);
/* Fills in how many partitions and which settings such a topic gets (offsets.topic.*, transaction.state.log.* ...);
 * others are left alone. False without memory. */
MUST_CHECK bool topic_internal_settings(const struct config *config, struct create_topic *topic, struct arena *arena);
/* 1 to 249 characters of [a-zA-Z0-9._-], and neither "." nor "..". */
bool topic_name_is_valid(struct bytes name);

#endif
