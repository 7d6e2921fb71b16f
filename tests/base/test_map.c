/* Rule: a map gives back what was put in, in order of insertion whatever the seed, and keeps to its limit. */
#include <check.h>
#include <stdio.h>

#include "base/map.h"

enum { NUMBERS = 5000 };

START_TEST(bytes_as_keys)
{
    struct map map;
    int values[3] = {1, 2, 3};
    void *replaced = NULL;

    map_init(&map, 42, 2);
    ck_assert_ptr_null(map_get(&map, BYTES_LITERAL("a")));
    ck_assert_ptr_null(map_remove(&map, BYTES_LITERAL("a")));
    ck_assert_int_eq(map_insert(&map, BYTES_LITERAL("a"), &values[0]), ERR_OK);
    ck_assert_int_eq(map_insert(&map, BYTES_LITERAL("a"), &values[1]), ERR_EXISTS);
    ck_assert_int_eq(map_put(&map, BYTES_LITERAL(""), &values[1], &replaced), ERR_OK);
    ck_assert_ptr_null(replaced);
    ck_assert_int_eq(map_insert(&map, BYTES_LITERAL("b"), &values[2]), ERR_LIMIT);
    ck_assert_int_eq(map_put(&map, BYTES_LITERAL("a"), &values[2], &replaced), ERR_OK);
    ck_assert_ptr_eq(replaced, &values[0]);
    ck_assert_ptr_eq(map_get(&map, BYTES_LITERAL("a")), &values[2]);
    ck_assert_ptr_eq(map_get(&map, BYTES_LITERAL("")), &values[1]);
    ck_assert_uint_eq(map_count(&map), 2);
    ck_assert_ptr_eq(map_remove(&map, BYTES_LITERAL("a")), &values[2]);
    ck_assert_ptr_null(map_get(&map, BYTES_LITERAL("a")));
    ck_assert_uint_eq(map_count(&map), 1);
    map_deinit(&map);
    ck_assert_uint_eq(map_count(&map), 0);
}
END_TEST

/* Against a plain array, over many seeds: the operations are drawn from a fixed generator. */
START_TEST(random_operations_agree_with_an_array)
{
    static char present[NUMBERS];
    static int values[NUMBERS];
    uint64_t state = 1;

    for (uint64_t seed = 0; seed < 5; seed++) {
        struct map_u64 map;
        uint32_t count = 0;
        bool same = true; /* one check for all: each costs a system call */

        memset(present, 0, sizeof(present));
        map_u64_init(&map, seed, NUMBERS);
        for (int step = 0; step < 60000; step++) {
            uint64_t key = 0;

            state = state * 6364136223846793005u + 1442695040888963407u;
            key = (state >> 33) % NUMBERS;
            /* Grow first, then drain. */
            if ((state >> 20) % 10 < (step < 30000 ? 7u : 2u)) {
                enum err err = map_u64_insert(&map, key * 1000003, &values[key]);

                same = same && err == (present[key] ? ERR_EXISTS : ERR_OK);
                count += !present[key];
                present[key] = 1;
            } else {
                same = same && map_u64_remove(&map, key * 1000003) == (present[key] ? &values[key] : NULL);
                count -= present[key] ? 1 : 0;
                present[key] = 0;
            }
            same = same && map_u64_count(&map) == count;
        }
        for (uint64_t key = 0; key < NUMBERS; key++)
            same = same && map_u64_get(&map, key * 1000003) == (present[key] ? &values[key] : NULL);
        ck_assert(same);
        map_u64_deinit(&map);
    }
}
END_TEST

START_TEST(walk_is_in_order_of_insertion)
{
    static int values[NUMBERS];

    for (uint64_t seed = 1; seed < 4; seed++) {
        struct map_u64 map;
        uint32_t cursor = 0;
        uint64_t expected = 0;
        uint64_t key = 0;
        void *value = NULL;

        map_u64_init(&map, seed * 0x9e3779b97f4a7c15u, NUMBERS);
        for (uint64_t i = 0; i < NUMBERS; i++)
            ck_assert_int_eq(map_u64_insert(&map, NUMBERS - i, &values[i]), ERR_OK);
        while (map_u64_next(&map, &cursor, &key, &value)) {
            ck_assert_uint_eq(key, NUMBERS - expected);
            ck_assert_ptr_eq(value, &values[expected]);
            if (expected % 3 == 0)
                ck_assert_ptr_eq(map_u64_remove(&map, key), value);
            expected++;
        }
        ck_assert_uint_eq(expected, NUMBERS);
        cursor = 0;
        expected = 0;
        while (map_u64_next(&map, &cursor, &key, &value)) {
            expected += expected % 3 == 0;
            ck_assert_uint_eq(key, NUMBERS - expected);
            expected++;
        }
        map_u64_deinit(&map);
    }
}
END_TEST

START_TEST(a_long_queue_through_a_small_map_stays_small)
{
    struct map map;
    static char names[16][32];

    map_init(&map, 7, 16);
    for (int i = 0; i < 20000; i++) {
        char *name = names[i % 16];

        if (i >= 10) {
            char old[32];

            snprintf(old, sizeof(old), "client-%d", i - 10);
            ck_assert_ptr_eq(map_remove(&map, bytes_of_text(old)), names[(i - 10) % 16]);
        }
        snprintf(name, sizeof(names[0]), "client-%d", i);
        ck_assert_int_eq(map_insert(&map, bytes_of_text(name), name), ERR_OK);
    }
    ck_assert_uint_eq(map_count(&map), 10);
    ck_assert_uint_le(map.table.entries_room, 32);
    map_deinit(&map);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("map");
    TCase *tcase = tcase_create("map");
    SRunner *runner = srunner_create(suite);
    int failed = 0;

    tcase_add_test(tcase, bytes_as_keys);
    tcase_add_test(tcase, random_operations_agree_with_an_array);
    tcase_add_test(tcase, walk_is_in_order_of_insertion);
    tcase_add_test(tcase, a_long_queue_through_a_small_map_stays_small);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
