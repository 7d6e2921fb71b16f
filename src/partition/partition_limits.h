/*
 * partition_limits: the room's bounds, their units in their names, and why those numbers.
 */
#ifndef OTTLA_PARTITION_PARTITION_LIMITS_H
#define OTTLA_PARTITION_PARTITION_LIMITS_H

#include <stdint.h>

#define PARTITION_SYNC_INTERVAL_NS   INT64_C(1000000000)   /* a second of writing is what a power cut may cost */
#define PARTITION_IDLE_NS            INT64_C(60000000000)  /* a minute: longer than the pause between two polls */
#define PARTITION_PRODUCER_EXPIRY_MS INT64_C(86400000)     /* Kafka's producer.id.expiration.ms */
#define PARTITION_EXPIRE_EVERY_NS    INT64_C(600000000000) /* Kafka's producer.id.expiration.check.interval.ms */
#define JOURNAL_MAKE_AGAIN_NS        INT64_C(1000000000) /* after a full disk: logs sync their own segments meanwhile */
#define JOURNAL_NOTES_AGAIN_NS       INT64_C(50000000)   /* between two looks at whether there is room for a note */
/* What a cleaning does between two looks at whether it is to go on, read and written together: 2 ms of an I/O thread.
 */
#define CLEAN_SLICE_BYTES UINT64_C(524288)
/* So much of a new segment lies in the page cache at most before its writing out begins. */
#define CLEAN_PUSH_BYTES UINT64_C(8388608)
/* A move to another directory copies so much between two looks at whether it is to go on, and syncs so much at a time.
 */
#define MOVE_SLICE_BYTES UINT64_C(1048576)
#define MOVE_SYNC_BYTES  UINT64_C(67108864)
/* So much may be left when the log is held for the rest, 5 ms of copying; from so many passes on twice as much each
 * time, up to what a disk writes in half a second. */
#define MOVE_FINAL_BYTES     UINT64_C(1048576)
#define MOVE_FINAL_BYTES_MAX UINT64_C(67108864)
#define MOVE_WAIT_NS         INT64_C(10000000) /* for a cleaning or a truncation to end */
/* A log is held for the journal's room no longer than that: then the move ends, and the log goes on where it is. */
#define MOVE_NOTE_NS_MAX INT64_C(1000000000)
/* What it did slower than its rate for so long it may do faster; no single pause is longer than a minute. */
#define CLEAN_CREDIT_NS    INT64_C(50000000)
#define CLEAN_PAUSE_NS_MAX INT64_C(60000000000)
/* What could leave less than that free, were nothing of it superseded, is not compacted. */
#define CLEAN_LEAVES_BYTES UINT64_C(16777216)
/* Between two looks at whether what it goes by is synced. */
#define CLEAN_SYNC_WAIT_NS INT64_C(10000000)
/* After a cleaning that failed (a full disk, no memory) the log is left in peace for a while. */
#define CLEAN_AGAIN_NS INT64_C(60000000000)
/* A directory of an earlier topic of the name is on its way out: it goes once that one's last sync has ended. */
#define PARTITION_LOAD_AGAIN_NS    INT64_C(20000000)
#define PARTITION_LOAD_PATIENCE_NS INT64_C(60000000000)
/* Renames that the file system refused for now are tried again. */
#define LOG_RENAME_AGAIN_NS INT64_C(1000000000)
/* file.delete.delay.ms beyond it would overflow the timer: a century. */
#define PARTITION_DELETE_DELAY_MS_MAX (INT64_C(100) * 366 * 86400000)
#define PARTITION_LOAD_FULL_NS        INT64_C(1000000000) /* where the disk was full: there is no hurry, and no end */

/* The I/O threads are few: a directory's reactors sync whole file systems one after the other. */
#define SYNC_GROUP_AGAIN_NS INT64_C(10000000)
/* What lies un-synced may be another home's, or of logs that no group has: it hurries none again so soon. */
#define SYNC_GROUP_PAUSE_NS INT64_C(100000000)

/* Free space is looked at so often; oftener where producers are refused, or will be soon at this rate. */
#define DIR_SPACE_LOOK_NS      INT64_C(1000000000)
#define DIR_SPACE_LOOK_SOON_NS INT64_C(250000000)
#define DIR_SPACE_SOON_SECONDS 10.0
#define DIR_SPACE_SAY_EVERY_NS INT64_C(600000000000) /* ten minutes: whoever reads the log meets it */
#define DIR_SPACE_RATE_SECONDS 300.0                 /* a forecast looks back so far: over a burst, not over a day */
/* Below these shares of the volume, or bytes where those are less, the disk counts as filling up, and as full. */
#define DIR_WARN_DIVISOR     10
#define DIR_WARN_BYTES_MAX   (UINT64_C(50) * 1024 * 1024 * 1024)
#define DIR_REFUSE_DIVISOR   50
#define DIR_REFUSE_BYTES_MAX (UINT64_C(512) * 1024 * 1024) /* seconds of writing: looks come oftener */

enum {
    /* The reserve: metadata, offsets and checkpoints of 100,000 partitions several times over; less on a small volume.
     */
    DIR_RESERVE_DIVISOR = 64,
    DIR_RESERVE_BYTES_MAX = 64 * 1024 * 1024,
    DIR_RESERVE_HEAD_BYTES = 4096,       /* one block, which stays */
    DIR_RESERVE_SLICE_BYTES = 64 * 1024, /* the least that is given back */
    DIR_RESERVE_START_DIVISOR = 4,       /* this part of it is for a start alone */
    DIR_SPACE_RELIEFS_MAX = 8,           /* slices double: 8 MiB for one thing; then it is not bytes that lack */

    /* Of one directory, not yet on the disk: half a second of this disk's sequential rate. Appends over it queue. */
    DIR_DIRTY_BYTES_MAX = 256 * 1024 * 1024,
    LOG_SYNC_EARLY_BYTES = 1024 * 1024, /* worth a sync of its own once half of that is there */
    LOG_PUSH_BYTES = 4 * 1024 * 1024,   /* is written out while the next comes */
    PARTITION_LOADS_MAX = 2, /* at once of one reactor: more would keep everything else from the I/O threads, the sync
                                of the metadata that a start waits for, too */
    MOVE_PASSES_MANY = 8,
    PARTITION_SYNC_BYTES = 64 * 1024 * 1024, /* or that much: half a second of this disk's sequential rate */
    SYNC_GROUP_LOGS_MIN = 64,            /* what one call for the whole file system costs less than (decision 0019) */
    SYNC_GROUP_BYTES = 64 * 1024 * 1024, /* of the directory: none of many logs waits for its time then. A quarter of
                                            the bound, so that what comes while the disk is at it has room */
    SYNC_GROUP_AHEAD_LOGS = 32,  /* whose files are on their way to the disk at a time: it answers no faster deeper */
    SYNC_GROUP_SLICE_LOGS = 512, /* of one turn: a millisecond */
    LOG_ANCHOR_BYTES = 16 * 1024 * 1024,         /* written between two anchors: a few ms of reading for a recovery */
    LOG_ANCHOR_PRODUCERS_MAX = 10000,            /* whose snapshot is not written that often: 460 kB */
    LOG_READ_COPY_BYTES = 16 * 1024,             /* below it a copy is cheaper than sendfile (limits.md 3) */
    LOG_READ_COLD_BYTES_MAX = 2 * 1024 * 1024,   /* what one cold read brings in; its first batch may be larger */
    LOG_APPEND_BATCHES_MAX = 1024,               /* in one append: a follower's fetch, cut by it where need be */
    LOG_RENAMED_SEGMENTS_MAX = 200,              /* of one log; beyond it the oldest are unlinked before their time */
    LOG_SNAPSHOT_BYTES_MAX = 64 * 1024 * 1024,   /* PRODUCERS_MAX producers are 46 MiB */
    LOG_TXN_INDEX_BYTES_MAX = 512 * 1024 * 1024, /* a full segment of the smallest aborted transactions has half */

    /* --- the journal (decision 0012 has the figures) --- */
    JOURNAL_FILES_MAX = 4,                     /* one fills, one is free ahead, two wait for their logs' segments */
    JOURNAL_BYTES_DEFAULT = 128 * 1024 * 1024, /* of one reactor in one directory: a second of small records */
    JOURNAL_RUNS_MAX = 2,               /* what lies there of earlier runs: as much as so many whole ones leave */
    JOURNAL_FILE_BYTES_MIN = 64 * 1024, /* a few groups; smaller ones would be synced all the time */
    JOURNAL_GROUP_BYTES_MAX = 8 * 1024 * 1024, /* what one sync takes at most; further entries are refused */
    JOURNAL_GROUP_BYTES_ENOUGH = 1024 * 1024,  /* it goes to the disk though nobody waits for it */
    JOURNAL_GROUP_BYTES_FIRST = 64 * 1024,
    JOURNAL_GROUP_BYTES_KEPT = 1024 * 1024, /* memory of a group that is kept however little is used */
    JOURNAL_SYNCS_BEHIND_MAX = 1,           /* of segments at a time, so that the journal's own do not wait */
    JOURNAL_ZEROES_BYTES = 64 * 1024,
    JOURNAL_FLUSH_MESSAGES_MAX = 100, /* flush.messages up to it gains by a journal; above it syncs are rare enough */
    JOURNAL_FLUSH_MS_MAX = 100,       /* likewise flush.ms */
};

#endif
