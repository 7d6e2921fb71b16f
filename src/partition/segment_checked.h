/*
 * segment_checked: which bytes of a segment may be sent as they lie in the page cache: those that this process wrote
 * since the file was opened, and those whose checksums and offsets it has verified since. All else goes through a job
 * that verifies it first.
 *
 * Bound    SEGMENT_CHECKED_MAX ranges; beyond it the shortest is forgotten, and verified again when it is read.
 * Threads  the log's owner.
 */
#ifndef OTTLA_PARTITION_SEGMENT_CHECKED_H
#define OTTLA_PARTITION_SEGMENT_CHECKED_H

#include <stdbool.h>
#include <stdint.h>

#include "partition/segment.h"

enum { SEGMENT_CHECKED_MAX = 16 }; /* readers at so many places of one segment each keep their own */

struct segment_checked {
    uint32_t count;
    struct {
        uint64_t from;
        uint64_t to;
    } ranges[SEGMENT_CHECKED_MAX];
};

bool segment_checked_has(const struct segment *segment, uint64_t position, uint64_t size);
/* Without memory it is verified again. */
void segment_checked_add(struct segment *segment, uint64_t position, uint64_t size);
/* The file was closed, or is one that this process has not written: nothing is known of what it will hold. */
void segment_checked_forget(struct segment *segment);

#endif
