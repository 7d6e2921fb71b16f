/*
 * quorum_state: the file `quorum-state` beside the metadata log: the epoch this node has seen, who led it, whom it
 * voted for. One line of JSON, replaced as a whole and synced (kraft.md "quorum-state file").
 *
 * Threads  any, one at a time; blocks.
 */
#ifndef OTTLA_RAFTMETA_QUORUM_STATE_H
#define OTTLA_RAFTMETA_QUORUM_STATE_H

#include <stdint.h>

#include "base/err.h"
#include "base/fs.h"
#include "base/uuid.h"
#include "raftmeta/control_record.h"

struct quorum_state {
    int32_t leader_id; /* -1: not known */
    int32_t leader_epoch;
    int32_t voted_id; /* -1: none */
    struct uuid voted_directory_id;
    int16_t version;                /* of the file: 0 with kraft.version 0, else 1 */
    const struct voter_set *voters; /* written into version 0; NULL: none */
};

/* dir: of the metadata log. ERR_NOT_FOUND: none yet (epoch 0, no leader, no vote; *state says so). ERR_DAMAGED: no such
 * JSON. ERR_UNSUPPORTED_VERSION: version above 1. */
MUST_CHECK enum err quorum_state_read(struct fs *fs, const char *dir, struct quorum_state *state);
MUST_CHECK enum err quorum_state_write(struct fs *fs, const char *dir, const struct quorum_state *state);

#endif
