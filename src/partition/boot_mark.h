/*
 * boot_mark: under which boot of the machine a log directory was last written, in the plain file `ottla-boot` that
 * Kafka ignores. While the boot is the same, all that was written is still in the page cache, synced or not: after a
 * mere kill nothing but the last write of each log can be torn.
 *
 * Format   64 bytes, big-endian: magic u64, version u16, state u16, zero u32, boot id 16, zeroes, CRC-32C of 0..59;
 *          magic, version and checksum stay where they are in every version: a flipped bit is no later build's mark.
 * Threads  all calls block: in a job, or before the reactors start.
 */
#ifndef OTTLA_PARTITION_BOOT_MARK_H
#define OTTLA_PARTITION_BOOT_MARK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/uuid.h"

#define BOOT_MARK_FILE "ottla-boot"

enum { BOOT_MARK_BYTES = 64, BOOT_MARK_VERSION = 1 };

enum boot_mark_state {
    BOOT_MARK_RUNNING = 1, /* the directory is being written */
    BOOT_MARK_STOPPED = 2, /* cleanly: all is synced, the journals are empty */
    BOOT_MARK_FAILED = 3,  /* a sync failed: what the page cache shows may not be on the disk, and never get there */
};

struct boot_mark {
    enum boot_mark_state state;
    struct uuid boot_id;
};

void boot_mark_format(const struct boot_mark *mark, uint8_t to[BOOT_MARK_BYTES]);
/* ERR_UNSUPPORTED_VERSION: *version says which; ERR_DAMAGED. */
MUST_CHECK enum err boot_mark_parse(struct bytes from, struct boot_mark *mark, uint16_t *version);

/*
 * ERR_NOT_FOUND: there is none; ERR_DAMAGED; ERR_UNSUPPORTED_VERSION. resident: out, the mark is in the page cache
 * before anyone read it in this run: then the file system has not been taken away and mounted again since, which loses
 * what was not synced though the machine went on. boot_mark_touch keeps it there.
 */
MUST_CHECK enum err boot_mark_read(struct fs *fs, const char *log_dir, struct boot_mark *mark, bool *resident,
                                   uint16_t *version);
/* Synced, unless it says that syncs fail. */
MUST_CHECK enum err boot_mark_write(struct fs *fs, const char *log_dir, const struct boot_mark *mark);
/* From here on nobody believes what was written, whatever happens: durably, and without room for it if there is none.
 * ERR_IO. */
MUST_CHECK enum err boot_mark_doubt(struct fs *fs, const char *log_dir);
/* So that it is not what the page cache gives up first. */
void boot_mark_touch(struct fs *fs, const char *log_dir);

#endif
