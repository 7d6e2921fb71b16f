/*
 * segment: one run of a log: the batches from base_offset on in one .log file, and its indexes: of offsets, times and
 * aborted transactions. This file keeps the books (size, end, timestamps, index entries) and does the reading that
 * needs no job; log.c decides when.
 *
 * Always holds  base_offset <= end_offset; offsets and positions fit into 31 bits relative to the segment.
 * Threads       the log's owner. segment_load, segment_recover and segment_write_indexes block: in a job.
 */
#ifndef OTTLA_PARTITION_SEGMENT_H
#define OTTLA_PARTITION_SEGMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/list.h"
#include "partition/batch_scan.h"
#include "partition/log_config.h"
#include "partition/offset_index.h"
#include "partition/time_index.h"
#include "partition/txn_index.h"

#define SEGMENT_LOG        ".log"
#define SEGMENT_INDEX      ".index"
#define SEGMENT_TIME_INDEX ".timeindex"
#define SEGMENT_TXN_INDEX  ".txnindex"
#define SEGMENT_SNAPSHOT   ".snapshot"

enum { SEGMENT_BYTES_MAX = INT32_MAX };

struct damage;
struct segment_checked;
struct segment_job;

struct segment {
    int64_t base_offset;
    int64_t end_offset;           /* behind the last batch */
    uint64_t size;                /* bytes of the .log file */
    int64_t max_timestamp;        /* -1: none */
    int64_t max_timestamp_offset; /* last offset of the batch that has it; -1: none */
    int64_t first_timestamp;      /* max timestamp of the first batch, for rolling by time; -1: none or not known */
    int64_t created_ms;           /* wall clock; for rolling where there is no timestamp */
    int64_t modified_ms;          /* wall clock, kept while there is no timestamp: its age for retention */
    int64_t jitter_ms;            /* taken off segment.ms */
    uint32_t bytes_since_index;
    bool settled; /* the .log and its indexes are synced as they will stay */
    bool indexed; /* the indexes are in memory */
    struct offset_index offsets;
    struct time_index times;
    uint64_t written_from;           /* bytes from there on are of this process and this opening of the file */
    struct segment_checked *checked; /* what else was verified; NULL: nothing */
    struct txn_index *aborted;       /* NULL: there are none; loaded while indexed */
    struct fs_file *file;            /* NULL while closed */
    struct segment_job *opening;     /* under way */
    uint32_t uses;                   /* jobs that go by its files' names: they and the struct stay until it is 0 */
    bool moving;                     /* its files are being replaced: nobody may begin to go by their names */
    bool removed;                    /* it is in the log's list no more */
    struct list_node removed_node;
    int64_t unlink_due_ns; /* once its files are renamed */
};

/* No memory but the struct's own. */
void segment_init(struct segment *segment, int64_t base_offset, int64_t now_ms);
void segment_deinit(struct segment *segment);

/* Books a batch that lies at position: indexes, timestamps, end, size. An index entry for which there is no memory is
 * left out: the walk from the one before is longer, that is all. */
void segment_book(struct segment *segment, const struct batch_header *head, uint64_t position,
                  int32_t index_interval_bytes);
/* The final time index entry that a segment gets when it is closed or rolled. Lost without memory: only a hint. */
void segment_seal_times(struct segment *segment);

/* Room for more aborted transactions. ERR_NOMEM. */
MUST_CHECK enum err segment_aborted_reserve(struct segment *segment, uint32_t count);
/* Books it, where room was made. */
void segment_aborted_add(struct segment *segment, const struct txn_index_entry *entry);
/* It has a .txnindex file, whose entries are loaded when they are wanted. ERR_NOMEM. */
MUST_CHECK enum err segment_aborted_found(struct segment *segment);
/* There are entries that the file has not. */
bool segment_aborted_unwritten(const struct segment *segment);

/* Whether a batch like that has to go into a new segment (on-disk.md 4). */
bool segment_is_full(const struct segment *segment, const struct log_config *config, size_t incoming_bytes,
                     int64_t incoming_max_timestamp, int64_t incoming_last_offset, int64_t now_ms);

/* Finds the first batch whose last offset is at or above offset, starting at the index. ERR_END: there is none below
 * limit. With cached_only ERR_WOULD_BLOCK. */
MUST_CHECK enum err segment_find(struct fs_file *file, const struct offset_index *offsets, int64_t base_offset,
                                 int64_t offset, uint64_t limit, bool cached_only, uint64_t *position,
                                 struct batch_header *head);

/* --- blocking --- */

/* Size, end and timestamps from the files, trusting the indexes; only what lies behind the last index entry is walked.
 * A missing or damaged index is rebuilt from the .log. gaps_allowed: the topic compacts. The indexes stay in memory
 * (segment_drop_indexes). ERR_DAMAGED: what lies there is no run of whole batches. */
MUST_CHECK enum err segment_load(struct segment *segment, struct fs *fs, const char *dir, int32_t index_interval_bytes,
                                 bool gaps_allowed);
/* Only first_timestamp; where no whole batch lies, it stays not known. */
MUST_CHECK enum err segment_load_first_timestamp(struct segment *segment, struct fs *fs, const char *dir);
void segment_drop_indexes(struct segment *segment);

/* Called for each good batch; anything but ERR_OK stops and is returned. */
typedef enum err segment_batch_fn(void *context, const struct batch_header *head, struct bytes batch);
struct segment_recovery {
    int32_t index_interval_bytes;
    bool gaps_allowed; /* the topic compacts */
    /* Below it a bad batch is no torn one: it is noted as damage, kept, and the walk goes on behind it. 0: all is cut.
     */
    int64_t synced_offset;
    int64_t tail_offset; /* where the log ended when that was synced, as far as is known */
    int64_t end_offset;  /* where the next segment begins; -1: there is none */
    int64_t now_ms;
    struct damage *damage; /* takes the ranges; may be NULL where synced_offset is 0 */
    bool is_anchored;      /* a later recovery may resume within it */
    bool all_written;      /* only the end can be torn: of what lies before it checksums are not looked at */
};

/*
 * Sets the books of a segment that is to be recovered to the batch before offset, as the index files have them: what
 * lies before was synced, times too. The offset index need not have been, so it is believed only where the batch it
 * points at is whole and has the offset it says. False, and the books are as of an empty segment: recover it from its
 * beginning. leader_epoch: out, of the batch that the books end at.
 */
bool segment_resume(struct segment *segment, struct fs *fs, const char *dir, int64_t offset, int32_t *leader_epoch);
/* Walks all batches behind the books with their checksums, books them, cuts the file behind the last good one and
 * rewrites the indexes, which stay in memory (their files are removed where there is no room for them). A batch that
 * does not continue the log is damage. scanned, cut: out, bytes. */
MUST_CHECK enum err segment_recover(struct segment *segment, struct fs *fs, const char *dir,
                                    const struct segment_recovery *how, segment_batch_fn *each, void *context,
                                    uint64_t *scanned, uint64_t *cut);

/* Writes the index files anew from the entries in memory, synced, each as a whole or not at all. */
MUST_CHECK enum err segment_rewrite_indexes(struct segment *segment, struct fs *fs, const char *dir);
/* Cuts the file to size, where a batch ends, and its indexes behind end_offset; all of it is synced. What was read of
 * the cut bytes is no more; the others are not touched. */
MUST_CHECK enum err segment_truncate(struct fs *fs, const char *dir, int64_t base_offset, uint64_t size,
                                     int64_t end_offset, int32_t index_interval_bytes);

/* Reads both indexes into memory; rebuilds them when they are missing or damaged. file: the open .log. */
MUST_CHECK enum err segment_read_indexes(struct fs *fs, const char *dir, int64_t base_offset, struct fs_file *file,
                                         uint64_t size, int32_t index_interval_bytes, struct offset_index *offsets,
                                         struct time_index *times);

/* Index entries on their way to the files: a copy, so that the reactor may go on adding. Those of aborted transactions
 * are always synced: they may be what a recovery begins with. */
struct segment_index_tail {
    int64_t base_offset;
    uint32_t offsets_first; /* entries before these are in the file */
    uint32_t offsets_count;
    uint32_t times_first;
    uint32_t times_count;
    uint32_t aborted_first;
    uint32_t aborted_count;
    bool aborted_trim; /* what the file has behind aborted_first goes, even where nothing is added */
    uint8_t *bytes;    /* all three, formatted */
};
/* Copies what is not yet in the files. ERR_NOMEM. */
MUST_CHECK enum err segment_index_tail_take(const struct segment *segment, struct segment_index_tail *tail);
/* Blocks. Appends it, cutting off first what a failed write left behind; syncs where asked. */
MUST_CHECK enum err segment_index_tail_write(struct fs *fs, const char *dir, const struct segment_index_tail *tail,
                                             bool sync);
/* The same where it holds all entries: each file is the old one or the new one, synced. */
MUST_CHECK enum err segment_index_tail_replace(struct fs *fs, const char *dir, const struct segment_index_tail *tail);
/* The entries are in the files now. */
void segment_index_tail_done(struct segment *segment, const struct segment_index_tail *tail);
void segment_index_tail_deinit(struct segment_index_tail *tail);

#endif
