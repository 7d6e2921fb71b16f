/*
 * dynamic_config: what a node's own keys come to at the moment, and who goes by them: what can be changed on line is
 * read here, not in struct config, which is what the file says.
 *
 * Threads  dynamic_config_apply: the shard's loop, whenever the settings of brokers in its image have changed. The
 * rest: any, for an image that the caller holds.
 */
#ifndef OTTLA_BROKER_DYNAMIC_CONFIG_H
#define OTTLA_BROKER_DYNAMIC_CONFIG_H

#include <stdint.h>

#include "broker/config_table.h"
#include "raftmeta/image.h"

struct broker;
struct shard;

/* The value in force; image NULL: what the file says. */
int64_t dynamic_config_long(const struct broker *broker, const struct image *image, enum config_id id);
double dynamic_config_double(const struct broker *broker, const struct image *image, enum config_id id);

/* The shard goes by its image from now on. What all shards share is set by the controller loop's. */
void dynamic_config_apply(struct shard *shard);

#endif
