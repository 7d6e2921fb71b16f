/*
 * Fetch: the session says which partitions (fetch_session.h), each home reads its own (fetch_part.h), and this file
 * brings the two together: it places entries at their homes and waits until there is enough; fetch_reply.c fills the
 * reply.
 */
#include "base/assert.h"
#include "base/mem.h"
#include "broker/broker_internal.h"
#include "broker/fetch.h"
#include "broker/handlers.h"

/* ---- reply ---- */

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

/* The next fetch of the session may be another's, or about another image: it judges for itself. */
static void forgive(struct fetch *fetch)
{
    if (fetch->refused == 0)
        return;
    list_each (&fetch->session->entries, node)
        LIST_ENTRY(node, struct fetch_entry, node)->refused = ERR_OK;
}

static void reply(struct fetch *fetch)
{
    loop_timer_stop(fetch->shard->loop, &fetch->deadline);
    list_remove(&fetch->waiting);
    fetch->filled = !fetch->no_memory && fetch_reply_fill(fetch);
    forgive(fetch);
    fetch->response.session_id = fetch_session_done(&fetch->shard->sessions, fetch->session);
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

        if (entry->part == NULL) { /* unknown by name, which who may not read it does not learn */
            if (!follower && !request_may(request, MAY_READ, ON_TOPIC, name)) {
                entry->refused = ERR_TOPIC_AUTHORIZATION_FAILED;
                fetch->urgent = true;
            }
            continue;
        }
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

void handle_fetch_finish(struct shard *shard)
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
    return count * (sizeof(struct fetch_entry) + sizeof(struct fetch_item) + sizeof(struct fetch_line));
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
    if (owner < request->broker->env.reactor_count || owner == broker_aside(request->broker)->index)
        fetch->shard = &request->broker->shards[owner];
    else
        fetch->shard = request->shard;
    request->abandoned = abandoned;
    if (fetch->shard == request->shard) {
        begin(fetch);
        return;
    }
    fetch->task.run = told_begin;
    loop_post(fetch->shard->loop, &fetch->task);
}
