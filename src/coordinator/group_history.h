/*
 * group_history: why did it rebalance? The last GROUP_HISTORY_MAX rebalances of each group since this node coordinates
 * it: what caused it, who, how long it took, how many partitions changed hands. Not durable: nobody would miss it after
 * a restart as much as it would cost to write.
 *
 * Limits  what is over GROUP_HISTORY_MAX, or with all other groups of the loop over GROUP_HISTORIES_BYTES_MAX, goes:
 *         the oldest rebalance first, whosever it is. Each group says how many of its own have gone.
 */
#ifndef OTTLA_COORDINATOR_GROUP_HISTORY_H
#define OTTLA_COORDINATOR_GROUP_HISTORY_H

#include "base/arena.h"
#include "coordinator/group.h"

enum {
    GROUP_HISTORY_MAX = 100,
    GROUP_HISTORY_TEXT_MAX = 255,
    /* Of all groups of a loop, of whichever coordinators: sixteen thousand rebalances of the longest texts, and a
     * hundred thousand of usual ones. */
    GROUP_HISTORIES_BYTES_MAX = 16 * 1024 * 1024,
};

enum group_cause {
    CAUSE_JOINED,         /* a member came */
    CAUSE_REJOINED,       /* a member that leads asked for it, or one whose subscription or protocols are others */
    CAUSE_LEFT,           /* a member said goodbye */
    CAUSE_SESSION,        /* a member was silent for its session time-out */
    CAUSE_REBALANCE_LATE, /* a member did not join, sync or revoke within the rebalance time-out */
    CAUSE_REPLACED,       /* a static member came back with another subscription or protocol */
    CAUSE_METADATA,       /* subscribed topics or their partitions changed */
    CAUSE_EXPRESSION,     /* topics that match a member's expression changed */
    CAUSE_CONVERTED,      /* the group went from one protocol to the other */
    CAUSE_FAILED,         /* the assignment could not be written */
    CAUSE_REMOVED,        /* by an administrator */
    CAUSE_COUNT,
};

/* Why a group rebalances, and who it is owed to. Texts are borrowed; null is as good as "". */
struct rebalance_cause {
    enum group_cause cause;
    struct bytes member_id, client_id, client_host;
    struct bytes reason; /* in the client's words (KIP-800) */
};

struct group_rebalance {
    int64_t began_ms;    /* wall */
    int64_t duration_ms; /* -1: it is still under way */
    enum group_cause cause;
    int32_t generation; /* or group epoch, that it led to; -1 */
    uint32_t members;   /* at its end */
    int32_t moved;      /* partitions that have another owner; -1: unknown (the members' bytes are not to be read) */
    struct bytes member_id, client_id, client_host; /* who caused it; "" */
    struct bytes reason;                            /* "" */
};

/* The response of ASK_HISTORY, oldest first. */
struct group_history_reply {
    enum err err; /* ERR_GROUP_ID_NOT_FOUND */
    struct group_rebalance *entries;
    uint32_t count;
    uint64_t dropped; /* older ones, that it knows no more */
};

/* A rebalance begins; while one is under way, a further cause is not a rebalance of its own. Texts are copied and cut
 * to GROUP_HISTORY_TEXT_MAX. Without memory nothing is noted. */
void group_history_begin(struct group *group, const struct step *step, const struct rebalance_cause *cause);
/* The one under way is over; does nothing where there is none. */
void group_history_end(struct group *group, const struct step *step, int32_t generation, uint32_t members,
                       int32_t moved);
void group_history_free(struct group *group);
/* The cause in words: "a member was silent for its session time-out". */
const char *group_cause_text(enum group_cause cause);
void group_history_ask(struct groups *groups, struct step *step, struct group_op *op);

#endif
