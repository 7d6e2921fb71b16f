/*
 * journal_replay: the journals that a start finds in a log directory, whoever's reactors wrote them: what they hold for
 * each log, in the order in which it happened.
 *
 * An entry applies to a log that lives in the directory under its topic id, and only where it continues the log in
 * offset and epoch (log_replay.c decides); what a later truncation, deletion or move made history is left out here.
 *
 * Damage    the first group that is not whole ends a file, if nothing of its generation follows: it was never promised
 *           to anybody. If something does, a group that was promised is lost: that is said, and what follows counts.
 * Threads   opening blocks; afterwards it does not change, and any thread may look and read.
 */
#ifndef OTTLA_PARTITION_JOURNAL_REPLAY_H
#define OTTLA_PARTITION_JOURNAL_REPLAY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/uuid.h"
#include "partition/journal_format.h"

struct journal_replay;

enum journal_replay_mode {
    JOURNAL_REPLAY_READ, /* the segments may lack what they hold */
    JOURNAL_REPLAY_KEEP, /* they do not; but until they are synced, the files stay */
};

struct journal_replay_options {
    struct fs *fs;
    struct log *log;
    const char *log_dir;      /* borrowed for life */
    struct uuid directory_id; /* zero: any */
    enum journal_replay_mode mode;
};

/* Nothing is changed on the disk. *replay: NULL where there is no journal.
 * ERR_UNSUPPORTED_VERSION: a later build wrote one, said in a line; ERR_IO, ERR_NOMEM. */
MUST_CHECK enum err journal_replay_open(const struct journal_replay_options *options, struct journal_replay **replay);
/* NULL does nothing. */
void journal_replay_free(struct journal_replay *replay);

/* The greatest generation of any file; 0 for NULL. */
uint64_t journal_replay_generation(const struct journal_replay *replay);

/* How many files there are; 0 for NULL. */
uint32_t journal_replay_file_count(const struct journal_replay *replay);

/* An entry, but for whose it is. */
struct journal_replay_entry {
    enum journal_entry_type type; /* JOURNAL_APPEND or JOURNAL_START */
    int32_t leader_epoch;
    int64_t offset;
    int64_t end_offset;
    int64_t previous_end;
    uint32_t file;
    uint32_t body_bytes;
    uint64_t position; /* of the entry in the file */
};

/* In order; none: count 0, also for NULL. Valid until the replay is freed. */
const struct journal_replay_entry *journal_replay_find(const struct journal_replay *replay, struct uuid topic_id,
                                                       int32_t partition, uint32_t *count);
/* The entry's body into to, which has room for it. Blocks. ERR_DAMAGED: it is not what it was when it was found. */
MUST_CHECK enum err journal_replay_read(const struct journal_replay *replay, const struct journal_replay_entry *entry,
                                        uint8_t *to);

/* Every log of the directory has synced its segments past what the files hold: removes them. Blocks. */
MUST_CHECK enum err journal_replay_remove(struct journal_replay *replay);

#endif
