#include "broker/outbox.h"

#include "broker/broker_limits.h"
#include "net/connection.h"

static void hold(struct outbox *outbox, struct outbox_message *message)
{
    int64_t until_ns = loop_now_ns(outbox->loop) + OUTBOX_RETRY_MS * INT64_C(1000000);

    outbox->refusals++;
    if (message->connection != NULL)
        connection_mute(message->connection, until_ns);
    loop_timer_start(outbox->loop, &outbox->timer, until_ns);
}

/* In order; the first that is still refused ends the round, also for those behind it that go elsewhere. */
static void try_again(struct loop_timer *timer)
{
    struct outbox *outbox = LIST_ENTRY(timer, struct outbox, timer);
    struct list_node *node = NULL;

    while ((node = list_first(&outbox->held)) != NULL) {
        struct outbox_message *message = LIST_ENTRY(node, struct outbox_message, node);

        /* Off the list first: once it is posted it is the other loop's. */
        list_remove(node);
        if (loop_post_bounded(message->to, &message->task))
            continue;
        list_add_first(&outbox->held, node);
        hold(outbox, message);
        return;
    }
}

void outbox_init(struct outbox *outbox, struct loop *loop)
{
    *outbox = (struct outbox){.loop = loop, .timer = {.fired = try_again}};
    list_init(&outbox->held);
}

void outbox_send(struct outbox *outbox, struct outbox_message *message, struct loop *to, struct connection *connection)
{
    message->to = to;
    message->connection = connection;
    list_node_init(&message->node);
    if (list_is_empty(&outbox->held) && loop_post_bounded(to, &message->task))
        return;
    list_add_last(&outbox->held, &message->node);
    hold(outbox, message);
}
