/* sim_internal: what sim.c asks of sim_loop.c. */
#ifndef OTTLA_TESTS_SIM_INTERNAL_H
#define OTTLA_TESTS_SIM_INTERNAL_H

#include "sim/sim.h"

/* How many different things this loop could do now (a mailbox for each sender, due timers). */
uint32_t sim_loop_choices(struct sim_loop *loop);
/* Does the choice-th of them as one turn. */
void sim_loop_turn(struct sim_loop *loop, uint32_t choice);
/* Earliest time at which a stopped loop has something to do again; INT64_MAX: never. */
int64_t sim_loop_wake_ns(struct sim_loop *loop);
void sim_loop_free(struct sim_loop *loop);

#endif
