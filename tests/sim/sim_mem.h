/*
 * sim_mem: who owns what on the heap, so that a simulated node can die: what it held is freed as the kernel would,
 * without asking it. Linked with -Wl,--wrap for each function of base/mem.h; the simulated world itself allocates past
 * it (sim_mem_world_*).
 *
 * Threads  one.
 */
#ifndef OTTLA_TESTS_SIM_MEM_H
#define OTTLA_TESTS_SIM_MEM_H

#include <stdbool.h>
#include <stddef.h>

/* What is allocated from here on belongs to the node (true) or to the world. Gives what held before. */
bool sim_mem_enter(bool node);
/* Frees all that the node has not freed. Gives the number of blocks. */
size_t sim_mem_free_node(void);

#endif
