/*
 * broker_limits: the room's bounds, each with its unit in its name, why that number, and what happens at it.
 */
#ifndef OTTLA_BROKER_BROKER_LIMITS_H
#define OTTLA_BROKER_BROKER_LIMITS_H

#include <stdint.h>

enum {
    CLEANER_BACKOFF_MS_MIN = 100,      /* looking at every log of a shard takes its time */
    CLEANER_BACKOFF_MS_MAX = 86400000, /* so that a timer takes it */
    CLEANER_MAP_BYTES_MIN = 1024,      /* some keys at least, so that a cleaning gets on */
    CLEANER_BUFFER_BYTES_MIN = 4096,
    /* --- one request --- */
    REQUEST_ARENA_BYTES_MAX = 256 * 1024 * 1024, /* reply included; its frame is at most 100 MiB. Beyond: no memory */
    REQUEST_ARENA_SHARE_DIVISOR = 2,             /* and at most that part of the node's memory */
    REQUEST_TURN_ENTRIES = 4096, /* elements of arrays and tagged fields of a request that a reactor works on in one
                                    turn: a millisecond. One that has more is worked on aside (request_aside.h) */
    /* The same of requests that may overlap, and so cannot leave their order: partitions of a Produce. A producer packs
     * some 15,000 batches of one record each into its 1 MB (max.request.size). Beyond it the connection is closed. */
    REQUEST_OVERLAPPING_ENTRIES_MAX = 32 * 1024,
    REPLY_BYTES_FREE = 1024 * 1024, /* a reply of so much may stay until its client has taken it; more is charged */
    SCATTER_ARENA_BYTES_MAX = 128 * 1024 * 1024, /* of one home's part: a compressed batch is opened in it, and one over
                                                    that is refused */
    /* Questions to group coordinators that one home begins in one turn, and what their answers may have taken of memory
     * until then: either is some 0.6 ms. The others come with the next turns. */
    SCATTER_TURN_OPS = 256,
    SCATTER_TURN_BYTES = 128 * 1024,
    REPLY_TURN_BYTES = 128 * 1024,     /* of what a reply is made of: more is put together and encoded aside, where that
                                          is said to be possible (request_reply_made); some 0.5 ms */
    OFFSET_FETCH_PIECE_ENTRIES = 4096, /* topics and partitions of OffsetFetch that a coordinator reads in one step, so
                                          many at the same moment: half a millisecond */
    GROUP_ENTRIES_MAX = 64 * 1024, /* of one question that a coordinator decides in one step: members that leave or get
                                      their share, protocols of one that joins, offsets to delete: some milliseconds.
                                      Refused beyond: no group is as large */
    LOG_DIRS_TURN_ENTRIES = 4096, /* topics and partitions that DescribeLogDirs names, looked for in one turn of a home:
                                     some 0.2 ms */
    LOG_DIRS_PART_BYTES_MAX = 64 * 1024 * 1024, /* that one home tells of its partitions: a million of them; the
                                                   connection is closed */
    FETCH_RESULT_BYTES_MAX = 4 * 1024 * 1024,   /* that one home copies for a fetch; the rest are file ranges, and what
                                                   finds no room comes with a later fetch */
    FETCH_PARTITIONS_MAX = 100 * 1000, /* of one session: what a frame can hold is more than anyone follows. Refused */
    DESCRIBE_TURN_RESOURCES = 16,      /* of DescribeConfigs, in one turn of its loop: a few milliseconds */
    LEADER_IDS_MAX = 64,               /* named in one reply; further ones go without an address: it is a hint */

    /* --- one connection --- */
    CLIENT_SOFTWARE_CHARS_MAX = 63, /* longer names are cut */
    /* Of Produce requests that execute beside each other: eight of librdkafka's largest, so that neither socket nor
     * disk waits for the other, and not what a client without a window of its own would pour in. Further ones wait. */
    CLIENT_OVERLAP_BYTES_MAX = 8 * 1024 * 1024,

    /* --- one log directory --- */
    DIR_JOURNALS_DIVISOR = 16, /* of its disk, for the journals of all reactors: on a small one they are small */

    /* --- one shard --- */
    DIR_ASSIGN_PARTITIONS_MAX = 1000,   /* in one request to the controller; the others come with the next */
    DIR_ASSIGN_BYTES_MAX = 1024 * 1024, /* of such a request */
    DIR_WISHES_MAX =
        10000, /* directories for partitions that are not there: the largest topic's. Further ones are lost */
    SHARD_HELD_STREAMS_MAX = 64,       /* that wait for the node to serve; more are turned away */
    SHARD_DRAIN_MS_MAX = 5000,         /* of a stop: who has not taken its replies by then is cut off */
    SHARD_SESSIONS_MEMORY_DIVISOR = 4, /* of the node's memory, for fetch sessions of all shards; then none is cached */
    SHARD_PARTITIONS_MAX = 1 << 20,    /* far over what a node's memory holds; more are not followed, and said so */
    SCRUB_PIECE_BYTES = 256 * 1024,    /* read at a time: a millisecond of a disk's time */
    SCRUB_REST_FACTOR = 4, /* so many times what a piece took the disk has rest: a fifth of it at most is the scrub's */
    SCRUB_FIRST_S = 60,    /* after the start, which has other things to read */
    SCRUB_PASS_S_MIN = 24 * 3600,     /* more than once a day finds nothing that matters sooner */
    RETENTION_TURN_PARTITIONS = 1000, /* looked at in one turn: tens of microseconds where there is nothing to delete */
    OUTBOX_RETRY_MS = 1,              /* a mailbox that was full is tried again: it drains in less */

    /* --- one node --- */
    BROKER_REACTORS_MAX = 255, /* more cores than any host we aim at; with the two other shards a byte counts them */
    BROKER_LOG_DIRS_MAX = 64,  /* disks of one host; more stop the start */
    BROKER_MEMORY_BYTES_DEFAULT = 256 * 1024 * 1024, /* where nobody says: a small container's */
    BROKER_MEMORY_RESERVE_BYTES = 8 * 1024 * 1024,   /* that clients cannot touch: for quorum and controllers */
    BROKER_DESCRIPTORS_DEFAULT = 1024,               /* Debian's limit of a process */
    BROKER_STORED_MAX = 1 << 24,             /* partitions found on disk; each takes a directory, so disks end sooner */
    BROKER_SEQUENCE_BYTES_MAX = 1024 * 1024, /* what the start's and the stop's own requests take */
    DIRS_RETRY_MS = 1000, /* word of directories that the controller did not take is given again: clients that ask
                             leaderless partitions try as often */
    BROKER_HEARTBEAT_RETRY_MS = 10,       /* after one that the controller refused while it became active */
    BROKER_MESSAGE_CHARS = 512,           /* of what a start that failed says; it is cut */
    CHECKPOINT_JOURNALS_INTERVAL_MS = 50, /* while an earlier run's journals wait for their logs: a node that is cut off
                                             again and again must not pile them up */
    CHECKPOINT_INTERVAL_MS_MAX = 1000,    /* a crash under full load leaves a second or two to be read again */
    LISTENERS_MAX = 16,                   /* more stop the start */
    LISTENER_NAME_CHARS_MAX = 63,         /* likewise */

    /* --- configuration --- */
    CONFIG_LINE_CHARS = 512,             /* of what is said about a key; it is cut */
    CONFIG_FILE_BYTES_MAX = 1024 * 1024, /* a thousand times Kafka's own example; refused */
    CONFIG_PLACES_MAX = 14,              /* places that may give one key a value; more are left out of what is told */
};

/* A longer interval would overflow the timer: a century. */
#define RETENTION_INTERVAL_MS_MAX (INT64_C(100) * 366 * 86400000)
/* Likewise, for offsets.retention.check.interval.ms. */
#define GROUP_OFFSETS_CHECK_MS_MAX RETENTION_INTERVAL_MS_MAX
#define BROKER_RECOVERY_LINE_NS    (INT64_C(5) * 1000 * 1000 * 1000) /* between lines on a start that takes long */

/* A fetch session that nobody used for so long gives way to a new one; Kafka's number. */
#define FETCH_SESSION_IDLE_NS (INT64_C(120) * 1000 * 1000 * 1000)

_Static_assert(SCATTER_ARENA_BYTES_MAX < REQUEST_ARENA_BYTES_MAX, "a part is less than its request");

#endif
