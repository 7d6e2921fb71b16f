/*
 * connection_limits: how many connections a broker has, over all loops and listeners, and from each address.
 *
 * Limits   max.connections and max.connections.per.ip: who comes beyond is closed at once, with a line that says which
 *          limit. Connections of reserve listeners (replication, controllers) count but are never refused.
 * Threads  any. The count of each address is behind a lock, taken once when a connection comes and once when it goes,
 *          and only if that limit is set.
 */
#ifndef OTTLA_NET_CONNECTION_LIMITS_H
#define OTTLA_NET_CONNECTION_LIMITS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/net.h"

struct connection_limits;

enum connection_verdict { CONNECTION_ADMITTED, CONNECTION_OVER_TOTAL, CONNECTION_OVER_ADDRESS };

/* seed: of a hash, from rng. INT32_MAX: no limit. ERR_NOMEM. */
MUST_CHECK enum err connection_limits_new(int32_t connections_max, int32_t per_address_max, uint64_t seed,
                                          struct connection_limits **limits);
void connection_limits_free(struct connection_limits *limits);
/* Whoever is admitted leaves later. */
enum connection_verdict connection_limits_enter(struct connection_limits *limits, const struct net_address *peer,
                                                bool reserve);
void connection_limits_leave(struct connection_limits *limits, const struct net_address *peer);

#endif
