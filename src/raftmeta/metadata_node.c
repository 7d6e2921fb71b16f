#include "raftmeta/metadata_node.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/assert.h"
#include "base/mem.h"
#include "protocol/batch_build.h"
#include "raftmeta/image_records.h"
#include "raftmeta/metadata_limits.h"
#include "raftmeta/metadata_load.h"
#include "raftmeta/publisher.h"
#include "raftmeta/quorum_single.h"

enum phase {
    NODE_NEW,
    NODE_LOADING,    /* the job reads the disk */
    NODE_ELECTING,   /* the quorum settles who leads */
    NODE_ACTIVATING, /* we do; the first records are on their way */
    NODE_ACTIVE,
    NODE_FAILED,
    NODE_STOPPING,
    NODE_STOPPED,
};

/* A change handed to the quorum and not yet committed. */
struct pending {
    struct pending *next;
    struct publication *publication;
    int64_t last_offset;
};

struct metadata_node {
    struct metadata_node_options options;
    struct partition_env env;
    struct partition_files files;
    enum phase phase;
    struct metadata_start *start, *stop;
    /* start */
    struct loop_job load_job;
    enum err load_err;
    struct metadata_loaded *loaded;     /* until this node is active */
    struct partition_log_close abandon; /* of the log, where the start fails */
    char dir[SNAPSHOT_PATH_CHARS_MAX];
    /* the quorum and the controller */
    struct quorum *quorum;
    bool quorum_open; /* it has the log */
    struct controller *controller;
    int32_t epoch;
    int16_t kraft_version;
    struct voter_set *voters; /* NULL with kraft.version 0 */
    struct batch_builder builder;
    struct arena scratch;
    /* what was proposed, and who waits */
    struct pending *pending_first, *pending_last;
    struct metadata_request *waiting_first, *waiting_last; /* in the order of what they wait for */
    int64_t waited_offset; /* of the last change that somebody can wait for: NoOps are not */
    struct image *committed;
    struct publisher publisher;
    /* requests of our own */
    struct metadata_request activation, registration;
    struct arena activation_arena, registration_arena;
    bool activating, registering; /* on their way */
    struct uuid incarnation;      /* of this process as a controller */
    /* NoOp records */
    struct loop_timer idle_timer;
    uint32_t idle_since_sync;
    /* snapshots */
    struct loop_job snapshot_job;
    bool snapshot_running;
    enum err snapshot_err;
    struct image *snapshot_image;
    struct snapshot_id snapshot_id;
    int64_t snapshot_at_ms; /* wall clock, of the last one */
    uint64_t bytes_since_snapshot;
    bool changed_since_snapshot;
};

static struct metadata_node *of_member(void *member, size_t offset)
{
    return (struct metadata_node *)(void *)((uint8_t *)member - offset);
}

static int64_t now_ms(const struct metadata_node *node)
{
    return loop_now_ns(node->options.loop) / 1000000;
}

/* --- answering --- */

static void answer_start(struct loop_task *task)
{
    struct metadata_start *start =
        (struct metadata_start *)(void *)((uint8_t *)task - offsetof(struct metadata_start, task));

    start->done(start);
}

static void finish_start(struct metadata_start **which, enum err err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void finish_start(struct metadata_start **which, enum err err, const char *format, ...)
{
    struct metadata_start *start = *which;
    va_list list;

    if (start == NULL)
        return;
    *which = NULL;
    va_start(list, format);
    (void)vsnprintf(start->message, sizeof(start->message), format, list);
    va_end(list);
    start->err = err;
    start->task.run = answer_start;
    loop_post(start->home, &start->task);
}

static void answer_request(struct loop_task *task)
{
    struct metadata_request *request =
        (struct metadata_request *)(void *)((uint8_t *)task - offsetof(struct metadata_request, task));

    request->done(request);
}

static void complete(struct metadata_node *node, struct metadata_request *request)
{
    request->visible_offset = node->publisher.image_offset;
    request->task.run = answer_request;
    loop_post(request->home, &request->task);
}

static void refuse(struct metadata_node *node, struct metadata_request *request, enum err err)
{
    request->request.err = err;
    request->request.message = (struct bytes){NULL, 0};
    complete(node, request);
}

/* Every waiting request from offset on is told that it came to nothing. */
static void refuse_waiting(struct metadata_node *node, int64_t offset, enum err err)
{
    struct metadata_request **link = &node->waiting_first;

    node->waiting_last = NULL;
    while (*link != NULL) {
        struct metadata_request *request = *link;

        if (request->wait_offset < offset) {
            node->waiting_last = request;
            link = &request->next;
            continue;
        }
        *link = request->next;
        refuse(node, request, err);
    }
}

static void go_on_stopping(struct metadata_node *node);

/* The publisher's covered offset moved. */
static void applied(void *context)
{
    struct metadata_node *node = context;

    while (node->waiting_first != NULL && node->waiting_first->wait_offset <= node->publisher.covered_offset) {
        struct metadata_request *request = node->waiting_first;

        node->waiting_first = request->next;
        if (node->waiting_first == NULL)
            node->waiting_last = NULL;
        complete(node, request);
    }
    go_on_stopping(node);
}

static void wait_for(struct metadata_node *node, struct metadata_request *request, int64_t offset)
{
    request->wait_offset = offset;
    request->next = NULL;
    if (node->waiting_last != NULL)
        node->waiting_last->next = request;
    else
        node->waiting_first = request;
    node->waiting_last = request;
}

/* --- failing --- */

static void drop_pending(struct metadata_node *node, int64_t offset)
{
    struct pending **link = &node->pending_first;

    node->pending_last = NULL;
    while (*link != NULL) {
        struct pending *pending = *link;

        if (pending->last_offset < offset) {
            node->pending_last = pending;
            link = &pending->next;
            continue;
        }
        *link = pending->next;
        publication_free(pending->publication);
        mem_free(pending);
    }
}

static void fail_node(struct metadata_node *node, enum err err, const char *what)
{
    if (node->phase == NODE_FAILED || node->phase == NODE_STOPPED)
        return;
    log_error(node->options.log, "metadata log lost what=%s err=%s", what, err_name(err));
    if (node->phase != NODE_STOPPING)
        node->phase = NODE_FAILED;
    loop_timer_stop(node->options.loop, &node->idle_timer);
    drop_pending(node, INT64_MIN);
    refuse_waiting(node, INT64_MIN, ERR_KAFKA_STORAGE_ERROR);
    finish_start(&node->start, err, "%s: %s", what, err_text(err));
    if (node->options.failed != NULL)
        node->options.failed(node->options.context, err);
    go_on_stopping(node);
}

/* --- proposing --- */

/* What is proposed has to be taken back when it cannot be handed to the quorum; so both are made first. */
struct change {
    struct quorum_proposal *proposal;
    struct pending *pending;
};

/* Adds the batch under way to the bytes of the proposal. */
static enum err take_batch(struct metadata_node *node, struct quorum_proposal *proposal)
{
    uint8_t *batch = NULL;
    uint8_t *grown = NULL;
    size_t size = 0;
    enum err err = batch_builder_finish(&node->builder, &batch, &size);

    if (err != ERR_OK)
        return err;
    grown = mem_realloc(proposal->batches, proposal->size + size);
    if (grown == NULL)
        return ERR_NOMEM;
    memcpy(grown + proposal->size, batch, size);
    proposal->batches = grown;
    proposal->size += size;
    return ERR_OK;
}

static void begin_batch(struct metadata_node *node, int64_t base_offset)
{
    struct batch_spec spec;

    batch_spec_init(&spec);
    spec.base_offset = base_offset;
    spec.leader_epoch = node->epoch;
    spec.size_max = METADATA_BATCH_BYTES_MAX;
    batch_builder_reset(&node->builder, &spec);
}

/* One batch, or more where the records of a broker's coming or going do not fit into one. */
static enum err encode(struct metadata_node *node, const struct controller_effects *effects, int64_t wall_ms,
                       struct quorum_proposal *proposal)
{
    struct bytes no_key = {NULL, 0};
    enum err err = ERR_OK;

    begin_batch(node, effects->base_offset);
    for (uint32_t i = 0; err == ERR_OK && i < effects->record_count; i++) {
        struct bytes frame;

        arena_reset(&node->scratch);
        err = metadata_record_write(&effects->records[i], &node->scratch, &frame);
        if (err != ERR_OK)
            return err;
        err = node->builder.record_count >= CONTROLLER_RECORDS_MAX
                  ? ERR_MESSAGE_TOO_LARGE
                  : batch_builder_append(&node->builder, wall_ms, no_key, frame, NULL, 0);
        if (err != ERR_MESSAGE_TOO_LARGE)
            continue;
        err = take_batch(node, proposal);
        begin_batch(node, effects->base_offset + i);
        if (err == ERR_OK)
            err = batch_builder_append(&node->builder, wall_ms, no_key, frame, NULL, 0);
    }
    return err == ERR_OK ? take_batch(node, proposal) : err;
}

static void free_change(struct change *change)
{
    if (change->proposal != NULL)
        mem_free(change->proposal->batches);
    mem_free(change->proposal);
    mem_free(change->pending);
}

static enum err make_change(struct metadata_node *node, const struct controller_effects *effects, int64_t wall_ms,
                            struct change *change)
{
    int64_t last = effects->base_offset + effects->record_count - 1;
    enum err err = ERR_OK;

    change->proposal = mem_calloc(1, sizeof(*change->proposal));
    change->pending = mem_calloc(1, sizeof(*change->pending));
    if (change->proposal == NULL || change->pending == NULL)
        return ERR_NOMEM;
    change->proposal->base_offset = effects->base_offset;
    change->proposal->last_offset = last;
    err = encode(node, effects, wall_ms, change->proposal);
    if (err != ERR_OK)
        return err;
    change->pending->last_offset = last;
    change->pending->publication = publication_new(&node->publisher, effects->image, effects->delta, last);
    return change->pending->publication == NULL ? ERR_NOMEM : ERR_OK;
}

static void add_pending(struct metadata_node *node, struct pending *pending)
{
    pending->next = NULL;
    if (node->pending_last != NULL)
        node->pending_last->next = pending;
    else
        node->pending_first = pending;
    node->pending_last = pending;
}

/* Decides a request and hands on what it changes. request may be NULL for one that nobody waits for. */
static enum err decide(struct metadata_node *node, struct controller_request *request, struct metadata_request *waiter,
                       bool lazy)
{
    struct image *before = image_keep(controller_proposed(node->controller));
    int64_t wall_ms = clock_wall_ms(node->options.clock);
    struct controller_effects effects;
    struct change change = {NULL, NULL};
    struct quorum_proposal *proposal = NULL;
    enum err err = controller_step(node->controller, request, now_ms(node), wall_ms, &effects);

    if (err != ERR_OK)
        goto out;
    if (effects.record_count > 0) {
        err = make_change(node, &effects, wall_ms, &change);
        if (err != ERR_OK) { /* it never happened */
            free_change(&change);
            controller_reset(node->controller, before, effects.base_offset, node->epoch, now_ms(node));
            goto out;
        }
        add_pending(node, change.pending);
        proposal = change.proposal;
        proposal->lazy = lazy;
        if (!lazy)
            node->waited_offset = proposal->last_offset;
        node->bytes_since_snapshot += proposal->size;
    }
    /* Before the quorum hears of it: it may answer at once. */
    if (waiter != NULL)
        wait_for(node, waiter, node->waited_offset);
    if (proposal != NULL)
        quorum_propose(node->quorum, proposal);
    else if (waiter != NULL)
        applied(node);
out:
    image_drop(effects.image);
    image_delta_drop(effects.delta);
    image_drop(before);
    return err;
}

static void arrive(struct loop_task *task)
{
    struct metadata_request *request =
        (struct metadata_request *)(void *)((uint8_t *)task - offsetof(struct metadata_request, task));
    struct metadata_node *node = request->node;
    enum err err = ERR_OK;

    if (node->phase != NODE_ACTIVE) {
        refuse(node, request, ERR_NOT_CONTROLLER);
        return;
    }
    err = decide(node, &request->request, request, false);
    if (err == ERR_OK)
        return;
    refuse(node, request, err == ERR_DAMAGED ? ERR_UNKNOWN_SERVER_ERROR : err);
    if (err == ERR_DAMAGED)
        fail_node(node, err, "our own records do not apply");
}

void metadata_node_request(struct metadata_node *node, struct metadata_request *request)
{
    request->node = node;
    request->task.run = arrive;
    loop_post(node->options.loop, &request->task);
}

/* --- snapshots --- */

static void write_snapshot(struct loop_job *job)
{
    struct metadata_node *node = of_member(job, offsetof(struct metadata_node, snapshot_job));
    char name[SNAPSHOT_NAME_CHARS_MAX];
    char path[SNAPSHOT_PATH_CHARS_MAX];
    struct snapshot_source source = {.image = node->snapshot_image,
                                     .voters = node->voters,
                                     .kraft_version = node->kraft_version,
                                     .now_ms = clock_wall_ms(node->options.clock),
                                     .last_ms = image_timestamp_ms(node->snapshot_image),
                                     .epoch = node->snapshot_id.epoch};

    snapshot_name(node->snapshot_id, name);
    node->snapshot_err =
        (size_t)snprintf(path, sizeof(path), "%.*s/%s", SNAPSHOT_PATH_CHARS_MAX - 2, node->dir, name) < sizeof(path)
            ? ERR_OK
            : ERR_LIMIT;
    if (node->snapshot_err == ERR_OK)
        node->snapshot_err = snapshot_write(node->options.fs, path, &source);
    if (node->snapshot_err == ERR_OK)
        node->snapshot_err = snapshot_clean(node->options.fs, node->dir, SNAPSHOTS_KEPT);
}

static void snapshot_written(struct loop_job *job)
{
    struct metadata_node *node = of_member(job, offsetof(struct metadata_node, snapshot_job));

    if (node->snapshot_err != ERR_OK)
        log_warn(node->options.log, "metadata snapshot not written end_offset=%lld err=%s",
                 (long long)node->snapshot_id.end_offset, err_name(node->snapshot_err));
    else
        log_info(node->options.log, "metadata snapshot written end_offset=%lld topics=%u",
                 (long long)node->snapshot_id.end_offset, image_topic_count(node->snapshot_image));
    image_drop(node->snapshot_image);
    node->snapshot_image = NULL;
    node->snapshot_running = false;
    go_on_stopping(node);
}

static void consider_snapshot(struct metadata_node *node)
{
    int64_t wall_ms = clock_wall_ms(node->options.clock);
    bool old = node->options.snapshot_interval_ms > 0 && node->changed_since_snapshot &&
               wall_ms - node->snapshot_at_ms >= node->options.snapshot_interval_ms;

    if (node->snapshot_running || node->phase != NODE_ACTIVE ||
        (!old && node->bytes_since_snapshot < node->options.snapshot_bytes))
        return;
    node->snapshot_running = true;
    node->snapshot_at_ms = wall_ms;
    node->bytes_since_snapshot = 0;
    node->changed_since_snapshot = false;
    node->snapshot_image = image_keep(node->committed);
    node->snapshot_id = (struct snapshot_id){image_offset(node->committed) + 1, image_epoch(node->committed)};
    node->snapshot_job = (struct loop_job){.run = write_snapshot, .done = snapshot_written};
    loop_submit(node->options.loop, &node->snapshot_job);
}

/* --- NoOp records --- */

/*
 * An idle log moves all the same, so that others can see how far behind they are. Nobody waits for these records: each
 * goes into the page cache and shares the next sync, and only every IDLE_SYNC_EVERY-th asks for one itself.
 */
static void idle(struct loop_timer *timer)
{
    struct metadata_node *node = of_member(timer, offsetof(struct metadata_node, idle_timer));
    struct controller_request request = {.type = CONTROLLER_NO_OP};
    bool lazy = ++node->idle_since_sync < IDLE_SYNC_EVERY;
    enum err err = ERR_OK;

    if (node->phase != NODE_ACTIVE)
        return;
    if (!lazy)
        node->idle_since_sync = 0;
    err = decide(node, &request, NULL, lazy);
    if (err == ERR_DAMAGED)
        fail_node(node, err, "our own records do not apply");
    /* Without memory the next one tries again. */
    loop_timer_start(node->options.loop, &node->idle_timer,
                     loop_now_ns(node->options.loop) + node->options.idle_interval_ms * 1000000);
    consider_snapshot(node);
}

/* --- the quorum's events --- */

static void committed(void *context, int64_t offset)
{
    struct metadata_node *node = context;

    while (node->pending_first != NULL && node->pending_first->last_offset < offset) {
        struct pending *pending = node->pending_first;

        node->pending_first = pending->next;
        if (node->pending_first == NULL)
            node->pending_last = NULL;
        image_drop(node->committed);
        node->committed = image_keep(publication_image(pending->publication));
        node->changed_since_snapshot = true;
        publisher_publish(&node->publisher, pending->publication);
        mem_free(pending);
    }
    consider_snapshot(node);
}

static void refused(void *context, int64_t next_offset, enum err err)
{
    struct metadata_node *node = context;
    struct image *image = NULL;

    log_warn(node->options.log, "metadata change refused by the disk next_offset=%lld err=%s", (long long)next_offset,
             err_name(err));
    drop_pending(node, next_offset);
    image = node->pending_last != NULL ? publication_image(node->pending_last->publication) : node->committed;
    controller_reset(node->controller, image, next_offset, node->epoch, now_ms(node));
    if (node->waited_offset >= next_offset)
        node->waited_offset = next_offset - 1;
    refuse_waiting(node, next_offset, ERR_KAFKA_STORAGE_ERROR);
    if (node->phase == NODE_ACTIVATING)
        fail_node(node, err, "the first records cannot be written");
}

static void failed(void *context, enum err err)
{
    fail_node(context, err, "the log cannot be written");
}

static void stopped(void *context, enum err err)
{
    struct metadata_node *node = context;

    node->quorum_open = false;
    if (err != ERR_OK)
        log_warn(node->options.log, "metadata log closed with an error err=%s", err_name(err));
    go_on_stopping(node);
}

/* --- becoming active --- */

static enum err register_self(struct metadata_node *node);

static void activated(struct metadata_request *request)
{
    struct metadata_node *node = request->node;

    node->activating = false;
    arena_reset(&node->activation_arena);
    metadata_loaded_deinit(node->loaded);
    mem_free(node->loaded);
    node->loaded = NULL;
    go_on_stopping(node);
    if (node->phase != NODE_ACTIVATING)
        return;
    if (request->request.err != ERR_OK) {
        fail_node(node, request->request.err, "activation");
        return;
    }
    node->phase = NODE_ACTIVE;
    node->snapshot_at_ms = clock_wall_ms(node->options.clock);
    if (register_self(node) != ERR_OK)
        log_warn(node->options.log, "this controller is not registered: out of memory");
    if (node->options.idle_interval_ms > 0) {
        node->idle_timer.fired = idle;
        loop_timer_start(node->options.loop, &node->idle_timer,
                         loop_now_ns(node->options.loop) + node->options.idle_interval_ms * 1000000);
    }
    log_info(node->options.log, "metadata active epoch=%d end_offset=%lld topics=%u", node->epoch,
             (long long)(node->waited_offset + 1), image_topic_count(node->committed));
    finish_start(&node->start, ERR_OK, "%s", "");
}

static void registered(struct metadata_request *request)
{
    struct metadata_node *node = request->node;

    node->registering = false;
    if (request->request.err != ERR_OK)
        log_warn(node->options.log, "this controller is not registered err=%s", err_name(request->request.err));
    arena_reset(&node->registration_arena);
    go_on_stopping(node);
}

/* Controllers are in the image, too: tools that talk to them find them there. */
static enum err register_self(struct metadata_node *node)
{
    struct metadata_request *request = &node->registration;

    if (image_metadata_version(controller_proposed(node->controller)) < 15)
        return ERR_OK;
    node->registering = true;
    request->home = node->options.loop;
    request->done = registered;
    request->node = node;
    request->request.type = CONTROLLER_REGISTER_CONTROLLER;
    request->request.arena = &node->registration_arena;
    request->request.register_controller = (struct register_controller){
        .controller_id = node->options.controller.node_id,
        .incarnation = node->incarnation,
        .endpoints = &node->options.voter_endpoint,
        .endpoint_count = 1,
        .features = node->options.controller.features,
        .feature_count = node->options.controller.feature_count,
    };
    request->request.err = decide(node, &request->request, request, false);
    if (request->request.err != ERR_OK)
        node->registering = false;
    return request->request.err;
}

struct collected {
    struct arena *arena;
    struct metadata_record *records;
    uint32_t count, room;
};

static enum err collect(void *context, struct bytes frame)
{
    struct collected *collected = context;
    struct bytes copy;
    enum err err = ERR_OK;

    if (collected->count == collected->room) {
        uint32_t room = collected->room == 0 ? 16 : collected->room * 2;
        struct metadata_record *grown = arena_array(collected->arena, room, sizeof(*grown));

        if (grown == NULL)
            return ERR_NOMEM;
        if (collected->count > 0)
            memcpy(grown, collected->records, collected->count * sizeof(*grown));
        collected->records = grown;
        collected->room = room;
    }
    err = arena_copy(collected->arena, frame, &copy);
    if (err == ERR_OK)
        err = metadata_record_read(copy, collected->arena, &collected->records[collected->count]);
    collected->count += err == ERR_OK;
    return err;
}

/* The image that all listeners begin with goes first, then the activation, whose commit ends the start. */
static enum err activate(struct metadata_node *node, int64_t next_offset)
{
    struct metadata_request *request = &node->activation;
    struct collected bootstrap = {.arena = &node->activation_arena};
    struct pending *pending = mem_calloc(1, sizeof(*pending));
    struct image_delta *whole = NULL;
    enum err err = pending == NULL ? ERR_NOMEM : image_delta_whole(node->committed, &whole);

    if (err == ERR_OK) {
        pending->last_offset = next_offset - 1;
        pending->publication = publication_new(&node->publisher, node->committed, whole, next_offset - 1);
        image_delta_drop(whole);
        err = pending->publication == NULL ? ERR_NOMEM : ERR_OK;
    }
    if (err != ERR_OK) {
        mem_free(pending);
        return err;
    }
    add_pending(node, pending);
    node->waited_offset = next_offset - 1;
    if (node->loaded->bootstrap != NULL)
        err = image_each_frame(node->loaded->bootstrap, collect, &bootstrap);
    if (err != ERR_OK)
        return err;
    request->home = node->options.loop;
    request->done = activated;
    request->node = node;
    request->request.type = CONTROLLER_ACTIVATE;
    request->request.arena = &node->activation_arena;
    request->request.activate = (struct activate){.bootstrap = bootstrap.records,
                                                  .bootstrap_count = bootstrap.count,
                                                  .transaction_open = node->loaded->loader.transaction_open};
    err = decide(node, &request->request, request, false);
    node->activating = err == ERR_OK;
    return err;
}

static void leading(void *context, int32_t epoch, struct bytes control_batch, int64_t next_offset)
{
    struct metadata_node *node = context;
    struct loader *loader = &node->loaded->loader;
    bool open = loader->transaction_open;
    enum err err = ERR_OK;

    if (node->phase != NODE_ELECTING)
        return; /* stopping already */
    node->epoch = epoch;
    loader_abort(loader); /* what no End followed never was; activation says so in the log */
    err = loader_batch(loader, control_batch, LOADER_OWN_OFFSETS);
    if (err == ERR_OK)
        err = loader_flush(loader);
    loader->transaction_open = open;
    if (err == ERR_OK) {
        node->phase = NODE_ACTIVATING;
        node->committed = image_keep(loader->image);
        controller_reset(node->controller, loader->image, next_offset, epoch, now_ms(node));
        err = activate(node, next_offset);
    }
    if (err != ERR_OK)
        fail_node(node, err, "activation");
}

/* Levels of the log, or of what an empty log will begin with, that this build does not work at. */
struct unsupported {
    const struct metadata_node *node;
    struct bytes name;
    int16_t level, min, max;
};

static enum err check_level(void *context, struct bytes name, int16_t level)
{
    struct unsupported *unsupported = context;
    const struct controller_settings *settings = &unsupported->node->options.controller;

    unsupported->name = name;
    unsupported->level = level;
    unsupported->min = 0;
    unsupported->max = 0;
    for (uint32_t i = 0; i < settings->feature_count; i++) {
        if (!bytes_equal(settings->features[i].name, name))
            continue;
        unsupported->min = settings->features[i].min;
        unsupported->max = settings->features[i].max;
    }
    return level >= unsupported->min && level <= unsupported->max ? ERR_OK : ERR_UNSUPPORTED_VERSION;
}

static enum err check_loaded(struct metadata_node *node)
{
    struct loader *loader = &node->loaded->loader;
    const struct quorum_facts *facts = &loader->facts;
    struct unsupported unsupported = {.node = node};
    int32_t id = node->options.controller.node_id;

    if (image_each_feature(loader->image, check_level, &unsupported) != ERR_OK ||
        (node->loaded->bootstrap != NULL &&
         image_each_feature(node->loaded->bootstrap, check_level, &unsupported) != ERR_OK)) {
        (void)snprintf(loader->message, sizeof(loader->message),
                       "%.200s: finalised level %d of %.*s is not one this build supports (%d to %d)",
                       node->loaded->dir, unsupported.level, BYTES_PRINTF(unsupported.name), unsupported.min,
                       unsupported.max);
        return ERR_UNSUPPORTED_VERSION;
    }
    if (facts->has_voters && (facts->voters.count != 1 || facts->voters.voters[0].id != id)) {
        (void)snprintf(loader->message, sizeof(loader->message),
                       "%.200s: the log names %u voters, the first of them node %d; this build serves a quorum whose "
                       "only voter is this node (%d)",
                       node->loaded->dir, facts->voters.count,
                       facts->voters.count == 0 ? -1 : facts->voters.voters[0].id, id);
        return ERR_UNSUPPORTED_VERSION;
    }
    return ERR_OK;
}

static enum err join_quorum(struct metadata_node *node)
{
    static const struct quorum_events events = {leading, committed, refused, failed, stopped};
    const struct quorum_facts *facts = &node->loaded->loader.facts;
    struct quorum_single_options options = {
        .fs = node->options.fs,
        .clock = node->options.clock,
        .loop = node->options.loop,
        .dir = node->dir,
        .log = node->loaded->log,
        .facts = facts,
        .state = node->loaded->state,
        .events = &events,
        .context = node,
    };
    enum err err = voter_init(&options.self, node->options.controller.node_id, node->options.directory_id,
                              &node->options.voter_endpoint);

    if (err != ERR_OK)
        return err;
    node->kraft_version = facts->kraft_version;
    if (facts->kraft_version > 0) {
        node->voters = mem_calloc(1, sizeof(*node->voters));
        if (node->voters == NULL)
            return ERR_NOMEM;
        node->voters->voters[0] = options.self;
        node->voters->count = 1;
    }
    node->quorum = quorum_single_new(&options);
    return node->quorum == NULL ? ERR_NOMEM : ERR_OK;
}

static void abandoned(struct partition_log_close *op)
{
    struct metadata_node *node = of_member(op, offsetof(struct metadata_node, abandon));

    node->loaded->log = NULL;
    finish_start(&node->start, node->load_err, "%s", node->loaded->loader.message);
    go_on_stopping(node);
}

/* The start comes to nothing: closes the log, if it was opened, and says why. */
static void abandon(struct metadata_node *node, enum err err)
{
    node->phase = node->stop == NULL ? NODE_FAILED : NODE_STOPPING;
    node->load_err = err;
    if (node->loaded->loader.message[0] == 0)
        (void)snprintf(node->loaded->loader.message, sizeof(node->loaded->loader.message), "%s", err_text(err));
    if (node->loaded->log == NULL) {
        abandoned(&node->abandon);
        return;
    }
    node->abandon.done = abandoned;
    partition_log_adopt(node->loaded->log);
    partition_log_close(node->loaded->log, &node->abandon);
}

static void stop_quorum(struct metadata_node *node)
{
    node->phase = NODE_STOPPING;
    if (node->quorum_open)
        quorum_stop(node->quorum);
    go_on_stopping(node);
}

static void loaded(struct loop_job *job)
{
    struct metadata_node *node = of_member(job, offsetof(struct metadata_node, load_job));
    enum err err = node->load_err;

    memcpy(node->dir, node->loaded->dir, sizeof(node->dir));
    if (err == ERR_OK)
        err = check_loaded(node);
    if (err == ERR_OK)
        err = join_quorum(node);
    if (err != ERR_OK) {
        abandon(node, err);
        return;
    }
    node->loaded->log = NULL; /* the quorum's now */
    node->quorum_open = true;
    node->phase = NODE_ELECTING;
    quorum_start(node->quorum);
    if (node->stop != NULL)
        stop_quorum(node);
}

static void load(struct loop_job *job)
{
    struct metadata_node *node = of_member(job, offsetof(struct metadata_node, load_job));

    node->load_err = metadata_load(&node->env, (int64_t)node->options.segment_bytes, node->loaded);
}

static void begin_start(struct loop_task *task)
{
    struct metadata_start *start =
        (struct metadata_start *)(void *)((uint8_t *)task - offsetof(struct metadata_start, task));
    struct metadata_node *node = start->node;

    assert(node->phase == NODE_NEW);
    node->start = start;
    node->phase = NODE_LOADING;
    node->loaded = mem_calloc(1, sizeof(*node->loaded));
    if (node->loaded == NULL) {
        node->phase = NODE_FAILED;
        finish_start(&node->start, ERR_NOMEM, "%s", err_text(ERR_NOMEM));
        return;
    }
    node->load_job = (struct loop_job){.run = load, .done = loaded};
    loop_submit(node->options.loop, &node->load_job);
}

void metadata_node_start(struct metadata_node *node, struct metadata_start *start)
{
    start->node = node;
    start->task.run = begin_start;
    loop_post(node->options.loop, &start->task);
}

/* --- stopping --- */

/* One thing after the other: what was asked completes, then the log is closed. */
static void go_on_stopping(struct metadata_node *node)
{
    if (node->phase != NODE_STOPPING || node->snapshot_running || node->activating || node->registering ||
        node->waiting_first != NULL || !publisher_is_idle(&node->publisher) || node->quorum_open ||
        (node->loaded != NULL && node->loaded->log != NULL))
        return;
    node->phase = NODE_STOPPED;
    finish_start(&node->stop, ERR_OK, "%s", "");
}

static void begin_stop(struct loop_task *task)
{
    struct metadata_start *stop =
        (struct metadata_start *)(void *)((uint8_t *)task - offsetof(struct metadata_start, task));
    struct metadata_node *node = stop->node;

    assert(node->stop == NULL);
    node->stop = stop;
    loop_timer_stop(node->options.loop, &node->idle_timer);
    finish_start(&node->start, ERR_CLOSED, "%s", "stopped while starting");
    if (node->phase != NODE_LOADING) /* else when the job has ended */
        stop_quorum(node);
}

void metadata_node_stop(struct metadata_node *node, struct metadata_start *stop)
{
    stop->node = node;
    stop->task.run = begin_stop;
    loop_post(node->options.loop, &stop->task);
}

/* --- life --- */

struct metadata_node *metadata_node_new(const struct metadata_node_options *options)
{
    struct metadata_node *node = mem_calloc(1, sizeof(*node));
    struct batch_spec spec;
    uint8_t random[UUID_BYTES];

    if (node == NULL)
        return NULL;
    node->options = *options;
    if (node->options.controller.features == NULL)
        node->options.controller.features = controller_features(&node->options.controller.feature_count);
    partition_files_init(&node->files, 0);
    node->env = (struct partition_env){.fs = options->fs,
                                       .loop = options->loop,
                                       .clock = options->clock,
                                       .rng = options->rng,
                                       .log = options->log,
                                       .files = &node->files,
                                       .log_dir = options->dir};
    node->publisher = (struct publisher){.loop = options->loop,
                                         .covered_offset = INT64_MIN,
                                         .image_offset = IMAGE_OFFSET_NONE,
                                         .applied = applied,
                                         .context = node};
    rng_fill(options->rng, random, sizeof(random));
    node->incarnation = uuid_from_random(random);
    batch_spec_init(&spec);
    batch_builder_init(&node->builder, &spec);
    arena_init(&node->scratch, METADATA_RECORD_ARENA_BYTES_MAX);
    arena_init(&node->activation_arena, METADATA_RECORD_ARENA_BYTES_MAX);
    arena_init(&node->registration_arena, METADATA_RECORD_ARENA_BYTES_MAX);
    node->controller = controller_new(&node->options.controller, options->rng);
    if (node->controller == NULL) {
        metadata_node_free(node);
        return NULL;
    }
    return node;
}

void metadata_node_subscribe(struct metadata_node *node, struct metadata_listener *listener)
{
    assert(node->phase == NODE_NEW);
    listener->next = node->publisher.listeners;
    node->publisher.listeners = listener;
    node->publisher.listener_count++;
}

void metadata_node_free(struct metadata_node *node)
{
    if (node == NULL)
        return;
    assert(node->phase == NODE_NEW || node->phase == NODE_STOPPED);
    drop_pending(node, INT64_MIN);
    quorum_free(node->quorum);
    controller_free(node->controller);
    if (node->loaded != NULL)
        metadata_loaded_deinit(node->loaded);
    mem_free(node->loaded);
    mem_free(node->voters);
    image_drop(node->committed);
    batch_builder_deinit(&node->builder);
    arena_deinit(&node->scratch);
    arena_deinit(&node->activation_arena);
    arena_deinit(&node->registration_arena);
    mem_free(node);
}

struct image *metadata_node_image(struct metadata_node *node)
{
    return node->committed;
}
