/*
 * long_turn: the line about a loop's turn that took too long: its sockets were kept waiting meanwhile. It says what
 * kind of work it was, the longest piece (its function as a place in the program, for addr2line or nm) and what the
 * loop noted first in that turn, mostly a request.
 *
 * Threads  the loop's own.
 */
#ifndef OTTLA_BROKER_LONG_TURN_H
#define OTTLA_BROKER_LONG_TURN_H

#include "base/log.h"
#include "base/loop.h"
#include "net/reactor.h"

#define LONG_TURN_NS INT64_C(10000000) /* what takes so long belongs into a job, or is to be cut up */

void long_turn_tell(struct log *log, struct log_rate *rate, const struct loop *loop, const struct reactor_turn *turn);

#endif
