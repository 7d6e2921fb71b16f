/*
 * process_share: what the machine gives this process: processors, memory, descriptors.
 *
 * Threads  any; raising the descriptors' limit while there is but one.
 */
#ifndef OTTLA_BROKER_PROCESS_SHARE_H
#define OTTLA_BROKER_PROCESS_SHARE_H

#include <stdint.h>

#include "base/fs.h"

/* Processors that it may run on; at least 1. */
uint32_t process_cpu_count(void);
/* Bytes for requests and buffers: a third of the memory that there is for us (machine, control group, limit), at most
 * 1 GiB. */
uint64_t process_memory_share(struct fs *fs);
/* Raises our limit as far as we are allowed and can use, and makes room for as many; gives how many descriptors the
 * broker may have. */
uint32_t process_raise_descriptors(void);

#endif
