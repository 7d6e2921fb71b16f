/*
 * socket: the real struct net: TCP sockets under the libevent loops of reactors.
 *
 * A listener accepts on the first of its loops and hands connections round. Memory slices leave by sendmsg, file ranges
 * by sendfile (copied where the file has no descriptor). At the descriptor limit a spare one is given up to accept and
 * close the newcomer at once, so that it is told and the listener does not spin.
 *
 * Threads  socket_net_listen and _unlisten from any thread, while the loops exist; the rest as base/net.h says.
 */
#ifndef OTTLA_NET_SOCKET_H
#define OTTLA_NET_SOCKET_H

#include <stdint.h>

#include "base/err.h"
#include "base/log.h"
#include "base/net.h"

struct socket_options {
    int32_t send_buffer_bytes;    /* socket.send.buffer.bytes; -1: the system's */
    int32_t receive_buffer_bytes; /* socket.receive.buffer.bytes; -1: the system's */
    int32_t backlog;              /* socket.listen.backlog.size; 0: SOCKET_BACKLOG_DEFAULT */
};

/* log is borrowed and outlives it; options NULL: the defaults. ERR_NOMEM. */
MUST_CHECK enum err socket_net_new(struct log *log, const struct socket_options *options, struct net **net);
/* After the reactors have been freed, and their streams closed; closes listeners that were left. NULL does nothing. */
void socket_net_free(struct net *base);

#endif
