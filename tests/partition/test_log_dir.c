/* Rule: a log directory is Kafka's: its lock, meta.properties, clean-shutdown mark, checkpoints and names are read and
 * written as Kafka does, and what is not ours is never loaded or removed. */
#include <stdio.h>

#include "partition/log_dir.h"
#include "partition/text_file.h"
#include "run_tests.h"
#include "world.h"

static struct world world;
static struct log_dir *dir;

static void begin(uint64_t seed)
{
    world_begin(&world, seed);
    ck_assert_int_eq(log_dir_open(&world.disk.fs, &world.log, "/data", &dir), ERR_OK);
}

static void end(void)
{
    log_dir_close(dir);
    ck_assert_uint_eq(world.disk.open_files, 0);
    world_end(&world);
}

START_TEST(one_process_only)
{
    struct log_dir *other = NULL;

    begin(1);
    ck_assert_int_eq(log_dir_open(&world.disk.fs, &world.log, "/data", &other), ERR_LOCKED);
    log_dir_close(dir);
    ck_assert_int_eq(log_dir_open(&world.disk.fs, &world.log, "/a/b/c", &dir), ERR_OK); /* made with its parents */
    ck_assert_str_eq(log_dir_path(dir), "/a/b/c");
    end();
}
END_TEST

START_TEST(meta_properties)
{
    struct log_dir_meta meta = {.cluster_id = "MkU3OEVBNTcwNTJENDM2Qg", .node_id = 7};
    struct log_dir_meta got;

    begin(2);
    ck_assert_int_eq(log_dir_read_meta(dir, &got), ERR_NOT_FOUND);
    meta.directory_id = world.spec.topic_id;
    ck_assert_int_eq(log_dir_write_meta(dir, &meta), ERR_OK);
    ck_assert_int_eq(log_dir_read_meta(dir, &got), ERR_OK);
    ck_assert_str_eq(got.cluster_id, meta.cluster_id);
    ck_assert_int_eq(got.node_id, 7);
    ck_assert(uuid_equal(got.directory_id, meta.directory_id));
    /* As kafka-storage writes it. */
    sim_fs_poke(&world.disk, "/data/meta.properties",
                BYTES_LITERAL("#\n#Sat Nov 29 19:16:55 UTC 2025\nversion=1\ncluster.id=some-name\nnode.id=0\n"
                              "directory.id=AQIDBAUGRwiJCgsMDQ4PEA\n"));
    ck_assert_int_eq(log_dir_read_meta(dir, &got), ERR_OK);
    ck_assert_str_eq(got.cluster_id, "some-name");
    ck_assert_int_eq(got.node_id, 0);
    sim_fs_poke(&world.disk, "/data/meta.properties", BYTES_LITERAL("version=1\ncluster.id=x\nnode.id=0\n"));
    ck_assert_int_eq(log_dir_read_meta(dir, &got), ERR_OK); /* before KIP-858 there was no directory id */
    ck_assert(uuid_is_zero(got.directory_id));
    sim_fs_poke(&world.disk, "/data/meta.properties", BYTES_LITERAL("version=0\nbroker.id=0\n"));
    ck_assert_int_eq(log_dir_read_meta(dir, &got), ERR_DAMAGED);
    end();
}
END_TEST

/* The edge of SMALL_FILE_BYTES_MAX of log_dir.c: what is larger is no meta.properties, and no mark of a clean stop. */
START_TEST(large_files_are_not_read)
{
    enum { FILE_BYTES = 64 * 1024 };
    static const char words[] = "version=1\ncluster.id=x\nnode.id=0\n";
    struct log_dir_meta got;

    begin(2);
    for (int larger = 0; larger <= 1; larger++) {
        struct text text = {0};

        text_add(&text, "#%*s\n%s", FILE_BYTES - (int)strlen(words) - 2 + larger, "", words);
        ck_assert_uint_eq(text.size, (size_t)FILE_BYTES + (size_t)larger);
        sim_fs_poke(&world.disk, "/data/meta.properties", bytes_of(text.data, text.size));
        ck_assert_int_eq(log_dir_read_meta(dir, &got), larger == 0 ? ERR_OK : ERR_DAMAGED);
        text_deinit(&text);
    }
    end();
}
END_TEST

START_TEST(clean_mark)
{
    bool clean = true;
    int64_t epoch = 0;

    begin(3);
    ck_assert_int_eq(log_dir_take_clean_mark(dir, &clean, &epoch), ERR_OK);
    ck_assert(!clean);
    ck_assert_int_eq(log_dir_put_clean_mark(dir, 42), ERR_OK);
    ck_assert(bytes_equal(sim_fs_peek(&world.disk, "/data/.kafka_cleanshutdown"),
                          BYTES_LITERAL("{\"version\":0,\"brokerEpoch\":42}")));
    ck_assert_int_eq(log_dir_take_clean_mark(dir, &clean, &epoch), ERR_OK);
    ck_assert(clean);
    ck_assert_int_eq(epoch, 42);
    sim_fs_cut(&world.disk); /* a crash while loading still counts as one the next time (KAFKA-10471) */
    ck_assert_int_eq(log_dir_take_clean_mark(dir, &clean, &epoch), ERR_OK);
    ck_assert(!clean);
    sim_fs_poke(&world.disk, "/data/.kafka_cleanshutdown", BYTES_LITERAL("")); /* its being there is what counts */
    ck_assert_int_eq(log_dir_take_clean_mark(dir, &clean, &epoch), ERR_OK);
    ck_assert(clean);
    ck_assert_int_eq(epoch, -1);
    log_dir_close(dir);
    world_end(&world);
}
END_TEST

static const struct log_dir_partition *find(const struct log_dir_list *list, const char *topic, int32_t index)
{
    for (uint32_t i = 0; i < list->count; i++)
        if (strcmp(list->partitions[i].topic, topic) == 0 && list->partitions[i].index == index)
            return &list->partitions[i];
    return NULL;
}

static void make(const char *name)
{
    char path[320];

    snprintf(path, sizeof(path), "/data/%s", name);
    ck_assert_int_eq(fs_mkdir(&world.disk.fs, path), ERR_OK);
}

/* A topic went and one of the same name came: what checkpoints that are older than its partition say is not of it,
 * unless a clean stop wrote them. */
START_TEST(checkpoints_of_an_earlier_topic)
{
    const struct checkpoint_offset point = {BYTES_LITERAL("a"), 0, 11};
    struct log_dir_list list;

    begin(6);
    make("a-0");
    ck_assert_int_eq(log_dir_write_checkpoint(dir, LOG_DIR_RECOVERY_POINT, &point, 1), ERR_OK);
    ck_assert_int_eq(log_dir_write_checkpoint(dir, LOG_DIR_START_OFFSET, &point, 1), ERR_OK);
    world_pass(&world, 2000000);
    sim_fs_poke(&world.disk, "/data/a-0/partition.metadata",
                BYTES_LITERAL("version: 0\ntopic_id: AQIDBAUGRwiJCgsMDQ4PEA"));
    ck_assert_int_eq(log_dir_list(dir, &list), ERR_OK);
    ck_assert_int_eq(find(&list, "a", 0)->recovery_point, 0);
    ck_assert_int_eq(find(&list, "a", 0)->start_offset, 0);
    log_dir_list_deinit(&list);
    ck_assert_int_eq(log_dir_put_clean_mark(dir, 1), ERR_OK);
    ck_assert_int_eq(log_dir_list(dir, &list), ERR_OK);
    ck_assert_int_eq(find(&list, "a", 0)->recovery_point, 11);
    log_dir_list_deinit(&list);
    end();
}
END_TEST

START_TEST(finds_partitions)
{
    struct log_dir_list list;
    struct fs_info info;
    struct log_path aside;
    const struct checkpoint_offset points[] = {
        {BYTES_LITERAL("a"), 0, 11}, {BYTES_LITERAL("b-c"), 12, 22}, {BYTES_LITERAL("gone"), 0, 33}};

    begin(4);
    make("a-0");
    make("b-c-12");
    make("x-delete-1");
    make("__cluster_metadata-0");
    make("a-1.0123456789abcdef0123456789abcdef-delete");
    make("a-2.0123456789abcdef0123456789abcdef-stray");
    make("a-3.0123456789abcdef0123456789abcdef-future");
    make("remote-log-index-cache");
    sim_fs_poke(&world.disk, "/data/a-1.0123456789abcdef0123456789abcdef-delete/00000000000000000000.log",
                BYTES_LITERAL("x"));
    sim_fs_poke(&world.disk, "/data/a-0/partition.metadata",
                BYTES_LITERAL("version: 0\ntopic_id: AQIDBAUGRwiJCgsMDQ4PEA"));
    world_pass(&world, 2000000); /* the checkpoints are newer than the partitions */
    sim_fs_poke(&world.disk, "/data/a-file", BYTES_LITERAL("plain files are no business of ours"));
    ck_assert_int_eq(log_dir_write_checkpoint(dir, LOG_DIR_RECOVERY_POINT, points, 3), ERR_OK);
    ck_assert_int_eq(log_dir_write_checkpoint(dir, LOG_DIR_HIGH_WATERMARK, points + 1, 1), ERR_OK);
    sim_fs_poke(&world.disk, "/data/log-start-offset-checkpoint", BYTES_LITERAL("garbage"));
    ck_assert_int_eq(log_dir_list(dir, &list), ERR_OK);
    ck_assert_uint_eq(list.count, 4);
    ck_assert_str_eq(find(&list, "a", 3)->copy, "a-3.0123456789abcdef0123456789abcdef-future");
    ck_assert_ptr_null(find(&list, "a", 0)->copy);
    ck_assert(uuid_equal(find(&list, "a", 0)->topic_id, world.spec.topic_id));
    ck_assert_int_eq(find(&list, "a", 0)->recovery_point, 11);
    ck_assert_int_eq(find(&list, "a", 0)->high_watermark, 0);
    ck_assert_int_eq(find(&list, "b-c", 12)->recovery_point, 22);
    ck_assert_int_eq(find(&list, "b-c", 12)->high_watermark, 22);
    ck_assert(uuid_is_zero(find(&list, "b-c", 12)->topic_id));
    ck_assert_ptr_nonnull(find(&list, "x-delete", 1));
    ck_assert_int_eq(log_dir_discard_copy(dir, find(&list, "a", 3)->copy, &aside), ERR_OK);
    ck_assert_str_eq(aside.text, "/data/a-3.0123456789abcdef0123456789abcdef-delete");
    ck_assert_int_eq(fs_stat(&world.disk.fs, aside.text, &info), ERR_OK);
    log_dir_list_deinit(&list);
    ck_assert_int_eq(fs_stat(&world.disk.fs, "/data/a-1.0123456789abcdef0123456789abcdef-delete", &info),
                     ERR_NOT_FOUND);
    ck_assert_int_eq(fs_stat(&world.disk.fs, "/data/a-2.0123456789abcdef0123456789abcdef-stray", &info), ERR_OK);
    make("holiday pictures");
    ck_assert_int_eq(log_dir_list(dir, &list), ERR_DAMAGED);
    end();
}
END_TEST

START_TEST(strays_are_kept)
{
    static const uint8_t random[16] = {0xab, 0xcd};
    char long_topic[250];
    struct log_dir_list list;

    begin(5);
    make("a-0");
    ck_assert_int_eq(log_dir_set_aside(dir, BYTES_LITERAL("a"), 0, random), ERR_OK);
    memset(long_topic, 'y', 249);
    long_topic[249] = '\0';
    char name[300];
    snprintf(name, sizeof(name), "%s-100", long_topic);
    make(name);
    ck_assert_int_eq(log_dir_set_aside(dir, bytes_of_text(long_topic), 100, random), ERR_OK); /* cut to fit */
    ck_assert_int_eq(log_dir_list(dir, &list), ERR_OK);
    ck_assert_uint_eq(list.count, 0);
    log_dir_list_deinit(&list);
    end();
}
END_TEST

RUN_TESTS("log_dir", one_process_only, meta_properties, large_files_are_not_read, clean_mark,
          checkpoints_of_an_earlier_topic, finds_partitions, strays_are_kept)
