/* AlterReplicaLogDirs: each partition begins its move at its home (broker/dir_moves.c); the reply does not wait for it.
 * Codes and their order as Apache Kafka 4.4 gives them. */
#include "broker/broker_internal.h"
#include "broker/handlers.h"
#include "broker/mentions.h"
#include "broker/scatter.h"
#include "partition/log_path.h"
#include "protocol/gen/alter_replica_log_dirs.h"

struct alter_op {
    struct scatter_op op; /* first */
    struct partition_wait wait;
    uint32_t dir;
    enum err err;
    struct alter_replica_log_dir_partition_result *response;
};

struct alteration {
    struct request *request;
    struct alter_replica_log_dirs_response response;
    struct scatter *scatter;
};

/* ---- at the homes ---- */

static void is_ready(struct partition_wait *wait, struct partition *partition)
{
    struct alter_op *op = LIST_ENTRY(wait, struct alter_op, wait);
    struct hosted *hosted = shard_hosted(op->op.part->home, op->op.topic_id, op->op.index);

    if (hosted == NULL || hosted->partition != partition)
        op->err = ERR_NOT_LEADER_OR_FOLLOWER;
    else if (!partition_is_ready(partition) || partition_is_failed(partition))
        op->err = ERR_KAFKA_STORAGE_ERROR;
    else
        op->err = dir_moves_ask(hosted, op->dir);
    scatter_op_done(&op->op);
}

static void start(struct scatter_op *scatter_op, struct partition *partition)
{
    struct alter_op *op = (struct alter_op *)scatter_op;

    op->wait.done = is_ready;
    partition_when_ready(partition, &op->wait);
}

/* ---- the reply ---- */

static void all_done(struct scatter *scatter)
{
    struct alteration *alteration = scatter->user;

    for (struct scatter_part *part = scatter->parts; part != NULL; part = part->next)
        for (struct scatter_op *at = part->first; at != NULL; at = at->next) {
            const struct alter_op *op = (struct alter_op *)at;
            enum err err = at->err != ERR_OK ? at->err : op->err;

            if (err == ERR_UNKNOWN_TOPIC_ID)
                err = ERR_UNKNOWN_TOPIC_OR_PARTITION;
            else if (err == ERR_NOT_LEADER_OR_FOLLOWER)
                err = ERR_REPLICA_NOT_AVAILABLE;
            op->response->error_code = err_wire(err);
        }
    request_reply(alteration->request, &alteration->response);
}

/* ---- what is asked ---- */

/* Apache Kafka keeps a map: of a partition that is named twice the last mention holds, and it is answered once. Each
 * mention is of the request's directory. */
static enum err take_mentions(struct request *request, const struct alter_replica_log_dirs_request *in,
                              struct mentions *mentions)
{
    uint32_t all = 0;
    enum err err = ERR_OK;

    for (uint32_t i = 0; i < in->dirs_count; i++)
        for (uint32_t j = 0; j < in->dirs[i].topics_count; j++)
            all += in->dirs[i].topics[j].partitions_count;
    err = mentions_init(mentions, &request->arena, all);
    if (err != ERR_OK)
        return err;
    for (uint32_t i = 0; i < in->dirs_count; i++)
        for (uint32_t j = 0; j < in->dirs[i].topics_count; j++)
            for (uint32_t k = 0; k < in->dirs[i].topics[j].partitions_count; k++)
                mentions_add(mentions, in->dirs[i].topics[j].name, in->dirs[i].topics[j].partitions[k], &in->dirs[i]);
    mentions_keep_last(mentions);
    return ERR_OK;
}

static enum err find_dir(struct request *request, struct bytes path, uint32_t *dir)
{
    const struct broker *broker = request->broker;

    for (*dir = 0; *dir < broker->dir_count; ++*dir) {
        struct bytes name;
        enum err err = broker_dir_name(broker, broker->dirs[*dir].path, &request->arena, &name);

        if (err != ERR_OK)
            return err;
        if (bytes_equal(name, path))
            return atomic_load(&broker->dirs[*dir].failed) ? ERR_KAFKA_STORAGE_ERROR : ERR_OK;
    }
    for (uint32_t i = 0; i < broker->absent_count; i++) {
        struct bytes name;
        enum err err = broker_dir_name(broker, broker->absent[i], &request->arena, &name);

        if (err != ERR_OK)
            return err;
        if (bytes_equal(name, path))
            return ERR_KAFKA_STORAGE_ERROR;
    }
    return ERR_LOG_DIR_NOT_FOUND;
}

/* <topic>-<n>.<32 hex>-future has to be a name. */
static bool is_too_long(const struct mention *mention)
{
    uint32_t digits = 1;

    for (int32_t index = mention->index; index >= 10; index /= 10)
        digits++;
    return mention->topic.size + 1 + digits + LOG_FUTURE_CHARS > LOG_NAME_BYTES_MAX;
}

static bool add_partition(struct alteration *alteration, const struct mention *mention,
                          struct alter_replica_log_dir_partition_result *entry)
{
    const struct alter_replica_log_dir *in = mention->of;
    struct request *request = alteration->request;
    const struct image_topic *row = request->image == NULL ? NULL : image_topic_by_name(request->image, mention->topic);
    struct alter_op *op = NULL;
    uint32_t dir = 0;
    enum err err = is_too_long(mention) ? ERR_INVALID_TOPIC_EXCEPTION : find_dir(request, in->path, &dir);

    if (err == ERR_NOMEM)
        return false;
    if (err == ERR_OK && (row == NULL || mention->index < 0 || (uint32_t)mention->index >= row->partition_count)) {
        dir_moves_wish(request->shard, mention->topic, mention->index, dir); /* for when it is made */
        err = ERR_UNKNOWN_TOPIC_OR_PARTITION;
    }
    alter_replica_log_dir_partition_result_init(entry);
    entry->partition_index = mention->index;
    entry->error_code = err_wire(err);
    if (err != ERR_OK)
        return true;
    op = arena_alloc(&request->arena, sizeof(*op));
    if (op == NULL)
        return false;
    op->op.topic_id = row->id;
    op->op.index = mention->index;
    op->dir = dir;
    op->err = ERR_OK;
    op->response = entry;
    return scatter_add(alteration->scatter, &op->op) == ERR_OK;
}

static bool add_all(struct alteration *alteration, const struct mentions *mentions, bool may)
{
    struct alter_replica_log_dir_topic_result *topic = NULL;
    struct alter_replica_log_dir_partition_result *entries =
        request_array(alteration->request, mentions->count, sizeof(*entries));

    alteration->response.results = request_array(alteration->request, mentions->count, sizeof(*topic));
    if (entries == NULL || alteration->response.results == NULL)
        return false;
    for (uint32_t i = 0; i < mentions->count; i++) {
        const struct mention *mention = &mentions->list[i];

        if (topic == NULL || !bytes_equal(topic->topic_name, mention->topic)) {
            topic = &alteration->response.results[alteration->response.results_count++];
            alter_replica_log_dir_topic_result_init(topic);
            topic->topic_name = mention->topic;
            topic->partitions = &entries[i];
        }
        topic->partitions_count++;
        if (!may) {
            alter_replica_log_dir_partition_result_init(&entries[i]);
            entries[i].partition_index = mention->index;
            entries[i].error_code = err_wire(ERR_CLUSTER_AUTHORIZATION_FAILED);
        } else if (!add_partition(alteration, mention, &entries[i])) {
            return false;
        }
    }
    return true;
}

void handle_alter_replica_log_dirs(struct request *request, void *body)
{
    struct alteration *alteration = arena_alloc(&request->arena, sizeof(*alteration));
    bool may = request_may(request, MAY_ALTER, ON_CLUSTER, BYTES_LITERAL("kafka-cluster"));
    struct mentions mentions;

    if (alteration == NULL)
        goto no_memory;
    alteration->request = request;
    alter_replica_log_dirs_response_init(&alteration->response);
    alteration->scatter = scatter_new(request, start, all_done, alteration);
    if (alteration->scatter == NULL)
        goto no_memory;
    if (take_mentions(request, body, &mentions) != ERR_OK || !add_all(alteration, &mentions, may))
        goto no_memory;
    scatter_run(alteration->scatter);
    return;

no_memory:
    request_close(request, "no memory for the request");
}
