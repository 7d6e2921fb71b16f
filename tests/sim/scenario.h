/*
 * scenario: what the simulator can run from a seed. Each is one idea in a file of its own; scenario.c lists them.
 */
#ifndef OTTLA_TESTS_SIM_SCENARIO_H
#define OTTLA_TESTS_SIM_SCENARIO_H

#include <stdbool.h>
#include <stdint.h>

/* What a run came to. */
struct sim_outcome {
    uint64_t trace_hash;
    uint64_t steps;
    uint64_t breaks;  /* connections broken */
    uint64_t crashes; /* kills and power cuts of the node */
    uint64_t records; /* produced and read back */
    uint64_t virtual_ms;
};

struct sim_scenario {
    const char *name;
    const char *what; /* one line */
    /* Aborts where the scenario does not hold. */
    void (*run)(uint64_t seed, bool chatty, struct sim_outcome *outcome);
};

extern const struct sim_scenario sim_scenarios[];
extern const uint32_t sim_scenario_count;

void produce_fetch_run(uint64_t seed, bool chatty, struct sim_outcome *outcome);
void topics_come_and_go_run(uint64_t seed, bool chatty, struct sim_outcome *outcome);
void impatient_clients_run(uint64_t seed, bool chatty, struct sim_outcome *outcome);
void full_disk_run(uint64_t seed, bool chatty, struct sim_outcome *outcome);
void dir_moves_run(uint64_t seed, bool chatty, struct sim_outcome *outcome);
void power_cuts_run(uint64_t seed, bool chatty, struct sim_outcome *outcome);
void failed_sync_run(uint64_t seed, bool chatty, struct sim_outcome *outcome);
void groups_crowd_run(uint64_t seed, bool chatty, struct sim_outcome *outcome);

#endif
