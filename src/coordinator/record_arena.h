/*
 * record_arena: where a record of a coordinator's log is decoded. What stands in a log has to be read, whoever wrote it
 * and however large: so the arena's limit goes by the record, beyond all that its bytes can become.
 */
#ifndef OTTLA_COORDINATOR_RECORD_ARENA_H
#define OTTLA_COORDINATOR_RECORD_ARENA_H

#include "base/arena.h"

enum {
    /* Of arena for each byte: the most is taken by an array of strings that are empty, 16 for one; twice that with what
     * the blocks of an arena leave over, and as much again beside it, as a copy may lie there too. */
    RECORD_ARENA_GROWTH = 64,
    RECORD_ARENA_BYTES_MIN = 64 * 1024, /* of the smallest */
};

static inline void record_arena_init(struct arena *arena, size_t record_bytes)
{
    arena_init(arena, RECORD_ARENA_BYTES_MIN + record_bytes * RECORD_ARENA_GROWTH);
}

#endif
