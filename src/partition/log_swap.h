/*
 * log_swap: what a crash left of a compaction, put in order before a log is opened (on-disk.md 5, 6). Ours and Apache
 * Kafka's alike:
 *
 *   .cleaned  was being written: it goes, and every .swap from the lowest one on, whose set may not be whole.
 *   .swap     was synced. While what it was to replace is there, it goes, and the next cleaning comes to the same: no
 *             damage of it costs anything. Else it takes the place of what is left of the segments whose batches it
 *             holds; damage of it is then that of a segment.
 *
 * Threads  blocks.
 */
#ifndef OTTLA_PARTITION_LOG_SWAP_H
#define OTTLA_PARTITION_LOG_SWAP_H

#include "base/err.h"
#include "base/fs.h"
#include "base/log.h"

/* Again after a crash in the midst of it, all comes out the same. */
MUST_CHECK enum err log_swap_finish(struct fs *fs, struct log *log, const char *dir);

#endif
