/*
 * topic_config: what a topic's configuration comes to on this node: its own entries (in the image), then the node's
 * dynamic and static keys through their synonyms, then the defaults. Also what a node's own keys come to, and the one
 * walk that DescribeConfigs and CreateTopics list entries with.
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
struct config_place {
    const char *name;   /* of the key that has it there: a synonym's, or the key's own */
    struct bytes value; /* null: unset */
    enum config_origin origin;
};

struct config_places {
    uint32_t count;
    struct config_place entries[CONFIG_PLACES_MAX];
};

/*
 * Where a value for key id stands, the winner first; none: what is in force comes from keys in another unit, or is the
 * default of a key that no broker key speaks for. As DescribeConfigs tells it: each value as it was written, under the
 * name of the key it was written for.
 *
 * own   the resource's entries (a topic's); NULL without any. For broker keys the dynamic entries of the node and the
 *       cluster are found in the image (NULL: none). Values lie in the image, own, or the configuration.
 */
void config_places_find(const struct config *config, const struct image *image, int32_t node_id, enum config_id id,
                        const struct image_configs *own, struct config_places *places);
/* The value in force, in the unit of the key; null: unset. It lies where those above lie, or in text. */
struct bytes config_effective(const struct config *config, const struct image *image, int32_t node_id,
                              enum config_id id, const struct image_configs *own, char text[CONFIG_NUMBER_CHARS]);
/* Read; a value in the log that this build does not accept counts as the default. text: as above. */
struct config_value config_effective_value(const struct config *config, const struct image *image, int32_t node_id,
                                           enum config_id id, const struct image_configs *own, struct bytes *text,
                                           char room[CONFIG_NUMBER_CHARS]);

/* Kafka's file has no such key: it is told of where it is set, and has no default to tell. */
bool config_is_on_line_only(enum config_id id);

/* The typed sum of it for one topic. own: its entries, NULL without any. */
void topic_config_resolve(const struct config *config, const struct image *image, int32_t node_id,
                          const struct image_configs *own, bool internal, struct log_config *log_config);

/* __consumer_offsets, __transaction_state, __share_group_state: made by the broker, marked internal. */
bool topic_is_internal(struct bytes name);
/* Fills in how many partitions and which settings such a topic gets (offsets.topic.*, transaction.state.log.* ...);
 * others are left alone. False without memory. */
MUST_CHECK bool topic_internal_settings(const struct config *config, struct create_topic *topic, struct arena *arena);
/* 1 to 249 characters of [a-zA-Z0-9._-], and neither "." nor "..". */
bool topic_name_is_valid(struct bytes name);

#endif
