/*
 * Limits of src/net, each with its unit in its name and why that number.
 */
#ifndef OTTLA_NET_LIMITS_H
#define OTTLA_NET_LIMITS_H

enum {
    CONNECTION_READ_BYTES_MAX = 64 * 1024,     /* one read: the best throughput of a socket here is reached there */
    CONNECTION_TURN_BYTES_MAX = 256 * 1024,    /* read from one connection in a turn, then the others' */
    CONNECTION_UNKNOWN_BYTES_MAX = 512 * 1024, /* a frame before authentication: Kafka's SASL frames are bounded so */
    CONNECTION_QUEUED_BYTES_MAX = 1024 * 1024, /* of replies in memory that a slow reader leaves behind */
    CONNECTION_EXCHANGES_MAX = 64,             /* executing or unanswered at once; overlap needs a few */
    CONNECTION_FRAME_BYTES_MIN = 8,            /* key, version, correlation id: the smallest request header */
    EXCHANGE_SLICES_MAX = 64 * 1024,           /* of one reply: header and records of every partition fetched */
};

#endif
