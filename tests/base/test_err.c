/* Rule: every error has one row: Kafka's own carry Kafka's codes, ours reach a client as the code beside them, and a
 * system call's errno always becomes one of them. */
#include <check.h>
#include <errno.h>
#include <string.h>

#include "base/err.h"

START_TEST(wire_codes_go_out_and_come_back)
{
    for (enum err err = ERR_OK; err <= ERR_CONTROLLER_ID_NOT_REGISTERED; err++)
        ck_assert_int_eq(err_from_wire(err_wire(err)), err);
    ck_assert_int_eq(err_from_wire(-1), ERR_UNKNOWN_SERVER_ERROR);
    ck_assert_int_eq(err_from_wire(30000), ERR_UNKNOWN_SERVER_ERROR);
    ck_assert_int_eq(err_from_wire(-2), ERR_UNKNOWN_SERVER_ERROR);
}
END_TEST

START_TEST(our_own_errors_have_a_code_that_clients_know)
{
    for (enum err err = ERR_CONTROLLER_ID_NOT_REGISTERED + 1; err < ERR_COUNT; err++) {
        int16_t wire = err_wire(err);

        ck_assert(wire == -1 || err_wire(err_from_wire(wire)) == wire);
        ck_assert_uint_gt(strlen(err_text(err)), 0);
    }
    ck_assert_int_eq(err_wire(ERR_MALFORMED), 42);
    ck_assert_int_eq(err_fate(ERR_MALFORMED), FATE_CLOSE);
    ck_assert_int_eq(err_fate(ERR_OFFSET_OUT_OF_RANGE), FATE_REPLY);
    ck_assert_int_eq(err_wire(ERR_NO_SPACE), 56);
}
END_TEST

START_TEST(names_are_kafkas)
{
    ck_assert_str_eq(err_name(ERR_OFFSET_OUT_OF_RANGE), "OFFSET_OUT_OF_RANGE");
    ck_assert_str_eq(err_name(ERR_INVALID_TOPIC_EXCEPTION), "INVALID_TOPIC_EXCEPTION");
    ck_assert_str_eq(err_name(ERR_NOMEM), "NOMEM");
}
END_TEST

START_TEST(an_errno_becomes_an_error)
{
    ck_assert_int_eq(err_from_errno(ENOENT), ERR_NOT_FOUND);
    ck_assert_int_eq(err_from_errno(ENOSPC), ERR_NO_SPACE);
    ck_assert_int_eq(err_from_errno(EDQUOT), ERR_NO_SPACE);
    ck_assert_int_eq(err_from_errno(EMFILE), ERR_NO_DESCRIPTORS);
    ck_assert_int_eq(err_from_errno(EROFS), ERR_PERMISSION);
    ck_assert_int_eq(err_from_errno(EAGAIN), ERR_WOULD_BLOCK);
    for (int value = 1; value < 200; value++)
        ck_assert_int_ne(err_from_errno(value), ERR_OK);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("err");
    TCase *tcase = tcase_create("err");
    SRunner *runner = srunner_create(suite);
    int failed = 0;

    tcase_add_test(tcase, wire_codes_go_out_and_come_back);
    tcase_add_test(tcase, our_own_errors_have_a_code_that_clients_know);
    tcase_add_test(tcase, names_are_kafkas);
    tcase_add_test(tcase, an_errno_becomes_an_error);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
