/*
 * histogram: how often values of which size came, in log-linear buckets: exact below 8, then eight to an octave, so a
 * bucket is never wider than an eighth of its values. Values of 2^40 and more share the last one (in nanoseconds: 18
 * minutes); the largest value is kept exactly.
 *
 * Threads  one writer; any may read at the same time and sees each number whole, though not all of one instant.
 */
#ifndef OTTLA_BASE_HISTOGRAM_H
#define OTTLA_BASE_HISTOGRAM_H

#include <stdatomic.h>
#include <stdint.h>

enum {
    HISTOGRAM_STEPS_LOG2 = 3, /* steps in an octave */
    HISTOGRAM_VALUE_LOG2 = 40,
    HISTOGRAM_BUCKETS = (HISTOGRAM_VALUE_LOG2 - HISTOGRAM_STEPS_LOG2 + 1) << HISTOGRAM_STEPS_LOG2,
};

struct histogram {
    atomic_uint_least64_t sum; /* of all values; wraps */
    atomic_uint_least64_t max;
    atomic_uint_least64_t buckets[HISTOGRAM_BUCKETS];
};

/* Empty; all-zero memory is so too. */
void histogram_init(struct histogram *histogram);
/* Counts a value once. The writer's only. */
void histogram_record(struct histogram *histogram, uint64_t value);
/* Adds all of from into another, whose writer the caller is. */
void histogram_merge(struct histogram *into, const struct histogram *from);
uint64_t histogram_count(const struct histogram *histogram);
/* A value that the given share (0 to 1) of all values does not exceed, at most an eighth too large, never above the
 * maximum; 0 of an empty one. */
uint64_t histogram_quantile(const struct histogram *histogram, double share);

#endif
