#include "histogram.h"

static int bucket_of(int64_t value)
{
    int shift = 0;
    int64_t bucket;

    while (value >> shift >= 2 << HISTOGRAM_STEP_BITS)
        shift++;
    bucket = ((int64_t)shift << HISTOGRAM_STEP_BITS) + (value >> shift);
    return bucket < HISTOGRAM_BUCKETS ? (int)bucket : HISTOGRAM_BUCKETS - 1;
}

/* The greatest value that falls into a bucket. */
static int64_t bucket_end(int bucket)
{
    int shift = (bucket >> HISTOGRAM_STEP_BITS) - 1;
    int64_t step;

    if (shift < 0)
        return bucket;
    step = bucket - ((int64_t)shift << HISTOGRAM_STEP_BITS);
    return ((step + 1) << shift) - 1;
}

void histogram_add(struct histogram *histogram, int64_t value)
{
    if (value < 0)
        value = 0;
    histogram->counts[bucket_of(value)]++;
    histogram->count++;
    if (value > histogram->greatest)
        histogram->greatest = value;
}

int64_t histogram_at(const struct histogram *histogram, double share)
{
    int64_t wanted = (int64_t)((double)histogram->count * share);
    int64_t below = 0;

    for (int bucket = 0; bucket < HISTOGRAM_BUCKETS; bucket++) {
        below += histogram->counts[bucket];
        if (below > 0 && below >= wanted)
            return bucket_end(bucket) < histogram->greatest ? bucket_end(bucket) : histogram->greatest;
    }
    return 0;
}
