/*
 * clock: the seam through which time comes in. Every timer and deadline lives on the monotonic clock; the wall
 * clock only stamps records and judges their age. What tells whether it has jumped is the boot clock.
 *
 * Threads  any.
 */
#ifndef OTTLA_BASE_CLOCK_H
#define OTTLA_BASE_CLOCK_H

#include <stdint.h>

#define NS_PER_MS INT64_C(1000000)

struct clock {
    int64_t (*mono_ns)(struct clock *clock);
    int64_t (*wall_ms)(struct clock *clock);
    int64_t (*boot_ns)(struct clock *clock);
};

/* Nanoseconds on a clock that never goes back; its zero means nothing. */
static inline int64_t clock_mono_ns(struct clock *clock)
{
    return clock->mono_ns(clock);
}

/* Milliseconds since the epoch; may jump. */
static inline int64_t clock_wall_ms(struct clock *clock)
{
    return clock->wall_ms(clock);
}

/* As the monotonic one, but it goes on while the machine sleeps, as the wall clock does. */
static inline int64_t clock_boot_ns(struct clock *clock)
{
    return clock->boot_ns(clock);
}

/* The machine's clocks. */
void clock_init_real(struct clock *clock);
/* Waits in real time: for commands, which have nothing else to do. Never where a loop runs. */
void clock_sleep_ms(int64_t ms);

#endif
