/*
 * log_truncation_mark: the file by which a recovery knows that a log was cut. Checkpoint files may go on telling of an
 * older, higher recovery point for a while; what was written since would be believed unread.
 *
 *     ottla-truncation 1
 *     <offset that the log was cut at> <recovery point that may still be told>
 *     <CRC-32C of the lines above, 8 hex digits>
 *
 * It goes once the log has been synced up to that recovery point again. Apache Kafka takes no notice of it.
 *
 * Threads  all calls block: in a job.
 */
#ifndef OTTLA_PARTITION_LOG_TRUNCATION_MARK_H
#define OTTLA_PARTITION_LOG_TRUNCATION_MARK_H

#include <stdint.h>

#include "base/err.h"
#include "base/fs.h"

#define LOG_TRUNCATION_NAME "ottla-truncation"

struct log_truncation_mark {
    int64_t offset; /* above it no recovery point is believed */
    int64_t until;
};

/* Synced, its name too. */
MUST_CHECK enum err log_truncation_mark_write(struct fs *fs, const char *dir, const struct log_truncation_mark *mark);
/* ERR_NOT_FOUND; ERR_UNSUPPORTED_VERSION. What is damaged counts as a cut at 0. */
MUST_CHECK enum err log_truncation_mark_read(struct fs *fs, const char *dir, struct log_truncation_mark *mark);
/* It need not be there. */
MUST_CHECK enum err log_truncation_mark_remove(struct fs *fs, const char *dir);

#endif
