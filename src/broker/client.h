/*
 * client: what is kept of a connection beside its exchanges: what its client's software told of itself (ApiVersions v3
 * and later), and how much it has in flight. Hangs off the connection from its start to its end; NULL without memory.
 *
 * Threads  the connection's loop.
 */
#ifndef OTTLA_BROKER_CLIENT_H
#define OTTLA_BROKER_CLIENT_H

#include <stddef.h>

#include "broker/broker_limits.h"

struct client {
    char name[CLIENT_SOFTWARE_CHARS_MAX + 1];
    char version[CLIENT_SOFTWARE_CHARS_MAX + 1];
    size_t overlapping_bytes; /* frames of requests under way that may overlap */
};

#endif
