/*
 * Rule: ListOffsets answers each partition by itself, at whichever home it lives: the special times from the version on
 * that has them, a partition named twice refused at each mention (INVALID_REQUEST), unknown ones, foreign leader epochs
 * and what may not be described with their codes, and the others all the same.
 */
#include "../partition/run_tests.h"
#include "broker/broker_internal.h"
#include "node_world.h"
#include "protocol/gen/list_offsets.h"

enum { PARTITIONS = 8, VERSION_MAX = 11, EARLIEST = -2, LATEST = -1, ASKED_MAX = 16 };

static struct node_world world;
static struct uuid topic_id;

struct asking {
    struct list_offsets_request request;
    struct list_offsets_topic topics[2];
    struct list_offsets_partition partitions[ASKED_MAX];
    struct node_call call;
};

/* Of topic t: that time of so many partitions, from 0 on. */
static void ask_init(struct asking *asking, uint32_t count, int64_t timestamp)
{
    list_offsets_request_init(&asking->request);
    list_offsets_topic_init(&asking->topics[0]);
    asking->request.topics = asking->topics;
    asking->request.topics_count = 1;
    asking->topics[0].name = BYTES_LITERAL("t");
    asking->topics[0].partitions = asking->partitions;
    asking->topics[0].partitions_count = count;
    for (uint32_t i = 0; i < count; i++) {
        list_offsets_partition_init(&asking->partitions[i]);
        asking->partitions[i].partition_index = (int32_t)i;
        asking->partitions[i].timestamp = timestamp;
    }
}

/* The answer for the first topic, until node_call_end(&asking->call). */
static const struct list_offsets_partition_response *ask(struct asking *asking, int16_t version)
{
    const struct list_offsets_response *response = node_ask(&world, 0, &list_offsets_request_message, &asking->request,
                                                            &list_offsets_response_message, version, &asking->call);

    ck_assert_ptr_nonnull(response);
    ck_assert_uint_eq(response->topics_count, asking->request.topics_count);
    for (uint32_t i = 0; i < response->topics_count; i++) {
        const struct list_offsets_topic_response *topic = &response->topics[i];

        ck_assert(bytes_equal(topic->name, asking->topics[i].name));
        ck_assert_uint_eq(topic->partitions_count, asking->topics[i].partitions_count);
        for (uint32_t j = 0; j < topic->partitions_count; j++)
            ck_assert_int_eq(topic->partitions[j].partition_index, asking->topics[i].partitions[j].partition_index);
    }
    return response->topics[0].partitions;
}

/* Partition p has p records. */
static void begin(uint64_t seed)
{
    enum err err = ERR_OK;

    node_world_begin(&world, seed, 3);
    topic_id = node_create_topic(&world, "t", PARTITIONS, NULL);
    for (int32_t i = 0; i < PARTITIONS; i++)
        for (int32_t j = 0; j < i; j++)
            ck_assert_int_eq(node_produce(&world, 0, topic_id, i, 10, &err), j);
}

START_TEST(special_times)
{
    static const struct {
        int64_t timestamp;
        int16_t since;
    } times[] = {{LATEST, 0}, {EARLIEST, 0}, {-3, 7},         {-4, 8},
                 {-5, 9},     {-6, 11},      {-7, INT16_MAX}, {INT64_MIN, INT16_MAX}};
    struct asking asking;

    begin(1);
    for (int16_t version = 1; version <= VERSION_MAX; version++)
        for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
            const struct list_offsets_partition_response *answer = NULL;

            ask_init(&asking, PARTITIONS, times[i].timestamp);
            answer = ask(&asking, version);
            for (int j = 0; j < PARTITIONS; j++) {
                ck_assert_int_eq(answer[j].error_code,
                                 version >= times[i].since ? 0 : err_wire(ERR_UNSUPPORTED_VERSION));
                if (times[i].timestamp == LATEST)
                    ck_assert_int_eq(answer[j].offset, j);
                if (times[i].timestamp == EARLIEST)
                    ck_assert_int_eq(answer[j].offset, 0);
            }
            node_call_end(&asking.call);
        }
    node_world_end(&world);
}
END_TEST

/* Version 0 asks for so many offsets, newest first, and has no place for one. */
START_TEST(as_the_oldest_clients_ask)
{
    struct asking asking;
    const struct list_offsets_partition_response *answer = NULL;

    begin(2);
    ask_init(&asking, PARTITIONS, LATEST);
    for (int32_t i = 0; i < PARTITIONS; i++)
        asking.partitions[i].max_num_offsets = i == 7 ? 1 : 5;
    answer = ask(&asking, 0);
    ck_assert_uint_eq(answer[5].old_style_offsets_count, 2); /* the end, and the only segment's base */
    ck_assert_int_eq(answer[5].old_style_offsets[0], 5);
    ck_assert_int_eq(answer[5].old_style_offsets[1], 0);
    ck_assert_uint_eq(answer[7].old_style_offsets_count, 1);
    ck_assert_int_eq(answer[7].old_style_offsets[0], 7);
    node_call_end(&asking.call);
    node_world_end(&world);
}
END_TEST

START_TEST(named_twice)
{
    struct asking asking;
    const struct list_offsets_partition_response *answer = NULL;

    begin(3);
    ask_init(&asking, 5, LATEST);
    asking.partitions[1].partition_index = 3; /* 0 3 2 3 3 */
    asking.partitions[4].partition_index = 3;
    asking.partitions[4].timestamp = EARLIEST;
    for (int16_t version = 1; version <= VERSION_MAX; version++) {
        answer = ask(&asking, version);
        for (int i = 0; i < 5; i++)
            ck_assert_int_eq(answer[i].error_code, i == 0 || i == 2 ? 0 : err_wire(ERR_INVALID_REQUEST));
        ck_assert_int_eq(answer[2].offset, 2);
        ck_assert_int_eq(answer[1].offset, -1);
        node_call_end(&asking.call);
    }
    node_world_end(&world);
}
END_TEST

START_TEST(unknown_ones)
{
    static const int32_t unknown[] = {PARTITIONS, -1, INT32_MAX, INT32_MIN};
    struct asking asking;
    const struct list_offsets_partition_response *answer = NULL;

    begin(4);
    ask_init(&asking, 6, LATEST);
    for (int i = 0; i < 4; i++)
        asking.partitions[2 + i].partition_index = unknown[i];
    list_offsets_topic_init(&asking.topics[1]);
    asking.topics[1].name = BYTES_LITERAL("nothing");
    asking.topics[1].partitions = asking.partitions;
    asking.topics[1].partitions_count = 1;
    asking.request.topics_count = 2;
    answer = ask(&asking, VERSION_MAX);
    for (int i = 0; i < 6; i++)
        ck_assert_int_eq(answer[i].error_code, i < 2 ? 0 : err_wire(ERR_UNKNOWN_TOPIC_OR_PARTITION));
    ck_assert_int_eq(
        ((const struct list_offsets_response *)asking.call.call.response)->topics[1].partitions[0].error_code,
        err_wire(ERR_UNKNOWN_TOPIC_OR_PARTITION));
    node_call_end(&asking.call);
    asking.request.topics_count = 0;
    ck_assert_ptr_nonnull(node_ask(&world, 0, &list_offsets_request_message, &asking.request,
                                   &list_offsets_response_message, VERSION_MAX, &asking.call));
    node_call_end(&asking.call);
    node_world_end(&world);
}
END_TEST

START_TEST(of_another_epoch)
{
    struct asking asking;
    const struct list_offsets_partition_response *answer = NULL;
    int32_t epoch = 0;

    begin(5);
    ask_init(&asking, 4, LATEST);
    answer = ask(&asking, VERSION_MAX);
    epoch = answer[1].leader_epoch;
    node_call_end(&asking.call);
    asking.partitions[1].current_leader_epoch = epoch;
    asking.partitions[2].current_leader_epoch = epoch + 1;
    answer = ask(&asking, VERSION_MAX);
    ck_assert_int_eq(answer[0].error_code, 0);
    ck_assert_int_eq(answer[1].error_code, 0);
    ck_assert_int_eq(answer[2].error_code, err_wire(ERR_UNKNOWN_LEADER_EPOCH));
    ck_assert_int_eq(answer[2].offset, -1);
    ck_assert_int_eq(answer[3].error_code, 0);
    node_call_end(&asking.call);
    node_world_end(&world);
}
END_TEST

START_TEST(who_may)
{
    struct asking asking;
    const struct list_offsets_partition_response *answer = NULL;

    begin(6);
    ask_init(&asking, PARTITIONS, LATEST);
    asking.partitions[1].partition_index = 0; /* twice: what may not be described says not even that */
    node_deny(&world, MAY_DESCRIBE, ON_TOPIC);
    for (int16_t version = 0; version <= VERSION_MAX; version++) {
        answer = ask(&asking, version);
        for (int i = 0; i < PARTITIONS; i++)
            ck_assert_int_eq(answer[i].error_code, err_wire(ERR_TOPIC_AUTHORIZATION_FAILED));
        node_call_end(&asking.call);
    }
    node_allow(&world);
    node_world_end(&world);
}
END_TEST

RUN_TESTS("broker/handle_list_offsets", special_times, as_the_oldest_clients_ask, named_twice, unknown_ones,
          of_another_epoch, who_may)
