#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/limits.h"

#define RATE_WINDOW_NS INT64_C(1000000000)

static const char *const level_names[] = {
    [LOG_DEBUG] = "DEBUG",
    [LOG_INFO] = "INFO ",
    [LOG_WARN] = "WARN ",
    [LOG_ERROR] = "ERROR",
};

/* A line under construction; size < room always, and a text that did not fit shows as cut. */
struct line {
    char text[LOG_LINE_BYTES_MAX + 1];
    uint32_t size;
    bool cut;
};

__attribute__((format(printf, 2, 0))) static void add_args(struct line *line, const char *format, va_list args)
{
    size_t room = sizeof(line->text) - line->size;
    int want = vsnprintf(line->text + line->size, room, format, args);

    if (want < 0)
        return;
    line->cut = line->cut || (size_t)want >= room;
    line->size += (size_t)want < room ? (uint32_t)want : (uint32_t)room - 1;
}

__attribute__((format(printf, 2, 3))) static void add(struct line *line, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    add_args(line, format, args);
    va_end(args);
}

static void add_head(struct line *line, const struct log *log, enum log_level level)
{
    int64_t now_ms = clock_wall_ms(log->clock);
    time_t seconds = (time_t)(now_ms / 1000);
    struct tm parts = {0};

    gmtime_r(&seconds, &parts);
    add(line, "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ %s ", parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday,
        parts.tm_hour, parts.tm_min, parts.tm_sec, (int)(now_ms % 1000), level_names[level]);
    if (log->node_id >= 0) /* not known before the configuration is read */
        add(line, "node=%d ", log->node_id);
    add(line, "room=%s ", log->room);
}

/* What a client sent may stand in a value: it must not start a line of its own or steer a terminal. A cut line ends
 * in dots, not in half a UTF-8 character. */
static void finish(struct line *line)
{
    if (line->cut) {
        line->size = LOG_LINE_BYTES_MAX - 3;
        while (line->size > 0 && ((unsigned char)line->text[line->size] & 0xc0) == 0x80)
            line->size--;
        memcpy(line->text + line->size, "...", 3);
        line->size += 3;
    }
    for (uint32_t i = 0; i < line->size; i++)
        if ((unsigned char)line->text[i] < 0x20 || line->text[i] == 0x7f)
            line->text[i] = '?';
}

__attribute__((format(printf, 4, 0))) static void write_line(struct log *log, enum log_level level, uint32_t left_out,
                                                             const char *format, va_list args)
{
    struct line line;

    line.size = 0;
    line.cut = false;
    add_head(&line, log, level);
    add_args(&line, format, args);
    if (left_out > 0 && !line.cut)
        add(&line, " left_out=%u", left_out);
    finish(&line);
    log->sink->write(log->sink, level, line.text, line.size);
}

static bool is_wanted(struct log *log, enum log_level level)
{
    return (int)level >= atomic_load_explicit(&log->level, memory_order_relaxed);
}

void log_line(struct log *log, enum log_level level, const char *format, ...)
{
    va_list args;

    if (!is_wanted(log, level))
        return;
    va_start(args, format);
    write_line(log, level, 0, format, args);
    va_end(args);
}

/* One thread opens a new window; the others count in it. A line more or less when two threads meet here does no
 * harm. */
static bool rate_allows(struct log_rate *rate, int64_t now_ns, uint32_t *left_out)
{
    int64_t start_ns = atomic_load_explicit(&rate->window_start_ns, memory_order_relaxed);

    *left_out = 0;
    if (start_ns == 0 || now_ns - start_ns >= RATE_WINDOW_NS || now_ns < start_ns) {
        if (atomic_compare_exchange_strong(&rate->window_start_ns, &start_ns, now_ns)) {
            atomic_store_explicit(&rate->lines, 0, memory_order_relaxed);
            *left_out = atomic_exchange_explicit(&rate->left_out, 0, memory_order_relaxed);
        }
    }
    if (atomic_fetch_add_explicit(&rate->lines, 1, memory_order_relaxed) < LOG_RATE_LINES_MAX)
        return true;
    atomic_fetch_add_explicit(&rate->left_out, 1, memory_order_relaxed);
    return false;
}

void log_line_rated(struct log *log, struct log_rate *rate, enum log_level level, const char *format, ...)
{
    uint32_t left_out = 0;
    va_list args;

    if (!is_wanted(log, level) || !rate_allows(rate, clock_mono_ns(log->clock), &left_out))
        return;
    va_start(args, format);
    write_line(log, level, left_out, format, args);
    va_end(args);
}

/* One write(2) a line, so that lines of several threads and processes do not mix. */
static void fd_write(struct log_sink *sink, enum log_level level, const char *line, uint32_t size)
{
    struct log_sink_fd *fd_sink = (struct log_sink_fd *)sink;
    char whole[LOG_LINE_BYTES_MAX + 1];
    ssize_t moved = 0;

    (void)level;
    if (size > LOG_LINE_BYTES_MAX)
        size = LOG_LINE_BYTES_MAX;
    memcpy(whole, line, size);
    whole[size] = '\n';
    do
        moved = write(fd_sink->fd, whole, size + 1);
    while (moved < 0 && errno == EINTR);
}

void log_sink_fd_init(struct log_sink_fd *sink, int fd)
{
    *sink = (struct log_sink_fd){.sink = {.write = fd_write}, .fd = fd};
}
