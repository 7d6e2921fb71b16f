/*
 * budget: the memory of a broker's connections, accounted by what has arrived: frames being read, frames being
 * executed, what exchanges reserve. One total for all loops; each loop has a gate to it.
 *
 * A listener with reserve (replication, quorum, controllers) may use all of it, the others only total - reserve, so
 * that a full budget never starves what would empty it. Who finds no room stops reading and waits at its gate; when an
 * eighth is free again and what they asked for, they are called, without polling.
 *
 * A budget that is full of half frames would stand still. So at each gate one waiter at a time is let through over the
 * budget (elected), until its frame is whole, or for BUDGET_ELECTED_NS without progress; then it is the next one's
 * turn. What is used is therefore at most total + loops * the largest frame.
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
    atomic_size_t needs;           /* bytes free at which the least demanding waiter is worth calling */
    struct budget_waiter *elected; /* may go over the budget; not in waiters */
    bool elected_moved;            /* since the timer was set */
    struct loop_timer elected_timer;
    struct loop_task wake;
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
