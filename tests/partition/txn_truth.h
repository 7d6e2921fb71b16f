/*
 * txn_truth: what is open and what was aborted, worked out from a log's batches alone, the slow way: the measure of
 * what the log says of itself.
 */
#ifndef OTTLA_TESTS_PARTITION_TXN_TRUTH_H
#define OTTLA_TESTS_PARTITION_TXN_TRUTH_H

#include "world.h"

enum { TRUTH_TXNS_MAX = 4096 };

struct truth_txn {
    int64_t producer_id;
    int64_t first_offset;
    int64_t last_offset; /* the marker's; -1: still open */
    bool aborted;
};

struct truth {
    struct truth_txn txns[TRUTH_TXNS_MAX];
    uint32_t count;
    int64_t end_offset;
};

/* Reads the whole log. */
void truth_read(struct truth *truth, struct partition_log *log);
/* First offset of the earliest that is open; INT64_MAX: none. */
int64_t truth_first_open(const struct truth *truth);
/* The log's answer for [from, to) is that of the batches. to: at most the first open one. */
void truth_check_range(const struct truth *truth, struct world *world, struct partition_log *log, int64_t from,
                       int64_t to);
/* The same of ranges all over the log, and of the first offset that is not stable when all is replicated. */
void truth_check(struct truth *truth, struct world *world, struct partition_log *log);

#endif
