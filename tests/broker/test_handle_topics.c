/* Rule: what has no time left when it comes, by its own timeout, is not done; every entry is told so, and nothing else:
 * neither that it is wrong, nor that it is denied. */
#include "../partition/run_tests.h"
#include "broker/broker_internal.h"
#include "node_world.h"
#include "protocol/gen/create_partitions.h"
#include "protocol/gen/create_topics.h"
#include "protocol/gen/delete_topics.h"

enum { CREATE_VERSION = 7, DELETE_VERSION = 6, GROW_VERSION = 3, ENTRIES = 3, TIMED_OUT = 7, TIME_MS = 1 };

/* Of the last, an empty name, nothing can be done at any time. */
static const char *const names[ENTRIES] = {"made", "there", ""};

static struct node_world world;

#define ASK(name, request, version, call)                                                                              \
    node_ask(&world, 0, &name##_request_message, request, &name##_response_message, version, call)

/* The error of each entry. */
static void create(int32_t timeout_ms, int16_t errors[ENTRIES])
{
    struct create_topics_request request;
    struct creatable_topic topics[ENTRIES];
    const struct create_topics_response *response = NULL;
    struct node_call call;

    create_topics_request_init(&request);
    for (int i = 0; i < ENTRIES; i++) {
        creatable_topic_init(&topics[i]);
        topics[i].name = bytes_of_text(names[i]);
        topics[i].num_partitions = 1;
        topics[i].replication_factor = 1;
    }
    request.topics = topics;
    request.topics_count = ENTRIES;
    request.timeout_ms = timeout_ms;
    response = ASK(create_topics, &request, CREATE_VERSION, &call);
    ck_assert_ptr_nonnull(response);
    ck_assert_uint_eq(response->topics_count, ENTRIES);
    for (int i = 0; i < ENTRIES; i++)
        errors[i] = response->topics[i].error_code;
    node_call_end(&call);
}

static void grow(int32_t timeout_ms, int16_t errors[ENTRIES])
{
    struct create_partitions_request request;
    struct create_partitions_topic topics[ENTRIES];
    const struct create_partitions_response *response = NULL;
    struct node_call call;

    create_partitions_request_init(&request);
    for (int i = 0; i < ENTRIES; i++) {
        create_partitions_topic_init(&topics[i]);
        topics[i].name = bytes_of_text(names[i]);
        topics[i].count = 2;
        topics[i].assignments = NULL;
    }
    request.topics = topics;
    request.topics_count = ENTRIES;
    request.timeout_ms = timeout_ms;
    response = ASK(create_partitions, &request, GROW_VERSION, &call);
    ck_assert_ptr_nonnull(response);
    ck_assert_uint_eq(response->results_count, ENTRIES);
    for (int i = 0; i < ENTRIES; i++)
        errors[i] = response->results[i].error_code;
    node_call_end(&call);
}

static void delete (int32_t timeout_ms, int16_t errors[ENTRIES])
{
    struct delete_topics_request request;
    struct delete_topic_state topics[ENTRIES];
    const struct delete_topics_response *response = NULL;
    struct node_call call;

    delete_topics_request_init(&request);
    for (int i = 0; i < ENTRIES; i++) {
        delete_topic_state_init(&topics[i]);
        topics[i].name = bytes_of_text(names[i]);
    }
    request.topics = topics;
    request.topics_count = ENTRIES;
    request.timeout_ms = timeout_ms;
    response = ASK(delete_topics, &request, DELETE_VERSION, &call);
    ck_assert_ptr_nonnull(response);
    ck_assert_uint_eq(response->responses_count, ENTRIES);
    for (int i = 0; i < ENTRIES; i++)
        errors[i] = response->responses[i].error_code;
    node_call_end(&call);
}

static void (*const changes[])(int32_t timeout_ms, int16_t errors[ENTRIES]) = {create, grow, delete};

static void expect_too_late(int32_t timeout_ms)
{
    int16_t errors[ENTRIES];

    for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
        changes[i](timeout_ms, errors);
        for (int j = 0; j < ENTRIES; j++)
            ck_assert_int_eq(errors[j], TIMED_OUT);
    }
}

START_TEST(no_time_left)
{
    int16_t errors[ENTRIES];

    node_world_begin(&world, 12, 2);
    (void)node_create_topic(&world, "there", 1, NULL);
    expect_too_late(0);
    expect_too_late(-1);
    expect_too_late(INT32_MIN);
    node_deny(&world, 0, 0);
    expect_too_late(0);
    node_allow(&world);

    /* Nothing of it was done: what was to be made can be, what was to grow or go is as it was. */
    create(TIME_MS, errors);
    ck_assert_int_eq(errors[0], 0);
    ck_assert_int_eq(errors[1], err_wire(ERR_TOPIC_ALREADY_EXISTS));
    grow(TIME_MS, errors);
    ck_assert_int_eq(errors[1], 0);
    delete (TIME_MS, errors);
    ck_assert_int_eq(errors[1], 0);
    node_world_end(&world);
}
END_TEST

RUN_TESTS("broker/topics", no_time_left)
