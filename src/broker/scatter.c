#include "broker/scatter.h"

#include "base/assert.h"
#include "broker/broker_internal.h"

static void cleanup(struct request *request)
{
    struct scatter *scatter = request->user;

    for (struct scatter_part *part = scatter->parts; part != NULL; part = part->next)
        arena_deinit(&part->arena);
}

struct scatter *scatter_new(struct request *request, void (*start)(struct scatter_op *op, struct partition *partition),
                            void (*done)(struct scatter *scatter), void *user)
{
    struct scatter *scatter = arena_alloc(&request->arena, sizeof(*scatter));

    if (scatter == NULL)
        return NULL;
    scatter->request = request;
    scatter->start = start;
    scatter->done = done;
    scatter->user = user;
    request->user = scatter;
    request->cleanup = cleanup;
    return scatter;
}

enum err scatter_add(struct scatter *scatter, struct scatter_op *op)
{
    struct shard *home = shard_home(scatter->request->broker, op->topic_id, op->index);
    struct scatter_part *part = scatter->parts;

    while (part != NULL && part->home != home)
        part = part->next;
    if (part == NULL) {
        part = arena_alloc(&scatter->request->arena, sizeof(*part));
        if (part == NULL)
            return ERR_NOMEM;
        arena_init(&part->arena, SCATTER_ARENA_BYTES_MAX);
        part->scatter = scatter;
        part->home = home;
        part->next = scatter->parts;
        scatter->parts = part;
    }
    op->part = part;
    op->next = NULL;
    if (part->last == NULL)
        part->first = op;
    else
        part->last->next = op;
    part->last = op;
    part->count++;
    return ERR_OK;
}

static void part_is_back(struct scatter *scatter)
{
    assert(scatter->parts_left > 0);
    scatter->parts_left--;
    if (scatter->parts_left == 0)
        scatter->done(scatter);
}

static void told_back(struct loop_task *task)
{
    part_is_back(LIST_ENTRY(task, struct scatter_part, task)->scatter);
}

static void finish(struct scatter_part *part)
{
    struct shard *origin = part->scatter->request->shard;

    loop_timer_stop(part->home->loop, &part->timer);
    if (part->home == origin) {
        part_is_back(part->scatter);
        return;
    }
    part->task.run = told_back;
    loop_post(origin->loop, &part->task);
}

void scatter_op_done(struct scatter_op *op)
{
    struct scatter_part *part = op->part;

    assert(!op->is_done);
    op->is_done = true;
    part->left--;
    if (part->left == 0)
        finish(part);
}

static void deadline(struct loop_timer *timer)
{
    struct scatter_part *part = LIST_ENTRY(timer, struct scatter_part, timer);
    struct scatter_op *next = NULL;

    part->left++; /* ours: ending the last one must not end the part under this loop */
    for (struct scatter_op *op = part->first; op != NULL; op = next) {
        next = op->next;
        if (!op->is_done)
            part->scatter->cancel(op);
    }
    part->left--;
    if (part->left == 0)
        finish(part);
}

static void told_on(struct loop_task *task);

/* Begins operations, those of one turn or all. False: there are more. */
static bool start_some(struct scatter_part *part)
{
    struct scatter *scatter = part->scatter;
    size_t used_bytes = part->arena.used_bytes;

    for (uint32_t count = 0; part->next_op != NULL; count++) {
        struct scatter_op *op = part->next_op;
        struct partition *partition = NULL;

        if (scatter->in_turns &&
            (count == SCATTER_TURN_OPS || part->arena.used_bytes - used_bytes >= SCATTER_TURN_BYTES))
            return false;
        part->next_op = op->next;
        op->err = shard_lookup(part->home, op->topic_id, op->index, &partition);
        if (op->err == ERR_OK)
            scatter->start(op, partition);
        else
            scatter_op_done(op);
    }
    return true;
}

static void start_on(struct scatter_part *part)
{
    struct scatter *scatter = part->scatter;

    if (!start_some(part)) {
        part->message.task.run = told_on;
        loop_post(part->home->loop, &part->message.task);
        return;
    }
    part->left--;
    if (part->left == 0) {
        finish(part);
    } else if (scatter->request->deadline_ns != 0 && scatter->cancel != NULL) {
        part->timer.fired = deadline;
        loop_timer_start(part->home->loop, &part->timer, scatter->request->deadline_ns);
    }
}

static void told_on(struct loop_task *task)
{
    start_on(LIST_ENTRY(task, struct scatter_part, message.task));
}

static void start_part(struct scatter_part *part)
{
    part->next_op = part->first;
    part->left = 1 + part->count; /* ours, likewise */
    start_on(part);
}

static void unparked(struct shard_parked *parked)
{
    start_part(LIST_ENTRY(parked, struct scatter_part, parked));
}

static void told_start(struct loop_task *task)
{
    struct scatter_part *part = LIST_ENTRY(task, struct scatter_part, message.task);
    const struct image *image = part->scatter->request->image;

    part->parked.version = image == NULL ? IMAGE_OFFSET_NONE : image_offset(image);
    if (shard_knows(part->home, part->parked.version)) {
        start_part(part);
        return;
    }
    part->parked.run = unparked;
    shard_park(part->home, &part->parked);
}

void scatter_run(struct scatter *scatter)
{
    struct shard *origin = scatter->request->shard;
    struct scatter_part *local = NULL;
    struct scatter_part *next = NULL;

    scatter->parts_left = 1;
    for (struct scatter_part *part = scatter->parts; part != NULL; part = part->next)
        scatter->parts_left++;
    for (struct scatter_part *part = scatter->parts; part != NULL; part = next) {
        next = part->next;
        if (part->home == origin) {
            local = part;
            continue;
        }
        part->message.task.run = told_start;
        outbox_send(&origin->outbox, &part->message, part->home->loop, request_slowed(scatter->request));
    }
    if (local != NULL) /* last: the others work meanwhile */
        start_part(local);
    part_is_back(scatter);
}

size_t scatter_held_bytes(const struct scatter *scatter)
{
    size_t bytes = 0;

    for (const struct scatter_part *part = scatter->parts; part != NULL; part = part->next)
        bytes += part->arena.held_bytes;
    return bytes;
}
