/*
 * address: host:port as people write it: a name, an IPv4 address, or an IPv6 address in brackets; an empty host is any.
 *
 * Threads  any.
 */
#ifndef OTTLA_NET_ADDRESS_H
#define OTTLA_NET_ADDRESS_H

#include <stdbool.h>

#include "base/bytes.h"
#include "base/net.h"

/* The port may be 0. False: that is no host:port. */
bool address_parse(struct bytes text, struct net_address *address);

#endif
