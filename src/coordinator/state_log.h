/*
 * state_log: the state of one coordinator as a replicated state machine over one partition: it is what the partition's
 * records make of it, and every step writes there before anybody is answered. The real step_sink (step.h). What the
 * state is, it does not know: a table of functions says (groups; transactions and share groups likewise).
 *
 *   LOADING -> ACTIVE -> FAILED -> LOADING ...; any -> CLOSED
 *
 * Load      all records from the log's start to its end, replayed in order, a piece and a turn at a time; of a
 *           transaction with its producer id, and its marker. What cannot be replayed fails the load: a line says why,
 *           and it is tried again later.
 * Write     the steps of one turn of the loop (or of linger_ms) share a batch; the records of one step lie in one batch
 *           whole. Steps see what is written but not committed yet; their answers wait until the high watermark has
 *           passed all that they saw, for commit_timeout_ms at most.
 * Failure   a step that fails, or an append: the state is thrown away, whoever waits is answered, and the log is loaded
 *           anew, at first at once. What other steps had written before is still appended, and answered truthfully.
 * Turns     of the logs of one loop one has its tick in a turn of it, and STATE_LOG_ASKED_TICKS_MAX that somebody asks
 *           then: a tick is bounded, their number is not.
 * Limits    state_log_check refuses while STATE_LOG_PENDING_BYTES_MAX are on their way; STATE_LOG_IN_FLIGHT_MAX batches
 *           are given to the partition at a time, further steps wait in larger ones.
 * Threads   the partition's home reactor.
 */
#ifndef OTTLA_COORDINATOR_STATE_LOG_H
#define OTTLA_COORDINATOR_STATE_LOG_H

#include "base/clock.h"
#include "base/clock_guard.h"
#include "base/log.h"
#include "base/loop.h"
#include "coordinator/step.h"
#include "partition/partition.h"

struct state_log;

enum {
    STATE_LOG_PENDING_BYTES_MAX = 16 * 1024 * 1024, /* of one log: some ten of the largest batches */
    STATE_LOG_IN_FLIGHT_MAX = 32,                   /* batches */
    STATE_LOG_TURN_BYTES = 256 * 1024,              /* replayed in one turn: a millisecond or two */
    STATE_LOG_LOADS_MAX = 2,                        /* of one loop at a time: each holds a piece of a log */
    STATE_LOG_ASKED_TICKS_MAX = 4, /* of a loop's logs in one turn, because somebody asks; else their timers do it */
    STATE_LOG_PUNCTUAL_NS = 50 * 1000 * 1000, /* overdue by more: we slept, and hear everybody before time is up */
    /* For as long as we are late, so much at most: by then other loops have passed on what they had in their sockets,
     * and clients that gave their connections up are back (Kafka's wait a second, reconnect.backoff.max.ms). */
    STATE_LOG_PUT_OFF_NS_MAX = 2 * 1000 * 1000 * 1000,
    STATE_LOG_PUT_OFFS_MAX = 4, /* of the same: a loop that is late again each time is overloaded, it does not sleep */
    STATE_LOG_RETRY_MS_MIN = 100,   /* of a load after the first failure was tried at once; doubled up to the next */
    STATE_LOG_RETRY_MS_MAX = 10000, /* a state that served as long begins anew with the first */
};

/* What a state is. */
struct state_kind {
    const char *name; /* for lines: "group" */
    /* An empty one. ERR_NOMEM. */
    enum err (*make)(void *context, void **state);
    void (*free)(void *state);
    /* As groups_replay, groups_replay_marker. */
    enum err (*replay)(void *state, int64_t producer_id, struct bytes key, struct bytes value);
    enum err (*replay_marker)(void *state, int64_t producer_id, bool committed);
    void (*loaded)(void *state, struct step *step);
    /* Answers whoever waits with why; writes nothing. */
    void (*unload)(void *state, struct step *step, enum err why);
    int64_t (*due_ns)(const void *state); /* INT64_MAX: never */
    void (*tick)(void *state, struct step *step);
};

struct state_log_settings {
    int32_t linger_ms; /* -1: the steps of one turn of the loop */
    int32_t commit_timeout_ms;
    int32_t load_bytes; /* of a piece that is loaded */
    enum codec codec;
};

/* What the logs of one loop share. */
struct state_logs {
    struct loop *loop;
    struct clock *clock;
    struct clock_guard *guard; /* NULL: the wall clock is always believed */
    struct rng *rng;
    struct log *log;
    const struct group_topics *topics;  /* for steps; may be NULL */
    struct state_log_settings settings; /* may be changed between two turns */
    /* state_log.c's */
    struct list loads; /* that wait */
    uint32_t loads_under_way;
    bool starting_loads;
    uint8_t *scratch; /* the records of the step under way */
    size_t scratch_size, scratch_room;
    struct log_rate lines;
    struct list due; /* whose tick is due, in order */
    struct loop_timer due_timer;
    int64_t ticked_ns;    /* the last turn of the loop in which one of them had it */
    int64_t asked_ns;     /* ... in which some had one because somebody asked */
    uint32_t asked_ticks; /* in that turn */
};

/* After the fields above its own are set. */
void state_logs_init(struct state_logs *logs);
/* No log is left. */
void state_logs_deinit(struct state_logs *logs);

/* Begins to load. The partition is ready, and stays until state_log_close. ERR_NOMEM. */
MUST_CHECK enum err state_log_new(struct state_logs *logs, const struct state_kind *kind, void *context,
                                  struct partition *partition, struct state_log **log);
/* Whoever waits for a decision is answered with why, and so is state_log_check; answers that are decided still wait for
 * their commit. closed (on the same loop, perhaps within the call): nothing is under way any more, the log is freed. */
void state_log_close(struct state_log *log, enum err why, void (*closed)(void *context), void *context);

/* Whether a step can be made now: ERR_COORDINATOR_LOAD_IN_PROGRESS, ERR_NOT_COORDINATOR, or what state_log_close
 * said. What has become due by now is done first, in a step of its own; answers' done may run within the call. */
MUST_CHECK enum err state_log_check(struct state_log *log);
/* One step, right now; state_log_check says so. Answers' done may run within the call, once run has returned. */
typedef void state_step_fn(void *state, struct step *step, void *argument);
void state_log_step(struct state_log *log, state_step_fn *run, void *argument);

/* What an append's error is to whoever asked the coordinator (groups.md 1.3). */
enum err state_log_error(enum err err);

/* NULL: not ACTIVE. */
void *state_log_state(const struct state_log *log);

#endif
