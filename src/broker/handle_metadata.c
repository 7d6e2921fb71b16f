#include <stdlib.h>

#include "broker/broker_internal.h"
#include "broker/handlers.h"
#include "broker/topic_config.h"
#include "protocol/gen/metadata.h"

struct metadata {
    struct request *request;
    struct metadata_request *in;
    bool all;
    bool by_id;
    bool makes;                   /* what is missing is to be made */
    struct create_topic *missing; /* that may be made */
    uint32_t missing_count;
    uint32_t *missing_at; /* by entry of the question: entry of missing + 1; 0: not to be made */
    struct metadata_call make;
    struct metadata_response response;
};

static bool is_alive(const struct image *image, int32_t id)
{
    const struct image_broker *row = image_broker(image, id);

    return row != NULL && !row->fenced;
}

static enum err add_broker(void *context, const struct image_broker *row)
{
    struct metadata *metadata = context;
    struct metadata_response_broker *entry = &metadata->response.brokers[metadata->response.brokers_count];
    enum err err = ERR_OK;

    if (row->fenced)
        return ERR_OK;
    metadata_response_broker_init(entry);
    entry->node_id = row->id;
    entry->rack = row->rack;
    err = broker_address_of(metadata->request, row->id, &entry->host, &entry->port);
    if (err == ERR_OK)
        metadata->response.brokers_count++;
    return err == ERR_NOMEM ? err : ERR_OK;
}

/* The leader must be reachable on the listener the client came in on; never by another listener's address (B053). */
static enum err leader_error(struct request *request, const struct image_partition *row)
{
    struct bytes host;
    int32_t port = 0;
    enum err err = ERR_OK;

    if (row->leader == IMAGE_LEADER_NONE || !is_alive(request->image, row->leader))
        return ERR_LEADER_NOT_AVAILABLE;
    err = broker_address_of(request, row->leader, &host, &port);
    if (err == ERR_LISTENER_NOT_FOUND && request->header.request_api_version < 6)
        return ERR_LEADER_NOT_AVAILABLE;
    return err;
}

static int32_t *copy_ids(struct request *request, const int32_t *ids, uint32_t count)
{
    int32_t *copy = request_array(request, count, sizeof(*copy));

    if (copy != NULL && count > 0)
        memcpy(copy, ids, count * sizeof(*copy));
    return copy;
}

static bool fill_partition(struct request *request, const struct image_partition *row, int32_t index,
                           struct metadata_response_partition *out)
{
    enum err err = leader_error(request, row);

    metadata_response_partition_init(out);
    out->error_code = err_wire(err);
    out->partition_index = index;
    out->leader_id = err == ERR_OK ? row->leader : IMAGE_LEADER_NONE;
    out->leader_epoch = row->leader_epoch;
    out->replica_nodes = copy_ids(request, row->replicas, row->replica_count);
    out->isr_nodes = copy_ids(request, row->isr, row->isr_count);
    out->offline_replicas = request_array(request, row->replica_count, sizeof(*out->offline_replicas));
    if (out->replica_nodes == NULL || out->isr_nodes == NULL || out->offline_replicas == NULL)
        return false;
    out->replica_nodes_count = row->replica_count;
    out->isr_nodes_count = row->isr_count;
    for (uint32_t i = 0; i < row->replica_count; i++)
        if (!is_alive(request->image, row->replicas[i]) ||
            !image_directory_is_online(request->image, row->replicas[i], row->directories[i]))
            out->offline_replicas[out->offline_replicas_count++] = row->replicas[i];
    return true;
}

static bool fill_topic(struct metadata *metadata, const struct image_topic *row, struct metadata_response_topic *out)
{
    struct request *request = metadata->request;

    metadata_response_topic_init(out);
    out->name = row->name;
    out->topic_id = row->id;
    out->is_internal = topic_is_internal(row->name);
    if (metadata->in->include_topic_authorized_operations)
        out->topic_authorized_operations = request_operations(request, ON_TOPIC, row->name);
    out->partitions = request_array(request, row->partition_count, sizeof(*out->partitions));
    if (out->partitions == NULL)
        return false;
    out->partitions_count = row->partition_count;
    for (uint32_t i = 0; i < row->partition_count; i++)
        if (!fill_partition(request, row->partitions[i], (int32_t)i, &out->partitions[i]))
            return false;
    return true;
}

static enum err add_topic(void *context, const struct image_topic *row)
{
    struct metadata *metadata = context;

    if (!request_may(metadata->request, MAY_DESCRIBE, ON_TOPIC, row->name))
        return ERR_OK;
    if (!fill_topic(metadata, row, &metadata->response.topics[metadata->response.topics_count]))
        return ERR_NOMEM;
    metadata->response.topics_count++;
    return ERR_OK;
}

static bool may_create(const struct request *request, struct bytes name)
{
    return request_may(request, MAY_CREATE, ON_CLUSTER, BYTES_LITERAL("kafka-cluster")) ||
           request_may(request, MAY_CREATE, ON_TOPIC, name);
}

/* Why a topic that is asked for by name is not there. */
static enum err missing_error(const struct metadata *metadata, uint32_t i)
{
    struct bytes name = metadata->in->topics[i].name;

    if (metadata->missing_at != NULL && metadata->missing_at[i] > 0) {
        enum err err = metadata->missing[metadata->missing_at[i] - 1].err;

        /* Made a moment ago and gone again, or not made in time: clients ask again. */
        return err == ERR_OK || err == ERR_TOPIC_ALREADY_EXISTS || err == ERR_NOT_CONTROLLER ? ERR_LEADER_NOT_AVAILABLE
                                                                                             : err;
    }
    if (!topic_name_is_valid(name))
        return ERR_INVALID_TOPIC_EXCEPTION;
    return metadata->makes && !may_create(metadata->request, name) ? ERR_TOPIC_AUTHORIZATION_FAILED
                                                                   : ERR_UNKNOWN_TOPIC_OR_PARTITION;
}

static bool fill_asked(struct metadata *metadata, uint32_t i, struct metadata_response_topic *out)
{
    struct request *request = metadata->request;
    const struct metadata_request_topic *in = &metadata->in->topics[i];
    const struct image_topic *row = NULL;
    enum err err = ERR_OK;

    if (request->image != NULL)
        row = metadata->by_id ? image_topic_by_id(request->image, in->topic_id)
                              : image_topic_by_name(request->image, in->name);
    if (row != NULL && request_may(request, MAY_DESCRIBE, ON_TOPIC, row->name))
        return fill_topic(metadata, row, out);
    metadata_response_topic_init(out);
    out->name = in->name;
    out->topic_id = in->topic_id;
    if (metadata->by_id) {
        /* Whoever may not see a topic does not learn that its id exists. */
        out->name = (struct bytes){0};
        err = row != NULL ? ERR_TOPIC_AUTHORIZATION_FAILED : ERR_UNKNOWN_TOPIC_ID;
    } else if (!request_may(request, MAY_DESCRIBE, ON_TOPIC, in->name)) {
        err = ERR_TOPIC_AUTHORIZATION_FAILED;
    } else {
        err = missing_error(metadata, i);
        /* Apache Kafka answers that for what is not there, too. */
        if (metadata->in->include_topic_authorized_operations && err != ERR_TOPIC_AUTHORIZATION_FAILED)
            out->topic_authorized_operations = request_operations(request, ON_TOPIC, in->name);
    }
    out->error_code = err_wire(err);
    out->is_internal = !metadata->by_id && topic_is_internal(in->name);
    return true;
}

static bool fill_topics(struct metadata *metadata)
{
    struct request *request = metadata->request;
    uint32_t room = metadata->in->topics_count;

    if (metadata->all)
        room = request->image == NULL ? 0 : image_topic_count(request->image);
    metadata->response.topics = request_array(request, room, sizeof(*metadata->response.topics));
    if (metadata->response.topics == NULL)
        return false;
    if (metadata->all)
        return request->image == NULL || image_each_topic(request->image, add_topic, metadata) == ERR_OK;
    for (uint32_t i = 0; i < metadata->in->topics_count; i++)
        if (!fill_asked(metadata, i, &metadata->response.topics[i]))
            return false;
    metadata->response.topics_count = room;
    return true;
}

static bool fill_cluster(struct metadata *metadata)
{
    struct request *request = metadata->request;
    struct metadata_response *out = &metadata->response;
    struct bytes cluster = BYTES_LITERAL("kafka-cluster");

    out->cluster_id = bytes_of_text(request->broker->cluster_id);
    if (metadata->in->include_cluster_authorized_operations)
        out->cluster_authorized_operations = request_may(request, MAY_DESCRIBE, ON_CLUSTER, cluster)
                                                 ? request_operations(request, ON_CLUSTER, cluster)
                                                 : 0;
    if (request->image == NULL)
        return true;
    out->brokers = request_array(request, image_broker_count(request->image), sizeof(*out->brokers));
    if (out->brokers == NULL || image_each_broker(request->image, add_broker, metadata) != ERR_OK)
        return false;
    /* Brokers do not show where the controller is (KIP-590): a live broker takes requests for it. */
    if (out->brokers_count > 0)
        out->controller_id =
            is_alive(request->image, request->broker->node_id) ? request->broker->node_id : out->brokers[0].node_id;
    return true;
}

static void *put_together(struct request *request)
{
    struct metadata *metadata = request->user;

    return fill_cluster(metadata) && fill_topics(metadata) ? &metadata->response : NULL;
}

/* What the answer is made of, by and large. */
static size_t answer_bytes(const struct metadata *metadata)
{
    const struct image *image = metadata->request->image;
    uint64_t topics = metadata->in->topics_count;
    uint64_t partitions = 0;

    if (metadata->all) {
        topics = image == NULL ? 0 : image_topic_count(image);
        partitions = image == NULL ? 0 : image_partition_count(image);
    }
    for (uint32_t i = 0; !metadata->all && image != NULL && i < topics; i++) {
        const struct metadata_request_topic *in = &metadata->in->topics[i];
        const struct image_topic *row =
            metadata->by_id ? image_topic_by_id(image, in->topic_id) : image_topic_by_name(image, in->name);

        partitions += row == NULL ? 0 : row->partition_count;
    }
    return topics * sizeof(struct metadata_response_topic) + partitions * sizeof(struct metadata_response_partition);
}

static void answer(struct metadata *metadata)
{
    request_reply_made(metadata->request, answer_bytes(metadata), put_together);
}

/* ---- making what is missing ---- */

static void made(struct metadata_call *make)
{
    struct metadata *metadata = LIST_ENTRY(make, struct metadata, make);
    struct request *request = metadata->request;

    for (uint32_t i = 0; make->request.err != ERR_OK && i < metadata->missing_count; i++)
        metadata->missing[i].err = make->request.err;
    /* The request completes when this shard has applied it. */
    image_drop(request->image);
    request->image = image_keep(request->shard->image);
    answer(metadata);
}

static bool may_make(const struct metadata *metadata, struct bytes name)
{
    struct request *request = metadata->request;

    return topic_name_is_valid(name) && image_topic_by_name(request->image, name) == NULL &&
           request_may(request, MAY_DESCRIBE, ON_TOPIC, name) && may_create(request, name);
}

static bool find_missing(struct metadata *metadata)
{
    struct request *request = metadata->request;

    metadata->missing = request_array(request, metadata->in->topics_count, sizeof(*metadata->missing));
    metadata->missing_at = request_array(request, metadata->in->topics_count, sizeof(*metadata->missing_at));
    if (metadata->missing == NULL || metadata->missing_at == NULL)
        return false;
    for (uint32_t i = 0; i < metadata->in->topics_count; i++) {
        struct bytes name = metadata->in->topics[i].name;
        struct create_topic *topic = &metadata->missing[metadata->missing_count];

        if (!may_make(metadata, name))
            continue;
        topic->name = name;
        topic->partition_count = -1;
        topic->replication_factor = -1;
        if (!topic_internal_settings(request->broker->config, topic, &request->arena))
            return false;
        metadata->missing_at[i] = ++metadata->missing_count;
    }
    return true;
}

static bool wants_creation(const struct metadata *metadata)
{
    return !metadata->all && !metadata->by_id && metadata->in->allow_auto_topic_creation &&
           metadata->request->image != NULL && metadata->in->topics_count > 0 &&
           config_bool(metadata->request->broker->config, CONFIG_AUTO_CREATE_TOPICS_ENABLE);
}

static void make_missing(struct metadata *metadata)
{
    struct request *request = metadata->request;

    metadata->make = (struct metadata_call){.home = request->shard->loop, .done = made};
    metadata->make.request.type = CONTROLLER_CREATE_TOPICS;
    metadata->make.request.arena = &request->arena;
    metadata->make.request.create_topics =
        (struct create_topics){.topics = metadata->missing, .count = metadata->missing_count};
    metadata_node_call(request->broker->metadata, &metadata->make);
}

/* Versions 10 and 11 have ids on the wire but none could ask by them (KAFKA-12701). */
static bool is_valid(const struct metadata *metadata)
{
    for (uint32_t i = 0; i < metadata->in->topics_count; i++) {
        const struct metadata_request_topic *topic = &metadata->in->topics[i];

        if (metadata->request->header.request_api_version < 12 &&
            (topic->name.data == NULL || !uuid_is_zero(topic->topic_id)))
            return false;
        if (topic->name.data == NULL && uuid_is_zero(topic->topic_id))
            return false;
    }
    return true;
}

/* A topic in the question, where it stands. */
struct mention {
    const struct metadata_request_topic *topic;
    uint32_t place;
};

static int by_topic(const void *a, const void *b)
{
    const struct mention *left = a;
    const struct mention *right = b;
    int order = memcmp(left->topic->topic_id.bytes, right->topic->topic_id.bytes, UUID_BYTES);

    if (order == 0)
        order = bytes_compare(left->topic->name, right->topic->name);
    return order != 0 ? order : (left->place > right->place) - (left->place < right->place);
}

static bool same_topic(const struct metadata_request_topic *a, const struct metadata_request_topic *b)
{
    return uuid_equal(a->topic_id, b->topic_id) && bytes_equal(a->name, b->name);
}

/* Apache Kafka takes the topics for a set: each is answered once; and where there are ids, by these alone. */
static bool keep_one_of_each(struct metadata *metadata)
{
    struct metadata_request *in = metadata->in;
    struct mention *mentions = request_array(metadata->request, in->topics_count, sizeof(*mentions));
    bool *drop = request_array(metadata->request, in->topics_count, sizeof(*drop));
    uint32_t kept = 0;

    if (mentions == NULL || drop == NULL)
        return false;
    for (uint32_t i = 0; i < in->topics_count; i++) {
        if (metadata->by_id)
            in->topics[i].name = (struct bytes){0};
        mentions[i] = (struct mention){&in->topics[i], i};
        drop[i] = metadata->by_id && uuid_is_zero(in->topics[i].topic_id);
    }
    qsort(mentions, in->topics_count, sizeof(*mentions), by_topic);
    for (uint32_t i = 1; i < in->topics_count; i++)
        drop[mentions[i].place] |= same_topic(mentions[i - 1].topic, mentions[i].topic);
    for (uint32_t i = 0; i < in->topics_count; i++)
        if (!drop[i])
            in->topics[kept++] = in->topics[i];
    in->topics_count = kept;
    return true;
}

static void answer_invalid(struct metadata *metadata)
{
    struct request *request = metadata->request;
    struct metadata_response *out = &metadata->response;

    out->topics = request_array(request, metadata->in->topics_count, sizeof(*out->topics));
    if (out->topics == NULL) {
        request_close(request, "no memory for the reply");
        return;
    }
    out->topics_count = metadata->in->topics_count;
    for (uint32_t i = 0; i < out->topics_count; i++) {
        metadata_response_topic_init(&out->topics[i]);
        if (metadata->in->topics[i].name.data != NULL)
            out->topics[i].name = metadata->in->topics[i].name;
        out->topics[i].topic_id = metadata->in->topics[i].topic_id;
        out->topics[i].error_code = err_wire(ERR_INVALID_REQUEST);
    }
    request_reply(request, out);
}

void handle_metadata(struct request *request, void *body)
{
    struct metadata *metadata = arena_alloc(&request->arena, sizeof(*metadata));
    int16_t version = request->header.request_api_version;

    if (metadata == NULL) {
        request_close(request, "no memory for the request");
        return;
    }
    metadata->request = request;
    metadata->in = body;
    request->user = metadata;
    metadata_response_init(&metadata->response);
    /* Version 0 had no null: none named was all. */
    metadata->all = metadata->in->topics == NULL || (version == 0 && metadata->in->topics_count == 0);
    for (uint32_t i = 0; i < metadata->in->topics_count; i++)
        metadata->by_id |= !uuid_is_zero(metadata->in->topics[i].topic_id);
    if (!metadata->all && !is_valid(metadata)) {
        answer_invalid(metadata);
        return;
    }
    if (!metadata->all && !keep_one_of_each(metadata)) {
        request_close(request, "no memory for the request");
        return;
    }
    metadata->makes = wants_creation(metadata);
    if (metadata->makes) {
        if (!find_missing(metadata)) {
            request_close(request, "no memory for the request");
            return;
        }
        if (metadata->missing_count > 0) {
            make_missing(metadata);
            return;
        }
    }
    answer(metadata);
}
