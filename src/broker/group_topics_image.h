/*
 * group_topics_image: group_topics answered from a shard's image.
 *
 * Threads  the shard's loop.
 */
#ifndef OTTLA_BROKER_GROUP_TOPICS_IMAGE_H
#define OTTLA_BROKER_GROUP_TOPICS_IMAGE_H

#include "coordinator/group_topics.h"

/* topics: that of a struct shard_groups. */
void group_topics_image_init(struct group_topics *topics);

/* "__consumer_offsets" */
extern const struct bytes group_topic_name;

#endif
