/* Rule: an arena hands out zeroed, aligned memory and never takes more than its limit from the heap. */
#include <check.h>

#include "base/arena.h"

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

START_TEST(gives_up_at_the_limit)
{
    struct arena arena;
    size_t got = 0;

    arena_init(&arena, 10000);
    while (arena_alloc(&arena, 100) != NULL)
        got += 100;
    ck_assert_uint_ge(got, 8000);
    ck_assert_uint_le(arena.held_bytes, 10000);
    arena_reset(&arena);
    ck_assert_uint_eq(arena.held_bytes, 0);
    ck_assert_ptr_nonnull(arena_alloc(&arena, 10000));
    ck_assert_ptr_null(arena_alloc(&arena, 1));
    arena_deinit(&arena);
}
END_TEST

/* BLOCK_BYTES_MAX: blocks double up to it, so that what is held beyond what was asked for stays little. */
START_TEST(blocks_double_up_to_a_bound)
{
    enum { BLOCK_BYTES = 64 * 1024, ASKED = 512, TIMES = 4096 };
    struct arena arena;
    size_t largest = 0;

    arena_init(&arena, 1 << 30);
    for (int i = 0; i < TIMES; i++) {
        size_t before = arena.held_bytes;

        ck_assert_ptr_nonnull(arena_alloc(&arena, ASKED));
        if (arena.held_bytes - before > largest)
            largest = arena.held_bytes - before;
    }
    ck_assert_uint_eq(largest, BLOCK_BYTES);
    ck_assert_uint_le(arena.held_bytes, TIMES * ASKED + BLOCK_BYTES);
    arena_deinit(&arena);
}
END_TEST

START_TEST(huge_counts_are_refused_not_wrapped)
{
    struct arena arena;

    arena_init(&arena, SIZE_MAX / 2);
    ck_assert(!arena.over_limit);
    ck_assert_ptr_null(arena_array(&arena, SIZE_MAX / 8, 16));
    ck_assert(arena.over_limit);
    arena_reset(&arena);
    ck_assert(!arena.over_limit);
    ck_assert_ptr_null(arena_alloc(&arena, SIZE_MAX));
    ck_assert(arena.over_limit);
    arena_deinit(&arena);
}
END_TEST

START_TEST(memory_is_zeroed_and_aligned)
{
    struct arena arena;

    arena_init(&arena, 1 << 20);
    for (size_t size = 0; size < 300; size++) {
        uint8_t *at = arena_alloc(&arena, size);

        ck_assert_ptr_nonnull(at);
        ck_assert_uint_eq((uintptr_t)at % 16, 0);
        for (size_t i = 0; i < size; i++)
            ck_assert_uint_eq(at[i], 0);
        memset(at, 0xff, size);
    }
    arena_deinit(&arena);
}
END_TEST

START_TEST(printf_and_copy_live_in_the_arena)
{
    struct arena arena;
    struct bytes copy;

    arena_init(&arena, 4096);
    ck_assert(bytes_equal(arena_printf(&arena, "%s-%d", "topic", 7), BYTES_LITERAL("topic-7")));
    ck_assert_int_eq(arena_copy(&arena, BYTES_LITERAL("abc"), &copy), ERR_OK);
    ck_assert(bytes_equal(copy, BYTES_LITERAL("abc")));
    ck_assert_int_eq(arena_copy(&arena, (struct bytes){0}, &copy), ERR_OK);
    ck_assert_ptr_null(copy.data);
    arena_deinit(&arena);
}
END_TEST

START_TEST(without_memory_the_arena_says_no_and_stays_usable)
{
    struct arena arena;
    struct bytes copy = BYTES_LITERAL("untouched");
    uint8_t *first = NULL;

    arena_init(&arena, 1 << 20);
    first = arena_alloc(&arena, 100);
    ck_assert_ptr_nonnull(first);
    memset(first, 7, 100);
    allocations_left = 0;
    ck_assert_ptr_null(arena_alloc(&arena, 100000));
    ck_assert_int_eq(arena_copy(&arena, bytes_of(first, 100000), &copy), ERR_NOMEM);
    ck_assert(bytes_equal(copy, BYTES_LITERAL("untouched")));
    ck_assert_ptr_null(arena_printf(&arena, "%*s", 100000, "").data);
    ck_assert(!arena.over_limit); /* it was not the limit */
    allocations_left = -1;
    for (int i = 0; i < 100; i++)
        ck_assert_uint_eq(first[i], 7);
    ck_assert_ptr_nonnull(arena_alloc(&arena, 100000));
    arena_deinit(&arena);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("arena");
    TCase *tcase = tcase_create("arena");
    SRunner *runner = srunner_create(suite);
    int failed = 0;

    tcase_add_test(tcase, gives_up_at_the_limit);
    tcase_add_test(tcase, blocks_double_up_to_a_bound);
    tcase_add_test(tcase, huge_counts_are_refused_not_wrapped);
    tcase_add_test(tcase, memory_is_zeroed_and_aligned);
    tcase_add_test(tcase, printf_and_copy_live_in_the_arena);
    tcase_add_test(tcase, without_memory_the_arena_says_no_and_stays_usable);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
