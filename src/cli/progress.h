/*
 * progress: how far long work has come, on standard error: a bar with rate and time left where that is a terminal, a
 * line now and then where it is not. Nothing for work that is over in a moment.
 *
 * Threads  one.
 */
#ifndef OTTLA_CLI_PROGRESS_H
#define OTTLA_CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/clock.h"

struct progress {
    struct clock *clock;
    FILE *to;
    bool is_terminal;
    bool shown; /* a bar stands there */
    const char *what;
    uint64_t total_bytes;
    uint64_t bytes;
    int64_t began_ns;
    int64_t next_ns; /* nothing is shown before */
};

/* what: "verify" and so on. total_bytes 0: not known. */
void progress_begin(struct progress *progress, struct clock *clock, FILE *to, bool is_terminal, const char *what,
                    uint64_t total_bytes);
void progress_add(struct progress *progress, uint64_t bytes);
/* The bar goes, so that a line can be written; the next progress_add brings it back. */
void progress_hide(struct progress *progress);
void progress_end(struct progress *progress);

#endif
