/*
 * producer_state: what a partition remembers of each producer that numbers its batches: epoch, the last five batches
 * and the open transaction (replication.md 8). It decides whether a batch continues, repeats or breaks the sequence,
 * and knows the first offset that is not stable: of the transactions that are open, or whose markers may yet be lost.
 *
 * Always holds  the open transactions ascend by first offset. At most PRODUCERS_MAX producers: beyond it the one that
 *               was silent longest and has no open transaction is forgotten, as if it had expired.
 * Threads       its owner's.
 */
#ifndef OTTLA_PARTITION_PRODUCER_STATE_H
#define OTTLA_PARTITION_PRODUCER_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"
#include "base/list.h"
#include "base/map.h"
#include "partition/batch_scan.h"

enum {
    PRODUCER_BATCHES_MAX = 5, /* Kafka's: clients have at most five requests in flight */
    PRODUCERS_MAX = 1 << 20,  /* of one partition: 200 MB at worst; Kafka has no bound but their expiry */
    PRODUCER_SNAPSHOT_HEAD_BYTES = 10,
    PRODUCER_SNAPSHOT_ENTRY_BYTES = 46,
};

struct producer_batch {
    int64_t last_offset;
    int64_t timestamp;
    int32_t last_sequence;
    int32_t offset_delta;
};

struct producer {
    struct list_node by_age;  /* least recently heard first */
    struct list_node by_open; /* among the open transactions */
    int64_t id;
    int64_t txn_first_offset; /* -1: no open transaction */
    int64_t last_timestamp;
    int32_t coordinator_epoch; /* -1: no marker seen */
    int16_t epoch;             /* -1: nothing known but the id */
    uint8_t batch_count;
    struct producer_batch batches[PRODUCER_BATCHES_MAX]; /* oldest first */
};

/* A transaction that its marker has ended. */
struct producer_txn {
    int64_t producer_id;
    int64_t first_offset;
    int64_t last_offset;   /* the marker's */
    int64_t stable_offset; /* of the earliest transaction still open, else behind the marker */
    bool aborted;
};

/* One that is ended, by a marker that the high watermark has not passed. */
struct producer_ended {
    int64_t first_offset;
    int64_t last_offset;
};

struct producers {
    struct map_u64 by_id;
    struct list by_age;
    struct list by_open;
    /* Ascending in both: one that began later than another and was ended before it holds nothing back that the other
     * does not. */
    struct producer_ended *ended;
    uint32_t ended_first;
    uint32_t ended_count;
    uint32_t ended_room;
};

/* Most partitions have none, and pay for a pointer. */
struct producer_state {
    struct producers *some; /* NULL: there are none, and were none of late */
    uint64_t seed;
};

/* Takes no memory before the first producer. */
void producer_state_init(struct producer_state *state, uint64_t seed);
void producer_state_deinit(struct producer_state *state);
void producer_state_clear(struct producer_state *state);
/* Becomes what `taken` is, which is left empty. */
void producer_state_take(struct producer_state *state, struct producer_state *taken);
uint32_t producer_state_count(const struct producer_state *state);
/* Least recently heard first: the first one where before is NULL; NULL: no more. */
const struct producer *producer_state_next(const struct producer_state *state, const struct producer *before);
const struct producer *producer_state_get(const struct producer_state *state, int64_t id);

/*
 * Whether a client's batch may be appended, and makes room for what producer_state_apply will note of it. duplicate:
 * out, the remembered batch that this one repeats (the answer is then its offsets), else NULL.
 *
 * ERR_INVALID_PRODUCER_EPOCH, ERR_OUT_OF_ORDER_SEQUENCE_NUMBER, ERR_INVALID_TXN_STATE, ERR_NOMEM.
 */
MUST_CHECK enum err producer_state_check(struct producer_state *state, const struct batch_header *head,
                                         const struct producer_batch **duplicate);
/*
 * Whether a coordinator's batch may be appended: its epochs, no sequences. transaction_version: of a marker, what the
 * coordinator said of it (WriteTxnMarkers v2; 0 unknown): from 2 on the marker's epoch is a new one, but for a repeat.
 *
 * ERR_INVALID_PRODUCER_EPOCH, ERR_TRANSACTION_COORDINATOR_FENCED, ERR_INVALID_TXN_STATE, ERR_INVALID_RECORD (no
 * readable marker), ERR_NOMEM.
 */
MUST_CHECK enum err producer_state_check_coordinator(struct producer_state *state, const struct batch_header *head,
                                                     struct bytes batch, int16_t transaction_version);
/* Makes room for a batch that is not checked. ERR_NOMEM. */
MUST_CHECK enum err producer_state_reserve(struct producer_state *state, const struct batch_header *head);
/* Makes room for so many markers besides. ERR_NOMEM. */
MUST_CHECK enum err producer_state_reserve_ended(struct producer_state *state, uint32_t count);
/* Notes an appended batch (head with its final offsets); batch: its bytes, read only where it is a transaction marker.
 * Room was made by one of the calls above. A marker that cannot be read is noted as none. True, and *ended (may be
 * NULL) is filled: it ended a transaction. */
bool producer_state_apply(struct producer_state *state, const struct batch_header *head, struct bytes batch,
                          struct producer_txn *ended);
/* The append failed: forgets a producer that was only made room for. */
void producer_state_unreserve(struct producer_state *state, int64_t id);

/* First offset of the earliest transaction that is open; INT64_MAX when there is none. */
int64_t producer_state_first_open(const struct producer_state *state);
/* The same, of those too whose marker is not yet below what producer_state_replicated was told. */
int64_t producer_state_first_unstable(const struct producer_state *state);
/* The high watermark: markers below it stay. */
void producer_state_replicated(struct producer_state *state, int64_t high_watermark);
/* Forgets who was last heard at `before_ms` or earlier and has no open transaction. */
void producer_state_expire(struct producer_state *state, int64_t before_ms);

/* A .snapshot file's content (on-disk.md 3.5); mem_free it. ERR_NOMEM. */
MUST_CHECK enum err producer_state_format(const struct producer_state *state, uint8_t **data, size_t *size);
/* Into an empty state. ERR_DAMAGED: version, checksum or size disagree. */
MUST_CHECK enum err producer_state_parse(struct producer_state *state, struct bytes file);

#endif
