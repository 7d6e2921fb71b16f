#include "base/clock.h"
#include "coordinator/classic.h"
#include "coordinator/consumer_internal.h"
#include "coordinator/embedded.h"
#include "coordinator/group_versions.h"
#include "protocol/gen/heartbeat.h"
#include "protocol/gen/join_group.h"
#include "protocol/gen/leave_group.h"
#include "protocol/gen/sync_group.h"

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
    struct consumer_subscriber who;
    const struct join_group_request *request;
    struct arena reading; /* what its subscription says */
    bool is_unknown;      /* it came without an id */
    struct classic_member_metadata classic;
    struct consumer_protocol_subscription subscription;
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

/* What is too much is refused before it is sorted, or anything is written. */
static enum err read_subscription(struct join *join)
{
    struct consumer_subscriber *who = &join->who;
    const struct join_group_request *request = join->request;
    struct consumer_protocol_subscription *subscription = &join->subscription;
    uint32_t owned = 0;
    size_t bytes = 0;
    enum err err = ERR_OK;

    for (uint32_t i = 0; i < request->protocols_count; i++)
        bytes += request->protocols[i].name.size + request->protocols[i].metadata.size;
    if (bytes > step_room(who->step))
        return ERR_UNKNOWN_SERVER_ERROR;
    err = embedded_read_subscription(request->protocols[0].metadata, &join->reading, subscription);
    for (uint32_t i = 0; err == ERR_OK && i < subscription->owned_partitions_count && owned <= CONSUMER_OWNED_MAX; i++)
        owned += subscription->owned_partitions[i].partitions_count;
    if (err == ERR_OK && (subscription->topics_count > CONSUMER_NAMES_MAX || owned > CONSUMER_OWNED_MAX))
        err = ERR_INVALID_REQUEST;
    if (err == ERR_OK && !consumer_names_fit(who->consumer, subscription->topics, subscription->topics_count))
        err = ERR_GROUP_MAX_SIZE_REACHED;
    if (err == ERR_OK)
        err = consumer_read_owned(subscription, who->step, &who->owned);
    return err == ERR_MALFORMED ? ERR_INCONSISTENT_GROUP_PROTOCOL : err;
}

/* All that may be refused, before the first record. member_id of a refusal: the one that counts from now on. */
static enum err check_join(struct join *join)
{
    struct consumer_subscriber *who = &join->who;
    const struct join_group_request *request = join->request;
    struct bytes instance_id = request->group_instance_id;
    struct consumer_member *known = NULL;
    enum err err = ERR_OK;

    if (who->consumer->group->groups->settings->migration == MIGRATION_DISABLED)
        return ERR_INCONSISTENT_GROUP_PROTOCOL;
    join->is_unknown = request->member_id.size == 0;
    who->member_id = request->member_id;
    who->instance_id = instance_id;
    err = consumer_subscriber_name(who);
    if (err != ERR_OK)
        return err;
    if (consumer_subscriber_is_too_many(who))
        return ERR_GROUP_MAX_SIZE_REACHED;
    if (!is_supported(who->consumer, request))
        return ERR_INCONSISTENT_GROUP_PROTOCOL;
    if (join->is_unknown && instance_id.data == NULL && who->op->version >= JOIN_ID_REQUIRED_SINCE)
        return ERR_MEMBER_ID_REQUIRED;
    if (instance_id.data == NULL) {
        who->member = consumer_find(who->consumer, who->member_id);
    } else if (join->is_unknown) {
        known = consumer_find_instance(who->consumer, instance_id);
        who->replaced = known;
    } else {
        err = find_member(who->consumer, who->member_id, instance_id, &who->member);
        if (err != ERR_OK)
            return err;
        known = who->member;
    }
    who->downgrades = known != NULL && consumer_may_downgrade(who->consumer, who->step, &known, 1, true);
    return read_subscription(join);
}

/* What the request says of the member. */
static enum err read_request(struct join *join)
{
    const struct join_group_request *request = join->request;
    const struct consumer_protocol_subscription *subscription = &join->subscription;
    struct consumer_subscriber *who = &join->who;

    if (subscription->rack_id.size > 0)
        who->rack_id = subscription->rack_id;
    who->rebalance_timeout_ms = classic_join_rebalance_ms(who->op);
    who->expression = BYTES_LITERAL(""); /* it has none any more */
    who->names = subscription->topics;
    who->name_count = subscription->topics_count;
    who->says_names = true;
    who->says_owned = true;
    if (request->reason.data != NULL)
        who->reason = request->reason;
    join->classic.session_timeout_ms = request->session_timeout_ms;
    join->classic.supported_protocols_count = request->protocols_count;
    join->classic.supported_protocols =
        arena_array(&who->arena, request->protocols_count, sizeof(*join->classic.supported_protocols));
    if (join->classic.supported_protocols == NULL)
        return ERR_NOMEM;
    for (uint32_t i = 0; i < request->protocols_count; i++)
        join->classic.supported_protocols[i] =
            (struct classic_protocol){.name = request->protocols[i].name, .metadata = request->protocols[i].metadata};
    who->classic = &join->classic;
    return ERR_OK;
}

/* What it writes, and what a downgrade writes behind that, land in one batch: where both do not fit, the group stays of
 * its kind. */
static bool is_too_large(struct join *join)
{
    struct consumer_subscriber *who = &join->who;
    size_t room = step_room(who->step);
    size_t bytes = consumer_subscriber_bytes(who);

    if (who->downgrades && bytes + consumer_about_bytes(who->consumer, who->member_id, &who->about) +
                                   consumer_downgrade_bytes(who->consumer, who->step) >
                               room)
        who->downgrades = false;
    return bytes > room;
}

static enum err fill_join(struct join *join)
{
    struct consumer_subscriber *who = &join->who;
    struct join_group_response *response = who->op->response;
    struct bytes name = join->request->protocols[0].name;

    response->generation_id = who->member->epoch;
    response->protocol_type = BYTES_LITERAL("consumer");
    response->protocol_name = name;
    response->leader = BYTES_LITERAL(""); /* nobody computes anything */
    return arena_copy(who->op->arena, who->member_id, &response->member_id);
}

/* All are of the classic protocol now, and what it is told holds in the classic group. epoch: before this request. */
static enum err downgrade(struct join *join, int32_t epoch)
{
    struct consumer_subscriber *who = &join->who;
    struct group *group = who->consumer->group;
    bool is_stale = who->consumer->target_epoch < who->consumer->epoch;
    enum err err = fill_join(join);

    if (err == ERR_OK)
        err = consumer_downgrade(who->consumer, who->step, epoch, NULL, 0);
    if (err == ERR_OK && is_stale)
        classic_begin_rebalance(group, who->step,
                                &(struct rebalance_cause){.cause = CAUSE_CONVERTED,
                                                          .member_id = who->member_id,
                                                          .client_id = who->about.client_id,
                                                          .client_host = who->about.client_host,
                                                          .reason = who->reason});
    return err;
}

static enum err go_on(struct join *join)
{
    struct consumer_subscriber *who = &join->who;
    int32_t epoch = who->consumer->epoch;
    enum err err = consumer_subscribe(who);

    if (err != ERR_OK)
        return err;
    if (who->downgrades)
        return downgrade(join, epoch);
    group_timer_stop(who->groups, &who->member->rebalance_timer); /* it may have been of the other protocol */
    group_timer_start(who->groups, &who->member->sync_timer,
                      who->step->now_ns + who->member->about.rebalance_timeout_ms * NS_PER_MS);
    return fill_join(join);
}

void consumer_classic_join(struct group *group, struct step *step, struct group_op *op)
{
    struct join join = {.request = op->request};
    uint32_t since = step->records;
    enum err err = ERR_OK;

    join_group_response_init(op->response);
    consumer_subscriber_init(&join.who, group->groups, step, op);
    join.who.consumer = group->consumer;
    arena_init(&join.reading, EMBEDDED_BYTES_MAX);
    err = check_join(&join);
    if (err == ERR_OK)
        err = read_request(&join);
    if (err == ERR_OK)
        err = consumer_subscriber_describe(&join.who);
    if (err == ERR_OK && is_too_large(&join))
        err = ERR_UNKNOWN_SERVER_ERROR;
    if (err != ERR_OK) {
        /* As Apache Kafka has it: no id but the one that is handed out. */
        refuse_join(step, op, err, err == ERR_MEMBER_ID_REQUIRED ? join.who.member_id : BYTES_LITERAL(""));
        goto out;
    }
    err = go_on(&join);
    if (err != ERR_OK)
        step_fail(step, since, err);
    op->op.err = err;
    step_answer(step, &op->op);
out:
    arena_deinit(&join.reading);
    consumer_subscriber_deinit(&join.who);
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
