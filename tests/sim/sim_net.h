/*
 * sim_net: a network between simulated hosts. Bytes of a stream arrive in order, in runs whose length and delay the
 * seed draws; a stream takes only so much before its reader reads; connections break when told to. A host that is cut
 * off hears and says nothing: its bytes wait until the cut is healed, as TCP's would.
 *
 * Threads  one.
 */
#ifndef OTTLA_TESTS_SIM_NET_H
#define OTTLA_TESTS_SIM_NET_H

#include "base/list.h"
#include "base/net.h"
#include "sim/sim.h"

enum { SIM_NET_HOSTS_MAX = 8, SIM_NET_WINDOW_BYTES = 64 * 1024 };

struct sim_stream;
struct sim_network;

/* One host's door to the network. */
struct sim_host {
    struct net net;
    struct sim_network *network;
    char name[16]; /* its only address, "10.0.0.1" */
    bool cut_off;
};

struct sim_network {
    struct sim *sim;
    struct sim_host hosts[SIM_NET_HOSTS_MAX];
    uint32_t host_count;
    struct net_listener *listeners;
    struct sim_stream *streams; /* all that are not freed yet */
    struct list attempts;       /* to connect, that nobody has been told the end of */
    uint16_t next_port;
};

void sim_network_init(struct sim_network *network, struct sim *sim);
/* Frees what is left; streams still open are closed without a word. */
void sim_network_deinit(struct sim_network *network);

/* A new host; its net is &host->net. */
struct sim_host *sim_host_add(struct sim_network *network);
void sim_host_cut(struct sim_host *host, bool cut_off);
/* Every connection of the host breaks; its ends of them and its listeners are gone: the node died, and its loops have
 * been killed already. */
void sim_host_kill(struct sim_host *host);
/* Each open connection breaks with this chance. Gives how many did. */
uint32_t sim_network_reset_some(struct sim_network *network, uint32_t percent);

#endif
