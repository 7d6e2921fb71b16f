/*
 * limits: each bound, its unit in its name, and why that number. Rooms with many bounds of their own keep them in their
 * own *_limits.h beside this.
 */
#ifndef OTTLA_BASE_LIMITS_H
#define OTTLA_BASE_LIMITS_H

enum {
    MESSAGE_BYTES_DEFAULT = 1024 * 1024 + 12, /* Kafka's default message.max.bytes; per topic */
    CREATE_PARTITIONS_MAX = 10000,            /* Kafka's limit for one request */
    LOOP_MAILBOX_TASKS_MAX = 16 * 1024,       /* new work that waits for one reactor; beyond it senders stop reading */
    LOG_LINE_BYTES_MAX = 1024,                /* longer lines are cut */
    LOG_RATE_LINES_MAX = 5,                   /* a second, for what clients can cause */
};

#endif
