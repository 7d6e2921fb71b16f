/*
 * log_verify_files: the files of a log that are no segment's: checkpoints, properties, snapshots of the metadata.
 * Findings go to the check that is handed in.
 *
 * Threads  one; blocks.
 */
#ifndef OTTLA_CLI_LOG_VERIFY_FILES_H
#define OTTLA_CLI_LOG_VERIFY_FILES_H

#include "cli/log_target.h"
#include "partition/log_check.h"

/* Whether one such file can be read and says what it may. Errors are those of reading it. */
MUST_CHECK enum err log_verify_file(struct log_check *check, const char *dir, const char *name,
                                    enum log_file_kind kind);
/* What the checkpoints of the log directory say of a partition that was just read. */
void log_verify_checkpoints(struct log_check *check, const struct log_target *target, const struct log_dir_facts *facts,
                            struct bytes topic, int32_t partition, const struct log_checked *checked);
/* Entries of partitions that are not there. */
void log_verify_strangers(struct log_check *check, const char *log_dir, const struct log_dir_facts *facts);

#endif
