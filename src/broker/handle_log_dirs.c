/* DescribeLogDirs: what each directory of log.dirs holds, and how much room its volume has. Every home tells of its
 * partitions, a job looks at the volumes, and the reply is put together when all are back. */
#include <stdlib.h>

#include "base/assert.h"
#include "broker/broker_internal.h"
#include "broker/handlers.h"
#include "protocol/gen/describe_log_dirs.h"

/* A partition that was found, in its home's arena. */
struct held {
    uint32_t dir;
    int32_t index;
    struct bytes topic;
    uint64_t bytes;
    int64_t lag;
    bool is_future; /* the copy of a move */
};

/* What one home tells. */
struct part {
    struct inquiry *inquiry;
    struct shard *home;
    struct arena arena; /* the home's until the part is back, then the request's */
    struct held *held;
    uint32_t count, room;
    uint32_t topic, place; /* of what is asked, told next */
    enum err err;
    struct outbox_message message; /* there */
    struct loop_task task;         /* and back */
};

struct inquiry {
    struct request *request;
    const struct describe_log_dirs_request *in;
    struct part *parts; /* one a home */
    uint32_t part_count;
    uint32_t left; /* parts that are away, and the job */
    struct loop_job job;
    enum err space_errors[BROKER_LOG_DIRS_MAX];
    struct fs_space spaces[BROKER_LOG_DIRS_MAX];
    struct held **sorted; /* of all parts, by directory, topic and partition; each once */
    uint32_t sorted_count;
    struct describe_log_dirs_response response;
};

static void cleanup(struct request *request)
{
    struct inquiry *inquiry = request->user;

    for (uint32_t i = 0; i < inquiry->part_count; i++)
        arena_deinit(&inquiry->parts[i].arena);
}

/* ---- at the homes ---- */

static enum err make_room(struct part *part)
{
    uint32_t room = part->room == 0 ? 64 : part->room * 2;
    struct held *grown = NULL;

    if (part->count < part->room)
        return ERR_OK;
    grown = arena_array(&part->arena, room, sizeof(*grown));
    if (grown == NULL)
        return ERR_NOMEM;
    if (part->count > 0)
        memcpy(grown, part->held, part->count * sizeof(*grown));
    part->held = grown;
    part->room = room;
    return ERR_OK;
}

static enum err add(struct part *part, const struct hosted *hosted, const struct held *held)
{
    enum err err = make_room(part);

    if (err != ERR_OK)
        return err;
    part->held[part->count] = *held;
    err = arena_copy(&part->arena, partition_topic(hosted->partition), &part->held[part->count].topic);
    part->count += err == ERR_OK;
    return err;
}

static enum err tell(struct part *part, const struct hosted *hosted)
{
    struct dir_moves_state move;
    struct held held = {.dir = hosted->dir, .index = hosted->key.index};
    enum err err = ERR_OK;

    if (hosted->partition == NULL)
        return ERR_OK;
    held.bytes = partition_size(hosted->partition);
    err = add(part, hosted, &held);
    if (err != ERR_OK || !dir_moves_look(hosted, &move))
        return err;
    held.dir = move.dir;
    held.bytes = move.bytes;
    held.lag = move.lag;
    held.is_future = true;
    return add(part, hosted, &held);
}

static enum err tell_all(struct part *part)
{
    enum err err = ERR_OK;
    void *value = NULL;

    for (uint32_t cursor = 0; err == ERR_OK && map_next(&part->home->hosted, &cursor, NULL, &value);)
        err = tell(part, value);
    return err;
}

/* The next of what is asked, as much as one turn may take. False: there is more. */
static bool tell_some(struct part *part)
{
    const struct describe_log_dirs_request *in = part->inquiry->in;
    struct shard *home = part->home;
    uint32_t left = LOG_DIRS_TURN_ENTRIES;

    for (; part->err == ERR_OK && part->topic < in->topics_count; part->topic++, part->place = 0) {
        const struct describable_log_dir_topic *asked = &in->topics[part->topic];
        const struct image_topic *topic = NULL;

        if (left < 2) /* the topic, and something of it */
            return false;
        left--;
        topic = home->image == NULL ? NULL : image_topic_by_name(home->image, asked->topic);
        for (; topic != NULL && part->err == ERR_OK && part->place < asked->partitions_count; part->place++) {
            const struct hosted *hosted = shard_hosted(home, topic->id, asked->partitions[part->place]);

            if (left-- == 0)
                return false;
            if (hosted != NULL)
                part->err = tell(part, hosted);
        }
    }
    return true;
}

/* ---- the reply ---- */

static int by_place(const void *left, const void *right)
{
    const struct held *a = *(const struct held *const *)left;
    const struct held *b = *(const struct held *const *)right;
    int order = 0;

    if (a->dir != b->dir)
        return a->dir < b->dir ? -1 : 1;
    order = bytes_compare(a->topic, b->topic);
    if (order != 0)
        return order;
    return a->index < b->index ? -1 : a->index > b->index;
}

static enum err sort(struct inquiry *inquiry)
{
    size_t count = 0;
    uint32_t kept = 0;

    for (uint32_t i = 0; i < inquiry->part_count; i++)
        count += inquiry->parts[i].count;
    inquiry->sorted = request_array(inquiry->request, count, sizeof(struct held *));
    if (inquiry->sorted == NULL)
        return ERR_NOMEM;
    for (uint32_t i = 0; i < inquiry->part_count; i++)
        for (uint32_t j = 0; j < inquiry->parts[i].count; j++)
            inquiry->sorted[inquiry->sorted_count++] = &inquiry->parts[i].held[j];
    if (count > 1)
        qsort(inquiry->sorted, count, sizeof(struct held *), by_place);
    for (uint32_t i = 0; i < count; i++) /* what is asked twice is told once */
        if (kept == 0 || by_place(&inquiry->sorted[kept - 1], &inquiry->sorted[i]) != 0)
            inquiry->sorted[kept++] = inquiry->sorted[i];
    inquiry->sorted_count = kept;
    return ERR_OK;
}

static void fill_topic(struct inquiry *inquiry, uint32_t from, uint32_t to, struct describe_log_dirs_partition *at,
                       struct describe_log_dirs_topic *out)
{
    describe_log_dirs_topic_init(out);
    out->name = inquiry->sorted[from]->topic;
    out->partitions = at;
    out->partitions_count = to - from;
    for (uint32_t i = from; i < to; i++) {
        const struct held *held = inquiry->sorted[i];

        describe_log_dirs_partition_init(&at[i - from]);
        at[i - from].partition_index = held->index;
        at[i - from].partition_size = (int64_t)held->bytes;
        at[i - from].offset_lag = held->lag;
        at[i - from].is_future_key = held->is_future;
    }
}

/* The directory's run of what was sorted begins at *from. */
static enum err fill_dir(struct inquiry *inquiry, uint32_t dir, uint32_t *from, struct describe_log_dirs_result *out)
{
    struct describe_log_dirs_partition *partitions = NULL;
    uint32_t first = *from;
    uint32_t end = first;

    while (end < inquiry->sorted_count && inquiry->sorted[end]->dir == dir)
        end++;
    *from = end;
    partitions = request_array(inquiry->request, end - first, sizeof(*partitions));
    out->topics = request_array(inquiry->request, end - first, sizeof(*out->topics));
    if (partitions == NULL || out->topics == NULL)
        return ERR_NOMEM;
    for (uint32_t i = first; i < end;) {
        uint32_t next = i;

        while (next < end && bytes_equal(inquiry->sorted[next]->topic, inquiry->sorted[i]->topic))
            next++;
        fill_topic(inquiry, i, next, &partitions[i - first], &out->topics[out->topics_count++]);
        i = next;
    }
    return ERR_OK;
}

static enum err fill(struct inquiry *inquiry)
{
    struct broker *broker = inquiry->request->broker;
    struct describe_log_dirs_response *response = &inquiry->response;
    uint32_t from = 0;
    enum err err = sort(inquiry);

    describe_log_dirs_response_init(response);
    response->results =
        request_array(inquiry->request, broker->dir_count + broker->absent_count, sizeof(*response->results));
    if (response->results == NULL)
        return ERR_NOMEM;
    for (uint32_t i = 0; err == ERR_OK && i < broker->dir_count; i++) {
        struct describe_log_dirs_result *out = &response->results[i];

        describe_log_dirs_result_init(out);
        err = broker_dir_name(broker, broker->dirs[i].path, &inquiry->request->arena, &out->log_dir);
        if (err == ERR_OK)
            err = fill_dir(inquiry, i, &from, out);
        if (atomic_load(&broker->dirs[i].failed) || inquiry->space_errors[i] != ERR_OK) {
            out->error_code = err_wire(ERR_KAFKA_STORAGE_ERROR);
            out->topics_count = 0;
            continue;
        }
        out->total_bytes = (int64_t)inquiry->spaces[i].total_bytes;
        out->usable_bytes = (int64_t)inquiry->spaces[i].free_bytes;
    }
    for (uint32_t i = 0; err == ERR_OK && i < broker->absent_count; i++) {
        struct describe_log_dirs_result *out = &response->results[broker->dir_count + i];

        describe_log_dirs_result_init(out);
        err = broker_dir_name(broker, broker->absent[i], &inquiry->request->arena, &out->log_dir);
        out->error_code = err_wire(ERR_KAFKA_STORAGE_ERROR);
    }
    response->results_count = broker->dir_count + broker->absent_count;
    return err;
}

static void *put_together(struct request *request)
{
    struct inquiry *inquiry = request->user;

    return fill(inquiry) == ERR_OK ? &inquiry->response : NULL;
}

static void came_back(struct inquiry *inquiry)
{
    enum err err = ERR_OK;
    size_t bytes = 0;

    assert(inquiry->left > 0);
    if (--inquiry->left > 0)
        return;
    for (uint32_t i = 0; err == ERR_OK && i < inquiry->part_count; i++) {
        err = inquiry->parts[i].err;
        bytes += inquiry->parts[i].count * (sizeof(struct held) + sizeof(struct describe_log_dirs_partition));
    }
    if (err == ERR_OK)
        request_reply_made(inquiry->request, bytes, put_together);
    else
        request_close(inquiry->request, "no memory for the reply");
}

/* ---- there and back ---- */

static void part_back(struct loop_task *task)
{
    came_back(LIST_ENTRY(task, struct part, task)->inquiry);
}

static void part_there(struct loop_task *task)
{
    struct part *part = LIST_ENTRY(task, struct part, message.task);

    if (part->inquiry->in->topics == NULL) {
        part->err = tell_all(part);
    } else if (!tell_some(part)) {
        loop_post(part->home->loop, &part->message.task);
        return;
    }
    part->task.run = part_back;
    loop_post(part->inquiry->request->shard->loop, &part->task);
}

static void look(struct loop_job *job)
{
    struct inquiry *inquiry = LIST_ENTRY(job, struct inquiry, job);
    struct broker *broker = inquiry->request->broker;

    for (uint32_t i = 0; i < broker->dir_count; i++)
        if (!atomic_load(&broker->dirs[i].failed))
            inquiry->space_errors[i] = fs_space(broker->env.fs, broker->dirs[i].path, &inquiry->spaces[i]);
}

static void looked(struct loop_job *job)
{
    came_back(LIST_ENTRY(job, struct inquiry, job));
}

static void run(struct inquiry *inquiry)
{
    struct shard *origin = inquiry->request->shard;

    inquiry->left = inquiry->part_count + 1;
    inquiry->job.run = look;
    inquiry->job.done = looked;
    loop_submit(origin->loop, &inquiry->job);
    for (uint32_t i = 0; i < inquiry->part_count; i++) {
        struct part *part = &inquiry->parts[i];

        part->message.task.run = part_there;
        outbox_send(&origin->outbox, &part->message, part->home->loop, request_slowed(inquiry->request));
    }
}

void handle_describe_log_dirs(struct request *request, void *body)
{
    struct broker *broker = request->broker;
    struct inquiry *inquiry = arena_alloc(&request->arena, sizeof(*inquiry));

    if (inquiry == NULL)
        goto no_memory;
    inquiry->request = request;
    inquiry->in = body;
    describe_log_dirs_response_init(&inquiry->response);
    if (!request_may(request, MAY_DESCRIBE, ON_CLUSTER, BYTES_LITERAL("kafka-cluster"))) {
        inquiry->response.error_code = err_wire(ERR_CLUSTER_AUTHORIZATION_FAILED);
        request_reply(request, &inquiry->response);
        return;
    }
    inquiry->parts = request_array(request, broker->env.reactor_count, sizeof(*inquiry->parts));
    if (inquiry->parts == NULL)
        goto no_memory;
    inquiry->part_count = broker->env.reactor_count;
    for (uint32_t i = 0; i < inquiry->part_count; i++) {
        inquiry->parts[i].inquiry = inquiry;
        inquiry->parts[i].home = &broker->shards[i];
        arena_init(&inquiry->parts[i].arena, LOG_DIRS_PART_BYTES_MAX);
    }
    request->user = inquiry;
    request->cleanup = cleanup;
    run(inquiry);
    return;

no_memory:
    request_close(request, "no memory for the request");
}
