/* The disk fills up and has room again, several times: what cannot be written is refused, what was acknowledged stays,
 * everything goes on once there is room; in some runs the node is killed while the disk is full. */
#include "sim/crowd.h"

enum { LITTLE_BYTES = 20000, KILL_PERCENT = 10 };

static void befall(struct crowd *crowd)
{
    bool full = crowd->disk.capacity_bytes != UINT64_MAX;

    if (sim_chance(&crowd->sim, 60))
        crowd->disk.capacity_bytes = full ? UINT64_MAX : crowd->disk.used_bytes + sim_draw(&crowd->sim, LITTLE_BYTES);
    if (crowd->disk.capacity_bytes == UINT64_MAX && sim_chance(&crowd->sim, KILL_PERCENT)) /* a start writes */
        crowd_kill(crowd, false);
}

static void relent(struct crowd *crowd)
{
    crowd->disk.capacity_bytes = UINT64_MAX;
}

void full_disk_run(uint64_t seed, bool chatty, struct sim_outcome *outcome)
{
    struct crowd_habits habits = {
        .producers = 3,
        .consumers = 2,
        .administrator = seed % 2 == 0,
        .synced_acks = seed % 4 < 2,
        .storage_may_fail = true,
        .pause_ns_max = 10000000,
        .load_ns = INT64_C(8000000000),
        .befall = befall,
        .relent = relent,
    };

    crowd_run(&habits, seed, chatty, outcome);
}
