/* What the quorum tells the node, and how it becomes the active controller. */
#include "raftmeta/node_internal.h"

#include "base/assert.h"
#include "base/mem.h"
#include "raftmeta/image_records.h"

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
        node->changed_since_snapshot |= !image_delta_is_empty(publication_delta(pending->publication));
        publisher_publish(&node->publisher, pending->publication);
        mem_free(pending);
    }
    node_consider_snapshot(node);
}

static void refused(void *context, int64_t next_offset, enum err err)
{
    struct metadata_node *node = context;
    struct image *image = NULL;

    log_warn(node->options.log, "metadata change refused by the disk next_offset=%lld err=%s", (long long)next_offset,
             err_name(err));
    node_drop_pending(node, next_offset);
    image = node->pending_last != NULL ? publication_image(node->pending_last->publication) : node->committed;
    controller_reset(node->controller, image, next_offset, node->epoch, node_now_ms(node));
    if (node->waited_offset >= next_offset)
        node->waited_offset = next_offset - 1;
    node_refuse_waiting(node, next_offset, ERR_KAFKA_STORAGE_ERROR);
    if (node->phase == NODE_ACTIVATING)
        node_fail(node, err, "the first records cannot be written");
}

static void failed(void *context, enum err err)
{
    node_fail(context, err, "the log cannot be written");
}

static void stopped(void *context, enum err err)
{
    struct metadata_node *node = context;

    node->quorum_open = false;
    if (err != ERR_OK)
        log_warn(node->options.log, "metadata log closed with an error err=%s", err_name(err));
    node_go_on_stopping(node);
}

/* --- becoming active --- */

static enum err register_self(struct metadata_node *node);

static void activated(struct metadata_call *request)
{
    struct metadata_node *node = request->node;

    node->activating = false;
    node->bytes_since_snapshot += node->loaded->bytes_behind;
    arena_reset(&node->activation_arena);
    metadata_loaded_deinit(node->loaded);
    mem_free(node->loaded);
    node->loaded = NULL;
    node_go_on_stopping(node);
    if (node->phase != NODE_ACTIVATING)
        return;
    if (request->request.err != ERR_OK) {
        node_fail(node, request->request.err, "activation");
        return;
    }
    node_enter(node, NODE_ACTIVE);
    node->snapshot_at_ms = clock_wall_ms(node->options.clock);
    if (node->options.idle_interval_ms > 0) {
        node->idle_timer.fired = node_idle;
        loop_timer_start(node->options.loop, &node->idle_timer,
                         loop_now_ns(node->options.loop) + node->options.idle_interval_ms * 1000000);
    }
    log_info(node->options.log, "metadata active epoch=%d end_offset=%lld topics=%u", node->epoch,
             (long long)(node->waited_offset + 1), image_topic_count(node->committed));
    node_finish_start(&node->start, ERR_OK, "%s", "");
}

static void registered(struct metadata_call *request)
{
    struct metadata_node *node = request->node;

    node->registering = false;
    if (request->request.err != ERR_OK)
        log_warn(node->options.log, "this controller is not registered err=%s", err_name(request->request.err));
    arena_reset(&node->registration_arena);
    node_go_on_stopping(node);
}

/* Controllers are in the image, too: tools that talk to them find them there. */
static enum err register_self(struct metadata_node *node)
{
    struct metadata_call *request = &node->registration;

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
    request->request.err = node_decide(node, &request->request, request, false);
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
    struct metadata_call *request = &node->activation;
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
    node_add_pending(node, pending);
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
    err = node_decide(node, &request->request, request, false);
    node->activating = err == ERR_OK;
    /* In the activation's own sync. */
    if (err == ERR_OK && register_self(node) != ERR_OK)
        log_warn(node->options.log, "this controller is not registered: out of memory");
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
        node_enter(node, NODE_ACTIVATING);
        node->committed = image_keep(loader->image);
        controller_reset(node->controller, loader->image, next_offset, epoch, node_now_ms(node));
        err = activate(node, next_offset);
    }
    if (err != ERR_OK)
        node_fail(node, err, "activation");
}

const struct quorum_events node_quorum_events = {leading, committed, refused, failed, stopped};
