/*
 * sink: speaks just enough of the protocol for a producer to be content, and throws the records away.
 * What a client reaches against it is what the client can do; a broker's rate is held against that.
 *
 * usage: sink PORT TOPIC       serves until it is killed; prints "ready" once it listens
 */
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { API_PRODUCE = 0, API_LIST_OFFSETS = 2, API_METADATA = 3, API_VERSIONS = 18, ERROR_UNSUPPORTED_VERSION = 35 };
enum { HEAD_BYTES = 8, REPLY_BYTES_MAX = 1024, DISCARD_BYTES = 1 << 20, TOPIC_BYTES_MAX = 200 };

/* What is listed: old versions, whose answers are plain. */
static const int16_t served[][3] = {
    {API_PRODUCE, 0, 7}, {1, 4, 11}, {API_LIST_OFFSETS, 1, 1}, {API_METADATA, 0, 4}, {API_VERSIONS, 0, 0}};

struct sink {
    const char *topic;
    int port;
    int socket;
    int64_t offset;
};

struct reply {
    uint8_t bytes[REPLY_BYTES_MAX];
    size_t size;
};

static void put16(struct reply *reply, int value)
{
    uint16_t big = htobe16((uint16_t)value);

    memcpy(reply->bytes + reply->size, &big, sizeof big);
    reply->size += sizeof big;
}

static void put32(struct reply *reply, int64_t value)
{
    uint32_t big = htobe32((uint32_t)value);

    memcpy(reply->bytes + reply->size, &big, sizeof big);
    reply->size += sizeof big;
}

static void put64(struct reply *reply, int64_t value)
{
    put32(reply, value >> 32);
    put32(reply, value);
}

static void put_string(struct reply *reply, const char *text)
{
    size_t size = strlen(text);

    put16(reply, (int)size);
    memcpy(reply->bytes + reply->size, text, size);
    reply->size += size;
}

static void answer_versions(struct reply *reply, int version)
{
    size_t count = sizeof served / sizeof served[0];

    put16(reply, version == 0 ? 0 : ERROR_UNSUPPORTED_VERSION); /* the client comes again with version 0 */
    put32(reply, (int64_t)count);
    for (size_t i = 0; i < count; i++)
        for (int j = 0; j < 3; j++)
            put16(reply, served[i][j]);
}

static void answer_metadata(struct reply *reply, const struct sink *sink)
{
    put32(reply, 0); /* throttle */
    put32(reply, 1); /* brokers */
    put32(reply, 1);
    put_string(reply, "127.0.0.1");
    put32(reply, sink->port);
    put16(reply, -1); /* no rack */
    put_string(reply, "sink");
    put32(reply, 1); /* controller */
    put32(reply, 1); /* topics */
    put16(reply, 0);
    put_string(reply, sink->topic);
    reply->bytes[reply->size++] = 0; /* not internal */
    put32(reply, 1);                 /* partitions */
    put16(reply, 0);
    put32(reply, 0);
    put32(reply, 1); /* leader */
    for (int list = 0; list < 2; list++) {
        put32(reply, 1);
        put32(reply, 1);
    }
}

static void answer_produce(struct reply *reply, struct sink *sink)
{
    put32(reply, 1);
    put_string(reply, sink->topic);
    put32(reply, 1);
    put32(reply, 0);
    put16(reply, 0);
    put64(reply, sink->offset);
    put64(reply, -1); /* no append time */
    put64(reply, 0);
    put32(reply, 0); /* throttle */
    sink->offset += 1000000;
}

static void answer_list_offsets(struct reply *reply, const struct sink *sink)
{
    put32(reply, 1);
    put_string(reply, sink->topic);
    put32(reply, 1);
    put32(reply, 0);
    put16(reply, 0);
    put64(reply, -1); /* no timestamp */
    put64(reply, sink->offset);
}

static int read_all(int fd, void *bytes, size_t size)
{
    for (uint8_t *at = bytes; size > 0;) {
        ssize_t got = read(fd, at, size);

        if (got <= 0)
            return -1;
        at += got;
        size -= (size_t)got;
    }
    return 0;
}

static int discard_all(int fd, uint8_t *room, size_t size)
{
    while (size > 0) {
        ssize_t got = read(fd, room, size < DISCARD_BYTES ? size : DISCARD_BYTES);

        if (got <= 0)
            return -1;
        size -= (size_t)got;
    }
    return 0;
}

static void *serve(void *argument)
{
    struct sink *sink = argument;
    uint8_t *discard = malloc(DISCARD_BYTES);
    uint32_t size, correlation;
    uint8_t head[HEAD_BYTES];

    if (discard == NULL)
        abort();
    while (read_all(sink->socket, &size, sizeof size) == 0) {
        struct reply reply = {.size = 4};
        int key, version;

        size = be32toh(size);
        if (size < HEAD_BYTES || read_all(sink->socket, head, HEAD_BYTES) < 0 ||
            discard_all(sink->socket, discard, size - HEAD_BYTES) < 0)
            break;
        key = head[0] << 8 | head[1];
        version = head[2] << 8 | head[3];
        memcpy(&correlation, head + 4, sizeof correlation);
        memcpy(reply.bytes + reply.size, &correlation, sizeof correlation);
        reply.size += sizeof correlation;
        if (key == API_VERSIONS)
            answer_versions(&reply, version);
        else if (key == API_METADATA)
            answer_metadata(&reply, sink);
        else if (key == API_LIST_OFFSETS)
            answer_list_offsets(&reply, sink);
        else if (key == API_PRODUCE)
            answer_produce(&reply, sink);
        else
            break;
        size = htobe32((uint32_t)(reply.size - 4));
        memcpy(reply.bytes, &size, sizeof size);
        if (write(sink->socket, reply.bytes, reply.size) != (ssize_t)reply.size)
            break;
    }
    close(sink->socket);
    free(discard);
    free(sink);
    return NULL;
}

int main(int argc, char **argv)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1, port = argc == 3 ? (int)strtol(argv[1], NULL, 10) : 0;

    if (port <= 0 || strlen(argv[2]) > TOPIC_BYTES_MAX) {
        fprintf(stderr, "usage: sink PORT TOPIC\n");
        return 2;
    }
    address.sin_port = htons((uint16_t)port);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) < 0 || listen(listener, 16) < 0) {
        fprintf(stderr, "sink: port %d: %s\n", port, strerror(errno));
        return 1;
    }
    puts("ready");
    fflush(stdout);
    for (;;) {
        struct sink *sink = calloc(1, sizeof *sink);
        pthread_t thread;

        if (sink == NULL)
            return 1;
        *sink = (struct sink){.topic = argv[2], .port = port, .socket = accept(listener, NULL, NULL)};
        if (sink->socket < 0)
            return 1;
        setsockopt(sink->socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        pthread_create(&thread, NULL, serve, sink);
        pthread_detach(thread);
    }
}
