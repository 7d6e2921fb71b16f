#include "broker/config_rules.h"

#include "broker/config.h"
#include "broker/config_groups.h"
#include "broker/config_table.h"
#include "net/connection_limits.h"

static enum config_id find_key(enum config_resource_type type, struct bytes name)
{
    switch (type) {
    case CONFIG_TOPIC:
        return config_find_topic_key(name);
    case CONFIG_GROUP:
        return config_find_group_key(name);
    case CONFIG_BROKER:
        return config_find_broker_key(name);
    case CONFIG_CLIENT_METRICS:
        break;
    }
    return CONFIG_NONE;
}

static const char *resource_phrase(enum config_resource_type type)
{
    switch (type) {
    case CONFIG_TOPIC:
        return "topic";
    case CONFIG_GROUP:
        return "group";
    case CONFIG_BROKER:
        return "broker";
    case CONFIG_CLIENT_METRICS:
        break;
    }
    return "client metrics";
}

static enum err check_value(enum config_id id, const struct image_config *entry, struct arena *arena,
                            struct bytes *message)
{
    struct config_value value;
    struct config_why why;

    if (config_check(id, entry->value, &value, &why) == ERR_OK)
        return ERR_OK;
    *message = arena_printf(arena, "Invalid value %.*s for configuration %.*s: %s is accepted",
                            config_key(id)->type == CONFIG_TYPE_PASSWORD ? 8 : (int)entry->value.size,
                            config_key(id)->type == CONFIG_TYPE_PASSWORD ? "[hidden]" : (const char *)entry->value.data,
                            BYTES_PRINTF(entry->name), why.text);
    return ERR_INVALID_CONFIG;
}

static enum err check_entry(enum config_resource_type type, const struct image_config *entry, struct arena *arena,
                            struct bytes *message)
{
    enum config_id id = find_key(type, entry->name);

    if (id == CONFIG_NONE) {
        *message =
            arena_printf(arena, "Unknown %s config name: %.*s", resource_phrase(type), BYTES_PRINTF(entry->name));
        return ERR_INVALID_CONFIG;
    }
    if (entry->value.data == NULL) {
        *message = arena_printf(arena, "Null value not supported for %s config: %.*s", resource_phrase(type),
                                BYTES_PRINTF(entry->name));
        return ERR_INVALID_CONFIG;
    }
    return check_value(id, entry, arena, message);
}

/* ---- topics ---- */

/* What the entries say, else the default. */
static int64_t number_of(const struct image_config *entries, uint32_t count, enum config_id id)
{
    struct config_value value;
    struct config_why why;

    for (uint32_t i = count; i > 0; i--)
        if (bytes_equal(entries[i - 1].name, bytes_of_text(config_key(id)->name)) &&
            config_check(id, entries[i - 1].value, &value, &why) == ERR_OK)
            return value.number;
    if (config_key(id)->value == NULL || config_check(id, bytes_of_text(config_key(id)->value), &value, &why) != ERR_OK)
        return 0;
    return value.number;
}

static enum err check_topic(const struct image_config *entries, uint32_t count, struct arena *arena,
                            struct bytes *message)
{
    /* KIP-354: what may be compacted no earlier than min must not have to be no later than a smaller max. */
    if (number_of(entries, count, CONFIG_TOPIC_MIN_COMPACTION_LAG_MS) >
        number_of(entries, count, CONFIG_TOPIC_MAX_COMPACTION_LAG_MS)) {
        *message = arena_printf(arena, "min.compaction.lag.ms is above max.compaction.lag.ms");
        return ERR_INVALID_CONFIG;
    }
    if (number_of(entries, count, CONFIG_TOPIC_REMOTE_STORAGE_ENABLE) != 0) {
        *message = arena_printf(arena, "remote.storage.enable=true is not accepted: there is no tiered storage");
        return ERR_INVALID_CONFIG;
    }
    return ERR_OK;
}

/* ---- brokers ---- */

static bool begins_with(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* Certificates and keys are replaced for one listener only: "listener.name.<name>.<key>". */
static bool is_of_listener(const struct config_key *key)
{
    return begins_with(key->name, "ssl.keystore.") || begins_with(key->name, "ssl.truststore.") ||
           strcmp(key->name, "ssl.key.password") == 0;
}

static enum err check_broker_entry(bool is_default, const struct image_config *entry, struct arena *arena,
                                   struct bytes *message)
{
    enum config_id id = config_find_broker_key(entry->name);
    const struct config_key *key = NULL;
    const char *why = NULL;

    if (id == CONFIG_NONE) /* somebody's plugin knows it, as far as Apache Kafka is concerned */
        return ERR_OK;
    key = config_key(id);
    if (key->scope == CONFIG_SCOPE_STATIC)
        why = "Cannot update these configs dynamically";
    else if (is_of_listener(key))
        why = "These security configs can be dynamically updated only per-listener using the listener prefix";
    else if (is_default && key->scope == CONFIG_SCOPE_PER_BROKER)
        why = "Cannot update these configs at default cluster level, broker id must be specified";
    else if (id == CONFIG_LISTENERS)
        why = "Listeners cannot be changed while the broker runs";
    if (why != NULL) {
        *message = arena_printf(arena, "%s: [%s]", why, key->name);
        return ERR_INVALID_REQUEST;
    }
    if (check_value(id, entry, arena, message) != ERR_OK)
        return ERR_INVALID_REQUEST;
    if (id == CONFIG_MAX_CONNECTIONS && bytes_equal(bytes_trim(entry->value), BYTES_LITERAL("0"))) {
        *message = arena_printf(arena, "Invalid max.connections 0"); /* nobody could take it back */
        return ERR_INVALID_REQUEST;
    }
    return ERR_OK;
}

static enum err check_overrides(const struct image_config *entry, struct arena *arena, struct bytes *message)
{
    struct bytes copy;
    enum err err = ERR_OK;

    if (config_find_broker_key(entry->name) != CONFIG_MAX_CONNECTIONS_PER_IP_OVERRIDES)
        return ERR_OK;
    copy = arena_printf(arena, "%.*s", BYTES_PRINTF(entry->value));
    if (copy.data == NULL)
        return ERR_NOMEM;
    err = connection_limits_check_overrides((const char *)copy.data);
    if (err != ERR_USAGE)
        return err;
    *message = arena_printf(arena,
                            "Invalid value %.*s for configuration max.connections.per.ip.overrides: numeric addresses "
                            "with a count each are accepted, as in 10.0.0.1:100,::1:20",
                            BYTES_PRINTF(entry->value));
    return ERR_INVALID_REQUEST;
}

static enum err check_broker(struct bytes resource, const struct image_config *entries, uint32_t count,
                             struct arena *arena, struct bytes *message)
{
    enum err err = ERR_OK;

    for (uint32_t i = 0; i < count && err == ERR_OK; i++) {
        err = check_broker_entry(resource.size == 0, &entries[i], arena, message);
        if (err == ERR_OK)
            err = check_overrides(&entries[i], arena, message);
    }
    return err;
}

/* ---- groups ---- */

static bool has_entry(const struct image_config *entries, uint32_t count, enum config_id id)
{
    for (uint32_t i = 0; i < count; i++)
        if (bytes_equal(entries[i].name, bytes_of_text(config_key(id)->name)))
            return true;
    return false;
}

static enum err check_bound(const struct config *config, const struct image_config *entries, uint32_t count,
                            const struct config_bound *bound, struct arena *arena, struct bytes *message)
{
    int64_t value = 0;

    if (!has_entry(entries, count, bound->of_group))
        return ERR_OK;
    value = number_of(entries, count, bound->of_group);
    if (bound->least != CONFIG_NONE && value < config_long(config, bound->least))
        *message = arena_printf(arena, "%s must be at least %s, which is %s", config_key(bound->of_group)->name,
                                config_key(bound->least)->name, config_text(config, bound->least));
    else if (bound->most != CONFIG_NONE && value > config_long(config, bound->most))
        *message = arena_printf(arena, "%s must be at most %s, which is %s", config_key(bound->of_group)->name,
                                config_key(bound->most)->name, config_text(config, bound->most));
    else
        return ERR_OK;
    return ERR_INVALID_CONFIG;
}

/* What the entries say, or the node does. */
static int64_t group_number(const struct config *config, const struct image_config *entries, uint32_t count,
                            enum config_id of_group, enum config_id of_node)
{
    return has_entry(entries, count, of_group) ? number_of(entries, count, of_group) : config_long(config, of_node);
}

static enum err check_session(const struct config *config, const struct image_config *entries, uint32_t count,
                              const struct config_session *session, struct arena *arena, struct bytes *message)
{
    if (group_number(config, entries, count, session->session_of_group, session->session_of_node) >
        group_number(config, entries, count, session->heartbeat_of_group, session->heartbeat_of_node))
        return ERR_OK;
    *message = arena_printf(arena, "%s must be greater than %s", config_key(session->session_of_group)->name,
                            config_key(session->heartbeat_of_group)->name);
    return ERR_INVALID_CONFIG;
}

static enum err check_assignor(const struct config *config, const struct image_config *entries, uint32_t count,
                               struct arena *arena, struct bytes *message)
{
    const char *known = config_text(config, CONFIG_GROUP_STREAMS_ASSIGNORS);

    for (uint32_t i = 0; i < count; i++) {
        if (!bytes_equal(entries[i].name, bytes_of_text(config_key(CONFIG_OF_GROUP_STREAMS_ASSIGNOR_NAME)->name)) ||
            config_list_has(bytes_of_text(known), entries[i].value))
            continue;
        *message = arena_printf(arena, "streams.assignor.name %.*s is not accepted: one of %s is",
                                BYTES_PRINTF(entries[i].value), known);
        return ERR_INVALID_CONFIG;
    }
    return ERR_OK;
}

/* As Apache Kafka holds them against the broker's bounds (GroupConfig). */
static enum err check_group(const struct config *config, const struct image_config *entries, uint32_t count,
                            struct arena *arena, struct bytes *message)
{
    enum err err = ERR_OK;

    for (size_t i = 0; err == ERR_OK && config_groups_bound(i) != NULL; i++)
        err = check_bound(config, entries, count, config_groups_bound(i), arena, message);
    for (size_t i = 0; err == ERR_OK && config_groups_session(i) != NULL; i++)
        err = check_session(config, entries, count, config_groups_session(i), arena, message);
    return err == ERR_OK ? check_assignor(config, entries, count, arena, message) : err;
}

/* ---- what the controller asks ---- */

static enum err check(void *context, enum config_resource_type type, struct bytes resource,
                      const struct image_config *entries, uint32_t count, struct arena *arena, struct bytes *message)
{
    if (type == CONFIG_BROKER)
        return check_broker(resource, entries, count, arena, message);
    for (uint32_t i = 0; i < count; i++) {
        enum err err = check_entry(type, &entries[i], arena, message);

        if (err != ERR_OK)
            return err;
    }
    if (type == CONFIG_GROUP)
        return check_group(context, entries, count, arena, message);
    return type == CONFIG_TOPIC ? check_topic(entries, count, arena, message) : ERR_OK;
}

static enum err list_default(void *context, enum config_resource_type type, struct bytes name, bool *is_list,
                             struct bytes *value)
{
    enum config_id id = find_key(type, name);

    (void)context;
    if (id == CONFIG_NONE)
        return ERR_INVALID_CONFIG;
    *is_list = config_key(id)->type == CONFIG_TYPE_LIST;
    *value = bytes_of_text(config_key(id)->value);
    return ERR_OK;
}

void config_rules_init(struct config_rules *rules, const struct config *config)
{
    *rules = (struct config_rules){.context = (void *)(uintptr_t)config, .check = check, .list_default = list_default};
}
