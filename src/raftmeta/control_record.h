/*
 * control_record: what the quorum itself writes into the metadata log and its snapshots: who leads, the kraft.version,
 * the voters, a snapshot's first and last record (kraft.md "Record batches in the metadata log").
 *
 * Threads  none of its own.
 */
#ifndef OTTLA_RAFTMETA_CONTROL_RECORD_H
#define OTTLA_RAFTMETA_CONTROL_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/uuid.h"
#include "protocol/batch_build.h"
#include "raftmeta/image.h"

enum {
    VOTERS_MAX = 32,           /* of one quorum; far beyond what anyone runs */
    VOTER_ENDPOINTS_MAX = 8,   /* of one voter */
    VOTER_NAME_CHARS_MAX = 255 /* of a listener's name, and of a host */
};

struct voter_endpoint {
    char name[VOTER_NAME_CHARS_MAX + 1]; /* of the controller listener, upper case */
    char host[VOTER_NAME_CHARS_MAX + 1];
    uint16_t port;
};

struct voter {
    int32_t id;
    struct uuid directory_id; /* zero: not known */
    struct voter_endpoint endpoints[VOTER_ENDPOINTS_MAX];
    uint32_t endpoint_count;
    int16_t kraft_version_min, kraft_version_max;
};

struct voter_set {
    struct voter voters[VOTERS_MAX];
    uint32_t count;
};

bool voter_equal(const struct voter *a, const struct voter *b);
/* ERR_LIMIT: a name or host is too long. */
MUST_CHECK enum err voter_init(struct voter *voter, int32_t id, struct uuid directory_id,
                               const struct image_endpoint *endpoint);

/* Each adds one record to a batch under way; its spec says control. ERR_NOMEM. */
MUST_CHECK enum err control_add_leader_change(struct batch_builder *builder, int64_t timestamp_ms, int32_t leader,
                                              const int32_t *voters, uint32_t count);
MUST_CHECK enum err control_add_kraft_version(struct batch_builder *builder, int64_t timestamp_ms, int16_t level);
MUST_CHECK enum err control_add_voters(struct batch_builder *builder, int64_t timestamp_ms,
                                       const struct voter_set *voters);
/* last_ms: append time of the last record that the snapshot stands for. */
MUST_CHECK enum err control_add_snapshot_header(struct batch_builder *builder, int64_t timestamp_ms, int64_t last_ms);
MUST_CHECK enum err control_add_snapshot_footer(struct batch_builder *builder, int64_t timestamp_ms);

/* What a log or snapshot said of the quorum so far; the newest record of each kind holds. */
struct quorum_facts {
    int32_t leader; /* of the last LeaderChange; -1: none */
    int16_t kraft_version;
    bool has_voters;
    bool voters_in_log; /* not merely in the bootstrap snapshot */
    struct voter_set voters;
    int64_t snapshot_timestamp_ms; /* of a snapshot's header */
};

/* All defaults: leader -1, kraft.version 0, no voters. */
void quorum_facts_init(struct quorum_facts *facts);
/* Takes in one record of a control batch; unknown types are passed over. ERR_DAMAGED; ERR_LIMIT: more voters than
 * VOTERS_MAX; ERR_NOMEM. */
MUST_CHECK enum err quorum_facts_read(struct quorum_facts *facts, struct bytes key, struct bytes value);

#endif
