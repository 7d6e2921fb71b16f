/*
 * partition_set: partitions of topics, each with the epoch in which it was given; sorted, each once.
 *
 * Owns  its items. An all-zero set is empty.
 */
#ifndef OTTLA_COORDINATOR_PARTITION_SET_H
#define OTTLA_COORDINATOR_PARTITION_SET_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/uuid.h"

struct partition_item {
    struct uuid topic;
    int32_t partition;
    int32_t epoch;
};

struct partition_set {
    struct partition_item *items;
    uint32_t count;
    uint32_t room;
};

/* Those of one topic. Borrowed from the set. */
struct partition_run {
    struct uuid topic;
    const struct partition_item *items;
    uint32_t count;
};

void partition_set_deinit(struct partition_set *set);
/* Takes what is in from, which is empty then. */
void partition_set_move(struct partition_set *to, struct partition_set *from);
/* to: empty. ERR_NOMEM. */
MUST_CHECK enum err partition_set_copy(struct partition_set *to, const struct partition_set *from);
/* Appended without order; partition_set_sort when all are in. ERR_NOMEM. */
MUST_CHECK enum err partition_set_add(struct partition_set *set, struct uuid topic, int32_t partition, int32_t epoch);
/* Sorts; of one that was added twice, one stays. */
void partition_set_sort(struct partition_set *set);
/* NULL: it is not in. */
const struct partition_item *partition_set_find(const struct partition_set *set, struct uuid topic, int32_t partition);
/* With epochs: whether these are the same too. */
bool partition_set_equal(const struct partition_set *a, const struct partition_set *b, bool epochs);
/* Of a sorted set one topic after the other: `at` begins as 0, and is the callee's. False: there is none any more. */
bool partition_set_next(const struct partition_set *set, uint32_t *at, struct partition_run *run);
uint32_t partition_set_topics(const struct partition_set *set); /* how many there are */
/* The partitions alone, as messages list them. NULL: no memory. */
int32_t *partition_run_numbers(const struct partition_run *run, struct arena *arena) MUST_CHECK;

#endif
