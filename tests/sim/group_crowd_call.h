/*
 * group_crowd_call: one request of a member, from where it is said to where its answer is heard; either way may be lost
 * on the member. For group_crowd*.c.
 */
#ifndef OTTLA_TESTS_SIM_GROUP_CROWD_CALL_H
#define OTTLA_TESTS_SIM_GROUP_CROWD_CALL_H

#include "protocol/gen/consumer_group_heartbeat.h"
#include "protocol/gen/delete_groups.h"
#include "protocol/gen/heartbeat.h"
#include "protocol/gen/join_group.h"
#include "protocol/gen/leave_group.h"
#include "protocol/gen/offset_commit.h"
#include "protocol/gen/offset_delete.h"
#include "protocol/gen/offset_fetch.h"
#include "protocol/gen/sync_group.h"
#include "protocol/gen/txn_offset_commit.h"
#include "sim/group_crowd.h"

/* Which kind of group must refuse a request: a set. No group counts as a classic one. */
enum { REFUSED_BY_CLASSIC = 1, REFUSED_BY_CONSUMER = 2, REFUSED_BY_ALL = 3 };

struct crowd_call {
    struct group_op op; /* first */
    struct crowd_member *member;
    struct group_crowd *crowd;
    bool reset; /* an administrator's */
    bool stale; /* who hears the answer learns nothing about itself */
    uint8_t refused_by;
    uint8_t said_lives;                      /* of all topics, when it was said */
    uint32_t life;                           /* of the group, when it was answered */
    uint8_t topic_lives[COORDINATOR_TOPICS]; /* 0: not there */
    struct arena arena;
    struct sim_event arrive, hear;
    union {
        struct join_group_request join;
        struct sync_group_request sync;
        struct heartbeat_request beat;
        struct consumer_group_heartbeat_request consumer_beat;
        struct leave_group_request leave;
        struct offset_commit_request commit;
        struct offset_fetch_request_group fetch;
        struct txn_offset_commit_request txn_commit;
        struct offset_delete_request offset_delete;
    } request;
    union {
        struct join_group_response join;
        struct sync_group_response sync;
        struct heartbeat_response beat;
        struct consumer_group_heartbeat_response consumer_beat;
        struct leave_group_response leave;
        struct offset_commit_response commit;
        struct offset_fetch_response_group fetch;
        struct txn_offset_commit_response txn_commit;
        struct offset_delete_response offset_delete;
        struct deletable_group_result delete_group;
    } response;
};

/* A new call, with its request initialised by the caller, who then sends it. */
struct crowd_call *crowd_call_new(struct group_crowd *crowd, struct crowd_member *member, enum group_ask ask,
                                  int16_t version, uint32_t group);
/* In the call's arena. */
void *crowd_call_array(struct crowd_call *call, uint32_t count, size_t size);
struct bytes crowd_call_text(struct crowd_call *call, const char *text);
/* heard: on the member's side, when the answer is there; NULL member: nobody listens. */
void crowd_call_send(struct crowd_call *call);
/* It is answered, though that may have to be committed first. */
void crowd_call_decided(struct step_op *op);
/* What the member does with an answer. */
void crowd_member_hear(struct crowd_member *member, struct crowd_call *call);

#endif
