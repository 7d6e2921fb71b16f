/*
 * histogram: counts of whole numbers in buckets whose width grows with the value, so that any percentile
 * is right to 1/64 of itself. Values are not negative; larger ones than fit count in the last bucket.
 */
#pragma once

#include <stdint.h>

enum {
    HISTOGRAM_STEP_BITS = 6, /* 64 buckets for each doubling */
    HISTOGRAM_BUCKETS = 40 << HISTOGRAM_STEP_BITS,
};

struct histogram {
    int64_t counts[HISTOGRAM_BUCKETS];
    int64_t count;
    int64_t greatest;
};

void histogram_add(struct histogram *histogram, int64_t value);

/* The value that a share of all (0 to 1) does not exceed; 0 of an empty histogram. */
int64_t histogram_at(const struct histogram *histogram, double share);
