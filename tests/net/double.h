/*
 * double: a loop that turns when told and streams whose every byte the test decides: what a connection is tested on.
 * The clock is the test's too. (Whole worlds run on tests/sim.)
 *
 * Threads  one.
 */
#ifndef OTTLA_TESTS_DOUBLE_H
#define OTTLA_TESTS_DOUBLE_H

#include "base/log.h"
#include "base/net.h"
#include "base/timer_heap.h"

struct double_loop {
    struct loop loop;
    int64_t now_ns;
    struct timer_heap timers;
    struct loop_task *posted;
    struct loop_task **posted_last;
    struct loop_task *deferred;
    struct loop_task **deferred_last;
};

void double_loop_init(struct double_loop *loop, uint32_t index);
void double_loop_deinit(struct double_loop *loop);
/* One turn: messages, timers, deferred tasks. */
void double_turn(struct double_loop *loop);
/* The clock moves on, then a turn. */
void double_wait(struct double_loop *loop, int64_t ms);

enum { DOUBLE_ROOM = 4 << 20 };

struct double_stream {
    struct net_stream stream;
    bool closed;
    bool aborted;
    bool wants_read;
    bool wants_write;
    bool peer_ended; /* reading past the input says ERR_CLOSED */
    bool broken;     /* writing says ERR_CLOSED */
    uint8_t *in;     /* what the peer has sent */
    size_t in_start;
    size_t in_end;
    size_t read_max; /* bytes one read brings */
    uint8_t *out;    /* what the peer was sent */
    size_t out_size;
    size_t out_room; /* bytes it still takes */
    uint32_t writes;
};

struct double_stream *double_stream_new(struct double_loop *loop);
/* The test's part ends; the owner must have closed it. */
void double_stream_free(struct double_stream *stream);
/* Bytes arrive; nobody is told yet. */
void double_arrive(struct double_stream *stream, const void *data, size_t size);
/* Tells the owner what it wants to know and is true, then turns. */
void double_tell(struct double_loop *loop, struct double_stream *stream);

/* A sink that keeps the last line and counts. */
struct double_log {
    struct log_sink sink;
    struct clock clock;
    struct log log;
    uint32_t lines;
    char last[1100];
};

void double_log_init(struct double_log *log);

#endif
