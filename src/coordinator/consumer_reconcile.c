#include <string.h>

#include "base/clock.h"
#include "coordinator/consumer_internal.h"
#include "protocol/gen/consumer_group_current_member_assignment_record.h"

/* What the member becomes. */
struct next {
    int32_t epoch;
    int32_t previous_epoch;
    int8_t state;
    struct partition_set assigned;
    struct partition_set revoking;
};

bool consumer_owns_any(const struct partition_set *owned, const struct partition_set *of)
{
    if (owned == NULL)
        return true; /* it did not say: then it may well */
    for (uint32_t i = 0; i < owned->count; i++)
        if (partition_set_find(of, owned->items[i].topic, owned->items[i].partition) != NULL)
            return true;
    return false;
}

bool consumer_is_reconciled(const struct consumer_member *member)
{
    return member->state == MEMBER_STABLE && member->epoch == member->consumer->target_epoch;
}

static bool subscribes_id(const struct consumer_member *member, const struct step *step, struct uuid topic)
{
    struct group_topic about = {0};

    return step->topics->by_id(step->topics, topic, &about) && consumer_member_subscribes(member, about.name);
}

/* The target without topics that it does not subscribe to any more. */
static enum err wanted(const struct consumer_member *member, const struct step *step, struct partition_set *target)
{
    struct partition_run run;
    uint32_t at = 0;

    while (partition_set_next(&member->target, &at, &run)) {
        if (!subscribes_id(member, step, run.topic))
            continue;
        for (uint32_t i = 0; i < run.count; i++) {
            enum err err = partition_set_add(target, run.topic, run.items[i].partition, member->consumer->target_epoch);

            if (err != ERR_OK)
                return err;
        }
    }
    return ERR_OK;
}

/* Held by somebody else. */
static bool is_held(const struct consumer_member *member, const struct partition_item *item)
{
    return consumer_owner_epoch(member->consumer, item->topic, item->partition) != PARTITION_FREE &&
           partition_set_find(&member->revoking, item->topic, item->partition) == NULL;
}

static bool has(const struct consumer_member *member, const struct partition_item *item)
{
    return partition_set_find(&member->assigned, item->topic, item->partition) != NULL;
}

/* Of one topic's part of the target what is free, as far as there is room for it; the rest it waits for. */
static enum err take_free(const struct consumer_member *member, const struct partition_run *run, size_t *room,
                          bool *waits, struct partition_set *assigned)
{
    uint32_t of_topic = 0; /* that it keeps and takes */
    enum err err = ERR_OK;

    for (uint32_t i = 0; i < run->count; i++)
        of_topic += has(member, &run->items[i]);
    for (uint32_t i = 0; err == ERR_OK && i < run->count; i++) {
        const struct partition_item *item = &run->items[i];
        size_t bytes = consumer_taken_bytes(of_topic);

        if (has(member, item))
            continue;
        if (is_held(member, item) || bytes > *room) {
            *waits = true;
            continue;
        }
        *room -= bytes;
        of_topic++;
        err = partition_set_add(assigned, item->topic, item->partition, item->epoch);
    }
    return err;
}

/* As groups.md 3.5, compute(epoch): gives back what is not in the target first; then takes what is free, as far as its
 * record has room in this step: the rest comes with the next heartbeat. What has room in no step, of which a member
 * would need over a hundred thousand, stays with nobody, and the group Reconciling: a step that fails would take
 * everybody's state with it, again and again. */
static enum err approach(const struct consumer_member *member, const struct step *step, int32_t epoch,
                         const struct partition_set *owned, struct next *next)
{
    struct partition_set target = {0};
    struct partition_set revoke = {0};
    struct partition_run run;
    uint32_t at = 0;
    size_t room = 0;
    bool waits = false;
    enum err err = wanted(member, step, &target);

    for (uint32_t i = 0; err == ERR_OK && i < member->assigned.count; i++) {
        const struct partition_item *item = &member->assigned.items[i];
        bool keeps = partition_set_find(&target, item->topic, item->partition) != NULL;

        err = partition_set_add(keeps ? &next->assigned : &revoke, item->topic, item->partition, item->epoch);
    }
    if (err != ERR_OK)
        goto out;
    next->previous_epoch = member->epoch;
    if (revoke.count > 0 && consumer_owns_any(owned, &revoke)) {
        next->epoch = epoch;
        next->state = MEMBER_UNREVOKED;
        partition_set_move(&next->revoking, &revoke);
        goto out;
    }
    room = consumer_current_room(member, step, &next->assigned);
    while (err == ERR_OK && partition_set_next(&target, &at, &run))
        err = take_free(member, &run, &room, &waits, &next->assigned);
    partition_set_sort(&next->assigned);
    next->epoch = member->consumer->target_epoch;
    next->state = waits ? MEMBER_UNRELEASED : MEMBER_STABLE;
out:
    partition_set_deinit(&target);
    partition_set_deinit(&revoke);
    return err;
}

/* The subscription is another, the target not yet: what is not subscribed to any more goes at once. */
static enum err drop_unsubscribed(const struct consumer_member *member, const struct step *step,
                                  const struct partition_set *owned, struct next *next)
{
    bool dropped = false;
    enum err err = partition_set_copy(&next->revoking, &member->revoking);

    for (uint32_t i = 0; err == ERR_OK && i < member->assigned.count; i++) {
        const struct partition_item *item = &member->assigned.items[i];
        bool keeps = subscribes_id(member, step, item->topic);

        dropped |= !keeps;
        err = partition_set_add(keeps ? &next->assigned : &next->revoking, item->topic, item->partition, item->epoch);
    }
    if (err != ERR_OK)
        return err;
    partition_set_sort(&next->revoking);
    next->epoch = member->epoch;
    next->previous_epoch = dropped ? member->epoch : member->previous_epoch;
    next->state = member->state;
    if (dropped && next->revoking.count > 0 && consumer_owns_any(owned, &next->revoking)) {
        next->state = MEMBER_UNREVOKED;
        return ERR_OK;
    }
    partition_set_deinit(&next->revoking);
    return partition_set_copy(&next->revoking, &member->revoking);
}

static enum err copy(const struct consumer_member *member, struct next *next)
{
    enum err err = partition_set_copy(&next->assigned, &member->assigned);

    next->epoch = member->epoch;
    next->previous_epoch = member->previous_epoch;
    next->state = member->state;
    return err == ERR_OK ? partition_set_copy(&next->revoking, &member->revoking) : err;
}

static enum err decide(const struct consumer_member *member, const struct step *step, bool subscription_changed,
                       const struct partition_set *owned, struct next *next)
{
    switch (member->state) {
    case MEMBER_STABLE:
        if (member->epoch != member->consumer->target_epoch)
            return approach(member, step, member->epoch, owned, next);
        return subscription_changed ? drop_unsubscribed(member, step, owned, next) : copy(member, next);
    case MEMBER_UNREVOKED:
        if (!consumer_owns_any(owned, &member->revoking))
            return approach(member, step, member->epoch, owned, next);
        return subscription_changed ? drop_unsubscribed(member, step, owned, next) : copy(member, next);
    case MEMBER_UNRELEASED:
        return approach(member, step, member->epoch, owned, next);
    default: /* of a newer version; that it owns nothing was checked */
        return approach(member, step, member->consumer->target_epoch, owned, next);
    }
}

static enum err add_topics(struct arena *arena, const struct partition_set *set,
                           struct consumer_group_current_member_assignment_value_topic_partitions **topics,
                           uint32_t *count)
{
    struct partition_run run;
    uint32_t at = 0;

    *count = 0;
    *topics = arena_array(arena, partition_set_topics(set), sizeof(**topics));
    if (*topics == NULL)
        return ERR_NOMEM;
    while (partition_set_next(set, &at, &run)) {
        struct consumer_group_current_member_assignment_value_topic_partitions *topic = &(*topics)[(*count)++];

        topic->topic_id = run.topic;
        topic->partitions_count = run.count;
        topic->partitions = partition_run_numbers(&run, arena);
        topic->assignment_epochs_count = run.count;
        topic->assignment_epochs = arena_array(arena, run.count, sizeof(*topic->assignment_epochs));
        if (topic->partitions == NULL || topic->assignment_epochs == NULL)
            return ERR_NOMEM;
        for (uint32_t i = 0; i < run.count; i++)
            topic->assignment_epochs[i] = run.items[i].epoch;
    }
    return ERR_OK;
}

enum err consumer_write_current(struct consumer_group *consumer, struct step *step, struct bytes member_id,
                                const struct consumer_current *current)
{
    struct consumer_group_current_member_assignment_key key = {.group_id = consumer->group->id, .member_id = member_id};
    struct consumer_group_current_member_assignment_value value;
    struct arena arena;
    enum err err = ERR_OK;

    arena_init(&arena, CONSUMER_RECORD_BYTES_MAX);
    consumer_group_current_member_assignment_value_init(&value);
    value.member_epoch = current->epoch;
    value.previous_member_epoch = current->previous_epoch;
    value.state = current->state;
    err = add_topics(&arena, current->assigned, &value.assigned_partitions, &value.assigned_partitions_count);
    if (err == ERR_OK)
        err = add_topics(&arena, current->revoking, &value.partitions_pending_revocation,
                         &value.partitions_pending_revocation_count);
    if (err == ERR_OK)
        err = step_write(step, &consumer_group_current_member_assignment_key_message, &key,
                         &consumer_group_current_member_assignment_value_message, 0, &value);
    arena_deinit(&arena);
    return err;
}

enum err consumer_reconcile(struct consumer_member *member, struct step *step, bool subscription_changed,
                            const struct partition_set *owned, bool *changed)
{
    struct groups *groups = member->consumer->group->groups;
    struct next next = {0};
    enum err err = ERR_OK;

    *changed = false;
    if (!subscription_changed && consumer_is_reconciled(member))
        return ERR_OK;
    err = decide(member, step, subscription_changed, owned, &next);
    if (err != ERR_OK)
        goto out;
    *changed = !partition_set_equal(&next.assigned, &member->assigned, true);
    if (!*changed && next.epoch == member->epoch && next.previous_epoch == member->previous_epoch &&
        next.state == member->state && partition_set_equal(&next.revoking, &member->revoking, true))
        goto out;
    err = consumer_write_current(member->consumer, step, member->id,
                                 &(struct consumer_current){.epoch = next.epoch,
                                                            .previous_epoch = next.previous_epoch,
                                                            .state = next.state,
                                                            .assigned = &next.assigned,
                                                            .revoking = &next.revoking});
    if (err != ERR_OK || consumer_member_is_classic(member))
        goto out;
    if (member->state == MEMBER_UNREVOKED) {
        member->rebalance_epoch = member->epoch;
        group_timer_start(groups, &member->rebalance_timer,
                          step->now_ns + member->about.rebalance_timeout_ms * NS_PER_MS);
    } else {
        group_timer_stop(groups, &member->rebalance_timer);
    }
out:
    partition_set_deinit(&next.assigned);
    partition_set_deinit(&next.revoking);
    return err;
}

bool consumer_waits_for_others(const struct consumer_member *member)
{
    for (uint32_t i = 0; i < member->target.count; i++) {
        const struct partition_item *item = &member->target.items[i];

        if (partition_set_find(&member->assigned, item->topic, item->partition) == NULL &&
            consumer_owner_epoch(member->consumer, item->topic, item->partition) != PARTITION_FREE)
            return true;
    }
    return false;
}
