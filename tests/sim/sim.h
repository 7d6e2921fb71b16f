/*
 * sim: the world in which simulated nodes live: one seed, one virtual clock, one run queue. Everything that happens
 * (a loop's turn, a finished job, bytes that arrive, a timer) is an event here; of those that are due the seed picks
 * which is next. The same seed gives the same steps on every build: nothing depends on addresses or on real time.
 *
 * Memory   the world's own comes from the C library directly: base/mem.h is the nodes', and counted (sim_mem.h).
 * Threads  one.
 */
#ifndef OTTLA_TESTS_SIM_H
#define OTTLA_TESTS_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/loop.h"
#include "base/rng.h"

enum { SIM_LOOPS_MAX = 160 }; /* of all lives of the nodes */

/* Something that will happen: embedded in what it concerns, borrowed until it has run or is cancelled. */
struct sim_event {
    void (*run)(struct sim_event *event);
    int64_t due_ns;
    uint64_t slot; /* 1 + place among those pending; 0: not pending */
};

struct sim_loop;

/* How unkind the world is; sim_init sets the defaults. */
struct sim_habits {
    int64_t job_delay_ns_max;       /* an I/O job starts and reports within this: drawn for each */
    int64_t network_delay_ns_max;   /* a run of bytes arrives within this */
    uint32_t network_run_bytes_max; /* bytes travel in runs of 1 to this many */
    uint32_t cached_miss_percent;   /* of cached reads that say ERR_WOULD_BLOCK */
};

struct sim {
    struct clock clock;
    struct rng rng;       /* what the nodes draw from */
    uint64_t rng_state;   /* of the nodes' draws */
    uint64_t world_state; /* of the world's own draws: faults, order, delays */
    uint64_t seed;
    int64_t mono_ns;
    int64_t slept_ns;       /* boot = mono + this; tests add to it */
    int64_t wall_offset_ms; /* wall = boot + this; tests move it */
    uint64_t steps;
    uint64_t trace_hash; /* of all that happened so far */
    struct sim_habits habits;
    struct sim_event **pending;
    size_t pending_count;
    size_t pending_room;
    struct sim_loop *loops[SIM_LOOPS_MAX];
    uint32_t loop_count;
    struct sim_loop *running; /* whose turn it is; NULL: the test itself */
    /* Optional: told when code of a node begins (true) and ends to run, so that its memory can be told apart. */
    bool (*entered)(bool node);
    /* Optional: told after each step, where what must always hold is checked. */
    void (*stepped)(void *context);
    void *stepped_context;
};

void sim_init(struct sim *sim, uint64_t seed);
void sim_deinit(struct sim *sim);

/* A draw of the world, [0, bound). */
uint64_t sim_draw(struct sim *sim, uint64_t bound);
bool sim_chance(struct sim *sim, uint32_t percent);

/* Something happened that distinguishes one run from another: mixed into trace_hash. */
void sim_trace(struct sim *sim, uint64_t a, uint64_t b);

/* Happens when due_ns has come, or later. */
void sim_event_add(struct sim *sim, struct sim_event *event, int64_t due_ns);
/* Nothing happens when it is not pending. */
void sim_event_cancel(struct sim *sim, struct sim_event *event);

/* One step: picks among all that is due, moving the clock on when nothing is. False: nothing is left to happen before
 * until_ns (the clock then stands there). */
bool sim_step(struct sim *sim, int64_t until_ns);
/* Steps until done says so (then true), or until_ns has come. done may be NULL. */
bool sim_run(struct sim *sim, int64_t until_ns, bool (*done)(void *context), void *context);
/* Steps until nothing is left to happen but timers due after a grace of virtual time. */
void sim_settle(struct sim *sim);

/* A loop of some node. index is what struct loop carries (reactor number in its broker). Freed by sim_deinit. */
struct loop *sim_loop_new(struct sim *sim, const char *name, uint32_t index);
/* The loop runs code of a node, which can die. */
void sim_loop_set_node(struct loop *loop);
/* The loop dies with its node: what waits there is forgotten, jobs not yet run never run. */
void sim_loop_kill(struct loop *loop);
/* The loop does not run before then: a stalled process. */
void sim_loop_freeze(struct loop *loop, int64_t until_ns);

#endif
