/*
 * node_groups: two groups on a whole simulated node, one of the classic and one of the consumer protocol (KIP-848),
 * whose members are clients with connections of their own: they find their coordinator, join, read what they are given,
 * commit, and come and go; the node may die meanwhile.
 *
 * Holds  what a coordinator has acknowledged stands in each answer to whoever asks later, however often the node died
 * in between: a committed offset does not go back and is one that somebody committed, nor does the number of a group's
 *        generation or epoch; in each of them a partition is one member's.
 */
#ifndef OTTLA_TESTS_SIM_NODE_GROUPS_H
#define OTTLA_TESTS_SIM_NODE_GROUPS_H

#include "base/uuid.h"
#include "sim/sim_client.h"
#include "sim/sim_node.h"

enum { NODE_GROUPS = 2, NODE_GROUP_MEMBERS = 2, NODE_GROUP_PARTITIONS = 4, NODE_MEMBER_ID_BYTES = 64 };

struct node_groups;

enum node_member_state {
    NODE_MEMBER_OUT,  /* it asks where its coordinator is */
    NODE_MEMBER_JOIN, /* ... and joins, again and again until it is in */
    NODE_MEMBER_SYNC, /* classic: it is in a generation whose assignment it does not know */
    NODE_MEMBER_IN,
};

struct node_member {
    struct node_groups *all;
    uint32_t group;
    uint32_t number; /* in its group */
    enum node_member_state state;
    struct sim_client client;
    struct sim_call call;
    struct sim_event next;
    bool busy;
    char id[NODE_MEMBER_ID_BYTES];
    int32_t generation;
    bool owned[NODE_GROUP_PARTITIONS];
    int64_t positions[NODE_GROUP_PARTITIONS];
    bool knows_positions;
    bool reconciled; /* consumer protocol: it has been told nothing new */
    uint32_t turn;
    /* Classic, of one that leads: whom it gives what. */
    bool leads;
    uint32_t member_count;
    char member_ids[NODE_GROUP_MEMBERS * 2][NODE_MEMBER_ID_BYTES];
    /* Of what it asks: what was acknowledged before. */
    int32_t floor_generation;
    int64_t floors[NODE_GROUP_PARTITIONS];
    int64_t commits[NODE_GROUP_PARTITIONS]; /* -1: none */
};

struct node_group {
    int32_t generation;                       /* the greatest that was acknowledged for good */
    int64_t acked[NODE_GROUP_PARTITIONS];     /* -1: none */
    int64_t committed[NODE_GROUP_PARTITIONS]; /* the greatest that anybody wanted to commit */
    int32_t owner_generation[NODE_GROUP_PARTITIONS];
    uint32_t owner[NODE_GROUP_PARTITIONS]; /* in that one: 1 + number */
};

struct node_groups {
    struct sim *sim;
    bool exist;         /* else nothing happens */
    struct bytes topic; /* with NODE_GROUP_PARTITIONS partitions; borrowed */
    struct uuid topic_id;
    struct loop *loop;
    struct node_group groups[NODE_GROUPS];
    struct node_member members[NODE_GROUPS][NODE_GROUP_MEMBERS];
    bool calm; /* nobody goes */
    uint32_t named;
    uint64_t commits;
};

/* Before the node starts: whether they exist, and what they need of its settings. synced: what is acknowledged there,
 * too, is to outlive power cuts. topic is set before they start. */
void node_groups_init(struct node_groups *all, struct sim *sim, struct sim_node *node, bool synced);
/* Members come to the node, each by itself, from that host. */
void node_groups_start(struct node_groups *all, const struct sim_node *node, struct sim_host *host);
/* They are gone without a word. */
void node_groups_stop(struct node_groups *all);
/* All are in, each partition is somebody's, and nothing is about to change. */
bool node_groups_are_stable(const struct node_groups *all);

#endif
