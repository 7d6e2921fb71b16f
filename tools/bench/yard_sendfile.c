/* A file in the page cache to a socket, a megabyte a call: the rate that a fetch of hot data cannot pass. */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/sendfile.h>
#include <unistd.h>

#include "yardstick.h"

enum { CALL_BYTES = 1 << 20, FILE_CALLS = 256, ROUNDS = 16 };

struct receiver {
    int socket;
    int64_t bytes;
};

static void *receive(void *argument)
{
    struct receiver *receiver = argument;
    uint8_t *buffer = malloc(CALL_BYTES);

    if (buffer == NULL)
        yard_die("memory");
    for (int64_t left = receiver->bytes; left > 0;) {
        ssize_t got = read(receiver->socket, buffer, CALL_BYTES);

        if (got <= 0)
            yard_die("receive");
        left -= got;
    }
    free(buffer);
    return NULL;
}

void yard_sendfile(const char *folder, int64_t scale)
{
    int64_t calls = FILE_CALLS / scale + 1;
    uint8_t *chunk = calloc(1, CALL_BYTES);
    int file = yard_file_new(folder), ends[2];
    struct receiver receiver;
    pthread_t thread;
    int64_t started;
    double cpu;

    if (chunk == NULL)
        yard_die("memory");
    for (int64_t i = 0; i < calls; i++)
        yard_write_all(file, chunk, CALL_BYTES);
    yard_socket_pair(ends);
    receiver = (struct receiver){.socket = ends[1], .bytes = calls * ROUNDS * CALL_BYTES};
    pthread_create(&thread, NULL, receive, &receiver);
    started = yard_now_ns();
    cpu = yard_cpu_seconds();
    for (int round = 0; round < ROUNDS; round++) {
        for (off_t at = 0; at < calls * CALL_BYTES;) {
            if (sendfile(ends[0], file, &at, CALL_BYTES) <= 0)
                yard_die("sendfile");
        }
    }
    cpu = yard_cpu_seconds() - cpu;
    pthread_join(thread, NULL);
    started = yard_now_ns() - started;
    printf("{\"gb_per_s\": %.3f, \"sender_cpu_s_per_gb\": %.3f, \"bytes\": %" PRId64 "}\n",
           (double)receiver.bytes / (double)started, cpu * 1e9 / (double)receiver.bytes, receiver.bytes);
    close(file);
    close(ends[0]);
    close(ends[1]);
    free(chunk);
}
