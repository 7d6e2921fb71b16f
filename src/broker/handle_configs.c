/* DescribeConfigs: topics and brokers, each value with where it comes from and what would stand in its place. */
#include <stdlib.h>

#include "base/assert.h"
#include "base/list.h"
#include "broker/broker_internal.h"
#include "broker/handlers.h"
#include "broker/topic_config.h"
#include "protocol/gen/describe_configs.h"

enum { BROKER_LOGGER = 8 }; /* resource type beside enum config_resource_type */

/* One resource of the reply as it is filled. */
struct description {
    struct request *request;
    const struct describe_configs_request *in;
    const struct describe_configs_resource *resource;
    struct describe_configs_result *out;
};

static bool is_asked(const struct describe_configs_resource *resource, struct bytes name)
{
    if (resource->configuration_keys_count == 0)
        return true; /* null, and to Apache Kafka also an empty list, asks for all */
    for (uint32_t i = 0; i < resource->configuration_keys_count; i++)
        if (bytes_equal(resource->configuration_keys[i], name))
            return true;
    return false;
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

static bool add_synonyms(struct description *to, const struct config_places *places, bool is_sensitive,
                         struct describe_configs_resource_result *out)
{
    out->synonyms = request_array(to->request, places->count, sizeof(*out->synonyms));
    if (out->synonyms == NULL)
        return false;
    for (uint32_t i = 0; i < places->count; i++) {
        describe_configs_synonym_init(&out->synonyms[i]);
        out->synonyms[i].name = bytes_of_text(places->entries[i].name);
        out->synonyms[i].value = is_sensitive ? (struct bytes){0} : places->entries[i].value;
        out->synonyms[i].source = (int8_t)places->entries[i].origin;
    }
    out->synonyms_count = places->count;
    return true;
}

static struct describe_configs_resource_result *add(struct description *to, struct bytes name, struct bytes value,
                                                    bool is_sensitive)
{
    struct describe_configs_resource_result *out = &to->out->configs[to->out->configs_count++];

    describe_configs_resource_result_init(out);
    out->name = name;
    out->value = is_sensitive ? (struct bytes){0} : value;
    out->is_sensitive = is_sensitive;
    out->documentation = (struct bytes){0};
    return out;
}

static bool add_key(struct description *to, enum config_id id, struct bytes value, const struct config_places *places)
{
    const struct config_key *key = config_key(id);
    bool is_sensitive = key->type == CONFIG_TYPE_PASSWORD;
    struct describe_configs_resource_result *out = add(to, bytes_of_text(key->name), value, is_sensitive);

    out->config_source = (int8_t)(places->count > 0 ? places->entries[0].origin : CONFIG_ORIGIN_DEFAULT);
    out->read_only = key->scope == CONFIG_SCOPE_STATIC;
    out->config_type = (int8_t)key->type;
    if (to->in->include_documentation) {
        struct config_why accepted;

        config_accepted(id, &accepted);
        out->documentation =
            arena_printf(&to->request->arena, "%s%s%s", accepted.text,
                         key->standing.reason[0] == '\0' ? "" : "; without effect: ", key->standing.reason);
        if (out->documentation.data == NULL)
            return false;
    }
    return !to->in->include_synonyms || add_synonyms(to, places, is_sensitive, out);
}

static bool is_listed(const struct description *to, enum config_id id, const struct config_places *places)
{
    const struct config_key *key = config_key(id);

    if (!is_asked(to->resource, bytes_of_text(key->name)))
        return false;
    if (key->standing.status == CONFIG_INTERNAL || config_is_on_line_only(id))
        return places->count > 0 && places->entries[0].origin != CONFIG_ORIGIN_DEFAULT;
    return true;
}

/* ottla.http.listener is asked for by who wants to go there: with the port that 0 has become, and empty where the start
 * went on without it, since another node's pages may be there. False: no memory. */
static bool find_http_listener(struct request *request, struct bytes *value)
{
    int32_t port = atomic_load(&request->broker->http_port);
    const uint8_t *colon = memrchr(value->data, ':', value->size);

    if (port == HTTP_PORT_UNTOLD)
        return true;
    if (port == 0) {
        *value = BYTES_LITERAL("");
        return true;
    }
    assert(colon != NULL); /* it was bound */
    *value = arena_printf(&request->arena, "%.*s:%d", (int)(colon - value->data), (const char *)value->data, port);
    return value->data != NULL;
}

/* All keys that `belongs` lets through, with own entries of the resource. */
static bool add_all(struct description *to, bool (*belongs)(const struct config_key *key),
                    const struct image_configs *own, uint32_t room)
{
    struct request *request = to->request;
    const struct config *config = request->broker->config;
    int32_t node_id = request->broker->node_id;

    to->out->configs = request_array(request, (size_t)CONFIG_KEY_COUNT + room, sizeof(*to->out->configs));
    if (to->out->configs == NULL)
        return false;
    for (enum config_id id = 0; id < CONFIG_KEY_COUNT; id++) {
        struct config_places places;
        char text[CONFIG_NUMBER_CHARS];
        struct bytes value;

        if (!belongs(config_key(id)))
            continue;
        config_places_find(config, request->image, node_id, id, own, &places);
        if (!is_listed(to, id, &places))
            continue;
        value = config_effective(config, request->image, node_id, id, own, text);
        if ((value.data == (const uint8_t *)text && arena_copy(&request->arena, value, &value) != ERR_OK) ||
            (id == CONFIG_OTTLA_HTTP_LISTENER && !find_http_listener(request, &value)) ||
            !add_key(to, id, value, &places))
            return false;
    }
    return true;
}

static uint32_t entry_count(const struct image_configs *entries)
{
    return entries == NULL ? 0 : entries->count;
}

static const struct image_configs *broker_entries(const struct request *request, struct bytes name)
{
    return request->image == NULL ? NULL : image_configs(request->image, CONFIG_BROKER, name);
}

static bool has_entry(const struct image_configs *entries, struct bytes name)
{
    for (uint32_t i = 0; i < entry_count(entries); i++)
        if (bytes_equal(entries->entries[i].name, name))
            return true;
    return false;
}

/* Dynamic entries of brokers under a name that is no key of ours: kept, as in Apache Kafka, and since nobody knows what
 * they are, their values are not shown. */
static bool add_unknown(struct description *to, const struct image_configs *own, const struct image_configs *all,
                        uint32_t i)
{
    const struct image_config *entry = own == NULL ? &all->entries[i] : &own->entries[i];
    struct config_places places = {0};
    struct describe_configs_resource_result *out = NULL;

    if (config_find_broker_key(entry->name) != CONFIG_NONE || !is_asked(to->resource, entry->name))
        return true;
    out = add(to, entry->name, entry->value, true);
    out->read_only = true;
    if (own != NULL)
        places.entries[places.count++] =
            (struct config_place){.name = (const char *)entry->name.data, .origin = CONFIG_ORIGIN_DYNAMIC_BROKER};
    if (own == NULL || has_entry(all, entry->name))
        places.entries[places.count++] = (struct config_place){.name = (const char *)entry->name.data,
                                                               .origin = CONFIG_ORIGIN_DYNAMIC_DEFAULT_BROKER};
    out->config_source = (int8_t)places.entries[0].origin;
    return !to->in->include_synonyms || add_synonyms(to, &places, true, out);
}

/* The broker "": the cluster's default. Nothing but what is set there is shown for it. */
static bool add_default(struct description *to)
{
    const struct image_configs *entries = broker_entries(to->request, BYTES_LITERAL(""));

    to->out->configs = request_array(to->request, entry_count(entries), sizeof(*to->out->configs));
    if (to->out->configs == NULL)
        return false;
    for (uint32_t i = 0; i < entry_count(entries); i++) {
        const struct image_config *entry = &entries->entries[i];
        enum config_id id = config_find_broker_key(entry->name);
        struct config_places places = {.count = 1};

        if (id == CONFIG_NONE) {
            if (!add_unknown(to, NULL, entries, i))
                return false;
            continue;
        }
        if (!is_asked(to->resource, entry->name))
            continue;
        places.entries[0] =
            (struct config_place){config_key(id)->name, entry->value, CONFIG_ORIGIN_DYNAMIC_DEFAULT_BROKER};
        if (!add_key(to, id, entry->value, &places))
            return false;
    }
    return true;
}

static bool add_node(struct description *to)
{
    const struct image_configs *own = broker_entries(to->request, to->resource->resource_name);
    const struct image_configs *all = broker_entries(to->request, BYTES_LITERAL(""));

    if (!add_all(to, is_broker_key, NULL, entry_count(own) + entry_count(all)))
        return false;
    for (uint32_t i = 0; i < entry_count(own); i++)
        if (!add_unknown(to, own, all, i))
            return false;
    for (uint32_t i = 0; i < entry_count(all); i++)
        if (!has_entry(own, all->entries[i].name) && !add_unknown(to, NULL, all, i))
            return false;
    return true;
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
    return add_all(to, is_topic_key, image_configs(request->image, CONFIG_TOPIC, name), 0) ? ERR_OK : ERR_NOMEM;
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
        return add_default(to) ? ERR_OK : ERR_NOMEM;
    if (name.size >= sizeof(text))
        return fail(to, ERR_INVALID_REQUEST, "a broker's id is a number, not ", name);
    memcpy(text, name.data, name.size);
    text[name.size] = '\0';
    id = strtol(text, &end, 10);
    if (*end != '\0')
        return fail(to, ERR_INVALID_REQUEST, "a broker's id is a number, not ", name);
    if (id != request->broker->node_id)
        return fail(to, ERR_INVALID_REQUEST, "this broker describes itself and the default \"\", not broker ", name);
    return add_node(to) ? ERR_OK : ERR_NOMEM;
}

static enum err describe_group(struct description *to)
{
    struct request *request = to->request;
    struct bytes name = to->resource->resource_name;

    if (!request_may(request, MAY_DESCRIBE_CONFIGS, ON_GROUP, name))
        return ERR_GROUP_AUTHORIZATION_FAILED;
    if (name.size == 0)
        return fail(to, ERR_INVALID_REQUEST, "a group's name must not be empty", name);
    return add_all(to, is_group_key, request->image == NULL ? NULL : image_configs(request->image, CONFIG_GROUP, name),
                   0)
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

/* A request for many resources, some of them in each turn: a topic takes some 0.2 ms, and a client may ask for all. */
struct describing {
    struct request *request;
    const struct describe_configs_request *in;
    struct describe_configs_response response;
    uint32_t next;
    struct loop_task task;
};

static enum err describe_one(struct describing *describing, uint32_t i)
{
    const struct describe_configs_resource *resource = &describing->in->resources[i];
    struct description to = {describing->request, describing->in, resource, &describing->response.results[i]};
    enum err err = ERR_OK;

    describe_configs_result_init(to.out);
    to.out->error_message = BYTES_LITERAL(""); /* without an error, too: Apache Kafka's is never null here */
    to.out->resource_type = resource->resource_type;
    to.out->resource_name = resource->resource_name;
    err = describe(&to);
    if (err == ERR_NOMEM)
        return err;
    to.out->error_code = err_wire(err);
    if (err != ERR_OK && to.out->error_message.size == 0)
        to.out->error_message = bytes_of_text(err_text(err));
    return ERR_OK;
}

static void describe_some(struct loop_task *task)
{
    struct describing *describing = LIST_ENTRY(task, struct describing, task);
    uint32_t count = describing->in->resources_count;
    uint32_t left = DESCRIBE_TURN_RESOURCES;

    for (; describing->next < count && left > 0; describing->next++, left--) {
        if (describe_one(describing, describing->next) != ERR_OK) {
            request_close(describing->request, "no memory for the reply");
            return;
        }
    }
    if (describing->next < count) {
        loop_post(describing->request->shard->loop, task);
        return;
    }
    describing->response.results_count = count;
    request_reply(describing->request, &describing->response);
}

void handle_describe_configs(struct request *request, void *body)
{
    struct describing *describing = request_array(request, 1, sizeof(*describing));

    if (describing == NULL) {
        request_close(request, "no memory for the reply");
        return;
    }
    describing->request = request;
    describing->in = body;
    describing->task.run = describe_some;
    describe_configs_response_init(&describing->response);
    describing->response.results =
        request_array(request, describing->in->resources_count, sizeof(struct describe_configs_result));
    if (describing->response.results == NULL)
        request_close(request, "no memory for the reply");
    else
        describe_some(&describing->task);
}
