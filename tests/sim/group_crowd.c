/* What a member does and hears: group_crowd.h. */
#include "sim/group_crowd.h"

#include <stdio.h>

#include "base/assert.h"
#include "protocol/gen/consumer_protocol_subscription.h"
#include "sim/group_crowd_internal.h"

enum {
    STATIC_PERCENT = 40,
    TRANSACTIONAL_PERCENT = 30,
    MODERN_PERCENT = 50,
    SWITCHES_PERCENT = 30, /* of those that come back */
    JOIN_VERSION_MAX = 9,
    SYNC_VERSION = 4,
    BEAT_VERSION = 4,
    LEAVE_VERSION = 5,
    PATIENCE_MS_MAX = 20000,
    BEATS_WITHIN_MS = 1000,
    SESSION_MS_MIN = 4000, /* more than that, twice the longest pause, and what a request takes */
};

bool crowd_chance(struct crowd_member *member, uint32_t percent)
{
    return !member->crowd->over && sim_chance(crowd_sim(member), percent);
}

static bool is_static(const struct crowd_member *member)
{
    return member->instance[0] != '\0';
}

struct bytes crowd_instance(struct crowd_call *call, const struct crowd_member *member)
{
    return is_static(member) ? crowd_call_text(call, member->instance) : (struct bytes){0};
}

void crowd_member_soon(struct crowd_member *member, int64_t ms_max)
{
    int64_t wait_ns = (int64_t)sim_draw(crowd_sim(member), (uint64_t)(ms_max * NS_PER_MS));

    sim_event_cancel(crowd_sim(member), &member->act);
    sim_event_add(crowd_sim(member), &member->act, crowd_sim(member)->mono_ns + wait_ns);
}

/* Patience: a client's request time-out, and then another connection. */
void crowd_ask(struct crowd_member *member, struct crowd_call *call)
{
    int64_t patience_ns = ((int64_t)member->rebalance_ms + PATIENCE_MS_MAX) * NS_PER_MS;

    if (crowd_chance(member, 3))
        patience_ns = (int64_t)sim_draw(crowd_sim(member), (uint64_t)patience_ns);
    member->call = call;
    sim_event_cancel(crowd_sim(member), &member->act);
    sim_event_cancel(crowd_sim(member), &member->patience);
    sim_event_add(crowd_sim(member), &member->patience, crowd_sim(member)->mono_ns + patience_ns);
    crowd_call_send(call);
}

static void patience_ends(struct sim_event *event)
{
    struct crowd_member *member =
        (struct crowd_member *)(void *)((char *)event - offsetof(struct crowd_member, patience));

    if (member->call->op.ask == ASK_TXN_OFFSET_COMMIT)
        member->producer_failed = true; /* perhaps */
    member->call = NULL;
    if (member->state == MEMBER_JOINING || member->state == MEMBER_SYNCING)
        member->state = MEMBER_OUT;
    crowd_consumer_lost(member);
    crowd_member_soon(member, CROWD_RETRY_MS_MAX);
}

bool crowd_must_beat(const struct crowd_member *member)
{
    return member->crowd->sim.mono_ns - member->beat_ns > BEATS_WITHIN_MS * NS_PER_MS;
}

/* ---- what it says ---- */

struct bytes crowd_subscription(struct crowd_member *member, struct crowd_call *call)
{
    struct bytes names[COORDINATOR_TOPICS];
    struct consumer_protocol_subscription subscription;

    consumer_protocol_subscription_init(&subscription);
    subscription.topics = names;
    for (uint32_t i = 0; i < COORDINATOR_TOPICS; i++)
        if (member->topics & (1u << i))
            names[subscription.topics_count++] = member->crowd->coordinator.table[i].name;
    subscription.user_data = bytes_of(&member->flavour, sizeof(member->flavour));
    return crowd_encode(call, &consumer_protocol_subscription_message, 1, &subscription);
}

static void join(struct crowd_member *member)
{
    struct crowd_call *call =
        crowd_call_new(member->crowd, member, ASK_JOIN_GROUP, member->join_version, member->group);
    struct join_group_request *request = &call->request.join;

    join_group_request_init(request);
    request->group_id = call->op.group_id;
    request->session_timeout_ms = member->session_ms;
    request->rebalance_timeout_ms = member->join_version >= 1 ? member->rebalance_ms : -1;
    request->member_id = crowd_call_text(call, member->now.id);
    request->group_instance_id = member->join_version >= 5 ? crowd_instance(call, member) : (struct bytes){0};
    request->protocol_type = BYTES_LITERAL("consumer");
    request->protocols = crowd_call_array(call, 2, sizeof(*request->protocols));
    request->protocols_count = 2;
    for (uint32_t i = 0; i < 2; i++) {
        join_group_request_protocol_init(&request->protocols[i]);
        request->protocols[i].name = (i + member->number) % 2 == 0 ? BYTES_LITERAL("range") : BYTES_LITERAL("sticky");
        request->protocols[i].metadata = crowd_subscription(member, call);
    }
    crowd_remember(member);
    member->state = MEMBER_JOINING;
    crowd_ask(member, call);
}

static void beat(struct crowd_member *member)
{
    struct crowd_call *call = crowd_call_new(member->crowd, member, ASK_HEARTBEAT, BEAT_VERSION, member->group);
    struct heartbeat_request *request = &call->request.beat;

    heartbeat_request_init(request);
    request->member_id = crowd_call_text(call, member->now.id);
    request->group_instance_id = crowd_instance(call, member);
    request->generation_id = member->now.generation;
    member->beat_ns = crowd_sim(member)->mono_ns;
    crowd_ask(member, call);
}

static void leave(struct crowd_member *member)
{
    struct crowd_call *call = crowd_call_new(member->crowd, member, ASK_LEAVE_GROUP, LEAVE_VERSION, member->group);
    struct leave_group_request *request = &call->request.leave;

    leave_group_request_init(request);
    request->members = crowd_call_array(call, 1, sizeof(*request->members));
    request->members_count = 1;
    member_identity_init(request->members);
    request->members->member_id = crowd_call_text(call, member->now.id);
    request->members->group_instance_id = crowd_instance(call, member);
    crowd_ask(member, call);
}

static void sync_generation(struct crowd_member *member, const struct join_group_response *heard)
{
    struct crowd_call *call = crowd_call_new(member->crowd, member, ASK_SYNC_GROUP, SYNC_VERSION, member->group);
    struct sync_group_request *request = &call->request.sync;

    sync_group_request_init(request);
    request->member_id = crowd_call_text(call, member->now.id);
    request->group_instance_id = crowd_instance(call, member);
    request->generation_id = member->now.generation;
    member->seen_version = -1;
    if (bytes_equal(heard->leader, heard->member_id) && !heard->skip_assignment) {
        member->seen_version = member->crowd->coordinator.topics.version;
        crowd_lead(member, heard, call);
    }
    member->state = MEMBER_SYNCING;
    crowd_ask(member, call);
}

/* ---- what it hears ---- */

/* By what the group was when it was decided: the answer may come late. */
void crowd_check_owner(struct crowd_member *member, const struct crowd_call *call, uint32_t topic, int32_t partition)
{
    struct crowd_owner *owner = &member->crowd->owners[member->group][topic][partition];
    struct crowd_owner now = {.life = call->life,
                              .generation = member->now.generation,
                              .topic_life = call->topic_lives[topic],
                              .member = member->number + 1};

    assert(owner->life != now.life || owner->generation != now.generation || owner->topic_life != now.topic_life ||
           owner->member == now.member);
    *owner = now;
}

void crowd_forget_topics(struct crowd_member *member)
{
    for (uint32_t t = 0; t < COORDINATOR_TOPICS; t++)
        if (member->now.lives[t] != group_coordinator_life(&member->crowd->coordinator, t))
            memset(member->now.owned[t], 0, sizeof(member->now.owned[t]));
}

void crowd_remember(struct crowd_member *member)
{
    if (member->state != MEMBER_IN)
        return;
    member->before = member->now;
    member->before.modern = member->modern;
    member->before.released = false;
    member->gives_back = false;
}

void crowd_is_sure(struct crowd_member *member)
{
    memcpy(member->sure_id, member->now.id, sizeof(member->sure_id));
    member->sure_generation = member->now.generation;
}

void crowd_go_out(struct crowd_member *member, bool forget_id)
{
    crowd_remember(member);
    crowd_abandon_transaction(member);
    if (forget_id)
        member->now.id[0] = '\0';
    member->state = MEMBER_OUT;
    crowd_member_soon(member, CROWD_RETRY_MS_MAX);
}

bool crowd_refused(struct crowd_member *member, const struct crowd_call *call, int16_t code)
{
    enum err err = call->op.op.err;

    if (err == ERR_OK && code == 0)
        return false;
    member->crowd->refusals++;
    if (err != ERR_OK || code == err_wire(ERR_NOT_COORDINATOR) || code == err_wire(ERR_COORDINATOR_NOT_AVAILABLE) ||
        code == err_wire(ERR_UNRELEASED_INSTANCE_ID)) {
        if (member->state == MEMBER_JOINING || member->state == MEMBER_SYNCING)
            member->state = MEMBER_OUT;
        crowd_consumer_lost(member);
        crowd_member_soon(member, CROWD_RETRY_MS_MAX);
    } else if (member->modern && code == err_wire(ERR_STALE_MEMBER_EPOCH)) {
        crowd_member_soon(member, CROWD_BEAT_MS_MAX); /* its next heartbeat tells */
    } else if (code == err_wire(ERR_UNKNOWN_MEMBER_ID)) {
        crowd_go_out(member, !member->modern);
    } else if (code == err_wire(ERR_FENCED_INSTANCE_ID)) {
        crowd_go_out(member, true); /* a client would stop for good: here its name goes on as another life of it */
    } else {
        assert(code == err_wire(ERR_UNKNOWN_SERVER_ERROR) || code == err_wire(ERR_GROUP_ID_NOT_FOUND) ||
               code == (member->modern ? err_wire(ERR_FENCED_MEMBER_EPOCH) : err_wire(ERR_REBALANCE_IN_PROGRESS)) ||
               (!member->modern && code == err_wire(ERR_ILLEGAL_GENERATION)));
        crowd_go_out(member, false);
    }
    return true;
}

static void hear_join(struct crowd_member *member, struct crowd_call *call)
{
    const struct join_group_response *heard = &call->response.join;

    if (call->op.op.err == ERR_OK && heard->error_code == err_wire(ERR_MEMBER_ID_REQUIRED)) {
        (void)snprintf(member->now.id, sizeof(member->now.id), "%.*s", BYTES_PRINTF(heard->member_id));
        if (crowd_chance(member, 5)) { /* it never comes back with it */
            member->now.id[0] = '\0';
            member->state = MEMBER_OUT;
            crowd_member_soon(member, CROWD_COMES_BACK_MS_MAX);
        } else {
            join(member);
        }
        return;
    }
    if (crowd_refused(member, call, heard->error_code))
        return;
    (void)snprintf(member->now.id, sizeof(member->now.id), "%.*s", BYTES_PRINTF(heard->member_id));
    member->now.generation = heard->generation_id;
    if (crowd_chance(member, 3)) { /* it never syncs, or late */
        member->state = MEMBER_OUT;
        crowd_member_soon(member, CROWD_STALL_MS_MAX);
        return;
    }
    sync_generation(member, heard);
}

static void hear_sync(struct crowd_member *member, struct crowd_call *call)
{
    const struct sync_group_response *heard = &call->response.sync;

    if (crowd_refused(member, call, heard->error_code))
        return;
    crowd_read_share(member, call, heard->assignment);
    member->state = MEMBER_IN;
    crowd_is_sure(member);
    member->fresh = true;
    crowd_member_soon(member, CROWD_RETRY_MS_MAX);
}

void crowd_member_hear(struct crowd_member *member, struct crowd_call *call)
{
    if (call->stale) {
        crowd_member_soon(member, CROWD_RETRY_MS_MAX);
        return;
    }
    switch (call->op.ask) {
    case ASK_JOIN_GROUP:
        hear_join(member, call);
        break;
    case ASK_SYNC_GROUP:
        hear_sync(member, call);
        break;
    case ASK_HEARTBEAT:
        if (!crowd_refused(member, call, call->response.beat.error_code))
            crowd_member_soon(member, CROWD_BEAT_MS_MAX);
        break;
    case ASK_LEAVE_GROUP:
        crowd_vanish(member);
        break;
    case ASK_CONSUMER_HEARTBEAT:
        crowd_consumer_hear(member, call);
        break;
    case ASK_OFFSET_COMMIT:
        crowd_hear_commit(member, call);
        break;
    case ASK_TXN_OFFSET_COMMIT:
        crowd_hear_txn_commit(member, call);
        break;
    case ASK_OFFSET_FETCH:
        crowd_hear_fetch(member, call);
        break;
    default:
        assert(false && "an answer to nothing");
    }
}

/* ---- what it does ---- */

static void resubscribe(struct crowd_member *member)
{
    member->topics = 1 + (uint32_t)sim_draw(crowd_sim(member), (1u << COORDINATOR_TOPICS) - 1);
    member->flavour++;
    crowd_consumer_subscribe(member);
}

/* It is gone without a word; its name, if it has one, comes back with another life. */
void crowd_vanish(struct crowd_member *member)
{
    crowd_remember(member);
    crowd_abandon_transaction(member);
    member->now.id[0] = '\0';
    member->state = MEMBER_GONE;
    crowd_member_soon(member, CROWD_COMES_BACK_MS_MAX);
}

void crowd_member_die(struct crowd_member *member)
{
    crowd_vanish(member);
    member->dead = true;
    member->call = NULL;
    sim_event_cancel(crowd_sim(member), &member->act);
    sim_event_cancel(crowd_sim(member), &member->patience);
}

static void act_in(struct crowd_member *member)
{
    bool leads = member->seen_version >= 0;

    crowd_forget_topics(member);
    if (crowd_chance(member, 2)) {
        crowd_vanish(member);
    } else if (member->modern) {
        crowd_consumer_act(member);
    } else if (crowd_chance(member, 2)) {
        leave(member);
    } else if (crowd_chance(member, 3)) {
        crowd_member_soon(member, CROWD_STALL_MS_MAX);
    } else if (crowd_chance(member, 2)) {
        resubscribe(member);
        join(member);
    } else if (leads && (member->seen_version != member->crowd->coordinator.topics.version ||
                         member->crowd->omitted[member->group] == member->now.generation)) {
        join(member);
    } else if (member->before.id[0] != '\0' && crowd_chance(member, 10)) {
        crowd_say_stale(member);
    } else if (crowd_must_beat(member)) {
        beat(member);
    } else if (member->fresh) {
        crowd_fetch(member);
    } else if (sim_chance(crowd_sim(member), 50)) {
        crowd_commit(member);
    } else {
        beat(member);
    }
}

/* Its process starts, perhaps as another release of it: a group moves from one protocol to the other in that way. */
static void start(struct crowd_member *member)
{
    if (crowd_chance(member, SWITCHES_PERCENT))
        member->modern = !member->modern;
    member->state = MEMBER_OUT;
    crowd_consumer_start(member);
}

static void act(struct sim_event *event)
{
    struct crowd_member *member = (struct crowd_member *)(void *)((char *)event - offsetof(struct crowd_member, act));

    if (member->state == MEMBER_IN) {
        act_in(member);
        return;
    }
    if (member->before.id[0] != '\0' && crowd_chance(member, 10)) {
        crowd_say_stale(member);
        return;
    }
    if (member->state == MEMBER_GONE && member->crowd->over && member->number % 2 == 0)
        return; /* half of those that are gone when the trouble ends stay so */
    if (member->state == MEMBER_GONE)
        start(member);
    if (member->modern)
        crowd_consumer_join(member);
    else
        join(member);
}

void crowd_member_open(struct crowd_member *member, struct group_crowd *crowd, uint32_t number)
{
    static const int16_t versions[] = {0, 1, 3, 5, 8, JOIN_VERSION_MAX};
    struct sim *sim = &crowd->sim;

    *member =
        (struct crowd_member){.crowd = crowd, .number = number, .group = number % CROWD_GROUPS, .state = MEMBER_GONE};
    (void)snprintf(member->label, sizeof(member->label), "m%u", number);
    member->join_version = versions[sim_draw(sim, sizeof(versions) / sizeof(versions[0]))];
    member->beat_version = (int16_t)sim_draw(sim, 2);
    member->modern = sim_chance(sim, MODERN_PERCENT);
    if (member->join_version >= 5 && sim_chance(sim, STATIC_PERCENT))
        (void)snprintf(member->instance, sizeof(member->instance), "i%u", number);
    member->session_ms = SESSION_MS_MIN + (int32_t)sim_draw(sim, 4000);
    member->rebalance_ms = 3000 + (int32_t)sim_draw(sim, 5000);
    member->transactional = sim_chance(sim, TRANSACTIONAL_PERCENT);
    member->act.run = act;
    member->patience.run = patience_ends;
    resubscribe(member);
    crowd_member_soon(member, CROWD_COMES_BACK_MS_MAX);
}
