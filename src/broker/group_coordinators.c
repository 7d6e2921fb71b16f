#include "broker/group_coordinators.h"

#include <strings.h>

#include "base/assert.h"
#include "base/mem.h"
#include "broker/broker_internal.h"
#include "broker/config_groups.h"
#include "broker/dynamic_config.h"
#include "broker/group_topics_image.h"
#include "broker/topic_config.h"

struct group_coordinator {
    struct shard *shard;
    struct state_log *log;
    struct list_node node;
};

/* --- what a group's state is (state_log.h) --- */

static enum err make(void *context, void **state)
{
    const struct group_coordinator *coordinator = context;
    struct shard *shard = coordinator->shard;
    struct groups_spec spec = {
        .settings = &shard->groups.settings,
        .histories = &shard->groups.histories,
        .log = &shard->broker->log,
        .seed = rng_u64(shard->broker->env.rng),
    };
    struct groups *groups = NULL;
    enum err err = groups_new(&spec, &groups);

    *state = groups;
    return err;
}

static void free_state(void *state)
{
    groups_free(state);
}

static enum err replay(void *state, int64_t producer_id, struct bytes key, struct bytes value)
{
    return groups_replay(state, producer_id, key, value);
}

static enum err replay_marker(void *state, int64_t producer_id, bool committed)
{
    return groups_replay_marker(state, producer_id, committed);
}

static void loaded(void *state, struct step *step)
{
    groups_loaded(state, step);
}

static void unload(void *state, struct step *step, enum err why)
{
    groups_unload(state, step, why);
}

static int64_t due_ns(const void *state)
{
    return groups_due_ns(state);
}

static void tick(void *state, struct step *step)
{
    groups_tick(state, step);
}

static const struct state_kind group_kind = {
    .name = "group",
    .make = make,
    .free = free_state,
    .replay = replay,
    .replay_marker = replay_marker,
    .loaded = loaded,
    .unload = unload,
    .due_ns = due_ns,
    .tick = tick,
};

/* --- settings --- */

static enum group_migration migration_of(const struct broker *broker)
{
    static const char *const words[] = {[MIGRATION_DISABLED] = "disabled",
                                        [MIGRATION_UPGRADE] = "upgrade",
                                        [MIGRATION_DOWNGRADE] = "downgrade",
                                        [MIGRATION_BIDIRECTIONAL] = "bidirectional"};
    const char *text = config_text(broker->config, CONFIG_GROUP_CONSUMER_MIGRATION_POLICY);
    enum group_migration policy = MIGRATION_DISABLED;

    while (policy < MIGRATION_BIDIRECTIONAL && strcasecmp(text, words[policy]) != 0)
        policy++;
    assert(strcasecmp(text, words[policy]) == 0); /* the start refuses other words (config_keys.def) */
    return policy;
}

/* Altered on line it is not held against its bounds, which then apply, as in Apache Kafka. */
static int32_t assignment_interval_ms(const struct shard *shard)
{
    const struct config *config = shard->broker->config;
    int64_t least = config_int(config, CONFIG_GROUP_CONSUMER_MIN_ASSIGNMENT_INTERVAL_MS);
    int64_t most = config_int(config, CONFIG_GROUP_CONSUMER_MAX_ASSIGNMENT_INTERVAL_MS);
    int64_t ms = dynamic_config_long(shard->broker, shard->image, CONFIG_GROUP_CONSUMER_ASSIGNMENT_INTERVAL_MS);

    return (int32_t)(ms < least ? least : ms > most ? most : ms);
}

void group_coordinators_configure(struct shard *shard)
{
    const struct broker *broker = shard->broker;
    const struct config *config = broker->config;
    struct group_settings *settings = &shard->groups.settings;
    struct bytes protocols = bytes_of_text(config_text(config, CONFIG_GROUP_COORDINATOR_REBALANCE_PROTOCOLS));

    *settings = (struct group_settings){
        .initial_rebalance_delay_ms = config_int(config, CONFIG_GROUP_INITIAL_REBALANCE_DELAY_MS),
        .session_timeout_ms_min = config_int(config, CONFIG_GROUP_MIN_SESSION_TIMEOUT_MS),
        .session_timeout_ms_max = config_int(config, CONFIG_GROUP_MAX_SESSION_TIMEOUT_MS),
        .size_max = config_int(config, CONFIG_GROUP_MAX_SIZE),
        .offsets_retention_ms = INT64_C(60000) * config_int(config, CONFIG_OFFSETS_RETENTION_MINUTES),
        .offsets_check_ms = config_long(config, CONFIG_OFFSETS_RETENTION_CHECK_INTERVAL_MS),
        .metadata_chars_max = config_int(config, CONFIG_OFFSET_METADATA_MAX_BYTES),
        .consumer_session_timeout_ms = config_int(config, CONFIG_GROUP_CONSUMER_SESSION_TIMEOUT_MS),
        .consumer_session_timeout_ms_min = config_int(config, CONFIG_GROUP_CONSUMER_MIN_SESSION_TIMEOUT_MS),
        .consumer_session_timeout_ms_max = config_int(config, CONFIG_GROUP_CONSUMER_MAX_SESSION_TIMEOUT_MS),
        .consumer_heartbeat_ms = config_int(config, CONFIG_GROUP_CONSUMER_HEARTBEAT_INTERVAL_MS),
        .consumer_heartbeat_ms_min = config_int(config, CONFIG_GROUP_CONSUMER_MIN_HEARTBEAT_INTERVAL_MS),
        .consumer_heartbeat_ms_max = config_int(config, CONFIG_GROUP_CONSUMER_MAX_HEARTBEAT_INTERVAL_MS),
        .consumer_size_max = config_int(config, CONFIG_GROUP_CONSUMER_MAX_SIZE),
        .consumer_assignment_interval_ms = assignment_interval_ms(shard),
        .migration = migration_of(broker),
        .regex_refresh_ms = config_int(config, CONFIG_GROUP_CONSUMER_REGEX_REFRESH_INTERVAL_MS),
    };
    if (settings->offsets_check_ms > GROUP_OFFSETS_CHECK_MS_MAX)
        settings->offsets_check_ms = GROUP_OFFSETS_CHECK_MS_MAX;
    /* config_groups_check has found them to be those that there are. */
    (void)config_groups_assignors(config, settings->consumer_assignors, &settings->consumer_assignor_count);
    settings->consumer_enabled = config_list_has(protocols, BYTES_LITERAL("consumer")) && shard->image != NULL &&
                                 image_feature(shard->image, BYTES_LITERAL("group.version")) > 0;
}

void group_coordinators_init(struct shard_groups *groups, struct shard *shard)
{
    const struct broker *broker = shard->broker;
    const struct config *config = broker->config;
    int32_t codec = config_int(config, CONFIG_OFFSETS_TOPIC_COMPRESSION_CODEC);

    *groups = (struct shard_groups){.shard = shard};
    list_init(&groups->coordinators);
    list_init(&groups->histories.entries);
    list_init(&groups->lists_waiting);
    group_topics_image_init(&groups->topics);
    groups->logs = (struct state_logs){
        .loop = shard->loop,
        .clock = broker->env.clock,
        .guard = &shard->clock_guard,
        .rng = broker->env.rng,
        .log = &shard->broker->log,
        .topics = &groups->topics,
        .settings = {.linger_ms = config_int(config, CONFIG_GROUP_COORDINATOR_APPEND_LINGER_MS),
                     .commit_timeout_ms = config_int(config, CONFIG_OFFSETS_COMMIT_TIMEOUT_MS),
                     .load_bytes = config_int(config, CONFIG_OFFSETS_LOAD_BUFFER_SIZE),
                     .codec = codec >= 0 && codec < CODEC_COUNT ? (enum codec)codec : CODEC_NONE},
    };
    state_logs_init(&groups->logs);
    group_coordinators_configure(shard);
}

void group_coordinators_deinit(struct shard_groups *groups)
{
    state_logs_deinit(&groups->logs);
}

/* --- which there are --- */

static void closed(void *context)
{
    struct group_coordinator *coordinator = context;
    struct shard *shard = coordinator->shard;

    mem_free(coordinator);
    shard_closing_ended(shard);
}

static void end(struct shard *shard, struct hosted *hosted, enum err why)
{
    struct group_coordinator *coordinator = hosted->coordinator;

    if (coordinator == NULL)
        return;
    hosted->coordinator = NULL;
    list_remove(&coordinator->node);
    shard->closing++;
    state_log_close(coordinator->log, why, closed, coordinator);
}

static void begin(struct shard *shard, struct hosted *hosted)
{
    struct group_coordinator *coordinator = mem_calloc(1, sizeof(*coordinator));
    enum err err = ERR_NOMEM;

    if (coordinator != NULL) {
        coordinator->shard = shard;
        list_node_init(&coordinator->node);
        list_add_last(&shard->groups.coordinators, &coordinator->node);
        hosted->coordinator = coordinator;
        err = state_log_new(&shard->groups.logs, &group_kind, coordinator, hosted->partition, &coordinator->log);
    }
    if (err == ERR_OK)
        return;
    log_error(&shard->broker->log, "group coordinator cannot be made partition=%d err=%s",
              partition_index(hosted->partition), err_name(err));
    hosted->coordinator = NULL;
    if (coordinator != NULL)
        list_remove(&coordinator->node);
    mem_free(coordinator);
}

void group_coordinators_follow(struct shard *shard, struct hosted *hosted)
{
    bool here = hosted->partition != NULL && hosted->leads && !hosted->failed &&
                partition_is_ready(hosted->partition) && shard->serving && !shard->groups.stopping;

    if (hosted->partition == NULL || !bytes_equal(partition_topic(hosted->partition), group_topic_name))
        return;
    if (here && hosted->coordinator == NULL)
        begin(shard, hosted);
    else if (!here)
        end(shard, hosted, ERR_NOT_COORDINATOR);
}

void group_coordinators_serve(struct shard *shard)
{
    uint32_t cursor = 0;
    void *value = NULL;

    while (map_next(&shard->hosted, &cursor, NULL, &value))
        group_coordinators_follow(shard, value);
}

void group_coordinators_forget(struct shard *shard, struct hosted *hosted)
{
    end(shard, hosted, ERR_NOT_COORDINATOR);
}

void group_coordinators_stop(struct shard *shard)
{
    uint32_t cursor = 0;
    void *value = NULL;

    shard->groups.stopping = true;
    while (map_next(&shard->hosted, &cursor, NULL, &value))
        end(shard, value, ERR_COORDINATOR_NOT_AVAILABLE);
}

/* --- metadata --- */

struct topics_change {
    struct group_topic *deleted;
    uint32_t count;
};

static void topics_changed(void *state, struct step *step, void *argument)
{
    const struct topics_change *change = argument;

    groups_topics_changed(state, step, change->deleted, change->count);
}

static void tell_topics(struct shard *shard, const struct topics_change *change)
{
    list_each (&shard->groups.coordinators, node) {
        struct group_coordinator *coordinator = LIST_ENTRY(node, struct group_coordinator, node);
        const struct groups *groups = state_log_state(coordinator->log);

        if (groups != NULL && groups_count(groups) > 0)
            state_log_step(coordinator->log, topics_changed, (void *)(uintptr_t)change);
    }
}

void group_coordinators_publish(struct shard *shard, const struct image_delta *delta)
{
    struct topics_change change = {0};

    shard->groups.topics.version = image_offset(shard->image);
    if (delta->features_changed)
        group_coordinators_configure(shard);
    if (delta->topic_count == 0 || list_is_empty(&shard->groups.coordinators))
        return;
    change.deleted = mem_calloc(delta->topic_count, sizeof(*change.deleted));
    if (change.deleted == NULL) {
        log_error(&shard->broker->log, "offsets of deleted topics stay until they expire err=NOMEM");
        return;
    }
    for (uint32_t i = 0; i < delta->topic_count; i++) {
        const struct image_topic *before = delta->topics[i].before;

        if (delta->topics[i].after == NULL)
            change.deleted[change.count++] = (struct group_topic){before->id, before->name, before->partition_count};
    }
    tell_topics(shard, &change);
    mem_free(change.deleted);
}

/* --- questions --- */

static void decide(void *state, struct step *step, void *argument)
{
    groups_ask(state, step, argument);
}

void group_coordinators_ask(struct shard *shard, struct hosted *hosted, struct group_op *op)
{
    enum err err = ERR_NOT_COORDINATOR;

    if (shard->groups.stopping)
        err = ERR_COORDINATOR_NOT_AVAILABLE;
    else if (hosted->coordinator != NULL)
        err = state_log_check(hosted->coordinator->log);
    else if (hosted->leads && (hosted->loading || !shard->serving))
        err = ERR_COORDINATOR_LOAD_IN_PROGRESS;
    if (err == ERR_COORDINATOR_LOAD_IN_PROGRESS && hosted->loading) /* somebody waits for it */
        partition_hasten(hosted->partition);
    if (err == ERR_OK) {
        state_log_step(hosted->coordinator->log, decide, op);
        return;
    }
    op->op.err = err;
    op->op.done(&op->op);
}
