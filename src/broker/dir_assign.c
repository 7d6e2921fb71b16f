#include "broker/dir_assign.h"

#include "base/mem.h"
#include "broker/broker_internal.h"

static const struct image_partition *row_of(const struct shard *shard, struct uuid topic_id, int32_t index)
{
    return shard->image == NULL ? NULL : image_partition(shard->image, topic_id, index);
}

struct uuid dir_assign_directory(const struct shard *shard, struct uuid topic_id, int32_t index)
{
    const struct image_partition *row = row_of(shard, topic_id, index);

    for (uint32_t i = 0; row != NULL && i < row->replica_count; i++)
        if (row->replicas[i] == shard->broker->node_id)
            return row->directories[i];
    return (struct uuid){{0}};
}

bool dir_assign_is_told(const struct hosted *hosted)
{
    const struct shard *shard = hosted->shard;
    struct uuid told =
        dir_assign_directory(shard, partition_topic_id(hosted->partition), partition_index(hosted->partition));

    return image_metadata_version(shard->image) < METADATA_VERSION_DIRECTORIES ||
           uuid_equal(told, shard->broker->dirs[hosted->dir].id);
}

void dir_assign_init(struct shard *shard)
{
    list_init(&shard->assigner.pending);
    arena_init(&shard->assigner.arena, DIR_ASSIGN_BYTES_MAX);
}

void dir_assign_deinit(struct shard *shard)
{
    arena_deinit(&shard->assigner.arena);
}

void dir_assign_forget(struct hosted *hosted)
{
    if (list_node_is_linked(&hosted->unassigned))
        list_remove(&hosted->unassigned);
}

void dir_assign_check(struct hosted *hosted)
{
    dir_assign_forget(hosted);
    if (hosted->partition == NULL || hosted->failed || dir_moves_is_deciding(hosted) || dir_assign_is_told(hosted))
        return;
    list_add_last(&hosted->shard->assigner.pending, &hosted->unassigned);
    dir_assign_go_on(hosted->shard);
}

static void wait_is_over(struct loop_timer *timer)
{
    struct shard *shard = LIST_ENTRY(timer, struct shard, assigner.again);

    shard->assigner.waits = false;
    dir_assign_go_on(shard);
}

static void wait_some(struct shard *shard)
{
    struct shard_assigner *assigner = &shard->assigner;

    if (shard->stopping)
        return;
    assigner->waits = true;
    assigner->again.fired = wait_is_over;
    loop_timer_start(shard->loop, &assigner->again, loop_now_ns(shard->loop) + DIRS_RETRY_MS * INT64_C(1000000));
}

void dir_assign_stop(struct shard *shard)
{
    loop_timer_stop(shard->loop, &shard->assigner.again);
}

/* They are asked for once more: until the metadata know where a partition lies a start may not find it, and it cannot
 * move. */
static void not_told(struct shard *shard, const struct assign_directories *in, enum err err)
{
    log_line_rated(&shard->broker->log, &shard->assigner.lines, LOG_WARN,
                   "directories not assigned partitions=%u err=%s", in->count, err_name(err));
    wait_some(shard);
    for (uint32_t i = 0; i < in->count; i++) {
        struct hosted *hosted = shard_hosted(shard, in->assignments[i].topic_id, in->assignments[i].partition);

        if (hosted != NULL)
            dir_assign_check(hosted);
    }
}

static void told(struct metadata_call *call)
{
    struct shard *shard = LIST_ENTRY(call, struct shard, assigner.call);
    const struct assign_directories *in = &call->request.assign_directories;

    shard->assigner.asking = false;
    if (call->request.err != ERR_OK)
        not_told(shard, in, call->request.err);
    for (uint32_t i = 0; call->request.err == ERR_OK && i < in->count; i++)
        if (in->assignments[i].err != ERR_OK && in->assignments[i].err != ERR_UNKNOWN_TOPIC_ID) /* it went meanwhile */
            log_warn(&shard->broker->log, "directory not assigned topic_id=%s partition=%d err=%s",
                     uuid_format(in->assignments[i].topic_id).text, in->assignments[i].partition,
                     err_name(in->assignments[i].err));
    arena_reset(&shard->assigner.arena);
    dir_assign_go_on(shard);
    dir_moves_go_on(shard);
    shard_closing_ended(shard);
}

void dir_assign_go_on(struct shard *shard)
{
    struct shard_assigner *assigner = &shard->assigner;
    struct directory_assignment *assignments = NULL;
    uint32_t count = 0;

    if (assigner->asking || assigner->waits || !shard->serving || shard->stopping || list_is_empty(&assigner->pending))
        return;
    assignments = arena_array(&assigner->arena, DIR_ASSIGN_PARTITIONS_MAX, sizeof(*assignments));
    if (assignments == NULL) {
        wait_some(shard);
        return;
    }
    for (struct list_node *node = NULL;
         count < DIR_ASSIGN_PARTITIONS_MAX && (node = list_take_first(&assigner->pending)) != NULL;) {
        const struct hosted *hosted = LIST_ENTRY(node, struct hosted, unassigned);

        assignments[count++] = (struct directory_assignment){
            .topic_id = partition_topic_id(hosted->partition),
            .partition = partition_index(hosted->partition),
            .directory = shard->broker->dirs[hosted->dir].id,
        };
    }
    assigner->asking = true;
    shard->closing++; /* a stop waits for it */
    assigner->call = (struct metadata_call){.home = shard->loop, .done = told};
    assigner->call.request.type = CONTROLLER_ASSIGN_DIRECTORIES;
    assigner->call.request.arena = &assigner->arena;
    assigner->call.request.assign_directories = (struct assign_directories){
        .broker_id = shard->broker->node_id,
        .broker_epoch = atomic_load(&shard->broker->broker_epoch),
        .assignments = assignments,
        .count = count,
    };
    metadata_node_call(shard->broker->metadata, &assigner->call);
}
