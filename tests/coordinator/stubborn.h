/*
 * stubborn: members of group "g" in a group_world whose coordinator may fail: they say again what was refused for now,
 * join again when they are told to, and are in when all of them have what one generation gives them. Classic consumers,
 * which embed what Kafka's consumer does, and consumers of KIP-848, beside each other.
 */
#ifndef OTTLA_TESTS_COORDINATOR_STUBBORN_H
#define OTTLA_TESTS_COORDINATOR_STUBBORN_H

#include "coordinator/classic_client.h"

enum {
    STUBBORN_TEXT_MAX = 256,
    STUBBORN_MEMBERS_MAX = 8,
    STUBBORN_ROUNDS_MAX = 80,
    STUBBORN_PARTITIONS = 4 /* of t */
};

enum stubborn_state { STUBBORN_OUT, STUBBORN_JOINING, STUBBORN_SYNCING, STUBBORN_IN };

struct stubborn {
    const char *name;
    const char *instance; /* NULL: dynamic */
    const char *topics;   /* "t,u"; one of them for a classic one */
    const char *regex;
    bool modern; /* of KIP-848 */
    /* Its own. */
    enum stubborn_state state;
    struct classic_client classic;
    struct world_call *call;
    uint8_t subscription[STUBBORN_TEXT_MAX];
    const struct world_call *joined;
    struct classic_client gives_to[STUBBORN_MEMBERS_MAX]; /* as leader */
    uint8_t gives[STUBBORN_MEMBERS_MAX][STUBBORN_TEXT_MAX];
    int32_t epoch;
    bool says_all;
    char owned[STUBBORN_TEXT_MAX]; /* as consumer_beats write it */
    int32_t owned_of_t[STUBBORN_PARTITIONS];
    uint32_t owned_count;
};

/* Around everything that is asked, and around the passing of time. */
struct stubborn_watch {
    void (*begins)(void);
    void (*ends)(void);
};

/* What a refusal is that may be another the next time. */
bool stubborn_may_ask_again(const struct world_call *call);
/* One thing that each does, in turn, and a second, until all are in. */
void stubborn_settle(struct group_world *world, const struct stubborn_watch *watch, struct stubborn **members,
                     uint32_t count);
/* One such round. */
bool stubborn_round(struct group_world *world, const struct stubborn_watch *watch, struct stubborn **members,
                    uint32_t count);
/* epoch: -1, or -2 for who comes back. */
void stubborn_leave(struct group_world *world, const struct stubborn_watch *watch, struct stubborn *member,
                    int32_t epoch);
/* Lets time pass. */
void stubborn_wait(struct group_world *world, const struct stubborn_watch *watch, int64_t ms);

#endif
