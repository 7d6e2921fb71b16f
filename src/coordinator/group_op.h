/*
 * group_op: one operation on one group, from the broker's handlers (and the simulation) to a group coordinator. A
 * request that names several groups is several of them.
 *
 * Ownership  the caller's from the call of groups_ask until done; request, and what it points to, stays as long. The
 *            response is initialised by the core, in the arena; what it points to is the arena's, the request's or
 *            constant, never the group's: it is written later, on another thread, when the group may be another.
 */
#ifndef OTTLA_COORDINATOR_GROUP_OP_H
#define OTTLA_COORDINATOR_GROUP_OP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/bytes.h"
#include "coordinator/step.h"

/* What is asked; beside it the types of request and response. Those of one group where a message holds several. */
enum group_ask {
    ASK_JOIN_GROUP,         /* join_group_request, join_group_response */
    ASK_SYNC_GROUP,         /* sync_group_request, ..._response */
    ASK_HEARTBEAT,          /* heartbeat_request, ... */
    ASK_LEAVE_GROUP,        /* leave_group_request, ... (all versions: members, one of them before v3) */
    ASK_DESCRIBE_GROUP,     /* NULL, described_group */
    ASK_LIST_GROUPS,        /* list_groups_request, struct group_list_reply (group_list.h): of this coordinator */
    ASK_DELETE_GROUP,       /* NULL, deletable_group_result */
    ASK_OFFSET_COMMIT,      /* offset_commit_request, ...; topics resolved: see offsets.h */
    ASK_TXN_OFFSET_COMMIT,  /* txn_offset_commit_request, ... */
    ASK_OFFSET_FETCH,       /* offset_fetch_request_group, offset_fetch_response_group (all versions) */
    ASK_OFFSET_DELETE,      /* offset_delete_request, ... */
    ASK_CONSUMER_HEARTBEAT, /* consumer_group_heartbeat_request, ... */
    ASK_CONSUMER_DESCRIBE,  /* NULL, consumer_group_describe's described group */
    ASK_HISTORY,            /* NULL, struct group_history_reply (group_history.h) */
    GROUP_ASK_COUNT,
};

struct group_op {
    struct step_op op; /* first */
    enum group_ask ask;
    int16_t version; /* of the request */
    struct bytes group_id;
    struct bytes client_id;   /* may be null */
    struct bytes client_host; /* "/127.0.0.1", as Kafka writes it */
    const void *request;
    void *response;
    struct arena *arena; /* for the response; grows within its limit, ERR_NOMEM beyond */
    bool require_stable; /* OffsetFetch: of the whole request */
    /* Whether who asks may describe that topic; NULL: all. For what a core finds by itself (all offsets of a group,
     * topics that match an expression). */
    bool (*may_describe_topic)(const struct group_op *op, struct bytes topic);
    bool (*may_describe_group)(const struct group_op *op, struct bytes group_id); /* ListGroups; NULL: all */
    void *user;                                                                   /* the caller's */
    /* The core's, while it waits. */
    void *waiter;
};

#endif
