/*
 * yardstick: what this machine can do at most, in small programs without a broker, to hold a broker's
 * figures against. Each prints one JSON line. `scale` divides the amount of work: 1 is full, 100 is tiny.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

int64_t yard_now_ns(void);
double yard_cpu_seconds(void); /* of the calling thread */

/* Says what went wrong, with errno, and ends the program. */
_Noreturn void yard_die(const char *what);

/* Two ends of a TCP connection over the loopback device, with TCP_NODELAY. */
void yard_socket_pair(int ends[2]);

void yard_read_all(int fd, void *bytes, size_t size);
void yard_write_all(int fd, const void *bytes, size_t size);

/* A new file below the folder, already unlinked. */
int yard_file_new(const char *folder);

void yard_echo(int64_t scale);
void yard_sendfile(const char *folder, int64_t scale);
void yard_append(const char *folder, int64_t scale);
void yard_group_commit(const char *folder, int64_t scale);
void yard_perfect_broker(const char *folder, int64_t scale);
