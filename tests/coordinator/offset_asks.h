/* offset_asks: one partition's offset is committed or deleted in a group_world: asked, and answered at once. */
#ifndef OTTLA_TESTS_COORDINATOR_OFFSET_ASKS_H
#define OTTLA_TESTS_COORDINATOR_OFFSET_ASKS_H

#include "coordinator/group_world.h"

/* Each gives the code that it was answered with. */

/* As that member says it, of that generation or epoch. version: of OffsetCommit, 8 or 9. */
int offset_commit_as(struct group_world *world, const char *group, const char *topic, int32_t partition,
                     const char *member, int32_t generation, int16_t version);
/* As who is outside of group management says it. */
int offset_commit(struct group_world *world, const char *group, const char *topic, int32_t partition);
/* The whole answer's code where it has one, the partition's otherwise. */
int offset_delete(struct group_world *world, const char *group, const char *topic, int32_t partition);

#endif
