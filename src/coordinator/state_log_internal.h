/*
 * state_log_internal: struct state_log, for state_log.c (steps, answers), state_write.c (batches) and state_load.c
 * (loading).
 */
#ifndef OTTLA_COORDINATOR_STATE_LOG_INTERNAL_H
#define OTTLA_COORDINATOR_STATE_LOG_INTERNAL_H

#include "base/list.h"
#include "coordinator/state_log.h"
#include "protocol/batch_build.h"

enum state_log_state {
    STATE_LOG_LOADING,
    STATE_LOG_ACTIVE,
    STATE_LOG_FAILED, /* waits for what is under way, and for its time, to be loaded anew */
    STATE_LOG_CLOSED,
};

/* Records on their way into the log. */
struct state_batch {
    struct partition_append append;
    struct batch_builder builder;
    struct state_log *log;
    int64_t expected_offset;
    size_t counted_bytes;
    struct list_node node;
};

/* One piece of a load. */
struct state_load {
    struct state_log *log;
    struct partition_read read;
    struct loop_job job; /* brings file ranges into memory */
    struct loop_task task;
    struct arena arena;
    struct list_node node; /* in state_logs.loads */
    uint8_t *data;         /* the piece, and what of it is replayed */
    size_t size, at;
    int64_t offset; /* the next to be replayed */
    int64_t began_ns;
    uint64_t records;
    enum err err; /* of the job */
    bool waits;   /* in state_logs.loads */
};

struct state_log {
    struct state_logs *logs;
    const struct state_kind *kind;
    void *context;
    struct partition *partition; /* NULL once it is gone */
    int32_t index;               /* of the partition: for lines */
    uint32_t entered;            /* calls from outside under way: it is not freed meanwhile */
    struct partition_watch watch;
    struct step_sink sink;
    enum state_log_state state;
    void *of_kind; /* the state; NULL unless ACTIVE or LOADING */
    enum err why;  /* CLOSED */
    bool in_step;
    bool unloading;
    struct list step_answers; /* of the step under way */
    int32_t step_records;
    struct step_producer step_producer; /* id -1: the records are of no transaction */
    int64_t end_offset;                 /* behind all that the state has seen, written or not */
    int64_t high_watermark;
    struct list answers;         /* decided, in order; wait for the high watermark */
    struct state_batch *current; /* NULL: none is begun */
    struct list queued;          /* full, or held up by those in flight */
    struct list flying;          /* the partition's */
    uint32_t in_flight;
    size_t pending_bytes;
    bool flush_deferred;
    struct loop_task flush_task;
    struct loop_timer linger_timer;
    struct loop_timer answer_timer; /* the first answer's deadline; may be armed for nothing */
    struct loop_timer due_timer;
    struct list_node due_node; /* logs->due: the timer has fired */
    int64_t ticked_ns;         /* the turn of the last tick */
    int64_t put_off_ns;        /* until then what is due waits, because we slept */
    uint32_t put_offs;         /* since the last tick */
    struct loop_timer retry_timer;
    int64_t retry_ms;        /* before the next load */
    int64_t active_ns;       /* when the state was loaded */
    struct state_load *load; /* NULL: none under way */
    void (*closed)(void *context);
    void *closed_context;
};

/* state_load.c */
void state_load_begin(struct state_log *log);
/* The log was closed: ends it as soon as nothing of it is under way. */
void state_load_end(struct state_log *log, enum err err);

/* state_write.c */
void state_write_init(struct state_log *log);
/* Bytes of a key and a value that the step under way may still write. */
size_t state_write_room(const struct state_log *log);
/* Keeps a record of the step under way. ERR_MESSAGE_TOO_LARGE, ERR_NOMEM. */
MUST_CHECK enum err state_write_record(struct state_log *log, const struct step_producer *producer, struct bytes key,
                                       struct bytes value);
/* The step's records go behind those of earlier ones, all or none. ERR_NOMEM. */
MUST_CHECK enum err state_write_step(struct state_log *log, int64_t now_ms);
/* The step is over. */
void state_write_clear(struct state_logs *logs);
/* What was written goes soon. */
void state_write_later(struct state_log *log);
/* It goes now, within what may be under way. */
void state_write_flush(struct state_log *log);
/* An append has failed: what stands on it goes, too. */
void state_write_fail(struct state_log *log, enum err err);

/* state_log.c */
/* The high watermark moved. */
void state_log_release(struct state_log *log);
void state_log_append_failed(struct state_log *log, enum err err);
/* All is replayed up to the log's end. */
void state_log_loaded(struct state_log *log);
void state_log_load_failed(struct state_log *log, enum err err);
/* Around whatever comes in from outside: with the last one goes a log that is closed and has nothing under way. */
void state_log_enter(struct state_log *log);
void state_log_leave(struct state_log *log);

#endif
