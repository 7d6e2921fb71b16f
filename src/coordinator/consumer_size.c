#include "coordinator/consumer_internal.h"

/*
 * What a step will write, at most: a step that does not fit its batch fails with the whole state, so what may be too
 * large is asked for first. Apache Kafka answers it with UNKNOWN_SERVER_ERROR.
 */

enum {
    RECORD_BYTES = STEP_RECORD_FRAME_BYTES + 40, /* with the lengths and numbers of key and value, not its texts */
    RUN_BYTES = 28,      /* of one topic in a list of partitions: id, and lengths of two lists */
    NAMED_RUN_BYTES = 8, /* the same in a client's assignment, beside the topic's name */
    PARTITION_BYTES = 4, /* in such a list; twice that with its epoch */
};

size_t consumer_about_bytes(const struct consumer_group *consumer, struct bytes member_id,
                            const struct consumer_group_member_metadata_value *about)
{
    return RECORD_BYTES + consumer->group->id.size + member_id.size +
           wire_size_total(message_size(&consumer_group_member_metadata_value_message, 0, about));
}

size_t consumer_set_bytes(const struct partition_set *set, bool epochs)
{
    return (size_t)partition_set_topics(set) * RUN_BYTES +
           (size_t)set->count * (epochs ? 2 * PARTITION_BYTES : PARTITION_BYTES);
}

/* Of a member's record, which names it and its group, without its lists. */
static size_t named_bytes(const struct consumer_member *member)
{
    return RECORD_BYTES + member->consumer->group->id.size + member->id.size;
}

size_t consumer_current_bytes(const struct consumer_member *member)
{
    return named_bytes(member) + consumer_set_bytes(&member->assigned, true) +
           consumer_set_bytes(&member->revoking, true) + consumer_set_bytes(&member->target, true);
}

size_t consumer_current_room(const struct consumer_member *member, const struct step *step,
                             const struct partition_set *kept)
{
    size_t bytes = named_bytes(member) + consumer_set_bytes(kept, true);
    size_t room = step_room(step);
    struct partition_run run;
    uint32_t at = 0;

    /* A later target may leave it some partitions of a topic and have it give back others: then there are two runs. */
    while (partition_set_next(kept, &at, &run))
        bytes += run.count > 1 ? RUN_BYTES : 0;
    return bytes > room ? 0 : room - bytes;
}

size_t consumer_taken_bytes(uint32_t of_topic)
{
    return 2 * PARTITION_BYTES + (of_topic < 2 ? RUN_BYTES : 0);
}

bool consumer_current_fits(const struct consumer_member *member, const struct step *step)
{
    return named_bytes(member) + consumer_set_bytes(&member->assigned, true) <= step_room(step);
}

size_t consumer_target_lists_bytes(size_t members, size_t topics, size_t partitions)
{
    return partitions * PARTITION_BYTES + (partitions < members * topics ? partitions : members * topics) * RUN_BYTES;
}

size_t consumer_target_bytes(const struct consumer_group *consumer, const struct step *step,
                             const struct consumer_group_member_metadata_value *about)
{
    size_t members = (size_t)consumer->member_count + 1;
    size_t partitions = 0;
    size_t topics = 0;
    size_t own = 0;
    uint32_t cursor = 0;
    void *value = NULL;

    for (cursor = 0; map_next(&consumer->names, &cursor, NULL, &value);) {
        struct group_topic topic = {0};

        if (step->topics->by_name(step->topics, ((struct consumer_name *)value)->name, &topic)) {
            partitions += topic.partition_count;
            topics++;
        }
    }
    for (uint32_t i = 0; i < about->subscribed_topic_names_count; i++) {
        struct bytes name = about->subscribed_topic_names[i];
        struct group_topic topic = {0};

        if (map_get(&consumer->names, name) == NULL && step->topics->by_name(step->topics, name, &topic)) {
            partitions += topic.partition_count;
            own += topic.partition_count;
            topics++;
        }
    }
    return own * 2 * PARTITION_BYTES + about->subscribed_topic_names_count * (size_t)RUN_BYTES +
           members * (RECORD_BYTES + consumer->group->id.size) + consumer->id_bytes +
           consumer_target_lists_bytes(members, topics, partitions);
}

size_t consumer_expression_bytes(const struct consumer_group_regular_expression_key *key,
                                 const struct consumer_group_regular_expression_value *value)
{
    return RECORD_BYTES + key->group_id.size + key->regular_expression.size +
           wire_size_total(message_size(&consumer_group_regular_expression_value_message, 0, value));
}

/* The group's epoch, and its target's. */
size_t consumer_epoch_bytes(const struct consumer_group *consumer)
{
    return 2 * (RECORD_BYTES + consumer->group->id.size);
}

/* With three tombstones of the one that it replaces, whose records are written once more for it. */
size_t consumer_join_bytes(const struct consumer_group *consumer, const struct step *step, struct bytes member_id,
                           const struct consumer_group_member_metadata_value *about,
                           const struct consumer_member *known, bool replaced)
{
    size_t bytes = consumer_about_bytes(consumer, member_id, about) + consumer_epoch_bytes(consumer) +
                   consumer_target_bytes(consumer, step, about);

    bytes += RECORD_BYTES + consumer->group->id.size + member_id.size; /* what it has, without the lists */
    if (known == NULL)
        return bytes;
    bytes += consumer_current_bytes(known) + RECORD_BYTES + consumer->group->id.size +
             known->about.subscribed_topic_regex.size; /* an expression that nobody has any more */
    if (replaced)
        bytes += 3 * (RECORD_BYTES + consumer->group->id.size + known->id.size) +
                 consumer_about_bytes(consumer, member_id, &known->about) + 2 * consumer_current_bytes(known) +
                 2 * member_id.size;
    return bytes;
}

/* Three tombstones of each, one of an expression that perhaps nobody else has, and the group's new epochs. */
size_t consumer_gone_bytes(const struct consumer_group *consumer, struct consumer_member *const *members,
                           uint32_t count)
{
    size_t bytes = consumer_epoch_bytes(consumer);

    for (uint32_t i = 0; i < count; i++)
        bytes += 4 * (RECORD_BYTES + consumer->group->id.size) + 3 * members[i]->id.size +
                 members[i]->about.subscribed_topic_regex.size;
    return bytes;
}

static size_t assignment_bytes(const struct partition_set *set, const struct step *step)
{
    size_t bytes = (size_t)set->count * PARTITION_BYTES;
    struct partition_run run;
    uint32_t at = 0;

    while (partition_set_next(set, &at, &run)) {
        struct group_topic topic = {0};

        if (step->topics->by_id(step->topics, run.topic, &topic))
            bytes += NAMED_RUN_BYTES + topic.name.size;
    }
    return bytes;
}

size_t consumer_tombstones_bytes(const struct consumer_group *consumer)
{
    size_t bytes = 3 * (RECORD_BYTES + consumer->group->id.size);
    uint32_t cursor = 0;
    void *value = NULL;

    while (map_next(&consumer->expressions, &cursor, NULL, &value))
        bytes += RECORD_BYTES + consumer->group->id.size + ((const struct consumer_expression *)value)->text.size;
    for (cursor = 0; map_next(&consumer->members, &cursor, NULL, &value);)
        bytes += 3 * (RECORD_BYTES + consumer->group->id.size + ((const struct consumer_member *)value)->id.size);
    return bytes;
}

/* The tombstones, and all members in the classic group's record. */
size_t consumer_downgrade_bytes(const struct consumer_group *consumer, const struct step *step)
{
    size_t bytes = consumer_tombstones_bytes(consumer) + RECORD_BYTES + consumer->group->id.size;
    uint32_t cursor = 0;
    void *value = NULL;

    while (map_next(&consumer->members, &cursor, NULL, &value)) {
        const struct consumer_member *member = value;
        const struct classic_member_metadata *classic = member->about.classic_member_metadata;

        bytes += consumer_about_bytes(consumer, member->id, &member->about);
        bytes += assignment_bytes(&member->target, step);
        for (uint32_t i = 0; classic != NULL && i < classic->supported_protocols_count; i++)
            bytes += classic->supported_protocols[i].metadata.size;
    }
    return bytes;
}
