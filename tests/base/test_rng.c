/* Rule: ids and hash seeds are the kernel's randomness, every byte of it; rng_below stays below its bound. */
#include <check.h>
#include <string.h>

#include "base/rng.h"

START_TEST(fills_every_byte)
{
    struct rng rng;
    uint8_t bytes[1000];
    uint8_t seen[1000] = {0};

    rng_init_real(&rng);
    for (int round = 0; round < 20; round++) {
        memset(bytes, 0, sizeof(bytes));
        rng_fill(&rng, bytes, sizeof(bytes));
        for (size_t i = 0; i < sizeof(bytes); i++)
            seen[i] |= bytes[i];
    }
    for (size_t i = 0; i < sizeof(seen); i++)
        ck_assert_uint_ne(seen[i], 0);
    rng_fill(&rng, bytes, 0);
}
END_TEST

START_TEST(below_reaches_each_value_and_no_other)
{
    struct rng rng;
    uint32_t counts[7] = {0};

    rng_init_real(&rng);
    for (int i = 0; i < 7000; i++) {
        uint64_t value = rng_below(&rng, 7);

        ck_assert_uint_lt(value, 7);
        counts[value]++;
    }
    for (int i = 0; i < 7; i++)
        ck_assert_uint_gt(counts[i], 500);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rng");
    TCase *tcase = tcase_create("rng");
    SRunner *runner = srunner_create(suite);
    int failed = 0;

    tcase_add_test(tcase, fills_every_byte);
    tcase_add_test(tcase, below_reaches_each_value_and_no_other);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
