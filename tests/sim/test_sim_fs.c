/* Rule: the simulated disk keeps what was synced through every power cut, keeps all through a kill, and loses only what
 * a real disk may lose. A disk that forgot too little would make every crash test above it worthless. */
#include <check.h>
#include <stdio.h>

#include "sim/sim_fs.h"

static struct sim sim;
static struct sim_fs disk;

static void write_at(struct fs_file *file, uint64_t position, const char *text)
{
    struct bytes piece = bytes_of_text(text);
    size_t written = 0;

    ck_assert_int_eq(fs_write(file, position, &piece, 1, &written), ERR_OK);
    ck_assert_uint_eq(written, piece.size);
}

static struct fs_file *create(const char *path)
{
    struct fs_file *file = NULL;

    ck_assert_int_eq(fs_open(&disk.fs, path, FS_READ | FS_WRITE | FS_CREATE, &file), ERR_OK);
    return file;
}

static void begin(uint64_t seed)
{
    sim_init(&sim, seed);
    sim_fs_init(&disk, &sim);
}

static void end(void)
{
    sim_fs_deinit(&disk);
    sim_deinit(&sim);
}

START_TEST(a_kill_keeps_what_was_written)
{
    begin(1);
    struct fs_file *file = create("/a");
    write_at(file, 0, "hello");
    sim_fs_kill(&disk);
    ck_assert(bytes_equal(sim_fs_peek(&disk, "/a"), BYTES_LITERAL("hello")));
    size_t got = 0;
    char room[8];
    ck_assert_int_eq(fs_read(file, 0, room, sizeof(room), &got), ERR_IO); /* opened by the dead process */
    fs_file_drop(file);
    end();
}
END_TEST

START_TEST(a_cut_keeps_what_was_synced_and_may_lose_the_rest)
{
    bool lost = false;
    bool kept = false;
    bool torn = false;
    bool name_lost = false;

    for (uint64_t seed = 0; seed < 200; seed++) {
        begin(seed);
        struct fs_file *file = create("/a");
        write_at(file, 0, "hello");
        ck_assert_int_eq(fs_sync(file), ERR_OK);
        ck_assert_int_eq(fs_sync_dir(&disk.fs, "/"), ERR_OK);
        write_at(file, 5, " world");
        struct fs_file *other = create("/b");
        ck_assert_int_eq(fs_sync(other), ERR_OK); /* its name is not */
        sim_fs_cut(&disk);
        struct bytes now = sim_fs_peek(&disk, "/a");
        ck_assert_uint_ge(now.size, 5);
        ck_assert_int_eq(memcmp(now.data, "hello", 5), 0);
        lost = lost || now.size == 5;
        kept = kept || now.size == 11;
        torn = torn || (now.size > 5 && now.size < 11);
        struct fs_info info;
        name_lost = name_lost || fs_stat(&disk.fs, "/b", &info) == ERR_NOT_FOUND;
        fs_file_drop(file);
        fs_file_drop(other);
        end();
    }
    ck_assert(lost && kept && torn && name_lost);
}
END_TEST

START_TEST(unsynced_writes_may_be_kept_out_of_order)
{
    bool second_alone = false;

    for (uint64_t seed = 0; seed < 200; seed++) {
        begin(seed);
        struct fs_file *file = create("/a");
        ck_assert_int_eq(fs_sync_dir(&disk.fs, "/"), ERR_OK);
        write_at(file, 0, "aaaa");
        write_at(file, 4, "bbbb");
        sim_fs_cut(&disk);
        struct bytes now = sim_fs_peek(&disk, "/a");
        second_alone = second_alone || (now.size == 8 && now.data[0] == 0 && now.data[7] == 'b');
        fs_file_drop(file);
        end();
    }
    ck_assert(second_alone);
}
END_TEST

START_TEST(a_rename_is_whole_or_not_at_all)
{
    for (uint64_t seed = 0; seed < 100; seed++) {
        begin(seed);
        sim_fs_poke(&disk, "/d/old", BYTES_LITERAL("old"));
        sim_fs_poke(&disk, "/d/new.tmp", BYTES_LITERAL("new"));
        ck_assert_int_eq(fs_rename(&disk.fs, "/d/new.tmp", "/d/old"), ERR_OK);
        sim_fs_cut(&disk);
        struct bytes now = sim_fs_peek(&disk, "/d/old");
        ck_assert(bytes_equal(now, BYTES_LITERAL("old")) || bytes_equal(now, BYTES_LITERAL("new")));
        ck_assert_int_eq(sim_fs_peek(&disk, "/d/new.tmp").size == 0, bytes_equal(now, BYTES_LITERAL("new")));
        end();
    }
}
END_TEST

START_TEST(a_full_disk_takes_a_part_then_nothing)
{
    begin(1);
    disk.capacity_bytes = 8;
    struct fs_file *file = create("/a");
    struct bytes piece = BYTES_LITERAL("0123456789");
    size_t written = 0;
    ck_assert_int_eq(fs_write(file, 0, &piece, 1, &written), ERR_OK);
    ck_assert_uint_eq(written, 8);
    ck_assert_int_eq(fs_write(file, 8, &piece, 1, &written), ERR_NO_SPACE);
    ck_assert_int_eq(fs_truncate(file, 4), ERR_OK);
    ck_assert_int_eq(fs_write(file, 4, &piece, 1, &written), ERR_OK);
    ck_assert_uint_eq(written, 4);
    fs_file_drop(file);
    ck_assert_int_eq(fs_unlink(&disk.fs, "/a"), ERR_OK);
    end();
}
END_TEST

START_TEST(the_chosen_call_fails_and_only_that)
{
    begin(1);
    struct fs_file *file = create("/a");
    sim_fs_set_fault(&disk, SIM_FS_FAIL, SIM_FS_WRITE, 2, ERR_IO);
    struct bytes piece = BYTES_LITERAL("x");
    size_t written = 0;
    ck_assert_int_eq(fs_write(file, 0, &piece, 1, &written), ERR_OK);
    ck_assert(!sim_fs_fault_struck(&disk));
    ck_assert_int_eq(fs_write(file, 1, &piece, 1, &written), ERR_IO);
    ck_assert(sim_fs_fault_struck(&disk));
    ck_assert_int_eq(fs_write(file, 1, &piece, 1, &written), ERR_OK);
    sim_fs_set_fault(&disk, SIM_FS_DIE, SIM_FS_ANY, 1, ERR_IO);
    ck_assert_int_eq(fs_sync(file), ERR_IO);
    ck_assert_int_eq(fs_sync_dir(&disk.fs, "/"), ERR_IO);
    fs_file_drop(file);
    end();
}
END_TEST

START_TEST(a_lock_keeps_others_out_until_its_holder_dies)
{
    begin(1);
    struct fs_file *file = NULL;
    struct fs_file *again = NULL;
    ck_assert_int_eq(fs_lock(&disk.fs, "/.lock", &file), ERR_OK);
    ck_assert_int_eq(fs_lock(&disk.fs, "/.lock", &again), ERR_LOCKED);
    sim_fs_kill(&disk);
    ck_assert_int_eq(fs_lock(&disk.fs, "/.lock", &again), ERR_OK);
    fs_file_drop(file);
    fs_file_drop(again);
    ck_assert_int_eq(fs_lock(&disk.fs, "/.lock", &again), ERR_OK);
    fs_file_drop(again);
    end();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sim_fs");
    TCase *tcase = tcase_create("sim_fs");
    SRunner *runner = srunner_create(suite);
    int failed = 0;

    tcase_add_test(tcase, a_kill_keeps_what_was_written);
    tcase_add_test(tcase, a_cut_keeps_what_was_synced_and_may_lose_the_rest);
    tcase_add_test(tcase, unsynced_writes_may_be_kept_out_of_order);
    tcase_add_test(tcase, a_rename_is_whole_or_not_at_all);
    tcase_add_test(tcase, a_full_disk_takes_a_part_then_nothing);
    tcase_add_test(tcase, the_chosen_call_fails_and_only_that);
    tcase_add_test(tcase, a_lock_keeps_others_out_until_its_holder_dies);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
