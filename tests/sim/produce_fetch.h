/*
 * produce_fetch: a scenario. One node with two reactors; a producer with an idempotent id pipelines batches to
 * partitions on both, a consumer follows them with long polls, connections break now and then, every I/O completion is
 * delayed and reordered; in most runs the node is killed in the middle, or (flush.messages=1) loses its power, and
 * starts again; then it stops cleanly, starts once more, and all is read and written on; at last the faults stop.
 *
 * Holds     after every step: sim_node_check, and what was acknowledged is there to be read. Record n of a partition is
 * the n-th that the producer sent there, once, whatever broke meanwhile; what was acknowledged is there after the
 * restart; a batch sent again after it keeps its offset; all ends in time, and without faults at once.
 */
#ifndef OTTLA_TESTS_SIM_PRODUCE_FETCH_H
#define OTTLA_TESTS_SIM_PRODUCE_FETCH_H

#include <stdbool.h>
#include <stdint.h>

struct produce_fetch_outcome {
    uint64_t trace_hash;
    uint64_t steps;
    uint64_t breaks;  /* connections broken by the world */
    uint64_t crashes; /* kills and power cuts of the node */
    uint64_t records; /* produced and read back */
    uint64_t virtual_ms;
};

/* Aborts where the scenario does not hold. */
void produce_fetch_run(uint64_t seed, bool chatty, struct produce_fetch_outcome *outcome);

#endif
