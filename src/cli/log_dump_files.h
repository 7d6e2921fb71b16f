/*
 * log_dump_files: the small files of a log, one entry a line: indexes, producer snapshots, checkpoints, marks.
 *
 * Threads  one; blocks.
 */
#ifndef OTTLA_CLI_LOG_DUMP_FILES_H
#define OTTLA_CLI_LOG_DUMP_FILES_H

#include "base/fs.h"
#include "cli/line_out.h"
#include "cli/log_target.h"

/* damaged: set where the file is not whole. Errors are those of reading it. */
MUST_CHECK enum err log_dump_small(struct fs *fs, struct line_out *out, const char *dir, const char *name,
                                   enum log_file_kind kind, int64_t base_offset, bool *damaged);

#endif
