#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "coordinator/assign.h"
#include "coordinator/consumer_internal.h"
#include "protocol/gen/consumer_group_target_assignment_member_record.h"
#include "protocol/gen/consumer_group_target_assignment_metadata_record.h"

enum {
    NOWHERE = UINT32_MAX,
};

/* What an assignor is given, and what it is made from. */
struct plan {
    struct consumer_group *consumer;
    struct step *step;
    struct consumer_member **members; /* in the assignors' order */
    uint32_t member_count;
    struct group_topic *topics; /* that are subscribed to and exist, by id */
    uint32_t topic_count;
    struct assign_member *about;
    uint32_t *first;
    uint32_t *before;
    uint32_t *owner;
    uint64_t *rack_bits;
    struct bytes racks[ASSIGN_RACKS_MAX];
    uint32_t rack_count;
    struct partition_item *items; /* the result, by member */
    uint32_t *ends;               /* of each member's in items */
};

enum err consumer_write_target_epoch(struct consumer_group *consumer, struct step *step, int32_t epoch, int64_t now_ms)
{
    struct consumer_group_target_assignment_metadata_key key = {.group_id = consumer->group->id};
    struct consumer_group_target_assignment_metadata_value value;

    consumer_group_target_assignment_metadata_value_init(&value);
    value.assignment_epoch = epoch;
    value.assignment_timestamp = now_ms;
    return step_write(step, &consumer_group_target_assignment_metadata_key_message, &key,
                      &consumer_group_target_assignment_metadata_value_message, 0, &value);
}

enum err consumer_write_target(struct consumer_group *consumer, struct step *step, struct bytes member_id,
                               const struct partition_set *target)
{
    struct consumer_group_target_assignment_member_key key = {.group_id = consumer->group->id, .member_id = member_id};
    struct consumer_group_target_assignment_member_value value;
    struct arena arena;
    struct partition_run run;
    uint32_t at = 0;
    enum err err = ERR_NOMEM;

    arena_init(&arena, CONSUMER_RECORD_BYTES_MAX);
    consumer_group_target_assignment_member_value_init(&value);
    value.topic_partitions = arena_array(&arena, partition_set_topics(target), sizeof(*value.topic_partitions));
    if (value.topic_partitions == NULL)
        goto out;
    while (partition_set_next(target, &at, &run)) {
        struct consumer_group_target_assignment_member_value_topic_partition *topic =
            &value.topic_partitions[value.topic_partitions_count++];

        topic->topic_id = run.topic;
        topic->partitions_count = run.count;
        topic->partitions = partition_run_numbers(&run, &arena);
        if (topic->partitions == NULL)
            goto out;
    }
    err = step_write(step, &consumer_group_target_assignment_member_key_message, &key,
                     &consumer_group_target_assignment_member_value_message, 0, &value);
out:
    arena_deinit(&arena);
    return err;
}

static int compare_members(const void *a, const void *b)
{
    const struct consumer_member *x = *(struct consumer_member *const *)a;
    const struct consumer_member *y = *(struct consumer_member *const *)b;
    struct bytes xi = x->about.instance_id;
    struct bytes yi = y->about.instance_id;

    if (xi.data != NULL && yi.data != NULL)
        return bytes_compare(xi, yi);
    if (xi.data != NULL || yi.data != NULL)
        return xi.data != NULL ? -1 : 1;
    return bytes_compare(x->id, y->id);
}

static int compare_topics(const void *a, const void *b)
{
    const struct group_topic *x = a;
    const struct group_topic *y = b;

    return memcmp(x->id.bytes, y->id.bytes, UUID_BYTES);
}

static int compare_numbers(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a;
    uint32_t y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

static enum err plan_members(struct plan *plan)
{
    struct consumer_group *consumer = plan->consumer;
    uint32_t cursor = 0;
    void *value = NULL;

    plan->members = mem_calloc((size_t)consumer->member_count + 1, sizeof(struct consumer_member *));
    plan->about = mem_calloc((size_t)consumer->member_count + 1, sizeof(*plan->about));
    plan->ends = mem_calloc((size_t)consumer->member_count + 1, sizeof(*plan->ends));
    if (plan->members == NULL || plan->about == NULL || plan->ends == NULL)
        return ERR_NOMEM;
    while (map_next(&consumer->members, &cursor, NULL, &value))
        if (((struct consumer_member *)value)->subscribed)
            plan->members[plan->member_count++] = value;
    if (plan->member_count > 1)
        qsort(plan->members, plan->member_count, sizeof(struct consumer_member *), compare_members);
    return ERR_OK;
}

static enum err plan_topics(struct plan *plan)
{
    const struct map *names = &plan->consumer->names;
    const struct group_topics *topics = plan->step->topics;
    uint32_t cursor = 0;
    uint32_t partitions = 0;
    void *value = NULL;

    plan->topics = mem_calloc((size_t)map_count(names) + 1, sizeof(*plan->topics));
    plan->first = mem_calloc((size_t)map_count(names) + 1, sizeof(*plan->first));
    if (plan->topics == NULL || plan->first == NULL)
        return ERR_NOMEM;
    while (map_next(names, &cursor, NULL, &value))
        if (topics->by_name(topics, ((struct consumer_name *)value)->name, &plan->topics[plan->topic_count]))
            plan->topic_count++;
    if (plan->topic_count > 1)
        qsort(plan->topics, plan->topic_count, sizeof(*plan->topics), compare_topics);
    for (cursor = 0; map_next(names, &cursor, NULL, &value);)
        ((struct consumer_name *)value)->index = NOWHERE;
    for (uint32_t i = 0; i < plan->topic_count; i++) {
        struct consumer_name *name = map_get(names, plan->topics[i].name);

        name->index = i;
        plan->first[i] = partitions;
        partitions += plan->topics[i].partition_count;
    }
    plan->first[plan->topic_count] = partitions;
    plan->before = mem_calloc((size_t)partitions + 1, sizeof(*plan->before));
    plan->owner = mem_calloc((size_t)partitions + 1, sizeof(*plan->owner));
    plan->items = mem_calloc((size_t)partitions + 1, sizeof(*plan->items));
    return plan->before == NULL || plan->owner == NULL || plan->items == NULL ? ERR_NOMEM : ERR_OK;
}

static void add_numbers(const struct map *names, const struct bytes *texts, uint32_t text_count, uint32_t *numbers,
                        uint32_t *count)
{
    for (uint32_t i = 0; i < text_count; i++) {
        const struct consumer_name *name = map_get(names, texts[i]);

        if (name != NULL && name->index != NOWHERE)
            numbers[(*count)++] = name->index;
    }
}

static enum err plan_subscription(struct plan *plan, const struct consumer_member *member, struct assign_member *to)
{
    const struct consumer_group_member_metadata_value *about = &member->about;
    const struct consumer_expression *expression =
        about->subscribed_topic_regex.size == 0 ? NULL
                                                : map_get(&plan->consumer->expressions, about->subscribed_topic_regex);
    uint32_t count = 0;
    uint32_t kept = 0;
    uint32_t *numbers =
        mem_calloc((size_t)about->subscribed_topic_names_count + (expression == NULL ? 0 : expression->topic_count) + 1,
                   sizeof(*numbers));

    if (numbers == NULL)
        return ERR_NOMEM;
    add_numbers(&plan->consumer->names, about->subscribed_topic_names, about->subscribed_topic_names_count, numbers,
                &count);
    if (expression != NULL)
        add_numbers(&plan->consumer->names, expression->topics, expression->topic_count, numbers, &count);
    if (count > 1)
        qsort(numbers, count, sizeof(*numbers), compare_numbers);
    for (uint32_t i = 0; i < count; i++)
        if (kept == 0 || numbers[kept - 1] != numbers[i])
            numbers[kept++] = numbers[i];
    to->topics = numbers;
    to->topic_count = kept;
    return ERR_OK;
}

/* Members of one subscription share its list. */
static enum err plan_subscriptions(struct plan *plan)
{
    for (uint32_t i = 0; i < plan->member_count; i++) {
        const struct consumer_group_member_metadata_value *about = &plan->members[i]->about;
        const struct consumer_group_member_metadata_value *previous = i == 0 ? NULL : &plan->members[i - 1]->about;
        enum err err = ERR_OK;

        if (previous != NULL && consumer_names_equal(about, previous) &&
            bytes_equal(about->subscribed_topic_regex, previous->subscribed_topic_regex)) {
            plan->about[i].topics = plan->about[i - 1].topics;
            plan->about[i].topic_count = plan->about[i - 1].topic_count;
            continue;
        }
        err = plan_subscription(plan, plan->members[i], &plan->about[i]);
        if (err != ERR_OK)
            return err;
    }
    return ERR_OK;
}

static void plan_before(struct plan *plan)
{
    for (uint32_t i = 0; i < plan->first[plan->topic_count]; i++)
        plan->before[i] = ASSIGN_NOBODY;
    for (uint32_t i = 0; i < plan->member_count; i++) {
        struct partition_run run;
        uint32_t at = 0;

        while (partition_set_next(&plan->members[i]->target, &at, &run)) {
            struct group_topic key = {.id = run.topic};
            const struct group_topic *topic = plan->topic_count == 0 ? NULL
                                                                     : bsearch(&key, plan->topics, plan->topic_count,
                                                                               sizeof(*plan->topics), compare_topics);

            for (uint32_t j = 0; j < run.count && topic != NULL; j++)
                if ((uint32_t)run.items[j].partition < topic->partition_count)
                    plan->before[plan->first[topic - plan->topics] + (uint32_t)run.items[j].partition] = i;
        }
    }
}

static uint64_t rack_bit(struct plan *plan, struct bytes rack, bool add)
{
    uint32_t at = 0;

    while (at < plan->rack_count && !bytes_equal(plan->racks[at], rack))
        at++;
    if (at == ASSIGN_RACKS_MAX || (at == plan->rack_count && !add))
        return 0;
    if (at == plan->rack_count)
        plan->racks[plan->rack_count++] = rack;
    return UINT64_C(1) << at;
}

static enum err plan_racks(struct plan *plan)
{
    const struct group_topics *topics = plan->step->topics;
    struct bytes racks[GROUP_TOPIC_RACKS_MAX];
    uint32_t at = 0;

    for (uint32_t i = 0; i < plan->member_count; i++)
        if (plan->members[i]->about.rack_id.size > 0)
            plan->about[i].rack_bit = rack_bit(plan, plan->members[i]->about.rack_id, true);
    if (plan->rack_count == 0)
        return ERR_OK;
    plan->rack_bits = mem_calloc((size_t)plan->first[plan->topic_count] + 1, sizeof(*plan->rack_bits));
    if (plan->rack_bits == NULL)
        return ERR_NOMEM;
    for (uint32_t i = 0; i < plan->topic_count; i++)
        for (uint32_t j = 0; j < plan->topics[i].partition_count; j++, at++) {
            uint32_t count = topics->racks(topics, plan->topics[i].id, j, racks, GROUP_TOPIC_RACKS_MAX);

            for (uint32_t k = 0; k < count; k++)
                plan->rack_bits[at] |= rack_bit(plan, racks[k], false);
        }
    return ERR_OK;
}

static enum err assign(struct plan *plan)
{
    struct assign_input input = {
        .members = plan->about,
        .member_count = plan->member_count,
        .first = plan->first,
        .topic_count = plan->topic_count,
        .before = plan->before,
        .rack_bits = plan->rack_bits,
    };

    return consumer_assignor(plan->consumer) == ASSIGNOR_RANGE ? assign_range(&input, plan->owner)
                                                               : assign_uniform(&input, plan->owner);
}

/* Puts the result in order: each member's partitions in one row, by topic id. */
static void sort_result(struct plan *plan)
{
    uint32_t total = 0;
    uint32_t at = 0;

    for (uint32_t i = 0; i < plan->first[plan->topic_count]; i++)
        if (plan->owner[i] != ASSIGN_NOBODY)
            plan->ends[plan->owner[i]]++;
    for (uint32_t i = 0; i < plan->member_count; i++) {
        uint32_t count = plan->ends[i];

        plan->ends[i] = total;
        total += count;
    }
    for (uint32_t i = 0; i < plan->topic_count; i++)
        for (uint32_t j = 0; j < plan->topics[i].partition_count; j++, at++)
            if (plan->owner[at] != ASSIGN_NOBODY)
                plan->items[plan->ends[plan->owner[at]]++] =
                    (struct partition_item){.topic = plan->topics[i].id, .partition = (int32_t)j};
}

static enum err write_result(struct plan *plan)
{
    for (uint32_t i = 0; i < plan->member_count; i++) {
        struct consumer_member *member = plan->members[i];
        uint32_t from = i == 0 ? 0 : plan->ends[i - 1];
        struct partition_set target = {.items = plan->items + from, .count = plan->ends[i] - from};
        enum err err = ERR_OK;

        if (member->targeted && partition_set_equal(&target, &member->target, false))
            continue;
        err = consumer_write_target(plan->consumer, plan->step, member->id, &target);
        if (err != ERR_OK)
            return err;
    }
    return consumer_write_target_epoch(plan->consumer, plan->step, plan->consumer->epoch, plan->step->now_ms);
}

static void plan_free(struct plan *plan)
{
    for (uint32_t i = 0; i < plan->member_count; i++)
        if (i == 0 || plan->about[i].topics != plan->about[i - 1].topics)
            mem_free((void *)(uintptr_t)plan->about[i].topics);
    mem_free(plan->members);
    mem_free(plan->topics);
    mem_free(plan->about);
    mem_free(plan->first);
    mem_free(plan->before);
    mem_free(plan->owner);
    mem_free(plan->rack_bits);
    mem_free(plan->items);
    mem_free(plan->ends);
}

/* Many that come at once are assigned together (KIP-1263): not more often than the interval, but for a first one. */
static bool is_time(const struct consumer_group *consumer, const struct step *step)
{
    const struct group_settings *settings = consumer->group->groups->settings;
    int32_t interval = consumer_setting(consumer->group, step, BYTES_LITERAL("consumer.assignment.interval.ms"),
                                        settings->consumer_assignment_interval_ms, 0, INT32_MAX);

    return consumer->target_ms == 0 || interval == 0 || step_has_passed(step, consumer->target_ms, interval);
}

enum err consumer_update_target(struct consumer_group *consumer, struct step *step)
{
    struct plan plan = {.consumer = consumer, .step = step};
    enum err err = ERR_OK;

    if (consumer->target_epoch >= consumer->epoch || !is_time(consumer, step))
        return ERR_OK;
    err = plan_members(&plan);
    if (err == ERR_OK)
        err = plan_topics(&plan);
    if (err == ERR_OK)
        err = plan_subscriptions(&plan);
    if (err == ERR_OK)
        err = plan_racks(&plan);
    if (err == ERR_OK) {
        plan_before(&plan);
        err = assign(&plan);
    }
    if (err == ERR_OK) {
        sort_result(&plan);
        err = write_result(&plan);
    }
    plan_free(&plan);
    return err;
}
