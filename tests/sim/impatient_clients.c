/* Produce without an answer, and connections that end in the middle of everything: long polls, produces that wait for
 * their sync, sessions that somebody else comes back to. The node itself is left in peace. */
#include "sim/crowd.h"

void impatient_clients_run(uint64_t seed, bool chatty, struct sim_outcome *outcome)
{
    struct crowd_habits habits = {
        .producers = 3,
        .consumers = 4,
        .administrator = seed % 4 == 0,
        .synced_acks = seed % 2 == 0,
        .acks_0_percent = 40,
        .leave_percent = 30,
        .pause_ns_max = 10000000,
        .load_ns = INT64_C(5000000000),
    };

    crowd_run(&habits, seed, chatty, outcome);
}
