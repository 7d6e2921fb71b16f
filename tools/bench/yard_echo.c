/* 64 bytes there and back: one connection for the latency, a hundred for the rate of one serving core. */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "histogram.h"
#include "yardstick.h"

enum { MESSAGE_BYTES = 64, CONNECTIONS = 100, PING_COUNT = 50000, ECHO_COUNT = 1000000 };

struct server {
    int poller;
    int64_t messages; /* to answer before it ends */
    double cpu_seconds;
};

static int poll_all(const int *sockets, int count)
{
    int poller = epoll_create1(0);

    if (poller < 0)
        yard_die("epoll");
    for (int i = 0; i < count; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.fd = sockets[i]};

        epoll_ctl(poller, EPOLL_CTL_ADD, sockets[i], &event);
    }
    return poller;
}

static void *serve(void *argument)
{
    struct server *server = argument;
    struct epoll_event events[CONNECTIONS];
    char message[MESSAGE_BYTES];

    for (int64_t done = 0; done < server->messages;) {
        int ready = epoll_wait(server->poller, events, CONNECTIONS, -1);

        for (int i = 0; i < ready; i++, done++) {
            yard_read_all(events[i].data.fd, message, sizeof message);
            yard_write_all(events[i].data.fd, message, sizeof message);
        }
    }
    server->cpu_seconds = yard_cpu_seconds();
    return NULL;
}

/* Each of `connections` has one message under way at a time. */
static double run(int connections, int64_t messages, struct histogram *round_trip_us, double *cpu_us)
{
    int near[CONNECTIONS], far[CONNECTIONS];
    struct server server = {.messages = messages};
    struct epoll_event events[CONNECTIONS];
    char message[MESSAGE_BYTES] = {0};
    int64_t sent = 0, done = 0, started, sent_at = 0;
    pthread_t thread;
    int poller;

    for (int i = 0; i < connections; i++) {
        int ends[2];

        yard_socket_pair(ends);
        near[i] = ends[0];
        far[i] = ends[1];
    }
    server.poller = poll_all(far, connections);
    poller = poll_all(near, connections);
    pthread_create(&thread, NULL, serve, &server);
    started = yard_now_ns();
    for (int i = 0; i < connections && sent < messages; i++, sent++) {
        sent_at = yard_now_ns();
        yard_write_all(near[i], message, sizeof message);
    }
    while (done < messages) {
        int ready = epoll_wait(poller, events, CONNECTIONS, -1);

        for (int i = 0; i < ready; i++) {
            yard_read_all(events[i].data.fd, message, sizeof message);
            done++;
            if (connections == 1)
                histogram_add(round_trip_us, (yard_now_ns() - sent_at) / 1000);
            if (sent < messages) {
                sent_at = yard_now_ns();
                yard_write_all(events[i].data.fd, message, sizeof message);
                sent++;
            }
        }
    }
    started = yard_now_ns() - started;
    pthread_join(thread, NULL);
    for (int i = 0; i < connections; i++) {
        close(near[i]);
        close(far[i]);
    }
    close(poller);
    close(server.poller);
    *cpu_us = server.cpu_seconds * 1e6 / (double)messages;
    return (double)messages * 1e9 / (double)started;
}

void yard_echo(int64_t scale)
{
    static struct histogram round_trip_us;
    double cpu_us;
    double rate;

    run(1, PING_COUNT / scale + 1, &round_trip_us, &cpu_us);
    rate = run(CONNECTIONS, ECHO_COUNT / scale + 1, NULL, &cpu_us);
    printf("{\"messages_per_s\": %.0f, \"server_cpu_us\": %.2f, \"p50_us\": %" PRId64 ", \"p99_us\": %" PRId64 "}\n",
           rate, cpu_us, histogram_at(&round_trip_us, 0.5), histogram_at(&round_trip_us, 0.99));
}
