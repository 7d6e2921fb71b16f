#include "base/assert.h"
#include "coordinator/consumer_internal.h"

/*
 * A member that comes, or is there, on its way through a step: what it says, over what is known of it; the records of
 * that; what the group makes of it. The same for both protocols. Who may not is refused before (consumer_heartbeat.c,
 * consumer_classic.c).
 */

/* What is another with it. */
struct change {
    bool is_new;
    bool names;
    bool assignor; /* that the group computes with */
    bool expression;
    bool resolved; /* expression, and which topics match is known already: of others, or there is none any more */
    bool applied;  /* expressions that had waited for somebody are resolved with it */
};

void consumer_subscriber_init(struct consumer_subscriber *who, struct groups *groups, struct step *step,
                              struct group_op *op)
{
    *who = (struct consumer_subscriber){
        .groups = groups, .step = step, .op = op, .rebalance_timeout_ms = -1, .reason = BYTES_LITERAL("")};
    /* A copy of what is in memory, and what the request brings, which is counted. */
    arena_init(&who->arena, CONSUMER_RECORD_BYTES_MAX);
}

void consumer_subscriber_deinit(struct consumer_subscriber *who)
{
    partition_set_deinit(&who->owned);
    arena_deinit(&who->arena);
}

static const struct consumer_member *known(const struct consumer_subscriber *who)
{
    return who->member != NULL ? who->member : who->replaced;
}

enum err consumer_subscriber_name(struct consumer_subscriber *who)
{
    if (who->member_id.size == 0)
        who->member_id = arena_printf(who->op->arena, "%s", uuid_format(uuid_random(who->step->rng)).text);
    return who->member_id.data == NULL ? ERR_NOMEM : ERR_OK;
}

bool consumer_subscriber_is_too_many(const struct consumer_subscriber *who)
{
    const struct consumer_group *consumer = who->consumer;

    return consumer->member_count >= consumer_size_max(who->groups) &&
           consumer_find(consumer, who->member_id) == NULL &&
           (who->instance_id.data == NULL || consumer_find_instance(consumer, who->instance_id) == NULL);
}

static enum err take_names(struct consumer_subscriber *who)
{
    struct consumer_group_member_metadata_value *about = &who->about;

    about->subscribed_topic_names_count = who->name_count;
    about->subscribed_topic_names = arena_array(&who->arena, who->name_count, sizeof(struct bytes));
    if (about->subscribed_topic_names == NULL)
        return ERR_NOMEM;
    for (uint32_t i = 0; i < who->name_count; i++)
        about->subscribed_topic_names[i] = who->names[i];
    consumer_names_sort(about);
    return ERR_OK;
}

enum err consumer_subscriber_describe(struct consumer_subscriber *who)
{
    struct consumer_group_member_metadata_value *about = &who->about;
    enum err err = ERR_OK;

    consumer_about_init(about);
    if (known(who) != NULL)
        err = consumer_about_copy(&known(who)->about, &who->arena, about);
    if (err != ERR_OK)
        return err;
    who->expression_before = about->subscribed_topic_regex;
    if (who->instance_id.data != NULL)
        about->instance_id = who->instance_id;
    if (who->rack_id.data != NULL)
        about->rack_id = who->rack_id;
    if (who->rebalance_timeout_ms != -1)
        about->rebalance_timeout_ms = who->rebalance_timeout_ms;
    if (who->server_assignor.data != NULL)
        about->server_assignor = who->server_assignor;
    if (who->expression.data != NULL)
        about->subscribed_topic_regex = who->expression;
    about->client_id = who->op->client_id.data == NULL ? BYTES_LITERAL("") : who->op->client_id;
    about->client_host = who->op->client_host;
    about->classic_member_metadata = who->classic;
    return who->says_names ? take_names(who) : ERR_OK;
}

size_t consumer_subscriber_bytes(const struct consumer_subscriber *who)
{
    struct group made = {.id = who->op->group_id};
    const struct consumer_group none = {.group = &made}; /* before the first record there is no other */

    return consumer_join_bytes(who->consumer == NULL ? &none : who->consumer, who->step, who->member_id, &who->about,
                               known(who), who->replaced != NULL);
}

/* A static member's place, where it takes one; and record 5, where something of it is another. */
static enum err write_about(struct consumer_subscriber *who, struct change *change)
{
    struct group made = {.id = who->op->group_id};
    struct consumer_group none = {.group = &made};
    enum group_assignor before = ASSIGNOR_UNIFORM;
    enum err err = ERR_OK;

    if (who->replaced != NULL) {
        err = consumer_replace(who->replaced, who->step, &who->arena, who->member_id);
        if (err != ERR_OK)
            return err;
        who->member = consumer_find(who->consumer, who->member_id);
    }
    before = who->consumer == NULL ? who->groups->settings->consumer_assignors[0] : consumer_assignor(who->consumer);
    change->names = who->member == NULL ? who->about.subscribed_topic_names_count > 0
                                        : !consumer_names_equal(&who->member->about, &who->about);
    if (who->member == NULL || !consumer_about_equal(&who->member->about, &who->about))
        err = consumer_write_member(who->consumer == NULL ? &none : who->consumer, who->step, who->member_id,
                                    &who->about);
    if (err != ERR_OK)
        return err;
    who->consumer = group_find(who->groups, who->op->group_id)->consumer;
    who->member = consumer_find(who->consumer, who->member_id);
    assert(who->member != NULL);
    change->assignor = consumer_assignor(who->consumer) != before;
    return ERR_OK;
}

/* As groups.md 3.6: what becomes of the expressions before and after. */
static enum err change_expression(struct consumer_subscriber *who, struct change *change)
{
    struct bytes before = who->expression_before;
    struct bytes now = who->member->about.subscribed_topic_regex;
    const struct consumer_expression *expression = NULL;
    enum err err = ERR_OK;

    if (!bytes_equal(before, now)) {
        change->expression = true;
        expression = before.size == 0 ? NULL : map_get(&who->consumer->expressions, before);
        if (before.size > 0 && (expression == NULL || expression->subscribers == 0))
            err = consumer_write_expression_gone(who->consumer, who->step, before);
        if (err != ERR_OK)
            return err;
        expression = now.size == 0 ? NULL : map_get(&who->consumer->expressions, now);
        change->resolved = now.size == 0 || (expression != NULL && expression->resolved);
    }
    err = consumer_regex_apply(who->consumer, who->step, who->op, who->member, &change->applied);
    if (err == ERR_OK)
        consumer_regex_schedule(who->consumer, who->step, who->op);
    return err;
}

static enum group_cause cause_of(const struct consumer_subscriber *who, const struct change *change)
{
    if (who->upgraded)
        return CAUSE_CONVERTED;
    if (who->replaced != NULL)
        return CAUSE_REPLACED;
    if (change->is_new)
        return CAUSE_JOINED;
    if (change->names || change->expression || change->assignor)
        return CAUSE_REJOINED;
    return CAUSE_METADATA;
}

/* A new epoch of the group, where there is something that its target has not seen. */
static enum err begin_epoch(struct consumer_subscriber *who, const struct change *change)
{
    struct consumer_group *consumer = who->consumer;
    int32_t epoch = consumer->epoch;
    bool asked = change->names || change->resolved || change->assignor;
    enum err err = ERR_OK;

    if (asked || consumer_must_refresh(consumer))
        err = consumer_bump(consumer, who->step, asked);
    if (err == ERR_OK && (consumer->epoch != epoch || who->upgraded))
        consumer_rebalance_begin(consumer, who->step, cause_of(who, change), who->member, who->reason);
    return err;
}

enum err consumer_subscribe(struct consumer_subscriber *who)
{
    struct change change = {.is_new = known(who) == NULL};
    const struct partition_set *owned = who->says_owned ? &who->owned : NULL;
    enum err err = write_about(who, &change);

    if (err == ERR_OK)
        err = change_expression(who, &change);
    if (err == ERR_OK)
        err = begin_epoch(who, &change);
    if (err == ERR_OK && !who->downgrades && !change.applied)
        err = consumer_update_target(who->consumer, who->step);
    if (err == ERR_OK && (!who->downgrades || who->consumer->target_epoch >= who->consumer->epoch))
        err = consumer_reconcile(who->member, who->step, change.names || change.expression, owned, &who->changed);
    if (err != ERR_OK || who->downgrades)
        return err;
    consumer_rebalance_settle(who->consumer, who->step);
    group_timer_stop(who->groups, &who->member->join_timer); /* of a classic member, which it is or was */
    group_timer_stop(who->groups, &who->member->sync_timer);
    consumer_start_session(who->member, who->step);
    return ERR_OK;
}
