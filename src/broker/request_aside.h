/*
 * request_aside: what would hold up a reactor for longer than a turn may take is done by the loop aside: a shard that
 * has neither partitions nor connections, only the metadata. Two things go there:
 *
 *   requests of many entries   whole: decoding, handler, reply. request.shard is the one aside from then on, and what
 *                              request.h says of "its shard" holds there; home stays its connection's
 *   large replies              of requests that stay at home: they are put together and encoded there, and come back
 *
 *   home: request_aside_go -> aside: run ... request_aside_return -> home: run ... request_aside_go -> aside: freed
 *
 * Order     of a connection is kept: such a request executes alone, so nothing behind it starts. What may overlap never
 *           goes.
 * Memory    a connection has one there at most, with its frame in the budget; what it takes beside is charged to the
 *           budget through the shard aside, until it is freed there.
 * Fairness  one at a time, in the order in which they came: a large request waits for other large ones, then for what
 *           its handler waits for anywhere. A change of the metadata waits for them, too: this shard follows it as all
 *           others do.
 * Threads   as said at each.
 */
#ifndef OTTLA_BROKER_REQUEST_ASIDE_H
#define OTTLA_BROKER_REQUEST_ASIDE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct request;

/* Whether it is worked on aside. Any thread that works for it. */
bool request_is_aside(const struct request *request);
/* From home: run is called on the loop aside. One such call is under way at a time. */
void request_aside_go(struct request *request, void (*run)(struct request *request));
/* From aside: run is called at home. Of a request that is worked on there it is over: it is told of nothing more. */
void request_aside_return(struct request *request, void (*run)(struct request *request));
/* From home: the client of a request that is aside is gone. */
void request_aside_abandon(struct request *request);
/* Aside, for a request that is worked on there. ERR_NOMEM. */
MUST_CHECK enum err request_aside_reserve(struct request *request, size_t bytes);
/* Gives back all of that. */
void request_aside_give(struct request *request);

#endif
