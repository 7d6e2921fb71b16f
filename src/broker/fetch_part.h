/*
 * fetch_part: the entries of one fetch session that have one home, as that home serves them: it keeps a watch on each
 * partition for life, so an append marks the entry ready and a fetch visits ready entries only.
 *
 *   origin  fetch_part_collect  -> home: takes the changes, sums up what can be read; enough, or something that cannot
 *                                  wait (an error, a full partition): reads at once. Else waits, and tells the origin
 *                                  how much there is (reported)
 *   home    told by watches      -> sums up again
 *   origin  fetch_part_finish    -> home: reads whatever there is
 *   home    results              -> origin: done, exactly once for each collect
 *
 * States    IDLE -> (PARKED ->) WAITING -> READING -> IDLE, at the home; the collect that is under way is a round.
 * Sharing   entries and the fields said to be the home's belong to the home during a round, to the origin otherwise;
 *           but the ready list, which watches fill at any time, is always the home's.
 * Threads   collect, finish and give_up on the origin's loop, where done, reported and given_up run. Where both are the
 *           same shard everything happens within the call.
 */
#ifndef OTTLA_BROKER_FETCH_PART_H
#define OTTLA_BROKER_FETCH_PART_H

#include <stdatomic.h>

#include "broker/fetch_session.h"
#include "broker/shard.h"

/* What one entry came to. */
struct fetch_item {
    struct fetch_entry *entry;
    bool readable; /* there was something to read; whether it came depends on the room left in the reply */
    struct partition_read read;
    struct fetch_part *part;
};

/* The results of one round. The origin's once told; slices point into its arena and hold files. */
struct fetch_result {
    struct arena arena;
    struct fetch_result *next; /* the owner's */
    uint32_t count;
    struct fetch_item items[];
};

struct fetch_ask {
    int64_t version;    /* of the metadata that the fetch was placed by */
    uint64_t bytes_min; /* this part alone satisfies the fetch with so much */
    uint32_t bytes_max; /* of the whole reply */
    enum partition_isolation isolation;
    bool may_wait;
    bool full;    /* all entries are read, not only what is ready */
    bool release; /* the session ends with this fetch: the entries come back unwatched */
};

enum fetch_part_state { FETCH_PART_IDLE, FETCH_PART_PARKED, FETCH_PART_WAITING, FETCH_PART_READING };

struct fetch_part {
    struct shard *home;
    struct shard *origin;
    struct fetch_session *session;
    /* For the next collect; the origin's between rounds. */
    struct list changed; /* of entries, by changed: new ones and those whose wishes changed */
    struct list removed; /* of entries, by changed: forgotten ones */
    /* The round. */
    struct fetch_ask ask;
    bool busy; /* origin's: a round is under way */
    void *context;
    void (*done)(struct fetch_part *part);     /* result: out; NULL without memory */
    void (*reported)(struct fetch_part *part); /* available: out, bytes that could be read */
    struct fetch_result *result;
    uint64_t available;
    uint64_t available_reported;
    /* The home's. */
    enum fetch_part_state state;
    struct list all;
    struct list ready;
    uint32_t reads_left;
    uint32_t round;
    bool evaluating; /* queued to be looked at when this turn ends */
    bool released;   /* told with the results: the home is through with it */
    struct shard_parked parked;
    struct loop_task evaluate_task;
    /* Messages. */
    struct loop_task collect_task;
    struct loop_task done_task;
    struct loop_task report_task;
    struct loop_task finish_task;
    struct loop_task give_up_task;
    struct loop_task given_up_task;
    _Atomic(bool) report_posted;
    _Atomic(uint64_t) report_bytes;
    _Atomic(bool) finish_posted;
    _Atomic(uint32_t) finish_round;
};

/* The part of the session at that home, made when there is none; NULL without memory. */
struct fetch_part *fetch_part_at(struct shard *origin, struct fetch_session *session, struct shard *home) MUST_CHECK;
/* An unplaced entry goes there; it is marked changed. */
void fetch_part_place(struct fetch_part *part, struct fetch_entry *entry);
/* Starts a round; ask, done, reported and context are set. */
void fetch_part_collect(struct fetch_part *part);
/* Reads what there is, now. Nothing happens when the results are on their way already. */
void fetch_part_finish(struct fetch_part *part);
void fetch_result_free(struct fetch_result *result);
/* Gives up all parts of a session that is over, and frees it: at once, or when its homes have let go. freed is told. */
void fetch_parts_give_up(struct fetch_session *session, void (*freed)(void *context), void *context);

#endif
