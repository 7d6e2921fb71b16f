/* Rule: what deletes believes the wall clock unless it has jumped, by more than the bound, in one step or in many, and
 * again once it is back; a clock that is slewed has not jumped. */
#include <check.h>
#include <stdlib.h>

#include "base/clock_guard.h"

enum { HOUR_MS = 3600 * 1000 };
#define NS(ms)     ((int64_t)(ms)*1000000)
#define WALL_START INT64_C(1700000000000)

static struct clock_guard guard;
static int64_t mono_ms;
static int64_t wall_ms;

static void begin(void)
{
    mono_ms = 5000;
    wall_ms = WALL_START;
    clock_guard_init(&guard, HOUR_MS, wall_ms, NS(mono_ms));
}

static bool after(int64_t elapsed_ms, int64_t jump_ms)
{
    mono_ms += elapsed_ms;
    wall_ms += elapsed_ms + jump_ms;
    return clock_guard_trusts(&guard, wall_ms, NS(mono_ms));
}

START_TEST(at_the_bound)
{
    begin();
    ck_assert(after(10, 0));
    ck_assert(after(0, HOUR_MS));
    ck_assert(!after(0, 1));
    ck_assert(guard.doubts && guard.jump_ms == HOUR_MS + 1);
    ck_assert(after(0, -1));
    begin();
    ck_assert(after(0, -HOUR_MS));
    ck_assert(!after(0, -1));
}
END_TEST

/* It stays so for as long as the jump does, and not longer. */
START_TEST(until_it_is_back)
{
    begin();
    ck_assert(!after(300000, 86400000));
    for (int i = 0; i < 1000; i++)
        ck_assert(!after(300000, 0));
    ck_assert(after(300000, -86400000));
    ck_assert(after(300000, 0));
}
END_TEST

/* Forty minutes and again forty are eighty. */
START_TEST(small_steps_add_up)
{
    begin();
    ck_assert(after(1000, 40 * 60000));
    ck_assert(!after(1000, 40 * 60000));
}
END_TEST

/* Half a millisecond a second for a year is hours; asked often or seldom. */
START_TEST(a_slew_is_no_jump)
{
    static const int64_t every_ms[] = {200, 300000};

    for (int k = 0; k < 2; k++) {
        int64_t owed = 0;

        begin();
        for (int64_t passed = 0; passed < INT64_C(100) * 86400000 / (k == 0 ? 100 : 1); passed += every_ms[k]) {
            int64_t slewed = 0;

            owed += every_ms[k];
            slewed = owed / 2000;
            owed -= slewed * 2000;
            ck_assert(after(every_ms[k], slewed));
            ck_assert_int_lt(guard.jump_ms, 1000);
        }
    }
}
END_TEST

/* Whoever stepped it back made it right: a new start believes what it finds. */
START_TEST(a_start_believes_what_it_finds)
{
    begin();
    ck_assert(!after(1000, -86400000));
    clock_guard_init(&guard, HOUR_MS, wall_ms, NS(mono_ms));
    ck_assert(after(1000, 0));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("clock_guard");
    TCase *tests = tcase_create("clock_guard");
    SRunner *runner = NULL;
    int failed = 0;

    tcase_add_test(tests, at_the_bound);
    tcase_add_test(tests, until_it_is_back);
    tcase_add_test(tests, small_steps_add_up);
    tcase_add_test(tests, a_slew_is_no_jump);
    tcase_add_test(tests, a_start_believes_what_it_finds);
    suite_add_tcase(suite, tests);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
