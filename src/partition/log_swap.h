/*
 * log_swap: what a crash left of a compaction, put in order before a log is opened (on-disk.md 5, 6). Ours and Apache
 * Kafka's alike:
 *
 *   .cleaned  was being written: it goes, and every .swap from the lowest one on, whose set may not be whole.
 *   .swap     is whole and synced, and takes the place of the segments whose offsets it spans, or of what was left of
 *             them.
 *
 * Threads  blocks.
 */
#ifndef OTTLA_PARTITION_LOG_SWAP_H
#define OTTLA_PARTITION_LOG_SWAP_H

#include "base/err.h"
#include "base/fs.h"
#include "base/log.h"

/* Again after a crash in the midst of it, all comes out the same. ERR_DAMAGED: a .log.swap cannot be read, and what it
 * was to replace is gone. */
MUST_CHECK enum err log_swap_finish(struct fs *fs, struct log *log, const char *dir);

#endif
