/*
 * dial: a TCP connection for commands, which have nothing better to do than to wait: every call blocks, up to a time
 * limit. Never on a reactor.
 *
 * Threads  one owner.
 */
#ifndef OTTLA_NET_DIAL_H
#define OTTLA_NET_DIAL_H

#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/err.h"

struct dial {
    struct clock *clock;
    int fd;             /* -1: none */
    int64_t timeout_ms; /* of each call */
};

/* Every address of the name is tried.
 *
 * ERR_NOT_FOUND          the name does not resolve
 * ERR_REQUEST_TIMED_OUT  nobody answered in time
 * ERR_CLOSED             refused */
MUST_CHECK enum err dial_open(struct dial *dial, struct clock *clock, const char *host, uint16_t port,
                              int64_t timeout_ms);
/* Nothing happens where none is open. */
void dial_close(struct dial *dial);
/* All of it. ERR_CLOSED, ERR_REQUEST_TIMED_OUT. */
MUST_CHECK enum err dial_write(struct dial *dial, struct bytes bytes);
/* size bytes. ERR_CLOSED at the end of the stream, ERR_REQUEST_TIMED_OUT. */
MUST_CHECK enum err dial_read(struct dial *dial, void *to, size_t size);
/* What is there, at least a byte and at most size; 0 bytes: the end of the stream. */
MUST_CHECK enum err dial_read_some(struct dial *dial, void *to, size_t size, size_t *got);

#endif
