/* Where the replicas of a broker lie, and what becomes of those in a directory that has failed (controller.md
 * "AssignReplicasToDirs", KIP-858). */
#include "base/assert.h"
#include "raftmeta/controller_step.h"

/* --- AssignReplicasToDirs --- */

bool step_find_replica(const struct image_partition *partition, int32_t id, uint32_t *slot)
{
    for (uint32_t i = 0; i < partition->replica_count; i++) {
        if (partition->replicas[i] != id)
            continue;
        *slot = i;
        return true;
    }
    return false;
}

static bool is_in_isr(const struct image_partition *partition, int32_t id)
{
    for (uint32_t i = 0; i < partition->isr_count; i++)
        if (partition->isr[i] == id)
            return true;
    return false;
}

static enum err assign_one(struct step *step, int32_t broker_id, struct directory_assignment *assignment)
{
    const struct image_topic *topic = image_topic_by_id(step->image, assignment->topic_id);
    const struct image_partition *partition = NULL;
    struct metadata_record *record = NULL;
    struct uuid *directories = NULL;
    uint32_t slot = 0;

    if (topic == NULL) {
        assignment->err = ERR_UNKNOWN_TOPIC_ID;
        return ERR_OK;
    }
    partition = image_partition(step->image, assignment->topic_id, assignment->partition);
    if (partition == NULL) {
        assignment->err = ERR_UNKNOWN_TOPIC_OR_PARTITION;
        return ERR_OK;
    }
    if (!step_find_replica(partition, broker_id, &slot)) {
        assignment->err = ERR_NOT_LEADER_OR_FOLLOWER;
        return ERR_OK;
    }
    if (uuid_equal(partition->directories[slot], assignment->directory))
        return ERR_OK;
    record = step_add(step, RECORD_PARTITION_CHANGE);
    directories = step_array(step, partition->replica_count, sizeof(*directories));
    if (record == NULL || directories == NULL)
        return ERR_NOMEM;
    memcpy(directories, partition->directories, partition->replica_count * sizeof(*directories));
    directories[slot] = assignment->directory;
    record->partition_change.partition_id = assignment->partition;
    record->partition_change.topic_id = assignment->topic_id;
    record->partition_change.directories = directories;
    record->partition_change.directories_count = partition->replica_count;
    /* Nobody leads it because the directory that it was in is gone: it has turned up in another one. */
    if (partition->leader == IMAGE_LEADER_NONE && step_broker_is_active(step, broker_id) &&
        step_directory_is_online(step, broker_id, assignment->directory) && is_in_isr(partition, broker_id))
        record->partition_change.leader = broker_id;
    /* It has moved into one that failed meanwhile. */
    if (partition->leader == broker_id && !step_directory_is_online(step, broker_id, assignment->directory))
        record->partition_change.leader = IMAGE_LEADER_NONE;
    return ERR_OK;
}

enum err step_assign_directories(struct step *step)
{
    struct assign_directories *request = &step->request->assign_directories;
    enum err err = ERR_OK;

    if (image_metadata_version(step->image) < METADATA_VERSION_DIRECTORIES) {
        step_refuse(step, ERR_UNSUPPORTED_VERSION, "The current metadata version does not know directories.");
        return ERR_OK;
    }
    if (step_check_epoch(step, request->broker_id, request->broker_epoch) != ERR_OK)
        return ERR_OK;
    for (uint32_t i = 0; i < request->count && err == ERR_OK; i++) {
        request->assignments[i].err = ERR_OK;
        err = assign_one(step, request->broker_id, &request->assignments[i]);
    }
    return err;
}

/* --- directories that failed --- */

static bool is_among(const struct uuid *ids, uint32_t count, struct uuid id)
{
    for (uint32_t i = 0; i < count; i++)
        if (uuid_equal(ids[i], id))
            return true;
    return false;
}

bool step_directory_is_online(const struct step *step, int32_t broker_id, struct uuid directory)
{
    return !is_among(step->offline, step->offline_count, directory) &&
           image_directory_is_online(step->image, broker_id, directory);
}

enum err step_directories_offline(struct step *step, const struct image_broker *broker, const struct uuid *offline,
                                  uint32_t count)
{
    struct uuid *left = step_array(step, broker->directory_count, sizeof(*left));
    struct metadata_record *record = NULL;
    uint32_t left_count = 0;

    if (left == NULL)
        return ERR_NOMEM;
    for (uint32_t i = 0; i < broker->directory_count; i++)
        if (!is_among(offline, count, broker->directories[i]))
            left[left_count++] = broker->directories[i];
    if (left_count == broker->directory_count || image_metadata_version(step->image) < METADATA_VERSION_DIRECTORIES)
        return ERR_OK;
    record = step_add(step, RECORD_BROKER_REGISTRATION_CHANGE);
    if (record == NULL)
        return ERR_NOMEM;
    record->version = 2;
    record->broker_registration_change.broker_id = broker->id;
    record->broker_registration_change.broker_epoch = broker->epoch;
    record->broker_registration_change.log_dirs = left;
    record->broker_registration_change.log_dirs_count = left_count;
    step->offline = offline;
    step->offline_count = count;
    return step_update_partitions(step, (struct partition_target){.fenced = -1, .unfenced = -1, .offline = broker});
}
