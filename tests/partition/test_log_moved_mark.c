/* Rule: the mark that goes with a moved log says what was written, or nothing: with any byte wrong and at any length
 * but that of its whole text it is not there. Without its last newline all of it is there, vouched for, and it is
 * believed. */
#include "partition/log_moved_mark.h"

#include "base/mem.h"
#include "move_world.h"
#include "partition/text_file.h"
#include "run_tests.h"

#define PATH "/data/" LOG_MOVED_NAME

static struct world world;

static const struct log_moved_mark written[] = {{77, 5, 30}, {0, 0, -1}, {INT64_MAX, INT64_MAX, INT64_MAX}};

static void write_mark(const struct log_moved_mark *mark)
{
    ck_assert_int_eq(log_moved_mark_write(&world.disk.fs, "/data", mark), ERR_OK);
}

static bool reads_as(const struct log_moved_mark *mark)
{
    struct log_moved_mark got = {0};

    return log_moved_mark_read(&world.disk.fs, "/data", &got) == ERR_OK && got.recovery_point == mark->recovery_point &&
           got.start_offset == mark->start_offset && got.cleaned_offset == mark->cleaned_offset;
}

static enum err reads(struct bytes content)
{
    struct log_moved_mark got;

    sim_fs_poke(&world.disk, PATH, content);
    return log_moved_mark_read(&world.disk.fs, "/data", &got);
}

/* Written, it survives a power cut; another takes its place; removed, it is gone, and need not have been there. */
START_TEST(it_comes_back_as_written)
{
    struct log_moved_mark got;

    world_begin(&world, 1);
    ck_assert_int_eq(log_moved_mark_read(&world.disk.fs, "/data", &got), ERR_NOT_FOUND);
    for (size_t i = 0; i < sizeof(written) / sizeof(written[0]); i++) {
        write_mark(&written[i]);
        sim_fs_cut(&world.disk);
        ck_assert(reads_as(&written[i]));
    }
    ck_assert_int_eq(log_moved_mark_remove(&world.disk.fs, "/data"), ERR_OK);
    ck_assert_int_eq(log_moved_mark_read(&world.disk.fs, "/data", &got), ERR_NOT_FOUND);
    ck_assert_int_eq(log_moved_mark_remove(&world.disk.fs, "/data"), ERR_OK);
    world_end(&world);
}
END_TEST

/* Its form is for good: other builds read it. */
START_TEST(its_form)
{
    world_begin(&world, 1);
    write_mark(&written[0]);
    ck_assert(bytes_equal(sim_fs_peek(&world.disk, PATH), BYTES_LITERAL("ottla-moved 1\n77 5 30\n3d61a37d\n")));
    world_end(&world);
}
END_TEST

static bool says_nothing(struct bytes content)
{
    return reads(content) == ERR_NOT_FOUND;
}

static bool says_the_first(struct bytes content)
{
    return reads(content) == ERR_OK && reads_as(&written[0]);
}

START_TEST(damaged_it_says_nothing)
{
    world_begin(&world, 1);
    write_mark(&written[0]);
    world_damage_each(&world, PATH, says_nothing, says_the_first);
    world_end(&world);
}
END_TEST

static enum err reads_sealed(const char *lines)
{
    struct text text = {0};
    enum err err = ERR_OK;

    text_add(&text, "%s", lines);
    text_seal(&text);
    err = reads(bytes_of(text.data, text.size));
    text_deinit(&text);
    return err;
}

/* What a later build wrote is told from damage; what no build writes is none, whatever vouches for it. */
START_TEST(only_what_is_one_is_read)
{
    static const char *const none[] = {"",
                                       "\n",
                                       "ottla-moved\n",
                                       "ottla-moved x\n1 1 1\n",
                                       "ottla-truncation 1\n1 1 1\n",
                                       "ottla-moved 1\n",
                                       "ottla-moved 1\n1 1\n",
                                       "ottla-moved 1\n1 1 1 1\n",
                                       "ottla-moved 1\n1 1 1\n1\n",
                                       "ottla-moved 1\n-1 -1 -1\n",
                                       "ottla-moved 1\n1 2 -1\n",
                                       "ottla-moved 1\n2 1 -2\n",
                                       "ottla-moved 1\n9223372036854775808 1 1\n"};
    uint8_t *large = mem_calloc(100000, 1);

    world_begin(&world, 1);
    ck_assert_int_eq(reads_sealed("ottla-moved 2\nanything\n"), ERR_UNSUPPORTED_VERSION);
    ck_assert_int_eq(reads_sealed("ottla-moved 1\n1 1 1\n"), ERR_OK);
    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++)
        ck_assert_msg(reads_sealed(none[i]) == ERR_NOT_FOUND, "%s", none[i]);
    ck_assert_int_eq(reads(bytes_of(large, 100000)), ERR_NOT_FOUND);
    mem_free(large);
    world_end(&world);
}
END_TEST

/* A log whose mark is damaged opens with all its records, only reads them first; its start is as the checkpoint file
 * says. */
START_TEST(without_it_a_log_is_recovered)
{
    static struct partition_env other;
    static const char path[] = "/data2/t-0/" LOG_MOVED_NAME;

    for (int damaged = 0; damaged < 2; damaged++) {
        struct partition_log *log = NULL;
        struct partition_log_recovery recovery;
        struct moving_op moving = {0};
        int64_t end = 0;

        move_world_begin(&world, &other, 1, false);
        log = world_log(&world);
        move_world_fill(&world, log);
        partition_log_move_start(log, 5);
        end = partition_log_end_offset(log);
        move_world_run(&world, log, &other, &moving);
        ck_assert_int_eq(moving.op.err, ERR_OK);
        world_crash(&world, log, true);
        if (damaged == 1)
            ck_assert(sim_fs_flip(&world.disk, path, 12, 0x02)); /* the version */
        world.env = other;
        world.spec.clean = false;
        ck_assert_int_eq(partition_log_open(&world.env, &world.spec, &log, &recovery), ERR_OK);
        partition_log_adopt(log);
        ck_assert_int_eq(partition_log_end_offset(log), end);
        ck_assert_int_eq(partition_log_start_offset(log), damaged == 1 ? 0 : 5);
        ck_assert((recovery.segments_recovered > 1) == (damaged == 1));
        world_close(&world, log);
        world_end(&world);
    }
}
END_TEST

/* The edge of MARK_BYTES_MAX, for a later version's: a file that is larger than any mark is none. */
START_TEST(a_large_file_is_no_mark)
{
    enum { MARK_BYTES = 4096, SEAL_BYTES = 9 };
    struct log_moved_mark got;

    for (int larger = 0; larger <= 1; larger++) {
        struct text text = {0};

        world_begin(&world, 1);
        text_add(&text, "ottla-moved 2\n%*s\n", MARK_BYTES - SEAL_BYTES - (int)strlen("ottla-moved 2\n\n") + larger,
                 "");
        text_seal(&text);
        ck_assert_uint_eq(text.size, (size_t)MARK_BYTES + (size_t)larger);
        sim_fs_poke(&world.disk, PATH, bytes_of(text.data, text.size));
        if (larger == 0)
            ck_assert_int_eq(log_moved_mark_read(&world.disk.fs, "/data", &got), ERR_UNSUPPORTED_VERSION);
        else
            ck_assert_int_eq(log_moved_mark_read(&world.disk.fs, "/data", &got), ERR_NOT_FOUND);
        text_deinit(&text);
        world_end(&world);
    }
}
END_TEST

RUN_TESTS("log_moved_mark", it_comes_back_as_written, its_form, damaged_it_says_nothing, only_what_is_one_is_read,
          without_it_a_log_is_recovered, a_large_file_is_no_mark)
