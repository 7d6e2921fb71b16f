/*
 * batch_walk: walks a segment file forward as batch_scan does, with checksums verified and offsets held against their
 * neighbours, and goes on behind damage: it says which bytes and which offsets hold nothing one can vouch for, and
 * finds the next batch that is whole.
 *
 * Damage    what batch_scan refuses, and a batch that stands where its offsets cannot: base offset and leader epoch
 *           lie outside the checksum, so a base offset is believed where it ascends from the batch before to the one
 *           behind.
 * Going on  where the head still tells the length and what lies behind continues it, there. Else at the first place
 *           from which whole batches follow each other up to a boundary known from elsewhere (an index entry, the
 *           limit) or up to what can only be one more of them. So a batch that lies inside a record of a damaged one is
 *           not taken for one of the log's own.
 * Threads   one at a time. Blocks.
 */
#ifndef OTTLA_PARTITION_BATCH_WALK_H
#define OTTLA_PARTITION_BATCH_WALK_H

#include "partition/batch_scan.h"
#include "partition/offset_index.h"

/* Bytes and offsets that are damaged: [position, position + size) of the file, [first_offset, end_offset) of the log.
 */
struct batch_extent {
    uint64_t position;
    uint64_t size;
    int64_t first_offset;
    int64_t end_offset; /* -1: nothing whole lies behind, so it is not known from here */
};

struct batch_walk {
    struct batch_scan scan; /* scan.position: where the next batch is expected */
    /* in, may be changed between calls */
    int64_t next_offset;                /* no batch begins below it; it moves on with the walk */
    int64_t end_offset;                 /* batches end at or below it; INT64_MAX: not known */
    const struct offset_index *offsets; /* boundaries to look for behind damage; NULL: none are known */
    bool gaps_allowed;                  /* the topic compacts: the last batch may lie behind a gap */
    /* out */
    struct batch_extent extent;
    uint64_t resync_bytes; /* read in search of the next batch, over all damage so far */
};

/* position: a batch begins there, and none begins below next_offset. */
void batch_walk_init(struct batch_walk *walk, struct fs_file *file, uint64_t position, uint64_t limit,
                     int64_t next_offset);
void batch_walk_deinit(struct batch_walk *walk);

/*
 * The next whole batch, valid until the next call.
 *
 * ERR_END      at the limit
 * ERR_DAMAGED  extent says what; the next call goes on behind it
 * ERR_UNSUPPORTED_FOR_MESSAGE_FORMAT, ERR_NOMEM, ERR_IO as batch_scan_next
 */
MUST_CHECK enum err batch_walk_next(struct batch_walk *walk, struct batch_header *head, struct bytes *batch);

#endif
