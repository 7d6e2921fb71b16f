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

        if (hosted->partition != NULL && hosted->dir == dir->dir)
            partition_fail(hosted->partition, ERR_KAFKA_STORAGE_ERROR);
    }
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
