/* offsets_remove: what the ways that offsets go share: by request (offsets_remove.c), with their topic and by age
 * (offsets_sweep.c). For these two alone. */
#ifndef OTTLA_COORDINATOR_OFFSETS_REMOVE_H
#define OTTLA_COORDINATOR_OFFSETS_REMOVE_H

#include "coordinator/offsets_store.h"

/* Room for one more tombstone of the group's in this step. */
bool offsets_has_room(const struct step *step, const struct group *group, struct bytes topic);
/* The same in a step that has written nothing. False: max.message.bytes was lowered since it was committed. */
bool offsets_fits_a_step(const struct group *group, struct bytes topic);
MUST_CHECK enum err offsets_write_tombstone(const struct group *group, struct step *step, struct bytes topic,
                                            int32_t partition);
/* Room for the tombstones of its own records; the same in a step that has written nothing. */
bool offsets_has_room_for_group(const struct step *step, const struct group *group);
bool offsets_group_fits_a_step(const struct group *group);
/* Nobody is in it, nothing is committed any more, and there is room: its record goes, and it. */
void offsets_drop_group(struct groups *groups, struct step *step, struct group *group);
/* Deletions of groups that wait, as far as they go in this step; false: there is more. */
bool offsets_delete_waiting(struct groups *groups, struct step *step);
/* What did not fit into a step goes on in another one. */
void offsets_go_on_soon(struct groups *groups, const struct step *step);

#endif
