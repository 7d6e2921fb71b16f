/*
 * keyed: batches of keyed records for the tests of compaction, and what they hold when they are read back.
 */
#ifndef OTTLA_TESTS_PARTITION_KEYED_H
#define OTTLA_TESTS_PARTITION_KEYED_H

#include "base/bytes.h"
#include "base/slice.h"
#include "protocol/batch.h"
#include "protocol/record.h"

/* A record to be made, or that was read. A key or value of -1 is null; others stand for themselves as decimal text. */
struct keyed_record {
    int64_t offset; /* when read */
    int64_t timestamp;
    int64_t key;
    int64_t value;
};

struct keyed_make {
    int64_t base_offset;
    const struct keyed_record *records;
    uint32_t count;
    int64_t producer_id; /* 0: none */
    int16_t producer_epoch;
    int32_t base_sequence;
    bool transactional;
    enum codec codec;
};
/* mem_free it. */
uint8_t *keyed_batch(const struct keyed_make *make, size_t *size);
/* A commit or abort marker at base_offset. mem_free it. */
uint8_t *keyed_marker(int64_t base_offset, int64_t producer_id, int16_t producer_epoch, bool commit, size_t *size);
/* The data records of a batch, or the test fails; gives how many. */
uint32_t keyed_read(struct bytes batch, struct keyed_record *records, uint32_t room);

#endif
