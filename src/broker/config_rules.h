/*
 * config_rules: what the controller holds a change of settings against: the one table of keys, and what must hold
 * between keys. Messages name key and value; errors are Apache Kafka's: INVALID_CONFIG for topics and groups,
 * INVALID_REQUEST for brokers (KAFKA-13609).
 *
 * Threads  any: constants only.
 */
#ifndef OTTLA_BROKER_CONFIG_RULES_H
#define OTTLA_BROKER_CONFIG_RULES_H

#include "raftmeta/controller.h"

struct config;

/* For controller_settings. config: the node's, borrowed: what the values of groups are held against. */
void config_rules_init(struct config_rules *rules, const struct config *config);

#endif
