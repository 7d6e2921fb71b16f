/*
 * garbage: what was likely meant by bytes on a Kafka port that are no Kafka frame, for one helpful log line (trap
 * B011).
 *
 * Threads  any.
 */
#ifndef OTTLA_NET_GARBAGE_H
#define OTTLA_NET_GARBAGE_H

#include <stdbool.h>

#include "base/bytes.h"

/* A literal for people, or NULL: nothing we know. is_first: the connection has not sent a good frame before. */
const char *garbage_cause(struct bytes start, bool is_first);

#endif
