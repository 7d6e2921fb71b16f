/*
 * roaming: moves of a model test's log between two log directories, as one more thing that may be under way while
 * others are done to it; and what a start then finds: the directory that the metadata name, without the other.
 */
#ifndef OTTLA_TESTS_PARTITION_ROAMING_H
#define OTTLA_TESTS_PARTITION_ROAMING_H

#include "move_world.h"

struct roaming {
    struct partition_env other; /* where the log is not when it is opened */
    struct moving_op op;
    bool under_way;
    uint32_t moved;
};

/* Behind world_begin: the second directory. */
void roaming_begin(struct roaming *roaming, struct world *world);
/* Begins a move, slow or quick, which the metadata may refuse; of one under way, perhaps waits for the end. */
void roaming_draw(struct roaming *roaming, struct world *world, struct partition_log *log);
/* Once the log is closed, or was dropped by a crash: world->env is where it lies. True: it has moved since it was
 * opened, so that the checkpoint files there may know nothing of it. */
bool roaming_settle(struct roaming *roaming, struct world *world);

#endif
