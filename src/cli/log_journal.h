/*
 * log_journal: a journal file and the boot mark, for `ottla log dump` and `verify`.
 *
 * Threads  one; blocks.
 */
#ifndef OTTLA_CLI_LOG_JOURNAL_H
#define OTTLA_CLI_LOG_JOURNAL_H

#include "cli/line_out.h"
#include "partition/log_check.h"

/* Its header, groups and entries, a line each. damaged: set where the file is not whole. */
MUST_CHECK enum err log_journal_dump(struct fs *fs, struct line_out *out, const char *dir, const char *name,
                                     bool *damaged);
MUST_CHECK enum err log_journal_verify(struct log_check *check, const char *dir, const char *name);
void log_journal_dump_boot_mark(struct line_out *out, struct bytes content, bool *damaged);

#endif
