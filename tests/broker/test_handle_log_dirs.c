/* Rule: a new partition goes to the directory that has the fewest; DescribeLogDirs tells of every directory, what lies
 * there and how much room there is, each partition once. */
#include <stdio.h>

#include "../partition/run_tests.h"
#include "broker/broker_internal.h"
#include "node_world.h"
#include "protocol/gen/describe_log_dirs.h"

enum { DESCRIBE_VERSION = 4 };

static struct node_world world;

static void begin(uint64_t seed, uint32_t reactors)
{
    node_world_begin(&world, seed, reactors);
    sim_node_stop(&world.node);
    sim_node_set(&world.node, "log.dirs=/data,/more,/last");
    sim_node_start(&world.node);
}

static struct describe_log_dirs_response *describe(const struct describe_log_dirs_request *request,
                                                   struct node_call *call)
{
    return node_ask(&world, 0, &describe_log_dirs_request_message, request, &describe_log_dirs_response_message,
                    DESCRIBE_VERSION, call);
}

static const struct describe_log_dirs_topic *topic_in(const struct describe_log_dirs_result *dir, const char *name)
{
    for (uint32_t i = 0; i < dir->topics_count; i++)
        if (bytes_equal(dir->topics[i].name, bytes_of_text(name)))
            return &dir->topics[i];
    return NULL;
}

START_TEST(new_partitions_go_where_the_fewest_are)
{
    struct describe_log_dirs_request request;
    struct describe_log_dirs_response *response = NULL;
    struct node_call call;
    struct uuid topic;
    enum err err = ERR_OK;

    for (uint64_t seed = 1; seed <= 5; seed++) {
        int64_t bytes = 0;

        begin(seed, 3);
        topic = node_create_topic(&world, "a", 7, NULL);
        (void)node_create_topic(&world, "b", 2, NULL);
        for (int32_t i = 0; i < 7; i++)
            (void)node_produce(&world, 0, topic, i, 100, &err);
        describe_log_dirs_request_init(&request);
        request.topics = NULL;
        for (int life = 0; life < 2; life++) { /* and so they lie after a restart */
            uint32_t found = 0;

            response = describe(&request, &call);
            ck_assert_ptr_nonnull(response);
            ck_assert_int_eq(response->error_code, 0);
            ck_assert_uint_eq(response->results_count, 3);
            ck_assert(bytes_equal(response->results[1].log_dir, BYTES_LITERAL("/more")));
            for (int i = 0; i < 3; i++) {
                const struct describe_log_dirs_topic *a = topic_in(&response->results[i], "a");
                uint32_t count = 0;

                ck_assert_int_eq(response->results[i].error_code, 0);
                ck_assert(response->results[i].total_bytes >= response->results[i].usable_bytes);
                for (uint32_t j = 0; j < response->results[i].topics_count; j++)
                    count += response->results[i].topics[j].partitions_count;
                ck_assert_uint_eq(count, 3);
                ck_assert_ptr_nonnull(a);
                for (uint32_t j = 0; j < a->partitions_count; j++) {
                    ck_assert(a->partitions[j].partition_size > 100);
                    ck_assert_int_eq(a->partitions[j].offset_lag, 0);
                    ck_assert(!a->partitions[j].is_future_key);
                    bytes += a->partitions[j].partition_size;
                    found++;
                }
            }
            ck_assert_uint_eq(found, 7);
            node_call_end(&call);
            sim_node_stop(&world.node);
            sim_node_start(&world.node);
        }
        ck_assert(bytes > 0);
        node_world_end(&world);
    }
}
END_TEST

START_TEST(only_what_is_asked_is_told_and_once)
{
    static int32_t partitions[] = {0, 2, 2, 0, 99, -1};
    struct describable_log_dir_topic topics[3];
    struct describe_log_dirs_request request;
    struct describe_log_dirs_response *response = NULL;
    struct node_call call;
    uint32_t found = 0;

    begin(6, 2);
    (void)node_create_topic(&world, "a", 3, NULL);
    (void)node_create_topic(&world, "b", 3, NULL);
    describe_log_dirs_request_init(&request);
    for (int i = 0; i < 3; i++) {
        describable_log_dir_topic_init(&topics[i]);
        topics[i].topic = i == 2 ? BYTES_LITERAL("missing") : BYTES_LITERAL("a");
        topics[i].partitions = partitions;
        topics[i].partitions_count = 6;
    }
    request.topics = topics;
    request.topics_count = 3;
    response = describe(&request, &call);
    for (int i = 0; i < 3; i++)
        for (uint32_t j = 0; j < response->results[i].topics_count; j++) {
            ck_assert(bytes_equal(response->results[i].topics[j].name, BYTES_LITERAL("a")));
            found += response->results[i].topics[j].partitions_count;
        }
    ck_assert_uint_eq(found, 2);
    node_call_end(&call);
    request.topics_count = 0; /* nothing is asked, as opposed to all */
    response = describe(&request, &call);
    ck_assert_uint_eq(response->results_count, 3);
    for (int i = 0; i < 3; i++)
        ck_assert_uint_eq(response->results[i].topics_count, 0);
    node_call_end(&call);
    node_world_end(&world);
}
END_TEST

RUN_TESTS("broker/log_dirs", new_partitions_go_where_the_fewest_are, only_what_is_asked_is_told_and_once)
