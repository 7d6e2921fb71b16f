/*
 * group_filters: what a ListGroups looks for, in few words: of the states and kinds that there are each is named once,
 * at most, so that a filter of millions of words does not cost as many looks at every group of every coordinator.
 */
#ifndef OTTLA_COORDINATOR_GROUP_FILTERS_H
#define OTTLA_COORDINATOR_GROUP_FILTERS_H

#include "protocol/gen/list_groups.h"

/* In place. The request finds what it found before. */
void group_filters_reduce(struct list_groups_request *request);

#endif
