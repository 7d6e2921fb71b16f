/*
 * io_pool: the few threads on which jobs that may block run (struct loop_job: syncs, opens, cold reads, deletions).
 * Reactors hand jobs in without taking a lock; a finished job goes to the callback, on the I/O thread, which mails it
 * home.
 *
 * Always holds  jobs are taken in the order in which they came; each is run once and completed once.
 * Limit         each reactor keeps at most IO_JOBS_PER_LOOP_MAX of its jobs in here and queues the rest at home.
 * Threads       io_pool_submit from any; new and free from one.
 */
#ifndef OTTLA_NET_IO_POOL_H
#define OTTLA_NET_IO_POOL_H

#include <stdint.h>

#include "base/err.h"
#include "base/loop.h"

struct io_pool;

typedef void io_pool_completed_fn(struct loop_job *job);

/* thread_count threads, 1..IO_THREADS_MAX, named "<name>-0" and so on. ERR_NOMEM, ERR_LIMIT: no more threads. */
MUST_CHECK enum err io_pool_new(const char *name, uint32_t thread_count, io_pool_completed_fn *completed,
                                struct io_pool **pool);
/* Runs all jobs handed in so far, then ends the threads. NULL does nothing. */
void io_pool_free(struct io_pool *pool);
void io_pool_submit(struct io_pool *pool, struct loop_job *job);

#endif
