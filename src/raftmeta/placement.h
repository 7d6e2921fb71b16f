/*
 * placement: which brokers get the replicas of new partitions: striped over racks and brokers, so that leaders and
 * replicas spread evenly, with random starts (controller.md "Topics"). Pure but for the rng it is given.
 *
 * Threads  one owner.
 */
#ifndef OTTLA_RAFTMETA_PLACEMENT_H
#define OTTLA_RAFTMETA_PLACEMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/bytes.h"
#include "base/err.h"
#include "base/rng.h"

struct placement_broker {
    int32_t id;
    bool fenced;
    struct bytes rack; /* null: brokers without one count as one rack */
};

struct placement;

/* Brokers that may be used (in controlled shutdown: not), in any order. All memory is the arena's; NULL without. */
struct placement *placement_new(const struct placement_broker *brokers, uint32_t count, struct rng *rng,
                                struct arena *arena) MUST_CHECK;
/*
 * The replicas of one more partition: factor distinct brokers, the first of them not fenced.
 *
 * ERR_INVALID_REPLICATION_FACTOR  fewer brokers than that, or all are fenced; why: out, a literal or in the arena
 */
MUST_CHECK enum err placement_next(struct placement *placement, uint32_t factor, int32_t *replicas, struct bytes *why);

#endif
