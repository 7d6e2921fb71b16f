#include "raftmeta/metadata_node.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/assert.h"
#include "base/mem.h"
#include "raftmeta/metadata_limits.h"
#include "raftmeta/node_internal.h"
#include "raftmeta/quorum_single.h"

static void answer_start(struct loop_task *task)
{
    struct metadata_start *start = LIST_ENTRY(task, struct metadata_start, task);

    start->done(start);
}

void node_finish_start(struct metadata_start **which, enum err err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

void node_finish_start(struct metadata_start **which, enum err err, const char *format, ...)
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
    const struct quorum_facts *facts = &node->loaded->loader.facts;
    struct quorum_single_options options = {
        .fs = node->options.fs,
        .clock = node->options.clock,
        .loop = node->options.loop,
        .dir = node->dir,
        .space = node->options.space,
        .log = node->loaded->log,
        .facts = facts,
        .state = node->loaded->state,
        .events = &node_quorum_events,
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
    struct metadata_node *node = LIST_ENTRY(op, struct metadata_node, abandon);

    node->loaded->log = NULL;
    node_finish_start(&node->start, node->load_err, "%s", node->loaded->loader.message);
    node_go_on_stopping(node);
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
    node_enter(node, NODE_STOPPING);
    if (node->quorum_open)
        quorum_stop(node->quorum);
    node_go_on_stopping(node);
}

static void loaded(struct loop_job *job)
{
    struct metadata_node *node = LIST_ENTRY(job, struct metadata_node, load_job);
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
    node_enter(node, NODE_ELECTING);
    quorum_start(node->quorum);
    if (node->stop != NULL)
        stop_quorum(node);
}

static void load(struct loop_job *job)
{
    struct metadata_node *node = LIST_ENTRY(job, struct metadata_node, load_job);

    node->load_err = metadata_load(&node->env, (int64_t)node->options.segment_bytes, node->loaded);
}

static void begin_start(struct loop_task *task)
{
    struct metadata_start *start = LIST_ENTRY(task, struct metadata_start, task);
    struct metadata_node *node = start->node;

    assert(node->phase == NODE_NEW);
    node->start = start;
    node_enter(node, NODE_LOADING);
    node->loaded = mem_calloc(1, sizeof(*node->loaded));
    if (node->loaded == NULL) {
        node_enter(node, NODE_FAILED);
        node_finish_start(&node->start, ERR_NOMEM, "%s", err_text(ERR_NOMEM));
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
void node_go_on_stopping(struct metadata_node *node)
{
    if (node->phase != NODE_STOPPING || node->snapshot_running || node->activating || node->registering ||
        node->waiting_first != NULL || !publisher_is_idle(&node->publisher) || node->quorum_open ||
        (node->loaded != NULL && node->loaded->log != NULL))
        return;
    node_enter(node, NODE_STOPPED);
    node_finish_start(&node->stop, ERR_OK, "%s", "");
}

static void begin_stop(struct loop_task *task)
{
    struct metadata_start *stop = LIST_ENTRY(task, struct metadata_start, task);
    struct metadata_node *node = stop->node;

    assert(node->stop == NULL);
    node->stop = stop;
    loop_timer_stop(node->options.loop, &node->idle_timer);
    node_finish_start(&node->start, ERR_CLOSED, "%s", "stopped while starting");
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
                                       .limits = {.sync_interval_ns = METADATA_SYNC_INTERVAL_NS},
                                       .log_dir = options->dir,
                                       .space = options->space};
    node->publisher = (struct publisher){.loop = options->loop,
                                         .covered_offset = INT64_MIN,
                                         .image_offset = IMAGE_OFFSET_NONE,
                                         .applied = node_applied,
                                         .context = node};
    node->incarnation = uuid_random(options->rng);
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
    node_drop_pending(node, INT64_MIN);
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
