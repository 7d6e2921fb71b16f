/*
 * metadata_node: the room's front door: this node's metadata log, quorum, controller and the images they publish. It
 * runs on a loop of its own (the controller loop). Requests come from any loop and complete there; listeners on any
 * loop are told each committed change as (image, delta), in order.
 *
 *   metadata_node_new -> metadata_node_subscribe ... -> metadata_node_start -> requests -> metadata_node_stop
 *
 * A request completes when its records are committed (written and synced by a majority) AND every subscribed loop has
 * applied them, so whoever is told of a new topic finds it wherever he asks on this node.
 *
 * Threads  each function says.
 */
#ifndef OTTLA_RAFTMETA_METADATA_NODE_H
#define OTTLA_RAFTMETA_METADATA_NODE_H

#include "base/clock.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/rng.h"
#include "raftmeta/controller.h"
#include "raftmeta/image.h"

enum { METADATA_MESSAGE_BYTES_MAX = 512 };

struct dir_space;

struct metadata_node_options {
    struct fs *fs;
    struct clock *clock;
    struct rng *rng;
    struct log *log;
    struct loop *loop;        /* the controller loop */
    const char *dir;          /* metadata.log.dir: formatted (format.h); holds __cluster_metadata-0 */
    struct dir_space *space;  /* of that directory; NULL: there is no reserve */
    struct uuid directory_id; /* of that directory */
    struct controller_settings controller;
    /* This node as a voter: the advertised controller listener. */
    struct image_endpoint voter_endpoint;
    /* The log is lost to this process (an I/O error): nothing can be changed any more. On the controller loop; NULL:
     * nobody is told. */
    void (*failed)(void *context, enum err err);
    void *context;
    int64_t idle_interval_ms;     /* metadata.max.idle.interval.ms; 0: no NoOp records */
    uint64_t snapshot_bytes;      /* metadata.log.max.record.bytes.between.snapshots */
    int64_t snapshot_interval_ms; /* metadata.log.max.snapshot.interval.ms; 0: by bytes only */
    uint64_t segment_bytes;       /* metadata.log.segment.bytes */
};

struct metadata_node;

/* Borrowed from subscribe until the node is freed. */
struct metadata_listener {
    struct loop *loop; /* where publish runs */
    /* image and delta are borrowed for the call (keep them to have them longer). The first call after subscribing tells
     * all there is (delta from nothing). */
    void (*publish)(struct metadata_listener *listener, struct image *image, const struct image_delta *delta);
    struct metadata_listener *next; /* the node's */
};

/* A request on its way; embedded in what waits for it, borrowed from the call until done. */
struct metadata_call {
    struct controller_request request;
    struct loop *home; /* where done runs */
    void (*done)(struct metadata_call *request);
    int64_t visible_offset; /* out: the image version that shows the outcome; every listener has it */
    /* the node's */
    struct metadata_node *node;
    struct loop_task task;
    struct metadata_call *next;
    int64_t wait_offset;
};

struct metadata_start {
    struct loop *home;
    void (*done)(struct metadata_start *start);
    enum err err;                             /* out */
    char message[METADATA_MESSAGE_BYTES_MAX]; /* out, "" when it went well */
    /* the node's */
    struct metadata_node *node;
    struct loop_task task;
};

/* Any thread, before the loop runs. NULL without memory. Options are copied, what they point to is borrowed for life.
 */
struct metadata_node *metadata_node_new(const struct metadata_node_options *options) MUST_CHECK;
/* Any thread, before metadata_node_start. */
void metadata_node_subscribe(struct metadata_node *node, struct metadata_listener *listener);
/*
 * Any thread. Loads the newest snapshot and the log behind it, takes leadership (a quorum of one needs nobody), and
 * activates an empty log. done comes after every listener has applied the first image.
 *
 * ERR_NOT_FOUND    the directory is not formatted
 * ERR_DAMAGED      the log or a snapshot cannot be replayed; message says where and why
 * ERR_UNSUPPORTED_VERSION  a record or finalised level that this build does not know; message names it
 * ERR_IO, ERR_NO_SPACE ...
 */
void metadata_node_start(struct metadata_node *node, struct metadata_start *start);
/* Any thread. Completes exactly once; err NOT_CONTROLLER before start is done, after stop has begun, and when the disk
 * failed. The arena and all `in` must stay untouched until done. */
void metadata_node_call(struct metadata_node *node, struct metadata_call *request);
/* Any thread, once. Requests under way complete; the log is synced and closed. */
void metadata_node_stop(struct metadata_node *node, struct metadata_start *stop);
/* After stop is done (or if start was never called). NULL does nothing. */
void metadata_node_free(struct metadata_node *node);

/* Controller loop only: the last committed image, borrowed. */
struct image *metadata_node_image(struct metadata_node *node);

#endif
