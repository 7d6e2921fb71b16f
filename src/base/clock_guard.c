#include "base/clock_guard.h"

#include "base/assert.h"
#include "base/clock.h"

enum { SLEW_DIVISOR = 1000 /* twice what the kernel slews by */ };

void clock_guard_init(struct clock_guard *guard, int64_t jump_ms_max, int64_t wall_ms, int64_t boot_ns)
{
    assert(jump_ms_max >= 0);
    *guard = (struct clock_guard){
        .jump_ms_max = jump_ms_max,
        .apart_ms = wall_ms - boot_ns / NS_PER_MS,
        .told_ms = boot_ns / NS_PER_MS,
    };
}

/* Follows the drift by what a slew can have made of it since. */
static void follow(struct clock_guard *guard, int64_t now_ms)
{
    int64_t slew_ms = (now_ms - guard->told_ms) / SLEW_DIVISOR;

    if (slew_ms <= 0)
        return; /* too short a time to tell: it counts with the next */
    guard->told_ms = now_ms;
    if (guard->jump_ms > slew_ms)
        guard->apart_ms += slew_ms;
    else if (guard->jump_ms < -slew_ms)
        guard->apart_ms -= slew_ms;
    else
        guard->apart_ms += guard->jump_ms;
}

bool clock_guard_trusts(struct clock_guard *guard, int64_t wall_ms, int64_t boot_ns)
{
    int64_t now_ms = boot_ns / NS_PER_MS;

    guard->jump_ms = wall_ms - now_ms - guard->apart_ms;
    guard->doubts = guard->jump_ms > guard->jump_ms_max || guard->jump_ms < -guard->jump_ms_max;
    if (guard->doubts)
        guard->told_ms = now_ms; /* no time of doubt is made up for */
    else
        follow(guard, now_ms);
    return !guard->doubts;
}
