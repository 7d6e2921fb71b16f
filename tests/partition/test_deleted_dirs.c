/* Rule: the directory of a deleted partition is renamed at once and removed after file.delete.delay.ms, so many wait
 * and no more, and a stop leaves them to the next start. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "partition/deleted_dirs.h"
#include "run_tests.h"
#include "world.h"

static struct world world;
static struct deleted_dirs dirs;

static void begin(void)
{
    world_begin(&world, 1);
    deleted_dirs_init(&dirs, &world.disk.fs, world.loop, &world.log);
    world.env.deleted_dirs = &dirs;
    world.spec.config.file_delete_delay_ms = 60000;
}

struct closing {
    struct partition_log_close op;
    bool done;
};

static void was_closed(struct partition_log_close *op)
{
    LIST_ENTRY(op, struct closing, op)->done = true;
}

static void delete_log(struct partition_log *log)
{
    struct closing closing = {.op.done = was_closed};

    partition_log_delete(log, &closing.op);
    world_run(&world, &closing.done);
    ck_assert_int_eq(closing.op.err, ERR_OK);
}

static enum err count_name(void *context, const char *name, bool is_directory)
{
    int *count = context;

    (void)is_directory;
    *count += strstr(name, "-delete") != NULL ? 1 : 100;
    return ERR_OK;
}

static int count_deleted(void)
{
    int count = 0;

    ck_assert_int_eq(fs_list(&world.disk.fs, "/data", count_name, &count), ERR_OK);
    return count;
}

static void is_ended(void *context)
{
    *(bool *)context = true;
}

START_TEST(renamed_at_once_removed_later)
{
    struct partition_log *log = NULL;
    bool ended = false;

    begin();
    log = world_log(&world);
    world_append(&world, log, &(struct batch_make){.value_bytes = 100});
    delete_log(log);
    ck_assert_int_eq(count_deleted(), 1);
    log = world_log(&world); /* the name is free */
    ck_assert_int_eq(partition_log_end_offset(log), 0);
    world_close(&world, log);
    ck_assert_int_eq(count_deleted(), 101);
    world_pass(&world, INT64_C(58000000000));
    ck_assert_int_eq(count_deleted(), 101);
    world_pass(&world, INT64_C(3000000000));
    ck_assert_int_eq(count_deleted(), 100);
    deleted_dirs_end(&dirs, is_ended, &ended);
    ck_assert(ended);
    ck_assert_uint_eq(world.disk.open_files, 0);
    world_end(&world);
}
END_TEST

START_TEST(without_a_delay)
{
    bool ended = false;

    begin();
    world.spec.config.file_delete_delay_ms = 0;
    delete_log(world_log(&world));
    ck_assert_int_eq(count_deleted(), 0);
    deleted_dirs_end(&dirs, is_ended, &ended);
    world_end(&world);
}
END_TEST

/* A stop does not wait for the delay, nor does it cut the job that is at it short. */
START_TEST(a_stop_leaves_them)
{
    for (int64_t pass_ms = 0; pass_ms <= 61000; pass_ms += 61000) {
        bool ended = false;

        begin();
        delete_log(world_log(&world));
        world_pass(&world, pass_ms * 1000000);
        deleted_dirs_end(&dirs, is_ended, &ended);
        world_run(&world, &ended);
        ck_assert_int_eq(count_deleted(), pass_ms == 0 ? 1 : 0);
        delete_log(world_log(&world)); /* one that comes later is left, too */
        world_pass(&world, INT64_C(100000000000));
        ck_assert_int_eq(count_deleted(), pass_ms == 0 ? 2 : 1);
        world_end(&world);
    }
}
END_TEST

START_TEST(so_many_and_no_more)
{
    bool ended = false;

    begin();
    for (int i = 0; i < DELETED_DIRS_MAX + 2; i++) {
        char path[64];

        snprintf(path, sizeof(path), "/data/t-%d.x-delete", i);
        if (i < 4) /* the others are gone already, which is no matter */
            ck_assert_int_eq(fs_mkdir(&world.disk.fs, path), ERR_OK);
        deleted_dirs_take(&dirs, deleted_dir_new(path, loop_now_ns(world.loop) + INT64_C(60000000000)));
    }
    world_pass(&world, INT64_C(1000000000));
    ck_assert_int_eq(count_deleted(), 2);
    ck_assert_uint_eq(dirs.count, DELETED_DIRS_MAX);
    deleted_dirs_end(&dirs, is_ended, &ended);
    world_end(&world);
}
END_TEST

/* One that cannot be removed is said so, and does not keep the others. */
START_TEST(one_that_stays)
{
    bool ended = false;

    begin();
    delete_log(world_log(&world));
    delete_log(world_log(&world));
    sim_fs_set_fault(&world.disk, SIM_FS_FAIL, SIM_FS_RMDIR, 1, ERR_IO);
    world_pass(&world, INT64_C(61000000000));
    ck_assert_int_eq(count_deleted(), 1);
    ck_assert_uint_eq(world.lines, 1);
    deleted_dirs_end(&dirs, is_ended, &ended);
    world_end(&world);
}
END_TEST

RUN_TESTS("deleted_dirs", renamed_at_once_removed_later, without_a_delay, a_stop_leaves_them, so_many_and_no_more,
          one_that_stays)
