/* group_coordinator_check: what always holds of a coordinator's records and state (group_coordinator.h). */
#ifndef OTTLA_TESTS_SIM_GROUP_COORDINATOR_CHECK_H
#define OTTLA_TESTS_SIM_GROUP_COORDINATOR_CHECK_H

#include "sim/group_coordinator.h"

/* As it is written, before it is applied. */
void group_coordinator_check_record(struct group_coordinator *coordinator, const struct group_record *record);
/* After a step. */
void group_coordinator_check_state(struct group_coordinator *coordinator);
/* The state is thrown away, and perhaps some of what was written with it. */
void group_coordinator_check_lost(struct group_coordinator *coordinator);

#endif
