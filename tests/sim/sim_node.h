/*
 * sim_node: a whole broker (reactors, controller, handlers, log) inside the simulated world, started, stopped and
 * started again on the same disk.
 *
 * Threads  one.
 */
#ifndef OTTLA_TESTS_SIM_NODE_H
#define OTTLA_TESTS_SIM_NODE_H

#include "broker/broker.h"
#include "sim/sim_fs.h"
#include "sim/sim_net.h"

enum { SIM_NODE_REACTORS_MAX = 4 };

struct sim_node {
    struct sim *sim;
    struct sim_fs *disk;
    struct sim_host *host;
    uint32_t reactor_count;
    struct loop *reactors[SIM_NODE_REACTORS_MAX];
    struct loop *controller;
    struct log_sink log_sink;
    bool chatty; /* log lines go to standard error */
    struct config config;
    struct broker *broker;
    bool told;
    enum err outcome;
};

/* A node of its own on that host; nothing runs yet. */
void sim_node_init(struct sim_node *node, struct sim *sim, struct sim_fs *disk, struct sim_host *host,
                   uint32_t reactor_count);
/* Asserts that it comes up within a virtual minute, and that nothing else was asked of it meanwhile. */
void sim_node_start(struct sim_node *node);
/* A clean stop, within a virtual minute. */
void sim_node_stop(struct sim_node *node);
/* Dies at once: kill -9 (what was written stays), or a power cut (only what was synced must). Its memory is freed
 * behind its back. */
void sim_node_kill(struct sim_node *node, bool power_cut);
void sim_node_deinit(struct sim_node *node);
/* Where clients reach it. */
struct net_address sim_node_address(const struct sim_node *node);

#endif
