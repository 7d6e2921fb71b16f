#include "base/assert.h"
#include "coordinator/classic.h"
#include "coordinator/consumer_internal.h"
#include "coordinator/embedded.h"
#include "coordinator/group_versions.h"
#include "protocol/gen/heartbeat.h"
#include "protocol/gen/join_group.h"
#include "protocol/gen/leave_group.h"
#include "protocol/gen/sync_group.h"

#define NS_PER_MS INT64_C(1000000)

static bool is_armed(const struct loop_timer *timer)
{
    return timer->heap_slot != 0;
}

/* It is told to join again: within its rebalance time-out. */
static void expect_join(struct consumer_member *member, struct step *step)
{
    if (!is_armed(&member->join_timer))
        group_timer_start(member->consumer->group->groups, &member->join_timer,
                          step->now_ns + member->about.rebalance_timeout_ms * NS_PER_MS);
}

/* ERR_UNKNOWN_MEMBER_ID, ERR_FENCED_INSTANCE_ID. */
static enum err find_member(const struct consumer_group *consumer, struct bytes id, struct bytes instance_id,
                            struct consumer_member **member)
{
    *member = instance_id.data == NULL ? consumer_find(consumer, id) : consumer_find_instance(consumer, instance_id);
    if (*member == NULL)
        return ERR_UNKNOWN_MEMBER_ID;
    return bytes_equal((*member)->id, id) ? ERR_OK : ERR_FENCED_INSTANCE_ID;
}

static enum err find_classic(const struct consumer_group *consumer, struct bytes id, struct bytes instance_id,
                             int32_t generation, struct consumer_member **member)
{
    enum err err = find_member(consumer, id, instance_id, member);

    if (err != ERR_OK)
        return err;
    if (!consumer_member_is_classic(*member))
        return ERR_UNKNOWN_MEMBER_ID;
    return (*member)->epoch == generation ? ERR_OK : ERR_ILLEGAL_GENERATION;
}

/* ---- JoinGroup ---- */

struct join {
    struct consumer_group *consumer;
    struct step *step;
    struct group_op *op;
    const struct join_group_request *request;
    struct arena arena;
    struct arena reading; /* what its subscription says */
    struct bytes member_id;
    bool is_unknown; /* it came without an id */
    struct consumer_member *member;
    struct consumer_member *replaced;
    bool downgrade; /* with it, all are classic */
    struct classic_member_metadata classic;
    struct consumer_protocol_subscription subscription;
    struct consumer_group_member_metadata_value about;
    struct partition_set owned;
    bool names_changed;
    bool regex_changed;
    bool regex_applied;
};

static void refuse_join(struct step *step, struct group_op *op, enum err err, struct bytes member_id)
{
    struct join_group_response *response = op->response;

    join_group_response_init(response);
    response->error_code = err_wire(err);
    response->member_id = member_id;
    response->protocol_name = op->version >= JOIN_NULL_PROTOCOL_SINCE ? (struct bytes){0} : BYTES_LITERAL("");
    step_answer(step, &op->op);
}

static bool is_supported(const struct consumer_group *consumer, const struct join_group_request *request)
{
    if (!bytes_equal(request->protocol_type, BYTES_LITERAL("consumer")))
        return false;
    for (uint32_t i = 0; i < request->protocols_count; i++)
        if (protocol_support_count(&consumer->supported, request->protocols[i].name) == consumer->classic_count)
            return true;
    return false;
}

static bool is_full(const struct join *join)
{
    const struct join_group_request *request = join->request;
    uint32_t max = consumer_size_max(join->consumer->group->groups);

    if (request->group_instance_id.data != NULL &&
        consumer_find_instance(join->consumer, request->group_instance_id) != NULL)
        return false;
    return join->consumer->member_count >= max && consumer_find(join->consumer, join->member_id) == NULL;
}

static enum err new_member_id(struct join *join)
{
    uint8_t random[UUID_BYTES];

    rng_fill(join->step->rng, random, sizeof(random));
    join->member_id = arena_printf(join->op->arena, "%s", uuid_format(uuid_from_random(random)).text);
    return join->member_id.data == NULL ? ERR_NOMEM : ERR_OK;
}

/* What is too much is refused before it is sorted, or anything is written. */
static enum err read_subscription(struct join *join)
{
    const struct join_group_request *request = join->request;
    struct consumer_protocol_subscription *subscription = &join->subscription;
    uint32_t owned = 0;
    size_t bytes = 0;
    enum err err = ERR_OK;

    for (uint32_t i = 0; i < request->protocols_count; i++)
        bytes += request->protocols[i].name.size + request->protocols[i].metadata.size;
    if (bytes > step_room(join->step))
        return ERR_UNKNOWN_SERVER_ERROR;
    err = embedded_read_subscription(request->protocols[0].metadata, &join->reading, subscription);
    for (uint32_t i = 0; err == ERR_OK && i < subscription->owned_partitions_count && owned <= CONSUMER_OWNED_MAX; i++)
        owned += subscription->owned_partitions[i].partitions_count;
    if (err == ERR_OK && (subscription->topics_count > CONSUMER_NAMES_MAX || owned > CONSUMER_OWNED_MAX))
        err = ERR_INVALID_REQUEST;
    if (err == ERR_OK && !consumer_names_fit(join->consumer, subscription->topics, subscription->topics_count))
        err = ERR_GROUP_MAX_SIZE_REACHED;
    if (err == ERR_OK)
        err = consumer_read_owned(subscription, join->step, &join->owned);
    return err == ERR_MALFORMED ? ERR_INCONSISTENT_GROUP_PROTOCOL : err;
}

/* All that may be refused, before the first record. member_id of a refusal: the one that counts from now on. */
static enum err check_join(struct join *join)
{
    const struct join_group_request *request = join->request;
    struct bytes instance_id = request->group_instance_id;
    struct consumer_member *known = NULL;
    enum err err = ERR_OK;

    if (join->consumer->group->groups->settings->migration == MIGRATION_DISABLED)
        return ERR_INCONSISTENT_GROUP_PROTOCOL;
    join->is_unknown = request->member_id.size == 0;
    join->member_id = request->member_id;
    if (join->is_unknown) {
        err = new_member_id(join);
        if (err != ERR_OK)
            return err;
    }
    if (is_full(join))
        return ERR_GROUP_MAX_SIZE_REACHED;
    if (!is_supported(join->consumer, request))
        return ERR_INCONSISTENT_GROUP_PROTOCOL;
    if (join->is_unknown && instance_id.data == NULL && join->op->version >= JOIN_ID_REQUIRED_SINCE)
        return ERR_MEMBER_ID_REQUIRED;
    if (instance_id.data == NULL) {
        join->member = consumer_find(join->consumer, join->member_id);
    } else if (join->is_unknown) {
        known = consumer_find_instance(join->consumer, instance_id);
        join->replaced = known;
    } else {
        err = find_member(join->consumer, join->member_id, instance_id, &join->member);
        if (err != ERR_OK)
            return err;
        known = join->member;
    }
    join->downgrade = known != NULL && consumer_may_downgrade(join->consumer, join->step, &known, 1, true);
    return read_subscription(join);
}

static enum err describe(struct join *join)
{
    const struct join_group_request *request = join->request;
    const struct consumer_member *known = join->member != NULL ? join->member : join->replaced;
    struct consumer_group_member_metadata_value *about = &join->about;
    enum err err = ERR_OK;

    consumer_about_init(about);
    if (known != NULL)
        err = consumer_about_copy(&known->about, &join->arena, about);
    if (err != ERR_OK)
        return err;
    if (request->group_instance_id.data != NULL)
        about->instance_id = request->group_instance_id;
    if (join->subscription.rack_id.size > 0)
        about->rack_id = join->subscription.rack_id;
    if (classic_join_rebalance_ms(join->op) != -1)
        about->rebalance_timeout_ms = classic_join_rebalance_ms(join->op);
    about->subscribed_topic_names = join->subscription.topics;
    about->subscribed_topic_names_count = join->subscription.topics_count;
    consumer_names_sort(about);
    about->client_id = join->op->client_id.data == NULL ? BYTES_LITERAL("") : join->op->client_id;
    about->client_host = join->op->client_host;
    join->classic.session_timeout_ms = request->session_timeout_ms;
    join->classic.supported_protocols_count = request->protocols_count;
    join->classic.supported_protocols =
        arena_array(&join->arena, request->protocols_count, sizeof(*join->classic.supported_protocols));
    if (join->classic.supported_protocols == NULL)
        return ERR_NOMEM;
    for (uint32_t i = 0; i < request->protocols_count; i++)
        join->classic.supported_protocols[i] =
            (struct classic_protocol){.name = request->protocols[i].name, .metadata = request->protocols[i].metadata};
    about->classic_member_metadata = &join->classic;
    return ERR_OK;
}

/* What it writes, and what a downgrade writes behind that, land in one batch: where both do not fit, the group stays of
 * its kind. */
static bool is_too_large(struct join *join)
{
    const struct consumer_member *known = join->member != NULL ? join->member : join->replaced;
    size_t room = step_room(join->step);
    size_t bytes =
        consumer_join_bytes(join->consumer, join->step, join->member_id, &join->about, known, join->replaced != NULL);

    if (join->downgrade && bytes + consumer_about_bytes(join->consumer, join->member_id, &join->about) +
                                   consumer_downgrade_bytes(join->consumer, join->step) >
                               room)
        join->downgrade = false;
    return bytes > room;
}

/* Its record, without the expression that it may have had. */
static enum err subscribe(struct join *join)
{
    struct consumer_group *consumer = join->consumer;
    struct bytes regex = join->about.subscribed_topic_regex;
    const struct consumer_expression *expression = NULL;
    enum err err = ERR_OK;

    join->about.subscribed_topic_regex = BYTES_LITERAL("");
    join->regex_changed = regex.size > 0;
    if (join->replaced != NULL) {
        err = consumer_replace(join->replaced, join->step, &join->arena, join->member_id);
        if (err != ERR_OK)
            return err;
        join->member = consumer_find(consumer, join->member_id);
    }
    join->names_changed = join->member == NULL ? join->about.subscribed_topic_names_count > 0
                                               : !consumer_names_equal(&join->member->about, &join->about);
    if (join->member == NULL || !consumer_about_equal(&join->member->about, &join->about))
        err = consumer_write_member(consumer, join->step, join->member_id, &join->about);
    if (err != ERR_OK)
        return err;
    join->member = consumer_find(consumer, join->member_id);
    expression = regex.size == 0 ? NULL : map_get(&consumer->expressions, regex);
    if (regex.size > 0 && (expression == NULL || expression->subscribers == 0))
        err = consumer_write_expression_gone(consumer, join->step, regex);
    if (err == ERR_OK)
        err = consumer_regex_apply(consumer, join->step, join->op, join->member, &join->regex_applied);
    if (err == ERR_OK)
        consumer_regex_schedule(consumer, join->step, join->op);
    return err;
}

static enum err fill_join(struct join *join)
{
    struct join_group_response *response = join->op->response;
    struct bytes name = join->request->protocols[0].name;

    response->generation_id = join->member->epoch;
    response->protocol_type = BYTES_LITERAL("consumer");
    response->protocol_name = name;
    response->leader = BYTES_LITERAL(""); /* nobody computes anything */
    return arena_copy(join->op->arena, join->member_id, &response->member_id);
}

static enum err downgrade(struct join *join)
{
    struct group *group = join->consumer->group;
    bool is_stale = join->consumer->target_epoch < join->consumer->epoch;
    bool changed = false;
    enum err err = ERR_OK;

    if (!is_stale)
        err = consumer_reconcile(join->member, join->step, join->names_changed || join->regex_changed, &join->owned,
                                 &changed);
    if (err == ERR_OK)
        err = fill_join(join);
    if (err == ERR_OK)
        err = consumer_downgrade(join->consumer, join->step, NULL, 0);
    if (err == ERR_OK && is_stale)
        classic_begin_rebalance(group, join->step, CAUSE_CONVERTED, join->member_id, join->about.client_id,
                                join->about.client_host,
                                join->request->reason.data == NULL ? BYTES_LITERAL("") : join->request->reason);
    return err;
}

static enum err go_on(struct join *join, bool is_new)
{
    struct consumer_group *consumer = join->consumer;
    bool asked = false;
    bool changed = false;
    int32_t epoch = 0;
    enum err err = subscribe(join);

    if (err != ERR_OK)
        return err;
    epoch = consumer->epoch;
    asked = join->names_changed || join->regex_changed;
    if (asked || consumer_must_refresh(consumer))
        err = consumer_bump(consumer, join->step, asked);
    if (err == ERR_OK && consumer->epoch != epoch)
        consumer_rebalance_begin(consumer, join->step,
                                 is_new  ? CAUSE_JOINED
                                 : asked ? CAUSE_REJOINED
                                         : CAUSE_METADATA,
                                 join->member,
                                 join->request->reason.data == NULL ? BYTES_LITERAL("") : join->request->reason);
    if (err == ERR_OK && join->downgrade)
        return downgrade(join);
    if (err == ERR_OK && !join->regex_applied)
        err = consumer_update_target(consumer, join->step);
    if (err == ERR_OK)
        err = consumer_reconcile(join->member, join->step, asked, &join->owned, &changed);
    if (err != ERR_OK)
        return err;
    consumer_rebalance_settle(consumer, join->step);
    group_timer_stop(consumer->group->groups, &join->member->join_timer);
    group_timer_stop(consumer->group->groups, &join->member->rebalance_timer);
    consumer_start_session(join->member, join->step);
    group_timer_start(consumer->group->groups, &join->member->sync_timer,
                      join->step->now_ns + join->member->about.rebalance_timeout_ms * NS_PER_MS);
    return fill_join(join);
}

void consumer_classic_join(struct group *group, struct step *step, struct group_op *op)
{
    struct join join = {.consumer = group->consumer, .step = step, .op = op, .request = op->request};
    uint32_t since = step->records;
    enum err err = ERR_OK;

    join_group_response_init(op->response);
    /* A copy of what is in memory, and protocols, which are counted (classic_join.c). */
    arena_init(&join.arena, CONSUMER_RECORD_BYTES_MAX);
    arena_init(&join.reading, EMBEDDED_BYTES_MAX);
    err = check_join(&join);
    if (err == ERR_OK)
        err = describe(&join);
    if (err == ERR_OK && is_too_large(&join))
        err = ERR_UNKNOWN_SERVER_ERROR;
    if (err != ERR_OK) {
        /* As Apache Kafka has it: no id but the one that is handed out. */
        refuse_join(step, op, err, err == ERR_MEMBER_ID_REQUIRED ? join.member_id : BYTES_LITERAL(""));
        goto out;
    }
    err = go_on(&join, join.member == NULL && join.replaced == NULL);
    if (err != ERR_OK)
        step_fail(step, since, err);
    op->op.err = err;
    step_answer(step, &op->op);
out:
    partition_set_deinit(&join.owned);
    arena_deinit(&join.reading);
    arena_deinit(&join.arena);
}

/* ---- SyncGroup ---- */

static enum err sync_group(struct group *group, struct step *step, struct group_op *op)
{
    const struct sync_group_request *request = op->request;
    struct sync_group_response *response = op->response;
    struct consumer_member *member = NULL;
    const struct classic_member_metadata *classic = NULL;
    enum err err =
        find_classic(group->consumer, request->member_id, request->group_instance_id, request->generation_id, &member);

    if (err != ERR_OK)
        return err;
    classic = member->about.classic_member_metadata;
    if (request->protocol_type.data != NULL && !bytes_equal(request->protocol_type, BYTES_LITERAL("consumer")))
        return ERR_INCONSISTENT_GROUP_PROTOCOL;
    if (request->protocol_name.data != NULL &&
        (classic->supported_protocols_count == 0 ||
         !bytes_equal(request->protocol_name, classic->supported_protocols[0].name)))
        return ERR_INCONSISTENT_GROUP_PROTOCOL;
    if (group->consumer->target_epoch > member->epoch && member->state != MEMBER_UNREVOKED) {
        expect_join(member, step);
        return ERR_REBALANCE_IN_PROGRESS;
    }
    err = consumer_encode_assignment(member, &member->assigned, step, op->arena, &response->assignment);
    if (err != ERR_OK)
        return err;
    response->protocol_type = request->protocol_type;
    response->protocol_name = request->protocol_name;
    group_timer_stop(group->groups, &member->sync_timer);
    consumer_start_session(member, step);
    return ERR_OK;
}

void consumer_classic_sync(struct group *group, struct step *step, struct group_op *op)
{
    struct sync_group_response *response = op->response;
    enum err err = ERR_OK;

    sync_group_response_init(response);
    err = sync_group(group, step, op);
    response->error_code = err_wire(err);
    if (err == ERR_NOMEM)
        op->op.err = err;
    step_answer(step, &op->op);
}

/* ---- Heartbeat ---- */

void consumer_classic_heartbeat(struct group *group, struct step *step, struct group_op *op)
{
    const struct heartbeat_request *request = op->request;
    struct heartbeat_response *response = op->response;
    struct consumer_group *consumer = group->consumer;
    struct consumer_member *member = NULL;
    enum err err =
        find_classic(consumer, request->member_id, request->group_instance_id, request->generation_id, &member);

    heartbeat_response_init(response);
    if (err == ERR_OK) {
        consumer_start_session(member, step);
        if (member->epoch < consumer->target_epoch || member->state == MEMBER_UNREVOKED ||
            (member->state == MEMBER_UNRELEASED && !consumer_waits_for_others(member))) {
            expect_join(member, step);
            err = ERR_REBALANCE_IN_PROGRESS;
        }
    }
    response->error_code = err_wire(err);
    step_answer(step, &op->op);
}

/* ---- LeaveGroup ---- */

static enum err leave(struct group *group, struct step *step, struct group_op *op, const struct member_identity *who,
                      uint32_t count, struct leave_group_response *response)
{
    struct consumer_member **leaving = arena_array(op->arena, count, sizeof(struct consumer_member *));
    uint32_t leaving_count = 0;
    struct bytes reason = BYTES_LITERAL("");

    response->members = arena_array(op->arena, count, sizeof(*response->members));
    if (leaving == NULL || response->members == NULL)
        return ERR_NOMEM;
    response->members_count = count;
    for (uint32_t i = 0; i < count; i++) {
        struct consumer_member *member = NULL;
        enum err err = find_member(group->consumer, who[i].member_id, who[i].group_instance_id, &member);

        /* An administrator names an instance alone. */
        if (err == ERR_FENCED_INSTANCE_ID && who[i].member_id.size == 0)
            err = ERR_OK;
        response->members[i] = (struct member_response){
            .member_id = who[i].member_id, .group_instance_id = who[i].group_instance_id, .error_code = err_wire(err)};
        if (err == ERR_OK && !member->named) {
            member->named = true;
            leaving[leaving_count++] = member;
        }
        if (err == ERR_OK && who[i].reason.data != NULL)
            reason = who[i].reason;
    }
    for (uint32_t i = 0; i < leaving_count; i++)
        leaving[i]->named = false;
    if (leaving_count == 0)
        return ERR_OK;
    if (consumer_gone_bytes(group->consumer, leaving, leaving_count) > step_room(step)) {
        for (uint32_t i = 0; i < count; i++)
            if (response->members[i].error_code == 0)
                response->members[i].error_code = err_wire(ERR_UNKNOWN_SERVER_ERROR);
        return ERR_OK;
    }
    return consumer_fence(group->consumer, step, leaving, leaving_count,
                          count > 0 && who[0].member_id.size == 0 ? CAUSE_REMOVED : CAUSE_LEFT, reason);
}

void consumer_classic_leave(struct group *group, struct step *step, struct group_op *op)
{
    const struct leave_group_request *request = op->request;
    struct leave_group_response *response = op->response;
    uint32_t since = step->records;
    struct member_identity one;
    enum err err = ERR_OK;

    leave_group_response_init(response);
    if (op->version >= LEAVE_MEMBERS_SINCE) {
        err = leave(group, step, op, request->members, request->members_count, response);
    } else {
        member_identity_init(&one);
        one.member_id = request->member_id;
        err = leave(group, step, op, &one, 1, response);
        if (err == ERR_OK)
            response->error_code = response->members[0].error_code;
    }
    if (err != ERR_OK)
        step_fail(step, since, err);
    op->op.err = err;
    step_answer(step, &op->op);
}
