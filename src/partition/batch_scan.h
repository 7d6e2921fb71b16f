/*
 * batch_scan: walks the record batches of a segment file, forward, in pieces of bounded size. Heads alone, or whole
 * batches with their checksums verified.
 *
 * Bytes from the disk are never trusted: a length that the file cannot hold, another magic or a wrong checksum end the
 * walk with ERR_DAMAGED, and scan.position stands at the first byte that is not good.
 * Threads  one at a time. Blocks, unless it was told to read from memory alone (then ERR_WOULD_BLOCK).
 */
#ifndef OTTLA_PARTITION_BATCH_SCAN_H
#define OTTLA_PARTITION_BATCH_SCAN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"
#include "base/fs.h"
#include "protocol/batch.h"

enum batch_scan_depth {
    BATCH_SCAN_HEADS,   /* bodies are skipped */
    BATCH_SCAN_WRITTEN, /* bodies from bodies_from on, and those of control batches, wherever they are */
    BATCH_SCAN_BODIES,  /* whole batches */
    BATCH_SCAN_CHECKED  /* whole batches, checksums verified */
};

struct batch_scan {
    struct fs_file *file; /* borrowed */
    uint64_t position;    /* of the next batch */
    uint64_t limit;       /* batches end at or before it */
    enum batch_scan_depth depth;
    bool cached_only;
    /* Set after init */
    bool any_codec;       /* a batch of a codec that we do not know is a batch, too */
    size_t buffer_bytes;  /* read at a time; 0: what suits the depth */
    uint64_t bodies_from; /* of BATCH_SCAN_WRITTEN: batches that end behind it are given whole */
    /* the scan's */
    bool is_sparse; /* bodies so large that it does not pay to read through them are being skipped */
    uint8_t *buffer;
    size_t buffer_room;
    size_t buffer_filled;
    uint64_t buffer_position; /* in the file */
};

void batch_scan_init(struct batch_scan *scan, struct fs_file *file, uint64_t position, uint64_t limit,
                     enum batch_scan_depth depth);
void batch_scan_deinit(struct batch_scan *scan);

/* The next batch; it lies in the scan's memory until the next call (where its body was not asked for only its head
 * does). ERR_END at the limit; ERR_DAMAGED also where bytes are left that are no whole batch. After ERR_OK position is
 * behind it. */
MUST_CHECK enum err batch_scan_next(struct batch_scan *scan, struct batch_header *head, struct bytes *batch);

#endif
