/*
 * log_moved_mark: the file that goes with a log into another log directory, whose checkpoint files do not know it yet:
 * what they would say. Taken at an opening where it says more than they do.
 *
 *     ottla-moved 1
 *     <recovery point> <log start offset> <cleaned offset, -1: none>
 *     <CRC-32C of the lines above, 8 hex digits>
 *
 * All three only grow, so it stays true; it goes when the log is cut. Apache Kafka takes no notice of it.
 *
 * Threads  all calls block: in a job.
 */
#ifndef OTTLA_PARTITION_LOG_MOVED_MARK_H
#define OTTLA_PARTITION_LOG_MOVED_MARK_H

#include <stdint.h>

#include "base/err.h"
#include "base/fs.h"

#define LOG_MOVED_NAME "ottla-moved"

struct log_moved_mark {
    int64_t recovery_point;
    int64_t start_offset;
    int64_t cleaned_offset;
};

/* Synced, its name too. */
MUST_CHECK enum err log_moved_mark_write(struct fs *fs, const char *dir, const struct log_moved_mark *mark);
/* ERR_NOT_FOUND, also where it is damaged; ERR_UNSUPPORTED_VERSION. */
MUST_CHECK enum err log_moved_mark_read(struct fs *fs, const char *dir, struct log_moved_mark *mark);
/* It need not be there. */
MUST_CHECK enum err log_moved_mark_remove(struct fs *fs, const char *dir);

#endif
