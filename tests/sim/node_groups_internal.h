/* node_groups_internal: what the files of node_groups share. */
#ifndef OTTLA_TESTS_SIM_NODE_GROUPS_INTERNAL_H
#define OTTLA_TESTS_SIM_NODE_GROUPS_INTERNAL_H

#include "sim/node_groups.h"

enum {
    NODE_SESSION_MS = 6000,
    NODE_REBALANCE_MS = 3000,
    NODE_PAUSE_MS_MAX = 300, /* an answer and three of them are well within a session */
};

/* node_groups.c */
bool node_member_is_modern(const struct node_member *member); /* of the consumer protocol */
struct node_group *node_member_group(const struct node_member *member);
struct bytes node_member_group_id(const struct node_member *member);
/* It goes on within that time. */
void node_member_soon(struct node_member *member, int64_t ms_min, int64_t ms_max);
void node_member_go_out(struct node_member *member, enum node_member_state state, bool forgets_id);
void node_member_call(struct node_member *member, const struct message_type *request_type, const void *request,
                      const struct message_type *response_type, int16_t version,
                      void (*answered)(struct sim_call *call, enum err err));
/* Whose call that was; it is over. */
struct node_member *node_member_heard(struct sim_call *call);
/* True: there is no answer, or it says that; what a client does then is done. */
bool node_member_refused(struct node_member *member, enum err err, int16_t code);
void node_member_note_generation(struct node_member *member, int32_t generation, bool for_good);
void node_member_note_owned(struct node_member *member, int32_t partition);

/* node_groups_join.c */
void node_member_join(struct node_member *member);
void node_member_sync(struct node_member *member);
void node_member_beat(struct node_member *member);
void node_member_consumer_beat(struct node_member *member);

/* node_groups_read.c */
void node_member_ask_offsets(struct node_member *member);
void node_member_commit(struct node_member *member);
void node_member_fetch(struct node_member *member);

#endif
