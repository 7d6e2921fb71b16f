/*
 * embedded: the consumer protocol's own bytes, which classic consumers carry inside JoinGroup and SyncGroup and which
 * no broker has to understand (ConsumerProtocolSubscription.json, ConsumerProtocolAssignment.json): a version, then its
 * body. A newer version than is known reads as the newest that is: those only add behind.
 *
 * Errors     ERR_MALFORMED what is no such bytes (another protocol's, or a client's mistake), ERR_NOMEM.
 * Ownership  what is read points into the text and the arena.
 */
#ifndef OTTLA_COORDINATOR_EMBEDDED_H
#define OTTLA_COORDINATOR_EMBEDDED_H

#include "base/arena.h"
#include "base/bytes.h"
#include "base/err.h"
#include "protocol/gen/consumer_protocol_assignment.h"
#include "protocol/gen/consumer_protocol_subscription.h"

enum {
    EMBEDDED_VERSION_BYTES = 2,
    EMBEDDED_BYTES_MAX = 64 << 20, /* of one of them, read: arrays take more in memory than in bytes */
};

MUST_CHECK enum err embedded_read_subscription(struct bytes text, struct arena *arena,
                                               struct consumer_protocol_subscription *subscription);
/* Its topics alone, which all versions have where version 0 has them: what stands behind may be anything. */
MUST_CHECK enum err embedded_read_topics(struct bytes text, struct arena *arena,
                                         struct consumer_protocol_subscription *subscription);
MUST_CHECK enum err embedded_read_assignment(struct bytes text, struct arena *arena,
                                             struct consumer_protocol_assignment *assignment);
/* In which version a member whose subscription that is reads assignments. */
int16_t embedded_assignment_version(struct bytes subscription);

#endif
