/*
 * offsets_store: the offsets of a group in memory: topics by name, in each the partitions in order. 48 bytes each, and
 * a block of their own where there is metadata, an expiry or a topic id that is not the topic's. For offsets*.c alone.
 *
 * A partition may stand here without an offset: a transaction that has not ended holds one for it (pending).
 *
 * Threads  the coordinator's.
 */
#ifndef OTTLA_COORDINATOR_OFFSETS_STORE_H
#define OTTLA_COORDINATOR_OFFSETS_STORE_H

#include "base/list.h"
#include "base/uuid.h"
#include "coordinator/group.h"

struct offset_extra;
struct pending_offset;
struct topic_offsets;

/* One committed offset, as records have it. */
struct offset_value {
    int64_t offset;
    int64_t commit_ms;
    int64_t expire_ms;    /* -1: by the group's rule */
    int32_t leader_epoch; /* -1: none */
    struct uuid topic_id; /* zero: unknown */
    struct bytes metadata;
};

/* How a value is kept. */
struct offset_cell {
    int64_t offset;
    int64_t commit_ms;
    uint64_t sequence : 62; /* of its record among all that were replayed: the later one counts */
    uint64_t stored : 1;    /* there is a committed offset, beside what is pending */
    uint64_t has_id : 1;    /* of the topic: extra's, or else the topic's */
    struct offset_extra *extra;
};

struct offset_entry {
    struct offset_cell cell;
    struct pending_offset *pending; /* of transactions that have not ended; newest first */
    int32_t partition;
    int32_t leader_epoch;
};

/* What one transaction has for one partition. */
struct pending_offset {
    struct pending_offset *next; /* of the same partition */
    struct list_node in_transaction;
    struct topic_offsets *topic;
    int64_t producer_id;
    struct offset_cell cell;
    int32_t partition;
    int32_t leader_epoch;
};

struct topic_offsets {
    struct group *group;
    struct uuid id; /* that of the first commit with one */
    struct offset_entry *entries;
    uint32_t count;
    uint32_t room;
    uint32_t name_bytes;
    uint8_t name[];
};

struct group_offsets {
    struct topic_offsets **topics; /* by name */
    uint32_t count;
    uint32_t room;
};

/* A producer's transaction, as far as this coordinator knows. */
struct offset_transaction {
    int64_t producer_id;
    struct list pending; /* oldest first */
};

static inline struct bytes topic_offsets_name(const struct topic_offsets *topic)
{
    return bytes_of(topic->name, topic->name_bytes);
}

/* NULL: none. */
struct topic_offsets *offsets_find_topic(const struct group *group, struct bytes name);
struct offset_entry *offsets_find_entry(const struct topic_offsets *topic, int32_t partition);
struct offset_entry *offsets_find(const struct group *group, struct bytes topic, int32_t partition);
/* What is stored; the entry has an offset. metadata: borrowed from it, "" where there is none. */
struct offset_value offset_entry_value(const struct topic_offsets *topic, const struct offset_entry *entry);
struct uuid offset_entry_topic_id(const struct topic_offsets *topic, const struct offset_entry *entry);
/* Whether it, or what a transaction holds pending of it, is for another topic of that name than the one of that id,
 * which is gone. */
bool offset_entry_outlives(const struct topic_offsets *topic, const struct offset_entry *entry, struct uuid id);
int64_t offset_entry_expire_ms(const struct offset_entry *entry);

/* ERR_NOMEM: nothing has changed, but for a group that may have been made. */
MUST_CHECK enum err offsets_put(struct groups *groups, struct bytes group_id, struct bytes topic, int32_t partition,
                                const struct offset_value *value);
/* Until the producer's marker. ERR_NOMEM as above. */
MUST_CHECK enum err offsets_put_pending(struct groups *groups, int64_t producer_id, struct bytes group_id,
                                        struct bytes topic, int32_t partition, const struct offset_value *value);
/* Takes away what is committed for the partition, and what is pending. Does nothing where there is none. */
void offsets_drop(struct group *group, struct bytes topic, int32_t partition);
/* The producer's transaction has ended. A group that it leaves without anything stays, until a sweep. */
void offsets_settle(struct groups *groups, int64_t producer_id, bool committed);

#endif
