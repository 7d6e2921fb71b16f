/*
 * partition_internal: what the files of a partition share: partition.c (life, watermarks, watches), partition_facts.c,
 * partition_append.c, partition_read.c, partition_offsets.c, partition_retain.c. Nobody else includes it.
 */
#ifndef OTTLA_PARTITION_PARTITION_INTERNAL_H
#define OTTLA_PARTITION_PARTITION_INTERNAL_H

#include "partition/log_path.h"
#include "partition/partition.h"

enum partition_state {
    PARTITION_LOADING,
    PARTITION_READY,
    PARTITION_UNUSABLE, /* it could not be loaded */
    PARTITION_GONE,     /* closing, or being deleted */
};

struct partition {
    const struct partition_env *env;
    struct partition_log *log;   /* NULL while loading and where that failed */
    struct partition_load *load; /* NULL once there is a log */
    char *topic;                 /* until there is a log, which has one */
    struct uuid topic_id;
    int32_t index;
    int32_t leader_epoch;
    int64_t high_watermark;
    struct list acks;          /* appends that wait for the high watermark, ascending by wait_offset */
    int64_t told_start_offset; /* the log start that the watches have been told of */
    struct list watches_armed;
    struct list watches_told;
    struct partition_close *closing;
    enum partition_state state;
    bool deleting;
    bool essential;
};

/* What a partition needs only until it is loaded: memory that thousands of idle ones do without. */
struct partition_load {
    struct loop_job job; /* runs, or waits to be run again */
    struct partition *partition;
    struct partition_log_spec spec; /* the job's */
    int64_t high_watermark;         /* as the checkpoint files have it */
    char from_copy[LOG_NAME_BYTES_MAX + 1];
    struct partition_log *log;
    struct partition_log_recovery recovery;
    enum err err;
    partition_ready_fn *ready;
    void *ready_context;
    struct log_config *config; /* as of now; the log's once there is one: NULL here then */
    struct list appends;       /* operations that wait for the load */
    struct list reads;
    struct list offsets;
    struct list waits;
    struct loop_timer again;
    int64_t until_ns; /* then no more */
    bool is_running;
    struct list_node waiting; /* in env->files->loads_waiting */
    bool fails_after;         /* its directory failed meanwhile */
};

/* ERR_OK, or why the partition cannot serve a request made under that leader epoch. */
MUST_CHECK enum err partition_check(const struct partition *partition, int32_t current_leader_epoch);
/* The bound of what such a reader may see. */
int64_t partition_readable_end(const struct partition *partition, enum partition_isolation isolation);
/* What a log's error is to a client. */
enum err partition_client_error(const struct partition *partition, enum err err);

/* An operation joins one of the load's lists: the partition is loaded before those that nobody waits for. */
void partition_load_await(struct partition *partition, struct list *list, struct list_node *node);

void partition_append_start(struct partition_append *op);
void partition_append_complete(struct partition_append *op, enum err err);
void partition_read_start(struct partition_read *op);
void partition_offsets_start(struct partition_offsets *op);

#endif
