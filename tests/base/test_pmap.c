/*
 * Rules: a version of a pmap that someone holds never changes, whatever is done through other handles, also when
 * memory runs out half way or other threads read it; keys come in byte order; each value is dropped as often as kept.
 */
#include <check.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/pmap.h"

enum { KEYS = 600, VERSIONS = 24 };

/* Linked with --wrap=mem_alloc: the allocation that this counts down to fails. */
static int allocations_left = -1;

void *__real_mem_alloc(size_t size);
void *__wrap_mem_alloc(size_t size);

void *__wrap_mem_alloc(size_t size)
{
    if (allocations_left == 0)
        return NULL;
    if (allocations_left > 0)
        allocations_left--;
    return __real_mem_alloc(size);
}

struct value {
    atomic_int references;
    uint8_t key[2];
    uint32_t generation;
};

static atomic_int values_alive;

static void value_keep(void *value)
{
    ((struct value *)value)->references++;
}

static void value_drop(void *value)
{
    if (--((struct value *)value)->references > 0)
        return;
    values_alive--;
    mem_free(value);
}

static const struct pmap_ops ops = {.keep = value_keep, .drop = value_drop};

static struct bytes value_key(const struct value *value)
{
    return bytes_of(value->key, 2);
}

static enum err put(struct pmap *map, uint32_t key, uint32_t generation)
{
    struct value *value = __real_mem_alloc(sizeof(*value));
    enum err err = ERR_OK;

    ck_assert_ptr_nonnull(value);
    *value = (struct value){.references = 1, .key = {(uint8_t)(key >> 8), (uint8_t)key}, .generation = generation};
    values_alive++;
    err = pmap_put(map, value_key(value), value);
    value_drop(value);
    return err;
}

static enum err take_out(struct pmap *map, uint32_t key)
{
    uint8_t bytes[2] = {(uint8_t)(key >> 8), (uint8_t)key};

    return pmap_remove(map, bytes_of(bytes, 2));
}

/* model[key] is the generation that the version has, 0 for none. */
static void check_version(const struct pmap *map, const uint32_t *model)
{
    struct pmap_cursor cursor;
    struct bytes key;
    void *value = NULL;
    uint32_t expected = 0;
    uint32_t count = 0;
    bool same = true; /* one check for all: each costs a system call */

    pmap_first(map, &cursor);
    while (pmap_next(&cursor, &key, &value)) {
        while (expected < KEYS && model[expected] == 0)
            expected++;
        if (expected == KEYS)
            break;
        same = same && (((uint32_t)key.data[0] << 8) | key.data[1]) == expected;
        same = same && ((struct value *)value)->generation == model[expected];
        same = same && pmap_get(map, key) == value;
        expected++;
        count++;
    }
    while (expected < KEYS)
        same = same && model[expected++] == 0;
    ck_assert(same);
    ck_assert_uint_eq(map->count, count);
}

static uint32_t draw(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

START_TEST(versions_that_are_held_never_change)
{
    static uint32_t models[VERSIONS][KEYS];
    static uint32_t model[KEYS];
    struct pmap versions[VERSIONS];
    struct pmap map;
    uint64_t state = 3;

    pmap_init(&map, &ops);
    for (int version = 0; version < VERSIONS; version++) {
        for (uint32_t step = 1; step < 400; step++) {
            uint32_t key = draw(&state) % KEYS;

            if (draw(&state) % 100 < (version % 8 < 4 ? 70u : 25u)) {
                ck_assert_int_eq(put(&map, key, (uint32_t)version * 1000 + step), ERR_OK);
                model[key] = (uint32_t)version * 1000 + step;
            } else {
                ck_assert_int_eq(take_out(&map, key), model[key] ? ERR_OK : ERR_NOT_FOUND);
                model[key] = 0;
            }
        }
        versions[version] = pmap_copy(&map);
        memcpy(models[version], model, sizeof(model));
    }
    for (int version = 0; version < VERSIONS; version++)
        check_version(&versions[version], models[version]);
    pmap_deinit(&map);
    for (int version = VERSIONS - 1; version >= 0; version--) {
        check_version(&versions[version], models[version]);
        pmap_deinit(&versions[version]);
    }
    ck_assert_int_eq(values_alive, 0);
}
END_TEST

START_TEST(running_out_of_memory_changes_nothing)
{
    static uint32_t model[KEYS];
    struct pmap map;
    uint64_t state = 9;
    int failures = 0;

    pmap_init(&map, &ops);
    for (uint32_t step = 1; step < 400; step++) {
        struct pmap held = pmap_copy(&map);
        uint32_t key = draw(&state) % 100;
        bool removal = draw(&state) % 100 < 45;
        enum err err = ERR_NOMEM;

        for (int k = 0; err == ERR_NOMEM; k++) {
            allocations_left = k;
            err = removal ? take_out(&map, key) : put(&map, key, step);
            allocations_left = -1;
            failures += err == ERR_NOMEM;
            if (err == ERR_NOMEM)
                check_version(&map, model);
        }
        check_version(&held, model);
        ck_assert_int_eq(err, removal && model[key] == 0 ? ERR_NOT_FOUND : ERR_OK);
        model[key] = removal ? 0 : step;
        check_version(&map, model);
        pmap_deinit(&held);
    }
    ck_assert_int_gt(failures, 500);
    pmap_deinit(&map);
    ck_assert_int_eq(values_alive, 0);
}
END_TEST

START_TEST(keys_in_rising_order_keep_the_tree_low)
{
    struct pmap map;

    pmap_init(&map, &ops);
    for (uint32_t key = 0; key < 60000; key++)
        ck_assert_int_eq(put(&map, key, 1), ERR_OK);
    ck_assert_uint_eq(map.count, 60000);
    /* The longest way down a walk can hold is the height: 1.44 log2(60000) is 23. */
    struct pmap_cursor cursor;
    void *value = NULL;
    uint32_t deepest = 0;

    pmap_first(&map, &cursor);
    while (pmap_next(&cursor, NULL, &value))
        deepest = cursor.depth > deepest ? cursor.depth : deepest;
    ck_assert_uint_le(deepest, 23);
    pmap_deinit(&map);
    ck_assert_int_eq(values_alive, 0);
}
END_TEST

START_TEST(seek_begins_at_the_first_key_not_below)
{
    struct pmap map;

    pmap_init(&map, &ops);
    for (uint32_t key = 10; key < 500; key += 10)
        ck_assert_int_eq(put(&map, key, key), ERR_OK);
    for (uint32_t from = 0; from < 520; from++) {
        uint8_t bytes[2] = {(uint8_t)(from >> 8), (uint8_t)from};
        struct pmap_cursor cursor;
        void *value = NULL;
        uint32_t expected = from <= 10 ? 10 : (from + 9) / 10 * 10;

        pmap_seek(&map, bytes_of(bytes, 2), &cursor);
        for (; expected < 500; expected += 10) {
            ck_assert(pmap_next(&cursor, NULL, &value));
            ck_assert_uint_eq(((struct value *)value)->generation, expected);
        }
        ck_assert(!pmap_next(&cursor, NULL, &value));
    }
    pmap_deinit(&map);
    ck_assert_int_eq(values_alive, 0);
}
END_TEST

/* A slot through which the writer hands versions to one reader. */
struct reader {
    pthread_t thread;
    _Atomic(struct pmap *) offered; /* NULL: take the next one */
    atomic_bool stop;
    uint32_t versions_seen;
    bool sorted;
};

/* Walks each version that it is handed, then lets go of it: the last reference to many nodes falls here. */
static void *read_versions(void *context)
{
    struct reader *reader = context;

    reader->sorted = true;
    while (!atomic_load(&reader->stop) || atomic_load(&reader->offered) != NULL) {
        struct pmap *map = atomic_exchange(&reader->offered, NULL);
        struct pmap_cursor cursor;
        struct bytes key;
        void *value = NULL;
        uint32_t count = 0;
        uint32_t before = 0;

        if (map == NULL)
            continue;
        pmap_first(map, &cursor);
        for (; pmap_next(&cursor, &key, &value); count++) {
            uint32_t number = ((uint32_t)key.data[0] << 8 | key.data[1]) + 1;

            reader->sorted = reader->sorted && number > before && ((struct value *)value)->generation > 0;
            before = number;
        }
        reader->sorted = reader->sorted && count == map->count;
        reader->versions_seen++;
        pmap_deinit(map);
        mem_free(map);
    }
    return NULL;
}

/* What the controller and the reactors do: one makes version after version, others read and drop them meanwhile. */
START_TEST(readers_on_other_threads)
{
    struct reader readers[2] = {0};
    struct pmap map;
    uint64_t state = 11;

    pmap_init(&map, &ops);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_create(&readers[i].thread, NULL, read_versions, &readers[i]), 0);
    for (uint32_t step = 1; step < 4000; step++) {
        struct reader *reader = &readers[step % 2];
        uint32_t key = draw(&state) % KEYS;

        if (draw(&state) % 3 > 0)
            ck_assert_int_eq(put(&map, key, step), ERR_OK);
        else
            (void)!take_out(&map, key);
        if (atomic_load(&reader->offered) == NULL) {
            struct pmap *copy = __real_mem_alloc(sizeof(*copy));

            ck_assert_ptr_nonnull(copy);
            *copy = pmap_copy(&map);
            atomic_store(&reader->offered, copy);
        }
    }
    for (int i = 0; i < 2; i++) {
        atomic_store(&readers[i].stop, true);
        pthread_join(readers[i].thread, NULL);
        ck_assert(readers[i].sorted);
        ck_assert_uint_gt(readers[i].versions_seen, 0);
    }
    pmap_deinit(&map);
    ck_assert_int_eq(values_alive, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pmap");
    TCase *tcase = tcase_create("pmap");
    SRunner *runner = srunner_create(suite);
    int failed = 0;

    tcase_add_test(tcase, versions_that_are_held_never_change);
    tcase_add_test(tcase, running_out_of_memory_changes_nothing);
    tcase_add_test(tcase, keys_in_rising_order_keep_the_tree_low);
    tcase_add_test(tcase, seek_begins_at_the_first_key_not_below);
    tcase_add_test(tcase, readers_on_other_threads);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
