/*
 * group: one group id, as the cores share it (groups.c, classic*.c, consumer*.c, offsets*.c). For this room alone.
 *
 * Lifetime  made by group_get_or_make when a record of it is replayed, or a member waits to join; group_settle frees it
 *           when it has neither members nor state nor offsets nor somebody who waits.
 */
#ifndef OTTLA_COORDINATOR_GROUP_H
#define OTTLA_COORDINATOR_GROUP_H

#include "base/list.h"
#include "base/map.h"
#include "base/timer_heap.h"
#include "coordinator/groups.h"

struct classic_group;
struct consumer_group;
struct group_history;
struct group_offsets;

enum group_kind { GROUP_CLASSIC, GROUP_CONSUMER };

struct group {
    struct groups *groups;
    struct bytes id; /* its own copy */
    struct list_node in_all;
    uint64_t number; /* of the groups in all each has a larger one than those before it */
    enum group_kind kind;
    bool deleting;                   /* somebody waits until all of it is gone: nobody comes in (groups_ask) */
    struct classic_group *classic;   /* NULL: Empty, and never had members: a group of offsets alone ("simple") */
    struct consumer_group *consumer; /* kind GROUP_CONSUMER: never NULL */
    struct group_offsets *offsets;   /* NULL: none */
    struct group_history *history;   /* NULL: nothing happened yet since the load */
};

/* A pass over all groups: what a deleted topic leaves, and what is too old (offsets_sweep.c). */
struct offsets_sweep {
    struct group *at; /* the next one; NULL: no pass is under way */
    bool expires;     /* it looks for what is too old, too */
    bool is_due;      /* the next pass does */
    int64_t due_ns;   /* when it is */
};

struct groups {
    const struct group_settings *settings;
    struct group_histories *histories;
    struct group_histories own_histories; /* where there are none to share */
    struct log *log;
    uint64_t seed;
    int32_t partition;
    struct map by_id; /* of struct group */
    struct list all;  /* of them, in the order they came */
    uint64_t numbers_given;
    struct timer_heap timers;
    struct step *step;              /* the one under way, for timers */
    size_t step_room;               /* it had that when nothing was written yet: what needs more fits no step */
    bool ticking;                   /* it is a tick */
    struct loop_timer expire_timer; /* offsets.retention.check.interval.ms, or sooner where a step left something */
    struct offsets_sweep sweep;
    uint64_t topics_changes; /* of which each group of members sees by itself whether it has seen them: nobody walks
                                over all for that */
    int64_t topics_version;  /* of the metadata that brought the last of them */
    struct list resolving;   /* groups whose expressions are being resolved: the next turn is the first one's */
    struct loop_timer regex_timer; /* armed while there are any (consumer_regex.c) */
    uint32_t regex_cost;           /* of what this tick, or the last, did for them (topic_regex.h) */
    struct list pending;           /* member ids handed out and not used yet, oldest first (classic_pending.c) */
    size_t pending_bytes;
    struct map_u64 transactions; /* by producer id: offsets committed in transactions that have not ended (offsets.c) */
    uint64_t offsets_sequence;   /* of the next offset that is replayed: which of two is the later */
    struct list gone_topics;     /* deleted ones, whose offsets are not all gone yet (offsets_sweep.c) */
    struct list deleting;        /* struct group_op: groups whose offsets are being taken away */
    struct list listing;         /* struct group_op: who wants a list of all; the first one's is being made */
    struct group *list_at;       /* the next that it tells of (group_list.c) */
    struct loop_timer list_timer; /* armed while there are any */
    uint64_t skipped;             /* records of unknown kinds */
    struct log_rate lines;        /* of what clients can cause at will */
};

/* NULL: there is none. */
struct group *group_find(const struct groups *groups, struct bytes id);
/* ERR_NOMEM. A new one is GROUP_CLASSIC with nothing in it. */
MUST_CHECK enum err group_get_or_make(struct groups *groups, struct bytes id, struct group **group);
/* Frees it if there is nothing left of it; true: it is gone. */
bool group_settle(struct group *group);
struct group *group_after(const struct group *group); /* NULL: it is the last */
/* Timers of cores: fired runs inside groups_tick, with groups->step set. Armed by monotonic time; within a tick
 * never for that tick again. */
void group_timer_start(struct groups *groups, struct loop_timer *timer, int64_t due_ns);
void group_timer_stop(struct groups *groups, struct loop_timer *timer);
/* Within a tick: whether it goes on, or what else is due is left to the next. */
bool group_tick_goes_on(const struct groups *groups);

/* The state as Kafka spells it: "Empty", "PreparingRebalance", "Stable", "Assigning" ... */
struct bytes group_state_name(const struct group *group);
/* Whether it has members (those that wait to join for the first time count for a classic one). */
bool group_has_members(const struct group *group);
/* Whether a member's subscription holds that topic; for OffsetDelete and the expiry. *known: out, false where the
 * subscription cannot be told (not a consumer group's protocol). */
bool group_subscribes(const struct group *group, struct bytes topic, bool *known);

#endif
