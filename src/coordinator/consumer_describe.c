#include "base/assert.h"
#include "coordinator/consumer_internal.h"
#include "protocol/gen/consumer_group_describe.h"

enum { MEMBER_TYPE_CLASSIC = 0, MEMBER_TYPE_CONSUMER = 1 };

/* Topics that are gone have no name any more, and are left out. */
static enum err fill_topics(struct arena *arena, const struct step *step, const struct partition_set *set,
                            struct consumer_group_describe_response_assignment *to)
{
    struct partition_run run;
    uint32_t at = 0;

    to->topic_partitions = arena_array(arena, partition_set_topics(set), sizeof(*to->topic_partitions));
    if (to->topic_partitions == NULL)
        return ERR_NOMEM;
    while (partition_set_next(set, &at, &run)) {
        struct consumer_group_describe_response_topic_partitions *topic =
            &to->topic_partitions[to->topic_partitions_count];
        struct group_topic about = {0};
        enum err err = ERR_OK;

        if (!step->topics->by_id(step->topics, run.topic, &about))
            continue;
        consumer_group_describe_response_topic_partitions_init(topic);
        topic->topic_id = about.id;
        topic->partitions_count = run.count;
        topic->partitions = partition_run_numbers(&run, arena);
        err = arena_copy(arena, about.name, &topic->topic_name);
        if (topic->partitions == NULL || err != ERR_OK)
            return ERR_NOMEM;
        to->topic_partitions_count++;
    }
    return ERR_OK;
}

/* What it has, and what it still has to give back: its clients see it as theirs. */
static enum err fill_current(struct arena *arena, const struct step *step, const struct consumer_member *member,
                             struct consumer_group_describe_response_assignment *to)
{
    struct partition_set all = {0};
    enum err err = partition_set_copy(&all, &member->assigned);

    for (uint32_t i = 0; err == ERR_OK && i < member->revoking.count; i++)
        err = partition_set_add(&all, member->revoking.items[i].topic, member->revoking.items[i].partition, 0);
    if (err == ERR_OK) {
        partition_set_sort(&all);
        err = fill_topics(arena, step, &all, to);
    }
    partition_set_deinit(&all);
    return err;
}

static enum err copy_texts(struct arena *arena, const struct consumer_member *member,
                           struct consumer_group_describe_response_member *to)
{
    const struct consumer_group_member_metadata_value *about = &member->about;
    const struct {
        struct bytes from;
        struct bytes *to;
    } texts[] = {
        {member->id, &to->member_id},           {about->instance_id, &to->instance_id},
        {about->rack_id, &to->rack_id},         {about->client_id, &to->client_id},
        {about->client_host, &to->client_host}, {about->subscribed_topic_regex, &to->subscribed_topic_regex},
    };

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        if (arena_copy(arena, texts[i].from, texts[i].to) != ERR_OK)
            return ERR_NOMEM;
    to->subscribed_topic_names_count = about->subscribed_topic_names_count;
    to->subscribed_topic_names = arena_array(arena, about->subscribed_topic_names_count, sizeof(struct bytes));
    if (to->subscribed_topic_names == NULL)
        return ERR_NOMEM;
    for (uint32_t i = 0; i < about->subscribed_topic_names_count; i++)
        if (arena_copy(arena, about->subscribed_topic_names[i], &to->subscribed_topic_names[i]) != ERR_OK)
            return ERR_NOMEM;
    return ERR_OK;
}

static enum err fill_member(struct arena *arena, const struct step *step, const struct consumer_member *member,
                            struct consumer_group_describe_response_member *to)
{
    enum err err = ERR_OK;

    consumer_group_describe_response_member_init(to);
    to->member_epoch = member->epoch;
    to->member_type = consumer_member_is_classic(member) ? MEMBER_TYPE_CLASSIC : MEMBER_TYPE_CONSUMER;
    err = copy_texts(arena, member, to);
    if (err == ERR_OK)
        err = fill_current(arena, step, member, &to->assignment);
    if (err == ERR_OK)
        err = fill_topics(arena, step, &member->target, &to->target_assignment);
    return err;
}

static enum err fill_group(const struct consumer_group *consumer, const struct step *step, const struct group_op *op,
                           struct consumer_group_describe_response_described_group *to)
{
    uint32_t cursor = 0;
    void *value = NULL;

    to->group_epoch = consumer->epoch;
    to->assignment_epoch = consumer->target_epoch;
    to->group_state = consumer_state_name(consumer);
    to->assignor_name = bytes_of_text(group_assignor_name(consumer_assignor(consumer)));
    to->members = arena_array(op->arena, consumer->member_count, sizeof(*to->members));
    if (to->members == NULL)
        return ERR_NOMEM;
    while (map_next(&consumer->members, &cursor, NULL, &value)) {
        const struct consumer_member *member = value;

        if (!member->subscribed)
            continue;
        if (fill_member(op->arena, step, member, &to->members[to->members_count]) != ERR_OK)
            return ERR_NOMEM;
        to->members_count++;
    }
    return ERR_OK;
}

void consumer_describe(struct groups *groups, struct step *step, struct group_op *op)
{
    struct consumer_group_describe_response_described_group *response = op->response;
    const struct group *group = group_find(groups, op->group_id);

    consumer_group_describe_response_described_group_init(response);
    response->group_id = op->group_id;
    if (op->group_id.size == 0) {
        response->error_code = err_wire(ERR_INVALID_GROUP_ID);
    } else if (group == NULL || group->kind != GROUP_CONSUMER) {
        response->error_code = err_wire(ERR_GROUP_ID_NOT_FOUND);
        response->error_message =
            arena_printf(op->arena, group == NULL ? "Group %.*s not found." : "Group %.*s is not a consumer group.",
                         BYTES_PRINTF(op->group_id));
    } else {
        op->op.err = fill_group(group->consumer, step, op, response);
    }
    step_answer(step, &op->op);
}
