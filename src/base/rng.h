/*
 * rng: the seam through which randomness comes in: ids, hash seeds, jitter. In simulation it is a seeded stream.
 *
 * Threads  the real one any; a simulated one belongs to one run queue.
 */
#ifndef OTTLA_BASE_RNG_H
#define OTTLA_BASE_RNG_H

#include <stddef.h>
#include <stdint.h>

struct rng {
    void (*fill)(struct rng *rng, void *to, size_t size);
};

static inline void rng_fill(struct rng *rng, void *to, size_t size)
{
    rng->fill(rng, to, size);
}

static inline uint64_t rng_u64(struct rng *rng)
{
    uint64_t value = 0;

    rng->fill(rng, &value, sizeof(value));
    return value;
}

/* Uniform in [0, bound), bound > 0 (bias below 2^-32 for bounds of 32 bits). */
static inline uint64_t rng_below(struct rng *rng, uint64_t bound)
{
    return rng_u64(rng) % bound;
}

/* getrandom(2). */
void rng_init_real(struct rng *rng);

#endif
