/* Rule: Kafka's checkpoint files are written byte for byte and read strictly; what is no checkpoint is named damaged
 * and changes nothing (on-disk.md 2). */
#include "partition/checkpoint.h"
#include "run_tests.h"
#include "world.h"

static struct world world;

START_TEST(offsets_round_trip)
{
    const struct checkpoint_offset entries[] = {
        {BYTES_LITERAL("topic"), 0, 12}, {BYTES_LITERAL("a.b-c_d"), 2147483647, INT64_MAX}, {BYTES_LITERAL("x"), 3, 0}};
    struct checkpoint_offsets got;

    world_begin(&world, 1);
    ck_assert_int_eq(checkpoint_write_offsets(&world.disk.fs, "/data", "recovery-point-offset-checkpoint", entries, 3),
                     ERR_OK);
    ck_assert(bytes_equal(sim_fs_peek(&world.disk, "/data/recovery-point-offset-checkpoint"),
                          BYTES_LITERAL("0\n3\ntopic 0  12\na.b-c_d 2147483647  9223372036854775807\nx 3  0\n")));
    ck_assert_int_eq(checkpoint_read_offsets(&world.disk.fs, "/data", "recovery-point-offset-checkpoint", &got),
                     ERR_OK);
    ck_assert_uint_eq(got.count, 3);
    for (int i = 0; i < 3; i++) {
        ck_assert(bytes_equal(got.entries[i].topic, entries[i].topic));
        ck_assert_int_eq(got.entries[i].partition, entries[i].partition);
        ck_assert_int_eq(got.entries[i].offset, entries[i].offset);
    }
    checkpoint_offsets_deinit(&got);
    world_end(&world);
}
END_TEST

START_TEST(bad_offset_files)
{
    static const char *const bad[] = {
        "1\n0\n",
        "0\n",
        "0\n1\n",
        "0\n2\nt 0 1\n",
        "0\n1\nt 0 1\nt 1 1\n",
        "0\n1\nt 0\n",
        "x\n0\n",
        "0\n1\nt x 1",
        "0\n1\nt -1 1",
        "0\n1\nt 4294967296 1\n",
        "0\n-1\n",
        "0\n1\nt 0 1 2\n",
        "0\n1\n\n",
        "0\n99999999999999999999\n",
        "0\n1\nt 0 9223372036854775808\n",
        "0\n4000000000\nt 0 1\n",
    };
    struct checkpoint_offsets got;

    world_begin(&world, 2);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        sim_fs_poke(&world.disk, "/data/c", bytes_of_text(bad[i]));
        ck_assert_int_eq(checkpoint_read_offsets(&world.disk.fs, "/data", "c", &got), ERR_DAMAGED);
    }
    sim_fs_poke(&world.disk, "/data/c", BYTES_LITERAL(""));
    ck_assert_int_eq(checkpoint_read_offsets(&world.disk.fs, "/data", "c", &got), ERR_OK);
    ck_assert_uint_eq(got.count, 0);
    checkpoint_offsets_deinit(&got);
    sim_fs_poke(&world.disk, "/data/c", BYTES_LITERAL("0\n1\nt\t 5   6")); /* any space, no last newline */
    ck_assert_int_eq(checkpoint_read_offsets(&world.disk.fs, "/data", "c", &got), ERR_OK);
    ck_assert_int_eq(got.entries[0].offset, 6);
    checkpoint_offsets_deinit(&got);
    ck_assert_int_eq(checkpoint_read_offsets(&world.disk.fs, "/data", "none", &got), ERR_NOT_FOUND);
    world_end(&world);
}
END_TEST

START_TEST(epochs_round_trip)
{
    struct epoch_cache epochs = {0};
    struct epoch_cache got = {0};
    struct text text = {0};

    world_begin(&world, 3);
    ck_assert_int_eq(epoch_cache_assign(&epochs, 0, 0), ERR_OK);
    ck_assert_int_eq(epoch_cache_assign(&epochs, 5, 17), ERR_OK);
    checkpoint_format_epochs(&epochs, &text);
    ck_assert_int_eq(checkpoint_write_epochs(&world.disk.fs, "/data", &text, true), ERR_OK);
    ck_assert(
        bytes_equal(sim_fs_peek(&world.disk, "/data/leader-epoch-checkpoint"), BYTES_LITERAL("0\n2\n0 0\n5 17\n")));
    ck_assert_int_eq(checkpoint_read_epochs(&world.disk.fs, "/data", &got), ERR_OK);
    ck_assert_uint_eq(got.count, 2);
    epoch_cache_deinit(&got);
    sim_fs_poke(&world.disk, "/data/leader-epoch-checkpoint", BYTES_LITERAL("0\n2\n5 17\n4 20\n"));
    ck_assert_int_eq(checkpoint_read_epochs(&world.disk.fs, "/data", &got), ERR_DAMAGED);
    epoch_cache_deinit(&got);
    epoch_cache_deinit(&epochs);
    text_deinit(&text);
    world_end(&world);
}
END_TEST

START_TEST(topic_ids)
{
    static const char *const bad[] = {"",
                                      "version: 0\n",
                                      "version: -1\ntopic_id: AQIDBAUGRwiJCgsMDQ4PEA",
                                      "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA",
                                      "version: 0\ntopic_id: short",
                                      "topic_id: AQIDBAUGRwiJCgsMDQ4PEA\nversion: 0"};
    struct uuid got;

    world_begin(&world, 4);
    ck_assert_int_eq(checkpoint_write_topic_id(&world.disk.fs, "/data", world.spec.topic_id), ERR_OK);
    ck_assert_int_eq(checkpoint_read_topic_id(&world.disk.fs, "/data", &got), ERR_OK);
    ck_assert(uuid_equal(got, world.spec.topic_id));
    sim_fs_poke(&world.disk, "/data/partition.metadata",
                BYTES_LITERAL("version: 1\ntopic_id: AQIDBAUGRwiJCgsMDQ4PEA\nmore: x\n"));
    ck_assert_int_eq(checkpoint_read_topic_id(&world.disk.fs, "/data", &got), ERR_OK);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        sim_fs_poke(&world.disk, "/data/partition.metadata", bytes_of_text(bad[i]));
        ck_assert_int_eq(checkpoint_read_topic_id(&world.disk.fs, "/data", &got), ERR_DAMAGED);
    }
    world_end(&world);
}
END_TEST

/* A crash anywhere leaves the old file or the new one. */
START_TEST(replacement_is_whole)
{
    for (uint64_t k = 1; k < 12; k++)
        for (uint64_t seed = 0; seed < 30; seed++) {
            struct checkpoint_offset entry = {BYTES_LITERAL("t"), 0, 1};
            struct checkpoint_offsets got;
            enum err err = ERR_OK;

            world_begin(&world, seed);
            ck_assert_int_eq(checkpoint_write_offsets(&world.disk.fs, "/data", "c", &entry, 1), ERR_OK);
            sim_fs_set_fault(&world.disk, SIM_FS_DIE, SIM_FS_ANY, k, ERR_IO);
            entry.offset = 2;
            err = checkpoint_write_offsets(&world.disk.fs, "/data", "c", &entry, 1);
            sim_fs_cut(&world.disk);
            ck_assert_int_eq(checkpoint_read_offsets(&world.disk.fs, "/data", "c", &got), ERR_OK);
            ck_assert_uint_eq(got.count, 1);
            ck_assert(got.entries[0].offset == 2 || (err != ERR_OK && got.entries[0].offset == 1));
            checkpoint_offsets_deinit(&got);
            world_end(&world);
        }
}
END_TEST

/* The edge of SMALL_FILE_BYTES_MAX of checkpoint.c: a file of epochs that is larger is not read. */
START_TEST(a_large_file_is_not_read)
{
    enum { FILE_BYTES = 1024 * 1024 };
    static const char head[] = "0\n1\n";

    for (int larger = 0; larger <= 1; larger++) {
        struct epoch_cache epochs = {0};
        struct text text = {0};

        world_begin(&world, 9);
        text_add(&text, "%s%*s\n", head, FILE_BYTES - (int)strlen(head) - 1 + larger, "4 7");
        ck_assert_uint_eq(text.size, (size_t)FILE_BYTES + (size_t)larger);
        sim_fs_poke(&world.disk, "/data/leader-epoch-checkpoint", bytes_of(text.data, text.size));
        ck_assert_int_eq(checkpoint_read_epochs(&world.disk.fs, "/data", &epochs), larger == 0 ? ERR_OK : ERR_LIMIT);
        text_deinit(&text);
        epoch_cache_deinit(&epochs);
        world_end(&world);
    }
}
END_TEST

RUN_TESTS("checkpoint", offsets_round_trip, bad_offset_files, epochs_round_trip, topic_ids, replacement_is_whole,
          a_large_file_is_not_read)
