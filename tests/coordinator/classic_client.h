/*
 * classic_client: a client of the classic protocol in a group_world: it remembers its id and its generation, as a real
 * one does, and its requests live until the world is closed.
 */
#ifndef OTTLA_TESTS_COORDINATOR_CLASSIC_CLIENT_H
#define OTTLA_TESTS_COORDINATOR_CLASSIC_CLIENT_H

#include "coordinator/group_world.h"

enum { CLIENT_ID_BYTES = 128, CLIENT_REBALANCE_0 = INT32_MIN };

struct classic_client {
    const char *label;
    const char *group;     /* NULL: "g" */
    const char *instance;  /* NULL: a dynamic member */
    const char *protocols; /* "range=topics,sticky=topics": names and bytes; NULL: "range=t" */
    struct bytes metadata; /* of all protocols, instead of the bytes there; borrowed until the answer */
    const char *type;      /* NULL: "consumer" */
    const char *reason;
    int32_t session_ms;   /* 0: 10000 */
    int32_t rebalance_ms; /* 0: 30000, CLIENT_REBALANCE_0: 0 */
    int16_t version;      /* of JoinGroup; 0: 9. For v0 say -1 */
    /* What it has learnt. */
    char id[CLIENT_ID_BYTES];
    int32_t generation;
};

/* What a leader gives to whom. */
struct classic_share {
    const struct classic_client *to;
    const char *bytes;
    struct bytes assignment; /* instead of those; borrowed until the answer */
};

/* Requests are borrowed until they are answered, and so kept; those of worlds that are closed may go. */
void client_forget_requests(void);
struct world_call *client_join(struct group_world *world, struct classic_client *client);
/* Takes id and generation from an answered JoinGroup. */
void client_learn(struct classic_client *client, const struct world_call *call);
/* Joins; where an id is asked for, takes it and joins again with it. */
struct world_call *client_enter(struct group_world *world, struct classic_client *client);
struct world_call *client_sync(struct group_world *world, struct classic_client *client,
                               const struct classic_share *shares, uint32_t count);
struct world_call *client_beat(struct group_world *world, struct classic_client *client);
/* version 0: 5. */
struct world_call *client_leave(struct group_world *world, struct classic_client *client, int16_t version);
struct world_call *client_describe(struct group_world *world, const char *group, int16_t version);
/* The error of an answered JoinGroup, SyncGroup or Heartbeat. */
int client_error(const struct world_call *call);
/* The assignment of an answered SyncGroup, as text. */
const char *client_assignment(const struct world_call *call);

#endif
