/*
 * bare_dir: a partition's directory that has neither a topic id nor a byte of records. A full disk or a power cut
 * leaves one of a partition that was about to be begun; whose it was nothing tells.
 *
 * Threads  any: no state. Every call blocks.
 */
#ifndef OTTLA_PARTITION_BARE_DIR_H
#define OTTLA_PARTITION_BARE_DIR_H

#include <stdbool.h>

#include "base/err.h"
#include "base/fs.h"

/* Whether it is one. What cannot be looked at may have records. */
bool bare_dir_is(struct fs *fs, const char *dir);

/* Renames it, in the same log directory; the caller syncs that. A partition of a later topic may be about to take it
 * for its own meanwhile: once that has written its id there it keeps it. ERR_BUSY: it is not bare, and has its name;
 * ERR_NOT_FOUND: there is none. */
MUST_CHECK enum err bare_dir_rename(struct fs *fs, const char *dir, const char *to);

#endif
