#include "base/histogram.h"

#include <string.h>

#include "base/assert.h"

enum { STEPS = 1 << HISTOGRAM_STEPS_LOG2 };

static uint32_t bucket_of(uint64_t value)
{
    uint32_t octave = 0;

    if (value < STEPS)
        return (uint32_t)value;
    if (value >> HISTOGRAM_VALUE_LOG2 != 0)
        return HISTOGRAM_BUCKETS - 1;
    octave = 63 - (uint32_t)__builtin_clzll(value) - HISTOGRAM_STEPS_LOG2;
    return (octave << HISTOGRAM_STEPS_LOG2) + (uint32_t)(value >> octave);
}

/* The largest value of a bucket. */
static uint64_t bucket_top(uint32_t bucket)
{
    uint32_t octave = 0;

    if (bucket < STEPS)
        return bucket;
    octave = (bucket >> HISTOGRAM_STEPS_LOG2) - 1;
    return (((uint64_t)(bucket & (STEPS - 1)) + STEPS + 1) << octave) - 1;
}

static uint64_t load(const atomic_uint_least64_t *number)
{
    return atomic_load_explicit(number, memory_order_relaxed);
}

/* With one writer there is nothing to lock: a plain add, of which readers see the old or the new value. */
static void add(atomic_uint_least64_t *number, uint64_t more)
{
    atomic_store_explicit(number, load(number) + more, memory_order_relaxed);
}

void histogram_init(struct histogram *histogram)
{
    memset(histogram, 0, sizeof(*histogram));
}

void histogram_record(struct histogram *histogram, uint64_t value)
{
    add(&histogram->buckets[bucket_of(value)], 1);
    add(&histogram->sum, value);
    if (value > load(&histogram->max))
        atomic_store_explicit(&histogram->max, value, memory_order_relaxed);
}

void histogram_merge(struct histogram *into, const struct histogram *from)
{
    for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++)
        add(&into->buckets[i], load(&from->buckets[i]));
    add(&into->sum, load(&from->sum));
    if (load(&from->max) > load(&into->max))
        atomic_store_explicit(&into->max, load(&from->max), memory_order_relaxed);
}

uint64_t histogram_count(const struct histogram *histogram)
{
    uint64_t count = 0;

    for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++)
        count += load(&histogram->buckets[i]);
    return count;
}

uint64_t histogram_quantile(const struct histogram *histogram, double share)
{
    uint64_t max = load(&histogram->max);
    double wanted = share * (double)histogram_count(histogram);
    uint64_t seen = 0;

    assert(share >= 0 && share <= 1);
    for (uint32_t i = 0; i < HISTOGRAM_BUCKETS - 1; i++) {
        seen += load(&histogram->buckets[i]);
        if (seen > 0 && (double)seen >= wanted)
            return bucket_top(i) < max ? bucket_top(i) : max;
    }
    return max;
}
