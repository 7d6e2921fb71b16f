/*
 * meta_world: a metadata node on the simulated disk and loop, with the calls that tests make of it: format, start, ask
 * and wait, stop, die, cut, start again.
 */
#ifndef OTTLA_TESTS_RAFTMETA_META_WORLD_H
#define OTTLA_TESTS_RAFTMETA_META_WORLD_H

#include "raftmeta/format.h"
#include "raftmeta/metadata_node.h"
#include "sim/sim_fs.h"

struct meta_world {
    struct sim sim;
    struct sim_fs disk;
    struct log log;
    struct log_sink sink;
    struct loop *loop;    /* the controller's */
    struct loop *reactor; /* where the test listens and asks from */
    struct log_dir *dir;  /* /data, while it is open */
    struct format_result formatted;
    struct uuid directory_id;
    struct metadata_node *node;
    struct metadata_listener listener;
    struct image *image; /* the newest that was published */
    uint32_t publications;
    struct metadata_start start, stop;
    bool started, stopped;
    bool failed;                          /* the node said so */
    struct metadata_node_options options; /* tests may change them before meta_world_start */
    struct arena arena;                   /* of requests */
};

/* An empty disk with the directory /data. */
void meta_world_begin(struct meta_world *world, uint64_t seed);
void meta_world_end(struct meta_world *world);

/* Opens /data and formats it if it is empty. */
MUST_CHECK enum err meta_world_format(struct meta_world *world, char message[FORMAT_MESSAGE_BYTES_MAX]);
/* Formats where needed, starts and waits; the answer to the start. */
MUST_CHECK enum err meta_world_start(struct meta_world *world);
/* Stops cleanly and frees the node. */
void meta_world_stop(struct meta_world *world);
/* The process dies; with power_cut also what was not synced. Loops are new afterwards. */
void meta_world_crash(struct meta_world *world, bool power_cut);

/* Asks and waits; false when no answer came within a virtual minute. in and out are in request. */
bool meta_world_ask(struct meta_world *world, struct metadata_call *request);
/* Creates a topic with one replica; what the topic's entry says (or the request's err). */
enum err meta_world_create(struct meta_world *world, const char *name, int32_t partitions);
/* Registers broker 1 with a new incarnation and unfences it; its epoch, or -1. */
int64_t meta_world_register(struct meta_world *world);

#endif
