/* A member that leads its group of the classic protocol, and what it says of who has what. */
#include "base/assert.h"
#include "protocol/gen/consumer_protocol_assignment.h"
#include "protocol/gen/consumer_protocol_subscription.h"
#include "sim/group_crowd_internal.h"

enum { VERSION_BYTES = 2, FORGETS_PERCENT = 2 };

struct bytes crowd_encode(struct crowd_call *call, const struct message_type *type, int16_t version,
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
    return crowd_encode(call, &consumer_protocol_assignment_message, 1, &assignment);
}

/* Each partition of a topic to one of those who subscribe to it, in turn. */
static void share_out(struct crowd_member *member, const struct join_group_response *heard, struct share *shares)
{
    const struct group_coordinator *coordinator = &member->crowd->coordinator;
    uint32_t turn = (uint32_t)sim_draw(crowd_sim(member), heard->members_count);

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

void crowd_lead(struct crowd_member *member, const struct join_group_response *heard, struct crowd_call *call)
{
    struct sync_group_request *request = &call->request.sync;
    struct share shares[CROWD_MEMBERS * 2] = {0};

    assert(heard->members_count > 0 && heard->members_count <= CROWD_MEMBERS * 2);
    share_out(member, heard, shares);
    request->assignments = crowd_call_array(call, heard->members_count, sizeof(*request->assignments));
    for (uint32_t i = 0; i < heard->members_count; i++) {
        struct sync_group_request_assignment *entry = &request->assignments[request->assignments_count];

        if (crowd_chance(member, FORGETS_PERCENT)) {
            member->crowd->omitted[member->group] = member->now.generation;
            continue;
        }
        sync_group_request_assignment_init(entry);
        if (arena_copy(&call->arena, heard->members[i].member_id, &entry->member_id) != ERR_OK)
            assert(false && "memory");
        entry->assignment = assignment_of(call, &shares[i]);
        request->assignments_count++;
    }
}

void crowd_read_share(struct crowd_member *member, const struct crowd_call *call, struct bytes bytes)
{
    struct consumer_protocol_assignment assignment = {0};
    struct group_crowd *crowd = member->crowd;
    struct wire_reader reader;
    struct arena arena;

    memset(member->now.owned, 0, sizeof(member->now.owned));
    memset(member->now.positions, 0xff, sizeof(member->now.positions));
    memcpy(member->now.lives, call->topic_lives, sizeof(member->now.lives));
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

                crowd_check_owner(member, call, t, p);
                member->now.owned[t][p] = true;
            }
        }
    arena_deinit(&arena);
}
