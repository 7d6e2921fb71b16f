/* Rule: a small file is the old one or the new one, never a part, whatever call the machine dies at; it is read within
 * a bound; numbers are whole and in their range (on-disk.md 2). */
#include "partition/text_file.h"
#include "run_tests.h"
#include "world.h"

static struct world world;

static bool reads_as(const char *content)
{
    struct text text;
    bool same = false;

    if (text_file_read(&world.disk.fs, "/data", "file", TEXT_FILE_BYTES_MAX, &text) != ERR_OK)
        return content == NULL;
    same = content != NULL && strcmp(text.data, content) == 0;
    text_deinit(&text);
    return same;
}

START_TEST(a_replacement_is_whole_or_not_at_all)
{
    for (uint64_t k = 1;; k++) {
        bool struck = false;

        world_begin(&world, k);
        ck_assert_int_eq(text_file_replace(&world.disk.fs, "/data", "file", BYTES_LITERAL("old")), ERR_OK);
        sim_fs_set_fault(&world.disk, SIM_FS_DIE, SIM_FS_ANY, k, ERR_IO);
        enum err err = text_file_replace(&world.disk.fs, "/data", "file", BYTES_LITERAL("new and longer"));

        struck = sim_fs_fault_struck(&world.disk);
        sim_fs_cut(&world.disk);
        ck_assert(err == ERR_OK ? reads_as("new and longer") : reads_as("old") || reads_as("new and longer"));
        world_end(&world);
        if (!struck)
            break;
        ck_assert_uint_lt(k, 50);
    }
}
END_TEST

/* The name is the caller's to sync: until then a power cut may leave the old file, but no part of the new one. */
START_TEST(unnamed_is_old_until_the_directory_is_synced)
{
    bool old = false;

    for (uint64_t seed = 1; seed <= 40; seed++) {
        world_begin(&world, seed);
        ck_assert_int_eq(text_file_replace(&world.disk.fs, "/data", "file", BYTES_LITERAL("old")), ERR_OK);
        ck_assert_int_eq(text_file_replace_unnamed(&world.disk.fs, "/data", "file", BYTES_LITERAL("new")), ERR_OK);
        if (seed % 2 == 0)
            ck_assert_int_eq(fs_sync_dir(&world.disk.fs, "/data"), ERR_OK);
        sim_fs_cut(&world.disk);
        ck_assert(reads_as("new") || (seed % 2 != 0 && reads_as("old")));
        old = old || reads_as("old");
        world_end(&world);
    }
    ck_assert(old);
}
END_TEST

START_TEST(reading_is_bounded)
{
    struct text text;

    world_begin(&world, 1);
    ck_assert_int_eq(text_file_read(&world.disk.fs, "/data", "file", 10, &text), ERR_NOT_FOUND);
    sim_fs_poke(&world.disk, "/data/file", BYTES_LITERAL("0123456789"));
    ck_assert_int_eq(text_file_read(&world.disk.fs, "/data", "file", 10, &text), ERR_OK);
    ck_assert_uint_eq(text.size, 10);
    text_deinit(&text);
    ck_assert_int_eq(text_file_read(&world.disk.fs, "/data", "file", 9, &text), ERR_LIMIT);
    world_end(&world);
}
END_TEST

START_TEST(lines_and_words)
{
    struct bytes rest = BYTES_LITERAL("a  b\r\n\n c");
    struct bytes line;
    struct bytes word;

    ck_assert(text_next_line(&rest, &line));
    ck_assert(bytes_equal(line, BYTES_LITERAL("a  b")));
    ck_assert(text_next_word(&line, &word) && bytes_equal(word, BYTES_LITERAL("a")));
    ck_assert(text_next_word(&line, &word) && bytes_equal(word, BYTES_LITERAL("b")));
    ck_assert(!text_next_word(&line, &word));
    ck_assert(text_next_line(&rest, &line) && line.size == 0);
    ck_assert(text_next_line(&rest, &line) && bytes_equal(line, BYTES_LITERAL(" c")));
    ck_assert(!text_next_line(&rest, &line));
}
END_TEST

START_TEST(numbers_at_their_edges)
{
    static const struct {
        const char *text;
        bool good;
        int64_t value;
    } rows[] = {
        {"0", true, 0},
        {"-0", true, 0},
        {"9223372036854775807", true, INT64_MAX},
        {"9223372036854775808", false, 0},
        {"-9223372036854775808", true, INT64_MIN},
        {"-9223372036854775809", false, 0},
        {"92233720368547758070", false, 0},
        {"", false, 0},
        {"-", false, 0},
        {"1x", false, 0},
        {" 1", false, 0},
        {"0001", true, 1},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        int64_t value = 0;

        ck_assert_msg(text_parse_i64(bytes_of_text(rows[i].text), &value) == rows[i].good, "%s", rows[i].text);
        if (rows[i].good)
            ck_assert_int_eq(value, rows[i].value);
    }
}
END_TEST

RUN_TESTS("text_file", a_replacement_is_whole_or_not_at_all, unnamed_is_old_until_the_directory_is_synced,
          reading_is_bounded, lines_and_words, numbers_at_their_edges)
