/*
 * kafka_offsets: offsets of many partitions, asked of their leaders: ends, beginnings, or by time.
 *
 * Threads  one.
 */
#ifndef OTTLA_CLI_KAFKA_OFFSETS_H
#define OTTLA_CLI_KAFKA_OFFSETS_H

#include "cli/kafka_client.h"

enum { KAFKA_OFFSET_LATEST = -1, KAFKA_OFFSET_EARLIEST = -2 };

struct kafka_offset {
    struct bytes topic;
    int32_t partition;
    int64_t timestamp; /* ms since the epoch, or one of the above */
    int64_t offset;    /* out; -1: no record is as late */
    enum err err;      /* out, for this partition */
    int32_t leader;    /* for itself */
};

/* Partitions of a topic stand together. ERR_*: nothing was found out, client->message says why. */
MUST_CHECK enum err kafka_list_offsets(struct kafka_client *client, struct kafka_offset *offsets, uint32_t count);
/* How many partitions each topic has; err per topic in *err. */
MUST_CHECK enum err kafka_partition_count(struct kafka_client *client, struct bytes topic, uint32_t *count);

#endif
