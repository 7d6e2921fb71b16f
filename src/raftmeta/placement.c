#include "raftmeta/placement.h"

#include <stdlib.h>

#include "base/assert.h"

/* Brokers that take turns. In each round (one partition) every one is given at most once; from round to round the
 * start moves on by one. */
struct ring {
    int32_t *ids;
    uint32_t count;
    uint32_t start;
    uint32_t given; /* in this round */
    uint32_t round;
};

struct rack {
    struct ring unfenced, fenced;
};

struct placement {
    struct rng *rng;
    struct arena *arena;
    struct rack *racks;
    uint32_t rack_count;
    uint32_t rack_start;
    uint32_t broker_count, unfenced_count;
    uint32_t round; /* of rings: never the same twice */
    uint32_t placed_since_shuffle;
    bool started;
};

static int by_rack_and_id(const void *a, const void *b)
{
    const struct placement_broker *x = a;
    const struct placement_broker *y = b;
    int order = bytes_compare(x->rack, y->rack);

    return order != 0 ? order : (x->id > y->id) - (x->id < y->id);
}

static bool same_rack(struct bytes a, struct bytes b)
{
    return (a.data == NULL) == (b.data == NULL) && bytes_equal(a, b);
}

static void shuffle_ids(struct rng *rng, int32_t *ids, uint32_t count)
{
    for (uint32_t i = count; i > 1; i--) {
        uint32_t other = (uint32_t)rng_below(rng, i);
        int32_t id = ids[i - 1];

        ids[i - 1] = ids[other];
        ids[other] = id;
    }
}

static void shuffle(struct placement *placement)
{
    for (uint32_t i = placement->rack_count; i > 1; i--) {
        uint32_t other = (uint32_t)rng_below(placement->rng, i);
        struct rack rack = placement->racks[i - 1];

        placement->racks[i - 1] = placement->racks[other];
        placement->racks[other] = rack;
    }
    for (uint32_t i = 0; i < placement->rack_count; i++) {
        shuffle_ids(placement->rng, placement->racks[i].unfenced.ids, placement->racks[i].unfenced.count);
        shuffle_ids(placement->rng, placement->racks[i].fenced.ids, placement->racks[i].fenced.count);
    }
    placement->placed_since_shuffle = 0;
}

struct placement *placement_new(const struct placement_broker *brokers, uint32_t count, struct rng *rng,
                                struct arena *arena)
{
    struct placement *placement = arena_alloc(arena, sizeof(*placement));
    struct placement_broker *sorted = arena_array(arena, count, sizeof(*sorted));
    int32_t *ids = arena_array(arena, (size_t)count * 2, sizeof(*ids)); /* each ring has room for its whole rack */
    struct rack *rack = NULL;

    if (placement == NULL || sorted == NULL || ids == NULL)
        return NULL;
    placement->racks = arena_array(arena, count, sizeof(*placement->racks));
    if (placement->racks == NULL)
        return NULL;
    if (count > 0)
        memcpy(sorted, brokers, count * sizeof(*sorted));
    qsort(sorted, count, sizeof(*sorted), by_rack_and_id);
    placement->rng = rng;
    placement->arena = arena;
    placement->broker_count = count;
    for (uint32_t first = 0, end = 0; first < count; first = end) {
        while (end < count && same_rack(sorted[end].rack, sorted[first].rack))
            end++;
        rack = &placement->racks[placement->rack_count++];
        rack->unfenced.ids = ids + (size_t)first * 2;
        rack->fenced.ids = rack->unfenced.ids + (end - first);
        for (uint32_t i = first; i < end; i++) {
            struct ring *ring = sorted[i].fenced ? &rack->fenced : &rack->unfenced;

            ring->ids[ring->count++] = sorted[i].id;
        }
        placement->unfenced_count += rack->unfenced.count;
    }
    shuffle(placement);
    return placement;
}

/* False when all were given in this round. */
static bool ring_next(struct ring *ring, uint32_t round, int32_t *id)
{
    if (ring->round != round) {
        ring->round = round;
        ring->given = 0;
        if (ring->count > 0)
            ring->start = (ring->start + 1) % ring->count;
    }
    if (ring->given >= ring->count)
        return false;
    *id = ring->ids[(ring->start + ring->given++) % ring->count];
    return true;
}

static bool rack_next(struct rack *rack, uint32_t round, int32_t *id)
{
    return ring_next(&rack->unfenced, round, id) || ring_next(&rack->fenced, round, id);
}

enum err placement_next(struct placement *placement, uint32_t factor, int32_t *replicas, struct bytes *why)
{
    uint32_t leader_rack = 0;
    uint32_t at = 0;
    uint32_t count = 0;
    bool leader_rack_passed = false;

    assert(factor > 0);
    if (factor > placement->broker_count) {
        *why = arena_printf(placement->arena,
                            "The target replication factor of %u cannot be reached because only %u broker(s) are "
                            "registered.",
                            factor, placement->broker_count);
        return ERR_INVALID_REPLICATION_FACTOR;
    }
    if (placement->unfenced_count == 0) {
        *why = BYTES_LITERAL("All brokers are currently fenced.");
        return ERR_INVALID_REPLICATION_FACTOR;
    }
    if (placement->placed_since_shuffle == placement->unfenced_count)
        shuffle(placement); /* each has led once: do not repeat the same sets */
    placement->placed_since_shuffle++;
    placement->round++;
    placement->rack_start = placement->started ? (placement->rack_start + 1) % placement->rack_count
                                               : (uint32_t)rng_below(placement->rng, placement->rack_count);
    placement->started = true;
    leader_rack = placement->rack_start;
    while (!ring_next(&placement->racks[leader_rack].unfenced, placement->round, &replicas[0]))
        leader_rack = (leader_rack + 1) % placement->rack_count;
    count = 1;
    for (at = placement->rack_start; count < factor; at = (at + 1) % placement->rack_count) {
        if (at == leader_rack && !leader_rack_passed) { /* it has given one for this turn already */
            leader_rack_passed = true;
            continue;
        }
        count += rack_next(&placement->racks[at], placement->round, &replicas[count]);
    }
    return ERR_OK;
}
