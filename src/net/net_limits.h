/*
 * Limits of src/net, each with its unit in its name and why that number.
 */
#ifndef OTTLA_NET_NET_LIMITS_H
#define OTTLA_NET_NET_LIMITS_H

enum {
    IO_THREADS_MAX = 64,                 /* a disk answers no faster beyond 32 deep */
    IO_JOBS_PER_LOOP_MAX = 1024,         /* of one reactor in the I/O pool; the rest wait at home */
    REACTOR_LATE_NS = 200 * 1000 * 1000, /* a timer that overdue means that we slept */
    REACTOR_LATE_PASSES = 4,       /* over the sockets before timers fire then; each brings what epoll has ready */
    SOCKET_BACKLOG_DEFAULT = 512,  /* connections the kernel accepts ahead of us; Kafka's 50 drops storms */
    SOCKET_ACCEPTS_PER_TURN = 64,  /* then what is established gets its turn */
    SOCKET_ACCEPT_PAUSE_MS = 100,  /* no descriptor, not even a spare one: look again then */
    SOCKET_IOVECS_MAX = 256,       /* of one sendmsg */
    SOCKET_COPY_BYTES = 64 * 1024, /* at a time, of a file range that sendfile cannot take */
    SOCKET_CLOSE_READS_MAX = 16,   /* of what a closed peer still had sent; unread bytes would turn into a reset */
    BUDGET_GATES_MAX = 256,        /* loops that share a budget */
    BUDGET_CREDIT_BYTES_MAX = 64 * 1024,     /* charged ahead by each loop; at most a 256th of the total */
    BUDGET_STALLED_MS = 10 * 1000,           /* a half frame that grew no more for so long goes when memory is short */
    BLOCK_POOL_BLOCKS_MAX = 16,              /* kept by one loop for large frames to come */
    BLOCK_POOL_BYTES_MAX = 6 * 1024 * 1024,  /* of them: Kafka's five requests of 1 MB in flight, and what is read */
    BLOCK_POOL_SLACK_DIVISOR = 4,            /* a kept block may be larger than asked by this part */
    CONNECTION_READ_BYTES_MAX = 64 * 1024,   /* one read: a socket's throughput has peaked by then (limits 1.1) */
    CONNECTION_DIRECT_BYTES_MIN = 32 * 1024, /* larger frames are read where they stay, smaller ones copied there */
    CONNECTION_EXPECTED_BYTES_MAX = 1024 * 1024, /* set aside for a frame as large as the last: producers' batch.size */
    CONNECTION_WAITING_BYTES_MAX = 64 * 1024,    /* of whole frames that wait for their turn */
    CONNECTION_TURN_BYTES_MAX = 256 * 1024,      /* read from one connection in a turn; then the others' */
    CONNECTION_TURN_WRITE_BYTES = 1024 * 1024,   /* written to one in a turn: 0.2 ms of sendfile */
    CONNECTION_UNKNOWN_BYTES_MAX =
        512 * 1024, /* a frame before authentication: as Apache Kafka bounds its SASL frames */
    CONNECTION_QUEUED_BYTES_MAX =
        1024 * 1024,                 /* of replies in memory that a slow reader leaves; beyond it none starts */
    CONNECTION_EXCHANGES_MAX = 128,  /* executing or unanswered at once; overlap needs a few */
    CONNECTION_FRAME_BYTES_MIN = 8,  /* key, version, correlation id: the smallest request header */
    CONNECTION_WRITE_SLICES = 128,   /* gathered for one write */
    EXCHANGE_INLINE_BYTES = 512,     /* frames up to this share the exchange's block */
    EXCHANGE_INLINE_SLICES = 4,      /* so do that many slices of its reply, and the size field's */
    EXCHANGE_SLICES_MAX = 64 * 1024, /* of one reply: header and records of every partition fetched */
};

#define BLOCK_POOL_IDLE_NS      INT64_C(1000000000)  /* kept blocks that nobody took for so long go back to the heap */
#define BUDGET_ELECTED_STALL_NS INT64_C(2000000000)  /* without a byte: ten of TCP's shortest retransmissions */
#define BUDGET_ELECTED_NS_MAX   INT64_C(30000000000) /* for a whole frame, while others wait */

#endif
