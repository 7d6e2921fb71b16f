/*
 * group_call: one request's questions to group coordinators of this node, each decided at its home (scatter.h).
 *
 *   group_call_new -> group_call_add ... -> group_call_run -> (the coordinators) -> done
 *
 * Turns    many parts are asked in several turns of their home's loop (scatter.h).
 * Errors   of a part: what the coordinator said (ERR_OK: its response is filled in), or why there is none here.
 * Threads  the request's shard; the operations are their coordinators' meanwhile.
 */
#ifndef OTTLA_BROKER_GROUP_CALL_H
#define OTTLA_BROKER_GROUP_CALL_H

#include "broker/scatter.h"
#include "coordinator/group_op.h"

struct group_part {
    struct scatter_op op; /* first */
    struct group_op ask;
    enum err err; /* out */
};

struct group_call {
    struct request *request;
    struct scatter *scatter;
    const struct image_topic *topic; /* __consumer_offsets; NULL: there is none */
    struct bytes client_host;
    /* All are decided, and what they answered is counted: where there is no memory for it, the connection is closed. */
    void (*done)(struct group_call *call);
    size_t held_bytes; /* by the answers */
    void *user;
};

/* In the request's arena; takes its user and cleanup. NULL without memory. */
struct group_call *group_call_new(struct request *request, void (*done)(struct group_call *call), void *user)
    MUST_CHECK;
/*
 * One question about one group. asked: the message, or the part of it, of that kind (group_op.h). response: room for
 * the answer, in the request's arena. NULL without memory; require_stable and may_describe_topic may be set then.
 */
struct group_part *group_call_add(struct group_call *call, enum group_ask ask, struct bytes group_id, const void *asked,
                                  void *response) MUST_CHECK;
/* The same of the coordinator that is that partition, whatever the group. */
struct group_part *group_call_add_at(struct group_call *call, enum group_ask ask, int32_t partition, const void *asked,
                                     void *response) MUST_CHECK;
/*
 * One question about each of those groups that the principal may do that to. responses: room for an answer of that
 * size each, one behind the other. Gives the parts by group, NULL where it may not; NULL without memory.
 */
struct group_part **group_call_add_each(struct group_call *call, enum group_ask ask, enum operation operation,
                                        const struct bytes *group_ids, uint32_t count, void *responses,
                                        size_t response_bytes) MUST_CHECK;
/* Of one of these: ERR_GROUP_AUTHORIZATION_FAILED where it is NULL. */
enum err group_part_err(const struct group_part *part);
void group_call_run(struct group_call *call);
/* Once all are decided: as request_reply_made. */
void group_call_reply(const struct group_call *call, void *(*response)(struct request *request));

/* What the principal may do to the topic of that id. One that nobody knows is the coordinator's to refuse. */
MUST_CHECK bool group_call_may_topic_id(const struct request *request, enum operation operation, struct uuid topic_id);
/* The call that a request is answered by, from scatter_new on. */
struct group_call *group_call_of(const struct request *request);
/* For group_op.may_describe_topic: what the request's principal may. */
bool group_call_may_describe_topic(const struct group_op *op, struct bytes topic);
bool group_call_may_describe_group(const struct group_op *op, struct bytes group_id);

#endif
