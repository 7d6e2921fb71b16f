/*
 * group_list: ListGroups, of one coordinator: a piece of its groups in each step, one question after the other, so that
 * neither a turn of the loop nor memory depends on how many groups there are, or on how many ask at once.
 *
 * What is told of is each group that was there from the question to the answer, as it was when its piece came: no
 * moment of all of them is shown. The answer waits, as every one, for what was seen to be committed.
 *
 * Source  groups.md 4.5; KIP-518, KIP-848.
 */
#ifndef OTTLA_COORDINATOR_GROUP_LIST_H
#define OTTLA_COORDINATOR_GROUP_LIST_H

#include "coordinator/group.h"
#include "protocol/gen/list_groups.h"

enum {
    GROUP_LIST_STEP_LOOKS = 1024, /* at groups, of up to 0.6 us each, which is a cold cache: some 0.6 ms */
    GROUP_LIST_PIECE = 128,       /* groups that are told of in one array */
};

struct group_list_piece {
    struct group_list_piece *next;
    uint32_t count;
    struct listed_group groups[GROUP_LIST_PIECE];
};

/* The response of ASK_LIST_GROUPS. */
struct group_list_reply {
    struct group_list_piece *first, *last;
    uint32_t count;
    uint64_t number_max; /* of groups that were there when it was asked; the core's */
};

/* Filters by state (any case) and by type; none given: all. op->may_describe_group: those that who asks may see. */
void group_list_ask(struct groups *groups, struct step *step, struct group_op *op);
/* The next piece is due. */
void group_list_fired(struct loop_timer *timer);
/* Who waits is answered with why. */
void group_list_stop(struct groups *groups, struct step *step, enum err why);
/* Copies what is told of; to: room for reply->count. */
void group_list_copy(const struct group_list_reply *reply, struct listed_group *to);

#endif
