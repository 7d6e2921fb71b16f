/*
 * budget: the memory of a broker's connections, accounted by what has arrived: frames being read, frames being
 * executed, what exchanges reserve. One total for all loops; each loop has a gate to it.
 *
 * A listener with reserve (replication, quorum, controllers) may use all of it, the others only total - reserve, so
 * that a full budget never starves what would empty it. Who finds no room stops reading and waits at its gate; when an
 * eighth is free again and what they asked for, they are called, without polling.
 *
 * A budget that is full of half frames would stand still. So at each gate one waiter at a time, and only while the
 * budget is not overdrawn, is let through (elected) until its frame is whole: what is used is at most total + loops *
 * the largest frame. One that then stalls for BUDGET_ELECTED_STALL_NS, or takes longer than BUDGET_ELECTED_NS_MAX,
 * makes way, or is evicted if it has overdrawn the budget; and all gates are pressed, to give back what has stalled
 * there.
 *
 * Threads  a gate and its waiters belong to its loop; the counters are atomic and shared by all gates.
 */
#ifndef OTTLA_NET_BUDGET_H
#define OTTLA_NET_BUDGET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/list.h"
#include "base/loop.h"
#include "net/net_limits.h"

struct budget_gate;

struct budget {
    atomic_size_t used; /* bytes, with what gates have charged ahead */
    size_t total;       /* bytes */
    size_t reserve;     /* bytes of it that only reserve listeners may use */
    size_t share;       /* bytes that one connection's frame may have */
    size_t credit;      /* bytes a gate may have charged ahead */
    atomic_uint gates_waiting;
    _Atomic(struct budget_gate *) gates[BUDGET_GATES_MAX];
};

/* Someone who waits for room. All-zero with a list_node_init'ed node is not waiting. */
struct budget_waiter {
    struct list_node node;
    size_t bytes; /* that it asked for in vain */
    /* There may be room: try again. On the gate's loop, never from inside a call to the gate. */
    void (*resume)(struct budget_waiter *waiter);
    /* It has stalled with memory that others wait for, and no longer waits: give all of it back. Likewise. */
    void (*evict)(struct budget_waiter *waiter);
};

enum budget_gate_state {
    BUDGET_GATE_QUIET,   /* nobody waits here, or they are being called right now */
    BUDGET_GATE_WAITING, /* whoever frees memory posts wake; counted in gates_waiting */
    BUDGET_GATE_POSTED,  /* wake is on its way */
};

struct budget_gate {
    struct budget *budget;
    struct loop *loop;
    size_t credit; /* bytes charged ahead, so that small frames do not touch the shared counter */
    struct list waiters;
    size_t needs;                  /* bytes free at which the least demanding waiter is worth calling */
    atomic_size_t call_at;         /* bytes free at which others call */
    struct budget_waiter *elected; /* may overdraw; not in waiters */
    bool elected_moved;            /* since it was last looked at */
    int64_t elected_until_ns;
    struct loop_timer elected_timer;
    struct loop_task wake;
    struct loop_task press;
    atomic_bool press_posted;
    /* The owner's, may be NULL: memory is short and someone has stalled; give back what you can. On the gate's loop. */
    void (*pressed)(struct budget_gate *gate);
    _Atomic(enum budget_gate_state) state;
};

/* total_bytes: of everything. share: of one connection (a larger frame is refused); at most total - reserve. */
void budget_init(struct budget *budget, size_t total, size_t reserve, size_t share);

/* ERR_LIMIT: BUDGET_GATES_MAX loops have one. */
MUST_CHECK enum err budget_gate_init(struct budget_gate *gate, struct budget *budget, struct loop *loop);
/* Once no loop uses the budget any more: another's release may still look at this gate. */
void budget_gate_deinit(struct budget_gate *gate);

/* Charges bytes if there is room. waiter: who asks, which lets an elected one through; may be NULL. */
MUST_CHECK bool budget_take(struct budget_gate *gate, struct budget_waiter *waiter, size_t bytes, bool reserve);
/* Charges bytes whether there is room or not: for what exists already and is bounded elsewhere. */
void budget_take_over(struct budget_gate *gate, size_t bytes);
void budget_give(struct budget_gate *gate, size_t bytes);

/* After bytes were refused: to be called when they are there, or when elected. */
void budget_wait(struct budget_gate *gate, struct budget_waiter *waiter, size_t bytes);
/* The waiter needs nothing more now (its frame is whole), or is gone. */
void budget_wait_over(struct budget_gate *gate, struct budget_waiter *waiter);

#endif
