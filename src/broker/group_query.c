#include "broker/group_query.h"

#include "base/assert.h"
#include "base/mem.h"
#include "broker/broker_internal.h"
#include "broker/group_coordinators.h"
#include "broker/group_topics_image.h"
#include "coordinator/coordinator_key.h"
#include "protocol/gen/offset_fetch.h"

enum {
    GROUP_QUERY_BYTES_MAX = 64 * 1024 * 1024,
    GROUP_QUERY_FINDS_MAX = 4,
    GROUP_QUERY_TURN_LOOKS = 512, /* at partitions, in one turn of their home: most are decided at once, some 0.5 us */
    OFFSET_FETCH_VERSION = 9,     /* topics that are gone are answered too */
    DESCRIBE_VERSION = 6,         /* an unknown group is an error */
    LIST_VERSION = 5,
    CONSUMER_DESCRIBE_VERSION = 1,
};

/* One question to one coordinator. */
struct question {
    struct group_op ask;
    struct query_part *part;
    struct uuid topic_id;
    int32_t index;
    enum err err;
    struct question *next; /* of the part */
    union {
        struct group_list_reply list;
        struct describe_groups_response_described_group classic;
        struct consumer_group_describe_response_described_group consumer;
        struct offset_fetch_response_group offsets;
        struct group_history_reply history;
    } response;
};

/* One partition's ends, looked up at its home. */
struct look {
    struct partition_offsets offsets;
    struct query_part *part;
    struct uuid topic_id;
    struct group_query_partition *row;
    struct look *next; /* of the part */
};

/* What one shard has to do for a query. */
struct query_part {
    struct query *query;
    struct shard *shard;
    struct loop_task there, back;
    struct arena arena; /* the shard's until the part is back */
    struct question *questions;
    struct question *next_question; /* that is not asked yet */
    struct look *looks;             /* that have not begun */
    uint32_t left;
    bool looking;
    struct query_part *next;
};

struct query {
    struct group_query out; /* first */
    struct broker *broker;
    struct loop *loop;
    struct arena arena;
    struct loop_task begin;
    struct loop_task find_topic, found_topic;
    struct uuid topic_id; /* of __consumer_offsets */
    uint32_t topic_partitions;
    struct query_part *parts;
    uint32_t parts_left;
    void (*then)(struct query *query);
    struct offset_fetch_request_group all; /* of a group's offsets */
};

static void finish(struct query *query, enum err err)
{
    query->out.err = err;
    query->out.done(&query->out);
}

/* ---- parts ---- */

static struct query_part *part_of(struct query *query, struct shard *shard)
{
    struct query_part *part = query->parts;

    while (part != NULL && part->shard != shard)
        part = part->next;
    if (part != NULL)
        return part;
    part = mem_calloc(1, sizeof(*part));
    if (part == NULL)
        return NULL;
    part->query = query;
    part->shard = shard;
    arena_init(&part->arena, GROUP_QUERY_BYTES_MAX);
    part->next = query->parts;
    query->parts = part;
    return part;
}

static void part_back(struct loop_task *task)
{
    struct query_part *part = LIST_ENTRY(task, struct query_part, back);
    struct query *query = part->query;

    if (--query->parts_left == 0)
        query->then(query);
}

static void send_back(struct query_part *part)
{
    part->back.run = part_back;
    loop_post(part->query->loop, &part->back);
}

/* One question less to wait for; the last sends the part home. */
static void part_has_one_less(struct query_part *part)
{
    assert(part->left > 0);
    if (--part->left == 0)
        send_back(part);
}

/* Sends every part there; then: all are back. What a full mailbox refuses fails the query, once the others are back. */
static void run_parts(struct query *query, void (*run)(struct loop_task *task), void (*then)(struct query *query))
{
    query->then = then;
    query->parts_left = 1; /* this loop's, so that none ends it early */
    for (struct query_part *part = query->parts; part != NULL; part = part->next) {
        part->there.run = run;
        query->parts_left++;
        if (!loop_post_bounded(part->shard->loop, &part->there)) {
            query->parts_left--;
            query->out.err = ERR_BUSY;
        }
    }
    if (--query->parts_left == 0)
        then(query);
}

/* ---- questions to coordinators ---- */

static void decided(struct step_op *op)
{
    struct question *question = LIST_ENTRY(op, struct question, ask.op);

    question->err = op->err;
    part_has_one_less(question->part);
}

/* As many as one turn may take: one answer may be long, the others come with the next turns. */
static void ask_some(struct loop_task *task)
{
    struct query_part *part = LIST_ENTRY(task, struct query_part, there);
    size_t used_bytes = part->arena.used_bytes;

    while (part->next_question != NULL) {
        struct question *question = part->next_question;
        struct hosted *hosted = shard_hosted(part->shard, question->topic_id, question->index);

        if (part->arena.used_bytes - used_bytes >= SCATTER_TURN_BYTES) {
            part->there.run = ask_some;
            loop_post(part->shard->loop, &part->there);
            return;
        }
        part->next_question = question->next;
        if (hosted == NULL)
            continue; /* its err says that this node does not coordinate it */
        part->left++;
        question->ask.arena = &part->arena;
        group_coordinators_ask(part->shard, hosted, &question->ask);
    }
    part_has_one_less(part);
}

static void ask_there(struct loop_task *task)
{
    struct query_part *part = LIST_ENTRY(task, struct query_part, there);

    part->left = 1;
    part->next_question = part->questions;
    ask_some(task);
}

static struct question *add_question(struct query *query, enum group_ask ask, int16_t version, int32_t index,
                                     const void *asked)
{
    struct query_part *part = part_of(query, shard_home(query->broker, query->topic_id, index));
    struct question *question = part == NULL ? NULL : arena_alloc(&query->arena, sizeof(*question));

    if (question == NULL)
        return NULL;
    question->part = part;
    question->topic_id = query->topic_id;
    question->index = index;
    question->err = ERR_NOT_COORDINATOR;
    question->ask = (struct group_op){
        .op.done = decided,
        .ask = ask,
        .version = version,
        .group_id = query->out.group_id,
        .client_id = BYTES_LITERAL("http"),
        .client_host = BYTES_LITERAL("/127.0.0.1"),
        .request = asked,
        .response = &question->response,
    };
    question->next = part->questions;
    part->questions = question;
    return question;
}

/* The questions of all parts, one after the other. */
static struct question *next_question(const struct query *query, const struct question *at)
{
    const struct query_part *part = at == NULL ? query->parts : at->part;

    if (at != NULL && at->next != NULL)
        return at->next;
    for (part = at == NULL ? part : part->next; part != NULL; part = part->next)
        if (part->questions != NULL)
            return part->questions;
    return NULL;
}

static struct question *question_for(const struct query *query, enum group_ask ask)
{
    struct question *at = NULL;

    while ((at = next_question(query, at)) != NULL)
        if (at->ask.ask == ask)
            return at;
    return NULL;
}

static bool has_failed(const struct query *query)
{
    return query->out.err != ERR_OK;
}

/* ---- LIST ---- */

static void listed(struct query *query)
{
    struct listed_group *groups = NULL;
    struct question *at = NULL;
    uint32_t count = 0;

    while ((at = next_question(query, at)) != NULL)
        count += at->err == ERR_OK ? at->response.list.count : 0;
    groups = arena_array(&query->arena, count, sizeof(*groups));
    if (groups == NULL || has_failed(query)) {
        finish(query, groups == NULL ? ERR_NOMEM : query->out.err);
        return;
    }
    while ((at = next_question(query, at)) != NULL) {
        if (at->err == ERR_NOT_COORDINATOR)
            continue; /* another node has it */
        if (at->err != ERR_OK) {
            finish(query, at->err);
            return;
        }
        group_list_copy(&at->response.list, &groups[query->out.group_count]);
        query->out.group_count += at->response.list.count;
    }
    query->out.groups = groups;
    finish(query, ERR_OK);
}

static void ask_list(struct query *query)
{
    static const struct list_groups_request everything;
    bool added = true;

    for (uint32_t i = 0; i < query->topic_partitions && added; i++)
        added = add_question(query, ASK_LIST_GROUPS, LIST_VERSION, (int32_t)i, &everything) != NULL;
    if (added)
        run_parts(query, ask_there, listed);
    else
        finish(query, ERR_NOMEM);
}

/* ---- DESCRIBE ---- */

static void described(struct query *query)
{
    const struct question *consumer = question_for(query, ASK_CONSUMER_DESCRIBE);
    const struct question *classic = question_for(query, ASK_DESCRIBE_GROUP);
    enum err err = has_failed(query) ? query->out.err : classic->err;

    if (!has_failed(query) && consumer->err == ERR_OK && consumer->response.consumer.error_code == 0) {
        query->out.consumer = &consumer->response.consumer;
        finish(query, ERR_OK);
        return;
    }
    if (err == ERR_OK)
        err = err_from_wire(classic->response.classic.error_code);
    query->out.classic = &classic->response.classic;
    finish(query, err);
}

/* ---- HISTORY ---- */

static void told(struct query *query)
{
    const struct question *question = question_for(query, ASK_HISTORY);
    enum err err = has_failed(query) ? query->out.err : question->err;

    query->out.history = &question->response.history;
    finish(query, err == ERR_OK ? question->response.history.err : err);
}

/* ---- LAG ---- */

static void look_on(struct query_part *part);

/* At once or later: what is decided at once must not lead deeper and deeper. */
static void row_is_known(struct look *look, enum err err)
{
    struct query_part *part = look->part;

    if (err != ERR_OK)
        look->row->err = err;
    part->left--;
    if (!part->looking)
        look_on(part);
}

static void next_found(struct partition_offsets *offsets)
{
    struct look *look = LIST_ENTRY(offsets, struct look, offsets);

    if (offsets->err == ERR_OK && offsets->offset >= 0)
        look->row->next_ms = offsets->out_timestamp;
    row_is_known(look, offsets->err);
}

static void ask_partition(struct look *look, int64_t timestamp, void (*done)(struct partition_offsets *offsets))
{
    struct partition *partition = NULL;
    enum err err = shard_lookup(look->part->shard, look->topic_id, look->row->index, &partition);

    look->offsets = (struct partition_offsets){.timestamp = timestamp,
                                               .offset_min = look->row->committed,
                                               .isolation = PARTITION_READ_UNCOMMITTED,
                                               .current_leader_epoch = -1,
                                               .arena = &look->part->arena,
                                               .done = done};
    if (err == ERR_OK)
        partition_offsets(partition, &look->offsets);
    else
        row_is_known(look, err);
}

static void end_found(struct partition_offsets *offsets)
{
    struct look *look = LIST_ENTRY(offsets, struct look, offsets);
    struct group_query_partition *row = look->row;
    int64_t from = row->committed < row->start ? row->start : row->committed;

    if (offsets->err != ERR_OK) {
        row_is_known(look, offsets->err);
        return;
    }
    row->end = offsets->offset;
    row->lag = from < row->end ? row->end - from : 0; /* what retention took is not there to be read */
    if (row->lag == 0)
        row_is_known(look, ERR_OK);
    else
        ask_partition(look, PARTITION_OFFSET_NEXT, next_found);
}

static void start_found(struct partition_offsets *offsets)
{
    struct look *look = LIST_ENTRY(offsets, struct look, offsets);

    if (offsets->err != ERR_OK) {
        row_is_known(look, offsets->err);
        return;
    }
    look->row->start = offsets->offset;
    ask_partition(look, PARTITION_OFFSET_LATEST, end_found);
}

static void look_there(struct loop_task *task)
{
    look_on(LIST_ENTRY(task, struct query_part, there));
}

/* Begins as many as may be under way and a turn allows; part->left counts them. The last sends the part home. */
static void look_on(struct query_part *part)
{
    part->looking = true;
    for (uint32_t count = 0; part->looks != NULL && part->left < GROUP_QUERY_FINDS_MAX; count++) {
        struct look *look = part->looks;

        if (count == GROUP_QUERY_TURN_LOOKS) { /* still looking: what is decided meanwhile does not come here */
            part->there.run = look_there;
            loop_post(part->shard->loop, &part->there);
            return;
        }
        part->looks = look->next;
        part->left++;
        ask_partition(look, PARTITION_OFFSET_EARLIEST, start_found);
    }
    part->looking = false;
    if (part->left == 0)
        send_back(part);
}

static void looked(struct query *query)
{
    finish(query, query->out.err);
}

static bool add_look(struct query *query, struct uuid topic_id, struct group_query_partition *row)
{
    struct query_part *part = part_of(query, shard_home(query->broker, topic_id, row->index));
    struct look *look = part == NULL ? NULL : arena_alloc(&query->arena, sizeof(*look));

    if (look == NULL)
        return false;
    look->part = part;
    look->topic_id = topic_id;
    look->row = row;
    look->next = part->looks;
    part->looks = look;
    return true;
}

static bool add_rows(struct query *query, const struct offset_fetch_response_group *offsets)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < offsets->topics_count; i++)
        count += offsets->topics[i].partitions_count;
    query->out.partitions = arena_array(&query->arena, count, sizeof(*query->out.partitions));
    if (query->out.partitions == NULL)
        return false;
    for (uint32_t i = 0; i < offsets->topics_count; i++)
        for (uint32_t k = 0; k < offsets->topics[i].partitions_count; k++) {
            const struct offset_fetch_response_partitions *from = &offsets->topics[i].partitions[k];
            struct group_query_partition *row = &query->out.partitions[query->out.partition_count++];

            *row = (struct group_query_partition){
                .topic = offsets->topics[i].name,
                .index = from->partition_index,
                .committed = from->committed_offset,
                .leader_epoch = from->committed_leader_epoch,
                .metadata = from->metadata,
                .err = err_from_wire(from->error_code),
                .start = -1,
                .end = -1,
                .next_ms = -1,
                .lag = -1,
            };
            if (uuid_is_zero(offsets->topics[i].topic_id))
                row->err = ERR_UNKNOWN_TOPIC_OR_PARTITION;
            else if (!add_look(query, offsets->topics[i].topic_id, row))
                return false;
        }
    return true;
}

static void fetched(struct query *query)
{
    const struct question *history = question_for(query, ASK_HISTORY);
    const struct question *offsets = question_for(query, ASK_OFFSET_FETCH);
    enum err err = has_failed(query) ? query->out.err : history->err;

    if (err == ERR_OK)
        err = history->response.history.err; /* whether there is such a group */
    if (err == ERR_OK)
        err = offsets->err;
    if (err == ERR_OK)
        err = err_from_wire(offsets->response.offsets.error_code);
    if (err == ERR_OK && !add_rows(query, &offsets->response.offsets))
        err = ERR_NOMEM;
    if (err == ERR_OK)
        run_parts(query, look_there, looked);
    else
        finish(query, err);
}

/* ---- begin ---- */

static void ask_one(struct query *query)
{
    int32_t index = coordinator_key_partition(query->out.group_id, query->topic_partitions);
    bool added = true;
    void (*then)(struct query * query) = told;

    switch (query->out.kind) {
    case GROUP_QUERY_DESCRIBE:
        then = described;
        added = add_question(query, ASK_CONSUMER_DESCRIBE, CONSUMER_DESCRIBE_VERSION, index, NULL) != NULL &&
                add_question(query, ASK_DESCRIBE_GROUP, DESCRIBE_VERSION, index, NULL) != NULL;
        break;
    case GROUP_QUERY_LAG:
        then = fetched;
        offset_fetch_request_group_init(&query->all);
        query->all.group_id = query->out.group_id;
        query->all.topics = NULL;
        added = add_question(query, ASK_HISTORY, 0, index, NULL) != NULL &&
                add_question(query, ASK_OFFSET_FETCH, OFFSET_FETCH_VERSION, index, &query->all) != NULL;
        break;
    default:
        added = add_question(query, ASK_HISTORY, 0, index, NULL) != NULL;
    }
    if (added)
        run_parts(query, ask_there, then);
    else
        finish(query, ERR_NOMEM);
}

static void found_topic(struct loop_task *task)
{
    struct query *query = LIST_ENTRY(task, struct query, found_topic);

    if (query->topic_partitions == 0) /* no group has ever been */
        finish(query, query->out.kind == GROUP_QUERY_LIST ? ERR_OK : ERR_GROUP_ID_NOT_FOUND);
    else if (query->out.kind == GROUP_QUERY_LIST)
        ask_list(query);
    else
        ask_one(query);
}

/* On the first shard: what the metadata says of __consumer_offsets. */
static void find_topic(struct loop_task *task)
{
    struct query *query = LIST_ENTRY(task, struct query, find_topic);
    const struct shard *shard = &query->broker->shards[0];
    const struct image_topic *topic = shard->image == NULL ? NULL : image_topic_by_name(shard->image, group_topic_name);

    if (topic != NULL) {
        query->topic_id = topic->id;
        query->topic_partitions = topic->partition_count;
    }
    query->found_topic.run = found_topic;
    loop_post(query->loop, &query->found_topic);
}

static void begin(struct loop_task *task)
{
    struct query *query = LIST_ENTRY(task, struct query, begin);

    query->find_topic.run = find_topic;
    if (!loop_post_bounded(query->broker->shards[0].loop, &query->find_topic))
        finish(query, ERR_BUSY);
}

enum err group_query_new(struct broker *broker, struct loop *loop, enum group_query_kind kind, struct bytes group_id,
                         struct group_query **query)
{
    struct query *made = mem_calloc(1, sizeof(*made));
    enum err err = ERR_OK;

    if (made == NULL)
        return ERR_NOMEM;
    made->broker = broker;
    made->loop = loop;
    made->out.kind = kind;
    arena_init(&made->arena, GROUP_QUERY_BYTES_MAX);
    err = arena_copy(&made->arena, group_id, &made->out.group_id);
    if (err != ERR_OK) {
        group_query_free(&made->out);
        return err;
    }
    *query = &made->out;
    return ERR_OK;
}

void group_query_run(struct group_query *out)
{
    struct query *query = LIST_ENTRY(out, struct query, out);

    query->begin.run = begin;
    loop_defer(query->loop, &query->begin);
}

void group_query_free(struct group_query *out)
{
    struct query *query = LIST_ENTRY(out, struct query, out);

    while (query->parts != NULL) {
        struct query_part *part = query->parts;

        query->parts = part->next;
        arena_deinit(&part->arena);
        mem_free(part);
    }
    arena_deinit(&query->arena);
    mem_free(query);
}
