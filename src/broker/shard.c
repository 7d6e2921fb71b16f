#include "broker/shard.h"

#include "base/assert.h"
#include "base/mem.h"
#include "broker/broker_internal.h"
#include "broker/dir_recovery.h"
#include "broker/fetch_part.h"
#include "broker/handlers.h"
#include "broker/hosting.h"
#include "broker/retention.h"
#include "broker/topic_config.h"
#include "partition/sync_group.h"

struct shard *shard_home(struct broker *broker, struct uuid topic_id, int32_t index)
{
    uint64_t high = 0;
    uint64_t low = 0;

    memcpy(&high, topic_id.bytes, sizeof(high));
    memcpy(&low, topic_id.bytes + sizeof(high), sizeof(low));
    high ^= low;
    high *= 0x9e3779b97f4a7c15u; /* the low bits of a random id may be fixed ones; spread all of them */
    high ^= high >> 32;
    return &broker->shards[(high + (uint32_t)index) % broker->env.reactor_count];
}

static void settle(struct shard *shard);

void shard_closing_ended(struct shard *shard)
{
    shard->closing--;
    settle(shard);
}

static void journal_closed(struct journal_close *op)
{
    shard_closing_ended(LIST_ENTRY(op, struct shard_dir, journal_close)->shard);
}

/* Their logs are all closed. */
static void journals_close(struct shard *shard)
{
    shard->journals_closed = true;
    shard->closing++; /* ours, so that all are closed only once */
    for (uint32_t i = 0; i < shard->broker->dir_count; i++) {
        if (shard->envs[i].journal == NULL)
            continue;
        shard->closing++;
        shard->dirs[i].journal_close.done = journal_closed;
        journal_close(shard->envs[i].journal, &shard->dirs[i].journal_close);
    }
    shard_closing_ended(shard);
}

static void settle(struct shard *shard)
{
    void (*settled)(struct shard * shard) = shard->settled;

    if (settled == NULL || shard->closing > 0 || shard->sessions_ending > 0)
        return;
    if (!shard->journals_closed) {
        journals_close(shard);
        return;
    }
    shard->settled = NULL;
    settled(shard);
}

static void session_freed(void *context)
{
    struct shard *shard = context;

    shard->sessions_ending--;
    settle(shard);
}

static void session_closed(void *context, struct fetch_session *session)
{
    struct shard *shard = context;

    shard->sessions_ending++;
    fetch_parts_give_up(session, session_freed, shard);
}

static void damage_found(void *context, uint32_t ranges)
{
    const struct shard *shard = context;

    broker_metrics_damage(shard->broker->metrics, shard->metrics, ranges);
}

static void publish(struct metadata_listener *listener, struct image *image, const struct image_delta *delta);

enum err shard_init(struct shard *shard, struct broker *broker, struct loop *loop, uint32_t index)
{
    uint32_t homes = broker->env.reactor_count;
    int32_t slots = config_int(broker->config, CONFIG_MAX_INCREMENTAL_FETCH_SESSION_CACHE_SLOTS);
    size_t sessions_bytes = (size_t)broker->env.memory_bytes_max / SHARD_SESSIONS_MEMORY_DIVISOR;
    struct fetch_session_limits limits = {.one_bytes_max = sessions_bytes, .cached_bytes_max = sessions_bytes / homes};

    *shard = (struct shard){.broker = broker, .loop = loop, .index = index};
    map_init(&shard->hosted, rng_u64(broker->env.rng), SHARD_PARTITIONS_MAX);
    outbox_init(&shard->outbox, loop);
    list_init(&shard->parked);
    list_init(&shard->fetches);
    list_init(&shard->producer_ids.waiting);
    dir_assign_init(shard);
    dir_moves_init(shard);
    fetch_sessions_init(&shard->sessions, (uint32_t)slots / homes + (slots > 0), &limits, index, broker->env.rng);
    shard->sessions.closed = session_closed;
    shard->sessions.context = shard;
    /* Half of the descriptors are for connections, half for files. */
    partition_files_init(&shard->files, broker->env.descriptors_max / 2 / homes);
    deleted_dirs_init(&shard->deleted_dirs, broker->env.fs, loop, &broker->log);
    clock_guard_init(&shard->clock_guard, config_long(broker->config, CONFIG_OTTLA_CLOCK_JUMP_MAX_MS),
                     clock_wall_ms(broker->env.clock), clock_boot_ns(broker->env.clock));
    shard->envs = mem_calloc(broker->dir_count, sizeof(*shard->envs));
    shard->dirs = mem_calloc(broker->dir_count, sizeof(*shard->dirs));
    if (shard->envs == NULL || shard->dirs == NULL)
        return ERR_NOMEM;
    for (uint32_t i = 0; i < broker->dir_count; i++)
        shard->dirs[i] = (struct shard_dir){.shard = shard, .dir = i};
    for (uint32_t i = 0; i < broker->dir_count; i++)
        shard->envs[i] = (struct partition_env){
            .fs = broker->env.fs,
            .loop = loop,
            .clock = broker->env.clock,
            .clock_guard = &shard->clock_guard,
            .rng = broker->env.rng,
            .log = &broker->log,
            .files = &shard->files,
            .deleted_dirs = &shard->deleted_dirs,
            .limits = {.producer_expiry_ms = config_int(broker->config, CONFIG_PRODUCER_ID_EXPIRATION_MS),
                       .producer_check_ns =
                           INT64_C(1000000) *
                           config_int(broker->config, CONFIG_PRODUCER_ID_EXPIRATION_CHECK_INTERVAL_MS)},
            .log_dir = broker->dirs[i].path,
            .space = &broker->dirs[i].space,
            .dirty = index < homes ? &broker->dirs[i].dirty.homes[index] : NULL,
            .storage_failed = shard_storage_failed,
            .damage_found = damage_found,
            .context = shard,
        };
    shard->listener = (struct metadata_listener){.loop = loop, .publish = publish};
    group_coordinators_init(&shard->groups, shard);
    return metrics_block_new(broker_metrics_registry(broker->metrics), &shard->metrics);
}

void shard_deinit(struct shard *shard)
{
    void *value = NULL;

    for (uint32_t cursor = 0; map_next(&shard->hosted, &cursor, NULL, &value);)
        mem_free(value);
    map_deinit(&shard->hosted);
    partition_notes_free(shard->notes);
    fetch_sessions_deinit(&shard->sessions);
    group_coordinators_deinit(&shard->groups);
    arena_deinit(&shard->producer_ids.arena);
    dir_assign_deinit(shard);
    dir_moves_deinit(shard);
    connections_free(shard->connections);
    image_drop(shard->image);
    for (uint32_t i = 0; shard->envs != NULL && i < shard->broker->dir_count; i++) {
        sync_group_free(shard->envs[i].sync_group);
        journal_free(shard->envs[i].journal);
    }
    mem_free(shard->dirs);
    mem_free(shard->envs);
}

struct hosted *shard_hosted(struct shard *shard, struct uuid topic_id, int32_t index)
{
    struct partition_key key = {topic_id, index};

    return map_get(&shard->hosted, partition_key_bytes(&key));
}

struct partition *shard_find(struct shard *shard, struct uuid topic_id, int32_t index)
{
    struct hosted *hosted = shard_hosted(shard, topic_id, index);

    return hosted == NULL ? NULL : hosted->partition;
}

enum err shard_lookup(struct shard *shard, struct uuid topic_id, int32_t index, struct partition **partition)
{
    struct partition_key key = {topic_id, index};
    struct hosted *hosted = map_get(&shard->hosted, partition_key_bytes(&key));
    const struct image_topic *topic = NULL;

    *partition = NULL;
    if (hosted != NULL && hosted->partition != NULL && hosted->leads && !hosted->failed) {
        *partition = hosted->partition;
        return ERR_OK;
    }
    if (shard->image == NULL)
        return ERR_NOT_LEADER_OR_FOLLOWER;
    topic = image_topic_by_id(shard->image, topic_id);
    if (topic == NULL)
        return ERR_UNKNOWN_TOPIC_ID;
    if (index < 0 || (uint32_t)index >= topic->partition_count)
        return ERR_UNKNOWN_TOPIC_OR_PARTITION;
    if (hosted == NULL) /* it is left alone where it may lie in a directory that is missing */
        return shard->broker->absent_count > 0 && topic->partitions[index]->leader == shard->broker->node_id
                   ? ERR_KAFKA_STORAGE_ERROR
                   : ERR_NOT_LEADER_OR_FOLLOWER;
    return hosted->failed || shard->dirs[hosted->dir].failed ? ERR_KAFKA_STORAGE_ERROR : ERR_NOT_LEADER_OR_FOLLOWER;
}

bool shard_knows(const struct shard *shard, int64_t version)
{
    return shard->image != NULL && image_offset(shard->image) >= version;
}

void shard_park(struct shard *shard, struct shard_parked *parked)
{
    list_node_init(&parked->node);
    list_add_last(&shard->parked, &parked->node);
}

static void run_parked(struct shard *shard)
{
    struct list due;

    list_init(&due);
    list_each (&shard->parked, node) {
        struct shard_parked *parked = LIST_ENTRY(node, struct shard_parked, node);

        if (!shard_knows(shard, parked->version))
            continue;
        list_remove(node);
        list_add_last(&due, node);
    }
    for (struct list_node *node = NULL; (node = list_take_first(&due)) != NULL;) {
        struct shard_parked *parked = LIST_ENTRY(node, struct shard_parked, node);

        parked->run(parked);
    }
}

static void deletions_ended(void *context)
{
    struct shard *shard = context;

    shard->closing--;
    settle(shard);
}

/* So many that syncing each for itself would take longer than syncing all at once, where that is as good. */
static bool many_need_sync(const struct shard *shard)
{
    uint32_t count = 0;
    void *value = NULL;

    for (uint32_t cursor = 0; map_next(&shard->hosted, &cursor, NULL, &value);)
        count += partition_needs_final_sync(((struct hosted *)value)->partition);
    return shard->broker->sync_all_tells && count >= shard->broker->env.sync_all_partitions;
}

void shard_close(struct shard *shard, void (*settled)(struct shard *shard))
{
    bool sync_all_follows = many_need_sync(shard);
    void *value = NULL;

    shard->stopping = true;
    shard->closing++; /* ours, so that all is gone only once */
    shard->settled = settled;
    fetch_sessions_close_all(&shard->sessions);
    for (uint32_t cursor = 0; map_next(&shard->hosted, &cursor, NULL, &value);) {
        struct hosted *hosted = value;

        bool may_promise = shard_may_promise(hosted);

        if (shard_note(shard, hosted, may_promise ? &hosted->end_note : NULL) != ERR_OK) {
            may_promise = false;
            atomic_store(&shard->broker->checkpoints.incomplete, true);
        }
        if (!may_promise)
            atomic_store(&shard->broker->dirs[hosted->dir].close_failed, true);
        hosted->close.sync_all_follows = sync_all_follows;
        hosting_end(shard, hosted, false);
    }
    deleted_dirs_end(&shard->deleted_dirs, deletions_ended, shard);
}

void shard_accepted(struct shard *shard, struct connection_listener *listener, struct net_stream *stream)
{
    if (shard->serving)
        connections_accepted(listener, stream);
    else if (shard->held_count < SHARD_HELD_STREAMS_MAX && !shard->stopping)
        shard->held[shard->held_count++] = (struct held_stream){stream, listener};
    else
        net_close(stream, false);
}

void shard_serve(struct shard *shard)
{
    shard->serving = true;
    for (uint32_t i = 0; i < shard->held_count; i++)
        connections_accepted(shard->held[i].listener, shard->held[i].stream);
    shard->held_count = 0;
    if (shard->index < shard->broker->env.reactor_count) {
        retention_begin(shard);
        cleaner_turn_begin(shard);
        scrub_begin(shard);
        group_coordinators_serve(shard);
        dir_assign_go_on(shard);
        dir_moves_go_on(shard);
    }
}

static void drain_is_too_long(struct loop_timer *timer)
{
    struct shard *shard = LIST_ENTRY(timer, struct shard, drain_timer);

    log_warn(&shard->broker->log, "clients cut off, they take no replies connections=%llu",
             (unsigned long long)connections_stats(shard->connections)->open);
    connections_abort(shard->connections);
}

void shard_drain(struct shard *shard)
{
    shard->stopping = true;
    retention_end(shard);
    cleaner_turn_end(shard);
    scrub_end(shard);
    dir_assign_stop(shard);
    for (uint32_t i = 0; i < shard->held_count; i++)
        net_close(shard->held[i].stream, false);
    shard->held_count = 0;
    handle_fetch_finish(shard);
    group_coordinators_stop(shard);
    shard->drain_timer.fired = drain_is_too_long;
    loop_timer_start(shard->loop, &shard->drain_timer,
                     loop_now_ns(shard->loop) + SHARD_DRAIN_MS_MAX * INT64_C(1000000));
    connections_drain(shard->connections, &shard->drained_task);
}

static bool is_replica(const struct image_partition *partition, int32_t node_id)
{
    for (uint32_t i = 0; i < partition->replica_count; i++)
        if (partition->replicas[i] == node_id)
            return true;
    return false;
}

/* With one of log.dirs missing, what it had and has not got now is left alone until the next start: also what was new
 * once and found no memory. */
static bool had_replica(const struct image_topic *before, uint32_t index, int32_t node_id)
{
    return before != NULL && index < before->partition_count && is_replica(before->partitions[index], node_id);
}

/* A topic came, or changed: its partitions that live here are made, or hear of their leader's epoch. before: NULL, or
 * as it was. */
static void follow_topic(struct shard *shard, const struct image_topic *before, const struct image_topic *topic)
{
    struct broker *broker = shard->broker;
    struct log_config *config = NULL;

    for (uint32_t i = 0; i < topic->partition_count; i++) {
        const struct image_partition *row = topic->partitions[i];
        struct partition_key key = {topic->id, (int32_t)i};
        struct hosted *hosted = NULL;
        enum err err = ERR_OK;

        if (shard_home(broker, topic->id, (int32_t)i) != shard || !is_replica(row, broker->node_id)) {
            dir_moves_forget_wish(shard, topic->name, (int32_t)i);
            continue;
        }
        hosted = map_get(&shard->hosted, partition_key_bytes(&key));
        if (hosted == NULL && config == NULL)
            config = shard_share_config(shard, topic);
        if (hosted == NULL && config == NULL)
            err = ERR_NOMEM;
        else if (hosted == NULL)
            err = hosting_begin(shard, topic, (int32_t)i, config,
                                shard->serving && !had_replica(before, i, broker->node_id));
        else if (row->leader == broker->node_id)
            err = partition_set_leader_epoch(hosted->partition, row->leader_epoch);
        hosted = map_get(&shard->hosted, partition_key_bytes(&key));
        if (hosted != NULL) {
            hosted->leads = row->leader == broker->node_id;
            group_coordinators_follow(shard, hosted);
            if (!hosted->loading)
                dir_assign_check(hosted);
        }
        if (err != ERR_OK)
            log_error(&broker->log, "partition not followed topic=%.*s partition=%u err=%s", BYTES_PRINTF(topic->name),
                      i, err_name(err));
    }
    log_config_drop(config);
}

static void forget_topic(struct shard *shard, const struct image_topic *topic)
{
    for (uint32_t i = 0; i < topic->partition_count; i++) {
        struct partition_key key = {topic->id, (int32_t)i};
        struct hosted *hosted = map_get(&shard->hosted, partition_key_bytes(&key));

        if (hosted != NULL)
            hosting_end(shard, hosted, true);
    }
}

static void publish(struct metadata_listener *listener, struct image *image, const struct image_delta *delta)
{
    struct shard *shard = LIST_ENTRY(listener, struct shard, listener);
    struct image *before = shard->image;
    bool is_home = shard->index < shard->broker->env.reactor_count;

    shard->image = image_keep(image);
    image_drop(before);
    for (uint32_t i = 0; is_home && !shard->stopping && i < delta->topic_count; i++)
        if (delta->topics[i].after == NULL)
            forget_topic(shard, delta->topics[i].before);
    for (uint32_t i = 0; is_home && !shard->stopping && i < delta->topic_count; i++)
        if (delta->topics[i].after != NULL)
            follow_topic(shard, delta->topics[i].before, delta->topics[i].after);
    if (!shard->stopping)
        shard_follow_configs(shard, delta, is_home, before == NULL);
    if ((is_home || shard == broker_aside(shard->broker)) && !shard->stopping)
        group_coordinators_publish(shard, delta); /* aside there are none, but their settings count for its requests */
    run_parked(shard);
}
