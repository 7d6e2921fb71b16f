/* Rule: one request of a connection executes at a time (overlapping ones excepted), replies leave in the order of the
 * requests, each exchange ends once whatever happens to the connection, and every limit holds.
 *
 * Sources: net/connection_read.c, net/connection_write.c, net/connections.c, net/exchange.c, net/garbage.c */
#include "net/connection.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "net/connection_limits.h"
#include "net/conversation.h"
#include "net/net_limits.h"

enum { BUDGET = 64 << 20 };

static struct conversation c;

static void start(void)
{
    conversation_start(&c, BUDGET);
}

static void end(void)
{
    conversation_end(&c);
}

/* --- order --- */

START_TEST(what_one_read_brings_is_answered_in_one_write)
{
    struct double_stream *stream = conversation_connect(&c);

    for (char tag = 'a'; tag <= 'z'; tag++)
        conversation_frame(stream, 'S', tag, 50);
    double_tell(&c.loop, stream);
    ck_assert_str_eq(conversation_answers(stream), "abcdefghijklmnopqrstuvwxyz");
    ck_assert_uint_eq(stream->writes, 1);
    conversation_end(&c);
    double_stream_free(stream);
}
END_TEST

START_TEST(one_request_executes_at_a_time)
{
    struct double_stream *stream = conversation_connect(&c);

    conversation_frame(stream, 'W', 'a', 20);
    conversation_frame(stream, 'W', 'b', 20);
    conversation_frame(stream, 'N', 'c', 20);
    conversation_frame(stream, 'P', 'd', 20);
    double_tell(&c.loop, stream);
    conversation_expect(&c, "opened +a ");
    conversation_reply(&c, 'a');
    conversation_expect(&c, "a/ +b ");
    conversation_reply(&c, 'b');
    conversation_expect(&c, "b/ +c +d ");
    conversation_reply(&c, 'd');
    conversation_expect(&c, "d/ ");
    ck_assert_str_eq(conversation_answers(stream), "abd");
    end();
    double_stream_free(stream);
}
END_TEST

START_TEST(overlap_passes_only_its_like)
{
    struct double_stream *stream = conversation_connect(&c);

    conversation_frame(stream, 'P', 'a', 20);
    conversation_frame(stream, 'P', 'b', 20);
    conversation_frame(stream, 'W', 'c', 20);
    conversation_frame(stream, 'P', 'd', 20);
    double_tell(&c.loop, stream);
    conversation_expect(&c, "opened +a +b ");
    conversation_reply(&c, 'b');
    conversation_expect(&c, "");
    ck_assert_uint_eq(stream->out_size, 0);
    conversation_reply(&c, 'a');
    conversation_expect(&c, "a/ b/ +c ");
    ck_assert_uint_eq(stream->writes, 1);
    conversation_reply(&c, 'c');
    conversation_expect(&c, "c/ +d ");
    conversation_reply(&c, 'd');
    ck_assert_str_eq(conversation_answers(stream), "abcd");
    end();
    double_stream_free(stream);
}
END_TEST

START_TEST(frames_may_come_in_any_pieces)
{
    static const uint32_t sizes[] = {8,     9,     100,   511,   512, 513,   5000,  32767, 32768, 32769, 70000,
                                     40000, 40001, 39999, 40002, 8,   33000, 70000, 70000, 33000, 9,     300000};
    static const size_t pieces[] = {1, 3, 4, 5, 1000, 65536, SIZE_MAX};

    end();
    for (size_t p = 0; p < sizeof(pieces) / sizeof(pieces[0]); p++) {
        struct double_stream *stream = NULL;

        conversation_start(&c, BUDGET);
        stream = conversation_connect(&c);
        stream->read_max = pieces[p];
        /* A few bytes at a time: up to just over what is read where it stays. */
        for (size_t i = 0; i < (pieces[p] < 1000 ? 10 : sizeof(sizes) / sizeof(sizes[0])); i++)
            conversation_frame(stream, 'S', (char)('a' + i), sizes[i]);
        while (stream->in_start < stream->in_end)
            double_tell(&c.loop, stream);
        while (stream->wants_write)
            double_tell(&c.loop, stream);
        ck_assert_str_eq(conversation_answers(stream), pieces[p] < 1000 ? "abcdefghij" : "abcdefghijklmnopqrstuv");
        conversation_end(&c);
        double_stream_free(stream);
    }
}
END_TEST

/* --- bytes that are no frame --- */

static void expect_garbage(const void *data, size_t size, const char *in_line)
{
    struct double_stream *stream = NULL;

    conversation_start(&c, BUDGET);
    stream = conversation_connect(&c);
    double_arrive(stream, data, size);
    double_tell(&c.loop, stream);
    ck_assert(stream->closed);
    ck_assert(!stream->aborted);
    ck_assert_uint_eq(stream->out_size, 0);
    ck_assert_uint_eq(c.log.lines, 1);
    if (strstr(c.log.last, in_line) == NULL)
        ck_abort_msg("no %s in: %s", in_line, c.log.last);
    ck_assert_ptr_nonnull(strstr(c.log.last, "peer=10.0.0.9:5000"));
    ck_assert_uint_eq(connections_stats(c.connections)->garbage, 1);
    conversation_expect(&c, "opened closed freed ");
    conversation_end(&c);
    double_stream_free(stream);
}

START_TEST(garbage_closes_with_its_likely_cause)
{
    end();
    expect_garbage("GET / HTTP/1.1\r\n", 16, "HTTP");
    expect_garbage("PRI * HTTP/2.0\r\n", 16, "HTTP");
    expect_garbage("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11, "TLS");
    expect_garbage("SSH-2.0-OpenSSH_9.2\r\n", 21, "SSH");
    expect_garbage("\xaa\xaa\xaa\xaa\x00", 5, "size_bytes=-1431655766");
    expect_garbage("\x00\x00\x00\x00", 4, "size_bytes=0");
    expect_garbage("\x00\x00\x00\x03\x00\x00\x00", 7, "size_bytes=3");
    expect_garbage("\x00\x00\x00\x07\x00\x00\x00", 7, "size_bytes=7");
    expect_garbage("\x80\x00\x00\x00", 4, "size_bytes=-2147483648");
    expect_garbage("\x7f\xff\xff\xff", 4, "socket.request.max.bytes");
    expect_garbage("\x00\x10\x00\x01", 4, "size_bytes=1048577 max_bytes=1048576");
}
END_TEST

START_TEST(the_largest_frame_is_taken)
{
    struct double_stream *stream = conversation_connect(&c);

    conversation_frame(stream, 'S', 'a', (1 << 20) - 1);
    conversation_frame(stream, 'S', 'b', 1 << 20);
    while (stream->in_start < stream->in_end || stream->wants_write)
        double_tell(&c.loop, stream);
    ck_assert_str_eq(conversation_answers(stream), "ab");
    end();
    double_stream_free(stream);
}
END_TEST

/* Trap B013: what was accepted before the bad bytes is answered first. */
START_TEST(garbage_behind_requests_lets_them_be_answered)
{
    struct double_stream *stream = conversation_connect(&c);

    conversation_frame(stream, 'P', 'a', 20);
    conversation_frame(stream, 'P', 'b', 20);
    double_arrive(stream, "GET / HTTP/1.1\r\n", 16);
    double_tell(&c.loop, stream);
    ck_assert(!stream->closed);
    ck_assert(!stream->wants_read);
    conversation_reply(&c, 'b');
    conversation_reply(&c, 'a');
    ck_assert_str_eq(conversation_answers(stream), "ab");
    conversation_expect(&c, "opened +a +b a/ b/ closed freed ");
    end();
    double_stream_free(stream);
}
END_TEST

START_TEST(a_refused_request_lets_earlier_ones_be_answered)
{
    struct double_stream *stream = conversation_connect(&c);

    conversation_frame(stream, 'P', 'a', 20);
    conversation_frame(stream, 'P', 'b', 20);
    double_tell(&c.loop, stream);
    exchange_close(c.exchanges['b'], "api not served");
    double_turn(&c.loop);
    ck_assert_ptr_nonnull(strstr(c.log.last, "api not served"));
    ck_assert(!stream->closed);
    conversation_reply(&c, 'a');
    ck_assert_str_eq(conversation_answers(stream), "a");
    conversation_expect(&c, "opened +a +b a/ closed freed ");
    end();
    double_stream_free(stream);
}
END_TEST

START_TEST(a_refused_request_drops_those_behind_it)
{
    struct double_stream *stream = conversation_connect(&c);

    conversation_frame(stream, 'S', 'a', 20);
    conversation_frame(stream, 'C', 'b', 20);
    conversation_frame(stream, 'S', 'c', 20);
    double_tell(&c.loop, stream);
    ck_assert_str_eq(conversation_answers(stream), "a");
    conversation_expect(&c, "opened +a +b a/ closed freed ");
    end();
    double_stream_free(stream);
}
END_TEST

START_TEST(a_handler_may_close_at_once)
{
    struct double_stream *stream = conversation_connect(&c);

    conversation_frame(stream, 'P', 'a', 20);
    conversation_frame(stream, 'S', 'x', 20);
    double_tell(&c.loop, stream);
    conversation_reply(&c, 'a');
    conversation_frame(stream, 'X', 'b', 20);
    conversation_frame(stream, 'S', 'c', 20);
    double_tell(&c.loop, stream);
    ck_assert(stream->aborted);
    conversation_expect(&c, "opened +a a/ +x x/ +b b! closed freed ");
    end();
    double_stream_free(stream);
}
END_TEST

/* --- limits --- */

START_TEST(frames_that_wait_are_bounded)
{
    struct double_stream *stream = conversation_connect(&c);
    size_t taken = 0;

    conversation_send(&c, stream, 'W', 'a', 20);
    for (int i = 0; i < 3000; i++)
        conversation_frame(stream, 'S', 'b', 100);
    for (int i = 0; i < 10; i++)
        double_tell(&c.loop, stream);
    taken = stream->in_start;
    ck_assert(!stream->wants_read);
    ck_assert_uint_ge(taken, CONNECTION_WAITING_BYTES_MAX);
    ck_assert_uint_le(taken, 24 + CONNECTION_WAITING_BYTES_MAX + CONNECTION_READ_BYTES_MAX);
    c.told_size = 0;
    conversation_reply(&c, 'a');
    ck_assert(stream->wants_read);
    c.told_size = 0;
    while (stream->in_start < stream->in_end) {
        double_tell(&c.loop, stream);
        c.told_size = 0;
    }
    ck_assert_uint_eq(stream->out_size, 24 + 3000 * 104);
    end();
    double_stream_free(stream);
}
END_TEST

START_TEST(exchanges_under_way_are_bounded)
{
    struct double_stream *stream = conversation_connect(&c);
    const struct connections_stats *stats = connections_stats(c.connections);

    for (int i = 0; i < CONNECTION_EXCHANGES_MAX + 1; i++)
        conversation_frame(stream, 'P', (char)(1 + i), 20);
    double_tell(&c.loop, stream);
    ck_assert_uint_eq(stats->requests, CONNECTION_EXCHANGES_MAX);
    ck_assert(!stream->wants_read);
    conversation_reply(&c, 1);
    ck_assert_uint_eq(stats->requests, CONNECTION_EXCHANGES_MAX + 1);
    for (int i = 1; i < CONNECTION_EXCHANGES_MAX + 1; i++)
        conversation_reply(&c, (char)(1 + i));
    ck_assert(stream->wants_read);
    end();
    double_stream_free(stream);
}
END_TEST

/* Reading stops while a peer leaves more than CONNECTION_QUEUED_BYTES_MAX of replies behind. */
START_TEST(a_slow_reader_is_not_served_ahead)
{
    enum { SIZE = 200000 };
    struct double_stream *stream = conversation_connect(&c);
    const struct connections_stats *stats = connections_stats(c.connections);
    uint64_t bound = CONNECTION_QUEUED_BYTES_MAX / SIZE + 1;
    size_t most = 0;

    stream->out_room = 0;
    for (int i = 0; i < 10; i++)
        conversation_frame(stream, 'S', (char)('a' + i), SIZE);
    for (int i = 0; i < 200; i++)
        double_tell(&c.loop, stream);
    ck_assert_uint_eq(stats->requests, bound);
    ck_assert(!stream->wants_read);
    ck_assert(stream->wants_write);
    ck_assert_uint_le(c.budget.used, (bound + 2) * SIZE);
    /* In small bites everything gets through, and never much is held. */
    for (int i = 0; i < 10000 && stream->out_size < 10 * (4 + SIZE); i++) {
        stream->out_room = 3001;
        double_tell(&c.loop, stream);
        most = c.budget.used > most ? c.budget.used : most;
    }
    ck_assert_str_eq(conversation_answers(stream), "abcdefghij");
    ck_assert_uint_le(most, (bound + 2) * SIZE);
    end();
    double_stream_free(stream);
}
END_TEST

START_TEST(connections_are_limited_in_all_and_by_address)
{
    struct double_stream *streams[4];
    struct connection_handler handler = {.execute = NULL};
    struct connection_limits_config config = {
        .connections_max = 2, .per_address_max = 1, .creations_per_second_max = INT32_MAX};
    struct connection_limits *limits = NULL;

    connections_free(c.connections);
    ck_assert_int_eq(connection_limits_new(&config, &limits), ERR_OK);
    ck_assert_int_eq(connections_new(&c.loop.loop, &handler, &c.budget, limits, &c.log.log, &c.connections), ERR_OK);
    for (int i = 0; i < 4; i++) {
        streams[i] = double_stream_new(&c.loop);
        snprintf(streams[i]->stream.peer.host, sizeof(streams[i]->stream.peer.host), "10.0.0.%d", i < 2 ? 1 : i);
    }
    connections_accepted(&c.listener, &streams[0]->stream);
    ck_assert_uint_eq(c.log.lines, 0);
    connections_accepted(&c.listener, &streams[1]->stream);
    ck_assert(streams[1]->closed);
    ck_assert_ptr_nonnull(strstr(c.log.last, "limit=max.connections.per.ip"));
    connections_accepted(&c.listener, &streams[2]->stream);
    ck_assert(!streams[2]->closed);
    connections_accepted(&c.listener, &streams[3]->stream);
    ck_assert(streams[3]->closed);
    ck_assert_ptr_nonnull(strstr(c.log.last, "limit=max.connections "));
    connections_abort(c.connections);
    double_turn(&c.loop);
    end();
    connection_limits_free(limits);
    for (int i = 0; i < 4; i++)
        double_stream_free(streams[i]);
}
END_TEST

START_TEST(strangers_have_less_until_they_are_known)
{
    struct double_stream *stream = NULL;

    c.listener.authenticates = true;
    stream = conversation_connect(&c);
    conversation_frame(stream, 'S', 'a', CONNECTION_UNKNOWN_BYTES_MAX);
    while (stream->in_start < stream->in_end)
        double_tell(&c.loop, stream);
    ck_assert_str_eq(conversation_answers(stream), "a");
    connection_authenticated(c.connection);
    conversation_frame(stream, 'S', 'b', CONNECTION_UNKNOWN_BYTES_MAX + 1);
    while (stream->in_start < stream->in_end)
        double_tell(&c.loop, stream);
    ck_assert_str_eq(conversation_answers(stream), "ab");
    connection_close(c.connection, false);
    double_turn(&c.loop);
    double_stream_free(stream);
    stream = conversation_connect(&c);
    conversation_send(&c, stream, 'S', 'c', CONNECTION_UNKNOWN_BYTES_MAX + 1);
    ck_assert(stream->closed);
    ck_assert_ptr_nonnull(strstr(c.log.last, "limit before authentication"));
    end();
    double_stream_free(stream);
}
END_TEST

/* --- ends --- */

START_TEST(the_peers_end_still_executes_what_came_before)
{
    struct double_stream *stream = conversation_connect(&c);

    conversation_frame(stream, 'W', 'a', 20);
    conversation_frame(stream, 'N', 'b', 20);
    conversation_frame(stream, 'N', 'c', 20);
    double_arrive(stream, "\0\0\0\x10xx", 6);
    double_tell(&c.loop, stream);
    stream->peer_ended = true;
    double_tell(&c.loop, stream);
    conversation_expect(&c, "opened +a a? ");
    ck_assert(!stream->closed);
    conversation_reply(&c, 'a');
    conversation_expect(&c, "a/ +b +c closed freed ");
    ck_assert_str_eq(conversation_answers(stream), "a");
    end();
    double_stream_free(stream);
}
END_TEST

START_TEST(an_idle_peer_that_ends_is_closed)
{
    struct double_stream *stream = conversation_connect(&c);

    stream->peer_ended = true;
    double_tell(&c.loop, stream);
    conversation_expect(&c, "opened closed freed ");
    end();
    double_stream_free(stream);
}
END_TEST

START_TEST(a_broken_connection_ends_each_exchange_once)
{
    struct double_stream *stream = conversation_connect(&c);

    conversation_frame(stream, 'P', 'a', 20);
    conversation_frame(stream, 'P', 'b', 20);
    conversation_frame(stream, 'P', 'c', 60000);
    conversation_frame(stream, 'W', 'd', 20);
    double_tell(&c.loop, stream);
    stream->broken = true;
    conversation_reply(&c, 'b');
    conversation_expect(&c, "opened +a +b +c ");
    conversation_reply(&c, 'a');
    ck_assert(stream->closed);
    conversation_expect(&c, "c? a! b! closed ");
    conversation_reply(&c, 'c');
    conversation_expect(&c, "c! freed ");
    end();
    double_stream_free(stream);
}
END_TEST

START_TEST(an_abandoned_exchange_may_end_at_once)
{
    struct double_stream *stream = conversation_connect(&c);

    c.ends_when_abandoned = true;
    conversation_send(&c, stream, 'P', 'a', 20);
    conversation_send(&c, stream, 'P', 'b', 20);
    connection_close(c.connection, false);
    double_turn(&c.loop);
    conversation_expect(&c, "opened +a +b a? b? a! b! closed freed ");
    end();
    double_stream_free(stream);
}
END_TEST

/* In whatever state the connection is: it ends, and owes nothing (conversation_end). */
START_TEST(disconnect_in_every_state)
{
    end();
    for (int state = 0; state < 8; state++) {
        for (int how = 0; how < 3; how++) {
            struct double_stream *stream = NULL;

            conversation_start(&c, BUDGET);
            c.ends_when_abandoned = true;
            stream = conversation_connect(&c);
            switch (state) {
            case 0: /* quiet */
                break;
            case 1: /* half a size field */
                double_arrive(stream, "\0\0", 2);
                break;
            case 2: /* half a small frame */
                double_arrive(stream, "\0\0\0\x20xxxx", 8);
                break;
            case 3: /* half a large frame */
                conversation_frame(stream, 'S', 'a', 900000);
                stream->in_end -= 400000;
                break;
            case 4: /* executing */
                conversation_frame(stream, 'W', 'a', 20);
                break;
            case 5: /* executing, others wait */
                conversation_frame(stream, 'W', 'a', 20);
                conversation_frame(stream, 'W', 'b', 70000);
                break;
            case 6: /* answered, half has left */
                stream->out_room = 10;
                conversation_frame(stream, 'S', 'a', 20);
                conversation_frame(stream, 'S', 'b', 20);
                break;
            case 7: /* muted */
                connection_mute(c.connection, c.loop.now_ns + 1000000000);
                conversation_frame(stream, 'S', 'b', 20);
                break;
            }
            for (int i = 0; i < 20; i++)
                double_tell(&c.loop, stream);
            if (how == 0) {
                connection_close(c.connection, false);
                double_turn(&c.loop);
            } else if (how == 1) {
                stream->peer_ended = true;
                stream->broken = true;
                for (int i = 0; i < 20; i++)
                    double_tell(&c.loop, stream);
            } else {
                connection_finish(c.connection);
                double_turn(&c.loop);
            }
            c.told_size = 0;
            if (!stream->closed)
                connections_abort(c.connections);
            double_turn(&c.loop);
            if (c.exchanges['a'] != NULL && !c.ends_when_abandoned)
                conversation_reply(&c, 'a');
            conversation_end(&c);
            double_stream_free(stream);
        }
    }
}
END_TEST

START_TEST(draining_answers_what_was_started)
{
    struct double_stream *busy = conversation_connect(&c);
    struct double_stream *idle = conversation_connect(&c);
    struct double_stream *late = NULL;
    struct conversation_drain {
        struct loop_task task;
    } drain = {0};

    (void)idle;
    conversation_frame(busy, 'P', 'a', 20);
    conversation_frame(busy, 'W', 'b', 20);
    double_tell(&c.loop, busy);
    drain.task.run = NULL;
    connections_drain(c.connections, &drain.task);
    double_turn(&c.loop);
    ck_assert(idle->closed);
    ck_assert(!busy->closed);
    ck_assert(!busy->wants_read);
    late = double_stream_new(&c.loop);
    connections_accepted(&c.listener, &late->stream);
    ck_assert(late->closed);
    ck_assert_ptr_null(c.loop.posted);
    conversation_reply(&c, 'a');
    ck_assert_str_eq(conversation_answers(busy), "a");
    ck_assert(busy->closed);
    conversation_expect(&c, "opened opened +a closed freed a/ closed freed ");
    /* The word that all are gone is on its way. */
    ck_assert_ptr_eq(c.loop.posted, &drain.task);
    c.loop.posted = NULL;
    c.loop.posted_last = &c.loop.posted;
    end();
    double_stream_free(busy);
    double_stream_free(idle);
    double_stream_free(late);
}
END_TEST

/* --- time --- */

START_TEST(idle_connections_are_closed)
{
    struct double_stream *stream = conversation_connect(&c);

    double_wait(&c.loop, 6000);
    conversation_send(&c, stream, 'S', 'a', 20);
    double_wait(&c.loop, 9999);
    ck_assert(!stream->closed);
    double_wait(&c.loop, 1);
    ck_assert(stream->closed);
    ck_assert_uint_eq(connections_stats(c.connections)->idle_closed, 1);
    end();
    double_stream_free(stream);
}
END_TEST

START_TEST(a_long_request_is_not_idle_but_a_reply_nobody_takes_is)
{
    struct double_stream *stream = conversation_connect(&c);

    conversation_send(&c, stream, 'W', 'a', 20);
    for (int i = 0; i < 10; i++)
        double_wait(&c.loop, 10000);
    ck_assert(!stream->closed);
    stream->out_room = 0;
    conversation_reply(&c, 'a');
    for (int i = 0; i < 3 && !stream->closed; i++)
        double_wait(&c.loop, 10000);
    ck_assert(stream->closed);
    conversation_expect(&c, "opened +a a! closed freed ");
    end();
    double_stream_free(stream);
}
END_TEST

START_TEST(a_muted_connection_starts_nothing_but_answers)
{
    struct double_stream *stream = conversation_connect(&c);

    conversation_send(&c, stream, 'P', 'a', 20);
    connection_mute(c.connection, c.loop.now_ns + 500 * 1000000LL);
    connection_mute(c.connection, c.loop.now_ns + 100 * 1000000LL);
    double_turn(&c.loop);
    ck_assert(!stream->wants_read);
    conversation_reply(&c, 'a');
    ck_assert_str_eq(conversation_answers(stream), "a");
    conversation_frame(stream, 'S', 'b', 20);
    double_wait(&c.loop, 499);
    double_tell(&c.loop, stream);
    ck_assert_str_eq(conversation_answers(stream), "a");
    double_wait(&c.loop, 1);
    double_tell(&c.loop, stream);
    ck_assert_str_eq(conversation_answers(stream), "ab");
    end();
    double_stream_free(stream);
}
END_TEST

/* --- memory --- */

/* A Produce frame is given back right after its append, not when it is answered. */
START_TEST(a_frame_can_be_freed_early)
{
    struct double_stream *stream = conversation_connect(&c);
    size_t before = 0;
    struct slice slice = slice_of("12345678", 8);

    conversation_frame(stream, 'W', 'a', 900000);
    while (stream->in_start < stream->in_end)
        double_tell(&c.loop, stream);
    before = c.budget.used;
    ck_assert_uint_ge(before, 900000);
    exchange_free_frame(c.exchanges['a']);
    exchange_free_frame(c.exchanges['a']);
    ck_assert_ptr_null(c.exchanges['a']->frame);
    ck_assert_uint_le(c.budget.used, before - 800000);
    exchange_reply(c.exchanges['a'], &slice, 1, NULL);
    double_turn(&c.loop);
    ck_assert_uint_eq(stream->out_size, 12);
    end();
    double_stream_free(stream);
}
END_TEST

/* Memory follows what has arrived, not what a header announces. */
START_TEST(an_announcement_costs_nothing)
{
    struct double_stream *stream = conversation_connect(&c);
    size_t credit = 2 * c.budget.credit;

    double_arrive(stream, "\x00\x0f\xff\xff", 4);
    double_tell(&c.loop, stream);
    ck_assert_uint_le(c.budget.used, credit + 1000);
    for (int i = 0; i < 100; i++) {
        uint8_t bytes[1000] = {0};

        double_arrive(stream, bytes, sizeof(bytes));
        double_tell(&c.loop, stream);
        ck_assert_uint_le(c.budget.used, credit + 2 * (4 + 1000 * (size_t)(i + 1)) + CONNECTION_READ_BYTES_MAX);
    }
    end();
    double_stream_free(stream);
}
END_TEST

/* The edges of CONNECTION_TURN_BYTES_MAX, behind which others have their turn, and of CONNECTION_EXPECTED_BYTES_MAX,
 * which is set aside behind a frame that was larger. */
START_TEST(a_large_frame_is_read_in_turns)
{
    enum { LARGE = 2 * CONNECTION_EXPECTED_BYTES_MAX };
    struct double_stream *stream = NULL;
    size_t before = 0;
    uint32_t turns = 0;

    c.listener.request_bytes_max = LARGE;
    stream = conversation_connect(&c);
    conversation_send(&c, stream, 'S', 'k', 20); /* who is not known yet sends less */
    stream->out_size = 0;
    conversation_frame(stream, 'S', 'a', LARGE);
    for (; stream->in_start < stream->in_end; turns++) {
        before = stream->in_start;
        double_tell(&c.loop, stream);
        ck_assert_uint_gt(stream->in_start, before);
        ck_assert_uint_le(stream->in_start - before, CONNECTION_TURN_BYTES_MAX + CONNECTION_READ_BYTES_MAX);
    }
    ck_assert_uint_ge(turns, LARGE / (CONNECTION_TURN_BYTES_MAX + CONNECTION_READ_BYTES_MAX));
    ck_assert_uint_eq(stream->out_size, CONNECTION_TURN_WRITE_BYTES); /* its echo, in turns as well */
    while (stream->out_size < 4 + LARGE && stream->wants_write)
        double_tell(&c.loop, stream);
    ck_assert_uint_eq(stream->out_size, 4 + LARGE);
    double_arrive(stream, "\x00\x10\x00\x00P", 5);
    double_tell(&c.loop, stream);
    ck_assert_uint_ge(c.budget.used, CONNECTION_EXPECTED_BYTES_MAX);
    ck_assert_uint_le(c.budget.used, CONNECTION_EXPECTED_BYTES_MAX + 2 * c.budget.credit + 4096);
    end();
    double_stream_free(stream);
}
END_TEST

START_TEST(reservations_are_bounded_and_given_back)
{
    struct double_stream *stream = conversation_connect(&c);

    conversation_send(&c, stream, 'W', 'a', 20);
    ck_assert_int_eq(exchange_reserve(c.exchanges['a'], 32 << 20), ERR_OK);
    ck_assert_int_eq(exchange_reserve(c.exchanges['a'], 32 << 20), ERR_NOMEM);
    ck_assert_int_eq(exchange_reserve(c.exchanges['a'], 1 << 20), ERR_OK);
    conversation_reply(&c, 'a');
    ck_assert_uint_le(c.budget.used, 2 * c.budget.credit);
    end();
    double_stream_free(stream);
}
END_TEST

/* Over the budget clients are not read; a release lets them go on, without polling. */
START_TEST(a_full_budget_stops_reading_until_memory_is_freed)
{
    struct double_stream *first = conversation_connect(&c);
    struct double_stream *second = NULL;
    struct double_stream *third = NULL;

    conversation_send(&c, first, 'W', 'a', 20);
    ck_assert_int_eq(exchange_reserve(c.exchanges['a'], 3 * (BUDGET / 4) - 200000), ERR_OK);
    second = conversation_connect(&c);
    third = conversation_connect(&c);
    for (int i = 0; i < 2; i++) {
        conversation_frame(i == 0 ? second : third, 'W', (char)('b' + i), 800000);
        for (int k = 0; k < 20; k++)
            double_tell(&c.loop, i == 0 ? second : third);
    }
    /* One at a time is let through over the budget, so that half frames alone cannot fill it for good. */
    ck_assert_ptr_nonnull(c.exchanges['b']);
    ck_assert_ptr_null(c.exchanges['c']);
    ck_assert(!third->wants_read);
    conversation_reply(&c, 'a');
    for (int k = 0; k < 20; k++)
        double_tell(&c.loop, third);
    ck_assert_ptr_nonnull(c.exchanges['c']);
    conversation_reply(&c, 'b');
    conversation_reply(&c, 'c');
    end();
    double_stream_free(first);
    double_stream_free(second);
    double_stream_free(third);
}
END_TEST

START_TEST(reserve_listeners_read_while_clients_cannot)
{
    struct double_stream *client = conversation_connect(&c);
    struct double_stream *replica = NULL;

    conversation_send(&c, client, 'W', 'a', 20);
    ck_assert_int_eq(exchange_reserve(c.exchanges['a'], 3 * (BUDGET / 4) - 200000), ERR_OK);
    c.listener.reserve = true;
    replica = conversation_connect(&c);
    conversation_frame(replica, 'S', 'r', 900000);
    for (int k = 0; k < 20; k++)
        double_tell(&c.loop, replica);
    ck_assert_str_eq(conversation_answers(replica), "r");
    c.listener.reserve = false;
    conversation_reply(&c, 'a');
    end();
    double_stream_free(client);
    double_stream_free(replica);
}
END_TEST

/* Every listening loop given half frames: each connection still gets its turn. */
START_TEST(half_frames_cannot_fill_the_budget_for_good)
{
    enum { COUNT = 12 };
    struct double_stream *streams[COUNT];
    uint32_t answered = 0;

    end();
    conversation_start(&c, 2 << 20);
    c.listener.idle_ms_max = 0;
    for (int i = 0; i < COUNT; i++) {
        streams[i] = conversation_connect(&c);
        conversation_frame(streams[i], 'S', (char)('a' + i), 900000);
        streams[i]->in_end -= 500000;
        for (int k = 0; k < 20; k++)
            double_tell(&c.loop, streams[i]);
    }
    ck_assert_uint_le(c.budget.used, (2 << 20) + (1 << 20));
    /* Two in three send the rest; one in three has fallen silent. */
    for (int i = 0; i < COUNT; i++)
        if (i % 3 != 0)
            streams[i]->in_end += 500000;
    for (int round = 0; round < 600; round++) {
        for (int i = 0; i < COUNT; i++)
            double_tell(&c.loop, streams[i]);
        double_wait(&c.loop, 100);
        ck_assert_uint_le(c.budget.used, (2 << 20) + (1 << 20));
    }
    for (int i = 0; i < COUNT; i++)
        answered += streams[i]->out_size == 900004;
    ck_assert_uint_eq(answered, COUNT - COUNT / 3);
    end();
    for (int i = 0; i < COUNT; i++)
        double_stream_free(streams[i]);
}
END_TEST

/* --- anything at all --- */

enum { STEPS = 400, TAGS = 200, SENT_MAX = 1000 };

static uint64_t draw(uint64_t *state, uint64_t bound)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state % bound;
}

static void end_any_exchange(uint64_t *random)
{
    uint64_t first = draw(random, 256);

    for (uint64_t i = 0; i < 256; i++) {
        uint8_t tag = (uint8_t)(first + i);

        if (c.exchanges[tag] == NULL)
            continue;
        conversation_reply(&c, (char)tag);
        return;
    }
}

/* One random step; wanted collects the tags that have to be answered. */
static void random_step(struct double_stream *stream, uint64_t *random, char *wanted, uint32_t *wanted_count,
                        uint32_t *sent)
{
    static const char kinds[] = "SSPPPWN";
    char kind = kinds[draw(random, sizeof(kinds) - 1)];
    char tag = (char)(1 + *sent % TAGS);
    uint64_t size = draw(random, 10) == 0 ? 30000 + draw(random, 40000) : 8 + draw(random, 700);

    switch (draw(random, 10)) {
    case 0:
        stream->read_max = 1 + draw(random, 5000);
        break;
    case 1:
        stream->out_room = draw(random, 3) == 0 ? 0 : draw(random, 200000);
        break;
    case 2:
        end_any_exchange(random);
        break;
    case 3:
        connection_mute(c.connection, c.loop.now_ns + (int64_t)draw(random, 20) * 1000000);
        break;
    case 4:
        double_wait(&c.loop, (int64_t)draw(random, 30));
        break;
    default:
        if (stream->in_end + size + 4 > DOUBLE_ROOM / 2 || *sent == SENT_MAX)
            break;
        conversation_frame(stream, kind, tag, (uint32_t)size);
        (*sent)++;
        if (kind != 'N')
            wanted[(*wanted_count)++] = tag;
    }
    double_tell(&c.loop, stream);
    c.told_size = 0;
}

static void random_conversation(uint64_t seed)
{
    char wanted[SENT_MAX + 1] = "";
    uint32_t wanted_count = 0;
    uint32_t sent = 0;
    uint64_t random = seed;
    bool ends_early = draw(&random, 2) == 0;
    struct double_stream *stream = NULL;

    conversation_start(&c, draw(&random, 2) == 0 ? BUDGET : 400000);
    c.ends_when_abandoned = draw(&random, 2) == 0;
    c.listener.idle_ms_max = 0;
    stream = conversation_connect(&c);
    for (int step = 0; step < STEPS; step++)
        random_step(stream, &random, wanted, &wanted_count, &sent);
    stream->read_max = SIZE_MAX;
    stream->out_room = SIZE_MAX;
    if (ends_early) {
        /* What was answered is a beginning of what should be, and its end owes nothing. */
        connections_abort(c.connections);
        double_turn(&c.loop);
    } else {
        for (int i = 0; i < 3 * SENT_MAX; i++) {
            double_tell(&c.loop, stream);
            double_wait(&c.loop, 100);
            end_any_exchange(&random);
            c.told_size = 0;
        }
        ck_assert_uint_eq(stream->in_start, stream->in_end);
        ck_assert_uint_eq(strlen(conversation_answers(stream)), wanted_count);
    }
    if (!ends_early || stream->out_size == 0)
        ck_assert_int_eq(strncmp(conversation_answers(stream), wanted, strlen(conversation_answers(stream))), 0);
    if (!c.ends_when_abandoned)
        for (int i = 0; i < 256; i++)
            end_any_exchange(&random);
    c.told_size = 0;
    conversation_end(&c);
    double_stream_free(stream);
}

/* Pieces, slow readers, mutes, overlap and endings at random: every request is answered once and in its place. */
START_TEST(random_conversations_are_answered_in_order)
{
    end();
    for (uint64_t seed = 1; seed <= 150; seed++) {
        random_conversation(seed * 0x9e3779b97f4a7c15ULL);
    }
}
END_TEST

/* --- memory running out --- */

/* The test is linked with -Wl,--wrap: the allocation with this number fails, and all after it if so wanted. */
static uint32_t allocations;
static uint32_t failing; /* 0: none */

void *__real_mem_alloc(size_t size);
void *__wrap_mem_alloc(size_t size);
void *__real_mem_calloc(size_t count, size_t size);
void *__wrap_mem_calloc(size_t count, size_t size);
void *__real_mem_realloc(void *block, size_t size);
void *__wrap_mem_realloc(void *block, size_t size);

void *__wrap_mem_alloc(size_t size)
{
    return ++allocations == failing ? NULL : __real_mem_alloc(size);
}

void *__wrap_mem_calloc(size_t count, size_t size)
{
    return ++allocations == failing ? NULL : __real_mem_calloc(count, size);
}

void *__wrap_mem_realloc(void *block, size_t size)
{
    return ++allocations == failing ? NULL : __real_mem_realloc(block, size);
}

/* Whichever allocation fails: nothing leaks (the sanitizer build sees it), no reply is wrong, at worst this connection
 * closes. */
START_TEST(any_allocation_may_fail)
{
    static const uint32_t sizes[] = {20, 600, 40000, 40000, 33000, 100, 200000};
    uint32_t fail_at = 0;
    bool failed = true;

    end();
    while (failed) {
        struct double_stream *stream = NULL;

        conversation_start(&c, BUDGET);
        c.ends_when_abandoned = true;
        stream = double_stream_new(&c.loop);
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
            conversation_frame(stream, 'S', (char)('a' + i), sizes[i]);
        conversation_frame(stream, 'P', 'p', 50000);
        conversation_frame(stream, 'W', 'w', 300);
        stream->read_max = 30000;
        allocations = 0;
        failing = ++fail_at;
        connections_accepted(&c.listener, &stream->stream);
        double_turn(&c.loop);
        for (int i = 0; i < 100 && !stream->closed; i++)
            double_tell(&c.loop, stream);
        failed = allocations >= failing;
        failing = 0;
        if (!failed)
            ck_assert_str_eq(conversation_answers(stream), "abcdefg");
        connections_abort(c.connections);
        double_turn(&c.loop);
        conversation_end(&c);
        double_stream_free(stream);
    }
    ck_assert_uint_gt(fail_at, 15);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("connection");
    TCase *tcase = tcase_create("connection");
    SRunner *runner = srunner_create(suite);
    int failed = 0;

    tcase_set_timeout(tcase, 30);
    tcase_add_checked_fixture(tcase, start, NULL);
    tcase_add_test(tcase, what_one_read_brings_is_answered_in_one_write);
    tcase_add_test(tcase, one_request_executes_at_a_time);
    tcase_add_test(tcase, overlap_passes_only_its_like);
    tcase_add_test(tcase, frames_may_come_in_any_pieces);
    tcase_add_test(tcase, garbage_closes_with_its_likely_cause);
    tcase_add_test(tcase, the_largest_frame_is_taken);
    tcase_add_test(tcase, garbage_behind_requests_lets_them_be_answered);
    tcase_add_test(tcase, a_refused_request_lets_earlier_ones_be_answered);
    tcase_add_test(tcase, a_refused_request_drops_those_behind_it);
    tcase_add_test(tcase, a_handler_may_close_at_once);
    tcase_add_test(tcase, frames_that_wait_are_bounded);
    tcase_add_test(tcase, exchanges_under_way_are_bounded);
    tcase_add_test(tcase, a_slow_reader_is_not_served_ahead);
    tcase_add_test(tcase, connections_are_limited_in_all_and_by_address);
    tcase_add_test(tcase, strangers_have_less_until_they_are_known);
    tcase_add_test(tcase, the_peers_end_still_executes_what_came_before);
    tcase_add_test(tcase, an_idle_peer_that_ends_is_closed);
    tcase_add_test(tcase, a_broken_connection_ends_each_exchange_once);
    tcase_add_test(tcase, an_abandoned_exchange_may_end_at_once);
    tcase_add_test(tcase, disconnect_in_every_state);
    tcase_add_test(tcase, draining_answers_what_was_started);
    tcase_add_test(tcase, idle_connections_are_closed);
    tcase_add_test(tcase, a_long_request_is_not_idle_but_a_reply_nobody_takes_is);
    tcase_add_test(tcase, a_muted_connection_starts_nothing_but_answers);
    tcase_add_test(tcase, a_frame_can_be_freed_early);
    tcase_add_test(tcase, an_announcement_costs_nothing);
    tcase_add_test(tcase, a_large_frame_is_read_in_turns);
    tcase_add_test(tcase, reservations_are_bounded_and_given_back);
    tcase_add_test(tcase, a_full_budget_stops_reading_until_memory_is_freed);
    tcase_add_test(tcase, reserve_listeners_read_while_clients_cannot);
    tcase_add_test(tcase, half_frames_cannot_fill_the_budget_for_good);
    tcase_add_test(tcase, random_conversations_are_answered_in_order);
    tcase_add_test(tcase, any_allocation_may_fail);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
