/* DescribeConfigs: topics and brokers, each value with where it comes from and what would stand in its place. */
#include <stdlib.h>

#include "broker/broker_internal.h"
#include "broker/handlers.h"
#include "broker/topic_config.h"
#include "protocol/gen/describe_configs.h"

enum { BROKER_LOGGER = 8 }; /* resource type beside enum config_resource */

/* One resource of the reply as it is filled. */
struct description {
    struct request *request;
    const struct describe_configs_request *in;
    const struct describe_configs_resource *resource;
    struct describe_configs_result *out;
};

static bool is_asked(const struct describe_configs_resource *resource, const char *name)
{
    if (resource->configuration_keys_count == 0)
        return true; /* null, and to Apache Kafka also an empty list, asks for all */
    for (uint32_t i = 0; i < resource->configuration_keys_count; i++)
        if (bytes_equal(resource->configuration_keys[i], bytes_of_text(name)))
            return true;
    return false;
}

static struct bytes shown(const struct config_key *key, struct bytes value)
{
    return key->type == CONFIG_TYPE_PASSWORD ? (struct bytes){0} : value;
}

static bool add_synonyms(struct description *to, const struct config_key *key,
                         const struct config_standing_value *values, uint32_t count,
                         struct describe_configs_resource_result *out)
{
    out->synonyms = request_array(to->request, count, sizeof(*out->synonyms));
    if (out->synonyms == NULL)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        describe_configs_synonym_init(&out->synonyms[i]);
        out->synonyms[i].name = bytes_of_text(values[i].name);
        out->synonyms[i].value = shown(key, values[i].value);
        out->synonyms[i].source = (int8_t)values[i].origin;
    }
    out->synonyms_count = count;
    return true;
}

static bool is_read_only(const struct config_key *key)
{
    return key->scope == CONFIG_SCOPE_STATIC;
}

static bool add(struct description *to, enum config_id id, const struct config_standing_value *values, uint32_t count)
{
    const struct config_key *key = config_key(id);
    struct describe_configs_resource_result *out = &to->out->configs[to->out->configs_count];

    describe_configs_resource_result_init(out);
    out->name = bytes_of_text(key->name);
    out->value = count > 0 ? shown(key, values[0].value) : (struct bytes){0};
    out->config_source = (int8_t)(count > 0 ? values[0].origin : CONFIG_ORIGIN_DEFAULT);
    out->is_sensitive = key->type == CONFIG_TYPE_PASSWORD;
    out->read_only = is_read_only(key);
    out->config_type = (int8_t)key->type;
    out->documentation = (struct bytes){0};
    if (to->in->include_documentation) {
        struct config_why accepted;

        config_accepted(id, &accepted);
        out->documentation =
            arena_printf(&to->request->arena, "%s%s%s", accepted.text,
                         key->standing.reason[0] == '\0' ? "" : "; without effect: ", key->standing.reason);
        if (out->documentation.data == NULL)
            return false;
    }
    if (to->in->include_synonyms && !add_synonyms(to, key, values, count, out))
        return false;
    to->out->configs_count++;
    return true;
}

/* All keys that `belongs` lets through, with own entries of the resource. */
static bool add_all(struct description *to, bool (*belongs)(const struct config_key *key),
                    const struct image_configs *own)
{
    struct request *request = to->request;
    struct broker *broker = request->broker;

    to->out->configs = request_array(request, CONFIG_KEY_COUNT, sizeof(*to->out->configs));
    if (to->out->configs == NULL)
        return false;
    for (enum config_id id = 0; id < CONFIG_KEY_COUNT; id++) {
        const struct config_key *key = config_key(id);
        struct config_standing_value values[CONFIG_STANDING_MAX];
        uint32_t count = 0;

        if (!belongs(key) || key->standing.status == CONFIG_INTERNAL || !is_asked(to->resource, key->name))
            continue;
        if (config_standing(broker->config, request->image, broker->node_id, id, own, &request->arena, values,
                            &count) != ERR_OK ||
            !add(to, id, values, count))
            return false;
    }
    return true;
}

/* The dynamic entries of one broker resource: "" is the cluster's default. Nothing but them is shown for it. */
static bool add_dynamic(struct description *to, const struct image_configs *entries)
{
    uint32_t count = entries == NULL ? 0 : entries->count;

    to->out->configs = request_array(to->request, count, sizeof(*to->out->configs));
    if (to->out->configs == NULL)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        enum config_id id = config_find_broker_key(entries->entries[i].name);
        struct config_standing_value value = {NULL, entries->entries[i].value, CONFIG_ORIGIN_DYNAMIC_DEFAULT_BROKER};

        if (id == CONFIG_NONE || !is_asked(to->resource, config_key(id)->name))
            continue;
        value.name = config_key(id)->name;
        if (!add(to, id, &value, 1))
            return false;
    }
    return true;
}

static bool is_topic_key(const struct config_key *key)
{
    return key->scope == CONFIG_SCOPE_TOPIC;
}

static bool is_group_key(const struct config_key *key)
{
    return key->scope == CONFIG_SCOPE_GROUP;
}

static bool is_broker_key(const struct config_key *key)
{
    return !is_topic_key(key) && !is_group_key(key);
}

/* what: a phrase that the name ends, if there is one. */
static enum err fail(struct description *to, enum err err, const char *what, struct bytes name)
{
    to->out->error_message = arena_printf(&to->request->arena, "%s%.*s", what, BYTES_PRINTF(name));
    return err;
}

static enum err describe_topic(struct description *to)
{
    struct request *request = to->request;
    struct bytes name = to->resource->resource_name;

    if (!request_may(request, MAY_DESCRIBE_CONFIGS, ON_TOPIC, name))
        return ERR_TOPIC_AUTHORIZATION_FAILED;
    if (!topic_name_is_valid(name))
        return ERR_INVALID_TOPIC_EXCEPTION;
    if (request->image == NULL || image_topic_by_name(request->image, name) == NULL)
        return ERR_UNKNOWN_TOPIC_OR_PARTITION;
    return add_all(to, is_topic_key, image_configs(request->image, CONFIG_TOPIC, name)) ? ERR_OK : ERR_NOMEM;
}

static enum err describe_broker(struct description *to)
{
    struct request *request = to->request;
    struct bytes name = to->resource->resource_name;
    char text[12];
    char *end = NULL;
    long id = 0;

    if (!request_may(request, MAY_DESCRIBE_CONFIGS, ON_CLUSTER, BYTES_LITERAL("kafka-cluster")))
        return ERR_CLUSTER_AUTHORIZATION_FAILED;
    if (name.size == 0)
        return add_dynamic(to, request->image == NULL ? NULL
                                                      : image_configs(request->image, CONFIG_BROKER, BYTES_LITERAL("")))
                   ? ERR_OK
                   : ERR_NOMEM;
    if (name.size >= sizeof(text))
        return fail(to, ERR_INVALID_REQUEST, "a broker's id is a number, not ", name);
    memcpy(text, name.data, name.size);
    text[name.size] = '\0';
    id = strtol(text, &end, 10);
    if (*end != '\0')
        return fail(to, ERR_INVALID_REQUEST, "a broker's id is a number, not ", name);
    if (id != request->broker->node_id)
        return fail(to, ERR_INVALID_REQUEST, "this broker describes itself and the default \"\", not broker ", name);
    return add_all(to, is_broker_key, NULL) ? ERR_OK : ERR_NOMEM;
}

static enum err describe_group(struct description *to)
{
    struct request *request = to->request;
    struct bytes name = to->resource->resource_name;

    if (!request_may(request, MAY_DESCRIBE_CONFIGS, ON_GROUP, name))
        return ERR_GROUP_AUTHORIZATION_FAILED;
    if (name.size == 0)
        return fail(to, ERR_INVALID_REQUEST, "a group's name must not be empty", name);
    return add_all(to, is_group_key, request->image == NULL ? NULL : image_configs(request->image, CONFIG_GROUP, name))
               ? ERR_OK
               : ERR_NOMEM;
}

static enum err describe(struct description *to)
{
    switch (to->resource->resource_type) {
    case CONFIG_TOPIC:
        return describe_topic(to);
    case CONFIG_BROKER:
        return describe_broker(to);
    case CONFIG_GROUP:
        return describe_group(to);
    case BROKER_LOGGER:
        return fail(to, ERR_INVALID_REQUEST, "log levels cannot be described yet", (struct bytes){0});
    default:
        return fail(to, ERR_INVALID_REQUEST, "unknown resource type of ", to->resource->resource_name);
    }
}

void handle_describe_configs(struct request *request, void *body)
{
    const struct describe_configs_request *in = body;
    struct describe_configs_response response;

    describe_configs_response_init(&response);
    response.results = request_array(request, in->resources_count, sizeof(*response.results));
    if (response.results == NULL)
        goto no_memory;
    for (uint32_t i = 0; i < in->resources_count; i++) {
        struct description to = {request, in, &in->resources[i], &response.results[i]};
        enum err err = ERR_OK;

        describe_configs_result_init(to.out);
        to.out->error_message = (struct bytes){0};
        to.out->resource_type = in->resources[i].resource_type;
        to.out->resource_name = in->resources[i].resource_name;
        err = describe(&to);
        if (err == ERR_NOMEM)
            goto no_memory;
        to.out->error_code = err_wire(err);
        if (err != ERR_OK && to.out->error_message.data == NULL)
            to.out->error_message = bytes_of_text(err_text(err));
    }
    response.results_count = in->resources_count;
    request_reply(request, &response);
    return;

no_memory:
    request_close(request, "no memory for the reply");
}
