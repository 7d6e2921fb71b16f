/* IncrementalAlterConfigs and AlterConfigs: checked for access here and decided by the controller, by the rules of the
 * one table of keys; answered when every loop of this node goes by the outcome. Each resource has its own answer. */
#include <stdio.h>
#include <stdlib.h>

#include "broker/broker_internal.h"
#include "broker/handlers.h"
#include "broker/topic_config.h"
#include "protocol/gen/alter_configs.h"
#include "protocol/gen/incremental_alter_configs.h"

enum { BROKER_LOGGER = 8, NODE_ID_CHARS = 12 }; /* BROKER_LOGGER: resource type beside enum config_resource_type */

static const struct bytes cluster_name = {(const uint8_t *)"kafka-cluster", sizeof("kafka-cluster") - 1};

/* One resource of either request. */
struct alteration {
    int8_t type;
    struct bytes name;
    struct config_change *changes;
    uint32_t change_count;
    enum err err; /* the outcome */
    struct bytes message;
    uint32_t asked; /* entry of the question to the controller + 1; 0: answered here */
};

/* Either request while the controller decides. */
struct alteration_set {
    struct metadata_call ask;
    struct request *request;
    struct alteration *entries;
    uint32_t count;
    struct alter_resource *resources;
    uint32_t resource_count;
    void (*reply)(struct alteration_set *set);
};

static void no_memory(struct request *request)
{
    request_close(request, "no memory for the request");
}

static void refuse(struct alteration *entry, enum err err, struct bytes message)
{
    entry->err = err;
    entry->message = message;
}

static enum err check_access(const struct request *request, const struct alteration *entry)
{
    switch (entry->type) {
    case CONFIG_TOPIC:
        return request_may(request, MAY_ALTER_CONFIGS, ON_TOPIC, entry->name) ? ERR_OK : ERR_TOPIC_AUTHORIZATION_FAILED;
    case CONFIG_GROUP:
        return request_may(request, MAY_ALTER_CONFIGS, ON_GROUP, entry->name) ? ERR_OK : ERR_GROUP_AUTHORIZATION_FAILED;
    default:
        return request_may(request, MAY_ALTER_CONFIGS, ON_CLUSTER, cluster_name) ? ERR_OK
                                                                                 : ERR_CLUSTER_AUTHORIZATION_FAILED;
    }
}

/* A broker changes itself, or the default "" of all. */
static void check_node(struct request *request, struct alteration *entry)
{
    char own[NODE_ID_CHARS];

    (void)snprintf(own, sizeof(own), "%d", request->broker->node_id);
    if (entry->name.size == 0 || bytes_equal(entry->name, bytes_of_text(own)))
        return;
    refuse(entry, ERR_INVALID_REQUEST,
           arena_printf(&request->arena, "Unexpected broker id, expected %s or empty string, but received %.*s", own,
                        BYTES_PRINTF(entry->name)));
}

static void check_topic(struct alteration *entry)
{
    if (entry->name.size == 0)
        refuse(entry, ERR_INVALID_REQUEST, BYTES_LITERAL("Default topic resources are not allowed."));
    else if (!topic_name_is_valid(entry->name))
        entry->err = ERR_INVALID_TOPIC_EXCEPTION;
}

static void check_entry(struct request *request, struct alteration *entry)
{
    entry->err = check_access(request, entry);
    if (entry->err != ERR_OK)
        return;
    if (entry->type == CONFIG_BROKER)
        check_node(request, entry);
    else if (entry->type == CONFIG_TOPIC)
        check_topic(entry);
    else if (entry->type == CONFIG_GROUP && entry->name.size == 0)
        refuse(entry, ERR_INVALID_REQUEST, BYTES_LITERAL("Default group resources are not allowed."));
    else if (entry->type == BROKER_LOGGER)
        refuse(entry, ERR_INVALID_REQUEST, BYTES_LITERAL("log levels cannot be altered yet"));
}

static int by_resource(const void *left, const void *right)
{
    const struct alteration *a = *(const struct alteration *const *)left;
    const struct alteration *b = *(const struct alteration *const *)right;

    return a->type != b->type ? a->type - b->type : bytes_compare(a->name, b->name);
}

/* Of what a request names twice nothing is done. */
static bool check_repeated(struct alteration_set *set)
{
    struct alteration **sorted = request_array(set->request, set->count, sizeof(struct alteration *));

    if (sorted == NULL)
        return false;
    for (uint32_t i = 0; i < set->count; i++)
        sorted[i] = &set->entries[i];
    if (set->count > 1)
        qsort(sorted, set->count, sizeof(struct alteration *), by_resource);
    for (uint32_t i = 1; i < set->count; i++) {
        if (by_resource(&sorted[i - 1], &sorted[i]) != 0)
            continue;
        refuse(sorted[i - 1], ERR_INVALID_REQUEST, BYTES_LITERAL("Each resource must appear at most once."));
        refuse(sorted[i], ERR_INVALID_REQUEST, BYTES_LITERAL("Each resource must appear at most once."));
    }
    return true;
}

/* NULL: no memory, and the request is closed. */
static struct alteration_set *set_new(struct request *request, uint32_t count,
                                      void (*reply)(struct alteration_set *set))
{
    struct alteration_set *set = arena_alloc(&request->arena, sizeof(*set));

    if (set != NULL) {
        set->request = request;
        set->count = count;
        set->reply = reply;
        set->entries = request_array(request, count, sizeof(*set->entries));
        set->resources = request_array(request, count, sizeof(*set->resources));
        if (set->entries != NULL && set->resources != NULL)
            return set;
    }
    no_memory(request);
    return NULL;
}

/* One resource as it came, with room for its changes. False: no memory, and the request is closed. */
static bool entry_begin(struct alteration_set *set, uint32_t i, int8_t type, struct bytes name, uint32_t change_count)
{
    struct alteration *entry = &set->entries[i];

    entry->type = type;
    entry->name = name;
    entry->change_count = change_count;
    entry->changes = request_array(set->request, change_count, sizeof(*entry->changes));
    if (entry->changes == NULL)
        no_memory(set->request);
    return entry->changes != NULL;
}

static void decided(struct metadata_call *ask)
{
    struct alteration_set *set = LIST_ENTRY(ask, struct alteration_set, ask);

    for (uint32_t i = 0; i < set->count; i++) {
        struct alteration *entry = &set->entries[i];
        const struct alter_resource *resource = entry->asked == 0 ? NULL : &set->resources[entry->asked - 1];

        if (resource == NULL)
            continue;
        if (ask->request.err != ERR_OK)
            refuse(entry, ask->request.err, ask->request.message);
        else
            refuse(entry, resource->err, resource->message);
    }
    for (uint32_t i = 0; i < set->count; i++)
        if (set->entries[i].err != ERR_OK && set->entries[i].message.data == NULL)
            set->entries[i].message = bytes_of_text(err_text(set->entries[i].err));
    set->reply(set);
}

static void decide(struct alteration_set *set, bool validate_only, bool replace)
{
    struct request *request = set->request;

    if (!check_repeated(set)) {
        no_memory(request);
        return;
    }
    for (uint32_t i = 0; i < set->count; i++) {
        struct alteration *entry = &set->entries[i];

        if (entry->err == ERR_OK)
            check_entry(request, entry);
        if (entry->err != ERR_OK)
            continue;
        set->resources[set->resource_count] = (struct alter_resource){
            .type = entry->type,
            .resource = entry->name,
            .changes = entry->changes,
            .change_count = entry->change_count,
        };
        entry->asked = ++set->resource_count;
    }
    set->ask.home = request->shard->loop;
    set->ask.done = decided;
    set->ask.request.type = CONTROLLER_ALTER_CONFIGS;
    set->ask.request.arena = &request->arena;
    set->ask.request.alter_configs = (struct alter_configs){
        .resources = set->resources,
        .count = set->resource_count,
        .validate_only = validate_only,
        .replace = replace,
    };
    if (set->resource_count > 0)
        metadata_node_call(request->broker->metadata, &set->ask);
    else
        decided(&set->ask);
}

/* ---- IncrementalAlterConfigs ---- */

static void reply_incremental(struct alteration_set *set)
{
    struct request *request = set->request;
    struct incremental_alter_configs_response response;

    incremental_alter_configs_response_init(&response);
    response.responses = request_array(request, set->count, sizeof(*response.responses));
    if (response.responses == NULL) {
        no_memory(request);
        return;
    }
    for (uint32_t i = 0; i < set->count; i++) {
        const struct alteration *entry = &set->entries[i];

        response.responses[i].error_code = err_wire(entry->err);
        response.responses[i].error_message = entry->message;
        response.responses[i].resource_type = entry->type;
        response.responses[i].resource_name = entry->name;
    }
    response.responses_count = set->count;
    request_reply(request, &response);
}

void handle_incremental_alter_configs(struct request *request, void *body)
{
    const struct incremental_alter_configs_request *in = body;
    struct alteration_set *set = set_new(request, in->resources_count, reply_incremental);

    if (set == NULL)
        return;
    for (uint32_t i = 0; i < in->resources_count; i++) {
        const struct incremental_alter_configs_request_alter_configs_resource *resource = &in->resources[i];

        if (!entry_begin(set, i, resource->resource_type, resource->resource_name, resource->configs_count))
            return;
        for (uint32_t j = 0; j < resource->configs_count; j++)
            set->entries[i].changes[j] = (struct config_change){
                .name = resource->configs[j].name,
                .value = resource->configs[j].value,
                .op = resource->configs[j].config_operation,
            };
    }
    decide(set, in->validate_only, false);
}

/* ---- AlterConfigs, the older call: what it does not name goes back to its default ---- */

static void reply_replaced(struct alteration_set *set)
{
    struct request *request = set->request;
    struct alter_configs_response response;

    alter_configs_response_init(&response);
    response.responses = request_array(request, set->count, sizeof(*response.responses));
    if (response.responses == NULL) {
        no_memory(request);
        return;
    }
    for (uint32_t i = 0; i < set->count; i++) {
        const struct alteration *entry = &set->entries[i];

        response.responses[i].error_code = err_wire(entry->err);
        response.responses[i].error_message = entry->message;
        response.responses[i].resource_type = entry->type;
        response.responses[i].resource_name = entry->name;
    }
    response.responses_count = set->count;
    request_reply(request, &response);
}

void handle_alter_configs(struct request *request, void *body)
{
    const struct alter_configs_request *in = body;
    struct alteration_set *set = set_new(request, in->resources_count, reply_replaced);

    if (set == NULL)
        return;
    for (uint32_t i = 0; i < in->resources_count; i++) {
        const struct alter_configs_request_alter_configs_resource *resource = &in->resources[i];

        if (!entry_begin(set, i, resource->resource_type, resource->resource_name, resource->configs_count))
            return;
        for (uint32_t j = 0; j < resource->configs_count; j++)
            set->entries[i].changes[j] = (struct config_change){
                .name = resource->configs[j].name,
                .value = resource->configs[j].value,
                .op = CONFIG_SET,
            };
    }
    decide(set, in->validate_only, true);
}
