/*
 * cleaner_turn: compaction's turn on a shard: every log.cleaner.backoff.ms it looks for the dirtiest of its logs that
 * is due, and cleans it; as long as it finds one, one after the other.
 *
 * Bounds   log.cleaner.threads cleanings at a time in the broker, at most one on a shard; each has its share of
 *          log.cleaner.dedupe.buffer.size, log.cleaner.io.buffer.size and log.cleaner.io.max.bytes.per.second.
 * Threads  the shard's loop.
 */
#ifndef OTTLA_BROKER_CLEANER_TURN_H
#define OTTLA_BROKER_CLEANER_TURN_H

#include <stdbool.h>

#include "base/loop.h"
#include "partition/log.h"

struct shard;

struct shard_cleaner {
    struct loop_timer timer;
    struct log_clean op;
    struct shard *shard;
    bool busy;
    bool ended;
};

void cleaner_turn_begin(struct shard *shard);
/* Nothing new is begun; what is under way ends with its partition. */
void cleaner_turn_end(struct shard *shard);

#endif
