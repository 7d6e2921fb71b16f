#include "broker/broker.h"

#include <stdio.h>

#include "base/assert.h"
#include "base/mem.h"
#include "broker/broker_internal.h"
#include "broker/client.h"
#include "broker/config_rules.h"
#include "broker/dir_recovery.h"
#include "broker/handlers.h"
#include "net/connection_limits.h"
#include "partition/partition_limits.h"

/* What this build can do; levels are finalised by the controller. */
const struct image_feature_range broker_features[] = {
    {{(const uint8_t *)"metadata.version", 16}, METADATA_VERSION_OLDEST, METADATA_VERSION_NEWEST},
    {{(const uint8_t *)"kraft.version", 13}, 0, 1},
    {{(const uint8_t *)"group.version", 13}, 0, GROUP_VERSION_NEWEST},
};
const uint32_t broker_feature_count = sizeof(broker_features) / sizeof(broker_features[0]);

/* ---- connections ---- */

static void on_request(void *context, struct connection *connection, struct exchange *exchange)
{
    request_begin(context, connection, exchange);
}

static void on_opened(void *context, struct connection *connection)
{
    (void)context;
    connection_set_user(connection, mem_calloc(1, sizeof(struct client)));
}

static bool on_overlaps(void *context, struct connection *connection, struct bytes frame)
{
    (void)context;
    return request_overlaps(connection, frame);
}

static void on_abandoned(void *context, struct exchange *exchange)
{
    struct request *request = exchange->user;

    (void)context;
    if (request != NULL)
        request_abandon(request);
}

static void on_freed(void *context, struct connection *connection)
{
    (void)context;
    mem_free(connection_user(connection));
}

/* A net_accept_fn. */
static void accepted(void *context, struct net_stream *stream)
{
    struct broker_listener *of = context;

    shard_accepted(&of->broker->shards[stream->loop->index], &of->listener, stream);
}

/* ---- log directories ---- */

/* Sole voter: no voters named, or this node alone. */
static bool is_sole_voter(const struct broker *broker, bool *is_static)
{
    struct bytes rest = bytes_of_text(config_text(broker->config, CONFIG_CONTROLLER_QUORUM_VOTERS));
    struct bytes item;
    uint32_t count = 0;
    bool own = false;

    while (config_list_next(&rest, &item)) {
        char text[16];
        int size = snprintf(text, sizeof(text), "%d@", broker->node_id);

        count++;
        own |= size > 0 && item.size > (size_t)size && memcmp(item.data, text, (size_t)size) == 0;
    }
    *is_static = count > 0;
    return count == 0 || (count == 1 && own);
}

static enum err format(struct broker *broker, char message[BROKER_MESSAGE_CHARS])
{
    struct log_dir *dirs[BROKER_LOG_DIRS_MAX];
    struct uuid ids[BROKER_LOG_DIRS_MAX];
    struct format_options options = {
        .fs = broker->env.fs,
        .clock = broker->env.clock,
        .rng = broker->env.rng,
        .dirs = dirs,
        .dir_count = broker->dir_count,
        .metadata_dir = broker->metadata_dir,
        .node_id = broker->node_id,
        .voter_endpoint = broker->voter_endpoint,
    };
    struct format_result result = {.directory_ids = ids};
    char why[FORMAT_MESSAGE_BYTES_MAX] = "";
    enum err err = ERR_OK;

    options.may_format = is_sole_voter(broker, &options.static_voters);
    for (uint32_t i = 0; i < broker->dir_count; i++)
        dirs[i] = broker->dirs[i].dir;
    err = format_dirs(&options, &result, why);
    if (err != ERR_OK) {
        (void)snprintf(message, BROKER_MESSAGE_CHARS, "%.*s", BROKER_MESSAGE_CHARS - 1,
                       why[0] != '\0' ? why : err_text(err));
        return err;
    }
    for (uint32_t i = 0; i < broker->dir_count; i++)
        broker->dirs[i].id = ids[i];
    memcpy(broker->cluster_id, result.cluster_id, sizeof(broker->cluster_id));
    if (result.formatted)
        log_info(&broker->log, "log directories formatted cluster=%s", broker->cluster_id);
    return ERR_OK;
}

static enum err list_dirs(struct broker *broker, char message[BROKER_MESSAGE_CHARS])
{
    enum err made = ERR_OK;

    for (uint32_t i = 0; i < broker->dir_count; i++) {
        struct broker_dir *dir = &broker->dirs[i];
        enum err err = log_dir_list(dir->dir, &dir->list);

        if (err == ERR_OK)
            err = broker_note_stored(broker, i);
        if (err == ERR_OK)
            err = log_dir_take_clean_mark(dir->dir, &dir->clean, &dir->clean_epoch);
        if (err != ERR_OK)
            return broker_dir_complain(message, err, dir->path, "");
        err = dir_recovery_begin(broker, i, message);
        if (err != ERR_OK)
            return err;
    }
    made = dir_recovery_make_journals(broker);
    return made == ERR_OK ? broker_make_sync_groups(broker, message) : made;
}

/* ---- listeners ---- */

static void fill_endpoint(const struct listener *listener, struct image_endpoint *endpoint)
{
    /* A wildcard is told by each connection; what is registered must be something: this machine, for this machine. */
    const char *host = listener->advertised.host[0] != '\0' ? listener->advertised.host : "localhost";

    *endpoint = (struct image_endpoint){
        .name = bytes_of_text(listener->name),
        .host = bytes_of_text(host),
        .port = listener->advertised.port,
        .security_protocol = (int16_t)listener->protocol,
    };
}

static enum err check_advertised(const struct broker *broker, char message[BROKER_MESSAGE_CHARS])
{
    bool is_static = false;

    for (uint32_t i = 0; i < broker->listeners.count; i++) {
        const struct listener *listener = &broker->listeners.entries[i];

        if (listener->advertised.host[0] != '\0' || is_sole_voter(broker, &is_static))
            continue;
        (void)snprintf(message, BROKER_MESSAGE_CHARS,
                       "listener %s is bound to every address: advertised.listeners must say which one others use",
                       listener->name);
        return ERR_USAGE;
    }
    return ERR_OK;
}

static enum err listen_on(struct broker *broker, uint32_t i, char message[BROKER_MESSAGE_CHARS])
{
    struct listener *listener = &broker->listeners.entries[i];
    struct broker_listener *of = &broker->connection_listeners[i];
    struct net_address bound;
    uint32_t first = listener->is_controller ? broker->env.reactor_count : 0;
    uint32_t count = listener->is_controller ? 1 : broker->env.reactor_count;
    struct loop *loops[BROKER_REACTORS_MAX];
    enum err err = ERR_OK;

    of->broker = broker;
    of->listener = (struct connection_listener){
        .loops = broker->connections,
        .loop_count = broker->shard_count,
        .index = i,
        .name = listener->name,
        .request_bytes_max = (size_t)config_int(broker->config, CONFIG_SOCKET_REQUEST_MAX_BYTES),
        .idle_ms_max = config_long(broker->config, CONFIG_CONNECTIONS_MAX_IDLE_MS),
        .reserve = listener->is_controller,
    };
    for (uint32_t j = 0; j < count; j++)
        loops[j] = broker->shards[first + j].loop;
    err = net_listen(broker->env.net, &listener->bind, loops, count, accepted, of, &broker->bound[i], &bound);
    if (err != ERR_OK) {
        const char *host = listener->bind.host[0] == '\0' ? "*" : listener->bind.host;

        (void)snprintf(message, BROKER_MESSAGE_CHARS, "listener %s cannot listen on %s port %u: %s", listener->name,
                       host, listener->bind.port,
                       err == ERR_BUSY        ? "the address is in use by another process"
                       : err == ERR_NOT_FOUND ? "the host is no address of this machine"
                                              : err_text(err));
        return err;
    }
    /* Port 0: the one that was chosen is what everybody is told. */
    listener->bind.port = bound.port;
    if (!listener->advertised_is_set || listener->advertised.port == 0)
        listener->advertised.port = bound.port;
    return ERR_OK;
}

static enum err open_listeners(struct broker *broker, char message[BROKER_MESSAGE_CHARS])
{
    enum err err = check_advertised(broker, message);

    for (uint32_t i = 0; i < broker->listeners.count && err == ERR_OK; i++)
        err = listen_on(broker, i, message);
    for (uint32_t i = 0; i < broker->listeners.count && err == ERR_OK; i++) {
        fill_endpoint(&broker->listeners.entries[i], &broker->endpoints[i]);
        if (broker->listeners.entries[i].is_controller && broker->voter_endpoint.port == 0)
            broker->voter_endpoint = broker->endpoints[i];
    }
    return err;
}

static enum err make_connections(struct broker *broker)
{
    broker->connections = mem_calloc(broker->shard_count, sizeof(struct connections *));
    if (broker->connections == NULL)
        return ERR_NOMEM;
    for (uint32_t i = 0; i < broker->shard_count; i++) {
        struct connection_handler handler = {
            .context = &broker->shards[i],
            .opened = on_opened,
            .overlaps = on_overlaps,
            .execute = on_request,
            .abandoned = on_abandoned,
            .freed = on_freed,
        };
        enum err err = connections_new(broker->shards[i].loop, &handler, &broker->budget, broker->connection_limits,
                                       &broker->log, &broker->connections[i]);

        if (err != ERR_OK)
            return err;
        broker->shards[i].connections = broker->connections[i];
    }
    return ERR_OK;
}

/* ---- metadata ---- */

void broker_fail(struct broker *broker, const char *message)
{
    log_error(&broker->log, "%s", message);
    if (broker->env.failed != NULL)
        broker->env.failed(broker->env.context, message);
}

static void metadata_failed(void *context, enum err err)
{
    struct broker *broker = context;
    char line[BROKER_MESSAGE_CHARS];

    (void)snprintf(line, sizeof(line), "the metadata log in %s has failed: %s", broker->dirs[broker->metadata_dir].path,
                   err_text(err));
    if (!atomic_exchange(&broker->dirs[broker->metadata_dir].failed, true))
        dir_recovery_failed(&broker->shards[broker->env.reactor_count], broker->metadata_dir);
    broker_fail(broker, line);
}

static enum err make_metadata(struct broker *broker)
{
    const struct config *config = broker->config;
    struct metadata_node_options options = {
        .fs = broker->env.fs,
        .clock = broker->env.clock,
        .rng = broker->env.rng,
        .log = &broker->log,
        .loop = broker->env.controller,
        .dir = broker->dirs[broker->metadata_dir].path,
        .space = &broker->dirs[broker->metadata_dir].space,
        .directory_id = broker->dirs[broker->metadata_dir].id,
        .controller =
            {
                .node_id = broker->node_id,
                .cluster_id = broker->cluster_id,
                .partitions_default = config_int(config, CONFIG_NUM_PARTITIONS),
                .replication_factor_default = (int16_t)config_int(config, CONFIG_DEFAULT_REPLICATION_FACTOR),
                .delete_topics = config_bool(config, CONFIG_DELETE_TOPIC_ENABLE),
                .session_timeout_ms = config_int(config, CONFIG_BROKER_SESSION_TIMEOUT_MS),
                .features = broker_features,
                .feature_count = broker_feature_count,
            },
        .voter_endpoint = broker->voter_endpoint,
        .failed = metadata_failed,
        .context = broker,
        .idle_interval_ms = config_int(config, CONFIG_METADATA_MAX_IDLE_INTERVAL_MS),
        .snapshot_bytes = (uint64_t)config_long(config, CONFIG_METADATA_LOG_MAX_RECORD_BYTES_BETWEEN_SNAPSHOTS),
        .snapshot_interval_ms = config_long(config, CONFIG_METADATA_LOG_MAX_SNAPSHOT_INTERVAL_MS),
        .segment_bytes = (uint64_t)config_long(config, CONFIG_METADATA_LOG_SEGMENT_BYTES),
    };

    config_rules_init(&options.controller.rules, config);
    broker->metadata = metadata_node_new(&options);
    if (broker->metadata == NULL)
        return ERR_NOMEM;
    for (uint32_t i = 0; i < broker->shard_count; i++)
        metadata_node_subscribe(broker->metadata, &broker->shards[i].listener);
    return ERR_OK;
}

static enum err make_shards(struct broker *broker)
{
    uint32_t count = broker->env.reactor_count + 2;

    broker->shards = mem_calloc(count, sizeof(*broker->shards));
    if (broker->shards == NULL)
        return ERR_NOMEM;
    for (uint32_t i = 0; i < broker->dir_count; i++) {
        enum err err = dir_dirty_init(&broker->dirs[i].dirty, DIR_DIRTY_BYTES_MAX, broker->env.reactors,
                                      broker->env.reactor_count);

        if (err != ERR_OK)
            return err;
    }
    for (uint32_t i = 0; i < count; i++) {
        struct loop *loop = i < broker->env.reactor_count    ? broker->env.reactors[i]
                            : i == broker->env.reactor_count ? broker->env.controller
                                                             : broker->env.aside;
        enum err err = shard_init(&broker->shards[i], broker, loop, i);

        assert(loop->index == i);
        broker->shard_count = i + 1;
        if (err != ERR_OK)
            return err;
    }
    return ERR_OK;
}

static enum err make_limits(struct broker *broker, char message[BROKER_MESSAGE_CHARS])
{
    const struct config *config = broker->config;
    struct connection_limits_config limits = {
        .connections_max = config_int(config, CONFIG_MAX_CONNECTIONS),
        .per_address_max = config_int(config, CONFIG_MAX_CONNECTIONS_PER_IP),
        .per_address_overrides = config_text(config, CONFIG_MAX_CONNECTIONS_PER_IP_OVERRIDES),
        .creations_per_second_max = config_int(config, CONFIG_MAX_CONNECTION_CREATION_RATE),
        .seed = rng_u64(broker->env.rng),
    };
    enum err err = connection_limits_new(&limits, &broker->connection_limits);

    if (err == ERR_USAGE)
        (void)snprintf(
            message, BROKER_MESSAGE_CHARS,
            "max.connections.per.ip.overrides=%s is not accepted: numeric addresses with a count each, as in "
            "10.0.0.1:100,::1:20",
            limits.per_address_overrides);
    return err;
}

static void report_to_message(void *context, bool fatal, const char *line)
{
    if (fatal)
        (void)snprintf(context, BROKER_MESSAGE_CHARS, "%s", line);
}

static enum err make_all(struct broker *broker, char message[BROKER_MESSAGE_CHARS])
{
    struct config_report report = {report_to_message, message};
    const struct config *config = broker->config;
    uint64_t memory = broker->env.memory_bytes_max;
    enum err err = listeners_parse(config, &broker->listeners, &report);

    if (err == ERR_OK)
        err = broker_open_dirs(broker, message);
    if (err == ERR_OK)
        err = space_watch_open(broker);
    if (err == ERR_OK)
        err = broker_metrics_new(&broker->metrics);
    if (err == ERR_OK)
        err = make_shards(broker);
    if (err == ERR_OK)
        err = make_limits(broker, message);
    budget_init(&broker->budget, memory, BROKER_MEMORY_RESERVE_BYTES, memory - BROKER_MEMORY_RESERVE_BYTES);
    if (err == ERR_OK)
        err = make_connections(broker);
    if (err == ERR_OK)
        err = open_listeners(broker, message);
    if (err == ERR_OK)
        err = format(broker, message);
    if (err == ERR_OK)
        err = list_dirs(broker, message);
    if (err == ERR_OK)
        err = make_metadata(broker);
    return err;
}

enum err broker_new(const struct broker_env *env, const struct config *config, struct broker **out,
                    char message[BROKER_MESSAGE_CHARS])
{
    struct broker *broker = mem_calloc(1, sizeof(*broker));
    enum err err = ERR_NOMEM;

    message[0] = '\0';
    if (broker == NULL)
        goto out;
    assert(env->reactor_count > 0 && env->reactor_count < BROKER_REACTORS_MAX);
    broker->env = *env;
    if (broker->env.memory_bytes_max < (uint64_t)2 * BROKER_MEMORY_RESERVE_BYTES)
        broker->env.memory_bytes_max =
            env->memory_bytes_max == 0 ? BROKER_MEMORY_BYTES_DEFAULT : (uint64_t)2 * BROKER_MEMORY_RESERVE_BYTES;
    if (env->sync_all_partitions == 0)
        broker->env.sync_all_partitions = SYNC_GROUP_LOGS_MIN;
    if (env->descriptors_max == 0)
        broker->env.descriptors_max = BROKER_DESCRIPTORS_DEFAULT;
    broker->config = config;
    atomic_init(&broker->http_port, HTTP_PORT_UNTOLD);
    broker->node_id = config_is_set(config, CONFIG_NODE_ID) ? config_int(config, CONFIG_NODE_ID)
                                                            : config_int(config, CONFIG_BROKER_ID);
    broker->log = (struct log){.sink = env->log_sink,
                               .clock = env->clock,
                               .node_id = broker->node_id,
                               .room = "broker",
                               .level = (int)env->log_level};
    broker->incarnation = uuid_random(env->rng);
    arena_init(&broker->sequence_arena, BROKER_SEQUENCE_BYTES_MAX);
    arena_init(&broker->offline.arena, BROKER_SEQUENCE_BYTES_MAX);
    map_init(&broker->stored, rng_u64(env->rng), BROKER_STORED_MAX);
    err = make_all(broker, message);
    if (err == ERR_OK) {
        *out = broker;
        broker = NULL;
    }
out:
    if (err != ERR_OK && message[0] == '\0')
        (void)snprintf(message, BROKER_MESSAGE_CHARS, "%s", err_text(err));
    broker_free(broker);
    return err;
}

void broker_free(struct broker *broker)
{
    if (broker == NULL)
        return;
    for (uint32_t i = 0; i < broker->listeners.count; i++)
        if (broker->bound[i] != NULL)
            net_unlisten(broker->env.net, broker->bound[i]);
    metadata_node_free(broker->metadata);
    for (uint32_t i = 0; i < broker->shard_count; i++)
        shard_deinit(&broker->shards[i]);
    mem_free(broker->shards);
    broker_metrics_free(broker->metrics);
    mem_free(broker->connections);
    connection_limits_free(broker->connection_limits);
    broker_forget_stored(broker);
    space_watch_close(broker);
    dir_recovery_free(broker);
    for (uint32_t i = 0; i < broker->dir_count; i++) {
        dir_dirty_deinit(&broker->dirs[i].dirty);
        if (broker->dirs[i].dir != NULL)
            log_dir_close(broker->dirs[i].dir);
    }
    partition_notes_free(broker->checkpoints.notes);
    partition_notes_free(broker->kept);
    mem_free(broker->dirs_text);
    arena_deinit(&broker->sequence_arena);
    arena_deinit(&broker->offline.arena);
    mem_free(broker);
}

int32_t broker_node_id(const struct broker *broker)
{
    return broker->node_id;
}

const char *broker_cluster_id(const struct broker *broker)
{
    return broker->cluster_id;
}

const struct listeners *broker_listeners(const struct broker *broker)
{
    return &broker->listeners;
}

void broker_tell_http_port(struct broker *broker, uint16_t port)
{
    atomic_store(&broker->http_port, port);
}
