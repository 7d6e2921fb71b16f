/*
 * metadata_limits: the bounds of this room, each with its unit in its name, and why that number.
 */
#ifndef OTTLA_RAFTMETA_METADATA_LIMITS_H
#define OTTLA_RAFTMETA_METADATA_LIMITS_H

enum {
    METADATA_BATCH_BYTES_MAX = 8 * 1024 * 1024, /* of one batch of the metadata log; Kafka's raft bound */
    METADATA_RECORD_ARENA_BYTES_MAX =
        64 * 1024 * 1024, /* one record, decoded: arrays take more in memory than in bytes */
    CONTROLLER_SCRATCH_BYTES_MAX = 256 * 1024 * 1024, /* records of one step, before they are encoded */
    TOPIC_PARTITIONS_MAX = 1000 * 1000,               /* of one topic; a partition id beyond it is taken for damage */
    SNAPSHOT_BYTES_MAX = 1024 * 1024 * 1024,          /* of a file that is read whole */
    METADATA_SEGMENT_BYTES_MAX = 64 * 1024 * 1024,    /* a start checks the whole active segment, so it stays small,
                                                         whatever    metadata.log.segment.bytes allows */
    IDLE_SYNC_EVERY = 20,              /* NoOp records between two syncs that they ask for: 10 s by default */
    SNAPSHOTS_KEPT = 2,                /* the newest, and one before it should that prove damaged */
    SNAPSHOT_BATCH_RECORDS_MAX = 1024, /* records in one batch of a snapshot, as Kafka has it */
};

/* What somebody waits for is synced at once; the rest, NoOp records, may wait. */
#define METADATA_SYNC_INTERVAL_NS INT64_C(60000000000)

#endif
