/*
 * protocol_support: of how many members of a group each protocol of the classic kind is, by its name: so that whether
 * all have one of those that somebody brings takes a look for each, whatever the others brought.
 *
 * Owns     its entries and their names.
 * Threads  those of the coordinator.
 */
#ifndef OTTLA_COORDINATOR_PROTOCOL_SUPPORT_H
#define OTTLA_COORDINATOR_PROTOCOL_SUPPORT_H

#include "base/map.h"

struct classic_protocol;

struct protocol_support {
    struct map names; /* of struct supported */
    uint64_t pass;    /* one more with each member that comes or goes: what it names twice counts once */
};

void protocol_support_init(struct protocol_support *support, uint64_t seed);
void protocol_support_deinit(struct protocol_support *support);
/* A member has these. ERR_NOMEM: it is as it was. */
MUST_CHECK enum err protocol_support_add(struct protocol_support *support, const struct classic_protocol *protocols,
                                         uint32_t count);
/* It has not any more; it was added with the same. */
void protocol_support_remove(struct protocol_support *support, const struct classic_protocol *protocols,
                             uint32_t count);
uint32_t protocol_support_count(const struct protocol_support *support, struct bytes name); /* members that have it */

#endif
