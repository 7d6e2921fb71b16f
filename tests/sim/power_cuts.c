/* Topics ask to be synced before they are acknowledged; the power goes again and again, at times in the middle of a
 * start, at times the process alone dies. Whatever anyone was told, or saw, is there afterwards. */
#include "sim/crowd.h"

enum { DEATH_PERCENT = 70, POWER_PERCENT = 70, AGAIN_PERCENT = 25 };

static void befall(struct crowd *crowd)
{
    if (!sim_chance(&crowd->sim, DEATH_PERCENT) || crowd->outcome->crashes > 12)
        return;
    do
        crowd_kill(crowd, sim_chance(&crowd->sim, POWER_PERCENT));
    while (sim_chance(&crowd->sim, AGAIN_PERCENT) && crowd->outcome->crashes <= 12);
}

void power_cuts_run(uint64_t seed, bool chatty, struct sim_outcome *outcome)
{
    struct crowd_habits habits = {
        .producers = 4,
        .consumers = 2,
        .administrator = seed % 4 == 0,
        .synced_acks = true,
        .pause_ns_max = 3000000,
        .load_ns = INT64_C(5000000000),
        .befall = befall,
    };

    crowd_run(&habits, seed, chatty, outcome);
}
