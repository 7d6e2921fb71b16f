/*
 * net_echo: what a request costs in src/net, beside the least that libevent alone needs for it.
 *
 * Question  how many frames of SIZE bytes can one reactor echo to CONNECTIONS clients that each keep DEPTH of them
 *           under way, and what does one cost in CPU? Beside it: the same bytes echoed by a bare libevent callback
 *           (read, write; no frames, no accounting), and what a message from one reactor to another costs.
 * Estimate  a request is one epoll return, one recv, one sendmsg: 6.3 us by limits.md 1.1 (147,000/s); frames, the
 *           exchange and its memory may add 0.3 us. With DEPTH 16: 2.4 M/s bare, ours half of it (0.2 us a frame). A
 *           hop wakes an idle core: 27 us one way; many at once: 0.1 us each.
 * Method    client threads (level-triggered epoll, one thread) and one server thread; both servers in one process, in
 *           turns A B B A, ROUNDS pairs. CPU is the server thread's own (CLOCK_THREAD_CPUTIME_ID).
 *
 *   bench_net_echo 1                 a moment of it all, as tools/test runs it
 *   bench_net_echo [--connections N] [--size BYTES] [--depth N] [--seconds S] [--rounds N] [--pin] | --hop
 */
#include <arpa/inet.h>
#include <errno.h>
#include <event2/event.h>
#include <getopt.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/mem.h"
#include "net/budget.h"
#include "net/connection.h"
#include "net/reactor.h"
#include "net/socket.h"

enum { CONNECTIONS_MAX = 10000, PAIRS_MAX = 101, HOPS = 100000, HOPS_TINY = 100 };

struct options {
    int connections;
    int size;
    int depth;
    double seconds;
    int rounds;
    bool hop;
    bool pin;
    bool tiny;
};

struct result {
    double per_second;
    double cpu_us;
};

static struct clock real_clock;

static double thread_cpu_s(pthread_t thread)
{
    struct timespec spent;
    clockid_t id;

    if (pthread_getcpuclockid(thread, &id) != 0 || clock_gettime(id, &spent) != 0)
        return 0;
    return (double)spent.tv_sec + (double)spent.tv_nsec / 1e9;
}

static void pin(bool wanted, int cpu)
{
    cpu_set_t set;

    if (!wanted)
        return;
    CPU_ZERO(&set);
    CPU_SET((size_t)cpu, &set);
    pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
}

/* --- the bare server: libevent and nothing else --- */

struct bare {
    struct event_base *base;
    int listen_fd;
    pthread_t thread;
    atomic_bool stopping;
    bool pin;
};

struct bare_connection {
    struct event *event;
};

static void bare_readable(int fd, short what, void *argument)
{
    struct bare_connection *connection = argument;
    static _Thread_local char bytes[64 * 1024];
    ssize_t got = recv(fd, bytes, sizeof(bytes), 0);

    (void)what;
    if (got <= 0) {
        event_free(connection->event);
        close(fd);
        free(connection);
        return;
    }
    if (send(fd, bytes, (size_t)got, MSG_NOSIGNAL) != got)
        abort(); /* the yardstick's clients never leave that much unread */
}

static void bare_acceptable(int fd, short what, void *argument)
{
    struct bare *bare = argument;
    int accepted = accept4(fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    struct bare_connection *connection = NULL;

    (void)what;
    if (accepted < 0)
        return;
    connection = malloc(sizeof(*connection));
    connection->event = event_new(bare->base, accepted, EV_READ | EV_PERSIST, bare_readable, connection);
    event_add(connection->event, NULL);
}

static void *bare_main(void *argument)
{
    struct bare *bare = argument;
    struct timeval tick = {.tv_usec = 100000};

    pin(bare->pin, 0);
    while (!atomic_load(&bare->stopping)) {
        event_base_loopexit(bare->base, &tick);
        event_base_loop(bare->base, 0);
    }
    return NULL;
}

static uint16_t bare_start(struct bare *bare, bool pinned)
{
    struct event_config *config = event_config_new();
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);
    int one = 1;

    bare->pin = pinned;
    event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK);
    bare->base = event_base_new_with_config(config);
    event_config_free(config);
    bare->listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    setsockopt(bare->listen_fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    setsockopt(bare->listen_fd, IPPROTO_TCP, TCP_CONGESTION, "cubic", 5);
    if (bind(bare->listen_fd, (struct sockaddr *)&address, size) != 0 || listen(bare->listen_fd, 1024) != 0 ||
        getsockname(bare->listen_fd, (struct sockaddr *)&address, &size) != 0)
        abort();
    event_add(event_new(bare->base, bare->listen_fd, EV_READ | EV_PERSIST, bare_acceptable, bare), NULL);
    pthread_create(&bare->thread, NULL, bare_main, bare);
    return ntohs(address.sin_port);
}

/* --- ours --- */

struct ours {
    struct reactor *reactor;
    struct net *net;
    struct budget budget;
    struct connections *connections;
    struct connection_listener listener;
    struct log_sink_fd sink;
    struct log log;
    struct loop_task pin_task;
    pthread_t thread;
    atomic_bool pinned;
};

static void echo(void *context, struct connection *connection, struct exchange *exchange)
{
    struct slice slice = slice_of(exchange->frame, exchange->frame_size);

    (void)context;
    (void)connection;
    exchange_reply(exchange, &slice, 1, NULL);
}

static void note_thread(struct loop_task *task)
{
    struct ours *ours = LIST_ENTRY(task, struct ours, pin_task);

    ours->thread = pthread_self();
    pin(true, 0);
    atomic_store(&ours->pinned, true);
}

static void note_thread_unpinned(struct loop_task *task)
{
    struct ours *ours = LIST_ENTRY(task, struct ours, pin_task);

    ours->thread = pthread_self();
    atomic_store(&ours->pinned, true);
}

static uint16_t ours_start(struct ours *ours, bool pinned)
{
    struct connection_handler handler = {.execute = echo};
    struct reactor_config config = {.name = "reactor-0", .clock = &real_clock};
    struct net_address any = {.host = "127.0.0.1"};
    struct net_address bound;
    struct net_listener *listener = NULL;
    struct loop *loop = NULL;

    log_sink_fd_init(&ours->sink, 2);
    ours->log = (struct log){.sink = &ours->sink.sink, .clock = &real_clock, .node_id = -1, .room = "net"};
    budget_init(&ours->budget, 256 << 20, 32 << 20, 100 << 20);
    if (reactor_new(&config, &ours->reactor) != ERR_OK || socket_net_new(&ours->log, NULL, &ours->net) != ERR_OK)
        abort();
    loop = reactor_loop(ours->reactor);
    if (connections_new(loop, &handler, &ours->budget, NULL, &ours->log, &ours->connections) != ERR_OK)
        abort();
    ours->listener = (struct connection_listener){.loops = &ours->connections,
                                                  .loop_count = 1,
                                                  .name = "PLAINTEXT",
                                                  .request_bytes_max = 100 << 20,
                                                  .idle_ms_max = 600000};
    if (net_listen(ours->net, &any, &loop, 1, connections_accepted, &ours->listener, &listener, &bound) != ERR_OK)
        abort();
    ours->pin_task.run = pinned ? note_thread : note_thread_unpinned;
    if (reactor_start(ours->reactor) != ERR_OK)
        abort();
    loop_post(loop, &ours->pin_task);
    while (!atomic_load(&ours->pinned))
        usleep(1000);
    return bound.port;
}

/* --- the clients --- */

struct client {
    int fd;
    size_t expected; /* bytes of answers still to come for the frames under way */
};

static void fill_frames(uint8_t *frames, int size, int depth)
{
    for (int i = 0; i < depth; i++) {
        uint8_t *frame = frames + (size_t)i * (size_t)(4 + size);

        memset(frame, 'x', (size_t)(4 + size));
        frame[0] = (uint8_t)(size >> 24);
        frame[1] = (uint8_t)(size >> 16);
        frame[2] = (uint8_t)(size >> 8);
        frame[3] = (uint8_t)size;
    }
}

static void send_whole(int fd, const uint8_t *data, size_t size)
{
    while (size > 0) {
        ssize_t sent = send(fd, data, size, MSG_NOSIGNAL);

        if (sent < 0 && errno == EAGAIN)
            continue;
        if (sent <= 0)
            abort();
        data += sent;
        size -= (size_t)sent;
    }
}

/* Runs the clients for that long; frames answered in a second, and the server's CPU time for one. */
static struct result run_clients(const struct options *options, uint16_t port, pthread_t server)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    size_t burst = (size_t)options->depth * (size_t)(4 + options->size);
    struct client *clients = calloc((size_t)options->connections, sizeof(*clients));
    uint8_t *frames = malloc(burst);
    uint8_t *room = malloc(1 << 20);
    int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    uint64_t answered = 0;
    int64_t start_ns = 0;
    int64_t end_ns = 0;
    double cpu_s = 0;

    fill_frames(frames, options->size, options->depth);
    for (int i = 0; i < options->connections; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = &clients[i]};
        int one = 1;

        clients[i].fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        setsockopt(clients[i].fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        if (connect(clients[i].fd, (struct sockaddr *)&to, sizeof(to)) != 0)
            abort();
        epoll_ctl(epoll_fd, EPOLL_CTL_ADD, clients[i].fd, &event);
    }
    start_ns = clock_mono_ns(&real_clock);
    end_ns = start_ns + (int64_t)(options->seconds * 1e9);
    cpu_s = thread_cpu_s(server);
    for (int i = 0; i < options->connections; i++) {
        send_whole(clients[i].fd, frames, burst);
        clients[i].expected = burst;
    }
    while (clock_mono_ns(&real_clock) < end_ns) {
        struct epoll_event events[256];
        int count = epoll_wait(epoll_fd, events, 256, 100);

        for (int i = 0; i < count; i++) {
            struct client *client = events[i].data.ptr;
            ssize_t got = recv(client->fd, room, 1 << 20, MSG_DONTWAIT);

            if (got <= 0)
                abort();
            client->expected -= (size_t)got;
            if (client->expected > 0)
                continue;
            answered += (uint64_t)options->depth;
            send_whole(client->fd, frames, burst);
            client->expected = burst;
        }
    }
    cpu_s = thread_cpu_s(server) - cpu_s;
    end_ns = clock_mono_ns(&real_clock);
    for (int i = 0; i < options->connections; i++)
        close(clients[i].fd);
    close(epoll_fd);
    free(room);
    free(frames);
    free(clients);
    return (struct result){.per_second = (double)answered / ((double)(end_ns - start_ns) / 1e9),
                           .cpu_us = answered == 0 ? 0 : cpu_s * 1e6 / (double)answered};
}

/* --- the hop --- */

struct hop {
    struct loop_task there;
    struct loop_task back;
    struct loop *loops[2];
    uint32_t left;
    atomic_bool done;
    int64_t idle_ns; /* pause before each round, so that the other core sleeps */
    int64_t sent_ns;
    int64_t *took_ns;
};

static void hop_there(struct loop_task *task)
{
    struct hop *hop = LIST_ENTRY(task, struct hop, there);

    loop_post(hop->loops[0], &hop->back);
}

static void hop_back(struct loop_task *task)
{
    struct hop *hop = LIST_ENTRY(task, struct hop, back);
    int64_t now_ns = clock_mono_ns(&real_clock);

    hop->took_ns[--hop->left] = (now_ns - hop->sent_ns) / 2;
    if (hop->left == 0) {
        atomic_store(&hop->done, true);
        return;
    }
    hop->sent_ns = clock_mono_ns(&real_clock);
    loop_post(hop->loops[1], &hop->there);
}

static atomic_uint counted;

static void count_task(struct loop_task *task)
{
    (void)task;
    atomic_fetch_add_explicit(&counted, 1, memory_order_relaxed);
}

static int compare_ns(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

static void measure_hops(int64_t spin_ns, uint32_t count)
{
    static struct loop_task tasks[HOPS];
    struct reactor *reactors[2];
    struct hop hop = {.there.run = hop_there, .back.run = hop_back, .left = count};
    int64_t start_ns = 0;

    hop.took_ns = malloc(count * sizeof(int64_t));
    for (uint32_t i = 0; i < 2; i++) {
        struct reactor_config config = {.name = "reactor", .index = i, .clock = &real_clock, .spin_ns = spin_ns};

        if (reactor_new(&config, &reactors[i]) != ERR_OK || reactor_start(reactors[i]) != ERR_OK)
            abort();
        hop.loops[i] = reactor_loop(reactors[i]);
    }
    hop.sent_ns = clock_mono_ns(&real_clock);
    loop_post(hop.loops[1], &hop.there);
    while (!atomic_load(&hop.done))
        usleep(1000);
    qsort(hop.took_ns, count, sizeof(int64_t), compare_ns);
    printf("hop one way, spin %lld us: p50 %.1f us, p99 %.1f us, p99.9 %.1f us\n", (long long)(spin_ns / 1000),
           (double)hop.took_ns[count / 2] / 1e3, (double)hop.took_ns[(uint64_t)count * 99 / 100] / 1e3,
           (double)hop.took_ns[(uint64_t)count * 999 / 1000] / 1e3);
    atomic_store(&counted, 0);
    start_ns = clock_mono_ns(&real_clock);
    for (uint32_t i = 0; i < count; i++) {
        tasks[i].run = count_task;
        loop_post(hop.loops[1], &tasks[i]);
    }
    printf("messages posted one after the other: %.3f us each to post\n",
           (double)(clock_mono_ns(&real_clock) - start_ns) / count / 1e3);
    while (atomic_load(&counted) < count)
        usleep(100);
    for (int i = 0; i < 2; i++) {
        reactor_stop(reactors[i]);
        reactor_join(reactors[i]);
        reactor_free(reactors[i]);
    }
    free(hop.took_ns);
}

/* --- --- */

static int compare_double(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x > y) - (x < y);
}

static void print_row(const char *name, const struct result *results, int count)
{
    double per_second[2 * PAIRS_MAX];
    double cpu_us[2 * PAIRS_MAX];

    for (int i = 0; i < count; i++) {
        per_second[i] = results[i].per_second;
        cpu_us[i] = results[i].cpu_us;
    }
    qsort(per_second, (size_t)count, sizeof(double), compare_double);
    qsort(cpu_us, (size_t)count, sizeof(double), compare_double);
    printf("%-10s %9.0f frames/s [%.0f..%.0f]  server CPU %.3f us a frame [%.3f..%.3f]\n", name, per_second[count / 2],
           per_second[0], per_second[count - 1], cpu_us[count / 2], cpu_us[0], cpu_us[count - 1]);
}

static struct options parse(int argc, char **argv)
{
    static const struct option names[] = {
        {"connections", required_argument, NULL, 'c'},
        {"size", required_argument, NULL, 's'},
        {"depth", required_argument, NULL, 'd'},
        {"seconds", required_argument, NULL, 't'},
        {"rounds", required_argument, NULL, 'r'},
        {"hop", no_argument, NULL, 'h'},
        {"pin", no_argument, NULL, 'p'},
        {0},
    };
    struct options options = {.connections = 100, .size = 64, .depth = 1, .seconds = 1, .rounds = 7};
    int name = 0;

    if (argc == 2 && strcmp(argv[1], "1") == 0)
        return (struct options){.connections = 10, .size = 64, .depth = 4, .seconds = 0.05, .rounds = 1, .tiny = true};
    while ((name = getopt_long(argc, argv, "", names, NULL)) != -1) {
        switch (name) {
        case 'c':
            options.connections = (int)strtol(optarg, NULL, 10);
            break;
        case 's':
            options.size = (int)strtol(optarg, NULL, 10);
            break;
        case 'd':
            options.depth = (int)strtol(optarg, NULL, 10);
            break;
        case 't':
            options.seconds = strtod(optarg, NULL);
            break;
        case 'r':
            options.rounds = (int)strtol(optarg, NULL, 10);
            break;
        case 'h':
            options.hop = true;
            break;
        case 'p':
            options.pin = true;
            break;
        default:
            exit(2);
        }
    }
    if (options.connections < 1 || options.connections > CONNECTIONS_MAX || options.size < 8 || options.depth < 1 ||
        options.rounds < 1 || options.rounds > PAIRS_MAX || (int64_t)options.depth * (options.size + 4) > 128 * 1024) {
        fprintf(stderr,
                "bench_net_echo: connections 1..%d, size at least 8, rounds 1..%d, depth * (size + 4) up to 128 KiB\n",
                CONNECTIONS_MAX, PAIRS_MAX);
        exit(2);
    }
    return options;
}

int main(int argc, char **argv)
{
    struct options options = parse(argc, argv);
    struct result results[2][2 * PAIRS_MAX];
    static struct bare bare;
    static struct ours ours;
    uint16_t ports[2];
    pthread_t threads[2];

    clock_init_real(&real_clock);
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (options.hop || options.tiny) {
        uint32_t hops = options.tiny ? HOPS_TINY : HOPS;

        measure_hops(0, hops);
        measure_hops(50000, hops);
        if (!options.tiny)
            return 0;
    }
    ports[0] = bare_start(&bare, options.pin);
    ports[1] = ours_start(&ours, options.pin);
    threads[0] = bare.thread;
    threads[1] = ours.thread;
    pin(options.pin, 1);
    printf("connections=%d size_bytes=%d depth=%d seconds=%.1f pairs=%d pinned=%d\n", options.connections, options.size,
           options.depth, options.seconds, options.rounds, options.pin);
    for (int i = 0; i < 2 * options.rounds; i++) {
        int first = i % 2; /* A B, then B A */

        results[first][i] = run_clients(&options, ports[first], threads[first]);
        results[1 - first][i] = run_clients(&options, ports[1 - first], threads[1 - first]);
    }
    print_row("libevent", results[0], 2 * options.rounds);
    print_row("src/net", results[1], 2 * options.rounds);
    /* The process ends here: the yardstick's server has no graceful end, and ours is shown by tests/net. */
    return 0;
}
