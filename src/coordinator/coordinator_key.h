/*
 * coordinator_key: which partition of its topic coordinates a group or a transactional id.
 *
 * Source   on-disk.md 7: abs of Java's String.hashCode of the id, modulo the number of partitions.
 * Threads  any.
 */
#ifndef OTTLA_COORDINATOR_COORDINATOR_KEY_H
#define OTTLA_COORDINATOR_COORDINATOR_KEY_H

#include <stdint.h>

#include "base/bytes.h"

/* Java's String.hashCode: over UTF-16 units. What is no UTF-8 counts as U+FFFD, as Java's decoder has it. */
int32_t coordinator_key_hash(struct bytes key);
/* partitions: above 0. */
int32_t coordinator_key_partition(struct bytes key, uint32_t partitions);

#endif
