/* The disk fills up and has room again, several times: what cannot be written is refused, what was acknowledged stays,
 * everything goes on by itself once there is room. In some runs producers are refused at a mark before the last byte,
 * metadata goes on from the reserve, and the node is killed and started without a byte of room; in the others there is
 * neither mark nor reserve, and each write finds out for itself. */
#include "sim/crowd.h"

enum { LITTLE_BYTES = 20000, KILL_PERCENT = 10, SLICE_BYTES = 64 * 1024 };

static bool has_reserve(struct crowd *crowd)
{
    return sim_fs_peek(&crowd->disk, "/data/ottla-reserve").size > 2 * SLICE_BYTES;
}

static void befall(struct crowd *crowd)
{
    bool full = crowd->disk.capacity_bytes != UINT64_MAX;

    if (sim_chance(&crowd->sim, 60))
        crowd->disk.capacity_bytes = full ? UINT64_MAX : crowd->disk.used_bytes + sim_draw(&crowd->sim, LITTLE_BYTES);
    full = crowd->disk.capacity_bytes != UINT64_MAX;
    if (full && sim_chance(&crowd->sim, 50)) /* somebody else takes the rest */
        crowd->disk.capacity_bytes = crowd->disk.used_bytes;
    if ((!full || has_reserve(crowd)) && sim_chance(&crowd->sim, KILL_PERCENT)) /* a start writes */
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

    if (seed % 8 < 4) {
        habits.settings[0] = "ottla.disk.refuse.bytes=8000";
    } else {
        habits.settings[0] = "ottla.disk.refuse.bytes=0";
        habits.settings[1] = "ottla.disk.reserve.bytes=0";
    }
    crowd_run(&habits, seed, chatty, outcome);
}
