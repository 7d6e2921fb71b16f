/* Topics and partitions: how their records change an image (controller.md "Record types"). */
#include "base/assert.h"
#include "base/mem.h"
#include "raftmeta/image_edit.h"
#include "raftmeta/metadata_limits.h"

enum {
    LEADER_UNCHANGED = -2,   /* PartitionChangeRecord.Leader */
    RECOVERY_UNCHANGED = -1, /* PartitionChangeRecord.LeaderRecoveryState */
    RECOVERY_RECOVERING = 1,
};

enum err image_apply_topic(struct image_edit *edit, const struct topic_record *record)
{
    const struct image_topic *namesake = image_topic_by_name(edit->next, record->name);
    struct image_topic *row = NULL;
    enum err err = ERR_OK;

    if (namesake != NULL)
        return edit_fail(edit, "TOPIC for %s (%s), which exists (%s)", namesake->name.data,
                         uuid_format(record->topic_id).text, uuid_format(namesake->id).text);
    if (image_topic_by_id(edit->next, record->topic_id) != NULL)
        return edit_fail(edit, "TOPIC with id %s, which another has", uuid_format(record->topic_id).text);
    row = topic_row_new(record->name, record->topic_id);
    if (row == NULL)
        return ERR_NOMEM;
    err = edit_put_topic(edit, NULL, row);
    topic_row_drop(row);
    return err;
}

enum err image_apply_remove_topic(struct image_edit *edit, const struct remove_topic_record *record)
{
    const struct image_topic *topic = image_topic_by_id(edit->next, record->topic_id);
    enum err err = ERR_OK;

    if (topic == NULL)
        return edit_fail(edit, "REMOVE_TOPIC for the unknown topic id %s", uuid_format(record->topic_id).text);
    for (uint32_t i = 0; i < topic->partition_count; i++)
        edit->next->partition_count -= topic->partitions[i] != NULL;
    err = image_apply_remove_configs(edit, CONFIG_TOPIC, topic->name);
    if (err == ERR_OK)
        err = edit_put_topic(edit, topic, NULL);
    return err;
}

/* Puts a row made from the template in place of partition id of the topic. */
static enum err put_partition(struct image_edit *edit, const struct image_topic *topic, uint32_t id,
                              const struct image_partition *from)
{
    struct image_topic *mine = NULL;
    struct image_partition *row = NULL;
    enum err err = edit_topic(edit, topic, &mine);

    if (err != ERR_OK)
        return err;
    err = topic_row_grow(mine, id + 1);
    if (err != ERR_OK)
        return err;
    row = partition_row_new(from);
    if (row == NULL)
        return ERR_NOMEM;
    edit->next->partition_count += mine->partitions[id] == NULL;
    partition_row_drop(mine->partitions[id]);
    mine->partitions[id] = row;
    return ERR_OK;
}

/* High half zero and below 100. */
bool image_directory_is_reserved(struct uuid id)
{
    for (uint32_t i = 0; i < UUID_BYTES - 1; i++)
        if (id.bytes[i] != 0)
            return false;
    return id.bytes[UUID_BYTES - 1] < 100;
}

bool image_directory_is_online(const struct image *image, int32_t broker_id, struct uuid directory)
{
    const struct image_broker *broker = image_broker(image, broker_id);

    if (image_directory_is_reserved(directory) || broker == NULL || broker->directory_count == 0)
        return true;
    for (uint32_t i = 0; i < broker->directory_count; i++)
        if (uuid_equal(broker->directories[i], directory))
            return true;
    return false;
}

/* Records below metadata.version 17 have no directories: each replica's is then not known (MIGRATING, all zero). */
static enum err put_with_directories(struct image_edit *edit, const struct image_topic *topic, uint32_t id,
                                     struct image_partition *from, uint32_t directory_count)
{
    struct uuid *unknown = NULL;
    enum err err = ERR_OK;

    if (directory_count != from->replica_count) {
        unknown = mem_calloc((size_t)from->replica_count + 1, sizeof(*unknown));
        if (unknown == NULL)
            return ERR_NOMEM;
        from->directories = unknown;
    }
    err = put_partition(edit, topic, id, from);
    mem_free(unknown);
    return err;
}

enum err image_apply_partition(struct image_edit *edit, const struct partition_record *record)
{
    const struct image_topic *topic = image_topic_by_id(edit->next, record->topic_id);
    struct image_partition from = {
        .leader = record->leader,
        .leader_epoch = record->leader_epoch,
        .partition_epoch = record->partition_epoch,
        .recovering = record->leader_recovery_state == RECOVERY_RECOVERING,
        .replica_count = record->replicas_count,
        .replicas = record->replicas,
        .isr_count = record->isr_count,
        .isr = record->isr,
        .adding_count = record->adding_replicas_count,
        .adding = record->adding_replicas,
        .removing_count = record->removing_replicas_count,
        .removing = record->removing_replicas,
        .elr_count = record->eligible_leader_replicas_count,
        .elr = record->eligible_leader_replicas,
        .last_elr_count = record->last_known_elr_count,
        .last_elr = record->last_known_elr,
        .directories = record->directories,
    };

    if (topic == NULL)
        return edit_fail(edit, "PARTITION %d of the unknown topic id %s", record->partition_id,
                         uuid_format(record->topic_id).text);
    if (record->partition_id < 0 || record->partition_id >= TOPIC_PARTITIONS_MAX)
        return edit_fail(edit, "PARTITION %d of topic %s is out of range", record->partition_id, topic->name.data);
    return put_with_directories(edit, topic, (uint32_t)record->partition_id, &from, record->directories_count);
}

enum err image_apply_partition_change(struct image_edit *edit, const struct partition_change_record *record)
{
    const struct image_partition *now = image_partition(edit->next, record->topic_id, record->partition_id);
    struct image_partition from;
    uint32_t directory_count = 0;

    if (now == NULL)
        return edit_fail(edit, "PARTITION_CHANGE for the unknown partition %d of topic id %s", record->partition_id,
                         uuid_format(record->topic_id).text);
    ROW_COPY(&from, now);
    directory_count = now->replica_count;
    from.partition_epoch++;
    if (record->leader != LEADER_UNCHANGED) { /* even where it names the same leader */
        from.leader = record->leader;
        from.leader_epoch++;
    }
    if (record->leader_recovery_state != RECOVERY_UNCHANGED)
        from.recovering = record->leader_recovery_state == RECOVERY_RECOVERING;
    if (record->replicas != NULL) {
        from.replica_count = record->replicas_count;
        from.replicas = record->replicas;
    }
    if (record->isr != NULL) {
        from.isr_count = record->isr_count;
        from.isr = record->isr;
    }
    if (record->adding_replicas != NULL) {
        from.adding_count = record->adding_replicas_count;
        from.adding = record->adding_replicas;
    }
    if (record->removing_replicas != NULL) {
        from.removing_count = record->removing_replicas_count;
        from.removing = record->removing_replicas;
    }
    if (record->eligible_leader_replicas != NULL) {
        from.elr_count = record->eligible_leader_replicas_count;
        from.elr = record->eligible_leader_replicas;
    }
    if (record->last_known_elr != NULL) {
        from.last_elr_count = record->last_known_elr_count;
        from.last_elr = record->last_known_elr;
    }
    if (record->directories != NULL) {
        from.directories = record->directories;
        directory_count = record->directories_count;
    }
    return put_with_directories(edit, image_topic_by_id(edit->next, record->topic_id), (uint32_t)record->partition_id,
                                &from, directory_count);
}

static enum err clear_topic(struct image_edit *edit, const struct image_topic *topic)
{
    enum err err = ERR_OK;

    for (uint32_t i = 0; err == ERR_OK && i < topic->partition_count; i++) {
        struct image_partition from;

        if (topic->partitions[i] == NULL ||
            (topic->partitions[i]->elr_count == 0 && topic->partitions[i]->last_elr_count == 0))
            continue;
        ROW_COPY(&from, topic->partitions[i]);
        from.elr_count = 0;
        from.last_elr_count = 0;
        err = put_partition(edit, topic, i, &from);
        topic = image_topic_by_id(edit->next, topic->id); /* the first change made a copy */
    }
    return err;
}

enum err image_apply_clear_elr(struct image_edit *edit, const struct clear_elr_record *record)
{
    const struct image_topic *topic = NULL;
    struct pmap held;
    struct pmap_cursor cursor;
    void *row = NULL;
    enum err err = ERR_OK;

    if (record->topic_name.size > 0) {
        topic = image_topic_by_name(edit->next, record->topic_name);
        if (topic == NULL)
            return edit_fail(edit, "CLEAR_ELR for the unknown topic %.*s", BYTES_PRINTF(record->topic_name));
        return clear_topic(edit, topic);
    }
    held = pmap_copy(&edit->next->topics_by_id); /* a walk must not see its own changes */
    pmap_first(&held, &cursor);
    while (err == ERR_OK && pmap_next(&cursor, NULL, &row))
        err = clear_topic(edit, row);
    pmap_deinit(&held);
    return err;
}
