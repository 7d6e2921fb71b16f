/*
 * scrub: each shard reads its partitions' old data again, at ottla.scrub.bytes.per.second over all shards, so that what
 * the disk has lost is known and marked before somebody asks for it. One pass begins SCRUB_PASS_S_MIN after the other
 * at the earliest; a disk that is slow to answer is left alone for longer.
 *
 * Threads  the shard's loop.
 */
#ifndef OTTLA_BROKER_SCRUB_H
#define OTTLA_BROKER_SCRUB_H

#include <stdbool.h>

#include "base/loop.h"
#include "partition/partition.h"

struct shard;

struct shard_scrub {
    struct log_scrub op;
    struct loop_timer timer;
    uint32_t cursor; /* among the shard's partitions; 0: at the beginning */
    bool has_partition;
    struct uuid topic_id; /* of the one under way */
    int32_t index;
    int64_t rate; /* bytes a second, this shard's share; 0: off */
    int64_t piece_began_ns;
    int64_t pass_began_ns;
    uint64_t pass_bytes;
    uint32_t pass_partitions;
};

void scrub_begin(struct shard *shard);
/* A piece that is under way comes to its end, and none follows. */
void scrub_end(struct shard *shard);

#endif
