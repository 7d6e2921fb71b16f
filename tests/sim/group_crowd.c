/* What a member does and hears: group_crowd.h. */
#include "sim/group_crowd.h"

#include <stdio.h>

#include "base/assert.h"
#include "protocol/gen/consumer_protocol_assignment.h"
#include "protocol/gen/consumer_protocol_subscription.h"
#include "sim/group_crowd_call.h"

#define NS_PER_MS INT64_C(1000000)

enum {
    STATIC_PERCENT = 40,
    VERSION_BYTES = 2,
    JOIN_VERSION_MAX = 9,
    SYNC_VERSION = 4,
    BEAT_VERSION = 4,
    COMMIT_VERSION = 8,
    FETCH_VERSION = 8,
    LEAVE_VERSION = 5,
    BEAT_MS_MAX = 1500,
    RETRY_MS_MAX = 200,
    COMES_BACK_MS_MAX = 10000,
    STALL_MS_MAX = 20000,
    PATIENCE_MS_MAX = 20000,
};

static struct sim *sim_of(struct crowd_member *member)
{
    return &member->crowd->sim;
}

static bool chance(struct crowd_member *member, uint32_t percent)
{
    return !member->crowd->over && sim_chance(sim_of(member), percent);
}

static bool is_static(const struct crowd_member *member)
{
    return member->instance[0] != '\0';
}

static struct bytes instance_of(struct crowd_call *call, const struct crowd_member *member)
{
    return is_static(member) ? crowd_call_text(call, member->instance) : (struct bytes){0};
}

void crowd_member_soon(struct crowd_member *member, int64_t ms_max)
{
    int64_t wait_ns = (int64_t)sim_draw(sim_of(member), (uint64_t)(ms_max * NS_PER_MS));

    sim_event_cancel(sim_of(member), &member->act);
    sim_event_add(sim_of(member), &member->act, sim_of(member)->mono_ns + wait_ns);
}

/* It waits for the answer, so long as it has patience: a client's request time-out, and then another connection. */
static void send(struct crowd_member *member, struct crowd_call *call)
{
    int64_t patience_ns = ((int64_t)member->rebalance_ms + PATIENCE_MS_MAX) * NS_PER_MS;

    if (chance(member, 3))
        patience_ns = (int64_t)sim_draw(sim_of(member), (uint64_t)patience_ns);
    member->call = call;
    sim_event_cancel(sim_of(member), &member->act);
    sim_event_cancel(sim_of(member), &member->patience);
    sim_event_add(sim_of(member), &member->patience, sim_of(member)->mono_ns + patience_ns);
    crowd_call_send(call);
}

static void patience_ends(struct sim_event *event)
{
    struct crowd_member *member =
        (struct crowd_member *)(void *)((char *)event - offsetof(struct crowd_member, patience));

    member->call = NULL;
    if (member->state == MEMBER_JOINING || member->state == MEMBER_SYNCING)
        member->state = MEMBER_OUT;
    crowd_member_soon(member, RETRY_MS_MAX);
}

/* ---- what it says ---- */

static struct bytes encode(struct crowd_call *call, const struct message_type *type, int16_t version,
                           const void *message)
{
    size_t size = VERSION_BYTES + wire_size_total(message_size(type, version, message));
    uint8_t *to = crowd_call_array(call, 1, (uint32_t)size);
    struct wire_writer writer;

    wire_writer_init_flat(&writer, to, size);
    wire_write_i16(&writer, version);
    message_write(type, &writer, version, message);
    assert(wire_writer_finish(&writer, NULL) == ERR_OK);
    return bytes_of(to, size);
}

static struct bytes subscription_of(struct crowd_member *member, struct crowd_call *call)
{
    struct bytes names[COORDINATOR_TOPICS];
    struct consumer_protocol_subscription subscription;

    consumer_protocol_subscription_init(&subscription);
    subscription.topics = names;
    for (uint32_t i = 0; i < COORDINATOR_TOPICS; i++)
        if (member->topics & (1u << i))
            names[subscription.topics_count++] = member->crowd->coordinator.table[i].name;
    subscription.user_data = bytes_of(&member->flavour, sizeof(member->flavour));
    return encode(call, &consumer_protocol_subscription_message, 1, &subscription);
}

static void join(struct crowd_member *member)
{
    struct crowd_call *call =
        crowd_call_new(member->crowd, member, ASK_JOIN_GROUP, member->join_version, member->group);
    struct join_group_request *request = &call->request.join;

    join_group_request_init(request);
    request->group_id = call->op.group_id;
    request->session_timeout_ms = member->session_ms;
    request->rebalance_timeout_ms = member->rebalance_ms;
    request->member_id = crowd_call_text(call, member->now.id);
    request->group_instance_id = member->join_version >= 5 ? instance_of(call, member) : (struct bytes){0};
    request->protocol_type = BYTES_LITERAL("consumer");
    request->protocols = crowd_call_array(call, 2, sizeof(*request->protocols));
    request->protocols_count = 2;
    for (uint32_t i = 0; i < 2; i++) {
        join_group_request_protocol_init(&request->protocols[i]);
        request->protocols[i].name = (i + member->number) % 2 == 0 ? BYTES_LITERAL("range") : BYTES_LITERAL("sticky");
        request->protocols[i].metadata = subscription_of(member, call);
    }
    member->state = MEMBER_JOINING;
    send(member, call);
}

static void beat(struct crowd_member *member)
{
    struct crowd_call *call = crowd_call_new(member->crowd, member, ASK_HEARTBEAT, BEAT_VERSION, member->group);
    struct heartbeat_request *request = &call->request.beat;

    heartbeat_request_init(request);
    request->member_id = crowd_call_text(call, member->now.id);
    request->group_instance_id = instance_of(call, member);
    request->generation_id = member->now.generation;
    send(member, call);
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
    request->members->group_instance_id = instance_of(call, member);
    send(member, call);
}

/* What it has read since: all of its partitions, further on. False: it owns nothing. */
static struct crowd_call *commit_of(struct crowd_member *member, struct member_view *view)
{
    struct crowd_call *call = crowd_call_new(member->crowd, member, ASK_OFFSET_COMMIT, COMMIT_VERSION, member->group);
    struct offset_commit_request *request = &call->request.commit;

    offset_commit_request_init(request);
    request->member_id = crowd_call_text(call, view->id);
    request->group_instance_id = instance_of(call, member);
    request->generation_id_or_member_epoch = view->generation;
    request->topics = crowd_call_array(call, COORDINATOR_TOPICS, sizeof(*request->topics));
    for (uint32_t t = 0; t < COORDINATOR_TOPICS; t++) {
        struct offset_commit_request_topic *topic = &request->topics[request->topics_count];

        offset_commit_request_topic_init(topic);
        topic->name = member->crowd->coordinator.table[t].name;
        topic->partitions = crowd_call_array(call, COORDINATOR_PARTITIONS_MAX, sizeof(*topic->partitions));
        for (int32_t p = 0; p < COORDINATOR_PARTITIONS_MAX; p++) {
            struct offset_commit_request_partition *partition = &topic->partitions[topic->partitions_count];

            if (!view->owned[t][p] || view->positions[t][p] < 0)
                continue;
            view->positions[t][p] += (int64_t)sim_draw(sim_of(member), 10);
            offset_commit_request_partition_init(partition);
            partition->partition_index = p;
            partition->committed_offset = view->positions[t][p];
            topic->partitions_count++;
        }
        if (topic->partitions_count > 0)
            request->topics_count++;
    }
    return call;
}

/* Where to go on from. */
static void fetch(struct crowd_member *member)
{
    struct crowd_call *call = crowd_call_new(member->crowd, member, ASK_OFFSET_FETCH, FETCH_VERSION, member->group);
    struct offset_fetch_request_group *request = &call->request.fetch;

    offset_fetch_request_group_init(request);
    request->group_id = call->op.group_id;
    request->topics = NULL; /* all */
    send(member, call);
}

/* Something of a generation that is over, or of an id that is: whoever hears it has to see that. */
static void say_stale(struct crowd_member *member)
{
    struct crowd_call *call = commit_of(member, &member->before);

    send(member, call);
}

/* ---- leading ---- */

static uint32_t topics_in(struct bytes metadata, const struct group_coordinator *coordinator)
{
    struct consumer_protocol_subscription subscription;
    struct wire_reader reader;
    struct arena arena;
    uint32_t topics = 0;

    arena_init(&arena, 64 * 1024);
    wire_reader_init(&reader, metadata);
    assert(wire_read_i16(&reader) == 1);
    if (consumer_protocol_subscription_read(&reader, &arena, 1, &subscription) != ERR_OK)
        assert(false && "a subscription that cannot be read");
    for (uint32_t i = 0; i < subscription.topics_count; i++)
        for (uint32_t t = 0; t < COORDINATOR_TOPICS; t++)
            if (bytes_equal(subscription.topics[i], coordinator->table[t].name))
                topics |= 1u << t;
    arena_deinit(&arena);
    return topics;
}

struct share {
    bool owned[COORDINATOR_TOPICS][COORDINATOR_PARTITIONS_MAX];
};

static struct bytes assignment_of(struct crowd_call *call, const struct share *share)
{
    struct consumer_protocol_assignment assignment;
    struct consumer_protocol_assignment_topic_partition topics[COORDINATOR_TOPICS];
    int32_t partitions[COORDINATOR_TOPICS][COORDINATOR_PARTITIONS_MAX];

    consumer_protocol_assignment_init(&assignment);
    assignment.assigned_partitions = topics;
    for (uint32_t t = 0; t < COORDINATOR_TOPICS; t++) {
        uint32_t at = assignment.assigned_partitions_count;

        consumer_protocol_assignment_topic_partition_init(&topics[at]);
        topics[at].topic = call->crowd->coordinator.table[t].name;
        topics[at].partitions = partitions[at];
        for (int32_t p = 0; p < COORDINATOR_PARTITIONS_MAX; p++)
            if (share->owned[t][p])
                partitions[at][topics[at].partitions_count++] = p;
        if (topics[at].partitions_count > 0)
            assignment.assigned_partitions_count++;
    }
    return encode(call, &consumer_protocol_assignment_message, 1, &assignment);
}

/* Each partition of a topic to one of those who subscribe to it, in turn. */
static void share_out(struct crowd_member *member, const struct join_group_response *heard, struct share *shares)
{
    const struct group_coordinator *coordinator = &member->crowd->coordinator;
    uint32_t turn = (uint32_t)sim_draw(sim_of(member), heard->members_count);

    for (uint32_t t = 0; t < COORDINATOR_TOPICS; t++)
        for (uint32_t p = 0; p < coordinator->table[t].partition_count; p++)
            for (uint32_t tries = 0; tries < heard->members_count; tries++) {
                uint32_t to = turn++ % heard->members_count;

                if (topics_in(heard->members[to].metadata, coordinator) & (1u << t)) {
                    shares[to].owned[t][p] = true;
                    break;
                }
            }
}

static void sync_generation(struct crowd_member *member, const struct join_group_response *heard)
{
    struct crowd_call *call = crowd_call_new(member->crowd, member, ASK_SYNC_GROUP, SYNC_VERSION, member->group);
    struct sync_group_request *request = &call->request.sync;
    bool leads = bytes_equal(heard->leader, heard->member_id) && !heard->skip_assignment;
    struct share shares[CROWD_MEMBERS * 2] = {0};

    sync_group_request_init(request);
    request->member_id = crowd_call_text(call, member->now.id);
    request->group_instance_id = instance_of(call, member);
    request->generation_id = member->now.generation;
    if (leads) {
        assert(heard->members_count > 0 && heard->members_count <= CROWD_MEMBERS * 2);
        share_out(member, heard, shares);
        member->seen_version = member->crowd->coordinator.topics.version;
        request->assignments = crowd_call_array(call, heard->members_count, sizeof(*request->assignments));
        for (uint32_t i = 0; i < heard->members_count; i++) {
            struct sync_group_request_assignment *entry = &request->assignments[request->assignments_count];

            if (chance(member, 2)) {
                member->crowd->omitted[member->group] = member->now.generation;
                continue;
            }
            sync_group_request_assignment_init(entry);
            if (arena_copy(&call->arena, heard->members[i].member_id, &entry->member_id) != ERR_OK)
                assert(false && "memory");
            entry->assignment = assignment_of(call, &shares[i]);
            request->assignments_count++;
        }
    } else {
        member->seen_version = -1;
    }
    member->state = MEMBER_SYNCING;
    send(member, call);
}

/* ---- what it hears ---- */

/* The assignment is told: nobody else may have been told of any of it in that generation. */
static void take_assignment(struct crowd_member *member, struct bytes bytes)
{
    struct consumer_protocol_assignment assignment = {0};
    struct group_crowd *crowd = member->crowd;
    struct wire_reader reader;
    struct arena arena;

    memset(member->now.owned, 0, sizeof(member->now.owned));
    memset(member->now.positions, 0xff, sizeof(member->now.positions));
    crowd->assignments++;
    arena_init(&arena, 64 * 1024);
    wire_reader_init(&reader, bytes);
    if (bytes.size > 0 &&
        (wire_read_i16(&reader) != 1 || consumer_protocol_assignment_read(&reader, &arena, 1, &assignment) != ERR_OK))
        assert(false && "an assignment that cannot be read");
    for (uint32_t i = 0; i < assignment.assigned_partitions_count; i++)
        for (uint32_t t = 0; t < COORDINATOR_TOPICS; t++) {
            if (!bytes_equal(assignment.assigned_partitions[i].topic, crowd->coordinator.table[t].name))
                continue;
            for (uint32_t j = 0; j < assignment.assigned_partitions[i].partitions_count; j++) {
                int32_t p = assignment.assigned_partitions[i].partitions[j];
                struct crowd_owner *owner = &crowd->owners[member->group][t][p];

                assert(owner->generation != member->now.generation || owner->member == member->number + 1);
                *owner = (struct crowd_owner){member->now.generation, member->number + 1};
                member->now.owned[t][p] = true;
            }
        }
    arena_deinit(&arena);
}

static void remember(struct crowd_member *member)
{
    if (member->state == MEMBER_IN)
        member->before = member->now;
}

static void go_out(struct crowd_member *member, bool forget_id)
{
    remember(member);
    if (forget_id)
        member->now.id[0] = '\0';
    member->state = MEMBER_OUT;
    crowd_member_soon(member, RETRY_MS_MAX);
}

/* True: it was an error, and is dealt with as a client does. */
static bool refused(struct crowd_member *member, enum err err, int16_t code)
{
    if (err == ERR_OK && code == 0)
        return false;
    member->crowd->refusals++;
    if (err != ERR_OK || code == err_wire(ERR_NOT_COORDINATOR) || code == err_wire(ERR_COORDINATOR_NOT_AVAILABLE)) {
        if (member->state == MEMBER_JOINING || member->state == MEMBER_SYNCING)
            member->state = MEMBER_OUT;
        crowd_member_soon(member, RETRY_MS_MAX);
    } else if (code == err_wire(ERR_UNKNOWN_MEMBER_ID)) {
        go_out(member, true);
    } else if (code == err_wire(ERR_FENCED_INSTANCE_ID)) {
        go_out(member, true); /* a client would stop for good: here its name goes on as another life of it */
    } else {
        assert(code == err_wire(ERR_REBALANCE_IN_PROGRESS) || code == err_wire(ERR_ILLEGAL_GENERATION) ||
               code == err_wire(ERR_UNKNOWN_SERVER_ERROR));
        go_out(member, false);
    }
    return true;
}

static void hear_join(struct crowd_member *member, struct crowd_call *call)
{
    const struct join_group_response *heard = &call->response.join;

    if (call->op.op.err == ERR_OK && heard->error_code == err_wire(ERR_MEMBER_ID_REQUIRED)) {
        (void)snprintf(member->now.id, sizeof(member->now.id), "%.*s", BYTES_PRINTF(heard->member_id));
        if (chance(member, 5)) { /* it never comes back with it */
            member->now.id[0] = '\0';
            member->state = MEMBER_OUT;
            crowd_member_soon(member, COMES_BACK_MS_MAX);
        } else {
            join(member);
        }
        return;
    }
    if (refused(member, call->op.op.err, call->op.op.err == ERR_OK ? heard->error_code : (int16_t)0))
        return;
    (void)snprintf(member->now.id, sizeof(member->now.id), "%.*s", BYTES_PRINTF(heard->member_id));
    member->now.generation = heard->generation_id;
    if (chance(member, 3)) { /* it never syncs, or late */
        member->state = MEMBER_OUT;
        crowd_member_soon(member, STALL_MS_MAX);
        return;
    }
    sync_generation(member, heard);
}

static void hear_sync(struct crowd_member *member, struct crowd_call *call)
{
    const struct sync_group_response *heard = &call->response.sync;

    if (refused(member, call->op.op.err, call->op.op.err == ERR_OK ? heard->error_code : (int16_t)0))
        return;
    take_assignment(member, heard->assignment);
    member->state = MEMBER_IN;
    member->fresh = true;
    crowd_member_soon(member, RETRY_MS_MAX);
}

static void hear_commit(struct crowd_member *member, struct crowd_call *call)
{
    const struct offset_commit_response *heard = &call->response.commit;
    bool of_now = bytes_equal(call->request.commit.member_id, bytes_of_text(member->now.id)) &&
                  call->request.commit.generation_id_or_member_epoch == member->now.generation;
    int16_t code = 0;

    for (uint32_t t = 0; call->op.op.err == ERR_OK && t < heard->topics_count; t++)
        for (uint32_t p = 0; p < heard->topics[t].partitions_count; p++) {
            int16_t each = heard->topics[t].partitions[p].error_code;

            if (each == err_wire(ERR_UNKNOWN_TOPIC_OR_PARTITION))
                continue; /* deleted meanwhile */
            code = each;
            member->crowd->commits += each == 0;
        }
    if (!of_now || member->state != MEMBER_IN)
        crowd_member_soon(member, RETRY_MS_MAX); /* it was a stale one: what it heard says nothing of now */
    else if (!refused(member, call->op.op.err, code))
        crowd_member_soon(member, BEAT_MS_MAX);
}

static void hear_fetch(struct crowd_member *member, struct crowd_call *call)
{
    const struct offset_fetch_response_group *heard = &call->response.fetch;
    struct group_coordinator *coordinator = &member->crowd->coordinator;

    if (call->op.op.err != ERR_OK || heard->error_code != 0) {
        crowd_member_soon(member, RETRY_MS_MAX);
        return;
    }
    for (uint32_t t = 0; t < COORDINATOR_TOPICS; t++)
        for (uint32_t p = 0; p < COORDINATOR_PARTITIONS_MAX; p++)
            member->now.positions[t][p] = 0;
    for (uint32_t i = 0; i < heard->topics_count; i++)
        for (uint32_t t = 0; t < COORDINATOR_TOPICS; t++)
            for (uint32_t j = 0; j < heard->topics[i].partitions_count; j++) {
                const struct offset_fetch_response_partitions *partition = &heard->topics[i].partitions[j];

                if (bytes_equal(heard->topics[i].name, coordinator->table[t].name) && partition->committed_offset >= 0)
                    member->now.positions[t][partition->partition_index] = partition->committed_offset;
            }
    member->fresh = false;
    crowd_member_soon(member, BEAT_MS_MAX);
}

void crowd_member_hear(struct crowd_member *member, struct crowd_call *call)
{
    switch (call->op.ask) {
    case ASK_JOIN_GROUP:
        hear_join(member, call);
        break;
    case ASK_SYNC_GROUP:
        hear_sync(member, call);
        break;
    case ASK_HEARTBEAT:
        if (!refused(member, call->op.op.err, call->op.op.err == ERR_OK ? call->response.beat.error_code : (int16_t)0))
            crowd_member_soon(member, BEAT_MS_MAX);
        break;
    case ASK_LEAVE_GROUP:
        remember(member);
        member->now.id[0] = '\0';
        member->state = MEMBER_GONE;
        crowd_member_soon(member, COMES_BACK_MS_MAX);
        break;
    case ASK_OFFSET_COMMIT:
        hear_commit(member, call);
        break;
    case ASK_OFFSET_FETCH:
        hear_fetch(member, call);
        break;
    default:
        assert(false && "an answer to nothing");
    }
}

/* ---- what it does ---- */

static void resubscribe(struct crowd_member *member)
{
    member->topics = 1 + (uint32_t)sim_draw(sim_of(member), (1u << COORDINATOR_TOPICS) - 1);
    member->flavour++;
}

/* It is gone without a word; its name, if it has one, comes back with another life. */
static void vanish(struct crowd_member *member)
{
    remember(member);
    member->now.id[0] = '\0';
    member->state = MEMBER_GONE;
    crowd_member_soon(member, COMES_BACK_MS_MAX);
}

static void act_in(struct crowd_member *member)
{
    bool leads = member->seen_version >= 0;

    if (chance(member, 2)) {
        vanish(member);
    } else if (chance(member, 2)) {
        leave(member);
    } else if (chance(member, 3)) {
        crowd_member_soon(member, STALL_MS_MAX);
    } else if (chance(member, 2)) {
        resubscribe(member);
        join(member);
    } else if (leads && (member->seen_version != member->crowd->coordinator.topics.version ||
                         member->crowd->omitted[member->group] == member->now.generation)) {
        join(member);
    } else if (member->before.id[0] != '\0' && chance(member, 10)) {
        say_stale(member);
    } else if (member->fresh) {
        fetch(member);
    } else if (sim_chance(sim_of(member), 50)) {
        send(member, commit_of(member, &member->now));
    } else {
        beat(member);
    }
}

static void act(struct sim_event *event)
{
    struct crowd_member *member = (struct crowd_member *)(void *)((char *)event - offsetof(struct crowd_member, act));

    if (member->state == MEMBER_IN) {
        act_in(member);
        return;
    }
    if (member->before.id[0] != '\0' && chance(member, 10)) {
        say_stale(member);
        return;
    }
    if (member->state == MEMBER_GONE && member->crowd->over && member->number % 2 == 0)
        return; /* half of those that are gone when the trouble ends stay so */
    join(member);
}

void crowd_member_open(struct crowd_member *member, struct group_crowd *crowd, uint32_t number)
{
    static const int16_t versions[] = {1, 3, 5, 8, JOIN_VERSION_MAX};
    struct sim *sim = &crowd->sim;

    *member = (struct crowd_member){.crowd = crowd, .number = number, .group = number % CROWD_GROUPS};
    (void)snprintf(member->label, sizeof(member->label), "m%u", number);
    member->join_version = versions[sim_draw(sim, sizeof(versions) / sizeof(versions[0]))];
    if (member->join_version >= 5 && sim_chance(sim, STATIC_PERCENT))
        (void)snprintf(member->instance, sizeof(member->instance), "i%u", number);
    member->session_ms = 2000 + (int32_t)sim_draw(sim, 4000);
    member->rebalance_ms = 3000 + (int32_t)sim_draw(sim, 5000);
    member->act.run = act;
    member->patience.run = patience_ends;
    resubscribe(member);
    crowd_member_soon(member, COMES_BACK_MS_MAX);
}

void crowd_reset_offsets(struct group_crowd *crowd, uint32_t group)
{
    struct crowd_call *call = crowd_call_new(crowd, NULL, ASK_OFFSET_COMMIT, COMMIT_VERSION, group);
    struct offset_commit_request *request = &call->request.commit;

    offset_commit_request_init(request);
    request->topics = crowd_call_array(call, 1, sizeof(*request->topics));
    request->topics_count = 1;
    offset_commit_request_topic_init(request->topics);
    request->topics->name = crowd->coordinator.table[0].name;
    request->topics->partitions = crowd_call_array(call, 1, sizeof(*request->topics->partitions));
    request->topics->partitions_count = 1;
    offset_commit_request_partition_init(request->topics->partitions);
    call->reset = true;
    crowd_call_send(call);
}
