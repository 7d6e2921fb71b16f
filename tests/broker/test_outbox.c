/* Rule: what a full mailbox refuses is held in order and comes later; nothing is lost, overtaken or sent twice. */
#include "../partition/run_tests.h"
#include "broker/outbox.h"

enum { MESSAGES = 8 };

/* A loop that is its own clock, mailbox and timer. */
struct toy {
    struct loop loop;
    uint32_t room; /* posts it still takes */
    struct loop_task *got[MESSAGES];
    uint32_t count;
    struct loop_timer *armed;
    int64_t now_ns;
};

static bool post_bounded(struct loop *loop, struct loop_task *task)
{
    struct toy *toy = (struct toy *)loop;

    if (toy->room == 0)
        return false;
    toy->room--;
    toy->got[toy->count++] = task;
    return true;
}

static void timer_start(struct loop *loop, struct loop_timer *timer, int64_t due_ns)
{
    struct toy *toy = (struct toy *)loop;

    ck_assert_int_gt(due_ns, toy->now_ns);
    toy->armed = timer;
}

static int64_t now_ns(struct loop *loop)
{
    return ((struct toy *)loop)->now_ns;
}

static const struct loop_ops ops = {.post_bounded = post_bounded, .timer_start = timer_start, .now_ns = now_ns};

static struct toy sender;
static struct toy receiver;
static struct outbox outbox;
static struct outbox_message messages[MESSAGES];

static void fire(void)
{
    struct loop_timer *timer = sender.armed;

    ck_assert_ptr_nonnull(timer);
    sender.armed = NULL;
    timer->fired(timer);
}

static void begin(uint32_t room)
{
    sender = (struct toy){.loop = {.ops = &ops}};
    receiver = (struct toy){.loop = {.ops = &ops}, .room = room};
    outbox_init(&outbox, &sender.loop);
    for (int i = 0; i < MESSAGES; i++)
        outbox_send(&outbox, &messages[i], &receiver.loop, NULL);
}

static void check_order(uint32_t count)
{
    ck_assert_uint_eq(receiver.count, count);
    for (uint32_t i = 0; i < count; i++)
        ck_assert_ptr_eq(receiver.got[i], &messages[i].task);
}

START_TEST(with_room_everything_goes_at_once)
{
    begin(MESSAGES);
    check_order(MESSAGES);
    ck_assert_uint_eq(outbox.refusals, 0);
    ck_assert_ptr_null(sender.armed);
}
END_TEST

START_TEST(what_is_refused_comes_later_in_order)
{
    begin(3);
    check_order(3);
    fire(); /* still full */
    check_order(3);
    receiver.room = 2;
    fire();
    check_order(5);
    ck_assert_ptr_nonnull(sender.armed);
    receiver.room = MESSAGES;
    fire();
    check_order(MESSAGES);
    ck_assert(list_is_empty(&outbox.held));
    ck_assert_ptr_null(sender.armed);
}
END_TEST

/* Room comes back, but others wait: the new one takes its place behind them. */
START_TEST(nobody_overtakes)
{
    static struct outbox_message late;

    begin(MESSAGES - 1);
    receiver.room = 1;
    outbox_send(&outbox, &late, &receiver.loop, NULL);
    check_order(MESSAGES - 1);
    fire();
    check_order(MESSAGES);
    ck_assert_ptr_eq(list_first(&outbox.held), &late.node);
}
END_TEST

RUN_TESTS("broker/outbox", with_room_everything_goes_at_once, what_is_refused_comes_later_in_order, nobody_overtakes)
