/*
 * log_dir_trust: what a start may believe of a log directory, told from the marks and files that its last writer left
 * (decision 0013).
 *
 * Threads  blocks: before the reactors start.
 */
#ifndef OTTLA_PARTITION_LOG_DIR_TRUST_H
#define OTTLA_PARTITION_LOG_DIR_TRUST_H

#include <stdbool.h>

#include "base/err.h"
#include "base/fs.h"
#include "base/log.h"

enum log_trust {
    LOG_TRUST_SYNCED,  /* what was synced: the power may have gone since the rest was written */
    LOG_TRUST_REWRITE, /* likewise, and a sync failed: what is not known to be synced is to be written once more */
    LOG_TRUST_WRITTEN, /* all that was written: the process died, the machine went on */
    LOG_TRUST_ALL,     /* the stop was clean */
};

struct log_dir_trust {
    enum log_trust trust;
    bool discard_journals; /* another program wrote here since: what they tell is not this directory's history */
};

/* clean: the mark of a clean stop was there.
 * ERR_UNSUPPORTED_VERSION: a later build's mark, said in a line; ERR_IO. */
MUST_CHECK enum err log_dir_judge(struct fs *fs, struct log *log, const char *log_dir, bool clean,
                                  struct log_dir_trust *trust);

#endif
