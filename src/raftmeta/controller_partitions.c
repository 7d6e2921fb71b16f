/* Partitions: placed, added, and moved when a broker comes or goes (controller.md "Topics", "Leader election and ISR").
 */
#include <stdlib.h>

#include "base/assert.h"
#include "base/limits.h"
#include "raftmeta/controller_step.h"
#include "raftmeta/placement.h"

/* Reserved directory ids (kraft.md "Identity"). MIGRATING, all zero: not known; UNASSIGNED: the broker will choose. */
static struct uuid directory_unassigned(void)
{
    return (struct uuid){{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
}

struct collected {
    struct placement_broker *brokers;
    uint32_t count;
};

static enum err collect(void *context, const struct image_broker *broker)
{
    struct collected *collected = context;

    if (!broker->in_controlled_shutdown)
        collected->brokers[collected->count++] = (struct placement_broker){broker->id, broker->fenced, broker->rack};
    return ERR_OK;
}

struct placement *step_placement(struct step *step)
{
    struct collected collected = {step_array(step, image_broker_count(step->image), sizeof(*collected.brokers)), 0};

    if (collected.brokers == NULL || image_each_broker(step->image, collect, &collected) != ERR_OK)
        return NULL;
    return placement_new(collected.brokers, collected.count, step->controller->rng, &step->controller->scratch);
}

struct bytes step_unplaced(struct step *step, uint32_t factor, struct bytes why)
{
    /* In two pieces, so that a search for calls that read the clock finds none in the cores. */
    return step_message(step,
                        "Unable to replicate the partition %u time"
                        "(s): %.*s",
                        factor, BYTES_PRINTF(why));
}

enum err step_check_assignment(struct step *step, const struct assignment *assignment, uint32_t factor,
                               struct bytes *message)
{
    if (assignment->broker_count == 0) {
        *message = BYTES_LITERAL("The manual partition assignment includes an empty replica list.");
        return ERR_INVALID_REPLICA_ASSIGNMENT;
    }
    for (uint32_t i = 0; i < assignment->broker_count; i++) {
        if (image_broker(step->image, assignment->brokers[i]) == NULL) {
            *message = step_message(
                step, "The manual partition assignment includes broker %d, but no such broker is registered.",
                assignment->brokers[i]);
            return ERR_INVALID_REPLICA_ASSIGNMENT;
        }
        for (uint32_t j = 0; j < i; j++) {
            if (assignment->brokers[j] != assignment->brokers[i])
                continue;
            *message = step_message(step, "The manual partition assignment includes the broker %d more than once.",
                                    assignment->brokers[i]);
            return ERR_INVALID_REPLICA_ASSIGNMENT;
        }
    }
    if (factor != 0 && factor != assignment->broker_count) {
        *message = step_message(step,
                                "The manual partition assignment includes a partition with %u replica(s), but this is "
                                "not consistent with previous partitions, which have %u replica(s).",
                                assignment->broker_count, factor);
        return ERR_INVALID_REPLICA_ASSIGNMENT;
    }
    return ERR_OK;
}

/* Where a broker will put a new replica, as far as that is known. */
static struct uuid directory_of(const struct step *step, int32_t id)
{
    const struct image_broker *broker = image_broker(step->image, id);

    if (broker == NULL || broker->directory_count == 0)
        return (struct uuid){{0}};
    return broker->directory_count == 1 ? broker->directories[0] : directory_unassigned();
}

enum err step_add_partition(struct step *step, struct uuid topic_id, int32_t partition, const int32_t *replicas,
                            uint32_t count, bool *no_active)
{
    struct metadata_record *record = step_add(step, RECORD_PARTITION);
    int32_t *ids = step_array(step, (size_t)count * 2, sizeof(*ids)); /* replicas, then the ISR */
    struct uuid *directories = step_array(step, count, sizeof(*directories));
    uint32_t isr_count = 0;

    if (record == NULL || ids == NULL || directories == NULL)
        return ERR_NOMEM;
    for (uint32_t i = 0; i < count; i++) {
        ids[i] = replicas[i];
        directories[i] = directory_of(step, replicas[i]);
        if (step_broker_is_active(step, replicas[i]))
            ids[count + isr_count++] = replicas[i];
    }
    *no_active = isr_count == 0;
    record->partition.partition_id = partition;
    record->partition.topic_id = topic_id;
    record->partition.replicas = ids;
    record->partition.replicas_count = count;
    record->partition.isr = ids + count;
    record->partition.isr_count = isr_count;
    record->partition.leader = isr_count == 0 ? IMAGE_LEADER_NONE : ids[count];
    record->partition.leader_epoch = 0;
    record->partition.partition_epoch = 0;
    record->partition.directories = directories;
    record->partition.directories_count = count;
    return ERR_OK;
}

/* --- more partitions --- */

static void refuse(struct grow_topic *topic, enum err err, struct bytes message)
{
    topic->err = err;
    topic->message = message;
}

/* Whether the numbers of the request make sense for the topic; refuses it where they do not. */
static bool may_grow(struct step *step, struct grow_topic *topic, const struct image_topic *row)
{
    uint32_t more = (uint32_t)topic->partition_count - row->partition_count;

    if (topic->partition_count >= 0 && (uint32_t)topic->partition_count == row->partition_count)
        refuse(topic, ERR_INVALID_PARTITIONS,
               step_message(step, "Topic already has %u partition(s).", row->partition_count));
    else if (topic->partition_count < 0 || (uint32_t)topic->partition_count < row->partition_count)
        refuse(topic, ERR_INVALID_PARTITIONS,
               step_message(step, "The topic %.*s currently has %u partition(s); %d would not be an increase.",
                            BYTES_PRINTF(topic->name), row->partition_count, topic->partition_count));
    else if (topic->assignments != NULL && topic->assignment_count != more)
        refuse(topic, ERR_INVALID_REPLICA_ASSIGNMENT,
               step_message(step,
                            "Attempted to add %u additional partition(s), but only %u assignment(s) were specified.",
                            more, topic->assignment_count));
    return topic->err == ERR_OK;
}

/* The replicas of one more partition: placed, or as the request has them (placement NULL). Refuses the topic where
 * that cannot be. */
static enum err choose(struct step *step, struct grow_topic *topic, struct placement *placement,
                       const struct assignment *asked, struct assignment *chosen, uint32_t factor)
{
    int32_t *placed = NULL;
    struct bytes message = {NULL, 0};

    if (placement == NULL) {
        *chosen = *asked;
        if (step_check_assignment(step, chosen, factor, &message) != ERR_OK)
            refuse(topic, ERR_INVALID_REPLICA_ASSIGNMENT, message);
        return ERR_OK;
    }
    placed = step_array(step, factor, sizeof(*placed));
    if (placed == NULL)
        return ERR_NOMEM;
    *chosen = (struct assignment){.brokers = placed, .broker_count = factor};
    if (placement_next(placement, factor, placed, &message) != ERR_OK)
        refuse(topic, ERR_INVALID_REPLICATION_FACTOR, step_unplaced(step, factor, message));
    return ERR_OK;
}

static enum err grow_one(struct step *step, struct grow_topic *topic)
{
    const struct image_topic *row = image_topic_by_name(step->image, topic->name);
    struct placement *placement = NULL;
    uint32_t factor = 0;
    enum err err = ERR_OK;

    if (row == NULL) {
        refuse(topic, ERR_UNKNOWN_TOPIC_OR_PARTITION, (struct bytes){NULL, 0});
        return ERR_OK;
    }
    if (!may_grow(step, topic, row))
        return ERR_OK;
    assert(row->partition_count > 0);
    factor = row->partitions[0]->replica_count;
    placement = topic->assignments == NULL ? step_placement(step) : NULL;
    if (topic->assignments == NULL && placement == NULL)
        return ERR_NOMEM;
    for (uint32_t id = row->partition_count; id < (uint32_t)topic->partition_count; id++) {
        const struct assignment *asked = placement == NULL ? &topic->assignments[id - row->partition_count] : NULL;
        struct assignment chosen;
        bool no_active = false;

        err = choose(step, topic, placement, asked, &chosen, factor);
        if (err != ERR_OK || topic->err != ERR_OK)
            break;
        err = step_add_partition(step, row->id, (int32_t)id, chosen.brokers, chosen.broker_count, &no_active);
        if (no_active)
            refuse(topic, ERR_INVALID_REPLICA_ASSIGNMENT,
                   step_message(step,
                                "All brokers specified in the manual partition assignment for partition %u are fenced "
                                "or in controlled shutdown.",
                                id));
        if (err != ERR_OK || topic->err != ERR_OK)
            break;
    }
    return err;
}

/* Pointers into one array, so that they tell the order in the request too. */
static int by_name(const void *a, const void *b)
{
    const struct grow_topic *x = *(struct grow_topic *const *)a;
    const struct grow_topic *y = *(struct grow_topic *const *)b;
    int order = bytes_compare(x->name, y->name);

    return order != 0 ? order : (x > y) - (x < y);
}

/* All entries of a name that comes twice are refused; the first of them gives the answer. */
static enum err refuse_repeated(struct step *step, struct create_partitions *request)
{
    struct grow_topic **sorted = step_array(step, request->count, sizeof(*sorted));

    if (sorted == NULL)
        return ERR_NOMEM;
    for (uint32_t i = 0; i < request->count; i++)
        sorted[i] = &request->topics[i];
    qsort(sorted, request->count, sizeof(*sorted), by_name);
    for (uint32_t i = 1; i < request->count; i++) {
        if (!bytes_equal(sorted[i - 1]->name, sorted[i]->name))
            continue;
        refuse(sorted[i - 1], ERR_INVALID_REQUEST, BYTES_LITERAL("Duplicate topic name."));
        refuse(sorted[i], ERR_INVALID_REQUEST, BYTES_LITERAL("Duplicate topic name."));
        sorted[i]->repeated = true;
    }
    return ERR_OK;
}

/* New partitions asked for, as far as a request's numbers make sense. */
static int64_t count_new(struct step *step, const struct create_partitions *request)
{
    int64_t total = 0;

    for (uint32_t i = 0; i < request->count; i++) {
        const struct image_topic *row = image_topic_by_name(step->image, request->topics[i].name);

        if (row != NULL && request->topics[i].partition_count > (int64_t)row->partition_count)
            total += (int64_t)request->topics[i].partition_count - row->partition_count;
    }
    return total;
}

enum err step_create_partitions(struct step *step)
{
    struct create_partitions *request = &step->request->create_partitions;
    enum err err = ERR_OK;

    if (count_new(step, request) > CREATE_PARTITIONS_MAX) {
        step_refuse(step, ERR_POLICY_VIOLATION, "Excessively large number of additional partitions per request.");
        return ERR_OK;
    }
    for (uint32_t i = 0; i < request->count; i++) {
        request->topics[i].err = ERR_OK;
        request->topics[i].message = (struct bytes){NULL, 0};
        request->topics[i].repeated = false;
    }
    err = refuse_repeated(step, request);
    for (uint32_t i = 0; err == ERR_OK && i < request->count; i++) {
        struct grow_topic *topic = &request->topics[i];
        uint32_t before = step->count;

        if (topic->err == ERR_OK)
            err = grow_one(step, topic);
        if (topic->err != ERR_OK)
            step_cut(step, before);
    }
    if (request->validate_only && step->count <= CONTROLLER_RECORDS_MAX)
        step_cut(step, 0);
    return err;
}

/* --- a broker comes or goes --- */

struct update {
    struct step *step;
    struct partition_target target;
    const struct image_topic *topic;
    enum err err;
};

static bool contains(const int32_t *ids, uint32_t count, int32_t id)
{
    for (uint32_t i = 0; i < count; i++)
        if (ids[i] == id)
            return true;
    return false;
}

/* It is one of those that the update is about. */
static bool goes(const struct update *update, const struct image_partition *partition, int32_t id)
{
    uint32_t slot = 0;

    if (update->target.offline == NULL)
        return id == update->target.fenced;
    return id == update->target.offline->id && step_find_replica(partition, id, &slot) &&
           !step_directory_is_online(update->step, id, partition->directories[slot]);
}

static bool may_lead(const struct update *update, const struct image_partition *partition, int32_t id)
{
    uint32_t slot = 0;

    if (goes(update, partition, id) || !step_find_replica(partition, id, &slot) ||
        !step_directory_is_online(update->step, id, partition->directories[slot]))
        return false;
    return id == update->target.unfenced || step_broker_is_active(update->step, id);
}

/* The first in order of preference that is in the ISR and may lead. */
static int32_t elect(const struct update *update, const struct image_partition *partition, const int32_t *isr,
                     uint32_t isr_count)
{
    if (contains(isr, isr_count, partition->leader) && may_lead(update, partition, partition->leader))
        return partition->leader;
    for (uint32_t i = 0; i < partition->replica_count; i++)
        if (contains(isr, isr_count, partition->replicas[i]) && may_lead(update, partition, partition->replicas[i]))
            return partition->replicas[i];
    return IMAGE_LEADER_NONE;
}

static enum err update_one(struct update *update, int32_t id, const struct image_partition *partition)
{
    struct step *step = update->step;
    struct metadata_record *record = NULL;
    int32_t *isr = step_array(step, partition->isr_count, sizeof(*isr));
    uint32_t isr_count = 0;
    int32_t leader = 0;

    if (isr == NULL)
        return ERR_NOMEM;
    for (uint32_t i = 0; i < partition->isr_count; i++)
        if (!goes(update, partition, partition->isr[i]))
            isr[isr_count++] = partition->isr[i];
    if (isr_count == 0 && partition->isr_count > 0) /* the last one stays, so that we know who may come back */
        isr[isr_count++] = partition->isr[0];
    leader = elect(update, partition, isr, isr_count);
    if (leader == partition->leader && isr_count == partition->isr_count)
        return ERR_OK;
    record = step_add(step, RECORD_PARTITION_CHANGE);
    if (record == NULL)
        return ERR_NOMEM;
    record->partition_change.partition_id = id;
    record->partition_change.topic_id = update->topic->id;
    if (isr_count != partition->isr_count) {
        record->partition_change.isr = isr;
        record->partition_change.isr_count = isr_count;
    }
    if (leader != partition->leader)
        record->partition_change.leader = leader;
    return ERR_OK;
}

static enum err update_topic(void *context, const struct image_topic *topic)
{
    struct update *update = context;
    enum err err = ERR_OK;

    update->topic = topic;
    for (uint32_t i = 0; err == ERR_OK && i < topic->partition_count; i++) {
        const struct image_partition *partition = topic->partitions[i];
        bool concerned = update->target.offline != NULL ? goes(update, partition, update->target.offline->id)
                         : update->target.fenced >= 0
                             ? contains(partition->isr, partition->isr_count, update->target.fenced)
                             : partition->leader == IMAGE_LEADER_NONE &&
                                   contains(partition->isr, partition->isr_count, update->target.unfenced);

        if (concerned)
            err = update_one(update, (int32_t)i, partition);
    }
    return err;
}

enum err step_update_partitions(struct step *step, struct partition_target target)
{
    struct update update = {.step = step, .target = target};

    return image_each_topic(step->image, update_topic, &update);
}

struct leads {
    int32_t id;
};

static enum err leads_in(void *context, const struct image_topic *topic)
{
    const struct leads *leads = context;

    for (uint32_t i = 0; i < topic->partition_count; i++)
        if (topic->partitions[i]->leader == leads->id)
            return ERR_END; /* found: walk no further */
    return ERR_OK;
}

bool step_leads_any(const struct step *step, int32_t id)
{
    struct leads leads = {id};

    return image_each_topic(step->image, leads_in, &leads) == ERR_END;
}
