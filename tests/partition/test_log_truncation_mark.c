/* Rule: the mark of a cut says what was written; where any byte of it is wrong, or it is cut short, it counts as a cut
 * at 0: nothing is believed unread. Without its last newline all of it is there, vouched for, and it is believed. */
#include "partition/log_truncation_mark.h"

#include "partition/text_file.h"
#include "run_tests.h"
#include "world.h"

#define PATH "/data/" LOG_TRUNCATION_NAME

static struct world world;

static const struct log_truncation_mark written = {.offset = 5, .until = 77};

static bool reads_as(int64_t offset, int64_t until)
{
    struct log_truncation_mark got = {0};

    return log_truncation_mark_read(&world.disk.fs, "/data", &got) == ERR_OK && got.offset == offset &&
           got.until == until;
}

static bool is_cut_at_zero(struct bytes content)
{
    sim_fs_poke(&world.disk, PATH, content);
    return reads_as(0, INT64_MAX);
}

START_TEST(it_comes_back_as_written)
{
    struct log_truncation_mark got;

    world_begin(&world, 1);
    ck_assert_int_eq(log_truncation_mark_read(&world.disk.fs, "/data", &got), ERR_NOT_FOUND);
    ck_assert_int_eq(log_truncation_mark_write(&world.disk.fs, "/data", &written), ERR_OK);
    sim_fs_cut(&world.disk);
    ck_assert(reads_as(5, 77));
    ck_assert(bytes_equal(sim_fs_peek(&world.disk, PATH), BYTES_LITERAL("ottla-truncation 1\n5 77\n47f5590a\n")));
    ck_assert_int_eq(log_truncation_mark_remove(&world.disk.fs, "/data"), ERR_OK);
    ck_assert_int_eq(log_truncation_mark_read(&world.disk.fs, "/data", &got), ERR_NOT_FOUND);
    ck_assert_int_eq(log_truncation_mark_remove(&world.disk.fs, "/data"), ERR_OK);
    world_end(&world);
}
END_TEST

static bool is_cut_as_written(struct bytes content)
{
    sim_fs_poke(&world.disk, PATH, content);
    return reads_as(5, 77);
}

START_TEST(damaged_nothing_is_believed)
{
    world_begin(&world, 1);
    ck_assert_int_eq(log_truncation_mark_write(&world.disk.fs, "/data", &written), ERR_OK);
    world_damage_each(&world, PATH, is_cut_at_zero, is_cut_as_written);
    world_end(&world);
}
END_TEST

/* What a later build wrote is told from damage. */
START_TEST(a_later_version_is_refused)
{
    struct log_truncation_mark got;
    struct text text = {0};

    world_begin(&world, 1);
    text_add(&text, "ottla-truncation 2\nanything\n");
    text_seal(&text);
    sim_fs_poke(&world.disk, PATH, bytes_of(text.data, text.size));
    ck_assert_int_eq(log_truncation_mark_read(&world.disk.fs, "/data", &got), ERR_UNSUPPORTED_VERSION);
    text_deinit(&text);
    world_end(&world);
}
END_TEST

/* The edge of MARK_BYTES_MAX, for a later version's: a file that is larger than any mark is none. */
START_TEST(a_large_file_is_no_mark)
{
    enum { MARK_BYTES = 4096, SEAL_BYTES = 9 };
    struct log_truncation_mark got;

    for (int larger = 0; larger <= 1; larger++) {
        struct text text = {0};

        world_begin(&world, 1);
        text_add(&text, "ottla-truncation 2\n%*s\n",
                 MARK_BYTES - SEAL_BYTES - (int)strlen("ottla-truncation 2\n\n") + larger, "");
        text_seal(&text);
        ck_assert_uint_eq(text.size, (size_t)MARK_BYTES + (size_t)larger);
        sim_fs_poke(&world.disk, PATH, bytes_of(text.data, text.size));
        if (larger == 0)
            ck_assert_int_eq(log_truncation_mark_read(&world.disk.fs, "/data", &got), ERR_UNSUPPORTED_VERSION);
        else
            ck_assert(reads_as(0, INT64_MAX));
        text_deinit(&text);
        world_end(&world);
    }
}
END_TEST

RUN_TESTS("log_truncation_mark", it_comes_back_as_written, damaged_nothing_is_believed, a_later_version_is_refused,
          a_large_file_is_no_mark)
