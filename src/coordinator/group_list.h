/*
 * group_list: ListGroups, of one coordinator.
 *
 * Source  groups.md 4.5; KIP-518, KIP-848.
 */
#ifndef OTTLA_COORDINATOR_GROUP_LIST_H
#define OTTLA_COORDINATOR_GROUP_LIST_H

#include "coordinator/group.h"

/* Filters by state (any case) and by type; none given: all. */
void group_list_ask(struct groups *groups, struct step *step, struct group_op *op);

#endif
