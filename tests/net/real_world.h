/*
 * real_world: reactors, I/O pool, sockets and connections as a broker would set them up, with a handler that echoes;
 * and a blocking client for it. For tests on loopback.
 */
#ifndef OTTLA_TESTS_REAL_WORLD_H
#define OTTLA_TESTS_REAL_WORLD_H

#include <stdatomic.h>

#include "base/fs.h"
#include "net/budget.h"
#include "net/connection.h"
#include "net/io_pool.h"
#include "net/reactor.h"
#include "net/socket.h"

enum { WORLD_REACTORS_MAX = 4 };

struct real_world {
    struct clock clock;
    struct fs fs;
    struct log_sink sink;
    struct log log;
    struct clock log_clock; /* stands still, and so a limited rate of lines is a limit however long a test takes */
    atomic_uint log_lines;
    struct io_pool *io_pool;
    struct net *net;
    struct budget budget;
    struct reactor *reactors[WORLD_REACTORS_MAX];
    struct loop *loops[WORLD_REACTORS_MAX];
    struct connections *connections[WORLD_REACTORS_MAX];
    uint32_t reactor_count;
    struct connection_listener listener;
    struct net_listener *net_listener;
    struct net_address address;
    atomic_uint drained;
    struct fs_file *file; /* when set, the echo sends this file's first file_bytes behind the request */
    size_t file_bytes;
};

/* Everything runs; the echo listens on 127.0.0.1, port given (0: any). */
void real_world_start(struct real_world *world, uint32_t reactor_count);
/* Drains, stops, frees. */
void real_world_stop(struct real_world *world);

/* A blocking socket connected to the world. */
int real_client_connect(const struct real_world *world);
/* Sends a frame: its size field, then size bytes of value fill. */
void real_client_send(int fd, uint32_t size, uint8_t fill);
/* Reads exactly size bytes. False: the connection ended first. */
bool real_client_read(int fd, void *to, size_t size);
/* Reads a frame of up to room bytes; its size, or -1 at the end of the connection. */
int64_t real_client_receive(int fd, void *to, size_t room);

#endif
