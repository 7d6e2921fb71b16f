/* Rules: AlterReplicaLogDirs answers as Apache Kafka 4.4 does; a partition that moves serves all the while and is where
 * it was sent, also after a start; a kill at any moment leaves all of it in one directory; of two directories that have
 * a partition the one counts that the metadata names.
 *
 * Sources: broker/dir_assign.c, broker/dir_moves.c, partition/partition_move.c */
#include <stdio.h>

#include "../partition/run_tests.h"
#include "broker/broker_internal.h"
#include "node_world.h"
#include "protocol/gen/alter_replica_log_dirs.h"
#include "protocol/gen/describe_log_dirs.h"

enum { ALTER_VERSION = 2, DESCRIBE_VERSION = 4, RECORD_BYTES = 2000 };

static const char *const paths[] = {"/data", "/more", "/last"};
static struct node_world world;

static void begin(uint64_t seed, const char *more)
{
    node_world_begin(&world, seed, 2);
    sim_node_stop(&world.node);
    sim_node_set(&world.node, "log.dirs=/data,/more,/last");
    if (more != NULL)
        sim_node_set(&world.node, more);
    sim_node_start(&world.node);
}

/* What it says of each; node_call_end. */
static const struct alter_replica_log_dir_partition_result *alter_all(const char *path, const char *name,
                                                                      int32_t *indexes, uint32_t count,
                                                                      struct node_call *call)
{
    struct alter_replica_log_dirs_request request;
    struct alter_replica_log_dir dir;
    struct alter_replica_log_dir_topic topic;
    const struct alter_replica_log_dirs_response *response = NULL;

    alter_replica_log_dirs_request_init(&request);
    alter_replica_log_dir_init(&dir);
    alter_replica_log_dir_topic_init(&topic);
    topic.name = bytes_of_text(name);
    topic.partitions = indexes;
    topic.partitions_count = count;
    dir.path = bytes_of_text(path);
    dir.topics = &topic;
    dir.topics_count = 1;
    request.dirs = &dir;
    request.dirs_count = 1;
    response = node_ask(&world, 0, &alter_replica_log_dirs_request_message, &request,
                        &alter_replica_log_dirs_response_message, ALTER_VERSION, call);
    ck_assert_ptr_nonnull(response);
    ck_assert_uint_eq(response->results_count, 1);
    ck_assert_uint_eq(response->results[0].partitions_count, count);
    return response->results[0].partitions;
}

static int16_t alter(const char *path, const char *name, int32_t index)
{
    struct node_call call;
    const struct alter_replica_log_dir_partition_result *result = alter_all(path, name, &index, 1, &call);
    int16_t code = result->error_code;

    ck_assert_int_eq(result->partition_index, index);
    node_call_end(&call);
    return code;
}

static struct hosted *hosted_of(struct uuid topic, int32_t index)
{
    return shard_hosted(shard_home(world.node.broker, topic, index), topic, index);
}

static uint32_t dir_of(struct uuid topic, int32_t index)
{
    return hosted_of(topic, index)->dir;
}

/* What the metadata says. */
static bool is_told(struct uuid topic, int32_t index, uint32_t dir)
{
    struct shard *home = shard_home(world.node.broker, topic, index);

    return uuid_equal(dir_assign_directory(home, topic, index), world.node.broker->dirs[dir].id);
}

static void await_dir(struct uuid topic, int32_t index, uint32_t dir)
{
    for (int i = 0; i < 1000 && (dir_of(topic, index) != dir || hosted_of(topic, index)->move != NULL); i++)
        node_world_pass(&world, 10);
    ck_assert_uint_eq(dir_of(topic, index), dir);
    ck_assert(is_told(topic, index, dir));
}

static void produce(struct uuid topic, int32_t index, int64_t from, int64_t to)
{
    enum err err = ERR_OK;

    for (int64_t i = from; i < to; i++)
        ck_assert_int_eq(node_produce(&world, 0, topic, index, RECORD_BYTES, &err), i);
}

/* Topic "a", of one partition with so many records, in that directory; config: NULL, or one of its own. */
static struct uuid topic_in(uint32_t dir, int64_t records, const char *config)
{
    struct uuid topic = node_create_topic(&world, "a", 1, config, NULL);

    produce(topic, 0, 0, records);
    node_world_pass(&world, 100);
    if (dir_of(topic, 0) != dir)
        ck_assert_int_eq(alter(paths[dir], "a", 0), 0);
    await_dir(topic, 0, dir);
    return topic;
}

/* Of partition 0 in the directory; false: it is not there. */
static bool describe(uint32_t dir, bool *is_future, int64_t *lag, int64_t *size)
{
    struct describe_log_dirs_request request;
    const struct describe_log_dirs_response *response = NULL;
    struct node_call call;
    bool found = false;

    describe_log_dirs_request_init(&request);
    request.topics = NULL;
    response = node_ask(&world, 0, &describe_log_dirs_request_message, &request, &describe_log_dirs_response_message,
                        DESCRIBE_VERSION, &call);
    for (uint32_t i = 0; i < response->results[dir].topics_count; i++)
        for (uint32_t j = 0; j < response->results[dir].topics[i].partitions_count; j++) {
            const struct describe_log_dirs_partition *partition = &response->results[dir].topics[i].partitions[j];

            if (partition->partition_index != 0)
                continue;
            found = true;
            *is_future = partition->is_future_key;
            *lag = partition->offset_lag;
            *size = partition->partition_size;
        }
    node_call_end(&call);
    return found;
}

START_TEST(bad_requests_are_refused)
{
    char long_name[250];
    struct uuid topic;

    begin(1, NULL);
    topic = node_create_topic(&world, "a", 1, NULL);
    node_world_pass(&world, 100);
    memset(long_name, 'x', sizeof(long_name));
    long_name[230] = '\0';
    ck_assert_int_eq(alter("/nowhere", "a", 0), err_wire(ERR_LOG_DIR_NOT_FOUND));
    ck_assert_int_eq(alter("more", "a", 0), err_wire(ERR_LOG_DIR_NOT_FOUND));
    ck_assert_int_eq(alter("/more/", "a", 0), err_wire(ERR_LOG_DIR_NOT_FOUND));
    ck_assert_int_eq(alter("/more", "b", 0), err_wire(ERR_UNKNOWN_TOPIC_OR_PARTITION));
    ck_assert_int_eq(alter("/more", "a", 7), err_wire(ERR_UNKNOWN_TOPIC_OR_PARTITION));
    ck_assert_int_eq(alter("/more", "a", -1), err_wire(ERR_UNKNOWN_TOPIC_OR_PARTITION));
    ck_assert_int_eq(alter("/more", long_name, 0), err_wire(ERR_INVALID_TOPIC_EXCEPTION));
    ck_assert_int_eq(alter("/nowhere", long_name, 0), err_wire(ERR_INVALID_TOPIC_EXCEPTION));
    ck_assert_int_eq(alter(paths[dir_of(topic, 0)], "a", 0), 0); /* where it is */
    ck_assert_ptr_null(hosted_of(topic, 0)->move);
    node_world_end(&world);
}
END_TEST

/* While it goes its copy is told of, with what it lacks; another target replaces the first, its own place ends it. */
START_TEST(a_move_is_seen_replaced_and_ended)
{
    struct uuid topic;
    uint32_t first = 0;
    uint32_t second = 0;
    uint32_t third = 0;
    bool is_future = false;
    int64_t lag = 0;
    int64_t size = 0;
    int64_t whole = 0;

    begin(2, "replica.alter.log.dirs.io.max.bytes.per.second=20000");
    topic = node_create_topic(&world, "a", 1, NULL);
    produce(topic, 0, 0, 40);
    node_world_pass(&world, 100);
    first = dir_of(topic, 0);
    second = (first + 1) % 3;
    third = (first + 2) % 3;
    ck_assert(is_told(topic, 0, first));
    ck_assert_int_eq(alter(paths[second], "a", 0), 0);
    ck_assert(describe(second, &is_future, &lag, &size));
    ck_assert(is_future);
    ck_assert_int_eq(lag, 40);
    ck_assert(describe(first, &is_future, &lag, &whole));
    ck_assert(!is_future);
    ck_assert_int_eq(lag, 0);
    ck_assert_int_eq(alter(paths[third], "a", 0), 0);
    node_world_pass(&world, 100);
    ck_assert(!describe(second, &is_future, &lag, &size));
    ck_assert(describe(third, &is_future, &lag, &size));
    produce(topic, 0, 40, 42);
    ck_assert_int_eq(alter(paths[first], "a", 0), 0);
    node_world_pass(&world, 100);
    ck_assert(!describe(third, &is_future, &lag, &size));
    ck_assert_ptr_null(hosted_of(topic, 0)->move);
    ck_assert_int_eq(alter(paths[third], "a", 0), 0);
    await_dir(topic, 0, third);
    ck_assert(!describe(first, &is_future, &lag, &size));
    ck_assert(describe(third, &is_future, &lag, &size));
    ck_assert(!is_future);
    ck_assert_int_ge(size, whole);
    produce(topic, 0, 42, 50);
    sim_node_stop(&world.node);
    sim_node_start(&world.node);
    node_world_pass(&world, 100);
    ck_assert_uint_eq(dir_of(topic, 0), third);
    produce(topic, 0, 50, 52);
    node_world_end(&world);
}
END_TEST

/* Several at once, under load, with a stop in between: they go on after the start, and each is where it was sent. */
START_TEST(moves_go_on_after_a_start)
{
    struct uuid topic;
    uint32_t to[4];

    begin(3, "replica.alter.log.dirs.io.max.bytes.per.second=100000");
    topic = node_create_topic(&world, "a", 4, NULL);
    for (int32_t i = 0; i < 4; i++)
        produce(topic, i, 0, 30);
    node_world_pass(&world, 100);
    for (int32_t i = 0; i < 4; i++) {
        to[i] = (dir_of(topic, i) + 1) % 3;
        ck_assert_int_eq(alter(paths[to[i]], "a", i), 0);
    }
    node_world_pass(&world, 100);
    sim_node_stop(&world.node);
    sim_node_start(&world.node);
    for (int32_t i = 0; i < 4; i++)
        produce(topic, i, 30, 40);
    node_world_pass(&world, 20000);
    for (int32_t i = 0; i < 4; i++) {
        if (dir_of(topic, i) != to[i]) /* it had not begun when the node stopped */
            ck_assert_int_eq(alter(paths[to[i]], "a", i), 0);
        await_dir(topic, i, to[i]);
        produce(topic, i, 40, 41);
    }
    node_world_end(&world);
}
END_TEST

/* What is made later goes where it was wished, once. */
START_TEST(a_partition_to_come_has_its_place)
{
    struct uuid topic;

    begin(4, NULL);
    for (int32_t i = 0; i < 5; i++)
        ck_assert_int_eq(alter("/last", "later", i), err_wire(ERR_UNKNOWN_TOPIC_OR_PARTITION));
    node_world_pass(&world, 10);
    topic = node_create_topic(&world, "later", 5, NULL);
    for (int32_t i = 0; i < 5; i++)
        ck_assert_uint_eq(dir_of(topic, i), 2);
    node_world_end(&world);
}
END_TEST

/* Killed, or without power, at any moment of a move: everything acknowledged and synced is there, in one place. */
START_TEST(a_kill_leaves_it_in_one_place)
{
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct uuid topic;
        uint32_t from = 0;
        uint32_t to = 0;
        int64_t next = 0;
        enum err err = ERR_OK;

        begin(seed, seed % 3 == 0 ? "replica.alter.log.dirs.io.max.bytes.per.second=200000" : NULL);
        topic = node_create_topic(&world, "a", 1, "flush.messages=1", NULL);
        produce(topic, 0, 0, 20);
        node_world_pass(&world, 50);
        from = dir_of(topic, 0);
        to = (from + 1) % 3;
        ck_assert_int_eq(alter(paths[to], "a", 0), 0);
        node_world_pass(&world, (int64_t)(seed % 7));
        if (seed % 5 == 0)
            produce(topic, 0, 20, 22);
        next = seed % 5 == 0 ? 22 : 20;
        sim_node_kill(&world.node, seed % 2 == 0);
        sim_node_start(&world.node);
        ck_assert_int_eq(node_produce(&world, 0, topic, 0, RECORD_BYTES, &err), next);
        await_dir(topic, 0, dir_of(topic, 0));
        ck_assert(dir_of(topic, 0) == from || dir_of(topic, 0) == to);
        ck_assert(sim_node_serves(&world.node, topic, 0, next + 1));
        node_world_end(&world);
    }
}
END_TEST

static void copy_file(const char *from, const char *to, const char *name)
{
    char old[256];
    char new[256];
    struct bytes content;

    (void)snprintf(old, sizeof(old), "%s/a-0/%s", from, name);
    (void)snprintf(new, sizeof(new), "%s/a-0/%s", to, name);
    content = sim_fs_peek(&world.disk, old);
    sim_fs_poke(&world.disk, new, content);
}

/* As an operator does it, or a kill at the end of a move. */
static void copy_partition(const char *from, const char *to)
{
    copy_file(from, to, "00000000000000000000.log");
    copy_file(from, to, "partition.metadata");
}

static bool start_is_told(void *context)
{
    (void)context;
    return world.node.told;
}

/* An operator has copied a partition's directory: the one that the metadata names counts, whatever their order in
 * log.dirs; the other is kept aside. */
START_TEST(of_two_the_metadata_choose)
{
    struct uuid topic;

    begin(5, NULL);
    topic = node_create_topic(&world, "a", 1, NULL);
    produce(topic, 0, 0, 5);
    node_world_pass(&world, 100);
    for (uint32_t to = 0; to < 3; to++) {
        uint32_t at = 0;
        struct fs_info info;
        char path[64];

        if (dir_of(topic, 0) != to)
            ck_assert_int_eq(alter(paths[to], "a", 0), 0);
        await_dir(topic, 0, to);
        at = (to + 1) % 3;
        produce(topic, 0, 5 + 2 * (int64_t)to, 6 + 2 * (int64_t)to);
        sim_node_stop(&world.node);
        ck_assert_int_eq(fs_mkdir(&world.disk.fs, at == 0 ? "/data/a-0" : at == 1 ? "/more/a-0" : "/last/a-0"), ERR_OK);
        copy_partition(paths[to], paths[at]);
        sim_node_start(&world.node);
        ck_assert_uint_eq(dir_of(topic, 0), to);
        (void)snprintf(path, sizeof(path), "%s/a-0", paths[at]);
        ck_assert_int_eq(fs_stat(&world.disk.fs, path, &info), ERR_NOT_FOUND);
        produce(topic, 0, 6 + 2 * (int64_t)to, 7 + 2 * (int64_t)to);
    }
    node_world_end(&world);
}
END_TEST

/* The directory that the metadata name is gone, and two others have the partition: the start never comes to serve, and
 * touches neither; with one of them moved away it does. */
START_TEST(of_two_that_the_metadata_do_not_name_none_is_served)
{
    struct uuid topic;
    bool told = false;

    begin(6, NULL);
    topic = topic_in(2, 5, NULL);
    sim_node_stop(&world.node);
    for (uint32_t at = 0; at < 2; at++) {
        ck_assert_int_eq(fs_mkdir(&world.disk.fs, at == 0 ? "/data/a-0" : "/more/a-0"), ERR_OK);
        copy_partition("/last", paths[at]);
    }
    sim_node_set(&world.node, "log.dirs=/data,/more");
    for (int start = 0; start < 2; start++) {
        struct fs_info info;

        world.node.silent = true;
        sim_node_begin(&world.node);
        told = sim_run(&world.sim, world.sim.mono_ns + INT64_C(60000000000), start_is_told, NULL);
        ck_assert(told);
        ck_assert_int_eq(world.node.outcome, ERR_EXISTS);
        ck_assert(!world.node.broker->shards[0].serving);
        world.node.told = false;
        sim_node_stop(&world.node);
        world.node.silent = false;
        ck_assert_int_eq(fs_stat(&world.disk.fs, "/data/a-0/00000000000000000000.log", &info), ERR_OK);
        ck_assert_int_eq(fs_stat(&world.disk.fs, "/more/a-0/00000000000000000000.log", &info), ERR_OK);
    }
    ck_assert_int_eq(fs_rename(&world.disk.fs, "/data/a-0", "/away"), ERR_OK);
    sim_node_start(&world.node);
    node_world_pass(&world, 1000); /* the metadata learn where it is */
    ck_assert_uint_eq(dir_of(topic, 0), 1);
    ck_assert(is_told(topic, 0, 1));
    produce(topic, 0, 5, 6);
    node_world_end(&world);
}
END_TEST

/* ... but for those that never got further than their name: no room for more, or a power cut. */
START_TEST(a_bare_directory_counts_where_there_is_nothing_else)
{
    for (uint32_t bare = 1; bare <= 2; bare++) { /* how many of two */
        struct uuid topic;

        begin(6, NULL);
        topic = topic_in(2, 5, NULL);
        sim_node_stop(&world.node);
        for (uint32_t at = 0; at < 2; at++) {
            ck_assert_int_eq(fs_mkdir(&world.disk.fs, at == 0 ? "/data/a-0" : "/more/a-0"), ERR_OK);
            if (at < bare)
                sim_fs_poke(&world.disk, at == 0 ? "/data/a-0/00000000000000000000.log" : "/more/a-0/garbage",
                            (struct bytes){0});
            else
                copy_partition("/last", paths[at]);
        }
        sim_node_set(&world.node, "log.dirs=/data,/more");
        world.node.silent = bare == 2;
        sim_node_start(&world.node);
        node_world_pass(&world, 1000);
        world.node.silent = false;
        if (bare == 1) {
            ck_assert_uint_eq(dir_of(topic, 0), 1);
            produce(topic, 0, 5, 6);
        } else { /* what the metadata name is not here, and this is nothing in its place */
            ck_assert_ptr_null(hosted_of(topic, 0));
        }
        node_world_end(&world);
    }
}
END_TEST

/* What a directory is said to have is what lies there: new partitions go by it. */
static void check_counts(void)
{
    uint32_t counts[3] = {0};

    for (uint32_t i = 0; i < world.node.broker->env.reactor_count; i++) {
        void *value = NULL;

        for (uint32_t cursor = 0; map_next(&world.node.broker->shards[i].hosted, &cursor, NULL, &value);)
            counts[((struct hosted *)value)->dir]++;
    }
    for (uint32_t i = 0; i < 3; i++)
        ck_assert_uint_eq(atomic_load(&world.node.broker->dirs[i].partitions), counts[i]);
}

static void step(uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        (void)sim_step(&world.sim, INT64_MAX);
}

/* Deleted at any moment of its move. */
START_TEST(a_topic_goes_while_it_moves)
{
    for (uint64_t seed = 1; seed <= 80; seed++) {
        struct uuid topic;

        begin(seed, NULL);
        topic = node_create_topic(&world, "a", 1, NULL);
        node_world_pass(&world, 100);
        produce(topic, 0, 0, 3);
        ck_assert_int_eq(alter(paths[(dir_of(topic, 0) + 1) % 3], "a", 0), 0);
        step(seed);
        ck_assert_int_eq(node_delete_topic(&world, "a"), ERR_OK);
        node_world_pass(&world, 2000);
        check_counts();
        node_world_end(&world);
    }
}
END_TEST

/* The target fails at any moment of the move: the partition serves from where it was, or has failed with what it had
 * moved into, and the metadata know. */
START_TEST(a_target_that_fails)
{
    uint32_t stayed = 0;
    uint32_t gone = 0;

    for (uint64_t seed = 1; seed <= 120; seed++) {
        struct uuid topic;
        struct shard *home = NULL;
        enum err err = ERR_OK;

        begin(seed, NULL);
        topic = topic_in(0, 3, NULL); /* the metadata's own directory is not to fail */
        home = shard_home(world.node.broker, topic, 0);
        ck_assert_int_eq(alter("/more", "a", 0), 0);
        step(seed);
        shard_storage_failed(home, "/more", ERR_IO);
        node_world_pass(&world, 3000);
        ck_assert_ptr_null(hosted_of(topic, 0)->move);
        if (dir_of(topic, 0) == 1) {
            gone++;
            ck_assert(partition_is_failed(hosted_of(topic, 0)->partition));
            ck_assert_int_eq(image_partition(home->image, topic, 0)->leader, -1);
            ck_assert_int_eq(node_produce(&world, 0, topic, 0, RECORD_BYTES, &err), -1);
        } else {
            stayed++;
            ck_assert_int_eq(image_partition(home->image, topic, 0)->leader, 1);
            produce(topic, 0, 3, 4);
        }
        check_counts();
        node_world_end(&world);
    }
    ck_assert_uint_gt(stayed, 0);
    ck_assert_uint_gt(gone, 0);
}
END_TEST

/* The directory that it leaves fails at any moment of the move: where the log has come into the new one it serves
 * there, and where it has not it has failed with the others. */
START_TEST(an_origin_that_fails)
{
    uint32_t stayed = 0;
    uint32_t gone = 0;

    for (uint64_t seed = 1; seed <= 120; seed++) {
        struct uuid topic;
        struct shard *home = NULL;
        enum err err = ERR_OK;

        begin(seed, NULL);
        topic = topic_in(1, 3, "flush.messages=1");
        home = shard_home(world.node.broker, topic, 0);
        ck_assert_int_eq(alter("/last", "a", 0), 0);
        step(seed);
        world.node.silent = true;
        shard_storage_failed(home, "/more", ERR_IO);
        node_world_pass(&world, 3000);
        world.node.silent = false;
        ck_assert_ptr_null(hosted_of(topic, 0)->move);
        if (dir_of(topic, 0) == 1) {
            stayed++;
            ck_assert(partition_is_failed(hosted_of(topic, 0)->partition));
            ck_assert_int_eq(image_partition(home->image, topic, 0)->leader, -1);
            ck_assert_int_eq(node_produce(&world, 0, topic, 0, RECORD_BYTES, &err), -1);
        } else {
            gone++;
            ck_assert_int_eq(image_partition(home->image, topic, 0)->leader, 1);
            produce(topic, 0, 3, 5);
            sim_node_kill(&world.node, false);
            sim_node_start(&world.node);
            produce(topic, 0, 5, 6);
        }
        check_counts();
        node_world_end(&world);
    }
    ck_assert_uint_gt(stayed, 0);
    ck_assert_uint_gt(gone, 0);
}
END_TEST

/* The bytes of a file under the directories of partition 0; 0: there is none. */
static size_t bytes_in(const char *dir, const char *name)
{
    char path[256];

    (void)snprintf(path, sizeof(path), "%s/%s/00000000000000000000.log", dir, name);
    return sim_fs_peek(&world.disk, path).size;
}

/* A start without the directory that the metadata name, which cannot be used or (with the last seed, where there is
 * only a copy) was left out of log.dirs: neither a copy nor an older log in another one is taken for the partition, or
 * set aside, or forgotten by the checkpoint files; with the directory all is back. */
START_TEST(what_lies_elsewhere_is_not_made_up_for)
{
    static const char *const names[] = {"a-0", "a-0.0123456789abcdef0123456789abcdef-future"};

    for (uint64_t seed = 1; seed <= 9; seed++) {
        const char *name = names[seed % 2];
        struct bytes content;
        struct uuid topic;
        struct shard *home = NULL;
        char path[128];
        size_t size = 0;
        bool clean = seed % 4 < 2;
        enum err err = ERR_OK;

        begin(seed, NULL);
        topic = topic_in(1, 5, "flush.messages=1");
        if (clean)
            sim_node_stop(&world.node);
        else
            sim_node_kill(&world.node, false);
        (void)snprintf(path, sizeof(path), "/last/%s", name);
        ck_assert_int_eq(fs_mkdir(&world.disk.fs, path), ERR_OK);
        (void)snprintf(path, sizeof(path), "/last/%s/partition.metadata", name);
        sim_fs_poke(&world.disk, path, sim_fs_peek(&world.disk, "/more/a-0/partition.metadata"));
        (void)snprintf(path, sizeof(path), "/last/%s/00000000000000000000.log", name);
        content = sim_fs_peek(&world.disk, "/more/a-0/00000000000000000000.log");
        ck_assert_uint_gt(content.size, RECORD_BYTES * 5);
        content.size /= 5;
        sim_fs_poke(&world.disk, path, content);
        size = content.size;
        sim_fs_poke(&world.disk, "/last/log-start-offset-checkpoint", BYTES_LITERAL("0\n1\na 0  1\n"));
        world.node.silent = true;
        if (seed == 9) {
            sim_node_set(&world.node, "log.dirs=/data,/last");
            sim_node_start(&world.node);
        } else {
            node_start_without_second_dir(&world);
        }
        world.node.silent = false;
        ck_assert_uint_eq(world.node.broker->dir_count, 2);
        home = shard_home(world.node.broker, topic, 0);
        for (int round = 0; round < 2; round++) {
            ck_assert_ptr_null(hosted_of(topic, 0));
            ck_assert_int_eq(image_partition(home->image, topic, 0)->leader, -1);
            ck_assert_int_eq(node_produce(&world, 0, topic, 0, RECORD_BYTES, &err), -1);
            (void)node_create_topic(&world, round == 0 ? "b" : "c", 2, NULL);
            node_world_pass(&world, 5000);
        }
        ck_assert_uint_eq(bytes_in("/last", name), size);
        sim_node_stop(&world.node);
        content = sim_fs_peek(&world.disk, "/last/log-start-offset-checkpoint");
        if (clean) /* else it is older than the directory, and not believed */
            ck_assert_int_eq(memmem(content.data, content.size, "\na 0  1\n", 8) != NULL, seed % 2 == 0);
        sim_node_set(&world.node, "log.dirs=/data,/more,/last");
        sim_node_start(&world.node);
        await_dir(topic, 0, seed % 2 == 0 ? 1 : 2); /* the move goes on */
        produce(topic, 0, 5, 7);
        ck_assert(sim_node_serves(&world.node, topic, 0, 7));
        node_world_pass(&world, 5000);
        check_counts();
        node_world_end(&world);
    }
}
END_TEST

static bool has_partition(int32_t index)
{
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        char path[64];

        (void)snprintf(path, sizeof(path), "%s/a-%d/partition.metadata", paths[i], index);
        if (sim_fs_peek(&world.disk, path).size > 0)
            return true;
    }
    return false;
}

/* The same where the metadata do not know yet in which directory the partition lies, whatever they hear of the topic's
 * other one meanwhile, and though half a copy of it is there. */
START_TEST(what_may_lie_elsewhere_is_not_made_anew)
{
    uint32_t tried = 0;

    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct uuid topic;
        int32_t lost = 0;
        bool copy = seed % 2 == 0;
        enum err err = ERR_OK;
        char from[96];
        char to[96];

        begin(seed, NULL);
        (void)node_create_topic(&world, "b", 1, NULL); /* in the first one; the next go elsewhere */
        node_world_pass(&world, 100);
        topic = node_create_topic(&world, "a", 2, NULL);
        while (!has_partition(0) || !has_partition(1))
            ck_assert(sim_step(&world.sim, INT64_MAX));
        lost = dir_of(topic, 0) == 1 ? 0 : 1;
        if (dir_of(topic, lost) != 1 || dir_of(topic, 1 - lost) == 1 || is_told(topic, lost, 1)) {
            node_world_end(&world);
            continue;
        }
        tried++;
        sim_node_kill(&world.node, false);
        if (copy) {
            (void)snprintf(from, sizeof(from), "/more/a-%d/partition.metadata", lost);
            (void)snprintf(to, sizeof(to), "/last/a-%d.0123456789abcdef0123456789abcdef-future", lost);
            ck_assert_int_eq(fs_mkdir(&world.disk.fs, to), ERR_OK);
            (void)snprintf(to, sizeof(to), "/last/a-%d.0123456789abcdef0123456789abcdef-future/partition.metadata",
                           lost);
            sim_fs_poke(&world.disk, to, sim_fs_peek(&world.disk, from));
        }
        world.node.silent = true;
        node_start_without_second_dir(&world);
        ck_assert_uint_eq(world.node.broker->dir_count, 2);
        if (image_partition(shard_home(world.node.broker, topic, lost)->image, topic, lost)->leader == -1) {
            tried--; /* they were just being told: it was in their log, and nowhere else yet */
            world.node.silent = false;
            node_world_end(&world);
            continue;
        }
        produce(topic, 1 - lost, 0, 1);
        node_world_pass(&world, 5000); /* the metadata are told where that one is */
        ck_assert_ptr_null(hosted_of(topic, lost));
        ck_assert_int_eq(node_produce(&world, 0, topic, lost, RECORD_BYTES, &err), -1);
        ck_assert_int_eq(err, ERR_KAFKA_STORAGE_ERROR);
        world.node.silent = false;
        sim_node_stop(&world.node);
        sim_node_start(&world.node);
        produce(topic, lost, 0, 3);
        await_dir(topic, lost, copy ? 2 : 1); /* the move goes on */
        node_world_end(&world);
    }
    ck_assert_uint_gt(tried, 0);
}
END_TEST

static enum err count_names(void *context, const char *name, bool is_directory)
{
    (void)is_directory;
    *(uint32_t *)context += memmem(name, strlen(name), "gone-0", strlen("gone-0")) != NULL;
    return ERR_OK;
}

/* A copy that a start gives up gives its room back while the node runs, not at the start after it; a stop may come at
 * once. */
START_TEST(a_copy_given_up_gives_its_room_back)
{
    static const char copy[] = "/last/gone-0.0123456789abcdef0123456789abcdef-future";

    for (uint64_t seed = 1; seed <= 8; seed++) {
        uint32_t left = 0;
        char path[128];

        begin(seed, NULL);
        sim_node_stop(&world.node);
        (void)snprintf(path, sizeof(path), "%s/00000000000000000000.log", copy);
        sim_fs_poke(&world.disk, path, BYTES_LITERAL("half a batch"));
        sim_node_start(&world.node);
        if (seed % 2 == 0) {
            sim_node_stop(&world.node);
            sim_node_start(&world.node);
        }
        node_world_pass(&world, 1000);
        ck_assert_int_eq(fs_list(&world.disk.fs, "/last", count_names, &left), ERR_OK);
        ck_assert_uint_eq(left, 0);
        node_world_end(&world);
    }
}
END_TEST

/* Every home hears of a wish, one of them has the partition. */
START_TEST(wishes_are_forgotten_once_it_is_there)
{
    begin(3, NULL);
    for (int32_t i = 0; i < 4; i++)
        (void)alter("/last", "later", i);
    node_world_pass(&world, 100);
    (void)node_create_topic(&world, "later", 4, NULL);
    node_world_pass(&world, 100);
    for (uint32_t i = 0; i < world.node.broker->env.reactor_count; i++)
        ck_assert_uint_eq(map_count(&world.node.broker->shards[i].moves.wishes), 0);
    check_counts();
    node_world_end(&world);
}
END_TEST

/* Whoever wishes for more partitions to come than any topic has is not remembered for all of them, and nothing else is
 * lost for it. */
START_TEST(so_many_wishes)
{
    static int32_t indexes[DIR_WISHES_MAX + 10];
    struct node_call call;
    struct uuid topic;

    begin(7, NULL);
    for (int32_t i = 0; i < DIR_WISHES_MAX + 10; i++)
        indexes[i] = i;
    (void)alter_all("/last", "later", indexes, DIR_WISHES_MAX + 10, &call);
    node_call_end(&call);
    node_world_pass(&world, 1000);
    for (uint32_t i = 0; i < world.node.broker->env.reactor_count; i++)
        ck_assert_uint_eq(map_count(&world.node.broker->shards[i].moves.wishes), DIR_WISHES_MAX);
    topic = node_create_topic(&world, "later", 4, NULL);
    for (int32_t i = 0; i < 4; i++)
        ck_assert_uint_eq(dir_of(topic, i), 2);
    node_world_pass(&world, 1000);
    for (uint32_t i = 0; i < world.node.broker->env.reactor_count; i++)
        ck_assert_uint_eq(map_count(&world.node.broker->shards[i].moves.wishes), DIR_WISHES_MAX - 4);
    node_world_end(&world);
}
END_TEST

/* The metadata learn of more partitions than one request to the controller names. */
START_TEST(all_directories_are_told)
{
    enum { PARTITIONS = DIR_ASSIGN_PARTITIONS_MAX + 10 };
    struct uuid topic;
    int32_t told = 0;

    node_world_begin_with(&world, 8, 1, "log.dirs=/data,/more,/last", NULL);
    topic = node_create_topic(&world, "wide", PARTITIONS, NULL);
    for (int tries = 0; tries < 100 && told < PARTITIONS; tries++) {
        node_world_pass(&world, 100);
        told = 0;
        for (int32_t i = 0; i < PARTITIONS; i++)
            told += is_told(topic, i, dir_of(topic, i));
    }
    ck_assert_int_eq(told, PARTITIONS);
    node_world_end(&world);
}
END_TEST

RUN_TESTS("handle_alter_log_dirs", bad_requests_are_refused, a_move_is_seen_replaced_and_ended,
          moves_go_on_after_a_start, a_partition_to_come_has_its_place, a_kill_leaves_it_in_one_place,
          of_two_the_metadata_choose, of_two_that_the_metadata_do_not_name_none_is_served,
          a_bare_directory_counts_where_there_is_nothing_else, a_topic_goes_while_it_moves, a_target_that_fails,
          what_lies_elsewhere_is_not_made_up_for, what_may_lie_elsewhere_is_not_made_anew, an_origin_that_fails,
          a_copy_given_up_gives_its_room_back, wishes_are_forgotten_once_it_is_there, so_many_wishes,
          all_directories_are_told)
