/*
 * Fetch: the session says which partitions (fetch_session.h), each home reads its own (fetch_part.h), and this file
 * brings the two together: it places entries at their homes, waits until there is enough, and fills one reply within
 * the reply's limit.
 */
#include <stdlib.h>

#include "base/assert.h"
#include "base/mem.h"
#include "broker/broker_internal.h"
#include "broker/fetch_part.h"
#include "broker/handlers.h"
#include "broker/leader_hint.h"
#include "net/net_limits.h"
#include "protocol/gen/fetch.h"

struct fetch {
    struct request *request;
    struct shard *shard; /* whose session it is: the connection's, or the one that the session's id tells of */
    struct fetch_response response;
    bool filled;
    struct loop_task task;         /* there and back, where that is another shard */
    struct loop_task abandon_task; /* likewise, behind it: nobody waits for the reply any more */
    bool abandoning;               /* it is on its way */
    bool answered;                 /* the reply is ready, and waits for it to be back */
    const struct fetch_request *in;
    struct fetch_plan plan;
    struct fetch_session *session;
    struct fetch_result *results;
    uint32_t items;   /* over all results */
    uint32_t refused; /* entries that are not read */
    bool urgent;      /* one of them is not to wait for the others */
    uint32_t parts_left;
    uint64_t bytes_min;
    uint32_t bytes_max;
    bool finishing; /* every part was told to read what there is */
    bool no_memory;
    struct loop_timer deadline;
    struct list_node waiting; /* in the shard's list */
};

/* ---- reply ---- */

/* A line of the reply: what was read, or an error that was known before. */
struct line {
    struct fetch_entry *entry;
    struct fetch_item *item; /* NULL: refused */
    enum err err;
};

static int by_order(const void *a, const void *b)
{
    uint64_t left = ((const struct line *)a)->entry->order;
    uint64_t right = ((const struct line *)b)->entry->order;

    return (left > right) - (left < right);
}

static uint32_t collect_lines(struct fetch *fetch, struct line *lines)
{
    uint32_t count = 0;

    for (struct fetch_result *result = fetch->results; result != NULL; result = result->next)
        for (uint32_t i = 0; i < result->count; i++)
            lines[count++] = (struct line){result->items[i].entry, &result->items[i], result->items[i].read.err};
    if (fetch->refused == 0)
        return count;
    list_each (&fetch->session->entries, node) {
        struct fetch_entry *entry = LIST_ENTRY(node, struct fetch_entry, node);

        if (entry->refused != ERR_OK)
            lines[count++] = (struct line){entry, NULL, entry->refused};
    }
    return count;
}

/* The next fetch of the session may be another's, or about another image: it judges for itself. */
static void forgive(struct fetch *fetch)
{
    if (fetch->refused == 0)
        return;
    list_each (&fetch->session->entries, node)
        LIST_ENTRY(node, struct fetch_entry, node)->refused = ERR_OK;
}

static void drop_records(struct partition_read *read)
{
    for (uint32_t i = 0; i < read->slice_count; i++)
        fs_file_drop(read->slices[i].file);
    read->slice_count = 0;
    read->size = 0;
}

/* KIP-74: the first partition that has anything gives at least one batch; the others what fits. Each home kept to the
 * limit by itself; what goes over it together comes with a later fetch. */
static void keep_limit(const struct fetch *fetch, struct line *lines, uint32_t count)
{
    uint64_t left = fetch->bytes_max;
    uint32_t slices_left = EXCHANGE_SLICES_MAX - 1; /* one is what comes before the first records */
    bool first = true;

    for (uint32_t i = 0; i < count; i++) {
        struct partition_read *read = lines[i].item == NULL ? NULL : &lines[i].item->read;

        if (read == NULL || read->size == 0)
            continue;
        if ((!first && read->size > left) || read->slice_count + 1 > slices_left)
            drop_records(read);
        if (read->size > 0)
            slices_left -= read->slice_count + 1; /* and what stands behind the records */
        left -= read->size < left ? read->size : left;
        first = false;
    }
}

static bool fill_records(struct request *request, struct partition_read *read,
                         struct fetch_response_partition_data *out)
{
    out->records = (struct records){.slices = read->slices, .slice_count = read->slice_count, .size = read->size};
    if (request->header.request_api_version < 4 || read->isolation != PARTITION_READ_COMMITTED)
        return true;
    out->aborted_transactions = request_array(request, read->aborted_count, sizeof(*out->aborted_transactions));
    if (out->aborted_transactions == NULL)
        return false;
    for (uint32_t i = 0; i < read->aborted_count; i++) {
        out->aborted_transactions[i].producer_id = read->aborted[i].producer_id;
        out->aborted_transactions[i].first_offset = read->aborted[i].first_offset;
    }
    out->aborted_transactions_count = read->aborted_count;
    return true;
}

static bool fill_partition(struct fetch *fetch, struct line *line, struct fetch_response_partition_data *out)
{
    struct partition_read *read = line->item == NULL ? NULL : &line->item->read;

    fetch_response_partition_data_init(out);
    out->partition_index = line->entry->index;
    out->error_code = err_wire(line->err);
    out->high_watermark = -1;
    out->aborted_transactions = NULL;
    if (line->err == ERR_NOT_LEADER_OR_FOLLOWER || line->err == ERR_FENCED_LEADER_EPOCH)
        leader_hint(fetch->shard->image, line->entry->topic_id, line->entry->index, &out->current_leader.leader_id,
                    &out->current_leader.leader_epoch);
    if (read == NULL || line->err != ERR_OK)
        return true; /* no records is an empty run, never null (KAFKA-18646) */
    out->high_watermark = read->high_watermark;
    out->last_stable_offset = read->last_stable_offset;
    out->log_start_offset = read->log_start_offset;
    if (read->diverging) {
        out->diverging_epoch.epoch = read->diverging_epoch;
        out->diverging_epoch.end_offset = read->diverging_end_offset;
    }
    return fill_records(fetch->request, read, out);
}

static bool same_topic(const struct fetch_session *session, const struct fetch_entry *a, const struct fetch_entry *b)
{
    return session->by_id ? uuid_equal(a->topic_id, b->topic_id) : bytes_equal(a->name, b->name);
}

/* Puts lines that follow each other and are of one topic under it, as Kafka does. */
static bool fill_topics(struct fetch *fetch, struct line *lines, uint32_t count, struct fetch_response *response)
{
    struct request *request = fetch->request;
    struct fetch_response_partition_data *partitions = request_array(request, count, sizeof(*partitions));

    response->responses = request_array(request, count, sizeof(*response->responses));
    if (partitions == NULL || response->responses == NULL)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        struct fetchable_topic_response *topic = NULL;

        if (i == 0 || !same_topic(fetch->session, lines[i - 1].entry, lines[i].entry)) {
            topic = &response->responses[response->responses_count++];
            fetchable_topic_response_init(topic);
            topic->topic_id = lines[i].entry->topic_id;
            topic->partitions = &partitions[i];
            /* The entry may be gone before the reply is encoded. */
            if (!fetch->session->by_id && arena_copy(&request->arena, lines[i].entry->name, &topic->topic) != ERR_OK)
                return false;
        }
        topic = &response->responses[response->responses_count - 1];
        topic->partitions_count++;
        if (!fill_partition(fetch, &lines[i], &partitions[i]))
            return false;
    }
    return true;
}

/* KIP-951. */
static bool add_endpoints(struct fetch *fetch, struct fetch_response *response)
{
    struct request *request = fetch->request;
    struct leader_ids ids = {.count = 0};

    for (uint32_t i = 0; i < response->responses_count; i++)
        for (uint32_t j = 0; j < response->responses[i].partitions_count; j++)
            leader_ids_add(&ids, response->responses[i].partitions[j].current_leader.leader_id);
    if (ids.count == 0)
        return true;
    response->node_endpoints = request_array(request, ids.count, sizeof(*response->node_endpoints));
    if (response->node_endpoints == NULL)
        return false;
    for (uint32_t i = 0; i < ids.count; i++) {
        struct fetch_response_node_endpoint *entry = &response->node_endpoints[response->node_endpoints_count];

        fetch_response_node_endpoint_init(entry);
        entry->node_id = ids.ids[i];
        if (broker_address_of(request, ids.ids[i], &entry->host, &entry->port) == ERR_OK)
            response->node_endpoints_count++;
    }
    return true;
}

/* A name whose topic id is gone may be another topic's by now: looked up again with the next fetch. */
static void judge_staleness(struct fetch_session *session, struct line *line)
{
    if (session->by_id || line->err != ERR_UNKNOWN_TOPIC_ID)
        return;
    line->err = ERR_UNKNOWN_TOPIC_OR_PARTITION;
    if (!line->entry->stale) {
        line->entry->stale = true;
        session->stale_count++;
    }
}

/* Leaves out what did not change, notes what is told, and sends those that bring data to the end. */
static uint32_t choose(struct fetch *fetch, struct line *lines, uint32_t count)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < count; i++) {
        struct partition_read *read = lines[i].item == NULL ? NULL : &lines[i].item->read;
        bool told = read != NULL && lines[i].err == ERR_OK;

        judge_staleness(fetch->session, &lines[i]);
        if (read != NULL && read->size > 0)
            fetch_session_move_last(fetch->session, lines[i].entry);
        if (fetch_entry_shows(lines[i].entry, fetch->plan.incremental, lines[i].err, read == NULL ? 0 : read->size,
                              read != NULL && read->diverging, told ? read->high_watermark : -1,
                              told ? read->log_start_offset : -1))
            lines[kept++] = lines[i];
    }
    return kept;
}

static void free_results(struct request *request)
{
    struct fetch *fetch = request->user;

    for (struct fetch_result *result = fetch->results; result != NULL;) {
        struct fetch_result *next = result->next;

        fetch_result_free(result);
        result = next;
    }
    fetch->results = NULL;
}

/* On the connection's shard. */
static void send_reply(struct fetch *fetch)
{
    if (fetch->filled)
        request_reply(fetch->request, &fetch->response);
    else
        request_close(fetch->request, "no memory for the fetch");
}

static void told_back(struct loop_task *task)
{
    struct fetch *fetch = LIST_ENTRY(task, struct fetch, task);

    fetch->answered = true;
    if (!fetch->abandoning)
        send_reply(fetch);
}

static void deliver(struct fetch *fetch)
{
    if (fetch->shard == fetch->request->shard) {
        send_reply(fetch);
        return;
    }
    fetch->task.run = told_back;
    loop_post(fetch->request->shard->loop, &fetch->task);
}

static void reply(struct fetch *fetch)
{
    struct request *request = fetch->request;
    struct fetch_session *session = fetch->session;
    struct line *lines = NULL;
    uint32_t count = 0;

    loop_timer_stop(fetch->shard->loop, &fetch->deadline);
    list_remove(&fetch->waiting);
    lines = request_array(request, (size_t)fetch->items + fetch->refused, sizeof(*lines));
    if (lines != NULL && !fetch->no_memory) {
        count = collect_lines(fetch, lines);
        if (fetch->results != NULL && (fetch->results->next != NULL || count > fetch->results->count))
            qsort(lines, count, sizeof(*lines), by_order);
        keep_limit(fetch, lines, count);
        count = choose(fetch, lines, count);
        fetch->filled = fill_topics(fetch, lines, count, &fetch->response) && add_endpoints(fetch, &fetch->response);
    }
    forgive(fetch);
    fetch->response.session_id = fetch_session_done(&fetch->shard->sessions, session);
    fetch->session = NULL;
    deliver(fetch);
}

/* ---- waiting ---- */

static void finish_all(struct fetch *fetch)
{
    struct fetch_session *session = fetch->session;
    uint32_t room = session->parts == NULL ? 0 : session->parts_room;

    if (fetch->finishing)
        return;
    fetch->finishing = true;
    fetch->parts_left++; /* ours: the last answer may come within this loop */
    for (uint32_t i = 0; i < room; i++)
        if (session->parts[i] != NULL)
            fetch_part_finish(session->parts[i]);
    fetch->parts_left--;
    if (fetch->parts_left == 0)
        reply(fetch);
}

static void part_done(struct fetch_part *part)
{
    struct fetch *fetch = part->context;

    if (part->result == NULL) {
        fetch->no_memory = true;
    } else {
        part->result->next = fetch->results;
        fetch->results = part->result;
        fetch->items += part->result->count;
    }
    fetch->parts_left--;
    if (fetch->parts_left == 0)
        reply(fetch);
    else
        finish_all(fetch); /* one had enough: the others give what they have */
}

static void part_reported(struct fetch_part *part)
{
    struct fetch *fetch = part->context;
    struct fetch_session *session = fetch->session;
    uint64_t available = 0;

    for (uint32_t i = 0; i < session->parts_room; i++)
        if (session->parts[i] != NULL && session->parts[i]->busy)
            available += session->parts[i]->available;
    if (available >= fetch->bytes_min)
        finish_all(fetch);
}

static void deadline(struct loop_timer *timer)
{
    finish_all(LIST_ENTRY(timer, struct fetch, deadline));
}

/* On the session's shard. */
static void give_up_waiting(struct fetch *fetch)
{
    if (fetch->session != NULL)
        finish_all(fetch);
}

static void told_abandoning_is_over(struct loop_task *task)
{
    struct fetch *fetch = LIST_ENTRY(task, struct fetch, abandon_task);

    fetch->abandoning = false;
    if (fetch->answered)
        send_reply(fetch);
}

static void told_abandoned(struct loop_task *task)
{
    struct fetch *fetch = LIST_ENTRY(task, struct fetch, abandon_task);

    give_up_waiting(fetch);
    fetch->abandon_task.run = told_abandoning_is_over;
    loop_post(fetch->request->shard->loop, &fetch->abandon_task);
}

static void abandoned(struct request *request)
{
    struct fetch *fetch = request->user;

    if (fetch->shard == request->shard) {
        give_up_waiting(fetch);
        return;
    }
    fetch->abandoning = true;
    fetch->abandon_task.run = told_abandoned;
    loop_post(fetch->shard->loop, &fetch->abandon_task);
}

/* ---- placing ---- */

static enum err place(struct fetch *fetch, struct fetch_entry *entry)
{
    struct request *request = fetch->request;
    struct fetch_session *session = fetch->session;
    struct fetch_part *part = NULL;

    if (!session->by_id) {
        const struct image_topic *topic =
            request->image == NULL ? NULL : image_topic_by_name(request->image, entry->name);

        if (topic == NULL) {
            entry->refused = ERR_UNKNOWN_TOPIC_OR_PARTITION;
            fetch->refused++;
            fetch->urgent |= !entry->told_missing;
            return ERR_OK;
        }
        entry->topic_id = topic->id;
    }
    part = fetch_part_at(fetch->shard, session, shard_home(request->broker, entry->topic_id, entry->index));
    if (part == NULL)
        return ERR_NOMEM;
    fetch_part_place(part, entry);
    return ERR_OK;
}

static enum err renew_stale(struct fetch_session *session)
{
    if (session->stale_count == 0)
        return ERR_OK;
    list_each (&session->entries, node) {
        struct fetch_entry *entry = LIST_ENTRY(node, struct fetch_entry, node);

        if (entry->stale && fetch_session_renew(session, entry) != ERR_OK)
            return ERR_NOMEM;
    }
    return ERR_OK;
}

static enum err place_all(struct fetch *fetch)
{
    struct fetch_session *session = fetch->session;
    enum err err = renew_stale(session);

    /* Whatever fails, what is forgotten leaves its part before it is freed. */
    list_each (&session->forgotten, node) {
        struct fetch_entry *entry = LIST_ENTRY(node, struct fetch_entry, node);

        list_remove(&entry->changed);
        if (entry->part != NULL)
            list_add_last(&entry->part->removed, &entry->changed);
    }
    list_each (&session->changed, node) {
        struct fetch_entry *entry = LIST_ENTRY(node, struct fetch_entry, changed);

        if (entry->part == NULL)
            continue;
        list_remove(node);
        list_add_last(&entry->part->changed, node);
    }
    list_each (&session->unplaced, node)
        if (err == ERR_OK)
            err = place(fetch, LIST_ENTRY(node, struct fetch_entry, all));
    return err;
}

/* ---- access ---- */

static struct bytes topic_name(const struct fetch *fetch, const struct fetch_entry *entry)
{
    const struct image_topic *topic = NULL;

    if (!fetch->session->by_id)
        return entry->name;
    topic = fetch->request->image == NULL ? NULL : image_topic_by_id(fetch->request->image, entry->topic_id);
    return topic == NULL ? (struct bytes){0} : topic->name;
}

/* Who may not read, and who says to be a replica here, where there is none but us, is refused entry by entry. */
static void refuse_entries(struct fetch *fetch)
{
    struct request *request = fetch->request;
    bool follower = fetch->in->replica_id >= 0 || fetch->in->replica_state.replica_id >= 0;

    if (request->broker->access == NULL && !follower)
        return;
    list_each (&fetch->session->entries, node) {
        struct fetch_entry *entry = LIST_ENTRY(node, struct fetch_entry, node);
        struct bytes name = topic_name(fetch, entry);

        if (entry->part == NULL)
            continue; /* unknown by name: told so already */
        if (follower)
            entry->refused = request_may(request, MAY_CLUSTER_ACTION, ON_CLUSTER, BYTES_LITERAL("kafka-cluster"))
                                 ? ERR_UNKNOWN_LEADER_EPOCH
                                 : ERR_TOPIC_AUTHORIZATION_FAILED;
        else if (name.data != NULL && !request_may(request, MAY_READ, ON_TOPIC, name))
            entry->refused = ERR_TOPIC_AUTHORIZATION_FAILED;
        fetch->refused += entry->refused != ERR_OK;
        fetch->urgent |= entry->refused != ERR_OK;
    }
}

/* ---- in ---- */

/* How long the fetch may wait. Behind a connection that is not read nobody sees the client go; so it is answered before
 * it would count as idle. */
static int64_t wait_ms(const struct fetch *fetch)
{
    int64_t idle_ms = connection_listener(fetch->request->connection)->idle_ms_max;

    return idle_ms > 0 && fetch->in->max_wait_ms > idle_ms ? idle_ms : fetch->in->max_wait_ms;
}

static void ask_parts(struct fetch *fetch)
{
    struct request *request = fetch->request;
    struct fetch_session *session = fetch->session;
    bool release = !session->cached || session->count == 0;
    bool may_wait = fetch->in->max_wait_ms > 0 && session->count > 0 && !fetch->urgent;
    uint32_t room = session->parts == NULL ? 0 : session->parts_room;

    fetch->parts_left = 1;
    for (uint32_t i = 0; i < room; i++)
        fetch->parts_left += session->parts[i] != NULL;
    for (uint32_t i = 0; i < room; i++) {
        struct fetch_part *part = session->parts[i];

        if (part == NULL)
            continue;
        part->ask = (struct fetch_ask){
            .version = request->image == NULL ? IMAGE_OFFSET_NONE : image_offset(request->image),
            .bytes_min = fetch->bytes_min,
            .bytes_max = fetch->bytes_max,
            .isolation = fetch->in->isolation_level == 1 ? PARTITION_READ_COMMITTED : PARTITION_READ_UNCOMMITTED,
            .may_wait = may_wait && !fetch->finishing,
            .full = !fetch->plan.incremental,
            .release = release,
        };
        part->context = fetch;
        part->done = part_done;
        part->reported = part_reported;
        fetch_part_collect(part);
    }
    fetch->parts_left--;
    if (fetch->parts_left == 0) {
        reply(fetch);
    } else if (may_wait) {
        fetch->deadline.fired = deadline;
        loop_timer_start(fetch->shard->loop, &fetch->deadline,
                         loop_now_ns(fetch->shard->loop) + wait_ms(fetch) * INT64_C(1000000));
        list_add_last(&fetch->shard->fetches, &fetch->waiting);
        if (fetch->shard->stopping)
            finish_all(fetch);
    }
}

/* On the session's shard. */
static void begin(struct fetch *fetch)
{
    fetch_session_begin(&fetch->shard->sessions, fetch->in, fetch->request->header.request_api_version,
                        loop_now_ns(fetch->shard->loop), &fetch->plan);
    if (fetch->plan.err != ERR_OK) {
        fetch->response.error_code = err_wire(fetch->plan.err);
        fetch->filled = true;
        deliver(fetch);
        return;
    }
    fetch->session = fetch->plan.session;
    if (place_all(fetch) != ERR_OK)
        fetch->no_memory = true; /* what was placed is still to be told of */
    refuse_entries(fetch);
    ask_parts(fetch);
}

static void told_begin(struct loop_task *task)
{
    begin(LIST_ENTRY(task, struct fetch, task));
}

void fetches_finish(struct shard *shard)
{
    list_each (&shard->fetches, node)
        finish_all(LIST_ENTRY(node, struct fetch, waiting));
}

/* What the partitions that the request names take while it is answered: their entries, results and lines. */
static size_t fetch_bytes(const struct fetch_request *in)
{
    size_t count = 0;

    for (uint32_t i = 0; i < in->topics_count; i++)
        count += in->topics[i].partitions_count;
    return count * (sizeof(struct fetch_entry) + sizeof(struct fetch_item) + sizeof(struct line));
}

void handle_fetch(struct request *request, void *body)
{
    const struct fetch_request *in = body;
    struct fetch *fetch = arena_alloc(&request->arena, sizeof(*fetch));
    int32_t bytes_cap = config_int(request->broker->config, CONFIG_FETCH_MAX_BYTES);
    uint32_t owner = 0;

    if (fetch == NULL || request_reserve(request, fetch_bytes(in)) != ERR_OK) {
        request_close(request, "no memory for the fetch");
        return;
    }
    fetch->request = request;
    fetch->in = in;
    fetch->bytes_min = in->min_bytes < 0 ? 0 : (uint64_t)in->min_bytes;
    fetch->bytes_max = (uint32_t)(in->max_bytes < 0 ? 0 : in->max_bytes < bytes_cap ? in->max_bytes : bytes_cap);
    fetch_response_init(&fetch->response);
    list_node_init(&fetch->waiting);
    request->user = fetch;
    request->cleanup = free_results;
    /* A session is the broker's: a client may come back to it by another connection. */
    owner = in->session_id > 0 ? fetch_session_shard(in->session_id) : request->shard->index;
    fetch->shard = owner < request->broker->env.reactor_count ? &request->broker->shards[owner] : request->shard;
    request->abandoned = abandoned;
    if (fetch->shard == request->shard) {
        begin(fetch);
        return;
    }
    fetch->task.run = told_begin;
    loop_post(fetch->shard->loop, &fetch->task);
}
