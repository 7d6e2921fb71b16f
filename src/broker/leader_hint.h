/*
 * leader_hint: who leads a partition, for replies that say "not here" (KIP-951): the current leader beside the error,
 * and where such leaders live.
 */
#ifndef OTTLA_BROKER_LEADER_HINT_H
#define OTTLA_BROKER_LEADER_HINT_H

#include "base/uuid.h"
#include "broker/broker_limits.h"
#include "raftmeta/image.h"

struct leader_ids {
    int32_t ids[LEADER_IDS_MAX];
    uint32_t count;
};

/* image may be NULL. Left alone where nobody is known to lead. */
void leader_hint(const struct image *image, struct uuid topic_id, int32_t index, int32_t *leader_id,
                 int32_t *leader_epoch);
/* Each once; negative ones are left out. */
void leader_ids_add(struct leader_ids *ids, int32_t id);

#endif
