#include "coordinator/stubborn.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "coordinator/consumer_beats.h"
#include "coordinator/embedded.h"
#include "protocol/gen/consumer_group_heartbeat.h"
#include "protocol/gen/join_group.h"
#include "protocol/gen/leave_group.h"
#include "protocol/gen/sync_group.h"

enum {
    TURN_MS = 1000,
    ARENA_BYTES_MAX = 64 * 1024,
    SUBSCRIPTION_VERSION = 1,
    LEAVE_TRIES_MAX = 4,
    QUIET_ROUNDS = 3,
};

static int16_t error_of(const struct world_call *call)
{
    switch (call->op.ask) {
    case ASK_CONSUMER_HEARTBEAT:
        return beat_error(call);
    case ASK_JOIN_GROUP:
    case ASK_SYNC_GROUP:
    case ASK_HEARTBEAT:
    case ASK_LEAVE_GROUP:
        return (int16_t)client_error(call);
    default:
        return 0;
    }
}

bool stubborn_may_ask_again(const struct world_call *call)
{
    enum err err = call->op.op.err;

    if (err != ERR_OK) {
        ck_assert_msg(err == ERR_NOMEM || err == ERR_NOT_COORDINATOR, "%s", err_name(err));
        return true;
    }
    return error_of(call) == err_wire(ERR_NOMEM);
}

/* ---- classic ---- */

static struct bytes write_subscription(struct stubborn *member)
{
    struct bytes topic = bytes_of_text(member->topics);
    struct consumer_protocol_subscription_topic_partition owned = {
        .topic = BYTES_LITERAL("t"), .partitions = member->owned_of_t, .partitions_count = member->owned_count};
    struct consumer_protocol_subscription says;
    struct wire_writer w;
    size_t size = 0;

    consumer_protocol_subscription_init(&says);
    says.topics = &topic;
    says.topics_count = 1;
    says.owned_partitions = &owned;
    says.owned_partitions_count = member->owned_count > 0;
    size = EMBEDDED_VERSION_BYTES + wire_size_total(consumer_protocol_subscription_size(SUBSCRIPTION_VERSION, &says));
    ck_assert_uint_le(size, STUBBORN_TEXT_MAX);
    wire_writer_init_flat(&w, member->subscription, size);
    wire_write_i16(&w, SUBSCRIPTION_VERSION);
    consumer_protocol_subscription_write(&w, SUBSCRIPTION_VERSION, &says);
    ck_assert_int_eq(wire_writer_finish(&w, NULL), ERR_OK);
    return bytes_of(member->subscription, size);
}

/* Each of so many members gets every so-manieth partition. */
static struct bytes write_share(uint8_t *to, uint32_t number, uint32_t of)
{
    int32_t partitions[STUBBORN_PARTITIONS];
    struct consumer_protocol_assignment_topic_partition topic = {.topic = BYTES_LITERAL("t"), .partitions = partitions};
    struct consumer_protocol_assignment gives;
    struct wire_writer w;
    size_t size = 0;

    consumer_protocol_assignment_init(&gives);
    for (uint32_t i = number; i < STUBBORN_PARTITIONS; i += of)
        partitions[topic.partitions_count++] = (int32_t)i;
    gives.assigned_partitions = &topic;
    gives.assigned_partitions_count = 1;
    size = EMBEDDED_VERSION_BYTES + wire_size_total(consumer_protocol_assignment_size(SUBSCRIPTION_VERSION, &gives));
    ck_assert_uint_le(size, STUBBORN_TEXT_MAX);
    wire_writer_init_flat(&w, to, size);
    wire_write_i16(&w, SUBSCRIPTION_VERSION);
    consumer_protocol_assignment_write(&w, SUBSCRIPTION_VERSION, &gives);
    ck_assert_int_eq(wire_writer_finish(&w, NULL), ERR_OK);
    return bytes_of(to, size);
}

static void read_share(struct stubborn *member, struct bytes text)
{
    struct consumer_protocol_assignment given;
    struct arena arena;

    member->owned_count = 0;
    if (text.size == 0)
        return;
    arena_init(&arena, ARENA_BYTES_MAX);
    ck_assert_int_eq(embedded_read_assignment(text, &arena, &given), ERR_OK);
    for (uint32_t i = 0; i < given.assigned_partitions_count; i++)
        for (uint32_t j = 0; j < given.assigned_partitions[i].partitions_count; j++)
            member->owned_of_t[member->owned_count++] = given.assigned_partitions[i].partitions[j];
    arena_deinit(&arena);
}

static void join(struct group_world *world, const struct stubborn_watch *watch, struct stubborn *member)
{
    member->classic.label = member->name;
    member->classic.instance = member->instance;
    member->classic.protocols = "range=t";
    member->classic.metadata = write_subscription(member);
    member->state = STUBBORN_JOINING;
    watch->begins();
    member->call = client_join(world, &member->classic);
    watch->ends();
}

static void join_anew(struct group_world *world, const struct stubborn_watch *watch, struct stubborn *member)
{
    member->classic.id[0] = '\0';
    member->owned_count = 0;
    join(world, watch, member);
}

static void sync(struct group_world *world, const struct stubborn_watch *watch, struct stubborn *member)
{
    const struct join_group_response *joined = member->joined->response;
    struct classic_share shares[STUBBORN_MEMBERS_MAX];

    for (uint32_t i = 0; i < joined->members_count; i++) {
        ck_assert_uint_lt(i, STUBBORN_MEMBERS_MAX);
        (void)snprintf(member->gives_to[i].id, CLIENT_ID_BYTES, "%.*s", BYTES_PRINTF(joined->members[i].member_id));
        shares[i] = (struct classic_share){.to = &member->gives_to[i],
                                           .assignment = write_share(member->gives[i], i, joined->members_count)};
    }
    member->state = STUBBORN_SYNCING;
    watch->begins();
    member->call = client_sync(world, &member->classic, shares, joined->members_count);
    watch->ends();
}

/* What is to be done when a generation is over, or who it was is. */
static void start_over(struct group_world *world, const struct stubborn_watch *watch, struct stubborn *member,
                       int error)
{
    if (error == err_wire(ERR_REBALANCE_IN_PROGRESS) || error == err_wire(ERR_ILLEGAL_GENERATION)) {
        join(world, watch, member);
        return;
    }
    ck_assert_msg(error == err_wire(ERR_UNKNOWN_MEMBER_ID) || error == err_wire(ERR_FENCED_INSTANCE_ID), "%s: %d",
                  member->name, error);
    join_anew(world, watch, member);
}

static void has_joined(struct group_world *world, const struct stubborn_watch *watch, struct stubborn *member)
{
    int error = stubborn_may_ask_again(member->call) ? err_wire(ERR_NOMEM) : error_of(member->call);

    if (error == err_wire(ERR_NOMEM)) {
        join(world, watch, member);
    } else if (error == err_wire(ERR_MEMBER_ID_REQUIRED)) {
        client_learn(&member->classic, member->call);
        join(world, watch, member);
    } else if (error == 0) {
        client_learn(&member->classic, member->call);
        member->joined = member->call;
        sync(world, watch, member);
    } else {
        start_over(world, watch, member, error);
    }
}

static void has_synced(struct group_world *world, const struct stubborn_watch *watch, struct stubborn *member)
{
    const struct sync_group_response *response = member->call->response;

    if (stubborn_may_ask_again(member->call)) {
        sync(world, watch, member);
    } else if (response->error_code != 0) {
        start_over(world, watch, member, response->error_code);
    } else {
        read_share(member, response->assignment);
        member->state = STUBBORN_IN;
    }
}

/* True: it is in, and has heard that all is well. */
static bool classic_turn(struct group_world *world, const struct stubborn_watch *watch, struct stubborn *member)
{
    const struct world_call *call = member->call;

    switch (member->state) {
    case STUBBORN_OUT:
        join_anew(world, watch, member);
        return false;
    case STUBBORN_JOINING:
        if (call->answered)
            has_joined(world, watch, member);
        return false;
    case STUBBORN_SYNCING:
        if (call->answered)
            has_synced(world, watch, member);
        return false;
    case STUBBORN_IN:
        break;
    }
    watch->begins();
    call = client_beat(world, &member->classic);
    watch->ends();
    if (stubborn_may_ask_again(call))
        return false;
    if (error_of(call) != 0)
        start_over(world, watch, member, error_of(call));
    return error_of(call) == 0;
}

/* ---- of KIP-848 ---- */

static void take_assignment(struct stubborn *member, const struct consumer_group_heartbeat_response_assignment *given)
{
    size_t size = 0;

    member->owned[0] = '\0';
    for (uint32_t i = 0; i < given->topic_partitions_count; i++)
        for (uint32_t j = 0; j < given->topic_partitions[i].partitions_count; j++) {
            char *at = member->owned + size;
            size_t room = sizeof(member->owned) - size;
            int32_t partition = given->topic_partitions[i].partitions[j];
            int topic = given->topic_partitions[i].topic_id.bytes[UUID_BYTES - 1];

            size += (size_t)(j == 0 ? snprintf(at, room, "%s%d:%d", i == 0 ? "" : ";", topic, partition)
                                    : snprintf(at, room, ",%d", partition));
            ck_assert_uint_lt(size, sizeof(member->owned));
        }
}

static bool modern_turn(struct group_world *world, const struct stubborn_watch *watch, struct stubborn *member)
{
    const struct consumer_group_heartbeat_response *response = NULL;
    const struct world_call *call = NULL;
    bool all = member->says_all || member->epoch <= 0 || member->state == STUBBORN_OUT;
    bool changed = true;

    if (member->state == STUBBORN_OUT)
        member->epoch = 0;
    if (member->epoch <= 0)
        member->owned[0] = '\0';
    member->state = STUBBORN_IN;
    watch->begins();
    call = beat(world, &(struct beat_says){.member = member->name,
                                           .epoch = member->epoch,
                                           .instance = all ? member->instance : NULL,
                                           .rebalance_ms = all ? 60000 : 0,
                                           .topics = all && member->topics != NULL ? member->topics : NULL,
                                           .regex = all ? member->regex : NULL,
                                           .owned = member->owned});
    watch->ends();
    ck_assert(call->answered);
    response = call->response;
    member->says_all = true;
    if (stubborn_may_ask_again(call))
        return false;
    if (response->error_code != 0) {
        ck_assert_msg(response->error_code == err_wire(ERR_FENCED_MEMBER_EPOCH) ||
                          response->error_code == err_wire(ERR_UNKNOWN_MEMBER_ID) ||
                          response->error_code == err_wire(ERR_UNRELEASED_INSTANCE_ID),
                      "%s: %d", member->name, response->error_code);
        member->epoch = 0;
        return false;
    }
    changed = response->member_epoch != member->epoch || response->assignment != NULL;
    member->says_all = false;
    member->epoch = response->member_epoch;
    if (response->assignment != NULL)
        take_assignment(member, response->assignment);
    return !changed;
}

/* ---- all ---- */

void stubborn_wait(struct group_world *world, const struct stubborn_watch *watch, int64_t ms)
{
    watch->begins();
    world_advance(world, ms);
    watch->ends();
}

bool stubborn_round(struct group_world *world, const struct stubborn_watch *watch, struct stubborn **members,
                    uint32_t count)
{
    bool all_in = true;

    for (uint32_t i = 0; i < count; i++) {
        struct stubborn *member = members[i];
        bool in = member->modern ? modern_turn(world, watch, member) : classic_turn(world, watch, member);

        all_in = all_in && in;
    }
    stubborn_wait(world, watch, TURN_MS);
    return all_in;
}

/* A change may be on its way to who was heard first, or wait for an expression to be resolved. */
void stubborn_settle(struct group_world *world, const struct stubborn_watch *watch, struct stubborn **members,
                     uint32_t count)
{
    uint32_t quiet = 0;

    for (uint32_t round = 0; quiet < QUIET_ROUNDS; round++) {
        ck_assert_msg(round < STUBBORN_ROUNDS_MAX, "not all of them come in");
        quiet = stubborn_round(world, watch, members, count) ? quiet + 1 : 0;
    }
}

void stubborn_leave(struct group_world *world, const struct stubborn_watch *watch, struct stubborn *member,
                    int32_t epoch)
{
    const struct world_call *call = NULL;
    uint32_t tries = 0;

    do {
        ck_assert_uint_lt(tries++, LEAVE_TRIES_MAX);
        watch->begins();
        if (member->modern)
            call =
                beat(world, &(struct beat_says){.member = member->name, .epoch = epoch, .instance = member->instance});
        else
            call = client_leave(world, &member->classic, 0);
        watch->ends();
        ck_assert(call->answered);
    } while (stubborn_may_ask_again(call));
    member->state = STUBBORN_OUT;
    member->epoch = 0;
}
