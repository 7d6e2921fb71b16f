/*
 * resolve: whether a host name means an address, asked of the system's resolver.
 *
 * Threads  any; blocks, so at the start or in a job.
 */
#ifndef OTTLA_NET_RESOLVE_H
#define OTTLA_NET_RESOLVE_H

#include "base/err.h"

/* ERR_NOT_FOUND: the name, or the numeric address, does not resolve. */
MUST_CHECK enum err resolve_host(const char *host);

#endif
