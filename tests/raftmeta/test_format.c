/* Rule: a directory formats itself only where nothing is lost by it, and a crash in the middle heals (kraft.md
 * "meta.properties, formatting"). */
#include <check.h>
#include <stdio.h>

#include "raftmeta/format.h"
#include "raftmeta/snapshot.h"
#include "sim/sim_fs.h"

enum { DIRS = 2 };

static struct sim sim;
static struct sim_fs disk;
static struct log_sink sink;
static struct log lines;
static struct log_dir *dirs[DIRS];
static struct uuid ids[DIRS];
static struct format_result result;
static struct format_options options;
static char message[FORMAT_MESSAGE_BYTES_MAX];

static void no_line(struct log_sink *to, enum log_level level, const char *line, uint32_t size)
{
    (void)to;
    (void)level;
    (void)line;
    (void)size;
}

static void begin(void)
{
    sim_init(&sim, 1);
    sim_fs_init(&disk, &sim);
    sink.write = no_line;
    lines = (struct log){.sink = &sink, .clock = &sim.clock, .room = "test"};
    result.directory_ids = ids;
    options = (struct format_options){
        .fs = &disk.fs,
        .clock = &sim.clock,
        .rng = &sim.rng,
        .dirs = dirs,
        .dir_count = DIRS,
        .node_id = 1,
        .may_format = true,
        .voter_endpoint = {BYTES_LITERAL("CONTROLLER"), BYTES_LITERAL("127.0.0.1"), 9093, 0},
    };
}

static void open_dirs(void)
{
    for (uint32_t i = 0; i < DIRS; i++) {
        char path[8];

        (void)snprintf(path, sizeof(path), "/d%u", i);
        ck_assert_int_eq(log_dir_open(&disk.fs, &lines, path, &dirs[i]), ERR_OK);
    }
}

static void close_dirs(void)
{
    for (uint32_t i = 0; i < DIRS; i++)
        log_dir_close(dirs[i]);
}

static void end(void)
{
    close_dirs();
    sim_fs_deinit(&disk);
    sim_deinit(&sim);
}

START_TEST(empty_directories_become_a_node)
{
    char cluster_id[sizeof(result.cluster_id)];
    struct uuid first[DIRS];
    struct fs_info info;

    begin();
    open_dirs();
    ck_assert_int_eq(format_dirs(&options, &result, message), ERR_OK);
    ck_assert(result.formatted);
    ck_assert_uint_eq(strlen(result.cluster_id), UUID_TEXT_CHARS);
    ck_assert(!uuid_equal(ids[0], ids[1]));
    ck_assert_int_eq(fs_stat(&disk.fs, "/d0/bootstrap.checkpoint", &info), ERR_OK);
    ck_assert_int_eq(fs_stat(&disk.fs, "/d0/__cluster_metadata-0/00000000000000000000-0000000000.checkpoint", &info),
                     ERR_OK);
    ck_assert_int_eq(fs_stat(&disk.fs, "/d1/__cluster_metadata-0", &info), ERR_NOT_FOUND);
    memcpy(cluster_id, result.cluster_id, sizeof(cluster_id));
    memcpy(first, ids, sizeof(first));
    /* Once more: nothing new. */
    ck_assert_int_eq(format_dirs(&options, &result, message), ERR_OK);
    ck_assert(!result.formatted);
    ck_assert_str_eq(cluster_id, result.cluster_id);
    ck_assert(uuid_equal(first[0], ids[0]) && uuid_equal(first[1], ids[1]));
    end();
}
END_TEST

START_TEST(static_voters_have_no_snapshot)
{
    struct fs_info info;

    begin();
    open_dirs();
    options.static_voters = true;
    options.cluster_id = "mine";
    ck_assert_int_eq(format_dirs(&options, &result, message), ERR_OK);
    ck_assert_str_eq(result.cluster_id, "mine");
    ck_assert_int_eq(fs_stat(&disk.fs, "/d0/__cluster_metadata-0", &info), ERR_NOT_FOUND);
    end();
}
END_TEST

START_TEST(what_must_not_be_formatted_is_refused)
{
    struct fs_info info;

    begin();
    open_dirs();
    options.may_format = false;
    ck_assert_int_eq(format_dirs(&options, &result, message), ERR_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(message, "/d0 is not formatted"));
    ck_assert_int_eq(fs_stat(&disk.fs, "/d0/meta.properties", &info), ERR_NOT_FOUND);

    /* Another of log.dirs is formatted: the metadata must not begin anew beside it. */
    sim_fs_poke(&disk, "/d1/meta.properties",
                BYTES_LITERAL("version=1\ncluster.id=c\nnode.id=1\ndirectory.id=L7vVVJWSTmq6kojoB1XnBA\n"));
    options.may_format = true;
    ck_assert_int_eq(format_dirs(&options, &result, message), ERR_USAGE);
    ck_assert_ptr_nonnull(strstr(message, "/d0"));

    sim_fs_poke(&disk, "/d0/meta.properties", BYTES_LITERAL("version=1\ncluster.id=d\nnode.id=1\n"));
    ck_assert_int_eq(format_dirs(&options, &result, message), ERR_USAGE); /* two clusters */
    sim_fs_poke(&disk, "/d0/meta.properties", BYTES_LITERAL("version=1\ncluster.id=c\nnode.id=2\n"));
    ck_assert_int_eq(format_dirs(&options, &result, message), ERR_USAGE); /* another node's */
    ck_assert_ptr_nonnull(strstr(message, "belongs to node 2"));
    sim_fs_poke(&disk, "/d0/meta.properties",
                BYTES_LITERAL("version=1\ncluster.id=c\nnode.id=1\ndirectory.id=L7vVVJWSTmq6kojoB1XnBA\n"));
    ck_assert_int_eq(format_dirs(&options, &result, message), ERR_DAMAGED); /* a copied directory */
    sim_fs_poke(&disk, "/d0/meta.properties", BYTES_LITERAL("version=9\n"));
    ck_assert_int_ne(format_dirs(&options, &result, message), ERR_OK);
    end();
}
END_TEST

/* A directory without an id, as an old Kafka left it, gets one; a new directory joins. */
START_TEST(directories_are_completed)
{
    struct log_dir_meta meta;

    begin();
    open_dirs();
    sim_fs_poke(&disk, "/d0/meta.properties", BYTES_LITERAL("version=1\ncluster.id=c\nnode.id=1\n"));
    ck_assert_int_eq(format_dirs(&options, &result, message), ERR_OK);
    ck_assert(!result.formatted);
    ck_assert(!uuid_is_zero(ids[0]) && !uuid_is_zero(ids[1]));
    ck_assert_int_eq(log_dir_read_meta(dirs[1], &meta), ERR_OK);
    ck_assert_str_eq(meta.cluster_id, "c");
    ck_assert_int_eq(log_dir_read_meta(dirs[0], &meta), ERR_OK);
    ck_assert(uuid_equal(meta.directory_id, ids[0]));
    end();
}
END_TEST

/* Whatever call the machine dies at, the next start makes a whole node of it. */
START_TEST(a_crash_in_the_middle_heals)
{
    for (uint64_t k = 1;; k++) {
        bool struck = false;
        struct snapshot_id id;

        begin();
        open_dirs();
        ck_assert_int_eq(fs_sync_dir(&disk.fs, "/"), ERR_OK);
        sim_fs_set_fault(&disk, SIM_FS_DIE, SIM_FS_ANY, k, ERR_IO);
        (void)!format_dirs(&options, &result, message);
        struck = sim_fs_fault_struck(&disk);
        close_dirs();
        sim_fs_cut(&disk);
        open_dirs();
        ck_assert_msg(format_dirs(&options, &result, message) == ERR_OK, "call %u: %s", (unsigned)k, message);
        ck_assert_int_eq(snapshot_find(&disk.fs, "/d0/__cluster_metadata-0", &id), ERR_OK);
        ck_assert(!uuid_is_zero(ids[0]) && !uuid_is_zero(ids[1]));
        end();
        if (!struck)
            break;
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("format");
    TCase *tcase = tcase_create("format");
    SRunner *runner = srunner_create(suite);
    int failed = 0;

    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, empty_directories_become_a_node);
    tcase_add_test(tcase, static_voters_have_no_snapshot);
    tcase_add_test(tcase, what_must_not_be_formatted_is_refused);
    tcase_add_test(tcase, directories_are_completed);
    tcase_add_test(tcase, a_crash_in_the_middle_heals);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
