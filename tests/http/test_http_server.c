/* Rule: hostile input costs a bounded connection a bounded time: each request has one answer, or its connection ends.
 */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "http/http_server.h"
#include "partition/run_tests.h"
#include "sim/sim_net.h"

#define NS_PER_MS INT64_C(1000000)

enum { CLIENTS_MAX = 40, ANSWER_BYTES_MAX = HTTP_SMALL_BYTES_MAX + 2048 };

struct client {
    struct net_stream *stream;
    const uint8_t *request;
    size_t request_bytes;
    size_t sent;
    char answer[ANSWER_BYTES_MAX];
    size_t got;
    bool closed;
};

struct world {
    struct sim sim;
    struct sim_network network;
    struct sim_host *host, *peer;
    struct loop *loop, *peer_loop;
    struct http_server *server;
    struct net_address bound;
    struct http_exchange *asking; /* one that waits for the test to answer */
    bool hold;
    uint32_t asked;
    char path[256];
    bool stopped;
    struct client clients[CLIENTS_MAX];
    uint32_t client_count;
};

static struct world world;

static void asked(void *context, struct http_exchange *exchange, struct bytes path)
{
    (void)context;
    world.asked++;
    (void)snprintf(world.path, sizeof(world.path), "%.*s", BYTES_PRINTF(path));
    if (world.hold)
        world.asking = exchange;
    else
        http_reply(exchange, 200, BYTES_LITERAL("{}"));
}

/* host: the server's; NULL: the simulation's own choice. */
static void world_begin_at(uint64_t seed, const char *host)
{
    struct http_server_spec spec = {.asked = asked};

    memset(&world, 0, sizeof(world));
    sim_init(&world.sim, seed);
    sim_network_init(&world.network, &world.sim);
    world.host = sim_host_add(&world.network);
    if (host != NULL)
        (void)snprintf(world.host->name, sizeof(world.host->name), "%s", host);
    world.peer = sim_host_add(&world.network);
    world.loop = sim_loop_new(&world.sim, "http", 0);
    world.peer_loop = sim_loop_new(&world.sim, "peer", 0);
    spec.net = &world.host->net;
    spec.loop = world.loop;
    spec.address.port = 9097;
    ck_assert_int_eq(http_server_new(&spec, &world.bound, &world.server), ERR_OK);
}

static void world_begin(uint64_t seed)
{
    world_begin_at(seed, NULL);
}

static void was_stopped(void *context)
{
    (void)context;
    world.stopped = true;
}

static bool is_stopped(void *context)
{
    (void)context;
    return world.stopped;
}

static void world_end(void)
{
    http_server_stop(world.server, was_stopped, NULL);
    ck_assert(sim_run(&world.sim, INT64_MAX, is_stopped, NULL));
    ck_assert_uint_eq(http_server_connections(world.server), 0);
    http_server_free(world.server);
    sim_network_deinit(&world.network);
    sim_deinit(&world.sim);
}

static void client_readable(void *context)
{
    struct client *client = context;
    size_t got = 0;
    enum err err = net_read(client->stream, client->answer + client->got, ANSWER_BYTES_MAX - 1 - client->got, &got);

    client->got += got;
    if (err == ERR_CLOSED) {
        client->closed = true;
        net_close(client->stream, false);
    }
}

static void client_writable(void *context)
{
    struct client *client = context;
    struct slice slice = slice_of(client->request + client->sent, client->request_bytes - client->sent);
    size_t written = 0;

    if (slice.size > 0) {
        enum err err = net_write(client->stream, &slice, 1, &written);

        client->sent += written;
        if (err == ERR_CLOSED)
            client->sent = client->request_bytes;
    }
    net_want(client->stream, true, client->sent < client->request_bytes);
}

static void client_connected(void *context, struct net_stream *stream, enum err err)
{
    static const struct net_stream_events events = {.readable = client_readable, .writable = client_writable};
    struct client *client = context;

    ck_assert_int_eq(err, ERR_OK);
    client->stream = stream;
    stream->events = &events;
    stream->context = client;
    net_want(stream, true, client->request_bytes > 0);
}

static struct client *ask(const void *request, size_t size)
{
    struct client *client = &world.clients[world.client_count++];

    ck_assert_uint_le(world.client_count, CLIENTS_MAX);
    client->request = request;
    client->request_bytes = size;
    ck_assert_int_eq(net_connect(&world.peer->net, world.peer_loop, &world.bound, client_connected, client), ERR_OK);
    return client;
}

static bool is_closed(void *context)
{
    return ((struct client *)context)->closed;
}

/* What one request is answered with. */
static const char *answer_to(const void *request, size_t size)
{
    struct client *client = ask(request, size);

    ck_assert(sim_run(&world.sim, INT64_MAX, is_closed, client));
    client->answer[client->got] = '\0';
    return client->answer;
}

#define ANSWERS(text, status)                                                                                          \
    do {                                                                                                               \
        const char *answer = answer_to(text, sizeof(text) - 1);                                                        \
        ck_assert_msg(strncmp(answer, "HTTP/1.1 " status " ", 13) == 0, "%s -> %s", text, answer);                     \
    } while (0)

START_TEST(requests)
{
    for (uint64_t seed = 0; seed < 5; seed++) {
        world_begin(seed);
        ANSWERS("GET /groups HTTP/1.1\r\nHost: a\r\n\r\n", "200");
        ck_assert_str_eq(world.path, "/groups");
        ANSWERS("GET / HTTP/1.0\n\n", "200");
        ANSWERS("GET /x?y=%20z HTTP/1.1\r\n\r\nand more that nobody asked for", "200");
        ck_assert_str_eq(world.path, "/x?y=%20z");
        world_end();
    }
}
END_TEST

/* A page in a browser must not read the server by a name that its owner lets point here (DNS rebinding). */
START_TEST(names_over_loopback)
{
    static const struct {
        const char *host;
        const char *status;
    } cases[] = {
        {"localhost", "200"},      {"LocalHost:9097", "200"},
        {"127.0.0.1", "200"},      {"127.1.2.3:9097", "200"},
        {"[::1]", "200"},          {"[::1]:9097", "200"},
        {"localhost:", "200"},     {"", "403"},
        {"evil.example", "403"},   {"[::1]evil.example", "403"},
        {"[::1].evil", "403"},     {"[::1]:80.evil", "403"},
        {"[::11]", "403"},         {"[::1", "403"},
        {"localhost.evil", "403"}, {"localhost:x", "403"},
        {"127.0.0.1.evil", "403"}, {"127.0.0.1:evil", "403"},
        {"[127.0.0.1]", "403"},
    };

    world_begin_at(8, "127.0.0.1");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[128];
        int size = snprintf(text, sizeof(text), "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", cases[i].host);
        const char *answer = answer_to(text, (size_t)size);

        ck_assert_msg(strncmp(answer + 9, cases[i].status, 3) == 0, "%s -> %s", cases[i].host, answer);
    }
    world_end();
}
END_TEST

/* Of what is still on its way when the connection ends, the answer may be lost, as over TCP. */
static bool is_refused(const char *answer)
{
    return answer[0] == '\0' || strncmp(answer, "HTTP/1.1 431 ", 13) == 0;
}

START_TEST(what_is_none)
{
    static char large[3 * HTTP_REQUEST_BYTES_MAX];
    uint32_t served = 0;

    memset(large, 'x', sizeof(large));
    world_begin(7);
    ANSWERS("\r\n\r\n", "400");
    ANSWERS("GET\r\n\r\n", "400");
    ANSWERS("GET /\r\n\r\n", "400");
    ANSWERS("GET groups HTTP/1.1\r\n\r\n", "400");
    ANSWERS("GET /groups HTTP/2.0\r\n\r\n", "400");
    ANSWERS("GET  / HTTP/1.1\r\n\r\n", "400");
    ANSWERS("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\n\n", "400");
    ANSWERS("POST /groups HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello", "405");
    ANSWERS("DELETE /groups/g HTTP/1.1\r\n\r\n", "405");
    ck_assert_ptr_nonnull(strstr(answer_to("PUT / HTTP/1.1\r\n\r\n", 18), "\r\nAllow: GET\r\n"));
    ANSWERS("GET /\0 HTTP/1.1\r\n\r\n", "200");
    served = world.asked;
    ck_assert(is_refused(answer_to(large, sizeof(large))));
    memcpy(large, "GET / HTTP/1.1\r\nX: ", 19);
    ck_assert(is_refused(answer_to(large, sizeof(large))));
    ck_assert_uint_eq(world.asked, served);
    world_end();
}
END_TEST

/* What ends within HTTP_DROPPED_BYTES_MAX is read to its end, so that the answer is not lost; what does not is cut off.
 */
START_TEST(too_large)
{
    static char text[HTTP_REQUEST_BYTES_MAX + 2 * HTTP_DROPPED_BYTES_MAX];

    for (uint64_t seed = 0; seed < 20; seed++) {
        world_begin(seed);
        memset(text, 'x', sizeof(text));
        memcpy(text, "GET / HTTP/1.1\r\nX: ", 19);
        for (size_t size = HTTP_REQUEST_BYTES_MAX + 1; size <= HTTP_DROPPED_BYTES_MAX; size += 9973) {
            memcpy(text + size - 4, "\r\n\r\n", 4);
            ck_assert_int_eq(strncmp(answer_to(text, size), "HTTP/1.1 431 ", 13), 0);
            memset(text + size - 4, 'x', 4);
        }
        ck_assert(is_refused(answer_to(text, sizeof(text))));
        ck_assert_uint_eq(world.asked, 0);
        world_end();
    }
}
END_TEST

/* max - 1, max and max + 1 bytes of request. */
START_TEST(the_largest_request)
{
    static char text[HTTP_REQUEST_BYTES_MAX + 1];

    world_begin(3);
    for (int more = -1; more <= 1; more++) {
        size_t size = (size_t)(HTTP_REQUEST_BYTES_MAX + more);
        const char *answer = NULL;

        memset(text, 'x', sizeof(text));
        memcpy(text, "GET / HTTP/1.1\r\nX: ", 19);
        memcpy(text + size - 4, "\r\n\r\n", 4);
        answer = answer_to(text, size);
        ck_assert_msg(more > 0 ? is_refused(answer) : strncmp(answer, "HTTP/1.1 200 ", 13) == 0, "%d: %s", more,
                      answer);
    }
    world_end();
}
END_TEST

START_TEST(silence_ends)
{
    struct client *client = NULL;
    int64_t began_ns = 0;

    world_begin(4);
    began_ns = clock_mono_ns(&world.sim.clock);
    client = ask("GET / HT", 8);
    ck_assert(sim_run(&world.sim, INT64_MAX, is_closed, client));
    ck_assert_uint_eq(client->got, 0);
    ck_assert_int_ge(clock_mono_ns(&world.sim.clock) - began_ns, HTTP_TIME_MS_MAX * NS_PER_MS);
    ck_assert_int_lt(clock_mono_ns(&world.sim.clock) - began_ns, 2 * HTTP_TIME_MS_MAX * NS_PER_MS);
    ck_assert_uint_eq(http_server_connections(world.server), 0);
    world_end();
}
END_TEST

START_TEST(a_crowd)
{
    struct client *last = NULL;

    world_begin(5);
    for (uint32_t i = 0; i < HTTP_CONNECTIONS_MAX; i++)
        (void)ask("", 0);
    (void)sim_run(&world.sim, clock_mono_ns(&world.sim.clock) + 1000 * NS_PER_MS, NULL, NULL);
    ck_assert_uint_eq(http_server_connections(world.server), HTTP_CONNECTIONS_MAX);
    last = ask("GET / HTTP/1.1\r\n\r\n", 18);
    ck_assert(sim_run(&world.sim, INT64_MAX, is_closed, last));
    last->answer[last->got] = '\0';
    ck_assert_msg(strncmp(last->answer, "HTTP/1.1 503 ", 13) == 0, "%s", last->answer);
    (void)sim_run(&world.sim, clock_mono_ns(&world.sim.clock) + 2 * HTTP_TIME_MS_MAX * NS_PER_MS, NULL, NULL);
    ck_assert_uint_eq(http_server_connections(world.server), 0);
    ANSWERS("GET / HTTP/1.1\r\n\r\n", "200");
    world_end();
}
END_TEST

static bool is_asking(void *context)
{
    (void)context;
    return world.asking != NULL;
}

/* Who goes away while the answer is being found costs nothing; a stop waits for it. */
START_TEST(gone_meanwhile)
{
    struct client *client = NULL;

    world_begin(6);
    world.hold = true;
    client = ask("GET /slow HTTP/1.1\r\n\r\n", 22);
    ck_assert(sim_run(&world.sim, INT64_MAX, is_asking, NULL));
    net_close(client->stream, true);
    client->stream = NULL;
    (void)sim_run(&world.sim, clock_mono_ns(&world.sim.clock) + 3 * HTTP_TIME_MS_MAX * NS_PER_MS, NULL, NULL);
    ck_assert_uint_eq(http_server_connections(world.server), 1);
    http_server_stop(world.server, was_stopped, NULL);
    (void)sim_run(&world.sim, clock_mono_ns(&world.sim.clock) + 1000 * NS_PER_MS, NULL, NULL);
    ck_assert(!world.stopped);
    http_reply(world.asking, 200, BYTES_LITERAL("{\"late\": true}"));
    ck_assert(sim_run(&world.sim, INT64_MAX, is_stopped, NULL));
    http_server_free(world.server);
    sim_network_deinit(&world.network);
    sim_deinit(&world.sim);
}
END_TEST

/* Answers that nobody reads are bounded together: who asks for as much again is told so, who asks for little is not. */
START_TEST(answers_that_nobody_reads)
{
    enum { LARGE = HTTP_REPLIES_BYTES_MAX / 2 };
    static uint8_t body[LARGE];
    struct client *clients[3];

    world_begin(7);
    world.hold = true;
    for (uint32_t i = 0; i < 3; i++) {
        world.asking = NULL;
        clients[i] = ask("GET /large HTTP/1.1\r\n\r\n", 23);
        ck_assert(sim_run(&world.sim, INT64_MAX, is_asking, NULL));
        if (i < 1)
            net_want(clients[i]->stream, false, false);
        http_reply(world.asking, 200, bytes_of(body, i < 2 ? LARGE : HTTP_SMALL_BYTES_MAX));
    }
    for (uint32_t i = 1; i < 3; i++)
        ck_assert(sim_run(&world.sim, INT64_MAX, is_closed, clients[i]));
    ck_assert_msg(strncmp(clients[1]->answer, "HTTP/1.1 503 ", 13) == 0, "%s", clients[1]->answer);
    ck_assert_msg(strncmp(clients[2]->answer, "HTTP/1.1 200 ", 13) == 0, "%s", clients[2]->answer);
    (void)sim_run(&world.sim, clock_mono_ns(&world.sim.clock) + 2 * HTTP_TIME_MS_MAX * NS_PER_MS, NULL, NULL);
    ck_assert_uint_eq(http_server_connections(world.server), 0);
    world_end();
}
END_TEST

RUN_TESTS("http_server", requests, names_over_loopback, what_is_none, too_large, the_largest_request, silence_ends,
          a_crowd, gone_meanwhile, answers_that_nobody_reads)
