/*
 * producers: many producers that each wait for their acknowledgement before they send again, as synchronous clients do.
 * One JSON line on stdout.
 *
 *   producers ADDRESS PORT TOPIC PARTITIONS PRODUCERS BYTES SECONDS
 *
 * Each has a connection of its own and sends one batch of one record to partition (its number mod PARTITIONS), with
 * acks=all. The first fifth of the time is not counted. The protocol is spoken here, so that what is measured is the
 * broker and not a client's own queues.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "histogram.h"
#include "protocol/batch_build.h"

enum {
    PRODUCERS_MAX = 10000,
    BYTES_MAX = 1 << 20,
    REPLY_BYTES_MAX = 4096,
    EVENTS = 256,
    LEADER_TRIES = 3000, /* each 10 ms: a topic that was just made has no leader yet */
};

struct producer {
    int fd;
    uint8_t *frame; /* the same each time */
    size_t frame_bytes;
    size_t sent;
    uint8_t reply[REPLY_BYTES_MAX];
    size_t got;
    int64_t began_ns;
};

static int64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void die(const char *what, const char *why)
{
    fprintf(stderr, "producers: %s: %s\n", what, why);
    exit(1);
}

static uint32_t number(const char *text, uint32_t most)
{
    char *end = NULL;
    unsigned long value = strtoul(text, &end, 10);

    if (*end != '\0' || value < 1 || value > most)
        die("not a number in range", text);
    return (uint32_t)value;
}

/* --- the frame --- */

static uint8_t *put(uint8_t *at, uint64_t value, int bytes)
{
    for (int i = bytes - 1; i >= 0; i--)
        *at++ = (uint8_t)(value >> (8 * i));
    return at;
}

static uint8_t *put_text(uint8_t *at, const char *text)
{
    size_t size = strlen(text);

    at = put(at, size, 2);
    memcpy(at, text, size);
    return at + size;
}

/* Produce v7. */
static void frame_make(struct producer *producer, const char *topic, uint32_t partition, uint32_t bytes)
{
    static uint8_t value[BYTES_MAX];
    struct batch_builder builder;
    struct batch_spec spec;
    uint8_t *batch = NULL;
    size_t size = 0;
    uint8_t *at = NULL;

    for (uint32_t i = 0; i < bytes; i++)
        value[i] = (uint8_t)(i * 2654435761u >> 24);
    batch_spec_init(&spec);
    batch_builder_init(&builder, &spec);
    if (batch_builder_append(&builder, 1700000000000, (struct bytes){0}, bytes_of(value, bytes), NULL, 0) != ERR_OK ||
        batch_builder_finish(&builder, &batch, &size) != ERR_OK)
        die("batch", "not made");
    producer->frame = malloc(size + strlen(topic) + 128);
    at = put(producer->frame + 4, 0, 2);
    at = put(at, 7, 2);
    at = put(at, 1, 4);
    at = put_text(at, "producers");
    at = put(at, UINT16_MAX, 2); /* no transactional id */
    at = put(at, UINT16_MAX, 2); /* acks */
    at = put(at, 30000, 4);
    at = put(at, 1, 4);
    at = put_text(at, topic);
    at = put(at, 1, 4);
    at = put(at, partition, 4);
    at = put(at, size, 4);
    memcpy(at, batch, size);
    producer->frame_bytes = (size_t)(at - producer->frame) + size;
    (void)put(producer->frame, producer->frame_bytes - 4, 4);
    batch_builder_deinit(&builder);
}

/* --- one exchange at a time --- */

static int connect_to(const char *address, uint16_t port)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
    int one = 1;
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    if (inet_pton(AF_INET, address, &to.sin_addr) != 1)
        die("no address", address);
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof(to)) != 0)
        die("connect", strerror(errno));
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    return fd;
}

static void write_all(int fd, const uint8_t *data, size_t size)
{
    while (size > 0) {
        ssize_t moved = write(fd, data, size);

        if (moved <= 0)
            die("write", strerror(errno));
        data += moved;
        size -= (size_t)moved;
    }
}

/* True: the reply is whole. */
static int reply_is_whole(const struct producer *producer)
{
    size_t size = 0;

    if (producer->got < 4)
        return 0;
    size = (size_t)producer->reply[0] << 24 | (size_t)producer->reply[1] << 16 | (size_t)producer->reply[2] << 8 |
           producer->reply[3];
    return producer->got == size + 4;
}

static void reply_read(struct producer *producer)
{
    ssize_t moved = read(producer->fd, producer->reply + producer->got, sizeof(producer->reply) - producer->got);

    if (moved <= 0)
        die("read", moved == 0 ? "closed" : strerror(errno));
    producer->got += (size_t)moved;
}

/* Length, correlation id, topics, name, partitions, index, then the error. */
static int reply_error(const struct producer *producer, size_t topic_bytes)
{
    const uint8_t *at = producer->reply + 4 + 4 + 4 + 2 + topic_bytes + 4 + 4;

    return at[0] << 8 | at[1];
}

static void send_again(struct producer *producer)
{
    producer->got = 0;
    producer->began_ns = now_ns();
    write_all(producer->fd, producer->frame, producer->frame_bytes);
}

/* Asking for the topic makes it; its partitions take a moment to be led. */
static void await_partition(struct producer *producer, const char *topic)
{
    uint8_t ask[512];
    uint8_t *at = put(ask + 4, 3, 2);

    at = put(at, 4, 2);
    at = put(at, 1, 4);
    at = put_text(at, "producers");
    at = put(at, 1, 4);
    at = put_text(at, topic);
    at = put(at, 1, 1);
    (void)put(ask, (uint64_t)(at - ask) - 4, 4);
    for (int i = 0; i < LEADER_TRIES; i++) {
        static uint8_t sink[1 << 20];
        size_t got = 0;

        write_all(producer->fd, ask, (size_t)(at - ask));
        do {
            ssize_t moved = read(producer->fd, sink + got, sizeof(sink) - got);

            if (moved <= 0)
                die("metadata", "closed");
            got += (size_t)moved;
        } while (got < 4 || got < 4 + ((size_t)sink[0] << 24 | (size_t)sink[1] << 16 | (size_t)sink[2] << 8 | sink[3]));
        send_again(producer);
        while (!reply_is_whole(producer))
            reply_read(producer);
        if (reply_error(producer, strlen(topic)) == 0)
            return;
        usleep(10000);
    }
    die("topic", "no leader came");
}

int main(int argc, char **argv)
{
    static struct producer producers[PRODUCERS_MAX];
    static struct histogram latency_us;
    struct epoll_event events[EVENTS];
    uint32_t partitions, count, bytes;
    int64_t begin, counted_from, until, acked = 0, failed = 0, last = 0;
    const char *topic;
    int epoll = epoll_create1(0);

    if (argc != 8)
        die("usage", "producers ADDRESS PORT TOPIC PARTITIONS PRODUCERS BYTES SECONDS");
    topic = argv[3];
    partitions = number(argv[4], 100000);
    count = number(argv[5], PRODUCERS_MAX);
    bytes = number(argv[6], BYTES_MAX);
    for (uint32_t i = 0; i < count; i++) {
        struct producer *producer = &producers[i];
        struct epoll_event event = {.events = EPOLLIN, .data.u32 = i};

        producer->fd = connect_to(argv[1], (uint16_t)number(argv[2], 65535));
        frame_make(producer, topic, i % partitions, bytes);
        await_partition(producer, topic);
        epoll_ctl(epoll, EPOLL_CTL_ADD, producer->fd, &event);
    }
    begin = now_ns();
    until = begin + (int64_t)number(argv[7], 3600) * 1000000000;
    counted_from = begin + (until - begin) / 5;
    for (uint32_t i = 0; i < count; i++)
        send_again(&producers[i]);
    while (last < until) {
        int ready = epoll_wait(epoll, events, EVENTS, 1000);

        for (int i = 0; i < ready; i++) {
            struct producer *producer = &producers[events[i].data.u32];

            reply_read(producer);
            if (!reply_is_whole(producer))
                continue;
            last = now_ns();
            if (reply_error(producer, strlen(topic)) != 0) {
                failed++;
            } else if (producer->began_ns >= counted_from) {
                acked++;
                histogram_add(&latency_us, (last - producer->began_ns) / 1000);
            }
            send_again(producer);
        }
        if (ready == 0)
            die("broker", "no reply in a second");
    }
    printf("{\"records_per_s\": %.1f, \"p50_us\": %" PRId64 ", \"p99_us\": %" PRId64 ", \"p999_us\": %" PRId64
           ", \"max_us\": %" PRId64 ", \"acked\": %" PRId64 ", \"failed\": %" PRId64 "}\n",
           (double)acked / ((double)(until - counted_from) / 1e9), histogram_at(&latency_us, 0.5),
           histogram_at(&latency_us, 0.99), histogram_at(&latency_us, 0.999), latency_us.greatest, acked, failed);
    return failed == 0 ? 0 : 1;
}
