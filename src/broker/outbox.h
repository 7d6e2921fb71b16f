/*
 * outbox: new work on its way from one shard to others, within the bound of their mailboxes. What a mailbox refuses
 * (LOOP_MAILBOX_TASKS_MAX wait there) is held here in order and tried again; the connection it came from reads nothing
 * meanwhile, so the sender slows down instead of the queue growing.
 *
 * Always holds  messages to one loop arrive in the order of sending.
 * Threads       the sending shard's loop.
 */
#ifndef OTTLA_BROKER_OUTBOX_H
#define OTTLA_BROKER_OUTBOX_H

#include <stdint.h>

#include "base/list.h"
#include "base/loop.h"

struct connection;

/* Embedded in the work; borrowed until task.run is called. */
struct outbox_message {
    struct loop_task task; /* run: set by the sender */
    struct loop *to;
    struct connection *connection;
    struct list_node node;
};

struct outbox {
    struct loop *loop;
    struct list held;
    struct loop_timer timer;
    uint64_t refusals; /* by full mailboxes */
};

void outbox_init(struct outbox *outbox, struct loop *loop);
/* connection: that caused the work; it stays as long as the message is held. NULL: nobody is slowed down. */
void outbox_send(struct outbox *outbox, struct outbox_message *message, struct loop *to, struct connection *connection);

#endif
