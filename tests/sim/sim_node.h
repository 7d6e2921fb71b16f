/*
 * sim_node: a whole broker (reactors, controller, handlers, log) inside the simulated world, started, stopped and
 * started again on the same disk.
 *
 * Threads  one.
 */
#ifndef OTTLA_TESTS_SIM_NODE_H
#define OTTLA_TESTS_SIM_NODE_H

#include "base/uuid.h"
#include "broker/broker.h"
#include "sim/sim_fs.h"
#include "sim/sim_net.h"

enum { SIM_NODE_REACTORS_MAX = 4, SIM_NODE_PARTITIONS_MAX = 64 };

/* How far a partition of the node was seen to be. */
struct sim_node_seen {
    struct uuid topic_id;
    int32_t index;
    int64_t high_watermark;
};

struct sim_node {
    struct sim *sim;
    struct sim_fs *disk;
    struct sim_host *host;
    uint32_t reactor_count;
    struct loop *reactors[SIM_NODE_REACTORS_MAX];
    struct loop *controller;
    struct loop *aside;
    struct log_sink log_sink;
    bool chatty; /* log lines go to standard error */
    bool silent; /* not even those of errors, which the test brings about itself */
    void (*hear_line)(void *context, struct bytes line); /* told every line of the node's log; NULL: nobody is */
    void *hear_context;
    struct config config;
    struct broker *broker;
    bool told;
    enum err outcome;
    struct sim_node_seen seen[SIM_NODE_PARTITIONS_MAX]; /* of this life, and of those before back to a power cut */
    uint32_t seen_count;
};

/* A node of its own on that host; nothing runs yet. */
void sim_node_init(struct sim_node *node, struct sim *sim, struct sim_fs *disk, struct sim_host *host,
                   uint32_t reactor_count);
/* key=value, before it is started. */
void sim_node_set(struct sim_node *node, const char *assignment);
/* Asserts that it comes up within a virtual minute, and that nothing else was asked of it meanwhile. */
void sim_node_start(struct sim_node *node);
/* The same, but it has only begun: for one that dies in its start. */
void sim_node_begin(struct sim_node *node);
/* A clean stop, within a virtual minute. */
void sim_node_stop(struct sim_node *node);
/* Dies at once: kill -9 (what was written stays), or a power cut (only what was synced must). Its memory is freed
 * behind its back. */
void sim_node_kill(struct sim_node *node, bool power_cut);
void sim_node_deinit(struct sim_node *node);

/* --- sim_node_check.c --- */

/*
 * Asserts what must hold after every step, whatever happens: each partition lives on its home alone; log start <= last
 * stable offset <= high watermark <= log end, and synced <= log end; no high watermark has gone back, not even through
 * a kill; what waits for acknowledgement lies above it; open files are what is accounted and within their bound.
 */
void sim_node_check(struct sim_node *node);
/* Whether a reader would find everything below that offset: true as well while the partition is loading or gone. */
bool sim_node_serves(const struct sim_node *node, struct uuid topic_id, int32_t index, int64_t offset);
/* The log directory that the node has the partition in; NULL where it is not there, or not open. */
const char *sim_node_log_dir(const struct sim_node *node, struct uuid topic_id, int32_t index);
/* The one that it is to move to; NULL: it stays, as far as was asked. */
const char *sim_node_moves_to(const struct sim_node *node, struct uuid topic_id, int32_t index);
/* Whether any partition is to move, or moves. */
bool sim_node_is_moving(const struct sim_node *node);
/* Where clients reach it. */
struct net_address sim_node_address(const struct sim_node *node);

#endif
