/* Rule: a histogram's quantiles are at most an eighth too large, never too small, and exact where they can be. */
#include <check.h>

#include "base/histogram.h"

START_TEST(single_values)
{
    for (uint64_t value = 0; value >> 42 == 0; value = value < 100 ? value + 1 : value + value / 7) {
        struct histogram histogram;

        histogram_init(&histogram);
        histogram_record(&histogram, value);
        ck_assert_uint_eq(histogram_count(&histogram), 1);
        /* One value alone is its own maximum, so every quantile is exact. */
        ck_assert_uint_eq(histogram_quantile(&histogram, 0), value);
        ck_assert_uint_eq(histogram_quantile(&histogram, 1), value);
    }
}
END_TEST

START_TEST(quantiles_of_a_ramp)
{
    struct histogram histogram;

    histogram_init(&histogram);
    ck_assert_uint_eq(histogram_quantile(&histogram, 0.5), 0);
    for (uint64_t value = 1; value <= 100000; value++)
        histogram_record(&histogram, value);
    ck_assert_uint_eq(histogram_count(&histogram), 100000);
    for (int percent = 1; percent <= 100; percent++) {
        uint64_t truth = (uint64_t)percent * 1000;
        uint64_t got = histogram_quantile(&histogram, percent / 100.0);

        ck_assert_uint_ge(got, truth);
        ck_assert_uint_le(got, truth + truth / 8);
    }
    ck_assert_uint_eq(histogram_quantile(&histogram, 1), 100000);
    ck_assert_uint_eq(atomic_load(&histogram.sum), 5000050000);
}
END_TEST

START_TEST(merging_is_counting_both)
{
    struct histogram parts[2];
    struct histogram whole;
    struct histogram merged;

    histogram_init(&parts[0]);
    histogram_init(&parts[1]);
    histogram_init(&whole);
    histogram_init(&merged);
    for (uint64_t i = 0; i < 1000; i++) {
        histogram_record(&parts[i % 2], i * i * i);
        histogram_record(&whole, i * i * i);
    }
    histogram_merge(&merged, &parts[0]);
    histogram_merge(&merged, &parts[1]);
    ck_assert_mem_eq(&merged, &whole, sizeof(whole));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("histogram");
    TCase *tcase = tcase_create("histogram");
    SRunner *runner = srunner_create(suite);
    int failed = 0;

    tcase_add_test(tcase, single_values);
    tcase_add_test(tcase, quantiles_of_a_ramp);
    tcase_add_test(tcase, merging_is_counting_both);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
