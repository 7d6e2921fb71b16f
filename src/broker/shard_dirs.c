/* The log directories as the shards see them: which one a new partition goes to, and what becomes of all when one
 * fails. */
#include "base/assert.h"
#include "broker/broker_internal.h"
#include "broker/dir_recovery.h"

/* Every log of the directory on this shard is done for. */
static void fail_dir(struct loop_task *task)
{
    struct shard_dir *dir = LIST_ENTRY(task, struct shard_dir, task);
    struct shard *shard = dir->shard;
    void *value = NULL;

    dir->failed = true;
    for (uint32_t cursor = 0; map_next(&shard->hosted, &cursor, NULL, &value);) {
        struct hosted *hosted = value;

        if (hosted->partition != NULL && hosted->dir == dir->dir) {
            dir_moves_forget(hosted);
            partition_fail(hosted->partition, ERR_KAFKA_STORAGE_ERROR);
        } else if (hosted->partition != NULL) {
            dir_moves_target_failed(hosted, dir->dir);
        }
    }
}

/* --- the controller --- */

static void tell_again(struct loop_timer *timer)
{
    shard_dirs_tell_offline(LIST_ENTRY(timer, struct broker, offline.again));
}

static void told_offline(struct metadata_call *call)
{
    struct broker *broker = LIST_ENTRY(call, struct broker, offline.call);
    struct dirs_offline *offline = &broker->offline;

    offline->asking = false;
    if (call->request.err == ERR_OK) {
        offline->told = call->request.broker_heartbeat.offline_count;
        shard_dirs_tell_offline(broker); /* of those that have failed meanwhile */
        return;
    }
    log_line_rated(&broker->log, &offline->lines, LOG_WARN, "failed directories not told to the controller err=%s",
                   err_name(call->request.err));
    if (atomic_load(&broker->state) != BROKER_SERVING)
        return;
    /* Until it knows: what lies there has a leader that serves nobody. */
    offline->again.fired = tell_again;
    loop_timer_start(broker->env.controller, &offline->again,
                     loop_now_ns(broker->env.controller) + DIRS_RETRY_MS * INT64_C(1000000));
}

/* All that have failed so far: what is told again changes nothing. */
void shard_dirs_tell_offline(struct broker *broker)
{
    struct dirs_offline *offline = &broker->offline;
    uint32_t count = 0;

    if (offline->asking || atomic_load(&broker->state) != BROKER_SERVING)
        return;
    for (uint32_t i = 0; i < broker->dir_count; i++)
        if (atomic_load(&broker->dirs[i].failed))
            offline->ids[count++] = broker->dirs[i].id;
    if (count == offline->told)
        return;
    loop_timer_stop(broker->env.controller, &offline->again);
    offline->asking = true;
    arena_reset(&offline->arena);
    offline->call = (struct metadata_call){.home = broker->env.controller, .done = told_offline};
    offline->call.request.type = CONTROLLER_BROKER_HEARTBEAT;
    offline->call.request.arena = &offline->arena;
    offline->call.request.broker_heartbeat = (struct broker_heartbeat){
        .broker_id = broker->node_id,
        .broker_epoch = atomic_load(&broker->broker_epoch),
        .metadata_offset = image_offset(metadata_node_image(broker->metadata)),
        .offline = offline->ids,
        .offline_count = count,
    };
    metadata_node_call(broker->metadata, &offline->call);
}

static void dir_is_offline(struct loop_task *task)
{
    struct broker *broker = LIST_ENTRY(task, struct broker, offline.task);

    atomic_store(&broker->offline.posted, false);
    shard_dirs_tell_offline(broker);
}

static void offline_post(struct broker *broker)
{
    broker->offline.task.run = dir_is_offline;
    if (!atomic_exchange(&broker->offline.posted, true))
        loop_post(broker->env.controller, &broker->offline.task);
}

static bool all_dirs_failed(const struct broker *broker)
{
    for (uint32_t i = 0; i < broker->dir_count; i++)
        if (!atomic_load(&broker->dirs[i].failed))
            return false;
    return true;
}

void shard_storage_failed(void *context, const char *log_dir, enum err err)
{
    struct shard *shard = context;
    struct broker *broker = shard->broker;
    uint32_t i = 0;

    while (strcmp(broker->dirs[i].path, log_dir) != 0) {
        i++;
        assert(i < broker->dir_count);
    }
    if (atomic_exchange(&broker->dirs[i].failed, true))
        return;
    log_error(&broker->log, "log directory failed dir=%s err=%s", log_dir, err_name(err));
    dir_recovery_failed(shard, i);
    for (uint32_t j = 0; j < broker->env.reactor_count; j++) {
        struct shard_dir *dir = &broker->shards[j].dirs[i];

        dir->task.run = fail_dir;
        loop_post(broker->shards[j].loop, &dir->task);
    }
    if (all_dirs_failed(broker))
        broker_fail(broker, "every log directory has failed");
    else if (i == broker->metadata_dir)
        broker_fail(broker, "the log directory that holds the metadata has failed");
    else
        offline_post(broker); /* what lies there is led by nobody then */
}

uint32_t shard_choose_dir(const struct shard *shard)
{
    struct broker *broker = shard->broker;

    for (;;) {
        uint32_t best = 0;
        uint32_t fewest = UINT32_MAX;

        for (uint32_t i = 0; i < broker->dir_count; i++) {
            uint32_t count = atomic_load(&broker->dirs[i].partitions);

            if (!shard->dirs[i].failed && count < fewest) {
                best = i;
                fewest = count;
            }
        }
        if (fewest == UINT32_MAX) /* all have failed; so does this */
            fewest = atomic_load(&broker->dirs[best].partitions);
        if (atomic_compare_exchange_strong(&broker->dirs[best].partitions, &fewest, fewest + 1))
            return best;
    }
}
