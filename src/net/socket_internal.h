/*
 * socket_internal: what the files of the real net share:
 *
 *   socket.c           the net itself, addresses, options, connecting out
 *   socket_stream.c    bytes of one connection
 *   socket_listener.c  accepting and handing round
 */
#ifndef OTTLA_NET_SOCKET_INTERNAL_H
#define OTTLA_NET_SOCKET_INTERNAL_H

#include <event2/event.h>
#include <event2/event_struct.h>
#include <pthread.h>
#include <sys/socket.h>

#include "base/list.h"
#include "net/net_limits.h"
#include "net/reactor.h"
#include "net/socket.h"

struct socket_net {
    struct net net;
    struct log *log;
    struct socket_options options;
    pthread_mutex_t order; /* of the list of listeners, which change rarely */
    struct net_listener *listeners;
};

struct net_listener {
    struct socket_net *net;
    struct net_listener *next;
    struct net_listener *previous;
    struct loop **loops;
    uint32_t loop_count;
    uint32_t turn; /* whose is the next connection */
    net_accept_fn *accepted;
    void *context;
    int fd;
    int spare_fd; /* given up to accept and close a newcomer when descriptors have run out */
    struct event event;
    struct loop_task start;
    struct loop_task stop;
    struct loop_timer pause;
    struct log_rate out_of_descriptors;
};

struct socket_stream {
    struct net_stream stream;
    int fd;
    bool wants_read;
    bool wants_write;
    struct event read_event;
    struct event write_event;
    /* While it is handed to its loop. */
    struct loop_task handed;
    net_accept_fn *accepted;
    net_connect_fn *connected;
    void *context; /* of the two above */
};

void socket_address_of(const struct sockaddr_storage *from, struct net_address *to);
enum err socket_error_of(int errno_value);
void socket_set_option(int fd, int level, int name, int value);
/* Of every connection; on a listener, its connections inherit them. */
void socket_set_options(int fd, const struct socket_options *options);

/* Takes fd on success; NULL: no memory. Made on any loop's thread. */
struct socket_stream *socket_stream_new(int fd, struct loop *loop);
/* Asks the kernel for both addresses. */
void socket_stream_read_addresses(struct socket_stream *stream);
/* On the stream's loop, before its first want. */
void socket_stream_bind_events(struct socket_stream *stream);

/* struct net_ops. */
MUST_CHECK enum err socket_listen(struct net *base, const struct net_address *address, struct loop **loops,
                                  uint32_t loop_count, net_accept_fn *accepted, void *context,
                                  struct net_listener **listener, struct net_address *bound);
void socket_unlisten(struct net *base, struct net_listener *listener);
void socket_listener_free(struct net_listener *listener);

#endif
