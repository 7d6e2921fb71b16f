/*
 * The least that a broker can do: one thread receives a request, checks its CRC-32C, appends it to a file
 * and acknowledges it; the client on the other core keeps a window of requests under way.
 */
#include <inttypes.h>
#include <isa-l/crc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "yardstick.h"

enum { REQUEST_BYTES = 64 << 10, SMALL_BYTES = 1 << 10, WINDOW = 32, TOTAL_BYTES = 1 << 30 };

struct broker {
    int socket;
    int file;
    size_t request_bytes;
    int64_t requests;
    double cpu_seconds;
};

static void *serve(void *argument)
{
    struct broker *broker = argument;
    size_t room = 256 << 10, held = 0;
    uint8_t *buffer = malloc(room);
    double cpu = yard_cpu_seconds();

    if (buffer == NULL)
        yard_die("memory");
    for (int64_t done = 0; done < broker->requests;) {
        ssize_t got = read(broker->socket, buffer + held, room - held);
        size_t at = 0;
        static const uint8_t acks[256];
        size_t whole = 0;

        if (got <= 0)
            yard_die("read");
        held += (size_t)got;
        for (; held - at >= broker->request_bytes; at += broker->request_bytes, whole++) {
            uint32_t said;

            memcpy(&said, buffer + at, sizeof said);
            if (crc32_iscsi(buffer + at + sizeof said, (int)(broker->request_bytes - sizeof said), 0) != said)
                yard_die("checksum");
        }
        if (whole == 0)
            continue;
        yard_write_all(broker->file, buffer, at); /* all that one read brought, in one write and one answer */
        memmove(buffer, buffer + at, held - at);
        held -= at;
        yard_write_all(broker->socket, acks, whole);
        done += (int64_t)whole;
    }
    broker->cpu_seconds = yard_cpu_seconds() - cpu;
    free(buffer);
    return NULL;
}

/* Seconds for all requests of one size. */
static double run(const char *folder, size_t request_bytes, int64_t requests, double *cpu_seconds)
{
    uint8_t *request = calloc(1, request_bytes), acks[256];
    int64_t window = (int64_t)(WINDOW * (REQUEST_BYTES / request_bytes > 8 ? 8 : REQUEST_BYTES / request_bytes));
    int64_t sent = 0, acked = 0, started;
    struct broker broker;
    pthread_t thread;
    uint32_t crc;
    int ends[2];

    if (request == NULL)
        yard_die("memory");
    crc = crc32_iscsi(request + sizeof crc, (int)(request_bytes - sizeof crc), 0);
    memcpy(request, &crc, sizeof crc);
    yard_socket_pair(ends);
    broker = (struct broker){
        .socket = ends[1], .file = yard_file_new(folder), .request_bytes = request_bytes, .requests = requests};
    pthread_create(&thread, NULL, serve, &broker);
    started = yard_now_ns();
    while (acked < requests) {
        ssize_t got;

        while (sent < requests && sent - acked < window) {
            yard_write_all(ends[0], request, request_bytes);
            sent++;
        }
        got = read(ends[0], acks, sizeof acks);
        if (got <= 0)
            yard_die("acks");
        acked += got;
    }
    started = yard_now_ns() - started;
    pthread_join(thread, NULL);
    *cpu_seconds = broker.cpu_seconds;
    close(ends[0]);
    close(ends[1]);
    close(broker.file);
    free(request);
    return (double)started / 1e9;
}

void yard_perfect_broker(const char *folder, int64_t scale)
{
    int64_t requests = TOTAL_BYTES / REQUEST_BYTES / scale + 1, small = TOTAL_BYTES / SMALL_BYTES / 4 / scale + 1;
    double cpu, small_cpu;
    double seconds = run(folder, REQUEST_BYTES, requests, &cpu);
    double small_seconds = run(folder, SMALL_BYTES, small, &small_cpu);
    double gb = (double)(requests * REQUEST_BYTES) / 1e9;

    printf("{\"gb_per_s\": %.3f, \"cpu_s_per_gb\": %.3f, \"requests_1k_per_s\": %.0f, \"request_bytes\": %d}\n",
           gb / seconds, cpu / gb, (double)small / small_seconds, REQUEST_BYTES);
}
