/* A member of the consumer protocol (KIP-848): it says what it subscribes to and owns, and is told what it is to own;
 * what it is to give back it stops reading from first, and says so. */
#include <stdio.h>

#include "base/assert.h"
#include "sim/group_crowd_internal.h"

enum {
    EXPRESSION_PERCENT = 25,
    RECONCILES_PERCENT = 60, /* of the times that it could */
    SAYS_ALL_PERCENT = 10,
    STUBBORN_PERCENT = 1,
    LEAVE = -1,
    LEAVE_FOR_NOW = -2,
};

static const struct {
    const char *text;
    uint32_t topics;
} expressions[] = {{"t[0-3]", 0xf}, {"t.", 0xf}, {"t0|t2", 0x5}, {"t[^0]", 0xe}};

void crowd_consumer_subscribe(struct crowd_member *member)
{
    uint32_t count = sizeof(expressions) / sizeof(expressions[0]);

    member->says_all = true;
    member->expression = 0;
    if (!member->modern || !sim_chance(crowd_sim(member), EXPRESSION_PERCENT))
        return;
    member->expression = 1 + (uint32_t)sim_draw(crowd_sim(member), count);
    member->topics = expressions[member->expression - 1].topics;
}

void crowd_consumer_start(struct crowd_member *member)
{
    member->now.id[0] = '\0';
    if (member->modern && member->beat_version > 0) /* before, the coordinator names who does not name itself */
        (void)snprintf(member->now.id, sizeof(member->now.id), "m%u-%u", member->number, ++member->starts);
    member->expression = 0;
    member->seen_version = -1;
}

void crowd_consumer_lost(struct crowd_member *member)
{
    member->says_all = true;
    member->reconciled = true;
}

/* ---- what it says ---- */

static void say_subscription(struct crowd_member *member, struct crowd_call *call)
{
    struct consumer_group_heartbeat_request *request = &call->request.consumer_beat;

    request->rebalance_timeout_ms = member->rebalance_ms;
    request->server_assignor = member->number % 2 == 0 ? BYTES_LITERAL("range") : (struct bytes){0};
    request->subscribed_topic_names = crowd_call_array(call, COORDINATOR_TOPICS, sizeof(struct bytes));
    for (uint32_t t = 0; t < COORDINATOR_TOPICS && member->expression == 0; t++)
        if (member->topics & (1u << t))
            request->subscribed_topic_names[request->subscribed_topic_names_count++] =
                member->crowd->coordinator.table[t].name;
    if (call->op.version > 0)
        request->subscribed_topic_regex =
            member->expression == 0 ? BYTES_LITERAL("") : bytes_of_text(expressions[member->expression - 1].text);
}

static void say_owned(struct crowd_member *member, struct crowd_call *call)
{
    struct consumer_group_heartbeat_request *request = &call->request.consumer_beat;

    request->topic_partitions = crowd_call_array(call, COORDINATOR_TOPICS, sizeof(*request->topic_partitions));
    for (uint32_t t = 0; t < COORDINATOR_TOPICS; t++) {
        struct consumer_group_heartbeat_request_topic_partitions *topic =
            &request->topic_partitions[request->topic_partitions_count];

        topic->topic_id = group_coordinator_topic_id(member->now.lives[t]);
        topic->partitions = crowd_call_array(call, COORDINATOR_PARTITIONS_MAX, sizeof(*topic->partitions));
        topic->partitions_count = 0;
        for (int32_t p = 0; p < COORDINATOR_PARTITIONS_MAX; p++)
            if (member->now.owned[t][p])
                topic->partitions[topic->partitions_count++] = p;
        if (topic->partitions_count > 0)
            request->topic_partitions_count++;
    }
}

struct crowd_call *crowd_consumer_beat(struct crowd_member *member, int32_t epoch)
{
    struct crowd_call *call =
        crowd_call_new(member->crowd, member, ASK_CONSUMER_HEARTBEAT, member->beat_version, member->group);
    struct consumer_group_heartbeat_request *request = &call->request.consumer_beat;

    consumer_group_heartbeat_request_init(request);
    request->group_id = call->op.group_id;
    request->member_id = crowd_call_text(call, member->now.id);
    request->instance_id = crowd_instance(call, member);
    request->member_epoch = epoch;
    return call;
}

static void beat(struct crowd_member *member)
{
    struct crowd_call *call = crowd_consumer_beat(member, member->now.generation);

    if (crowd_chance(member, SAYS_ALL_PERCENT))
        member->says_all = true;
    if (member->says_all)
        say_subscription(member, call);
    if (member->says_all || member->says_owned)
        say_owned(member, call);
    member->says_all = false;
    member->says_owned = false;
    member->beat_ns = crowd_sim(member)->mono_ns;
    crowd_ask(member, call);
}

void crowd_consumer_join(struct crowd_member *member)
{
    struct crowd_call *call = NULL;

    memset(member->now.owned, 0, sizeof(member->now.owned));
    member->now.generation = 0;
    member->reconciled = true;
    member->before.released = false; /* it may be given the same again, in epochs that begin anew */
    if (member->beat_version == 0 && member->expression > 0)
        member->expression = 0; /* it subscribes to the same by names */
    call = crowd_consumer_beat(member, 0);
    say_subscription(member, call);
    say_owned(member, call);
    member->says_all = false;
    member->says_owned = false;
    member->state = MEMBER_JOINING;
    crowd_ask(member, call);
}

static void leave(struct crowd_member *member)
{
    bool for_now = member->instance[0] != '\0' && crowd_chance(member, 70);

    crowd_ask(member, crowd_consumer_beat(member, for_now ? LEAVE_FOR_NOW : LEAVE));
}

/* ---- what it hears ---- */

static void take_told(struct crowd_member *member, const struct crowd_call *call,
                      const struct consumer_group_heartbeat_response_assignment *told)
{
    memset(member->wanted, 0, sizeof(member->wanted));
    memcpy(member->wanted_lives, call->topic_lives, sizeof(member->wanted_lives));
    member->reconciled = false;
    member->crowd->assignments++;
    for (uint32_t i = 0; i < told->topic_partitions_count; i++)
        for (uint32_t t = 0; t < COORDINATOR_TOPICS; t++) {
            const struct consumer_group_heartbeat_response_topic_partitions *topic = &told->topic_partitions[i];

            if (!uuid_equal(topic->topic_id, group_coordinator_topic_id(call->topic_lives[t])))
                continue; /* of a topic that is gone */
            for (uint32_t j = 0; j < topic->partitions_count; j++) {
                crowd_check_owner(member, call, t, topic->partitions[j]);
                member->wanted[t][topic->partitions[j]] = true;
            }
        }
}

static void hear_beat(struct crowd_member *member, struct crowd_call *call)
{
    const struct consumer_group_heartbeat_response *heard = &call->response.consumer_beat;

    (void)snprintf(member->now.id, sizeof(member->now.id), "%.*s", BYTES_PRINTF(heard->member_id));
    member->now.generation = heard->member_epoch;
    member->state = MEMBER_IN;
    crowd_is_sure(member);
    if (call->request.consumer_beat.topic_partitions != NULL && member->gives_back)
        member->before.released = true;
    member->gives_back = false;
    if (heard->assignment != NULL)
        take_told(member, call, heard->assignment);
    crowd_member_soon(member, CROWD_RETRY_MS_MAX);
}

void crowd_consumer_hear(struct crowd_member *member, struct crowd_call *call)
{
    const struct consumer_group_heartbeat_request *said = &call->request.consumer_beat;

    if (said->member_epoch < 0)
        crowd_vanish(member);
    else if (!crowd_refused(member, call, call->response.consumer_beat.error_code))
        hear_beat(member, call);
}

/* ---- what it does ---- */

/* Whether it is to give something back of a topic that is there. */
static bool must_give_back(const struct crowd_member *member)
{
    for (uint32_t t = 0; t < COORDINATOR_TOPICS && !member->reconciled; t++)
        for (uint32_t p = 0; p < COORDINATOR_PARTITIONS_MAX; p++)
            if (member->now.lives[t] == member->wanted_lives[t] && member->now.owned[t][p] && !member->wanted[t][p])
                return true;
    return false;
}

/* It owns what it was told to, and no more: from now on, and it says so. */
static void reconcile(struct crowd_member *member)
{
    struct member_view gone = member->now;
    bool gives_back = false;

    for (uint32_t t = 0; t < COORDINATOR_TOPICS; t++) {
        bool same = member->now.lives[t] == member->wanted_lives[t];

        for (uint32_t p = 0; p < COORDINATOR_PARTITIONS_MAX; p++) {
            bool had = same && member->now.owned[t][p];

            gone.owned[t][p] = had && !member->wanted[t][p];
            gives_back = gives_back || gone.owned[t][p];
            if (member->wanted[t][p] && !had) {
                member->now.positions[t][p] = -1;
                member->fresh = true;
            }
            member->now.owned[t][p] = member->wanted[t][p];
        }
        member->now.lives[t] = member->wanted_lives[t];
    }
    if (gives_back) {
        member->before = gone;
        member->before.modern = true;
        member->before.released = false;
        member->gives_back = true;
    }
    member->reconciled = true;
    member->says_owned = true;
    crowd_forget_topics(member);
}

void crowd_consumer_act(struct crowd_member *member)
{
    member->stubborn = must_give_back(member) && (member->stubborn || crowd_chance(member, STUBBORN_PERCENT));
    if (crowd_chance(member, 2)) {
        leave(member);
    } else if (member->stubborn) {
        beat(member); /* until its time for that is over */
    } else if (member->before.id[0] != '\0' && crowd_chance(member, 10)) {
        crowd_say_stale(member);
    } else if (!member->reconciled && (member->crowd->over || crowd_chance(member, RECONCILES_PERCENT))) {
        if (crowd_chance(member, 50) || member->producer != 0) { /* what it has read it commits first */
            crowd_commit(member);
            return;
        }
        reconcile(member);
        beat(member);
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
