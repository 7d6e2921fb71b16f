/* Rule: a request of more entries than a reactor takes in one turn is worked on aside, from decoding to reply, and its
 * client sees no difference: same answers, order of its connection kept, waiting given up when it goes, memory given
 * back, a stop that waits for it. What cannot leave its order is bounded instead. */
#include <stdio.h>
#include <stdlib.h>

#include "../partition/run_tests.h"
#include "broker/broker_internal.h"
#include "broker/request_aside.h"
#include "node_world.h"
#include "protocol/gen/consumer_group_describe.h"
#include "protocol/gen/consumer_group_heartbeat.h"
#include "protocol/gen/describe_cluster.h"
#include "protocol/gen/describe_groups.h"
#include "protocol/gen/list_offsets.h"
#include "protocol/gen/metadata.h"

enum { NAME_CHARS = 8, MANY = REQUEST_TURN_ENTRIES + 1000, WAIT_MS = 20000, UNKNOWN = 3, METADATA_VERSION = 4 };

static struct node_world world;
static struct uuid topic;
static size_t used_before;
static char names[MANY + 1][NAME_CHARS + 1];
static struct {
    uint32_t asked; /* for access, by requests */
    uint32_t aside; /* of them, on the loop aside */
} seen;

static bool look(void *context, const struct request *request, enum operation operation, enum resource_type type,
                 struct bytes name)
{
    (void)context;
    (void)operation;
    (void)type;
    (void)name;
    seen.asked++;
    seen.aside += request_is_aside(request);
    return true;
}

/* Without what loops have charged ahead. */
static size_t budget_used(void)
{
    const struct budget *budget = &world.node.broker->budget;
    size_t used = atomic_load(&budget->used);

    for (uint32_t i = 0; i < BUDGET_GATES_MAX; i++) {
        const struct budget_gate *gate = atomic_load(&budget->gates[i]);

        used -= gate == NULL ? 0 : gate->credit;
    }
    return used;
}

static void begin(uint64_t seed)
{
    for (uint32_t i = 0; i <= MANY; i++)
        (void)snprintf(names[i], sizeof(names[i]), "n%07u", i);
    node_world_begin(&world, seed, 2);
    topic = node_create_topic(&world, "t", 2, NULL);
    node_world_pass(&world, 100);
    used_before = budget_used();
    seen.asked = 0;
    seen.aside = 0;
    world.node.broker->access = look;
}

/* Whoever was aside has given everything back; the end looks for what is left in memory. */
static void end(void)
{
    node_world_pass(&world, 100);
    ck_assert_uint_eq(budget_used(), used_before);
    world.node.broker->access = NULL;
    node_world_end(&world);
}

static struct metadata_request_topic topics[MANY];

static struct metadata_request metadata_of(uint32_t count)
{
    struct metadata_request request;

    metadata_request_init(&request);
    request.allow_auto_topic_creation = false;
    for (uint32_t i = 0; i < count; i++) {
        metadata_request_topic_init(&topics[i]);
        topics[i].name = bytes_of_text(names[i]);
    }
    topics[count / 2].name = BYTES_LITERAL("t");
    request.topics = topics;
    request.topics_count = count;
    return request;
}

#define SEND(name, client, request, version, call)                                                                     \
    node_send(&world, client, &name##_request_message, request, &name##_response_message, version, call)
#define ASK(name, client, request, version, call)                                                                      \
    node_ask(&world, client, &name##_request_message, request, &name##_response_message, version, call)

START_TEST(the_last_that_fits_into_a_turn_stays)
{
    static const uint32_t counts[] = {REQUEST_TURN_ENTRIES - 1, REQUEST_TURN_ENTRIES, REQUEST_TURN_ENTRIES + 1};

    begin(1);
    for (uint32_t i = 0; i < 3; i++) {
        struct metadata_request request = metadata_of(counts[i]);
        struct metadata_response *told = NULL;
        struct node_call call;

        seen.asked = 0;
        seen.aside = 0;
        told = ASK(metadata, 1, &request, METADATA_VERSION, &call);
        ck_assert_uint_eq(told->topics_count, counts[i]);
        for (uint32_t j = 0; j < counts[i]; j++)
            ck_assert_int_eq(told->topics[j].error_code, j == counts[i] / 2 ? 0 : UNKNOWN);
        ck_assert_uint_gt(seen.asked, 0);
        ck_assert_uint_eq(seen.aside, counts[i] > REQUEST_TURN_ENTRIES ? seen.asked : 0);
        node_call_end(&call);
    }
    end();
}
END_TEST

/* What stands behind it on its connection waits for it; another connection does not. */
START_TEST(the_order_of_a_connection_is_kept)
{
    for (uint64_t seed = 1; seed <= 10; seed++) {
        struct metadata_request large;
        struct describe_cluster_request small;
        struct node_call first, second, other;

        begin(seed);
        large = metadata_of(MANY);
        describe_cluster_request_init(&small);
        SEND(metadata, 1, &large, METADATA_VERSION, &first);
        SEND(describe_cluster, 1, &small, 0, &second);
        SEND(describe_cluster, 2, &small, 0, &other);
        ck_assert(node_answered(&world, &other, WAIT_MS));
        ck_assert(node_answered(&world, &second, WAIT_MS));
        ck_assert(first.answered); /* before it: the client takes answers in order alone */
        ck_assert_int_eq(first.err, ERR_OK);
        ck_assert_uint_eq(((struct metadata_response *)first.call.response)->topics_count, MANY);
        ck_assert_uint_eq(((struct describe_cluster_response *)second.call.response)->brokers_count, 1);
        node_call_end(&first);
        node_call_end(&second);
        node_call_end(&other);
        end();
    }
}
END_TEST

/* What the cluster has agreed on, and the metadata say after the start, is known aside too. */
START_TEST(a_feature_is_known_aside)
{
    static struct bytes texts[MANY];
    struct consumer_group_heartbeat_request beat;
    struct consumer_group_heartbeat_request_topic_partitions owned[1];
    struct consumer_group_describe_request describe;
    struct consumer_group_describe_response *described = NULL;
    struct node_call call;

    begin(3);
    node_find_coordinator(&world, "g");
    node_world_pass(&world, 100);
    used_before = budget_used();
    for (uint32_t i = 0; i < MANY; i++)
        texts[i] = bytes_of_text(names[i]);
    consumer_group_heartbeat_request_init(&beat);
    beat.group_id = BYTES_LITERAL("g");
    beat.member_id = BYTES_LITERAL("m");
    beat.rebalance_timeout_ms = 60000;
    beat.subscribed_topic_names = texts;
    beat.subscribed_topic_names_count = MANY;
    beat.topic_partitions = owned;
    ck_assert_int_eq(
        ((struct consumer_group_heartbeat_response *)ASK(consumer_group_heartbeat, 1, &beat, 1, &call))->error_code, 0);
    node_call_end(&call);
    consumer_group_describe_request_init(&describe);
    describe.group_ids = texts;
    describe.group_ids_count = MANY;
    described = ASK(consumer_group_describe, 1, &describe, 1, &call);
    for (uint32_t i = 0; i < MANY; i++)
        ck_assert_int_eq(described->groups[i].error_code, err_wire(ERR_GROUP_ID_NOT_FOUND));
    node_call_end(&call);
    ck_assert_uint_ge(seen.aside, 2 * MANY); /* the topics of the one, the groups of the other */
    end();
}
END_TEST

/* Partitions at their homes, groups at their coordinators: asked from aside as from anywhere. */
START_TEST(homes_are_asked_from_aside)
{
    static struct list_offsets_partition partitions[MANY];
    static struct bytes groups[MANY];
    struct list_offsets_topic asked;
    struct list_offsets_request offsets;
    struct list_offsets_response *found = NULL;
    struct describe_groups_request describe;
    struct describe_groups_response *described = NULL;
    struct node_call call;
    enum err err = ERR_OK;

    begin(2);
    node_find_coordinator(&world, "g");
    node_world_pass(&world, 100);
    used_before = budget_used();
    ck_assert_int_eq(node_produce(&world, 3, topic, 1, 10, &err), 0);
    list_offsets_request_init(&offsets);
    list_offsets_topic_init(&asked);
    asked.name = BYTES_LITERAL("t");
    asked.partitions = partitions;
    asked.partitions_count = MANY;
    for (int32_t i = 0; i < MANY; i++) {
        list_offsets_partition_init(&partitions[i]);
        partitions[i].partition_index = i;
        partitions[i].timestamp = -1;
    }
    offsets.topics = &asked;
    offsets.topics_count = 1;
    found = ASK(list_offsets, 1, &offsets, 1, &call);
    ck_assert_uint_eq(found->topics[0].partitions_count, MANY);
    for (int32_t i = 0; i < MANY; i++) {
        ck_assert_int_eq(found->topics[0].partitions[i].error_code, i < 2 ? 0 : UNKNOWN);
        ck_assert_int_eq(found->topics[0].partitions[i].offset, i < 2 ? i : -1);
    }
    node_call_end(&call);
    describe_groups_request_init(&describe);
    for (uint32_t i = 0; i < MANY; i++)
        groups[i] = bytes_of_text(names[i]);
    describe.groups = groups;
    describe.groups_count = MANY;
    described = ASK(describe_groups, 1, &describe, 1, &call);
    ck_assert_uint_eq(described->groups_count, MANY);
    for (uint32_t i = 0; i < MANY; i++)
        ck_assert(bytes_equal(described->groups[i].group_state, BYTES_LITERAL("Dead")));
    node_call_end(&call);
    ck_assert_uint_eq(seen.aside, 1 + MANY); /* for the topic, and for each group */
    end();
}
END_TEST

/* A Fetch that waits for a record that does not come; what it forgets makes it large. */
static void fetch_of_many(struct node_fetch *ask, int32_t wait_ms)
{
    static struct fetch_request_forgotten_topic forgotten[MANY];

    node_fetch_init(ask, "t", topic, 1);
    ask->request.max_wait_ms = wait_ms;
    ask->request.min_bytes = 1;
    ask->request.session_epoch = FETCH_SESSION_EPOCH_FIRST;
    for (uint32_t i = 0; i < MANY; i++) {
        fetch_request_forgotten_topic_init(&forgotten[i]);
        forgotten[i].topic = bytes_of_text(names[i]);
    }
    ask->request.forgotten_topics_data = forgotten;
    ask->request.forgotten_topics_data_count = MANY;
}

START_TEST(a_session_that_was_begun_aside_goes_on)
{
    struct node_fetch ask;
    struct node_call call;
    struct fetch_response *response = NULL;
    int32_t id = 0;
    enum err err = ERR_OK;

    begin(3);
    fetch_of_many(&ask, 0);
    response = ASK(fetch, 1, &ask.request, 12, &call);
    id = response->session_id;
    ck_assert_int_gt(id, 0);
    ck_assert_uint_eq(fetch_session_shard(id), broker_aside(world.node.broker)->index);
    node_call_end(&call);
    ck_assert_int_eq(node_produce(&world, 3, topic, 0, 10, &err), 0);
    for (int32_t epoch = 1; epoch <= 2; epoch++) { /* from reactors, by this connection and another */
        fetch_request_init(&ask.request);
        ask.request.session_id = id;
        ask.request.session_epoch = epoch;
        response = ASK(fetch, (uint32_t)epoch, &ask.request, 12, &call);
        ck_assert_int_eq(response->error_code, 0);
        ck_assert_int_eq(response->session_id, id);
        ck_assert_uint_gt(node_fetched(response, 0)->records.size, 0);
        node_call_end(&call);
    }
    end();
}
END_TEST

START_TEST(what_waits_aside_is_given_up_with_its_client)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct node_fetch ask;
        struct node_call call;

        begin(seed);
        fetch_of_many(&ask, 10 * WAIT_MS);
        SEND(fetch, 1, &ask.request, 12, &call);
        node_world_pass(&world, (int64_t)seed % 3); /* on its way, or waiting */
        sim_client_break(&world.clients[1]);
        ck_assert_int_eq(call.err, ERR_CLOSED);
        node_world_pass(&world, WAIT_MS);
        ck_assert(list_is_empty(&broker_aside(world.node.broker)->fetches));
        end();
    }
}
END_TEST

START_TEST(a_stop_waits_for_what_is_aside)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct metadata_request large;
        struct node_fetch ask;
        struct node_call first, second;

        begin(seed);
        large = metadata_of(MANY);
        fetch_of_many(&ask, 10 * WAIT_MS);
        SEND(metadata, 1, &large, METADATA_VERSION, &first);
        SEND(fetch, 2, &ask.request, 12, &second);
        node_world_pass(&world, (int64_t)seed % 5);
        node_world_end(&world); /* it is clean, and nothing is left in memory */
        node_call_end(&first);
        node_call_end(&second);
    }
}
END_TEST

/* Where the bytes are no such request that is found aside: one more count is read, and one field too few is there. */
START_TEST(bad_bytes_are_found_aside)
{
    static struct bytes groups[MANY];
    struct describe_groups_request request;
    struct node_call call;

    begin(4);
    node_hear(&world, "api=15");
    describe_groups_request_init(&request);
    for (uint32_t i = 0; i < MANY; i++)
        groups[i] = bytes_of_text(names[i]);
    request.groups = groups;
    request.groups_count = MANY;
    SEND(describe_groups, 5, &request, 1, &call); /* the first of that client: it still has the bytes */
    ck_assert_uint_gt(world.clients[5].out_size, MANY * NAME_CHARS);
    world.clients[5].out[world.clients[5].out_size - NAME_CHARS - 1]++; /* the last name's length */
    ck_assert(node_answered(&world, &call, WAIT_MS));
    ck_assert_int_eq(call.err, ERR_CLOSED);
    ck_assert_uint_eq(world.heard_count, 1);
    ck_assert_ptr_nonnull(strstr(world.heard, "wanted_bytes=9 left_bytes=8"));
    end();
}
END_TEST

/* Tagged fields that nobody knows are entries, too; in front of the request nobody knows yet whose they are. */
START_TEST(a_header_of_tagged_fields_has_an_end)
{
    struct describe_cluster_request request;

    begin(5);
    describe_cluster_request_init(&request);
    for (uint32_t count = REQUEST_TURN_ENTRIES; count <= REQUEST_TURN_ENTRIES + 1; count++) {
        uint32_t number = count - REQUEST_TURN_ENTRIES + 5; /* each has sent nothing yet */
        struct sim_client *client = &world.clients[number];
        size_t body_bytes = 2; /* of this request */
        struct node_call call;
        uint8_t *at = NULL;
        uint32_t size = 0;

        SEND(describe_cluster, number, &request, 0, &call);
        client->out = realloc(client->out, client->out_size + 8 + (size_t)count * 4);
        ck_assert_ptr_nonnull(client->out);
        client->out_room = client->out_size + 8 + (size_t)count * 4;
        at = client->out + client->out_size - body_bytes - 1;
        ck_assert_uint_eq(*at, 0); /* no tagged fields so far */
        ck_assert_uint_eq(at[body_bytes], 0);
        *at++ = (uint8_t)(0x80 | (count & 0x7f));
        *at++ = (uint8_t)(count >> 7);
        for (uint32_t tag = 0; tag < count; tag++) {
            *at++ = (uint8_t)(0x80 | (tag & 0x7f));
            *at++ = (uint8_t)(tag >> 7);
            *at++ = 0;
        }
        memset(at, 0, body_bytes);
        client->out_size = (size_t)(at - client->out) + body_bytes;
        size = (uint32_t)client->out_size - 4;
        for (int i = 0; i < 4; i++)
            client->out[i] = (uint8_t)(size >> (24 - 8 * i));
        ck_assert(node_answered(&world, &call, WAIT_MS));
        ck_assert_int_eq(call.err, count > REQUEST_TURN_ENTRIES ? ERR_CLOSED : ERR_OK);
        node_call_end(&call);
    }
    end();
}
END_TEST

/* A Produce may stand behind others of its connection that still wait: it is not worked on anywhere else. */
START_TEST(what_overlaps_is_bounded)
{
    static struct partition_produce_data data[REQUEST_OVERLAPPING_ENTRIES_MAX];
    struct topic_produce_data named;
    struct produce_request request;

    begin(6);
    produce_request_init(&request);
    topic_produce_data_init(&named);
    request.acks = 1;
    request.timeout_ms = WAIT_MS;
    request.topic_data = &named;
    request.topic_data_count = 1;
    named.name = BYTES_LITERAL("t");
    named.partition_data = data;
    for (uint32_t i = 0; i < REQUEST_OVERLAPPING_ENTRIES_MAX; i++) {
        partition_produce_data_init(&data[i]);
        data[i].index = (int32_t)i;
        data[i].records.null = true;
    }
    for (uint32_t count = REQUEST_OVERLAPPING_ENTRIES_MAX - 1; count <= REQUEST_OVERLAPPING_ENTRIES_MAX; count++) {
        struct node_call call;
        struct produce_response *response = NULL;

        named.partition_data_count = count; /* beside the topic */
        response = ASK(produce, 1, &request, 7, &call);
        if (count == REQUEST_OVERLAPPING_ENTRIES_MAX) {
            ck_assert_ptr_null(response);
            continue;
        }
        ck_assert_uint_eq(response->responses[0].partition_responses_count, count);
        ck_assert_int_eq(response->responses[0].partition_responses[count - 1].error_code, UNKNOWN);
        node_call_end(&call);
    }
    ck_assert_uint_eq(seen.aside, 0);
    end();
}
END_TEST

RUN_TESTS("broker/request_aside", the_last_that_fits_into_a_turn_stays, the_order_of_a_connection_is_kept,
          a_feature_is_known_aside, homes_are_asked_from_aside, a_session_that_was_begun_aside_goes_on,
          what_waits_aside_is_given_up_with_its_client, a_stop_waits_for_what_is_aside, bad_bytes_are_found_aside,
          a_header_of_tagged_fields_has_an_end, what_overlaps_is_bounded)
