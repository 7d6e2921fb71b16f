/* How members join: by JoinGroup, SyncGroup and Heartbeat, or by ConsumerGroupHeartbeat alone. */
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "protocol/gen/consumer_group_heartbeat.h"
#include "protocol/gen/consumer_protocol_assignment.h"
#include "protocol/gen/consumer_protocol_subscription.h"
#include "protocol/gen/heartbeat.h"
#include "protocol/gen/join_group.h"
#include "protocol/gen/sync_group.h"
#include "sim/node_groups_internal.h"

enum {
    JOIN_VERSION = 9,
    SYNC_VERSION = 5,
    BEAT_VERSION = 4,
    CONSUMER_BEAT_VERSION = 1,
    EMBEDDED_VERSION = 1,
    VERSION_BYTES = 2,
    EMBEDDED_BYTES_MAX = 512,
};

/* ---- the classic protocol ---- */

static struct bytes embed(uint8_t to[EMBEDDED_BYTES_MAX], const struct message_type *type, const void *message)
{
    size_t size = VERSION_BYTES + wire_size_total(message_size(type, EMBEDDED_VERSION, message));
    struct wire_writer writer;

    assert(size <= EMBEDDED_BYTES_MAX);
    wire_writer_init_flat(&writer, to, size);
    wire_write_i16(&writer, EMBEDDED_VERSION);
    message_write(type, &writer, EMBEDDED_VERSION, message);
    assert(wire_writer_finish(&writer, NULL) == ERR_OK);
    return bytes_of(to, size);
}

/* Partition p goes to the (p mod n)-th. */
static struct bytes share(const struct node_member *member, uint32_t number, uint8_t to[EMBEDDED_BYTES_MAX])
{
    struct consumer_protocol_assignment assignment;
    struct consumer_protocol_assignment_topic_partition topic;
    int32_t partitions[NODE_GROUP_PARTITIONS];

    consumer_protocol_assignment_init(&assignment);
    consumer_protocol_assignment_topic_partition_init(&topic);
    topic.topic = member->all->topic;
    topic.partitions = partitions;
    for (int32_t p = 0; p < NODE_GROUP_PARTITIONS; p++)
        if ((uint32_t)p % member->member_count == number)
            partitions[topic.partitions_count++] = p;
    assignment.assigned_partitions = &topic;
    assignment.assigned_partitions_count = 1;
    return embed(to, &consumer_protocol_assignment_message, &assignment);
}

static void take_share(struct node_member *member, struct bytes bytes)
{
    struct consumer_protocol_assignment assignment;
    struct wire_reader reader;
    struct arena arena;

    memset(member->owned, 0, sizeof(member->owned));
    if (bytes.size == 0)
        return; /* a leader that was told of fewer members */
    arena_init(&arena, EMBEDDED_BYTES_MAX * 8);
    wire_reader_init(&reader, bytes);
    if (wire_read_i16(&reader) != EMBEDDED_VERSION ||
        consumer_protocol_assignment_read(&reader, &arena, EMBEDDED_VERSION, &assignment) != ERR_OK)
        assert(false && "an assignment that cannot be read");
    for (uint32_t i = 0; i < assignment.assigned_partitions_count; i++)
        for (uint32_t j = 0; j < assignment.assigned_partitions[i].partitions_count; j++)
            node_member_note_owned(member, assignment.assigned_partitions[i].partitions[j]);
    arena_deinit(&arena);
}

static void on_synced(struct sim_call *sim_call, enum err err)
{
    struct node_member *member = node_member_heard(sim_call);
    const struct sync_group_response *response = sim_call->response;

    if (err != ERR_OK)
        node_member_go_out(member, NODE_MEMBER_JOIN, false);
    if (!node_member_refused(member, err, err == ERR_OK ? response->error_code : 0)) {
        node_member_note_generation(member, member->generation, true);
        take_share(member, response->assignment);
        member->state = NODE_MEMBER_IN;
        member->knows_positions = false;
        node_member_soon(member, 1, NODE_PAUSE_MS_MAX);
    }
    if (err == ERR_OK)
        arena_deinit(&sim_call->arena);
}

void node_member_sync(struct node_member *member)
{
    struct sync_group_request request;
    struct sync_group_request_assignment shares[NODE_GROUP_MEMBERS * 2];
    uint8_t encoded[NODE_GROUP_MEMBERS * 2][EMBEDDED_BYTES_MAX];

    sync_group_request_init(&request);
    request.group_id = node_member_group_id(member);
    request.member_id = bytes_of_text(member->id);
    request.generation_id = member->generation;
    request.protocol_type = BYTES_LITERAL("consumer");
    request.protocol_name = BYTES_LITERAL("range");
    request.assignments = shares;
    for (uint32_t i = 0; member->leads && i < member->member_count; i++) {
        sync_group_request_assignment_init(&shares[i]);
        shares[i].member_id = bytes_of_text(member->member_ids[i]);
        shares[i].assignment = share(member, i, encoded[i]);
        request.assignments_count++;
    }
    node_member_call(member, &sync_group_request_message, &request, &sync_group_response_message, SYNC_VERSION,
                     on_synced);
}

static void on_joined(struct sim_call *sim_call, enum err err)
{
    struct node_member *member = node_member_heard(sim_call);
    const struct join_group_response *response = sim_call->response;

    if (err == ERR_OK && response->error_code == err_wire(ERR_MEMBER_ID_REQUIRED)) {
        (void)snprintf(member->id, sizeof(member->id), "%.*s", BYTES_PRINTF(response->member_id));
        node_member_soon(member, 1, NODE_PAUSE_MS_MAX);
    } else if (!node_member_refused(member, err, err == ERR_OK ? response->error_code : 0)) {
        (void)snprintf(member->id, sizeof(member->id), "%.*s", BYTES_PRINTF(response->member_id));
        node_member_note_generation(member, response->generation_id, false);
        member->leads = bytes_equal(response->leader, response->member_id);
        member->member_count = response->members_count;
        assert(member->member_count <= NODE_GROUP_MEMBERS * 2);
        for (uint32_t i = 0; i < member->member_count; i++)
            (void)snprintf(member->member_ids[i], sizeof(member->member_ids[i]), "%.*s",
                           BYTES_PRINTF(response->members[i].member_id));
        member->state = NODE_MEMBER_SYNC;
        node_member_soon(member, 1, NODE_PAUSE_MS_MAX);
    }
    if (err == ERR_OK)
        arena_deinit(&sim_call->arena);
}

void node_member_join(struct node_member *member)
{
    struct consumer_protocol_subscription subscription;
    struct join_group_request request;
    struct join_group_request_protocol protocol;
    uint8_t encoded[EMBEDDED_BYTES_MAX];

    consumer_protocol_subscription_init(&subscription);
    subscription.topics = &member->all->topic;
    subscription.topics_count = 1;
    join_group_request_init(&request);
    join_group_request_protocol_init(&protocol);
    request.group_id = node_member_group_id(member);
    request.session_timeout_ms = NODE_SESSION_MS;
    request.rebalance_timeout_ms = NODE_REBALANCE_MS;
    request.member_id = bytes_of_text(member->id);
    request.protocol_type = BYTES_LITERAL("consumer");
    request.protocols = &protocol;
    request.protocols_count = 1;
    protocol.name = BYTES_LITERAL("range");
    protocol.metadata = embed(encoded, &consumer_protocol_subscription_message, &subscription);
    node_member_call(member, &join_group_request_message, &request, &join_group_response_message, JOIN_VERSION,
                     on_joined);
}

static void on_beat(struct sim_call *sim_call, enum err err)
{
    struct node_member *member = node_member_heard(sim_call);
    const struct heartbeat_response *response = sim_call->response;

    if (!node_member_refused(member, err, err == ERR_OK ? response->error_code : 0))
        node_member_soon(member, 1, NODE_PAUSE_MS_MAX);
    if (err == ERR_OK)
        arena_deinit(&sim_call->arena);
}

void node_member_beat(struct node_member *member)
{
    struct heartbeat_request request;

    heartbeat_request_init(&request);
    request.group_id = node_member_group_id(member);
    request.member_id = bytes_of_text(member->id);
    request.generation_id = member->generation;
    node_member_call(member, &heartbeat_request_message, &request, &heartbeat_response_message, BEAT_VERSION, on_beat);
}

/* ---- the consumer protocol ---- */

static void take_told(struct node_member *member, const struct consumer_group_heartbeat_response_assignment *told)
{
    bool before[NODE_GROUP_PARTITIONS];

    memcpy(before, member->owned, sizeof(before));
    memset(member->owned, 0, sizeof(member->owned));
    for (uint32_t i = 0; i < told->topic_partitions_count; i++) {
        assert(uuid_equal(told->topic_partitions[i].topic_id, member->all->topic_id));
        for (uint32_t j = 0; j < told->topic_partitions[i].partitions_count; j++)
            node_member_note_owned(member, told->topic_partitions[i].partitions[j]);
    }
    member->reconciled = memcmp(before, member->owned, sizeof(before)) == 0;
    if (!member->reconciled)
        member->knows_positions = false;
}

static void on_consumer_beat(struct sim_call *sim_call, enum err err)
{
    struct node_member *member = node_member_heard(sim_call);
    const struct consumer_group_heartbeat_response *response = sim_call->response;

    if (!node_member_refused(member, err, err == ERR_OK ? response->error_code : 0)) {
        (void)snprintf(member->id, sizeof(member->id), "%.*s", BYTES_PRINTF(response->member_id));
        node_member_note_generation(member, response->member_epoch, true);
        member->state = NODE_MEMBER_IN;
        if (response->assignment != NULL)
            take_told(member, response->assignment);
        node_member_soon(member, 1, NODE_PAUSE_MS_MAX);
    }
    if (err == ERR_OK)
        arena_deinit(&sim_call->arena);
}

/* Each says everything: then each answer does. */
void node_member_consumer_beat(struct node_member *member)
{
    struct consumer_group_heartbeat_request request;
    struct consumer_group_heartbeat_request_topic_partitions topic = {.topic_id = member->all->topic_id};
    int32_t partitions[NODE_GROUP_PARTITIONS];

    if (member->id[0] == '\0') /* from this version on a process names itself */
        (void)snprintf(member->id, sizeof(member->id), "m%u-%u", member->number, ++member->all->named);
    topic.partitions = partitions;
    for (int32_t p = 0; p < NODE_GROUP_PARTITIONS; p++)
        if (member->owned[p])
            partitions[topic.partitions_count++] = p;
    consumer_group_heartbeat_request_init(&request);
    request.group_id = node_member_group_id(member);
    request.member_id = bytes_of_text(member->id);
    request.member_epoch = member->state == NODE_MEMBER_IN ? member->generation : 0;
    request.rebalance_timeout_ms = NODE_REBALANCE_MS;
    request.subscribed_topic_names = &member->all->topic;
    request.subscribed_topic_names_count = 1;
    request.topic_partitions = &topic;
    request.topic_partitions_count = topic.partitions_count > 0 ? 1 : 0;
    node_member_call(member, &consumer_group_heartbeat_request_message, &request,
                     &consumer_group_heartbeat_response_message, CONSUMER_BEAT_VERSION, on_consumer_beat);
}
