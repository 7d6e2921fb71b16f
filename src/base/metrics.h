/*
 * metrics: counters, gauges and histograms. Each reactor writes into a block of its own without a lock or a shared
 * cache line; whoever reads adds the blocks up.
 *
 *     metrics_new(&metrics);                                            at start, one for a broker
 *     id = metrics_add_counter(metrics, "ottla_records_in_total", "Records appended.");
 *     block = metrics_block_new(metrics);                               one for each reactor
 *     metrics_count(block, id, 12);
 *
 * Names follow Prometheus; labels may stand in the name: ottla_requests_total{api="Fetch"}. Metrics of one name with
 * different labels are added one after the other.
 *
 * Always holds  metrics are added before the first block is made, and never go.
 * Owns          the registry owns its blocks, and frees them with itself. Names and helps are borrowed literals.
 * Threads       adding, making blocks and freeing: the starting thread alone. Writing into a block: its reactor.
 *               Reading: any, at any time.
 */
#ifndef OTTLA_BASE_METRICS_H
#define OTTLA_BASE_METRICS_H

#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"
#include "base/histogram.h"

enum {
    METRICS_MAX = 2048,       /* metrics of one registry */
    METRICS_BLOCKS_MAX = 256, /* reactors and other writers of one registry */
};

struct metrics;
struct metrics_block;

/* Which metric; by value, valid for the registry that gave it and its blocks. */
struct metric {
    uint32_t slot;
};

MUST_CHECK enum err metrics_new(struct metrics **metrics);
/* With all blocks; nobody may use them any more. */
void metrics_free(struct metrics *metrics);

/* Asserts on more than METRICS_MAX: their number is ours to know. */
struct metric metrics_add_counter(struct metrics *metrics, const char *name, const char *help);
/* A level that may fall; what a reader sees is the sum of the blocks'. */
struct metric metrics_add_gauge(struct metrics *metrics, const char *name, const char *help);
/* Values are recorded as whole numbers and shown times scale: 1e-9 for nanoseconds under a name in seconds. */
struct metric metrics_add_histogram(struct metrics *metrics, const char *name, const char *help, double scale);

/* ERR_NOMEM; ERR_LIMIT: METRICS_BLOCKS_MAX. */
MUST_CHECK enum err metrics_block_new(struct metrics *metrics, struct metrics_block **block);

/* The block's writer only. Without memory for a histogram's first value that value is lost, and counted. */
void metrics_count(struct metrics_block *block, struct metric metric, uint64_t more);
void metrics_set(struct metrics_block *block, struct metric metric, int64_t level);
void metrics_move(struct metrics_block *block, struct metric metric, int64_t by);
void metrics_record(struct metrics_block *block, struct metric metric, uint64_t value);

/* Sums over all blocks. */
uint64_t metrics_read_counter(const struct metrics *metrics, struct metric metric);
int64_t metrics_read_gauge(const struct metrics *metrics, struct metric metric);
/* into: initialised; the sum is added to what it holds. */
void metrics_read_histogram(const struct metrics *metrics, struct metric metric, struct histogram *into);

/* All of it in Prometheus' text format, piece by piece; a histogram as a summary with quantiles. */
typedef void metrics_write_fn(void *context, struct bytes text);
void metrics_dump(const struct metrics *metrics, metrics_write_fn *write, void *context);

#endif
