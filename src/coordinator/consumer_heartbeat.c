#include <stdarg.h>
#include <stdio.h>

#include "base/assert.h"
#include "coordinator/classic.h"
#include "coordinator/consumer_internal.h"
#include "coordinator/topic_regex.h"

enum { TEXT_BYTES_MAX = 512 };

/* One heartbeat under way. */
struct beat {
    struct groups *groups;
    struct step *step;
    struct group_op *op;
    const struct consumer_group_heartbeat_request *request;
    struct consumer_group_heartbeat_response *response;
    struct consumer_group *consumer;  /* NULL: made by the first record */
    struct bytes member_id;           /* the request's, or a new one */
    struct consumer_member *member;   /* NULL: new, or to be replaced */
    struct consumer_member *replaced; /* a static member that this one takes the place of */
    struct arena arena;
    struct consumer_group_member_metadata_value about; /* what the member becomes */
    struct bytes regex_before;
    struct partition_set owned;
    bool upgraded; /* the group was a classic one */
    bool regex_changed;
    bool regex_resolved; /* the changed expression is resolved already, or there is none any more */
    bool regex_applied;  /* expressions that had waited for somebody are resolved with it */
    bool assignor_changed;
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
    bool known = consumer_assignor_find(request->server_assignor, &assignor);
    struct bytes list = BYTES_LITERAL("");

    for (uint32_t i = 0; known && i < settings->consumer_assignor_count; i++)
        if (settings->consumer_assignors[i] == assignor)
            return false;
    for (uint32_t i = 0; i < settings->consumer_assignor_count; i++)
        list = arena_printf(op->arena, "%.*s%s%s", BYTES_PRINTF(list), i == 0 ? "" : ", ",
                            consumer_assignor_name(settings->consumer_assignors[i]));
    consumer_refuse(step, op, ERR_UNSUPPORTED_ASSIGNOR,
                    "ServerAssignor %.*s is not supported. Supported assignors: %.*s.",
                    BYTES_PRINTF(request->server_assignor), BYTES_PRINTF(list));
    return true;
}

/* ---- what the group shows to be wrong: all of it before the first record ---- */

static bool refuse_group(struct beat *beat)
{
    struct group *group = group_find(beat->groups, beat->op->group_id);
    const char *why = NULL;
    enum err err = ERR_OK;

    if (group != NULL && group->kind == GROUP_CONSUMER) {
        beat->consumer = group->consumer;
        return false;
    }
    if (beat->request->member_epoch != 0) {
        consumer_refuse(beat->step, beat->op, ERR_GROUP_ID_NOT_FOUND,
                        group == NULL ? "Consumer group %.*s not found." : "Group %.*s is not a consumer group.",
                        BYTES_PRINTF(beat->op->group_id));
        return true;
    }
    if (group == NULL || !group_has_members(group))
        return false;
    err = consumer_upgrade_refusal(group, beat->step, &why);
    if (err == ERR_OK)
        return false;
    if (beat->groups->log != NULL)
        log_line_rated(beat->groups->log, &beat->groups->lines, LOG_WARN,
                       "group %.*s stays a classic one, a consumer cannot join it: %s", BYTES_PRINTF(group->id), why);
    consumer_refuse(beat->step, beat->op, err, "Cannot upgrade classic group %.*s to consumer group %s",
                    BYTES_PRINTF(beat->op->group_id), why);
    return true;
}

static bool refuse_full(struct beat *beat)
{
    const struct consumer_group_heartbeat_request *request = beat->request;
    uint32_t max = consumer_size_max(beat->groups);
    struct group *group = group_find(beat->groups, beat->op->group_id);
    uint32_t count = 0;
    bool known = false;

    if (beat->consumer != NULL) {
        count = beat->consumer->member_count;
        known =
            consumer_find(beat->consumer, request->member_id) != NULL ||
            (request->instance_id.data != NULL && consumer_find_instance(beat->consumer, request->instance_id) != NULL);
    } else if (group != NULL) {
        count = consumer_upgrade_count(group, request->member_id, request->instance_id, &known);
    }
    if (count < max || known)
        return false;
    consumer_refuse(beat->step, beat->op, ERR_GROUP_MAX_SIZE_REACHED,
                    "The consumer group has reached its maximum capacity of %u members.", max);
    return true;
}

/* Its epoch; or the one before, where it did not get our answer and goes on from there (KAFKA-16367). */
static bool refuse_epoch(struct beat *beat, const struct consumer_member *member)
{
    int32_t epoch = beat->request->member_epoch;
    const char *how = epoch > member->epoch ? "greater" : "smaller";

    if (epoch == 0 || epoch == member->epoch)
        return false;
    if (epoch < member->epoch && epoch == member->previous_epoch && beat->request->topic_partitions != NULL &&
        consumer_request_owns_only(beat->request, &member->assigned))
        return false;
    consumer_refuse(beat->step, beat->op, ERR_FENCED_MEMBER_EPOCH,
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
    beat->member = beat->consumer == NULL ? NULL : consumer_find(beat->consumer, beat->member_id);
    if (beat->member == NULL && beat->request->member_epoch != 0) {
        consumer_refuse(beat->step, beat->op, ERR_UNKNOWN_MEMBER_ID, "Member %.*s is not a member of group %.*s.",
                        BYTES_PRINTF(beat->member_id), BYTES_PRINTF(beat->op->group_id));
        return true;
    }
    return beat->member != NULL && refuse_epoch(beat, beat->member);
}

static bool refuse_static(struct beat *beat)
{
    struct bytes instance_id = beat->request->instance_id;
    struct consumer_member *member = NULL;

    if (beat->request->member_epoch != 0) {
        beat->member = consumer_static_member(beat->consumer, beat->step, beat->op, instance_id, beat->member_id);
        return beat->member == NULL || refuse_epoch(beat, beat->member);
    }
    member = beat->consumer == NULL ? NULL : consumer_find_instance(beat->consumer, instance_id);
    if (member == NULL) {
        beat->member = beat->consumer == NULL ? NULL : consumer_find(beat->consumer, beat->member_id);
        return false;
    }
    if (!consumer_member_is_classic(member) && member->epoch != EPOCH_LEAVE_STATIC) {
        consumer_refuse(beat->step, beat->op, ERR_UNRELEASED_INSTANCE_ID,
                        "Static member %.*s with instance id %.*s cannot join the group because the instance id is "
                        "owned by %.*s member.",
                        BYTES_PRINTF(beat->member_id), BYTES_PRINTF(instance_id), BYTES_PRINTF(member->id));
        return true;
    }
    beat->replaced = member;
    return false;
}

/* One that a newer version wrote must begin anew. */
static bool refuse_state(struct beat *beat)
{
    const struct consumer_member *member = beat->member;

    if (member == NULL || (member->state >= MEMBER_STABLE && member->state <= MEMBER_UNRELEASED) ||
        (beat->request->topic_partitions != NULL && consumer_request_owned_count(beat->request) == 0))
        return false;
    consumer_refuse(beat->step, beat->op, ERR_FENCED_MEMBER_EPOCH,
                    "The consumer group member is in a unknown state. The member must abandon all its partitions and "
                    "rejoin.");
    return true;
}

static bool refuse_regex(struct beat *beat)
{
    struct bytes text = beat->request->subscribed_topic_regex;
    const struct consumer_expression *known = NULL;
    struct bytes why = {0};
    enum err err = ERR_OK;

    if (text.size == 0 || bytes_equal(text, beat->regex_before))
        return false;
    if (beat->consumer != NULL)
        known = map_get(&beat->consumer->expressions, text);
    if (known != NULL && known->subscribers > 0)
        return false;
    err = topic_regex_check(text, beat->op->arena, &why);
    if (err == ERR_OK)
        return false;
    consumer_refuse(beat->step, beat->op, err == ERR_NOMEM ? ERR_UNKNOWN_SERVER_ERROR : ERR_INVALID_REGULAR_EXPRESSION,
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

/* What the request says of the member, over what is known of it. */
static enum err describe(struct beat *beat)
{
    const struct consumer_group_heartbeat_request *request = beat->request;
    struct consumer_group_member_metadata_value *about = &beat->about;
    const struct consumer_member *known = beat->member != NULL ? beat->member : beat->replaced;
    enum err err = ERR_OK;

    consumer_about_init(about);
    if (known != NULL)
        err = consumer_about_copy(&known->about, &beat->arena, about);
    if (err != ERR_OK)
        return err;
    beat->regex_before = about->subscribed_topic_regex;
    if (request->instance_id.data != NULL)
        about->instance_id = request->instance_id;
    if (request->rack_id.data != NULL)
        about->rack_id = request->rack_id;
    if (request->rebalance_timeout_ms != -1)
        about->rebalance_timeout_ms = request->rebalance_timeout_ms;
    if (request->server_assignor.data != NULL)
        about->server_assignor = request->server_assignor;
    if (request->subscribed_topic_names != NULL) {
        about->subscribed_topic_names_count = request->subscribed_topic_names_count;
        about->subscribed_topic_names =
            arena_array(&beat->arena, request->subscribed_topic_names_count, sizeof(struct bytes));
        if (about->subscribed_topic_names == NULL)
            return ERR_NOMEM;
        for (uint32_t i = 0; i < request->subscribed_topic_names_count; i++)
            about->subscribed_topic_names[i] = request->subscribed_topic_names[i];
        consumer_names_sort(about);
    }
    if (request->subscribed_topic_regex.data != NULL)
        about->subscribed_topic_regex = request->subscribed_topic_regex;
    about->client_id = beat->op->client_id.data == NULL ? BYTES_LITERAL("") : beat->op->client_id;
    about->client_host = beat->op->client_host;
    about->classic_member_metadata = NULL;
    return ERR_OK;
}

static void refuse_size(struct beat *beat)
{
    consumer_refuse(beat->step, beat->op, ERR_UNKNOWN_SERVER_ERROR, "The records of the group would not fit a batch.");
}

/* Before they are sorted: there may be so many that this takes long. */
static bool refuse_names(struct beat *beat)
{
    const struct consumer_group_heartbeat_request *request = beat->request;
    size_t bytes = 0;

    for (uint32_t i = 0; i < request->subscribed_topic_names_count; i++)
        bytes += request->subscribed_topic_names[i].size;
    if (bytes > step_room(beat->step)) {
        refuse_size(beat);
        return true;
    }
    if (beat->consumer == NULL ||
        consumer_names_fit(beat->consumer, request->subscribed_topic_names, request->subscribed_topic_names_count))
        return false;
    consumer_refuse(beat->step, beat->op, ERR_GROUP_MAX_SIZE_REACHED,
                    "The consumer group has reached its maximum of %d topic names.", CONSUMER_GROUP_NAMES_MAX);
    return true;
}

/* What it would write must fit the step's batch, which takes the state with it when it fails. */
static bool refuse_too_large(struct beat *beat)
{
    struct group made = {.id = beat->op->group_id};
    const struct consumer_group none = {.group = &made};
    const struct consumer_group *consumer = beat->consumer == NULL ? &none : beat->consumer;
    const struct consumer_member *known = beat->member != NULL ? beat->member : beat->replaced;
    size_t bytes = 0;
    size_t room = step_room(beat->step);

    if (beat->member != NULL && !consumer_must_refresh(consumer) && consumer->target_epoch >= consumer->epoch &&
        consumer_about_equal(&beat->member->about, &beat->about))
        return false; /* as nearly all are: at most its own assignment is another */
    bytes = consumer_join_bytes(consumer, beat->step, beat->member_id, &beat->about, known, beat->replaced != NULL);
    if (beat->consumer == NULL && group_find(beat->groups, beat->op->group_id) != NULL)
        room /= 2; /* the upgrade may take the other half */
    if (bytes <= room)
        return false;
    refuse_size(beat);
    return true;
}

/* A classic group of that id becomes one of this kind. */
static enum err make_room(struct beat *beat)
{
    struct group *group = group_find(beat->groups, beat->op->group_id);
    enum err err = ERR_OK;

    if (beat->consumer != NULL || group == NULL)
        return ERR_OK;
    err = consumer_upgrade(group, beat->step);
    if (err != ERR_OK || group->consumer == NULL)
        return err;
    beat->consumer = group->consumer;
    beat->upgraded = true;
    /* Who speaks may be one of its members. */
    beat->member = beat->request->instance_id.data == NULL ? consumer_find(beat->consumer, beat->member_id) : NULL;
    if (beat->request->instance_id.data != NULL)
        beat->replaced = consumer_find_instance(beat->consumer, beat->request->instance_id);
    return describe(beat);
}

/* Record 5, where something of the member is another. */
static enum err subscribe(struct beat *beat, bool *names_changed)
{
    struct step *step = beat->step;
    enum group_assignor before = ASSIGNOR_UNIFORM;
    enum err err = ERR_OK;

    if (beat->replaced != NULL) {
        err = consumer_replace(beat->replaced, step, &beat->arena, beat->member_id);
        if (err != ERR_OK)
            return err;
        beat->member = consumer_find(beat->consumer, beat->member_id);
    }
    before = beat->consumer == NULL ? beat->groups->settings->consumer_assignors[0] : consumer_assignor(beat->consumer);
    *names_changed = beat->member == NULL ? beat->about.subscribed_topic_names_count > 0
                                          : !consumer_names_equal(&beat->member->about, &beat->about);
    if (beat->member == NULL || !consumer_about_equal(&beat->member->about, &beat->about)) {
        struct group made = {.id = beat->op->group_id};
        struct consumer_group none = {.group = &made}; /* only the id of it is asked for */

        err =
            consumer_write_member(beat->consumer == NULL ? &none : beat->consumer, step, beat->member_id, &beat->about);
        if (err != ERR_OK)
            return err;
    }
    beat->consumer = group_find(beat->groups, beat->op->group_id)->consumer;
    beat->member = consumer_find(beat->consumer, beat->member_id);
    assert(beat->member != NULL);
    beat->assignor_changed = consumer_assignor(beat->consumer) != before;
    return ERR_OK;
}

/* As groups.md 3.6: what becomes of the expressions before and after. */
static enum err subscribe_regex(struct beat *beat)
{
    struct bytes before = beat->regex_before;
    struct bytes now = beat->member->about.subscribed_topic_regex;
    const struct consumer_expression *expression = NULL;
    enum err err = ERR_OK;

    if (!bytes_equal(before, now)) {
        beat->regex_changed = true;
        expression = before.size == 0 ? NULL : map_get(&beat->consumer->expressions, before);
        if (before.size > 0 && (expression == NULL || expression->subscribers == 0))
            err = consumer_write_expression_gone(beat->consumer, beat->step, before);
        if (err != ERR_OK)
            return err;
        expression = now.size == 0 ? NULL : map_get(&beat->consumer->expressions, now);
        beat->regex_resolved = now.size == 0 || (expression != NULL && expression->resolved);
    }
    err = consumer_regex_apply(beat->consumer, beat->step, beat->op, beat->member, &beat->regex_applied);
    if (err == ERR_OK)
        consumer_regex_schedule(beat->consumer, beat->step, beat->op);
    return err;
}

static enum group_cause cause_of(const struct beat *beat, bool is_new, bool names_changed)
{
    if (beat->upgraded)
        return CAUSE_CONVERTED;
    if (beat->replaced != NULL)
        return CAUSE_REPLACED;
    if (is_new)
        return CAUSE_JOINED;
    if (names_changed || beat->regex_changed || beat->assignor_changed)
        return CAUSE_REJOINED;
    return CAUSE_METADATA;
}

static enum err fill_assignment(struct arena *arena, const struct partition_set *assigned,
                                struct consumer_group_heartbeat_response *response)
{
    struct consumer_group_heartbeat_response_assignment *assignment = arena_alloc(arena, sizeof(*assignment));
    uint32_t at = 0;

    if (assignment == NULL)
        return ERR_NOMEM;
    for (uint32_t from = 0; from < assigned->count; from = partition_set_run(assigned, from))
        assignment->topic_partitions_count++;
    assignment->topic_partitions =
        arena_array(arena, assignment->topic_partitions_count, sizeof(*assignment->topic_partitions));
    if (assignment->topic_partitions == NULL)
        return ERR_NOMEM;
    for (uint32_t from = 0, to = 0; from < assigned->count; from = to, at++) {
        struct consumer_group_heartbeat_response_topic_partitions *topic = &assignment->topic_partitions[at];

        to = partition_set_run(assigned, from);
        topic->topic_id = assigned->items[from].topic;
        topic->partitions_count = to - from;
        topic->partitions = arena_array(arena, to - from, sizeof(*topic->partitions));
        if (topic->partitions == NULL)
            return ERR_NOMEM;
        for (uint32_t i = from; i < to; i++)
            topic->partitions[i - from] = assigned->items[i].partition;
    }
    response->assignment = assignment;
    return ERR_OK;
}

static enum err answer(struct beat *beat, bool changed)
{
    const struct consumer_group_heartbeat_request *request = beat->request;
    struct consumer_group_heartbeat_response *response = beat->response;
    bool full = request->rebalance_timeout_ms != -1 &&
                (request->subscribed_topic_names != NULL || request->subscribed_topic_regex.data != NULL) &&
                request->topic_partitions != NULL;
    enum err err = arena_copy(beat->op->arena, beat->member_id, &response->member_id);

    response->member_epoch = beat->member->epoch;
    response->heartbeat_interval_ms = consumer_heartbeat_ms(beat->consumer->group, beat->step);
    if (err == ERR_OK && (request->member_epoch == 0 || full || changed))
        err = fill_assignment(beat->op->arena, &beat->member->assigned, response);
    return err;
}

static enum err go(struct beat *beat)
{
    bool is_new = false;
    bool names_changed = false;
    bool changed = false;
    int32_t epoch = 0;
    enum err err = make_room(beat);

    is_new = beat->member == NULL && beat->replaced == NULL;
    if (err == ERR_OK)
        err = subscribe(beat, &names_changed);
    if (err == ERR_OK)
        err = subscribe_regex(beat);
    if (err != ERR_OK)
        return err;
    epoch = beat->consumer->epoch;
    if (names_changed || beat->regex_resolved || beat->assignor_changed || consumer_must_refresh(beat->consumer))
        err =
            consumer_bump(beat->consumer, beat->step, names_changed || beat->regex_resolved || beat->assignor_changed);
    if (err == ERR_OK && (beat->consumer->epoch != epoch || beat->upgraded))
        consumer_rebalance_begin(beat->consumer, beat->step, cause_of(beat, is_new, names_changed), beat->member,
                                 BYTES_LITERAL(""));
    if (err == ERR_OK && !beat->regex_applied)
        err = consumer_update_target(beat->consumer, beat->step);
    if (err == ERR_OK)
        err = consumer_reconcile(beat->member, beat->step, names_changed || beat->regex_changed,
                                 beat->request->topic_partitions == NULL ? NULL : &beat->owned, &changed);
    if (err != ERR_OK)
        return err;
    consumer_rebalance_settle(beat->consumer, beat->step);
    group_timer_stop(beat->groups, &beat->member->join_timer); /* it may have been a classic member */
    group_timer_stop(beat->groups, &beat->member->sync_timer);
    consumer_start_session(beat->member, beat->step);
    return answer(beat, changed);
}

/* A new name for a member that has none, in the form of Kafka's ids. */
static struct bytes new_member_id(struct step *step, struct arena *arena)
{
    uint8_t random[UUID_BYTES];
    struct uuid id = {{0}};

    rng_fill(step->rng, random, sizeof(random));
    id = uuid_from_random(random);
    return arena_printf(arena, "%s", uuid_format(id).text);
}

/* Everything that may be refused is, before the first record is written. True: it was answered. */
static bool refuse_any(struct beat *beat, enum err *err)
{
    if (refuse_group(beat) || refuse_full(beat))
        return true;
    if (beat->member_id.size == 0)
        beat->member_id = new_member_id(beat->step, beat->op->arena);
    if (beat->member_id.data == NULL) {
        *err = ERR_NOMEM;
        return false;
    }
    if (refuse_member(beat) || refuse_state(beat) || refuse_names(beat))
        return true;
    *err = consumer_request_owned(beat->request, &beat->owned);
    if (*err == ERR_OK)
        *err = describe(beat);
    return *err == ERR_OK && (refuse_regex(beat) || refuse_too_large(beat));
}

static void beat_once(struct groups *groups, struct step *step, struct group_op *op)
{
    const struct consumer_group_heartbeat_request *request = op->request;
    struct beat beat = {.groups = groups,
                        .step = step,
                        .op = op,
                        .request = request,
                        .response = op->response,
                        .member_id = request->member_id};
    uint32_t since = step->records;
    enum err err = ERR_OK;

    /* A copy of what is in memory, and names, which are counted. */
    arena_init(&beat.arena, CONSUMER_RECORD_BYTES_MAX);
    if (refuse_any(&beat, &err))
        goto out;
    if (err == ERR_OK)
        err = go(&beat);
    if (err != ERR_OK)
        step_fail(step, since, err);
    op->op.err = err;
    step_answer(step, &op->op);
out:
    partition_set_deinit(&beat.owned);
    arena_deinit(&beat.arena);
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
