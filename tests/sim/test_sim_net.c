/* Rule: the simulated network delivers a stream's bytes whole and in order, in pieces and late, takes only a window's
 * worth ahead of the reader, and tells an end of stream after all bytes before it. */
#include <check.h>
#include <string.h>

#include "sim/sim_net.h"

enum { TOTAL = 300000 };

struct end {
    struct net_stream *stream;
    size_t moved;
    bool closed;
};

static uint8_t byte_at(size_t position)
{
    return (uint8_t)(position * 31 + position / 251);
}

static void write_more(void *context)
{
    struct end *end = context;
    uint8_t chunk[5000];
    size_t size = TOTAL - end->moved < sizeof(chunk) ? TOTAL - end->moved : sizeof(chunk);
    size_t written = 0;

    for (size_t i = 0; i < size; i++)
        chunk[i] = byte_at(end->moved + i);
    struct slice slices[2] = {slice_of(chunk, size / 2), slice_of(chunk + size / 2, size - size / 2)};
    enum err err = net_write(end->stream, slices, 2, &written);
    end->moved += written;
    if (end->moved == TOTAL || err == ERR_CLOSED) {
        net_close(end->stream, false);
        end->closed = true;
    }
}

static void read_more(void *context)
{
    struct end *end = context;
    uint8_t chunk[3000];
    size_t got = 0;
    enum err err = net_read(end->stream, chunk, sizeof(chunk), &got);

    size_t wrong = 0; /* counted first: an assertion of Check costs two system calls */
    for (size_t i = 0; i < got; i++)
        wrong += chunk[i] != byte_at(end->moved + i);
    ck_assert_uint_eq(wrong, 0);
    end->moved += got;
    if (err == ERR_CLOSED) {
        net_close(end->stream, false);
        end->closed = true;
    }
}

static const struct net_stream_events writer_events = {.readable = read_more, .writable = write_more};
static const struct net_stream_events reader_events = {.readable = read_more, .writable = write_more};

static void on_accept(void *context, struct net_stream *stream)
{
    struct end *end = context;

    end->stream = stream;
    stream->events = &reader_events;
    stream->context = end;
    net_want(stream, true, false);
}

static void on_connect(void *context, struct net_stream *stream, enum err err)
{
    struct end *end = context;

    if (err != ERR_OK) {
        end->closed = true;
        return;
    }
    end->stream = stream;
    stream->events = &writer_events;
    stream->context = end;
    net_want(stream, false, true);
}

START_TEST(bytes_arrive_whole_and_in_order)
{
    for (uint64_t seed = 0; seed < 10; seed++) {
        struct sim sim;
        struct sim_network network;
        struct end reader = {0};
        struct end writer = {0};
        struct net_listener *listener = NULL;
        struct net_address bound;

        sim_init(&sim, seed);
        sim_network_init(&network, &sim);
        struct sim_host *a = sim_host_add(&network);
        struct sim_host *b = sim_host_add(&network);
        struct loop *loops[2] = {sim_loop_new(&sim, "a0", 0), sim_loop_new(&sim, "a1", 1)};
        ck_assert_int_eq(
            net_listen(&a->net, &(struct net_address){.port = 9092}, loops, 2, on_accept, &reader, &listener, &bound),
            ERR_OK);
        ck_assert_int_eq(net_connect(&b->net, sim_loop_new(&sim, "b", 0), &bound, on_connect, &writer), ERR_OK);
        sim_run(&sim, INT64_MAX, NULL, NULL);
        ck_assert_uint_eq(reader.moved, TOTAL);
        ck_assert(reader.closed && writer.closed);
        ck_assert_ptr_null(network.streams);
        sim_network_deinit(&network);
        sim_deinit(&sim);
    }
}
END_TEST

START_TEST(nobody_listens_is_told_and_a_kill_is_heard)
{
    struct sim sim;
    struct sim_network network;
    struct end writer = {0};
    struct end reader = {0};
    struct net_listener *listener = NULL;
    struct net_address bound = {.host = "10.0.0.1", .port = 1};

    sim_init(&sim, 7);
    sim_network_init(&network, &sim);
    struct sim_host *a = sim_host_add(&network);
    struct sim_host *b = sim_host_add(&network);
    struct loop *loop_a = sim_loop_new(&sim, "a", 0);
    struct loop *loop_b = sim_loop_new(&sim, "b", 0);
    ck_assert_int_eq(net_connect(&b->net, loop_b, &bound, on_connect, &writer), ERR_OK);
    sim_run(&sim, INT64_MAX, NULL, NULL);
    ck_assert(writer.closed);
    writer.closed = false;
    ck_assert_int_eq(net_listen(&a->net, &bound, &loop_a, 1, on_accept, &reader, &listener, &bound), ERR_OK);
    ck_assert_int_eq(net_connect(&b->net, loop_b, &bound, on_connect, &writer), ERR_OK);
    sim_run(&sim, sim.mono_ns + 5000000, NULL, NULL);
    sim_loop_kill(loop_a);
    sim_host_kill(a);
    sim_settle(&sim);
    ck_assert(writer.closed && reader.moved < TOTAL);
    sim_network_deinit(&network);
    sim_deinit(&sim);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sim_net");
    TCase *tcase = tcase_create("sim_net");
    SRunner *runner = srunner_create(suite);
    int failed = 0;

    tcase_add_test(tcase, bytes_arrive_whole_and_in_order);
    tcase_add_test(tcase, nobody_listens_is_told_and_a_kill_is_heard);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
