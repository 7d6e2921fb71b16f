/*
 * member: one member of a consumer group, that speaks the group's requests and nothing else, over a connection of its
 * own; and the group, which knows at any moment which partition is whose, so that it can tell when all is settled.
 *
 * A member does what Apache Kafka's consumer does. Classic: JoinGroup (twice, for its id), the leader shares out by
 * range, SyncGroup, then heartbeats; told of a rebalance it gives up all that it has and joins again. Consumer
 * (KIP-848): heartbeats alone; what it is given and what it gave up it tells at once.
 *
 * Settled  all members are in the same generation or epoch, none waits for anything, each partition is owned by exactly
 *          one of them, and none owns two more than another (both assignors that are used here share out evenly).
 */
#ifndef OTTLA_BENCH_MEMBER_H
#define OTTLA_BENCH_MEMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/uuid.h"

enum {
    MEMBER_NAME_BYTES_MAX = 128,
    GROUP_PARTITIONS_MAX = 10000,
    GROUP_MEMBERS_MAX = 10000,
};

enum member_state {
    MEMBER_JOINING, /* asks to be let in, or waits for that */
    MEMBER_SYNCING, /* classic: waits for its assignment; consumer: has yet to tell what it owns now */
    MEMBER_STABLE,  /* heartbeats */
    MEMBER_LEAVING, /* asks to be let go */
    MEMBER_GONE,
};

struct member {
    struct group *group;
    int fd;
    enum member_state state;
    bool leaves; /* as soon as nothing is under way */
    char id[MEMBER_NAME_BYTES_MAX];
    int32_t epoch;  /* or generation */
    int32_t *owned; /* partitions */
    uint32_t owned_count;
    int16_t asked;    /* the API key of the request that is under way; -1: none */
    int64_t asked_ns; /* when */
    int64_t due_ns;   /* of the next request, while none is under way */
    uint8_t *reply;
    size_t reply_room;
    size_t got;
};

struct group {
    char name[MEMBER_NAME_BYTES_MAX];
    char topic[MEMBER_NAME_BYTES_MAX];
    bool consumer; /* the protocol */
    uint32_t partition_count;
    int32_t session_timeout_ms; /* classic: what its members ask for; consumer: the broker's */
    int32_t heartbeat_ms;       /* likewise */
    struct uuid topic_id;       /* consumer: as the first assignment says */
    struct member *members;
    uint32_t member_count; /* all that ever were */
    uint32_t live_count;
    uint16_t *owners; /* of each partition, how many members think that it is theirs */
    uint32_t once;    /* partitions of exactly one */

    /* Of what is under way: */
    const char *event; /* NULL: nothing */
    int64_t began_ns;
    int64_t changed_ns;       /* when last any member's partitions changed */
    int64_t heartbeat_max_ns; /* the slowest answer */
    uint32_t requests;
    uint32_t fenced;   /* members that were told that they are none */
    uint32_t overlaps; /* partitions that came to a second member while the first had them */
};

_Noreturn void bench_die(const char *what, const char *why);
int64_t bench_now_ns(void);

/* --- member.c --- */

/* Connects and asks for the versions, as all clients do. */
void member_connect(struct member *member, struct group *group, const char *address, uint16_t port);
/* Waits for the answer; from then on it asks to be let in. */
void member_await(struct member *member);
/* Bytes came: true once they end a reply, which was acted on. */
bool member_read(struct member *member);
/* Sends what is due. */
void member_tick(struct member *member, int64_t now_ns);
/* Asks to leave, once it has the answer that it waits for. */
void member_leave(struct member *member);
/* Closes the connection without a word. */
void member_kill(struct member *member);

/* --- member_group.c --- */

/* The topic's partitions that the member owns from now on; borrowed. False: it owned just those. */
bool group_own(struct member *member, const int32_t *partitions, uint32_t count);
bool group_settled(const struct group *group);
void group_begin(struct group *group, const char *event);
/* A line of JSON on stdout. */
void group_report(struct group *group);
/* Why it is not settled, for a person. */
void group_explain(const struct group *group, char *text, size_t size);

#endif
