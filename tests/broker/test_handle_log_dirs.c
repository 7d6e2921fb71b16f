/* Rule: a new partition goes to the directory that has the fewest; DescribeLogDirs tells of every directory, what lies
 * there and how much room there is, each partition once.
 *
 * Sources: broker/broker_dirs.c */
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

            node_world_pass(&world, 1000); /* a partition that is being loaded has no size yet */
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

/* The directory that a partition of topic lives in. */
/* Much is looked for in several turns: topics that are not there, and partitions over and over. */
START_TEST(much_that_is_asked_is_told_once)
{
    enum { NAMED = 3 * LOG_DIRS_TURN_ENTRIES + 1 };

    static int32_t partitions[NAMED];
    static struct describable_log_dir_topic topics[NAMED];
    struct describe_log_dirs_request request;
    struct describe_log_dirs_response *response = NULL;
    struct node_call call;

    begin(7, 2);
    (void)node_create_topic(&world, "a", 3, NULL);
    node_world_pass(&world, 1000);
    for (int32_t i = 0; i < NAMED; i++) {
        partitions[i] = i == NAMED - 1 ? 2 : i % 2;
        describable_log_dir_topic_init(&topics[i]);
        topics[i].topic = BYTES_LITERAL("missing");
        topics[i].partitions = partitions;
    }
    topics[NAMED - 1].topic = BYTES_LITERAL("a");
    topics[NAMED - 1].partitions_count = NAMED;
    describe_log_dirs_request_init(&request);
    request.topics = topics;
    for (uint32_t count = NAMED; count > 0; count -= NAMED - 1) { /* behind all others, and alone */
        uint32_t found = 0;

        request.topics_count = count;
        request.topics = count == 1 ? &topics[NAMED - 1] : topics;
        response = describe(&request, &call);
        ck_assert_ptr_nonnull(response);
        for (uint32_t i = 0; i < response->results_count; i++)
            for (uint32_t j = 0; j < response->results[i].topics_count; j++)
                found += response->results[i].topics[j].partitions_count;
        ck_assert_uint_eq(found, 3);
        node_call_end(&call);
        if (count == 1)
            break;
    }
    node_world_end(&world);
}
END_TEST

static uint32_t dir_of(struct uuid topic, int32_t index)
{
    struct shard *home = shard_home(world.node.broker, topic, index);

    return shard_hosted(home, topic, index)->dir;
}

static int32_t leader_of(struct uuid topic, int32_t index)
{
    return image_partition(shard_home(world.node.broker, topic, index)->image, topic, index)->leader;
}

static int32_t partition_in(struct uuid topic, int32_t count, uint32_t dir)
{
    for (int32_t i = 0; i < count; i++)
        if (dir_of(topic, i) == dir)
            return i;
    ck_abort_msg("nothing in directory %u", dir);
    return -1;
}

/* Everything of a directory that failed is refused, at once and for good; the others serve, are checkpointed, and are
 * believed at the next start; new partitions avoid it. */
START_TEST(a_failed_directory_leaves_the_others_serving)
{
    struct describe_log_dirs_request request;
    struct describe_log_dirs_response *response = NULL;
    struct node_call call;
    struct uuid topic;
    struct uuid later;
    enum err err = ERR_OK;

    for (uint64_t seed = 11; seed <= 15; seed++) {
        begin(seed, 2);
        topic = node_create_topic(&world, "a", 6, "flush.messages=1", NULL);
        for (int32_t i = 0; i < 6; i++)
            ck_assert_int_eq(node_produce(&world, 0, topic, i, 100, &err), 0);
        sim_fs_set_fault(&world.disk, SIM_FS_FAIL, SIM_FS_SYNC, 1, ERR_IO);
        (void)node_produce(&world, 0, topic, partition_in(topic, 6, 1), 100, &err);
        node_world_pass(&world,
                        1000); /* it may have been the sync of a spare journal file: the producer's came before */
        ck_assert(sim_fs_fault_struck(&world.disk));
        for (int32_t i = 0; i < 6; i++) {
            int64_t offset = node_produce(&world, 0, topic, i, 100, &err);

            ck_assert_int_eq(err, dir_of(topic, i) == 1 ? ERR_KAFKA_STORAGE_ERROR : ERR_OK);
            ck_assert_int_eq(offset, dir_of(topic, i) == 1 ? -1 : 1);
        }
        node_world_pass(&world, 100); /* the controller is told: nobody leads what lies there */
        for (int32_t i = 0; i < 6; i++) {
            ck_assert_int_eq(leader_of(topic, i), dir_of(topic, i) == 1 ? IMAGE_LEADER_NONE : 1);
            (void)node_produce(&world, 0, topic, i, 100, &err);
            ck_assert_int_eq(err, dir_of(topic, i) == 1 ? ERR_KAFKA_STORAGE_ERROR : ERR_OK);
        }
        later = node_create_topic(&world, "b", 4, NULL);
        for (int32_t i = 0; i < 4; i++) {
            ck_assert_uint_ne(dir_of(later, i), 1);
            ck_assert_int_eq(node_produce(&world, 0, later, i, 100, &err), 0);
        }
        describe_log_dirs_request_init(&request);
        request.topics = NULL;
        response = describe(&request, &call);
        ck_assert_int_eq(response->results[0].error_code, 0);
        ck_assert_int_eq(response->results[1].error_code, err_wire(ERR_KAFKA_STORAGE_ERROR));
        ck_assert_uint_eq(response->results[1].topics_count, 0);
        ck_assert_int_eq(response->results[2].error_code, 0);
        node_call_end(&call);
        sim_node_stop(&world.node);
        sim_node_start(&world.node);
        ck_assert(world.node.broker->dirs[0].clean);
        ck_assert(!world.node.broker->dirs[1].clean);
        ck_assert(world.node.broker->dirs[2].clean);
        for (int32_t i = 0; i < 6; i++) {
            ck_assert_int_eq(leader_of(topic, i), 1); /* the directory is back */
            ck_assert_int_ge(node_produce(&world, 0, topic, i, 100, &err), 1);
        }
        node_world_end(&world);
    }
}
END_TEST

static void check_leaders(struct uuid topic, int32_t count, uint32_t failed)
{
    for (int32_t i = 0; i < count; i++)
        ck_assert_int_eq(leader_of(topic, i), dir_of(topic, i) == failed ? IMAGE_LEADER_NONE : 1);
}

/* A directory that fails while the controller takes no word of it is told of until it does. */
START_TEST(a_failed_directory_is_told_of_until_the_controller_knows)
{
    struct uuid topic;
    int64_t epoch = 0;

    begin(16, 2);
    topic = node_create_topic(&world, "a", 6, NULL);
    node_world_pass(&world, 1000);
    epoch = atomic_load(&world.node.broker->broker_epoch);
    atomic_store(&world.node.broker->broker_epoch, epoch + 1000); /* it is refused as somebody else's */
    world.node.silent = true;
    shard_storage_failed(&world.node.broker->shards[0], "/more", ERR_IO);
    node_world_pass(&world, 5000);
    for (int32_t i = 0; i < 6; i++)
        ck_assert_int_eq(leader_of(topic, i), 1);
    atomic_store(&world.node.broker->broker_epoch, epoch);
    node_world_pass(&world, 2000);
    check_leaders(topic, 6, 1);
    shard_storage_failed(&world.node.broker->shards[0], "/last", ERR_IO); /* and of a further one */
    node_world_pass(&world, 100);
    for (int32_t i = 0; i < 6; i++)
        ck_assert_int_eq(leader_of(topic, i), dir_of(topic, i) > 0 ? IMAGE_LEADER_NONE : 1);
    node_world_end(&world);
}
END_TEST

/* Nor is a new partition's place forgotten when the controller does not take word of it. */
START_TEST(a_place_is_told_until_the_controller_knows)
{
    struct uuid topic;
    int64_t epoch = 0;

    begin(25, 2);
    epoch = atomic_load(&world.node.broker->broker_epoch);
    atomic_store(&world.node.broker->broker_epoch, epoch + 1000);
    topic = node_create_topic(&world, "a", 6, NULL);
    node_world_pass(&world, 3000);
    for (int life = 0; life < 2; life++) {
        for (int32_t i = 0; i < 6; i++)
            ck_assert_int_eq(dir_assign_is_told(shard_hosted(shard_home(world.node.broker, topic, i), topic, i)),
                             life == 1);
        atomic_store(&world.node.broker->broker_epoch, epoch);
        node_world_pass(&world, 2000);
    }
    node_world_end(&world);
}
END_TEST

/* So is one that fails during the start, when the node has registered it as sound. */
START_TEST(a_directory_that_fails_in_the_start_is_told_of)
{
    for (uint64_t seed = 17; seed <= 24; seed++) {
        struct uuid topic;

        begin(seed, 2);
        topic = node_create_topic(&world, "a", 6, NULL);
        node_world_pass(&world, 1000);
        sim_node_stop(&world.node);
        world.node.silent = true;
        sim_node_begin(&world.node);
        while (world.node.broker->shards[0].image == NULL)
            (void)sim_step(&world.sim, INT64_MAX);
        for (uint64_t step = 17; step < seed; step++)
            (void)sim_step(&world.sim, INT64_MAX);
        shard_storage_failed(&world.node.broker->shards[0], "/more", ERR_IO);
        node_world_pass(&world, 5000);
        ck_assert_int_eq(atomic_load(&world.node.broker->state), BROKER_SERVING);
        check_leaders(topic, 6, 1);
        world.node.told = false;
        node_world_end(&world);
    }
}
END_TEST

/* A node that has run before goes on without a directory that it cannot use any more: nobody leads what lies there, it
 * is told of, nothing of it is made anew elsewhere, and with the directory it all is back. */
START_TEST(a_start_without_a_directory)
{
    struct describe_log_dirs_request request;
    struct describe_log_dirs_response *response = NULL;
    struct node_call call;
    struct uuid topic;
    bool there[6];
    enum err err = ERR_OK;

    for (uint64_t seed = 31; seed <= 35; seed++) {
        begin(seed, 2);
        topic = node_create_topic(&world, "a", 6, NULL);
        for (int32_t i = 0; i < 6; i++) {
            ck_assert_int_eq(node_produce(&world, 0, topic, i, 100, &err), 0);
            there[i] = dir_of(topic, i) != 1;
        }
        sim_node_stop(&world.node);
        node_start_without_second_dir(&world);
        ck_assert_uint_eq(world.node.broker->dir_count, 2);
        ck_assert_str_eq(world.node.broker->absent[0], "/more");
        for (int32_t i = 0; i < 6; i++) {
            int64_t offset = node_produce(&world, 0, topic, i, 100, &err);

            ck_assert_int_eq(leader_of(topic, i), there[i] ? 1 : -1);
            ck_assert_int_eq(offset, there[i] ? 1 : -1);
        }
        describe_log_dirs_request_init(&request);
        request.topics = NULL;
        response = describe(&request, &call);
        ck_assert_uint_eq(response->results_count, 3);
        ck_assert(bytes_equal(response->results[2].log_dir, BYTES_LITERAL("/more")));
        ck_assert_int_eq(response->results[2].error_code, err_wire(ERR_KAFKA_STORAGE_ERROR));
        node_call_end(&call);
        sim_node_stop(&world.node);
        sim_node_start(&world.node);
        for (int32_t i = 0; i < 6; i++)
            ck_assert_int_eq(node_produce(&world, 0, topic, i, 100, &err), there[i] ? 2 : 1);
        node_world_end(&world);
    }
}
END_TEST

static void note_failure(void *context, const char *message)
{
    (void)message;
    *(bool *)context = true;
}

START_TEST(without_the_directory_of_the_metadata_the_node_ends)
{
    struct uuid topic;
    bool failed = false;
    enum err err = ERR_OK;

    begin(21, 2);
    topic = node_create_topic(&world, "a", 6, "flush.messages=1", NULL);
    for (int32_t i = 0; i < 6; i++)
        ck_assert_int_eq(node_produce(&world, 0, topic, i, 100, &err), 0);
    world.node.broker->env.failed = note_failure;
    world.node.broker->env.context = &failed;
    sim_fs_set_fault(&world.disk, SIM_FS_FAIL, SIM_FS_SYNC, 1, ERR_IO);
    (void)node_produce(&world, 0, topic, partition_in(topic, 6, world.node.broker->metadata_dir), 100, &err);
    node_world_pass(&world, 1000); /* it may have been the sync of a spare journal file: the producer's came before */
    ck_assert(failed);
    node_world_end(&world);
}
END_TEST

RUN_TESTS("broker/log_dirs", a_start_without_a_directory, without_the_directory_of_the_metadata_the_node_ends,
          a_failed_directory_leaves_the_others_serving, a_failed_directory_is_told_of_until_the_controller_knows,
          a_place_is_told_until_the_controller_knows, a_directory_that_fails_in_the_start_is_told_of,
          new_partitions_go_where_the_fewest_are, only_what_is_asked_is_told_and_once, much_that_is_asked_is_told_once)
