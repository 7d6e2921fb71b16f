/*
 * group_coordinators: the group coordinators of one shard: one for each partition of __consumer_offsets that is at home
 * here and led by this node, as the image says. Made when the partition is ready, gone with leadership or topic.
 *
 * Idle     an empty coordinator has its offsets' expiry check and nothing else.
 * Threads  the shard's loop.
 */
#ifndef OTTLA_BROKER_GROUP_COORDINATORS_H
#define OTTLA_BROKER_GROUP_COORDINATORS_H

#include "coordinator/groups.h"
#include "coordinator/state_log.h"
#include "raftmeta/image.h"

struct group_coordinator;
struct hosted;
struct shard;

struct shard_groups {
    struct shard *shard;
    struct state_logs logs;
    struct group_topics topics;
    struct group_settings settings;
    struct group_histories histories; /* of all of them */
    struct list coordinators;         /* of struct group_coordinator */
    struct metadata_call *making;     /* the topic, on its way; NULL: nobody asked, or it is answered */
    bool stopping;
    /* ListGroups by connections of this shard (handle_group_admin.c). */
    bool lists;                /* one is under way */
    struct list lists_waiting; /* for it, in order */
    struct loop_task list_next;
    bool list_deferred;
};

void group_coordinators_init(struct shard_groups *groups, struct shard *shard);
/* None is left. */
void group_coordinators_deinit(struct shard_groups *groups);
/* The partition is ready, or the image says something else of it: its coordinator comes or goes. */
void group_coordinators_follow(struct shard *shard, struct hosted *hosted);
/* The node serves: only now does it lead for good, so nothing was loaded before. */
void group_coordinators_serve(struct shard *shard);
/* The partition goes. */
void group_coordinators_forget(struct shard *shard, struct hosted *hosted);
/* The shard's image is another, its partitions have followed. */
void group_coordinators_publish(struct shard *shard, const struct image_delta *delta);
/* Settings that may change on line. */
void group_coordinators_configure(struct shard *shard);
/* The node stops: whoever waits is answered ERR_COORDINATOR_NOT_AVAILABLE, and so is whoever comes. */
void group_coordinators_stop(struct shard *shard);

/* At the partition's home: decides the operation, or refuses it; its done runs at once or later. */
void group_coordinators_ask(struct shard *shard, struct hosted *hosted, struct group_op *op);

#endif
