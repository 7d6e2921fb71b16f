/* Rule: an advertised name that does not resolve is found out at the start, not by the first client. */
#include <check.h>

#include "net/resolve.h"

START_TEST(numbers_and_this_machine_resolve)
{
    ck_assert_int_eq(resolve_host("127.0.0.1"), ERR_OK);
    ck_assert_int_eq(resolve_host("::1"), ERR_OK);
    ck_assert_int_eq(resolve_host("localhost"), ERR_OK);
}
END_TEST

START_TEST(nonsense_does_not)
{
    /* RFC 6761: .invalid never resolves. */
    ck_assert_int_eq(resolve_host("no-such-host.invalid"), ERR_NOT_FOUND);
    ck_assert_int_eq(resolve_host("999.1.1.1.1"), ERR_NOT_FOUND);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("resolve");
    TCase *tcase = tcase_create("resolve");
    SRunner *runner = srunner_create(suite);
    int failed = 0;

    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, numbers_and_this_machine_resolve);
    tcase_add_test(tcase, nonsense_does_not);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
