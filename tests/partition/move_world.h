/*
 * move_world: a log of several segments on a world's disk, with a second log directory beside it, and what it holds
 * after a move; for the tests of moves.
 */
#ifndef OTTLA_TESTS_PARTITION_MOVE_WORLD_H
#define OTTLA_TESTS_PARTITION_MOVE_WORLD_H

#include "world.h"

enum { MOVE_WORLD_SEGMENT_BYTES = 4096, MOVE_WORLD_ROUNDS = 12 };

/* One move. */
struct moving_op {
    struct log_move op;
    struct world *world;
    struct partition_log *log;
    enum err commit_err; /* in: what the metadata says */
    int64_t delete_to;   /* in: the log's start goes there while it is held; 0: nowhere */
    bool committed;      /* out: it was asked, and said yes */
    bool done;
    double bytes_per_second; /* in; 0: no limit */
};

/* The world of world_begin, with /data2, small segments, and a journal where asked. */
void move_world_begin(struct world *world, struct partition_env *other, uint64_t seed, bool journal);
/* Records of which values say which they are, a transaction that was aborted, and one that is open. */
void move_world_fill(struct world *world, struct partition_log *log);
/* Its env is `other` once it has moved. */
void move_world_start(struct world *world, struct partition_log *log, const struct partition_env *to,
                      struct moving_op *op);
void move_world_run(struct world *world, struct partition_log *log, const struct partition_env *to,
                    struct moving_op *op);
/* All that the log has, from its start on; mem_free it. */
uint8_t *move_world_read(struct world *world, struct partition_log *log, size_t *size);
/* How many entries of the directory have that end. */
uint32_t move_world_count(struct world *world, const char *dir, const char *suffix);

#endif
