/*
 * partition_internal: what the files of a partition share: partition.c (life, watermarks, watches), partition_facts.c,
 * partition_append.c, partition_read.c, partition_offsets.c, partition_retain.c. Nobody else includes it.
 */
#ifndef OTTLA_PARTITION_PARTITION_INTERNAL_H
#define OTTLA_PARTITION_PARTITION_INTERNAL_H

#include "partition/partition.h"

enum partition_state {
    PARTITION_LOADING,
    PARTITION_READY,
    PARTITION_UNUSABLE, /* it could not be loaded */
    PARTITION_GONE,     /* closing, or being deleted */
};

struct partition {
    const struct partition_env *env;
    struct partition_log *log; /* NULL while loading and where that failed */
    enum partition_state state;
    char *topic;
    size_t topic_size;
    struct uuid topic_id;
    int32_t index;
    int32_t leader_epoch;
    int64_t high_watermark;
    struct log_config config;
    struct list acks;            /* appends that wait for the high watermark, ascending by wait_offset */
    struct list appends_loading; /* operations that wait for the load */
    struct list reads_loading;
    struct list offsets_loading;
    struct list waits_loading;
    int64_t told_start_offset; /* the log start that the watches have been told of */
    struct list watches_armed;
    struct list watches_told;
    partition_ready_fn *ready;
    void *ready_context;
    struct partition_close *closing;
    bool deleting;
    struct load_job *load; /* runs, or waits to be run again; NULL once it is through */
    bool load_is_running;
    struct loop_timer load_again;
    int64_t load_until_ns; /* then no more */
    bool fails_after_load; /* its directory failed meanwhile */
    bool essential;
};

/* ERR_OK, or why the partition cannot serve a request made under that leader epoch. */
MUST_CHECK enum err partition_check(const struct partition *partition, int32_t current_leader_epoch);
/* The bound of what such a reader may see. */
int64_t partition_readable_end(const struct partition *partition, enum partition_isolation isolation);
/* What a log's error is to a client. */
enum err partition_client_error(const struct partition *partition, enum err err);

void partition_append_start(struct partition_append *op);
void partition_append_complete(struct partition_append *op, enum err err);
void partition_read_start(struct partition_read *op);
void partition_offsets_start(struct partition_offsets *op);

#endif
