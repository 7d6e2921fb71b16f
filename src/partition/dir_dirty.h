/*
 * dir_dirty: how much of what was appended to the logs of one directory is not on the disk yet. It has a bound: over it
 * appends queue (and with them their connections, within what those may hold), until syncs have brought it well below.
 * So a disk that is slower than its producers slows them down, whatever the number of partitions, and what a sync or a
 * power cut has to do with stays small.
 *
 * Threads  dirty_move: any; all else of a dirty_home: that home's reactor.
 */
#ifndef OTTLA_PARTITION_DIR_DIRTY_H
#define OTTLA_PARTITION_DIR_DIRTY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/list.h"
#include "base/loop.h"

struct dirty_home;

/* Shared by the homes of one directory's logs. */
struct dir_dirty {
    _Atomic(int64_t) bytes;
    int64_t bytes_max;
    struct dirty_home *homes; /* by reactor */
    uint32_t home_count;
};

/* One reactor's part of it. */
struct dirty_home {
    struct dir_dirty *dir;
    struct loop *loop;
    struct list waiting; /* of struct dirty_waiter */
    struct loop_task task;
    _Atomic(bool) waits; /* somebody is in the list */
    _Atomic(bool) woken; /* the task is on its way */
};

/* A log whose first append queues for it. */
struct dirty_waiter {
    struct list_node node;
    void (*wake)(struct dirty_waiter *waiter); /* may wait again */
};

/* One home for each loop. ERR_NOMEM. */
MUST_CHECK enum err dir_dirty_init(struct dir_dirty *dir, int64_t bytes_max, struct loop **loops, uint32_t loop_count);
/* When no log counts any more and no loop runs. All zero does nothing. */
void dir_dirty_deinit(struct dir_dirty *dir);

/* So much more, or less, waits for the disk. home NULL: nobody counts. */
void dirty_move(struct dirty_home *home, int64_t bytes);
/* Over the bound: true, and the waiter is woken when it is not any more. Nothing changes for one that waits already. */
bool dirty_wait(struct dirty_home *home, struct dirty_waiter *waiter);
void dirty_wait_end(struct dirty_waiter *waiter);
/* More than half of the bound: logs are not to wait for their timers with what they have. */
bool dirty_is_high(const struct dirty_home *home);
/* At least so much. */
bool dirty_reaches(const struct dirty_home *home, int64_t bytes);

#endif
