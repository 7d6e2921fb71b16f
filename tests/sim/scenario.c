#include "sim/scenario.h"

const struct sim_scenario sim_scenarios[] = {
    {"produce_fetch", "an idempotent producer and a consumer; connections break, the node dies and comes back",
     produce_fetch_run},
    {"topics_come_and_go", "topics are made, grown and deleted under load, names are taken again; the node dies",
     topics_come_and_go_run},
    {"impatient_clients", "clients that want no answer, and clients that leave while they wait", impatient_clients_run},
    {"full_disk", "the disk fills up and has room again", full_disk_run},
    {"failed_sync", "a sync fails: nothing is acknowledged behind it until the node has started again",
     failed_sync_run},
    {"groups_crowd", "members of groups come, go, stall and lie about the past; their coordinator dies and comes back",
     groups_crowd_run},
    {"dir_moves", "partitions move between two log directories, which fail and go away; topics go; the node dies",
     dir_moves_run},
    {"power_cuts", "acknowledged means synced, and the power goes again and again", power_cuts_run},
};
const uint32_t sim_scenario_count = sizeof(sim_scenarios) / sizeof(sim_scenarios[0]);
