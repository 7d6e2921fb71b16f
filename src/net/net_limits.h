/*
 * Limits of src/net, each with its unit in its name and why that number.
 */
#ifndef OTTLA_NET_NET_LIMITS_H
#define OTTLA_NET_NET_LIMITS_H

enum {
    IO_THREADS_MAX = 64,                 /* a disk answers no faster beyond 32 deep */
    IO_JOBS_PER_LOOP_MAX = 1024,         /* of one reactor in the I/O pool; the rest wait at home */
    REACTOR_LATE_NS = 200 * 1000 * 1000, /* a timer that overdue means that we slept (DESIGN 4) */
    REACTOR_LATE_PASSES = 4,       /* over the sockets before timers fire then; each brings what epoll has ready */
    SOCKET_BACKLOG_DEFAULT = 512,  /* connections the kernel accepts ahead of us; Kafka's 50 drops storms */
    SOCKET_ACCEPTS_PER_TURN = 64,  /* then what is established gets its turn */
    SOCKET_ACCEPT_PAUSE_MS = 100,  /* no descriptor, not even a spare one: look again then */
    SOCKET_IOVECS_MAX = 256,       /* of one sendmsg */
    SOCKET_COPY_BYTES = 64 * 1024, /* at a time, of a file range that sendfile cannot take */
    SOCKET_CLOSE_READS_MAX = 16,   /* of what a closed peer still had sent; unread bytes would turn into a reset */
    TIMER_HEAP_FIRST = 64,         /* timers it has room for at first; doubles */
    CONNECTION_READ_BYTES_MAX = 64 * 1024,     /* one read: the best throughput of a socket here is reached there */
    CONNECTION_TURN_BYTES_MAX = 256 * 1024,    /* read from one connection in a turn, then the others' */
    CONNECTION_UNKNOWN_BYTES_MAX = 512 * 1024, /* a frame before authentication: Kafka's SASL frames are bounded so */
    CONNECTION_QUEUED_BYTES_MAX = 1024 * 1024, /* of replies in memory that a slow reader leaves behind */
    CONNECTION_EXCHANGES_MAX = 64,             /* executing or unanswered at once; overlap needs a few */
    CONNECTION_FRAME_BYTES_MIN = 8,            /* key, version, correlation id: the smallest request header */
    EXCHANGE_SLICES_MAX = 64 * 1024,           /* of one reply: header and records of every partition fetched */
};

#endif
