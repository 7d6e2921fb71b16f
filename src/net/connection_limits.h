/*
 * connection_limits: how many connections a broker has, over all loops and listeners, from each address, and how many
 * may come in a second.
 *
 * Limits   max.connections and max.connections.per.ip: who comes beyond is closed at once, with a line that says which
 *          limit. max.connection.creation.rate: who comes faster, beyond one second's worth at once, waits for its
 * slot. Connections of reserve listeners (replication, controllers) count but are never refused nor kept waiting.
 * Change   connection_limits_change holds for who comes next; those that are there stay.
 * Threads  any. The count of each address is behind a lock, taken once when a connection comes and once when it goes.
 */
#ifndef OTTLA_NET_CONNECTION_LIMITS_H
#define OTTLA_NET_CONNECTION_LIMITS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/net.h"

struct connection_limits;

/* INT32_MAX: no limit. */
struct connection_limits_config {
    int32_t connections_max;
    int32_t per_address_max;
    /* max.connections.per.ip.overrides, "address:count,address:count"; NULL or "": none. Numeric addresses alone: a
     * name could not be looked up in simulation, and may change. */
    const char *per_address_overrides;
    int32_t creations_per_second_max;
    uint64_t seed; /* of a hash, from rng */
};

enum connection_verdict { CONNECTION_ADMITTED, CONNECTION_OVER_TOTAL, CONNECTION_OVER_ADDRESS };

/* ERR_NOMEM; ERR_USAGE: the overrides are not of that form. */
MUST_CHECK enum err connection_limits_new(const struct connection_limits_config *config,
                                          struct connection_limits **limits);
void connection_limits_free(struct connection_limits *limits);
/* Other limits from now on; the seed stays. Errors as above, and then all is as it was. One caller at a time. */
MUST_CHECK enum err connection_limits_change(struct connection_limits *limits,
                                             const struct connection_limits_config *config);
/* ERR_USAGE where the overrides are not of that form. */
MUST_CHECK enum err connection_limits_check_overrides(const char *overrides);
/* Whoever is admitted leaves later. slot_ns: out, monotonic, when it may begin; now_ns or later. */
enum connection_verdict connection_limits_enter(struct connection_limits *limits, const struct net_address *peer,
                                                bool reserve, int64_t now_ns, int64_t *slot_ns);
void connection_limits_leave(struct connection_limits *limits, const struct net_address *peer);

#endif
