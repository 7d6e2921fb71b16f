/* Rule: what is damaged is known by offset, outlives a power cut in a file that is itself checked, and is never
 * forgotten for want of room. */
#include "partition/damage.h"

#include "base/big_endian.h"
#include "base/crc32c.h"
#include "base/mem.h"
#include "run_tests.h"
#include "world.h"

static void add(struct damage *damage, int64_t first, int64_t end, bool expect_change)
{
    struct damage_range range = {.first_offset = first,
                                 .end_offset = end,
                                 .position = (uint64_t)first * 10,
                                 .size = (uint64_t)(end - first) * 10};
    bool changed = false;

    ck_assert_int_eq(damage_add(damage, &range, &changed), ERR_OK);
    ck_assert(changed == expect_change);
}

/* Ranges stay apart, ascend, and answer which offset is damaged, what comes next and what lies before. */
START_TEST(ranges_are_found_by_offset)
{
    struct damage damage = {0};

    ck_assert_ptr_null(damage_at(&damage, 0));
    add(&damage, 50, 60, true);
    add(&damage, 10, 20, true);
    add(&damage, 30, 31, true);
    ck_assert_uint_eq(damage.count, 3);
    ck_assert_ptr_null(damage_at(&damage, 9));
    ck_assert_int_eq(damage_at(&damage, 10)->first_offset, 10);
    ck_assert_int_eq(damage_at(&damage, 19)->first_offset, 10);
    ck_assert_ptr_null(damage_at(&damage, 20));
    ck_assert_int_eq(damage_from(&damage, 20)->first_offset, 30);
    ck_assert_ptr_null(damage_from(&damage, 60));
    ck_assert_ptr_null(damage_before(&damage, 0, 19));
    ck_assert_int_eq(damage_before(&damage, 0, 20)->first_offset, 10);
    ck_assert_int_eq(damage_before(&damage, 0, 1000)->first_offset, 50);
    ck_assert_ptr_null(damage_before(&damage, 7, 1000));
    damage_deinit(&damage);
}
END_TEST

/* What is known changes nothing, what overlaps becomes one, with its bytes. */
START_TEST(overlaps_become_one)
{
    struct damage damage = {0};

    add(&damage, 10, 20, true);
    add(&damage, 10, 20, false);
    add(&damage, 12, 15, false);
    add(&damage, 40, 50, true);
    add(&damage, 15, 45, true);
    ck_assert_uint_eq(damage.count, 1);
    ck_assert_int_eq(damage.ranges[0].first_offset, 10);
    ck_assert_int_eq(damage.ranges[0].end_offset, 50);
    ck_assert_uint_eq(damage.ranges[0].position, 100);
    ck_assert_uint_eq(damage.ranges[0].size, 400);
    damage_deinit(&damage);
}
END_TEST

/* Truncation, a moved log start and a repair forget. */
START_TEST(ranges_are_forgotten)
{
    struct damage damage = {0};

    add(&damage, 10, 20, true);
    add(&damage, 30, 40, true);
    add(&damage, 50, 60, true);
    ck_assert(!damage_forget(&damage, 20, 30));
    ck_assert(damage_forget(&damage, 0, 15));
    ck_assert_int_eq(damage.ranges[0].first_offset, 15);
    ck_assert(damage_forget(&damage, 55, INT64_MAX));
    ck_assert_int_eq(damage.ranges[2].end_offset, 55);
    ck_assert(damage_forget(&damage, 30, 40));
    ck_assert_uint_eq(damage.count, 2);
    damage_deinit(&damage);
}
END_TEST

/* At the limit the new one is joined with its neighbour, and nothing that is damaged is forgotten. */
START_TEST(the_number_of_ranges_is_bounded)
{
    struct damage damage = {0};

    for (int64_t i = 0; i < DAMAGE_RANGES_MAX; i++)
        add(&damage, i * 10, i * 10 + 1, true);
    add(&damage, 55, 56, true);
    add(&damage, 100000, 100001, true);
    ck_assert_uint_eq(damage.count, DAMAGE_RANGES_MAX);
    ck_assert_ptr_nonnull(damage_at(&damage, 55));
    ck_assert_ptr_nonnull(damage_at(&damage, 60));
    ck_assert_ptr_nonnull(damage_at(&damage, 100000));
    ck_assert_ptr_null(damage_at(&damage, 51));
    damage_deinit(&damage);
}
END_TEST

static enum err parse(const uint8_t *data, size_t size)
{
    struct damage damage = {0};
    enum err err = damage_parse(&damage, bytes_of(data, size));

    damage_deinit(&damage);
    return err;
}

/* The file keeps them; any flipped byte of it and any cut is found; a later build's file is told from a damaged one;
 * none is left where nothing is damaged. */
START_TEST(the_file_keeps_them)
{
    static struct world world;
    struct damage damage = {0};
    struct damage again = {0};
    uint8_t *data = NULL;
    size_t size = 0;

    world_begin(&world, 1);
    ck_assert_int_eq(damage_read(&world.disk.fs, "/data", &again), ERR_NOT_FOUND);
    add(&damage, 10, 20, true);
    add(&damage, 30, 40, true);
    ck_assert_int_eq(damage_format(&damage, &data, &size), ERR_OK);
    ck_assert_int_eq(damage_write(&world.disk.fs, "/data", bytes_of(data, size)), ERR_OK);
    sim_fs_cut(&world.disk);
    ck_assert_int_eq(damage_read(&world.disk.fs, "/data", &again), ERR_OK);
    ck_assert_uint_eq(again.count, 2);
    ck_assert_mem_eq(again.ranges, damage.ranges, 2 * sizeof(damage.ranges[0]));
    for (size_t i = 0; i < size; i++) {
        data[i] ^= 0x10;
        ck_assert_int_eq(parse(data, size), ERR_DAMAGED);
        data[i] ^= 0x10;
        ck_assert_int_eq(parse(data, i), ERR_DAMAGED);
    }
    data[11] = DAMAGE_VERSION + 1;
    big_endian_store_u32(data + 12, crc32c(crc32c(0, data + 8, 4), data + 16, size - 16));
    ck_assert_int_eq(parse(data, size), ERR_UNSUPPORTED_VERSION);
    mem_free(data);
    (void)damage_forget(&damage, 0, 100);
    ck_assert_int_eq(damage_format(&damage, &data, &size), ERR_OK);
    ck_assert_int_eq(damage_write(&world.disk.fs, "/data", bytes_of(data, size)), ERR_OK);
    ck_assert_int_eq(damage_write(&world.disk.fs, "/data", bytes_of(data, size)), ERR_OK);
    damage_deinit(&again);
    ck_assert_int_eq(damage_read(&world.disk.fs, "/data", &again), ERR_NOT_FOUND);
    mem_free(data);
    damage_deinit(&damage);
    world_end(&world);
}
END_TEST

RUN_TESTS("damage", ranges_are_found_by_offset, overlaps_become_one, ranges_are_forgotten,
          the_number_of_ranges_is_bounded, the_file_keeps_them)
