/* Rule: topics and the node itself come and go as they like. A name is taken again at once, what goes while it loads
 * leaves nothing behind, and a stop is clean whatever clients do.
 *
 * Sources: broker/checkpoints.c, broker/shard_notes.c, broker/stored.c */
#include <stdio.h>
#include <string.h>

#include "../partition/run_tests.h"
#include "broker/broker_internal.h"
#include "node_world.h"
#include "partition/log_moved_mark.h"
#include "partition/text_file.h"

enum { REACTORS = 3, ROUNDS = 12, RECORDS = 12, RECORD_BYTES = 400000, FETCH_VERSION = 13 };

static struct node_world world;

static void stop_told(void *context, enum err err, const char *message)
{
    (void)message;
    *(enum err *)context = err;
}

static bool is_told(void *context)
{
    return *(enum err *)context != ERR_BUSY;
}

START_TEST(a_name_is_taken_again_at_once)
{
    node_world_begin(&world, 1, REACTORS);
    for (int round = 0; round < ROUNDS; round++) {
        struct uuid topic = node_create_topic(&world, "again", 4, "flush.messages=1", NULL);

        for (int32_t partition = 0; partition < 4; partition++) {
            enum err err = ERR_OK;

            ck_assert_int_eq(node_produce(&world, 0, topic, partition, 100, &err), 0);
            ck_assert_int_eq(err, ERR_OK);
        }
        ck_assert_int_eq(node_delete_topic(&world, "again"), ERR_OK);
    }
    node_world_end(&world);
}
END_TEST

START_TEST(what_goes_while_it_loads_does_not_hold_up_the_checkpoints)
{
    struct bytes file;
    struct uuid topic;
    enum err err = ERR_OK;

    node_world_begin(&world, 2, REACTORS);
    topic = node_create_topic(&world, "kept", 1, NULL);
    world.sim.habits.job_delay_ns_max = INT64_C(300000000);
    for (int round = 0; round < 3; round++) {
        (void)node_create_topic(&world, "brief", 8, NULL);
        ck_assert_int_eq(node_delete_topic(&world, "brief"), ERR_OK);
    }
    ck_assert_int_eq(node_produce(&world, 0, topic, 0, 100, &err), 0);
    node_world_pass(&world, 10000);
    file = sim_fs_peek(&world.disk, "/data/recovery-point-offset-checkpoint");
    ck_assert_uint_gt(file.size, 0);
    ck_assert_ptr_nonnull(memmem(file.data, file.size, "kept 0  1\n", 10));
    node_world_end(&world);
}
END_TEST

/* SIGTERM waits neither for a client that reads nothing (longer than SHARD_DRAIN_MS_MAX), nor does it lose the
 * clean-shutdown mark to it. */
START_TEST(a_stop_does_not_wait_for_who_reads_nothing)
{
    struct node_fetch ask;
    struct node_call call;
    struct uuid topic;
    enum err err = ERR_OK;

    node_world_begin(&world, 3, 2);
    topic = node_create_topic(&world, "t", 1, NULL);
    for (int i = 0; i < RECORDS; i++)
        (void)node_produce(&world, 0, topic, 0, RECORD_BYTES, &err);
    ck_assert_int_eq(err, ERR_OK);
    node_fetch_init(&ask, "t", topic, 1);
    node_send(&world, 1, &fetch_request_message, &ask.request, &fetch_response_message, FETCH_VERSION, &call);
    node_world_pass(&world, 50);
    ck_assert(!call.answered);
    sim_loop_freeze(world.clients[1].loop, INT64_MAX);
    node_world_end(&world); /* asserts that it comes, and that it is clean */
}
END_TEST

/* A file system that was mounted again in the same boot has lost what was not synced. The first start knows; it dies
 * before all is recovered, and its own reading has brought the boot mark into the page cache: the next one must not
 * take what it finds there for what was written last. */
START_TEST(a_start_that_broke_off_is_done_again_as_thoroughly)
{
    for (uint64_t seed = 1; seed <= 12; seed++) {
        struct uuid topic;
        enum err err = ERR_OK;

        node_world_begin(&world, seed, REACTORS);
        world.sim.habits.cached_miss_percent = 0;
        topic = node_create_topic(&world, "kept", 4, "flush.messages=1", NULL);
        for (int round = 0; round < RECORDS; round++)
            for (int32_t partition = 0; partition < 4; partition++)
                ck_assert_int_eq(node_produce(&world, 0, topic, partition, 1000, &err), round);
        sim_node_kill(&world.node, false);
        sim_fs_remount(&world.disk);
        world.node.seen_count = 0;
        for (int start = 0; start < 2; start++) {
            sim_node_begin(&world.node);
            ck_assert_int_eq(world.node.broker->dirs[0].trust, LOG_TRUST_SYNCED);
            for (uint64_t steps = 0; steps < seed * 3; steps++)
                (void)sim_step(&world.sim, INT64_MAX);
            sim_node_kill(&world.node, false);
        }
        sim_node_start(&world.node);
        for (int32_t partition = 0; partition < 4; partition++)
            ck_assert_int_eq(node_produce(&world, 0, topic, partition, 1000, &err), RECORDS);
        node_world_end(&world);
    }
}
END_TEST

/* A log that could not be closed cleanly is read again from where it was surely synced. */
START_TEST(a_bad_close_promises_nothing)
{
    struct bytes file;
    struct uuid topic;
    enum err err = ERR_OK;

    node_world_begin(&world, 4, 1);
    topic = node_create_topic(&world, "kept", 1, "index.interval.bytes=0", NULL);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(node_produce(&world, 0, topic, 0, 100, &err), i);
    world.node.silent = true;
    sim_fs_set_fault(&world.disk, SIM_FS_FAIL, SIM_FS_OPEN, 1, ERR_NO_DESCRIPTORS);
    sim_node_stop(&world.node);
    world.node.silent = false;
    ck_assert(sim_fs_fault_struck(&world.disk));
    ck_assert_ptr_null(sim_fs_peek(&world.disk, "/data/.kafka_cleanshutdown").data);
    file = sim_fs_peek(&world.disk, "/data/recovery-point-offset-checkpoint");
    ck_assert_ptr_nonnull(memmem(file.data, file.size, "kept 0 ", 7));
    ck_assert_ptr_null(memmem(file.data, file.size, "kept 0 3\n", 9));
    ck_assert_ptr_null(memmem(file.data, file.size, "kept 0  3\n", 10));
    sim_node_start(&world.node);
    ck_assert_int_eq(node_produce(&world, 0, topic, 0, 100, &err), 3);
    node_world_end(&world);
}
END_TEST

static const char *const offset_files[] = {"recovery-point-offset-checkpoint", "log-start-offset-checkpoint",
                                           "replication-offset-checkpoint"};

static struct partition *partition_of(struct uuid topic, int32_t index)
{
    return shard_find(shard_home(world.node.broker, topic, index), topic, index);
}

/* Of the topic "t", so many partitions, each with that number, in that file of the only directory. */
static void check_lines(const char *file, int32_t partitions, int64_t offset)
{
    char line[64];
    char path[128];
    struct bytes content;

    (void)snprintf(path, sizeof(path), "/data/%s", file);
    content = sim_fs_peek(&world.disk, path);
    for (int32_t i = 0; i < partitions; i++) {
        int size = snprintf(line, sizeof(line), "\nt %d  %d\n", i, (int)offset);

        ck_assert_msg(content.size > 0 && memmem(content.data, content.size, line, (size_t)size) != NULL,
                      "%s has no line%s", file, line);
    }
}

static struct uuid lay_out(int32_t partitions)
{
    struct uuid topic = node_create_topic(&world, "t", partitions, "flush.messages=1", NULL);
    enum err err = ERR_OK;

    for (int32_t i = 0; i < partitions; i++) {
        int64_t low = 0;

        for (int record = 0; record < 5; record++)
            ck_assert_int_eq(node_produce(&world, 0, topic, i, 100, &err), record);
        ck_assert_int_eq(partition_delete_records(partition_of(topic, i), 3, &low), ERR_OK);
    }
    node_world_pass(&world, 20000);
    check_lines(offset_files[0], partitions, 5);
    check_lines(offset_files[1], partitions, 3);
    check_lines(offset_files[2], partitions, 5);
    return topic;
}

/* After a kill, a stop that comes while partitions are still being opened writes for them what the start found: where
 * they are synced, what was deleted. */
START_TEST(an_early_stop_keeps_what_is_known_of_the_unopened)
{
    uint32_t unopened = 0;

    for (uint64_t seed = 1; seed <= 6; seed++) {
        struct uuid topic;

        node_world_begin(&world, seed, 2);
        topic = lay_out(24);
        sim_node_kill(&world.node, false);
        world.sim.habits.job_delay_ns_max = INT64_C(300000000);
        sim_node_start(&world.node);
        for (int32_t i = 0; i < 24; i++)
            unopened += !partition_is_ready(partition_of(topic, i));
        sim_node_stop(&world.node);
        for (size_t i = 0; i < 3; i++)
            check_lines(offset_files[i], 24, i == 1 ? 3 : 5);
        sim_node_start(&world.node);
        node_world_pass(&world, 20000);
        for (int32_t i = 0; i < 24; i++) {
            ck_assert_int_eq(partition_start_offset(partition_of(topic, i)), 3);
            ck_assert_int_eq(partition_end_offset(partition_of(topic, i)), 5);
        }
        node_world_end(&world);
    }
    ck_assert_uint_gt(unopened, 0);
}
END_TEST

/* A partition that cannot be opened keeps its lines in the files of a node that serves the others, and is whole again
 * when it can. */
START_TEST(what_cannot_be_opened_keeps_its_lines)
{
    struct text later = {0};
    struct uuid topic;
    enum err err = ERR_OK;

    node_world_begin(&world, 7, 2);
    topic = lay_out(4);
    sim_node_kill(&world.node, false);
    text_add(&later, "ottla-moved 2\nanything\n");
    text_seal(&later);
    sim_fs_poke(&world.disk, "/data/t-2/" LOG_MOVED_NAME, bytes_of(later.data, later.size));
    text_deinit(&later);
    world.node.silent = true;
    sim_node_start(&world.node);
    node_world_pass(&world, 1000);
    world.node.silent = false;
    ck_assert(partition_is_failed(partition_of(topic, 2)));
    ck_assert_int_eq(node_produce(&world, 0, topic, 0, 100, &err), 5);
    node_world_pass(&world, 20000);
    check_lines(offset_files[0], 1, 6); /* written anew */
    for (int stop = 0; stop <= 1; stop++) {
        struct bytes starts = sim_fs_peek(&world.disk, "/data/log-start-offset-checkpoint");
        struct bytes points = sim_fs_peek(&world.disk, "/data/recovery-point-offset-checkpoint");

        ck_assert_ptr_nonnull(memmem(starts.data, starts.size, "\nt 2  3\n", 8));
        ck_assert_ptr_nonnull(memmem(points.data, points.size, "\nt 2  5\n", 8));
        if (stop == 0)
            sim_node_stop(&world.node);
    }
    ck_assert_int_eq(fs_unlink(&world.disk.fs, "/data/t-2/" LOG_MOVED_NAME), ERR_OK);
    sim_node_start(&world.node);
    node_world_pass(&world, 1000);
    ck_assert_int_eq(partition_start_offset(partition_of(topic, 2)), 3);
    ck_assert_int_eq(partition_end_offset(partition_of(topic, 2)), 5);
    node_world_end(&world);
}
END_TEST

/* Where many logs have something to sync a stop syncs them all at once (sim_node.c: with even seeds), and is clean: a
 * power cut right behind it costs nothing. Where that sync fails there is no clean mark, and no checkpoint that
 * promises what the disk may not have. */
START_TEST(one_sync_for_all_logs_is_as_good_as_one_each)
{
    for (int failing = 0; failing <= 1; failing++) {
        struct bytes file;
        struct uuid topic;
        enum err err = ERR_OK;

        node_world_begin(&world, 4, 2);
        topic = node_create_topic(&world, "t", 6, NULL);
        for (int32_t partition = 0; partition < 6; partition++)
            ck_assert_int_eq(node_produce(&world, 0, topic, partition, 100, &err), 0);
        if (failing == 0) {
            sim_node_stop(&world.node);
            sim_fs_cut(&world.disk);
        } else {
            world.node.silent = true;
            broker_stop(world.node.broker, stop_told, &err);
            err = ERR_BUSY;
            sim_fs_set_fault(&world.disk, SIM_FS_FAIL, SIM_FS_SYNC, 1, ERR_IO);
            (void)sim_run(&world.sim, world.sim.mono_ns + INT64_C(60000000000), is_told, &err);
            ck_assert_int_eq(err, ERR_IO);
            file = sim_fs_peek(&world.disk, "/data/.kafka_cleanshutdown");
            ck_assert_uint_eq(file.size, 0);
            file = sim_fs_peek(&world.disk, "/data/recovery-point-offset-checkpoint");
            ck_assert_ptr_null(file.size == 0 ? NULL : memmem(file.data, file.size, "t 0  1\n", 7));
            sim_node_kill(&world.node, false);
            world.node.silent = false;
        }
        sim_node_start(&world.node);
        for (int32_t partition = 0; partition < 6; partition++)
            ck_assert_int_eq(node_produce(&world, 0, topic, partition, 100, &err), 1);
        node_world_end(&world);
    }
}
END_TEST

/* Apache Kafka's controlled shutdown: who has gone cleanly is fenced and leads nothing, in what lies on the disk, so
 * that whoever starts there next need not wait for a session to time out. The next start serves as ever. */
START_TEST(a_clean_stop_leaves_the_broker_fenced)
{
    for (int round = 0; round < 2; round++) {
        const struct image_broker *row = NULL;
        struct image *image = NULL;
        struct uuid topic;
        enum err err = ERR_OK;

        node_world_begin(&world, 5, REACTORS);
        topic = node_create_topic(&world, "t", 3, NULL);
        for (int32_t partition = 0; partition < 3; partition++)
            ck_assert_int_eq(node_produce(&world, 0, topic, partition, 100, &err), 0);
        image = metadata_node_image(world.node.broker->metadata);
        ck_assert(!image_broker(image, world.node.broker->node_id)->fenced);
        err = ERR_BUSY;
        broker_stop(world.node.broker, stop_told, &err);
        ck_assert(sim_run(&world.sim, world.sim.mono_ns + INT64_C(60000000000), is_told, &err));
        ck_assert_int_eq(err, ERR_OK);
        image = metadata_node_image(world.node.broker->metadata);
        row = image_broker(image, world.node.broker->node_id);
        ck_assert_ptr_nonnull(row);
        ck_assert(row->fenced);
        for (int32_t partition = 0; partition < 3; partition++) {
            ck_assert_int_eq(image_partition(image, topic, partition)->leader, IMAGE_LEADER_NONE);
            ck_assert_uint_eq(image_partition(image, topic, partition)->isr_count, 1);
        }
        ck_assert_uint_gt(sim_fs_peek(&world.disk, "/data/.kafka_cleanshutdown").size, 0);
        sim_node_kill(&world.node, round == 1); /* it has stopped: that frees what it had */
        world.node.seen_count = 0;
        sim_node_start(&world.node);
        for (int32_t partition = 0; partition < 3; partition++)
            ck_assert_int_eq(node_produce(&world, 0, topic, partition, 100, &err), 1);
        node_world_end(&world);
    }
}
END_TEST

/* A metadata log that takes no more is no reason for a stop to hang or to be unclean: what was acknowledged is synced
 * and marked by then. */
START_TEST(a_stop_that_cannot_fence_ends_all_the_same)
{
    for (uint64_t k = 1; k <= 12; k++) {
        struct uuid topic;
        enum err err = ERR_OK;

        node_world_begin(&world, 6 + k, 1);
        world.node.silent = true;
        topic = node_create_topic(&world, "t", 1, NULL);
        ck_assert_int_eq(node_produce(&world, 0, topic, 0, 100, &err), 0);
        err = ERR_BUSY;
        broker_stop(world.node.broker, stop_told, &err);
        while (sim_fs_peek(&world.disk, "/data/.kafka_cleanshutdown").size == 0)
            ck_assert(sim_step(&world.sim, INT64_MAX));
        sim_fs_set_fault(&world.disk, SIM_FS_FAIL, SIM_FS_ANY, k, ERR_IO);
        ck_assert(sim_run(&world.sim, world.sim.mono_ns + INT64_C(60000000000), is_told, &err));
        sim_node_kill(&world.node, false);
        sim_fs_set_fault(&world.disk, SIM_FS_NO_FAULT, SIM_FS_ANY, 0, ERR_OK);
        sim_node_start(&world.node);
        ck_assert_int_eq(node_produce(&world, 0, topic, 0, 100, &err), 1);
        world.node.silent = false;
        node_world_end(&world);
    }
}
END_TEST

RUN_TESTS("broker/lifecycle", a_name_is_taken_again_at_once, what_goes_while_it_loads_does_not_hold_up_the_checkpoints,
          a_stop_does_not_wait_for_who_reads_nothing, a_start_that_broke_off_is_done_again_as_thoroughly,
          a_bad_close_promises_nothing, a_clean_stop_leaves_the_broker_fenced,
          a_stop_that_cannot_fence_ends_all_the_same, an_early_stop_keeps_what_is_known_of_the_unopened,
          what_cannot_be_opened_keeps_its_lines, one_sync_for_all_logs_is_as_good_as_one_each)
