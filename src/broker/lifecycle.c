/* How a broker comes up and goes down: steps on the controller loop, each begun when the one before is done. */
#include <stdio.h>

#include "base/assert.h"
#include "base/mem.h"
#include "broker/broker_internal.h"
#include "broker/dir_recovery.h"
#include "broker/handlers.h"

static void tell(struct broker *broker, enum err err)
{
    broker_done_fn *done = broker->done;

    broker->done = NULL;
    done(broker->done_context, err, err == ERR_OK ? "" : broker->message);
}

static void fail_start(struct broker *broker, enum err err, const char *what, const char *why)
{
    (void)snprintf(broker->message, sizeof(broker->message), "%s: %.*s", what, BROKER_MESSAGE_CHARS - 64,
                   why[0] != '\0' ? why : err_text(err)); /* cut, not overrun: what is a short literal */
    log_error(&broker->log, "start failed %s err=%s", broker->message, err_name(err));
    tell(broker, err);
}

/* ---- start ---- */

/* A stop may have come meanwhile, or a shard may have found what the start is not to go on over; then the sequence ends
 * here. */
static bool goes_on(struct broker *broker)
{
    if (atomic_load(&broker->state) != BROKER_STARTING)
        return false;
    if (!atomic_load(&broker->undecided))
        return true;
    fail_start(broker, ERR_EXISTS, "the partitions cannot be opened", broker->undecided_message);
    return false;
}

/* As long as the log itself, perhaps: its room is not to wait for another start. */
static void discard_copy(struct broker *broker, const struct stored *stored)
{
    struct shard *shard = &broker->shards[broker->env.reactor_count]; /* this loop's */
    struct log_path aside;
    enum err err = log_dir_discard_copy(broker->dirs[stored->dir].dir, stored->found->copy, &aside);
    struct deleted_dir *dir = err == ERR_OK ? deleted_dir_new(aside.text, loop_now_ns(shard->loop)) : NULL;

    log_warn(&broker->log, "copy of a move given up dir=%s/%s err=%s", broker->dirs[stored->dir].path,
             stored->found->copy, err_name(err));
    if (dir != NULL)
        deleted_dirs_take(&shard->deleted_dirs, dir);
}

static void set_aside(struct broker *broker, struct stored *stored)
{
    uint8_t random[16];
    enum err err = ERR_OK;

    if (stored->found->copy != NULL) {
        discard_copy(broker, stored);
        return;
    }
    rng_fill(broker->env.rng, random, sizeof(random));
    err = log_dir_set_aside(broker->dirs[stored->dir].dir, bytes_of_text(stored->found->topic), stored->found->index,
                            random);
    dir_recovery_set_aside(&broker->dirs[stored->dir]);
    log_warn(&broker->log, "stray partition set aside partition=%s dir=%s err=%s", stored->key,
             broker->dirs[stored->dir].path, err_name(err));
}

/* Directories of partitions that the metadata does not place here, or places in another one, are kept beside, never
 * loaded. */
static void set_strays_aside(struct broker *broker)
{
    void *value = NULL;

    for (uint32_t cursor = 0; map_next(&broker->stored, &cursor, NULL, &value);)
        for (struct stored *stored = value; stored != NULL; stored = stored->next)
            if (!atomic_load(&stored->claimed))
                set_aside(broker, stored);
}

static void serve(struct loop_task *task)
{
    struct shard *shard = LIST_ENTRY(task, struct shard, start_task);

    shard_serve(shard);
    if (atomic_fetch_sub(&shard->broker->shards_to_serve, 1) == 1)
        loop_post(shard->broker->env.controller, &shard->broker->serve_task);
}

static void all_serve(struct loop_task *task)
{
    struct broker *broker = LIST_ENTRY(task, struct broker, serve_task);

    if (!goes_on(broker))
        return;
    atomic_store(&broker->state, BROKER_SERVING);
    broker->registered = true;
    broker_forget_stored(broker);
    checkpoints_begin(broker);
    space_watch_begin(broker);
    shard_dirs_tell_offline(broker); /* of those that failed since the start registered them */
    tell(broker, ERR_OK);
}

static void begin_to_serve(struct broker *broker)
{
    atomic_store(&broker->shards_to_serve, broker->shard_count);
    broker->serve_task.run = all_serve;
    for (uint32_t i = 0; i < broker->shard_count; i++) {
        broker->shards[i].start_task.run = serve;
        loop_post(broker->shards[i].loop, &broker->shards[i].start_task);
    }
}

static void ask(struct broker *broker, enum controller_request_type type, void (*done)(struct metadata_call *request))
{
    arena_reset(&broker->sequence_arena);
    broker->metadata_call.home = broker->env.controller;
    broker->metadata_call.done = done;
    broker->metadata_call.request.type = type;
    broker->metadata_call.request.arena = &broker->sequence_arena;
    broker->metadata_call.request.err = ERR_OK;
    metadata_node_call(broker->metadata, &broker->metadata_call);
}

static void heartbeat_again(struct loop_timer *timer);

static void heartbeat_done(struct metadata_call *request)
{
    struct broker *broker = LIST_ENTRY(request, struct broker, metadata_call);

    if (!goes_on(broker))
        return;
    if (request->request.err != ERR_OK) {
        fail_start(broker, request->request.err, "the broker cannot be unfenced", "");
    } else if (request->request.broker_heartbeat.fenced) {
        broker->heartbeat_timer.fired = heartbeat_again;
        loop_timer_start(broker->env.controller, &broker->heartbeat_timer,
                         loop_now_ns(broker->env.controller) + BROKER_HEARTBEAT_RETRY_MS * INT64_C(1000000));
    } else {
        begin_to_serve(broker);
    }
}

static void heartbeat(struct broker *broker)
{
    broker->metadata_call.request.broker_heartbeat = (struct broker_heartbeat){
        .broker_id = broker->node_id,
        .broker_epoch = atomic_load(&broker->broker_epoch),
        .metadata_offset = image_offset(metadata_node_image(broker->metadata)),
    };
    ask(broker, CONTROLLER_BROKER_HEARTBEAT, heartbeat_done);
}

static void heartbeat_again(struct loop_timer *timer)
{
    heartbeat(LIST_ENTRY(timer, struct broker, heartbeat_timer));
}

static void registered(struct metadata_call *request)
{
    struct broker *broker = LIST_ENTRY(request, struct broker, metadata_call);
    const struct image_broker *row = NULL;

    if (!goes_on(broker))
        return;
    if (request->request.err != ERR_OK) {
        fail_start(broker, request->request.err, "the broker cannot be registered", "");
        return;
    }
    atomic_store(&broker->broker_epoch, request->request.register_broker.epoch);
    row = image_broker(metadata_node_image(broker->metadata), broker->node_id);
    if (row != NULL && !row->fenced)
        begin_to_serve(broker);
    else
        heartbeat(broker);
}

static void register_broker(struct broker *broker)
{
    struct register_broker *in = &broker->metadata_call.request.register_broker;
    uint32_t count = 0;

    *in = (struct register_broker){
        .broker_id = broker->node_id,
        .cluster_id = bytes_of_text(broker->cluster_id),
        .incarnation = broker->incarnation,
        .endpoints = broker->broker_endpoints,
        .features = broker_features,
        .feature_count = broker_feature_count,
        .rack = bytes_of_text(config_text(broker->config, CONFIG_BROKER_RACK)),
        .directories = broker->directory_ids,
        .directory_count = broker->dir_count,
        .previous_epoch = broker->dirs[0].clean ? broker->dirs[0].clean_epoch : -1,
        .then_unfence = true,
    };
    for (uint32_t i = 0; i < broker->listeners.count; i++)
        if (!broker->listeners.entries[i].is_controller)
            broker->broker_endpoints[count++] = broker->endpoints[i];
    in->endpoint_count = count;
    for (uint32_t i = 0; i < broker->dir_count; i++)
        broker->directory_ids[i] = broker->dirs[i].id;
    ask(broker, CONTROLLER_REGISTER_BROKER, registered);
}

static void metadata_started(struct metadata_start *start)
{
    struct broker *broker = LIST_ENTRY(start, struct broker, metadata_start);
    enum err err = ERR_OK;

    if (!goes_on(broker))
        return;
    if (start->err != ERR_OK) {
        fail_start(broker, start->err, "the metadata cannot be loaded", start->message);
        return;
    }
    err = broker_keep_stored(broker);
    if (err != ERR_OK) {
        fail_start(broker, err, "what is kept beside cannot be noted", "");
        return;
    }
    broker->loaded = true;
    set_strays_aside(broker);
    register_broker(broker);
}

void broker_start(struct broker *broker, broker_done_fn *done, void *context)
{
    assert(atomic_load(&broker->state) == BROKER_NEW);
    atomic_store(&broker->state, BROKER_STARTING);
    broker->done = done;
    broker->done_context = context;
    broker->metadata_start.home = broker->env.controller;
    broker->metadata_start.done = metadata_started;
    metadata_node_start(broker->metadata, &broker->metadata_start);
}

/* ---- stop ---- */

static void stopped(struct broker *broker)
{
    atomic_store(&broker->state, BROKER_STOPPED);
    if (broker->stop_err != ERR_OK)
        (void)snprintf(broker->message, sizeof(broker->message), "the stop was not clean: %s",
                       err_text(broker->stop_err));
    tell(broker, broker->stop_err);
}

/* On an I/O thread: all logs are closed. */
static void write_marks(struct loop_job *job)
{
    struct broker *broker = LIST_ENTRY(job, struct broker, stop_job);
    enum err err = ERR_OK;

    for (uint32_t i = 0; i < broker->dir_count; i++) {
        enum err sync_err = dir_recovery_sync_all(broker, i);

        if (broker->stop_err == ERR_OK)
            broker->stop_err = sync_err;
    }
    /* Where notes of some are missing, what the files say of all holds. */
    err =
        atomic_load(&broker->checkpoints.incomplete) ? ERR_NOMEM : checkpoints_write(broker, broker->checkpoints.notes);
    for (uint32_t i = 0; i < broker->dir_count && err == ERR_OK; i++) {
        struct broker_dir *dir = &broker->dirs[i];
        struct dir_relief relief = {0};

        if (atomic_load(&dir->failed) || atomic_load(&dir->close_failed))
            continue;
        do
            err = dir_recovery_end(broker, i);
        while (err == ERR_NO_SPACE && dir_space_relieve(&dir->space, &relief));
        if (err != ERR_OK)
            break;
        do
            err = log_dir_put_clean_mark(dir->dir, atomic_load(&broker->broker_epoch));
        while (err == ERR_NO_SPACE && dir_space_relieve(&dir->space, &relief));
    }
    if (err != ERR_OK && broker->stop_err == ERR_OK)
        broker->stop_err = err;
}

static void metadata_stopped(struct metadata_start *stop)
{
    struct broker *broker = LIST_ENTRY(stop, struct broker, metadata_stop);

    if (stop->err != ERR_OK && broker->stop_err == ERR_OK)
        broker->stop_err = stop->err;
    stopped(broker);
}

static void stop_metadata(struct broker *broker)
{
    broker->metadata_stop.home = broker->env.controller;
    broker->metadata_stop.done = metadata_stopped;
    metadata_node_stop(broker->metadata, &broker->metadata_stop);
}

static void left(struct metadata_call *request)
{
    struct broker *broker = LIST_ENTRY(request, struct broker, metadata_call);

    if (request->request.err != ERR_OK)
        log_warn(&broker->log, "the registration could not be ended err=%s", err_name(request->request.err));
    stop_metadata(broker);
}

/* Last of all, when nothing here leads or changes any more: fenced, as Apache Kafka's controlled shutdown leaves a
 * broker (controller.md "Brokers"). Else a node of another program that starts on these directories is taken for a
 * second one with our id, and kept out until our session would have timed out. */
static void leave(struct broker *broker)
{
    if (!broker->registered || atomic_load(&broker->dirs[broker->metadata_dir].failed)) {
        stop_metadata(broker);
        return;
    }
    broker->metadata_call.request.broker_heartbeat = (struct broker_heartbeat){
        .broker_id = broker->node_id,
        .broker_epoch = atomic_load(&broker->broker_epoch),
        .metadata_offset = image_offset(metadata_node_image(broker->metadata)),
        .want_fence = true,
        .want_shutdown = true,
    };
    ask(broker, CONTROLLER_BROKER_HEARTBEAT, left);
}

static void marks_written(struct loop_job *job)
{
    leave(LIST_ENTRY(job, struct broker, stop_job));
}

static void all_closed(struct loop_task *task)
{
    struct broker *broker = LIST_ENTRY(task, struct broker, sequence_task);

    for (uint32_t i = 0; i < broker->shard_count; i++) {
        struct shard *shard = &broker->shards[i];

        while (shard->notes != NULL) {
            struct partition_note *note = shard->notes;

            shard->notes = note->next;
            note->next = broker->checkpoints.notes;
            broker->checkpoints.notes = note;
        }
    }
    /* The start failed before anything was opened, or over what lies there: what the directories say still holds. */
    if (!broker->loaded || atomic_load(&broker->undecided)) {
        stop_metadata(broker);
        return;
    }
    broker->stop_job.run = write_marks;
    broker->stop_job.done = marks_written;
    loop_submit(broker->env.controller, &broker->stop_job);
}

static void shard_is_closed(struct shard *shard)
{
    if (atomic_fetch_sub(&shard->broker->shards_left, 1) == 1)
        loop_post(shard->broker->env.controller, &shard->broker->sequence_task);
}

static void close_shard(struct loop_task *task)
{
    shard_close(LIST_ENTRY(task, struct shard, stop_task), shard_is_closed);
}

static void all_drained(struct loop_task *task)
{
    struct broker *broker = LIST_ENTRY(task, struct broker, sequence_task);

    broker->sequence_task.run = all_closed;
    atomic_store(&broker->checkpoints.incomplete, false);
    atomic_store(&broker->shards_left, broker->shard_count);
    for (uint32_t i = 0; i < broker->shard_count; i++) {
        broker->shards[i].stop_task.run = close_shard;
        loop_post(broker->shards[i].loop, &broker->shards[i].stop_task);
    }
}

static void shard_is_drained(struct loop_task *task)
{
    struct shard *shard = LIST_ENTRY(task, struct shard, drained_task);

    loop_timer_stop(shard->loop, &shard->drain_timer);
    if (atomic_fetch_sub(&shard->broker->shards_left, 1) == 1)
        loop_post(shard->broker->env.controller, &shard->broker->sequence_task);
}

static void drain_shard(struct loop_task *task)
{
    struct shard *shard = LIST_ENTRY(task, struct shard, stop_task);

    shard->drained_task.run = shard_is_drained;
    shard_drain(shard);
}

static void drain(struct broker *broker)
{
    for (uint32_t i = 0; i < broker->listeners.count; i++) {
        if (broker->bound[i] != NULL)
            net_unlisten(broker->env.net, broker->bound[i]);
        broker->bound[i] = NULL;
    }
    broker->sequence_task.run = all_drained;
    atomic_store(&broker->shards_left, broker->shard_count);
    for (uint32_t i = 0; i < broker->shard_count; i++) {
        broker->shards[i].stop_task.run = drain_shard;
        loop_post(broker->shards[i].loop, &broker->shards[i].stop_task);
    }
}

static void end_looking(struct broker *broker)
{
    space_watch_end(broker, drain);
}

static void begin_stop(struct loop_task *task)
{
    struct broker *broker = LIST_ENTRY(task, struct broker, stop_task);

    broker->done = broker->stop_done; /* here, where the start's is told */
    broker->done_context = broker->stop_context;
    loop_timer_stop(broker->env.controller, &broker->heartbeat_timer);
    loop_timer_stop(broker->env.controller, &broker->offline.again);
    checkpoints_end(broker, end_looking);
}

void broker_stop(struct broker *broker, broker_done_fn *done, void *context)
{
    atomic_store(&broker->state, BROKER_STOPPING);
    broker->stop_done = done;
    broker->stop_context = context;
    broker->stop_task.run = begin_stop;
    loop_post(broker->env.controller, &broker->stop_task);
}
