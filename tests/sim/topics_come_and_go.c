/* Topics are made, grown and deleted while others write to them and read from them, and their names are taken again; in
 * many runs the node is killed, or loses its power where acknowledged means synced. */
#include "sim/crowd.h"

enum { KILL_PERCENT = 25, POWER_PERCENT = 50 };

static void befall(struct crowd *crowd)
{
    if (sim_chance(&crowd->sim, KILL_PERCENT))
        crowd_kill(crowd, crowd->habits->synced_acks && sim_chance(&crowd->sim, POWER_PERCENT));
}

void topics_come_and_go_run(uint64_t seed, bool chatty, struct sim_outcome *outcome)
{
    struct crowd_habits habits = {
        .producers = 2,
        .consumers = 3,
        .administrator = true,
        .synced_acks = seed % 2 == 0,
        .leave_percent = 2,
        .pause_ns_max = 20000000,
        .load_ns = INT64_C(6000000000),
        .befall = seed % 3 == 0 ? NULL : befall,
    };

    crowd_run(&habits, seed, chatty, outcome);
}
