/* Rule: a reply names each leader once, whoever else it names, and no more than LEADER_IDS_MAX of them; a partition
 * that nobody leads gives no hint, and node 0 is never made up. */
#include <check.h>

#include "broker/leader_hint.h"

START_TEST(each_leader_is_named_once)
{
    struct leader_ids ids = {.count = 0};

    leader_ids_add(&ids, 7);
    leader_ids_add(&ids, -1);
    leader_ids_add(&ids, 0);
    leader_ids_add(&ids, 7);
    ck_assert_uint_eq(ids.count, 2);
    ck_assert_int_eq(ids.ids[0], 7);
    ck_assert_int_eq(ids.ids[1], 0);
}
END_TEST

START_TEST(their_number_is_limited)
{
    struct leader_ids ids = {.count = 0};

    for (int32_t id = 0; id < LEADER_IDS_MAX + 1; id++) {
        leader_ids_add(&ids, id);
        ck_assert_uint_eq(ids.count, id < LEADER_IDS_MAX ? (uint32_t)id + 1 : LEADER_IDS_MAX);
    }
}
END_TEST

START_TEST(without_metadata_there_is_no_hint)
{
    int32_t id = -1;
    int32_t epoch = -1;

    leader_hint(NULL, (struct uuid){{1}}, 0, &id, &epoch);
    ck_assert_int_eq(id, -1);
    ck_assert_int_eq(epoch, -1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("leader_hint");
    TCase *tcase = tcase_create("leader_hint");
    SRunner *runner = srunner_create(suite);
    int failed = 0;

    tcase_add_test(tcase, each_leader_is_named_once);
    tcase_add_test(tcase, their_number_is_limited);
    tcase_add_test(tcase, without_metadata_there_is_no_hint);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
