/* What must hold of a node after every step. It looks inside, as nobody else may. */
#include "base/assert.h"
#include "broker/broker_internal.h"
#include "sim/sim_node.h"

static int64_t *seen_high_watermark(struct sim_node *node, struct uuid topic_id, int32_t index)
{
    struct sim_node_seen *seen = node->seen;

    for (uint32_t i = 0; i < node->seen_count && i < SIM_NODE_PARTITIONS_MAX; i++, seen++)
        if (uuid_equal(seen->topic_id, topic_id) && seen->index == index)
            return &seen->high_watermark;
    seen = &node->seen[node->seen_count++ % SIM_NODE_PARTITIONS_MAX]; /* the oldest gives way: topics come and go */
    *seen = (struct sim_node_seen){topic_id, index, 0};
    return &seen->high_watermark;
}

static void check_partition(struct sim_node *node, const struct partition *partition)
{
    int64_t high_watermark = partition_high_watermark(partition);
    int64_t *seen = seen_high_watermark(node, partition_topic_id(partition), partition_index(partition));

    assert(0 <= partition_start_offset(partition));
    assert(partition_start_offset(partition) <= partition_last_stable_offset(partition));
    assert(partition_last_stable_offset(partition) <= high_watermark);
    assert(high_watermark <= partition_end_offset(partition));
    assert(partition_recovery_point(partition) <= partition_synced_offset(partition));
    assert(partition_synced_offset(partition) <= partition_end_offset(partition));
    /* Neither an ack nor a consumer runs ahead of the disk where it is to be synced first. */
    assert(partition_config(partition)->flush_messages != 1 || high_watermark <= partition_synced_offset(partition));
    assert(high_watermark >= *seen);
    *seen = high_watermark;
}

static void check_shard(struct sim_node *node, struct shard *shard)
{
    void *value = NULL;

    for (uint32_t cursor = 0; map_next(&shard->hosted, &cursor, NULL, &value);) {
        const struct hosted *hosted = value;
        const struct partition *partition = hosted->partition;

        if (partition == NULL || hosted->failed || !partition_is_ready(partition))
            continue;
        assert(shard_home(shard->broker, partition_topic_id(partition), partition_index(partition)) == shard);
        check_partition(node, partition);
    }
    assert(shard->files.open_count <= node->disk->open_files);
}

void sim_node_check(struct sim_node *node)
{
    if (node->broker == NULL)
        return;
    for (uint32_t i = 0; i < node->broker->shard_count; i++)
        check_shard(node, &node->broker->shards[i]);
}

bool sim_node_serves(const struct sim_node *node, struct uuid topic_id, int32_t index, int64_t offset)
{
    const struct partition *partition = NULL;

    if (node->broker == NULL || node->broker->shard_count == 0)
        return true;
    partition = shard_find(shard_home(node->broker, topic_id, index), topic_id, index);
    if (partition == NULL || !partition_is_ready(partition))
        return true;
    return partition_start_offset(partition) == 0 && partition_high_watermark(partition) >= offset;
}

static const struct hosted *open_hosted(const struct sim_node *node, struct uuid topic_id, int32_t index)
{
    const struct hosted *hosted = NULL;

    if (node->broker == NULL || node->broker->shard_count == 0)
        return NULL;
    hosted = shard_hosted(shard_home(node->broker, topic_id, index), topic_id, index);
    if (hosted == NULL || hosted->partition == NULL || hosted->failed || !partition_is_ready(hosted->partition) ||
        partition_is_failed(hosted->partition))
        return NULL;
    return hosted;
}

const char *sim_node_log_dir(const struct sim_node *node, struct uuid topic_id, int32_t index)
{
    const struct hosted *hosted = open_hosted(node, topic_id, index);

    return hosted == NULL ? NULL : node->broker->dirs[hosted->dir].path;
}

const char *sim_node_moves_to(const struct sim_node *node, struct uuid topic_id, int32_t index)
{
    const struct hosted *hosted = open_hosted(node, topic_id, index);
    struct dir_moves_state state;

    return hosted == NULL || !dir_moves_look(hosted, &state) ? NULL : node->broker->dirs[state.dir].path;
}

bool sim_node_is_moving(const struct sim_node *node)
{
    void *value = NULL;

    for (uint32_t i = 0; node->broker != NULL && i < node->broker->shard_count; i++)
        for (uint32_t cursor = 0; map_next(&node->broker->shards[i].hosted, &cursor, NULL, &value);)
            if (((const struct hosted *)value)->move != NULL || ((const struct hosted *)value)->resume_to >= 0)
                return true;
    return false;
}
