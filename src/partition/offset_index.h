/*
 * offset_index: where in its segment file a batch begins, for some of the batches (on-disk.md 3.2). An entry is the
 * last offset of a batch, relative to the segment's base, and the position of that batch's first byte.
 *
 * Always holds  strictly ascending in both. Kept in memory while its segment is open; what is not yet in the file is
 *               appended there by a job, so the file never has a tail of zeroes.
 * Threads       its owner's.
 */
#ifndef OTTLA_PARTITION_OFFSET_INDEX_H
#define OTTLA_PARTITION_OFFSET_INDEX_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"

enum { OFFSET_INDEX_ENTRY_BYTES = 8 };

struct offset_index_entry {
    uint32_t relative_offset;
    uint32_t position;
};

/* All-zero is empty. */
struct offset_index {
    struct offset_index_entry *entries;
    uint32_t count;
    uint32_t room;
    uint32_t written; /* entries that are in the file */
};

void offset_index_deinit(struct offset_index *index);
/* Ignored when it would not ascend. ERR_NOMEM. */
MUST_CHECK enum err offset_index_add(struct offset_index *index, uint32_t relative_offset, uint32_t position);
/* Position of the greatest entry whose offset is at most relative_offset; 0 when there is none. */
uint32_t offset_index_position(const struct offset_index *index, uint32_t relative_offset);
/* The greatest indexed position that is at most `position`; 0 when there is none. A batch begins there. */
uint32_t offset_index_boundary(const struct offset_index *index, uint32_t position);
/* An offset, relative to the base, that no batch before `position` reaches: of the first entry at or behind it. -1:
 * there is none. */
int64_t offset_index_bound(const struct offset_index *index, uint64_t position);
/* Entries that point at or behind size, or at offsets from relative_offset on, go. */
void offset_index_cut(struct offset_index *index, uint32_t relative_offset, uint64_t size);

/* From the file's bytes, into an empty index. ERR_DAMAGED: not ascending, or not whole entries, or behind size. */
MUST_CHECK enum err offset_index_parse(struct offset_index *index, struct bytes file, uint64_t size);
/* As they stand in the file: entries from `first` on, count * OFFSET_INDEX_ENTRY_BYTES bytes. */
void offset_index_format(const struct offset_index *index, uint32_t first, uint8_t *to);

#endif
