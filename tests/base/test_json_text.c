/* Rule: any bytes are text in JSON; none are null. */
#include <check.h>

#include "base/json_text.h"

START_TEST(any_bytes)
{
    json_t *value = json_text(BYTES_LITERAL("a\xff"));

    ck_assert_str_eq(json_string_value(value), "a?");
    json_decref(value);
    value = json_text(BYTES_LITERAL("caf\xc3\xa9"));
    ck_assert_str_eq(json_string_value(value), "caf\xc3\xa9");
    json_decref(value);
    value = json_text(BYTES_LITERAL(""));
    ck_assert_str_eq(json_string_value(value), "");
    json_decref(value);
    value = json_text((struct bytes){0});
    ck_assert(json_is_null(value));
    json_decref(value);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("json_text");
    TCase *tcase = tcase_create("json_text");
    SRunner *runner = srunner_create(suite);
    int failed = 0;

    tcase_add_test(tcase, any_bytes);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
