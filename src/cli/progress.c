#include "cli/progress.h"

#include <inttypes.h>

enum { BAR_CHARS = 24 };

static const int64_t first_ns = INT64_C(1000000000);       /* what is over by then needs no bar */
static const int64_t bar_every_ns = INT64_C(100000000);    /* a tenth of a second is smooth enough */
static const int64_t line_every_ns = INT64_C(30000000000); /* a log file is no place for more */

void progress_begin(struct progress *progress, struct clock *clock, FILE *to, bool is_terminal, const char *what,
                    uint64_t total_bytes)
{
    *progress = (struct progress){
        .clock = clock,
        .to = to,
        .is_terminal = is_terminal,
        .what = what,
        .total_bytes = total_bytes,
        .began_ns = clock_mono_ns(clock),
    };
    progress->next_ns = progress->began_ns + (is_terminal ? first_ns : line_every_ns);
}

static void put_bytes(FILE *to, double bytes)
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
    size_t unit = 0;

    /* What would be rounded to a thousand is one of the next unit. */
    while (bytes >= (unit == 0 ? 999.5 : 999.95) && unit + 1 < sizeof(units) / sizeof(units[0])) {
        bytes /= 1000;
        unit++;
    }
    fprintf(to, unit == 0 ? "%.0f %s" : "%.1f %s", bytes, units[unit]);
}

static void put_left(FILE *to, double seconds)
{
    int64_t left = (int64_t)(seconds + 0.5);

    if (left >= 3600)
        fprintf(to, ", %" PRId64 " h %02" PRId64 " min left", left / 3600, left / 60 % 60);
    else if (left >= 60)
        fprintf(to, ", %" PRId64 " min %02" PRId64 " s left", left / 60, left % 60);
    else
        fprintf(to, ", %" PRId64 " s left", left);
}

static void show(struct progress *progress, int64_t now_ns)
{
    double seconds = (double)(now_ns - progress->began_ns) / 1e9;
    double rate = seconds > 0 ? (double)progress->bytes / seconds : 0;
    double share = progress->total_bytes == 0 ? 0 : (double)progress->bytes / (double)progress->total_bytes;

    if (share > 1)
        share = 1;
    fprintf(progress->to, progress->is_terminal ? "\r%s " : "ottla: %s ", progress->what);
    if (progress->total_bytes > 0 && progress->is_terminal) {
        fputc('[', progress->to);
        for (int i = 0; i < BAR_CHARS; i++)
            fputc(i < (int)(share * BAR_CHARS) ? '#' : '-', progress->to);
        fputs("] ", progress->to);
    }
    if (progress->total_bytes > 0)
        fprintf(progress->to, "%3.0f %%, ", share * 100);
    put_bytes(progress->to, (double)progress->bytes);
    fputs(", ", progress->to);
    put_bytes(progress->to, rate);
    fputs("/s", progress->to);
    if (progress->total_bytes > progress->bytes && rate > 0)
        put_left(progress->to, (double)(progress->total_bytes - progress->bytes) / rate);
    fputs(progress->is_terminal ? "\033[K" : "\n", progress->to);
    (void)fflush(progress->to);
    progress->shown = progress->is_terminal;
}

void progress_add(struct progress *progress, uint64_t bytes)
{
    int64_t now_ns = 0;

    progress->bytes += bytes;
    now_ns = clock_mono_ns(progress->clock);
    if (now_ns < progress->next_ns)
        return;
    show(progress, now_ns);
    progress->next_ns = now_ns + (progress->is_terminal ? bar_every_ns : line_every_ns);
}

void progress_hide(struct progress *progress)
{
    if (!progress->shown)
        return;
    fputs("\r\033[K", progress->to);
    (void)fflush(progress->to);
    progress->shown = false;
}

void progress_end(struct progress *progress)
{
    progress_hide(progress);
}
