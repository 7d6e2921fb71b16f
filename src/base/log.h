/*
 * log: lines for people. One event, one line: the fact, then key=value, units in the keys. A struct log carries node,
 * room, clock and sink, so that three nodes in one process can be told apart; its level changes at run time.
 *
 *   2026-01-31T12:00:00.123Z INFO  node=1 room=partition segment rolled topic=t partition=0 base_offset=120
 *
 * Threads  any; a line is written whole. Never blocks a reactor for long: the sink is a descriptor, errors are ignored.
 */
#ifndef OTTLA_BASE_LOG_H
#define OTTLA_BASE_LOG_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/clock.h"

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };

struct log_sink {
    /* One line without its newline, text of size bytes. */
    void (*write)(struct log_sink *sink, enum log_level level, const char *line, uint32_t size);
};

struct log {
    struct log_sink *sink;
    struct clock *clock;
    int32_t node_id;
    const char *room;
    _Atomic(int) level; /* lines below it are not made */
};

/* At most this many lines of one rate in its window; the first after a gap says how many were left out. All-zero is
 * ready for use. */
struct log_rate {
    _Atomic(int64_t) window_start_ns;
    _Atomic(uint32_t) lines;
    _Atomic(uint32_t) left_out;
};

void log_line(struct log *log, enum log_level level, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* For what a client can cause at will: LOG_RATE_LINES_MAX lines a second for each rate. */
void log_line_rated(struct log *log, struct log_rate *rate, enum log_level level, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#define log_debug(log, ...)                                                                                            \
    do {                                                                                                               \
        if (atomic_load_explicit(&(log)->level, memory_order_relaxed) <= LOG_DEBUG)                                    \
            log_line((log), LOG_DEBUG, __VA_ARGS__);                                                                   \
    } while (0)
#define log_info(log, ...)  log_line((log), LOG_INFO, __VA_ARGS__)
#define log_warn(log, ...)  log_line((log), LOG_WARN, __VA_ARGS__)
#define log_error(log, ...) log_line((log), LOG_ERROR, __VA_ARGS__)

/* Lines go to a descriptor (2 for standard error). */
struct log_sink_fd {
    struct log_sink sink;
    int fd;
};
void log_sink_fd_init(struct log_sink_fd *sink, int fd);

#endif
