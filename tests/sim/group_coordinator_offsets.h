/*
 * group_coordinator_offsets: what the records of a simulated coordinator say of a group's offsets. Of all that stand
 * for a partition and were not aborted the last one counts, once its transaction has its marker; a tombstone takes what
 * stands before it, pending or not.
 */
#ifndef OTTLA_TESTS_SIM_GROUP_COORDINATOR_OFFSETS_H
#define OTTLA_TESTS_SIM_GROUP_COORDINATOR_OFFSETS_H

#include "sim/group_coordinator.h"

struct offset_expected {
    bool stored;
    bool pending; /* a transaction that has no marker yet holds one */
    uint8_t life; /* of the topic it was committed for */
    int64_t offset;
};

struct offsets_expected {
    struct offset_expected of[COORDINATOR_TOPICS][COORDINATOR_PARTITIONS_MAX];
};

enum transaction_end group_record_end(const struct group_coordinator *coordinator, const struct group_record *record);
/* Fills in record->about. */
void group_record_read_offset(const struct group_coordinator *coordinator, struct group_record *record);
/* Before it stands among the others: that it does not go back. */
void group_coordinator_check_offset(const struct group_coordinator *coordinator, const struct group_record *record);
void group_coordinator_expect(const struct group_coordinator *coordinator, struct bytes group_id,
                              struct offsets_expected *expected);
/* After a step: nothing stays of topics that went while the coordinator was up, once it has been through all groups. */
void group_coordinator_check_gone(struct group_coordinator *coordinator);

#endif
