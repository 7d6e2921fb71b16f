/*
 * clock_guard: whether the wall clock may be believed by what deletes: retention, expiry, delete horizons. A jump of it
 * against the boot clock beyond a bound takes that away, until it is back; a new start begins with the time that it
 * finds. A machine that slept is no jump: both clocks went on.
 *
 * Pure     told both times, it reads no clock. A slow drift (NTP slews by at most 0.5 ms a second) is followed and is
 *          no jump; a row of small ones in one direction is one.
 * Threads  its owner's.
 */
#ifndef OTTLA_BASE_CLOCK_GUARD_H
#define OTTLA_BASE_CLOCK_GUARD_H

#include <stdbool.h>
#include <stdint.h>

struct clock_guard {
    int64_t jump_ms_max;
    int64_t apart_ms; /* wall less boot clock, as it is believed */
    int64_t told_ms;  /* boot clock, when last told */
    int64_t jump_ms;  /* how far the wall clock was off when last told */
    bool doubts;
};

/* The times as they are now are believed. */
void clock_guard_init(struct clock_guard *guard, int64_t jump_ms_max, int64_t wall_ms, int64_t boot_ns);
/* Whether wall_ms may be believed. To be asked now and then, and before each judgement. */
bool clock_guard_trusts(struct clock_guard *guard, int64_t wall_ms, int64_t boot_ns);

#endif
