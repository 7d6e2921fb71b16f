/*
 * client: what is kept of a connection beside its exchanges: what its client's software told of itself (ApiVersions v3
 * and later), and how much it has in flight. Hangs off the connection from its start to its end; NULL without memory.
 *
 * Threads  the connection's loop.
 */
#ifndef OTTLA_BROKER_CLIENT_H
#define OTTLA_BROKER_CLIENT_H

#include <stddef.h>

enum {
    CLIENT_SOFTWARE_CHARS_MAX = 63, /* longer names are cut */
    /* Of Produce requests that execute beside each other: eight of librdkafka's largest, so that neither socket nor
     * disk waits for the other, and not what a client without a window of its own would pour in. */
    CLIENT_OVERLAP_BYTES_MAX = 8 * 1024 * 1024,
};

struct client {
    char name[CLIENT_SOFTWARE_CHARS_MAX + 1];
    char version[CLIENT_SOFTWARE_CHARS_MAX + 1];
    size_t overlapping_bytes; /* frames of requests under way that may overlap */
};

#endif
