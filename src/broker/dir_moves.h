/*
 * dir_moves: partitions on their way from one log directory of the node to another (AlterReplicaLogDirs, KIP-113). Each
 * shard moves one at a time; the others wait for it, with nothing of them on the target's disk yet. A move asked for
 * again to another directory replaces the first, one to where the partition is ends it.
 *
 * Threads  the shard's loop.
 */
#ifndef OTTLA_BROKER_DIR_MOVES_H
#define OTTLA_BROKER_DIR_MOVES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"
#include "base/list.h"
#include "base/map.h"

struct dir_move;
struct hosted;
struct shard;

struct shard_moves {
    struct list waiting; /* of struct dir_move */
    struct dir_move *running;
    struct map wishes; /* directories for partitions that are not there yet; by "<topic>-<index>", of struct dir_wish */
};

void dir_moves_init(struct shard *shard);
void dir_moves_deinit(struct shard *shard);
/* The partition, which is ready, is to be in that directory. ERR_NOMEM. */
MUST_CHECK enum err dir_moves_ask(struct hosted *hosted, uint32_t dir);
/* The next of those that wait, if any can. */
void dir_moves_go_on(struct shard *shard);
/* The partition goes: what has not begun is forgotten; what has ends with it. */
void dir_moves_forget(struct hosted *hosted);
/* A directory has failed: a move there ends. */
void dir_moves_target_failed(struct hosted *hosted, uint32_t dir);
/* The last part of a move is under way: the metadata are about to be told by it. */
bool dir_moves_is_deciding(const struct hosted *hosted);

/* What DescribeLogDirs tells of a move. False: there is none. */
struct dir_moves_state {
    uint32_t dir;
    uint64_t bytes;
    int64_t lag; /* records that the copy lacks */
};
bool dir_moves_look(const struct hosted *hosted, struct dir_moves_state *state);

/* A partition that is not there yet is to be made in that directory. Any thread: told to all homes. Without memory, and
 * over DIR_WISHES_MAX, it is forgotten. */
void dir_moves_wish(struct shard *from, struct bytes topic, int32_t index, uint32_t dir);
/* Whether there is such a wish; it is done with then. */
bool dir_moves_take_wish(struct shard *shard, struct bytes topic, int32_t index, uint32_t *dir);
/* The partition is there, and its home is another. */
void dir_moves_forget_wish(struct shard *shard, struct bytes topic, int32_t index);

#endif
