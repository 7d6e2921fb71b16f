#include "coordinator/consumer_internal.h"
#include "coordinator/embedded.h"

static enum err add_partitions(struct partition_set *set, const struct step *step, struct bytes topic,
                               const int32_t *partitions, uint32_t count, int32_t epoch)
{
    struct group_topic about = {0};

    if (!step->topics->by_name(step->topics, topic, &about))
        return ERR_OK;
    for (uint32_t i = 0; i < count; i++) {
        enum err err = partitions[i] < 0 || partitions[i] >= CONSUMER_PARTITIONS_MAX
                           ? ERR_MALFORMED
                           : partition_set_add(set, about.id, partitions[i], epoch);

        if (err != ERR_OK)
            return err;
    }
    return ERR_OK;
}

enum err consumer_read_owned(const struct consumer_protocol_subscription *subscription, const struct step *step,
                             struct partition_set *owned)
{
    enum err err = ERR_OK;

    for (uint32_t i = 0; i < subscription->owned_partitions_count && err == ERR_OK; i++)
        err = add_partitions(owned, step, subscription->owned_partitions[i].topic,
                             subscription->owned_partitions[i].partitions,
                             subscription->owned_partitions[i].partitions_count, 0);
    partition_set_sort(owned);
    return err;
}

enum err consumer_read_assignment(struct bytes text, const struct step *step, int32_t epoch, struct partition_set *set,
                                  bool *has_user_data)
{
    struct consumer_protocol_assignment assignment;
    struct arena arena;
    enum err err = ERR_OK;

    *has_user_data = false;
    if (text.size == 0)
        return ERR_OK;
    arena_init(&arena, EMBEDDED_BYTES_MAX);
    err = embedded_read_assignment(text, &arena, &assignment);
    for (uint32_t i = 0; err == ERR_OK && i < assignment.assigned_partitions_count; i++)
        err = add_partitions(set, step, assignment.assigned_partitions[i].topic,
                             assignment.assigned_partitions[i].partitions,
                             assignment.assigned_partitions[i].partitions_count, epoch);
    if (err == ERR_OK) {
        *has_user_data = assignment.user_data.size > 0;
        partition_set_sort(set);
    }
    arena_deinit(&arena);
    return err;
}

enum err consumer_encode_assignment(const struct consumer_member *member, const struct partition_set *set,
                                    const struct step *step, struct arena *arena, struct bytes *encoded)
{
    const struct classic_member_metadata *classic = member->about.classic_member_metadata;
    struct consumer_protocol_assignment assignment;
    struct wire_writer w;
    uint8_t *to = NULL;
    size_t size = 0;
    int16_t version = 0;
    struct partition_run run;
    uint32_t from = 0;

    if (classic->supported_protocols_count > 0)
        version = embedded_assignment_version(classic->supported_protocols[0].metadata);
    consumer_protocol_assignment_init(&assignment);
    assignment.assigned_partitions =
        arena_array(arena, partition_set_topics(set), sizeof(*assignment.assigned_partitions));
    if (assignment.assigned_partitions == NULL)
        return ERR_NOMEM;
    while (partition_set_next(set, &from, &run)) {
        struct consumer_protocol_assignment_topic_partition *topic =
            &assignment.assigned_partitions[assignment.assigned_partitions_count];
        struct group_topic about = {0};

        if (!step->topics->by_id(step->topics, run.topic, &about))
            continue;
        topic->topic = about.name;
        topic->partitions_count = run.count;
        topic->partitions = partition_run_numbers(&run, arena);
        if (topic->partitions == NULL)
            return ERR_NOMEM;
        assignment.assigned_partitions_count++;
    }
    size = EMBEDDED_VERSION_BYTES + wire_size_total(consumer_protocol_assignment_size(version, &assignment));
    to = arena_alloc(arena, size);
    if (to == NULL)
        return ERR_NOMEM;
    wire_writer_init_flat(&w, to, size);
    wire_write_i16(&w, version);
    consumer_protocol_assignment_write(&w, version, &assignment);
    *encoded = bytes_of(to, size);
    return wire_writer_finish(&w, NULL);
}
