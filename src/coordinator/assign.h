/*
 * assign: which member of a group gets which partition: the assignors of the consumer protocol.
 *
 *   range    per topic: its subscribers in order, each a run of partitions, the first ones one more where it does not
 *            come out even. Topics of one size are divided alike. Nothing is sticky. Where partitions lie in different
 *            racks and all subscribe to the same, as many, but what lies in the member's rack in all topics of one size
 *            is preferred.
 *   uniform  everybody the same number, the difference at most one where all subscribe to the same (else as small as
 *            moving single partitions makes it); then whoever has a partition keeps it; then a replica in the member's
 *            rack is preferred.
 *
 * Always holds  a partition has exactly one owner, who subscribes to its topic; nobody where nobody does. Same input,
 *               same output.
 * Members       in order: static ones by instance id, then dynamic ones by member id.
 * Source        groups.md 3.8; KIP-848, KIP-1101. Apache Kafka 4.4's assignors do not look at racks; ours is a
 * superset.
 */
#ifndef OTTLA_COORDINATOR_ASSIGN_H
#define OTTLA_COORDINATOR_ASSIGN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

enum { ASSIGN_RACKS_MAX = 64 }; /* that are told apart; members of further ones count as without */
#define ASSIGN_NOBODY UINT32_MAX

struct assign_member {
    const uint32_t *topics; /* ascending numbers of the topics that it subscribes to */
    uint32_t topic_count;
    uint64_t rack_bit; /* one bit; 0: its rack does not matter */
};

/* Partitions of all topics are numbered in one row. */
struct assign_input {
    const struct assign_member *members;
    uint32_t member_count;
    const uint32_t *first; /* of each topic the number of its first partition; topic_count + 1 of them */
    uint32_t topic_count;
    const uint32_t *before;    /* of each partition the member that has it, or ASSIGN_NOBODY */
    const uint64_t *rack_bits; /* of each partition's replicas; NULL: racks do not matter */
};

static inline uint32_t assign_partition_count(const struct assign_input *input)
{
    return input->first[input->topic_count];
}

/* Whether all members subscribe to the same topics. */
bool assign_is_same_for_all(const struct assign_input *input);
/* owner: out, of each partition. ERR_NOMEM. */
MUST_CHECK enum err assign_range(const struct assign_input *input, uint32_t *owner);
MUST_CHECK enum err assign_uniform(const struct assign_input *input, uint32_t *owner);

#endif
