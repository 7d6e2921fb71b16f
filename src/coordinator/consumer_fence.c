#include "base/assert.h"
#include "coordinator/consumer_internal.h"
#include "protocol/gen/consumer_group_regular_expression_record.h"

enum err consumer_write_expression_gone(struct consumer_group *consumer, struct step *step, struct bytes expression)
{
    struct consumer_group_regular_expression_key key = {.group_id = consumer->group->id,
                                                        .regular_expression = expression};

    return step_write(step, &consumer_group_regular_expression_key_message, &key,
                      &consumer_group_regular_expression_value_message, 0, NULL);
}

/* Those that the members subscribed to and nobody does any more. texts: of the arena. */
static enum err write_expressions_gone(struct consumer_group *consumer, struct step *step, const struct bytes *texts,
                                       uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const struct consumer_expression *expression = map_get(&consumer->expressions, texts[i]);
        bool seen = false;
        enum err err = ERR_OK;

        for (uint32_t j = 0; j < i && !seen; j++)
            seen = bytes_equal(texts[j], texts[i]);
        if (seen || (expression != NULL && expression->subscribers > 0))
            continue;
        err = consumer_write_expression_gone(consumer, step, texts[i]);
        if (err != ERR_OK)
            return err;
    }
    return ERR_OK;
}

enum err consumer_fence(struct consumer_group *consumer, struct step *step, struct consumer_member *const *members,
                        uint32_t count, enum group_cause cause, struct bytes reason)
{
    struct arena arena;
    struct bytes *ids = NULL;
    struct bytes *texts = NULL;
    uint32_t text_count = 0;
    int64_t hash = 0;
    bool emptied = count == consumer->member_count;
    enum err err = ERR_NOMEM;

    if (count == 0)
        return ERR_OK;
    if (consumer_may_downgrade(consumer, step, members, count, false))
        return consumer_downgrade_without(consumer, step, members, count, reason);
    arena_init(&arena, CONSUMER_RECORD_BYTES_MAX);
    ids = arena_array(&arena, count, sizeof(*ids));
    texts = arena_array(&arena, count, sizeof(*texts));
    if (ids == NULL || texts == NULL)
        goto out;
    for (uint32_t i = 0; i < count; i++) { /* copies: the members go with their tombstones */
        err = arena_copy(&arena, members[i]->id, &ids[i]);
        if (err == ERR_OK && members[i]->about.subscribed_topic_regex.size > 0)
            err = arena_copy(&arena, members[i]->about.subscribed_topic_regex, &texts[text_count++]);
        if (err != ERR_OK)
            goto out;
    }
    consumer_rebalance_begin(consumer, step, cause, members[0], reason);
    for (uint32_t i = 0; i < count; i++) {
        err = consumer_write_member_gone(consumer, step, ids[i]);
        if (err != ERR_OK)
            goto out;
    }
    err = write_expressions_gone(consumer, step, texts, text_count);
    if (err == ERR_OK)
        err = consumer_hash(consumer, step, &hash);
    if (err == ERR_OK)
        err = consumer_write_epoch(consumer, step, consumer_next_epoch(consumer), hash);
    if (err == ERR_OK && emptied)
        err = consumer_write_target_epoch(consumer, step, consumer->epoch, 0);
    if (err == ERR_OK)
        consumer_rebalance_settle(consumer, step);
out:
    arena_deinit(&arena);
    return err;
}

/* A static member that comes back soon: it keeps its place, and its session goes on. */
static enum err leave_for_now(struct consumer_member *member, struct step *step)
{
    struct partition_set assigned = {0};
    struct partition_set none = {0};
    enum err err = partition_set_copy(&assigned, &member->assigned);

    if (err != ERR_OK)
        return err;
    for (uint32_t i = 0; i < assigned.count; i++)
        assigned.items[i].epoch = 0;
    err = consumer_write_current(member->consumer, step, member->id,
                                 &(struct consumer_current){.epoch = EPOCH_LEAVE_STATIC,
                                                            .previous_epoch = member->previous_epoch,
                                                            .state = member->state,
                                                            .assigned = &assigned,
                                                            .revoking = &none});
    partition_set_deinit(&assigned);
    return err;
}

void consumer_leave(struct groups *groups, struct step *step, struct group_op *op)
{
    const struct consumer_group_heartbeat_request *request = op->request;
    struct consumer_group_heartbeat_response *response = op->response;
    struct group *group = group_find(groups, op->group_id);
    uint32_t since = step->records;
    struct consumer_member *member = NULL;
    bool for_now = false;
    enum err err = ERR_OK;

    if (group == NULL) {
        consumer_refuse(step, op, ERR_GROUP_ID_NOT_FOUND, "Group %.*s not found.", BYTES_PRINTF(op->group_id));
        return;
    }
    if (group->kind != GROUP_CONSUMER) {
        consumer_refuse(step, op, ERR_GROUP_ID_NOT_FOUND, "Group %.*s is not a consumer group.",
                        BYTES_PRINTF(op->group_id));
        return;
    }
    if (request->instance_id.data == NULL) {
        member = consumer_find(group->consumer, request->member_id);
        if (member == NULL) {
            consumer_refuse(step, op, ERR_UNKNOWN_MEMBER_ID, "Member %.*s is not a member of group %.*s.",
                            BYTES_PRINTF(request->member_id), BYTES_PRINTF(op->group_id));
            return;
        }
    } else {
        member = consumer_static_member(group->consumer, step, op, request->instance_id, request->member_id);
        if (member == NULL)
            return;
    }
    for_now = request->instance_id.data != NULL && request->member_epoch == EPOCH_LEAVE_STATIC;
    if (for_now && !consumer_current_fits(member, step)) { /* max.message.bytes was lowered */
        consumer_refuse(step, op, ERR_UNKNOWN_SERVER_ERROR, "The record of the member would not fit a batch.");
        return;
    }
    response->member_id = request->member_id;
    response->member_epoch = request->member_epoch;
    if (for_now)
        err = leave_for_now(member, step);
    else
        err = consumer_fence(group->consumer, step, &member, 1, CAUSE_LEFT, BYTES_LITERAL(""));
    if (err != ERR_OK)
        step_fail(step, since, err);
    op->op.err = err;
    step_answer(step, &op->op);
}

/* ---- time-outs ---- */

static void expire(struct consumer_member *member, struct loop_timer *timer, enum group_cause cause)
{
    struct consumer_group *consumer = member->consumer;
    struct step *step = consumer->group->groups->step;
    enum err err = ERR_OK;

    assert(step != NULL && member->subscribed);
    /* What makes the group a classic one is done once, or never: then nobody has the partitions of who is gone. */
    if (consumer_downgrade_waits(consumer, step, member)) {
        group_timer_start(consumer->group->groups, timer, step->now_ns);
        return;
    }
    err = consumer_fence(consumer, step, &member, 1, cause, BYTES_LITERAL(""));
    if (err != ERR_OK && step->err == ERR_OK)
        step->err = err;
}

static void session_fired(struct loop_timer *timer)
{
    expire(LIST_ENTRY(timer, struct consumer_member, session_timer), timer, CAUSE_SESSION);
}

static void rebalance_fired(struct loop_timer *timer)
{
    struct consumer_member *member = LIST_ENTRY(timer, struct consumer_member, rebalance_timer);

    if (member->epoch == member->rebalance_epoch)
        expire(member, timer, CAUSE_REBALANCE_LATE);
}

static void join_fired(struct loop_timer *timer)
{
    expire(LIST_ENTRY(timer, struct consumer_member, join_timer), timer, CAUSE_REBALANCE_LATE);
}

static void sync_fired(struct loop_timer *timer)
{
    expire(LIST_ENTRY(timer, struct consumer_member, sync_timer), timer, CAUSE_REBALANCE_LATE);
}

void consumer_timers_init(struct consumer_member *member)
{
    member->session_timer.fired = session_fired;
    member->rebalance_timer.fired = rebalance_fired;
    member->join_timer.fired = join_fired;
    member->sync_timer.fired = sync_fired;
}
