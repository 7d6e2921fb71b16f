/*
 * broker: one node, from configuration to answers: log directories, metadata, partitions, listeners, requests. It makes
 * no thread, opens no socket and reads no clock but through the seams it is given, so a process gives it real ones and
 * the simulator builds whole nodes over simulated ones.
 *
 *   broker_new -> broker_start (done: it serves) ... -> broker_stop (done: all is synced and closed) -> broker_free
 *
 * Threads  broker_new and broker_free while no loop runs for this broker (both block on files); start and stop from
 *          any thread, once each; what is done afterwards is told on the controller loop.
 */
#ifndef OTTLA_BROKER_BROKER_H
#define OTTLA_BROKER_BROKER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/net.h"
#include "base/rng.h"
#include "broker/broker_limits.h"
#include "broker/config.h"
#include "broker/listeners.h"

/* The world as one broker sees it; all of it outlives the broker. */
struct broker_env {
    struct fs *fs;
    struct net *net;
    struct clock *clock;
    struct rng *rng;
    struct log_sink *log_sink;
    enum log_level log_level;
    struct loop **reactors; /* by index; at least one */
    uint32_t reactor_count;
    struct loop *controller; /* of its own, so that a busy data path never costs an election */
    struct loop *aside;      /* likewise, for what would hold up reactors (request_aside.h); its index is the last */
    /* The node cannot go on (its metadata log, or every log directory, is lost to I/O errors): it should be stopped. On
     * any of its loops, perhaps more than once; NULL: nobody is told. message: one line for people, for the call. */
    void (*failed)(void *context, const char *message);
    void *context;
    uint64_t memory_bytes_max;    /* what requests and replies of clients may take; 0: BROKER_MEMORY_BYTES_DEFAULT */
    const char *working_dir;      /* relative log.dirs are told to clients below it; NULL: as they were given */
    uint32_t sync_all_partitions; /* of one reactor that are to be synced, from which on whole file systems are;
                                     0: SYNC_GROUP_LOGS_MIN */
    uint32_t descriptors_max;     /* this broker's share of the process's; 0: BROKER_DESCRIPTORS_DEFAULT */
};

struct broker;

/* Told once, on the controller loop. message: one line for people, "" when err is ERR_OK. */
typedef void broker_done_fn(void *context, enum err err, const char *message);

/*
 * Opens, locks and where allowed formats the log directories, binds the listeners. config is borrowed for life and has
 * passed config_check_whole. message: one line that says what is wrong and what to do.
 *
 * ERR_LOCKED  another process has a directory
 * ERR_BUSY    an address is in use
 * ERR_USAGE, ERR_NOT_FOUND, ERR_PERMISSION, ERR_DAMAGED, ERR_IO ...
 */
MUST_CHECK enum err broker_new(const struct broker_env *env, const struct config *config, struct broker **broker,
                               char message[BROKER_MESSAGE_CHARS]);
/* Loads the metadata and the partitions, registers, begins to serve. */
void broker_start(struct broker *broker, broker_done_fn *done, void *context);
/* Answers what is under way, syncs and closes everything, writes the clean-shutdown marks. Also after a failed start.
 */
void broker_stop(struct broker *broker, broker_done_fn *done, void *context);
/* Only after stop is done, or before start. NULL does nothing. */
void broker_free(struct broker *broker);

/* A turn of that loop (of the reactors or the controller, whose index is the next) took so long; for a metric. On its
 * thread. */
void broker_turn_ended(struct broker *broker, uint32_t loop_index, int64_t turn_ns);

/* The companion serves HTTP on that port of ottla.http.listener, or, 0, could not: so it is described from here on. Any
 * thread. */
void broker_tell_http_port(struct broker *broker, uint16_t port);

int32_t broker_node_id(const struct broker *broker);
const char *broker_cluster_id(const struct broker *broker);
/* Bound addresses, the chosen port where 0 was asked for. */
const struct listeners *broker_listeners(const struct broker *broker);

#endif
