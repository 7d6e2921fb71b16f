#include "base/clock.h"

#include <errno.h>
#include <time.h>

#include "base/assert.h"

static int64_t read_ns(clockid_t id)
{
    struct timespec now = {0};
    int failed = clock_gettime(id, &now);

    assert(failed == 0); /* these clocks exist on every Linux */
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int64_t real_mono_ns(struct clock *clock)
{
    (void)clock;
    return read_ns(CLOCK_MONOTONIC);
}

static int64_t real_wall_ms(struct clock *clock)
{
    (void)clock;
    return read_ns(CLOCK_REALTIME) / 1000000;
}

static int64_t real_boot_ns(struct clock *clock)
{
    (void)clock;
    return read_ns(CLOCK_BOOTTIME);
}

void clock_init_real(struct clock *clock)
{
    *clock = (struct clock){.mono_ns = real_mono_ns, .wall_ms = real_wall_ms, .boot_ns = real_boot_ns};
}

void clock_sleep_ms(int64_t ms)
{
    struct timespec left = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        continue;
}
