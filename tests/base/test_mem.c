/* Rule: the heap is one door, and no memory is an answer (NULL), never an abort; a copy of text ends in NUL. */
#include <check.h>
#include <stdint.h>
#include <string.h>

#include "base/mem.h"

/* Impossible sizes, out of the compiler's sight, which would refuse to build them. */
static volatile size_t huge = SIZE_MAX / 2;

/* AddressSanitizer would stop the test where the real heap says no. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1";
}

START_TEST(what_cannot_be_had_is_null)
{
    char *block = mem_alloc(8);

    ck_assert_ptr_null(mem_alloc(huge));
    ck_assert_ptr_null(mem_calloc(huge, 4)); /* count * size wraps */
    ck_assert_ptr_nonnull(block);
    memcpy(block, "content", 8);
    ck_assert_ptr_null(mem_realloc(block, huge));
    ck_assert_str_eq(block, "content"); /* and the old block stays as it was */
    mem_free(block);
    mem_free(NULL);
}
END_TEST

START_TEST(arrays_are_zeroed_and_may_be_empty)
{
    unsigned char *array = mem_calloc(100, 3);
    void *empty = mem_calloc(0, 3);

    ck_assert_ptr_nonnull(array);
    for (int i = 0; i < 300; i++)
        ck_assert_uint_eq(array[i], 0);
    ck_assert_ptr_nonnull(empty);
    mem_free(array);
    mem_free(empty);
}
END_TEST

START_TEST(copies_of_text_are_closed)
{
    char *copy = mem_copy_text("abcdef", 3);
    char *empty = mem_copy_text(NULL, 0);

    ck_assert_str_eq(copy, "abc");
    ck_assert_str_eq(empty, "");
    mem_free(copy);
    mem_free(empty);
}
END_TEST

START_TEST(arrays_grow_by_doubling_or_stay_as_they_were)
{
    uint32_t *numbers = NULL;
    uint32_t room = 0;

    ck_assert_int_eq(mem_grow(&numbers, &room, 0, 4, sizeof(*numbers)), ERR_OK); /* nothing is wanted */
    ck_assert_ptr_null(numbers);
    for (uint32_t i = 0; i < 100; i++) {
        ck_assert_int_eq(mem_grow(&numbers, &room, i + 1, 4, sizeof(*numbers)), ERR_OK);
        numbers[i] = i;
    }
    ck_assert_uint_eq(room, 128);
    for (uint32_t i = 0; i < 100; i++)
        ck_assert_uint_eq(numbers[i], i);
    ck_assert_int_eq(mem_grow(&numbers, &room, 129, 4, huge / 128), ERR_NOMEM);
    ck_assert_uint_eq(room, 128);
    ck_assert_uint_eq(numbers[99], 99);
    mem_free(numbers);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("mem");
    TCase *tcase = tcase_create("mem");
    SRunner *runner = srunner_create(suite);
    int failed = 0;

    tcase_add_test(tcase, what_cannot_be_had_is_null);
    tcase_add_test(tcase, arrays_are_zeroed_and_may_be_empty);
    tcase_add_test(tcase, copies_of_text_are_closed);
    tcase_add_test(tcase, arrays_grow_by_doubling_or_stay_as_they_were);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
