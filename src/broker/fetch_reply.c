/* A Fetch's reply: which partitions it shows, what each says, and how much of what was read fits. */
#include <stdlib.h>

#include "broker/broker_internal.h"
#include "broker/fetch.h"
#include "broker/leader_hint.h"
#include "net/net_limits.h"

static int by_order(const void *a, const void *b)
{
    uint64_t left = ((const struct fetch_line *)a)->entry->order;
    uint64_t right = ((const struct fetch_line *)b)->entry->order;

    return (left > right) - (left < right);
}

static uint32_t collect_lines(struct fetch *fetch, struct fetch_line *lines)
{
    uint32_t count = 0;

    for (struct fetch_result *result = fetch->results; result != NULL; result = result->next)
        for (uint32_t i = 0; i < result->count; i++)
            lines[count++] = (struct fetch_line){result->items[i].entry, &result->items[i], result->items[i].read.err};
    if (fetch->refused == 0)
        return count;
    list_each (&fetch->session->entries, node) {
        struct fetch_entry *entry = LIST_ENTRY(node, struct fetch_entry, node);

        if (entry->refused != ERR_OK)
            lines[count++] = (struct fetch_line){entry, NULL, entry->refused};
    }
    return count;
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
static void keep_limit(const struct fetch *fetch, struct fetch_line *lines, uint32_t count)
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

static bool fill_partition(struct fetch *fetch, struct fetch_line *line, struct fetch_response_partition_data *out)
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
static bool fill_topics(struct fetch *fetch, struct fetch_line *lines, uint32_t count, struct fetch_response *response)
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
static void judge_staleness(struct fetch_session *session, struct fetch_line *line)
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
static uint32_t choose(struct fetch *fetch, struct fetch_line *lines, uint32_t count)
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

bool fetch_reply_fill(struct fetch *fetch)
{
    uint32_t count = 0;
    struct fetch_line *lines = request_array(fetch->request, (size_t)fetch->items + fetch->refused, sizeof(*lines));

    if (lines == NULL)
        return false;
    count = collect_lines(fetch, lines);
    if (fetch->results != NULL && (fetch->results->next != NULL || count > fetch->results->count))
        qsort(lines, count, sizeof(*lines), by_order);
    keep_limit(fetch, lines, count);
    count = choose(fetch, lines, count);
    return fill_topics(fetch, lines, count, &fetch->response) && add_endpoints(fetch, &fetch->response);
}
