/*
 * txn_file: the .txnindex files (on-disk.md 3.4): read, appended to, and had again from the batches where one is not
 * whole.
 *
 * Always holds  what was appended is synced, its name too: a producer snapshot that is written afterwards may let a
 *               recovery begin behind it.
 * Threads       all calls block: in a job.
 */
#ifndef OTTLA_PARTITION_TXN_FILE_H
#define OTTLA_PARTITION_TXN_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"
#include "base/fs.h"
#include "partition/txn_index.h"

/* Into an empty index. ERR_NOT_FOUND; ERR_DAMAGED: as txn_index_parse, or larger than any is. */
MUST_CHECK enum err txn_file_read(struct fs *fs, const char *dir, int64_t base_offset, int64_t end_offset,
                                  struct txn_index *index);
/* The same, but one that is damaged or not there is had from the batches: from the newest producer snapshot at or below
 * the segment on, or from the log's beginning. rebuilt: out; what is in the file is then to be written anew
 * (index->written is 0). */
MUST_CHECK enum err txn_file_load(struct fs *fs, const char *dir, int64_t base_offset, int64_t end_offset,
                                  struct txn_index *index, bool *rebuilt);
/* Appends formatted entries at position, cutting off first what lies there. At position 0 the file is replaced as a
 * whole: a crash leaves the old one or the new one. */
MUST_CHECK enum err txn_file_append(struct fs *fs, const char *dir, int64_t base_offset, uint64_t position,
                                    struct bytes entries);
/* It need not be there. */
MUST_CHECK enum err txn_file_remove(struct fs *fs, const char *dir, int64_t base_offset);
/* Cut behind the entries whose markers lie below offset; without any the file goes. Nothing happens when it is not
 * there. */
MUST_CHECK enum err txn_file_cut(struct fs *fs, const char *dir, int64_t base_offset, int64_t offset);

#endif
