/*
 * time_index: the greatest timestamp up to an offset, for some of the batches (on-disk.md 3.3). An entry is the
 * greatest timestamp so far in its segment and the last offset of the batch that has it, relative to the segment's
 * base.
 *
 * Always holds  timestamps strictly ascend, offsets do not descend. Kept in memory and written like the offset index.
 * Threads       its owner's.
 */
#ifndef OTTLA_PARTITION_TIME_INDEX_H
#define OTTLA_PARTITION_TIME_INDEX_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"

enum { TIME_INDEX_ENTRY_BYTES = 12 };

struct time_index_entry {
    int64_t timestamp;
    uint32_t relative_offset;
};

/* All-zero is empty. */
struct time_index {
    struct time_index_entry *entries;
    uint32_t count;
    uint32_t room;
    uint32_t written; /* entries that are in the file */
};

void time_index_deinit(struct time_index *index);
/* Ignored when the timestamp is not above the last one. ERR_NOMEM. */
MUST_CHECK enum err time_index_add(struct time_index *index, int64_t timestamp, uint32_t relative_offset);
/* The greatest entry whose timestamp is at most `timestamp`: its relative offset; 0 when there is none. */
uint32_t time_index_offset(const struct time_index *index, int64_t timestamp);
/* NULL when empty. */
const struct time_index_entry *time_index_last(const struct time_index *index);
/* Entries of offsets from relative_offset on go. */
void time_index_cut(struct time_index *index, uint32_t relative_offset);

/* From the file's bytes, into an empty index. ERR_DAMAGED: not ascending, or not whole entries. */
MUST_CHECK enum err time_index_parse(struct time_index *index, struct bytes file);
/* As they stand in the file: entries from `first` on, count * TIME_INDEX_ENTRY_BYTES bytes. */
void time_index_format(const struct time_index *index, uint32_t first, uint8_t *to);

#endif
