/* Rule: every timer may lean on the monotonic clock never going back; the wall clock is the machine's. */
#include <check.h>
#include <time.h>

#include "base/clock.h"

START_TEST(mono_never_goes_back)
{
    struct clock clock;
    int64_t last_ns = 0;

    clock_init_real(&clock);
    for (int i = 0; i < 100000; i++) {
        int64_t now_ns = clock_mono_ns(&clock);

        ck_assert_int_ge(now_ns, last_ns);
        last_ns = now_ns;
    }
}
END_TEST

START_TEST(wall_is_in_milliseconds_since_the_epoch)
{
    struct clock clock;
    int64_t before = (int64_t)time(NULL);
    int64_t wall_ms = 0;

    clock_init_real(&clock);
    wall_ms = clock_wall_ms(&clock);
    ck_assert_int_ge(wall_ms / 1000, before);
    ck_assert_int_le(wall_ms / 1000, (int64_t)time(NULL) + 1); /* time() is a tick behind */
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("clock");
    TCase *tcase = tcase_create("clock");
    SRunner *runner = srunner_create(suite);
    int failed = 0;

    tcase_add_test(tcase, mono_never_goes_back);
    tcase_add_test(tcase, wall_is_in_milliseconds_since_the_epoch);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
