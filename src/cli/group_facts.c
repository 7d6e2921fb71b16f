#include "cli/group_facts.h"

#include <stdio.h>
#include <stdlib.h>

#include "cli/kafka_offsets.h"
#include "protocol/gen/consumer_group_describe.h"
#include "protocol/gen/consumer_protocol_assignment.h"
#include "protocol/gen/describe_groups.h"
#include "protocol/gen/list_groups.h"
#include "protocol/gen/offset_fetch.h"

enum {
    OFFSET_FETCH_VERSION_MAX = 9, /* names; from 10 on there are ids */
    OFFSET_FETCH_VERSION_GROUPS = 8,
    DESCRIBE_VERSION_MAX = 6,
    LIST_VERSION_MAX = 5,
    PARTITIONS_FIRST = 16,
};

static int by_place(const void *a, const void *b)
{
    const struct group_fact_partition *left = a;
    const struct group_fact_partition *right = b;
    int order = bytes_compare(left->topic, right->topic);

    return order != 0 ? order : (left->index > right->index) - (left->index < right->index);
}

static struct group_fact_partition *append(struct kafka_client *client, struct group_facts *facts, struct bytes topic,
                                           int32_t index)
{
    struct group_fact_partition *made = NULL;

    if (facts->partition_count == facts->partition_room) {
        uint32_t room = facts->partition_room == 0 ? PARTITIONS_FIRST : facts->partition_room * 2;
        struct group_fact_partition *wider = arena_array(&client->arena, room, sizeof(*wider));

        if (wider == NULL) {
            (void)kafka_client_refused(client, ERR_NOMEM, "the group");
            return NULL;
        }
        if (facts->partition_count > 0)
            memcpy(wider, facts->partitions, facts->partition_count * sizeof(*wider));
        facts->partitions = wider;
        facts->partition_room = room;
    }
    made = &facts->partitions[facts->partition_count++];
    *made = (struct group_fact_partition){
        .topic = topic, .index = index, .committed = -1, .leader_epoch = -1, .start = -1, .end = -1};
    return made;
}

static struct group_fact_partition *find(const struct group_facts *facts, uint32_t sorted, struct bytes topic,
                                         int32_t index)
{
    struct group_fact_partition key = {.topic = topic, .index = index};

    return sorted == 0 ? NULL : bsearch(&key, facts->partitions, sorted, sizeof(key), by_place);
}

static void sort(struct group_facts *facts)
{
    if (facts->partition_count > 0)
        qsort(facts->partitions, facts->partition_count, sizeof(*facts->partitions), by_place);
}

struct group_fact_partition *group_facts_add(struct kafka_client *client, struct group_facts *facts, struct bytes topic,
                                             int32_t index)
{
    struct group_fact_partition *found = find(facts, facts->partition_count, topic, index);

    if (found != NULL)
        return found;
    if (append(client, facts, topic, index) == NULL)
        return NULL;
    sort(facts);
    return find(facts, facts->partition_count, topic, index);
}

/* ---- members ---- */

static enum err own(struct kafka_client *client, struct group_facts *facts, struct group_fact_member *member,
                    struct bytes topic, const int32_t *partitions, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct group_fact_partition *made = append(client, facts, topic, partitions[i]);

        if (made == NULL)
            return ERR_NOMEM;
        made->member = member;
    }
    member->partitions += count;
    return ERR_OK;
}

/* What a classic member was assigned; bytes of another protocol are left alone. */
static enum err own_classic(struct kafka_client *client, struct group_facts *facts, struct group_fact_member *member,
                            struct bytes assignment)
{
    struct consumer_protocol_assignment read;
    struct wire_reader reader;
    int16_t version = 0;
    enum err err = ERR_OK;

    if (assignment.size == 0)
        return ERR_OK;
    wire_reader_init(&reader, assignment);
    version = wire_read_i16(&reader);
    if (version > consumer_protocol_assignment_message.version_max)
        version = consumer_protocol_assignment_message.version_max;
    if (version < 0 ||
        message_read(&consumer_protocol_assignment_message, &reader, &client->arena, version, &read) != ERR_OK)
        return ERR_OK;
    for (uint32_t i = 0; i < read.assigned_partitions_count && err == ERR_OK; i++)
        err = own(client, facts, member, read.assigned_partitions[i].topic, read.assigned_partitions[i].partitions,
                  read.assigned_partitions[i].partitions_count);
    return err;
}

static enum err take_classic(struct kafka_client *client, const struct describe_groups_response_described_group *group,
                             struct group_facts *facts)
{
    enum err err = ERR_OK;

    facts->type = BYTES_LITERAL("Classic");
    facts->state = group->group_state;
    facts->protocol = group->protocol_data;
    facts->members = arena_array(&client->arena, group->members_count, sizeof(*facts->members));
    if (facts->members == NULL)
        return kafka_client_refused(client, ERR_NOMEM, "DescribeGroups");
    facts->member_count = group->members_count;
    for (uint32_t i = 0; i < group->members_count && err == ERR_OK; i++) {
        const struct described_group_member *from = &group->members[i];

        facts->members[i] = (struct group_fact_member){.id = from->member_id,
                                                       .instance_id = from->group_instance_id,
                                                       .client_id = from->client_id,
                                                       .host = from->client_host,
                                                       .epoch = -1};
        if (bytes_equal(group->protocol_type, BYTES_LITERAL("consumer")))
            err = own_classic(client, facts, &facts->members[i], from->member_assignment);
    }
    return err;
}

static enum err take_consumer(struct kafka_client *client,
                              const struct consumer_group_describe_response_described_group *group,
                              struct group_facts *facts)
{
    enum err err = ERR_OK;

    facts->type = BYTES_LITERAL("Consumer");
    facts->state = group->group_state;
    facts->protocol = group->assignor_name;
    facts->epoch = group->group_epoch;
    facts->members = arena_array(&client->arena, group->members_count, sizeof(*facts->members));
    if (facts->members == NULL)
        return kafka_client_refused(client, ERR_NOMEM, "ConsumerGroupDescribe");
    facts->member_count = group->members_count;
    for (uint32_t i = 0; i < group->members_count && err == ERR_OK; i++) {
        const struct consumer_group_describe_response_member *from = &group->members[i];

        facts->members[i] = (struct group_fact_member){.id = from->member_id,
                                                       .instance_id = from->instance_id,
                                                       .client_id = from->client_id,
                                                       .host = from->client_host,
                                                       .epoch = from->member_epoch};
        for (uint32_t k = 0; k < from->assignment.topic_partitions_count && err == ERR_OK; k++)
            err = own(client, facts, &facts->members[i], from->assignment.topic_partitions[k].topic_name,
                      from->assignment.topic_partitions[k].partitions,
                      from->assignment.topic_partitions[k].partitions_count);
    }
    return err;
}

static enum err no_such_group(struct kafka_client *client, struct bytes id)
{
    (void)snprintf(client->message, sizeof(client->message), "there is no group %.*s",
                   (int)(id.size < 250 ? id.size : 250), (const char *)id.data);
    return ERR_GROUP_ID_NOT_FOUND;
}

static enum err describe_classic(struct kafka_client *client, struct group_facts *facts)
{
    struct describe_groups_request request;
    struct describe_groups_response response;
    enum err err = ERR_OK;

    describe_groups_request_init(&request);
    request.groups = &facts->id;
    request.groups_count = 1;
    err = kafka_call(client, facts->coordinator, &describe_groups_request_message, DESCRIBE_VERSION_MAX, &request,
                     &describe_groups_response_message, &response, NULL);
    if (err != ERR_OK)
        return err;
    if (response.groups_count != 1)
        return kafka_client_refused(client, ERR_MALFORMED, "DescribeGroups");
    err = err_from_wire(response.groups[0].error_code);
    if (err == ERR_GROUP_ID_NOT_FOUND ||
        (err == ERR_OK && bytes_equal(response.groups[0].group_state, BYTES_LITERAL("Dead"))))
        return no_such_group(client, facts->id);
    if (err != ERR_OK)
        return kafka_client_refused(client, err, "DescribeGroups");
    return take_classic(client, &response.groups[0], facts);
}

static enum err describe_once(struct kafka_client *client, struct group_facts *facts)
{
    struct consumer_group_describe_request request;
    struct consumer_group_describe_response response;
    int16_t version = 0;
    enum err err = ERR_OK;

    consumer_group_describe_request_init(&request);
    request.group_ids = &facts->id;
    request.group_ids_count = 1;
    err = kafka_call(client, facts->coordinator, &consumer_group_describe_request_message, INT16_MAX, &request,
                     &consumer_group_describe_response_message, &response, &version);
    if (err == ERR_UNSUPPORTED_VERSION)
        return describe_classic(client, facts);
    if (err != ERR_OK)
        return err;
    if (response.groups_count != 1)
        return kafka_client_refused(client, ERR_MALFORMED, "ConsumerGroupDescribe");
    err = err_from_wire(response.groups[0].error_code);
    if (err == ERR_GROUP_ID_NOT_FOUND || err == ERR_UNSUPPORTED_VERSION)
        return describe_classic(client, facts);
    if (err != ERR_OK)
        return kafka_client_refused(client, err, "ConsumerGroupDescribe");
    return take_consumer(client, &response.groups[0], facts);
}

enum err group_facts_describe(struct kafka_client *client, struct bytes group_id, struct group_facts *facts)
{
    int64_t began_ns = clock_mono_ns(client->clock);
    enum err err = ERR_OK;

    do {
        *facts = (struct group_facts){.id = group_id, .epoch = -1};
        err = kafka_client_coordinator(client, group_id, &facts->coordinator);
        if (err != ERR_OK) /* that was patience enough */
            break;
        err = describe_once(client, facts);
    } while (kafka_client_asks_again(client, err, began_ns));
    sort(facts);
    return err;
}

/* ---- offsets ---- */

static enum err take_offset(struct kafka_client *client, struct group_facts *facts, uint32_t sorted, struct bytes topic,
                            const struct offset_fetch_response_partitions *from)
{
    struct group_fact_partition *at = find(facts, sorted, topic, from->partition_index);

    if (at == NULL)
        at = append(client, facts, topic, from->partition_index);
    if (at == NULL)
        return ERR_NOMEM;
    at->committed = from->committed_offset;
    at->leader_epoch = from->committed_leader_epoch;
    at->metadata = from->metadata;
    at->err = err_from_wire(from->error_code);
    return ERR_OK;
}

static enum err take_groups(struct kafka_client *client, struct group_facts *facts,
                            const struct offset_fetch_response *response)
{
    uint32_t sorted = facts->partition_count;
    enum err err = response->groups_count == 1 ? err_from_wire(response->groups[0].error_code) : ERR_MALFORMED;

    if (err != ERR_OK)
        return kafka_client_refused(client, err, "OffsetFetch");
    for (uint32_t i = 0; i < response->groups[0].topics_count; i++) {
        const struct offset_fetch_response_topics *topic = &response->groups[0].topics[i];

        for (uint32_t k = 0; k < topic->partitions_count && err == ERR_OK; k++)
            err = take_offset(client, facts, sorted, topic->name, &topic->partitions[k]);
    }
    return err;
}

static enum err take_topics(struct kafka_client *client, struct group_facts *facts,
                            const struct offset_fetch_response *response)
{
    uint32_t sorted = facts->partition_count;
    enum err err = err_from_wire(response->error_code);

    if (err != ERR_OK)
        return kafka_client_refused(client, err, "OffsetFetch");
    for (uint32_t i = 0; i < response->topics_count; i++) {
        const struct offset_fetch_response_topic *topic = &response->topics[i];

        for (uint32_t k = 0; k < topic->partitions_count && err == ERR_OK; k++) {
            struct offset_fetch_response_partitions one = {.partition_index = topic->partitions[k].partition_index,
                                                           .committed_offset = topic->partitions[k].committed_offset,
                                                           .committed_leader_epoch =
                                                               topic->partitions[k].committed_leader_epoch,
                                                           .metadata = topic->partitions[k].metadata,
                                                           .error_code = topic->partitions[k].error_code};

            err = take_offset(client, facts, sorted, topic->name, &one);
        }
    }
    return err;
}

enum err group_facts_offsets(struct kafka_client *client, struct group_facts *facts)
{
    int64_t began_ns = clock_mono_ns(client->clock);
    struct offset_fetch_request request;
    struct offset_fetch_request_group group;
    struct offset_fetch_response response;
    int16_t version = 0;
    enum err err = ERR_OK;

    offset_fetch_request_init(&request);
    offset_fetch_request_group_init(&group);
    group.group_id = facts->id;
    group.topics = NULL;
    request.group_id = facts->id;
    request.topics = NULL;
    request.groups = &group;
    request.groups_count = 1;
    do {
        err = kafka_client_coordinator(client, facts->id, &facts->coordinator);
        if (err != ERR_OK)
            return err;
        err = kafka_call(client, facts->coordinator, &offset_fetch_request_message, OFFSET_FETCH_VERSION_MAX, &request,
                         &offset_fetch_response_message, &response, &version);
        if (err != ERR_OK)
            return err;
        err = version >= OFFSET_FETCH_VERSION_GROUPS ? take_groups(client, facts, &response)
                                                     : take_topics(client, facts, &response);
    } while (kafka_client_asks_again(client, err, began_ns));
    sort(facts);
    return err;
}

enum err group_facts_ends(struct kafka_client *client, struct group_facts *facts)
{
    struct kafka_offset *offsets = arena_array(&client->arena, facts->partition_count, sizeof(*offsets));
    static const int64_t asked[] = {KAFKA_OFFSET_EARLIEST, KAFKA_OFFSET_LATEST};
    enum err err = ERR_OK;

    if (offsets == NULL)
        return kafka_client_refused(client, ERR_NOMEM, "ListOffsets");
    for (int which = 0; which < 2 && err == ERR_OK; which++) {
        for (uint32_t i = 0; i < facts->partition_count; i++)
            offsets[i] = (struct kafka_offset){.topic = facts->partitions[i].topic,
                                               .partition = facts->partitions[i].index,
                                               .timestamp = asked[which]};
        err = kafka_list_offsets(client, offsets, facts->partition_count);
        for (uint32_t i = 0; i < facts->partition_count && err == ERR_OK; i++) {
            *(which == 0 ? &facts->partitions[i].start : &facts->partitions[i].end) =
                offsets[i].err == ERR_OK ? offsets[i].offset : -1;
            if (offsets[i].err != ERR_OK)
                facts->partitions[i].err = offsets[i].err;
        }
    }
    return err;
}

int64_t group_fact_lag(const struct group_fact_partition *partition)
{
    int64_t from = partition->committed < partition->start ? partition->start : partition->committed;

    if (partition->committed < 0 || partition->end < 0 || partition->start < 0)
        return -1;
    /* What retention took is not there to be read any more. */
    return from < partition->end ? partition->end - from : 0;
}

/* ---- all groups ---- */

/* As Apache Kafka's tools spell it: its brokers say "classic". */
static struct bytes type_name(struct bytes type)
{
    return bytes_equal(type, BYTES_LITERAL("classic"))    ? BYTES_LITERAL("Classic")
           : bytes_equal(type, BYTES_LITERAL("consumer")) ? BYTES_LITERAL("Consumer")
                                                          : type;
}

static int by_id(const void *a, const void *b)
{
    const struct group_fact_row *left = a;
    const struct group_fact_row *right = b;

    return bytes_compare(left->id, right->id);
}

static enum err list_of(struct kafka_client *client, int32_t node_id, struct list_groups_response *response)
{
    int64_t began_ns = clock_mono_ns(client->clock);
    struct list_groups_request request;
    enum err err = ERR_OK;

    list_groups_request_init(&request);
    do {
        err = kafka_call(client, node_id, &list_groups_request_message, LIST_VERSION_MAX, &request,
                         &list_groups_response_message, response, NULL);
        if (err != ERR_OK)
            return err;
        err = err_from_wire(response->error_code);
    } while (kafka_client_asks_again(client, err, began_ns));
    return err == ERR_OK ? ERR_OK : kafka_client_refused(client, err, "ListGroups");
}

enum err group_facts_list(struct kafka_client *client, struct group_fact_row **rows, uint32_t *count)
{
    struct metadata_response nodes;
    struct list_groups_response *lists = NULL;
    uint32_t used = 0;
    enum err err = kafka_client_metadata(client, NULL, 0, &nodes);

    *count = 0;
    if (err != ERR_OK)
        return err;
    lists = arena_array(&client->arena, client->node_count, sizeof(*lists));
    for (uint32_t i = 0; i < client->node_count && err == ERR_OK; i++) {
        err = lists == NULL ? ERR_NOMEM : list_of(client, client->nodes[i].id, &lists[i]);
        *count += err == ERR_OK ? lists[i].groups_count : 0;
    }
    if (err != ERR_OK)
        return err;
    *rows = arena_array(&client->arena, *count, sizeof(**rows));
    if (*rows == NULL)
        return kafka_client_refused(client, ERR_NOMEM, "ListGroups");
    for (uint32_t i = 0; i < client->node_count; i++)
        for (uint32_t k = 0; k < lists[i].groups_count; k++) {
            const struct listed_group *from = &lists[i].groups[k];

            (*rows)[used++] = (struct group_fact_row){.id = from->group_id,
                                                      .type = type_name(from->group_type),
                                                      .state = from->group_state,
                                                      .protocol = from->protocol_type,
                                                      .coordinator = client->nodes[i].id};
        }
    if (used > 0)
        qsort(*rows, used, sizeof(**rows), by_id);
    return ERR_OK;
}
