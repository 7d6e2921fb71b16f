/*
 * config_groups: what must hold between the settings of groups (Apache Kafka's GroupCoordinatorConfig and GroupConfig):
 * each within its bounds, heartbeats within a session, assignors that there are.
 *
 * Threads  any: nothing is kept.
 */
#ifndef OTTLA_BROKER_CONFIG_GROUPS_H
#define OTTLA_BROKER_CONFIG_GROUPS_H

#include "broker/config.h"
#include "coordinator/group_settings.h"

/* Of a node that starts. ERR_USAGE: something was reported. */
MUST_CHECK enum err config_groups_check(const struct config *config, const struct config_report *report);

/* Consumer groups' assignors, each once, the default first. False: there is none of that name, one is there twice, or
 * none at all. (Those of share and streams groups may be of any class, and say nothing as long as there are no such
 * groups.) */
bool config_groups_assignors(const struct config *config, enum group_assignor found[ASSIGNOR_COUNT], uint32_t *count);

/* A setting that a group may have for itself, and the node's settings that bound it; CONFIG_NONE: not on that side. */
struct config_bound {
    enum config_id of_group, of_node, least, most;
};
/* The n-th of them; NULL behind the last. */
const struct config_bound *config_groups_bound(size_t n);

/* A group's session, which has to be longer than the time between two of its heartbeats. */
struct config_session {
    enum config_id session_of_group, session_of_node, heartbeat_of_group, heartbeat_of_node;
};
const struct config_session *config_groups_session(size_t n);

#endif
