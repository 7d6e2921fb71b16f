/* What a request changes is decided, proposed, committed, told to all, and then answered. */
#include "raftmeta/node_internal.h"

#include "base/assert.h"
#include "base/mem.h"
#include "raftmeta/metadata_limits.h"
#include "raftmeta/metadata_record.h"

static void answer_request(struct loop_task *task)
{
    struct metadata_call *request = LIST_ENTRY(task, struct metadata_call, task);

    request->done(request);
}

static void complete(struct metadata_node *node, struct metadata_call *request)
{
    request->visible_offset = node->publisher.image_offset;
    request->task.run = answer_request;
    loop_post(request->home, &request->task);
}

static void refuse(struct metadata_node *node, struct metadata_call *request, enum err err)
{
    request->request.err = err;
    request->request.message = (struct bytes){NULL, 0};
    complete(node, request);
}

/* Every waiting request from offset on is told that it came to nothing. */
void node_refuse_waiting(struct metadata_node *node, int64_t offset, enum err err)
{
    struct metadata_call **link = &node->waiting_first;

    node->waiting_last = NULL;
    while (*link != NULL) {
        struct metadata_call *request = *link;

        if (request->wait_offset < offset) {
            node->waiting_last = request;
            link = &request->next;
            continue;
        }
        *link = request->next;
        refuse(node, request, err);
    }
}

/* The publisher's covered offset moved. */
void node_applied(void *context)
{
    struct metadata_node *node = context;

    while (node->waiting_first != NULL && node->waiting_first->wait_offset <= node->publisher.covered_offset) {
        struct metadata_call *request = node->waiting_first;

        node->waiting_first = request->next;
        if (node->waiting_first == NULL)
            node->waiting_last = NULL;
        complete(node, request);
    }
    node_go_on_stopping(node);
}

static void wait_for(struct metadata_node *node, struct metadata_call *request, int64_t offset)
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

void node_drop_pending(struct metadata_node *node, int64_t offset)
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

void node_fail(struct metadata_node *node, enum err err, const char *what)
{
    if (node->phase == NODE_FAILED || node->phase == NODE_STOPPED)
        return;
    log_error(node->options.log, "metadata log lost what=%s err=%s", what, err_name(err));
    if (node->phase != NODE_STOPPING)
        node_enter(node, NODE_FAILED);
    loop_timer_stop(node->options.loop, &node->idle_timer);
    node_drop_pending(node, INT64_MIN);
    node_refuse_waiting(node, INT64_MIN, ERR_KAFKA_STORAGE_ERROR);
    node_finish_start(&node->start, err, "%s: %s", what, err_text(err));
    if (node->options.failed != NULL)
        node->options.failed(node->options.context, err);
    node_go_on_stopping(node);
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

void node_add_pending(struct metadata_node *node, struct pending *pending)
{
    pending->next = NULL;
    if (node->pending_last != NULL)
        node->pending_last->next = pending;
    else
        node->pending_first = pending;
    node->pending_last = pending;
}

/* Decides a request and hands on what it changes. request may be NULL for one that nobody waits for. */
enum err node_decide(struct metadata_node *node, struct controller_request *request, struct metadata_call *waiter,
                     bool lazy)
{
    struct image *before = image_keep(controller_proposed(node->controller));
    int64_t wall_ms = clock_wall_ms(node->options.clock);
    struct controller_effects effects;
    struct change change = {NULL, NULL};
    struct quorum_proposal *proposal = NULL;
    enum err err = controller_step(node->controller, request, node_now_ms(node), wall_ms, &effects);

    if (err != ERR_OK)
        goto out;
    if (effects.record_count > 0) {
        err = make_change(node, &effects, wall_ms, &change);
        if (err != ERR_OK) { /* it never happened */
            free_change(&change);
            controller_reset(node->controller, before, effects.base_offset, node->epoch, node_now_ms(node));
            goto out;
        }
        node_add_pending(node, change.pending);
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
        node_applied(node);
out:
    image_drop(effects.image);
    image_delta_drop(effects.delta);
    image_drop(before);
    return err;
}

/* A registration and the heartbeat that would follow it: two changes, one sync. The call may be answered within the
 * last node_decide, and is not touched behind it. */
static enum err decide_and_unfence(struct metadata_node *node, struct metadata_call *call)
{
    const struct register_broker *in = &call->request.register_broker;
    struct controller_request heartbeat = {.type = CONTROLLER_BROKER_HEARTBEAT, .arena = call->request.arena};
    enum err err = node_decide(node, &call->request, NULL, false);

    if (err != ERR_OK)
        return err;
    if (call->request.err != ERR_OK) { /* nothing was changed */
        wait_for(node, call, node->waited_offset);
        node_applied(node);
        return ERR_OK;
    }
    heartbeat.broker_heartbeat = (struct broker_heartbeat){
        .broker_id = in->broker_id, .broker_epoch = in->epoch, .metadata_offset = node->waited_offset};
    return node_decide(node, &heartbeat, call, false);
}

static void arrive(struct loop_task *task)
{
    struct metadata_call *request = LIST_ENTRY(task, struct metadata_call, task);
    struct metadata_node *node = request->node;
    enum err err = ERR_OK;

    if (node->phase != NODE_ACTIVE) {
        refuse(node, request, ERR_NOT_CONTROLLER);
        return;
    }
    err = request->request.type == CONTROLLER_REGISTER_BROKER && request->request.register_broker.then_unfence
              ? decide_and_unfence(node, request)
              : node_decide(node, &request->request, request, false);
    if (err == ERR_OK)
        return;
    refuse(node, request, err == ERR_DAMAGED ? ERR_UNKNOWN_SERVER_ERROR : err);
    if (err == ERR_DAMAGED)
        node_fail(node, err, "our own records do not apply");
}

void metadata_node_call(struct metadata_node *node, struct metadata_call *request)
{
    request->node = node;
    request->task.run = arrive;
    loop_post(node->options.loop, &request->task);
}
