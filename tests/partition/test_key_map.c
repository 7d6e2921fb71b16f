/* Rule: the map gives the last offset noted of a key, in the memory it was given, and says so when no more keys fit. */
#include <stdio.h>

#include "base/mem.h"
#include "partition/key_map.h"
#include "run_tests.h"

static struct key_hash key_of(const struct key_map *map, uint32_t number)
{
    char text[16];
    int size = snprintf(text, sizeof(text), "key-%u", number);

    return key_map_hash(map, bytes_of(text, (size_t)size));
}

START_TEST(last_offset_of_each_key)
{
    struct key_map map;

    ck_assert_int_eq(key_map_init(&map, 1 << 20, 0.9, 20000, 7), ERR_OK);
    for (uint32_t round = 0; round < 3; round++)
        for (uint32_t i = 0; i < 20000; i++)
            ck_assert_int_eq(key_map_put(&map, key_of(&map, i), round * 100000 + i), ERR_OK);
    for (uint32_t i = 0; i < 20000; i++)
        ck_assert_int_eq(key_map_get(&map, key_of(&map, i)), 200000 + i);
    ck_assert_int_eq(key_map_get(&map, key_of(&map, 20000)), -1);
    ck_assert_int_eq(key_map_get(&map, key_map_hash(&map, BYTES_LITERAL(""))), -1);
    ck_assert_int_eq(key_map_put(&map, key_map_hash(&map, BYTES_LITERAL("")), 0), ERR_OK); /* an empty key is one */
    ck_assert_int_eq(key_map_get(&map, key_map_hash(&map, BYTES_LITERAL(""))), 0);
    key_map_deinit(&map);
}
END_TEST

START_TEST(no_more_than_its_load)
{
    struct key_map map;
    static const struct {
        size_t bytes;
        double load;
        uint64_t expected;
        uint64_t count_max;
    } cases[] = {
        {100 * KEY_MAP_ENTRY_BYTES, 0.9, UINT64_MAX, 90},
        {100 * KEY_MAP_ENTRY_BYTES, 1.0, UINT64_MAX, 99},
        {100 * KEY_MAP_ENTRY_BYTES, 5.0, UINT64_MAX, 99},
        {KEY_MAP_ENTRY_BYTES, 0.9, UINT64_MAX, 1},
        {1, 0.001, UINT64_MAX, 1},
        {1 << 30, 0.9, 10, 10},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint32_t number = 0;

        ck_assert_int_eq(key_map_init(&map, cases[i].bytes, cases[i].load, cases[i].expected, 7), ERR_OK);
        while (key_map_put(&map, key_of(&map, number), number) == ERR_OK)
            number++;
        ck_assert_uint_ge(number, cases[i].count_max);
        ck_assert_uint_le(number, cases[i].count_max + 1);
        ck_assert_int_eq(key_map_put(&map, key_of(&map, 0), 77), ERR_OK); /* it has that one */
        ck_assert_int_eq(key_map_get(&map, key_of(&map, 0)), 77);
        ck_assert_int_eq(key_map_get(&map, key_of(&map, number)), -1);
        key_map_deinit(&map);
    }
}
END_TEST

RUN_TESTS("key_map", last_offset_of_each_key, no_more_than_its_load)
