/* run_tests: the main of a test file: one case of all its tests. */
#ifndef OTTLA_TESTS_PARTITION_RUN_TESTS_H
#define OTTLA_TESTS_PARTITION_RUN_TESTS_H

#include <check.h>
#include <stdlib.h>

static inline int run_tests(const char *name, const TTest *const *tests, size_t count)
{
    Suite *suite = suite_create(name);
    TCase *all = tcase_create(name);
    SRunner *runner = NULL;
    int failed = 0;

    for (size_t i = 0; i < count; i++)
        tcase_add_test(all, tests[i]);
    tcase_set_timeout(all, 120);
    suite_add_tcase(suite, all);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

#define RUN_TESTS(name, ...)                                                                                           \
    int main(void)                                                                                                     \
    {                                                                                                                  \
        const TTest *const tests[] = {__VA_ARGS__};                                                                    \
        return run_tests(name, tests, sizeof(tests) / sizeof(tests[0]));                                               \
    }

#endif
