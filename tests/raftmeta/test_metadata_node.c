/* Rule: what a metadata node has answered is there after any crash; an empty directory becomes a node by itself, and a
 * restart takes over at once, whoever was registered before.
 *
 * Sources: raftmeta/metadata_load.c, raftmeta/node_decide.c, raftmeta/node_idle.c, raftmeta/node_lead.c,
 * raftmeta/publisher.c, raftmeta/quorum_single.c */
#include <check.h>
#include <stdio.h>

#include "base/mem.h"
#include "raftmeta/meta_world.h"
#include "raftmeta/snapshot.h"
#include "raftmeta/transcript.h"

static struct meta_world world;

START_TEST(an_empty_directory_becomes_a_node)
{
    meta_world_begin(&world, 1);
    ck_assert_int_eq(meta_world_start(&world), ERR_OK);
    ck_assert_int_eq(image_metadata_version(world.image), METADATA_VERSION_NEWEST);
    ck_assert_int_eq(image_feature(world.image, BYTES_LITERAL("kraft.version")), 1);
    ck_assert_int_gt(meta_world_register(&world), 0);
    ck_assert_int_eq(meta_world_create(&world, "lines", 3), ERR_OK);
    ck_assert_int_eq(meta_world_create(&world, "lines", 3), ERR_TOPIC_ALREADY_EXISTS);
    meta_world_stop(&world);

    ck_assert_int_eq(meta_world_start(&world), ERR_OK);
    ck_assert_ptr_nonnull(image_topic_by_name(world.image, BYTES_LITERAL("lines")));
    ck_assert_uint_eq(image_topic_by_name(world.image, BYTES_LITERAL("lines"))->partition_count, 3);
    ck_assert_int_gt(meta_world_register(&world), 0);
    ck_assert_int_eq(image_topic_by_name(world.image, BYTES_LITERAL("lines"))->partitions[0]->leader, 1);
    meta_world_stop(&world);
    meta_world_end(&world);
}
END_TEST

enum { SCRIPT_TOPICS = 4 };

/* What the script was told of, and so must be there for ever. */
struct told {
    bool topics[SCRIPT_TOPICS];
    int64_t producer_ids; /* the end of the last block */
};

static const char *const topic_names[SCRIPT_TOPICS] = {"a", "b", "c", "d"};

static int64_t allocate(int64_t epoch)
{
    struct metadata_call request = {.request = {.type = CONTROLLER_ALLOCATE_PRODUCER_IDS}};

    request.request.allocate_producer_ids = (struct allocate_producer_ids){.broker_id = 1, .broker_epoch = epoch};
    if (!meta_world_ask(&world, &request) || request.request.err != ERR_OK)
        return -1;
    return request.request.allocate_producer_ids.first;
}

/* A life of a node, as far as the disk lets it get. */
static void live(struct told *told)
{
    int64_t epoch = 0;

    if (meta_world_start(&world) != ERR_OK)
        return;
    epoch = meta_world_register(&world);
    for (uint32_t i = 0; epoch >= 0 && i < SCRIPT_TOPICS; i++) {
        int64_t first = 0;

        told->topics[i] |= meta_world_create(&world, topic_names[i], 2) == ERR_OK;
        first = allocate(epoch);
        if (first < 0)
            continue;
        ck_assert_int_ge(first, told->producer_ids); /* no id twice */
        told->producer_ids = first + PRODUCER_ID_BLOCK;
    }
}

static void hold(const struct told *told)
{
    ck_assert_msg(meta_world_start(&world) == ERR_OK, "%s", world.start.message);
    for (uint32_t i = 0; i < SCRIPT_TOPICS; i++)
        if (told->topics[i])
            ck_assert_msg(image_topic_by_name(world.image, bytes_of_text(topic_names[i])) != NULL, "topic %u lost", i);
    ck_assert_int_ge(image_next_producer_id(world.image), told->producer_ids);
    ck_assert_int_gt(meta_world_register(&world), 0);
    ck_assert_int_eq(meta_world_create(&world, "afterwards", 1), ERR_OK);
    meta_world_stop(&world);
}

/* The machine dies at its k-th call, for every k: what was told is there, and the node goes on. */
static void sweep(bool power_cut, uint64_t snapshot_bytes)
{
    for (uint64_t k = 1;; k++) {
        struct told told = {.producer_ids = 0};
        bool struck = false;

        meta_world_begin(&world, k);
        world.options.snapshot_bytes = snapshot_bytes;
        sim_fs_set_fault(&world.disk, SIM_FS_DIE, SIM_FS_ANY, k, ERR_IO);
        live(&told);
        struck = sim_fs_fault_struck(&world.disk);
        meta_world_crash(&world, power_cut);
        hold(&told);
        meta_world_end(&world);
        if (!struck)
            break;
        ck_assert_uint_lt(k, 2000);
    }
}

START_TEST(every_crash_point_power_cut)
{
    sweep(true, 20 * 1024 * 1024);
}
END_TEST

START_TEST(every_crash_point_kill)
{
    sweep(false, 20 * 1024 * 1024);
}
END_TEST

START_TEST(every_crash_point_with_snapshots)
{
    sweep(true, 300);
}
END_TEST

/* A failed sync is final: nothing waits for ever, nothing is acknowledged, the node says so. */
START_TEST(a_failed_sync_ends_the_node)
{
    meta_world_begin(&world, 5);
    ck_assert_int_eq(meta_world_start(&world), ERR_OK);
    ck_assert_int_gt(meta_world_register(&world), 0);
    sim_fs_set_fault(&world.disk, SIM_FS_FAIL, SIM_FS_SYNC, 1, ERR_IO);
    ck_assert_int_eq(meta_world_create(&world, "lost", 1), ERR_KAFKA_STORAGE_ERROR);
    ck_assert(world.failed);
    ck_assert_int_eq(meta_world_create(&world, "later", 1), ERR_NOT_CONTROLLER);
    ck_assert_ptr_null(image_topic_by_name(world.image, BYTES_LITERAL("lost")));
    meta_world_stop(&world);
    meta_world_end(&world);
}
END_TEST

/* A full disk refuses that change alone; when there is room again, the next one is taken. */
START_TEST(a_full_disk_is_not_an_outage)
{
    meta_world_begin(&world, 6);
    ck_assert_int_eq(meta_world_start(&world), ERR_OK);
    ck_assert_int_gt(meta_world_register(&world), 0);
    ck_assert_int_eq(meta_world_create(&world, "before", 1), ERR_OK);
    sim_fs_set_fault(&world.disk, SIM_FS_SHORT, SIM_FS_WRITE, 1, ERR_NO_SPACE);
    ck_assert_int_eq(meta_world_create(&world, "full", 1), ERR_KAFKA_STORAGE_ERROR);
    ck_assert(!world.failed);
    ck_assert_int_eq(meta_world_create(&world, "full", 1), ERR_OK); /* it was never there */
    meta_world_stop(&world);
    ck_assert_int_eq(meta_world_start(&world), ERR_OK);
    ck_assert_uint_eq(image_topic_count(world.image), 2);
    meta_world_stop(&world);
    meta_world_end(&world);
}
END_TEST

enum { CROWD = 100 };

static struct crowd {
    struct metadata_call requests[CROWD];
    struct create_topic topics[CROWD];
    char names[CROWD][16];
    uint32_t done;
} crowd;

static void count_answer(struct metadata_call *request)
{
    (void)request;
    crowd.done++;
}

static bool all_answered(void *context)
{
    (void)context;
    return crowd.done == CROWD;
}

/* Requests that come together share syncs. */
START_TEST(many_requests_share_a_sync)
{
    uint64_t syncs = 0;

    meta_world_begin(&world, 7);
    memset(&crowd, 0, sizeof(crowd));
    ck_assert_int_eq(meta_world_start(&world), ERR_OK);
    ck_assert_int_gt(meta_world_register(&world), 0);
    syncs = world.disk.calls[SIM_FS_SYNC];
    for (uint32_t i = 0; i < CROWD; i++) {
        (void)snprintf(crowd.names[i], sizeof(crowd.names[i]), "topic%u", i);
        crowd.topics[i] =
            (struct create_topic){.name = bytes_of_text(crowd.names[i]), .partition_count = 1, .replication_factor = 1};
        crowd.requests[i] = (struct metadata_call){.home = world.reactor, .done = count_answer};
        crowd.requests[i].request.type = CONTROLLER_CREATE_TOPICS;
        crowd.requests[i].request.arena = &world.arena;
        crowd.requests[i].request.create_topics = (struct create_topics){.topics = &crowd.topics[i], .count = 1};
        metadata_node_call(world.node, &crowd.requests[i]);
    }
    ck_assert(sim_run(&world.sim, world.sim.mono_ns + INT64_C(60000000000), all_answered, NULL));
    syncs = world.disk.calls[SIM_FS_SYNC] - syncs;
    ck_assert_uint_eq(image_topic_count(world.image), CROWD);
    ck_assert_msg(syncs <= 10, "%u syncs", (unsigned)syncs);
    meta_world_stop(&world);
    meta_world_end(&world);
}
END_TEST

/* Changes that queue while the tail of a refused one is cut off are refused with the first that finds no room, the
 * small ones too that would: they do not continue the log. */
START_TEST(a_full_disk_leaves_no_gap)
{
    enum { LARGE = 3, LITTLE_BYTES = 3000, PARTITIONS_LARGE = 200 };
    uint32_t made = 0;

    meta_world_begin(&world, 11);
    memset(&crowd, 0, sizeof(crowd));
    ck_assert_int_eq(meta_world_start(&world), ERR_OK);
    ck_assert_int_gt(meta_world_register(&world), 0);
    world.disk.capacity_bytes = world.disk.used_bytes + LITTLE_BYTES;
    for (uint32_t i = 0; i < CROWD; i++) {
        (void)snprintf(crowd.names[i], sizeof(crowd.names[i]), "topic%u", i);
        crowd.topics[i] = (struct create_topic){.name = bytes_of_text(crowd.names[i]),
                                                .partition_count = i < LARGE ? PARTITIONS_LARGE : 1,
                                                .replication_factor = 1};
        crowd.requests[i] = (struct metadata_call){.home = world.reactor, .done = count_answer};
        crowd.requests[i].request.type = CONTROLLER_CREATE_TOPICS;
        crowd.requests[i].request.arena = &world.arena;
        crowd.requests[i].request.create_topics = (struct create_topics){.topics = &crowd.topics[i], .count = 1};
        metadata_node_call(world.node, &crowd.requests[i]);
    }
    ck_assert(sim_run(&world.sim, world.sim.mono_ns + INT64_C(60000000000), all_answered, NULL));
    for (uint32_t i = 0; i < CROWD; i++)
        made += crowd.requests[i].request.err == ERR_OK;
    ck_assert_int_eq(crowd.requests[0].request.err, ERR_KAFKA_STORAGE_ERROR);
    ck_assert_uint_eq(image_topic_count(world.image), made);
    world.disk.capacity_bytes = UINT64_MAX;
    ck_assert_int_eq(meta_world_create(&world, "after", 1), ERR_OK);
    meta_world_stop(&world);
    ck_assert_int_eq(meta_world_start(&world), ERR_OK);
    ck_assert_uint_eq(image_topic_count(world.image), made + 1);
    meta_world_stop(&world);
    meta_world_end(&world);
}
END_TEST

/* An idle minute: the log moves twice a second, the disk is asked for a sync every ten seconds. */
START_TEST(idle_costs_next_to_nothing)
{
    uint64_t syncs = 0;
    uint64_t size = 0;
    uint32_t publications = 0;

    meta_world_begin(&world, 8);
    world.options.idle_interval_ms = 500;
    ck_assert_int_eq(meta_world_start(&world), ERR_OK);
    ck_assert_int_gt(meta_world_register(&world), 0);
    (void)sim_run(&world.sim, world.sim.mono_ns + INT64_C(1000000000), NULL, NULL);
    syncs = world.disk.calls[SIM_FS_SYNC];
    publications = world.publications;
    size = sim_fs_peek(&world.disk, "/data/__cluster_metadata-0/00000000000000000000.log").size;
    (void)sim_run(&world.sim, world.sim.mono_ns + INT64_C(60000000000), NULL, NULL);
    syncs = world.disk.calls[SIM_FS_SYNC] - syncs;
    size = sim_fs_peek(&world.disk, "/data/__cluster_metadata-0/00000000000000000000.log").size - size;
    ck_assert_uint_ge(size, 119 * 72);
    ck_assert_uint_le(size, 121 * 72);
    ck_assert_msg(syncs <= 8, "%u syncs", (unsigned)syncs);
    ck_assert_uint_eq(world.publications, publications); /* nobody is woken for them */
    ck_assert_int_eq(meta_world_create(&world, "after_idling", 1), ERR_OK);
    meta_world_stop(&world);
    meta_world_end(&world);
}
END_TEST

START_TEST(a_snapshot_spares_the_log)
{
    char name[SNAPSHOT_NAME_CHARS_MAX];
    struct snapshot_id id;

    meta_world_begin(&world, 9);
    world.options.snapshot_bytes = 2000;
    ck_assert_int_eq(meta_world_start(&world), ERR_OK);
    ck_assert_int_gt(meta_world_register(&world), 0);
    for (uint32_t i = 0; i < 40; i++) {
        (void)snprintf(name, sizeof(name), "t%u", i);
        ck_assert_int_eq(meta_world_create(&world, name, 1), ERR_OK);
    }
    meta_world_stop(&world);
    ck_assert_int_eq(snapshot_find(&world.disk.fs, "/data/__cluster_metadata-0", &id), ERR_OK);
    ck_assert_int_gt(id.end_offset, 20);
    /* The log is lost: what the snapshot holds is there all the same, and the log goes on behind it. */
    ck_assert_int_eq(fs_unlink(&world.disk.fs, "/data/__cluster_metadata-0/00000000000000000000.log"), ERR_OK);
    world.options.snapshot_bytes = 20 * 1024 * 1024;
    ck_assert_msg(meta_world_start(&world) == ERR_OK, "%s", world.start.message);
    ck_assert_uint_ge(image_topic_count(world.image), 20);
    ck_assert_int_gt(meta_world_register(&world), 0);
    ck_assert_int_eq(meta_world_create(&world, "another", 1), ERR_OK);
    meta_world_stop(&world);
    ck_assert_msg(meta_world_start(&world) == ERR_OK, "%s", world.start.message);
    ck_assert_ptr_nonnull(image_topic_by_name(world.image, BYTES_LITERAL("another")));
    meta_world_stop(&world);
    meta_world_end(&world);
}
END_TEST

static void lay_out_kafkas(void)
{
    static const char *const files[] = {"00000000000000000000.log", "00000000000000000000-0000000000.checkpoint",
                                        "quorum-state"};
    size_t size = 0;
    uint8_t *data = read_test_file("kafka-4.2/meta.properties", &size);

    sim_fs_poke(&world.disk, "/data/meta.properties", bytes_of(data, size));
    mem_free(data);
    ck_assert_int_eq(fs_mkdir(&world.disk.fs, "/data/__cluster_metadata-0"), ERR_OK);
    for (uint32_t i = 0; i < 3; i++) {
        char from[128];
        char to[128];

        (void)snprintf(from, sizeof(from), "kafka-4.2/%s", files[i]);
        (void)snprintf(to, sizeof(to), "/data/__cluster_metadata-0/%s", files[i]);
        data = read_test_file(from, &size);
        sim_fs_poke(&world.disk, to, bytes_of(data, size));
        mem_free(data);
    }
}

/* Apache Kafka's directory, killed with -9, is taken over; what this build does not serve is refused by name. */
START_TEST(kafkas_directory_is_taken_over)
{
    static const struct image_feature_range all[] = {
        {BYTES_LITERAL("kraft.version"), 0, 1},   {BYTES_LITERAL("metadata.version"), 7, 29},
        {BYTES_LITERAL("group.version"), 0, 1},   {BYTES_LITERAL("share.version"), 0, 1},
        {BYTES_LITERAL("streams.version"), 0, 1}, {BYTES_LITERAL("transaction.version"), 0, 2},
    };

    meta_world_begin(&world, 10);
    lay_out_kafkas();
    ck_assert_int_eq(meta_world_start(&world), ERR_UNSUPPORTED_VERSION);
    ck_assert_ptr_nonnull(strstr(world.start.message, "share.version"));
    meta_world_stop(&world);

    world.options.controller.features = all;
    world.options.controller.feature_count = 6;
    ck_assert_msg(meta_world_start(&world) == ERR_OK, "%s", world.start.message);
    ck_assert_int_eq(image_feature(world.image, BYTES_LITERAL("group.version")), 1);
    ck_assert_uint_eq(image_topic_by_name(world.image, BYTES_LITERAL("beta.x"))->partition_count, 4);
    ck_assert_str_eq(world.formatted.cluster_id, "_ss5fn9GTaWUQpIsFaUl_w");
    meta_world_stop(&world);
    meta_world_end(&world);
}
END_TEST

/* Requests under way when the stop is asked for complete. */
START_TEST(a_stop_completes_what_was_asked)
{
    meta_world_begin(&world, 12);
    memset(&crowd, 0, sizeof(crowd));
    ck_assert_int_eq(meta_world_start(&world), ERR_OK);
    ck_assert_int_gt(meta_world_register(&world), 0);
    for (uint32_t i = 0; i < CROWD; i++) {
        (void)snprintf(crowd.names[i], sizeof(crowd.names[i]), "topic%u", i);
        crowd.topics[i] =
            (struct create_topic){.name = bytes_of_text(crowd.names[i]), .partition_count = 1, .replication_factor = 1};
        crowd.requests[i] = (struct metadata_call){.home = world.reactor, .done = count_answer};
        crowd.requests[i].request.type = CONTROLLER_CREATE_TOPICS;
        crowd.requests[i].request.arena = &world.arena;
        crowd.requests[i].request.create_topics = (struct create_topics){.topics = &crowd.topics[i], .count = 1};
        metadata_node_call(world.node, &crowd.requests[i]);
    }
    meta_world_stop(&world);
    (void)sim_run(&world.sim, world.sim.mono_ns + INT64_C(1000000000), all_answered, NULL);
    ck_assert_uint_eq(crowd.done, CROWD);
    for (uint32_t i = 0; i < CROWD; i++)
        ck_assert(crowd.requests[i].request.err == ERR_OK || crowd.requests[i].request.err == ERR_NOT_CONTROLLER);
    meta_world_end(&world);
}
END_TEST

/* No session is waited for: kill -9 and start again takes a few disk calls of virtual time. */
START_TEST(a_killed_node_is_back_at_once)
{
    int64_t began = 0;

    meta_world_begin(&world, 13);
    ck_assert_int_eq(meta_world_start(&world), ERR_OK);
    ck_assert_int_gt(meta_world_register(&world), 0);
    ck_assert_int_eq(meta_world_create(&world, "lines", 8), ERR_OK);
    meta_world_crash(&world, false);
    began = world.sim.mono_ns;
    ck_assert_int_eq(meta_world_start(&world), ERR_OK);
    ck_assert_int_gt(meta_world_register(&world), 0);
    ck_assert_int_eq(image_topic_by_name(world.image, BYTES_LITERAL("lines"))->partitions[7]->leader, 1);
    ck_assert_int_lt(world.sim.mono_ns - began, 100 * 1000000);
    meta_world_stop(&world);
    meta_world_end(&world);
}
END_TEST

/* The same seed gives the same run. */
START_TEST(runs_replay_by_seed)
{
    uint64_t hashes[2];

    for (uint32_t i = 0; i < 2; i++) {
        meta_world_begin(&world, 14);
        ck_assert_int_eq(meta_world_start(&world), ERR_OK);
        ck_assert_int_gt(meta_world_register(&world), 0);
        ck_assert_int_eq(meta_world_create(&world, "lines", 8), ERR_OK);
        meta_world_stop(&world);
        hashes[i] = world.sim.trace_hash;
        meta_world_end(&world);
    }
    ck_assert_uint_eq(hashes[0], hashes[1]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("metadata_node");
    TCase *tcase = tcase_create("metadata_node");
    SRunner *runner = srunner_create(suite);
    int failed = 0;

    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, an_empty_directory_becomes_a_node);
    tcase_add_test(tcase, every_crash_point_power_cut);
    tcase_add_test(tcase, every_crash_point_kill);
    tcase_add_test(tcase, every_crash_point_with_snapshots);
    tcase_add_test(tcase, a_failed_sync_ends_the_node);
    tcase_add_test(tcase, a_full_disk_is_not_an_outage);
    tcase_add_test(tcase, many_requests_share_a_sync);
    tcase_add_test(tcase, a_full_disk_leaves_no_gap);
    tcase_add_test(tcase, idle_costs_next_to_nothing);
    tcase_add_test(tcase, a_snapshot_spares_the_log);
    tcase_add_test(tcase, kafkas_directory_is_taken_over);
    tcase_add_test(tcase, a_stop_completes_what_was_asked);
    tcase_add_test(tcase, a_killed_node_is_back_at_once);
    tcase_add_test(tcase, runs_replay_by_seed);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
