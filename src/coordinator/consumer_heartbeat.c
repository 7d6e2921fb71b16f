#include <stdarg.h>
#include <stdio.h>

#include "coordinator/consumer_internal.h"
#include "coordinator/topic_regex.h"

enum { TEXT_BYTES_MAX = 512 };

/* One heartbeat under way. */
struct beat {
    struct consumer_subscriber who;
    const struct consumer_group_heartbeat_request *request;
    struct consumer_group_heartbeat_response *response;
};

void consumer_refuse(struct step *step, struct group_op *op, enum err err, const char *format, ...)
{
    struct consumer_group_heartbeat_response *response = op->response;
    char text[TEXT_BYTES_MAX];
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    consumer_group_heartbeat_response_init(response);
    response->error_code = err_wire(err);
    response->error_message = arena_printf(op->arena, "%s", text);
    step_answer(step, &op->op);
}

/* ---- what the request itself shows to be wrong (groups.md 3.2; consumer_request.c) ---- */

static bool refuse_assignor(struct step *step, struct group_op *op, const struct group_settings *settings)
{
    const struct consumer_group_heartbeat_request *request = op->request;
    enum group_assignor assignor = ASSIGNOR_UNIFORM;
    bool known = group_assignor_find(request->server_assignor, &assignor);
    struct bytes list = BYTES_LITERAL("");

    for (uint32_t i = 0; known && i < settings->consumer_assignor_count; i++)
        if (settings->consumer_assignors[i] == assignor)
            return false;
    for (uint32_t i = 0; i < settings->consumer_assignor_count; i++)
        list = arena_printf(op->arena, "%.*s%s%s", BYTES_PRINTF(list), i == 0 ? "" : ", ",
                            group_assignor_name(settings->consumer_assignors[i]));
    consumer_refuse(step, op, ERR_UNSUPPORTED_ASSIGNOR,
                    "ServerAssignor %.*s is not supported. Supported assignors: %.*s.",
                    BYTES_PRINTF(request->server_assignor), BYTES_PRINTF(list));
    return true;
}

/* ---- what the group shows to be wrong: all of it before the first record ---- */

static bool refuse_group(struct beat *beat)
{
    struct consumer_subscriber *who = &beat->who;
    struct group *group = group_find(who->groups, who->op->group_id);
    const char *why = NULL;
    enum err err = ERR_OK;

    if (group != NULL && group->kind == GROUP_CONSUMER) {
        who->consumer = group->consumer;
        return false;
    }
    if (beat->request->member_epoch != 0) {
        consumer_refuse(who->step, who->op, ERR_GROUP_ID_NOT_FOUND,
                        group == NULL ? "Consumer group %.*s not found." : "Group %.*s is not a consumer group.",
                        BYTES_PRINTF(who->op->group_id));
        return true;
    }
    if (group == NULL || !group_has_members(group))
        return false;
    err = consumer_upgrade_refusal(group, who->step, &why);
    if (err == ERR_OK)
        return false;
    if (err == ERR_NOMEM) {
        who->op->op.err = err;
        step_answer(who->step, &who->op->op);
        return true;
    }
    if (who->groups->log != NULL)
        log_line_rated(who->groups->log, &who->groups->lines, LOG_WARN,
                       "group %.*s stays a classic one, a consumer cannot join it: %s", BYTES_PRINTF(group->id), why);
    consumer_refuse(who->step, who->op, err, "Cannot upgrade classic group %.*s to consumer group %s",
                    BYTES_PRINTF(who->op->group_id), why);
    return true;
}

static bool refuse_full(struct beat *beat)
{
    struct consumer_subscriber *who = &beat->who;
    uint32_t max = consumer_size_max(who->groups);
    struct group *group = group_find(who->groups, who->op->group_id);
    bool full = false;

    if (who->consumer != NULL) {
        full = consumer_subscriber_is_too_many(who);
    } else if (group != NULL) {
        bool known = false;

        full = consumer_upgrade_count(group, who->member_id, who->instance_id, &known) >= max && !known;
    }
    if (full)
        consumer_refuse(who->step, who->op, ERR_GROUP_MAX_SIZE_REACHED,
                        "The consumer group has reached its maximum capacity of %u members.", max);
    return full;
}

/* Its epoch; or the one before, where it did not get our answer and goes on from there (KAFKA-16367). */
static bool refuse_epoch(struct beat *beat, const struct consumer_member *member)
{
    struct consumer_subscriber *who = &beat->who;
    int32_t epoch = beat->request->member_epoch;
    const char *how = epoch > member->epoch ? "greater" : "smaller";

    if (epoch == 0 || epoch == member->epoch)
        return false;
    if (epoch < member->epoch && epoch == member->previous_epoch && beat->request->topic_partitions != NULL &&
        consumer_request_owns_only(beat->request, &member->assigned))
        return false;
    consumer_refuse(who->step, who->op, ERR_FENCED_MEMBER_EPOCH,
                    "The consumer group member has a %s member epoch (%d) than the one known by the group coordinator "
                    "(%d). The member must abandon all its partitions and rejoin.",
                    how, epoch, member->epoch);
    return true;
}

struct consumer_member *consumer_static_member(struct consumer_group *consumer, struct step *step, struct group_op *op,
                                               struct bytes instance_id, struct bytes member_id)
{
    struct consumer_member *member = consumer == NULL ? NULL : consumer_find_instance(consumer, instance_id);

    if (member == NULL) {
        consumer_refuse(step, op, ERR_UNKNOWN_MEMBER_ID, "Instance id %.*s is unknown.", BYTES_PRINTF(instance_id));
        return NULL;
    }
    if (!bytes_equal(member->id, member_id)) {
        consumer_refuse(step, op, ERR_FENCED_INSTANCE_ID,
                        "Static member %.*s with instance id %.*s was fenced by member %.*s.", BYTES_PRINTF(member_id),
                        BYTES_PRINTF(instance_id), BYTES_PRINTF(member->id));
        return NULL;
    }
    return member;
}

static bool refuse_dynamic(struct beat *beat)
{
    struct consumer_subscriber *who = &beat->who;

    who->member = who->consumer == NULL ? NULL : consumer_find(who->consumer, who->member_id);
    if (who->member == NULL && beat->request->member_epoch != 0) {
        consumer_refuse(who->step, who->op, ERR_UNKNOWN_MEMBER_ID, "Member %.*s is not a member of group %.*s.",
                        BYTES_PRINTF(who->member_id), BYTES_PRINTF(who->op->group_id));
        return true;
    }
    return who->member != NULL && refuse_epoch(beat, who->member);
}

static bool refuse_static(struct beat *beat)
{
    struct consumer_subscriber *who = &beat->who;
    struct bytes instance_id = beat->request->instance_id;
    struct consumer_member *member = NULL;

    if (beat->request->member_epoch != 0) {
        who->member = consumer_static_member(who->consumer, who->step, who->op, instance_id, who->member_id);
        return who->member == NULL || refuse_epoch(beat, who->member);
    }
    member = who->consumer == NULL ? NULL : consumer_find_instance(who->consumer, instance_id);
    if (member == NULL) {
        who->member = who->consumer == NULL ? NULL : consumer_find(who->consumer, who->member_id);
        return false;
    }
    if (!consumer_member_is_classic(member) && member->epoch != EPOCH_LEAVE_STATIC) {
        consumer_refuse(who->step, who->op, ERR_UNRELEASED_INSTANCE_ID,
                        "Static member %.*s with instance id %.*s cannot join the group because the instance id is "
                        "owned by %.*s member.",
                        BYTES_PRINTF(who->member_id), BYTES_PRINTF(instance_id), BYTES_PRINTF(member->id));
        return true;
    }
    who->replaced = member;
    return false;
}

/* One that a newer version wrote must begin anew. */
static bool refuse_state(struct beat *beat)
{
    struct consumer_subscriber *who = &beat->who;
    const struct consumer_member *member = who->member;

    if (member == NULL || (member->state >= MEMBER_STABLE && member->state <= MEMBER_UNRELEASED) ||
        (beat->request->topic_partitions != NULL && consumer_request_owned_count(beat->request) == 0))
        return false;
    consumer_refuse(who->step, who->op, ERR_FENCED_MEMBER_EPOCH,
                    "The consumer group member is in a unknown state. The member must abandon all its partitions and "
                    "rejoin.");
    return true;
}

static bool refuse_regex(struct beat *beat)
{
    struct consumer_subscriber *who = &beat->who;
    struct bytes text = beat->request->subscribed_topic_regex;
    const struct consumer_expression *known = NULL;
    struct bytes why = {0};
    enum err err = ERR_OK;

    if (text.size == 0 || bytes_equal(text, who->expression_before))
        return false;
    if (who->consumer != NULL)
        known = map_get(&who->consumer->expressions, text);
    if (known != NULL && known->subscribers > 0)
        return false;
    err = topic_regex_check(text, who->op->arena, &why);
    if (err == ERR_OK)
        return false;
    consumer_refuse(who->step, who->op, err == ERR_NOMEM ? ERR_UNKNOWN_SERVER_ERROR : ERR_INVALID_REGULAR_EXPRESSION,
                    "SubscribedTopicRegex `%.*s` is not a valid regular expression: %.*s.", BYTES_PRINTF(text),
                    BYTES_PRINTF(why));
    return true;
}

/* ---- what is done ---- */

/* Whom the request is of. True: it was refused. */
static bool refuse_member(struct beat *beat)
{
    return beat->request->instance_id.data == NULL ? refuse_dynamic(beat) : refuse_static(beat);
}

static void refuse_size(struct beat *beat)
{
    consumer_refuse(beat->who.step, beat->who.op, ERR_UNKNOWN_SERVER_ERROR,
                    "The records of the group would not fit a batch.");
}

/* Before they are sorted: there may be so many that this takes long. */
static bool refuse_names(struct beat *beat)
{
    struct consumer_subscriber *who = &beat->who;
    const struct consumer_group_heartbeat_request *request = beat->request;
    size_t bytes = 0;

    for (uint32_t i = 0; i < request->subscribed_topic_names_count; i++)
        bytes += request->subscribed_topic_names[i].size;
    if (bytes > step_room(who->step)) {
        refuse_size(beat);
        return true;
    }
    if (who->consumer == NULL ||
        consumer_names_fit(who->consumer, request->subscribed_topic_names, request->subscribed_topic_names_count))
        return false;
    consumer_refuse(who->step, who->op, ERR_GROUP_MAX_SIZE_REACHED,
                    "The consumer group has reached its maximum of %d topic names.", CONSUMER_GROUP_NAMES_MAX);
    return true;
}

/* What it would write must fit the step's batch, which takes the state with it when it fails. */
static bool refuse_too_large(struct beat *beat)
{
    const struct consumer_subscriber *who = &beat->who;
    size_t room = step_room(who->step);

    if (who->member != NULL && !consumer_must_refresh(who->consumer) &&
        who->consumer->target_epoch >= who->consumer->epoch && consumer_about_equal(&who->member->about, &who->about))
        return false; /* as nearly all are: at most its own assignment is another */
    if (who->consumer == NULL && group_find(who->groups, who->op->group_id) != NULL)
        room /= 2; /* the upgrade may take the other half */
    if (consumer_subscriber_bytes(who) <= room)
        return false;
    refuse_size(beat);
    return true;
}

/* A classic group of that id becomes one of this kind. */
static enum err make_room(struct beat *beat)
{
    struct consumer_subscriber *who = &beat->who;
    struct group *group = group_find(who->groups, who->op->group_id);
    enum err err = ERR_OK;

    if (who->consumer != NULL || group == NULL)
        return ERR_OK;
    err = consumer_upgrade(group, who->step);
    if (err != ERR_OK || group->consumer == NULL)
        return err;
    who->consumer = group->consumer;
    who->upgraded = true;
    /* Who speaks may be one of its members. */
    who->member = who->instance_id.data == NULL ? consumer_find(who->consumer, who->member_id) : NULL;
    if (who->instance_id.data != NULL)
        who->replaced = consumer_find_instance(who->consumer, who->instance_id);
    return consumer_subscriber_describe(who);
}

static enum err fill_assignment(struct arena *arena, const struct partition_set *assigned,
                                struct consumer_group_heartbeat_response *response)
{
    struct consumer_group_heartbeat_response_assignment *assignment = arena_alloc(arena, sizeof(*assignment));
    struct partition_run run;
    uint32_t at = 0;

    if (assignment == NULL)
        return ERR_NOMEM;
    assignment->topic_partitions =
        arena_array(arena, partition_set_topics(assigned), sizeof(*assignment->topic_partitions));
    if (assignment->topic_partitions == NULL)
        return ERR_NOMEM;
    while (partition_set_next(assigned, &at, &run)) {
        struct consumer_group_heartbeat_response_topic_partitions *topic =
            &assignment->topic_partitions[assignment->topic_partitions_count++];

        topic->topic_id = run.topic;
        topic->partitions_count = run.count;
        topic->partitions = partition_run_numbers(&run, arena);
        if (topic->partitions == NULL)
            return ERR_NOMEM;
    }
    response->assignment = assignment;
    return ERR_OK;
}

static enum err answer(struct beat *beat)
{
    const struct consumer_subscriber *who = &beat->who;
    const struct consumer_group_heartbeat_request *request = beat->request;
    struct consumer_group_heartbeat_response *response = beat->response;
    bool full = request->rebalance_timeout_ms != -1 &&
                (request->subscribed_topic_names != NULL || request->subscribed_topic_regex.data != NULL) &&
                request->topic_partitions != NULL;
    enum err err = arena_copy(who->op->arena, who->member_id, &response->member_id);

    response->member_epoch = who->member->epoch;
    response->heartbeat_interval_ms = consumer_heartbeat_ms(who->consumer->group, who->step);
    if (err == ERR_OK && (request->member_epoch == 0 || full || who->changed))
        err = fill_assignment(who->op->arena, &who->member->assigned, response);
    return err;
}

static enum err go(struct beat *beat)
{
    enum err err = make_room(beat);

    if (err == ERR_OK)
        err = consumer_subscribe(&beat->who);
    return err == ERR_OK ? answer(beat) : err;
}

/* Everything that may be refused is, before the first record is written. True: it was answered. */
static bool refuse_any(struct beat *beat, enum err *err)
{
    struct consumer_subscriber *who = &beat->who;

    if (refuse_group(beat) || refuse_full(beat))
        return true;
    *err = consumer_subscriber_name(who);
    if (*err != ERR_OK)
        return false;
    if (refuse_member(beat) || refuse_state(beat) || refuse_names(beat))
        return true;
    *err = consumer_request_owned(beat->request, &who->owned);
    if (*err == ERR_OK)
        *err = consumer_subscriber_describe(who);
    return *err == ERR_OK && (refuse_regex(beat) || refuse_too_large(beat));
}

/* What the request says of the member. */
static void read_request(struct beat *beat)
{
    const struct consumer_group_heartbeat_request *request = beat->request;
    struct consumer_subscriber *who = &beat->who;

    who->member_id = request->member_id;
    who->instance_id = request->instance_id;
    who->rack_id = request->rack_id;
    who->server_assignor = request->server_assignor;
    who->expression = request->subscribed_topic_regex;
    who->names = request->subscribed_topic_names;
    who->name_count = request->subscribed_topic_names_count;
    who->says_names = request->subscribed_topic_names != NULL;
    who->says_owned = request->topic_partitions != NULL;
    who->rebalance_timeout_ms = request->rebalance_timeout_ms;
}

static void beat_once(struct groups *groups, struct step *step, struct group_op *op)
{
    struct beat beat = {.request = op->request, .response = op->response};
    uint32_t since = step->records;
    enum err err = ERR_OK;

    consumer_subscriber_init(&beat.who, groups, step, op);
    read_request(&beat);
    if (refuse_any(&beat, &err))
        goto out;
    if (err == ERR_OK)
        err = go(&beat);
    if (err != ERR_OK)
        step_fail(step, since, err);
    op->op.err = err;
    step_answer(step, &op->op);
out:
    consumer_subscriber_deinit(&beat.who);
}

void consumer_heartbeat(struct groups *groups, struct step *step, struct group_op *op)
{
    const struct consumer_group_heartbeat_request *request = op->request;
    const char *mistake = NULL;

    consumer_group_heartbeat_response_init(op->response);
    if (!groups->settings->consumer_enabled) {
        consumer_refuse(step, op, ERR_UNSUPPORTED_VERSION, "The consumer group protocol is not enabled.");
        return;
    }
    mistake = consumer_request_mistake(request, op->version);
    if (mistake != NULL) {
        consumer_refuse(step, op, ERR_INVALID_REQUEST, "%s", mistake);
        return;
    }
    if (request->server_assignor.data != NULL && refuse_assignor(step, op, groups->settings))
        return;
    if (request->member_epoch < 0)
        consumer_leave(groups, step, op);
    else
        beat_once(groups, step, op);
}
