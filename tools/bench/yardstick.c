/* usage: yardstick echo|sendfile|append|group_commit|perfect_broker FOLDER [SCALE] */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "yardstick.h"

int64_t yard_now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

double yard_cpu_seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

_Noreturn void yard_die(const char *what)
{
    fprintf(stderr, "yardstick: %s: %s\n", what, strerror(errno));
    exit(1);
}

void yard_socket_pair(int ends[2])
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1;

    if (listener < 0 || bind(listener, (struct sockaddr *)&address, size) < 0 || listen(listener, 1) < 0 ||
        getsockname(listener, (struct sockaddr *)&address, &size) < 0)
        yard_die("listen");
    ends[0] = socket(AF_INET, SOCK_STREAM, 0);
    if (ends[0] < 0 || connect(ends[0], (struct sockaddr *)&address, size) < 0)
        yard_die("connect");
    ends[1] = accept(listener, NULL, NULL);
    if (ends[1] < 0)
        yard_die("accept");
    close(listener);
    for (int i = 0; i < 2; i++) {
        setsockopt(ends[i], IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        setsockopt(ends[i], IPPROTO_TCP, TCP_CONGESTION, "cubic", 5); /* BBR halves loopback's rate */
    }
}

void yard_read_all(int fd, void *bytes, size_t size)
{
    uint8_t *at = bytes;

    while (size > 0) {
        ssize_t got = read(fd, at, size);

        if (got <= 0)
            yard_die("read");
        at += got;
        size -= (size_t)got;
    }
}

void yard_write_all(int fd, const void *bytes, size_t size)
{
    const uint8_t *at = bytes;

    while (size > 0) {
        ssize_t put = write(fd, at, size);

        if (put <= 0)
            yard_die("write");
        at += put;
        size -= (size_t)put;
    }
}

int yard_file_new(const char *folder)
{
    char path[4096];
    int fd;

    snprintf(path, sizeof path, "%s/yardstick-XXXXXX", folder);
    fd = mkstemp(path);
    if (fd < 0)
        yard_die(path);
    unlink(path);
    return fd;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    const char *folder = argc > 2 ? argv[2] : ".";
    int64_t scale = argc > 3 ? strtoll(argv[3], NULL, 10) : 1;

    if (scale < 1)
        scale = 1;
    if (strcmp(what, "echo") == 0) {
        yard_echo(scale);
    } else if (strcmp(what, "sendfile") == 0) {
        yard_sendfile(folder, scale);
    } else if (strcmp(what, "append") == 0) {
        yard_append(folder, scale);
    } else if (strcmp(what, "group_commit") == 0) {
        yard_group_commit(folder, scale);
    } else if (strcmp(what, "perfect_broker") == 0) {
        yard_perfect_broker(folder, scale);
    } else {
        fprintf(stderr, "usage: yardstick echo|sendfile|append|group_commit|perfect_broker FOLDER [SCALE]\n");
        return 2;
    }
    return 0;
}
