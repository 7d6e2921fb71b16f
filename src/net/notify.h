/*
 * notify: tells the service manager how we are (sd_notify's protocol: a datagram to the socket that NOTIFY_SOCKET
 * names). Nothing happens where there is none.
 *
 * Threads  any; never blocks.
 */
#ifndef OTTLA_NET_NOTIFY_H
#define OTTLA_NET_NOTIFY_H

#include "base/err.h"

/* socket_path: the value of NOTIFY_SOCKET, "@name" for an abstract one; NULL: nobody listens. state: "READY=1".
 * ERR_USAGE: no such path can be; ERR_IO ... */
MUST_CHECK enum err notify_service_manager(const char *socket_path, const char *state);

#endif
