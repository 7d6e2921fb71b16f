/*
 * dir_assign: the metadata is told where this node's partitions lie (AssignReplicasToDirs, KIP-858), so that a later
 * start knows which of two directories counts. Each shard tells of its own, many in one request; only what differs from
 * the image. Where the finalised level knows no directories nothing is told.
 *
 * Threads  the shard's loop.
 */
#ifndef OTTLA_BROKER_DIR_ASSIGN_H
#define OTTLA_BROKER_DIR_ASSIGN_H

#include "base/arena.h"
#include "base/list.h"
#include "base/log.h"
#include "base/loop.h"
#include "raftmeta/metadata_node.h"

struct hosted;
struct shard;

struct shard_assigner {
    struct list pending; /* of struct hosted */
    struct metadata_call call;
    struct arena arena;
    bool asking;
    bool waits; /* after an error, for the timer */
    struct loop_timer again;
    struct log_rate lines;
};

void dir_assign_init(struct shard *shard);
void dir_assign_deinit(struct shard *shard);
/* The image or the place of the partition has changed. */
void dir_assign_check(struct hosted *hosted);
/* It goes. */
void dir_assign_forget(struct hosted *hosted);
/* The node serves: it is registered. */
void dir_assign_go_on(struct shard *shard);
/* The node stops: nothing is asked again. */
void dir_assign_stop(struct shard *shard);
/* Whether the metadata says that it lies where it does, or cannot say. */
bool dir_assign_is_told(const struct hosted *hosted);
/* What the image says of this node's replica; zero where it says nothing, or knows no such partition. */
struct uuid dir_assign_directory(const struct shard *shard, struct uuid topic_id, int32_t index);

#endif
