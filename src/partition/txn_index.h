/*
 * txn_index: the aborted transactions whose markers lie in one segment (on-disk.md 3.4). What a reader of committed
 * records has to leave out, it is told from here.
 *
 * Always holds  markers strictly ascend. Kept in memory while the segment is open, and loaded by a job where only a
 *               later segment's markers are asked for; what is not yet in the file is appended there by a job. A
 *               segment without aborted transactions has none of it, in memory and on the disk.
 * Threads       its owner's; txn_index_load blocks.
 */
#ifndef OTTLA_PARTITION_TXN_INDEX_H
#define OTTLA_PARTITION_TXN_INDEX_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"

enum { TXN_INDEX_ENTRY_BYTES = 34 };

struct txn_index_entry {
    int64_t producer_id;
    int64_t first_offset;
    int64_t last_offset;   /* the marker's */
    int64_t stable_offset; /* the last stable offset after it: no transaction that is open then began before it */
};

/* All-zero is empty and loaded. */
struct txn_index {
    struct txn_index_entry *entries; /* NULL while they are in the file alone */
    uint32_t count;
    uint32_t room;
    uint32_t written; /* entries that are in the file, synced */
    bool absent;      /* the entries are in the file alone; count is not to be relied on */
    bool summed;      /* the three below are known */
    int64_t first_min;
    int64_t last_max;
    int64_t stable_max;
};

void txn_index_deinit(struct txn_index *index);
/* The entries go from memory where the file has them all. What they span stays known. */
void txn_index_unload(struct txn_index *index);
/* Takes the entries of `loaded`, which is left empty. */
void txn_index_take(struct txn_index *index, struct txn_index *loaded);

/* Room for more. ERR_NOMEM. */
MUST_CHECK enum err txn_index_reserve(struct txn_index *index, uint32_t count);
/* Where room was made, into loaded entries. The marker lies behind the last one's. */
void txn_index_add(struct txn_index *index, const struct txn_index_entry *entry);
/* Entries whose markers lie at or behind offset go. */
void txn_index_cut(struct txn_index *index, int64_t offset);

enum txn_index_search {
    TXN_INDEX_GO_ON,   /* later segments may have more */
    TXN_INDEX_THROUGH, /* none behind it can concern the range */
    TXN_INDEX_LOAD,    /* its entries have to be in memory for that */
};
/* Whether the entries are needed to say which transactions overlap [from, to), and what comes next without them. */
enum txn_index_search txn_index_judge(const struct txn_index *index, int64_t from, int64_t to);
/* Called for each entry that overlaps; anything but ERR_OK stops and is returned. */
typedef enum err txn_index_fn(void *context, const struct txn_index_entry *entry);
MUST_CHECK enum err txn_index_each(const struct txn_index *index, int64_t from, int64_t to, txn_index_fn *each,
                                   void *context, bool *through);

/* From the file's bytes, into an empty index. ERR_DAMAGED: not whole entries of version 0 whose markers ascend in
 * [base_offset, end_offset), each behind its transaction's beginning. */
MUST_CHECK enum err txn_index_parse(struct txn_index *index, struct bytes file, int64_t base_offset,
                                    int64_t end_offset);
/* As they stand in the file: entries from `first` on, count * TXN_INDEX_ENTRY_BYTES bytes. */
void txn_index_format(const struct txn_index *index, uint32_t first, uint8_t *to);

#endif
