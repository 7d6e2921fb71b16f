/*
 * scatter: one request's work on many partitions, each done at its home. The request's shard keeps the operations,
 * sends those of each home there in one message, counts the parts home and goes on when all are back. An operation that
 * fails fails alone. Where it is not in order that they must begin together (Produce), a home begins so many of them in
 * one turn of its loop, and goes on in the next.
 *
 *   scatter_new -> scatter_add ... -> scatter_run -> (start, ... scatter_op_done) at the homes -> done
 *
 * Threads  the request's shard; start, cancel and scatter_op_done on the home of the operation.
 */
#ifndef OTTLA_BROKER_SCATTER_H
#define OTTLA_BROKER_SCATTER_H

#include "broker/request.h"
#include "broker/shard.h"

struct scatter_part;

/* Embedded first in what each API does to a partition. */
struct scatter_op {
    struct uuid topic_id;
    int32_t index;
    enum err err; /* out: why there is no partition to do it on; start was not called then */
    bool is_done;
    struct scatter_part *part; /* the home's: its arena is for this operation's use */
    struct scatter_op *next;
};

struct scatter_part {
    struct scatter *scatter;
    struct shard *home;
    struct scatter_op *first, *last;
    struct scatter_op *next_op; /* the next to begin */
    struct arena arena;         /* the home's until the part is back, then the request's */
    uint32_t count;
    uint32_t left;
    struct loop_timer timer;
    struct outbox_message message; /* there */
    struct loop_task task;         /* and back */
    struct shard_parked parked;
    struct scatter_part *next;
};

struct scatter {
    struct request *request;
    /* Begins the operation; ends in scatter_op_done, at once or later. */
    void (*start)(struct scatter_op *op, struct partition *partition);
    /* At the request's deadline, for each that is not done: ends it if it can. Optional. */
    void (*cancel)(struct scatter_op *op);
    /* All are done. */
    void (*done)(struct scatter *scatter);
    bool in_turns; /* as above, by SCATTER_TURN_OPS and SCATTER_TURN_BYTES */
    void *user;
    struct scatter_part *parts;
    uint32_t parts_left;
};

/* In the request's arena; takes its user and cleanup. NULL without memory. */
struct scatter *scatter_new(struct request *request, void (*start)(struct scatter_op *op, struct partition *partition),
                            void (*done)(struct scatter *scatter), void *user) MUST_CHECK;
/* ERR_NOMEM. */
MUST_CHECK enum err scatter_add(struct scatter *scatter, struct scatter_op *op);
void scatter_run(struct scatter *scatter);
/* What the operations took of memory, once all are done. */
size_t scatter_held_bytes(const struct scatter *scatter);
void scatter_op_done(struct scatter_op *op);

#endif
