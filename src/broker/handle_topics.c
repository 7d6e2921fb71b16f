/* CreateTopics, DeleteTopics, CreatePartitions: checked for access here, decided by the controller, answered when every
 * loop of this node has applied the outcome. */
#include "broker/broker_internal.h"
#include "broker/handlers.h"
#include "broker/topic_config.h"
#include "protocol/gen/create_partitions.h"
#include "protocol/gen/create_topics.h"
#include "protocol/gen/delete_topics.h"

static const struct bytes cluster_name = {(const uint8_t *)"kafka-cluster", sizeof("kafka-cluster") - 1};

/* Whether the time for it is over before the controller comes to it: then Apache Kafka looks at no entry, not even for
 * access, and answers all of them alike. What is decided here at all is decided at once, so no other time runs out. */
static bool is_too_late(int32_t timeout_ms)
{
    return timeout_ms <= 0;
}

/* What all three are while the controller decides. */
struct change {
    struct metadata_call ask;
    struct request *request;
    const void *in;
    uint32_t *asked;      /* by entry of the reply: entry of the question + 1; 0: answered here */
    enum err *errors;     /* of those answered here */
    uint32_t asked_count; /* entries of the question */
};

static void no_memory(struct request *request)
{
    request_close(request, "no memory for the request");
}

static struct change *change_new(struct request *request, const void *in, uint32_t count, size_t size)
{
    struct change *change = arena_alloc(&request->arena, size);

    if (change == NULL)
        return NULL;
    change->request = request;
    change->in = in;
    change->asked = request_array(request, count, sizeof(*change->asked));
    change->errors = request_array(request, count, sizeof(*change->errors));
    return change->asked == NULL || change->errors == NULL ? NULL : change;
}

static void ask(struct change *change, enum controller_request_type type, void (*done)(struct metadata_call *ask))
{
    struct request *request = change->request;

    change->ask.home = request->shard->loop;
    change->ask.done = done;
    change->ask.request.type = type;
    change->ask.request.arena = &request->arena;
    if (change->asked_count == 0) {
        change->ask.request.err = ERR_OK;
        done(&change->ask);
        return;
    }
    metadata_node_call(request->broker->metadata, &change->ask);
}

/* The message that goes with an error; none with success. */
static struct bytes message_of(enum err err, struct bytes message)
{
    if (err == ERR_OK)
        return (struct bytes){0};
    return message.data != NULL ? message : bytes_of_text(err_text(err));
}

/* ---- CreateTopics ---- */

struct create {
    struct change change; /* first */
    struct create_topic *topics;
    struct create_topics_response response;
};

static bool convert_topic(struct request *request, const struct creatable_topic *in, struct create_topic *out)
{
    struct assignment *assignments = request_array(request, in->assignments_count, sizeof(*assignments));
    struct image_config *configs = request_array(request, in->configs_count, sizeof(*configs));

    if (assignments == NULL || configs == NULL)
        return false;
    for (uint32_t i = 0; i < in->assignments_count; i++)
        assignments[i] = (struct assignment){in->assignments[i].partition_index, in->assignments[i].broker_ids,
                                             in->assignments[i].broker_ids_count};
    for (uint32_t i = 0; i < in->configs_count; i++)
        configs[i] = (struct image_config){in->configs[i].name, in->configs[i].value};
    *out = (struct create_topic){
        .name = in->name,
        .partition_count = in->num_partitions,
        .replication_factor = in->replication_factor,
        .assignments = assignments,
        .assignment_count = in->assignments_count,
        .configs = configs,
        .config_count = in->configs_count,
    };
    return true;
}

/* KIP-525: the effective configuration of what was made. own: the topic's entries as the image would have them. */
static bool fill_configs(struct request *request, const struct create_topic *topic, struct creatable_topic_result *out)
{
    struct image_configs own = {.count = topic->config_count, .entries = topic->configs};
    struct broker *broker = request->broker;

    out->configs = request_array(request, CONFIG_KEY_COUNT, sizeof(*out->configs));
    if (out->configs == NULL)
        return false;
    for (enum config_id id = 0; id < CONFIG_KEY_COUNT; id++) {
        struct creatable_topic_configs *entry = &out->configs[out->configs_count];
        struct config_places places;
        char text[CONFIG_NUMBER_CHARS];

        if (config_key(id)->scope != CONFIG_SCOPE_TOPIC || config_key(id)->standing.status == CONFIG_INTERNAL)
            continue;
        config_places_find(broker->config, request->image, broker->node_id, id, &own, &places);
        creatable_topic_configs_init(entry);
        entry->name = bytes_of_text(config_key(id)->name);
        entry->value = config_effective(broker->config, request->image, broker->node_id, id, &own, text);
        if (entry->value.data == (const uint8_t *)text &&
            arena_copy(&request->arena, entry->value, &entry->value) != ERR_OK)
            return false;
        entry->config_source = (int8_t)(places.count > 0 ? places.entries[0].origin : CONFIG_ORIGIN_DEFAULT);
        out->configs_count++;
    }
    return true;
}

static bool fill_created(struct create *create, const struct create_topic *topic, struct creatable_topic_result *out)
{
    struct request *request = create->change.request;

    out->error_code = err_wire(topic->err);
    out->error_message = message_of(topic->err, topic->message);
    if (topic->err != ERR_OK)
        return true;
    out->topic_id = topic->id;
    if (!request_may(request, MAY_DESCRIBE_CONFIGS, ON_TOPIC, topic->name)) {
        out->topic_config_error_code = err_wire(ERR_TOPIC_AUTHORIZATION_FAILED);
        return true;
    }
    out->num_partitions = topic->partitions_made;
    out->replication_factor = topic->factor_made;
    if (request->header.request_api_version < 5)
        return true;
    return fill_configs(request, topic, out);
}

static void created(struct metadata_call *ask)
{
    struct create *create = LIST_ENTRY(ask, struct create, change.ask);
    struct request *request = create->change.request;
    const struct create_topics_request *in = create->change.in;
    struct create_topics_response *response = &create->response;

    create_topics_response_init(response);
    response->topics = request_array(request, in->topics_count, sizeof(*response->topics));
    if (response->topics == NULL) {
        no_memory(request);
        return;
    }
    for (uint32_t i = 0; i < in->topics_count; i++) {
        struct creatable_topic_result *out = &response->topics[response->topics_count];
        uint32_t asked = create->change.asked[i];
        struct create_topic *topic = asked > 0 ? &create->topics[asked - 1] : NULL;

        if (topic != NULL && topic->repeated)
            continue;
        creatable_topic_result_init(out);
        out->name = in->topics[i].name;
        if (topic == NULL) {
            out->error_code = err_wire(create->change.errors[i]);
            out->error_message = bytes_of_text(err_text(create->change.errors[i]));
        } else {
            if (ask->request.err != ERR_OK) {
                topic->err = ask->request.err;
                topic->message = ask->request.message;
            }
            if (!fill_created(create, topic, out)) {
                no_memory(request);
                return;
            }
        }
        response->topics_count++;
    }
    request_reply(request, response);
}

void handle_create_topics(struct request *request, void *body)
{
    const struct create_topics_request *in = body;
    struct create *create = (struct create *)change_new(request, in, in->topics_count, sizeof(*create));
    bool any = request_may(request, MAY_CREATE, ON_CLUSTER, cluster_name);

    if (create == NULL) {
        no_memory(request);
        return;
    }
    create->topics = request_array(request, in->topics_count, sizeof(*create->topics));
    if (create->topics == NULL) {
        no_memory(request);
        return;
    }
    for (uint32_t i = 0; i < in->topics_count; i++) {
        if (is_too_late(in->timeout_ms)) {
            create->change.errors[i] = ERR_REQUEST_TIMED_OUT;
            continue;
        }
        if (!any && !request_may(request, MAY_CREATE, ON_TOPIC, in->topics[i].name)) {
            create->change.errors[i] = ERR_TOPIC_AUTHORIZATION_FAILED;
            continue;
        }
        if (!convert_topic(request, &in->topics[i], &create->topics[create->change.asked_count])) {
            no_memory(request);
            return;
        }
        create->change.asked[i] = ++create->change.asked_count;
    }
    create->change.ask.request.create_topics = (struct create_topics){
        .topics = create->topics, .count = create->change.asked_count, .validate_only = in->validate_only};
    ask(&create->change, CONTROLLER_CREATE_TOPICS, created);
}

/* ---- DeleteTopics ---- */

struct removal {
    struct change change; /* first */
    struct delete_topic *topics;
    struct delete_topics_response response;
};

static uint32_t deletions(const struct request *request, const struct delete_topics_request *in)
{
    return request->header.request_api_version >= 6 ? in->topics_count : in->topic_names_count;
}

static struct delete_topic deletion(const struct request *request, const struct delete_topics_request *in, uint32_t i)
{
    if (request->header.request_api_version >= 6)
        return (struct delete_topic){.name = in->topics[i].name, .id = in->topics[i].topic_id};
    return (struct delete_topic){.name = in->topic_names[i]};
}

static void deleted(struct metadata_call *ask)
{
    struct removal *removal = LIST_ENTRY(ask, struct removal, change.ask);
    struct request *request = removal->change.request;
    const struct delete_topics_request *in = removal->change.in;
    uint32_t count = deletions(request, in);
    struct delete_topics_response *response = &removal->response;

    delete_topics_response_init(response);
    response->responses = request_array(request, count, sizeof(*response->responses));
    if (response->responses == NULL) {
        no_memory(request);
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        struct deletable_topic_result *out = &response->responses[response->responses_count];
        struct delete_topic topic = deletion(request, in, i);
        uint32_t asked = removal->change.asked[i];

        if (asked > 0 && removal->topics[asked - 1].repeated)
            continue; /* one answer for each name, as in Apache Kafka */
        if (asked > 0) {
            topic = removal->topics[asked - 1];
            if (ask->request.err != ERR_OK) {
                topic.err = ask->request.err;
                topic.message = ask->request.message;
            }
        } else {
            topic.err = removal->change.errors[i];
        }
        if (topic.err == ERR_TOPIC_DELETION_DISABLED && request->header.request_api_version < 3)
            topic.err = ERR_INVALID_REQUEST;
        deletable_topic_result_init(out);
        out->name = topic.name;
        out->topic_id = topic.id;
        out->error_code = err_wire(topic.err);
        out->error_message = message_of(topic.err, topic.message);
        response->responses_count++;
    }
    request_reply(request, response);
}

/* By id, access is asked for the name behind it; who may not see the topic does not learn that the id exists. */
static enum err may_delete(const struct request *request, const struct delete_topic *topic)
{
    const struct image_topic *row = NULL;

    if (topic->name.data != NULL && !uuid_is_zero(topic->id))
        return ERR_INVALID_REQUEST;
    if (topic->name.data != NULL)
        return request_may(request, MAY_DELETE, ON_TOPIC, topic->name) ? ERR_OK : ERR_TOPIC_AUTHORIZATION_FAILED;
    row = request->image == NULL ? NULL : image_topic_by_id(request->image, topic->id);
    if (row == NULL || request_may(request, MAY_DELETE, ON_TOPIC, row->name))
        return ERR_OK;
    return request_may(request, MAY_DESCRIBE, ON_TOPIC, row->name) ? ERR_TOPIC_AUTHORIZATION_FAILED
                                                                   : ERR_UNKNOWN_TOPIC_ID;
}

void handle_delete_topics(struct request *request, void *body)
{
    const struct delete_topics_request *in = body;
    uint32_t count = deletions(request, in);
    struct removal *removal = (struct removal *)change_new(request, in, count, sizeof(*removal));

    if (removal != NULL)
        removal->topics = request_array(request, count, sizeof(*removal->topics));
    if (removal == NULL || removal->topics == NULL) {
        no_memory(request);
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        struct delete_topic topic = deletion(request, in, i);
        enum err err = is_too_late(in->timeout_ms) ? ERR_REQUEST_TIMED_OUT : may_delete(request, &topic);

        removal->change.errors[i] = err;
        if (err != ERR_OK)
            continue;
        removal->topics[removal->change.asked_count] = topic;
        removal->change.asked[i] = ++removal->change.asked_count;
    }
    removal->change.ask.request.delete_topics =
        (struct delete_topics){.topics = removal->topics, .count = removal->change.asked_count};
    ask(&removal->change, CONTROLLER_DELETE_TOPICS, deleted);
}

/* ---- CreatePartitions ---- */

struct growth {
    struct change change; /* first */
    struct grow_topic *topics;
    struct create_partitions_response response;
};

static void grown(struct metadata_call *ask)
{
    struct growth *growth = LIST_ENTRY(ask, struct growth, change.ask);
    struct request *request = growth->change.request;
    const struct create_partitions_request *in = growth->change.in;
    struct create_partitions_response *response = &growth->response;

    create_partitions_response_init(response);
    response->results = request_array(request, in->topics_count, sizeof(*response->results));
    if (response->results == NULL) {
        no_memory(request);
        return;
    }
    for (uint32_t i = 0; i < in->topics_count; i++) {
        struct create_partitions_topic_result *out = &response->results[response->results_count];
        uint32_t asked = growth->change.asked[i];
        enum err err = growth->change.errors[i];
        struct bytes message = {0};

        if (asked > 0 && growth->topics[asked - 1].repeated)
            continue;
        if (asked > 0) {
            err = ask->request.err != ERR_OK ? ask->request.err : growth->topics[asked - 1].err;
            message = ask->request.err != ERR_OK ? ask->request.message : growth->topics[asked - 1].message;
        }
        create_partitions_topic_result_init(out);
        out->name = in->topics[i].name;
        out->error_code = err_wire(err);
        out->error_message = message_of(err, message);
        response->results_count++;
    }
    request_reply(request, response);
}

static bool convert_growth(struct request *request, const struct create_partitions_topic *in, struct grow_topic *out)
{
    struct assignment *assignments = NULL;

    *out = (struct grow_topic){.name = in->name, .partition_count = in->count};
    if (in->assignments == NULL)
        return true;
    assignments = request_array(request, in->assignments_count, sizeof(*assignments));
    if (assignments == NULL)
        return false;
    for (uint32_t i = 0; i < in->assignments_count; i++)
        assignments[i] = (struct assignment){.brokers = in->assignments[i].broker_ids,
                                             .broker_count = in->assignments[i].broker_ids_count};
    out->assignments = assignments;
    out->assignment_count = in->assignments_count;
    return true;
}

void handle_create_partitions(struct request *request, void *body)
{
    const struct create_partitions_request *in = body;
    struct growth *growth = (struct growth *)change_new(request, in, in->topics_count, sizeof(*growth));

    if (growth != NULL)
        growth->topics = request_array(request, in->topics_count, sizeof(*growth->topics));
    if (growth == NULL || growth->topics == NULL) {
        no_memory(request);
        return;
    }
    for (uint32_t i = 0; i < in->topics_count; i++) {
        if (is_too_late(in->timeout_ms)) {
            growth->change.errors[i] = ERR_REQUEST_TIMED_OUT;
            continue;
        }
        if (!request_may(request, MAY_ALTER, ON_TOPIC, in->topics[i].name)) {
            growth->change.errors[i] = ERR_TOPIC_AUTHORIZATION_FAILED;
            continue;
        }
        if (!convert_growth(request, &in->topics[i], &growth->topics[growth->change.asked_count])) {
            no_memory(request);
            return;
        }
        growth->change.asked[i] = ++growth->change.asked_count;
    }
    growth->change.ask.request.create_partitions = (struct create_partitions){
        .topics = growth->topics, .count = growth->change.asked_count, .validate_only = in->validate_only};
    ask(&growth->change, CONTROLLER_CREATE_PARTITIONS, grown);
}
