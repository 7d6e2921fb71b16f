/* A sync fails, somewhere: what it was to cover is acknowledged to nobody, its directory serves no more until the node
 * has started again, and then all that was acknowledged is there. */
#include "sim/crowd.h"

enum { SYNCS_MAX = 60 };

static void set_fault(struct crowd *crowd)
{
    sim_fs_set_fault(&crowd->disk, SIM_FS_FAIL, SIM_FS_SYNC, 1 + sim_draw(&crowd->sim, SYNCS_MAX), ERR_IO);
}

static void befall(struct crowd *crowd)
{
    if (crowd->outcome->crashes > 0)
        return;
    if (crowd->disk.fault == SIM_FS_NO_FAULT) {
        set_fault(crowd);
    } else if (sim_fs_fault_struck(&crowd->disk)) {
        sim_fs_set_fault(&crowd->disk, SIM_FS_NO_FAULT, SIM_FS_ANY, 1, ERR_OK);
        crowd_kill(crowd, false);
    }
}

static void relent(struct crowd *crowd)
{
    bool struck = sim_fs_fault_struck(&crowd->disk);

    sim_fs_set_fault(&crowd->disk, SIM_FS_NO_FAULT, SIM_FS_ANY, 1, ERR_OK);
    if (struck)
        crowd_kill(crowd, false);
}

void failed_sync_run(uint64_t seed, bool chatty, struct sim_outcome *outcome)
{
    struct crowd_habits habits = {
        .producers = 3,
        .consumers = 2,
        .administrator = false,
        .synced_acks = seed % 3 != 0,
        .storage_may_fail = true,
        .pause_ns_max = 10000000,
        .load_ns = INT64_C(6000000000),
        .befall = befall,
        .relent = relent,
    };

    crowd_run(&habits, seed, chatty, outcome);
}
