#include "broker/config_rules.h"

#include "broker/config.h"
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

/* A value that stands, or is the broker's own. */
static int64_t group_number(const struct config *config, const struct image_config *entries, uint32_t count,
                            enum config_id id, enum config_id otherwise)
{
    struct bytes name = bytes_of_text(config_key(id)->name);

    for (uint32_t i = 0; i < count; i++)
        if (bytes_equal(entries[i].name, name))
            return number_of(entries, count, id);
    return config_int(config, otherwise);
}

static enum err check_between(const struct config *config, int64_t value, enum config_id id, enum config_id least,
                              enum config_id most, struct arena *arena, struct bytes *message)
{
    if (value < config_int(config, least))
        *message = arena_printf(arena, "%s must be greater than or equal to %s", config_key(id)->name,
                                config_key(least)->name);
    else if (value > config_int(config, most))
        *message =
            arena_printf(arena, "%s must be less than or equal to %s", config_key(id)->name, config_key(most)->name);
    else
        return ERR_OK;
    return ERR_INVALID_CONFIG;
}

/* As Apache Kafka holds them against the broker's bounds (GroupConfig). */
static enum err check_group(const struct config *config, const struct image_config *entries, uint32_t count,
                            struct arena *arena, struct bytes *message)
{
    int64_t session_ms = group_number(config, entries, count, CONFIG_OF_GROUP_CONSUMER_SESSION_TIMEOUT_MS,
                                      CONFIG_GROUP_CONSUMER_SESSION_TIMEOUT_MS);
    int64_t heartbeat_ms = group_number(config, entries, count, CONFIG_OF_GROUP_CONSUMER_HEARTBEAT_INTERVAL_MS,
                                        CONFIG_GROUP_CONSUMER_HEARTBEAT_INTERVAL_MS);
    int64_t assignment_ms = group_number(config, entries, count, CONFIG_OF_GROUP_CONSUMER_ASSIGNMENT_INTERVAL_MS,
                                         CONFIG_GROUP_CONSUMER_ASSIGNMENT_INTERVAL_MS);
    enum err err = check_between(config, session_ms, CONFIG_OF_GROUP_CONSUMER_SESSION_TIMEOUT_MS,
                                 CONFIG_GROUP_CONSUMER_MIN_SESSION_TIMEOUT_MS,
                                 CONFIG_GROUP_CONSUMER_MAX_SESSION_TIMEOUT_MS, arena, message);

    if (err == ERR_OK)
        err = check_between(config, heartbeat_ms, CONFIG_OF_GROUP_CONSUMER_HEARTBEAT_INTERVAL_MS,
                            CONFIG_GROUP_CONSUMER_MIN_HEARTBEAT_INTERVAL_MS,
                            CONFIG_GROUP_CONSUMER_MAX_HEARTBEAT_INTERVAL_MS, arena, message);
    if (err == ERR_OK)
        err = check_between(config, assignment_ms, CONFIG_OF_GROUP_CONSUMER_ASSIGNMENT_INTERVAL_MS,
                            CONFIG_GROUP_CONSUMER_MIN_ASSIGNMENT_INTERVAL_MS,
                            CONFIG_GROUP_CONSUMER_MAX_ASSIGNMENT_INTERVAL_MS, arena, message);
    if (err == ERR_OK && session_ms <= heartbeat_ms) {
        *message =
            arena_printf(arena, "consumer.session.timeout.ms must be greater than consumer.heartbeat.interval.ms");
        err = ERR_INVALID_CONFIG;
    }
    return err;
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
