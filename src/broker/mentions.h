/*
 * mentions: the partitions that a request names, put in order, so that one that is named twice shows.
 *
 *   mentions_init -> mentions_add ... -> mentions_sort or mentions_keep_last
 *
 * Owns nothing: the list lies in the arena.
 */
#ifndef OTTLA_BROKER_MENTIONS_H
#define OTTLA_BROKER_MENTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/bytes.h"
#include "base/err.h"

struct mention {
    struct bytes topic;
    int32_t index;
    uint32_t place; /* in the request */
    void *of;       /* the caller's: what goes with this mention */
};

struct mentions {
    struct mention *list;
    uint32_t count;
    uint32_t room;
};

/* Room for so many. ERR_NOMEM. */
MUST_CHECK enum err mentions_init(struct mentions *mentions, struct arena *arena, uint32_t room);
/* No more than there is room for (asserted). */
void mentions_add(struct mentions *mentions, struct bytes topic, int32_t index, void *of);
/* By topic and partition; those of one partition in the order of the request. */
void mentions_sort(struct mentions *mentions);
/* Sorts; of a partition that is named more than once only the last mention stays. */
void mentions_keep_last(struct mentions *mentions);
bool mention_same_partition(const struct mention *a, const struct mention *b);

#endif
